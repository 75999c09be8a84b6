"""The plots of a page: Bokeh figures whose data change, and what makes them readable on light and on dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, LinearAxis, Range1d, Span, TapTool
from bokeh.plotting import figure

from .._backend.arrays import Array
from .chain import Walk
from .curves import Curve
from .fields import Mark
from .item_map import ItemMap
from .sliders import STEPS, Slider

NEW, OLD, INK, GRID = "#1590a6", "#b08948", "#7d8790", "#80808030"
"""Colours with enough contrast on light and on dark."""
HEIGHT = 230
COUNTED, LEFT_OUT = "circle", "x"  # markers of stored items


def _figure(label: str, x: str, y: str, **options: object) -> figure:
    plot = figure(height=HEIGHT, sizing_mode="stretch_width", toolbar_location=None, min_border=2, **options)
    plot.background_fill_color = plot.border_fill_color = None
    plot.outline_line_color, plot.name = None, label
    for axis, title in zip((plot.xaxis[0], plot.yaxis[0]), (x, y), strict=True):
        _style(axis, title)
    plot.grid.grid_line_color = GRID
    return plot


def _style(axis: LinearAxis, title: str) -> None:
    axis.axis_label, axis.axis_label_text_font_style = title, "normal"
    axis.axis_label_text_color = axis.major_label_text_color = INK
    axis.axis_line_color = axis.major_tick_line_color = axis.minor_tick_line_color = GRID
    axis.axis_label_text_font_size = axis.major_label_text_font_size = "11px"


def _fit(range_: Range1d, values: Array, margin: float) -> None:
    """Let a range hold all values, and a share of their extent beyond them."""
    low, high = float(values.min()), float(values.max())
    more = margin * (high - low) or 1.0
    range_.update(start=low - more, end=high + more)


class BetaPlot:
    """Entropy of attention and novelty of draws over beta, with the present beta; recall is on the left."""

    def __init__(self) -> None:
        self.entropy, self.novelty = ColumnDataSource({"x": [], "y": []}), ColumnDataSource({"x": [], "y": []})
        self.marks = ColumnDataSource({"x": [], "name": []})
        plot = self.figure = _figure("beta", "beta", "entropy (nats)", x_axis_type="log", tools="", visible=False)
        plot.x_range, plot.y_range = Range1d(100, 1), Range1d(0, 1)
        plot.extra_y_ranges = {"novelty": Range1d(0, 1)}
        right = LinearAxis(y_range_name="novelty")
        _style(right, "novelty")
        plot.add_layout(right, "right")
        plot.vspan(x="x", source=self.marks, line_color=INK, line_dash="dotted", line_alpha=0.7)
        plot.line("x", "y", source=self.entropy, color=OLD, line_width=2)
        plot.line("x", "y", source=self.novelty, color=NEW, line_width=2, y_range_name="novelty")
        self.now = Span(dimension="height", line_color=NEW, line_width=2, visible=False)
        plot.add_layout(self.now)

    def show(self, curve: Curve, marks: Sequence[Mark]) -> None:
        """Show other curves and marks."""
        plot = self.figure
        plot.x_range.update(start=float(curve.beta.max()), end=float(curve.beta.min()))
        plot.y_range.end = float(max(curve.entropy.max(), 1e-9)) * 1.05
        plot.extra_y_ranges["novelty"].end = float(max(curve.novelty.max(), 1e-9)) * 1.05
        self.entropy.data = {"x": curve.beta, "y": curve.entropy}
        self.novelty.data = {"x": curve.novelty_beta, "y": curve.novelty}
        self.marks.data = {"x": [mark.value for mark in marks], "name": [mark.name for mark in marks]}

    def move(self, beta: float | None) -> None:
        """Mark the present beta, or none."""
        self.now.update(visible=beta is not None, location=beta or 1.0)


class KnobPlot:
    """Mean novelty of the galleries so far over the knob of a generator without beta; recall is on the left."""

    def __init__(self) -> None:
        self.points = ColumnDataSource({"x": [], "y": []})
        plot = self.figure = _figure("knob", "", "mean novelty", tools="", visible=False)
        plot.x_range, plot.y_range = Range1d(-0.03 * STEPS, 1.03 * STEPS), Range1d(0, 1)
        plot.scatter("x", "y", source=self.points, size=8, color=NEW, alpha=0.6)
        self.now = Span(dimension="height", line_color=NEW, line_width=2, visible=False)
        plot.add_layout(self.now)

    def show(self, slider: Slider, points: Mapping[float, float], value: float | None) -> None:
        """Show novelties by value of the knob, and the present value. Equal distances are equal ways of the slider."""
        axis, ticks = self.figure.xaxis[0], [0, STEPS // 4, STEPS // 2, 3 * STEPS // 4, STEPS]
        axis.ticker, axis.axis_label = FixedTicker(ticks=ticks), slider.option
        axis.major_label_overrides = {tick: f"{slider.value(tick):.3g}" for tick in ticks}
        self.figure.y_range.end = max(*points.values(), 1e-9) * 1.15 if points else 1.0
        self.points.data = {"x": [slider.position(one) for one in points], "y": list(points.values())}
        self.now.update(visible=value is not None, location=0 if value is None else slider.position(value))


class MapPlot:
    """Stored and new items along two components. A click selects one of them. Crosses are stored items left out."""

    def __init__(self, names: Sequence[str]) -> None:
        empty: dict[str, list[object]] = {"x": [], "y": [], "id": []}
        self.stored, self.new = ColumnDataSource({**empty, "marker": []}), ColumnDataSource(dict(empty))
        self._names = list(names)
        plot = self.figure = _figure("map", "first component", "second component", tools="")
        plot.x_range, plot.y_range = Range1d(-1, 1), Range1d(-1, 1)
        hollow = {"fill_alpha": 0, "nonselection_fill_alpha": 0, "nonselection_line_alpha": 0.5}
        ring = {"size": 7, "line_color": OLD, "line_width": 1.3, "selection_line_width": 4, "marker": "marker"}
        old = plot.scatter("x", "y", source=self.stored, **ring, **hollow)
        shape = {"size": 10, "marker": "triangle", "nonselection_alpha": 0.35}
        new = plot.scatter("x", "y", source=self.new, color=NEW, selection_line_color=INK, **shape)
        plot.add_tools(TapTool(renderers=[old, new]), HoverTool(renderers=[old, new], tooltips="@id"))

    def show_stored(self, found: ItemMap) -> None:
        """Show the stored items."""
        self.figure.xaxis[0].axis_label = f"first component ({found.shares[0]:.0%} of the variance)"
        self.figure.yaxis[0].axis_label = f"second component ({found.shares[1]:.0%})"
        for range_, values in zip((self.figure.x_range, self.figure.y_range), found.stored.T, strict=True):
            _fit(range_, values, 0.25)  # new items may lie outside
        x, y = found.stored.T
        self.stored.data = {"x": x, "y": y, "id": self._names, "marker": [COUNTED] * len(self._names)}

    def show_left_out(self, left_out: AbstractSet[int]) -> None:
        """Mark the stored items that do not count."""
        markers = [LEFT_OUT if k in left_out else COUNTED for k in range(len(self._names))]
        if markers != self.stored.data["marker"]:
            self.stored.data = {**self.stored.data, "marker": markers}

    def show_new(self, points: Array) -> None:
        """Show other new items (n, 2)."""
        self.new.selected.indices = []
        names = [f"new {i + 1}" for i in range(len(points))]
        self.new.data = {"x": points[:, 0], "y": points[:, 1], "id": names}

    def select(self, new: int, stored: int) -> None:
        """Mark a new and a stored item, -1 for none."""
        self.new.selected.indices = [new] if new >= 0 else []
        self.stored.selected.indices = [stored] if stored >= 0 else []


class ChainPlot:
    """The energy along a chain, with the step that is shown."""

    def __init__(self) -> None:
        self.line = ColumnDataSource({"x": [], "y": []})
        self.crossings = ColumnDataSource({"x": [], "y": []})
        plot = self.figure = _figure("chain", "step", "energy", tools="", visible=False)
        plot.x_range, plot.y_range = Range1d(0, 1), Range1d(0, 1)
        plot.line("x", "y", source=self.line, color=OLD, line_width=1.6)
        plot.scatter("x", "y", source=self.crossings, size=6, color=NEW)
        self.now = Span(dimension="height", line_color=NEW, line_width=2, location=0, visible=False)
        plot.add_layout(self.now)

    def show(self, walk: Walk) -> None:
        """Show another chain."""
        steps = np.arange(len(walk.energies))
        crossed = np.flatnonzero(walk.basins[1:] != walk.basins[:-1]) + 1
        self.figure.x_range.end = len(steps) - 1
        _fit(self.figure.y_range, walk.energies, 0.05)
        self.line.data = {"x": steps, "y": walk.energies}
        self.crossings.data = {"x": crossed, "y": walk.energies[crossed]}
        self.now.update(location=0, visible=True)
        self.figure.visible = True

    def move(self, step: int) -> None:
        """Mark a step."""
        self.now.location = step
