"""Warps of time: where in one signal the times of another one lie.

A warp φ (T,) carries the moving signal onto the fixed one, moving(φ(t)) ≈ fixed(t). It is found as displacements of
pictures are (Thirion's demons, see `registration`), along time, φ = id + u:

    δ = d·g / (|g|² + |d|²/4 + ε)        u ← E(u + E(δ))        d = fixed − warped,  g = slope of the warped signal

with a Gaussian smoother E, on blurred signals first and on sharper ones later.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...._backend.arrays import Array
from .normalization import Normalization

GRID = 96
"""Points at which warps are found; shorter signals keep their length."""
LEVELS = ((0.08, 24), (0.04, 24), (0.02, 32))
"""Blur of the signals, over their length, and number of steps, one level after the other."""
SMOOTHNESS, MIN_WIDTH, LEAST_SLOPE = 0.04, 2.0, 1e-3
"""Width of the smoother over the length, its least width in points, and ε in units of the variance."""
MIN_SCALE = 1e-12
"""Standard deviation of a channel, over the largest value, up to which it is constant."""
MARGIN = 8
"""Points that continue the ends, as many as a cubic spline and its filter see."""
LEAST_SPEED = 0.2
"""Speed below which no warp falls: time does not run backwards."""


def on_grid(signals: Array, scale: Array | None = None) -> Array:
    """Signals (K, T, C) at no more than GRID points: (K, n, C). Units are `scale` (C,), or standard deviations."""
    K, T, _ = signals.shape
    scale = signals.std((0, 1)) if scale is None else scale
    units = signals / np.where(scale > MIN_SCALE * np.abs(signals).max(), scale, 1.0)
    return splined(units, np.tile(np.linspace(0, T - 1, min(GRID, T)), (K, 1)))


def registered(moving: Array, fixed: Array, n_points: int, normalization: Normalization | None = None) -> Array:
    """Warps that carry signals (n, g, C) onto others (n, g, C), both on the grid, in points of the data: (n, T).

    Signals that are normalized are normalized again after each step, like those that they are carried onto.
    """
    g = moving.shape[1]
    smoother = gaussian(g, max(SMOOTHNESS * g, MIN_WIDTH))
    times, u = np.arange(g), np.zeros(moving.shape[:2])
    for blur, steps in LEVELS:
        blurred = gaussian(g, blur * g)
        seen, wanted = blurred @ moving, blurred @ fixed
        statistics = {} if normalization is None else normalization.statistics(wanted)
        for _ in range(steps):
            warped = linear(seen, times + u)
            warped = warped if normalization is None else normalization.alike(warped, statistics)
            slope, difference = np.gradient(warped, axis=1), wanted - warped
            size = np.square(slope).sum(2) + np.square(difference).sum(2) / 4 + LEAST_SLOPE
            u = (u + ((difference * slope).sum(2) / size) @ smoother.T) @ smoother.T
    unit = (n_points - 1) / (g - 1)
    at = np.tile(np.arange(n_points) / unit, (len(u), 1))
    return increasing(np.arange(n_points) + unit * splined(u[:, :, None], at)[:, :, 0])


def increasing(warps: Array) -> Array:
    """Warps (n, T) whose speed is nowhere below LEAST_SPEED, with the same mean."""
    speed = np.maximum(np.diff(warps, axis=1), LEAST_SPEED)
    found = np.concatenate([np.zeros((len(warps), 1)), np.cumsum(speed, axis=1)], axis=1)
    return np.asarray(found + (warps - found).mean(1, keepdims=True))


def inverse(warp: Array) -> Array:
    """The inverse of an increasing warp (T,), ends continued: (T,)."""
    times = np.arange(len(warp), dtype=np.float64)
    found = np.interp(times, warp, times)
    within, speed = (times > warp[0]) & (times < warp[-1]), np.gradient(warp)
    for _ in range(2):  # Newton's method: the interpolation between points is not smooth enough for slow signals
        away = np.where(within, splined(warp[None, :, None], found[None])[0, :, 0] - times, 0.0)
        found = np.clip(found - away / np.interp(found, times, speed), 0, times[-1])
    return np.asarray(found)


def linear(signals: Array, times: Array) -> Array:
    """Signals (k, T, C) at times (k, T'), between points linearly, ends continued: (k, T', C)."""
    last = signals.shape[1] - 1
    at = np.clip(times, 0, last)
    left = np.minimum(at.astype(np.intp), max(last - 1, 0))
    rest, rows = (at - left)[:, :, None], np.arange(len(signals))[:, None]
    return np.asarray((1 - rest) * signals[rows, left] + rest * signals[rows, np.minimum(left + 1, last)])


def splined(signals: Array, times: Array) -> Array:
    """Signals (k, T, C) at times (k, T') by cubic splines, ends continued: (k, T', C)."""
    from scipy.ndimage import spline_filter1d

    coefficients = spline_filter1d(
        np.pad(signals, ((0, 0), (MARGIN, MARGIN), (0, 0)), mode="edge"), 3, 1, mode="nearest"
    )
    at = np.clip(times, 0, signals.shape[1] - 1) + MARGIN
    left = at.astype(np.intp)
    x, rows = (at - left)[:, :, None], np.arange(len(signals))[:, None]
    y = 1 - x
    weights = y**3 / 6, (4 - 6 * x**2 + 3 * x**3) / 6, (4 - 6 * y**2 + 3 * y**3) / 6, x**3 / 6
    found = np.zeros((len(signals), times.shape[1], signals.shape[2]))
    for j, weight in enumerate(weights):
        found += weight * coefficients[rows, left + (j - 1)]
    return found


@cache
def gaussian(n: int, width: float) -> Array:
    """Gaussian means over n points whose ends are continued: (n, n)."""
    reach = np.arange(-int(4 * width) - 1, n + int(4 * width) + 1)
    weights = np.exp(-0.5 * np.square((np.arange(n)[:, None] - reach) / width))
    within = np.zeros((n, n))
    np.add.at(within.T, np.clip(reach, 0, n - 1), weights.T)
    return np.asarray(within / within.sum(1, keepdims=True))
