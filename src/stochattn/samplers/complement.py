"""The span of the memories, in which chains run, and the part of a state in its orthogonal complement.

Write ξ = Q u + v with Q an orthonormal basis of the span and v orthogonal to it. The gradient of the energy moves u
towards the memories and v towards zero, so u follows the same algorithm on the r-dimensional bank X Q at a cost of
O(r K) per step. The distribution of v after any number of steps is known, so v is drawn only when a state is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from .._backend.arrays import Array, empty, namespace, norms_squared, zeros_to_ones
from .._backend.products import rows_in_block, rows_times
from .._backend.random import Streams
from ..core.memory import MemoryBank
from ..storage.blockwise import slices

MAX_SINGLE_THREADED = 2**18  # multiplications in one product, above which OpenBLAS uses threads


class Space(NamedTuple):
    """Where the chains of a bank run: the span of its memories with positive weight, or the full space (no basis)."""

    bank: MemoryBank  # in the coordinates of this space
    basis: Array | None  # (d, r)
    d: int

    @property
    def codimension(self) -> int:
        """The dimension of the complement, d − r."""
        return self.d - self.bank.d

    def project(self, x: Array) -> Array:
        """Coordinates in this space: (rows, d) -> (rows, r)."""
        if self.basis is None:
            return x
        return sum(rows_times(x[:, part], self.basis[part]) for part in self._parts(self.basis))

    def embed(self, u: Array) -> Array:
        """The state of the full space with these coordinates, zero in the complement: (rows, r) -> (rows, d)."""
        if self.basis is None:
            return u
        x = empty((len(u), self.d), u)
        for part in self._parts(self.basis):
            x[:, part] = rows_times(u, self.basis[part].T)
        return x

    def _parts(self, basis: Array) -> list[slice]:
        # Products so small that BLAS does not start its threads: after a threaded product they spin for some 20 ms, and
        # take a core from the noise of the following steps.
        return slices(self.d, max(MAX_SINGLE_THREADED // (rows_in_block(basis) * self.bank.d), 64))

    def outside(self, x: Array) -> Array:
        """The part of x in the orthogonal complement: (rows, d) -> (rows, d)."""
        return x - self.embed(self.project(x))


def choose_space(bank: MemoryBank, span: bool | None = None) -> Space:
    """The space in which a bank's chains run; span=None takes the span where it is smaller than d."""
    active = bank.active
    if span is False or (span is None and bank.rank == bank.d):
        return Space(active, None, bank.d)
    inside = MemoryBank(bank.coordinates, active.log_r, copy=False)
    return Space(inside, bank.basis, bank.d)


Normals: TypeAlias = Callable[[int], Array]  # standard normals, width -> (rows, width)


class NoComplement(NamedTuple("NoComplement", [])):
    """Nothing lies outside: chains run in the full space, or the span is the full space."""

    def draw(self, u: Array, space: Space, normals: Normals) -> tuple[Array, NoComplement]:
        """The full states with coordinates u (rows, r) in the span (rows, d), and the complement from here on."""
        return space.embed(u), self

    def skip(self, *step: object) -> NoComplement:
        """The same complement: no step changes it."""
        return self

    relax = propose = advance = skip  # the steps of ULA and exact draws, of MALA, and of underdamped chains
    length_squared = 0.0


class PositionState(NamedTuple):
    """The state of ULA and of exact draws."""

    xi: Array
    complement: GaussianComplement | NoComplement

    @classmethod
    def at(cls, x: Array, space: Space) -> PositionState:
        return cls(space.project(x), GaussianComplement(x) if space.codimension else NoComplement())


class GaussianComplement(NamedTuple):
    """v under ULA and exact draws: v_t = decay · v_0 + √variance · ε since the last kept state."""

    origin: Array  # (rows, d), that state; its part in the span is ignored
    decay: float = 1.0
    variance: float = 0.0

    def relax(self, decay: float, variance: float, steps: int = 1) -> GaussianComplement:
        """The complement after that many steps v ← decay · v + √variance · ε."""
        total, spread = self.decay, self.variance
        for _ in range(steps):  # not in closed form: a run in parts must have the bits of the whole run
            total, spread = total * decay, spread * decay**2 + variance
        return GaussianComplement(self.origin, total, spread)

    def draw(self, u: Array, space: Space, normals: Normals) -> tuple[Array, GaussianComplement]:
        v = self.decay * self.origin + math.sqrt(self.variance) * normals(space.d)
        return v + space.embed(u - space.project(v)), GaussianComplement(v)


class RadialComplement(NamedTuple):
    """v under MALA, whose acceptance depends on v through ‖v‖ alone: v = along · direction + across · ŵ.

    ŵ is uniform on the sphere orthogonal to the direction, and a step needs the two lengths only.
    """

    direction: Array  # (rows, d), of v at the last kept state
    along: Array  # (rows, 1)
    across: Array  # (rows, 1)

    @classmethod
    def from_state(cls, x: Array, space: Space, noise: Streams) -> RadialComplement:
        """The complement of the states x (rows, d), with an arbitrary direction for states inside the span."""
        v = space.outside(x)
        length = _lengths(v)
        # Below rounding, a direction would be noise that is not orthogonal to the span.
        negligible = length <= 1e3 * float(np.finfo(np.float32 if v.itemsize == 4 else np.float64).eps) * _lengths(x)
        xp = namespace(x)
        v /= zeros_to_ones(length)
        if bool(negligible[noise.active_rows].any()):
            arbitrary = space.outside(noise.at_kept(space.d))
            v = xp.where(negligible, arbitrary / zeros_to_ones(_lengths(arbitrary)), v)
        along = xp.where(negligible, xp.zeros_like(length), length)
        return cls(v, along, xp.zeros_like(along))

    @property
    def length_squared(self) -> Array:
        """‖v‖²: (rows, 1)."""
        return self.along**2 + self.across**2

    def propose(self, noise: Streams, dimensions: int, decay: float, scale: float) -> RadialComplement:
        """The complement of a Langevin proposal v ← decay · v + scale · ε, in this many dimensions."""
        normals = noise.normal_outside()
        along = decay * self.along + scale * normals[:, :1]
        if dimensions == 1:
            return RadialComplement(self.direction, along, self.across)
        squared = (decay * self.across + scale * normals[:, 1:]) ** 2
        if dimensions > 2:
            squared = squared + scale * scale * noise.chi_square(dimensions - 2)
        return RadialComplement(self.direction, along, squared**0.5)

    def draw(self, u: Array, space: Space, normals: Normals) -> tuple[Array, RadialComplement]:
        sideways = space.outside(normals(space.d))
        sideways = sideways - (sideways * self.direction).sum(-1)[:, None] * self.direction
        v = self.along * self.direction
        if space.codimension > 1:
            v = v + self.across * (sideways / zeros_to_ones(_lengths(sideways)))
        length = _lengths(v)
        xp = namespace(v)
        direction = xp.where(length > 0, v / zeros_to_ones(length), self.direction)
        return v + space.embed(u), RadialComplement(direction, length, xp.zeros_like(length))


class OscillatorComplement(NamedTuple):
    """Position x and momentum p under underdamped Langevin: outside the span each direction is a damped oscillator.

    A step is linear, (x, p) ← A (x, p) + b ε. `x` and `p` (rows, d) are those of the last kept state; their parts in
    the span are ignored. Since then the maps A multiply to `map`, and the noise adds up to the (co)variances.
    """

    x: Array
    p: Array
    map_xx: float = 1.0
    map_xp: float = 0.0
    map_px: float = 0.0
    map_pp: float = 1.0
    var_x: float = 0.0
    covariance: float = 0.0
    var_p: float = 0.0

    def advance(self, A: tuple[float, float, float, float], b: tuple[float, float], steps: int) -> OscillatorComplement:
        xx, xp, px, pp = A
        m_xx, m_xp, m_px, m_pp, s_xx, s_xp, s_pp = self[2:]
        for _ in range(steps):  # not in closed form: a run in parts must have the bits of the whole run
            m_xx, m_px = xx * m_xx + xp * m_px, px * m_xx + pp * m_px
            m_xp, m_pp = xx * m_xp + xp * m_pp, px * m_xp + pp * m_pp
            s_xx, s_xp, s_pp = (
                xx * xx * s_xx + 2 * xx * xp * s_xp + xp * xp * s_pp + b[0] * b[0],
                xx * px * s_xx + (xx * pp + xp * px) * s_xp + xp * pp * s_pp + b[0] * b[1],
                px * px * s_xx + 2 * px * pp * s_xp + pp * pp * s_pp + b[1] * b[1],
            )
        return OscillatorComplement(self.x, self.p, m_xx, m_xp, m_px, m_pp, s_xx, s_xp, s_pp)

    def draw(self, u: Array, space: Space, normals: Normals) -> tuple[Array, OscillatorComplement]:
        eps = normals(2 * space.d)
        first, second = eps[:, : space.d], eps[:, space.d :]  # by the Cholesky factor of the covariance
        scale = math.sqrt(self.var_x)
        shared = self.covariance / scale if scale else 0.0
        rest = math.sqrt(max(self.var_p - shared**2, 0.0))
        x = self.map_xx * self.x + self.map_xp * self.p + scale * first
        p = self.map_px * self.x + self.map_pp * self.p + shared * first + rest * second
        return x + space.embed(u - space.project(x)), OscillatorComplement(x, p)


def _lengths(x: Array) -> Array:
    return norms_squared(x)[:, None] ** 0.5
