"""Components of the page: a form and a gallery, which Panel draws on a page and in a notebook alike."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

import panel as pn
import param
from panel.custom import JSComponent

from .fields import Message

FORM_SCRIPTS = ("form.js", "conditions.js", "stored.js", "player.js")
WIDE = {"sizing_mode": "stretch_width", "margin": 0}
"""Options of components that fill the width they are given."""


def asset(name: str) -> str:
    """The text of a file of this package."""
    return (files(__package__) / "assets" / name).read_text("utf-8")


def report_style() -> str:
    """The rules of a report's page, which galleries are made for."""
    return (files(__package__.rpartition(".")[0]) / "report" / "style.css").read_text("utf-8")


def box(name: str, *children: object) -> pn.Row:
    """A part of the page, laid out by the rules for its name."""
    return pn.Row(*children, css_classes=[name], stylesheets=[asset("theme.css"), asset("layout.css")], **WIDE)


class Form(JSComponent):  # type: ignore[misc]
    """Native controls of a browser, with a label, a value and an error each.

    fields: what there is; state: what each shows now, by id. `on_message` gets every change, as {id, ...}.
    """

    label = param.String()
    spread = param.Boolean(default=False)  # whether its sections may stand side by side
    fields = param.List()
    state = param.Dict(default={})
    _esm = "\n".join(asset(name) for name in FORM_SCRIPTS)
    _stylesheets = (asset("theme.css"), asset("form.css"))

    def __init__(self, on_message: Callable[[Message], None], **values: object) -> None:
        super().__init__(**values)
        self._on_message = on_message

    def _handle_msg(self, message: Message) -> None:
        self._on_message(message)


class Gallery(JSComponent):  # type: ignore[misc]
    """HTML with items, of which one may be selected. `drawn` counts the galleries that were shown."""

    label = param.String()
    html = param.String()
    drawn = param.Integer(default=0)
    selected = param.Integer(default=-1)
    busy = param.Boolean(default=False)
    progress = param.Number(default=0.0)  # the share that is drawn, while it is busy
    _esm = asset("gallery.js")
