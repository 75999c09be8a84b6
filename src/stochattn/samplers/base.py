"""The interface of a sampler, and the attention that samplers evaluate. The loop that drives them is in `loop.py`.

To add a sampler, write a file with its options (a frozen dataclass), its state (a NamedTuple) and a subclass of
`Sampler`, and register it by one line: in `SAMPLERS` of `plan.py`, or by `stochattn.register_sampler` from outside.

At a large beta, the weights of most memories round to zero, and sums are over the few others. Rows with few and with
many such memories have different orders of summation, which depend on that row alone, and so do its bits.

A chain may stay in the basin of one memory, whose logit exceeds all others so far that their weights round to zero:
attention is then that memory. When a chain moves by delta, the logits of two memories approach each other by at most
beta ‖m − m'‖ ‖delta‖. So one product over all memories gives each chain a distance within which only a few rivals can
come near, and only their logits are computed at each step. At the paper's temperatures, the next product follows some
ten steps later. The bound includes the rounding of logits: a chain has the bits of one with a product at each step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from .._backend import arrays
from .._backend.arrays import Array, NumpyArray, norms_squared, row_dot, to_numpy
from .._backend.products import row_product, rows_in_block, shifted_exp_inplace
from .._backend.random import Streams
from ..core.energy import attends_in_blocks
from ..core.memory import MemoryBank
from ..core.neighbors import nearest_index
from ..storage.blockwise import MAX_ENTRIES, attention, row_blocks
from .complement import NoComplement, Space

StateT = TypeVar("StateT")
"""The state of a batch of chains: a NamedTuple of arrays with one row per chain, and of numbers that all share.

It has the fields `xi` (rows, r), positions in the space where the chains run, and `complement`, their part outside it.
Rows beyond the chains of a run are idle."""


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
    values = []
    for fields in zip(*tuples, strict=True):
        if isinstance(fields[0], tuple):
            values.append(map_arrays(function, *fields))
        else:
            values.append(function(*fields) if np.ndim(fields[0]) else fields[0])
    return type(tuples[0])(*values)


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
        if not self.in_blocks:
            ones = arrays.full((len(self.patterns), 1), 1.0, self.patterns)
            # With a last column of ones, one product gives the weighted sum of the memories and of the weights.
            values = arrays.concatenate((self.patterns, ones), 1)
            self._sums = row_product(values, rows_in_block(self.patterns))
            is_large = len(values) * values.shape[1] >= MIN_SPARSE_NUMBERS and not arrays.is_torch(values)
            self._basins = BasinSums(self.patterns, values, self.log_r) if is_large else None

    def attend(self, xi: Array, beta: float, factor: float = 1.0) -> Array:
        """T(xi) of Eq. 4, times `factor`: (rows, r) -> (rows, r)."""
        return self._attend(xi, beta, factor)[0]

    def evaluate(self, xi: Array, beta: float) -> tuple[Array, Array]:
        """attend(xi), and the log-sum-exp of the logits: (rows, r) -> (rows, r), (rows, 1)."""
        attended, total, top = self._attend(xi, beta)
        return attended, top + arrays.namespace(total).log(total)

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
        if len(xi) * len(self.patterns) > MAX_ENTRIES and len(blocks := row_blocks(xi, len(self.patterns))) > 1:
            parts = [self._in_parts(xi[rows], beta) for rows in blocks]
            weighted, top = (arrays.concatenate(part) for part in zip(*parts, strict=True))
            return weighted, top
        logits = self._logits(xi, beta)
        top = shifted_exp_inplace(logits)  # logits now holds the unnormalized weights
        return self._sums(logits), top

    def _logits(self, xi: Array, beta: float) -> Array:
        """beta X xi + log r: (rows, r) -> (rows, K)."""
        if self._overlaps is None or beta != self._overlaps[0]:
            self._overlaps = beta, row_product(arrays.transpose(self.patterns) * beta)
        logits = self._overlaps[1](xi)
        if self.log_r is not None:
            logits += self.log_r
        return logits


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
    """The sums of rows with few memories, added in their order; zero for rows whose count is zero."""
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
