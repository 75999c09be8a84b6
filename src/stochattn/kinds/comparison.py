"""What a comparison of new with stored items says, and comparisons and two-sample tests of any vectors of numbers.

Whether the rows or the columns of a matrix look like signals, whose neighbouring points are alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, ArrayLike
from ..core.neighbors import as_rows, nearest_distances, spaced_indices

MAX_PARTS = 200  # features that a comparison of vectors looks at one by one; evenly spaced beyond that
MAX_PREDICTORS, N_TREES = 400, 60  # features that classifiers use, and their trees
MAX_COMPARED = 1000  # rows of each set that a forest distinguishes, few enough to be quick


class Measure(NamedTuple):
    """One figure about a set of new items, beside what it would ideally be.

    >>> from stochattn.kinds import Measure
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
    >>> from stochattn.kinds import Values
    >>> Values(np.array(["F", "M"]), np.array(["F"])).are_names
    True
    """

    stored: Array  # (m,)
    new: Array  # (n,)
    as_text: Callable[[float], str] = "{:.4g}".format  # how one of the numbers is written
    gaps: tuple[int, int] = (0, 0)  # values that are missing among stored and among new items
    numbers_may_be_codes: bool = False  # whether a number that many items share is also checked like a category

    @property
    def are_names(self) -> bool:
        """Whether they are names of categories, which have no order."""
        return self.stored.dtype.kind == "U"

    def names(self, values: Array) -> list[str]:
        """Some of them (m,) as text."""
        return values.tolist() if self.are_names else [f"{number:.12g}" for number in values]


class Part(NamedTuple):
    """One column, position or ticker: what it looks like among stored and among new items.

    >>> from stochattn.kinds import Part
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

    >>> from stochattn.kinds import Comparison, Part
    >>> Comparison((), (Part("age", "44", "45", 0.1), Part("dose", "5", "5", 0.3))).distance
    0.2
    """

    measures: tuple[Measure, ...]
    parts: tuple[Part, ...]

    @property
    def distance(self) -> float:
        """Mean distance of the parts; NaN without one that has a distance."""
        finite = [part.distance for part in self.parts if math.isfinite(part.distance)]
        return float(np.mean(finite)) if finite else math.nan


def compare_features(new: Array, stored: Array) -> Comparison:
    """Vectors (n, p) against stored ones (K, p): each feature's distribution, and correlations."""
    from scipy.stats import ks_2samp

    chosen, parts = spaced_indices(new.shape[1], MAX_PARTS), []
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


def compare_means(name: str, stored: Array, new: Array, format: str) -> Part:
    """A mean value of each stored (K,) and of each new item (n,), as a part that is checked separately."""
    from scipy.stats import ks_2samp

    before, after = (f"{means.mean():{format}} ± {means.std():{format}}" for means in (stored, new))
    distance = float(ks_2samp(new, stored, method="asymp").statistic)
    return Part(name, before, after, distance, partial(Values, stored, new), checked_separately=True)


def correlations(rows: Array) -> Array:
    """Correlations between columns, (n, p) -> (p, p); zero between others and a column that does not vary."""
    centred = rows - rows.mean(0)
    lengths = np.linalg.norm(centred, axis=0)
    lengths = np.where(lengths > 1e-12, lengths, 1.0)
    centred = centred / lengths
    matrix = np.asarray(centred.T @ centred)
    np.fill_diagonal(matrix, 1.0)
    return matrix


def nearest_neighbour_accuracy(real: ArrayLike, new: ArrayLike) -> tuple[float, float]:
    """Share of real and of new rows (n, d) whose nearest other row is of the same set; equally many are compared.

    >>> import numpy as np
    >>> from stochattn.evaluation import nearest_neighbour_accuracy
    >>> nearest_neighbour_accuracy([[0.0], [0.1]], [[5.0], [5.1]])
    (1.0, 1.0)
    """
    real, new = as_rows(real, "real"), as_rows(new, "new")
    n = min(len(real), len(new))
    if n < 2:
        return math.nan, math.nan
    real, new = (rows[spaced_indices(len(rows), n)] for rows in (real, new))
    pairs = ((real, new), (new, real))
    first, second = (share_below(nearest_distances(a), nearest_distances(a, b)) for a, b in pairs)
    return first, second


def two_sample_accuracy(real: Array, new: Array) -> float:
    """Accuracy of distinguishing two sets of rows, by a nearest neighbour or by a forest, whichever is better."""
    from sklearn.ensemble import ExtraTreesClassifier

    n = min(len(real), len(new), MAX_COMPARED)
    rows = np.concatenate([vectors[spaced_indices(len(vectors), n)] for vectors in (real, new)])
    rows = rows[:, spaced_indices(rows.shape[1], MAX_PREDICTORS)]
    forest = ExtraTreesClassifier(2 * N_TREES, bootstrap=True, oob_score=True, min_samples_leaf=2, random_state=0)
    return max(
        math.fsum(nearest_neighbour_accuracy(real, new)) / 2,
        float(forest.fit(rows, np.repeat([0, 1], n)).oob_score_),
    )


def share_below(first: Array, second: Array) -> float:
    """Share of the first values (n,) that are below the second (n,); ties count half."""
    return float(((first < second) + 0.5 * (first == second)).mean())


def _spread(values: Array) -> str:
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
    return f"{middle:.4g} ({low:.4g} to {high:.4g})"


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
