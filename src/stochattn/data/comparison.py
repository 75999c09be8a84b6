"""What a comparison of new with stored items says, and a comparison that suits any vectors of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array
from ..core.neighbors import evenly

MAX_PARTS = 200  # features that a comparison of vectors looks at one by one; evenly spaced beyond that


class Measure(NamedTuple):
    """One figure about a set of new items, beside what it would ideally be.

    >>> from stochattn.data import Measure
    >>> Measure("correlation error", 0.04, 0.0, "Mean absolute difference of correlations.").value
    0.04
    """

    name: str
    value: float
    ideal: float | None  # None where there is no ideal, only a fact
    meaning: str  # one sentence for a reader who has not met it


class Values(NamedTuple):
    """All values of a part that are not missing: numbers, or names of categories.

    >>> import numpy as np
    >>> from stochattn.data import Values
    >>> Values(np.array(["F", "M"]), np.array(["F"])).are_names
    True
    """

    stored: Array  # (m,)
    new: Array  # (n,)
    as_text: Callable[[float], str] = "{:.4g}".format  # how one of the numbers is written

    @property
    def are_names(self) -> bool:
        """Whether they are names of categories, which have no order."""
        return self.stored.dtype.kind == "U"


class Part(NamedTuple):
    """One column, position or ticker: what it looks like among stored and among new items.

    >>> from stochattn.data import Part
    >>> Part("age", "44 (21 to 78)", "45 (22 to 77)", distance=0.06).distance
    0.06
    """

    name: str
    stored: str
    new: str
    distance: float  # 0 the same, 1 nothing in common
    values: Callable[[], Values] | None = None  # for a plot of both, where it consists of single values
    checked_separately: bool = False  # whether a verdict fails where this part alone differs, whatever the mean of all


class Comparison(NamedTuple):
    """New items against the stored ones: measures of the whole, and its parts.

    >>> from stochattn.data import Comparison, Part
    >>> Comparison((), (Part("age", "44", "45", 0.1), Part("dose", "5", "5", 0.3))).distance
    0.2
    """

    measures: tuple[Measure, ...]
    parts: tuple[Part, ...]

    @property
    def distance(self) -> float:
        """Mean distance of the parts; NaN without one that has a distance."""
        known = [part.distance for part in self.parts if math.isfinite(part.distance)]
        return float(np.mean(known)) if known else math.nan


def compare_features(new: Array, stored: Array) -> Comparison:
    """Vectors (n, p) against stored ones (K, p): each feature's distribution, and correlations."""
    from scipy.stats import ks_2samp

    chosen, parts = evenly(new.shape[1], MAX_PARTS), []
    # equivalent: all three have the length of `chosen`
    for j, before, after in zip(chosen, stored.T[chosen], new.T[chosen], strict=True):
        distance = float(ks_2samp(after, before).statistic)
        parts.append(Part(f"{j + 1}", _spread(before), _spread(after), distance, partial(Values, before, after)))
    varying = chosen[(np.ptp(stored[:, chosen], axis=0) > 0) & (np.ptp(new[:, chosen], axis=0) > 0)]
    gap = float("nan")
    if len(varying) > 1 and len(new) > 2:
        gap = float(np.abs(np.corrcoef(new[:, varying].T) - np.corrcoef(stored[:, varying].T)).mean())
    measures = (
        Measure("feature distance", float(np.mean([part.distance for part in parts])), 0.0, "Mean KS distance."),
        Measure("correlation error", gap, 0.0, "Mean absolute difference of correlations between features."),
    )
    return Comparison(measures, tuple(parts))


def correlations(rows: Array) -> Array:
    """Correlations between columns, (n, p) -> (p, p); zero between others and a column that does not vary."""
    centred = rows - rows.mean(0)
    lengths = np.linalg.norm(centred, axis=0)
    # equivalent: a column that does not vary stays zero, and none has exactly this length
    lengths = np.where(lengths > 1e-12, lengths, 1.0)
    centred = centred / lengths
    found = np.asarray(centred.T @ centred)
    np.fill_diagonal(found, 1.0)
    return found


def _spread(values: Array) -> str:
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
    return f"{middle:.4g} ({low:.4g} to {high:.4g})"
