"""Exact, independent draws: the target is a Gaussian mixture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from .._backend.arrays import Array, free_bytes, gigabytes, like, on_cuda, to_numpy
from .._backend.random import Purpose, Streams, generator
from ..core.memory import MemoryBank
from ..core.mixture import cumulative_weights, pick
from ..kernels.philox import draw as device_draw
from ..storage.mapped import rows_at
from .base import Sampler
from .complement import GaussianComplement, PositionState, Space


@dataclass(frozen=True)
class ExactOptions:
    """Exact draws have no options."""


class Exact(Sampler[PositionState]):
    """xi = m_k + eps/√beta with k drawn from r_k exp(beta ‖m_k‖²/2); every step is a new, independent draw."""

    Options, State, Outside = ExactOptions, PositionState, GaussianComplement
    independent = True

    def __init__(self, space: Space, options: ExactOptions) -> None:
        self.space = space
        # A schedule asks for the weights at many betas, one after the other; a constant beta for one.
        self._cumulative = lru_cache(maxsize=1)(partial(cumulative_weights, space.bank))

    def init(self, noise: Streams, x: Array, beta: float) -> PositionState:
        return PositionState.at(x, self.space)

    def advance(self, noise: Streams, state: PositionState, beta: float, steps: int) -> tuple[PositionState, None]:
        patterns = self.space.bank.patterns
        noise.step += steps - 1  # only the last of these draws is made
        k = pick(self._cumulative(beta), to_numpy(noise.uniform())[:, 0])
        xi = patterns[like(k, patterns, keep_dtype=True)] + noise.normal(self.space.bank.d) / math.sqrt(beta)
        return PositionState(xi, state.complement.relax(0.0, 1 / beta)), None


def draw(bank: MemoryBank, beta: float, n: int, seed: int) -> Array:
    """n independent draws from p_beta, in the bank's namespace and dtype: (n, d). The first m of n are the m draws."""
    free, needed = free_bytes(bank.patterns), n * bank.d * bank.patterns.itemsize
    if free is not None and needed > free:
        sizes = f"need {gigabytes(needed)} on {bank.patterns.device}, which has {gigabytes(free)} free"
        remedy = f"Draw n={n * free // needed} at a time, or to a file: sample(n, out='new.npy')."
        raise MemoryError(f"n={n} draws of d={bank.d} {sizes}. {remedy}")
    return next(draws_in_blocks(bank, beta, n, seed, n))


def draws_in_blocks(bank: MemoryBank, beta: float, n: int, seed: int, size: int) -> Iterator[Array]:
    """The rows of `draw`, `size` at a time: (size, d). It reads only the memories that are drawn."""
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
