"""Whether new items represent all stored ones: the share of each class, or of each cluster where there are none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array
from ..core.neighbors import evenly, nearest_rows

MAX_CLUSTERS, MIN_IN_CLUSTER = 8, 15  # clusters, and stored items per cluster on average
MAX_STORED = 2000  # stored items whose nearest others are searched


class Mode(NamedTuple):
    """A class or cluster, and its share among stored and among new items."""

    name: str
    stored: float
    new: float

    def is_rare(self, n: int) -> bool:
        """Whether n new items have less than half of its share, beyond two standard errors of a count."""
        half = self.stored * n / 2
        return self.new * n < half - 2 * math.sqrt(half)


def modes(stored: Array, new: Array, labels: Sequence[str] | None) -> tuple[Mode, ...]:
    """Shares of classes, `labels` (K,), or of clusters of the stored rows (K, d) among these and among new rows (n, d).

    An item counts for the mode of the nearest stored item other than itself, so that stored and new items are counted
    in the same way. There are no modes where stored rows are few.
    """
    names = np.array(labels) if labels is not None and len(set(labels)) > 1 else _clusters(stored)
    if names is None:
        return ()
    of_new = names[nearest_rows(new, stored)]
    of_stored = names[nearest_rows(stored, chosen=evenly(len(stored), MAX_STORED))]
    return tuple(
        Mode(str(one), *(float((some == one).mean()) for some in (of_stored, of_new))) for one in np.unique(names)
    )


def _clusters(stored: Array) -> Array | None:
    from sklearn.cluster import KMeans

    n_clusters = min(MAX_CLUSTERS, len(stored) // MIN_IN_CLUSTER, len(np.unique(stored, axis=0)))
    if n_clusters < 2:
        return None
    found = KMeans(n_clusters, n_init=4, random_state=0).fit_predict(stored)  # equivalent: the best of some starts
    return np.array([f"cluster {one + 1}" for one in found])
