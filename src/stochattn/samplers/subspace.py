"""A bank as its span plus the rest: chains run in the span, and the rest is drawn only when a state is kept.

Write ξ = Q u + v with Q an orthonormal basis of the span of the memories and v orthogonal to it. The drift pulls u
towards the memories and v towards zero, so u follows the same algorithm on the r-dimensional bank X Q at O(r K) a
step, and the law of v over any number of steps is known: a Gaussian for ULA and for exact draws, and for MALA, whose
acceptance sees ‖v‖ alone, a walk of two scalars a chain. Same law as the direct version; d does not enter the cost.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np

from .._backend.arrays import Array, empty, namespace, norms_squared, or_one, rows_in_block, rows_times
from .._backend.random import Streams
from ..core.memory import MemoryBank

SINGLE_THREADED = 2**18  # multiplications in one product, from where OpenBLAS uses threads


class Space(NamedTuple):
    """Where the chains of a bank run: in the span of its kept memories, or, with basis None, in the whole space."""

    bank: MemoryBank  # the kept memories, in the coordinates of this space
    basis: Array  # (d, r), or None
    d: int

    @property
    def rest(self) -> int:
        """Dimensions outside the span."""
        return self.d - self.bank.d

    def project(self, x: Array) -> Array:
        """Coordinates in this space: (rows, d) -> (rows, r)."""
        if self.basis is None:
            return x
        return sum(rows_times(x[:, part], self.basis[part]) for part in self._parts())

    def embed(self, u: Array) -> Array:
        """Back to the full space, with nothing outside the span: (rows, r) -> (rows, d)."""
        if self.basis is None:
            return u
        x = empty((len(u), self.d), u)
        for part in self._parts():
            x[:, part] = rows_times(u, self.basis[part].T)
        return x

    def _parts(self) -> list[slice]:
        """Slices of the d coordinates for products small enough that BLAS does not start its threads.

        After a threaded product they spin for some 20 ms, and take a core from the noise of the following steps.
        """
        width = max(SINGLE_THREADED // (rows_in_block(self.basis) * self.bank.d), 64)
        return [slice(begin, begin + width) for begin in range(0, self.d, width)]

    def outside(self, x: Array) -> Array:
        """The part of x orthogonal to the span: (rows, d) -> (rows, d)."""
        return x - self.embed(self.project(x))


def reduce(bank: MemoryBank, span: bool | None = None) -> Space:
    """The space to run a bank's chains in; span=None takes the span exactly when it is smaller than the whole."""
    active = bank.active
    if span is False or (span is None and bank.rank == bank.d):
        return Space(active, None, bank.d)
    return Space(MemoryBank(bank.coordinates, active.log_r), bank.basis, bank.d)


class Nothing(NamedTuple):
    """The rest when nothing lies outside: chains run in the whole space, or the span is the whole space."""

    @classmethod
    def from_state(cls, x: Array, space: Space, noise: Streams) -> Nothing:
        """Nothing is outside the whole space."""
        return cls()

    def relax(self, decay: float, variance: float, steps: int = 1) -> Nothing:
        """Nothing relaxes to nothing."""
        return self

    def settle(self, u: Array, space: Space, normals: Array) -> tuple[Array, Nothing]:
        """The states, back from the span if that is where they are."""
        return space.embed(u), self


class Relaxing(NamedTuple):
    """The rest under ULA and exact draws: v_t = decay · v_0 + √variance · ε since the last kept state.

    `origin` (rows, d) is that state; its part inside the span is never looked at.
    """

    origin: Array
    decay: float = 1.0
    variance: float = 0.0

    @classmethod
    def from_state(cls, x: Array, space: Space, noise: Streams) -> Relaxing:
        """The rest of the states x (rows, d)."""
        return cls(x)

    def relax(self, decay: float, variance: float, steps: int = 1) -> Relaxing:
        """Steps v ← decay · v + √variance · ε, not yet drawn."""
        total, spread = self.decay, self.variance
        for _ in range(steps):  # and not in closed form: a run in parts is to have the bits of the whole
            total, spread = total * decay, spread * decay**2 + variance
        return Relaxing(self.origin, total, spread)

    def settle(self, u: Array, space: Space, normals: Array) -> tuple[Array, Relaxing]:
        """Draw v by normals (rows, d): the full states with u inside the span (rows, d), and the rest from here on."""
        v = self.decay * self.origin + math.sqrt(self.variance) * normals
        return v + space.embed(u - space.project(v)), Relaxing(v)


class Walking(NamedTuple):
    """The rest under MALA: v = along · direction + across · ŵ, with ŵ uniform on the sphere orthogonal to `direction`.

    `direction` (rows, d) is v's at the last kept state; `along` and `across` (rows, 1) are all a step needs.
    """

    direction: Array
    along: Array
    across: Array

    @classmethod
    def from_state(cls, x: Array, space: Space, noise: Streams) -> Walking:
        """The rest of the states x (rows, d); one with no part outside the span is given an arbitrary direction."""
        v = space.outside(x)
        length = _lengths(v)
        # Below rounding, a direction would be noise that is not orthogonal to the span.
        negligible = length <= 1e3 * float(np.finfo(np.float32 if v.itemsize == 4 else np.float64).eps) * _lengths(x)
        xp = namespace(x)
        v /= or_one(length)
        if bool(negligible[noise.busy].any()):
            spare = space.outside(noise.at_kept(space.d))
            v = xp.where(negligible, spare / or_one(_lengths(spare)), v)
        along = xp.where(negligible, xp.zeros_like(length), length)
        return cls(v, along, xp.zeros_like(along))

    @property
    def length_squared(self) -> Array:
        """‖v‖²: (rows, 1)."""
        return self.along**2 + self.across**2

    def propose(self, noise: Streams, dimensions: int, decay: float, scale: float) -> Walking:
        """The rest of a Langevin proposal v ← decay · v + scale · ε, in this many dimensions."""
        normals = noise.normal_outside()
        along = decay * self.along + scale * normals[:, :1]
        if dimensions == 1:
            return Walking(self.direction, along, self.across)
        squared = (decay * self.across + scale * normals[:, 1:]) ** 2
        if dimensions > 2:
            squared = squared + scale * scale * noise.chi_square(dimensions - 2)
        return Walking(self.direction, along, squared**0.5)

    def where(self, accepted: Array, other: Walking) -> Walking:
        """Itself where accepted, the other elsewhere."""
        xp = namespace(accepted)
        along, across = (xp.where(accepted, a, b) for a, b in zip(self[1:], other[1:], strict=True))
        return Walking(self.direction, along, across)

    def settle(self, u: Array, space: Space, normals: Array) -> tuple[Array, Walking]:
        """Draw v by normals (rows, d): the full states with u inside the span (rows, d), and the rest from here on."""
        sideways = space.outside(normals)
        sideways = sideways - (sideways * self.direction).sum(-1)[:, None] * self.direction
        v = self.along * self.direction
        if space.rest > 1:
            v = v + self.across * (sideways / or_one(_lengths(sideways)))
        length = _lengths(v)
        xp = namespace(v)
        direction = xp.where(length > 0, v / or_one(length), self.direction)
        return v + space.embed(u), Walking(direction, length, xp.zeros_like(length))


Rest: TypeAlias = Nothing | Relaxing | Walking


def _lengths(x: Array) -> Array:
    return norms_squared(x)[:, None] ** 0.5
