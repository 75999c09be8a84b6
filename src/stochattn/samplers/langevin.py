"""Unadjusted Langevin chains (Algorithm 1), and what they share with MALA (Algorithm 2)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from .. import kernels
from .._backend.arrays import Array
from .._backend.checks import check_alpha
from .._backend.random import Streams
from ..kernels.philox import Philox
from .base import ChainAttention, Sampler, StateT
from .complement import GaussianComplement, PositionState, RadialComplement, Space


@dataclass(frozen=True)
class LangevinOptions:
    """alpha: the step size, between 0 and 1."""

    alpha: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", check_alpha(self.alpha))


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
        if not self.attention.has_kernel:
            return None
        chains = kernels.chains(self.program, bank.patterns, bank.log_r, self.alpha, self.space.codimension)
        if chains is None:
            return None

        def launch(noise: Philox, state: Any, beta: float, steps: int) -> tuple[StateT, Array | None] | None:
            if not chains.fits(state.xi, beta):
                return None
            counters, outside = (noise.key, noise.chains.start, noise.step), state.complement
            along = across = state.xi.new_zeros(len(state.xi))
            if isinstance(outside, RadialComplement):  # whose two lengths the kernel advances
                along, across = outside.along[:, 0], outside.across[:, 0]
            return self._next_state(state, beta, steps, *chains.advance(state.xi, along, across, counters, beta, steps))

        return launch

    @abstractmethod
    def _next_state(self, state: StateT, beta: float, steps: int, *new: Array) -> tuple[StateT, Array | None]: ...


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
