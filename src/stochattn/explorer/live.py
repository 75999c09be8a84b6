"""Changes of Bokeh models from anywhere: on a server inside the lock of the document, in a notebook pushed to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import panel as pn

_tasks: set[asyncio.Task[None]] = set()  # a task that nobody refers to may be collected before it ends


def apply(update: Callable[[], None], *panes: object) -> None:
    """Call `update`, which changes components, or models of these panes.

    On a server it is called later, in order. It must therefore set what is known by then: a value from now could
    replace a newer one.
    """
    document = pn.state.curdoc
    if document is None or document.session_context is None:
        update()
        if shown := [pane for pane in panes if getattr(pane, "_models", None)]:
            pn.io.push_notebook(*shown)
    else:
        document.add_next_tick_callback(update)


def start(work: Coroutine[object, object, None]) -> None:
    """Run work in the event loop; an error in it is reported by the loop."""
    task = asyncio.get_running_loop().create_task(work)
    _tasks.add(task)
    task.add_done_callback(_done)


def _done(task: asyncio.Task[None]) -> None:
    _tasks.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler({"message": "error on a page", "exception": error, "task": task})
