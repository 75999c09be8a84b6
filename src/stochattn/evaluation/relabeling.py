"""Permutation tests: whether chance explains a difference between stored and new items.

If new items have the distribution of the stored items, it does not matter which items are called new. The tests divide
all items `N_DIVISIONS` times at random into as many stored and new ones. A difference that any division reaches is put
down to chance, so that real items fail a test at most once in 500 times, for any number of items and parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._backend.arrays import Array
from ..core.neighbors import nearest_distances, spaced_indices
from ..kinds.codec import Codec, Items
from ..kinds.comparison import correlations
from ..kinds.kind import AnyKind
from .fidelity import (
    PARTS,
    TAILS,
    TRAINING,
    compute_log_tails,
    measure_relations,
    select_predictors,
    train_classifier,
)

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
        if name == TRAINING:
            return self._explains_training()
        if self._vectors is None:
            return False
        vectors, part_of, n_stored = self._vectors
        difference = DIFFERENCES[name]
        return self._is_reached(
            lambda stored, new: difference(vectors[stored], vectors[new], part_of), len(vectors), n_stored
        )

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

    def _explains_training(self) -> bool:
        """Whether a classifier loses as much accuracy when it is trained on the new items of a random division."""
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
            """How much better half of the stored items predict classes of the other half than new items do."""
            halves = [stored[::2], stored[1::2]]
            return sum(accuracy(a, b) - accuracy(new[: len(a)], b) for a, b in (halves, halves[::-1]))

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
    """How much better a half of the stored items predicts the other half than as many new items do."""
    halves = [stored[::2], stored[1::2]]
    folds = halves, halves[::-1]
    relations = [measure_relations(new[: len(fitted)], fitted, held_out, part_of) for fitted, held_out in folds]
    of_new, of_stored = np.nan_to_num(np.array(relations)).clip(0).mean(0)
    return float((of_stored - of_new).sum())


def _compare_correlations(stored: Array, new: Array, part_of: Array) -> float:
    return float(np.abs(correlations(stored) - correlations(new)).mean())


def _compare_nearness(stored: Array, new: Array, part_of: Array) -> float:
    """How near new items are to stored items, relative to the distance between stored items."""
    typical = float(np.median(nearest_distances(stored)))
    with np.errstate(over="ignore"):  # copies have the distance zero
        return typical / max(float(np.median(nearest_distances(new, stored))), np.finfo(float).tiny)


DIFFERENCES: dict[str, Callable[[Array, Array, Array], float]] = {
    PARTS: _compare_parts,
    TAILS: _compare_tails,
    RELATIONS: _compare_relations,
    CORRELATIONS: _compare_correlations,
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
