"""The sections of the page."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._backend.arrays import Array
from .._backend.html import Html, figure, folded, joined, name, number, pairs, section, share, table, tag, text
from ..core import temperature
from ..core.memory import MemoryBank
from ..core.neighbors import evenly
from ..evaluation.privacy import GIVEN_AWAY
from ..pipeline import Plan
from . import figures
from .evidence import Evidence
from .galleries import MOST as MOST_SHOWN
from .galleries import Shown, gallery
from .making import counted
from .verdict import Verdict

MOST_PARTS, OPEN_PARTS = 60, 12
SIGNS = {True: ("✓", "good", "passed"), False: ("✗", "bad", "failed"), None: ("·", "open", "not judged")}
CONTENTS = (
    ("gallery", "Gallery"),
    ("fidelity", "Fidelity"),
    ("map", "Map"),
    ("novelty", "Novelty and diversity"),
    ("held-out", "Held out"),
    ("privacy", "Privacy"),
    ("making", "How it was made"),
)


def heading(plan: Plan, evidence: Evidence, judged: Verdict, made: list[tuple[str, str]]) -> Html:
    """What was stored, what was made, and what to think of it."""
    items = []
    for check in judged.checks:
        sign, tone, spoken = SIGNS[check.passed]
        mark = tag("span", sign, class_=f"sign {tone}", aria_label=spoken, role="img")
        items.append(tag("li", mark, tag("span", check.finding)))
    box = tag(
        "div",
        tag("strong", judged.headline, class_="headline"),
        tag("span", judged.advice),
        tag("ul", *items),
        class_=f"verdict {judged.tone}",
    )
    links = tag("nav", *(tag("a", title, href=f"#{anchor}") for anchor, title in CONTENTS), aria_label="Contents")
    return tag(
        "header",
        tag("p", "stochattn report", class_="eyebrow"),
        tag("h1", f"{counted(plan, evidence.n, 'new')} from {plan.codec.K:,} stored"),
        box,
        tag("div", *_tiles(evidence), class_="tiles"),
        pairs(made),
        links,
    )


def _tiles(evidence: Evidence) -> list[Html]:
    found = evidence.halves
    spread = "" if math.isnan(found.spread) else f" ± {number(found.spread, 2)}"
    told = f"{number(found.auc, 2)}{spread}" if found.halves else "–"
    figures_of = (
        (number(float(evidence.near.novelty.mean()), 3), "mean novelty: 1 − cosine to the nearest stored row"),
        (share(evidence.copies), "exact copies of a stored item"),
        (number(evidence.diversity, 2), f"diversity; the stored ones have {number(evidence.stored_diversity, 2)}"),
        (told, "membership AUC; 0.5 is chance"),
    )
    return [tag("div", tag("b", value), tag("span", meaning), class_="tile") for value, meaning in figures_of]


def shown_items(plan: Plan, items: Any) -> Shown:
    """Those of the gallery: evenly spaced among all."""
    codec = plan.codec
    numbers = evenly(len(items), MOST_SHOWN)
    some = codec.take(items, numbers)
    rows = codec.encode(some)
    nearest, extra = codec.annotate(some, rows)
    return Shown(some, numbers, nearest, plan.novelty(rows), extra)


def pictures_of(plan: Plan, items: Any) -> Html:
    """New items beside the stored ones nearest to them."""
    shown = shown_items(plan, items)
    of_all = f"{len(shown.numbers)} of {len(items):,}, evenly spaced. " if len(items) > len(shown.numbers) else ""
    about = tag("p", f"{of_all}Each beside the stored item that it is nearest to.")
    return section("gallery", "Gallery", about, gallery(plan.codec, shown))


def fidelity(evidence: Evidence) -> Html:
    """Figures about the whole, and the parts, worst first."""
    redrawn = {measure.name: measure.value for measure in evidence.redrawn.measures}
    rows = [
        (_explained(m.name, m.meaning), number(m.value), number(m.ideal), number(redrawn.get(m.name)))
        for m in evidence.comparison.measures
    ]
    single = evidence.single
    parts = sorted(evidence.comparison.parts, key=lambda part: -_finite(part.distance))
    few = _few(evidence.compared, evidence.n)
    left = len(parts) - MOST_PARTS
    head = (single, "distance", "stored", "new")
    shown = [(name(p.name), _bar(p.distance), text(p.stored), text(p.new)) for p in parts[:MOST_PARTS]]
    return section(
        "fidelity",
        "Fidelity",
        tag(
            "p",
            "Each figure beside its ideal and, as “redrawn”, what as many items picked from the stored ones would "
            f"give: the best that a finite number can do.{few}",
        ),
        table(("measure", "new", "ideal", "redrawn"), rows, "measures"),
        tag("h3", f"By {single}, worst first"),
        tag("p", "Distance from 0, the same, to 1, nothing in common.", class_="note"),
        table(head, shown[:OPEN_PARTS], "parts"),
        folded(f"{len(shown) - OPEN_PARTS} more", table(head, shown[OPEN_PARTS:], "parts"))
        if len(shown) > OPEN_PARTS
        else Html(""),
        tag("p", f"{left:,} more with smaller distances are left out.", class_="note") if left > 0 else Html(""),
    )


def _explained(title: str, meaning: str) -> Html:
    return joined([tag("b", text(title)), tag("span", text(meaning, 1000), class_="soft")])


def _finite(value: float) -> float:
    return value if math.isfinite(value) else -1.0


def _bar(distance: float) -> Html:
    width = min(max(100 * _finite(distance), 0.0), 100.0)
    return Html(f'<span class="bar"><i style="width:{width:.1f}%"></i></span>{text(number(distance))}')


def _few(some: int, n: int) -> str:
    return f" Measured on {some:,} of the {n:,}, evenly spaced." if some < n else ""


def plane(plan: Plan, evidence: Evidence) -> Html:
    """Stored and new rows along the two directions in which the stored ones vary most."""
    from sklearn.decomposition import PCA

    rows = evidence.stored_rows
    stored = rows[evenly(len(rows), figures.MOST_POINTS)]
    new = evidence.rows[evenly(len(evidence.rows), figures.MOST_POINTS)]
    shares = np.zeros(2)
    points = [np.zeros((len(x), 2)) for x in (stored, new)]
    count = min(2, rows.shape[1], len(stored) - 1)
    if count > 0 and np.ptp(stored, axis=0).any():
        pca = PCA(count, svd_solver="randomized" if count < min(stored.shape) else "full", random_state=0).fit(stored)
        shares[:count] = pca.explained_variance_ratio_
        points[0][:, :count], points[1][:, :count] = pca.transform(stored), pca.transform(new)
    colours, legend = _classes(plan, evenly(len(rows), figures.MOST_POINTS))
    drawn = f"{len(new):,} of {evidence.n:,} new and " if len(new) < evidence.n else f"All {evidence.n:,} new and "
    kept = f"{len(stored):,} of {len(rows):,} stored" if len(stored) < len(rows) else f"all {len(rows):,} stored"
    caption = joined(
        [
            f"{drawn}{kept} items as rows, along the two directions in which the stored ones vary most. ",
            "Dots are new, rings are stored. ",
            legend,
        ]
    )
    alt = "Scatter plot of stored and new items in two principal components"
    return section("map", "Map", figure(figures.plane(points[0], points[1], colours, shares), alt, caption, "map"))


def _classes(plan: Plan, chosen: Array) -> tuple[list[str] | None, Html]:
    """A colour for each stored item by its class, and what the colours mean; None where classes are not few."""
    labels = plan.codec.labels
    if labels is None:
        return None, Html("")
    kinds = sorted(set(labels))
    if not 1 < len(kinds) <= len(figures.PALETTE):
        return None, Html("")
    colour = dict(zip(kinds, figures.PALETTE, strict=False))
    keys = (Html(f' <span class="key" style="background:{colour[kind]}"></span>') for kind in kinds)
    legend = joined(joined([key, name(kind, 30)]) for key, kind in zip(keys, kinds, strict=True))
    kept = np.asarray(plan.model.bank.kept)[chosen]
    return [colour[labels[k]] for k in kept], joined(["Rings by class:", legend])


def novelty(plan: Plan, evidence: Evidence, facts: dict[str, Any]) -> Html:
    """How new, how diverse, and where the temperature lies."""
    mean = float(evidence.near.novelty.mean())
    lines = {"mean": mean, "predicted by the law": evidence.predicted_novelty}
    lines = {key: value for key, value in lines.items() if math.isfinite(value)}
    drawn = facts.get("novelty")
    rows = [
        ("novelty, mean", number(mean), "1 − cosine to the nearest stored row, of items read back as rows"),
        ("novelty, predicted", number(evidence.predicted_novelty), "the exact law's mean, before draws become items"),
        *(
            [("novelty, drawn", number(drawn), "of the draws, before they became items")]
            if isinstance(drawn, float)
            else []
        ),
        ("novelty of stored", number(_median(evidence.apart.novelty)), "median, each stored item against the others"),
        ("diversity", number(evidence.diversity), "mean of 1 − cosine over all pairs of new items"),
        ("diversity of stored", number(evidence.stored_diversity), "the same for stored items"),
        ("copies", share(evidence.copies), "equal to the nearest stored item in every value"),
    ]
    bars = figures.histogram(evidence.near.novelty, evidence.apart.novelty, lines, "novelty, 1 − max cosine")
    return section(
        "novelty",
        "Novelty and diversity",
        tag(
            "p",
            "Novelty alone is no quality: noise is novel too. The law predicts the novelty of draws; decoding them to "
            f"items moves it, mostly down.{_few(evidence.measured, evidence.n)}",
        ),
        tag(
            "div",
            figure(bars, "Histogram of novelty of new and stored items", "Novelty of each new item; in outline, of "
                   "each stored item against the others."),
            _entropy(plan),
            class_="plots",
        ),
        table(("figure", "value"), ((_explained(key, why), value) for key, value, why in rows), "measures"),
    )  # fmt: skip


def _entropy(plan: Plan) -> Html:
    """The entropy curve around the chosen beta, with the inflection where there is one."""
    rows = plan.codec.coordinates.stored[plan.model.bank.kept]
    bank, probes = MemoryBank(rows), rows[evenly(len(rows), 128)]
    marks = {f"chosen β = {plan.beta:.4g}": plan.beta}
    try:
        turn = temperature.inflection(bank, probes)
        marks[f"inflection β* = {turn:.3g}"] = turn
    except ValueError:  # an odd bank has none
        turn = plan.beta
    betas = np.geomspace(min(turn, plan.beta) / 30, max(turn, plan.beta) * 30, 61)
    curve = temperature.entropy_curve(bank, betas, probes)
    plot = figures.entropy(betas, curve.entropy, math.log(len(rows)), marks)
    caption = (
        "Attention entropy against the inverse temperature β: on the left a state attends to all stored items, on the "
        "right to one. Dotted: attention to all alike."
    )
    return figure(plot, "Entropy of attention against beta", caption)


def _median(values: Array) -> float:
    return float(np.median(values)) if len(values) else math.nan


def privacy(evidence: Evidence) -> Html:
    """Distances to the closest stored item, and membership inference."""
    new, stored, found = evidence.near.distance, evidence.apart.distance, evidence.halves
    limit = evidence.closest_pairs
    rows = [
        ("5th percentile", number(_quantile(new, 0.05)), number(_quantile(stored, 0.05))),
        ("median", number(_quantile(new, 0.5)), number(_quantile(stored, 0.5))),
        ("closer than the closest 1 % of stored pairs", share(evidence.too_close), share(0.01) if limit else "–"),
    ]
    if found.halves:
        told = (
            f"In the half-splits above, each item of both halves was scored by its distance to the nearest of "
            f"{found.draws:,} draws. Members of the half that they were made of score above the others with an AUC of "
            f"{number(found.auc, 2)} ± {number(found.spread, 2)}; 0.5 would be chance, 1 certainty. "
            "It is a test of the method at this setting and of these data, not of single items; more draws "
            "tell more."
        )
    else:
        told = f"Membership was not tested: {found.lacking}."
    warning = tag(
        "div",
        tag("strong", "Samples give away their sources", class_="headline"),
        tag(
            "span",
            "Whoever holds the samples can tell, better than by chance, whether an item was among those stored. If the "
            "stored items are confidential, so are the samples.",
        ),
        class_="verdict bad",
    )
    return section(
        "privacy",
        "Privacy",
        warning if evidence.made_so and found.certain_auc > GIVEN_AWAY else Html(""),
        tag("h3", "Distance to the closest record"),
        tag(
            "div",
            figure(
                figures.cumulative(new, stored, limit, "distance to the nearest stored row"),
                "Cumulative distribution of distances to the nearest stored row",
                "A curve of new items to the left of the stored ones' means that they keep closer to stored items than "
                "these do to each other.",
            ),
            table(("distance", "new to stored", "stored to each other"), rows),
            class_="plots",
        ),
        tag("h3", "Membership inference"),
        tag("p", told),
    )


def _quantile(values: Array, level: float) -> float:
    return float(np.quantile(values, level)) if len(values) else math.nan
