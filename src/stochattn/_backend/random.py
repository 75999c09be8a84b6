"""Seeds and random streams: the numbers of chain i at step t depend on (seed, i, t) and on nothing else.

On the CPU numpy generates them for both array libraries; for chains on a CUDA device see `kernels/philox.py`. Each
(purpose, chain, epoch of steps) has its own generator, derived by `SeedSequence` and never by arithmetic on seeds. A
run can therefore start at any step without a saved generator state.

`SeedSequence` takes 11 µs per generator, which for thousands of chains is longer than a short run. Its hash is fixed by
numpy's compatibility policy (NEP 19), so `generators` computes the same words for all keys (prefix, i, suffix) in one
pass; numpy still computes the part that all keys share.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol, Self, SupportsIndex, TypeAlias

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from .arrays import Array, like
from .products import rows_in_block

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Generator

    Words = npt.NDArray[np.uint32]
    SeedLike: TypeAlias = SupportsIndex | np.random.Generator | Generator | None
    """What the `rng` of every function takes (see `seed_of`)."""
    Floats: TypeAlias = npt.NDArray[np.floating]
    Fill: TypeAlias = Callable[[np.random.Generator, Floats], object]  # fills an array with the numbers of a generator
else:
    SeedLike = object

POOL = 4  # words of entropy that SeedSequence keeps
WORD = 2**32
# The constants of `numpy/random/bit_generator.pyx`.
FIRST_A, FACTOR_A, FIRST_B, FACTOR_B = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
MIX_LEFT, MIX_RIGHT, SHIFT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715), np.uint32(16)
MIN_KEYS = 12
STATE_WORDS = 6  # of 32 bits: the three numbers of 64 bits that SFC64 asks for


class _Seeded(ISeedSequence):
    """The words of a SeedSequence that were computed before."""

    def __init__(self, words: npt.NDArray[np.uint64]) -> None:
        self.words = words

    def generate_state(self, n_words: int, dtype: npt.DTypeLike = np.uint32) -> npt.NDArray[np.uint64]:
        """The words (3,) that SFC64 asks for; no other generator is seeded by this class."""
        return self.words


def generators(seed: int, prefix: int, keys: range, suffix: Sequence[int]) -> Iterator[np.random.Generator]:
    """One generator per key i, as `Generator(SFC64(SeedSequence(seed, spawn_key=(prefix, i, *suffix))))`."""
    # A larger key takes two words of entropy, and for few keys one at a time is faster.
    if max(keys.stop, 0, *suffix) >= WORD or len(keys) < MIN_KEYS:
        for key in keys:
            sequence = np.random.SeedSequence(seed, spawn_key=(prefix, key, *suffix))
            yield np.random.Generator(np.random.SFC64(sequence))
        return
    for words in _state_words(seed, prefix, keys, suffix):
        yield np.random.Generator(np.random.SFC64(_Seeded(words)))  # type: ignore[arg-type]


def _state_words(seed: int, prefix: int, keys: range, suffix: Sequence[int]) -> npt.NDArray[np.uint64]:
    """What `SeedSequence(seed, spawn_key=(prefix, i, *suffix)).generate_state(3, np.uint64)` returns: (keys, 3)."""
    shared = np.random.SeedSequence(seed, spawn_key=(prefix,))
    seed_words = max(-(-seed.bit_length() // 32), POOL)  # a short seed is padded with zeros
    hashed = POOL * (seed_words + 1)  # POOL² for the first words, and POOL for each later one
    pool: list[Words] = [np.full(len(keys), word, np.uint32) for word in shared.pool]
    columns = [np.arange(keys.start, keys.stop, dtype=np.uint32), *(np.array([key], np.uint32) for key in suffix)]
    for column in columns:
        for i in range(POOL):
            constant, hashed = FIRST_A * pow(FACTOR_A, hashed, WORD) % WORD, hashed + 1
            mixed = np.subtract(pool[i] * MIX_LEFT, _hash(column, constant, FACTOR_A) * MIX_RIGHT, dtype=np.uint32)
            pool[i] = mixed ^ (mixed >> SHIFT)
    constants = [FIRST_B * pow(FACTOR_B, i, WORD) % WORD for i in range(STATE_WORDS)]
    state = [_hash(pool[i % POOL], constant, FACTOR_B) for i, constant in enumerate(constants)]
    return np.stack(state, 1).astype("<u4").view("<u8").astype(np.uint64)


def _hash(words: Words, constant: int, factor: int) -> Words:
    words = (words ^ np.uint32(constant)) * np.uint32(constant * factor % WORD)
    return words ^ (words >> SHIFT)


EPOCH = 1024  # steps
BLOCK_BYTES = 2**21  # of noise generated at once; two blocks exist at a time


class Purpose(IntEnum):
    """The use of a stream; part of its key, so that no two uses share numbers."""

    STEP, SQUARE, ACCEPT, MEMORY, KEPT, START, ORDER, DRAW, HEAD, COMPLEMENT, RULE, DECODE, REDRAW = range(13)


def seed_of(rng: SeedLike) -> int:
    """A seed from `rng`: an integer, a numpy or torch Generator (which advances), or None for fresh entropy."""
    if rng is None:
        return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    if hasattr(rng, "initial_seed") and hasattr(rng, "manual_seed"):
        import torch

        return int(torch.randint(2**63 - 1, (), generator=rng, device=rng.device))  # type: ignore[union-attr]
    try:
        seed = operator.index(rng)
    except TypeError:
        rule = "rng must be an integer, a numpy Generator, a torch Generator or None"
        raise TypeError(f"{rule}; got {type(rng).__name__}.") from None
    if isinstance(rng, bool) or seed < 0:
        raise ValueError(f"rng must be a non-negative integer when it is a seed; got {rng!r}.")
    return seed


def generator(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """The generator of one stream; SFC64 is numpy's fastest source of normals."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(int(purpose), *key))))


class Streams(Protocol):
    """The random numbers of a batch of chains at the current `step`; rows outside `active_rows` are idle, at zero."""

    seed: int
    chains: range
    reference: Array
    step: int
    rows: int
    active_rows: slice

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def normal(self, width: int) -> Array: ...  # standard normals for this step: (rows, width)
    def normal_outside(self) -> Array: ...  # two of them for the part of a state outside the span: (rows, 2)
    def chi_square(self, degrees: int) -> Array: ...  # for this step: (rows, 1)
    def exponential(self) -> Array: ...  # standard exponentials, −log u, for this step: (rows, 1)
    def uniform(self) -> Array: ...  # in [0, 1), in float64, for this step: (rows, 1)
    def at_kept(self, width: int, rows: slice = slice(None)) -> Array: ...  # normals for kept states, of some rows
    def at_start(self, width: int) -> Array: ...  # standard normals for the starting positions: (rows, width)
    def uniform_at_start(self) -> Floats: ...  # in [0, 1), for the start of each chain: numpy, (n_chains,)


class NumpyStreams(Streams):
    """Streams generated by numpy. Chain i has row i mod 8, or 32, of its block (see `products.rows_times`)."""

    def __init__(self, seed: int, chains: range, reference: Array, step: int = 0, end: int = 0) -> None:
        self.seed, self.chains, self.reference, self.step, self.end = seed, chains, reference, step, end
        self.dtype: type[np.float32 | np.float64] = np.float32 if reference.itemsize == 4 else np.float64
        block = rows_in_block(reference)
        first = chains.start % block
        self.rows = -(-(first + len(chains)) // block) * block
        self.active_rows = slice(first, first + len(chains))
        self.worker = ThreadPoolExecutor(max_workers=1)
        self._by_purpose: dict[Purpose, _PurposeStream] = {}

    def __exit__(self, *error: object) -> None:
        self.worker.shutdown(wait=True, cancel_futures=True)

    def normal(self, width: int) -> Array:
        return self._row(Purpose.STEP, width, lambda rng, out: rng.standard_normal(out=out, dtype=out.dtype))

    def normal_outside(self) -> Array:
        return self._row(Purpose.COMPLEMENT, 2, lambda rng, out: rng.standard_normal(out=out, dtype=out.dtype))

    def chi_square(self, degrees: int) -> Array:
        shape = degrees / 2
        return 2 * self._row(Purpose.SQUARE, 1, lambda rng, out: rng.standard_gamma(shape, out=out, dtype=out.dtype))

    def exponential(self) -> Array:
        return self._row(Purpose.ACCEPT, 1, lambda rng, out: rng.standard_exponential(out=out, dtype=out.dtype))

    def uniform(self) -> Array:
        return self._row(Purpose.MEMORY, 1, lambda rng, out: rng.random(out=out))

    def at_kept(self, width: int, rows: slice = slice(None)) -> Array:
        return self._normals(Purpose.KEPT, width, rows, self.step)

    def at_start(self, width: int) -> Array:
        return self._normals(Purpose.START, width, slice(None))

    def uniform_at_start(self) -> Floats:
        return np.array([rng.random() for rng in generators(self.seed, Purpose.START, self.chains, (1,))])

    def _normals(self, purpose: Purpose, width: int, rows: slice, *key: int) -> Array:
        """A slice of the rows, `width` columns wide, whose active rows are filled one chain at a time."""
        (begin, end, _), active = rows.indices(self.rows), self.active_rows
        out: Floats = np.zeros((end - begin, width), dtype=self.dtype)
        first, last = max(begin, active.start), max(min(end, active.stop), active.start)
        chains = self.chains[first - active.start : last - active.start]
        for row, rng in enumerate(generators(self.seed, purpose, chains, key), first - begin):
            rng.standard_normal(out=out[row], dtype=out.dtype)
        return like(out, self.reference)

    def _row(self, purpose: Purpose, width: int, fill: Fill) -> Array:
        if purpose not in self._by_purpose:
            self._by_purpose[purpose] = _PurposeStream(self, purpose, width, fill)
        stream = self._by_purpose[purpose]
        if stream.width != width:  # a second stream would repeat the numbers of the first
            raise ValueError(f"width must be {stream.width}, as at the first call for {purpose.name}; got {width}.")
        return stream.row(self.step)


class _PurposeStream:
    """The numbers of one purpose for all chains, generated in blocks of steps by a worker thread, one block ahead.

    numpy releases the interpreter while it fills a block, so the next block is filled beside the chains' arithmetic.
    """

    def __init__(self, streams: NumpyStreams, purpose: Purpose, width: int, fill: Fill) -> None:
        self.streams, self.purpose, self.width, self.fill = streams, purpose, width, fill
        # A float32 uniform has 24 bits: too few to pick among a million memories.
        self.dtype = np.float64 if purpose == Purpose.MEMORY else streams.dtype
        bytes_per_step = streams.rows * width * np.dtype(self.dtype).itemsize
        self.block_steps = min(max(BLOCK_BYTES // bytes_per_step, 1), EPOCH)
        self.begin = self.stop = 0
        self.block: Array = np.empty(0)
        self.epoch = -1
        self.ahead: Future[tuple[int, int, Floats]] | None = None

    def row(self, step: int) -> Array:
        if not self.begin <= step < self.stop:
            self.begin, self.stop, block = self.ahead.result() if self.ahead is not None else self._generate(step)
            self.block = like(block, self.streams.reference, keep_dtype=True)
            more = self.stop < self.streams.end
            self.ahead = self.streams.worker.submit(self._generate, self.stop) if more else None
        return self.block[step - self.begin]

    def _generate(self, step: int) -> tuple[int, int, Floats]:
        epoch, offset = divmod(step, EPOCH)
        if epoch != self.epoch:
            self.epoch = epoch
            chains = self.streams.chains
            self.generators = list(generators(self.streams.seed, self.purpose, chains, (epoch,)))
            for rng in self.generators if offset else ():  # started inside an epoch: skip the numbers of earlier steps
                self.fill(rng, np.empty((offset, self.width), dtype=self.dtype))
        steps = min(self.block_steps, EPOCH - offset, max(self.streams.end - step, 1))
        block = np.zeros((self.streams.rows, steps, self.width), dtype=self.dtype)
        for row, rng in zip(block[self.streams.active_rows], self.generators, strict=True):
            self.fill(rng, row)
        return step, step + steps, np.ascontiguousarray(block.swapaxes(0, 1))  # the numbers of one step are contiguous
