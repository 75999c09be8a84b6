"""The measurements of new items that a report shows and judges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array
from .._backend.console import Progress, hide_warnings
from .._backend.products import limit_to_one_thread
from ..core.metrics import cosine_novelty, diversity
from ..core.neighbors import nearest_distances, spaced_indices
from ..evaluation.fidelity import Relabeling, chance_explains_copies, chance_explains_repeats, compute_repeat_share
from ..evaluation.inspection import (
    CHANCE,
    Mode,
    RoundTripLoss,
    compute_chance,
    count_categories,
    count_modes,
    round_trip_loss,
)
from ..evaluation.split_half import SplitHalfResult, count_features, count_splits, split_half_validation
from ..kinds.codec import Codec, Items
from ..kinds.comparison import MAX_STORED, Comparison, Part, Values, distances_among, near_limit
from ..kinds.generator import LIBRARY
from ..synthesizer.synthesizer import Synthesizer

MIN_MEASURED, MAX_MEASURED, MAX_WORK = 500, 20_000, 4e10  # items, and multiplications of their comparison
MAX_COMPARED, MAX_COMPARED_VALUES, MIN_COMPARED = 5000, 2**24, 50
MAX_EXTRA_PART_DISTANCE = 0.15  # mean beyond that of stored items drawn again, or of one part
MAX_SWAPPED = 12  # parts that are searched for swapped values, the most different first
BLOCK_ENTRIES = 2**23  # features that are computed at once


class Closeness(NamedTuple):
    """How near items are to the nearest stored item."""

    distance: Array  # (n,), or longer if items have several vectors each
    novelty: Array  # (n,) 1 − the largest cosine


class Classes(NamedTuple):
    """The class of each stored row (K,), and of each new row (n,)."""

    stored: Array
    new: Array


class Repeats(NamedTuple):
    """Shares of stored and of new items that equal an earlier item, and whether chance explains the new share."""

    stored: float
    new: float
    by_chance: bool
    copies_by_chance: bool = False  # whether chance explains how many new items equal a stored item


@dataclass(frozen=True, eq=False)
class Evidence:
    """Measurements of n new items. If n is large, shares and means are those of a part, evenly spaced among them."""

    synth: Synthesizer  # new items are compared with its stored items
    method_known: bool  # whether this synthesizer is known to have made the new items
    n: int
    n_compared: int  # how many entered the comparison by parts
    rows: Array  # (n_measured, d) new items as rows
    classes: Classes | None  # of the rows, if stored items have classes
    to_stored: Closeness
    among_stored: Closeness  # of each stored item to the nearest other one
    copies: float  # share of new items that equal the nearest stored item in every value
    stored_duplicates: float  # the same share among the stored items
    diversity: float
    stored_diversity: float
    predicted_novelty: float  # the mean under p_beta, NaN if there is none
    comparison: Comparison
    resampled: Comparison  # of as many stored items drawn with replacement, for comparison
    loss: RoundTripLoss
    split_half: SplitHalfResult
    modes: tuple[Mode, ...] = ()  # classes, or clusters if there are no classes
    says_classes: bool = False  # whether new items or their file say classes; else those of the nearest stored items
    repeats: Repeats | None = None
    repeated_identifiers: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # as in `Kind`
    relabeling: Relabeling | None = None  # if it is not known how new items were made

    @property
    def mode_name(self) -> str:
        """The plural noun for `modes`."""
        return "clusters" if self.synth.codec.labels is None else "classes"

    @property
    def conditioned(self) -> bool:
        """Whether a subset, weights or conditions make new items differ from the stored ones on purpose."""
        return bool(self.synth.conditions) or bool(np.ptp(self.synth.weights) > 0)

    @property
    def closest_pairs(self) -> float:
        """The first percentile of distances between stored items and their nearest neighbors, without duplicates."""
        return near_limit(self.among_stored.distance)

    @property
    def too_close(self) -> float:
        """Share of new items nearer to a stored item than the closest 1 % of stored pairs are to each other."""
        limit = self.closest_pairs
        return math.nan if math.isnan(limit) else float((self.to_stored.distance < limit).mean())

    @property
    def too_far(self) -> float:
        """Share of new items further from stored items than 95 % of stored items are from their nearest neighbor."""
        limit = quantile(self.among_stored.distance, 0.95)
        return math.nan if math.isnan(limit) else float((self.to_stored.distance > limit).mean())

    @property
    def distance_ratio(self) -> float:
        """Median distance from a new item to the nearest stored item, divided by that between stored items."""
        between = quantile(self.among_stored.distance, 0.5)
        return float(np.median(self.to_stored.distance)) / between if between > 0 else math.nan

    @property
    def separate_parts(self) -> tuple[Part, ...]:
        """The parts that are checked one by one and have a distance."""
        return tuple(part for part in self.comparison.parts if part.checked_separately and part.distance >= 0)

    @cached_property
    def different_parts(self) -> tuple[Part, ...]:
        """Separate parts that differ by more than the limit, and by more than chance, in descending order."""
        far = [part for part in self.separate_parts if part.distance >= MAX_EXTRA_PART_DISTANCE and part.values]
        n_tests = len(self.separate_parts)
        different = [part for part in far if compute_chance(part.values()) * n_tests <= CHANCE]  # type: ignore[misc]
        return tuple(sorted(different, key=lambda part: -part.distance))

    @cached_property
    def swapped_parts(self) -> tuple[tuple[str, str], ...]:
        """Pairs of parts that seem swapped: new values of each have the distribution of stored values of the other."""
        values = {part.name: part.values() for part in self.different_parts[:MAX_SWAPPED] if part.values}

        def matches(stored: Values, new: Values) -> bool:
            mixed = stored._replace(new=new.new, gaps=(stored.gaps[0], new.gaps[1]))
            return stored.are_names == new.are_names and compute_chance(mixed) > CHANCE

        pairs = itertools.combinations(values, 2)
        return tuple((a, b) for a, b in pairs if matches(values[a], values[b]) and matches(values[b], values[a]))

    @property
    def diversity_of_present(self) -> float:
        """Diversity of the stored items whose classes are not too rare among new items."""
        if self.classes is None:
            return self.stored_diversity
        rare = [mode.name for mode in self.rare_modes]
        rows = self.synth.stored_rows[~np.isin(self.classes.stored, rare)]
        return diversity(rows) if len(rows) > 1 else 0.0

    @cached_property
    def rare_modes(self) -> tuple[Mode, ...]:
        """Classes or clusters that are too rare among new items."""
        return tuple(mode for mode in self.modes if mode.is_rare(len(self.modes)))

    @cached_property
    def rare_categories(self) -> tuple[Mode, ...]:
        """Categories of separately checked parts that are too rare among new items and are not rare modes."""
        categories = count_categories(self.comparison.parts)
        rare = (mode for mode in categories if mode.is_rare(len(categories)))
        suffixes = tuple(f": {mode.name}" for mode in self.rare_modes)
        return tuple(mode for mode in rare if not mode.name.endswith(suffixes))

    @property
    def rare(self) -> tuple[str, tuple[Mode, ...]]:
        """What is too rare among new items, after a noun for it. Categories, if any, take the place of clusters."""
        if self.mode_name == "clusters" and self.rare_categories:
            return "categories", self.rare_categories
        return self.mode_name if self.rare_modes else "categories", (*self.rare_modes, *self.rare_categories)


def measure(
    synth: Synthesizer,
    items: Items,
    seed: int,
    progress: bool | None = None,
    method_known: bool = True,
    quick: bool = False,
    n_jobs: int | None = None,
    labels: Array | None = None,
) -> Evidence:
    """Compare new items with the stored items.

    method_known: whether this synthesizer is known to have made the new items
    quick:  whether to validate on few splits and draws, with the settings of all items
    n_jobs: workers that share the splits, as in `Synthesizer.sample`
    labels: the class of each item (n,), if the items themselves do not say it
    """
    kind, codec, n, stored_rows = synth.kind, synth.codec, len(items), synth.stored_rows
    n_steps = 2 + count_splits(synth, quick=quick)
    with (
        Progress(n_steps, "report", progress) as bar,
        limit_to_one_thread(LIBRARY),  # the same bits on any machine
        hide_warnings(),
        np.errstate(all="ignore"),  # three items have no correlations: a dash says so
    ):
        measured, rows = _select_measured(synth, items)
        vectors = kind.measures.stored_vectors(codec, synth.kept)
        among_stored = measure_stored_closeness(vectors, stored_rows, MAX_STORED)
        distances = nearest_distances(kind.measures.comparable(codec, measured), vectors)
        nearest, _ = kind.measures.annotate(codec, measured, n)
        same = kind.measures.same(codec, measured, codec.take(codec.stored, nearest)).reshape(len(rows), -1)
        bar.update(1)
        n_compared, comparison, resampled = _compare(synth, items, same.shape[1], seed)
        bar.update(2)
        steps, classes = itertools.count(3), _find_classes(synth, measured, nearest)
        if labels is not None and classes is not None:
            classes = classes._replace(new=np.asarray(labels)[spaced_indices(n, len(rows))])
        says_classes = classes is not None and (kind.measures.items_have_labels or labels is not None)
        split_half = split_half_validation(
            synth,
            n,
            seed,
            lambda: bar.update(next(steps)),
            quick=quick,
            n_jobs=n_jobs,
            samples=None if method_known else items,
            sample_labels=labels,
        )
        predicted_novelty, relabeling = math.nan, None
        with suppress(ValueError):  # a stored row without a direction has no cosine
            predicted_novelty = synth.predicted_novelty()
        if not method_known:
            known_classes = (classes.stored, classes.new) if classes is not None and says_classes else None
            stored = codec.take(codec.stored, synth.kept)
            relabeling = Relabeling(kind, codec, stored, items, seed, classes=known_classes)
        return Evidence(
            synth=synth,
            method_known=method_known,
            n=n,
            n_compared=n_compared,
            rows=rows,
            classes=classes,
            to_stored=Closeness(distances, cosine_novelty(rows, stored_rows)),
            among_stored=among_stored,
            copies=float(same.all(1).mean()),
            stored_duplicates=float((among_stored.distance <= 1e-9).mean()) if len(among_stored.distance) else 0.0,
            diversity=diversity(rows),
            stored_diversity=diversity(stored_rows),
            predicted_novelty=predicted_novelty,
            comparison=comparison,
            resampled=resampled,
            loss=round_trip_loss(synth),
            split_half=split_half,
            modes=count_modes(
                stored_rows,
                rows,
                None if classes is None else classes.stored.tolist(),
                classes.new.tolist() if says_classes else None,  # type: ignore[union-attr]
            ),
            says_classes=says_classes,
            repeats=_count_repeats(codec, synth.kept, measured, seed),
            repeated_identifiers=kind.measures.repeated_identifiers(codec, items),
            relabeling=relabeling,
        )


def _select_measured(synth: Synthesizer, items: Items) -> tuple[Items, Array]:
    """Return items, as many as can be measured in reasonable time and evenly spaced, and their rows."""
    codec, p, d = synth.codec, count_features(synth.codec), synth.stored_rows.shape[1]
    n_measured = int(min(max(MAX_WORK / (p * d + codec.K * (p + d)), MIN_MEASURED), MAX_MEASURED))
    measured = codec.take(items, spaced_indices(len(items), n_measured))
    size = max(BLOCK_ENTRIES // p, 1)
    blocks = np.split(np.arange(len(measured)), range(size, len(measured), size))
    return measured, np.concatenate([synth.rows(codec.take(measured, block)) for block in blocks])


def _count_repeats(codec: Codec, kept: Array, items: Items, seed: int) -> Repeats:
    stored = codec.take(codec.stored, kept[spaced_indices(len(kept), MAX_MEASURED)])
    stored_rows, new_rows = (
        [row.tobytes() for row in np.ascontiguousarray(codec.features(x) + 0.0)] for x in (stored, items)
    )
    # The share of repeats grows with the number of items.
    new_rows = [new_rows[k] for k in spaced_indices(len(new_rows), len(stored_rows))]
    stored_share, new_share = compute_repeat_share(stored_rows), compute_repeat_share(new_rows)
    by_chance = new_share <= stored_share or chance_explains_repeats(stored_rows, new_rows, seed)
    return Repeats(stored_share, new_share, by_chance, chance_explains_copies(stored_rows, new_rows, seed))


def _find_classes(synth: Synthesizer, items: Items, nearest: Array) -> Classes | None:
    """Return classes of stored items with positive weight and of new items, by default those of `nearest` (n,)."""
    codec, measures = synth.codec, synth.kind.measures
    if codec.labels is None:
        return None
    of_stored = np.array(codec.labels)
    no_sources = np.empty(0, dtype=np.intp)
    new = measures.labels_of(codec, items, no_sources) if measures.items_have_labels else of_stored[nearest]
    return Classes(of_stored[synth.kept], np.asarray(new))


def _compare(synth: Synthesizer, items: Items, n_values: int, seed: int) -> tuple[int, Comparison, Comparison]:
    """Compare new items, and as many resampled ones, with the stored items part by part; return how many they are."""
    codec, n = synth.codec, min(MAX_COMPARED, max(MAX_COMPARED_VALUES // max(n_values, 1), MIN_COMPARED))
    compared = codec.take(items, spaced_indices(len(items), n))
    drawn = np.random.default_rng([seed, 0]).integers(codec.K, size=len(compared))
    compare = synth.kind.measures.compare
    return len(compared), compare(codec, compared), compare(codec, codec.take(codec.stored, drawn))


def measure_stored_closeness(stored: Array, stored_rows: Array, max_items: int) -> Closeness:
    """Compare stored vectors (m, p) and rows (K, d) with all others; at most `max_items`, evenly spaced."""
    if len(stored_rows) < 2:
        return Closeness(np.empty(0), np.empty(0))
    distances = distances_among(stored, max_items)
    indices = spaced_indices(len(stored_rows), max_items)
    return Closeness(distances, cosine_novelty(stored_rows[indices], stored_rows, indices))


def quantile(values: Array, level: float) -> float:
    """Return a quantile of values (n,); NaN if there are none."""
    return float(np.quantile(values, level)) if len(values) else math.nan
