"""Alphabets of aligned sequences: proteins, DNA and RNA. A code below 20 is a letter of the alphabet, 20 is a gap."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ..._backend.arrays import Array
from ...generators.sequences import GAP
from ...generators.site_priors import NUCLEOTIDE, PROTEIN, DirichletMixture
from .. import InputError

MIN_LETTERS, MIN_SHARE = 8, 0.95
"""Letters that an alphabet is recognised by, and the share of them that must be nucleotides."""
MIN_ROW = 20  # letters of a sequence whose own alphabet is looked at


@dataclass(frozen=True)
class Alphabet:
    """Letters in the order of their codes, and what other letters are read as."""

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
    # "one of two" and rare residues are read as a likely one
    "protein": Alphabet("protein", "ACDEFGHIKLMNPQRSTVWY", {"B": "D", "Z": "E", "J": "L", "U": "C", "O": "K"}, PROTEIN),
    "dna": Alphabet("dna", "ACGT", {}, NUCLEOTIDE),
    "rna": Alphabet("rna", "ACGU", {}, NUCLEOTIDE),
}


def recognised(source: str, rows: Array, wanted: str | None, varied: bool = True) -> Alphabet:
    """The alphabet of texts, capital letters (n, width): the wanted one, or the one that the letters are of.

    varied: whether there must be at least two letters
    """
    if wanted is not None and wanted not in ALPHABETS:
        raise InputError(f"alphabet must be one of {', '.join(ALPHABETS)}; got {wanted!r}.")
    letters = Counter(rows[np.char.isalpha(rows)].tolist())
    if varied and len(letters) == 1:
        (letter,) = letters
        raise InputError(f"{source} holds the letter {letter} only: sequences need at least two different letters.")
    if wanted is not None:
        known = ALPHABETS[wanted]
        share = sum(letters[one] for one in (*known.letters, *known.replacements, "N", "X")) / max(letters.total(), 1)
        if letters and share < 0.5:
            raise InputError(
                f"alphabet={wanted!r}: {1 - share:.0%} of the letters of {source} are others. Name another."
            )
        return known
    nucleotides = sum(letters[one] for one in "ACGTUN")
    if letters.total() < MIN_LETTERS or nucleotides < MIN_SHARE * letters.total():
        _require_one_alphabet(source, rows)
        return ALPHABETS["protein"]
    if letters["T"] and letters["U"]:
        raise InputError(f"{source} mixes DNA and RNA (T and U): write one of them, or name alphabet='protein'.")
    return ALPHABETS["rna" if letters["U"] else "dna"]


def _require_one_alphabet(source: str, rows: Array) -> None:
    """InputError for proteins with a sequence of nucleotides among them."""
    is_letter = np.char.isalpha(rows)
    own, nucleotides = is_letter.sum(1), np.isin(rows, list("ACGTUN")).sum(1)
    strange = np.flatnonzero((own >= MIN_ROW) & (nucleotides >= MIN_SHARE * own))
    if len(strange):
        where = f"sequence {strange[0] + 1} of {source} looks like DNA or RNA, and others like proteins"
        raise InputError(f"{where}: leave it out, or name alphabet='protein'.")
