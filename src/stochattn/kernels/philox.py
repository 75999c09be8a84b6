"""Random streams on a device: Philox4x32-10 (Salmon et al. 2011), a function of (seed, chain, step, place, purpose).

A number is computed from its counters alone, so any thread can compute it where it is needed. The kernels do so in
registers; the torch code here gives the same numbers, to rounding, on any device and in any dtype.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .. import kernels
from .._backend.arrays import Array, namespace, on_cuda, to_numpy
from .._backend.random import NumpyStreams, Purpose, Streams

if TYPE_CHECKING:
    from torch import Tensor

    from .._backend.random import Floats

WORD = 0xFFFFFFFF
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85


def streams(seed: int, chains: range, reference: Array, step: int = 0, end: int = 0) -> Streams:
    """The random numbers of chains that run beside `reference`, from `step` to `end`."""
    kind = Philox if on_cuda(reference) else NumpyStreams
    return kind(seed, chains, reference, step, end)


def words(key: int, chain: Tensor, step: int, place: Tensor, purpose: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four words of 32 random bits, as int64, for each entry of the broadcast counters."""
    a, b, c, d = chain, step, place, chain * 0 + purpose
    k0, k1 = key & WORD, key >> 32
    for _ in range(10):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]  # 64 bits each; a sign does not matter to them
        a, b, c, d = (second >> 32 & WORD) ^ b ^ k0, second & WORD, (first >> 32 & WORD) ^ d ^ k1, first & WORD
        k0, k1 = k0 + WEYL[0] & WORD, k1 + WEYL[1] & WORD
    return a, b, c, d


def draw(patterns: Tensor, cumulative: Tensor, spread: float, seed: int, first: int, n: int) -> Tensor:
    """Draws `first` to `first + n` of the mixture m_k + spread ε with these cumulative weights (K,): (n, d)."""
    if first + n >= 2**31:
        raise ValueError(f"n must stay below 2^31 draws of a seed on a device; got {first + n}. Use a second seed.")
    rows = range(first, first + n)
    if n and (launch := kernels.launcher(patterns)) is not None:
        return launch.draw(patterns, cumulative, spread, Philox(seed, rows, patterns).key, first, n)
    uniforms, normals = draw_numbers(patterns, seed, rows)
    torch = namespace(patterns)
    borders = torch.as_tensor(cumulative, device=patterns.device)
    return patterns[torch.searchsorted(borders, uniforms * float(cumulative[-1]), right=True)] + spread * normals


def draw_numbers(reference: Tensor, seed: int, rows: range) -> tuple[Tensor, Tensor]:
    """The random numbers of these draws of `draw`: uniforms (n,) that pick memories, and normals (n, d)."""
    noise = Philox(seed, rows, reference)
    return noise._fine_uniform(Purpose.DRAW, 1), noise._normals(Purpose.DRAW, 0, reference.shape[1])


class Philox(Streams):
    """Streams for torch tensors; every row holds a chain."""

    reference: Tensor

    def __init__(self, seed: int, chains: range, reference: Tensor, step: int = 0, end: int = 0) -> None:
        if max(chains.stop, end) >= 2**31:
            rule = "first_chain + n_chains and the number of steps must stay below 2^31 on a device"
            raise ValueError(f"{rule}; got {chains.stop} and {end}. Use another seed.")
        self.seed, self.chains, self.reference, self.step = seed, chains, reference, step
        self.rows, self.active_rows = len(chains), slice(0, len(chains))
        # 63 bits of a key, from a seed of any size
        self.key = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> np.uint64(1))

    def normal(self, width: int) -> Tensor:
        return self._normals(Purpose.STEP, self.step, width)

    def normal_outside(self) -> Tensor:
        return self._normals(Purpose.COMPLEMENT, self.step, 2)

    def chi_square(self, degrees: int) -> Tensor:
        if degrees == 1:
            return self._normals(Purpose.SQUARE, self.step, 1) ** 2
        return 2 * self._one_each(Purpose.SQUARE) if degrees == 2 else self._one_each(Purpose.SQUARE, degrees)

    def exponential(self) -> Tensor:
        return self._one_each(Purpose.ACCEPT)

    def uniform(self) -> Tensor:
        return self._fine_uniform(Purpose.MEMORY, self.step)[:, None]

    def at_kept(self, width: int, rows: slice = slice(None)) -> Tensor:
        return self._normals(Purpose.KEPT, self.step, width, rows)

    def at_start(self, width: int) -> Tensor:
        return self._normals(Purpose.START, 0, width)

    def uniform_at_start(self) -> Floats:
        return to_numpy(self._fine_uniform(Purpose.START, 1))

    @cached_property
    def _chains(self) -> Tensor:
        torch = namespace(self.reference)
        return torch.arange(self.chains.start, self.chains.stop, dtype=torch.int64, device=self.reference.device)

    def _normals(self, purpose: Purpose, step: int, width: int, rows: slice = slice(None)) -> Tensor:
        """Normals for columns 0 to `width`; four words give four of them."""
        chains = self.chains[rows]
        if len(chains) and (launch := kernels.launcher(self.reference)) is not None:
            return launch.normals(self.reference, self.key, chains, step, purpose, width)
        torch = namespace(self.reference)
        place = torch.arange(-(-width // 4), dtype=torch.int64, device=self.reference.device)
        a, b, c, d = words(self.key, self._chains[rows, None] + 0 * place, step, place, purpose)
        pairs = (*_normal_pair(a, b, self.reference), *_normal_pair(c, d, self.reference))
        return torch.stack(pairs, -1).reshape(len(chains), -1)[:, :width]

    def _one_each(self, purpose: Purpose, degrees: int = 0) -> Tensor:
        """Standard exponentials, or chi-square numbers of three degrees or more: (rows, 1)."""
        if (launch := kernels.launcher(self.reference)) is not None:
            return launch.one_each(self.reference, self.key, self.chains, self.step, purpose, degrees)[:, None]
        if degrees:
            return self._draw_gamma(degrees / 2 - 1 / 3) * 2
        word = words(self.key, self._chains, self.step, self._chains * 0, purpose)[0]
        return -_uniform(word, self.reference).log()[:, None]

    def _fine_uniform(self, purpose: Purpose, step: int) -> Tensor:
        a, b, _, _ = words(self.key, self._chains, step, self._chains * 0, purpose)
        return ((a >> 5) * 2**26 + (b >> 6)).double() * 2.0**-53

    def _draw_gamma(self, shape: float) -> Tensor:
        """Gamma numbers of shape + 1/3 ≥ 1 by the rejection of Marsaglia and Tsang; attempts are counted by place."""
        value, waiting = self.reference.new_zeros(self.rows), self._chains >= 0
        attempt, spread = 0, 1 / math.sqrt(9 * shape)
        while bool(waiting.any()):
            a, b, c, _ = words(self.key, self._chains, self.step, self._chains * 0 + attempt, Purpose.SQUARE)
            normal = _normal_pair(a, b, self.reference)[0]
            x = spread * normal
            right = waiting & (x > -1) & (_uniform(c, self.reference).log() < shape * _log_acceptance(x))
            value = namespace(value).where(right, shape * (1 + x) ** 3, value)
            waiting, attempt = waiting & ~right, attempt + 1
        return value[:, None]


def _log_acceptance(x: Tensor) -> Tensor:
    """3 (log(1 + x) − x + x²/2 − x³/3): Marsaglia and Tsang's bound over the shape; as a series where digits cancel."""
    series = -(x**4) * (1 / 4 - x * (1 / 5 - x * (1 / 6 - x * (1 / 7 - x * (1 / 8 - x / 9)))))
    direct = (1 + x).clamp(min=1e-10).log() - x * (1 - x * (1 / 2 - x / 3))
    return 3 * namespace(x).where(x.abs() < 0.1, series, direct)


def _uniform(word: Tensor, reference: Tensor) -> Tensor:
    """Uniform numbers in (0, 1]: the middle of one of 2³² equal steps."""
    return word.to(reference.dtype) * 2.0**-32 + 2.0**-33


def _normal_pair(a: Tensor, b: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """Two standard normals from two words, by Box and Muller; the angle lies in [−π, π)."""
    radius = (-2 * _uniform(a, reference).log()) ** 0.5
    signed = b - (b >> 31 << 32)
    angle = signed.to(reference.dtype) * (math.pi * 2.0**-31)
    return radius * angle.cos(), radius * angle.sin()
