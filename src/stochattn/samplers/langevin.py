"""Langevin chains: ULA (Algorithm 1), MALA (Algorithm 2), and underdamped, each with one new attention per step."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

from .. import kernels
from .._backend.arrays import Array, namespace, norms_squared, row_dot
from .._backend.checks import positive, step_size
from .._backend.random import Streams
from ..kernels.philox import Philox
from .base import ChainAttention, Sampler, StateT, map_arrays
from .complement import GaussianComplement, NoComplement, OscillatorComplement, PositionState, RadialComplement, Space

MAX_STEP_SIZE = 2.0  # no direction of E is stiffer than 1, and the splitting of underdamped steps is stable below 2
NO_BETA = 0.0  # of a state whose cached values belong to other positions

Arrays: TypeAlias = tuple[Array, ...]


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


class MALAState(NamedTuple):
    """Positions and their complement, with what the acceptance ratio needs of them, evaluated at `beta`."""

    xi: Array
    complement: RadialComplement | NoComplement
    attended: Array  # (rows, r) attend(xi)
    log_potential: Array  # (rows, 1) lse − (alpha beta/4)‖∇E‖²
    beta: float


class MALA(Langevin[MALAState]):
    """Algorithm 1's move as a proposal, accepted with probability min(1, r) (Eq. 20, 21, Algorithm 2).

    Eq. 21 subtracts large, nearly equal numbers, beta/4alpha times each. Writing delta = xi* − xi, T for attend(xi) and
    g = xi − T for the gradient of E, its two terms add up to
        log r = lse* − lse − (beta/2) delta·(T + T*) − (alpha beta/4)(‖g*‖² − ‖g‖²),
    which does not. Outside the span T = 0 and g = v, so the complement enters through ‖g‖² alone.
    """

    State, Outside, program = MALAState, RadialComplement, "mala"

    def init(self, noise: Streams, x: Array, beta: float) -> MALAState:
        space = self.space
        complement = RadialComplement.from_state(x, space, noise) if space.codimension else NoComplement()
        return self._evaluate(space.project(x), complement, beta)

    def advance(self, noise: Streams, state: MALAState, beta: float, steps: int) -> tuple[MALAState, Array | None]:
        if beta != state.beta:  # the schedule moved on, or a kernel moved the chains
            state = self._evaluate(state.xi, state.complement, beta)
        n_rejected = None
        for _ in range(steps):
            state, rejected = self._step(noise, state, beta)
            noise.step += 1
            if rejected is not None:
                n_rejected = rejected + 0 if n_rejected is None else n_rejected + rejected
        return state, n_rejected

    def _evaluate(self, xi: Array, complement: RadialComplement | NoComplement, beta: float) -> MALAState:
        attended, lse = self.attention.evaluate(xi, beta)
        slope = norms_squared(xi - attended)[:, None]
        slope += complement.length_squared
        return MALAState(xi, complement, attended, lse - self.alpha * beta / 4 * slope, beta)

    def _step(self, noise: Streams, state: MALAState, beta: float) -> tuple[MALAState, Array | None]:
        alpha = self.alpha
        scale = math.sqrt(2 * alpha / beta)
        move = alpha * (state.attended - state.xi) + scale * noise.normal(self.space.bank.d)
        complement = state.complement.propose(noise, self.space.codimension, 1 - alpha, scale)
        new = self._evaluate(state.xi + move, complement, beta)

        log_ratio = new.log_potential - state.log_potential
        log_ratio -= beta / 2 * row_dot(move, state.attended + new.attended)[:, None]
        accepted = -noise.exponential() < log_ratio
        if bool(accepted[noise.active_rows].all()):
            return new, None
        where = namespace(accepted).where
        # The direction of the complement, which has d columns, is the same array in both.
        return map_arrays(lambda n, old: n if n is old else where(accepted, n, old), new, state), ~accepted

    def _moved(self, state: MALAState, moved: Arrays, beta: float, steps: int) -> tuple[MALAState, Array]:
        (xi, along, across, n_rejected), complement = moved, state.complement
        if isinstance(complement, RadialComplement):
            complement = RadialComplement(complement.direction, along[:, None], across[:, None])
        return state._replace(xi=xi, complement=complement, beta=NO_BETA), n_rejected[:, None]


@dataclass(frozen=True)
class UnderdampedOptions:
    """step_size: the time h of a step, between 0 and 2; friction: the rate γ at which momentum is lost and renewed."""

    step_size: float = 0.1
    friction: float = 1.0

    def __post_init__(self) -> None:
        step = positive("step_size", self.step_size, "0.1 is the default.")
        if step >= MAX_STEP_SIZE:
            raise ValueError(f"step_size must be below {MAX_STEP_SIZE:g}, where steps become unstable; got {step:g}.")
        object.__setattr__(self, "step_size", step)
        object.__setattr__(self, "friction", positive("friction", self.friction, "1 is the default."))


class UnderdampedState(NamedTuple):
    """Positions, momenta and gradients of E (rows, r); the gradients were evaluated at `beta`."""

    xi: Array
    momentum: Array
    gradient: Array
    complement: OscillatorComplement | NoComplement
    beta: float


class Underdamped(Sampler[UnderdampedState]):
    """dξ = p dt, dp = −∇E dt − γ p dt + √(2γ/β) dW, whose stationary law is p_beta(ξ) N(p; 0, I/β).

    A step of length h, by the BAOAB splitting (Leimkuhler and Matthews 2013):
        p ← p − (h/2) ∇E;  ξ ← ξ + (h/2) p;  p ← c p + √((1 − c²)/β) ε;  ξ ← ξ + (h/2) p;  p ← p − (h/2) ∇E
    with c = exp(−γ h) and ∇E = ξ − attend(ξ). Positions in a quadratic well have the variance 1/β at any h.
    """

    Options, State, Outside = UnderdampedOptions, UnderdampedState, OscillatorComplement
    attention: ChainAttention

    def __init__(self, space: Space, options: UnderdampedOptions) -> None:
        self.space, self.h = space, options.step_size
        self.decay = math.exp(-options.friction * options.step_size)
        self.attention = ChainAttention(space.bank)

    def init(self, noise: Streams, x: Array, beta: float) -> UnderdampedState:
        p = noise.at_kept(self.space.d) * beta**-0.5  # in equilibrium
        xi, momentum = self.space.project(x), self.space.project(p)
        complement = OscillatorComplement(x, p) if self.space.codimension else NoComplement()
        return UnderdampedState(xi, momentum, xi - self.attention.attend(xi, beta), complement, beta)

    def advance(
        self, noise: Streams, state: UnderdampedState, beta: float, steps: int
    ) -> tuple[UnderdampedState, None]:
        xi, p, gradient = state.xi, state.momentum, state.gradient
        if beta != state.beta:  # the schedule moved on
            gradient = xi - self.attention.attend(xi, beta)
        half, scale = self.h / 2, self._noise_scale(beta)
        for _ in range(steps):
            p = p - half * gradient
            xi = xi + half * p
            p *= self.decay
            p += scale * noise.normal(self.space.bank.d)
            xi += half * p
            gradient = xi - self.attention.attend(xi, beta)
            p -= half * gradient
            noise.step += 1
        complement = state.complement.advance(*self._linear_step(beta), steps)
        return UnderdampedState(xi, p, gradient, complement, beta), None

    def _noise_scale(self, beta: float) -> float:
        return math.sqrt((1 - self.decay**2) / beta)

    def _linear_step(self, beta: float) -> tuple[tuple[float, float, float, float], tuple[float, float]]:
        """A step outside the span, where ∇E = x: (x, p) ← A (x, p) + b ε, as (xx, xp, px, pp) and (x, p)."""
        (xx, px), (xp, pp) = self._oscillate(1.0, 0.0, 0.0), self._oscillate(0.0, 1.0, 0.0)
        return (xx, xp, px, pp), self._oscillate(0.0, 0.0, self._noise_scale(beta))

    def _oscillate(self, x: float, p: float, kick: float) -> tuple[float, float]:
        half = self.h / 2
        p -= half * x
        x += half * p
        p = self.decay * p + kick
        x += half * p
        return x, p - half * x
