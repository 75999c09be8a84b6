"""How far a run goes at once: a step at a time, or many in one launch where a device can do that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from .. import kernels
from .._arrays import Array
from .._philox import Philox
from .._random import Streams
from ..subspace import Relaxing, Space, Walking
from .base import Sampler, State

if TYPE_CHECKING:
    from ..kernels.launch import Chains

MOST_STEPS, MOST_CHAIN_STEPS = 20_000, 5 * 10**8  # in one launch: some tenths of a second, so that Ctrl-C is heard


class Stretch(NamedTuple):
    """`advance(state, beta, steps) -> (State, refused)` from the step that the streams are at, and how far at most.

    `refused` (rows, 1) counts the proposals that each chain refused, or is None where every chain moved each time.
    """

    advance: Callable[[State, float, int], tuple[State, Array]]
    longest: int


def stretch(name: str, sampler: Sampler, space: Space, alpha: float, noise: Streams) -> Stretch:
    """The longest stretches that these chains can take."""
    if isinstance(noise, Philox):
        if name == "exact":
            return Stretch(_last_alone(sampler, noise), MOST_STEPS)
        fused = kernels.chains(name, space.bank.patterns, space.bank.log_r, alpha, space.rest)
        if fused is not None:
            longest = min(MOST_STEPS, max(MOST_CHAIN_STEPS // noise.rows, 1))
            return Stretch(_in_one_launch(fused, sampler, alpha, noise), longest)
    return Stretch(lambda state, beta, steps: sampler.step(noise, state, beta), 1)


def _last_alone(sampler: Sampler, noise: Philox) -> Callable[[State, float, int], tuple[State, Array]]:
    """Exact draws forget where they were, and these streams can be entered anywhere: only the last one is made."""

    def advance(state: State, beta: float, steps: int) -> tuple[State, Array]:
        noise.step += steps - 1
        return sampler.step(noise, state, beta)

    return advance


def _in_one_launch(
    fused: Chains, sampler: Sampler, alpha: float, noise: Philox
) -> Callable[[State, float, int], tuple[State, Array]]:
    def advance(state: State, beta: float, steps: int) -> tuple[State, Array]:
        if not fused.fits(state.xi, beta):
            return _one_by_one(sampler, noise, state, beta, steps)
        rest, nothing = state.rest, state.xi.new_zeros(noise.rows)
        walk = (rest.along[:, 0], rest.across[:, 0]) if isinstance(rest, Walking) else (nothing, nothing)
        where = {"key": noise.key, "first_chain": noise.chains.start, "first_step": noise.step}
        xi, along, across, refused = fused.advance(state.xi, *walk, **where, beta=beta, steps=steps)
        if isinstance(rest, Walking):
            rest = Walking(rest.direction, along[:, None], across[:, None])
        elif isinstance(rest, Relaxing):
            decay = (1 - alpha) ** steps
            rest = rest.relax(decay, 2 * alpha / beta * (1 - decay**2) / (1 - (1 - alpha) ** 2))
        return State(xi, rest), refused[:, None]

    return advance


def _one_by_one(sampler: Sampler, noise: Streams, state: State, beta: float, steps: int) -> tuple[State, Array]:
    refused = None
    for _ in range(steps):
        state, now = sampler.step(noise, state, beta)
        if now is not None:
            refused = now.long() if refused is None else refused + now
        noise.step += 1
    return state, refused
