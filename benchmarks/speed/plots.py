"""Plots of the curves of a run: log-log, with fitted slopes and the machine's limits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .growth import slope
from .measured import DISTURBING, Curve, Results, Row
from .wording import figure as figure_in_words

LIMITS = {"products": ":", "normals": "--", "memory": "-."}
COLOURS = {"stochattn": "#1b6ca8", "rival": "#c0552d", "limit": "#777777"}


def draw_curves(results: Results, path: Path) -> None:
    """The curves side by side: seconds a step of all chains against one size, as a PNG."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(results.curves), figsize=(3.9 * len(results.curves), 4.5), squeeze=False)
    for axis, curve in zip(axes[0], results.curves, strict=True):
        _draw(axis, curve)
    axes[0, 0].set_ylabel("seconds a step of all chains")
    figure.tight_layout()
    figure.savefig(path, dpi=90, bbox_inches="tight")
    pyplot.close(figure)


def _draw(axis: Any, curve: Curve) -> None:
    for label, seconds in curve.series.items():
        if label in LIMITS:
            line = f"limit: {label}"
            axis.plot(curve.x, seconds, LIMITS[label], color=COLOURS["limit"], linewidth=1.2, label=line)
            continue
        colour = COLOURS.get(label, COLOURS["rival"])
        fitted = f"{label}, slope {slope(curve.x, seconds):.2f}"
        axis.plot(curve.x, seconds, "o-", color=colour, markersize=4, linewidth=1.8, label=fitted)
    axis.set(xscale="log", yscale="log", xlabel=curve.x_label)
    measured = [t for label, seconds in curve.series.items() if label not in LIMITS for t in seconds]
    axis.set_ylim(min(measured) / 100, max(measured) * 2)  # limits far below the curves are left out
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.17), frameon=False)


def draw_ratios(results: Results, path: Path) -> None:
    """Every ratio against a rival as a bar, targets as ticks, as a PNG."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    rows = [
        row
        for row in results.rows
        if row.unit == "x" and row.part in ("chains", "exact") and row.value and not row.at_most
    ]
    figure, axis = pyplot.subplots(figsize=(8.6, 0.8 + 0.23 * len(rows)))
    places = range(len(rows))[::-1]
    colours = [_colour(row) for row in rows]
    # Bars begin at 1, where both are equally fast: to the right we are faster, to the left slower.
    axis.barh(places, [(row.value or 1) - 1 for row in rows], left=1, color=colours, height=0.65)
    for place, row in zip(places, rows, strict=True):
        end = max(row.value or 1, row.target or 1, 1)
        axis.text(end * 1.1, place, figure_in_words(row.value, row.unit), va="center", fontsize=7.5)
        if row.target:
            axis.plot([row.target] * 2, [place - 0.42, place + 0.42], color="black", linewidth=1.8)
    axis.set_yticks(places, [_short(row) for row in rows], fontsize=7.5)
    axis.set(xscale="log", xlabel="times faster than the rival (tick: target; grey: disturbed)")
    axis.axvline(1, color="black", linewidth=0.8)
    axis.grid(axis="x", alpha=0.25)
    axis.margins(y=0.01)
    low, high = axis.get_xlim()
    axis.set_xlim(low, high * 2.5)
    figure.tight_layout()
    figure.savefig(path, dpi=90, bbox_inches="tight")
    pyplot.close(figure)


def _colour(row: Row) -> str:
    if row.disturbed > DISTURBING:
        return "#b8b8b8"
    return COLOURS["stochattn"] if (row.value or 0) >= 1 else COLOURS["rival"]


def _short(row: Row) -> str:
    """What against whom, without sizes and configurations: the table has them."""
    what = re.sub(r" \(K [^)]*\)", "", row.what)
    return f"{what} / {re.split(r' [(]|, ', row.against)[0]}"
