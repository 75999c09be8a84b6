"""Exact, independent draws: the target is a Gaussian mixture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache, partial

import numpy as np

from .._backend.arrays import Array, like, on_cuda, to_numpy
from .._backend.device_memory import free_bytes, gigabytes
from .._backend.random import Purpose, Streams, generator
from ..core.memory import MemoryBank
from ..core.mixture import cumulative_weights, pick
from ..kernels.philox import draw as device_draw
from ..storage.mapped import rows_at
from .base import Sampler, State
from .subspace import Nothing, Relaxing, Rest, Space


def exact(space: Space, alpha: float) -> Sampler:
    """xi = m_k + eps/√beta with k drawn from r_k exp(beta ‖m_k‖²/2); every step is a new, independent draw.

    `alpha` is not used; it is there because samplers share one signature.
    """
    bank = space.bank
    cumulative = lru_cache(maxsize=1)(partial(cumulative_weights, bank))  # a schedule asks for many, a constant for one

    def init(xi: Array, rest: Rest, beta: float) -> State:
        return State(xi, rest)

    def advance(noise: Streams, state: State, beta: float, steps: int) -> tuple[State, None]:
        noise.step += steps - 1  # draws forget where they were: only the last one is made
        k = pick(cumulative(beta), to_numpy(noise.uniform())[:, 0])
        xi = bank.patterns[like(k, bank.patterns, keep_dtype=True)] + noise.normal(bank.d) / math.sqrt(beta)
        return State(xi, state.rest.relax(0.0, 1 / beta)), None

    return Sampler(init, advance, Relaxing if space.rest else Nothing)


def draw(bank: MemoryBank, beta: float, n: int, seed: int) -> Array:
    """n independent draws from p_beta, in the bank's namespace and dtype: (n, d). The first m of n are the m draws."""
    free, needed = free_bytes(bank.patterns), n * bank.d * bank.patterns.itemsize
    if free is not None and needed > free:
        raise MemoryError(
            f"n={n} draws of d={bank.d} need {gigabytes(needed)} on {bank.patterns.device}, which has "
            f"{gigabytes(free)} free. Draw n={n * free // needed} at a time, or to a file: sample(n, out='new.npy')."
        )
    return next(draws_in_blocks(bank, beta, n, seed, n))


def draws_in_blocks(bank: MemoryBank, beta: float, n: int, seed: int, size: int) -> Iterator[Array]:
    """The rows of `draw`, `size` at a time: (size, d). Of the memories it reads those drawn."""
    cumulative = cumulative_weights(bank, beta)
    if on_cuda(bank.patterns):
        for begin in range(0, n, size):
            yield device_draw(bank.patterns, cumulative, beta**-0.5, seed, begin, min(size, n - begin))
        return
    memories, normals = generator(seed, Purpose.MEMORY), generator(seed, Purpose.DRAW)
    for begin in range(0, n, size):
        rows = min(size, n - begin)
        k = pick(cumulative, memories.random(rows))
        noise = np.empty((rows, bank.d), dtype=np.float32 if bank.patterns.itemsize == 4 else np.float64)
        normals.standard_normal(out=noise, dtype=noise.dtype)
        noise *= 1 / math.sqrt(beta)
        samples = like(noise, bank.patterns)
        samples += rows_at(bank.patterns, like(k, bank.patterns, keep_dtype=True))
        yield samples
