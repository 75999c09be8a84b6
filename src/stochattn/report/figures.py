"""Plots as SVG or PNG, the same bytes each time. They hold no text from files: their font has few scripts."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._backend.arrays import Array
from .._backend.html import png, svg

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
        axes.margins(0.06)  # equivalent: only the look
        ink = (INK, INK) if colours else (NEW, OLD)
        axes.scatter([], [], s=20, marker="^", c=ink[0], linewidths=0, label="new")
        axes.scatter([], [], s=26, facecolors="none", edgecolors=ink[1], linewidths=1.1, label="stored")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)  # equivalent: only the place
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
    for (name, at), dash in zip(lines.items(), ("-", "--"), strict=False):
        axes.axvline(at, color=INK, linestyle=dash, linewidth=1.2, label=name)
    axes.set(xlabel=x, ylabel=y)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, borderaxespad=0.2)  # equivalent: place
    return svg(_bytes(figure, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))))


def _bytes(figure: Any, **options: object) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, **options)
    return buffer.getvalue()
