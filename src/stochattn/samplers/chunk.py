"""How far a run goes at once: a step at a time, or many in one launch where a device can do that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from .. import kernels
from .._backend.arrays import Array
from .._backend.random import Streams
from ..kernels.philox import Philox
from .base import Sampler, State
from .subspace import Relaxing, Space, Walking

if TYPE_CHECKING:
    from ..kernels.launch import Chains

# Some tenths of a second at most, so that Ctrl-C is heard: multiplications of chains and memories, and steps.
ON_DEVICE, ON_CPU = 5 * 10**12, 10**9
MOST_STEPS, MOST_PLAIN_STEPS = 20_000, 32

Advance: TypeAlias = Callable[[State, float, int], tuple[State, Array, int]]
"""`(state, beta, most) -> (State, refused, steps)`: up to `most` steps from the one that the streams are at."""


def stretch(name: str, sampler: Sampler, space: Space, alpha: float, noise: Streams) -> Advance:
    """The way in which these chains go farthest at once."""
    K, r = space.bank.patterns.shape
    products = noise.rows * K * r
    longest = min(max(ON_CPU // products, 1), MOST_PLAIN_STEPS)
    if name == "exact":  # only the last draw of a stretch is made; numpy's streams cannot be entered anywhere
        longest = MOST_STEPS if isinstance(noise, Philox) else 1

    def plainly(state: State, beta: float, most: int) -> tuple[State, Array, int]:
        steps = min(most, longest)
        return *sampler.advance(noise, state, beta, steps), steps

    if isinstance(noise, Philox):
        fused = kernels.chains(name, space.bank.patterns, space.bank.log_r, alpha, space.rest)
        if fused is not None:
            return _in_one_launch(fused, plainly, alpha, noise, min(MOST_STEPS, max(ON_DEVICE // products, 1)))
    return plainly


def _in_one_launch(fused: Chains, plainly: Advance, alpha: float, noise: Philox, longest: int) -> Advance:
    def advance(state: State, beta: float, most: int) -> tuple[State, Array, int]:
        if not fused.fits(state.xi, beta):
            return plainly(state, beta, most)
        steps, rest, nothing = min(most, longest), state.rest, state.xi.new_zeros(noise.rows)
        walk = (rest.along[:, 0], rest.across[:, 0]) if isinstance(rest, Walking) else (nothing, nothing)
        where = {"key": noise.key, "first_chain": noise.chains.start, "first_step": noise.step}
        xi, along, across, refused = fused.advance(state.xi, *walk, **where, beta=beta, steps=steps)
        if isinstance(rest, Walking):
            rest = Walking(rest.direction, along[:, None], across[:, None])
        elif isinstance(rest, Relaxing):
            rest = rest.relax(1 - alpha, 2 * alpha / beta, steps)
        return State(xi, rest), refused[:, None], steps

    return advance
