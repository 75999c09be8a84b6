"""A live page of new items with a slider from recall to generation and conditions."""

from __future__ import annotations

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
    from .notebook import show

    return show(synth)
