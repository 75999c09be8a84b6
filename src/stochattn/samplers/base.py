"""What a sampler is: two functions over a batch of chains. The loop that drives them is in `loop.py`.

To add a sampler, write a file with one function `(space, alpha) -> Sampler` and name it in `SAMPLERS` (`loop.py`); the
contract tests pick it up from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .._backend.arrays import (
    Array,
    concatenate,
    full,
    namespace,
    row_product,
    rows_in_block,
    shifted_exp_inplace,
    to_numpy,
    transposed,
)
from .._backend.random import Streams
from ..core.energy import attends_in_blocks
from ..core.memory import MemoryBank
from ..core.neighbors import nearest_index
from ..storage.blockwise import ENTRIES, attention, row_blocks
from .subspace import Rest


class State(NamedTuple):
    """A batch of chains; rows beyond the chains that were asked for are idle."""

    xi: Array  # (rows, r) positions in the space where the chains run
    rest: Any  # a subspace.Rest: what lies outside that space
    pull: Array = None  # (rows, r) attend(xi), for samplers that need it twice
    level: Array = None  # (rows, 1) what an acceptance ratio compares, see mala.py
    beta: float = 0.0  # at which these were computed


class Sampler(NamedTuple):
    """`init(xi, rest, beta) -> State` and `advance(noise, state, beta, steps) -> (State, refused)`.

    It takes that many steps from the one that the streams are at, and leaves `state` as it is.
    `refused` (rows, 1) counts the proposals that each chain refused, or is None where every chain moved each time.
    `rest` is the kind of `subspace.Rest` that this sampler's law has outside the span.
    """

    init: Callable[[Array, Rest, float], State]
    advance: Callable[[Streams, State, float, int], tuple[State, Array]]
    rest: type[Any]
    field: Any = None  # the Field it uses, if any, for others to use too


class Field:
    """The attention of a bank on a batch of chains; each row's bits are the same in any company.

    Many memories are attended to in blocks, which depend on the bank alone; a file of them is read at every step.
    """

    def __init__(self, bank: MemoryBank) -> None:
        self.patterns = bank.patterns
        self.in_blocks = attends_in_blocks(bank)
        self.log_r = bank.log_r if to_numpy(bank.log_r).any() else None
        self.half_squares = bank.norms_squared / 2
        self._overlaps: tuple[float, Callable[[Array], Array]] | None = None
        self._at_once = ENTRIES // len(self.patterns)  # rows whose logits may exist at one time, at least
        if not self.in_blocks:
            ones = full((len(self.patterns), 1), 1.0, self.patterns)
            # A last column of ones: the sum of the weights comes of the same product as the pull.
            self._sums = row_product(concatenate((self.patterns, ones), 1), rows_in_block(self.patterns))

    def pull(self, xi: Array, beta: float, factor: float = 1.0) -> Array:
        """`factor` times attend(xi) (Eq. 4): (rows, r) -> (rows, r)."""
        return self._attend(xi, beta, factor)[0]

    def at(self, xi: Array, beta: float) -> tuple[Array, Array]:
        """attend(xi), and the log-sum-exp of the logits: (rows, r) -> (rows, r), (rows, 1)."""
        pull, total, top = self._attend(xi, beta)
        return pull, top + namespace(total).log(total)

    def nearest(self, xi: Array) -> Array:
        """The memory at the least distance from each row: (rows, r) -> (rows,)."""
        return nearest_index(xi, self.patterns, self.half_squares, row_stable=True)

    def _attend(self, xi: Array, beta: float, factor: float = 1.0) -> tuple[Array, Array, Array]:
        if self.in_blocks:
            sums = attention(xi, self.patterns, self.log_r, beta, values=self.patterns, row_stable=True)
            return sums.mean * factor, sums.total, sums.top
        if len(xi) > self._at_once and len(parts_of := row_blocks(xi, len(self.patterns))) > 1:
            parts = [self._attend(xi[rows], beta, factor) for rows in parts_of]
            pull, total, top = (concatenate(field) for field in zip(*parts, strict=True))
            return pull, total, top
        logits = self._logits_at(beta)(xi)
        if self.log_r is not None:
            logits += self.log_r
        top = shifted_exp_inplace(logits)  # logits now holds the unnormalised weights
        sums = self._sums(logits)
        total = sums[:, -1:]
        return sums[:, :-1] * (factor / total), total, top

    def _logits_at(self, beta: float) -> Callable[[Array], Array]:
        """Logits without their multiplicities, xi (rows, r) -> (rows, K); the last one asked for is kept."""
        if self._overlaps is None or beta != self._overlaps[0]:
            self._overlaps = beta, row_product(transposed(self.patterns) * beta)
        return self._overlaps[1]
