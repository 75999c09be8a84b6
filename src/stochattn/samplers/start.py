"""Where chains start: near memories, on the unit sphere, in equilibrium, or at given states."""

from __future__ import annotations

import numpy as np

from .._backend.arrays import Array, ArrayLike, detached, empty, like, to_numpy
from .._backend.checks import checked_indices, one_of
from .._backend.random import Purpose, Streams, generator
from ..core.memory import MemoryBank, states
from ..core.mixture import cumulative_weights, pick

NAMES = ("memories", "sphere", "equilibrium")
_CHOICES = (
    f"one of {', '.join(map(repr, NAMES))}, memory indices (n_chains,), states (n_chains, d), or draws to continue"
)


def starting_states(start: str | ArrayLike, bank: MemoryBank, beta: float, sigma_init: float, noise: Streams) -> Array:
    """The chains' first states, with idle rows at zero: (rows, d).

    start: "memories" (near a different memory each, in an order that the seed sets), "sphere", "equilibrium" (exact
    draws), memory indices (n_chains,), or states (n_chains, d). sigma_init: the spread of starts near memories.
    """
    if isinstance(start, str):
        return _named(one_of("start", start, NAMES), bank, beta, sigma_init, noise)
    given = to_numpy(start)
    if given.dtype.kind not in "fiu":
        raise TypeError(f"start must be {_CHOICES}; got {type(start).__name__}.")
    if given.ndim == 1 and given.dtype.kind in "iu":
        indices = checked_indices(given, bank.K, "start", "memories")
        _require_one_each(len(indices), noise)
        excluded = np.setdiff1d(indices, bank.kept)
        if len(excluded):
            raise ValueError(f"start must name memories of positive weight; memory {excluded[0]} has weight zero.")
        return _near(indices, bank, sigma_init, noise)
    given = detached(states(start, bank, "start"))
    if given.ndim != 2:
        raise ValueError(f"start must be {_CHOICES}; got an array of shape {tuple(given.shape)}.")
    _require_one_each(len(given), noise)
    return in_rows(given, noise)


def _named(start: str, bank: MemoryBank, beta: float, sigma_init: float, noise: Streams) -> Array:
    if start == "memories":
        order = generator(noise.seed, Purpose.ORDER).permutation(bank.kept)
        return _near(order[np.arange(noise.chains.start, noise.chains.stop) % len(order)], bank, sigma_init, noise)
    if start == "sphere":
        directions = noise.at_start(bank.d)
        lengths = (directions * directions).sum(-1)[:, None] ** 0.5
        return directions / (lengths + (lengths == 0))
    return _near(pick(cumulative_weights(bank, beta), noise.uniform_at_start()), bank, beta**-0.5, noise)


def _near(indices: Array, bank: MemoryBank, sigma: float, noise: Streams) -> Array:
    rows = like(np.asarray(indices, dtype=np.int64), bank.patterns, keep_dtype=True)
    x = noise.at_start(bank.d)
    x *= sigma
    x[noise.active_rows] += bank.patterns[rows]
    return x


def in_rows(x: Array, noise: Streams) -> Array:
    """x (n_chains, ...) in the chains' rows, with idle rows at zero: (rows, ...), in its own dtype."""
    x = like(x, noise.reference, keep_dtype=True)
    placed = empty((noise.rows, *x.shape[1:]), x)
    placed[...] = 0
    placed[noise.active_rows] = x
    return placed


def _require_one_each(got: int, noise: Streams) -> None:
    if got != len(noise.chains):
        raise ValueError(f"start must have one entry for each of the {len(noise.chains)} chains; got {got}.")
