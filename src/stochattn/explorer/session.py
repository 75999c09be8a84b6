"""One page: its settings, its components, and the loop that keeps the gallery up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import panel as pn

from .._backend.html import Html, joined, number, tag, text
from ..data.options import knob_of
from .actions import changed
from .background import in_thread
from .components import Form, Gallery, asset, report_style
from .fields import (
    KNOB,
    Field,
    Mark,
    Message,
    Page,
    condition_fields,
    condition_state,
    setting_fields,
    setting_state,
)
from .settings import Settings
from .sliders import Slider
from .state import NOVELTY, Drawn, Explorer, Superseded

WIDE = {"sizing_mode": "stretch_width", "margin": 0}
CALCULATION_ERRORS = (ValueError, TypeError, ArithmeticError, MemoryError)
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
        self._cause, self._errors, self._working = KNOB, dict[str, str](), False
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
        self._update_form()

    def on_message(self, message: Message) -> None:
        """Apply what the user did, and bring the gallery up to date."""
        self._cause = str(message["id"])
        try:
            self.page = changed(self.page, self.explorer, self.slider, message)
        except CALCULATION_ERRORS as error:
            self._fail(error)
            return
        self._errors = {}
        self._update_form()
        self.begin()

    def begin(self) -> None:
        """Start to bring the gallery up to date, unless that is going on already."""
        self._wanted = self.page.settings
        if not self._working:
            self._working = True
            task = asyncio.get_running_loop().create_task(self._work())
            task.add_done_callback(lambda done: None if done.cancelled() else done.result())

    async def _work(self) -> None:
        try:
            shown: Settings | None = None
            while shown is not self._wanted:
                shown = self._wanted
                self.gallery.busy = not self.explorer.is_drawn(shown)
                try:
                    drawn = await in_thread(lambda wanted=shown: self._draw(wanted))  # type: ignore[misc]
                except Superseded:
                    continue
                except CALCULATION_ERRORS as error:
                    self._fail(error)
                else:
                    self._show(drawn)
        finally:
            self._working = False
            self.gallery.busy = False

    def _draw(self, settings: Settings) -> Drawn:
        """The items of these settings, in a thread; and the slider, if its generator is a new one."""

        def progress(done: int, of: int) -> None:
            if self._wanted is not settings:
                raise Superseded

        drawn = self.explorer.draw(settings, progress)
        named = knob_of(self.explorer.base.kind.generators[settings.generator])
        self.slider = None if named is None else Slider.of(*named, self.explorer.hopfield(settings))
        return drawn

    def _show(self, drawn: Drawn) -> None:
        self.drawn = drawn
        self.gallery.param.update(html=drawn.html, drawn=self.gallery.drawn + 1, selected=-1)
        self.status.object = _status(drawn, self.explorer.base.kind.items)
        self._update_form()

    def _fail(self, error: Exception) -> None:
        """Show an error beside the control that caused it; the gallery stays."""
        self._errors = {self._cause: " ".join(str(error).split()) or type(error).__name__}
        self._update_form()

    def _update_form(self) -> None:
        settings = self.page.settings
        has_novelty = hasattr(self.explorer.base.kind.generators[settings.generator](), NOVELTY)
        state = setting_state(settings, self.slider, self.marks, self.drawn, has_novelty)
        self.form.state = _with_errors(state, self._errors)
        self.conditions.state = _with_errors(condition_state(self.page, self.explorer.controls, -1), self._errors)

    def view(self) -> object:
        """What a page or a notebook shows."""
        side = _box("explorer-side", self.form, self.conditions)
        main = _box("explorer-main", self.status, self.gallery)
        return _box("explorer", _box("explorer-grid", side, main))


def _box(name: str, *children: object) -> pn.Column:
    return pn.Column(*children, css_classes=[name], stylesheets=[asset("layout.css")], **WIDE)


def _with_errors(state: dict[str, Field], errors: dict[str, str]) -> dict[str, Field]:
    return {name: {**one, "error": errors.get(name, "")} for name, one in state.items()}


def _waiting(items: str) -> Html:
    return tag("p", f"Fitting the stored {items}…", class_="note")


def _status(drawn: Drawn | None, items: str) -> Html:
    if drawn is None:
        return tag("p", f"Fitting the stored {items}…", role="status")
    about = f"{len(drawn.novelty):,} new {items} · mean novelty {number(float(drawn.novelty.mean()), 2)}"
    lines = [tag("strong", about), tag("span", text(drawn.description.summary, 300))]
    return tag("p", joined(lines, " "), role="status", aria_live="polite")
