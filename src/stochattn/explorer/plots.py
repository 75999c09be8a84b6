"""The plots of a page, Bokeh figures that are updated in the background, and what they show.

That is a chain of a Langevin algorithm from noise to a memory, attention weights, and curves over beta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import panel as pn
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
from ..report.figures import ItemMap
from ..report.page import STYLE
from ..synthesizer.synthesizer import Synthesizer
from .fields import SELECTED, STEPS, Field, Mark, Message, Slider, beta_range, explain_missing_knob, knob_value
from .panel import WIDE, Form, Gallery, apply, asset, box, in_thread
from .state import Drawn, Explorer, PageSettings, without_rounding

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
    """Return the items of rows (n, d) of a chain, which are nearest to the memories `basins` (n,)."""
    embedding = hopfield.embedding.at(hopfield.beta)
    z = rows * embedding.factors(hopfield.beta)[basins]
    arrays = embedding.arrays(z, basins, np.random.default_rng(0))
    return synth.codec.decode(arrays, basins)


def attention(hopfield: HopfieldGenerator, features: Array, n: int = 10) -> dict[int, float]:
    """Return the n largest weights softmax(beta X xi), by stored item, for an item with these features (p,)."""
    row = hopfield.embed(features[None])
    weights = to_numpy(energy.weights(row, hopfield.model.bank, hopfield.beta))[0]
    order = np.argsort(-weights, kind="stable")[:n]
    return dict(zip(order.tolist(), weights[order].tolist(), strict=True))


def heading(title: str, note: str) -> Html:
    """Return the heading of a plot."""
    return join([tag("h2", title), tag("p", note, class_="note")])


def attention_bars(weights: Mapping[int, float], ids: Sequence[str]) -> Html:
    """Draw attention weights of stored items as bars, or a hint if nothing is selected."""
    if not weights:
        return tag("p", "Select a new example to see which stored ones it attends to.", class_="note")
    rows = []
    for k, weight in weights.items():
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
    plot = figure(height=HEIGHT, sizing_mode="stretch_width", toolbar_location=None, min_border=2, tools="", **options)
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


def _add_line(plot: figure) -> Span:
    """Add a vertical line, which is hidden until it has a location."""
    line = Span(dimension="height", line_color=NEW, line_width=2, location=0, visible=False)
    plot.add_layout(line)
    return line


class BetaPlot:
    """Entropy of attention and novelty of draws over beta, with the present beta; recall is on the left."""

    def __init__(self) -> None:
        self.entropy, self.novelty = ColumnDataSource({"x": [], "y": []}), ColumnDataSource({"x": [], "y": []})
        self.marks = ColumnDataSource({"x": [], "name": []})
        plot = self.figure = _figure("beta", "beta", "entropy (nats)", x_axis_type="log", visible=False)
        plot.x_range, plot.y_range = Range1d(100, 1), Range1d(0, 1)
        plot.extra_y_ranges = {"novelty": Range1d(0, 1)}
        right = LinearAxis(y_range_name="novelty")
        _style(right, "novelty")
        plot.add_layout(right, "right")
        plot.vspan(x="x", source=self.marks, line_color=INK, line_dash="dotted", line_alpha=0.7)
        plot.line("x", "y", source=self.entropy, color=OLD, line_width=2)
        plot.line("x", "y", source=self.novelty, color=NEW, line_width=2, y_range_name="novelty")
        self.now = _add_line(plot)

    def show(self, curve: Curve, marks: Sequence[Mark]) -> None:
        """Show these curves and marks."""
        plot = self.figure
        plot.x_range.update(start=float(curve.beta.max()), end=float(curve.beta.min()))
        plot.y_range.end = float(max(curve.entropy.max(), 1e-9)) * 1.05
        plot.extra_y_ranges["novelty"].end = float(max(curve.novelty.max(), 1e-9)) * 1.05
        self.entropy.data = {"x": curve.beta, "y": curve.entropy}
        self.novelty.data = {"x": curve.novelty_beta, "y": curve.novelty}
        self.marks.data = {"x": [mark.value for mark in marks], "name": [mark.name for mark in marks]}

    def move(self, beta: float | None) -> None:
        """Mark the present beta, or hide the plot if there is none."""
        self.figure.visible = beta is not None
        self.now.update(visible=beta is not None, location=beta or 1.0)


class KnobPlot:
    """Mean novelty of the galleries so far over the knob of a generator without beta; recall is on the left."""

    def __init__(self) -> None:
        self._settings: PageSettings | None = None  # of the galleries so far, which differ in knob, seed and number
        self._novelties: dict[float, float] = {}
        self.points = ColumnDataSource({"x": [], "y": []})
        plot = self.figure = _figure("knob", "", "mean novelty", visible=False)
        plot.x_range, plot.y_range = Range1d(-0.03 * STEPS, 1.03 * STEPS), Range1d(0, 1)
        plot.scatter("x", "y", source=self.points, size=8, color=NEW, alpha=0.6)
        self.now = _add_line(plot)

    def show(self, slider: Slider, drawn: Drawn, value: float | None) -> None:
        """Add the novelty of a gallery at this value of the knob, and mark the value; None if it is not known."""
        settings = replace(drawn.settings, knob=None, novelty=None, n=1, seed=0)
        if settings != self._settings:
            self._settings, self._novelties = settings, {}
        if value is not None:
            self._novelties[value] = float(drawn.novelty.mean())
        x, y = [slider.position(knob) for knob in self._novelties], list(self._novelties.values())
        axis, ticks = self.figure.xaxis[0], [0, STEPS // 4, STEPS // 2, 3 * STEPS // 4, STEPS]
        axis.ticker, axis.axis_label = FixedTicker(ticks=ticks), slider.option
        axis.major_label_overrides = {tick: f"{slider.value(tick):.3g}" for tick in ticks}
        self.figure.y_range.end = max(*y, 1e-9) * 1.15 if y else 1.0
        self.points.data = {"x": x, "y": y}
        self.now.update(visible=value is not None, location=0 if value is None else slider.position(value))


class MapPlot:
    """Stored and new items along two components. A click selects one. Crosses are stored items with weight 0."""

    def __init__(self, names: Sequence[str]) -> None:
        empty: dict[str, list[object]] = {"x": [], "y": [], "id": []}
        self.stored, self.new = ColumnDataSource({**empty, "marker": []}), ColumnDataSource(dict(empty))
        self._names = list(names)
        plot = self.figure = _figure("map", "first component", "second component")
        hollow = {"fill_alpha": 0, "nonselection_fill_alpha": 0, "nonselection_line_alpha": 0.5}
        ring = {"size": 7, "line_color": OLD, "line_width": 1.3, "selection_line_width": 4, "marker": "marker"}
        old = plot.scatter("x", "y", source=self.stored, **ring, **hollow)
        for axis_range in (plot.x_range, plot.y_range):  # of stored items; new ones may lie outside
            axis_range.update(renderers=[old], range_padding=0.5)
        shape = {"size": 10, "marker": "triangle", "nonselection_alpha": 0.35}
        new = plot.scatter("x", "y", source=self.new, color=NEW, selection_line_color=INK, **shape)
        plot.add_tools(TapTool(renderers=[old, new]), HoverTool(renderers=[old, new], tooltips="@id"))

    def show_stored(self, item_map: ItemMap, left_out: AbstractSet[int]) -> None:
        """Show the stored items, and mark those with weight 0."""
        markers = [LEFT_OUT if k in left_out else COUNTED for k in range(len(self._names))]
        if markers != self.stored.data["marker"]:
            self.figure.xaxis[0].axis_label = f"first component ({item_map.shares[0]:.0%} of the variance)"
            self.figure.yaxis[0].axis_label = f"second component ({item_map.shares[1]:.0%})"
            x, y = item_map.stored.T
            self.stored.data = {"x": x, "y": y, "id": self._names, "marker": markers}

    def show_new(self, points: Array) -> None:
        """Show these new items (n, 2) in place of those before."""
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
        plot = self.figure = _figure("chain", "step", "energy", visible=False)
        plot.x_range.range_padding = 0
        plot.line("x", "y", source=self.line, color=OLD, line_width=1.6)
        plot.scatter("x", "y", source=self.crossings, size=6, color=NEW)
        self.now = _add_line(plot)

    def show(self, walk: Walk) -> None:
        """Show this chain, from its start."""
        steps = np.arange(len(walk.energies))
        crossings = np.flatnonzero(walk.basins[1:] != walk.basins[:-1]) + 1
        self.line.data = {"x": steps, "y": walk.energies}
        self.crossings.data = {"x": crossings, "y": walk.energies[crossings]}
        self.now.update(location=0, visible=True)
        self.figure.visible = True


ALGORITHM, WALK, STEP = "algorithm", "walk", "step"
TITLE_KNOB = "From recall to generation"
ABOUT_BETA = "Entropy of attention (brown) and novelty of draws (blue-green); dotted lines are the rules."
ABOUT_KNOB = "Mean novelty of the galleries that you have seen. Move the slider to add points."
BEFORE_WALK = "“Walk” starts a chain at noise and shows its energy here."


class Plots:
    """The plots below the gallery.

    on_marks:  called with the marks of the slider when they are computed
    on_select: called with the new and the stored item that were clicked on the map, -1 for none
    on_weigh:  called with changes of the weight of the selected stored item
    """

    def __init__(
        self,
        explorer: Explorer,
        on_marks: Callable[[PageSettings, Sequence[Mark]], None],
        on_select: Callable[[int, int], None],
        on_weigh: Callable[[Message], None],
    ) -> None:
        self.explorer, self._on_marks = explorer, on_marks
        self.beta, self.knob = BetaPlot(), KnobPlot()
        self.map, self.chain = MapPlot(explorer.names), ChainPlot()
        plots = self.beta, self.knob, self.map, self.chain
        self._panes = {plot.figure.name: pn.pane.Bokeh(plot.figure, **WIDE) for plot in plots}
        self._about_knob = _head(TITLE_KNOB, ABOUT_KNOB)
        kind = explorer.base.kind
        styles = [asset("theme.css"), STYLE, kind.display.style, asset("gallery.css"), asset("cards.css")]
        self.bars = pn.pane.HTML(attention_bars({}, ()), stylesheets=styles, min_height=HEIGHT, **WIDE)
        self.frame = Gallery(label="State of the chain", stylesheets=styles, visible=False, **WIDE)
        options = [{"value": name, "label": about} for name, about in ALGORITHMS.items()]
        player: list[Field] = [
            {"type": "select", "id": ALGORITHM, "label": "Algorithm", "options": options, "width": "half"},
            {"type": "button", "id": WALK, "label": "Walk", "width": "half", "low": True},
            {"type": "player", "id": STEP, "label": "Step", "steps": N_STEPS, "hint": ""},
        ]
        self.player = Form(self._on_message, label="Chain", fields=player, **WIDE)
        selected: Field = {"type": "selected", "id": SELECTED, "label": f"Selected of the stored {kind.items}"}
        self.selected = Form(on_weigh, label="Selected", fields=[selected], **WIDE)
        self._walk: tuple[HopfieldGenerator, Walk] | None = None
        self._drawn: Drawn | None = None
        self._curve_key: tuple[str, tuple[tuple[int, float], ...]] | None = None
        self._algorithm = next(iter(ALGORITHMS))
        self._update_player(0)
        self.map.new.selected.on_change("indices", lambda name, before, now: on_select(now[0], -1) if now else None)
        self.map.stored.selected.on_change("indices", lambda name, before, now: on_select(-1, now[0]) if now else None)

    def update(self, drawn: Drawn, slider: Slider | None = None) -> None:
        """Show these new items, and curves over beta, novelties over another knob, or why there is neither."""
        self._drawn, temperature = drawn, drawn.description.temperature
        beta = None if temperature is None else temperature.beta
        self.bars.object = attention_bars({}, ())
        pn.state.execute(partial(self._show_map, drawn))
        about = ABOUT_BETA if beta is not None else ABOUT_KNOB
        if beta is None and slider is None:
            about = explain_missing_knob(drawn.settings.generator, self.explorer.adjustable_generators)
        self._about_knob.object = heading(TITLE_KNOB, about)
        apply(partial(self.beta.move, beta), self._panes["beta"])
        apply(partial(self.knob.figure.update, visible=beta is None and slider is not None), self._panes["knob"])
        if beta is None and slider is not None:
            value = knob_value(drawn.settings, slider, (), drawn)
            apply(partial(self.knob.show, slider, drawn, value), self._panes["knob"])
        key = drawn.settings.generator, drawn.settings.ratios
        if beta is not None and key != self._curve_key:
            self._curve_key = key
            pn.state.execute(partial(self._show_curve, drawn.settings))

    async def _show_map(self, drawn: Drawn) -> None:
        item_map: ItemMap = await in_thread(lambda: self.explorer.item_map)
        points = item_map.project(drawn.features)

        def show() -> None:
            self.map.show_stored(item_map, {k for k, ratio in drawn.settings.ratios if ratio == 0})
            self.map.show_new(points)

        apply(show, self._panes["map"])

    async def _show_curve(self, settings: PageSettings) -> None:
        hopfield = await in_thread(self.explorer.hopfield, settings)
        if hopfield is None:
            return
        rule_marks = await in_thread(lambda: tuple(marks(hopfield)))
        self._on_marks(settings, rule_marks)
        curve: Curve = await in_thread(entropy_and_novelty, hopfield)
        apply(lambda: self.beta.show(curve, rule_marks), self._panes["beta"])

    def select(self, new: int, stored: int = -1) -> None:
        """Show which stored items a new item attends to, and where both are on the map; -1 for none."""
        drawn = self._drawn
        if drawn is None or new < 0:
            self.bars.object = attention_bars({}, ())
        else:
            stored = int(drawn.nearest[new])
            pn.state.execute(partial(self._show_attention, drawn, new))
        apply(partial(self.map.select, new, stored), self._panes["map"])

    async def _show_attention(self, drawn: Drawn, new: int) -> None:
        hopfield = await in_thread(self.explorer.hopfield, drawn.settings)
        if hopfield is not None:
            weights = await in_thread(attention, hopfield, drawn.features[new])
            self.bars.object = attention_bars(weights, self.explorer.names)

    def _on_message(self, message: Message) -> None:
        name, value = message["id"], message.get("value")
        if name == ALGORITHM and value in ALGORITHMS:
            self._algorithm = str(value)
        if name == STEP and self._walk is not None:
            position = message.get("position")
            step = min(max(position, 0), N_STEPS) if isinstance(position, int) else 0
            pn.state.execute(partial(self._show_step, step))
        elif self._drawn is not None:
            pn.state.execute(partial(self._begin_walk, self._drawn.settings))

    async def _begin_walk(self, settings: PageSettings) -> None:
        hopfield = await in_thread(self.explorer.hopfield, settings)
        if hopfield is None:
            return
        chain = await in_thread(walk, hopfield, self._algorithm, settings.seed)
        self._walk = hopfield, chain
        self.frame.visible = True
        apply(lambda: self.chain.show(chain), self._panes["chain"])
        await self._show_step(0)

    async def _show_step(self, step: int) -> None:
        if self._walk is None:
            return
        hopfield, chain = self._walk
        html = await in_thread(step_card, self.explorer.base, hopfield, chain, step)
        self.frame.param.update(html=html, drawn=step)
        apply(partial(self.chain.now.update, location=step), self._panes["chain"])
        self._update_player(step)

    def _update_player(self, step: int) -> None:
        hint = BEFORE_WALK
        if self._walk is not None:
            _, walk = self._walk
            hint = f"step {step}, energy {number(float(walk.energies[step]))}; {walk.crossings} crossings, "
            hint += f"{share(walk.acceptance)} of the steps accepted"
        self.player.state = {
            ALGORITHM: {"value": self._algorithm},
            WALK: {},
            STEP: {"position": step, "text": "", "hint": hint, "disabled": self._walk is None},
        }

    def cards(self) -> list[pn.Row]:
        """Return the plots with their headings; the last is the chain with its controls and its present state."""
        items, new = self.explorer.base.kind.items, f"new {self.explorer.base.kind.item}"
        about_map = f"Rings are stored, triangles are new {items}, and crosses are left out. Click one to select it."
        about_bars = f"softmax(beta X ξ) of the selected {new}, over stored {items}."
        about_chain = "A query walks from noise to a memory. Dots are crossings to another memory."
        left, right = box("explorer-side", self.player, self._panes["chain"]), box("explorer-side", self.frame)
        cards = [
            (self._about_knob, self._panes["beta"], self._panes["knob"]),
            (_head("Map", about_map), self._panes["map"], self.selected),
            (_head("Attention weights", about_bars), self.bars),
            (_head("A chain, step by step", about_chain), box("explorer-halves", left, right)),
        ]
        return [box("explorer-card", *card) for card in cards]


def _head(title: str, note: str) -> pn.pane.HTML:
    return pn.pane.HTML(heading(title, note), stylesheets=[asset("theme.css"), asset("cards.css")], **WIDE)
