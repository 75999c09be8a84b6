"""Sums over the few memories that attention picks out: at a large beta, all other weights round to nothing.

A row has few memories or many, whatever the rows beside it have, and each kind of row has its own order of summation.
So its bits depend on that row alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._backend.arrays import NumpyArray
from .._backend.products import shifted_exp_inplace

MIN_SPARSE_NUMBERS = 2**18  # equivalent: below so many numbers in the memories, a product over all is as fast
MAX_FEW = 8  # equivalent: memories of a row that are added one by one, with the same sum as that of a product


def negligible(itemsize: int) -> float:
    """The logit, relative to the largest, below which 8,192 weights add up to less than the rounding of a sum."""
    return -26.0 if itemsize == 4 else -47.0


class Largest(NamedTuple):
    """The largest of the logits (rows, K) of each row."""

    best: NumpyArray  # (rows,) the memory that has it
    top: NumpyArray  # (rows,) its value
    alone: NumpyArray  # (rows,) whether the weights of all other memories are negligible

    @classmethod
    def of(cls, logits: NumpyArray, idle: NumpyArray) -> Largest:
        """idle: (rows,) whether a row does not matter; its memory is then alone."""
        rows, best = np.arange(len(logits)), logits.argmax(1)
        top = logits[rows, best]
        logits[rows, best] = -np.inf
        alone = (logits.max(1) <= top + negligible(logits.itemsize)) | idle
        logits[rows, best] = top
        return cls(best, top, alone)


def sparse_sums(
    logits: NumpyArray, largest: Largest, values: NumpyArray, dense: Callable[[NumpyArray], NumpyArray]
) -> NumpyArray:
    """Σ w_k · value_k with w = exp(logit − largest logit): (rows, K), (K, v) -> (rows, v); `logits` are overwritten.

    dense: the product of weights with the values, for rows with many memories
    """
    best, top, alone = largest
    if alone.all():  # deep in a basin: the memory itself, of weight 1
        memories: NumpyArray = values[best] + 0.0  # -0.0 becomes 0.0, as in a sum that begins with zero
        return memories
    near = logits > (top + negligible(logits.itemsize))[:, None]
    near[alone] = False
    near[alone, best[alone]] = True
    counts = near.view(np.uint8).sum(1, dtype=np.uint16).astype(np.intp)  # faster than counting booleans
    few = counts <= MAX_FEW
    if not few.any():
        shifted_exp_inplace(logits)
        return dense(logits)
    sums = _sums_of_few(logits, top, values, near, np.where(few, counts, 0))
    if not few.all():
        shifted_exp_inplace(logits)
        sums = np.where(few[:, None], sums, dense(logits))
    return sums


def _sums_of_few(
    logits: NumpyArray, top: NumpyArray, values: NumpyArray, near: NumpyArray, counts: NumpyArray
) -> NumpyArray:
    """The sums of rows with few memories, in the order of these; those of rows with a count of zero are zero."""
    near[counts == 0] = False
    rows, k = np.divmod(np.flatnonzero(near), near.shape[1])
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = np.zeros((counts.max(), len(near)), dtype=np.intp)
    weights = np.zeros(chosen.shape, dtype=logits.dtype)
    chosen[place, rows], weights[place, rows] = k, np.exp(logits[rows, k] - top[rows])
    sums = np.zeros((len(near), values.shape[1]), dtype=logits.dtype)
    for place, w in enumerate(weights):
        sums += w[:, None] * values[chosen[place]]
    return sums
