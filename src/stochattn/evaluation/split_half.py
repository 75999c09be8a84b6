"""Held-out metrics, and split-half validation: draws from one half of the stored items are compared with the other.

No metric here may choose a setting of a generator, which would leak the test set. Each half is fitted anew, with its
settings chosen by the same rules. The result describes the method with half as many stored items.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._backend.arrays import Array, ArrayLike
from .._backend.checks import check_count
from .._backend.console import hide_warnings
from .._backend.parallel import Shared, in_workers
from .._backend.products import limit_to_one_thread
from .._backend.random import Purpose, generator
from ..core.neighbors import as_rows, nearest_distances, spaced_indices
from ..kinds.codec import Codec, Items
from ..kinds.comparison import Measure, nearest_neighbor_accuracy, share_below, share_near
from ..kinds.generator import LIBRARY, HasRows
from ..kinds.options import option_fields
from ..synthesizer.synthesizer import Synthesizer
from .fidelity import Fidelity, Score, measure_fidelity


class HeldOutMetrics(NamedTuple):
    """New rows against stored and held-out rows. Noise around stored rows has nearest-neighbor accuracies 1 and 0."""

    train_proximity: float  # share of new rows nearer to the stored rows than to as many held-out rows; 1 for copies
    novelty_ratio: float  # median distance from new rows to the stored rows, divided by that of held-out rows
    near_copies: float  # share of new rows nearer to a stored row than 99 % of the held-out rows without a copy
    nn_accuracy_real: float  # leave-one-out accuracy of a nearest-neighbor classifier, on held-out rows
    nn_accuracy_new: float  # the same on new rows


IDEAL = HeldOutMetrics(0.5, 1.0, 0.01, 0.5, 0.5)


def held_out_metrics(new: ArrayLike, stored: ArrayLike, held_out: ArrayLike) -> HeldOutMetrics:
    """Compare new rows (n, d) with stored rows (K, d) and held-out rows (m, d).

    >>> import numpy as np
    >>> from stochattn.evaluation import held_out_metrics
    >>> rng = np.random.default_rng(0)
    >>> new, stored, held_out = rng.normal(size=(3, 50, 2))
    >>> 0 <= held_out_metrics(new, stored, held_out).train_proximity <= 1
    True
    """
    new, stored, held_out = (as_rows(x, name) for x, name in ((new, "new"), (stored, "stored"), (held_out, "held_out")))
    to_stored, real = nearest_distances(new, stored), nearest_distances(held_out, stored)
    median = float(np.median(real))
    n_equal = min(len(stored), len(held_out))
    as_many = (rows[spaced_indices(len(rows), n_equal)] for rows in (stored, held_out))
    return HeldOutMetrics(
        train_proximity(new, *as_many),
        float(np.median(to_stored)) / median if median > 0 else math.nan,
        share_near(to_stored, real),
        *nearest_neighbor_accuracy(held_out, new),
    )


def train_proximity(new: ArrayLike, stored: ArrayLike, held_out: ArrayLike) -> float:
    """Share of new rows nearer to `stored` than to `held_out`, two sets of the same size; ties count half."""
    return share_below(nearest_distances(new, stored), nearest_distances(new, held_out))


def membership_auc(members: Array, nonmembers: Array, draws: Array) -> float:
    """AUC of membership inference: items (m, p) that draws (n, p) were made from against nonmembers (o, p).

    The score of an item is its distance to the nearest draw.
    """
    from scipy.stats import mannwhitneyu

    scores = [-nearest_distances(items, draws) for items in (members, nonmembers)]
    return float(mannwhitneyu(*scores, method="asymptotic").statistic / (len(members) * len(nonmembers)))


MIN_ITEMS, MAX_ITEMS = 8, 1000  # stored items that split-half validation needs, and uses at most
MIN_SPLITS, MAX_SPLITS = 5, 10
CLASSIFIED_SPLITS = 3  # the splits in which classifiers are trained
QUICK_SPLITS, QUICK_DRAWS = 3, 80
MAX_QUICK_VALUES = 2**17  # stored values above which the smaller number of splits is used
MAX_WORK = 1.2e11  # multiplications of all splits: about ten seconds. A time limit would make results differ
MAX_DRAWS, MAX_MEASURED, MAX_COMPARED = 20_000, 2000, 500  # of a half, in held-out metrics, and compared by parts


class Split(NamedTuple):
    """Indices of the stored and of the held-out items."""

    stored: Array
    held_out: Array


class SplitMetrics(NamedTuple):
    """One split: held-out metrics of draws from the fitted half, and the AUC of membership inference."""

    metrics: HeldOutMetrics
    membership_auc: float
    new: tuple[Measure, ...]  # of the draws against the held-out half
    stored: tuple[Measure, ...]  # of the fitted half itself
    fidelity: Fidelity | None = None  # of the draws, or of samples that were made in an unknown way


class _SplitTask(NamedTuple):
    """The arguments that all splits share."""

    synth: Synthesizer
    items: Array  # indices of the stored items to split
    n_draws: int
    seed: int
    samples: Items | None
    resolved: Mapping[str, object]  # settings that halves do not choose anew
    sample_labels: Array | None = None


@dataclass(frozen=True, repr=False)
class SplitHalfResult:
    """One entry per random split of n_items, with n_draws from each half; means are NaN if there are no splits."""

    splits: tuple[SplitMetrics, ...]
    n_items: int
    reason: str = ""  # why there are no splits
    n_draws: int = 0
    quick: bool = False  # whether halves used the settings of all items instead of choosing them anew

    @property
    def membership_auc(self) -> float:
        """How well the draws reveal which items were stored; 0.5 is chance."""
        return float(np.mean([split.membership_auc for split in self.splits])) if self.splits else math.nan

    @property
    def membership_auc_std(self) -> float:
        """Standard deviation of the AUC over the splits."""
        values = [split.membership_auc for split in self.splits]
        return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan

    @property
    def train_proximity(self) -> float:
        """Share of draws nearer to the half that they were made from than to the other half; 0.5 is ideal."""
        return float(np.mean([split.metrics.train_proximity for split in self.splits])) if self.splits else math.nan

    @property
    def near_copies(self) -> float:
        """Share of draws nearer to an item of their half than 99 % of the other half; 0.01 is ideal."""
        return float(np.mean([split.metrics.near_copies for split in self.splits])) if self.splits else math.nan

    def __repr__(self) -> str:
        if not self.splits:
            return f"no split-half validation: {self.reason}"
        head = f"{len(self.splits)} random splits of {self.n_items} items into halves, {self.n_draws} draws from each"
        values = np.array([(*split.metrics, split.membership_auc) for split in self.splits])
        names = (*HeldOutMetrics._fields, "membership_auc")
        rows = zip(names, values.mean(0), values.std(0), (*IDEAL, 0.5), strict=True)
        lines = (f"{name:<16} {mean:.2f} ± {sd:.2f} ({ideal:g})" for name, mean, sd, ideal in rows)
        return "\n".join([f"{head}; mean ± sd (ideal)", *lines])


def splits(n: int, seeds: int, stored: int | None = None, rng: int = 0) -> Iterator[Split]:
    """Split n items at random, once per seed: into halves, or into `stored` items and the rest.

    >>> from stochattn.evaluation import splits
    >>> [(len(split.stored), len(split.held_out)) for split in splits(10, seeds=2)]
    [(5, 5), (5, 5)]
    """
    K = n // 2 if stored is None else check_count("stored", stored)
    if not 1 <= K < n:
        raise ValueError(f"stored must leave some of the n={n} items to hold out; got {K}.")
    for seed in range(check_count("seeds", seeds)):
        yield _split_items(np.arange(n), K, np.random.default_rng([rng, seed]))


def split_half_validation(
    synth: Synthesizer,
    n: int,
    seed: int,
    on_split: Callable[[], object] = lambda: None,
    *,
    quick: bool = False,
    samples: Items | None = None,
    sample_labels: Array | None = None,
    n_jobs: int | None = None,
) -> SplitHalfResult:
    """Fit halves of the stored items with positive weight, draw n from each, and compare with the other half.

    Halves are fitted with the generator of `synth`, which a trial may have chosen on all items; there is no new trial.
    More draws reveal more about the stored items, so n should be the number of items that are published.
    quick:   whether to use few splits and draws, and the settings of all items, so that a half is fitted quickly
    samples: items that this synthesizer may not have made; their fidelity is measured instead of that of the draws
    sample_labels: the class of each sample (n,), if the samples themselves do not say it
    n_jobs:  workers that share the splits, with the same result, as in `Synthesizer.sample`

    >>> import numpy as np, stochattn as sa
    >>> import pandas as pd
    >>> from stochattn.evaluation import split_half_validation
    >>> frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "b"])
    >>> result = split_half_validation(sa.fit(frame), 40, 0, quick=True)
    >>> len(result.splits), 0 <= result.membership_auc <= 1
    (3, True)
    """
    synth = as_evaluated(synth)
    items, n_splits = synth.kind.measures.non_overlapping(synth.codec, synth.kept), count_splits(synth, quick=quick)
    if not n_splits:
        reason = f"it needs at least {MIN_ITEMS} stored {synth.kind.items} that do not overlap, and {len(items)} remain"
        return SplitHalfResult((), len(items), reason)
    p = count_features(synth.codec)
    items = items[spaced_indices(len(items), limit_items(len(items), p, n_splits))]
    max_draws = int(MAX_WORK / (2 * n_splits * len(items) * min(len(items) // 2, p)))
    n_draws = min(max(n, MIN_ITEMS), QUICK_DRAWS if quick else MAX_DRAWS, max(max_draws, len(items)))
    task = _SplitTask(synth, items, n_draws, seed, samples, synth.describe().resolved if quick else {}, sample_labels)
    results = _evaluate_splits(task, n_splits, on_split, n_jobs)
    metrics = tuple(result for result in results if not isinstance(result, str))
    reason = "" if metrics else f"no half of the {synth.kind.items} could be fitted: {results[-1]}"
    return SplitHalfResult(metrics, len(items), reason, n_draws, quick)


def _evaluate_splits(
    task: _SplitTask, n_splits: int, on_split: Callable[[], object], n_jobs: int | None
) -> list[SplitMetrics | str]:
    """Return the metrics of each split, or why it failed; classifiers are trained in the first splits that succeed."""
    work, results = partial(_try_split, Shared(task)), list[SplitMetrics | str]()
    with in_workers(work, [(number, number < CLASSIFIED_SPLITS) for number in range(n_splits)], n_jobs) as stream:
        for result in stream:
            results.append(result)
            on_split()
    succeeded = [number for number, result in enumerate(results) if not isinstance(result, str)]
    replacements = [number for number in succeeded[:CLASSIFIED_SPLITS] if number >= CLASSIFIED_SPLITS]
    with in_workers(work, [(number, True) for number in replacements], n_jobs) as stream:
        for number, result in zip(replacements, stream, strict=True):
            results[number] = result
    return results


def _try_split(task: Shared[_SplitTask], arguments: tuple[int, bool]) -> SplitMetrics | str:
    number, classify = arguments
    with limit_to_one_thread(LIBRARY), hide_warnings(), np.errstate(all="ignore"):
        try:
            return _evaluate_split(task.value, number, classify=classify)
        except ValueError as error:  # such as a half whose items are all equal
            return str(error)


def count_splits(synth: Synthesizer, *, quick: bool = False) -> int:
    """Return how many splits `split_half_validation` uses; 0 if too few items are stored."""
    n_items = len(synth.kind.measures.non_overlapping(synth.codec, synth.kept))
    if n_items < MIN_ITEMS:
        return 0
    # Generators that are not a memory bank take longer to fit.
    few_values = n_items * count_features(synth.codec) <= MAX_QUICK_VALUES and isinstance(synth.generator, HasRows)
    return QUICK_SPLITS if quick else MAX_SPLITS if few_values else MIN_SPLITS


def as_evaluated(synth: Synthesizer) -> Synthesizer:
    """Return the synthesizer without options that evaluation ignores, such as the average over several draws.

    >>> import stochattn as sa
    >>> from stochattn.evaluation import as_evaluated
    >>> as_evaluated(sa.fit(["MKVL", "MRIL", "MKIL"]))
    Synthesizer(3 sequences, generator='latent')
    """
    options = synth.kind.evaluated_options(synth.choice.options)
    return synth if options == synth.choice.options else _with_options(synth, options)


def count_features(codec: Codec) -> int:
    """Return how many features an item has."""
    return int(codec.features(codec.take(codec.stored, np.arange(1))).shape[1])


def limit_items(n: int, p: int, n_splits: int) -> int:
    """Return how many of n items of p features to split, so that all splits together take at most MAX_WORK."""
    for items in range(min(n, MAX_ITEMS), 20, -10):
        half = items / 2
        if n_splits * half * min(half, p) * (12 * p + 20 * 4096) <= MAX_WORK:
            return items
    return min(n, 20)


def _evaluate_split(task: _SplitTask, number: int, *, classify: bool) -> SplitMetrics:
    synth, n_draws, samples, rng = task.synth, task.n_draws, task.samples, np.random.default_rng([task.seed, number])
    kind, codec, labels = synth.kind, synth.codec, synth.codec.labels
    split = _split_items(task.items, len(task.items) // 2, rng)
    inside, outside = (codec.take(codec.stored, indices) for indices in split)
    half = _refit_half(synth, split.stored, task.resolved)
    sample = half.generator.sample(n_draws, generator(int(rng.integers(2**62)), Purpose.DRAW, 0))
    new = half.codec.decode(sample.values, sample.source)
    draws, stored, held_out = (kind.measures.comparable(half.codec, items) for items in (new, inside, outside))
    reference, compared = codec.refit(outside), codec.take(new, spaced_indices(n_draws, MAX_COMPARED))
    inside_labels, outside_labels = (None if labels is None else np.array(labels)[indices] for indices in split)
    judged, vectors, new_labels = new, draws, task.sample_labels
    if samples is not None:
        judged, vectors = samples, kind.measures.comparable(half.codec, samples)
    if samples is None or new_labels is None or labels is None:
        new_labels = _find_labels(half, judged, sample.source if samples is None else None, inside_labels)
    n_compared = len(compared if samples is None else samples)  # fewer items differ more by chance
    as_many = codec.take(inside, spaced_indices(len(split.stored), n_compared))
    drawn, fitted = (kind.measures.compare(reference, items) for items in (compared, as_many))
    measured = drawn if samples is None else kind.measures.compare(reference, samples)
    parts = Score(measured.distance, fitted.distance, worst=1.0)
    return SplitMetrics(
        held_out_metrics(draws[spaced_indices(len(draws), MAX_MEASURED)], stored, held_out),
        membership_auc(stored, held_out, draws),
        drawn.measures,
        fitted.measures,
        measure_fidelity(
            kind,
            half.codec,
            (judged, inside, outside),
            (vectors, stored, held_out),
            (new_labels, inside_labels, outside_labels),
            parts,
            rng,
            part_names=kind.measures.parts(codec)[0],
            classify=classify,
        ),
    )


def _find_labels(half: Synthesizer, items: Items, source: Array | None, stored: Array | None) -> Array | None:
    """Return the class that each item says, or the class of the stored item that it was drawn around."""
    if stored is None:
        return None
    if half.kind.measures.items_have_labels:
        return half.kind.measures.labels_of(half.codec, items, np.empty(0, dtype=np.intp) if source is None else source)
    return None if source is None else np.asarray(stored[source])


def _refit_half(synth: Synthesizer, indices: Array, resolved: Mapping[str, object]) -> Synthesizer:
    """Fit some of the stored items with the same choices; if a rule finds no beta for them, the beta of all is used."""
    half, description = synth.refit(indices).with_resolved(resolved), synth.describe()
    options = half.choice.options
    if description.sampler != "exact":  # chains approximate the same distribution, and take much longer
        options = replace(options, sampler="exact")
        half = _with_options(half, options)
    try:
        half.describe()  # this fits the generator and chooses its beta, and a rule may fail to find one
    except ValueError:
        if description.temperature is None or "beta" not in option_fields(type(options)):
            raise
        return _with_options(half, replace(options, beta=description.temperature.beta, novelty=None))
    return half


def _with_options(synth: Synthesizer, options: Any) -> Synthesizer:
    fit = synth.generator_fit
    return replace(synth, generator_fit=replace(fit, requested=replace(fit.choice, options=options), trial=None))


def _split_items(items: Array, n_stored: int, rng: np.random.Generator) -> Split:
    order = rng.permutation(items)
    return Split(np.sort(order[:n_stored]), np.sort(order[n_stored:]))
