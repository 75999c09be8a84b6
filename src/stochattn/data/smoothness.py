"""Whether the rows or the columns of a matrix look like signals, whose neighbouring points are alike."""

from __future__ import annotations

import numpy as np

from .._backend.arrays import Array
from ..core.neighbors import evenly

MIN_POINTS, MIN_LINES = 8, 4
"""Points along which smoothness is measured, and lines of them, at least."""
MAX_LINES = 500
"""Lines that are looked at; an evenly spaced part stands for more."""
MAX_ROUGHNESS, MAX_ROUGHNESS_OF_COLUMNS, MAX_RATIO = 0.3, 0.1, 0.5
"""Roughness of signals, at most, in rows, in columns, and as a share of that across; independent numbers have 1."""


def roughness(lines: Array) -> float:
    """Half the mean squared step between neighbouring points over their variance, median over lines (n, points).

    It is 1 on average where points are independent (von Neumann), and NaN where there are too few.
    """
    lines = np.asarray(lines[evenly(len(lines), MAX_LINES)], dtype=np.float64)
    if lines.shape[1] < MIN_POINTS:
        return float("nan")
    variances = lines.var(1)
    steps = np.square(np.diff(lines, axis=1)).mean(1) / 2
    varying = variances > 0
    return float(np.median(steps[varying] / variances[varying])) if varying.sum() >= MIN_LINES else float("nan")


def rows_are_smooth(matrix: Array, limit: float = MAX_ROUGHNESS) -> bool:
    """Whether rows of a matrix (n, p) without missing values are smooth, and much smoother than columns."""
    if matrix.dtype.kind not in "fiu" or not np.isfinite(matrix).all():
        return False
    own, across = roughness(matrix), roughness(matrix.T)
    return own < limit and own < MAX_RATIO * across


def columns_are_smooth(matrix: Array) -> bool:
    """The same of columns, within a narrower limit: rows of a table may be sorted, and those of signals are not."""
    return rows_are_smooth(matrix.T, MAX_ROUGHNESS_OF_COLUMNS)
