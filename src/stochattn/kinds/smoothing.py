"""Smoothness along an axis: how to smooth signals and images, and whether numbers look like signals.

The neighbouring points of a signal are alike. Rows or columns of a matrix with such points may be signals.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from .._backend.arrays import Array, NumpyArray
from ..core.neighbors import spaced_indices


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


MIN_POINTS, MIN_LINES = 8, 4  # points along which smoothness is measured, and lines of them, at least
MAX_LINES = 500  # lines that are looked at; an evenly spaced part stands for more
MAX_ROUGHNESS, MAX_ROUGHNESS_OF_COLUMNS, MAX_RATIO = 0.3, 0.1, 0.5
"""Roughness of signals, at most, in rows, in columns, and as a share of that across; independent numbers have 1."""


def roughness(lines: Array) -> float:
    """Half the mean squared step between neighbouring points over their variance, median over lines (n, points).

    It is 1 on average where points are independent (von Neumann), and NaN where there are too few.
    """
    lines = np.asarray(lines[spaced_indices(len(lines), MAX_LINES)], dtype=np.float64)
    if lines.shape[1] < MIN_POINTS:
        return float("nan")
    of_each = _roughness_of_each(lines)
    return float(np.median(of_each)) if len(of_each) >= MIN_LINES else float("nan")


def _roughness_of_each(lines: Array) -> Array:
    """The roughness of each line (n, points) that varies."""
    variances = lines.var(1)
    steps = np.square(np.diff(lines, axis=1)).mean(1) / 2
    varying = variances > 0
    return np.asarray(steps[varying] / variances[varying])


def rows_are_smooth(matrix: Array, limit: float = MAX_ROUGHNESS) -> bool:
    """Whether rows of a matrix (n, p) without missing values are smooth, and much smoother than columns."""
    if matrix.dtype.kind not in "fiu" or not np.isfinite(matrix).all():
        return False
    along, across = roughness(matrix), roughness(matrix.T)
    return along < limit and along < MAX_RATIO * across


def columns_are_smooth(matrix: Array) -> bool:
    """The same of columns, within a narrower limit: rows of a table may be sorted, and those of signals are not."""
    return rows_are_smooth(matrix.T, MAX_ROUGHNESS_OF_COLUMNS)


def columns_are_all_smooth(matrix: Array) -> bool:
    """Whether each column of a matrix (n, p) of finite numbers is as smooth, whatever its rows are."""
    return bool((_roughness_of_each(matrix.T) < MAX_ROUGHNESS_OF_COLUMNS).all())
