"""The page of a report: its header and its sections."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

import numpy as np

from .._backend.files import require_file
from .._backend.html import Html, figure, fold, join, name, number, pairs, share, table, tag, text
from .._version import __version__
from ..core import temperature
from ..core.memory import MemoryBank
from ..core.neighbors import spaced_indices
from ..core.temperature import BetaRule
from ..evaluation.fidelity import AGREEMENT, PARTS, TAILS, TRAINING, TWO_SAMPLE, WITHIN
from ..evaluation.split_half import IDEAL, SplitHalfResult
from ..kinds.codec import Items, condition_text
from ..kinds.display import GalleryItems
from ..kinds.generator import HasRows
from ..kinds.kind import AnyKind
from ..kinds.options import given_options
from ..kinds.summary import RunSummary
from ..synthesizer.synthesizer import Synthesizer
from . import figures
from .checks import Verdict
from .evidence import Evidence, quantile
from .figures import overlays

# Of a check: the sign, the CSS class of its color, and what a screen reader says.
SIGNS = {True: ("✓", "good", "passed"), False: ("✗", "bad", "failed"), None: ("·", "open", "not checked")}
MAX_NOTES = 50
MAX_MARK = 1000  # bytes at the beginning of a page that hold its mark
Pairs: TypeAlias = Sequence[tuple[str, str]]
STYLE = files(__package__).joinpath("style.css").read_text("utf-8")
_MARK = '<meta name="generator" content="stochattn report">'
"""The mark of a page of this package, which a later report may replace."""
_HEAD = f"""<meta charset="utf-8">{_MARK}\
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">\
<meta name="viewport" content="width=device-width, initial-scale=1">\
<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">\
<link rel="icon" href="data:,">"""


def document(title: str, kind: AnyKind, *children: str) -> str:
    """Return a complete page that loads nothing and runs no script."""
    head = f"{_HEAD}<title>{text(title)}</title><style>{STYLE}{kind.display.style}</style>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{join(children, chr(10))}</body></html>\n'


def require_page(name: str, path: Path, *, replace: bool = False) -> None:
    """Raise InputError, before any work, if the page cannot be written or would replace a file that is not a report."""
    require_file(name, path, lambda page: _MARK.encode() in page.read_bytes()[:MAX_MARK], replace)


def page_header(evidence: Evidence, verdict: Verdict, settings: Pairs, contents: Pairs) -> Html:
    """Title, verdict, key figures, settings, and links to the sections (anchor, title)."""
    kind, half = evidence.synth.kind, evidence.split_half
    checks = list_findings((check.finding, check.passed) for check in verdict.checks if check.finding)
    spread = "" if math.isnan(half.membership_auc_std) else f" ± {number(half.membership_auc_std, 2)}"
    novelty, stored = round(float(evidence.to_stored.novelty.mean()), 9), number(evidence.stored_diversity, 2)
    figures = (
        (number(novelty), "mean novelty: 1 − cosine to the nearest stored row"),
        (
            f"{share(evidence.copies)} · {share(evidence.too_close)}",
            f"exact copies · near-copies, closer to a stored {kind.item} than 99 % of these are to each other",
        ),
        (number(evidence.diversity, 2), f"diversity; the stored {kind.items} have {stored}"),
        (f"{number(half.membership_auc, 2)}{spread}", "AUC of membership inference; 0.5 is chance"),
    )
    tiles = (tag("div", tag("b", value), tag("span", meaning), class_="tile") for value, meaning in figures)
    return tag(
        "header",
        tag("p", "stochattn report", class_="eyebrow"),
        tag("h1", f"{count_items(kind, evidence.n, 'new')} from {evidence.synth.codec.K:,} stored"),
        callout(verdict.tone, verdict.headline, verdict.advice, checks),
        tag("div", *tiles, class_="tiles"),
        pairs(settings),
        tag("nav", *(tag("a", title, href=f"#{anchor}") for anchor, title in contents), aria_label="Contents"),
    )


def list_findings(findings: Iterable[tuple[str, bool | None]]) -> Html:
    """Return a list of findings, each with a sign that says whether it passed."""
    lines = []
    for finding, passed in findings:
        sign, tone, spoken = SIGNS[passed]
        mark = tag("span", sign, class_=f"sign {tone}", aria_label=spoken, role="img")
        lines.append(tag("li", mark, tag("span", finding)))
    return tag("ul", *lines)


def settings(
    synth: Synthesizer, n: int, seed: int, source: str | None, samples: str | None, summary: RunSummary | None
) -> Pairs:
    """Name and describe what was stored, what was made and how; the arguments are those of `make_report`."""
    K, n_used, description = synth.codec.K, len(synth.kept), synth.describe()
    rows: dict[str, str] = {
        "Stored": text(count_items(synth.kind, K) + (f", {n_used:,} of them used" if n_used < K else "")),
        "Source": "" if source is None else name(source, 120),
        "New": text(count_items(synth.kind, n)),
        "Read from": name(samples, 120) if samples else text("drawn for this report"),
    }
    if samples is not None and summary is None:
        compared = f"{description.summary}; predictions and validation are for this generator"
        rows["Made by"] = text("not known: there is no summary beside the samples")
        rows["Compared with"] = text(compared, 300)
    else:
        options, conditions = (
            ", ".join(condition_text(key, value) for key, value in values.items())
            for values in (given_options(synth.choice.options), synth.conditions)
        )
        conditions = ", ".join(summary.conditions if summary is not None else ()) or conditions or "none"
        rows |= {
            "Generator": text(f"{description.name}: {description.summary}", 300),
            "Options": name(options, 200) if options else "",
            "Settings": "as recorded by the run that made them" if synth.generator_fit.resolved else "",
            "Conditions": name(conditions, 200),
            "Weights": "unequal" if np.ptp(synth.weights[synth.kept]) > 0 else "",
            "Seed": text(seed if summary is None else summary.seed),
            "Version": text(f"stochattn {__version__ if summary is None else summary.version}"),
        }
    return [(key, value) for key, value in rows.items() if value]


def making(evidence: Evidence, settings: Pairs, command: str | None, reword: Callable[[str], str] = str) -> Html:
    """Show settings, notes, what encoding loses, and the command that makes the items again, if there is one.

    reword: rewrites a note in terms of what the reader types
    """
    (n_rows, d), notes = evidence.synth.stored_rows.shape, evidence.synth.codec.notes
    has_rows = isinstance(evidence.synth.generator, HasRows)  # other generators draw features
    size = ("Rows of p_beta" if has_rows else "Features", f"{n_rows:,} × {d:,}")
    loss = size, ("Lost in encoding", text(evidence.loss))
    note_list = tag("ul", *(tag("li", text(reword(note), 400)) for note in notes[:MAX_NOTES]))
    content = [
        pairs([*settings, *loss, ("Report by", f"stochattn {__version__}")]),
        tag("h3", "Notes from reading"),
        note_list if notes else tag("p", "None: nothing was dropped, changed or assumed."),
    ]
    if len(notes) > MAX_NOTES:
        content.append(tag("p", f"{len(notes) - MAX_NOTES:,} more notes are left out.", class_="note"))
    if command is not None:
        content += [tag("h3", "To make it again"), tag("pre", text(command, 2000))]
    return join(content)


def callout(tone: str, headline: str, advice: str, *children: str) -> Html:
    """Return a box with a headline in the color of its tone."""
    title = tag("strong", headline, class_="headline")
    return tag("div", title, tag("span", advice), *children, class_=f"verdict {tone}")


def count_items(kind: AnyKind, n: int, adjective: str = "") -> str:
    """Say how many items of this kind there are, such as “3 new rows”."""
    return " ".join(filter(None, (f"{n:,}", adjective, kind.item if n == 1 else kind.items)))


def explain(title: str, meaning: str) -> Html:
    """Return the name of a measure with its meaning below."""
    return join([tag("b", text(title)), tag("span", text(meaning, 1000), class_="soft")])


MAX_SHOWN, MAX_PARTS, MAX_OPEN_PARTS = 24, 60, 12  # items of the gallery, parts, parts that show without a click
N_PROBES, N_BETAS, BETA_FACTOR = 128, 61, 30  # of the entropy curve, and how far it extends beyond the marked betas
_REAL = "share of held-out items whose nearest neighbor among held-out and new items is held-out"
HELD_OUT = {  # title, value of copies of the fitted half, and meaning of each of `HeldOutMetrics`
    "train_proximity": ("train proximity", 1.0, "share of new items nearer to the fitted half than to the other"),
    "novelty_ratio": ("novelty ratio", 0.0, "median distance to the fitted half, divided by that of held-out items"),
    "near_copies": ("near-copies", 1.0, "share nearer to the fitted half than 99 % of held-out items are"),
    "nn_accuracy_real": ("nearest-neighbor accuracy, held-out", None, _REAL),
    "nn_accuracy_new": ("nearest-neighbor accuracy, new", None, "share of new items whose nearest item is new"),
}

SCORES = {
    PARTS: "Mean distance of the parts from those of held-out items, from 0 to 1.",
    TWO_SAMPLE: "Accuracy of a nearest neighbor or a forest that distinguishes these items from held-out ones.",
    TAILS: "How much heavier or lighter than those of held-out items the tails of each feature are, as a log ratio.",
    TRAINING: "Share of held-out items whose class is predicted by a classifier trained on these items.",
    AGREEMENT: "Share of these items whose class is predicted by a classifier trained on held-out items.",
    WITHIN: "Distance of features from those of held-out items of the same class, in standard deviations.",
}


def gallery(synth: Synthesizer, items: Items) -> Html:
    """Show evenly spaced new items, each beside the nearest stored item."""
    kind, codec, n = synth.kind, synth.codec, len(items)
    indices = spaced_indices(n, MAX_SHOWN)
    examples = codec.take(items, indices)
    nearest, extra = kind.measures.annotate(codec, examples, n)
    cards = kind.display.gallery(codec, GalleryItems(examples, indices, nearest, synth.novelty(examples), extra))
    is_complete = n == len(indices)
    subject = (
        f"Each new {kind.item}" if is_complete else f"{len(indices)} of {n:,} new {kind.items}, evenly spaced, each"
    )
    return join([tag("p", f"{subject} beside the stored {kind.item} nearest to it."), cards])


def fidelity(evidence: Evidence) -> Html:
    """Show measures of the whole, then the parts by descending distance."""
    items, part = evidence.synth.kind.items, evidence.synth.kind.part
    resampled = {measure.name: measure.value for measure in evidence.resampled.measures}
    measures = [
        (explain(m.name, m.meaning), number(m.value), number(m.ideal), number(resampled.get(m.name)))
        for m in evidence.comparison.measures
    ]
    about = (
        "Each measure of the new items, its ideal value and, as “resampled”, its value for as many stored "
        f"{items} drawn with replacement, which is the best that a finite number can reach."
        f"{_describe_sample(evidence.n_compared, evidence.n)}"
    )
    content = [
        tag("p", about),
        table(("measure", "new", "ideal", "resampled"), measures, "measures"),
        tag("h3", f"Each {part}, by descending distance"),
        tag("p", "A distance of 0 means the same distribution, 1 means no overlap.", class_="note"),
    ]
    parts = sorted(evidence.comparison.parts, key=lambda p: -p.distance if math.isfinite(p.distance) else math.inf)
    head, rows = (part, "distance", "stored", "new"), []
    for p in parts[:MAX_PARTS]:
        width = 100 * min(max(p.distance, 0.0), 1.0) if math.isfinite(p.distance) else 0.0
        bar = f'<span class="bar"><i style="width:{width:.1f}%"></i></span>{text(number(p.distance))}'
        rows.append((name(p.name), Html(bar), text(p.stored), text(p.new)))
    content.append(table(head, rows[:MAX_OPEN_PARTS], "parts"))
    if len(rows) > MAX_OPEN_PARTS:
        content.append(fold(f"{len(rows) - MAX_OPEN_PARTS} more", table(head, rows[MAX_OPEN_PARTS:], "parts")))
    if len(parts) > MAX_PARTS:
        note = f"{len(parts) - MAX_PARTS:,} more with smaller distances are left out."
        content.append(tag("p", note, class_="note"))
    return join([*content, overlays(parts, part)])


def held_out_validation(synth: Synthesizer, result: SplitHalfResult) -> Html:
    """Show metrics, mean ± standard deviation over splits, beside those of the fitted half itself."""
    if not result.splits:
        return tag("p", f"There is no held-out validation: {result.reason}.")
    kind, temperature = synth.kind, synth.describe().temperature
    if result.quick:
        method = "with the settings that were chosen for all"
    elif temperature is not None and temperature.rule is BetaRule.GIVEN:
        method = "at the same β"
    else:
        method = "with its settings chosen by the same rules"
    about = (
        f"{result.n_items:,} of {synth.codec.K:,} stored {kind.items} were split into halves at random, "
        f"{len(result.splits)} times. One half was fitted, {method}, {result.n_draws:,} new {kind.items} were drawn "
        "from it, and these were compared with the other half, which the method had not seen. The column “fitted half” "
        f"shows the same measures of the fitted {kind.items} themselves: faithful, but not new. Measures in the lower "
        "rows compare with the held-out half. With all items stored, the method has more data than here."
    )
    n_vectors = len(kind.measures.comparable(synth.codec, synth.codec.take(synth.codec.stored, np.arange(1))))
    if n_vectors > 1:
        about += f" Distances are between parts of {kind.items}, {n_vectors} per {kind.item}, not between whole ones."
    if synth.conditions:
        about += " Conditions were left out here, because the held-out half does not meet them."
    if np.ptp(synth.weights[synth.kept]) > 0:
        about += f" Weights were left out here: all {kind.items} count alike."
    rows, splits = [], result.splits
    for field, (title, copies, meaning) in HELD_OUT.items():
        new = _mean([getattr(split.metrics, field) for split in splits])
        rows.append((explain(title, meaning), new, number(copies, 2), number(getattr(IDEAL, field))))
    for i, measure in enumerate(splits[0].new):
        new, fitted = (_mean([getattr(split, side)[i].value for split in splits]) for side in ("new", "stored"))
        ideals = [ideal for split in splits if (ideal := split.new[i].ideal) is not None]  # it may depend on the half
        mean = number(float(np.mean(ideals)) if ideals else None)
        rows.append((explain(measure.name, measure.meaning), new, fitted, mean))
    scores = [split.fidelity.scores for split in splits if split.fidelity is not None]
    for title, meaning in SCORES.items():
        values = [[split_scores[title][i] for split_scores in scores if title in split_scores] for i in range(3)]
        if values[0]:
            new, fitted, worst = map(_mean, values)
            rows.append((explain(title, f"{meaning} Worst: {worst}."), new, fitted, "–"))
    return join([tag("p", about), table(("measure", "new", "fitted half", "ideal"), rows, "measures")])


def _mean(values: Sequence[float]) -> str:
    """Format mean ± standard deviation of the finite values."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return "–"
    spread = f" ± {number(float(np.std(finite, ddof=1)), 2)}" if len(finite) > 1 else ""
    return number(float(np.mean(finite)), 2) + spread


def novelty(evidence: Evidence, summary: RunSummary | None) -> Html:
    """Show how new and how diverse the items are."""
    new, stored = evidence.to_stored.novelty, evidence.among_stored.novelty
    item, items, predicted = evidence.synth.kind.item, evidence.synth.kind.items, evidence.predicted_novelty
    drawn = math.nan if summary is None or summary.novelty is None else summary.novelty
    expected = f"expected value before draws are decoded to {items}; decoding mostly lowers it"
    rows = (
        ("mean novelty", round(float(new.mean()), 9), f"of the new {items}, encoded again as rows"),
        ("predicted novelty", predicted, expected),
        ("novelty as drawn", drawn, f"mean of the draws, before decoding to {items}"),
        ("novelty of stored", quantile(stored, 0.5), f"median, each stored {item} against all others"),
        ("diversity", evidence.diversity, f"mean of 1 − cosine over all pairs of new {items}"),
        ("diversity of stored", evidence.stored_diversity, f"the same for stored {items}"),
    )
    values = [(explain(key, about), number(value)) for key, value, about in rows if math.isfinite(value)]
    values.append((explain("copies", f"equal to the nearest stored {item} in every value"), share(evidence.copies)))
    lines = {"mean": float(new.mean())} | ({"predicted": predicted} if math.isfinite(predicted) else {})
    bars = figures.histogram(new, stored, lines, "novelty, 1 − max cosine")
    caption = f"Novelty of each new {item}; the outline is the novelty of each stored {item} against all others."
    plots = [figure(bars, f"Histogram of the novelty of new and stored {items}", caption), _plot_entropy(evidence)]
    about = (
        "Novelty is 1 − the cosine to the nearest stored row. High novelty alone does not mean quality: noise is novel "
        f"too.{_describe_sample(len(evidence.rows), evidence.n)}"
    )
    return join([tag("p", about), tag("div", *plots, class_="plots"), table(("figure", "value"), values, "measures")])


def _plot_entropy(evidence: Evidence) -> Html:
    """Plot the entropy curve around the chosen beta, with the inflection if there is one."""
    chosen = evidence.synth.describe().temperature
    if chosen is None:
        return Html("")
    rows = evidence.synth.stored_rows
    bank, probes = MemoryBank(rows), rows[spaced_indices(len(rows), N_PROBES)]
    lines = {f"chosen β = {chosen.beta:.4g}": chosen.beta}
    with suppress(ValueError):  # some banks have none
        inflection = temperature.inflection(bank, probes)
        lines[f"inflection β* = {inflection:.3g}"] = inflection
    betas = np.geomspace(min(lines.values()) / BETA_FACTOR, max(lines.values()) * BETA_FACTOR, N_BETAS)
    curve = temperature.entropy_curve(bank, betas, probes)
    plot = figures.entropy(betas, curve.entropy, math.log(len(rows)), lines)
    caption = (
        f"Attention entropy against the inverse temperature β: on the left a state attends to all stored "
        f"{evidence.synth.kind.items}, on the right to one. The dotted line is uniform attention."
    )
    return figure(plot, "Entropy of attention against beta", caption)


def privacy(evidence: Evidence, reveals: bool) -> Html:
    """Show distances to the closest record and the AUC of membership inference, with a warning if it is high."""
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
    return join([callout("bad", "Samples reveal their sources", warning), *content] if reveals else content)


def _describe_sample(n_measured: int, n: int) -> str:
    """Return a sentence if not all items were measured."""
    return f" Measured on {n_measured:,} of the {n:,}, evenly spaced." if n_measured < n else ""
