"""Plots as SVG or PNG, the same bytes each time. No text from a file enters them: fonts here know few scripts."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._backend.arrays import Array
from .._backend.html import png, svg

NEW, OLD, INK, SOFT = "#0b7285", "#8a6d3b", "#1d2329", "#5a6570"
PALETTE = ("#8a6d3b", "#6741d9", "#c2255c", "#2f9e44", "#e8590c", "#1971c2", "#5c940d", "#862e9c")
"""Colours of classes; those beyond share the first one."""
MOST_POINTS = 2000
_LOOK = {
    "svg.hashsalt": "stochattn",
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.edgecolor": "#b9b4ab",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
}


@contextmanager
def _axes(width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """A figure of so many inches and its axes; sizes are such that text stays readable at phone width."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_LOOK):
        figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
        yield figure, figure.subplots()


def _svg(figure: Any) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return svg(buffer.getvalue())


def histogram(new: Array, stored: Array, lines: dict[str, float], label: str) -> str:
    """Shares of new values (n,) in bars and of stored ones (m,) in outline, with named vertical lines."""
    with _axes(4.4, 3.1) as (figure, axes):
        both = np.concatenate([new, stored])
        low, high = float(both.min()), float(both.max())
        edges = np.linspace(low, high if high > low else low + 1e-3, 41)
        for values, style in (
            (new, {"color": NEW, "alpha": 0.75, "label": "new"}),
            (stored, {"color": OLD, "histtype": "step", "linewidth": 1.4, "label": "stored, each left out"}),
        ):
            if len(values):
                axes.hist(values, edges, weights=np.full(len(values), 1 / len(values)), **style)
        for (name, at), dash in zip(lines.items(), ("-", "--", ":"), strict=False):
            axes.axvline(at, color=INK, linestyle=dash, linewidth=1.2, label=name)
        _crowned(axes, label, "share")
        return _svg(figure)


def cumulative(new: Array, stored: Array, limit: float | None, label: str) -> str:
    """Shares of new and of stored values below each value, with a limit marked."""
    with _axes(4.4, 3.1) as (figure, axes):
        for values, colour, name in ((new, NEW, "new to stored"), (stored, OLD, "stored to each other")):
            if len(values):
                x = np.quantile(values, np.linspace(0, 1, min(len(values), 400)))
                axes.step(x, np.linspace(0, 1, len(x)), where="post", color=colour, label=name, linewidth=1.6)
        if limit is not None:
            axes.axvline(limit, color=INK, linestyle="--", linewidth=1.0, label="closest 1 % of stored pairs")
        axes.set_xlim(left=0)
        _crowned(axes, label, "share at most so far")
        return _svg(figure)


def entropy(betas: Array, entropies: Array, ceiling: float, marks: dict[str, float]) -> str:
    """Attention entropy against beta, with named betas."""
    with _axes(4.4, 3.1) as (figure, axes):
        axes.plot(betas, entropies, color=NEW, linewidth=1.8)
        axes.axhline(ceiling, color=SOFT, linewidth=0.8, linestyle=":")
        for (name, beta), dash in zip(marks.items(), ("-", "--"), strict=False):
            axes.axvline(beta, color=INK, linestyle=dash, linewidth=1.2, label=name)
        axes.set_xscale("log")
        axes.set_xlim(float(betas[0]), float(betas[-1]))
        axes.set_ylim(bottom=0)
        _crowned(axes, "β", "attention entropy, nats")
        return _svg(figure)


def plane(stored: Array, new: Array, colours: list[str] | None, shares: Array) -> str:
    """Stored (K, 2) and new (n, 2) points, as a PNG: thousands of points would make a heavy SVG."""
    with _axes(5.2, 4.3) as (figure, axes):
        # On top where there are few of them, below where they would hide the stored ones.
        above = 3 if len(new) < len(stored) else 1
        axes.scatter(*new.T, s=9, color=NEW, alpha=0.45, linewidths=0, label="new", zorder=above)
        axes.scatter(
            *stored.T,
            s=26,
            facecolors="none",
            edgecolors=colours or OLD,
            linewidths=1.2,
            label="stored",
            zorder=2,
        )
        axes.set_xlabel(f"first component, {shares[0]:.0%} of the variance")
        axes.set_ylabel(f"second component, {shares[1]:.0%}")
        axes.margins(0.06)
        if colours is None:
            axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=200, metadata={"Software": None})
        return png(buffer.getvalue())


def _crowned(axes: Any, x: str, y: str) -> None:
    """Axis names, and the legend above the plot where it hides nothing."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, borderaxespad=0.2)
