"""Plots of a report as SVG or PNG, with the same bytes each time.

There are curves, a map of stored and new items with colors for classes, and for each part a histogram of numbers or
bars of categories. Plots hold no strings from files, because their font covers few scripts.
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
from ..kinds.display import lay_out
from ..kinds.kind import AnyKind
from .evidence import Classes, Evidence

NEW, OLD, INK, SOFT = "#0b7285", "#8a6d3b", "#1d2329", "#5a6570"
PALETTE = ("#1f77b4", "#e8710a", "#2a9d3a", "#d62728", "#8e5bc9", "#8c564b", "#e05fb0", "#17a2b8", "#b5a300", INK)
"""Colors of classes."""
OTHERS = "#b9b4ab"  # color of items whose class has none in the palette
MAX_POINTS = 2000
_LOOK = {
    **{"svg.hashsalt": "stochattn", "font.size": 9, "axes.edgecolor": "#b9b4ab", "axes.labelcolor": INK},
    **{"axes.spines.top": False, "axes.spines.right": False, "xtick.color": SOFT, "ytick.color": SOFT},
    **{"legend.frameon": False, "legend.fontsize": 8},
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
}


def histogram(new: Array, stored: Array, lines: Mapping[str, float], label: str) -> str:
    """Plot a histogram of new values (n,) and the outline of one of stored values (m,), with named vertical lines."""
    with _axes() as axes:
        values = np.concatenate([new, stored])
        low, high = float(values.min()), float(values.max())
        edges = np.linspace(low, high if high > low else low + 1e-3, 41).tolist()
        weights = [np.full(len(values), 1 / max(len(values), 1)) for values in (new, stored)]
        axes.hist(new, edges, weights=weights[0], color=NEW, alpha=0.75, label="new")
        if len(stored):
            label_stored = "stored, against all others"
            axes.hist(stored, edges, weights=weights[1], color=OLD, histtype="step", linewidth=1.4, label=label_stored)
        return _svg(axes, lines, label, "share")


def cumulative(new: Array, stored: Array, lines: Mapping[str, float], label: str) -> str:
    """Plot shares of new and of stored values below each value, with named vertical lines."""
    with _axes() as axes:
        for values, color, name in ((new, NEW, "new to stored"), (stored, OLD, "stored to each other")):
            if len(values):
                x = np.quantile(values, np.linspace(0, 1, min(len(values), 400)))
                axes.step(x, np.linspace(0, 1, len(x)), where="post", color=color, label=name, linewidth=1.6)
        axes.set_xlim(left=0)
        return _svg(axes, lines, label, "cumulative share")


def entropy(betas: Array, entropies: Array, ceiling: float, lines: Mapping[str, float]) -> str:
    """Plot attention entropy against beta, with named betas."""
    with _axes() as axes:
        axes.plot(betas, entropies, color=NEW, linewidth=1.8)
        axes.axhline(ceiling, color=SOFT, linewidth=0.8, linestyle=":")
        axes.set(xscale="log", xlim=(float(betas[0]), float(betas[-1])), ylim=(0, None))
        return _svg(axes, lines, "β", "attention entropy, nats")


def plane(stored: Array, new: Array, shares: Array, colors: tuple[list[str], list[str]] | None) -> str:
    """Plot stored points (K, 2) as rings and new points (n, 2) as triangles, in these colors if there are classes.

    shares: (2,) of the variance. The plot is a PNG, because an SVG of many points would be large.
    """
    with _axes(5.2, 4.3) as axes:
        # New points are on top if there are few of them, and below if they would hide the stored points.
        above = 3 if len(new) < len(stored) else 1
        of_stored, of_new = colors or (OLD, NEW)
        axes.scatter(*new.T, s=17, marker="^", c=of_new, alpha=0.6, linewidths=0, zorder=above)
        axes.scatter(*stored.T, s=26, facecolors="none", edgecolors=of_stored, linewidths=1.1, zorder=2)
        first, second = (f"{value:.0%}" for value in shares)
        axes.set(xlabel=f"first component, {first} of the variance", ylabel=f"second component, {second}")
        axes.margins(0.06)
        ink = (INK, INK) if colors else (NEW, OLD)
        axes.scatter([], [], s=20, marker="^", c=ink[0], linewidths=0, label="new")
        axes.scatter([], [], s=26, facecolors="none", edgecolors=ink[1], linewidths=1.1, label="stored")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        return png(_save(axes, format="png", dpi=200, metadata={"Software": None}))


@contextmanager
def _axes(width: float = 4.4, height: float = 3.1) -> Iterator[Any]:
    """Create the axes of a figure of this size in inches; labels must stay readable at the width of a phone."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_LOOK):
        yield Figure(figsize=(width, height), layout="constrained", facecolor="white").subplots()


def _svg(axes: Any, lines: Mapping[str, float], x: str, y: str) -> str:
    """Add named vertical lines, axis labels, and a legend above the plot, where it hides nothing; return the SVG."""
    for (label, position), dash in zip(lines.items(), ("-", "--"), strict=False):
        axes.axvline(position, color=INK, linestyle=dash, linewidth=1.2, label=label)
    axes.set(xlabel=x, ylabel=y)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, borderaxespad=0.2)
    return svg(_save(axes, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))))


def _save(axes: Any, **options: object) -> bytes:
    buffer = io.BytesIO()
    axes.figure.savefig(buffer, **options)
    return buffer.getvalue()


def item_map(evidence: Evidence) -> Html:
    """Plot stored and new rows along the first two principal components of the stored rows, with colors for classes."""
    items, stored, new = evidence.synth.kind.items, evidence.synth.stored_rows, evidence.rows
    chosen, drawn = spaced_indices(len(stored), MAX_POINTS), spaced_indices(len(new), MAX_POINTS)
    counts = ((len(drawn), evidence.n), (len(chosen), len(stored)))
    n_new, n_stored = (f"{shown:,} of {n:,}" if shown < n else f"All {n:,}" for shown, n in counts)
    about = (
        f"{n_new} new and {n_stored.lower()} stored {items} along the two directions in which the stored ones "
        "vary most. Triangles are new, rings are stored. "
    )
    colors, legend = None, Html("")
    classes = evidence.classes
    if classes is not None and len(set(classes.stored.tolist())) > 1:
        # The most frequent classes have colors, if there are more classes than colors.
        frequent = Counter(sorted(classes.stored.tolist())).most_common(len(PALETTE))
        by_class = dict(zip(sorted(label for label, _ in frequent), PALETTE, strict=False))
        shown = classes.stored[chosen], classes.new[drawn]
        of_stored, of_new = ([by_class.get(label, OTHERS) for label in labels.tolist()] for labels in shown)
        colors = of_stored, of_new
        legend = join(["Colors are classes:", *_list_keys(by_class, classes, evidence.synth.kind), "."])
    components = ItemMap(stored[chosen])
    plot = plane(components.stored, components.project(new[drawn]), components.shares, colors)
    about = join([about, legend])
    return figure(plot, f"Scatter plot of stored and new {items} in two principal components", about, "map")


def _list_keys(by_class: dict[str, str], classes: Classes, kind: AnyKind) -> Iterator[str]:
    """List the legend: a dot in the color of each class, and where the class of a new item comes from."""
    n_others = len(set(classes.stored.tolist()) - set(by_class))
    for label, color in by_class.items():
        yield Html(f' <span class="key" style="background:{color}"></span>{name(label, 30)}')
    if n_others:
        yield Html(f' <span class="key" style="background:{OTHERS}"></span>')
        yield f"{n_others:,} others"
    if not kind.measures.items_have_labels:
        yield f"; a new {kind.item} has that of the stored {kind.item} nearest to it"


class ItemMap:
    """Rows as points of a plane along two principal components of at most `MAX_POINTS` of the stored rows (K, d).

    stored: points of the stored rows (K, 2); shares: of the variance (2,)
    """

    def __init__(self, stored: Array, solver: str = "randomized") -> None:
        from sklearn.decomposition import PCA

        rows = stored[spaced_indices(len(stored), MAX_POINTS)]
        n = min(2, *rows.shape) if np.ptp(rows, axis=0).any() else 0  # a single row has no direction
        pca = PCA(n, svd_solver=solver if n < min(rows.shape) else "full", random_state=0)
        self._pca = pca.fit(rows) if n else None
        self.stored, self.shares = self.project(stored), np.zeros(2)
        if self._pca is not None:
            self.shares[:n] = self._pca.explained_variance_ratio_

    def project(self, rows: Array) -> Array:
        """Project rows (n, d) on points (n, 2)."""
        points = np.zeros((len(rows), 2))
        if self._pca is not None:
            points[:, : self._pca.n_components_] = self._pca.transform(rows)
        return points


MAX_OVERLAYS, MIN_BINS, MAX_BINS, MAX_CATEGORIES = 24, 8, 24, 8
WIDTH, HEIGHT = 240, 76
TAIL = 0.005  # share of numbers at either end that may be left outside a plot, if they are far from the others


def overlays(parts: Sequence[Part], part: str) -> Html:
    """Plot each of the first parts that have values, under a heading; `part` is the noun for a part."""
    plotted = [p for p in parts if p.values is not None]
    if not plotted:
        return Html("")
    shown = plotted[:MAX_OVERLAYS]
    n = f"{len(shown)} of {len(plotted):,}" if len(shown) < len(plotted) else f"{len(plotted):,}"
    parts_shown = part if len(plotted) == 1 else f"{part}s"
    keys = tag("span", class_="key new"), "new  ", tag("span", class_="key old"), "stored. "
    about = f"{n} {parts_shown}, the most different first. Heights and lengths are shares of the values that are known."
    cards = [_card(p, p.values(), part) for p in shown if p.values is not None]
    heading = tag("h3", f"Distribution of each {part}")
    return join([heading, tag("p", *keys, about, class_="note"), lay_out(cards, "items overlays")])


def _card(part: Part, values: Values, noun: str) -> Html:
    heading = tag("h4", tag("b", name(part.name)), f" · distance {number(part.distance)}")
    if not len(values.stored) or not len(values.new):
        return tag("div", heading, tag("p", "There are no values to compare.", class_="note"), class_="item")
    label = f"Distribution of the {noun} {part.name[:60]}: stored {part.stored}; new {part.new}"
    plot = _bars(values) if values.are_names else _histogram(values)
    return tag("div", heading, tag("div", *plot, role="img", aria_label=label), class_="item")


def _bars(values: Values) -> list[Html]:
    """Draw two bars for each category; rare categories are combined."""
    stored_counts, new_counts = Counter(values.stored.tolist()), Counter(values.new.tolist())
    n_stored, n_new = stored_counts.total(), new_counts.total()
    shares = {c: (stored_counts[c] / n_stored, new_counts[c] / n_new) for c in stored_counts | new_counts}
    categories = sorted(shares, key=lambda category: (-max(shares[category]), category))
    first = categories if len(categories) <= MAX_CATEGORIES else categories[: MAX_CATEGORIES - 1]
    rows = [(name(category, 24), *shares[category]) for category in first]
    if rest := categories[len(first) :]:
        stored, new = (math.fsum(shares[category][i] for category in rest) for i in (0, 1))
        rows.append((text(f"{len(rest):,} others"), stored, new))
    longest = max(max(stored, new) for _, stored, new in rows)
    lines = []
    for title, stored, new in rows:
        pair = (("new", new), ("old", stored))
        bars = (f'<i class="{css_class}" style="width:{100 * value / longest:.1f}%"></i>' for css_class, value in pair)
        cells = title, Html("".join(bars)), f"{share(new)} / {share(stored)}"
        lines.append(tag("div", *(tag("span", cell) for cell in cells), class_="level"))
    return lines


def _histogram(values: Values) -> list[Html]:
    """Draw shares of new numbers as an area and of stored numbers as an outline, above the ends of their range."""
    numbers = np.concatenate([values.stored, values.new]).astype(np.float64)
    tails = np.quantile(numbers, (TAIL, 1 - TAIL))
    smallest, largest, width = numbers.min(), numbers.max(), float(np.ptp(tails))
    low, high = smallest, largest
    if width:
        low, high = max(smallest, tails[0] - width), min(largest, tails[1] + width)
    are_integers = bool((numbers == np.round(numbers)).all()) and high - low < MAX_BINS
    n_bins = min(max(math.ceil(2 * min(len(values.stored), len(values.new)) ** (1 / 3)), MIN_BINS), MAX_BINS)
    edges = np.arange(low - 0.5, high + 1) if are_integers else np.linspace(low, high + (low == high), n_bins + 1)
    shares = [np.histogram(x.clip(low, high), edges)[0] / len(x) for x in (values.new, values.stored)]
    ends, lines = np.linspace(0, WIDTH, len(edges)), ""
    for css_class, heights in zip(("new", "old"), shares, strict=True):
        tops = 2 + (HEIGHT - 3) * (1 - heights / np.max(shares))
        bars = " ".join(f"V{y:.1f}H{x:.1f}" for x, y in zip(ends[1:], tops, strict=True))
        lines += f'<path class="{css_class}" d="M0 {HEIGHT - 1}{bars}V{HEIGHT - 1}"/>'
    plot = Html(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">{lines}</svg>')
    signs = "≤ " if low > smallest else "", "≥ " if high < largest else ""
    labels = (sign + values.as_text(float(end)) for sign, end in zip(signs, (low, high), strict=True))
    return [plot, tag("div", *(tag("span", label) for label in labels), class_="range")]
