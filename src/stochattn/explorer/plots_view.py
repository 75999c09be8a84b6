"""The plots of one page, kept up to date in the background: beta, map, chain and attention weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import panel as pn

from ..kinds.hopfield import HopfieldGenerator
from .fields import Field, Mark, Message, Slider, explain_missing_knob, knob_value, selected_fields
from .panel import WIDE, Form, Gallery, apply, asset, box, in_thread, report_style, start
from .plots import (
    ALGORITHMS,
    HEIGHT,
    N_STEPS,
    BetaPlot,
    ChainPlot,
    Curve,
    KnobPlot,
    MapPlot,
    Walk,
    attention,
    attention_bars,
    entropy_and_novelty,
    heading,
    marks,
    step_card,
    walk,
    walk_summary,
)
from .state import Drawn, Explorer, ItemMap, PageSettings, Trail

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
        self.explorer, self._on_marks, self._on_select = explorer, on_marks, on_select
        self.beta, self.knob = BetaPlot(), KnobPlot()
        self.map, self.chain = MapPlot(explorer.names), ChainPlot()
        plots = self.beta, self.knob, self.map, self.chain
        self._panes = {plot.figure.name: pn.pane.Bokeh(plot.figure, **WIDE) for plot in plots}
        self._about_knob = _head(TITLE_KNOB, ABOUT_KNOB)
        self._trail = Trail()
        kind = explorer.base.kind
        styles = [asset("theme.css"), report_style(), kind.display.style, asset("gallery.css"), asset("cards.css")]
        self.bars = pn.pane.HTML(attention_bars(None, ()), stylesheets=styles, min_height=HEIGHT, **WIDE)
        self.frame = Gallery(label="State of the chain", stylesheets=styles, visible=False, **WIDE)
        self.player = Form(self._on_message, label="Chain", fields=_player_fields(), **WIDE)
        self.selected = Form(on_weigh, label="Selected", fields=selected_fields(kind.items), **WIDE)
        self._walk: tuple[HopfieldGenerator, Walk] | None = None
        self._drawn: Drawn | None = None
        self._curve_key: tuple[str, tuple[tuple[int, float], ...]] | None = None
        self._algorithm = next(iter(ALGORITHMS))
        self._update_player(0)
        for which, source in enumerate((self.map.new, self.map.stored)):
            source.selected.on_change("indices", partial(self._click, which))

    def update(self, drawn: Drawn, beta: float | None, slider: Slider | None = None) -> None:
        """Show other new items, and the present beta or value of the knob, if the generator has one."""
        is_first, self._drawn = self._drawn is None, drawn
        self.bars.object = attention_bars(None, ())
        start(self._show_map(drawn, is_first))
        apply(partial(self.beta.move, beta), self._panes["beta"])
        self._show_knob(drawn, beta, slider)
        key = drawn.settings.generator, drawn.settings.ratios
        if beta is not None and key != self._curve_key:
            self._curve_key = key
            start(self._show_curve(drawn.settings))

    def _show_knob(self, drawn: Drawn, beta: float | None, slider: Slider | None) -> None:
        """Show the plot of the generator: curves over beta, novelties over another knob, or why there is none."""
        about = ABOUT_BETA if beta is not None else ABOUT_KNOB
        if beta is None and slider is None:
            about = explain_missing_knob(drawn.settings.generator, self.explorer.adjustable_generators)
        self._about_knob.object = heading(TITLE_KNOB, about)
        apply(partial(self.beta.figure.update, visible=beta is not None), self._panes["beta"])
        apply(partial(self.knob.figure.update, visible=beta is None and slider is not None), self._panes["knob"])
        if beta is None and slider is not None:
            value = knob_value(drawn.settings, slider, (), drawn)
            points = self._trail.add(drawn, value)
            apply(lambda: self.knob.show(slider, points, value), self._panes["knob"])

    async def _show_map(self, drawn: Drawn, is_first: bool) -> None:
        item_map: ItemMap = await in_thread(lambda: self.explorer.item_map)
        points = item_map.project(drawn.features)

        def show() -> None:
            if is_first:
                self.map.show_stored(item_map)
            self.map.show_left_out({k for k, ratio in drawn.settings.ratios if ratio == 0})
            self.map.show_new(points)

        apply(show, self._panes["map"])

    async def _show_curve(self, settings: PageSettings) -> None:
        hopfield = await in_thread(lambda: self.explorer.hopfield(settings))
        if hopfield is None:
            return
        rule_marks = await in_thread(lambda: tuple(marks(hopfield)))
        self._on_marks(settings, rule_marks)
        curve: Curve = await in_thread(lambda: entropy_and_novelty(hopfield))
        apply(lambda: self.beta.show(curve, rule_marks), self._panes["beta"])

    def select(self, new: int) -> None:
        """Show which stored items a new item attends to, and where they are on the map; -1 for none."""
        drawn = self._drawn
        stored = int(drawn.nearest[new]) if drawn is not None and new >= 0 else -1
        apply(lambda: self.map.select(new, stored), self._panes["map"])
        if drawn is None or new < 0:
            self.bars.object = attention_bars(None, ())
        else:
            start(self._show_attention(drawn, new))

    def select_stored(self, stored: int) -> None:
        """Show where a stored item is."""
        apply(lambda: self.map.select(-1, stored), self._panes["map"])

    async def _show_attention(self, drawn: Drawn, new: int) -> None:
        hopfield = await in_thread(lambda: self.explorer.hopfield(drawn.settings))
        if hopfield is not None:
            weights = await in_thread(lambda: attention(hopfield, drawn.features[new]))
            self.bars.object = attention_bars(weights, self.explorer.names)

    def _click(self, which: int, name: str, before: Sequence[int], now: Sequence[int]) -> None:
        if now:
            self._on_select(now[0] if which == 0 else -1, now[0] if which == 1 else -1)

    def _on_message(self, message: Message) -> None:
        name, value = message["id"], message.get("value")
        if name == ALGORITHM and value in ALGORITHMS:
            self._algorithm = str(value)
        if name == STEP and self._walk is not None:
            position = message.get("position")
            start(self._show_step(min(max(position, 0), N_STEPS) if isinstance(position, int) else 0))
        elif self._drawn is not None:
            start(self._begin_walk(self._drawn.settings))

    async def _begin_walk(self, settings: PageSettings) -> None:
        hopfield = await in_thread(lambda: self.explorer.hopfield(settings))
        if hopfield is None:
            return
        chain = await in_thread(lambda: walk(hopfield, self._algorithm, settings.seed))
        self._walk = hopfield, chain
        self.frame.visible = True
        apply(lambda: self.chain.show(chain), self._panes["chain"])
        await self._show_step(0)

    async def _show_step(self, step: int) -> None:
        if self._walk is None:
            return
        hopfield, chain = self._walk
        html = await in_thread(lambda: step_card(self.explorer.base, hopfield, chain, step))
        self.frame.param.update(html=html, drawn=step)
        apply(lambda: self.chain.move(step), self._panes["chain"])
        self._update_player(step)

    def _update_player(self, step: int) -> None:
        hint = BEFORE_WALK if self._walk is None else walk_summary(self._walk[1], step)
        self.player.state = {
            ALGORITHM: {"value": self._algorithm},
            WALK: {},
            STEP: {"position": step, "text": "", "hint": hint, "disabled": self._walk is None},
        }

    def cards(self) -> list[pn.Row]:
        """Return the plots with their headings."""
        items, new = self.explorer.base.kind.items, f"new {self.explorer.base.kind.item}"
        about_map = f"Rings are stored, triangles are new {items}, and crosses are left out. Click one to select it."
        about_bars = f"softmax(beta X ξ) of the selected {new}, over stored {items}."
        return [
            _card(self._about_knob, self._panes["beta"], self._panes["knob"]),
            _card(_head("Map", about_map), self._panes["map"], self.selected),
            _card(_head("Attention weights", about_bars), self.bars),
        ]

    def chain_card(self) -> pn.Row:
        """Return the chain with its controls and its present state."""
        about = "A query walks from noise to a memory. Dots are crossings to another memory."
        left, right = box("explorer-side", self.player, self._panes["chain"]), box("explorer-side", self.frame)
        return _card(_head("A chain, step by step", about), box("explorer-halves", left, right))


def _card(*children: object) -> pn.Row:
    return box("explorer-card", *children)


def _head(title: str, note: str) -> pn.pane.HTML:
    return pn.pane.HTML(heading(title, note), stylesheets=[asset("theme.css"), asset("cards.css")], **WIDE)


def _player_fields() -> list[Field]:
    options = [{"value": name, "label": about} for name, about in ALGORITHMS.items()]
    return [
        {"type": "section", "id": "chain", "label": "", "plain": True},
        {"type": "select", "id": ALGORITHM, "label": "Algorithm", "options": options, "width": "half"},
        {"type": "button", "id": WALK, "label": "Walk", "width": "half", "low": True},
        {"type": "player", "id": STEP, "label": "Step", "steps": N_STEPS, "hint": ""},
    ]
