"""Metropolis-adjusted Langevin: the paper's Algorithm 2, with one new attention evaluation per step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from .._backend.arrays import Array, namespace, norms_squared, row_dot
from .._backend.random import Streams
from .base import Langevin
from .complement import NoComplement, RadialComplement

if TYPE_CHECKING:
    from ..kernels.launch import Chains
    from ..kernels.philox import Philox

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
        if isinstance(complement, RadialComplement):
            slope += complement.length_squared
        return MALAState(xi, complement, attended, lse - self.alpha * beta / 4 * slope, beta)

    def _step(self, noise: Streams, state: MALAState, beta: float) -> tuple[MALAState, Array | None]:
        alpha, complement = self.alpha, state.complement
        scale = math.sqrt(2 * alpha / beta)
        move = alpha * (state.attended - state.xi) + scale * noise.normal(self.space.bank.d)
        if isinstance(complement, RadialComplement):
            complement = complement.propose(noise, self.space.codimension, 1 - alpha, scale)
        new = self._evaluate(state.xi + move, complement, beta)

        log_ratio = new.log_potential - state.log_potential
        log_ratio -= beta / 2 * row_dot(move, state.attended + new.attended)[:, None]
        accepted = -noise.exponential() < log_ratio
        if bool(accepted[noise.active_rows].all()):
            return new, None
        return _select(accepted, new, state), ~accepted

    def _launch(
        self, chains: Chains, noise: Philox, state: MALAState, beta: float, steps: int
    ) -> tuple[MALAState, Array | None]:
        complement = state.complement
        along = across = state.log_potential[:, 0] * 0
        if isinstance(complement, RadialComplement):
            along, across = complement.along[:, 0], complement.across[:, 0]
        xi, along, across, n_rejected = chains.advance(state.xi, along, across, noise.counters, beta, steps)
        if isinstance(complement, RadialComplement):
            complement = RadialComplement(complement.direction, along[:, None], across[:, None])
        return state._replace(xi=xi, complement=complement, beta=NO_BETA), n_rejected[:, None]


def _select(accepted: Array, new: MALAState, old: MALAState) -> MALAState:
    where = namespace(accepted).where
    complement = new.complement
    if isinstance(complement, RadialComplement) and isinstance(old.complement, RadialComplement):
        complement = complement.where(accepted, old.complement)
    return MALAState(
        where(accepted, new.xi, old.xi),
        complement,
        where(accepted, new.attended, old.attended),
        where(accepted, new.log_potential, old.log_potential),
        new.beta,
    )
