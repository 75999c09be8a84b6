"""One page: its settings, its components, and the loop that keeps the gallery up to date."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import panel as pn

from .._backend.html import Html, joined, number, tag, text
from ..data.options import knob_of
from .actions import changed
from .background import in_thread
from .components import WIDE, Form, Gallery, asset, box, report_style
from .fields import (
    KNOB,
    SELECTED,
    STORED,
    Field,
    Mark,
    Message,
    Page,
    condition_fields,
    condition_state,
    message_of,
    selected_state,
    setting_fields,
    setting_state,
)
from .live import apply, start
from .plots_view import Plots
from .settings import Settings
from .sliders import Slider
from .state import NOVELTY, Drawn, Explorer, Superseded
from .tools_view import Tools

MAX_NOTES = 4
SLOW_SECONDS, N_PREPARED = 0.3, 8
"""Processor time from which on a gallery takes too long to follow the slider, and positions that are prepared then."""
CALCULATION_ERRORS = (ValueError, TypeError, ArithmeticError, MemoryError, OSError)
"""What impossible settings raise: the page shows the message beside the control, and stays as it was."""


class Session:
    """A page of one user. Pages share the `Explorer` and nothing else."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        first = explorer.first_settings
        self.page, self._wanted = Page(first, {}, first.conditions), first
        self.drawn: Drawn | None = None
        self.slider: Slider | None = None
        self.marks: Sequence[Mark] = ()
        self._cause, self._errors, self._working, self._closed = KNOB, dict[str, str](), False, False
        kind = explorer.base.kind
        styles = [asset("theme.css"), report_style(), kind.style, asset("gallery.css")]
        self.conditions = Form(
            self.on_message, label="Conditions", fields=condition_fields(explorer, explorer.controls), **WIDE
        )
        self.form = Form(self.on_message, label="Settings", fields=setting_fields(explorer), **WIDE)
        self.gallery = Gallery(label=f"New {kind.items}", stylesheets=styles, html=_waiting(kind.items), **WIDE)
        self.status = pn.pane.HTML(
            _status(None, kind.items), stylesheets=[asset("theme.css"), asset("status.css")], **WIDE
        )
        self.plots = Plots(explorer, self._on_marks, self._on_map, self._on_weigh)
        self.tools = Tools(explorer)
        self.gallery.param.watch(lambda event: self._on_gallery(event.new), "selected")
        self._stored, self._is_slow, self._preparing, self._prepared = -1, False, False, ""
        self._n_drawn = 0
        self._push_form()

    def on_message(self, message: Message) -> None:
        """Apply what the user did, and bring the gallery up to date."""
        self._cause = str(message["id"])
        self._errors.pop(self._cause, None)
        try:
            self.page = changed(self.page, self.explorer, self.slider, message)
        except CALCULATION_ERRORS as error:
            self._fail(error)
            return
        self._update_form()
        self.begin()

    def begin(self) -> None:
        """Start to bring the gallery up to date, unless that is going on already."""
        self._wanted = self.page.settings
        if self.drawn is not None and self.drawn.settings == self._wanted:
            self._errors = {}
            self._update_form()
        elif not self._working:
            self._working = True
            start(self._work())

    async def _work(self) -> None:
        try:
            shown: Settings | None = None
            while shown != self._wanted:
                shown = self._wanted
                self.gallery.busy = not self.explorer.is_drawn(shown)
                try:
                    drawn = await in_thread(lambda wanted=shown: self._draw(wanted))  # type: ignore[misc]
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

    def _draw(self, settings: Settings) -> Drawn:
        """The items of these settings, in a thread; and the slider, if its generator is a new one."""

        def progress(done: int, of: int) -> None:
            if self._closed or self._wanted != settings:
                raise Superseded
            self.gallery.progress = done / of

        named = knob_of(self.explorer.base.kind.generators[settings.generator])
        slider = None if named is None else Slider.of(*named, self.explorer.law(settings))
        self.slider = slider if slider is None or not self._is_slow else slider._replace(n_stops=N_PREPARED)
        return self.explorer.draw(settings, progress)

    async def _prepare(self) -> None:
        """Draw the items of all positions of the slider of a slow generator while the user looks at others."""

        def progress(done: int, of: int) -> None:
            if self._closed:
                raise Superseded

        try:
            slider, now = self.slider, self._wanted
            for i, value in enumerate([] if slider is None else slider.stops):
                if self._closed or replace(self._wanted, knob=None) != replace(now, knob=None):
                    break  # another seed or generator: these positions would not be used
                self._prepared = f"Preparing {i + 1} of {N_PREPARED + 1} positions"
                self._update_form()
                with suppress(Superseded, *CALCULATION_ERRORS):
                    await in_thread(lambda knob=value: self.explorer.draw(replace(now, knob=knob), progress))  # type: ignore[misc]
        finally:
            self._preparing, self._prepared = False, ""
            self._update_form()

    def _show(self, drawn: Drawn) -> None:
        self.drawn, self._errors = drawn, {}
        self._n_drawn += 1
        apply(self._push_gallery)
        self._update_form()
        self._is_slow = drawn.seconds > SLOW_SECONDS
        if self._is_slow and self.slider is not None and not self._preparing:
            self.slider = self.slider._replace(n_stops=N_PREPARED)
            self._preparing = True
            start(self._prepare())
        described = drawn.description.temperature
        self.plots.update(drawn, None if described is None else described.beta, self.slider)
        self.tools.update(drawn)

    def _fail(self, error: Exception) -> None:
        """Show an error beside the control that caused it; the gallery stays."""
        message = message_of(error)
        if message not in self._errors.values():  # else another control is still wrong, and has this message already
            self._errors[self._cause] = message
        if self.drawn is None:
            self.gallery.html = tag("p", f"Nothing could be drawn: {message}", class_="note")
        self._update_form()

    def _on_marks(self, settings: Settings, marks: Sequence[Mark]) -> None:
        if settings.generator == self.page.settings.generator:  # not of one that was left by now
            self.marks = marks
            self._update_form()

    def _on_gallery(self, selected: int) -> None:
        """A new item was selected in the gallery."""
        self._stored = int(self.drawn.nearest[selected]) if self.drawn is not None and selected >= 0 else -1
        self.plots.select(selected)
        self._update_form()

    def _on_map(self, new: int, stored: int) -> None:
        """An item was clicked on the map."""
        if new >= 0:
            self.gallery.selected = new
        else:
            self._stored = stored
            self._update_form()

    def _on_weigh(self, message: Message) -> None:
        """The stored item that is selected was left out, or counts more or less often."""
        self.on_message({**message, "id": STORED, "index": self._stored})

    def _push_gallery(self) -> None:
        if self.drawn is None:
            return
        stored = self._stored if self._cause == STORED else -1
        self.gallery.param.update(html=self.drawn.html, drawn=self._n_drawn, selected=-1)
        self.status.object = _status(self.drawn, self.explorer.base.kind.items)
        if stored >= 0:  # it stays selected, so that the same control takes the change back
            self._stored = stored
            self.plots.select_stored(stored)

    def _update_form(self) -> None:
        apply(self._push_form)

    def _push_form(self) -> None:
        settings = self.page.settings
        has_novelty = hasattr(self.explorer.base.kind.generators[settings.generator](), NOVELTY)
        shown = self.slider, self.marks, self.drawn, has_novelty, self.explorer.adjustable_generators
        state = setting_state(settings, *shown)
        state[KNOB]["hint"] = state[KNOB]["hint"] or self._prepared
        self.form.state = _with_errors(state, self._errors)
        self.conditions.state = _with_errors(
            condition_state(self.page, self.explorer.controls, self._stored), self._errors
        )
        selected = selected_state(settings, self.explorer.names, self._stored)
        self.plots.selected.state = {SELECTED: {**selected, "error": self._errors.get(STORED, "")}}

    def close(self) -> None:
        """End what is under way: nobody sees the page any more."""
        self._closed = True
        self.tools.close()

    def view(self) -> object:
        """What a page or a notebook shows."""
        side = box("explorer-controls", self.form, self.conditions)
        plots = box("explorer-plots", *self.plots.cards())
        main = box(
            "explorer-main",
            self.status,
            self.gallery,
            plots,
            self.plots.chain_card(),
            self.tools.verdict,
            self.tools.form,
        )
        return box("explorer", box("explorer-grid", side, main))


def _with_errors(state: dict[str, Field], errors: dict[str, str]) -> dict[str, Field]:
    return {name: {**one, "error": errors.get(name, "")} for name, one in state.items()}


def _waiting(items: str) -> Html:
    return tag("p", f"Fitting the stored {items}…", class_="note")


def _status(drawn: Drawn | None, items: str) -> Html:
    if drawn is None:
        return tag("p", f"Fitting the stored {items}…", role="status")
    about = f"{len(drawn.novelty):,} new {items} · mean novelty {number(float(drawn.novelty.mean()), 2)}"
    lines = [tag("strong", about), tag("span", text(drawn.description.summary, 300))]
    status = tag("p", joined(lines, " "), role="status", aria_live="polite")
    notes = tag("ul", *(tag("li", text(note, 300)) for note in drawn.notes[:MAX_NOTES]))
    return joined([status, notes]) if drawn.notes else status
