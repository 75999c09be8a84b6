"""The control of a page that conditions residues: a sequence logo to click on."""

from __future__ import annotations

import numpy as np

from ...generators.sequences import GAP
from ..controls import Control, LettersControl
from .codec import ProteinCodec

MAX_LETTERS = 5  # of a column of the logo, the most frequent ones


def sequence_controls(codec: ProteinCodec) -> tuple[Control, ...]:
    """A logo of the match columns. The height of a column is its information, as a share of the largest possible."""
    columns = codec.columns[codec.match]
    names, codes = codec.letters.symbols, codec.stored[:, codec.match]
    most = np.log2(max(len(codec.letters.letters), 2))
    letters, heights = [], []
    for column in codes.T:
        counts = np.bincount(column, minlength=GAP + 1)[:GAP] / max(int(np.count_nonzero(column < GAP)), 1)
        seen = counts[counts > 0]
        heights.append(float(max(1 + (seen * np.log2(seen)).sum() / most, 0.0)) if len(seen) else 0.0)
        order = np.argsort(-counts, kind="stable")[:MAX_LETTERS]
        letters.append(tuple((str(names[code]), float(counts[code])) for code in order if counts[code] > 0))
    places = tuple(str(i + 1) for i in columns)
    alphabet = (*map(str, codec.letters.letters), "-")
    return (LettersControl("residues", "Residues", places, tuple(letters), tuple(heights), alphabet),)
