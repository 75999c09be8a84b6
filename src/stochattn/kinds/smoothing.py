"""Gaussian smoothing and cubic splines along an axis, for signals and images."""

from __future__ import annotations

from functools import cache

import numpy as np

from .._backend.arrays import Array, NumpyArray


@cache
def gaussian_matrix(n: int, width: float) -> NumpyArray:
    """The matrix of Gaussian means over n points with constant ends: (n, n)."""
    reach = np.arange(-int(4 * width) - 1, n + int(4 * width) + 1)
    return fold_ends(np.exp(-0.5 * np.square((np.arange(n)[:, None] - reach) / width)), reach, n)


def fold_ends(weights: NumpyArray, reach: NumpyArray, n: int) -> NumpyArray:
    """Weights (m, reach), those of positions outside added to the nearest of n points: (m, n), normalized rows."""
    within = np.zeros((len(weights), n))
    np.add.at(within.T, np.clip(reach, 0, n - 1), weights.T)
    return np.asarray(within / within.sum(1, keepdims=True))


def cubic_weights(t: Array) -> tuple[Array, Array, Array, Array]:
    """Weights of the cubic B-spline at the four points around a position, t in [0, 1) after the second."""
    s = 1 - t
    return s**3 / 6, (4 - 6 * t**2 + 3 * t**3) / 6, (4 - 6 * s**2 + 3 * s**3) / 6, t**3 / 6
