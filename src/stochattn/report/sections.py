"""The sections of a report: gallery, fidelity, held-out validation, novelty and diversity, privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from .._backend.html import Html, figure, folded, joined, name, number, share, table, tag, text
from ..core import temperature
from ..core.memory import MemoryBank
from ..core.neighbors import evenly
from ..core.temperature import BetaRule
from ..data.base import Items
from ..data.gallery import GalleryItems
from ..data.summary import Summary
from ..evaluation.fidelity import AGREEMENT, PARTS, TAILS, TRAINING, TWO_SAMPLE, WITHIN
from ..evaluation.held_out import IDEAL
from ..evaluation.split_half import SplitHalfResult
from ..synthesizer import Synthesizer
from . import figures
from .evidence import Evidence, quantile
from .overlays import overlays
from .page import callout, explained

MAX_SHOWN, MAX_PARTS, MAX_OPEN_PARTS = 24, 60, 12  # items of the gallery, parts, parts that are seen without a click
N_PROBES, N_BETAS, BETA_FACTOR = 128, 61, 30  # of the entropy curve, and how far it goes beyond the marked betas
_REAL = "share of held-out items whose nearest neighbour among held-out and new items is held-out"
HELD_OUT = {  # title, value of copies of the fitted half, and meaning of each of `HeldOutMetrics`
    "train_proximity": ("train proximity", 1.0, "share of new items nearer to the fitted half than to the other"),
    "novelty_ratio": ("novelty ratio", 0.0, "median distance to the fitted half, over that of held-out items"),
    "near_copies": ("near-copies", 1.0, "share nearer to the fitted half than 99 % of held-out items are"),
    "nn_accuracy_real": ("nearest-neighbour accuracy, held-out", None, _REAL),
    "nn_accuracy_new": ("nearest-neighbour accuracy, new", None, "share of new items whose nearest item is new"),
}

SCORES = {
    PARTS: "Mean distance of the parts from those of held-out items, from 0 to 1.",
    TWO_SAMPLE: "Accuracy of a nearest neighbour or a forest that distinguishes these items from held-out ones.",
    TAILS: "How much heavier or lighter than those of held-out items the tails of each feature are, as a log ratio.",
    TRAINING: "Share of held-out items whose class a classifier names that is trained on these items.",
    AGREEMENT: "Share of these items whose class a classifier names that is trained on held-out items.",
    WITHIN: "Distance of features from those of held-out items of the same class, in standard deviations.",
}


def gallery(synth: Synthesizer, items: Items) -> Html:
    """Some of the new items, evenly spaced among all, beside the stored ones nearest to them."""
    kind, codec, n = synth.kind, synth.codec, len(items)
    numbers = evenly(n, MAX_SHOWN)
    some = codec.take(items, numbers)
    nearest, extra = kind.annotate(codec, some, n)
    shown = GalleryItems(some, numbers, nearest, synth.novelty(some), extra)
    all_shown = n == len(numbers)
    which = f"Each new {kind.item}" if all_shown else f"{len(numbers)} of {n:,} new {kind.items}, evenly spaced, each"
    return joined([tag("p", f"{which} beside the stored {kind.item} nearest to it."), kind.gallery(codec, shown)])


def fidelity(evidence: Evidence) -> Html:
    """Measures of the whole, then the parts by descending distance."""
    items, part = evidence.synth.kind.items, evidence.synth.kind.part
    resampled = {measure.name: measure.value for measure in evidence.resampled.measures}
    measures = [
        (explained(m.name, m.meaning), number(m.value), number(m.ideal), number(resampled.get(m.name)))
        for m in evidence.comparison.measures
    ]
    about = (
        "Each measure of the new items, its ideal value and, as “resampled”, its value for as many stored "
        f"{items} drawn with replacement, which is the best that a finite number can reach."
        f"{_measured_on(evidence.n_compared, evidence.n)}"
    )
    content = [
        tag("p", about),
        table(("measure", "new", "ideal", "resampled"), measures, "measures"),
        tag("h3", f"Each {part}, by descending distance"),
        tag("p", "A distance of 0 means the same distribution, 1 means no overlap.", class_="note"),
    ]
    ordered = sorted(evidence.comparison.parts, key=lambda p: -p.distance if math.isfinite(p.distance) else math.inf)
    head, rows = (part, "distance", "stored", "new"), []
    for p in ordered[:MAX_PARTS]:
        width = 100 * min(max(p.distance, 0.0), 1.0) if math.isfinite(p.distance) else 0.0
        bar = f'<span class="bar"><i style="width:{width:.1f}%"></i></span>{text(number(p.distance))}'
        rows.append((name(p.name), Html(bar), text(p.stored), text(p.new)))
    content.append(table(head, rows[:MAX_OPEN_PARTS], "parts"))
    if len(rows) > MAX_OPEN_PARTS:
        content.append(folded(f"{len(rows) - MAX_OPEN_PARTS} more", table(head, rows[MAX_OPEN_PARTS:], "parts")))
    if len(ordered) > MAX_PARTS:
        left_out = f"{len(ordered) - MAX_PARTS:,} more with smaller distances are left out."
        content.append(tag("p", left_out, class_="note"))
    return joined([*content, overlays(ordered, part)])


def held_out_validation(synth: Synthesizer, found: SplitHalfResult) -> Html:
    """A table of metrics, mean ± standard deviation over splits, beside those of the fitted half itself."""
    if not found.splits:
        return tag("p", f"There is no held-out validation: {found.reason}.")
    kind, chosen = synth.kind, synth.describe().temperature
    same_beta = chosen is not None and chosen.rule is BetaRule.GIVEN
    how = "at the same β" if same_beta else "with its settings chosen by the same rules"
    how = "with the settings that were chosen for all" if found.quick else how
    about = (
        f"{found.n_items:,} of {synth.codec.K:,} stored {kind.items} were split into halves at random, "
        f"{len(found.splits)} times. One half was fitted, {how}, {found.n_draws:,} new {kind.items} were drawn from "
        "it, and these were compared with the other half, which the method had not seen. The column “fitted half” "
        f"shows the same measures of the fitted {kind.items} themselves: faithful, but not new. Measures in the lower "
        "rows compare with the held-out half. With all items stored, the method has more data than here."
    )
    n_vectors = len(kind.comparable(synth.codec, synth.codec.take(synth.codec.stored, np.arange(1))))
    if n_vectors > 1:
        about += f" Distances are between parts of {kind.items}, {n_vectors} per {kind.item}, not between whole ones."
    if synth.conditions:
        about += " Conditions were left out here, because the held-out half does not meet them."
    if np.ptp(synth.weights[synth.kept]) > 0:
        about += f" Weights were left out here: all {kind.items} count alike."
    rows, splits = [], found.splits
    for field, (title, copies, meaning) in HELD_OUT.items():
        new = _mean([getattr(split.metrics, field) for split in splits])
        rows.append((explained(title, meaning), new, number(copies, 2), number(getattr(IDEAL, field))))
    for i, measure in enumerate(splits[0].new):
        new, fitted = (_mean([getattr(split, side)[i].value for split in splits]) for side in ("new", "stored"))
        ideals = [one for split in splits if (one := split.new[i].ideal) is not None]  # some are of the other half
        ideal = number(float(np.mean(ideals)) if ideals else None)
        rows.append((explained(measure.name, measure.meaning), new, fitted, ideal))
    scores = [split.fidelity.scores for split in splits if split.fidelity is not None]
    for title, meaning in SCORES.items():
        values = [[one[title][i] for one in scores if title in one] for i in range(3)]
        if values[0]:
            new, fitted, worst = map(_mean, values)
            rows.append((explained(title, f"{meaning} Worst: {worst}."), new, fitted, "–"))
    return joined([tag("p", about), table(("measure", "new", "fitted half", "ideal"), rows, "measures")])


def _mean(values: Sequence[float]) -> str:
    """Mean ± standard deviation of the finite values."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return "–"
    spread = f" ± {number(float(np.std(known, ddof=1)), 2)}" if len(known) > 1 else ""
    return number(float(np.mean(known)), 2) + spread


def novelty(evidence: Evidence, summary: Summary | None) -> Html:
    """How new and how diverse the items are."""
    new, stored = evidence.to_stored.novelty, evidence.among_stored.novelty
    item, items, predicted = evidence.synth.kind.item, evidence.synth.kind.items, evidence.predicted_novelty
    drawn = math.nan if summary is None or summary.novelty is None else summary.novelty
    law = f"mean of the exact law, before draws are decoded to {items}; decoding mostly lowers it"
    rows = (
        ("mean novelty", round(float(new.mean()), 9), f"of the new {items}, encoded again as rows"),
        ("predicted novelty", predicted, law),
        ("novelty as drawn", drawn, f"mean of the draws, before decoding to {items}"),
        ("novelty of stored", quantile(stored, 0.5), f"median, each stored {item} against all others"),
        ("diversity", evidence.diversity, f"mean of 1 − cosine over all pairs of new {items}"),
        ("diversity of stored", evidence.stored_diversity, f"the same for stored {items}"),
    )
    values = [(explained(key, about), number(value)) for key, value, about in rows if math.isfinite(value)]
    values.append((explained("copies", f"equal to the nearest stored {item} in every value"), share(evidence.copies)))
    lines = {"mean": float(new.mean())} | ({"predicted": predicted} if math.isfinite(predicted) else {})
    bars = figures.histogram(new, stored, lines, "novelty, 1 − max cosine")
    caption = f"Novelty of each new {item}; the outline is that of each stored one against all others."
    plots = [figure(bars, f"Histogram of the novelty of new and stored {items}", caption), _entropy(evidence)]
    about = (
        "Novelty is 1 − the cosine to the nearest stored row. High novelty alone does not mean quality: noise is novel "
        f"too.{_measured_on(len(evidence.rows), evidence.n)}"
    )
    return joined([tag("p", about), tag("div", *plots, class_="plots"), table(("figure", "value"), values, "measures")])


def _entropy(evidence: Evidence) -> Html:
    """The entropy curve around the chosen beta, with the inflection where there is one."""
    chosen = evidence.synth.describe().temperature
    if chosen is None:
        return Html("")
    rows = evidence.synth.stored_rows
    bank, probes = MemoryBank(rows), rows[evenly(len(rows), N_PROBES)]
    lines = {f"chosen β = {chosen.beta:.4g}": chosen.beta}
    with suppress(ValueError):  # some banks have none
        turn = temperature.inflection(bank, probes)
        lines[f"inflection β* = {turn:.3g}"] = turn
    betas = np.geomspace(min(lines.values()) / BETA_FACTOR, max(lines.values()) * BETA_FACTOR, N_BETAS)
    curve = temperature.entropy_curve(bank, betas, probes)
    plot = figures.entropy(betas, curve.entropy, math.log(len(rows)), lines)
    caption = (
        f"Attention entropy against the inverse temperature β: on the left a state attends to all stored "
        f"{evidence.synth.kind.items}, on the right to one. The dotted line is uniform attention."
    )
    return figure(plot, "Entropy of attention against beta", caption)


def privacy(evidence: Evidence, reveals: bool) -> Html:
    """Distances to the closest record and the AUC of membership inference, with a warning if samples reveal sources."""
    item, items, limit = evidence.synth.kind.item, evidence.synth.kind.items, evidence.closest_pairs
    sets = new, stored = evidence.to_stored.distance, evidence.among_stored.distance
    lines = {} if math.isnan(limit) else {"closest 1 % of stored pairs": limit}
    rows = [
        ("5th percentile", *(number(quantile(values, 0.05)) for values in sets)),
        ("median", *(number(quantile(values, 0.5)) for values in sets)),
        ("closer than the closest 1 % of stored pairs", share(evidence.too_close), share(0.01) if lines else "–"),
    ]
    plot = figure(
        figures.cumulative(new, stored, lines, "distance to the nearest stored item"),
        "Cumulative distribution of distances to the nearest stored item",
        f"If the curve of new {items} is to the left, they are closer to stored {items} than these are to each other.",
    )
    warning = (
        f"Anyone who has the samples can tell, better than by chance, whether a given {item} was among the stored "
        f"ones. If the stored {items} are confidential, so are the samples."
    )
    half = evidence.split_half
    tested = (
        f"In the held-out validation above, each of the {items} of both halves was scored by its distance to the "
        f"nearest of {half.n_draws:,} draws. The AUC of telling {items} of the fitted half from held-out ones is "
        f"{number(half.membership_auc, 2)} ± {number(half.membership_auc_std, 2)}, where 0.5 is chance and 1 is "
        f"certainty. This tests the method at this setting on these data, not single {items}; more draws reveal more."
    )
    content = [
        tag("h3", "Distance to the closest record"),
        tag("div", plot, table(("distance", "new to stored", "stored to each other"), rows), class_="plots"),
        tag("h3", "Membership inference"),
        tag("p", tested if half.splits else f"Membership inference was not tested: {half.reason}."),
    ]
    return joined([callout("bad", "Samples reveal their sources", warning), *content] if reveals else content)


def _measured_on(n_some: int, n: int) -> str:
    """A sentence that says that not all were measured, where that is so."""
    return f" Measured on {n_some:,} of the {n:,}, evenly spaced." if n_some < n else ""
