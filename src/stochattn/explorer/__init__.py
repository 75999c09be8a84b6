"""A live page of new items: a slider from recall to generation, conditions, and what comes out of them."""

from __future__ import annotations

from importlib.util import find_spec

from ..kinds.options import InputError
from ..synthesizer.synthesizer import Synthesizer

__all__ = ["in_notebook", "require_panel"]


def require_panel() -> None:
    """InputError if the packages that draw the page are not installed."""
    if find_spec("panel") is None or find_spec("bokeh") is None:
        raise InputError("the explorer needs Panel and Bokeh: pip install 'stochattn[explore]'.")


def in_notebook(synth: Synthesizer) -> object:
    """The page as an object that a notebook shows."""
    require_panel()
    from .notebook import shown

    return shown(synth)
