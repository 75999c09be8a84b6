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

from .._backend.arrays import Array
from ..core.neighbors import spaced_indices
from ..kinds import comparison
from ..kinds.codec import Codec, Items
from ..kinds.comparison import MAX_PREDICTORS, two_sample_accuracy
from ..kinds.kind import AnyKind

MIN_IN_CLASS = 4  # items of a class, in every set, below which nothing is said about the class
MAX_RELATED = 800  # features whose relations are measured
SHRINKAGE = (0.02, 0.1, 0.3, 0.6)  # of the covariance towards the variances, of which the best for stored items is used
MIN_ADVANTAGE, MIN_EXPLAINED = 0.05, 0.05  # of stored items over the worst ones, in units of the score, to say anything
QUANTILES = np.linspace(0.05, 0.95, 19)
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

    Shares of its variance among held-out items, one per part; 0 where a part is unrelated to the others, NaN where it
    was not measured.
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
    part_names: Sequence[str],
    classify: bool,
) -> Fidelity:
    """Scores of new items, made from the stored ones, against held-out items; `parts` is the mean distance of parts.

    part_names: parts in the order of `Fidelity.relations`; a codec of few items may lack those that do not vary there
    classify:   also train classifiers, which takes longer than all else
    """
    drawn, fitted, real = (kind.measures.comparable(codec, one.items) for one in (new, stored, held_out))
    scores = {PARTS: parts, TAILS: tail_difference(drawn, fitted, real)}
    if classify:
        distinguished, by_chance = (two_sample_accuracy(real, some) for some in (drawn, fitted))
        scores[TWO_SAMPLE] = Score(distinguished, by_chance, worst=1.0)
    if classify and new.labels is not None and stored.labels is not None and held_out.labels is not None:
        first, second, third = (predictors(kind, codec, one.items) for one in (new, stored, held_out))
        scores |= class_scores((first, new.labels), (second, stored.labels), (third, held_out.labels), rng)
    names, part_of = kind.measures.parts(codec)
    by_name = [dict(zip(names, shares, strict=True)) for shares in relations(drawn, fitted, real, part_of)]
    aligned = (tuple(shares.get(name, math.nan) for name in part_names) for shares in by_name)
    return Fidelity(scores, Relations(*aligned))


def tail_difference(new: Array, stored: Array, held_out: Array) -> Score:
    """How much heavier or lighter the tails of each feature are than among held-out rows; a normal law is the worst.

    The mean over features of the absolute difference of log(99 % quantile / median) of the distance to the median.
    """
    tails = [log_tails(rows) for rows in (new, stored, held_out)]
    known = np.isfinite(np.array(tails)).all(0)  # features that are mostly one value have no tails
    if not known.any():
        return Score(math.nan, math.nan, math.nan)
    *both, real = (some[known] for some in tails)
    return Score(*(float(np.abs(some - real).mean()) for some in (*both, NORMAL_TAIL)))


def log_tails(rows: Array) -> Array:
    """log(99 % quantile / median) of the distance of each feature of rows (n, p) to its median: (p,)."""
    high, middle = np.quantile(np.abs(rows - np.median(rows, axis=0)), (0.99, 0.5), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(high / middle))


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
    from_new, from_stored, from_held_out = map(classifier, (new, stored, held_out))

    def accuracy(predict: Callable[[Array], Array], on: Class) -> float:
        return float((predict(on[0]) == on[1]).mean())

    shuffled = stored[0], rng.permutation(stored[1])
    return {
        TRAINING: Score(accuracy(from_new, held_out), accuracy(from_stored, held_out), most),
        AGREEMENT: Score(accuracy(from_held_out, new), accuracy(from_held_out, stored), most),
        WITHIN: Score(*(_distance_within(one, held_out) for one in (new, stored, shuffled))),
    }


def classifier(train: Class) -> Callable[[Array], Array]:
    """A forest that names the class of rows (n, p), trained on features and classes."""
    from sklearn.ensemble import ExtraTreesClassifier

    found = ExtraTreesClassifier(comparison.N_TREES, random_state=0).fit(*train).predict
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
    stored = stored[spaced_indices(len(stored), len(new))]
    n_parts = int(part_of.max()) + 1
    widest = int(np.bincount(part_of).max())
    chosen = spaced_indices(n_parts, max(MAX_RELATED // widest, 2))
    vary = (np.ptp(stored, axis=0) > 0) & (np.ptp(held_out, axis=0) > 0)  # a deviation may be above 0 by rounding
    columns = np.flatnonzero(np.isin(part_of, chosen) & vary)
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
        found |= dict(zip(part_of[own[:, 0]].tolist(), shares, strict=True))
    return found


def _inverse(rows: Array, ridge: Array) -> Array:
    """(rowsᵀ rows + diag(ridge))⁻¹ of rows (n, p) and ridge (p,); where n < p, by the inverse of a matrix (n, n)."""
    if len(rows) >= len(ridge):
        return np.linalg.inv(rows.T @ rows + np.diag(ridge))
    scaled = rows / ridge
    return np.diag(1 / ridge) - scaled.T @ np.linalg.solve(np.eye(len(rows)) + scaled @ rows.T, scaled)


def predictors(kind: AnyKind, codec: Codec, items: Items) -> Array:
    """The features (n, p) that may predict the class; evenly spaced ones where there are many."""
    features = kind.measures.predictors(codec, items)
    return features[:, spaced_indices(features.shape[1], MAX_PREDICTORS)]


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
