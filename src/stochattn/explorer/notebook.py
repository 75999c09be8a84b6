"""The page in a notebook."""

from __future__ import annotations

import asyncio

import panel as pn

from ..kinds.options import InputError
from ..synthesizer.synthesizer import Synthesizer
from .session import Session
from .state import Explorer


def show(synth: Synthesizer) -> object:
    """Return the view of a new page; its scripts are inside the notebook, and nothing is loaded from elsewhere."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        remedy = "Call it in a notebook, or run `stochattn explore FILE` in a terminal"
        raise InputError(f"explore shows a page in a notebook, and this is not a notebook. {remedy}.") from None
    pn.extension(inline=True)
    session = Session(Explorer(synth))
    session.begin()
    return session.view()
