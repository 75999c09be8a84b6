"""One page: its components, and the loop that keeps the gallery up to date."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import panel as pn

from .._backend.html import Html, join, number, tag, text
from ..kinds.options import knob_of
from ..report.page import STYLE
from . import fields
from .fields import KNOB, SELECTED, STORED, Field, Mark, Message, Page, Slider, format_error
from .panel import WIDE, Form, Gallery, apply, asset, box, in_thread
from .plots import Plots
from .state import NOVELTY, Drawn, Explorer, PageSettings, Superseded
from .tools import Tools

MAX_NOTES = 4
SLOW_SECONDS, N_PREPARED = 0.3, 8
"""Processor time above which a gallery is too slow to follow the slider, and positions that are prepared then."""
CALCULATION_ERRORS = (ValueError, TypeError, ArithmeticError, MemoryError, OSError)
"""Errors of impossible settings: the page shows the message beside the control and does not change."""


class Session:
    """A page of one user. Pages share only the `Explorer`."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        first, kind = explorer.first_settings, explorer.base.kind
        self.page = Page(first, {}, first.conditions)
        self.drawn: Drawn | None = None
        self.slider: Slider | None = None
        self.marks: Sequence[Mark] = ()
        self._cause, self._errors, self._working, self._closed = KNOB, dict[str, str](), False, False
        conditions, waiting = fields.condition_fields(explorer, explorer.controls), f"Fitting the stored {kind.items}…"
        self.conditions = Form(self.on_message, label="Conditions", fields=conditions, **WIDE)
        self.form = Form(self.on_message, label="Settings", fields=fields.setting_fields(explorer), **WIDE)
        styles = [asset("theme.css"), STYLE, kind.display.style, asset("gallery.css")]
        html = tag("p", waiting, class_="note")
        self.gallery = Gallery(label=f"New {kind.items}", stylesheets=styles, html=html, **WIDE)
        styles = [asset("theme.css"), asset("status.css")]
        self.status = pn.pane.HTML(tag("p", waiting, role="status"), stylesheets=styles, **WIDE)
        self.plots = Plots(explorer, self._on_marks, self._on_map, self._on_weigh)
        self.tools = Tools(explorer)
        self.gallery.param.watch(lambda event: self._on_gallery(event.new), "selected")
        self._stored, self._preparing = -1, ""  # an index, and what the page says while positions are prepared
        self._push_form()

    def on_message(self, message: Message) -> None:
        """Apply a change by the user, and update the gallery."""
        self._cause = str(message["id"])
        self._errors.pop(self._cause, None)
        try:
            self.page = fields.change_page(self.page, self.explorer, self.slider, message)
        except CALCULATION_ERRORS as error:
            self._fail(error)
            return
        self._update_form()
        self.begin()

    def begin(self) -> None:
        """Start to update the gallery, unless it is being updated."""
        if self.drawn is not None and self.drawn.settings == self.page.settings:
            self._errors = {}
            self._update_form()
        elif not self._working:
            self._working = True
            pn.state.execute(self._work)

    async def _work(self) -> None:
        try:
            shown: PageSettings | None = None
            while shown != self.page.settings:
                shown = self.page.settings
                self.gallery.busy = not self.explorer.has_items(shown)
                try:
                    drawn = await in_thread(self._draw, shown)
                except Superseded:
                    if self._closed:
                        break
                except CALCULATION_ERRORS as error:
                    self._fail(error)
                else:
                    self._show(drawn)
        finally:
            self._working = False
            self.gallery.param.update(busy=False, progress=0.0)

    def _draw(self, settings: PageSettings) -> Drawn:
        """Draw the items of these settings, in a thread, and update the slider."""

        def progress(done: int, total: int) -> None:
            if self._closed or self.page.settings != settings:
                raise Superseded
            self.gallery.progress = done / total

        knob_field = knob_of(self.explorer.base.kind.generators[settings.generator])
        slider = None if knob_field is None else Slider.of(*knob_field, self.explorer.default_hopfield(settings))
        if slider is not None and self.drawn is not None and self.drawn.seconds > SLOW_SECONDS:
            slider = slider._replace(n_stops=N_PREPARED)
        self.slider = slider
        return self.explorer.draw(settings, progress)

    async def _prepare(self) -> None:
        """Draw the items of all positions of the slider of a slow generator in advance."""

        def progress(done: int, total: int) -> None:
            if self._closed:
                raise Superseded

        try:
            slider, settings = self.slider, self.page.settings
            for i, value in enumerate([] if slider is None else slider.stops):
                if self._closed or replace(self.page.settings, knob=None) != replace(settings, knob=None):
                    break  # the seed or the generator has changed
                self._preparing = f"Preparing {i + 1} of {N_PREPARED + 1} positions"
                self._update_form()
                with suppress(Superseded, *CALCULATION_ERRORS):
                    await in_thread(self.explorer.draw, replace(settings, knob=value), progress)
        finally:
            self._preparing = ""
            self._update_form()

    def _show(self, drawn: Drawn) -> None:
        self.drawn, self._errors = drawn, {}
        apply(self._push_gallery)
        self._update_form()
        if drawn.seconds > SLOW_SECONDS and self.slider is not None and not self._preparing:
            self.slider, self._preparing = self.slider._replace(n_stops=N_PREPARED), "Preparing positions"
            pn.state.execute(self._prepare)
        self.plots.update(drawn, self.slider)
        self.tools.update(drawn)

    def _fail(self, error: Exception) -> None:
        """Show an error beside the control that caused it; the gallery does not change."""
        message = format_error(error)
        if message not in self._errors.values():  # otherwise another control is still wrong and shows the message
            self._errors[self._cause] = message
        if self.drawn is None:
            self.gallery.html = tag("p", f"Nothing could be drawn: {message}", class_="note")
        self._update_form()

    def _on_marks(self, settings: PageSettings, marks: Sequence[Mark]) -> None:
        if settings.generator == self.page.settings.generator:  # the user may have chosen another one
            self.marks = marks
            self._update_form()

    def _on_gallery(self, selected: int) -> None:
        """Show where the new item is that was selected in the gallery."""
        self._stored = int(self.drawn.nearest[selected]) if self.drawn is not None and selected >= 0 else -1
        self.plots.select(selected)
        self._update_form()

    def _on_map(self, new: int, stored: int) -> None:
        """Select the item that was clicked on the map."""
        if new >= 0:
            self.gallery.selected = new
        else:
            self._stored = stored
            self._update_form()

    def _on_weigh(self, message: Message) -> None:
        """Change the weight of the selected stored item."""
        self.on_message({**message, "id": STORED, "index": self._stored})

    def _push_gallery(self) -> None:
        if self.drawn is None:
            return
        stored = self._stored if self._cause == STORED else -1
        self.status.object = _status(self.drawn, self.explorer.base.kind.items)
        self._push_form()  # before the gallery, so that new items never show with old settings
        self.gallery.param.update(html=self.drawn.html, drawn=self.gallery.drawn + 1, selected=-1)
        if stored >= 0:  # it stays selected, so that the same control can undo the change
            self._stored = stored
            self.plots.select(-1, stored)

    def _update_form(self) -> None:
        apply(self._push_form)

    def _push_form(self) -> None:
        settings = self.page.settings
        has_novelty = hasattr(self.explorer.base.kind.generators[settings.generator](), NOVELTY)
        adjustable = self.explorer.adjustable_generators
        state = fields.setting_state(settings, self.slider, self.marks, self.drawn, has_novelty, adjustable)
        state[KNOB]["hint"] = state[KNOB]["hint"] or self._preparing
        self.form.state = _add_errors(state, self._errors)
        condition = fields.condition_state(self.page, self.explorer.controls, self._stored)
        self.conditions.state = _add_errors(condition, self._errors)
        selected = fields.selected_state(settings, self.explorer.names, self._stored)
        self.plots.selected.state = {SELECTED: {**selected, "error": self._errors.get(STORED, "")}}

    def close(self) -> None:
        """Stop all work, because the page is closed."""
        self._closed = True
        self.tools.close()

    def view(self) -> object:
        """Return the layout that a page or a notebook shows."""
        side = box("explorer-controls", self.form, self.conditions)
        *plots, chain = self.plots.cards()
        below = box("explorer-plots", *plots), chain, self.tools.verdict, self.tools.form
        return box("explorer", box("explorer-grid", side, box("explorer-main", self.status, self.gallery, *below)))


def _add_errors(state: dict[str, Field], errors: dict[str, str]) -> dict[str, Field]:
    return {name: {**field, "error": errors.get(name, "")} for name, field in state.items()}


def _status(drawn: Drawn, items: str) -> Html:
    about = f"{len(drawn.novelty):,} new {items} · mean novelty {number(float(drawn.novelty.mean()), 2)}"
    lines = [tag("strong", about), tag("span", text(drawn.description.summary, 300))]
    status = tag("p", join(lines, " "), role="status", aria_live="polite")
    notes = tag("ul", *(tag("li", text(note, 300)) for note in drawn.notes[:MAX_NOTES]))
    return join([status, notes]) if drawn.notes else status
