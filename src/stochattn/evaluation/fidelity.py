"""Fidelity scores of new items on scales that real items set.

Each score compares items with held-out items: the new items, and the stored items that the new ones were made from,
which are faithful by definition. A third figure is the score of items without the property. A sampler is good if its
items score more like the stored items than like the worst ones, so that no limit is a matter of taste.

Permutation tests (`Relabeling`) say whether chance explains a difference between stored and new items. If new items
have the distribution of the stored items, it does not matter which items are called new. The tests divide all items
`N_DIVISIONS` times at random into as many stored and new ones. A difference that any division reaches is put down to
chance, so that real items fail a test at most once in 500 times, for any number of items and parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._backend.arrays import Array
from ..core.neighbors import nearest_distances, spaced_indices
from ..kinds import comparison
from ..kinds.codec import Codec, Items
from ..kinds.comparison import MAX_PREDICTORS, correlations, two_sample_accuracy
from ..kinds.kind import AnyKind

MIN_IN_CLASS = 4  # items of a class, in every set, below which nothing is said about the class
MAX_RELATED = 800  # features whose relations are measured
SHRINKAGE = (0.02, 0.1, 0.3, 0.6)  # of the covariance towards the variances, of which the best for stored items is used
MIN_ADVANTAGE, MIN_EXPLAINED = 0.05, 0.05  # of stored items over the worst ones, in units of the score, to say anything
QUANTILES = np.linspace(0.05, 0.95, 19)
PARTS, TWO_SAMPLE, TAILS = "distance of the parts", "two-sample accuracy", "tail difference"
TRAINING, AGREEMENT, WITHIN = "training", "agreement", "within classes"
NORMAL_TAIL = math.log(2.5758 / 0.6745)  # log of the 99 % over the 50 % quantile of |x|, for a normal distribution


class Score(NamedTuple):
    """One figure for new items, for the stored items they were made from, and for items without the property."""

    new: float
    stored: float
    worst: float


class Relations(NamedTuple):
    """How well each part is predicted from all other parts by a linear model fitted on new, or on stored items.

    The values are shares of the part's variance among held-out items, one per part: 0 if the part is unrelated to the
    others, NaN if it was not measured.
    """

    new: tuple[float, ...]
    stored: tuple[float, ...]


class Fidelity(NamedTuple):
    """Scores by name, and the relations between parts."""

    scores: dict[str, Score]
    relations: Relations


def measure_fidelity(
    kind: AnyKind,
    codec: Codec,
    items: Sequence[Items],
    vectors: Sequence[Array],
    labels: Sequence[Array | None],
    parts: Score,
    rng: np.random.Generator,
    *,
    part_names: Sequence[str],
    classify: bool,
) -> Fidelity:
    """Score new items, made from the stored ones, against held-out items; `parts` is the mean distance of parts.

    items, vectors, labels: of new, stored and held-out items: the items, their comparable vectors, and their classes
    part_names: parts in the order of `Fidelity.relations`; the codec of few items may lack parts that do not vary
    classify:   whether to train classifiers too, which takes longer than everything else
    """
    drawn, fitted, real = vectors
    scores = {PARTS: parts, TAILS: score_tails(drawn, fitted, real)}
    if classify:
        scores[TWO_SAMPLE] = Score(two_sample_accuracy(real, drawn), two_sample_accuracy(real, fitted), worst=1.0)
    classes = [of_set for of_set in labels if of_set is not None]
    if classify and len(classes) == len(items):
        predictors = (select_predictors(kind, codec, of_set) for of_set in items)
        new, stored, held_out = zip(predictors, classes, strict=True)
        scores |= score_classes(new, stored, held_out, rng)
    names, part_of = kind.measures.parts(codec)
    by_name = [dict(zip(names, shares, strict=True)) for shares in measure_relations(drawn, fitted, real, part_of)]
    aligned = (tuple(shares.get(name, math.nan) for name in part_names) for shares in by_name)
    return Fidelity(scores, Relations(*aligned))


def score_tails(new: Array, stored: Array, held_out: Array) -> Score:
    """Score how much heavier or lighter the tails of features are than among held-out rows.

    The mean over features of the absolute difference of log(99 % quantile / median) of the distance to the median.
    The worst score is that of a normal distribution.
    """
    tails = np.array([compute_log_tails(rows) for rows in (new, stored, held_out)])
    has_tails = np.isfinite(tails).all(0)  # features that are mostly one value have no tails
    if not has_tails.any():
        return Score(math.nan, math.nan, math.nan)
    of_new, of_stored, of_held_out = tails[:, has_tails]
    return Score(*(float(np.abs(values - of_held_out).mean()) for values in (of_new, of_stored, NORMAL_TAIL)))


def compute_log_tails(rows: Array) -> Array:
    """Return log(99 % quantile / median) of the distance of each feature of rows (n, p) to its median: (p,)."""
    high, middle = np.quantile(np.abs(rows - np.median(rows, axis=0)), (0.99, 0.5), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(high / middle))


Class = tuple[Array, Array]  # features (n, p) and classes (n,)


def score_classes(new: Class, stored: Class, held_out: Class, rng: np.random.Generator) -> dict[str, Score]:
    """Score whether a class means the same among new and held-out items; empty without two classes to compare."""
    counts = [dict(zip(*np.unique(labels, return_counts=True), strict=True)) for _, labels in (stored, held_out)]
    classes = [name for name in counts[0] if min(count.get(name, 0) for count in counts) >= MIN_IN_CLASS]
    if len(classes) < 2:
        return {}
    new, stored, held_out = ((X[kept := np.isin(y, classes)], y[kept]) for X, y in (new, stored, held_out))
    if not len(new[1]):
        return {name: Score(0.0, 1.0, 0.0) for name in (TRAINING, AGREEMENT)}  # no new item has one of these classes
    baseline = max(float((held_out[1] == name).mean()) for name in classes)  # the accuracy of always naming one class
    from_new, from_stored, from_held_out = map(train_classifier, (new, stored, held_out))

    def accuracy(predict: Callable[[Array], Array], test: Class) -> float:
        return float((predict(test[0]) == test[1]).mean())

    shuffled = stored[0], rng.permutation(stored[1])
    return {
        TRAINING: Score(accuracy(from_new, held_out), accuracy(from_stored, held_out), baseline),
        AGREEMENT: Score(accuracy(from_held_out, new), accuracy(from_held_out, stored), baseline),
        WITHIN: Score(*(_compute_distance_within(items, held_out) for items in (new, stored, shuffled))),
    }


def train_classifier(train: Class) -> Callable[[Array], Array]:
    """Train a forest that predicts the class of rows (n, p)."""
    from sklearn.ensemble import ExtraTreesClassifier

    forest = ExtraTreesClassifier(comparison.N_TREES, random_state=0).fit(*train)
    return lambda rows: np.asarray(forest.predict(rows))


def _compute_distance_within(items: Class, real: Class) -> float:
    """Mean distance between the distributions of each feature in each class, in standard deviations of the feature."""
    spread = real[0].std(0)
    varies = spread > 0
    distances = []
    for name in np.unique(real[1]):
        rows, real_rows = items[0][items[1] == name], real[0][real[1] == name]
        if len(rows) >= MIN_IN_CLASS:
            gaps = np.abs(np.quantile(rows, QUANTILES, axis=0) - np.quantile(real_rows, QUANTILES, axis=0)).mean(0)
            distances.append(float((gaps[varies] / spread[varies]).mean()))
    return float(np.mean(distances)) if distances else math.nan


def measure_relations(new: Array, stored: Array, held_out: Array, part_of: Array) -> Relations:
    """Predict each part of held-out vectors (n, p) from all others; `part_of` (p,) numbers the part of each feature.

    The inverse of one covariance matrix holds the linear models of all parts. If there are many features, evenly
    spaced parts are measured and the others are NaN. A model of fewer vectors predicts worse, whatever made them, so at
    most as many stored vectors are used as there are new ones.
    """
    stored = stored[spaced_indices(len(stored), len(new))]
    widths = np.bincount(part_of)
    chosen = spaced_indices(len(widths), max(MAX_RELATED // int(widths.max()), 2))
    varies = (np.ptp(stored, axis=0) > 0) & (np.ptp(held_out, axis=0) > 0)  # a deviation may be above 0 by rounding
    columns = np.flatnonzero(np.isin(part_of, chosen) & varies)
    part_of_column = part_of[columns]
    by_part: tuple[dict[int, float], ...] = {}, {}
    if len(np.unique(part_of_column)) > 1 and min(len(new), len(stored)) > 2:
        drawn, fitted, real = (rows[:, columns] for rows in (new, stored, held_out))
        trials = {shrinkage: _explain_parts(fitted, real, part_of_column, shrinkage) for shrinkage in SHRINKAGE}
        best = max(trials, key=lambda shrinkage: sum(trials[shrinkage].values()))
        by_part = _explain_parts(drawn, real, part_of_column, best), trials[best]
    return Relations(*(tuple(shares.get(part, math.nan) for part in range(len(widths))) for shares in by_part))


def _explain_parts(train: Array, real: Array, part_of: Array, shrinkage: float) -> dict[int, float]:
    """For each part, the share of its variance among real rows that the other parts predict."""
    variance = np.bincount(part_of, real.var(0)) / np.maximum(np.bincount(part_of), 1)
    mean, scale = train.mean(0), np.sqrt(variance)[part_of]  # one scale per part, or rare values would count most
    standard, centered = (train - mean) / scale, (real - mean) / scale
    ridge = shrinkage * np.maximum(np.square(standard).mean(0), 1e-3)
    precision = _invert(math.sqrt((1 - shrinkage) / len(standard)) * standard, ridge)
    weighted = (centered @ precision).T
    shares: dict[int, float] = {}
    order, widths = np.argsort(part_of, kind="stable"), np.bincount(part_of)
    for width in np.unique(widths[part_of]):  # all parts of so many features at once
        members = order[widths[part_of[order]] == width].reshape(-1, width)
        errors = np.linalg.solve(precision[members[:, :, None], members[:, None]], weighted[members])
        spread = np.square(centered.T[members] - centered.mean(0)[members][..., None]).mean((1, 2))
        explained = 1 - np.square(errors).mean((1, 2)) / spread
        shares |= dict(zip(part_of[members[:, 0]].tolist(), explained, strict=True))
    return shares


def _invert(rows: Array, ridge: Array) -> Array:
    """Invert rowsᵀ rows + diag(ridge) for rows (n, p) and ridge (p,); if n < p, by the inverse of an n × n matrix."""
    if len(rows) >= len(ridge):
        return np.linalg.inv(rows.T @ rows + np.diag(ridge))
    scaled = rows / ridge
    return np.diag(1 / ridge) - scaled.T @ np.linalg.solve(np.eye(len(rows)) + scaled @ rows.T, scaled)


def select_predictors(kind: AnyKind, codec: Codec, items: Items) -> Array:
    """Return the features (n, p) that may predict the class; evenly spaced ones if there are many."""
    features = kind.measures.predictors(codec, items)
    return features[:, spaced_indices(features.shape[1], MAX_PREDICTORS)]


class Judgment(NamedTuple):
    """A score averaged over splits. The limit is between the scores of stored items and of the worst ones.

    excess: by how far the score of new items is beyond the limit, less its standard error; negative if it passes
    """

    new: float
    stored: float
    limit: float
    excess: float


def judge_score(fidelities: Sequence[Fidelity], name: str, limit_share: float = 0.5) -> Judgment | None:
    """Judge a score over all splits; None if there is no score, or if even stored items hardly beat the worst score.

    limit_share: where the limit is between the stored score, 0, and the worst score, 1
    """
    values = np.array([fidelity.scores[name] for fidelity in fidelities if name in fidelity.scores])
    values = values[np.isfinite(values).all(1)] if len(values) else values
    if not len(values):
        return None
    new, stored, worst = values.mean(0)
    sign = -1 if name in (TRAINING, AGREEMENT) else 1  # of these two, higher scores are better
    if sign * (worst - stored) <= MIN_ADVANTAGE + 2 * _standard_error(values[:, 2] - values[:, 1]):
        return None
    limit = stored + limit_share * (worst - stored)
    return Judgment(*map(float, (new, stored, limit, sign * (new - limit) - _standard_error(values[:, 0]))))


def find_lost_relations(fidelities: Sequence[Fidelity]) -> tuple[Array, Array]:
    """Return indices of the parts that others predict among stored items, and of those that lost half of that."""
    if not fidelities:
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    new, stored = (np.array(values) for values in zip(*(fidelity.relations for fidelity in fidelities), strict=True))
    is_predicted = stored.mean(0) - 2 * _standard_error(stored) > MIN_EXPLAINED
    is_kept = new.mean(0) + _standard_error(new) >= stored.mean(0) / 2
    return np.flatnonzero(is_predicted), np.flatnonzero(is_predicted & ~is_kept)


def _standard_error(values: Array) -> Any:
    """The standard error of the mean over splits, the first axis; 0 for one split."""
    return values.std(0, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0 * values[0]


N_DIVISIONS = 499
N_CLASSIFIED = 39  # divisions for which a classifier is trained, which takes longer: real items fail once in 40 times
MAX_ITEMS, MAX_FEATURES = 1000, 100  # stored and new items each, and features, that a division compares: seconds
MAX_MEASURED = 200  # likewise, where the measures of a kind are computed
RELATIONS, CORRELATIONS, NEARNESS = "relations", "correlation error", "nearness"


@dataclass(frozen=True, eq=False)
class Relabeling:
    """New items that were not drawn by the synthesizer under test, beside stored ones of a codec.

    classes: the classes of the stored items (K,) and of evenly spaced new items, if new items say their class
    """

    kind: AnyKind
    codec: Codec
    stored: Items
    new: Items
    seed: int
    classes: tuple[Array, Array] | None = None

    @cached_property
    def _vectors(self) -> tuple[Array, Array, int] | None:
        """All items as vectors (n, p), the part of each feature, and the number of stored items; else None."""
        codec = self.codec
        stored, new = (codec.take(items, spaced_indices(len(items), MAX_ITEMS)) for items in (self.stored, self.new))
        pool = codec.join([stored, new])
        with suppress(ValueError):  # new items may have values that the stored ones exclude, such as fractions
            codec = codec.refit(pool)  # scales of the stored items alone would distinguish them from the new ones
        vectors, part_of = self.kind.measures.comparable(codec, pool), self.kind.measures.parts(codec)[1]
        if len(vectors) != len(pool):  # several vectors per item, such as the days of windows, are not independent
            return None
        chosen = np.isin(part_of, spaced_indices(int(part_of.max()) + 1, MAX_FEATURES))
        return vectors[:, chosen], np.unique(part_of[chosen], return_inverse=True)[1], len(stored)

    def explains(self, name: str) -> bool:
        """Whether a random division differs in this respect as much as stored and new items do."""
        if name in (TRAINING, AGREEMENT):
            return self._explains_classes(name)
        if self._vectors is None:
            return False
        vectors, part_of, n_stored = self._vectors
        compare = DIFFERENCES[name]
        return self._is_reached(lambda a, b: compare(vectors[a], vectors[b], part_of), len(vectors), n_stored)

    def explains_measure(self, name: str) -> bool:
        """Whether a random division is as far from the ideal value of a measure of the kind as new items are."""
        codec = self.codec
        stored, new = (codec.take(items, spaced_indices(len(items), MAX_MEASURED)) for items in (self.stored, self.new))
        pool = codec.join([stored, new])

        def difference(stored: Array, new: Array) -> float:
            try:
                reference = codec.refit(codec.take(pool, stored))
            except ValueError:  # nothing varies among them
                return -np.inf
            measures = self.kind.measures.compare(reference, codec.take(pool, new)).measures
            value, ideal = next((measure.value, measure.ideal or 0.0) for measure in measures if measure.name == name)
            return abs(value - ideal)

        return self._is_reached(difference, len(pool), len(stored))

    def _explains_classes(self, name: str) -> bool:
        """Whether a classifier loses as much that is trained or tested on the new items of a random division."""
        if self.classes is None:
            return False
        codec, (of_stored, of_new) = self.codec, self.classes
        stored, new = spaced_indices(len(of_stored), MAX_MEASURED), spaced_indices(len(of_new), MAX_MEASURED)
        of_class = spaced_indices(len(self.new), len(of_new))  # the new items whose classes these are
        pool = codec.join([codec.take(self.stored, stored), codec.take(self.new, of_class[new])])
        features, classes = select_predictors(self.kind, codec, pool), np.concatenate([of_stored[stored], of_new[new]])

        def accuracy(train: Array, held_out: Array) -> float:
            predict = train_classifier((features[train], classes[train]))
            return float((predict(features[held_out]) == classes[held_out]).mean())

        def difference(stored: Array, new: Array) -> float:
            """How much better one half of the stored items predicts the other than in pairs with new items."""
            pairs = (stored[::2], stored[1::2]), (stored[1::2], stored[::2])
            new_pairs = ((new[: len(a)], b) if name == TRAINING else (a, new) for a, b in pairs)
            return sum(accuracy(*pair) - accuracy(*new_pair) for pair, new_pair in zip(pairs, new_pairs, strict=True))

        return self._is_reached(difference, len(pool), len(stored), N_CLASSIFIED)

    def _is_reached(
        self, difference: Callable[[Array, Array], float], n: int, n_stored: int, n_divisions: int = N_DIVISIONS
    ) -> bool:
        """Whether a random division of n items differs as much as the division into the first n_stored and the rest."""
        rng, observed = np.random.default_rng([self.seed, 1]), difference(*np.split(np.arange(n), [n_stored]))
        orders = (rng.permutation(n) for _ in range(n_divisions))
        return any(not observed > difference(*np.split(order, [n_stored])) for order in orders)


def _compare_parts(stored: Array, new: Array, part_of: Array) -> float:
    """Mean Kolmogorov-Smirnov distance of the features."""
    order = np.argsort(rows := np.concatenate([stored, new]), axis=0, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=0)
    steps = np.where(order < len(stored), 1 / len(stored), -1 / len(new))
    is_last = np.concatenate([ordered[1:] > ordered[:-1], np.ones((1, rows.shape[1]), dtype=bool)])
    return float((np.abs(steps.cumsum(0)) * is_last).max(0).mean())


def _compare_tails(stored: Array, new: Array, part_of: Array) -> float:
    with np.errstate(invalid="ignore"):  # a feature may have no tails in either set
        gaps = np.abs(compute_log_tails(stored) - compute_log_tails(new))
    return float(gaps[np.isfinite(gaps)].sum())


def _compare_relations(stored: Array, new: Array, part_of: Array) -> float:
    """How much better one half of the stored items predicts the other than in pairs with new items."""
    halves = [stored[::2], stored[1::2]]
    folds = halves, halves[::-1]
    relations = [measure_relations(new[: len(fitted)], fitted, held_out, part_of) for fitted, held_out in folds]
    of_new, of_stored = np.nan_to_num(np.array(relations)).clip(0).mean(0)
    return float((of_stored - of_new).sum())


def _compare_nearness(stored: Array, new: Array, part_of: Array) -> float:
    """How near new items are to stored items, relative to the distance between stored items."""
    typical = float(np.median(nearest_distances(stored)))
    with np.errstate(over="ignore"):  # copies have the distance zero
        return typical / max(float(np.median(nearest_distances(new, stored))), np.finfo(float).tiny)


DIFFERENCES: dict[str, Callable[[Array, Array, Array], float]] = {
    PARTS: _compare_parts,
    TAILS: _compare_tails,
    RELATIONS: _compare_relations,
    CORRELATIONS: lambda stored, new, part_of: float(np.abs(correlations(stored) - correlations(new)).mean()),
    NEARNESS: _compare_nearness,
}
"""How much new vectors (n, p) differ from stored ones (K, p), given the part of each feature (p,)."""


def compute_repeat_share(contents: Sequence[object]) -> float:
    """Share of items that equal an earlier item, compared by a hashable content."""
    return 1 - len(set(contents)) / len(contents) if contents else 0.0


def _number_contents(stored: Sequence[object], new: Sequence[object]) -> Array:
    """Number the different contents, so that equal items have equal numbers."""
    return np.unique([hash(content) for content in (*stored, *new)], return_inverse=True)[1]


def chance_explains_repeats(stored: Sequence[object], new: Sequence[object], seed: int) -> bool:
    """Whether as many items of a random division equal an earlier item as new items do."""
    codes = _number_contents(stored, new)
    rng, n_different = np.random.default_rng([seed, 2]), len(set(new))
    divisions = (rng.permutation(codes)[: len(new)] for _ in range(N_DIVISIONS))
    return any((np.bincount(division) > 0).sum() <= n_different for division in divisions)


def chance_explains_copies(stored: Sequence[object], new: Sequence[object], seed: int) -> bool:
    """Whether as many new items of a random division equal a stored item as new items do."""
    codes = _number_contents(stored, new)
    rng, n_copies = np.random.default_rng([seed, 3]), np.isin(codes[len(stored) :], codes[: len(stored)]).sum()
    divisions = (np.split(rng.permutation(codes), [len(stored)]) for _ in range(N_DIVISIONS))
    return any(np.isin(of_new, of_stored).sum() >= n_copies for of_stored, of_new in divisions)
