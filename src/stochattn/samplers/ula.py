"""Unadjusted Langevin: the paper's Algorithm 1."""

from __future__ import annotations

import math

from .._backend.arrays import Array
from .._backend.random import Streams
from .base import Field, Sampler, State
from .subspace import Nothing, Relaxing, Rest, Space


def ula(space: Space, alpha: float) -> Sampler:
    """xi ← (1 − alpha) xi + alpha attend(xi) + √(2 alpha / beta) eps   (Eq. 9, Algorithm 1).

    Inside a basin its variance is (1/beta)/(1 − alpha/2) instead of 1/beta.
    """
    field, r = Field(space.bank), space.bank.d

    def init(xi: Array, rest: Rest, beta: float) -> State:
        return State(xi, rest)

    def advance(noise: Streams, state: State, beta: float, steps: int) -> tuple[State, None]:
        xi, scale = state.xi + 0, math.sqrt(2 * alpha / beta)  # a copy: what is interrupted goes on from `state`
        for _ in range(steps):
            moved = field.pull(xi, beta, alpha)
            eps = noise.normal(r)  # nobody else looks at it again
            xi *= 1 - alpha
            xi += moved
            eps *= scale
            xi += eps
            noise.step += 1
        return State(xi, state.rest.relax(1 - alpha, 2 * alpha / beta, steps)), None

    return Sampler(init, advance, Relaxing if space.rest else Nothing, field)
