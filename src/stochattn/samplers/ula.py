"""Unadjusted Langevin chains (Algorithm 1)."""

from __future__ import annotations

import math

from .._backend.arrays import Array
from .._backend.random import Streams
from .complement import GaussianComplement, PositionState
from .langevin import Langevin


class ULA(Langevin[PositionState]):
    """xi ← (1 − alpha) xi + alpha attend(xi) + √(2 alpha / beta) eps   (Eq. 9, Algorithm 1).

    Inside a basin its variance is (1/beta)/(1 − alpha/2) instead of 1/beta.
    """

    State, Outside, program = PositionState, GaussianComplement, "ula"

    def init(self, noise: Streams, x: Array, beta: float) -> PositionState:
        return PositionState.at(x, self.space)

    def advance(self, noise: Streams, state: PositionState, beta: float, steps: int) -> tuple[PositionState, None]:
        alpha, r, attend = self.alpha, self.space.bank.d, self.attention.attend
        xi = state.xi + 0  # a copy, because an interrupted run continues from `state`
        scale = math.sqrt(2 * alpha / beta)
        for _ in range(steps):
            drift = attend(xi, beta, alpha)
            eps = noise.normal(r)  # not used again, so it is overwritten
            xi *= 1 - alpha
            xi += drift
            eps *= scale
            xi += eps
            noise.step += 1
        return self._next_state(state, beta, steps, xi)

    def _next_state(self, state: PositionState, beta: float, steps: int, *new: Array) -> tuple[PositionState, None]:
        return PositionState(new[0], state.complement.relax(1 - self.alpha, 2 * self.alpha / beta, steps)), None
