"""Split-half validation: fit one half of the stored items, draw from it, and compare the draws with the other half.

Each half is fitted afresh, with its settings chosen by the same rules, so that nothing of the held-out half is used.
The result describes the method on these data with half as many stored items.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array
from .._backend.random import Purpose, generator
from ..core.neighbors import evenly
from ..data.base import Codec
from ..data.comparison import Measure
from ..data.options import option_fields
from ..generators.base import HasRows
from ..synthesizer import Synthesizer
from .heldout import IDEAL, HeldOutMetrics, held_out_metrics, membership_auc

MIN_ITEMS, MAX_ITEMS = 8, 1000
"""Stored items that split-half validation needs, and uses at most."""
MIN_SPLITS, MAX_SPLITS = 5, 10
MAX_QUICK_VALUES = 2**17
"""Stored values beyond which the smaller number of splits is made."""
MAX_WORK = 1.2e11
"""Multiplications that all splits together may take: some ten seconds. A clock would make results differ."""
MAX_DRAWS, MAX_MEASURED, MAX_COMPARED = 20_000, 2000, 500
"""Draws of a half, those that enter held-out metrics, and those that enter the comparison by parts."""


class SplitMetrics(NamedTuple):
    """One split: draws from the fitted half, against both halves.

    metrics:        held-out metrics of the draws
    membership_auc: of telling items of the fitted half from held-out ones by their distance to the nearest draw
    new, stored:    measures against the held-out half: of the draws, and of the fitted half itself
    """

    metrics: HeldOutMetrics
    membership_auc: float
    new: tuple[Measure, ...]
    stored: tuple[Measure, ...]


@dataclass(frozen=True, repr=False)
class SplitHalfResult:
    """One entry per random split, and means over them, which are NaN where there are none.

    n_items: how many stored items were split
    reason:  why there are no splits, where there are none
    n_draws: draws from each half
    """

    splits: tuple[SplitMetrics, ...]
    n_items: int
    reason: str = ""
    n_draws: int = 0

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
    def membership_auc_lower(self) -> float:
        """The mean AUC less its standard error over the splits."""
        error = self.membership_auc_std / len(self.splits) ** 0.5 if len(self.splits) > 1 else 0.0
        return self.membership_auc - error

    @property
    def train_proximity(self) -> float:
        """Share of draws nearer to the half they were made from than to the other; 0.5 ideally."""
        return float(np.mean([split.metrics.train_proximity for split in self.splits])) if self.splits else math.nan

    def __repr__(self) -> str:
        if not self.splits:
            return f"no split-half validation: {self.reason}"
        head = f"{len(self.splits)} random splits of {self.n_items} items into halves, {self.n_draws} draws from each"
        lines = [f"{head}; mean ± sd (ideal)"]
        values = np.array([(*split.metrics, split.membership_auc) for split in self.splits])
        names = (*HeldOutMetrics._fields, "membership_auc")
        for name, mean, sd, ideal in zip(names, values.mean(0), values.std(0), (*IDEAL, 0.5), strict=True):
            lines.append(f"{name:<16} {mean:.2f} ± {sd:.2f} ({ideal:g})")
        return "\n".join(lines)


def split_half_validation(
    synth: Synthesizer, n: int, seed: int, on_split: Callable[[], object] = lambda: None
) -> SplitHalfResult:
    """Fit halves of the stored items that count, draw n from each (within limits), and compare with the other half.

    More draws reveal more about the stored items, so n should be as many as are given away.

    on_split: called after each split, for a progress bar
    """
    synth = as_evaluated(synth)
    kept = synth.kind.non_overlapping(synth.codec, synth.kept)
    if len(kept) < MIN_ITEMS:
        reason = f"it needs at least {MIN_ITEMS} stored {synth.kind.items} that do not overlap, and {len(kept)} remain"
        return SplitHalfResult((), len(kept), reason)
    p = n_features(synth.codec)
    # Generators that are not a memory bank take longer to fit.
    quick = len(kept) * p <= MAX_QUICK_VALUES and isinstance(synth.generator, HasRows)
    n_splits = MAX_SPLITS if quick else MIN_SPLITS
    chosen = kept[evenly(len(kept), affordable_items(len(kept), p, n_splits))]
    affordable_draws = int(MAX_WORK / (2 * n_splits * len(chosen) * min(len(chosen) // 2, p)))
    n_draws = min(max(n, MIN_ITEMS), MAX_DRAWS, max(affordable_draws, len(chosen)))
    found: list[SplitMetrics] = []
    reason = ""
    for number in range(n_splits):
        rng = np.random.default_rng([seed, number])
        first, second = np.split(rng.permutation(chosen), [len(chosen) // 2])
        try:
            found.append(_one_split(synth, np.sort(first), np.sort(second), n_draws, rng))
        except ValueError as error:  # such as a half whose items are all equal
            reason = f"no half of the {synth.kind.items} could be fitted: {error}"
        on_split()
    return SplitHalfResult(tuple(found), len(chosen), "" if found else reason, n_draws)


def as_evaluated(synth: Synthesizer) -> Synthesizer:
    """The synthesizer without options that evaluation leaves out, such as those that make an item of several."""
    options = synth.kind.evaluated_options(synth.choice.options)
    return synth if options == synth.choice.options else replace(synth, choice=replace(synth.choice, options=options))


def n_features(codec: Codec) -> int:
    """How many features an item has."""
    return int(codec.features(codec.take(codec.stored, np.arange(1))).shape[1])


def affordable_items(n: int, p: int, n_splits: int) -> int:
    """How many of n items of p features to split, so that all splits together take at most MAX_WORK."""
    for items in range(min(n, MAX_ITEMS), 20, -10):
        half = items / 2
        rank = min(half, p)
        if n_splits * (12 * half * rank * p + 20 * 4096 * half * rank) <= MAX_WORK:
            return items
    return min(n, 20)


def _one_split(
    synth: Synthesizer, fitted: Array, held_out: Array, n_draws: int, rng: np.random.Generator
) -> SplitMetrics:
    """Fit the stored items `fitted`, and compare draws from them with the stored items `held_out`."""
    kind, codec = synth.kind, synth.codec
    inside, outside = (codec.take(codec.stored, indices) for indices in (fitted, held_out))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        half = _refitted(synth, fitted)
        made = half.generator.sample(n_draws, generator(int(rng.integers(2**62)), Purpose.DRAW, 0))
        new = half.codec.decode(made.values, made.source)
        draws, stored, others = (kind.comparable(half.codec, items) for items in (new, inside, outside))
        reference, compared = codec.refit(outside), codec.take(new, evenly(n_draws, MAX_COMPARED))
        return SplitMetrics(
            held_out_metrics(draws[evenly(len(draws), MAX_MEASURED)], stored, others),
            membership_auc(stored, others, draws),
            *(kind.compare(reference, items).measures for items in (compared, inside)),
        )


def _refitted(synth: Synthesizer, indices: Array) -> Synthesizer:
    """The same choices on some of the stored items; the beta of all of them where a rule finds none for these."""
    half, described = synth.refit(indices), synth.describe()
    if described.sampler != "exact":  # chains approximate the same law, and take much longer
        half = _with_options(half, sampler="exact")
    try:
        half.generator  # noqa: B018  # fitted here, where a rule may fail
    except ValueError:
        if described.temperature is None or "beta" not in option_fields(type(half.choice.options)):
            raise
        half = _with_options(half, beta=described.temperature.beta, novelty=None)
    return half


def _with_options(synth: Synthesizer, **options: object) -> Synthesizer:
    return replace(synth, choice=replace(synth.choice, options=replace(synth.choice.options, **options)))
