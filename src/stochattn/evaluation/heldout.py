"""The judge: new examples against those they were made from and against others that were held out.

All measures are of distances among rows (n, d). The held-out rows say what is normal: how far a true new example lies
from the stored ones. No measure here may choose a setting of a sampler; that would be looking at the answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._backend.arrays import Array
from .._backend.checks import count
from ..core.neighbors import as_rows, evenly, nearest_distances


class Judgement(NamedTuple):
    """New rows against stored and held-out ones.

    closer:        share of new rows nearer to the stored ones than to as many held-out ones; 0.5 ideally, 1 for copies
    novelty_ratio: median distance from new rows to the stored ones, over that of held-out rows; 1 ideally
    copies:        share of new rows nearer to a stored one than 99 % of held-out rows are; 0.01 ideally
    told_real, told_new: leave-one-out accuracy of the nearest neighbour in telling held-out from new rows, on either;
                   0.5 ideally. Their mean alone misleads: noise around stored rows has 1 and 0
    """

    closer: float
    novelty_ratio: float
    copies: float
    told_real: float
    told_new: float

    @property
    def told(self) -> float:
        """Mean of the two accuracies."""
        return (self.told_real + self.told_new) / 2


class Split(NamedTuple):
    """Indices of the stored and of the held-out items."""

    stored: Array
    held_out: Array


def splits(n: int, seeds: int, stored: int | None = None, rng: int = 0) -> Iterator[Split]:
    """Random divisions of n items, one a seed: halves, or `stored` of them against all others.

    >>> [len(part) for split in splits(10, 2, stored=3) for part in split]
    [3, 7, 3, 7]
    """
    K = n // 2 if stored is None else count("stored", stored)
    if not 1 <= K < n:
        raise ValueError(f"stored must leave some of the n={n} items to hold out; got {K}.")
    for seed in range(count("seeds", seeds)):
        order = np.random.default_rng([rng, seed]).permutation(n)
        yield Split(np.sort(order[:K]), np.sort(order[K:]))


def judge(new: Any, stored: Any, held_out: Any) -> Judgement:
    """How new rows (n, d) stand between stored (K, d) and held-out rows (m, d).

    >>> rng = np.random.default_rng(0)
    >>> stored, held_out, new = (rng.standard_normal((200, 2)) for _ in range(3))
    >>> judgement = judge(new, stored, held_out)
    >>> 0.4 < judgement.closer < 0.6 and 0.7 < judgement.novelty_ratio < 1.4
    True
    >>> judge(stored, stored, held_out).copies
    1.0
    """
    new, stored, held_out = (as_rows(x, name) for x, name in ((new, "new"), (stored, "stored"), (held_out, "held_out")))
    to_stored = nearest_distances(new, stored)
    true = nearest_distances(held_out, stored)
    typical = float(np.median(true))
    equal = min(len(stored), len(held_out))
    closer = closer_to(new, _some(stored, equal), _some(held_out, equal))
    told_real, told_new = nearest_neighbour_accuracy(held_out, new)
    return Judgement(
        closer,
        float(np.median(to_stored)) / typical if typical > 0 else math.nan,
        float((to_stored <= np.quantile(true, 0.01)).mean()),
        told_real,
        told_new,
    )


def closer_to(new: Any, stored: Any, held_out: Any) -> float:
    """Share of new rows nearer to `stored` than to `held_out`, ties counted half; sets of one size compare fairly."""
    first, second = (nearest_distances(new, rows) for rows in (stored, held_out))
    return float(((first < second) + 0.5 * (first == second)).mean())


def nearest_neighbour_accuracy(real: Any, new: Any) -> tuple[float, float]:
    """Share of real and of new rows whose nearest other row is of their own kind; as many of each are compared."""
    n = min(len(real), len(new))
    real, new = _some(as_rows(real, "real"), n), _some(as_rows(new, "new"), n)
    if n < 2:
        return math.nan, math.nan
    across = nearest_distances(real, new), nearest_distances(new, real)
    within = nearest_distances(real), nearest_distances(new)
    shares = [((own < other) + 0.5 * (own == other)).mean() for own, other in zip(within, across, strict=True)]
    return float(shares[0]), float(shares[1])


def area_under_curve(members: Array, others: Array) -> float:
    """Probability that a member scores above another item, ties counted half; (m,), (o,).

    >>> area_under_curve(np.array([3.0, 2.0]), np.array([2.0, 1.0]))
    0.875
    """
    from scipy.stats import rankdata

    m, o = len(members), len(others)
    ranks = rankdata(np.concatenate([members, others]))[:m]
    return float((ranks.sum() - m * (m + 1) / 2) / (m * o))


def _some(rows: Array, n: int) -> Array:
    """n of the rows, evenly spaced."""
    return rows[evenly(len(rows), n)]
