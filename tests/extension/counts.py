"""A sampler in one file: underdamped Langevin that counts the steps of its chains.

It is registered with  stochattn.register_sampler("underdamped counts", UnderdampedCounts)
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stochattn._backend.arrays import Array, zero_counts
from stochattn._backend.checks import check_positive
from stochattn.samplers.base import ChainAttention, Sampler
from stochattn.samplers.complement import NoComplement, OscillatorComplement


@dataclass(frozen=True)
class CountsOptions:
    """step_size: the time of a step."""

    step_size: float = 0.1

    def __post_init__(self):
        check_positive("step_size", self.step_size, "0.1 is the default.")


class CountsState(NamedTuple):
    """Positions, momenta, and the steps that each chain has taken, as integers (rows, 1)."""

    xi: Array
    momentum: Array
    steps: Array
    complement: OscillatorComplement | NoComplement


class UnderdampedCounts(Sampler[CountsState]):
    """Momenta are partly renewed, p ← c p + √((1 − c²)/β) ε with c = exp(−h), then a leapfrog step follows."""

    Options, State, Outside = CountsOptions, CountsState, OscillatorComplement

    def __init__(self, space, options):
        self.space, self.h = space, options.step_size
        self.attention = ChainAttention(space.bank)

    def init(self, noise, x, beta):
        xi, p = self.space.project(x), noise.at_kept(self.space.d) / math.sqrt(beta)
        complement = OscillatorComplement(x, p) if self.space.codimension else NoComplement()
        return CountsState(xi, self.space.project(p), zero_counts(len(xi), xi), complement)

    def advance(self, noise, state, beta, steps):
        xi, p, half, c = state.xi, state.momentum, self.h / 2, math.exp(-self.h)
        scale = math.sqrt((1 - c * c) / beta)
        for _ in range(steps):
            p = c * p + scale * noise.normal(self.space.bank.d)
            xi = xi + half * p
            p = p - self.h * (xi - self.attention.attend(xi, beta))
            xi = xi + half * p
            noise.step += 1
        complement = state.complement
        if self.space.codimension:  # outside the span the gradient is x, and a step is linear
            drift, kick = np.array([[1, half], [0, 1]]), np.array([[1, 0], [-self.h, 1]])
            leapfrog = drift @ kick @ drift
            A, b = leapfrog @ np.diag([1, c]), leapfrog @ [0, scale]
            complement = complement.advance(A.ravel().tolist(), b.tolist(), steps)
        return CountsState(xi, p, state.steps + steps, complement), None
