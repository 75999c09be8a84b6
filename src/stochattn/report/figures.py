"""Plots as SVG or PNG, the same bytes each time. They hold no text from files: their font has few scripts.

The map of a report: stored and new items as points of a plane, with colours for classes.

Plots of the parts of items, one above the other for stored and new: histograms of numbers, bars of categories.
"""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._backend.arrays import Array
from .._backend.html import Html, figure, join, name, number, png, share, svg, tag, text
from ..core.neighbors import spaced_indices
from ..kinds.comparison import Part, Values
from ..kinds.gallery import laid_out
from ..kinds.kind import AnyKind
from .evidence import Classes, Evidence

NEW, OLD, INK, SOFT = "#0b7285", "#8a6d3b", "#1d2329", "#5a6570"
PALETTE = ("#1f77b4", "#e8710a", "#2a9d3a", "#d62728", "#8e5bc9", "#8c564b", "#e05fb0", "#17a2b8", "#b5a300", INK)
"""Of classes."""
OTHERS = "#b9b4ab"  # of items whose class has no colour of its own
MAX_POINTS = 2000
_LOOK = {
    **{"svg.hashsalt": "stochattn", "font.size": 9, "axes.edgecolor": "#b9b4ab", "axes.labelcolor": INK},
    **{"axes.spines.top": False, "axes.spines.right": False, "xtick.color": SOFT, "ytick.color": SOFT},
    **{"legend.frameon": False, "legend.fontsize": 8},
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
}


def histogram(new: Array, stored: Array, lines: Mapping[str, float], label: str) -> str:
    """A histogram of new values (n,) and the outline of one of stored values (m,), with named vertical lines."""
    with _axes() as (figure, axes):
        both = np.concatenate([new, stored])
        low, high = float(both.min()), float(both.max())
        edges = np.linspace(low, high if high > low else low + 1e-3, 41).tolist()
        weights = [np.full(len(values), 1 / max(len(values), 1)) for values in (new, stored)]
        axes.hist(new, edges, weights=weights[0], color=NEW, alpha=0.75, label="new")
        if len(stored):
            about = "stored, against all others"
            axes.hist(stored, edges, weights=weights[1], color=OLD, histtype="step", linewidth=1.4, label=about)
        return _svg(figure, axes, lines, label, "share")


def cumulative(new: Array, stored: Array, lines: Mapping[str, float], label: str) -> str:
    """Shares of new and of stored values below each value, with named vertical lines."""
    with _axes() as (figure, axes):
        for values, colour, name in ((new, NEW, "new to stored"), (stored, OLD, "stored to each other")):
            if len(values):
                x = np.quantile(values, np.linspace(0, 1, min(len(values), 400)))
                axes.step(x, np.linspace(0, 1, len(x)), where="post", color=colour, label=name, linewidth=1.6)
        axes.set_xlim(left=0)
        return _svg(figure, axes, lines, label, "cumulative share")


def entropy(betas: Array, entropies: Array, ceiling: float, lines: Mapping[str, float]) -> str:
    """Attention entropy against beta, with named betas."""
    with _axes() as (figure, axes):
        axes.plot(betas, entropies, color=NEW, linewidth=1.8)
        axes.axhline(ceiling, color=SOFT, linewidth=0.8, linestyle=":")
        axes.set(xscale="log", xlim=(float(betas[0]), float(betas[-1])), ylim=(0, None))
        return _svg(figure, axes, lines, "β", "attention entropy, nats")


def plane(stored: Array, new: Array, shares: Array, colours: tuple[list[str], list[str]] | None) -> str:
    """Stored points (K, 2) as rings and new ones (n, 2) as triangles, of these colours where there are classes.

    shares: (2,) of the variance. It is a PNG, since an SVG of many points would be heavy.
    """
    with _axes(5.2, 4.3) as (figure, axes):
        # On top where there are few of them, below where they would hide the stored ones.
        above = 3 if len(new) < len(stored) else 1
        of_stored, of_new = colours or (OLD, NEW)
        axes.scatter(*new.T, s=17, marker="^", c=of_new, alpha=0.6, linewidths=0, zorder=above)
        axes.scatter(*stored.T, s=26, facecolors="none", edgecolors=of_stored, linewidths=1.1, zorder=2)
        first, second = (f"{value:.0%}" for value in shares)
        axes.set(xlabel=f"first component, {first} of the variance", ylabel=f"second component, {second}")
        axes.margins(0.06)
        ink = (INK, INK) if colours else (NEW, OLD)
        axes.scatter([], [], s=20, marker="^", c=ink[0], linewidths=0, label="new")
        axes.scatter([], [], s=26, facecolors="none", edgecolors=ink[1], linewidths=1.1, label="stored")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        return png(_bytes(figure, format="png", dpi=200, metadata={"Software": None}))


@contextmanager
def _axes(width: float = 4.4, height: float = 3.1) -> Iterator[tuple[Any, Any]]:
    """A figure of this size in inches and its axes; text must stay readable at the width of a phone."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_LOOK):
        figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
        yield figure, figure.subplots()


def _svg(figure: Any, axes: Any, lines: Mapping[str, float], x: str, y: str) -> str:
    """The figure with named vertical lines, axis labels, and a legend above the plot, where it hides nothing."""
    for (label, at), dash in zip(lines.items(), ("-", "--"), strict=False):
        axes.axvline(at, color=INK, linestyle=dash, linewidth=1.2, label=label)
    axes.set(xlabel=x, ylabel=y)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, borderaxespad=0.2)
    return svg(_bytes(figure, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))))


def _bytes(figure: Any, **options: object) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, **options)
    return buffer.getvalue()


def item_map(evidence: Evidence) -> Html:
    """Stored and new rows along the two directions in which the stored ones vary most, with colours for classes."""
    items, stored, new = evidence.synth.kind.items, evidence.synth.stored_rows, evidence.rows
    chosen, drawn = spaced_indices(len(stored), MAX_POINTS), spaced_indices(len(new), MAX_POINTS)
    counts = ((len(drawn), evidence.n), (len(chosen), len(stored)))
    some = [f"{shown:,} of {n:,}" if shown < n else f"All {n:,}" for shown, n in counts]
    about = (
        f"{some[0]} new and {some[1].lower()} stored {items} along the two directions in which the stored ones "
        "vary most. Triangles are new, rings are stored. "
    )
    colours, legend = None, Html("")
    classes = evidence.classes
    if classes is not None and len(set(classes.stored.tolist())) > 1:
        by_class = _colours(classes.stored)
        colours = _coloured(classes.stored[chosen], by_class), _coloured(classes.new[drawn], by_class)
        legend = join(["Colours are classes:", *_keys(by_class, classes, evidence.synth.kind), "."])
    plot = plane(*_projected(stored[chosen], new[drawn]), colours)
    about = join([about, legend])
    return figure(plot, f"Scatter plot of stored and new {items} in two principal components", about, "map")


def _colours(classes: Array) -> dict[str, str]:
    """A colour for each class (K,), or for the most frequent ones where there are more classes than colours."""
    frequent = Counter(sorted(classes.tolist())).most_common(len(PALETTE))
    return dict(zip(sorted(one for one, _ in frequent), PALETTE, strict=False))


def _coloured(classes: Array, by_class: dict[str, str]) -> list[str]:
    return [by_class.get(one, OTHERS) for one in classes.tolist()]


def _keys(by_class: dict[str, str], classes: Classes, kind: AnyKind) -> Iterator[str]:
    """The legend: a dot in the colour of each class, and how the class of a new item is known."""
    n_others = len(set(classes.stored.tolist()) - set(by_class))
    for one, colour in by_class.items():
        yield Html(f' <span class="key" style="background:{colour}"></span>{name(one, 30)}')
    if n_others:
        yield Html(f' <span class="key" style="background:{OTHERS}"></span>')
        yield f"{n_others:,} others"
    if not kind.measures.items_have_labels:
        yield f"; a new {kind.item} has that of the stored {kind.item} nearest to it"


def _projected(stored: Array, new: Array) -> tuple[Array, Array, Array]:
    """Rows in two principal components of the stored ones, and their shares of the variance: (K, 2), (n, 2), (2,)."""
    from sklearn.decomposition import PCA

    found = np.zeros((len(stored), 2)), np.zeros((len(new), 2)), np.zeros(2)
    n_components = min(2, *stored.shape)
    if np.ptp(stored, axis=0).any():  # a single row has no direction either
        solver = "randomized" if n_components < min(stored.shape) else "full"
        pca = PCA(n_components, svd_solver=solver, random_state=0).fit(stored)
        values = pca.transform(stored), pca.transform(new), pca.explained_variance_ratio_
        for place, value in zip(found, values, strict=True):
            place[..., :n_components] = value
    return found


MAX_OVERLAYS, MIN_BINS, MAX_BINS, MAX_CATEGORIES = 24, 8, 24, 8
WIDTH, HEIGHT = 240, 76
TAIL = 0.005  # share of numbers at either end that may be left outside a plot, if they are far from the others


def overlays(parts: Sequence[Part], part: str) -> Html:
    """A plot for each of the first parts that have values, under a heading; `part` is what one of them is called."""
    plotted = [one for one in parts if one.values is not None]
    if not plotted:
        return Html("")
    shown = plotted[:MAX_OVERLAYS]
    n = f"{len(shown)} of {len(plotted):,}" if len(shown) < len(plotted) else f"{len(plotted):,}"
    parts_shown = part if len(plotted) == 1 else f"{part}s"
    keys = tag("span", class_="key new"), "new  ", tag("span", class_="key old"), "stored. "
    about = f"{n} {parts_shown}, the most different first. Heights and lengths are shares of the values that are known."
    cards = [_card(one, one.values(), part) for one in shown if one.values is not None]
    heading = tag("h3", f"Distribution of each {part}")
    return join([heading, tag("p", *keys, about, class_="note"), laid_out(cards, "items overlays")])


def _card(part: Part, values: Values, called: str) -> Html:
    heading = tag("h4", tag("b", name(part.name)), f" · distance {number(part.distance)}")
    if not len(values.stored) or not len(values.new):
        return tag("div", heading, tag("p", "There are no values to compare.", class_="note"), class_="item")
    label = f"Distribution of the {called} {part.name[:60]}: stored {part.stored}; new {part.new}"
    plot = _bars(values) if values.are_names else _histogram(values)
    return tag("div", heading, tag("div", *plot, role="img", aria_label=label), class_="item")


def _bars(values: Values) -> list[Html]:
    """Two bars for each category, of which rare ones are taken together."""
    counts = [Counter(some.tolist()) for some in (values.stored, values.new)]
    before, after = (count.total() for count in counts)
    shares = {one: (counts[0][one] / before, counts[1][one] / after) for one in counts[0] | counts[1]}
    ordered = sorted(shares, key=lambda one: (-max(shares[one]), one))
    first = ordered if len(ordered) <= MAX_CATEGORIES else ordered[: MAX_CATEGORIES - 1]
    rows = [(name(one, 24), *shares[one]) for one in first]
    if others := ordered[len(first) :]:
        stored, new = (math.fsum(shares[one][i] for one in others) for i in (0, 1))
        rows.append((text(f"{len(others):,} others"), stored, new))
    longest = max(max(stored, new) for _, stored, new in rows)
    lines = []
    for title, stored, new in rows:
        pair = (("new", new), ("old", stored))
        bars = (f'<i class="{which}" style="width:{100 * value / longest:.1f}%"></i>' for which, value in pair)
        cells = title, Html("".join(bars)), f"{share(new)} / {share(stored)}"
        lines.append(tag("div", *(tag("span", cell) for cell in cells), class_="level"))
    return lines


def _histogram(values: Values) -> list[Html]:
    """Shares of new numbers as an area and of stored ones as an outline, above the ends of their range."""
    every = np.concatenate([values.stored, values.new]).astype(np.float64)
    tails = np.quantile(every, (TAIL, 1 - TAIL))
    least, most, width = every.min(), every.max(), float(np.ptp(tails))
    low, high = (max(least, tails[0] - width), min(most, tails[1] + width)) if width else (least, most)
    whole = bool((every == np.round(every)).all()) and high - low < MAX_BINS
    n_bins = min(max(math.ceil(2 * min(len(values.stored), len(values.new)) ** (1 / 3)), MIN_BINS), MAX_BINS)
    edges = np.arange(low - 0.5, high + 1) if whole else np.linspace(low, high + (low == high), n_bins + 1)
    shares = [np.histogram(some.clip(low, high), edges)[0] / len(some) for some in (values.new, values.stored)]
    new, stored = (_outline(some / np.max(shares)) for some in shares)
    lines = f'<path class="new" d="{new}"/><path class="old" d="{stored}"/>'
    plot = Html(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">{lines}</svg>')
    cut = "≤ " if low > least else "", "≥ " if high < most else ""
    ends = (sign + values.as_text(float(end)) for sign, end in zip(cut, (low, high), strict=True))
    return [plot, tag("div", *(tag("span", end) for end in ends), class_="range")]


def _outline(heights: Array) -> str:
    """The outline of bars of heights (m,) from 0 to 1 on the bottom of a plot, as the path of an SVG."""
    places, tops = np.linspace(0, WIDTH, len(heights) + 1), 2 + (HEIGHT - 3) * (1 - heights)
    bars = " ".join(f"V{y:.1f}H{x:.1f}" for x, y in zip(places[1:], tops, strict=True))
    return f"M0 {HEIGHT - 1}{bars}V{HEIGHT - 1}"
