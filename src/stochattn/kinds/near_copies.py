"""Near-copies: new items that are nearer to a stored one than the closest pairs of stored items are to each other.

Summaries and reports share this rule. Distances are those between the vectors of `Measures.comparable`, of which one
item may have several, such as the days of a window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._backend.arrays import Array
from ..core.neighbors import nearest_distances, spaced_indices
from .codec import Codec, Items
from .kind import AnyKind

NEAR = 0.01  # share of stored items that are closer to another one than near-copies are to a stored one
MAX_STORED = 2000  # stored vectors whose distance to the nearest other one is measured
MIN_MEASURED, MAX_WORK = 500, 4e9  # vectors, and multiplications that finding the nearest stored ones may take


def stored_vectors(kind: AnyKind, codec: Codec, kept: Array) -> Array:
    """Vectors (m, p) of the stored items `kept`, without items that overlap with one taken before.

    Items that overlap, such as windows of days, would each have copies of their parts in others.
    """
    return kind.measures.comparable(codec, codec.take(codec.stored, kind.measures.non_overlapping(codec, kept)))


def distances_among(vectors: Array, max_vectors: int = MAX_STORED) -> Array:
    """Distances of vectors (m, p) to the nearest other one, of an evenly spaced part of them where they are many."""
    return (
        nearest_distances(vectors, chosen=spaced_indices(len(vectors), max_vectors))
        if len(vectors) > 1
        else np.empty(0)
    )


def near_limit(among_stored: Array) -> float:
    """The distance below which a vector is a near-copy: the first percentile of these, without zeros; NaN for none."""
    different = among_stored[among_stored > 0]
    return float(np.quantile(different, NEAR)) if len(different) else float("nan")


def share_near(distances: Array, real: Array, share: float = NEAR) -> float:
    """Share of distances (n,) to stored items that are as small as the least `share` of those of real items (m,).

    Real items that equal a stored one say nothing about nearness: copies count as far as they are more than theirs, and
    quantiles are of the distances above 0. Of equal distances, as many count as make up the quantile.
    """
    copies = max(float((distances == 0).mean() - (real == 0).mean()), 0.0)
    apart = real[real > 0]
    if not len(apart):
        return copies
    limit = np.quantile(apart, share, method="inverted_cdf")
    tied = (share - (apart < limit).mean()) / (apart == limit).mean()
    near = ((distances > 0) & (distances < limit)).mean() + tied * (distances == limit).mean()
    return copies + float(near)


@dataclass(frozen=True, eq=False)
class NearCopies:
    """Counts near-copies of stored vectors (m, p), those nearer than `limit`. Make one with `of`."""

    kind: AnyKind
    codec: Codec
    stored: Array
    limit: float

    @classmethod
    def of(cls, kind: AnyKind, codec: Codec, kept: Array) -> NearCopies:
        """The rule for the stored items `kept`."""
        stored = stored_vectors(kind, codec, kept)
        return cls(kind, codec, stored, near_limit(distances_among(stored)))

    def n_measured(self, most: int) -> int:
        """How many vectors are worth measuring, from the first on, of at most so many."""
        return int(min(most, max(MIN_MEASURED, MAX_WORK / self.stored.size)))

    def count(self, items: Items) -> tuple[int, int]:
        """How many of the vectors of items are near-copies, and how many there are; 0 and 0 where no limit is known."""
        if np.isnan(self.limit):
            return 0, 0
        vectors = self.kind.measures.comparable(self.codec, items)
        return int((nearest_distances(vectors, self.stored) < self.limit).sum()), len(vectors)
