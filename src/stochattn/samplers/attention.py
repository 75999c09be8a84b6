"""Chains that stay in the basin of one memory, recognized without a product over all memories.

Where one logit exceeds all others so far that their weights round to nothing, attention is that memory. When a chain
moves by delta, the logits of two memories approach each other by at most beta ‖m − m'‖ ‖delta‖. So after one product
over all memories, each chain has a distance within which only a few rivals can come near, and their logits alone are
computed at each step. At the paper's temperatures, the next product follows some ten steps later. The bound includes
the rounding of logits, so the bits of a chain are the same as with a product at each step.

Sums over the few memories that attention picks out: at a large beta, all other weights round to nothing.

A row has few memories or many, whatever the rows beside it have, and each kind of row has its own order of summation.
So the bits of a row depend on that row alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._backend.arrays import NumpyArray, norms_squared, row_dot
from .._backend.products import rows_in_block, shifted_exp_inplace
from ..storage.blockwise import MAX_ENTRIES, row_blocks

MIN_SPARSE_NUMBERS = 2**18  # below so many numbers in the memories, a product over all is as fast
MAX_FEW = 8  # memories of a row that are added one by one, with the same sum as that of a product


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
        """idle: (rows,) whether a row does not matter; its memory then counts as alone."""
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
    """The sums of rows with few memories, in the order of the memories; zero for rows whose count is zero."""
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


Product = Callable[[NumpyArray], NumpyArray]
N_RIVALS = 3  # memories whose logits are computed at each step, a number that changes the time alone


class BasinSums:
    """Weighted sums over the memories of a bank for a batch of chains, many of which may stay in their basins.

    patterns: (K, r); values: (K, v) what is summed; log_r: (K,) or None
    """

    def __init__(self, patterns: NumpyArray, values: NumpyArray, log_r: NumpyArray | None) -> None:
        self.patterns, self.values = patterns, values
        self.log_r = np.zeros(len(patterns), patterns.dtype) if log_r is None else log_r
        self.rows_in_block = rows_in_block(patterns)
        self.last_call: tuple[float, tuple[int, ...]] | None = None  # its beta, and the shape of its states
        self.basins: Basins | None = None

    def __call__(
        self, xi: NumpyArray, beta: float, logits: Product, dense: Product, active: slice
    ) -> tuple[NumpyArray, NumpyArray]:
        """Σ w_k · value_k with w = exp(logit − largest logit), (rows, v), and the largest logit (rows, 1); to be read.

        logits: the logits of some rows with all memories, which may be overwritten
        dense:  the product of weights with the values
        active: the rows that matter
        """
        xi = np.ascontiguousarray(xi)  # the order of a sum, and so its bits, may depend on the layout
        n, idle = len(xi), np.ones(len(xi), dtype=bool)
        idle[active] = False
        if self.last_call == (beta, xi.shape):
            if self.basins is None:
                self.basins = Basins(self, n, beta)
            sums, top, stays = self.basins.at(xi)
            stays |= idle
            if stays.all():
                return sums, top[:, None]
            sums = sums + 0
        else:  # other chains, or a schedule of beta, which may change again at the next step
            self.last_call, self.basins = (beta, xi.shape), None
            sums, top = np.empty((n, self.values.shape[1]), xi.dtype), np.empty(n, xi.dtype)
            stays = np.zeros(n, dtype=bool)
        rows = np.flatnonzero(~self._in_whole_blocks(stays))
        for part in row_blocks(xi[rows], len(self.patterns)):
            chains = rows[part]
            chain_logits = logits(xi[chains])
            largest = Largest.of(chain_logits, idle[chains])
            if self.basins is not None:
                self.basins.note(chains, xi[chains], chain_logits, largest.best, self._in_whole_blocks(largest.alone))
            sums[chains] = sparse_sums(chain_logits, largest, self.values, dense)
            # In a basin, the largest logit has the bits that `Basins.at` gives it.
            best_logits = beta * row_dot(self.patterns[largest.best], xi[chains]) + self.log_r[largest.best]
            top[chains] = np.where(largest.alone, best_logits, largest.top)
        return sums, top[:, None]

    def _in_whole_blocks(self, holds: NumpyArray) -> NumpyArray:
        """Whether something holds for all rows of the block of each row, because products are made of whole blocks."""
        size = self.rows_in_block if len(holds) % self.rows_in_block == 0 else len(holds)
        return holds.reshape(-1, size).all(1).repeat(size)


class Basins:
    """The basins of chains at one beta: where a product found them, and how far each chain may go from there."""

    def __init__(self, bank: BasinSums, n: int, beta: float) -> None:
        self.bank, self.beta = bank, beta
        (K, r), dtype, v = bank.patterns.shape, bank.patterns.dtype, bank.values.shape[1]
        self.squares = norms_squared(bank.patterns)
        self.max_norm = float(np.sqrt(self.squares.max()))
        # A sum of r products is off by at most r roundings of the product of the norms; four such sums are compared.
        self.rounding = 4 * (r + 4) * float(np.finfo(dtype).eps)
        finite = bank.log_r[np.isfinite(bank.log_r)]
        self.offset_rounding = 4 * float(np.finfo(dtype).eps) * float(np.abs(finite).max())
        self.begin, self.best = np.zeros((n, r), dtype), np.full(n, -1)
        self.sums = np.ones((n, v), dtype)  # of idle rows, which are never noted, and whose weights must not be zero
        self.reach, self.margin = np.zeros(n, dtype), np.zeros(n, dtype)
        # Each chain's memory, and after it the rivals of that.
        self.memories, self.offsets = np.zeros((n, 1 + N_RIVALS, r), dtype), np.zeros((n, 1 + N_RIVALS), dtype)
        # inverse distances take long to compute and much room, so a few are kept
        self.inverse_distances = np.ones((n, K), dtype) if n * K <= MAX_ENTRIES else None

    def at(self, xi: NumpyArray) -> tuple[NumpyArray, NumpyArray, NumpyArray]:
        """The value of each chain's memory (rows, v), its logit (rows,), and whether all other weights are negligible.

        That is certain where it is True, and may hold elsewhere.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # a chain that is not finite is in no basin
            logits = self.beta * row_dot(self.memories, xi[:, None]) + self.offsets
            moved = np.sqrt(norms_squared(xi - self.begin)) * (1 + self.rounding)
            stays = (moved < self.reach) & (logits[:, 1:].max(1) + self.margin < logits[:, 0])
        return self.sums, logits[:, 0], stays

    def note(self, rows: NumpyArray, xi: NumpyArray, logits: NumpyArray, best: NumpyArray, alone: NumpyArray) -> None:
        """Note what holds around xi (rows, r), with logits (rows, K), for those chains whose memory is alone."""
        if not alone.all():
            rows, xi, logits, best = rows[alone], xi[alone], logits[alone], best[alone]
        bank, n, farthest = self.bank, np.arange(len(rows)), 2 * self.max_norm
        inverse = self._inverse(rows, best)
        self.begin[rows], self.best[rows], self.sums[rows] = xi, best, bank.values[best] + 0.0
        lengths = np.sqrt(norms_squared(xi)) + farthest
        rounding = self.rounding * self.beta * self.max_norm * lengths + self.offset_rounding
        self.margin[rows] = margin = rounding - negligible(xi.itemsize)
        # How far a chain is from where the weight of each other memory might no longer be negligible.
        with np.errstate(over="ignore", invalid="ignore"):
            free = ((logits[n, best] - margin)[:, None] - logits) * (inverse / self.beta)
        chosen = [best]
        for _ in range(N_RIVALS):
            free[n, chosen[-1]] = np.inf
            chosen.append(free.argmin(1))
        free[n, chosen[-1]] = np.inf
        self.reach[rows] = np.minimum(free.min(1), farthest)
        nearest = np.stack(chosen, 1)
        self.memories[rows], self.offsets[rows] = bank.patterns[nearest], bank.log_r[nearest]

    def _inverse(self, rows: NumpyArray, best: NumpyArray) -> NumpyArray:
        """1 / ‖m − m'‖ of the memory m of some chains and all memories m', or less by rounding: (rows, K)."""
        kept, new = self.inverse_distances, best != self.best[rows]
        chosen = best if kept is None else best[new]
        squares = self.squares[chosen, None] + self.squares
        gaps = np.maximum(squares - 2 * (self.bank.patterns[chosen] @ self.bank.patterns.T), 0)
        with np.errstate(divide="ignore"):  # where squares underflow, no chain has a reach
            inverse: NumpyArray = 1 / np.sqrt(gaps + self.rounding * squares)
        if kept is None:
            return inverse
        kept[rows[new]] = inverse
        return np.asarray(kept[rows])
