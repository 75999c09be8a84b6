"""Where chains start: near memories, on the unit sphere, in equilibrium, or at given states."""

from __future__ import annotations

import numpy as np

from .._backend.arrays import Array, ArrayLike, NumpyArray, detached, empty, like, to_numpy
from .._backend.checks import checked_indices, one_of
from .._backend.random import Purpose, Streams, generator
from ..core.memory import MemoryBank, states
from ..core.mixture import cumulative_weights, pick
from .draws import Checkpoint, Draws

STARTS = ("memories", "sphere", "equilibrium")
START_CHOICES = f"one of {STARTS}, memory indices (n_chains,), states (n_chains, d), or draws to continue"

Start = str | ArrayLike | Draws | Checkpoint


class StartMemories:
    """The memories of a bank around which chains start, as rows (n_chains, d)."""

    def __init__(self, bank: MemoryBank) -> None:
        self.bank = bank

    def at(self, indices: NumpyArray) -> Array:
        """Those with these indices; ValueError if one has weight zero."""
        require_kept(np.setdiff1d(indices, self.bank.kept))
        return self._rows(indices)

    def in_equilibrium(self, uniforms: NumpyArray, beta: float) -> Array:
        """Those that these uniforms pick with the weights of the mixture."""
        return self._rows(pick(cumulative_weights(self.bank, beta), uniforms))

    def in_random_order(self, seed: int, chains: range) -> Array:
        """A different one for each chain, as long as there are enough."""
        return self._rows(self.bank.kept[positions(seed, chains, len(self.bank.kept))])

    def _rows(self, indices: NumpyArray) -> Array:
        return self.bank.patterns[like(indices.astype(np.int64), self.bank.patterns, keep_dtype=True)]


def positions(seed: int, chains: range, n_kept: int) -> NumpyArray:
    """The position of the memory near which each chain starts, among those that are kept, in a random order."""
    order = generator(seed, Purpose.ORDER).permutation(n_kept)
    return np.asarray(order[np.asarray(chains) % n_kept])


def require_kept(excluded: NumpyArray) -> None:
    """ValueError if there are indices of memories with weight zero."""
    if len(excluded):
        raise ValueError(f"start must name memories of positive weight; memory {excluded[0]} has weight zero.")


def starting_states(
    start: Start,
    bank: MemoryBank,
    beta: float,
    sigma_init: float,
    noise: Streams,
    memories: StartMemories | None = None,
) -> Array:
    """The chains' first states (see `run`), with idle rows at zero: (rows, d)."""
    spread, memories = sigma_init, memories or StartMemories(bank)
    if isinstance(start, str):
        one_of("start", start, STARTS)
        if start == "sphere":
            directions = noise.at_start(bank.d)
            lengths = (directions * directions).sum(-1)[:, None] ** 0.5
            return directions / (lengths + (lengths == 0))
        if start == "equilibrium":
            near, spread = memories.in_equilibrium(noise.uniform_at_start(), beta), beta**-0.5
        else:
            near = memories.in_random_order(noise.seed, noise.chains)
    else:
        given = given_start(start, bank, len(noise.chains))
        if given.ndim == 2:
            return in_rows(given, noise)
        near = memories.at(given)
    x = noise.at_start(bank.d)
    x *= spread
    x[noise.active_rows] += near
    return x


def given_start(start: Start, bank: MemoryBank, n_chains: int) -> Array:
    """The memories (n_chains,), or the states (n_chains, d), at which the caller lets the chains start."""
    given = to_numpy(start)
    if given.dtype.kind not in "fiu":
        raise TypeError(f"start must be {START_CHOICES}; got {type(start).__name__}.")
    if given.ndim == 1 and given.dtype.kind in "iu":
        given = checked_indices(given, bank.K, "start", "memories")
    else:
        given = detached(states(start, bank, "start"))
        if given.ndim != 2:
            raise ValueError(f"start must be {START_CHOICES}; got an array of shape {tuple(given.shape)}.")
    if len(given) != n_chains:
        raise ValueError(f"start must have one entry for each of the {n_chains} chains; got {len(given)}.")
    return given


def in_rows(x: Array, noise: Streams) -> Array:
    """x (n_chains, ...) in the chains' rows, with idle rows at zero: (rows, ...), in its own dtype."""
    x = like(x, noise.reference, keep_dtype=True)
    placed = empty((noise.rows, *x.shape[1:]), x)
    placed[...] = 0
    placed[noise.active_rows] = x
    return placed
