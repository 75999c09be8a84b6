"""Held-out metrics, and split-half validation: draws from one half of the stored items against the other half.

No metric here may choose a setting of a generator, which would be a leak of the test set. Each half is fitted afresh,
with its settings chosen by the same rules. The result describes the method with half as many stored items.

Metrics of new rows between the stored rows that they were made from and held-out rows.
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
from ..kinds.comparison import Measure, nearest_neighbour_accuracy, share_below
from ..kinds.generator import LIBRARY, HasRows
from ..kinds.near_copies import share_near
from ..kinds.options import option_fields
from ..synthesizer.synthesizer import Synthesizer
from .fidelity import Fidelity, Labelled, Score, fidelity


class HeldOutMetrics(NamedTuple):
    """New rows against stored and held-out ones. Noise around stored rows has nearest-neighbour accuracies 1 and 0."""

    train_proximity: float  # share of new rows nearer to the stored rows than to as many held-out rows; 1 for copies
    novelty_ratio: float  # median distance from new rows to the stored ones, over that of held-out rows
    near_copies: float  # share of new rows nearer to a stored row than 99 % of held-out rows are that equal none
    nn_accuracy_real: float  # leave-one-out accuracy of a nearest-neighbour classifier, on held-out rows
    nn_accuracy_new: float  # the same on new rows


IDEAL = HeldOutMetrics(
    train_proximity=0.5, novelty_ratio=1.0, near_copies=0.01, nn_accuracy_real=0.5, nn_accuracy_new=0.5
)


def held_out_metrics(new: ArrayLike, stored: ArrayLike, held_out: ArrayLike) -> HeldOutMetrics:
    """Metrics of new rows (n, d) between stored (K, d) and held-out rows (m, d).

    >>> import numpy as np
    >>> from stochattn.evaluation import held_out_metrics
    >>> rng = np.random.default_rng(0)
    >>> new, stored, held_out = rng.normal(size=(3, 50, 2))
    >>> 0 <= held_out_metrics(new, stored, held_out).train_proximity <= 1
    True
    """
    new, stored, held_out = (as_rows(x, name) for x, name in ((new, "new"), (stored, "stored"), (held_out, "held_out")))
    to_stored, real = nearest_distances(new, stored), nearest_distances(held_out, stored)
    typical = float(np.median(real))
    n_equal = min(len(stored), len(held_out))
    return HeldOutMetrics(
        train_proximity(new, some(stored, n_equal), some(held_out, n_equal)),
        float(np.median(to_stored)) / typical if typical > 0 else math.nan,
        share_near(to_stored, real),
        *nearest_neighbour_accuracy(held_out, new),
    )


def train_proximity(new: ArrayLike, stored: ArrayLike, held_out: ArrayLike) -> float:
    """Share of new rows nearer to `stored` than to `held_out`; ties count half. Pass two sets of the same size."""
    return share_below(nearest_distances(new, stored), nearest_distances(new, held_out))


def membership_auc(members: Array, others: Array, draws: Array) -> float:
    """AUC of telling items (m, p) that draws (n, p) were made from others (o, p) by distance to the nearest draw."""
    from scipy.stats import mannwhitneyu

    scores = [-nearest_distances(items, draws) for items in (members, others)]
    return float(mannwhitneyu(*scores, method="asymptotic").statistic / (len(members) * len(others)))


def some(rows: Array, n: int) -> Array:
    """At most n of the rows, evenly spaced."""
    return rows[spaced_indices(len(rows), n)]


MIN_ITEMS, MAX_ITEMS = 8, 1000  # stored items that split-half validation needs, and uses at most
MIN_SPLITS, MAX_SPLITS = 5, 10
CLASSIFIED_SPLITS = 3  # the splits in which classifiers are trained
QUICK_SPLITS, QUICK_DRAWS = 3, 80
MAX_QUICK_VALUES = 2**17  # stored values beyond which the smaller number of splits is made
MAX_WORK = 1.2e11  # multiplications of all splits together: some ten seconds. A clock would make results differ
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
    fidelity: Fidelity | None = None  # of the draws, or of the samples where it is not known how these were made


class _SplitTask(NamedTuple):
    """What all splits have in common."""

    synth: Synthesizer
    items: Array  # indices of the stored items to split
    n_draws: int
    seed: int
    samples: Items | None
    resolved: Mapping[str, object]  # settings that are not chosen anew
    sample_labels: Array | None = None


@dataclass(frozen=True, repr=False)
class SplitHalfResult:
    """One entry per random split of n_items, with n_draws from each half; means are NaN where there are no splits."""

    splits: tuple[SplitMetrics, ...]
    n_items: int
    reason: str = ""  # why there are no splits
    n_draws: int = 0
    quick: bool = False  # whether settings were those of all items, instead of chosen anew for each half

    @property
    def membership_auc(self) -> float:
        """How well somebody who holds the draws can tell stored items from others; 0.5 is chance."""
        return float(np.mean([split.membership_auc for split in self.splits])) if self.splits else math.nan

    @property
    def membership_auc_std(self) -> float:
        """Standard deviation of the AUC over the splits."""
        values = [split.membership_auc for split in self.splits]
        return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan

    @property
    def train_proximity(self) -> float:
        """Share of draws nearer to the half they were made from than to the other; 0.5 ideally."""
        return float(np.mean([split.metrics.train_proximity for split in self.splits])) if self.splits else math.nan

    @property
    def near_copies(self) -> float:
        """Share of draws nearer to an item of their half than 99 % of the other half are; 0.01 ideally."""
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
    """Random splits of n items, one per seed: into halves, or into `stored` items and all others.

    >>> from stochattn.evaluation import splits
    >>> [(len(split.stored), len(split.held_out)) for split in splits(10, seeds=2)]
    [(5, 5), (5, 5)]
    """
    K = n // 2 if stored is None else check_count("stored", stored)
    if not 1 <= K < n:
        raise ValueError(f"stored must leave some of the n={n} items to hold out; got {K}.")
    for seed in range(check_count("seeds", seeds)):
        yield _split(np.arange(n), K, np.random.default_rng([rng, seed]))


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
    """Fit halves of the stored items that count, draw n from each (within limits), and compare with the other half.

    Halves are fitted with the generator of `synth`, which a trial may have chosen on all items; there is no new trial.
    More draws reveal more about the stored items, so n should be as many as are given away.
    quick:   few splits and draws, with settings that were chosen for all items, which makes a refit quick
    samples: items that this synthesizer may not have made; their fidelity is measured in place of that of the draws
    sample_labels: the class of each of these (n,), where it is known and items do not say it
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
    kept, n_splits = synth.kind.measures.non_overlapping(synth.codec, synth.kept), number_of_splits(synth, quick=quick)
    if not n_splits:
        reason = f"it needs at least {MIN_ITEMS} stored {synth.kind.items} that do not overlap, and {len(kept)} remain"
        return SplitHalfResult((), len(kept), reason)
    p = n_features(synth.codec)
    chosen = kept[spaced_indices(len(kept), affordable_items(len(kept), p, n_splits))]
    affordable_draws = int(MAX_WORK / (2 * n_splits * len(chosen) * min(len(chosen) // 2, p)))
    n_draws = min(max(n, MIN_ITEMS), QUICK_DRAWS if quick else MAX_DRAWS, max(affordable_draws, len(chosen)))
    task = _SplitTask(synth, chosen, n_draws, seed, samples, synth.describe().resolved if quick else {}, sample_labels)
    found, reason = _all_splits(task, n_splits, on_split, n_jobs), ""
    for one in found:
        reason = one if isinstance(one, str) else reason
    made = tuple(one for one in found if not isinstance(one, str))
    failed = f"no half of the {synth.kind.items} could be fitted: {reason}"
    return SplitHalfResult(made, len(chosen), "" if made else failed, n_draws, quick)


def _all_splits(
    task: _SplitTask, n_splits: int, on_split: Callable[[], object], n_jobs: int | None
) -> list[SplitMetrics | str]:
    """The metrics of each split, or the reason why it failed; classifiers are trained in the first that succeed."""
    work, found = partial(_computed, Shared(task)), list[SplitMetrics | str]()
    with in_workers(work, [(number, number < CLASSIFIED_SPLITS) for number in range(n_splits)], n_jobs) as results:
        for one in results:
            found.append(one)
            on_split()
    first = [number for number, one in enumerate(found) if not isinstance(one, str)][:CLASSIFIED_SPLITS]
    late = [number for number in first if number >= CLASSIFIED_SPLITS]  # in place of splits that failed
    with in_workers(work, [(number, True) for number in late], n_jobs) as results:
        for number, one in zip(late, results, strict=True):
            found[number] = one
    return found


def _computed(task: Shared[_SplitTask], piece: tuple[int, bool]) -> SplitMetrics | str:
    number, classify = piece
    with limit_to_one_thread(LIBRARY), hide_warnings(), np.errstate(all="ignore"):
        try:
            return _one_split(task.value, number, classify=classify)
        except ValueError as error:  # such as a half whose items are all equal
            return str(error)


def number_of_splits(synth: Synthesizer, *, quick: bool = False) -> int:
    """How many splits `split_half_validation` makes; 0 where too few items are stored."""
    n_kept = len(synth.kind.measures.non_overlapping(synth.codec, synth.kept))
    if n_kept < MIN_ITEMS:
        return 0
    # Generators that are not a memory bank take longer to fit.
    few_values = n_kept * n_features(synth.codec) <= MAX_QUICK_VALUES and isinstance(synth.generator, HasRows)
    return QUICK_SPLITS if quick else MAX_SPLITS if few_values else MIN_SPLITS


def as_evaluated(synth: Synthesizer) -> Synthesizer:
    """The synthesizer without options that evaluation leaves out, such as those that make an item of several.

    >>> import stochattn as sa
    >>> from stochattn.evaluation import as_evaluated
    >>> as_evaluated(sa.fit(["MKVL", "MRIL", "MKIL"]))
    Synthesizer(3 sequences, generator='latent')
    """
    options = synth.kind.evaluated_options(synth.choice.options)
    return synth if options == synth.choice.options else _with_options(synth, options)


def n_features(codec: Codec) -> int:
    """How many features an item has."""
    return int(codec.features(codec.take(codec.stored, np.arange(1))).shape[1])


def affordable_items(n: int, p: int, n_splits: int) -> int:
    """How many of n items of p features to split, so that all splits together take at most MAX_WORK."""
    for items in range(min(n, MAX_ITEMS), 20, -10):
        half = items / 2
        if n_splits * half * min(half, p) * (12 * p + 20 * 4096) <= MAX_WORK:
            return items
    return min(n, 20)


def _one_split(task: _SplitTask, number: int, *, classify: bool) -> SplitMetrics:
    synth, n_draws, samples, rng = task.synth, task.n_draws, task.samples, np.random.default_rng([task.seed, number])
    kind, codec, labels = synth.kind, synth.codec, synth.codec.labels
    split = _split(task.items, len(task.items) // 2, rng)
    inside, outside = (codec.take(codec.stored, indices) for indices in split)
    half = _refitted(synth, split.stored, task.resolved)
    made = half.generator.sample(n_draws, generator(int(rng.integers(2**62)), Purpose.DRAW, 0))
    new = half.codec.decode(made.values, made.source)
    draws, stored, others = (kind.measures.comparable(half.codec, items) for items in (new, inside, outside))
    reference, compared = codec.refit(outside), codec.take(new, spaced_indices(n_draws, MAX_COMPARED))
    known = [None if labels is None else np.array(labels)[indices] for indices in split]
    if samples is None:
        of_new = Labelled(new, _labels(half, new, made.source, known[0]))
    elif task.sample_labels is not None and labels is not None:
        of_new = Labelled(samples, task.sample_labels)
    else:
        of_new = Labelled(samples, _labels(half, samples, None, known[0]))
    of_fitted, of_held_out = Labelled(inside, known[0]), Labelled(outside, known[1])
    drawn, fitted = (kind.measures.compare(reference, items) for items in (compared, inside))
    own = drawn if samples is None else kind.measures.compare(reference, samples)
    parts = Score(own.distance, fitted.distance, worst=1.0)
    return SplitMetrics(
        held_out_metrics(some(draws, MAX_MEASURED), stored, others),
        membership_auc(stored, others, draws),
        drawn.measures,
        fitted.measures,
        fidelity(
            *(kind, half.codec, of_new, of_fitted, of_held_out, parts, rng),
            part_names=kind.measures.parts(codec)[0],
            classify=classify,
        ),
    )


def _labels(half: Synthesizer, items: Items, source: Array | None, stored: Array | None) -> Array | None:
    """The class of each item: what it says itself, or that of the stored item that it was drawn around."""
    if stored is None:
        return None
    if half.kind.measures.items_have_labels:
        return half.kind.measures.labels_of(half.codec, items, np.empty(0, dtype=np.intp) if source is None else source)
    return None if source is None else np.asarray(stored[source])


def _refitted(synth: Synthesizer, indices: Array, resolved: Mapping[str, object]) -> Synthesizer:
    """The same choices on some of the stored items; the beta of all of them where a rule finds none for these."""
    half, described = synth.refit(indices).with_resolved(resolved), synth.describe()
    options = half.choice.options
    if described.sampler != "exact":  # chains approximate the same law, and take much longer
        options = replace(options, sampler="exact")
        half = _with_options(half, options)
    try:
        half.describe()  # fits the generator and chooses its beta, which a rule may fail to find
    except ValueError:
        if described.temperature is None or "beta" not in option_fields(type(options)):
            raise
        return _with_options(half, replace(options, beta=described.temperature.beta, novelty=None))
    return half


def _with_options(synth: Synthesizer, options: Any) -> Synthesizer:
    fit = synth.generator_fit
    return replace(synth, generator_fit=replace(fit, requested=replace(fit.choice, options=options), trial=None))


def _split(items: Array, n_stored: int, rng: np.random.Generator) -> Split:
    order = rng.permutation(items)
    return Split(np.sort(order[:n_stored]), np.sort(order[n_stored:]))
