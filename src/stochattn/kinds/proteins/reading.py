"""Reads alignments (by Easel) as codes, and builds and applies profile hidden Markov models of them (by HMMER).

Alphabets are proteins, DNA and RNA. A code below 20 is a letter of the alphabet; 20 is a gap.
"""

from __future__ import annotations

import codecs
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..._backend.arrays import Array
from .. import InputError
from ..options import listed, with_count
from .generator.sequences import GAP, NUCLEOTIDE, PROTEIN, DirichletMixture

MIN_LETTERS, MIN_SHARE = 8, 0.95
"""Least number of letters that show an alphabet, and least share of nucleotides among those of DNA or RNA."""
MIN_ROW = 20  # least number of letters of a sequence whose alphabet is checked


@dataclass(frozen=True)
class Alphabet:
    """Letters in the order of their codes, and letters by which others are replaced."""

    name: str
    letters: str
    replacements: dict[str, str]
    prior: DirichletMixture

    @property
    def symbols(self) -> Array:
        """The symbol of each code, (21,), with hyphens for gaps and for codes without a letter."""
        symbols = np.full(GAP + 1, "-")
        symbols[: len(self.letters)] = list(self.letters)
        return symbols


ALPHABETS = {
    # ambiguous and rare residues are read as a similar one
    "protein": Alphabet("protein", "ACDEFGHIKLMNPQRSTVWY", {"B": "D", "Z": "E", "J": "L", "U": "C", "O": "K"}, PROTEIN),
    "dna": Alphabet("dna", "ACGT", {}, NUCLEOTIDE),
    "rna": Alphabet("rna", "ACGU", {}, NUCLEOTIDE),
}


def _detect_alphabet(source: str, rows: Array, letters: Counter[str], wanted: str | None, varied: bool) -> Alphabet:
    """The alphabet of capital letters (n, width) with these counts: the wanted one, or the one that the letters show.

    varied: whether there must be at least two letters
    """
    if wanted is not None and wanted not in ALPHABETS:
        raise InputError(f"alphabet must be one of {', '.join(ALPHABETS)}; got {wanted!r}.")
    if varied and len(letters) == 1:
        (letter,) = letters
        raise InputError(f"{source} holds the letter {letter} only: sequences need at least two different letters.")
    if wanted is not None:
        alphabet = ALPHABETS[wanted]
        n_known = sum(letters[letter] for letter in (*alphabet.letters, *alphabet.replacements, "N", "X"))
        if n_known < letters.total() / 2:
            share = 1 - n_known / letters.total()
            raise InputError(f"alphabet={wanted!r}: {share:.0%} of the letters of {source} are others. Name another.")
        return alphabet
    nucleotides = sum(letters[letter] for letter in "ACGTUN")
    if letters.total() < MIN_LETTERS or nucleotides < MIN_SHARE * letters.total():
        # A sequence of nucleotides among proteins is a mistake.
        n_letters, n_nucleotides = np.char.isalpha(rows).sum(1), np.isin(rows, list("ACGTUN")).sum(1)
        outliers = np.flatnonzero((n_letters >= MIN_ROW) & (n_nucleotides >= MIN_SHARE * n_letters))
        if len(outliers):
            where = f"sequence {outliers[0] + 1} of {source} looks like DNA or RNA, and others like proteins"
            raise InputError(f"{where}: leave it out, or name alphabet='protein'.")
        return ALPHABETS["protein"]
    if letters["T"] and letters["U"]:
        raise InputError(f"{source} mixes DNA and RNA (T and U): write one of them, or name alphabet='protein'.")
    return ALPHABETS["rna" if letters["U"] else "dna"]


LETTERS = np.array(list("ACDEFGHIKLMNPQRSTVWY"))  # the amino acids, whose codes are 0 … 19
REMEDY = "Align them first: famsa sequences.fasta aligned.fasta, or mafft sequences.fasta > aligned.fasta."
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # characters of binary files
MAX_EVALUE = 0.01  # sequences below it count as members of the family
Profile: TypeAlias = Any  # a pyhmmer.plan7.HMM, which has no types


class Alignment(NamedTuple):
    """Aligned sequences with their names."""

    names: tuple[str, ...]
    codes: Array  # (n, width), letters of the alphabet from 0 and 20 for gaps
    inserts: Array  # (width,) which columns are insert columns
    notes: tuple[str, ...]  # on letters that were replaced
    alphabet: str  # a name in `ALPHABETS`


def require_pyhmmer() -> ModuleType:
    """The module pyhmmer, imported when it is first needed; InputError if it is not installed."""
    try:
        return import_module("pyhmmer")
    except ImportError:
        rule = "protein alignments need pyhmmer, which has no build for Windows"
        raise InputError(f"{rule}: use Linux, macOS or WSL.") from None


def format_sequences(codes: Array, alphabet: str = "protein") -> list[str]:
    """Codes (n, L) as strings, with hyphens for gaps."""
    symbols = ALPHABETS[alphabet].symbols
    return list(np.ascontiguousarray(symbols[codes]).view(f"U{codes.shape[1]}").ravel().tolist())


def read_alignment(path: Path, which: str | None = None, alphabet: str | None = None) -> Alignment:
    """An alignment in any format of Easel, detected from its content.

    which: identifier, accession or number (from 1) of an alignment in a Stockholm file; None for the first, with a note
    """
    if not path.is_file():
        problem = "is a folder, not an alignment" if path.is_dir() else "does not exist"
        raise InputError(f"{path} {problem}: name an alignment file.")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty: an alignment needs at least two sequences.")
    hmmer = require_pyhmmer()
    raw = path.read_bytes()
    plain = raw.removeprefix(codecs.BOM_UTF8)
    content = plain.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # Easel does not support lines that end in CR alone
    if CONTROL.search(content):  # for which Easel would end the process
        raise InputError(f"{path} is a binary file, not text. Name an alignment in Stockholm, FASTA, A2M or Clustal.")
    _require_residues(path, content)
    number, notes = _choose_alignment(path, _list_alignments(content), which)
    is_supported = plain == raw and raw.count(b"\r") == raw.count(b"\r\n")  # whether Easel can read the file itself
    try:
        with hmmer.easel.MSAFile(path if is_supported else io.BytesIO(content)) as file:
            for _ in range(number):
                read = file.read()
            names = tuple(name if isinstance(name, str) else name.decode() for name in read.names) if read else ()
    except (ValueError, OSError, EOFError, RuntimeError) as error:
        reason = str(error).removeprefix("Could not parse file: ").rstrip(".")
        if different := _find_different_length(content) or ("has alen" in reason and reason):
            problem = f"{path}: sequences must be aligned, all of one length; {different}. {REMEDY}"
        elif "consensus residues" in reason:
            rule = "each sequence must have as many capital letters and gaps (-) as the first"
            problem = f"{path}: {rule}; lower-case letters and points are insertions in A2M. {REMEDY}"
        elif "determine format" in reason:
            problem = f"{path} is not an alignment in a known format: use Stockholm, FASTA, A2M, Clustal or PSI-BLAST."
        else:
            problem = f"{path} cannot be read as an alignment ({reason or type(error).__name__}): fix the file."
        raise InputError(problem) from None
    if read is None or not len(read.sequences):
        raise InputError(f"{path} holds no sequence: an alignment needs at least two.")
    coded = _encode(str(path), names, read.alignment, alphabet)
    return coded._replace(notes=(*notes, *coded.notes))


def join_alignments(parts: Sequence[Path], alignments: Sequence[Alignment]) -> Alignment:
    """One alignment of the sequences of several files, which must have the same columns."""
    width, alphabet = alignments[0].codes.shape[1], alignments[0].alphabet
    for part, alignment in zip(parts, alignments, strict=True):
        if alignment.codes.shape[1] != width:
            rule = f"has {alignment.codes.shape[1]} columns, and {parts[0].name} has {width}"
            raise InputError(f"{part} {rule}: sequences must be aligned, all of one length. {REMEDY}")
        if alignment.alphabet != alphabet:
            rule = f"is {alignment.alphabet}, and {parts[0].name} is {alphabet}: all parts must have one alphabet"
            raise InputError(f"{part} {rule}. Name it with alphabet.")
    names = tuple(name for alignment in alignments for name in alignment.names)
    codes = np.concatenate([alignment.codes for alignment in alignments])
    inserts = np.logical_and.reduce([alignment.inserts for alignment in alignments])  # insert columns in all files
    notes = tuple(dict.fromkeys(note for alignment in alignments for note in alignment.notes))
    return Alignment(names, codes, inserts, notes, alphabet)


def _list_alignments(content: bytes) -> list[list[str]]:
    """Identifier and accession of each alignment in a Stockholm file, if given; one empty list for other files."""
    if not content.lstrip().startswith(b"# STOCKHOLM"):
        return [[]]
    parts = [part for part in re.split(rb"(?m)^//[ \t\r]*$", content) if part.strip()]
    matches = (re.findall(rb"(?m)^#=GF[ \t]+(?:ID|AC)[ \t]+(\S+)", part) for part in parts)
    return [[name.decode("utf-8", "backslashreplace") for name in names] for names in matches]


def _choose_alignment(path: Path, names: list[list[str]], which: str | None) -> tuple[int, tuple[str, ...]]:
    """The number, from 1, of the chosen alignment, and a note if others were left out."""
    shown = [f"{number} ({', '.join(ids)})" if ids else f"{number}" for number, ids in enumerate(names, 1)]
    if which is None:
        rule = f"the file holds {len(names):,} alignments, and only the first was read: {listed(shown, 5)}"
        return 1, (f"{rule}; alignment= chooses one.",) if len(names) > 1 else ()
    wanted = str(which).strip()
    for number, ids in enumerate(names, 1):
        if wanted in ids or wanted in [name.partition(".")[0] for name in ids]:  # a version follows the dot
            return number, ()
    if wanted.isdecimal() and 1 <= int(wanted) <= len(names):
        return int(wanted), ()
    raise InputError(f"{path}: there is no alignment {wanted!r}; choose one of {listed(shown, 5)}.")


def _records(content: bytes) -> list[tuple[bytes, bytes]]:
    """Names and residues of the records of FASTA and A2M; empty for other formats."""
    content = content.lstrip()
    parts = [record.partition(b"\n") for record in content[1:].split(b"\n>")] if content.startswith(b">") else []
    return [(name.strip(), residues) for name, _, residues in parts]


def _require_residues(path: Path, content: bytes) -> None:
    """InputError for records of FASTA and A2M that Easel cannot read: empty, not ASCII, or named not in UTF-8."""
    for number, (name, residues) in enumerate(_records(content), 1):
        shown = f"sequence {number} ({name.decode('utf-8', 'backslashreplace')})"
        try:
            name.decode()
        except UnicodeDecodeError:
            raise InputError(f"{path}: the name of {shown} is not UTF-8: save the file as UTF-8.") from None
        if not re.search(rb"[A-Za-z-]", residues):
            raise InputError(f"{path}: {shown} has no residues: remove it.")
        if not residues.isascii():
            at = next(line for line, row in enumerate(content.split(b"\n"), 1) if row[:1] != b">" and not row.isascii())
            row = content.split(b"\n")[at - 1].decode("utf-8", "replace")
            character = next(symbol for symbol in row if not symbol.isascii())
            description = unicodedata.name(character, "").lower() or f"U+{ord(character):04X}"
            which = f"{character!r} ({description})"
            raise InputError(f"{path}, line {at}: {which} is not a residue. Write a hyphen for a gap, or remove it.")


def _find_different_length(content: bytes) -> str | None:
    """A message on the first record of FASTA with another length than the first; that of Easel may be empty."""
    lengths = [(name, len(b"".join(residues.split()))) for name, residues in _records(content)]
    others = (f"{name.decode()} has {n} columns, and the first has {lengths[0][1]}" for name, n in lengths)
    return next((words for words, (_, n) in zip(others, lengths, strict=True) if n != lengths[0][1]), None)


def parse_alignment(
    sequences: Mapping[str, str] | Sequence[str], alphabet: str | None = None, varied: bool = True
) -> Alignment:
    """An alignment of strings of one length, by name or numbered from 1; see `_detect_alphabet`."""
    named = dict(sequences) if isinstance(sequences, Mapping) else {str(i + 1): s for i, s in enumerate(sequences)}
    lengths = sorted({len(text) for text in named.values()})
    if lengths in ([], [0]):
        raise InputError("sequences must hold at least two strings of residues; all are empty.")
    if len(lengths) > 1:
        raise InputError(f"sequences must be aligned; got lengths from {lengths[0]} to {lengths[-1]}. {REMEDY}")
    return _encode("sequences", tuple(map(str, named)), list(named.values()), alphabet, varied)


def _encode(
    source: str, names: tuple[str, ...], rows: Sequence[str], wanted: str | None, varied: bool = True
) -> Alignment:
    """An alignment of strings. Insert columns are in lower case; letters beyond the alphabet are replaced and noted."""
    letters = np.array([list(row) for row in rows])
    upper, capital = np.char.isupper(letters).any(0), np.char.upper(letters)
    inserts = np.char.islower(letters).any(0) & ~upper & upper.any()  # case has no meaning where all is lower case
    is_letter = np.char.isalpha(capital)
    used = Counter(capital[is_letter].tolist())
    if varied and not used:
        raise InputError(f"{source} holds only gaps: an alignment needs residues.")
    alphabet, notes = _detect_alphabet(source, capital, used, wanted, varied), []
    known_letters = np.array(list(alphabet.letters))
    if wanted is None and alphabet.name != "protein":
        notes.append(f"the sequences are read as {alphabet.name.upper()}; alphabet='protein' reads them as proteins.")
    if marks := sorted(set(capital[~is_letter].tolist()) - set("-._~ ")):
        n = np.isin(capital, marks).sum()
        what = "character that is not a letter was read as a gap", "characters that are not letters were read as gaps"
        notes.append(f"{with_count(n, *what)}: {' '.join(marks)}.")
    if unknown := sorted(set(used) - set(known_letters.tolist())):
        mapping = ", ".join(f"{letter} as {alphabet.replacements.get(letter, 'a gap')}" for letter in unknown)
        n = sum(used[letter] for letter in unknown)
        which = "20 amino acids" if alphabet.name == "protein" else f"letters {alphabet.letters}"
        what = f"letter beyond the {which} was mapped", f"letters beyond the {which} were mapped"
        notes.append(f"{with_count(n, *what)}: {mapping}.")
    for letter, replacement in alphabet.replacements.items():
        capital[capital == letter] = replacement
    codes = np.where(np.isin(capital, known_letters), np.searchsorted(known_letters, capital), GAP).astype(np.uint8)
    return Alignment(names, codes, inserts, tuple(notes), alphabet.name)


def build_profile(codes: Array, letters: str = "protein") -> Profile:
    """The profile that HMMER builds from an alignment of codes (n, L); `letters` names the alphabet."""
    hmmer = require_pyhmmer()
    alphabet = getattr(hmmer.easel.Alphabet, "amino" if letters == "protein" else letters)()
    texts = enumerate(format_sequences(codes, letters), 1)
    named = ((f"{i}".encode(), text) for i, text in texts if text.strip("-"))
    rows = [hmmer.easel.TextSequence(name=name, sequence=text) for name, text in named]
    alignment = hmmer.easel.TextMSA(name=b"stored", sequences=rows).digitize(alphabet)
    return hmmer.plan7.Builder(alphabet).build_msa(alignment, hmmer.plan7.Background(alphabet))[0]


def read_profile(path: str | Path, letters: str = "protein") -> str:
    """The text of the first profile of an .hmm file, for `parse_profile`."""
    hmmer, option_text = require_pyhmmer(), f"hmm={str(path)!r}"
    try:
        with hmmer.plan7.HMMFile(str(path)) as file:
            profile = file.read()
        if profile is None:
            raise EOFError
    except (ValueError, OSError, EOFError) as error:
        rule = f"{option_text} is not a profile HMM ({type(error).__name__})"
        raise InputError(f"{rule}: name a file made by hmmbuild.") from None
    if profile.alphabet.type.lower() != ("amino" if letters == "protein" else letters):
        rule = f"is a profile of {profile.alphabet.type}, and the sequences are {letters}"
        raise InputError(f"{option_text} {rule}: name another.")
    stream = io.BytesIO()
    profile.write(stream)
    return stream.getvalue().decode("utf-8")


def parse_profile(text: str) -> Profile:
    """The profile of the text of an .hmm file."""
    with require_pyhmmer().plan7.HMMFile(io.BytesIO(text.encode("utf-8"))) as file:
        return file.read()


def score(codes: Array, profile: Profile, n_total: int) -> tuple[Array, Array]:
    """Bit scores of sequences, and E-values for a database of n_total: (n,) each, NaN and infinite without a hit."""
    hmmer, letters = require_pyhmmer(), "protein" if profile.alphabet.is_amino() else profile.alphabet.type.lower()
    bits, evalues = np.full(len(codes), np.nan), np.full(len(codes), np.inf)
    texts = enumerate(text.replace("-", "") for text in format_sequences(codes, letters))
    named = ((f"{i}".encode(), text) for i, text in texts if text)
    targets = [hmmer.easel.TextSequence(name=name, sequence=text).digitize(profile.alphabet) for name, text in named]
    for hit in next(iter(hmmer.hmmer.hmmsearch(profile, targets, cpus=1, Z=n_total))):
        bits[int(hit.name)], evalues[int(hit.name)] = hit.score, hit.evalue
    return bits, evalues
