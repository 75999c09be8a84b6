"""The interface of a sampler, and the attention that samplers evaluate. The loop that drives them is in `loop.py`.

To add a sampler, write a file with its options (a frozen dataclass), its state (a NamedTuple) and a subclass of
`Sampler`, and register it by one line: in `SAMPLERS` of `plan.py`, or by `stochattn.register_sampler` from outside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from .._backend.arrays import Array, concatenate, full, is_torch, namespace, to_numpy, transpose
from .._backend.products import row_product, rows_in_block, shifted_exp_inplace
from .._backend.random import Streams
from ..core.energy import attends_in_blocks
from ..core.memory import MemoryBank
from ..core.neighbors import nearest_index
from ..storage.blockwise import MAX_ENTRIES, attention, row_blocks
from .attention import MIN_SPARSE_NUMBERS, BasinSums
from .complement import NoComplement, Space

StateT = TypeVar("StateT")
"""The state of a batch of chains: a NamedTuple of arrays with one row per chain, and of numbers that all share.

It has the fields `xi` (rows, r), positions in the space where the chains run, and `complement`, their part outside it.
Rows beyond the chains of a run are idle."""


class ChainAttention:
    """attend(xi) for a batch of chains; the bits of each row do not depend on the other rows.

    Many memories are processed in blocks, which depend on the bank alone; a file of memories is read at every step.
    """

    has_kernel: ClassVar[bool] = True  # whether a kernel may evaluate it on a device, with the memories of the bank
    active_rows = slice(None)  # rows whose result matters; a run sets them

    def __init__(self, bank: MemoryBank) -> None:
        self.patterns = bank.patterns
        self.in_blocks = attends_in_blocks(bank)
        self.log_r = bank.log_r if to_numpy(bank.log_r).any() else None
        self.half_squares = bank.norms_squared / 2
        self._overlaps: tuple[float, Callable[[Array], Array]] | None = None  # at the last beta
        # Rows whose logits may exist at one time, at least.
        self._max_rows = MAX_ENTRIES // len(self.patterns)
        if not self.in_blocks:
            ones = full((len(self.patterns), 1), 1.0, self.patterns)
            # With a last column of ones, one product gives the weighted sum of the memories and of the weights.
            values = concatenate((self.patterns, ones), 1)
            self._sums = row_product(values, rows_in_block(self.patterns))
            is_large = len(values) * values.shape[1] >= MIN_SPARSE_NUMBERS and not is_torch(values)
            self._basins = BasinSums(self.patterns, values, self.log_r) if is_large else None

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
        """attend(xi) times `factor`, the sum of the weights relative to the largest, and the largest logit."""
        if self.in_blocks:
            sums = attention(xi, self.patterns, self.log_r, beta, values=self.patterns, row_stable=True)
            return sums.mean * factor, sums.total, sums.top
        if self._basins is None:
            weighted, top = self._in_parts(xi, beta)
        else:
            logits = partial(self._logits, beta=beta)
            weighted, top = self._basins(xi, beta, logits, self._sums, self.active_rows)
        total = weighted[:, -1:]
        return weighted[:, :-1] * (factor / total), total, top

    def _in_parts(self, xi: Array, beta: float) -> tuple[Array, Array]:
        """Weighted sums of the memories and of the weights, and the largest logits, of some rows at a time."""
        if len(xi) > self._max_rows and len(blocks := row_blocks(xi, len(self.patterns))) > 1:
            parts = [self._in_parts(xi[rows], beta) for rows in blocks]
            weighted, top = (concatenate(part) for part in zip(*parts, strict=True))
            return weighted, top
        logits = self._logits(xi, beta)
        top = shifted_exp_inplace(logits)  # logits now holds the unnormalised weights
        return self._sums(logits), top

    def _logits(self, xi: Array, beta: float) -> Array:
        """beta X xi + log r: (rows, r) -> (rows, K)."""
        if self._overlaps is None or beta != self._overlaps[0]:
            self._overlaps = beta, row_product(transpose(self.patterns) * beta)
        logits = self._overlaps[1](xi)
        if self.log_r is not None:
            logits += self.log_r
        return logits


class Sampler(ABC, Generic[StateT]):
    """An algorithm that advances a batch of chains in `space`; called as sampler(space, options)."""

    Options: ClassVar[type]  # a frozen dataclass that checks its fields, which are keyword arguments of `run`
    State: ClassVar[Any]  # the NamedTuple that `init` and `advance` return
    Outside: ClassVar[Any]  # the complement of the states where the space is smaller than d; else it is `NoComplement`
    independent: ClassVar[bool] = False  # whether every step is a new draw, so that only the last of several is made
    attention: ChainAttention | None = None  # what the sampler evaluates, and the record of the run then shares
    space: Space

    @abstractmethod
    def init(self, noise: Streams, x: Array, beta: float) -> StateT:
        """The state at starting positions x (rows, d) in the full space."""

    @abstractmethod
    def advance(self, noise: Streams, state: StateT, beta: float, steps: int) -> tuple[StateT, Array | None]:
        """The state after that many steps, and how many proposals each chain rejected (rows, 1), or None for none.

        `noise` is at the first of these steps, and the sampler moves it on. The arrays of `state` must not change.
        """

    def fused(self) -> Callable[..., tuple[StateT, Array | None] | None] | None:
        """`advance` as one launch on a device, which returns None for states that it cannot hold; None without one."""
        return None

    def restore(self, values: Mapping[str, Array | float]) -> StateT:
        """The state that `state_values` wrote as arrays and numbers by name."""
        outside = self.Outside if self.space.codimension else NoComplement
        complement = outside(*(values[f"complement.{name}"] for name in outside._fields))
        by_name = {**values, "complement": complement}
        state: StateT = self.State(*(by_name[name] for name in self.State._fields))
        return state


def state_values(state: Any) -> dict[str, Array | float]:
    """The arrays and numbers of a state by name; those of the complement are named complement.field."""
    outside = {f"complement.{name}": value for name, value in state.complement._asdict().items()}
    return {name: value for name, value in state._asdict().items() if name != "complement"} | outside


def map_arrays(function: Callable[..., Array], *tuples: Any) -> Any:
    """A NamedTuple of the function's values for the arrays of each field, and of the numbers of the first tuple."""

    def apply(field: Any, *others: Any) -> Any:
        if isinstance(field, tuple):
            return map_arrays(function, field, *others)
        return function(field, *others) if np.ndim(field) else field

    return type(tuples[0])(*map(apply, *tuples))
