"""Whether chance explains a difference between stored and new items: random divisions of both taken together.

If new items are drawn from the distribution of the stored ones, it does not matter which of them are called new. A
difference that any of `N_DIVISIONS` random divisions into as many stored and new items reaches is one of chance, so
that real items fail a test at most once in 500 times, however few they are and however many parts they have.
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
from .fidelity import PARTS, TAILS, TRAINING, classifier, log_tails, predictors, relations

N_DIVISIONS = 499
N_CLASSIFIED = 39  # divisions of which a classifier is trained, which takes longer: real items fail once in 40 times
MAX_ITEMS, MAX_FEATURES = 1000, 100  # stored and new items each, and features, that a division compares: seconds
MAX_MEASURED = 200  # likewise, where the measures of a kind are computed
RELATIONS, CORRELATIONS, NEARNESS = "relations", "correlation error", "nearness"


@dataclass(frozen=True, eq=False)
class Relabeling:
    """New items that were not drawn by the synthesizer under test, beside stored ones of a codec.

    classes: those of the stored items (K,), and of an even part of the new ones, where these say their class
    """

    kind: AnyKind
    codec: Codec
    stored: Items
    new: Items
    seed: int
    classes: tuple[Array, Array] | None = None

    @cached_property
    def _vectors(self) -> tuple[Array, Array, int] | None:
        """All items as vectors (n, p), the part of each feature, and how many are stored; None if that is unknown."""
        codec = self.codec
        stored, new = (codec.take(items, spaced_indices(len(items), MAX_ITEMS)) for items in (self.stored, self.new))
        pool = codec.join([stored, new])
        with suppress(ValueError):  # new items may have values that stored ones rule out, such as fractions
            codec = codec.refit(pool)  # scales of the stored items alone would tell them from the others
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
        """Likewise of a measure of the kind, in its distance from the ideal one."""
        codec = self.codec
        stored, new = (codec.take(items, spaced_indices(len(items), MAX_MEASURED)) for items in (self.stored, self.new))
        pool = codec.join([stored, new])

        def difference(stored: Array, new: Array) -> float:
            try:
                reference = codec.refit(codec.take(pool, stored))
            except ValueError:  # nothing varies among them
                return -np.inf
            measures = self.kind.measures.compare(reference, codec.take(pool, new)).measures
            value, ideal = next((one.value, one.ideal or 0.0) for one in measures if one.name == name)
            return abs(value - ideal)

        return self._is_reached(difference, len(pool), len(stored))

    def _explains_training(self) -> bool:
        """Whether new items of a random division are as much worse to train a classifier on as the new ones are."""
        if self.classes is None:
            return False
        codec, (of_stored, of_new) = self.codec, self.classes
        stored, new = spaced_indices(len(of_stored), MAX_MEASURED), spaced_indices(len(of_new), MAX_MEASURED)
        of_class = spaced_indices(len(self.new), len(of_new))  # the new items whose classes these are
        pool = codec.join([codec.take(self.stored, stored), codec.take(self.new, of_class[new])])
        features, classes = predictors(self.kind, codec, pool), np.concatenate([of_stored[stored], of_new[new]])

        def accuracy(train: Array, held_out: Array) -> float:
            predict = classifier((features[train], classes[train]))
            return float((predict(features[held_out]) == classes[held_out]).mean())

        def difference(stored: Array, new: Array) -> float:
            """By how much a half of the stored items names classes of the other half better than as many new ones."""
            halves = [stored[::2], stored[1::2]]
            return sum(accuracy(a, b) - accuracy(new[: len(a)], b) for a, b in (halves, halves[::-1]))

        return self._is_reached(difference, len(pool), len(stored), N_CLASSIFIED)

    def _is_reached(
        self, difference: Callable[[Array, Array], float], n: int, n_stored: int, n_divisions: int = N_DIVISIONS
    ) -> bool:
        """Whether a random division of n items differs as much as that into the first ones and the rest."""
        rng, observed = np.random.default_rng([self.seed, 1]), difference(*np.split(np.arange(n), [n_stored]))
        orders = (rng.permutation(n) for _ in range(n_divisions))
        return any(not observed > difference(*np.split(order, [n_stored])) for order in orders)


def _of_parts(stored: Array, new: Array, part_of: Array) -> float:
    """Mean Kolmogorov-Smirnov distance of the features."""
    order = np.argsort(rows := np.concatenate([stored, new]), axis=0, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=0)
    steps = np.where(order < len(stored), 1 / len(stored), -1 / len(new))
    is_last = np.concatenate([ordered[1:] > ordered[:-1], np.ones((1, rows.shape[1]), dtype=bool)])
    return float((np.abs(steps.cumsum(0)) * is_last).max(0).mean())


def _of_tails(stored: Array, new: Array, part_of: Array) -> float:
    with np.errstate(invalid="ignore"):  # of a feature without tails among both
        gaps = np.abs(log_tails(stored) - log_tails(new))
    return float(gaps[np.isfinite(gaps)].sum())


def _of_relations(stored: Array, new: Array, part_of: Array) -> float:
    """By how much a half of the stored items predicts the other half better than as many new items do."""
    halves = [stored[::2], stored[1::2]]
    lost = [relations(new[: len(fitted)], fitted, held_out, part_of) for fitted, held_out in (halves, halves[::-1])]
    of_new, of_stored = (np.nan_to_num(np.array([each[i] for each in lost])).clip(0).mean(0) for i in (0, 1))
    return float((of_stored - of_new).sum())


def _of_correlations(stored: Array, new: Array, part_of: Array) -> float:
    return float(np.abs(correlations(stored) - correlations(new)).mean())


def _of_nearness(stored: Array, new: Array, part_of: Array) -> float:
    """How near new items are to stored ones, beside these to each other."""
    typical = float(np.median(nearest_distances(stored)))
    with np.errstate(over="ignore"):  # copies are infinitely near
        return typical / max(float(np.median(nearest_distances(new, stored))), np.finfo(float).tiny)


DIFFERENCES: dict[str, Callable[[Array, Array, Array], float]] = {
    PARTS: _of_parts,
    TAILS: _of_tails,
    RELATIONS: _of_relations,
    CORRELATIONS: _of_correlations,
    NEARNESS: _of_nearness,
}
"""How much new vectors (n, p) differ from stored ones (K, p), given the part of each feature (p,)."""


def repeats(names: Sequence[object]) -> float:
    """Share of items that equal an earlier one, by anything that names their content."""
    return 1 - len(set(names)) / len(names) if names else 0.0


def chance_explains_repeats(stored: Sequence[object], new: Sequence[object], seed: int) -> bool:
    """Whether as many items of a random division equal an earlier one as new items do."""
    codes = np.unique([hash(one) for one in (*stored, *new)], return_inverse=True)[1]
    rng, n_different = np.random.default_rng([seed, 2]), len(set(new))
    divisions = (rng.permutation(codes)[: len(new)] for _ in range(N_DIVISIONS))
    return any((np.bincount(division) > 0).sum() <= n_different for division in divisions)


def chance_explains_copies(stored: Sequence[object], new: Sequence[object], seed: int) -> bool:
    """Whether as many new items of a random division equal a stored one as new items do."""
    codes = np.unique([hash(one) for one in (*stored, *new)], return_inverse=True)[1]
    rng, n_copies = np.random.default_rng([seed, 3]), np.isin(codes[len(stored) :], codes[: len(stored)]).sum()
    divisions = (np.split(rng.permutation(codes), [len(stored)]) for _ in range(N_DIVISIONS))
    return any(np.isin(of_new, of_stored).sum() >= n_copies for of_stored, of_new in divisions)
