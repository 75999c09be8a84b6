"""Augmentations of signals: jitter, scaling and warps of single signals (Um et al. 2017), and a block bootstrap.

Both are drawn within classes. Blocks of the bootstrap keep their time, so that signals which are aligned stay so; it
is the moving-block bootstrap (Künsch 1989) whose blocks begin anywhere and are put where they were.
"""

from __future__ import annotations

import numpy as np

from stochattn._backend.arrays import Array

JITTER, SCALE, WARP, N_KNOTS = 0.05, 0.1, 0.2, 4
"""Standard deviations of noise (over that of the signals), of factors and of speeds, and knots of speeds."""


def jitter_scale_warp(signals: Array, source: Array, rng: np.random.Generator) -> Array:
    """A variant of each of the signals (K, T) with indices `source` (n,): (n, T)."""
    from scipy.interpolate import CubicSpline

    n, T = len(source), signals.shape[1]
    knots = np.linspace(0, T - 1, N_KNOTS + 2)
    out = np.empty((n, T))
    for i, k in enumerate(source):
        speed = np.clip(CubicSpline(knots, rng.normal(1, WARP, N_KNOTS + 2))(np.arange(T)), 0.1, None)
        times = np.cumsum(speed)
        times = (times - times[0]) * (T - 1) / (times[-1] - times[0])
        out[i] = np.interp(times, np.arange(T), signals[k])
    scale = rng.normal(1, SCALE, (n, 1))
    return np.asarray(scale * out + rng.normal(0, JITTER * signals.std(), (n, T)))


def block_bootstrap(signals: Array, classes: Array, source: Array, rng: np.random.Generator) -> Array:
    """Signals whose blocks of √T points come from signals (K, T) of the class of `source` (n,): (n, T)."""
    n, T = len(source), signals.shape[1]
    length = max(round(np.sqrt(T)), 1)
    first = rng.integers(length, size=n)
    block = (np.arange(T) + first[:, None]) // length
    members = {c: np.flatnonzero(classes == c) for c in np.unique(classes)}
    chosen = np.stack([rng.choice(members[classes[k]], block.max() + 1) for k in source])
    return np.asarray(signals[np.take_along_axis(chosen, block, axis=1), np.arange(T)])
