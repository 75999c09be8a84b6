"""Seeds and random streams: the numbers of chain i at step t depend on (seed, i, t) and on nothing else.

On the CPU they are made by numpy for every array library, so numpy and torch chains see the same noise; for chains on
a CUDA device see `_philox`. Here time is cut into epochs; each (purpose, chain, epoch) has its own generator, derived
by `SeedSequence` and never by arithmetic on seeds. A run can therefore start at any step without a saved
generator state.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import IntEnum
from typing import Any, Self

import numpy as np

from .arrays import Array, like, rows_in_block, to_numpy

EPOCH = 1024  # steps
BLOCK_BYTES = 2**21  # of noise made at once; two blocks are alive at a time


class Purpose(IntEnum):
    """What a stream is for; part of its key, so that no two uses share numbers."""

    STEP = 0
    SQUARE = 1
    ACCEPT = 2
    MEMORY = 3
    KEPT = 4
    START = 5
    ORDER = 6
    DRAW = 7
    HEAD = 8
    REST = 9
    RULE = 10
    DECODE = 11


def seed_of(rng: Any) -> int:
    """A seed from `rng`: a whole number, a numpy or torch Generator (which advances), or None for fresh entropy."""
    if rng is None:
        return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    if hasattr(rng, "initial_seed") and hasattr(rng, "manual_seed"):
        import torch

        return int(torch.randint(2**63 - 1, (), generator=rng, device=rng.device))
    try:
        seed = operator.index(rng)
    except TypeError:
        raise TypeError(
            f"rng must be a whole number, a numpy Generator, a torch Generator or None; got {type(rng).__name__}."
        ) from None
    if isinstance(rng, bool) or seed < 0:
        raise ValueError(f"rng must be a non-negative whole number when it is a seed; got {rng!r}.")
    return seed


def generator(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """The generator of one stream. SFC64 is numpy's fastest source of normals."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(int(purpose), *key))))


class Streams(ABC):
    """The random numbers of a batch of chains, a row each, at the current `step`; rows without a chain get zeros.

    `busy` is the slice of the rows that hold `chains`, in order.
    """

    seed: int
    chains: range
    reference: Array
    step: int
    rows: int
    busy: slice

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    @abstractmethod
    def normal(self, width: int) -> Array:
        """Standard normals for this step: (rows, width)."""

    @abstractmethod
    def normal_outside(self) -> Array:
        """Two standard normals for the part of a state outside the span: (rows, 2)."""

    @abstractmethod
    def chi_square(self, degrees: int) -> Array:
        """Chi-square numbers for this step: (rows, 1)."""

    @abstractmethod
    def exponential(self) -> Array:
        """Standard exponentials, −log u, for this step: (rows, 1)."""

    @abstractmethod
    def uniform(self) -> Array:
        """Uniform numbers in [0, 1) for this step, in float64: (rows, 1)."""

    @abstractmethod
    def at_kept(self, width: int, rows: slice = slice(None)) -> Array:
        """Standard normals for what is drawn only when a state is kept, for all rows or a slice: (rows, width)."""

    @abstractmethod
    def at_start(self, width: int) -> Array:
        """Standard normals for the start: (rows, width)."""

    @abstractmethod
    def uniform_at_start(self) -> Any:
        """Uniform numbers in [0, 1) for the start of each chain: numpy, (n_chains,)."""


class Tapes(Streams):
    """Streams made by numpy.

    Chain i sits at row i mod 8, or 32, of its block (see `_arrays.rows_times`). A lone chain has the only row.
    """

    def __init__(
        self, seed: int, chains: range, reference: Array, step: int = 0, end: int = 0, lone: bool = False
    ) -> None:
        self.seed, self.chains, self.reference = seed, chains, reference
        self.step, self.end = step, end
        block = 1 if lone else rows_in_block(reference)
        first = chains.start % block
        self.rows = -(-(first + len(chains)) // block) * block
        self.busy = slice(first, first + len(chains))
        self._tapes: dict[Purpose, _Tape] = {}
        self._worker = ThreadPoolExecutor(max_workers=1)

    def __exit__(self, *error: object) -> None:
        self._worker.shutdown(wait=True, cancel_futures=True)

    def normal(self, width: int) -> Array:
        return self._row(Purpose.STEP, width, lambda rng, out: rng.standard_normal(out=out, dtype=out.dtype))

    def normal_outside(self) -> Array:
        return self._row(Purpose.REST, 2, lambda rng, out: rng.standard_normal(out=out, dtype=out.dtype))

    def chi_square(self, degrees: int) -> Array:
        def fill(rng: np.random.Generator, out: Any) -> None:
            rng.standard_gamma(degrees / 2, out=out, dtype=out.dtype)
            out *= 2

        return self._row(Purpose.SQUARE, 1, fill)

    def exponential(self) -> Array:
        return self._row(Purpose.ACCEPT, 1, lambda rng, out: rng.standard_exponential(out=out, dtype=out.dtype))

    def uniform(self) -> Array:
        return self._row(Purpose.MEMORY, 1, lambda rng, out: rng.random(out=out))

    def at_kept(self, width: int, rows: slice = slice(None)) -> Array:
        return self._for_each_chain(width, lambda chain, out: self._fill(Purpose.KEPT, (chain, self.step), out), rows)

    def at_start(self, width: int) -> Array:
        return self._for_each_chain(width, lambda chain, out: self._fill(Purpose.START, (chain,), out))

    def uniform_at_start(self) -> Any:
        return np.array([generator(self.seed, Purpose.START, chain, 1).random() for chain in self.chains])

    def _for_each_chain(self, width: int, fill: Callable[[int, Any], object], rows: slice = slice(None)) -> Array:
        """An array of width columns for a slice of the rows, whose busy rows are filled one chain at a time."""
        begin, end, _ = rows.indices(self.rows)
        out = np.zeros((end - begin, width), dtype=self._dtype)
        for row in range(max(begin, self.busy.start), min(end, self.busy.stop)):
            fill(self.chains[row - self.busy.start], out[row - begin])
        return like(out, self.reference)

    def _fill(self, purpose: Purpose, key: tuple[int, ...], out: Any) -> None:
        generator(self.seed, purpose, *key).standard_normal(out=out, dtype=out.dtype)

    @property
    def _dtype(self) -> Any:
        return np.float32 if to_numpy(self.reference[:0]).dtype == np.float32 else np.float64

    def _row(self, purpose: Purpose, width: int, fill: Callable[[np.random.Generator, Any], object]) -> Array:
        tape = self._tapes.get(purpose)
        if tape is None:
            tape = self._tapes[purpose] = _Tape(self, purpose, width, fill)
        if tape.width != width:  # a second tape would repeat the first one's numbers
            raise ValueError(f"width must be {tape.width}, as at the first call for {purpose.name}; got {width}.")
        return tape.row(self.step)


class _Tape:
    """One purpose's numbers for all chains, made in blocks of steps by a worker thread, one block ahead.

    numpy releases the interpreter while it fills a block, so the next block is made beside the chain's arithmetic.
    """

    def __init__(
        self, streams: Tapes, purpose: Purpose, width: int, fill: Callable[[np.random.Generator, Any], object]
    ) -> None:
        self.streams, self.purpose, self.width, self.fill = streams, purpose, width, fill
        # A float32 uniform has 24 bits: too few to pick among a million memories.
        self.dtype = np.float64 if purpose == Purpose.MEMORY else streams._dtype
        bytes_a_step = streams.rows * width * np.dtype(self.dtype).itemsize
        self.block_steps = min(max(BLOCK_BYTES // bytes_a_step, 1), EPOCH)
        self.begin = self.stop = 0
        self.block: Array = None
        self.epoch = -1
        self.generators: list[np.random.Generator] = []
        self.ahead: Future[tuple[int, int, Any]] | None = None

    def row(self, step: int) -> Array:
        if not self.begin <= step < self.stop:
            begin, stop, block = self.ahead.result() if self.ahead is not None else self._make(step)
            self.begin, self.stop = begin, stop
            self.block = like(block, self.streams.reference, keep_dtype=True)
            more = stop < self.streams.end
            self.ahead = self.streams._worker.submit(self._make, stop) if more else None
        return self.block[step - self.begin]

    def _make(self, step: int) -> tuple[int, int, Any]:
        epoch, offset = divmod(step, EPOCH)
        chains = self.streams.chains
        if epoch != self.epoch:
            self.epoch = epoch
            self.generators = [generator(self.streams.seed, self.purpose, chain, epoch) for chain in chains]
            if offset:  # started in the middle of an epoch: pass over what earlier steps used
                for rng in self.generators:
                    self.fill(rng, np.empty((offset, self.width), dtype=self.dtype))
        steps = min(self.block_steps, EPOCH - offset, max(self.streams.end - step, 1))
        block = np.zeros((self.streams.rows, steps, self.width), dtype=self.dtype)
        for row, rng in zip(block[self.streams.busy], self.generators, strict=True):
            self.fill(rng, row)
        return step, step + steps, np.ascontiguousarray(block.swapaxes(0, 1))  # a step's numbers side by side
