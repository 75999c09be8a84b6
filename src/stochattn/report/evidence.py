"""Everything that a report says in numbers, measured once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array
from .._backend.console import Progress, hide_warnings
from .._backend.products import limit_to_one_thread
from ..core.metrics import cosine_novelty, diversity
from ..core.neighbors import nearest_distances, spaced_indices
from ..evaluation.inspection import CHANCE, Mode, RoundTripLoss, categories, chance_of, modes, round_trip_loss
from ..evaluation.relabeling import Relabeling, chance_explains_copies, chance_explains_repeats, repeats
from ..evaluation.split_half import SplitHalfResult, n_features, number_of_splits, split_half_validation
from ..kinds.codec import Codec, Items
from ..kinds.comparison import Comparison, Part
from ..kinds.generator import LIBRARY
from ..kinds.near_copies import MAX_STORED, distances_among, near_limit, stored_vectors
from ..synthesizer.synthesizer import Synthesizer

MIN_MEASURED, MAX_MEASURED, MAX_WORK = 500, 20_000, 4e10  # items, and multiplications that comparing them may take
MAX_COMPARED, MAX_COMPARED_VALUES, MIN_COMPARED = 5000, 2**24, 50
MAX_SWAPPED = 12  # of the parts that differ most, those whose values may be swapped
BLOCK_ENTRIES = 2**23  # features that are computed at a time


class Closeness(NamedTuple):
    """How near items are to the nearest stored one."""

    distance: Array  # (n,), or more where one item gives several vectors to compare
    novelty: Array  # (n,) 1 − the largest cosine


class Classes(NamedTuple):
    """The class of each stored row (K,), and of each new one (n,)."""

    stored: Array
    new: Array


class Repeats(NamedTuple):
    """Shares of stored and of new items that equal an earlier one, and whether chance explains that of new ones."""

    stored: float
    new: float
    by_chance: bool
    copies_by_chance: bool = False  # whether chance explains how many new items equal a stored one


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was measured on n new items; shares and means are over an evenly spaced subset where n is large."""

    synth: Synthesizer  # with whose stored items they are compared
    method_known: bool  # whether it is known to have made them
    n: int
    n_compared: int  # how many entered the comparison by parts
    rows: Array  # (n_measured, d) new items as rows
    classes: Classes | None  # of the rows, where stored items have classes
    to_stored: Closeness
    among_stored: Closeness  # of stored items, each against all others
    copies: float  # share of new items that equal the nearest stored one in every value
    stored_duplicates: float  # the same share among the stored items
    diversity: float
    stored_diversity: float
    predicted_novelty: float  # the mean that the law predicts, NaN where it predicts none
    comparison: Comparison
    resampled: Comparison  # of as many stored items drawn with replacement: what chance alone does
    loss: RoundTripLoss
    split_half: SplitHalfResult
    modes: tuple[Mode, ...] = ()  # classes, or clusters where there are no classes
    says_classes: bool = (
        False  # whether new items, or their file, say their class; else it is that of the nearest stored
    )
    repeats: Repeats | None = None
    repeated_identifiers: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # as in `Kind`
    relabeling: Relabeling | None = None  # of new items and stored ones, where it is not known how new ones were made

    @property
    def mode_name(self) -> str:
        """What `modes` are."""
        return "clusters" if self.synth.codec.labels is None else "classes"

    @property
    def conditioned(self) -> bool:
        """Whether a subset, weights or conditions make new items differ from the stored ones on purpose."""
        return bool(self.synth.conditions) or bool(np.ptp(self.synth.weights) > 0)

    @property
    def closest_pairs(self) -> float:
        """The first percentile of distances between stored items and their nearest others, duplicates left out."""
        return near_limit(self.among_stored.distance)

    @property
    def too_close(self) -> float:
        """Share of new items nearer to a stored one than the closest 1 % of stored pairs are to each other."""
        limit = self.closest_pairs
        return math.nan if math.isnan(limit) else float((self.to_stored.distance < limit).mean())

    @property
    def too_far(self) -> float:
        """Share of new items further from every stored one than 95 % of stored items are from their nearest other."""
        limit = quantile(self.among_stored.distance, 0.95)
        return math.nan if math.isnan(limit) else float((self.to_stored.distance > limit).mean())

    @property
    def distance_ratio(self) -> float:
        """Median distance from a new item to the nearest stored one, over that between stored items."""
        between = quantile(self.among_stored.distance, 0.5)
        return float(np.median(self.to_stored.distance)) / between if between > 0 else math.nan

    @property
    def part_distances(self) -> tuple[float, float]:
        """Mean distance of the parts from the stored ones: of new items, and of stored items drawn again."""
        return self.comparison.distance, self.resampled.distance

    @property
    def separate_parts(self) -> tuple[Part, ...]:
        """The parts that are checked alone, as far as their distance is known."""
        return tuple(part for part in self.comparison.parts if part.checked_separately and part.distance >= 0)

    def different_parts(self, least: float) -> tuple[Part, ...]:
        """Of these, those that differ by at least so much, and by more than chance explains; the furthest first."""
        far = [part for part in self.separate_parts if part.distance >= least and part.values is not None]
        n_tests = len(self.separate_parts)
        different = [part for part in far if chance_of(part.values()) * n_tests <= CHANCE]  # type: ignore[misc]
        return tuple(sorted(different, key=lambda part: -part.distance))

    def swapped_parts(self, least: float) -> tuple[tuple[str, str], ...]:
        """Pairs of the parts that differ by so much of which each is, among new items, as the stored other one is."""
        known = {part.name: part.values() for part in self.different_parts(least)[:MAX_SWAPPED] if part.values}
        return tuple(
            (first, second)
            for first, second in itertools.combinations(known, 2)
            if all(
                known[a].are_names == known[b].are_names
                and chance_of(known[a]._replace(new=known[b].new, gaps=(known[a].gaps[0], known[b].gaps[1]))) > CHANCE
                for a, b in ((first, second), (second, first))
            )
        )

    @property
    def varies(self) -> bool:
        """Whether new rows vary about their mean as much as stored ones do about theirs."""
        return bool(self.rows.var(axis=0).sum() >= self.synth.stored_rows.var(axis=0).sum())

    @property
    def diversity_of_present(self) -> float:
        """Diversity of the stored items whose class new items have."""
        if self.classes is None:
            return self.stored_diversity
        rare = [mode.name for mode in self.rare_modes]
        rows = self.synth.stored_rows[~np.isin(self.classes.stored, rare)]
        return diversity(rows) if len(rows) > 1 else 0.0

    @cached_property
    def rare_modes(self) -> tuple[Mode, ...]:
        """Classes, or clusters, of which new items have too few."""
        return tuple(mode for mode in self.modes if mode.is_rare(len(self.modes)))

    @cached_property
    def rare_categories(self) -> tuple[Mode, ...]:
        """Categories of parts that are checked alone of which new items have too few."""
        known, named = categories(self.comparison.parts), [f": {mode.name}" for mode in self.rare_modes]
        rare = (mode for mode in known if mode.is_rare(len(known)))
        return tuple(mode for mode in rare if not mode.name.endswith(tuple(named)))

    @property
    def rare(self) -> tuple[str, tuple[Mode, ...]]:
        """What new items have too few of, in a word, and which; clusters only where no category explains them."""
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
    """Compare new items with the stored ones; `method_known` says that this synthesizer made them.

    quick:  validate on few splits and draws, with the settings of all items, which then are not chosen anew
    n_jobs: workers that share the splits, as in `Synthesizer.sample`
    labels: the class of each item (n,), where it is known and items do not say it
    """
    kind, codec, n, stored_rows = synth.kind, synth.codec, len(items), synth.stored_rows
    n_steps = 2 + number_of_splits(synth, quick=quick)
    with Progress(n_steps, "report", progress) as bar, _as_measured():
        measured, rows = _measured(synth, items)
        vectors = stored_vectors(kind, codec, synth.kept)
        among_stored = closeness_among_stored(vectors, stored_rows, MAX_STORED)
        distances = nearest_distances(kind.measures.comparable(codec, measured), vectors)
        nearest, _ = kind.measures.annotate(codec, measured, n)
        same = kind.measures.same(codec, measured, codec.take(codec.stored, nearest)).reshape(len(rows), -1)
        bar.update(1)
        n_compared, comparison, resampled = _comparisons(synth, items, same.shape[1], seed)
        bar.update(2)
        done, classes = itertools.count(3), _classes(synth, measured, nearest)
        if labels is not None and classes is not None:
            classes = Classes(classes.stored, np.asarray(labels)[spaced_indices(n, len(rows))])
        says_classes = classes is not None and (kind.measures.items_have_labels or labels is not None)
        given = synth, n, seed, lambda: bar.update(next(done))
        validate = partial(split_half_validation, *given, quick=quick, n_jobs=n_jobs)
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
            predicted_novelty=_predicted_novelty(synth),
            comparison=comparison,
            resampled=resampled,
            loss=round_trip_loss(synth),
            split_half=validate(samples=None if method_known else items, sample_labels=labels),
            modes=modes(
                *(stored_rows, rows, None if classes is None else classes.stored.tolist()),
                classes.new.tolist() if says_classes else None,  # type: ignore[union-attr]
            ),
            says_classes=says_classes,
            repeats=_repeats(codec, synth.kept, measured, seed),
            repeated_identifiers=kind.measures.repeated_identifiers(codec, items),
            relabeling=None
            if method_known
            else Relabeling(
                *(kind, codec, codec.take(codec.stored, synth.kept), items, seed),
                classes=(classes.stored, classes.new) if classes is not None and says_classes else None,
            ),
        )


@contextmanager
def _as_measured() -> Iterator[None]:
    """Without warnings, and with the same bits on any machine. Three items have no correlations: a dash says so."""
    with limit_to_one_thread(LIBRARY), hide_warnings(), np.errstate(all="ignore"):
        yield


def _measured(synth: Synthesizer, items: Items) -> tuple[Items, Array]:
    """As many of the items as can be measured in reasonable time, and these as rows."""
    codec, p, d = synth.codec, n_features(synth.codec), synth.stored_rows.shape[1]
    n_affordable = int(min(max(MAX_WORK / (p * d + codec.K * (p + d)), MIN_MEASURED), MAX_MEASURED))
    some = codec.take(items, spaced_indices(len(items), n_affordable))
    size = max(BLOCK_ENTRIES // p, 1)
    blocks = np.split(np.arange(len(some)), range(size, len(some), size))
    return some, np.concatenate([synth.rows(codec.take(some, block)) for block in blocks])


def _repeats(codec: Codec, kept: Array, items: Items, seed: int) -> Repeats:
    stored = codec.take(codec.stored, kept[spaced_indices(len(kept), MAX_MEASURED)])
    before, after = (
        [row.tobytes() for row in np.ascontiguousarray(codec.features(some) + 0.0)] for some in (stored, items)
    )
    after = [after[k] for k in spaced_indices(len(after), len(before))]  # the more items, the more of them repeat
    shares = repeats(before), repeats(after)
    by_chance = shares[1] <= shares[0] or chance_explains_repeats(before, after, seed)
    return Repeats(*shares, by_chance, chance_explains_copies(before, after, seed))


def _classes(synth: Synthesizer, items: Items, nearest: Array) -> Classes | None:
    """Classes of the stored items that count and of new ones: what these say, or that of the `nearest` (n,) stored."""
    kind, codec = synth.kind, synth.codec
    if codec.labels is None:
        return None
    of_stored = np.array(codec.labels)
    said = kind.measures.items_have_labels
    new = kind.measures.labels_of(codec, items, np.empty(0, dtype=np.intp)) if said else of_stored[nearest]
    return Classes(of_stored[synth.kept], np.asarray(new))


def _comparisons(synth: Synthesizer, items: Items, n_values: int, seed: int) -> tuple[int, Comparison, Comparison]:
    """How many of the items are compared by their parts, and these and as many resampled ones against the stored."""
    codec, n = synth.codec, min(MAX_COMPARED, max(MAX_COMPARED_VALUES // max(n_values, 1), MIN_COMPARED))
    compared = codec.take(items, spaced_indices(len(items), n))
    drawn = np.random.default_rng([seed, 0]).integers(codec.K, size=len(compared))
    both = compared, codec.take(codec.stored, drawn)
    return len(compared), *(synth.kind.measures.compare(codec, some) for some in both)  # type: ignore[return-value]


def _predicted_novelty(synth: Synthesizer) -> float:
    with suppress(ValueError):  # a stored row without a direction has no cosine
        return synth.predicted_novelty()
    return math.nan


def closeness_among_stored(stored: Array, stored_rows: Array, max_items: int) -> Closeness:
    """Of stored vectors (m, p) and rows (K, d), each against all others; of at most `max_items`, evenly spaced."""
    if len(stored_rows) < 2:
        return Closeness(np.empty(0), np.empty(0))
    distances = distances_among(stored, max_items)
    own = spaced_indices(len(stored_rows), max_items)
    return Closeness(distances, cosine_novelty(stored_rows[own], stored_rows, own))


def quantile(values: Array, level: float) -> float:
    """A quantile of values (n,); NaN where there are none."""
    return float(np.quantile(values, level)) if len(values) else math.nan
