"""The attention of a bank on a batch of chains, as the samplers need it at every step."""

from __future__ import annotations

from collections.abc import Callable

from .._backend.arrays import Array, concatenate, full, namespace, to_numpy, transposed
from .._backend.products import row_product, rows_in_block, shifted_exp_inplace
from ..core.energy import attends_in_blocks
from ..core.memory import MemoryBank
from ..core.neighbors import nearest_index
from ..storage.blockwise import MAX_ENTRIES, attention, row_blocks


class ChainAttention:
    """attend(xi) for a batch of chains; the bits of each row do not depend on the other rows.

    Many memories are processed in blocks, which depend on the bank alone; a file of memories is read at every step.
    """

    def __init__(self, bank: MemoryBank) -> None:
        self.patterns = bank.patterns
        self.in_blocks = attends_in_blocks(bank)
        self.log_r = bank.log_r if to_numpy(bank.log_r).any() else None
        self.half_squares = bank.norms_squared / 2
        self._overlaps: tuple[float, Callable[[Array], Array]] | None = None
        self._max_rows = MAX_ENTRIES // len(self.patterns)  # rows whose logits may exist at one time, at least
        if not self.in_blocks:
            ones = full((len(self.patterns), 1), 1.0, self.patterns)
            # With a last column of ones, one product gives the weighted sum of the memories and of the weights.
            self._sums = row_product(concatenate((self.patterns, ones), 1), rows_in_block(self.patterns))

    def attend(self, xi: Array, beta: float, factor: float = 1.0) -> Array:
        """T(xi) of Eq. 4, times `factor`: (rows, r) -> (rows, r)."""
        return self._attend(xi, beta, factor)[0]

    def evaluate(self, xi: Array, beta: float) -> tuple[Array, Array]:
        """attend(xi), and the log-sum-exp of the logits: (rows, r) -> (rows, r), (rows, 1)."""
        attended, total, top = self._attend(xi, beta)
        return attended, top + namespace(total).log(total)

    def nearest(self, xi: Array) -> Array:
        """The memory at the least distance from each row: (rows, r) -> (rows,)."""
        return nearest_index(xi, self.patterns, self.half_squares, row_stable=True)

    def _attend(self, xi: Array, beta: float, factor: float = 1.0) -> tuple[Array, Array, Array]:
        if self.in_blocks:
            sums = attention(xi, self.patterns, self.log_r, beta, values=self.patterns, row_stable=True)
            return sums.mean * factor, sums.total, sums.top
        if len(xi) > self._max_rows and len(blocks := row_blocks(xi, len(self.patterns))) > 1:
            parts = [self._attend(xi[rows], beta, factor) for rows in blocks]
            attended, total, top = (concatenate(part) for part in zip(*parts, strict=True))
            return attended, total, top
        logits = self._logits_at(beta)(xi)
        if self.log_r is not None:
            logits += self.log_r
        top = shifted_exp_inplace(logits)  # logits now holds the unnormalised weights
        weighted = self._sums(logits)
        total = weighted[:, -1:]
        return weighted[:, :-1] * (factor / total), total, top

    def _logits_at(self, beta: float) -> Callable[[Array], Array]:
        """Logits without their multiplicities, xi (rows, r) -> (rows, K); cached for the last beta."""
        if self._overlaps is None or beta != self._overlaps[0]:
            self._overlaps = beta, row_product(transposed(self.patterns) * beta)
        return self._overlaps[1]
