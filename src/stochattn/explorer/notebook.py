"""The page in a notebook."""

from __future__ import annotations

import panel as pn

from ..synthesizer import Synthesizer
from .session import Session
from .state import Explorer


def shown(synth: Synthesizer) -> object:
    """What a notebook shows, with its scripts inside the notebook: nothing is loaded from elsewhere."""
    pn.extension(inline=True)
    session = Session(Explorer(synth))
    session.begin()
    return session.view()
