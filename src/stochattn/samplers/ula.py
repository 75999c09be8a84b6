"""Unadjusted Langevin: the paper's Algorithm 1."""

from __future__ import annotations

import math

from .._arrays import Array
from .._random import Streams
from ..subspace import Nothing, Relaxing, Rest, Space
from .base import Field, Sampler, State


def ula(space: Space, alpha: float) -> Sampler:
    """xi ← (1 − alpha) xi + alpha attend(xi) + √(2 alpha / beta) eps   (Eq. 9, Algorithm 1).

    Inside a basin its variance is (1/beta)/(1 − alpha/2) instead of 1/beta.
    """
    field, r = Field(space.bank), space.bank.d

    def init(xi: Array, rest: Rest, beta: float) -> State:
        return State(xi, rest)

    def step(noise: Streams, state: State, beta: float) -> tuple[State, None]:
        pull = field.pull(state.xi, beta, alpha)
        xi, eps = state.xi, noise.normal(r)  # nobody else looks at either again
        xi *= 1 - alpha
        xi += pull
        eps *= math.sqrt(2 * alpha / beta)
        xi += eps
        return State(xi, state.rest.relax(1 - alpha, 2 * alpha / beta)), None

    return Sampler(init, step, Relaxing if space.rest else Nothing)
