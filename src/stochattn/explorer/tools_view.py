"""Code, Save and the verdict of one page."""

from __future__ import annotations

from collections.abc import Mapping

import panel as pn

from .._backend.html import Html, tag
from .._backend.state import Plain
from .background import in_thread
from .code import command, default_output, python_lines, save
from .components import WIDE, Form, asset, report_style
from .fields import Field, Message, message_of
from .live import apply, start
from .state import Drawn, Explorer
from .verdict import Cancelled, VerdictProcess, verdict_html

PYTHON, COMMAND, OUT, SAVE, VERDICT = "python", "command", "out", "save", "verdict"
ABOUT_VERDICT = "Split-half validation and privacy, in the background."


class Tools:
    """What can be done with the items that a page shows."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer, self._is_judging, self._is_cancelled = explorer, False, False
        self._drawn: Drawn | None = None
        self._process: VerdictProcess | None = None
        self._out, self._state = default_output(explorer), dict[str, Field]()
        self.form = Form(self._on_message, label="Code and verdict", fields=_tool_fields(explorer), spread=True, **WIDE)
        styles = [asset("theme.css"), report_style(), asset("cards.css")]
        self.verdict = pn.pane.HTML("", stylesheets=styles, **WIDE)
        self._state[OUT] = {"value": self._out}
        self._push()

    def update(self, drawn: Drawn) -> None:
        """Be about other items; a verdict that is under way goes on, and a finished one is of earlier items."""
        self._drawn = drawn
        if not self._is_judging and self.verdict.object:
            self.verdict.object = tag("p", "The items have changed since the last verdict.", class_="note")
        start(self._show_code())

    async def _show_code(self) -> None:
        drawn, out = self._drawn, self._out
        if drawn is None:
            return
        lines = await in_thread(lambda: python_lines(self.explorer, drawn.settings))
        typed = await in_thread(lambda: command(self.explorer, drawn.settings, out))
        if drawn is self._drawn:
            self._set({PYTHON: {"value": lines}, COMMAND: {"value": typed or ""}})

    def _on_message(self, message: Message) -> None:
        name = message["id"]
        if name == OUT:
            self._out = str(message.get("value") or default_output(self.explorer))
            self._set({SAVE: {"error": "", "hint": ""}})
            start(self._show_code())
        elif name == SAVE and self._drawn is not None:
            start(self._save(self._drawn))
        elif name == VERDICT and self._is_judging:
            self.close()
        elif name == VERDICT and self._drawn is not None:
            self._is_judging, self._is_cancelled = True, False  # before the task runs: a double click starts only one
            start(self._judge(self._drawn))

    async def _save(self, drawn: Drawn) -> None:
        out = self._out
        self._set({SAVE: {"disabled": True, "error": "", "hint": "Saving…"}})
        try:
            summary = await in_thread(lambda: save(self.explorer, drawn.settings, out))
        except Exception as error:  # whatever it is, the page must show it and go on
            self._set({SAVE: {"error": message_of(error), "hint": ""}})
        else:
            self._set({SAVE: {"hint": f"Saved {summary.n:,} to {out}."}})

    async def _judge(self, drawn: Drawn) -> None:
        self.verdict.object = tag(
            "p", "Validating on halves of the stored examples. This takes a while…", class_="note"
        )
        self._set({VERDICT: {"label": "Cancel"}})
        found = tag("p", "Cancelled.", class_="note")
        try:
            found = await self._verdict(drawn)
        except Cancelled:
            pass
        except Exception as error:  # for example options that cannot be sent to another process
            found = tag("p", message_of(error), class_="note")
        finally:
            self._process, self._is_judging = None, False
            self._set({VERDICT: {"label": "Evaluate"}})
            self.verdict.object = found

    async def _verdict(self, drawn: Drawn) -> Html:
        synth = await in_thread(lambda: self.explorer.synthesizer(drawn.settings))
        if self._is_cancelled:
            raise Cancelled
        self._process = process = await in_thread(lambda: VerdictProcess(synth, drawn.settings.seed))
        if self._is_cancelled:
            process.cancel()
        return verdict_html(await in_thread(process.result))

    def close(self) -> None:
        """End what is under way."""
        self._is_cancelled = True
        if self._process is not None:
            self._process.cancel()

    def _set(self, changes: Mapping[str, Mapping[str, Plain]]) -> None:
        self._state[OUT] = {"value": self._out}
        self._state.update({name: dict(state) for name, state in changes.items()})
        apply(self._push)

    def _push(self) -> None:
        self.form.state = dict(self._state)


def _tool_fields(explorer: Explorer) -> list[Field]:
    command_field: list[Field] = [{"type": "code", "id": COMMAND, "label": "Command"}] if explorer.origin else []
    return [
        {"type": "section", "id": "code-section", "label": "Code"},
        {"type": "code", "id": PYTHON, "label": "Python"},
        *command_field,
        {"type": "section", "id": "save-section", "label": "Save and evaluate"},
        {"type": "text", "id": OUT, "label": "File, in the format of its extension"},
        {"type": "button", "id": SAVE, "label": "Save", "hint": ""},
        {"type": "button", "id": VERDICT, "label": "Evaluate", "hint": ABOUT_VERDICT},
    ]
