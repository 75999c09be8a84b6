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

# Some tenths of a second at most, so that Ctrl-C is heard: in one launch, and of the plain kind.
MOST_STEPS, MOST_CHAIN_STEPS = 20_000, 5 * 10**8
MOST_PLAIN_STEPS, MOST_PRODUCTS = 32, 10**9


class Stretch(NamedTuple):
    """`advance(state, beta, steps) -> (State, refused)` from the step that the streams are at, and how far at most.

    `refused` (rows, 1) counts the proposals that each chain refused, or is None where every chain moved each time.
    """

    advance: Callable[[State, float, int], tuple[State, Array]]
    longest: int


def stretch(name: str, sampler: Sampler, space: Space, alpha: float, noise: Streams) -> Stretch:
    """The longest stretches that these chains can take."""
    K, r = space.bank.patterns.shape
    longest = min(max(MOST_PRODUCTS // (noise.rows * K * r), 1), MOST_PLAIN_STEPS)
    if name == "exact":  # only the last draw of a stretch is made; numpy's streams cannot be entered anywhere
        longest = MOST_STEPS if isinstance(noise, Philox) else 1
    elif isinstance(noise, Philox):
        fused = kernels.chains(name, space.bank.patterns, space.bank.log_r, alpha, space.rest)
        if fused is not None:
            most = min(MOST_STEPS, max(MOST_CHAIN_STEPS // noise.rows, 1))
            return Stretch(_in_one_launch(fused, sampler, alpha, noise), most)
    return Stretch(lambda state, beta, steps: sampler.advance(noise, state, beta, steps), longest)


def _in_one_launch(
    fused: Chains, sampler: Sampler, alpha: float, noise: Philox
) -> Callable[[State, float, int], tuple[State, Array]]:
    def advance(state: State, beta: float, steps: int) -> tuple[State, Array]:
        if not fused.fits(state.xi, beta):
            return sampler.advance(noise, state, beta, steps)
        rest, nothing = state.rest, state.xi.new_zeros(noise.rows)
        walk = (rest.along[:, 0], rest.across[:, 0]) if isinstance(rest, Walking) else (nothing, nothing)
        where = {"key": noise.key, "first_chain": noise.chains.start, "first_step": noise.step}
        xi, along, across, refused = fused.advance(state.xi, *walk, **where, beta=beta, steps=steps)
        if isinstance(rest, Walking):
            rest = Walking(rest.direction, along[:, None], across[:, None])
        elif isinstance(rest, Relaxing):
            rest = rest.relax(1 - alpha, 2 * alpha / beta, steps)
        return State(xi, rest), refused[:, None]

    return advance
