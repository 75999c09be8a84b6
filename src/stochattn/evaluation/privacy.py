"""What samples give away by keeping close to the stored items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array
from ..core.neighbors import evenly, nearest_distances

BLOCK_ENTRIES = 2**23
GIVEN_AWAY = 0.6
"""The AUC above which samples are said to give their sources away; 0.5 is chance."""


class Closeness(NamedTuple):
    """How near rows are to their nearest stored one."""

    distance: Array  # (n,), or (n·parts,) where items are compared part by part
    novelty: Array  # (n,) 1 − the largest cosine


def closest(items: Array, stored: Array, rows: Array, stored_rows: Array) -> Closeness:
    """Distance of new items among the stored, as comparable numbers (n, p), and novelty of their rows (n, d)."""
    return Closeness(nearest_distances(items, stored), _novelty(rows, stored_rows))


def closest_other(stored: Array, stored_rows: Array, most: int) -> Closeness:
    """The same of stored items, each among the others; of at most `most`, evenly spaced."""
    if len(stored_rows) < 2:
        return Closeness(np.empty(0), np.empty(0))
    own = evenly(len(stored), most)
    distances = nearest_distances(stored, chosen=own)
    own = evenly(len(stored_rows), most)
    return Closeness(distances, _novelty(stored_rows[own], stored_rows, own))


def _novelty(rows: Array, stored: Array, own: Array | None = None) -> Array:
    """1 − the largest cosine of each row among the stored, its own left out: (n,)."""
    lengths = np.linalg.norm(stored, axis=1)
    unit = stored / np.where(lengths > 0, lengths, 1.0)[:, None]
    novelty = np.empty(len(rows))
    size = max(BLOCK_ENTRIES // max(stored.shape), 1)
    for i in range(0, len(rows), size):
        block = rows[i : i + size]
        cosines = block @ unit.T
        if own is not None:
            cosines[np.arange(len(block)), own[i : i + size]] = -np.inf
        sizes = np.linalg.norm(block, axis=1)
        novelty[i : i + size] = 1 - cosines.max(1) / np.where(sizes > 0, sizes, 1.0)
    return novelty
