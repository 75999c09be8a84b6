"""Chains that stay in the basin of one memory, recognised without a product over all memories.

Where one logit exceeds all others so far that their weights round to nothing, attention is that memory. When a chain
moves by delta, the logits of two memories approach each other by at most beta ‖m − m'‖ ‖delta‖. So after one product
over all memories, each chain has a distance within which only a few rivals can come near, and their logits alone are
computed at each step. At the paper's temperatures, the next product follows some ten steps later. The bound includes
the rounding of logits, so the bits of a chain are the same as with a product at each step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._backend.arrays import NumpyArray, norms_squared, row_dot
from .._backend.products import rows_in_block
from ..storage.blockwise import MAX_ENTRIES, row_blocks
from .sparse import Largest, negligible, sparse_sums

Product = Callable[[NumpyArray], NumpyArray]
N_RIVALS = 3  # equivalent: memories whose logits are computed at each step, a number that changes the time alone


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
            some = rows[part]
            found = logits(xi[some])
            largest = Largest.of(found, idle[some])
            if self.basins is not None:
                self.basins.note(some, xi[some], found, largest.best, self._in_whole_blocks(largest.alone))
            sums[some] = sparse_sums(found, largest, self.values, dense)
            # In a basin, the largest logit has the bits that `Basins.at` gives it.
            own = beta * row_dot(self.patterns[largest.best], xi[some]) + self.log_r[largest.best]
            top[some] = np.where(largest.alone, own, largest.top)
        return sums, top[:, None]

    def _in_whole_blocks(self, holds: NumpyArray) -> NumpyArray:
        """Whether something holds for all rows of the block of each row: products are made of whole blocks."""
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
        # equivalent: inverse distances take long to compute and much room, so a few are kept
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
        """Note what holds around xi for some chains with logits (rows, K), those of them whose memory is alone."""
        if not alone.all():  # equivalent: what was noted before still holds for the others, and saves time
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
        found: NumpyArray = kept[rows]
        return found
