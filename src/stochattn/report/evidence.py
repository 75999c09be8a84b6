"""Everything a report says in numbers, measured once."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._backend.arrays import Array
from .._backend.progress import Progress
from ..core import metrics
from ..core.neighbors import evenly
from ..data.legacy import Codec, Comparison, Loss
from ..evaluation import privacy
from ..evaluation.privacy import Closeness
from ..evaluation.split_half import MOST_SPLITS, HalfSplits, half_splits
from ..pipeline import Plan

MOST_ROWS, FEWEST_ROWS = 20_000, 500
WORK = 4e10
"""Multiplications that comparing new with stored rows may take; of more items, an evenly spaced subset is measured."""
MOST_COMPARED, MOST_VALUES = 5000, 2**24
MOST_STORED = 2000
SINGLE = {"protein": "position", "image": "region", "table": "column", "returns": "ticker"}


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was found about n new items; shares and means are over an evenly spaced subset where n is large.

    kind:        of data
    measured:    how many were measured;  compared: how many entered the comparison by columns
    rows:        (measured, d) new items as rows
    stored_rows: (K_kept, d) the stored items that draws were made from, as rows
    near, apart: closeness of new items to stored ones, and of stored ones to each other, each left out in turn
    copies:      share of new items equal to their nearest stored one in every value; twins: the same of stored ones
    redrawn:     the comparison of as many items drawn from the stored ones themselves, with replacement
    halves:      draws from halves of the stored items, judged by the other halves
    conditioned: whether some were kept, weighted or fixed, so that new items are meant to differ from the stored
    native:      whether they are of a sampler made for this kind, which has no temperature
    made_so:     whether the method that was tried on halves is the one that made the items
    """

    kind: str
    n: int
    measured: int
    compared: int
    rows: Array
    stored_rows: Array
    near: Closeness
    apart: Closeness
    copies: float
    twins: float
    diversity: float
    stored_diversity: float
    predicted_novelty: float
    comparison: Comparison
    redrawn: Comparison
    loss: Loss
    halves: HalfSplits
    conditioned: bool
    made_so: bool
    native: bool

    @property
    def single(self) -> str:
        """What an item consists of: positions, columns."""
        return SINGLE[self.kind]

    @property
    def closest_pairs(self) -> float | None:
        """The first percentile of the stored items' distances to each other, duplicates aside."""
        gaps = self.apart.distance[self.apart.distance > 0]
        return float(np.quantile(gaps, 0.01)) if len(gaps) else None

    @property
    def too_close(self) -> float:
        """Share of new items nearer to a stored one than the closest 1 % of stored items are to each other."""
        limit = self.closest_pairs
        return math.nan if limit is None else float((self.near.distance < limit).mean())

    @property
    def nearness(self) -> float:
        """Median distance from a new item to its nearest stored one, over that between stored ones."""
        between = float(np.median(self.apart.distance)) if len(self.apart.distance) else 0.0
        return float(np.median(self.near.distance)) / between if between > 0 else math.nan

    @property
    def too_far(self) -> float:
        """Share of new items further from every stored one than 95 % of stored items are from each other."""
        if not len(self.apart.distance):
            return math.nan
        return float((self.near.distance > np.quantile(self.apart.distance, 0.95)).mean())

    @property
    def unlikeness(self) -> tuple[float, float]:
        """Mean distance of the parts: of new items, and of items drawn from the stored ones."""
        return _mean_part(self.comparison), _mean_part(self.redrawn)


def measure(plan: Plan, items: Any, seed: int, progress: bool | None, made_so: bool = True) -> Evidence:
    """Compare new items with the stored ones of a plan; `made_so` says that this is how they were made."""
    codec, n = plan.codec, len(items)
    stored_rows = codec.coordinates.stored[plan.model.bank.kept]
    with (
        Progress(MOST_SPLITS + 2, "report", progress) as bar,
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("ignore")  # three items have no correlations, and say so in the table
        chosen = codec.take(items, evenly(n, _affordable(codec)))
        rows = encoded(codec, chosen)
        nearest, _ = codec.annotate(chosen, rows)
        copies = codec.same(chosen, codec.take(codec.stored, nearest)).reshape(len(rows), -1).all(1)
        # Items that share parts, as windows of days do, would all have a copy of each part beside it.
        kept = codec.comparable(codec.take(codec.stored, codec.apart(np.asarray(plan.model.bank.kept))))
        near = privacy.closest(codec.comparable(chosen), kept, rows, stored_rows)
        apart = privacy.closest_other(kept, stored_rows, MOST_STORED)
        bar.at(1)
        compared = codec.take(items, evenly(n, _comparable(codec)))
        redrawn = np.random.default_rng([seed, 0]).integers(codec.K, size=len(compared))
        comparison, reference = (codec.compare(some) for some in (compared, codec.take(codec.stored, redrawn)))
        done = [2]

        def step() -> None:
            done[0] += 1
            bar.at(done[0])

        return Evidence(
            kind=codec.kind,
            n=n,
            measured=len(rows),
            compared=len(compared),
            rows=rows,
            stored_rows=stored_rows,
            near=near,
            apart=apart,
            copies=float(copies.mean()),
            twins=float((apart.distance <= 1e-9).mean()) if len(apart.distance) else 0.0,
            diversity=metrics.diversity(rows),
            stored_diversity=metrics.diversity(stored_rows),
            predicted_novelty=_predicted(plan),
            comparison=comparison,
            redrawn=reference,
            loss=codec.loss(),
            halves=half_splits(plan, n, seed, step),
            conditioned=_conditioned(plan),
            made_so=made_so and not plan.fixed,
            native=plan.native is not None,
        )


def encoded(codec: Codec, items: Any) -> Array:
    """Items as rows (n, d), block by block: pictures as numbers take eight times their place."""
    size = max(privacy.BLOCK_ENTRIES // codec.p, 1)
    blocks = [np.arange(i, min(i + size, len(items))) for i in range(0, len(items), size)]
    return np.concatenate([codec.encode(codec.take(items, block)) for block in blocks])


def _affordable(codec: Codec) -> int:
    p, d, K = codec.p, codec.coordinates.d, codec.K
    return int(min(max(WORK / (p * d + K * (p + d)), FEWEST_ROWS), MOST_ROWS))


def _comparable(codec: Codec) -> int:
    values = codec.same(codec.take(codec.stored, np.arange(1)), codec.take(codec.stored, np.arange(1))).size
    return min(MOST_COMPARED, max(MOST_VALUES // max(int(values), 1), 50))


def _predicted(plan: Plan) -> float:
    try:
        return plan.predicted_novelty()
    except ValueError:  # a stored row without a direction has no cosine
        return math.nan


def _conditioned(plan: Plan) -> bool:
    weights = plan.mixture.log_weights
    fewer = len(plan.model.bank.kept) < plan.codec.K
    return bool(plan.fixed) or fewer or bool(np.ptp(weights[np.isfinite(weights)]) > 1e-6)


def _mean_part(comparison: Comparison) -> float:
    distances = [part.distance for part in comparison.parts if math.isfinite(part.distance)]
    return float(np.mean(distances)) if distances else math.nan
