"""Alignments in files, through pyhmmer: Stockholm, aligned FASTA, A2M, Clustal, PSI-BLAST."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..._backend.arrays import Array
from ..legacy import InputError
from .sequences import GAP, LETTERS

STAND_IN = {"B": "D", "Z": "E", "J": "L", "U": "C", "O": "K"}
"""Letters for "one of two" and for rare residues, and what each is read as. X and * become gaps."""
NUCLEOTIDES = frozenset("ACGTUN")
GAP_MARKS = frozenset("-._~ ")


@dataclass(frozen=True, eq=False)
class Alignment:
    """Sequences as codes (n, width), 0 … 19 and 20 for gaps, with their names; inserts marks the insert columns."""

    names: tuple[str, ...]
    codes: Array
    inserts: Array
    notes: tuple[str, ...] = ()


def read_alignment(path: Path) -> Alignment:
    """An alignment in any format that Easel knows, guessed from its content."""
    from pyhmmer.easel import MSAFile

    if not path.exists():
        raise InputError(f"{path} does not exist: name an alignment file.")
    if path.is_dir():
        raise InputError(f"{path} is a folder, not an alignment: name a file in it.")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty: an alignment needs at least two sequences.")
    try:
        with MSAFile(path) as file:
            content = file.read()
    except (ValueError, OSError, EOFError, RuntimeError) as error:
        raise InputError(_explained(path, error)) from None
    if content is None or not len(content.sequences):
        raise InputError(f"{path} holds no sequence: an alignment needs at least two.")
    names = tuple(_text(name) for name in content.names)
    letters = np.array([list(row) for row in content.alignment])
    return _coded(path, names, letters)


def aligned(sequences: Mapping[str, str] | Sequence[str]) -> Alignment:
    """An alignment from texts of one length, by their names or numbered from 1."""
    if isinstance(sequences, str):
        raise InputError("sequences must be several texts, one for each sequence; got a single one.")
    named = dict(sequences) if isinstance(sequences, Mapping) else {str(i + 1): s for i, s in enumerate(sequences)}
    if not named:
        raise InputError("sequences must hold at least two; got none.")
    lengths = {len(text) for text in named.values()}
    if len(lengths) > 1:
        raise InputError(
            f"sequences must be aligned, all of one length; got lengths from {min(lengths)} to {max(lengths)}. "
            "Align them first (MAFFT, hmmalign)."
        )
    if lengths == {0}:
        raise InputError("sequences must hold residues; they are all empty.")
    return _coded("sequences", tuple(named), np.array([list(text) for text in named.values()]))


def cleaned(
    path: Path | str, alignment: Alignment, max_column_gaps: float, max_sequence_gaps: float
) -> tuple[Array, Array, list[str]]:
    """Which sequences and which columns to keep, and notes on the others."""
    for name, limit in (("max-column-gaps", max_column_gaps), ("max-sequence-gaps", max_sequence_gaps)):
        if not 0 <= limit <= 1:
            raise InputError(f"--{name} must be a share between 0 and 1; got {limit:g}.")
    gap = alignment.codes == GAP
    sparse = gap.mean(0) > max_column_gaps
    columns = np.flatnonzero(~alignment.inserts & ~sparse)
    if not len(columns):
        raise InputError(f"{path}: every column has more than {max_column_gaps:.0%} gaps; raise --max-column-gaps.")
    kept = gap[:, columns].mean(1) <= max_sequence_gaps
    if kept.sum() < 2:
        raise InputError(
            f"{path}: at least two sequences are needed, and {int(kept.sum())} of {len(kept)} have at most "
            f"{max_sequence_gaps:.0%} gaps; add sequences, or raise --max-sequence-gaps."
        )
    notes = []
    if alignment.inserts.any():
        notes.append(f"{int(alignment.inserts.sum())} insert columns (lower case) were left out.")
    if (sparse & ~alignment.inserts).any():
        n = int((sparse & ~alignment.inserts).sum())
        notes.append(f"{n} columns with more than {max_column_gaps:.0%} gaps were dropped.")
    if not kept.all():
        notes.append(f"{int((~kept).sum())} sequences with more than {max_sequence_gaps:.0%} gaps were dropped.")
    return kept, columns, notes


def _coded(path: Path | str, names: tuple[str, ...], letters: Array) -> Alignment:
    """Letters as codes; insert columns by their case; other letters mapped, and noted."""
    lower = np.char.islower(letters)
    upper = np.char.isupper(letters)
    inserts = lower.any(0) & ~upper.any(0)
    if not (upper.any(0)).any():  # a file all in lower case means nothing by it
        inserts = np.zeros_like(inserts)
    capital = np.char.upper(letters)
    used = Counter(capital[np.char.isalpha(capital)].tolist())
    _refuse_nucleotides(path, used)
    notes = []
    odd = sorted(set(capital[~np.char.isalpha(capital)].tolist()) - GAP_MARKS)
    if odd:
        notes.append(
            f"{int(np.isin(capital, odd).sum())} signs that are no letters were read as gaps: {' '.join(odd)}."
        )
    strange = {letter: n for letter, n in used.items() if letter not in LETTERS}
    if strange:
        total = sum(strange.values())
        mapped = ", ".join(f"{letter} as {STAND_IN.get(letter, 'a gap')}" for letter in sorted(strange))
        notes.append(f"{total} letters beyond the 20 amino acids were read otherwise: {mapped}.")
        for letter, other in STAND_IN.items():
            capital[capital == letter] = other
    known = np.isin(capital, LETTERS)
    codes = np.where(known, np.searchsorted(LETTERS, np.where(known, capital, "A")), GAP).astype(np.uint8)
    return Alignment(names, codes, inserts, tuple(notes))


def _refuse_nucleotides(path: Path | str, used: Counter[str]) -> None:
    total = sum(used.values())
    if not total:
        raise InputError(f"{path} holds only gaps: an alignment needs residues.")
    if sum(used[letter] for letter in NUCLEOTIDES) >= 0.95 * total and total >= 8:
        raise InputError(
            f"{path} looks like DNA or RNA ({', '.join(sorted(used))} only), and sequences must be proteins: "
            "translate them first."
        )


def _explained(path: Path, error: Exception) -> str:
    """One line for what Easel could not read."""
    said = str(error).removeprefix("Could not parse file: ").rstrip(".")
    if "has alen" in said:
        return f"{path}: sequences must be aligned, all of one length; {said}. Align them first (MAFFT, hmmalign)."
    if "determine format" in said:
        return (
            f"{path} is no alignment in a format that can be told (Stockholm, aligned FASTA, A2M, Clustal, PSI-BLAST): "
            "check the file, or name the kind of data with --as."
        )
    return f"{path} cannot be read as an alignment ({said or type(error).__name__}): mend the file."


def _text(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
