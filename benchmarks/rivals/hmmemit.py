"""Sequences emitted by the profile that HMMER builds from an alignment (hmmbuild and hmmemit), match states only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyhmmer

GAP = 20
LETTERS = "ACDEFGHIKLMNPQRSTVWY"


def emitted(codes: Any, n: int, seed: int, entropy_weighting: bool = True) -> Any:
    """New sequences (n, L) in the columns of stored ones (K, L).

    entropy_weighting: as in hmmbuild, which makes a profile general enough for searches. Without it, the profile keeps
                       the frequencies of the alignment, which suits draws.
    """
    alphabet = pyhmmer.easel.Alphabet.amino()
    symbols = np.array([*LETTERS, "-"])
    rows = [
        pyhmmer.easel.TextSequence(name=f"{i}".encode(), sequence="".join(symbols[row])) for i, row in enumerate(codes)
    ]
    alignment = pyhmmer.easel.TextMSA(name=b"stored", sequences=rows).digitize(alphabet)
    options = {} if entropy_weighting else {"effective_number": "none"}
    builder = pyhmmer.plan7.Builder(alphabet, **options)
    profile = builder.build_msa(alignment, pyhmmer.plan7.Background(alphabet))[0]
    if not hasattr(profile, "emit_alignment"):
        raise LookupError("this version of pyhmmer cannot emit sequences: install 0.12.1.")
    drawn = profile.emit_alignment(n, seed).textize()
    text = np.array([list(row) for row in drawn.alignment])
    matches = text[:, [mark == "x" for mark in drawn.reference]]
    # HMMER has a match state for every column except those with many gaps.
    columns = np.sort(np.argsort((codes == GAP).mean(0), kind="stable")[: matches.shape[1]])
    new = np.full((n, codes.shape[1]), GAP, dtype=np.uint8)
    for code, letter in enumerate(LETTERS):
        row, state = np.nonzero(matches == letter)
        new[row, columns[state]] = code
    return new
