"""A method judged on its own stored items: fitted on one half, again and again, and its draws held against the other.

Each half is fitted anew and its knobs are set by the same rule, so that nothing of the other half is looked at. What
comes out is about the method, these data and half as many items; the items that a user holds were drawn from all.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._backend.arrays import Array
from ..core.neighbors import evenly, nearest_distances
from ..data.legacy import Codec, Measure
from ..pipeline import Plan, draw_items
from ..pipeline import plan as plan_of
from .heldout import Judgement, area_under_curve, judge

FEWEST, MOST = 8, 1000
"""Stored items that half-splits need, and use at most."""
MOST_SPLITS, FEWEST_SPLITS = 10, 5
MANY_VALUES = 2**17
"""Stored values beyond which the smaller number of splits is made."""
WORK = 1.2e11
"""Multiplications that all half-splits together may take: some ten seconds. A clock would make reports differ."""
MOST_DRAWS, MOST_JUDGED, MOST_COMPARED = 20_000, 2000, 500


class Half(NamedTuple):
    """Draws from one half of the items, against both halves."""

    judgement: Judgement
    auc: float  # of telling the half that was fitted from the other, by distance to the nearest draw
    new: tuple[Measure, ...]  # draws against the other half, as this kind of data is compared
    stored: tuple[Measure, ...]  # the fitted half itself against the other: what chance alone does


class HalfSplits(NamedTuple):
    """What the splits found; none of them where items are too few."""

    halves: tuple[Half, ...]
    items: int  # that were split
    lacking: str = ""  # why there is none
    draws: int = 0  # made of each half

    @property
    def auc(self) -> float:
        """How well an onlooker with the draws tells stored items from others; 0.5 is chance. NaN without splits."""
        return float(np.mean([half.auc for half in self.halves])) if self.halves else float("nan")

    @property
    def spread(self) -> float:
        """Standard deviation of that over the splits."""
        return float(np.std([half.auc for half in self.halves], ddof=1)) if len(self.halves) > 1 else float("nan")

    @property
    def certain_auc(self) -> float:
        """That mean less its standard error over the splits."""
        error = self.spread / len(self.halves) ** 0.5 if len(self.halves) > 1 else 0.0
        return self.auc - error

    @property
    def closer(self) -> float:
        """Share of draws nearer to the half they were made of; 0.5 ideally. NaN without splits."""
        return float(np.mean([half.judgement.closer for half in self.halves])) if self.halves else float("nan")

    def __repr__(self) -> str:
        if not self.halves:
            return f"no half-splits: {self.lacking}"
        lines = [f"{len(self.halves)} half-splits of {self.items} items, {self.draws} draws each; mean ± sd (ideal)"]
        figures = [(name, [getattr(half.judgement, name) for half in self.halves]) for name in Judgement._fields]
        for name, values in (*figures, ("membership AUC", [half.auc for half in self.halves])):
            ideal = {"novelty_ratio": 1.0, "copies": 0.01}.get(name, 0.5)
            lines.append(f"{name:<15} {np.mean(values):.2f} ± {np.std(values):.2f} ({ideal:g})")
        return "\n".join(lines)


def half_splits(plan: Plan, n: int, seed: int, step: Callable[[], Any] = lambda: None) -> HalfSplits:
    """Fit halves of what the plan keeps, draw n from each (within limits), and judge the draws by the other half.

    An onlooker who holds draws is told more by more of them, so n should be as many as are given away.
    """
    kept = plan.codec.apart(np.asarray(plan.model.bank.kept))
    if len(kept) < FEWEST:
        return HalfSplits((), len(kept), f"half-splits need at least {FEWEST} stored items that do not overlap")
    features = plan.codec.p
    quick = len(kept) * features <= MANY_VALUES and plan.native is None  # samplers of their own are fitted anew
    splits = MOST_SPLITS if quick else FEWEST_SPLITS
    chosen = kept[evenly(len(kept), affordable(len(kept), features, splits))]
    most = max(int(WORK / (2 * splits * len(chosen) * min(len(chosen) // 2, features))), len(chosen))
    draws = min(max(n, FEWEST), MOST_DRAWS, most)
    halves: list[Half] = []
    reason = ""
    for split in range(splits):
        rng = np.random.default_rng([seed, split])
        order = rng.permutation(chosen)
        middle = len(order) // 2
        try:
            halves.append(_half(plan, np.sort(order[:middle]), np.sort(order[middle:]), draws, rng))
        except ValueError as error:  # an odd half, all of whose items are alike, say
            reason = str(error)
        step()
    lacking = "" if halves else f"no half of the items could be fitted: {reason}"
    return HalfSplits(tuple(halves), len(chosen), lacking, draws)


def affordable(n: int, features: int, splits: int) -> int:
    """How many items to split, so that all splits together keep to WORK: at most MOST of n."""

    def work(items: int) -> float:
        half = items / 2
        rank = min(half, features)
        return splits * (12 * half * rank * features + 20 * 4096 * half * rank)

    return next((items for items in range(min(n, MOST), 20, -10) if work(items) <= WORK), min(n, 20))


def _half(plan: Plan, members: Array, others: Array, draws: int, rng: np.random.Generator) -> Half:
    codec = plan.codec
    inside, outside = (codec.take(codec.stored, indices) for indices in (members, others))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        fitted = _same_choice(codec.refit(inside), plan)
        new, _, _ = draw_items(fitted, draws, int(rng.integers(2**62)))
        drawn, stored, held_out = (fitted.codec.comparable(items) for items in (new, inside, outside))
        scores = [-nearest_distances(rows, drawn) for rows in (stored, held_out)]
        if not all(np.isfinite(score).all() for score in scores):
            raise ValueError("distances to the draws are not finite.")
        truth = codec.refit(outside)
        some = codec.take(new, evenly(draws, MOST_COMPARED))
        return Half(
            judge(drawn[evenly(len(drawn), MOST_JUDGED)], stored, held_out),
            area_under_curve(*scores),
            truth.compare(some).measures,
            truth.compare(inside).measures,
        )


def _same_choice(codec: Codec, plan: Plan) -> Plan:
    """The plan for other items, with beta chosen as it was; by its value where the rule finds none there.

    What is fixed is left free, and all items count alike: the other half is not of that condition.
    """
    how = "given" if plan.rule == "given" else "novelty" if plan.rule.startswith("for novelty") else "rule"
    if plan.native is not None:
        return plan_of(codec, target="native")
    try:
        if how == "rule":
            return plan_of(codec, rule=plan.rule)
        if how == "novelty":
            return plan_of(codec, novelty=float(plan.rule.removeprefix("for novelty")))
    except ValueError:
        pass
    return plan_of(codec, beta=plan.beta)
