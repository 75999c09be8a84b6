"""Weighted barycenters under dynamic time warping (Forestier, Petitjean, Dau, Webb and Keogh, 2017), within classes.

"Average selected with distance": the weights are 1/2 for a stored signal, 0.15 for two of its five nearest ones, and
0.2 for the other three together. The average starts at the stored signal. Warps of signals of more than 300 points stay
within a band of a tenth of them, as those of the classifier do, because averages without one take minutes.
"""

from __future__ import annotations

import numpy as np

from benchmarks import dtw
from stochattn._backend.arrays import Array

N_NEIGHBORS, OWN, CLOSE, OTHERS, N_STEPS = 5, 0.5, 0.15, 0.2, 5
MAX_POINTS, BAND_SHARE = 300, 0.1
"""Points up to which warps have no band, and the band of others over their points."""


def draw(signals: Array, classes: Array, source: Array, rng: np.random.Generator) -> Array:
    """An average around each of the signals (K, C, T) with indices `source` (n,): (n, C, T)."""
    near, band = neighbors(signals, classes), band_of(signals.shape[2])
    k = near.shape[1]
    others = np.stack([rng.permutation(near[one]) for one in source])
    weights = np.array([OWN, *[CLOSE] * min(2, k), *[OTHERS / max(k - 2, 1)] * max(k - 2, 0)])
    aligned = np.concatenate([signals[source][:, None], signals[others]], axis=1)
    centres = signals[source].copy()
    for _ in range(N_STEPS):
        centres = dtw.warped_means(centres, aligned, np.tile(weights / weights.sum(), (len(source), 1)), band)
    return centres


def band_of(n_points: int) -> int | None:
    """The band of warps of signals of so many points; None if they have none."""
    return None if n_points <= MAX_POINTS else round(BAND_SHARE * n_points)


def neighbors(signals: Array, classes: Array) -> Array:
    """The nearest signals of the same class, for each of the signals (K, C, T): (K, k), k at most 5."""
    members = [np.flatnonzero(classes == c) for c in np.unique(classes)]
    k = min(N_NEIGHBORS, *(len(own) - 1 for own in members))
    found = np.empty((len(signals), k), dtype=np.intp)
    for own in members:
        i, j = np.triu_indices(len(own), 1)
        between = np.full((len(own), len(own)), np.inf)
        between[i, j] = between[j, i] = dtw.distances(signals[own[i]], signals[own[j]], band_of(signals.shape[2]))
        found[own] = own[np.argsort(between, axis=1)[:, :k]]
    return found
