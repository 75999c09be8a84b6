"""What samples give away by keeping close to the stored items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._arrays import Array
from ..metrics import evenly

BLOCK_ENTRIES = 2**23
GIVEN_AWAY = 0.6
"""The AUC above which samples are said to give their sources away; 0.5 is chance."""


class Closeness(NamedTuple):
    """How near rows are to their nearest stored one."""

    distance: Array  # (n,)
    novelty: Array  # (n,) 1 − the largest cosine


def closest(rows: Array, stored: Array) -> Closeness:
    """Distance and novelty of each row (n, d) among the stored ones (K, d)."""
    return _closest(rows, stored, None)


def closest_other(stored: Array, most: int) -> Closeness:
    """Distance and novelty of stored rows (K, d), each among the others; of at most `most`, evenly spaced."""
    if len(stored) < 2:
        return Closeness(np.empty(0), np.empty(0))
    own = evenly(len(stored), most)
    return _closest(stored[own], stored, own)


def _closest(rows: Array, stored: Array, own: Array | None) -> Closeness:
    lengths = np.linalg.norm(stored, axis=1)
    half, lengths = lengths**2 / 2, np.where(lengths > 0, lengths, 1.0)
    distance, novelty = np.empty(len(rows)), np.empty(len(rows))
    size = max(BLOCK_ENTRIES // max(stored.shape), 1)
    for i in range(0, len(rows), size):
        block = rows[i : i + size]
        products = block @ stored.T
        if own is not None:
            products[np.arange(len(block)), own[i : i + size]] = -np.inf
        # By their difference, not by inner products, in which nearly equal rows lose their distance to rounding.
        distance[i : i + size] = np.linalg.norm(block - stored[(products - half).argmax(1)], axis=1)
        sizes = np.linalg.norm(block, axis=1)
        novelty[i : i + size] = 1 - (products / lengths).max(1) / np.where(sizes > 0, sizes, 1.0)
    return Closeness(distance, novelty)
