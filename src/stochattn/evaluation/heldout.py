"""Held-out metrics: new examples against those they were made from, and against others that were held out.

All of them are about distances among rows (n, d). The held-out rows show how far a real new example lies from the
stored ones. No metric here may choose a setting of a generator, which would be a leak of the test set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, ArrayLike
from .._backend.checks import count
from ..core.neighbors import as_rows, evenly, nearest_distances


class HeldOutMetrics(NamedTuple):
    """New rows against stored and held-out ones.

    train_proximity: share of new rows nearer to the stored rows than to as many held-out rows; 1 for copies
    novelty_ratio:   median distance from new rows to the stored ones, over that of held-out rows
    copies:          share of new rows nearer to a stored row than 99 % of held-out rows are
    nn_accuracy_real, nn_accuracy_new: leave-one-out accuracy of a nearest-neighbour classifier of held-out against new
                     rows, on the held-out and on the new rows. Noise around stored rows has 1 and 0
    """

    train_proximity: float
    novelty_ratio: float
    copies: float
    nn_accuracy_real: float
    nn_accuracy_new: float


IDEAL = HeldOutMetrics(train_proximity=0.5, novelty_ratio=1.0, copies=0.01, nn_accuracy_real=0.5, nn_accuracy_new=0.5)


class Split(NamedTuple):
    """Indices of the stored and of the held-out items."""

    stored: Array
    held_out: Array


def splits(n: int, seeds: int, stored: int | None = None, rng: int = 0) -> Iterator[Split]:
    """Random splits of n items, one per seed: into halves, or into `stored` items and all others.

    >>> [len(part) for split in splits(10, 2, stored=3) for part in split]
    [3, 7, 3, 7]
    """
    K = n // 2 if stored is None else count("stored", stored)
    if not 1 <= K < n:
        raise ValueError(f"stored must leave some of the n={n} items to hold out; got {K}.")
    for seed in range(count("seeds", seeds)):
        order = np.random.default_rng([rng, seed]).permutation(n)
        yield Split(np.sort(order[:K]), np.sort(order[K:]))


def held_out_metrics(new: ArrayLike, stored: ArrayLike, held_out: ArrayLike) -> HeldOutMetrics:
    """Metrics of new rows (n, d) between stored (K, d) and held-out rows (m, d)."""
    new, stored, held_out = (as_rows(x, name) for x, name in ((new, "new"), (stored, "stored"), (held_out, "held_out")))
    to_stored = nearest_distances(new, stored)
    real = nearest_distances(held_out, stored)
    typical = float(np.median(real))
    n_equal = min(len(stored), len(held_out))
    return HeldOutMetrics(
        train_proximity(new, _some(stored, n_equal), _some(held_out, n_equal)),
        float(np.median(to_stored)) / typical if typical > 0 else math.nan,
        float((to_stored <= np.quantile(real, 0.01)).mean()),
        *nearest_neighbour_accuracy(held_out, new),
    )


def train_proximity(new: ArrayLike, stored: ArrayLike, held_out: ArrayLike) -> float:
    """Share of new rows nearer to `stored` than to `held_out`; ties count half. Pass two sets of the same size."""
    return _share_below(nearest_distances(new, stored), nearest_distances(new, held_out))


def nearest_neighbour_accuracy(real: ArrayLike, new: ArrayLike) -> tuple[float, float]:
    """Share of real and of new rows whose nearest other row is of the same set; equally many of each are compared."""
    real, new = as_rows(real, "real"), as_rows(new, "new")
    n = min(len(real), len(new))
    if n < 2:
        return math.nan, math.nan
    real, new = _some(real, n), _some(new, n)
    return (
        _share_below(nearest_distances(real), nearest_distances(real, new)),
        _share_below(nearest_distances(new), nearest_distances(new, real)),
    )


def membership_auc(members: Array, others: Array, draws: Array) -> float:
    """AUC of membership inference: items (m, p) that draws (n, p) were made from, against others (o, p).

    An item's score is minus its distance to the nearest draw. 0.5 is chance, 1 is certainty.
    """
    from scipy.stats import mannwhitneyu

    scores = [-nearest_distances(items, draws) for items in (members, others)]
    if not all(np.isfinite(score).all() for score in scores):
        raise ValueError("draws must be finite, so that distances to them are.")
    return float(mannwhitneyu(*scores, method="asymptotic").statistic / (len(members) * len(others)))


def _share_below(first: Array, second: Array) -> float:
    """Share of the first numbers below the second ones, ties counted half: (n,), (n,)."""
    return float(((first < second) + 0.5 * (first == second)).mean())


def _some(rows: Array, n: int) -> Array:
    """n of the rows, evenly spaced."""
    return rows[evenly(len(rows), n)]
