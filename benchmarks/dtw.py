"""Dynamic time warping of many pairs of signals at once: distances, nearest neighbors and paths.

    D(i, j) = |a(i) - b(j)|² + min(D(i - 1, j - 1), D(i - 1, j), D(i, j - 1)),      |i - j| <= band,      √D(T, T)

Cells with the same i + j do not depend on each other, and are found together for all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.ndimage import maximum_filter1d, minimum_filter1d

from stochattn._backend.arrays import Array

CELLS_AT_A_TIME = 2**17
"""Cells of a diagonal, over all pairs, that are found together: they fit into a core's cache."""
PATH_CELLS_AT_A_TIME = 2**25
"""Cells of the matrices of steps that are kept for paths."""
DIAGONAL, DOWN, RIGHT = 0, 1, 2


def _diagonals(T: int, band: int) -> Iterator[tuple[int, int, int]]:
    """For each sum i + j, the first and the last i within the band."""
    for total in range(2 * T - 1):
        yield total, max(0, total - T + 1, -(-(total - band) // 2)), min(total, T - 1, (total + band) // 2)


def _accumulated(a: Array, b: Array, band: int, steps: Array | None = None) -> Array:
    """√D(T, T) of signals (T, C, n) and (T, C, n): (n,). Steps (T, T, n), if there are any, receive the best ones."""
    T, _, n = a.shape
    before, last = (np.full((T + 1, n), np.inf, dtype=a.dtype) for _ in range(2))  # row i + 1 is that of i
    before[0] = 0.0  # where the first cell comes from
    for total, low, high in _diagonals(T, band):
        difference = a[low : high + 1] - b[total - high : total - low + 1][::-1]
        cost = np.einsum("icn,icn->in", difference, difference)
        across, down, right = before[low : high + 1], last[low : high + 1], last[low + 1 : high + 2]
        if steps is not None:
            rows = np.arange(low, high + 1)
            steps[rows, total - rows] = np.where(
                across <= np.minimum(down, right), DIAGONAL, np.where(down <= right, DOWN, RIGHT)
            )
        cost += np.minimum(np.minimum(across, down), right)
        new = before  # two diagonals ago, and not needed again outside of `across`
        new[low + 1 : high + 2] = cost
        new[low], new[high + 2 :][:1] = np.inf, np.inf  # the cells beside them, which the next diagonals see
        before, last = last, new
    return np.sqrt(last[T])


def distances(a: Array, b: Array, band: int | None = None) -> Array:
    """Distances of pairs of signals (n, C, T) and (n, C, T): (n,); a band of None does not limit the warp."""
    T = a.shape[2]
    band = T if band is None else band
    size = max(CELLS_AT_A_TIME // (min(band, T) + 1), 1)
    parts = [slice(first, first + size) for first in range(0, len(a), size)]
    found = [
        _accumulated(*(np.ascontiguousarray(x[part].transpose(2, 1, 0)) for x in (a, b)), band)  # type: ignore[arg-type]
        for part in parts
    ]
    return np.concatenate([np.empty(0), *found])


def nearest(signals: Array, others: Array, band: int, within: Array) -> tuple[Array, Array]:
    """Distances (n,) of signals (n, C, T) to the nearest of others (m, C, T), if that is `within` (n,), and which.

    Where no other signal is nearer, the distance is `within` and the index -1. Pairs whose distance to the envelope of
    the signal (Keogh 2002) is larger than a known distance are left out.
    """
    upper = maximum_filter1d(signals, 2 * band + 1, axis=2, mode="nearest")
    lower = minimum_filter1d(signals, 2 * band + 1, axis=2, mode="nearest")
    which, best = np.full(len(signals), -1), np.array(within, dtype=np.float64)
    bounds = np.empty((len(signals), len(others)))
    for i in range(len(signals)):
        outside = np.maximum(others - upper[i], 0) + np.maximum(lower[i] - others, 0)
        bounds[i] = np.sqrt(np.square(outside).sum((1, 2)))
    order = np.argsort(bounds, axis=1)
    size = max(len(others) // 8, 1)
    for first in range(0, len(others), size):  # the likeliest ones first, whose distances then exclude others
        candidates = order[:, first : first + size]
        rows, places = np.nonzero(np.take_along_axis(bounds, candidates, 1) < best[:, None])
        columns = candidates[rows, places]
        found = np.full(candidates.shape, np.inf)
        found[rows, places] = distances(signals[rows], others[columns], band)
        at = found.argmin(1)
        closest = found[np.arange(len(signals)), at]
        nearer = closest < best
        best[nearer], which[nearer] = closest[nearer], candidates[np.flatnonzero(nearer), at[nearer]]
    return best, which


def warped_means(centres: Array, signals: Array, weights: Array, band: int | None = None) -> Array:
    """One step of barycenter averaging (Petitjean 2011): (n, C, T).

    Each point of a centre (n, C, T) becomes the weighted mean of the points of signals (n, k, C, T) with weights (n, k)
    that are aligned with it, within a band if there is one.
    """
    n, k, C, T = signals.shape
    size = max(PATH_CELLS_AT_A_TIME // T**2, 1)
    flat, of_centre = signals.reshape(n * k, C, T), np.repeat(np.arange(n), k)
    total, mass = np.zeros((n, T, C)), np.zeros((n, T))
    for first in range(0, n * k, size):
        some = np.arange(first, min(first + size, n * k))
        a, b = (np.ascontiguousarray(x.transpose(2, 1, 0)) for x in (centres[of_centre[some]], flat[some]))
        steps = np.empty((T, T, len(some)), dtype=np.uint8)
        _accumulated(a, b, T if band is None else band, steps)
        i, j, active = np.full(len(some), T - 1), np.full(len(some), T - 1), np.arange(len(some))
        while len(active):
            rows, at = of_centre[some[active]], i[active]
            weight = weights.reshape(-1)[some[active]]
            np.add.at(total, (rows, at), weight[:, None] * b[j[active], :, active])
            np.add.at(mass, (rows, at), weight)
            step = steps[at, j[active], active]
            active_on = (at > 0) | (j[active] > 0)
            i[active] -= (step != RIGHT) & (at > 0)
            j[active] -= (step != DOWN) & (j[active] > 0)
            active = active[active_on]
    return np.asarray((total / mass[:, :, None]).transpose(0, 2, 1))
