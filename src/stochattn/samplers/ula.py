"""Unadjusted Langevin chains (Algorithm 1), and what MALA shares with them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from .. import kernels
from .._backend.arrays import Array
from .._backend.checks import step_size
from .._backend.random import Streams
from ..kernels.philox import Philox
from .base import ChainAttention, Sampler, StateT
from .complement import GaussianComplement, PositionState, RadialComplement, Space

Arrays = tuple[Array, ...]


@dataclass(frozen=True)
class LangevinOptions:
    """alpha: the step size, between 0 and 1."""

    alpha: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", step_size(self.alpha))


class Langevin(Sampler[StateT]):
    """What ULA and MALA share. program: the name of their GPU kernel."""

    Options = LangevinOptions
    program: ClassVar[str]
    attention: ChainAttention

    def __init__(self, space: Space, options: LangevinOptions) -> None:
        self.space, self.alpha = space, options.alpha
        self.attention = ChainAttention(space.bank)

    def fused(self) -> Callable[..., tuple[StateT, Array | None] | None] | None:
        bank = self.space.bank
        chains = kernels.chains(self.program, bank.patterns, bank.log_r, self.alpha, self.space.codimension)
        if chains is None:
            return None

        def launch(noise: Philox, state: Any, beta: float, steps: int) -> tuple[StateT, Array | None] | None:
            if not chains.fits(state.xi, beta):
                return None
            along = across = state.xi[:, 0] * 0
            if isinstance(state.complement, RadialComplement):
                along, across = state.complement.along[:, 0], state.complement.across[:, 0]
            counters = noise.key, noise.chains.start, noise.step
            return self._moved(state, chains.advance(state.xi, along, across, counters, beta, steps), beta, steps)

        return launch

    @abstractmethod
    def _moved(self, state: StateT, moved: Arrays, beta: float, steps: int) -> tuple[StateT, Array | None]: ...


class ULA(Langevin[PositionState]):
    """xi ← (1 − alpha) xi + alpha attend(xi) + √(2 alpha / beta) eps   (Eq. 9, Algorithm 1).

    Inside a basin its variance is (1/beta)/(1 − alpha/2) instead of 1/beta.
    """

    State, Outside, program = PositionState, GaussianComplement, "ula"

    def init(self, noise: Streams, x: Array, beta: float) -> PositionState:
        return PositionState.at(x, self.space)

    def advance(self, noise: Streams, state: PositionState, beta: float, steps: int) -> tuple[PositionState, None]:
        alpha, r, attend = self.alpha, self.space.bank.d, self.attention.attend
        xi, scale = state.xi + 0, math.sqrt(2 * alpha / beta)  # a copy: an interrupted run continues from `state`
        for _ in range(steps):
            drift = attend(xi, beta, alpha)
            eps = noise.normal(r)  # not used again, so it is overwritten
            xi *= 1 - alpha
            xi += drift
            eps *= scale
            xi += eps
            noise.step += 1
        return self._moved(state, (xi,), beta, steps)

    def _moved(self, state: PositionState, moved: Arrays, beta: float, steps: int) -> tuple[PositionState, None]:
        return PositionState(moved[0], state.complement.relax(1 - self.alpha, 2 * self.alpha / beta, steps)), None
