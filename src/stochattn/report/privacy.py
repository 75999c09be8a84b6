"""What samples give away: their distances to the stored items, and how well these can be told from items left out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._arrays import Array
from ..codecs.base import Codec
from ..metrics import evenly
from ..pipeline import Plan, draw_items
from ..pipeline import plan as plan_of

BLOCK_ENTRIES = 2**23
FEWEST, MOST = 8, 1000
"""Stored items that half-splits need, and use at most."""
MOST_SPLITS, FEWEST_SPLITS = 10, 5
MANY_VALUES = 2**17
"""Stored values beyond which the smaller number of splits is made."""
WORK = 1.2e11
"""Multiplications that all half-splits together may take: some ten seconds. A clock would make reports differ."""
MOST_DRAWS = 20_000
GIVEN_AWAY = 0.6
"""The AUC above which samples are said to give their sources away; 0.5 is chance."""


class Closeness(NamedTuple):
    """How near rows are to their nearest stored one."""

    distance: Array  # (n,)
    novelty: Array  # (n,) 1 − the largest cosine


class Membership(NamedTuple):
    """How well an onlooker with the samples tells stored items from others of the same kind."""

    aucs: tuple[float, ...]  # one a split
    items: int  # that were split in halves
    lacking: str = ""  # why there is none
    draws: int = 0  # that the onlooker holds

    @property
    def auc(self) -> float:
        """Mean over the splits; NaN without any."""
        return float(np.mean(self.aucs)) if self.aucs else float("nan")

    @property
    def spread(self) -> float:
        """Standard deviation over the splits."""
        return float(np.std(self.aucs, ddof=1)) if len(self.aucs) > 1 else float("nan")


def closest(rows: Array, stored: Array) -> Closeness:
    """Distance and novelty of each row (n, d) among the stored ones (K, d)."""
    return _closest(rows, stored, None)


def closest_other(stored: Array, most: int) -> Closeness:
    """Distance and novelty of stored rows (K, d), each among the others; of at most `most`, evenly spaced."""
    if len(stored) < 2:
        return Closeness(np.empty(0), np.empty(0))
    own = evenly(len(stored), most)
    return _closest(stored[own], stored, own)


def _closest(rows: Array, stored: Array, own: Array | None) -> Closeness:
    lengths = np.linalg.norm(stored, axis=1)
    half, lengths = lengths**2 / 2, np.where(lengths > 0, lengths, 1.0)
    distance, novelty = np.empty(len(rows)), np.empty(len(rows))
    size = max(BLOCK_ENTRIES // max(stored.shape), 1)
    for i in range(0, len(rows), size):
        block = rows[i : i + size]
        products = block @ stored.T
        if own is not None:
            products[np.arange(len(block)), own[i : i + size]] = -np.inf
        # By their difference, not by inner products, in which nearly equal rows lose their distance to rounding.
        distance[i : i + size] = np.linalg.norm(block - stored[(products - half).argmax(1)], axis=1)
        sizes = np.linalg.norm(block, axis=1)
        novelty[i : i + size] = 1 - (products / lengths).max(1) / np.where(sizes > 0, sizes, 1.0)
    return Closeness(distance, novelty)


def area_under_curve(members: Array, others: Array) -> float:
    """Probability that a member scores above another item, ties counted half; (m,), (o,).

    >>> area_under_curve(np.array([3.0, 2.0]), np.array([2.0, 1.0]))
    0.875
    """
    from scipy.stats import rankdata

    m, o = len(members), len(others)
    ranks = rankdata(np.concatenate([members, others]))[:m]
    return float((ranks.sum() - m * (m + 1) / 2) / (m * o))


def membership(plan: Plan, n: int, seed: int, step: Callable[[], Any] = lambda: None) -> Membership:
    """AUC of telling the halves of stored items apart that draws were made from, by distance to the nearest draw.

    Each half is refitted and its temperature chosen anew by the same rule. The onlooker holds n draws, as many as are
    judged (within limits): the more there are, the more they tell.
    """
    kept = _apart(plan.codec, np.asarray(plan.model.bank.kept))
    if len(kept) < FEWEST:
        return Membership((), len(kept), f"half-splits need at least {FEWEST} stored items that do not overlap")
    features = plan.codec.features(plan.codec.take(plan.codec.stored, kept[:1])).shape[1]
    quick = len(kept) * features <= MANY_VALUES and plan.native is None  # samplers of their own are fitted anew
    splits = MOST_SPLITS if quick else FEWEST_SPLITS
    chosen = kept[evenly(len(kept), affordable(len(kept), features, splits))]
    most = max(int(WORK / (2 * splits * len(chosen) * min(len(chosen) // 2, features))), len(chosen))
    draws = min(max(n, FEWEST), MOST_DRAWS, most)
    aucs: list[float] = []
    reason = ""
    for split in range(splits):
        rng = np.random.default_rng([seed, split])
        order = rng.permutation(chosen)
        half = len(order) // 2
        try:
            aucs.append(_split(plan, np.sort(order[:half]), np.sort(order[half:]), draws, rng))
        except ValueError as error:  # an odd half, all of whose items are alike, say
            reason = str(error)
        step()
    lacking = "" if aucs else f"no half of the items could be fitted: {reason}"
    return Membership(tuple(aucs), len(chosen), lacking, draws)


def affordable(n: int, features: int, splits: int) -> int:
    """How many items to split, so that all splits together keep to WORK: at most MOST of n."""

    def work(items: int) -> float:
        half = items / 2
        rank = min(half, features)
        return splits * (12 * half * rank * features + 20 * 4096 * half * rank)

    return next((items for items in range(min(n, MOST), 20, -10) if work(items) <= WORK), min(n, 20))


def _apart(codec: Codec, kept: Array) -> Array:
    """Those of the stored items that share nothing: windows of days overlap, and half of one may lie in another."""
    window = getattr(getattr(codec, "options", None), "window", 1)
    if codec.kind != "returns" or window == 1:
        return kept
    apart, last = [], -window
    for k in kept:
        if (k - last) * codec.step >= window:  # type: ignore[attr-defined]
            apart.append(k)
            last = k
    return np.array(apart)


def _split(plan: Plan, members: Array, others: Array, draws: int, rng: np.random.Generator) -> float:
    codec = plan.codec
    inside, outside = (codec.take(codec.stored, indices) for indices in (members, others))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        other = _same_choice(codec.refit(inside), plan)
        items, _, _ = draw_items(other, draws, int(rng.integers(2**62)))
        samples = other.codec.encode(items)
        scores = [-closest(other.codec.encode(items), samples).distance for items in (inside, outside)]
    if not all(np.isfinite(score).all() for score in scores):
        raise ValueError("distances to the draws are not finite.")
    return area_under_curve(*scores)


def _same_choice(codec: Codec, plan: Plan) -> Plan:
    """The plan for other items, with beta chosen as it was; by its value where the rule finds none there."""
    how = "given" if plan.rule == "given" else "novelty" if plan.rule.startswith("for novelty") else "rule"
    try:
        if plan.native is not None:
            return plan_of(codec, fix=plan.fixed, target="native")
        if how == "rule":
            return plan_of(codec, rule=plan.rule, fix=plan.fixed)
        if how == "novelty":
            return plan_of(codec, novelty=float(plan.rule.removeprefix("for novelty")), fix=plan.fixed)
    except ValueError:
        pass
    return plan_of(codec, beta=plan.beta, fix=plan.fixed)
