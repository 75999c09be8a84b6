"""Alignments as codes, from files (Stockholm, aligned FASTA, A2M, Clustal, PSI-BLAST; read by Easel) and texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ...generators.sequences import GAP
from ..options import InputError

LETTERS = np.array(list("ACDEFGHIKLMNPQRSTVWY"))  # the amino acids, whose codes are 0 … 19
SYMBOLS = np.append(LETTERS, "-")
EXTENSIONS = (
    *(".sto", ".stk", ".stockholm", ".fasta", ".fa", ".faa", ".fas", ".afa", ".a2m", ".a3m", ".aln", ".clustal"),
    *(".clw", ".psi", ".psiblast", ".msa"),
)
REPLACEMENTS = {"B": "D", "Z": "E", "J": "L", "U": "C", "O": "K"}
"""Letters for "one of two" and for rare residues, and what each is read as. X and * become gaps."""
NUCLEOTIDES = "ACGTUN"
GAP_MARKS = frozenset("-._~ ")
REMEDY = "Align them first (MAFFT, hmmalign)."


class Alignment(NamedTuple):
    """Sequences with their names."""

    names: tuple[str, ...]
    codes: Array  # (n, width), 0 … 19 for amino acids and 20 for gaps
    inserts: Array  # (width,) which columns are insert columns
    notes: tuple[str, ...]  # what was mapped while reading, one line each


def require_pyhmmer() -> ModuleType:
    """The module pyhmmer, loaded when it is first needed; InputError where it is not installed."""
    try:
        return import_module("pyhmmer")
    except ImportError:
        raise InputError(
            "protein alignments need pyhmmer, which has no build for Windows: use Linux, macOS or WSL."
        ) from None


def texts(codes: Array) -> list[str]:
    """Codes (n, L) as texts, with hyphens for gaps."""
    return list(np.ascontiguousarray(SYMBOLS[codes]).view(f"U{codes.shape[1]}").ravel().tolist())


def read_alignment(path: Path) -> Alignment:
    """An alignment in any format that Easel knows, recognised by its content."""
    if not path.exists():
        raise InputError(f"{path} does not exist: name an alignment file.")
    if path.is_dir():
        raise InputError(f"{path} is a folder, not an alignment: name a file in it.")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty: an alignment needs at least two sequences.")
    easel = require_pyhmmer().easel
    try:
        with easel.MSAFile(path) as file:
            content = file.read()
    except (ValueError, OSError, EOFError, RuntimeError) as error:
        raise InputError(_explained(path, error)) from None
    if content is None or not len(content.sequences):
        raise InputError(f"{path} holds no sequence: an alignment needs at least two.")
    names = (name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in content.names)
    return _coded(str(path), tuple(names), content.alignment)


def aligned(sequences: Mapping[str, str] | Sequence[str]) -> Alignment:
    """An alignment from texts of one length, by their names or numbered from 1."""
    named = dict(sequences) if isinstance(sequences, Mapping) else {str(i + 1): s for i, s in enumerate(sequences)}
    lengths = sorted({len(text) for text in named.values()})
    if lengths in ([], [0]):
        raise InputError("sequences must hold at least two texts of residues; they are all empty.")
    if len(lengths) > 1:
        raise InputError(f"sequences must be aligned; got lengths from {lengths[0]} to {lengths[-1]}. {REMEDY}")
    return _coded("sequences", tuple(map(str, named)), list(named.values()))


def _coded(source: str, names: tuple[str, ...], rows: Sequence[str]) -> Alignment:
    """Texts as codes. Insert columns are known by their case; letters beyond the amino acids are mapped and noted."""
    letters = np.array([list(row) for row in rows])
    upper = np.char.isupper(letters).any(0)
    # In a file of lower-case letters alone, case has no meaning.
    inserts = np.char.islower(letters).any(0) & ~upper & upper.any()
    capital = np.char.upper(letters)
    is_letter = np.char.isalpha(capital)
    used = Counter(capital[is_letter].tolist())
    if not used:
        raise InputError(f"{source} holds only gaps: an alignment needs residues.")
    if used.total() >= 8 and sum(used[letter] for letter in NUCLEOTIDES) >= 0.95 * used.total():
        raise InputError(f"{source} looks like DNA or RNA ({', '.join(sorted(used))} only): translate it first.")
    notes = []
    marks = sorted(set(capital[~is_letter].tolist()) - GAP_MARKS)
    if marks:
        n = int(np.isin(capital, marks).sum())
        notes.append(f"{n} characters that are not letters were read as gaps: {' '.join(marks)}.")
    other = sorted(set(used) - set(LETTERS.tolist()))
    if other:
        mapped = ", ".join(f"{letter} as {REPLACEMENTS.get(letter, 'a gap')}" for letter in other)
        n = sum(used[letter] for letter in other)
        notes.append(f"{n} letters beyond the 20 amino acids were mapped: {mapped}.")
        for letter, replacement in REPLACEMENTS.items():
            capital[capital == letter] = replacement
    codes = np.where(np.isin(capital, LETTERS), np.searchsorted(LETTERS, capital), GAP).astype(np.uint8)
    return Alignment(names, codes, inserts, tuple(notes))


def _explained(path: Path, error: Exception) -> str:
    """One line on a file that Easel cannot read."""
    reason = str(error).removeprefix("Could not parse file: ").rstrip(".")
    if "has alen" in reason:
        return f"{path}: sequences must be aligned, all of one length; {reason}. {REMEDY}"
    if "determine format" in reason:
        return f"{path} is not an alignment in a known format: use Stockholm, FASTA, A2M, Clustal or PSI-BLAST."
    return f"{path} cannot be read as an alignment ({reason or type(error).__name__}): fix the file."
