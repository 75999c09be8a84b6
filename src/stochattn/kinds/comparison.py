"""What a comparison of new with stored items says, and comparisons and two-sample tests of any vectors of numbers.

`Measures` is a frozen object that a `Kind` names: what the report, evaluation and summaries ask of a kind of data. Its
defaults work for any codec whose `features` are numbers, and a kind replaces only what it measures in its own way:

    measures = Measures(key=KeyMeasure("roughness", 0.3, "As smooth", "they are rough"), compare=compare_signals)

Near-copies are new vectors that are nearer to a stored one than the closest pairs of stored ones are to each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from .._backend.arrays import Array, ArrayLike
from ..core.neighbors import as_rows, nearest_distances, nearest_rows, spaced_indices

if TYPE_CHECKING:
    from .codec import Codec, Items

C = TypeVar("C", bound="Codec")

MAX_PARTS = 200  # features that a comparison of vectors looks at one by one; evenly spaced beyond that
MAX_PREDICTORS, N_TREES = 400, 60  # features that classifiers use, and their trees
MAX_COMPARED = 1000  # rows of each set that a forest distinguishes, few enough to be quick
NEAR = 0.01  # share of stored items that are closer to another one than near-copies are to a stored one
MIN_COMPARED, MAX_WORK = 500, 4e9  # vectors, and multiplications that finding the nearest stored ones may take
MAX_STORED = 2000  # stored vectors whose distance to the nearest other one is measured


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
    """All values of a part that are not missing, which are numbers or names of categories.

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
        """Values of the part (m,) as strings."""
        return values.tolist() if self.are_names else [f"{number:.12g}" for number in values]


class Part(NamedTuple):
    """One column, position or ticker: how stored and new items look there.

    >>> from stochattn.kinds import Part
    >>> Part("age", "44 (21 to 78)", "45 (22 to 77)", distance=0.06).distance
    0.06
    """

    name: str
    stored: str
    new: str
    distance: float  # 0 the same, 1 nothing in common
    values: Callable[[], Values] | None = None  # for a plot of both, where it consists of single values
    checked_separately: bool = False  # whether a verdict fails if this part alone differs, whatever the mean of all


class Comparison(NamedTuple):
    """New items against the stored ones: measures of the items as a whole, and of their parts.

    >>> from stochattn.kinds import Comparison, Part
    >>> Comparison((), (Part("age", "44", "45", 0.1), Part("dose", "5", "5", 0.3))).distance
    0.2
    """

    measures: tuple[Measure, ...]
    parts: tuple[Part, ...]

    @property
    def distance(self) -> float:
        """Mean distance of the parts; NaN if no part has one."""
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
    """The part of a mean value of each stored (K,) and of each new item (n,), which is checked separately."""
    from scipy.stats import ks_2samp

    before, after = (f"{means.mean():{format}} ± {means.std():{format}}" for means in (stored, new))
    distance = float(ks_2samp(new, stored, method="asymp").statistic)
    return Part(name, before, after, distance, partial(Values, stored, new), checked_separately=True)


def correlations(rows: Array) -> Array:
    """Correlations between columns, (n, p) -> (p, p); a column that does not vary has zero with all others."""
    centered = rows - rows.mean(0)
    lengths = np.linalg.norm(centered, axis=0)
    directions = centered / np.where(lengths > 1e-12, lengths, 1.0)
    matrix = np.asarray(directions.T @ directions)
    np.fill_diagonal(matrix, 1.0)
    return matrix


def nearest_neighbor_accuracy(real: ArrayLike, new: ArrayLike) -> tuple[float, float]:
    """Share of real and of new rows (n, d) whose nearest other row is of the same set; equally many are compared.

    >>> import numpy as np
    >>> from stochattn.evaluation import nearest_neighbor_accuracy
    >>> nearest_neighbor_accuracy([[0.0], [0.1]], [[5.0], [5.1]])
    (1.0, 1.0)
    """
    real, new = as_rows(real, "real"), as_rows(new, "new")
    n = min(len(real), len(new))
    if n < 2:
        return math.nan, math.nan
    real, new = (rows[spaced_indices(len(rows), n)] for rows in (real, new))
    of_real = share_below(nearest_distances(real), nearest_distances(real, new))
    return of_real, share_below(nearest_distances(new), nearest_distances(new, real))


def two_sample_accuracy(real: Array, new: Array) -> float:
    """Accuracy of distinguishing two sets of rows, by a nearest neighbor or by a forest, whichever is better."""
    from sklearn.ensemble import ExtraTreesClassifier

    n = min(len(real), len(new), MAX_COMPARED)
    rows = np.concatenate([vectors[spaced_indices(len(vectors), n)] for vectors in (real, new)])
    rows = rows[:, spaced_indices(rows.shape[1], MAX_PREDICTORS)]
    forest = ExtraTreesClassifier(2 * N_TREES, bootstrap=True, oob_score=True, min_samples_leaf=2, random_state=0)
    by_neighbor = math.fsum(nearest_neighbor_accuracy(real, new)) / 2
    return max(by_neighbor, float(forest.fit(rows, np.repeat([0, 1], n)).oob_score_))


def share_below(first: Array, second: Array) -> float:
    """Share of the first values (n,) that are below the second (n,); ties count half."""
    return float(((first < second) + 0.5 * (first == second)).mean())


def distances_among(vectors: Array, max_vectors: int = MAX_STORED) -> Array:
    """Distances of vectors (m, p) to the nearest other one; of evenly spaced vectors if there are many."""
    if len(vectors) < 2:
        return np.empty(0)
    return nearest_distances(vectors, chosen=spaced_indices(len(vectors), count_measurable(vectors, max_vectors)))


def count_measurable(stored: Array, most: int) -> int:
    """How many vectors, at most `most`, can be compared with the stored ones (m, p) in a bounded time."""
    return int(min(most, max(MIN_COMPARED, MAX_WORK / stored.size)))


def near_limit(among_stored: Array) -> float:
    """The distance below which a vector is a near-copy: the first percentile of those above 0, or NaN without any."""
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


def _spread(values: Array) -> str:
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
    return f"{middle:.4g} ({low:.4g} to {high:.4g})"


@dataclass(frozen=True)
class KeyMeasure:
    """The measure of items as a whole that a verdict looks at. It may be worse by `slack` than for stored items.

    >>> from stochattn.kinds import KeyMeasure
    >>> KeyMeasure("correlation error", 0.1, "Features vary together", "correlations are lost").slack
    0.1
    """

    name: str
    slack: float
    claim: str
    failure: str


@dataclass(frozen=True)
class RecallMeasures:
    """Measures that are 1 for copies. A verdict requires that they are closer to their ideal, that of stored items.

    advice: what to do if they are closer to 1; empty for the advice to move away from stored items by beta

    >>> from stochattn.kinds import RecallMeasures
    >>> RecallMeasures(("similarity of the market",), "The market is new", "the market follows stored ones").names
    ('similarity of the market',)
    """

    names: tuple[str, ...]
    claim: str
    failure: str
    advice: str = ""


@dataclass(frozen=True)
class KeptMeasure:
    """A measure, ideally 1, of what every item has. Draws from a half may lose twice what the half itself loses.

    >>> from stochattn.kinds import KeptMeasure
    >>> KeptMeasure("conserved sites", "Conserved sites are kept", "conserved sites change").name
    'conserved sites'
    """

    name: str
    claim: str
    failure: str


def _compare(codec: Codec, items: Items) -> Comparison:
    return compare_features(codec.features(items), codec.features(codec.stored))


def _annotate(codec: Codec, items: Items, n_total: int) -> tuple[Array, dict[str, Array]]:
    return nearest_rows(codec.features(items), codec.features(codec.stored)), {}


def _same(codec: Codec, first: Items, second: Items) -> Array:
    return np.isclose(codec.features(first), codec.features(second), rtol=1e-9, atol=1e-12)


def _features(codec: Codec, items: Items) -> Array:
    return codec.features(items)


def _statistics(codec: Codec, items: Items) -> None:
    return None


def _non_overlapping(codec: Codec, indices: Array) -> Array:
    return indices


def _no_figures(*arguments: object) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Measures(Generic[C]):
    """How items of a kind of data are measured. Functions take a codec, and items as this codec holds them.

    key:         what a verdict looks at beside single parts
    recall:      how closely an aspect of new items follows stored ones; None without such an aspect
    kept:        what new items must keep, measured against held-out ones; None for nothing
    compare:     (codec, items): a comparison with the stored items
    annotate:    (codec, items, n_total): the stored item nearest to each new one (n,), of n_total new ones in all, and
                 further columns (n,) for its header
    summarize:   (columns): figures for the summary of a result, from these further columns
    same:        (codec, first, second): which values of two sets of items are equal, (n, values) booleans
    comparable:  (codec, items): vectors whose distances tell copies from new items, (m, p); several for an item or one
    named_parts: (codec): names of the parts of an item, and the number of the part to which each column of
                 `comparable` belongs, (p,); None for parts of one column each, which are numbered from 1
    predictors:  (codec, items): the features that may predict the class of an item, without those that say it, (n, p)
    labels:      (codec, items): the class that each item itself says, (n,); None for kinds whose new items have the
                 class of the stored item that they were drawn around
    statistics:  (codec, items): figures of each item as a whole, (n, q), by which a trial tells new items from held-out
                 ones: what a user sees at once and single features do not show, such as noise, blur and hard bounds;
                 None for no figures
    non_overlapping: (codec, indices): those of these stored items that share nothing with one before them, (m,)
    repeated_identifiers: (codec, items): shares of new items with an identifier of a stored one, and of stored ones
                 that share theirs, by the name of the identifier

    >>> import stochattn as sa
    >>> from stochattn.kinds import Measures
    >>> codec = sa.fit(["MKVL", "MRIL", "MKIL"]).codec
    >>> float(Measures().same(codec, codec.stored[:1], codec.stored[1:2]).mean())
    0.95
    """

    key: KeyMeasure = KeyMeasure("correlation error", 0.1, "Features vary together", "correlations are lost")
    recall: RecallMeasures | None = None
    kept: KeptMeasure | None = None
    compare: Callable[[C, Items], Comparison] = _compare
    annotate: Callable[[C, Items, int], tuple[Array, dict[str, Array]]] = _annotate
    summarize: Callable[[Mapping[str, Array]], dict[str, float]] = _no_figures
    same: Callable[[C, Items, Items], Array] = _same
    comparable: Callable[[C, Items], Array] = _features
    named_parts: Callable[[C], tuple[tuple[str, ...], Array]] | None = None
    predictors: Callable[[C, Items], Array] = _features
    labels: Callable[[C, Items], Array] | None = None
    statistics: Callable[[C, Items], Array | None] = _statistics
    non_overlapping: Callable[[C, Array], Array] = _non_overlapping
    repeated_identifiers: Callable[[C, Items], Mapping[str, tuple[float, float]]] = _no_figures

    def parts(self, codec: C) -> tuple[tuple[str, ...], Array]:
        """Names of the parts of an item, and the number of the part to which each column of `comparable` belongs."""
        if self.named_parts is not None:
            return self.named_parts(codec)
        p = self.comparable(codec, codec.take(codec.stored, np.arange(1))).shape[1]
        return tuple(map(str, range(1, p + 1))), np.arange(p)

    def stored_vectors(self, codec: C, kept: Array) -> Array:
        """Vectors (m, p) of the stored items `kept`, without items that overlap with one before, as windows may."""
        return self.comparable(codec, codec.take(codec.stored, self.non_overlapping(codec, kept)))

    @property
    def items_have_labels(self) -> bool:
        """Whether new items say their own class."""
        return self.labels is not None

    def labels_of(self, codec: C, items: Items, source: Array) -> Array:
        """The class of each new item: what the item itself says, or that of the stored item it was drawn around."""
        return np.array(codec.labels)[source] if self.labels is None else self.labels(codec, items)
