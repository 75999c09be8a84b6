"""Log-log plots of the curves with fitted slopes and limits of the machine, and bar charts of the ratios."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .growth import slope
from .measured import MAX_OTHER_WORK, Curve, Results, Row
from .wording import figure as format_value

LIMITS = {"products": ":", "normals": "--", "memory": "-."}
COLORS = {"stochattn": "#1b6ca8", "baseline": "#c0552d", "limit": "#777777"}


def draw_curves(results: Results, path: Path) -> None:
    """Write a PNG of the curves: seconds per step of all chains over one size each."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(results.curves), figsize=(3.9 * len(results.curves), 4.5), squeeze=False)
    for axis, curve in zip(axes[0], results.curves, strict=True):
        _draw(axis, curve)
    axes[0, 0].set_ylabel("seconds per step of all chains")
    figure.tight_layout()
    figure.savefig(path, dpi=90, bbox_inches="tight")
    pyplot.close(figure)


def _draw(axis: Any, curve: Curve) -> None:
    for label, seconds in curve.series.items():
        if label in LIMITS:
            line = f"limit: {label}"
            axis.plot(curve.x, seconds, LIMITS[label], color=COLORS["limit"], linewidth=1.2, label=line)
            continue
        color = COLORS.get(label, COLORS["baseline"])
        fitted = f"{label}, slope {slope(curve.x, seconds):.2f}"
        axis.plot(curve.x, seconds, "o-", color=color, markersize=4, linewidth=1.8, label=fitted)
    axis.set(xscale="log", yscale="log", xlabel=curve.x_label)
    measured = [t for label, seconds in curve.series.items() if label not in LIMITS for t in seconds]
    axis.set_ylim(min(measured) / 100, max(measured) * 2)  # hides limits far below the curves
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.17), frameon=False)


def draw_ratios(results: Results, path: Path) -> None:
    """Write a PNG with a bar for each ratio to a baseline and a tick for each target."""
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
    colors = [_color(row) for row in rows]
    # Bars start at 1, where both are equally fast; bars to the right mean that stochattn is faster.
    axis.barh(places, [(row.value or 1) - 1 for row in rows], left=1, color=colors, height=0.65)
    for place, row in zip(places, rows, strict=True):
        end = max(row.value or 1, row.target or 1, 1)
        axis.text(end * 1.1, place, format_value(row.value, row.unit), va="center", fontsize=7.5)
        if row.target:
            axis.plot([row.target] * 2, [place - 0.42, place + 0.42], color="black", linewidth=1.8)
    axis.set_yticks(places, [_short(row) for row in rows], fontsize=7.5)
    axis.set(xscale="log", xlabel="speed relative to the baseline (tick: target; gray: disturbed)")
    axis.axvline(1, color="black", linewidth=0.8)
    axis.grid(axis="x", alpha=0.25)
    axis.margins(y=0.01)
    low, high = axis.get_xlim()
    axis.set_xlim(low, high * 2.5)
    figure.tight_layout()
    figure.savefig(path, dpi=90, bbox_inches="tight")
    pyplot.close(figure)


def _color(row: Row) -> str:
    if row.disturbed > MAX_OTHER_WORK:
        return "#b8b8b8"
    return COLORS["stochattn"] if (row.value or 0) >= 1 else COLORS["baseline"]


def _short(row: Row) -> str:
    """Label of a row without sizes and configurations, which are in the table."""
    what = re.sub(r" \(K [^)]*\)", "", row.what)
    return f"{what} / {re.split(r' [(]|, ', row.against)[0]}"
