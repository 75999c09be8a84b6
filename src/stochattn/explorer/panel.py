"""Components of the page, a form and a gallery, which Panel draws on a page and in a notebook alike.

`in_thread` runs work in the background, and `apply` changes models of Bokeh, on a server inside the lock of the
document and in a notebook by a push.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from importlib.resources import files
from typing import TypeVar

import panel as pn
import param
from panel.custom import JSComponent

from .fields import Message

T = TypeVar("T")


async def in_thread(work: Callable[..., T], *arguments: object) -> T:
    """Return the result of work in a daemon thread, which ends with the program, unlike that of asyncio.to_thread."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work(*arguments))
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="stochattn-explorer").start()
    return await asyncio.wrap_future(future)


FORM_SCRIPTS = ("form.js", "conditions.js", "stored.js", "player.js")
WIDE = {"sizing_mode": "stretch_width", "margin": 0}  # options of components that fill the available width


def asset(name: str) -> str:
    """Return the content of an asset of this package."""
    return (files(__package__) / "assets" / name).read_text("utf-8")


def box(name: str, *children: object) -> pn.Row:
    """Return a part of the page, laid out by the style rules for its name."""
    return pn.Row(*children, css_classes=[name], stylesheets=[asset("theme.css"), asset("layout.css")], **WIDE)


class Form(JSComponent):  # type: ignore[misc]
    """Native controls of a browser, each with a label, a value and an error.

    fields: the controls; state: what each of them shows, by id. `on_message` gets every change.
    """

    label = param.String()
    spread = param.Boolean(default=False)  # whether sections may be side by side
    fields = param.List()
    state = param.Dict(default={})
    _esm = "\n".join(asset(name) for name in FORM_SCRIPTS)
    _stylesheets = (asset("theme.css"), asset("form.css"))

    def __init__(self, on_message: Callable[[Message], None], **values: object) -> None:
        super().__init__(**values)
        self._handle_msg = on_message


class Gallery(JSComponent):  # type: ignore[misc]
    """HTML with items, of which one can be selected. `drawn` counts the galleries so far."""

    label = param.String()
    html = param.String()
    drawn = param.Integer(default=0)
    selected = param.Integer(default=-1)
    busy = param.Boolean(default=False)
    progress = param.Number(default=0.0)  # the share of items that is drawn
    _esm = asset("gallery.js")


def apply(update: Callable[[], None], *panes: object) -> None:
    """Call `update`, which changes components, or models of these panes.

    On a server it is called later, in order. It must therefore use the state at that time: a value from now could
    replace a newer one.
    """
    pn.state.execute(update, schedule=True)
    if pn.state.curdoc is None or pn.state.curdoc.session_context is None:
        pn.io.push_notebook(*panes)
