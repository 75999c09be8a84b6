"""Exact, independent draws: the target is a Gaussian mixture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from .._backend.arrays import Array, NumpyArray, free_bytes, gigabytes, like, on_cuda, to_numpy
from .._backend.parallel import in_threads
from .._backend.random import Purpose, Streams, generator
from ..core.memory import MemoryBank
from ..core.mixture import cumulative_weights, pick
from ..kernels.philox import draw as device_draw
from ..storage.dask import DaskRows
from ..storage.mapped import is_mapped, rows_at, rows_at_a_time
from .base import Sampler
from .complement import GaussianComplement, PositionState, Space

BLOCK_NUMBERS = 2**17
"""Numbers of a block of draws, which stays in a core's cache. Results depend on it."""


@dataclass(frozen=True)
class ExactOptions:
    """Exact draws have no options."""


class Exact(Sampler[PositionState]):
    """xi = m_k + eps/√beta with k drawn from r_k exp(beta ‖m_k‖²/2); every step is a new, independent draw."""

    Options, State, Outside = ExactOptions, PositionState, GaussianComplement
    independent = True

    def __init__(self, space: Space, options: ExactOptions) -> None:
        self.space = space
        # A schedule asks for the weights at one beta after the other.
        self._cumulative = lru_cache(maxsize=1)(partial(cumulative_weights, space.bank))

    def init(self, noise: Streams, x: Array, beta: float) -> PositionState:
        return PositionState.at(x, self.space)

    def advance(self, noise: Streams, state: PositionState, beta: float, steps: int) -> tuple[PositionState, None]:
        patterns = self.space.bank.patterns
        noise.step += steps - 1  # only the last of these draws is made
        k = pick(self._cumulative(beta), to_numpy(noise.uniform())[:, 0])
        xi = patterns[like(k, patterns, keep_dtype=True)] + noise.normal(self.space.bank.d) / math.sqrt(beta)
        return PositionState(xi, state.complement.relax(0.0, 1 / beta)), None


def draw(bank: MemoryBank, beta: float, n: int, seed: int, first: int = 0, n_threads: int | None = None) -> Array:
    """n independent draws from p_beta, with the numbers first, first + 1, …: (n, d).

    They are in the bank's namespace and dtype. Draw i depends on (seed, i) only, whatever is drawn beside it. A bank in
    a dask.array gives a lazy dask.array.

    >>> import stochattn as sa
    >>> from stochattn.samplers import draw
    >>> draw(sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]]), 20.0, 3, 0).shape
    (3, 2)
    """
    require_room(bank, n, ", or to a file: sample(n, out='new.npy')")
    cumulative, patterns = cumulative_weights(bank, beta), bank.patterns
    if isinstance(patterns, DaskRows):

        def finish(memories: NumpyArray, begin: int) -> NumpyArray:
            """The draws around some of the memories, from number `begin` on."""
            samples, rows = np.empty_like(memories), range(first + begin, first + begin + len(memories))
            fill_draws(samples, memories, np.arange(len(memories)), beta, seed, rows, n_threads=1)
            return samples

        k = pick(cumulative, uniforms_of(seed, range(first, first + n), bank.d))
        return patterns.draw_rows(k, whole_blocks(rows_at_a_time(bank.d), bank.d), finish)
    return _draw_rows(bank, cumulative, beta, seed, range(first, first + n), n_threads)


def require_room(bank: MemoryBank, n: int, remedy: str = "", copies: int = 1) -> None:
    """MemoryError if n draws do not fit on the device of the bank; copies: how many of them exist at one time."""
    free, needed = free_bytes(bank.patterns), copies * n * bank.d * bank.patterns.itemsize
    if free is not None and needed > free:
        sizes = f"need {gigabytes(needed)} on {bank.patterns.device}, which has {gigabytes(free)} free"
        raise MemoryError(f"n={n} draws of d={bank.d} {sizes}. Draw n={n * free // needed} at a time{remedy}.")


def draws_in_blocks(
    bank: MemoryBank, beta: float, n: int, seed: int, size: int, n_threads: int | None = None
) -> Iterator[Array]:
    """The rows of `draw`, `size` at a time: (size, d). It reads only the memories that are drawn."""
    cumulative = cumulative_weights(bank, beta)
    for begin in range(0, n, size):
        yield _draw_rows(bank, cumulative, beta, seed, range(begin, min(begin + size, n)), n_threads)


def rows_in_block(d: int) -> int:
    """Rows of d numbers that share a generator: block b of all draws depends on (seed, b)."""
    return max(BLOCK_NUMBERS // d, 1)


def whole_blocks(n: int, d: int) -> int:
    """About n rows of d numbers, as whole blocks: a block that lies in two parts would be generated twice."""
    return max(n // rows_in_block(d), 1) * rows_in_block(d)


def uniforms_of(seed: int, rows: range, d: int) -> NumpyArray:
    """The uniforms that pick the memories of the draws with these numbers: (n,)."""
    parts = [generator(seed, Purpose.MEMORY, b).random(part.stop)[part.start :] for b, part in _blocks(rows, d)]
    return np.concatenate(parts)


def _blocks(rows: range, d: int) -> list[tuple[int, range]]:
    """The blocks that hold draws with these numbers, each with the range of rows within it."""
    size = rows_in_block(d)
    blocks = range(rows.start // size, -(-rows.stop // size))
    return [(b, range(max(rows.start - b * size, 0), min(rows.stop - b * size, size))) for b in blocks]


def _draw_rows(
    bank: MemoryBank, cumulative: NumpyArray, beta: float, seed: int, rows: range, n_threads: int | None
) -> Array:
    """The draws with these numbers: (len(rows), d)."""
    patterns = bank.patterns
    if on_cuda(patterns):
        return device_draw(patterns, cumulative, beta**-0.5, seed, rows.start, len(rows))
    k = pick(cumulative, uniforms_of(seed, rows, bank.d))
    samples = np.empty((len(rows), bank.d), dtype=np.float32 if patterns.itemsize == 4 else np.float64)
    fill_draws(samples, None if is_mapped(patterns) else to_numpy(patterns), k, beta, seed, rows, n_threads)
    if is_mapped(patterns):  # all blocks together, so that the file is read once, from start to end
        samples += rows_at(patterns, k)
    return like(samples, patterns)


def fill_draws(
    samples: NumpyArray,
    stored: NumpyArray | None,
    k: NumpyArray,
    beta: float,
    seed: int,
    rows: range,
    n_threads: int | None = None,
) -> None:
    """Write the draws with these numbers to samples (n, d), each around its row k of stored (K, d), or around zero."""
    d, scale = samples.shape[1], 1 / math.sqrt(beta)
    size = rows_in_block(d)

    def fill(block: tuple[int, range]) -> None:
        b, part = block
        begin = b * size + part.start - rows.start
        place = slice(begin, begin + len(part))
        noise = samples[place] if not part.start else np.empty((part.stop, d), dtype=samples.dtype)
        generator(seed, Purpose.DRAW, b).standard_normal(out=noise, dtype=noise.dtype)
        noise = noise[part.start :]
        noise *= scale
        np.add(noise, 0 if stored is None else stored[k[place]], out=samples[place])

    in_threads(fill, _blocks(rows, d), n_threads)
