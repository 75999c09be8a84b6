"""How faithful new items are, on scales that real items set.

Each score is measured against held-out items: for the new items, and for the stored items that these were made from,
which are faithful by definition. Beside both is what items without the property would score. A sampler is good where
its items score more like the stored ones than like the worst ones: no limit is a matter of taste.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._backend.arrays import Array, ArrayLike
from ..core.neighbors import as_rows, evenly, nearest_distances
from ..data.base import Codec, Items
from ..data.kind import AnyKind

MIN_IN_CLASS = 4  # items of a class, in every set, below which nothing is said about the class
MAX_PREDICTORS, MAX_RELATED = 400, 800  # features that classifiers use, and whose relations are measured
MAX_COMPARED = 1000  # equivalent: rows of each set that a forest distinguishes, few enough to be quick
SHRINKAGE = (0.02, 0.1, 0.3, 0.6)  # of the covariance towards the variances, of which the best for stored items is used
MIN_ADVANTAGE, MIN_EXPLAINED = 0.05, 0.05  # of stored items over the worst ones, in units of the score, to say anything
N_TREES, QUANTILES = 60, np.linspace(0.05, 0.95, 19)
PARTS, TWO_SAMPLE, TAILS = "distance of the parts", "two-sample accuracy", "tail difference"
TRAINING, AGREEMENT, WITHIN = "training", "agreement", "within classes"
NORMAL_TAIL = math.log(2.5758 / 0.6745)  # log of the 99 % over the 50 % quantile of |x|, for a normal law


class Score(NamedTuple):
    """One figure for new items, for the stored items they were made from, and for items without the property."""

    new: float
    stored: float
    worst: float


class Relations(NamedTuple):
    """How well each part is predicted from all other parts by a linear model fitted on new, or on stored items.

    Shares of its variance among held-out items, one per part; 0 where a part is unrelated to the others.
    """

    new: tuple[float, ...]
    stored: tuple[float, ...]


class Labelled(NamedTuple):
    """Items, and the class of each where there are classes."""

    items: Items
    labels: Array | None


class Fidelity(NamedTuple):
    """Scores by name, and the relations between parts."""

    scores: dict[str, Score]
    relations: Relations


def fidelity(
    kind: AnyKind,
    codec: Codec,
    new: Labelled,
    stored: Labelled,
    held_out: Labelled,
    parts: Score,
    rng: np.random.Generator,
    *,
    classify: bool,
) -> Fidelity:
    """Scores of new items, made from the stored ones, against held-out items; `parts` is the mean distance of parts.

    classify: also train classifiers, which takes longer than all else
    """
    drawn, fitted, real = (kind.comparable(codec, one.items) for one in (new, stored, held_out))
    scores = {PARTS: parts, TAILS: tail_difference(drawn, fitted, real)}
    if classify:
        distinguished, by_chance = (two_sample_accuracy(real, some) for some in (drawn, fitted))
        scores[TWO_SAMPLE] = Score(distinguished, by_chance, worst=1.0)
    if classify and new.labels is not None and stored.labels is not None and held_out.labels is not None:
        first, second, third = (_predictors(kind, codec, one.items) for one in (new, stored, held_out))
        scores |= class_scores((first, new.labels), (second, stored.labels), (third, held_out.labels), rng)
    return Fidelity(scores, relations(drawn, fitted, real, kind.parts(codec)[1]))


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
    real, new = (rows[evenly(len(rows), n)] for rows in (real, new))
    pairs = ((real, new), (new, real))
    first, second = (share_below(nearest_distances(a), nearest_distances(a, b)) for a, b in pairs)
    return first, second


def two_sample_accuracy(real: Array, new: Array) -> float:
    """Accuracy of distinguishing two sets of rows, by a nearest neighbour or by a forest, whichever is better."""
    from sklearn.ensemble import ExtraTreesClassifier

    n = min(len(real), len(new), MAX_COMPARED)
    rows = np.concatenate([some[evenly(len(some), n)] for some in (real, new)])
    rows = rows[:, evenly(rows.shape[1], MAX_PREDICTORS)]
    forest = ExtraTreesClassifier(2 * N_TREES, bootstrap=True, oob_score=True, min_samples_leaf=2, random_state=0)
    return max(
        math.fsum(nearest_neighbour_accuracy(real, new)) / 2,
        float(forest.fit(rows, np.repeat([0, 1], n)).oob_score_),
    )


def tail_difference(new: Array, stored: Array, held_out: Array) -> Score:
    """How much heavier or lighter the tails of each feature are than among held-out rows; a normal law is the worst.

    The mean over features of the absolute difference of log(99 % quantile / median) of the distance to the median.
    """
    tails = []
    for rows in (new, stored, held_out):
        high, middle = np.quantile(np.abs(rows - np.median(rows, axis=0)), (0.99, 0.5), axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            tails.append(np.log(high / middle))
    known = np.isfinite(np.array(tails)).all(0)  # features that are mostly one value have no tails
    if not known.any():
        return Score(math.nan, math.nan, math.nan)
    *both, real = (some[known] for some in tails)
    return Score(*(float(np.abs(some - real).mean()) for some in (*both, NORMAL_TAIL)))


def share_below(first: Array, second: Array) -> float:
    """Share of the first values (n,) that are below the second (n,); ties count half."""
    return float(((first < second) + 0.5 * (first == second)).mean())


Class = tuple[Array, Array]
"""Features (n, p) and classes (n,)."""


def class_scores(new: Class, stored: Class, held_out: Class, rng: np.random.Generator) -> dict[str, Score]:
    """Whether the classes of new items mean what those of held-out items mean; empty without two classes to compare."""
    counts = [dict(zip(*np.unique(labels, return_counts=True), strict=True)) for _, labels in (stored, held_out)]
    classes = [name for name in counts[0] if min(count.get(name, 0) for count in counts) >= MIN_IN_CLASS]
    if len(classes) < 2:
        return {}
    new, stored, held_out = ((X[kept := np.isin(y, classes)], y[kept]) for X, y in (new, stored, held_out))
    if not len(new[1]):
        return {name: Score(0.0, 1.0, 0.0) for name in (TRAINING, AGREEMENT)}  # no new item is of a known class
    most = max(float((held_out[1] == name).mean()) for name in classes)  # the accuracy of always naming one class
    from_new, from_stored, from_held_out = map(_classifier, (new, stored, held_out))

    def accuracy(predict: Callable[[Array], Array], on: Class) -> float:
        return float((predict(on[0]) == on[1]).mean())

    shuffled = stored[0], rng.permutation(stored[1])
    return {
        TRAINING: Score(accuracy(from_new, held_out), accuracy(from_stored, held_out), most),
        AGREEMENT: Score(accuracy(from_held_out, new), accuracy(from_held_out, stored), most),
        WITHIN: Score(*(_distance_within(one, held_out) for one in (new, stored, shuffled))),
    }


def _classifier(train: Class) -> Callable[[Array], Array]:
    from sklearn.ensemble import ExtraTreesClassifier

    found = ExtraTreesClassifier(N_TREES, random_state=0).fit(*train).predict
    return lambda rows: np.asarray(found(rows))


def _distance_within(some: Class, real: Class) -> float:
    """Mean distance between the distributions of each feature in each class, in standard deviations of the feature."""
    spread = real[0].std(0)
    varying = spread > 0
    found = []
    for rows, others in _by_class(some, real):
        apart = np.abs(np.quantile(rows, QUANTILES, axis=0) - np.quantile(others, QUANTILES, axis=0)).mean(0)
        found.append(float((apart[varying] / spread[varying]).mean()))
    return float(np.mean(found)) if found else math.nan


def _by_class(some: Class, real: Class) -> Iterator[tuple[Array, Array]]:
    for name in np.unique(real[1]):
        rows = some[0][some[1] == name]
        if len(rows) >= MIN_IN_CLASS:
            yield rows, real[0][real[1] == name]


def relations(new: Array, stored: Array, held_out: Array, part_of: Array) -> Relations:
    """Predict each part of held-out vectors (n, p) from all others; `part_of` (p,) numbers the part of each feature.

    The inverse of one covariance matrix holds the linear models of all parts. Where there are many features, evenly
    spaced parts stand for all; the others are NaN. A model of fewer vectors predicts worse, whatever made them, so at
    most as many stored ones are used as there are new ones.
    """
    stored = stored[evenly(len(stored), len(new))]
    n_parts = int(part_of.max()) + 1
    widest = int(np.bincount(part_of).max())
    chosen = evenly(n_parts, max(MAX_RELATED // widest, 2))
    columns = np.flatnonzero(np.isin(part_of, chosen) & (stored.std(0) > 0) & (held_out.std(0) > 0))
    own = part_of[columns]
    found = [math.nan] * n_parts, [math.nan] * n_parts
    if len(np.unique(own)) > 1 and min(len(new), len(stored)) > 2:
        drawn, fitted, real = (rows[:, columns] for rows in (new, stored, held_out))
        tried = {by: _explained(fitted, real, own, by) for by in SHRINKAGE}
        best = max(tried, key=lambda by: sum(tried[by].values()))
        for values, by_part in zip(found, (_explained(drawn, real, own, best), tried[best]), strict=True):
            for part, share in by_part.items():
                values[part] = share
    return Relations(*map(tuple, found))


def _explained(train: Array, real: Array, part_of: Array, shrinkage: float) -> dict[int, float]:
    """For each part, the share of its variance among real rows that the other parts predict."""
    variance = np.bincount(part_of, real.var(0)) / np.maximum(np.bincount(part_of), 1)
    mean, scale = train.mean(0), np.sqrt(variance)[part_of]  # one scale for each part, or rare values would count most
    standard, centred = (train - mean) / scale, (real - mean) / scale
    ridge = shrinkage * np.maximum(np.square(standard).mean(0), 1e-3)
    precision = _inverse(math.sqrt((1 - shrinkage) / len(standard)) * standard, ridge)
    weighted = (centred @ precision).T
    found: dict[int, float] = {}
    order, widths = np.argsort(part_of, kind="stable"), np.bincount(part_of)
    for width in np.unique(widths[part_of]):  # all parts of so many features at once
        own = order[widths[part_of[order]] == width].reshape(-1, width)
        errors = np.linalg.solve(precision[own[:, :, None], own[:, None]], weighted[own])
        spread = np.square(centred.T[own] - centred.mean(0)[own][..., None]).mean((1, 2))
        shares = 1 - np.square(errors).mean((1, 2)) / spread
        found |= dict(zip(part_of[own[:, 0]].tolist(), shares, strict=True))  # equivalent: as many of both
    return found


def _inverse(rows: Array, ridge: Array) -> Array:
    """(rowsᵀ rows + diag(ridge))⁻¹ of rows (n, p) and ridge (p,); where n < p, by the inverse of a matrix (n, n)."""
    if len(rows) >= len(ridge):
        return np.linalg.inv(rows.T @ rows + np.diag(ridge))
    scaled = rows / ridge
    return np.diag(1 / ridge) - scaled.T @ np.linalg.solve(np.eye(len(rows)) + scaled @ rows.T, scaled)


def _predictors(kind: AnyKind, codec: Codec, items: Items) -> Array:
    """The features (n, p) that may predict the class; evenly spaced ones where there are many."""
    features = kind.predictors(codec, items)
    return features[:, evenly(features.shape[1], MAX_PREDICTORS)]


class Judged(NamedTuple):
    """A score averaged over splits. `limit` is between the stored and the worst score.

    excess: by how far the score of new items is beyond the limit, less its standard error; negative if it passes
    """

    new: float
    stored: float
    worst: float
    limit: float
    excess: float


def judged(found: Sequence[Fidelity], name: str, way: float = 0.5) -> Judged | None:
    """A score over all splits; None where there is none, or where even stored items hardly score above the worst.

    way: how far from the stored to the worst score the limit is
    """
    values = np.array([one.scores[name] for one in found if name in one.scores])
    values = values[np.isfinite(values).all(1)] if len(values) else values
    if not len(values):
        return None
    new, stored, worst = values.mean(0)
    advantage = worst - stored
    if abs(advantage) <= MIN_ADVANTAGE + 2 * _standard_error(values[:, 2] - values[:, 1]):
        return None
    limit = stored + way * (worst - stored)
    beyond = (new - limit) * np.sign(advantage)
    return Judged(*map(float, (new, stored, worst, limit, beyond - _standard_error(values[:, 0]))))


def lost_relations(found: Sequence[Fidelity]) -> tuple[Array, Array]:
    """Numbers of the parts that others predict among stored items, and of those among them that lost half of that."""
    if not found:
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    new, stored = (np.array(values) for values in zip(*(one.relations for one in found), strict=True))
    predicted = stored.mean(0) - 2 * _standard_error(stored) > MIN_EXPLAINED
    kept = new.mean(0) + _standard_error(new) >= stored.mean(0) / 2
    return np.flatnonzero(predicted), np.flatnonzero(predicted & ~kept)


def _standard_error(values: Array) -> Any:
    """Of the mean over splits, the first axis; 0 for one split."""
    return values.std(0, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0 * values[0]
