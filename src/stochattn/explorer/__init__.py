"""A live page of new items with a slider from recall to generation and conditions."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

from ..kinds.options import InputError
from ..synthesizer.synthesizer import Synthesizer

__all__ = ["in_notebook", "require_panel"]


def require_panel() -> None:
    """Raise InputError if Panel or Bokeh is not installed."""
    if find_spec("panel") is None or find_spec("bokeh") is None:
        raise InputError("the explorer needs Panel and Bokeh: pip install 'stochattn[explore]'.")


def in_notebook(synth: Synthesizer) -> object:
    """Return the page as an object that a notebook displays."""
    require_panel()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        remedy = "Call it in a notebook, or run `stochattn explore FILE` in a terminal"
        raise InputError(f"explore shows a page in a notebook, and this is not a notebook. {remedy}.") from None
    import panel as pn

    from .session import Session
    from .state import Explorer

    pn.extension(inline=True)  # scripts are inside the notebook, and nothing is loaded from elsewhere
    session = Session(Explorer(synth))
    session.begin()
    return session.view()
