"""Metrics of new rows between the stored rows that they were made from and held-out rows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, ArrayLike
from ..core.neighbors import as_rows, evenly, nearest_distances
from .fidelity import nearest_neighbour_accuracy, share_below

NEAR = 0.01  # share of real items that are as near to a stored one as near-copies are


class HeldOutMetrics(NamedTuple):
    """New rows against stored and held-out ones. Noise around stored rows has nearest-neighbour accuracies 1 and 0."""

    train_proximity: float  # share of new rows nearer to the stored rows than to as many held-out rows; 1 for copies
    novelty_ratio: float  # median distance from new rows to the stored ones, over that of held-out rows
    near_copies: float  # share of new rows nearer to a stored row than 99 % of held-out rows are
    nn_accuracy_real: float  # leave-one-out accuracy of a nearest-neighbour classifier, on held-out rows
    nn_accuracy_new: float  # the same on new rows


IDEAL = HeldOutMetrics(
    train_proximity=0.5, novelty_ratio=1.0, near_copies=0.01, nn_accuracy_real=0.5, nn_accuracy_new=0.5
)


def held_out_metrics(new: ArrayLike, stored: ArrayLike, held_out: ArrayLike) -> HeldOutMetrics:
    """Metrics of new rows (n, d) between stored (K, d) and held-out rows (m, d).

    >>> import numpy as np
    >>> from stochattn.evaluation import held_out_metrics
    >>> rng = np.random.default_rng(0)
    >>> new, stored, held_out = rng.normal(size=(3, 50, 2))
    >>> 0 <= held_out_metrics(new, stored, held_out).train_proximity <= 1
    True
    """
    new, stored, held_out = (as_rows(x, name) for x, name in ((new, "new"), (stored, "stored"), (held_out, "held_out")))
    to_stored, real = nearest_distances(new, stored), nearest_distances(held_out, stored)
    typical = float(np.median(real))
    n_equal = min(len(stored), len(held_out))
    return HeldOutMetrics(
        train_proximity(new, some(stored, n_equal), some(held_out, n_equal)),
        float(np.median(to_stored)) / typical if typical > 0 else math.nan,
        _near_copies(to_stored, real),
        *nearest_neighbour_accuracy(held_out, new),
    )


def _near_copies(distances: Array, real: Array) -> float:
    """Share of distances (n,) below the first percentile of those of real items; of equal ones, as many as make 1 %."""
    limit = np.quantile(real, NEAR, method="inverted_cdf")
    share = (NEAR - (real < limit).mean()) / (real == limit).mean()
    return float((distances < limit).mean() + share * (distances == limit).mean())


def train_proximity(new: ArrayLike, stored: ArrayLike, held_out: ArrayLike) -> float:
    """Share of new rows nearer to `stored` than to `held_out`; ties count half. Pass two sets of the same size."""
    return share_below(nearest_distances(new, stored), nearest_distances(new, held_out))


def membership_auc(members: Array, others: Array, draws: Array) -> float:
    """AUC of telling items (m, p) that draws (n, p) were made from others (o, p) by distance to the nearest draw."""
    from scipy.stats import mannwhitneyu

    scores = [-nearest_distances(items, draws) for items in (members, others)]
    return float(mannwhitneyu(*scores, method="asymptotic").statistic / (len(members) * len(others)))


def some(rows: Array, n: int) -> Array:
    """At most n of the rows, evenly spaced."""
    return rows[evenly(len(rows), n)]
