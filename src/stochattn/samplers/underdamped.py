"""Underdamped Langevin chains, which have a momentum, by the BAOAB splitting, with one new attention per step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from .._backend.arrays import Array
from .._backend.checks import check_positive
from .._backend.random import Streams
from .base import ChainAttention, Sampler
from .complement import NoComplement, OscillatorComplement, Space

MAX_STEP_SIZE = 2.0  # no direction of E is stiffer than 1, and the splitting is stable below 2


@dataclass(frozen=True)
class UnderdampedOptions:
    """step_size: the time h of a step, between 0 and 2; friction: the rate γ at which momentum is lost and renewed."""

    step_size: float = 0.1
    friction: float = 1.0

    def __post_init__(self) -> None:
        step = check_positive("step_size", self.step_size, "0.1 is the default.")
        if step >= MAX_STEP_SIZE:
            raise ValueError(f"step_size must be below {MAX_STEP_SIZE:g}, where steps become unstable; got {step:g}.")
        object.__setattr__(self, "step_size", step)
        object.__setattr__(self, "friction", check_positive("friction", self.friction, "1 is the default."))


class UnderdampedState(NamedTuple):
    """Positions, momenta and gradients of E (rows, r); the gradients were evaluated at `beta`."""

    xi: Array
    momentum: Array
    gradient: Array
    complement: OscillatorComplement | NoComplement
    beta: float


class Underdamped(Sampler[UnderdampedState]):
    """dξ = p dt, dp = −∇E dt − γ p dt + √(2γ/β) dW, whose stationary distribution is p_beta(ξ) N(p; 0, I/β).

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
        p *= self.decay
        p += kick
        x += half * p
        return x, p - half * x
