"""Metropolis-adjusted Langevin: the paper's Algorithm 2, with one new attention evaluation a step."""

from __future__ import annotations

import math

from .._backend.arrays import Array, namespace, norms_squared, row_dot
from .._backend.random import Streams
from .base import Field, Sampler, State
from .subspace import Nothing, Rest, Space, Walking


def mala(space: Space, alpha: float) -> Sampler:
    """Algorithm 1's move as a proposal, accepted with probability min(1, r) (Eq. 20, 21, Algorithm 2).

    Eq. 21 subtracts large, nearly equal numbers, beta/4alpha times each. Writing delta = xi* − xi, T for the pull and
    g = xi − T for the gradient of E, its two terms add up to
        log r = lse* − lse − (beta/2) delta·(T + T*) − (alpha beta/4)(‖g*‖² − ‖g‖²),
    which does not. Outside the span T = 0 and g = v, so the rest enters through ‖g‖² alone. A state's `level` is
    lse − (alpha beta/4)‖g‖².
    """
    field = Field(space.bank)

    def evaluate(xi: Array, rest: Rest, beta: float) -> State:
        pull, lse = field.at(xi, beta)
        slope = norms_squared(xi - pull)[:, None]
        if isinstance(rest, Walking):
            slope += rest.length_squared
        return State(xi, rest, pull, lse - alpha * beta / 4 * slope, beta)

    def advance(noise: Streams, state: State, beta: float, steps: int) -> tuple[State, Array]:
        if beta != state.beta:  # a schedule moved on: what the state holds was computed at another beta
            state = evaluate(state.xi, state.rest, beta)
        refused = None
        for _ in range(steps):
            state, now = step(noise, state, beta)
            noise.step += 1
            if now is not None:
                refused = now + 0 if refused is None else refused + now
        return state, refused

    def step(noise: Streams, state: State, beta: float) -> tuple[State, Array]:
        scale = math.sqrt(2 * alpha / beta)
        move = alpha * (state.pull - state.xi) + scale * noise.normal(space.bank.d)
        rest = state.rest
        if space.rest:
            rest = rest.propose(noise, space.rest, 1 - alpha, scale)
        new = evaluate(state.xi + move, rest, beta)

        log_ratio = new.level - state.level - beta / 2 * row_dot(move, state.pull + new.pull)[:, None]
        accepted = -noise.exponential() < log_ratio
        if bool(accepted[noise.busy].all()):
            return new, None
        return _choose(accepted, new, state), ~accepted

    return Sampler(evaluate, advance, Walking if space.rest else Nothing, field)


def _choose(accepted: Array, new: State, old: State) -> State:
    where = namespace(accepted).where
    xi, pull, level = (
        where(accepted, a, b) for a, b in ((new.xi, old.xi), (new.pull, old.pull), (new.level, old.level))
    )
    rest = new.rest.where(accepted, old.rest) if isinstance(new.rest, Walking) else new.rest
    return State(xi, rest, pull, level, new.beta)
