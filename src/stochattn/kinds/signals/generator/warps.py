"""Warps of time: where in one signal the times of another one lie.

A warp φ (T,) carries the moving signal onto the fixed one, moving(φ(t)) ≈ fixed(t). As for displacements of images, it
is estimated by Thirion's demons, here along time, φ = id + u:

    δ = d·g / (|g|² + |d|²/4 + ε)        u ← E(u + E(δ))        d = fixed − warped,  g = slope of the warped signal

with a Gaussian smoother E, on blurred signals first and on sharper ones later.
"""

from __future__ import annotations

import numpy as np

from ...._backend.arrays import Array
from ...smoothing import cubic_weights, gaussian_matrix
from .normalization import Normalization

GRID = 96
"""Largest number of points at which warps are estimated; shorter signals keep their length."""
LEVELS = ((0.08, 24), (0.04, 24), (0.02, 32))
"""Blur of the signals, over their length, and number of steps, for each level in turn."""
SMOOTHNESS, MIN_WIDTH, LEAST_SLOPE = 0.04, 2.0, 1e-3
"""Width of the smoother over the length, its least width in points, and ε in units of the variance."""
MIN_SCALE = 1e-12
"""Standard deviation of a channel, over the largest value, up to which it is constant."""
MARGIN = 8
"""Points by which ends are extended: as many as a cubic spline and its filter depend on."""
LEAST_SPEED = 0.2
"""Least speed of a warp: time does not run backward."""


def resample_to_grid(signals: Array, scale: Array | None = None) -> Array:
    """Signals (K, T, C) at no more than GRID points, over `scale` (C,) or their standard deviations: (K, n, C)."""
    K, T, _ = signals.shape
    scale = signals.std((0, 1)) if scale is None else scale
    units = signals / np.where(scale > MIN_SCALE * np.abs(signals).max(), scale, 1.0)
    return interpolate_cubic(units, np.tile(np.linspace(0, T - 1, min(GRID, T)), (K, 1)))


def register(moving: Array, fixed: Array, n_points: int, normalization: Normalization | None = None) -> Array:
    """Warps that carry moving signals (n, g, C) onto fixed ones (n, g, C), both on the grid: (n, T), in points of data.

    Normalized signals are normalized again after each step, like the fixed signals.
    """
    g = moving.shape[1]
    smoother = gaussian_matrix(g, max(SMOOTHNESS * g, MIN_WIDTH))
    times, u = np.arange(g), np.zeros(moving.shape[:2])
    for blur, steps in LEVELS:
        blurred = gaussian_matrix(g, blur * g)
        seen, wanted = blurred @ moving, blurred @ fixed
        statistics = {} if normalization is None else normalization.statistics(wanted)
        for _ in range(steps):
            warped = interpolate_linear(seen, times + u)
            warped = warped if normalization is None else normalization.match(warped, statistics)
            slope, difference = np.gradient(warped, axis=1), wanted - warped
            size = np.square(slope).sum(2) + np.square(difference).sum(2) / 4 + LEAST_SLOPE
            u = (u + ((difference * slope).sum(2) / size) @ smoother.T) @ smoother.T
    unit = (n_points - 1) / (g - 1)
    at = np.tile(np.arange(n_points) / unit, (len(u), 1))
    return enforce_increasing(np.arange(n_points) + unit * interpolate_cubic(u[:, :, None], at)[:, :, 0])


def enforce_increasing(warps: Array) -> Array:
    """Warps (n, T), changed so that their speed is at least LEAST_SPEED and their mean stays the same."""
    speed = np.maximum(np.diff(warps, axis=1), LEAST_SPEED)
    rising = np.concatenate([np.zeros((len(warps), 1)), np.cumsum(speed, axis=1)], axis=1)
    return np.asarray(rising + (warps - rising).mean(1, keepdims=True))


def invert(warp: Array) -> Array:
    """The inverse of an increasing warp (T,), with constant ends: (T,)."""
    times = np.arange(len(warp), dtype=np.float64)
    inverse = np.interp(times, warp, times)
    within, speed = (times > warp[0]) & (times < warp[-1]), np.gradient(warp)
    for _ in range(2):  # Newton steps, because linear interpolation is not smooth enough for slow signals
        excess = np.where(within, interpolate_cubic(warp[None, :, None], inverse[None])[0, :, 0] - times, 0.0)
        inverse = np.clip(inverse - excess / np.interp(inverse, times, speed), 0, times[-1])
    return np.asarray(inverse)


def interpolate_linear(signals: Array, times: Array) -> Array:
    """Signals (k, T, C) at times (k, T') by linear interpolation, with constant ends: (k, T', C)."""
    last = signals.shape[1] - 1
    at = np.clip(times, 0, last)
    left = np.minimum(at.astype(np.intp), max(last - 1, 0))
    rest, rows = (at - left)[:, :, None], np.arange(len(signals))[:, None]
    return np.asarray((1 - rest) * signals[rows, left] + rest * signals[rows, np.minimum(left + 1, last)])


def interpolate_cubic(signals: Array, times: Array) -> Array:
    """Signals (k, T, C) at times (k, T') by cubic splines, with constant ends: (k, T', C)."""
    from scipy.ndimage import spline_filter1d

    coefficients = spline_filter1d(
        np.pad(signals, ((0, 0), (MARGIN, MARGIN), (0, 0)), mode="edge"), 3, 1, mode="nearest"
    )
    at = np.clip(times, 0, signals.shape[1] - 1) + MARGIN
    left = at.astype(np.intp)
    rows = np.arange(len(signals))[:, None]
    values = np.zeros((len(signals), times.shape[1], signals.shape[2]))
    for j, weight in enumerate(cubic_weights((at - left)[:, :, None])):
        values += weight * coefficients[rows, left + (j - 1)]
    return values
