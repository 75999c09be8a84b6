"""Profile hidden Markov models of a family, built or read by pyhmmer, and the scores of sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ..legacy import InputError
from .sequences import texts

PASS = 0.01
"""The E-value below which a sequence counts as a member of the family."""


class Scores(NamedTuple):
    """Of each sequence: bit score (NaN where the profile reports no hit) and E-value (inf there)."""

    bits: Array
    evalues: Array

    @property
    def passed(self) -> float:
        """Share of sequences with E < 0.01."""
        return float((self.evalues < PASS).mean())


def build_profile(codes: Array) -> Any:
    """The profile that HMMER builds from an alignment of codes (n, L)."""
    from pyhmmer.easel import Alphabet, TextMSA, TextSequence
    from pyhmmer.plan7 import Background, Builder

    alphabet = Alphabet.amino()
    rows = [
        TextSequence(name=f"{number}".encode(), sequence=text)
        for number, text in enumerate(texts(codes), 1)
        if set(text) != {"-"}
    ]
    alignment = TextMSA(name=b"stored", sequences=rows).digitize(alphabet)
    return Builder(alphabet).build_msa(alignment, Background(alphabet))[0]


def read_profile(path: Path) -> Any:
    """The first profile of an .hmm file."""
    from pyhmmer.plan7 import HMMFile

    try:
        with HMMFile(str(path)) as file:
            profile = file.read()
        if profile is None:
            raise EOFError
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} is no profile HMM ({type(error).__name__}): name a file made by hmmbuild.") from None
    if not profile.alphabet.is_amino():
        raise InputError(f"{path} is a profile of nucleotides, and sequences are proteins: name a protein profile.")
    return profile


def score(codes: Array, profile: Any, n: int) -> Scores:
    """Scores of sequences against a profile, gaps stripped; E-values for a database of n."""
    from pyhmmer.easel import TextSequence
    from pyhmmer.hmmer import hmmsearch

    bits, evalues = np.full(len(codes), np.nan), np.full(len(codes), np.inf)
    targets = [
        TextSequence(name=str(i).encode(), sequence=text.replace("-", "")).digitize(profile.alphabet)
        for i, text in enumerate(texts(codes))
        if text.strip("-")
    ]
    if not targets:
        return Scores(bits, evalues)
    for hit in next(iter(hmmsearch(profile, targets, cpus=1, E=10.0, Z=n))):
        i = int(hit.name)
        bits[i], evalues[i] = hit.score, hit.evalue
    return Scores(bits, evalues)
