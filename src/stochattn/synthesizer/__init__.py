"""The synthesizer: fit, draw, save and write new examples of any kind of data."""

from .synthesizer import Synthesizer, fit, load

__all__ = ["Synthesizer", "fit", "load"]
