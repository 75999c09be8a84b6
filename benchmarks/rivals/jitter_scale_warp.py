"""Augmentation of signals by noise, scaling and warps of time, with the strengths of Um et al. (2017)."""

from __future__ import annotations

import numpy as np

from stochattn._backend.arrays import Array

JITTER, SCALE, WARP, N_KNOTS = 0.05, 0.1, 0.2, 4
"""Standard deviations of noise (over that of a channel), of factors and of speeds, and knots of speeds."""


def draw(signals: Array, classes: Array, source: Array, rng: np.random.Generator) -> Array:
    """A variant of each of the signals (K, C, T) with indices `source` (n,): (n, C, T)."""
    from scipy.interpolate import CubicSpline

    (_, C, T), n = signals.shape, len(source)
    knots, out = np.linspace(0, T - 1, N_KNOTS + 2), np.empty((n, C, T))
    for i, k in enumerate(source):
        speed = np.clip(CubicSpline(knots, rng.normal(1, WARP, N_KNOTS + 2))(np.arange(T)), 0.1, None)
        times = np.cumsum(speed)
        times = (times - times[0]) * (T - 1) / (times[-1] - times[0])
        for c in range(C):
            out[i, c] = np.interp(times, np.arange(T), signals[k, c])
    noise = JITTER * signals.std((0, 2), keepdims=True) * rng.standard_normal((n, C, T))
    return np.asarray(rng.normal(1, SCALE, (n, C, 1)) * out + noise)
