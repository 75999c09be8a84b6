"""Squared norms of memories, from one pass that refuses rows that are not finite."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, NumpyArray, norms_squared
from .._backend.progress import Progress
from .blockwise import blocks
from .shards import Shards, pass_over


def checked_norms(patterns: Array, progress: bool | None = None) -> Array:
    """‖m_k‖² of every memory (K,), from one pass over them; ValueError names the first row that is not finite."""
    shown = False if isinstance(patterns, Shards) else progress  # shards are read by several threads or processes
    found = pass_over(patterns, partial(_norms, progress=shown), _joined_norms)
    if found.flaw is not None:
        where = "row {} has NaN or an infinite number, the first in column {}".format(*found.flaw)
        raise ValueError(f"patterns must be finite; {where}. Remove or impute such rows first.")
    return found.squares


class _Norms(NamedTuple):
    squares: NumpyArray  # (K,)
    flaw: tuple[int, int] | None  # row and column of the first number that is not finite


def _norms(patterns: Array, start: int, states: None, *, progress: bool | None) -> _Norms:
    K, d = patterns.shape
    norms = np.empty(K, dtype=patterns.dtype)
    with Progress(K, "reading memories", progress) as bar, np.errstate(over="ignore", invalid="ignore"):
        for block in blocks(K, d):
            rows = np.asarray(patterns[block])
            norms[block] = norms_squared(rows)
            if not np.isfinite(norms[block]).all() and not np.isfinite(rows).all():
                row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
                return _Norms(norms, (start + block.start + row, column))
            bar.update(block.stop)
    return _Norms(norms, None)


def _joined_norms(first: _Norms, second: _Norms) -> _Norms:
    return _Norms(np.concatenate((first.squares, second.squares)), first.flaw or second.flaw)
