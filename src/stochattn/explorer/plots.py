"""The plots of a page: Bokeh figures whose data change, their data, and small parts of the page as HTML.

The data are a chain of a Langevin algorithm from noise to a memory, attention weights, and curves over beta.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, LinearAxis, Range1d, Span, TapTool
from bokeh.plotting import figure

from .._backend.arrays import Array, to_numpy
from .._backend.console import hide_warnings
from .._backend.html import Html, join, name, number, share, tag
from .._backend.random import Purpose, generator
from ..core import energy, temperature
from ..core.neighbors import spaced_indices
from ..core.temperature import RULES, BetaRule
from ..kinds.codec import Items
from ..kinds.display import GalleryItems
from ..kinds.hopfield import HopfieldGenerator
from ..synthesizer.synthesizer import Synthesizer
from .fields import STEPS, Mark, Slider, beta_range
from .state import ItemMap, without_rounding

N_STEPS = 300
ALGORITHMS = {"ula": "Algorithm 1 (unadjusted)", "mala": "Algorithm 2 (Metropolis-adjusted)"}
STEP_SIZE = 0.05  # alpha: a relaxation time is 20 steps


class Walk(NamedTuple):
    """A chain of n steps and its start: rows (n + 1, d), energies (n + 1,), and the nearest memory (n + 1,)."""

    rows: Array
    energies: Array
    basins: Array
    acceptance: float

    @property
    def crossings(self) -> int:
        """How often the nearest memory of the chain changes."""
        return int((self.basins[1:] != self.basins[:-1]).sum())


def walk(hopfield: HopfieldGenerator, algorithm: str, seed: int, n_steps: int = N_STEPS) -> Walk:
    """Run a chain that starts at noise: a random direction, as long as the longest memory."""
    model, bank = hopfield.model, hopfield.model.bank
    start = generator(seed, Purpose.ORDER).standard_normal(bank.d)
    start *= (bank.M or 1.0) / np.linalg.norm(start)
    with hide_warnings():
        draws = model.run(
            sampler=algorithm,
            start=start[None],
            n_chains=1,
            n_steps=n_steps,
            keep=range(1, n_steps + 1),
            rng=seed,
            progress=False,
            alpha=STEP_SIZE,
        )
    rows = np.concatenate([start[None], to_numpy(draws.samples)[0]])
    energies = np.append(float(to_numpy(model.energy(start[None]))[0]), draws.energies[0])
    first = int(np.argmax(to_numpy(energy.weights(start[None], bank, model.beta))[0]))
    return Walk(rows, energies, np.append(first, draws.basins[0]), float(draws.acceptance[0]))


def decode(synth: Synthesizer, hopfield: HopfieldGenerator, rows: Array, basins: Array) -> Items:
    """Decode rows (n, d) of a chain, nearest to the memories `basins` (n,), to items."""
    embedding = hopfield.embedding.at(hopfield.beta)
    z = rows * embedding.factors(hopfield.beta)[basins]
    arrays = embedding.arrays(z, basins, np.random.default_rng(0))
    return synth.codec.decode(arrays, basins)


class Attention(NamedTuple):
    """The memories with the largest attention weights, in descending order."""

    indices: Array
    weights: Array


def attention(hopfield: HopfieldGenerator, features: Array, n: int = 10) -> Attention:
    """Return the n largest of softmax(beta X xi), over stored items, for an item with these features (p,)."""
    row = hopfield.embed(features[None])
    weights = to_numpy(energy.weights(row, hopfield.model.bank, hopfield.beta))[0]
    order = np.argsort(-weights, kind="stable")[:n]
    return Attention(order, weights[order])


def heading(title: str, note: str) -> Html:
    """Return the heading of a plot."""
    return join([tag("h2", title), tag("p", note, class_="note")])


def attention_bars(attention: Attention | None, ids: Sequence[str]) -> Html:
    """Draw attention weights as bars, the largest first, or a hint if nothing is selected."""
    if attention is None:
        return tag("p", "Select a new example to see which stored ones it attends to.", class_="note")
    rows = []
    for k, weight in zip(attention.indices.tolist(), attention.weights.tolist(), strict=True):
        bar = Html(f'<span class="bar"><i style="width:{100 * weight:.1f}%"></i></span>')
        cells = tag("span", name(ids[k], 40)), bar, tag("span", share(weight))
        rows.append(tag("li", *cells))
    return tag("ul", *rows, class_="bars", aria_label="attention weights")


def step_card(synth: Synthesizer, hopfield: HopfieldGenerator, walk: Walk, step: int) -> Html:
    """Show the state of a chain after a step, beside the nearest memory."""
    basin, kind, codec = walk.basins[step : step + 1], synth.kind, synth.codec
    items = decode(synth, hopfield, walk.rows[step : step + 1], basin)
    nearest, extra = kind.measures.annotate(codec, items, 1)
    novelty = without_rounding(synth.novelty(items))
    gallery = GalleryItems(items, np.array([step - 1]), nearest, novelty, extra, with_differences=True)
    return kind.display.gallery(codec, gallery)


def walk_summary(walk: Walk, step: int) -> str:
    """Describe a chain at a step in words."""
    figures = f"step {step}, energy {number(float(walk.energies[step]))}"
    return f"{figures}; {walk.crossings} crossings, {share(walk.acceptance)} of the steps accepted"


N_BETAS, N_NOVELTIES, MAX_PROBES = 60, 24, 128
ABOUT_RULES = {
    BetaRule.NATURAL: "draws are as far from the stored items as these are from each other",
    BetaRule.INFLECTION: "where attention turns sharp (Eq. 11)",
    BetaRule.KNEE: "the rule of the published scripts",
    BetaRule.LEAVE_ONE_OUT: "the most likely beta for each item given the others",
}


class Curve(NamedTuple):
    """Mean entropy of attention in nats over betas (m,), and mean novelty of draws over fewer betas (k,)."""

    beta: Array
    entropy: Array
    novelty_beta: Array
    novelty: Array


def entropy_and_novelty(hopfield: HopfieldGenerator) -> Curve:
    """Compute both curves, from diffuse attention to recall."""
    bank, equal = hopfield.bank.active, hopfield.embedding.equal_weights
    betas = np.geomspace(*beta_range(hopfield), N_BETAS)
    probes = bank.patterns[spaced_indices(bank.K, MAX_PROBES)]
    with hide_warnings():
        entropy = temperature.entropy_curve(bank, betas, probes).entropy
        novelty = temperature.novelty_curve(bank, equal_weights=equal)
        novelty_betas = betas[spaced_indices(N_BETAS, N_NOVELTIES)]
        return Curve(betas, entropy, novelty_betas, np.array([novelty(float(beta)) for beta in novelty_betas]))


def marks(hopfield: HopfieldGenerator) -> Iterator[Mark]:
    """Compute the beta of each rule, one after another."""
    bank, equal = hopfield.bank.active, hopfield.embedding.equal_weights
    for rule in RULES:
        with hide_warnings():
            try:
                beta = temperature.by_rule(bank, rule, equal_weights=equal)
            except ValueError:  # the rule finds no beta for these memories
                continue
        yield Mark(rule.replace("_", "-"), beta, ABOUT_RULES[rule])


NEW, OLD, INK, GRID = "#1590a6", "#b08948", "#7d8790", "#80808030"
"""Colors with enough contrast in a light and in a dark theme."""
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
    """Fit a range to values, with a margin as a share of their extent."""
    low, high = float(values.min()), float(values.max())
    width = margin * (high - low) or 1.0
    range_.update(start=low - width, end=high + width)


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
        """Show novelties by value of the knob, and the present value, on the scale of the slider."""
        axis, ticks = self.figure.xaxis[0], [0, STEPS // 4, STEPS // 2, 3 * STEPS // 4, STEPS]
        axis.ticker, axis.axis_label = FixedTicker(ticks=ticks), slider.option
        axis.major_label_overrides = {tick: f"{slider.value(tick):.3g}" for tick in ticks}
        self.figure.y_range.end = max(*points.values(), 1e-9) * 1.15 if points else 1.0
        self.points.data = {"x": [slider.position(x) for x in points], "y": list(points.values())}
        self.now.update(visible=value is not None, location=0 if value is None else slider.position(value))


class MapPlot:
    """Stored and new items along two components. A click selects an item. Crosses are stored items left out."""

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

    def show_stored(self, item_map: ItemMap) -> None:
        """Show the stored items."""
        self.figure.xaxis[0].axis_label = f"first component ({item_map.shares[0]:.0%} of the variance)"
        self.figure.yaxis[0].axis_label = f"second component ({item_map.shares[1]:.0%})"
        for range_, values in zip((self.figure.x_range, self.figure.y_range), item_map.stored.T, strict=True):
            _fit(range_, values, 0.25)  # new items may lie outside
        x, y = item_map.stored.T
        self.stored.data = {"x": x, "y": y, "id": self._names, "marker": [COUNTED] * len(self._names)}

    def show_left_out(self, left_out: AbstractSet[int]) -> None:
        """Mark the stored items with weight 0."""
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
        crossings = np.flatnonzero(walk.basins[1:] != walk.basins[:-1]) + 1
        self.figure.x_range.end = len(steps) - 1
        _fit(self.figure.y_range, walk.energies, 0.05)
        self.line.data = {"x": steps, "y": walk.energies}
        self.crossings.data = {"x": crossings, "y": walk.energies[crossings]}
        self.now.update(location=0, visible=True)
        self.figure.visible = True

    def move(self, step: int) -> None:
        """Mark a step."""
        self.now.location = step
