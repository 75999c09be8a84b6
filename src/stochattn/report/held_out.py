"""The section on items that were held out: what the method does with half of the stored items, judged by the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .._backend.arrays import to_numpy
from .._backend.html import Html, joined, number, section, table, tag, text
from ..evaluation.heldout import Judgement
from ..evaluation.split_half import Half, HalfSplits
from ..pipeline import Plan

JUDGED: dict[str, tuple[str, float, float, str]] = {
    "closer": ("nearer to their own half", 0.5, 1.0, "share of new items nearer to the half they were made of"),
    "novelty_ratio": ("distance to that half", 1.0, 0.0, "median, over the median of true items that it never held"),
    "copies": ("copies", 0.01, 1.0, "share nearer to that half than 99 % of true items that it never held"),
    "told_real": ("true ones told from new", 0.5, math.nan, "share of held-out items whose nearest other is held out"),
    "told_new": ("new ones told from true", 0.5, math.nan, "share of new items whose nearest other is new"),
}
"""Measures of the judge by their field: name, ideal, what copies of the half would have, meaning."""


class _Row(NamedTuple):
    name: str
    meaning: str
    new: Sequence[float]  # one figure a split
    stored: Sequence[float]
    ideal: float | None


def held_out(plan: Plan, found: HalfSplits) -> Html:
    """A table of figures, mean ± standard deviation over splits, beside the fitted half's own."""
    title = "held-out", "Held out"
    if not found.halves:
        return section(*title, tag("p", f"Nothing could be held out: {found.lacking}."))
    how = "at the same β" if plan.rule == "given" else "its settings chosen anew by the same rule"
    about = (
        f"{found.items:,} of {plan.codec.K:,} stored items were split in halves {len(found.halves)} times. One half "
        f"was fitted, {how}, {found.draws:,} new items were drawn from it, and both were held against the other half, "
        "which the method had not seen. “The half itself” shows what its own items would score as new ones: good at "
        "everything but being new. In the lower rows “stored” means the half held out. With all items stored the "
        "method has more to draw on."
    )
    if plan.codec.kind == "returns":
        about += " Scenarios are compared day by day; as a whole, each follows one stored window and can be recognised."
    if plan.fixed:
        about += " What is fixed was left free here: the other half is not of that condition."
    if np.ptp(to_numpy(plan.model.bank.active.log_r)) > 0 and plan.native is not None:
        about += " Weights were left out: all items count alike here."
    cells = [
        (joined([tag("b", text(row.name)), tag("span", text(row.meaning, 1000), class_="soft")]),
         _over(row.new), _over(row.stored), number(row.ideal))
        for row in _rows(found.halves)
    ]  # fmt: skip
    return section(*title, tag("p", about), table(("measure", "new", "the half itself", "ideal"), cells, "measures"))


def _rows(halves: Sequence[Half]) -> Iterator[_Row]:
    for field in Judgement._fields:
        called, ideal, copied, meaning = JUDGED[field]
        yield _Row(called, meaning, [getattr(half.judgement, field) for half in halves], [copied], ideal)
    for i, measure in enumerate(halves[0].new):
        new, stored = ([getattr(half, side)[i].value for half in halves] for side in ("new", "stored"))
        yield _Row(measure.name, measure.meaning, new, stored, _common([half.new[i].ideal for half in halves]))


def _common(ideals: Sequence[float | None]) -> float | None:
    """Their mean: some are those of the held-out half itself."""
    known = [ideal for ideal in ideals if ideal is not None]
    return float(np.mean(known)) if known else None


def _over(values: Sequence[float]) -> Html:
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return Html("–")
    spread = f" ± {number(float(np.std(known, ddof=1)), 2)}" if len(known) > 1 else ""
    return text(number(float(np.mean(known)), 2) + spread)
