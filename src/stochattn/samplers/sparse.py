"""Sums over the few memories that attention picks out: at a large beta, all other weights round to nothing.

A row has few memories or many, whatever the rows beside it have, and each kind of row has its own order of summation.
So its bits depend on that row alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._backend.arrays import NumpyArray
from .._backend.products import shifted_exp_inplace

MIN_SPARSE_NUMBERS = 2**18  # equivalent: below so many numbers in the memories, a product over all is as fast
MAX_FEW = 8  # equivalent: memories of a row that are added one by one, with the same sum as that of a product


def negligible(itemsize: int) -> float:
    """The logit, relative to the largest, below which 8,192 weights add up to less than the rounding of a sum."""
    return -26.0 if itemsize == 4 else -47.0


class SparseSums:
    """Σ w_k · value_k with w = exp(logit − largest logit), for values (K, v)."""

    def __init__(self, values: NumpyArray) -> None:
        self.values = values

    def __call__(
        self, logits: NumpyArray, dense: Callable[[NumpyArray], NumpyArray], active: slice
    ) -> tuple[NumpyArray, NumpyArray]:
        """Sums (rows, v), and the largest logit of each row (rows, 1); `logits` (rows, K) are overwritten.

        dense:  the product of weights with the values, for rows with many memories
        active: the rows that matter; others get the value of their largest logit
        """
        best = logits.argmax(1)
        top = logits[np.arange(len(logits)), best][:, None]
        near = logits > top + negligible(logits.itemsize)
        begin, end, _ = active.indices(len(near))
        for row in (*range(begin), *range(end, len(near))):
            near[row] = False
            near[row, best[row]] = True
        counts = near.view(np.uint8).sum(1, dtype=np.uint16).astype(np.intp)  # faster than counting booleans
        if (counts == 1).all():  # deep in a basin: the memory itself, of weight 1
            return self.values[best] + 0.0, top  # -0.0 becomes 0.0, as in a sum that begins with zero
        few = counts <= MAX_FEW
        if not few.any():
            shifted_exp_inplace(logits)
            return dense(logits), top
        sums = self._of_few(logits, top, near, counts, few)
        if not few.all():
            shifted_exp_inplace(logits)
            sums = np.where(few[:, None], sums, dense(logits))
        return sums, top

    def _of_few(
        self, logits: NumpyArray, top: NumpyArray, near: NumpyArray, counts: NumpyArray, few: NumpyArray
    ) -> NumpyArray:
        """The sums of rows with few memories, in the order of these; others are zero."""
        near[~few] = False
        counts = np.where(few, counts, 0)
        rows, k = np.divmod(np.flatnonzero(near), near.shape[1])
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        chosen = np.zeros((counts.max(), len(near)), dtype=np.intp)
        weights = np.zeros(chosen.shape, dtype=logits.dtype)
        chosen[place, rows], weights[place, rows] = k, np.exp(logits[rows, k] - top[rows, 0])
        sums = np.zeros((len(near), self.values.shape[1]), dtype=logits.dtype)
        for place, w in enumerate(weights):
            sums += w[:, None] * self.values[chosen[place]]
        return sums
