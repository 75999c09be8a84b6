"""Metropolis-adjusted Langevin chains (Algorithm 2), with one new attention per step."""

from __future__ import annotations

import math
from typing import NamedTuple

from .._backend.arrays import Array, namespace, norms_squared, row_dot
from .._backend.random import Streams
from .base import map_arrays
from .complement import NoComplement, RadialComplement
from .langevin import Langevin

NO_BETA = 0.0  # of a state whose cached values belong to other positions


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

    def _next_state(self, state: MALAState, beta: float, steps: int, *new: Array) -> tuple[MALAState, Array]:
        (xi, along, across, n_rejected), complement = new, state.complement
        if isinstance(complement, RadialComplement):
            complement = RadialComplement(complement.direction, along[:, None], across[:, None])
        return state._replace(xi=xi, complement=complement, beta=NO_BETA), n_rejected[:, None]
