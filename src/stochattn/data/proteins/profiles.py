"""Profile hidden Markov models of a family, built or read by HMMER, and the scores of sequences."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..._backend.arrays import Array
from ..options import InputError
from .alignment import require_pyhmmer, texts

Profile: TypeAlias = Any  # a pyhmmer.plan7.HMM, which has no types
MAX_EVALUE = 0.01  # below it, a sequence counts as a member of the family


def passed(evalues: Array) -> float:
    """Share of E-values (n,) below 0.01."""
    return float((evalues < MAX_EVALUE).mean())


def build_profile(codes: Array) -> Profile:
    """The profile that HMMER builds from an alignment of codes (n, L)."""
    hmmer = require_pyhmmer()
    alphabet = hmmer.easel.Alphabet.amino()
    rows = [
        hmmer.easel.TextSequence(name=f"{number}".encode(), sequence=text)
        for number, text in enumerate(texts(codes), 1)
        if set(text) != {"-"}
    ]
    alignment = hmmer.easel.TextMSA(name=b"stored", sequences=rows).digitize(alphabet)
    return hmmer.plan7.Builder(alphabet).build_msa(alignment, hmmer.plan7.Background(alphabet))[0]


def read_profile(path: Path) -> str:
    """The first profile of an .hmm file, as text; `parsed_profile` makes a profile of it."""
    hmmer, given = require_pyhmmer(), f"hmm={str(path)!r}"
    try:
        with hmmer.plan7.HMMFile(str(path)) as file:
            profile = file.read()
        if profile is None:
            raise EOFError
    except (ValueError, OSError, EOFError) as error:
        reason = type(error).__name__
        raise InputError(f"{given} is not a profile HMM ({reason}): name a file made by hmmbuild.") from None
    if not profile.alphabet.is_amino():
        raise InputError(f"{given} is a profile of nucleotides: name a profile of proteins.")
    stream = io.BytesIO()
    profile.write(stream)
    return stream.getvalue().decode("utf-8")


def parsed_profile(text: str) -> Profile:
    """The profile whose text this is."""
    with require_pyhmmer().plan7.HMMFile(io.BytesIO(text.encode("utf-8"))) as file:
        return file.read()


def score(codes: Array, profile: Profile, n_total: int) -> tuple[Array, Array]:
    """Bit scores of sequences without their gaps, and E-values for a database of n_total: (n,), (n,).

    They are NaN and infinite where the profile reports no hit.
    """
    hmmer = require_pyhmmer()
    bits, evalues = np.full(len(codes), np.nan), np.full(len(codes), np.inf)
    targets = [
        hmmer.easel.TextSequence(name=str(i).encode(), sequence=text.replace("-", "")).digitize(profile.alphabet)
        for i, text in enumerate(texts(codes))
        if text.strip("-")
    ]
    for hit in next(iter(hmmer.hmmer.hmmsearch(profile, targets, cpus=1, E=10.0, Z=n_total))):
        bits[int(hit.name)], evalues[int(hit.name)] = hit.score, hit.evalue
    return bits, evalues
