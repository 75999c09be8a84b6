"""Stochastic attention: sample new examples from a handful of stored ones, without training.

    import stochattn as sa
    model = sa.StochasticAttention(X)            # X: (K, d), a row per stored example
    new = model.sample(1000, rng=0)              # exact, independent draws

    faces = sa.for_images("faces/")              # or for_proteins, for_table, for_returns: files or arrays
    new = faces.sample(100, rng=0)               # by the sampler made for that kind of data

Importing this loads numpy and nothing heavier.
"""

from importlib import import_module
from typing import Any

from . import bounds, conditioning, energy, heads, metrics, temperature
from ._version import __version__
from .draws import Draws
from .memory import MemoryBank
from .model import StochasticAttention, sample
from .samplers import Paths, run, sequential

__all__ = [
    "Draws",
    "MemoryBank",
    "Paths",
    "StochasticAttention",
    "__version__",
    "bounds",
    "conditioning",
    "energy",
    "for_images",
    "for_proteins",
    "for_returns",
    "for_table",
    "heads",
    "metrics",
    "run",
    "sample",
    "sequential",
    "temperature",
]


def __getattr__(name: str) -> Any:
    """The names that need a codec, loaded when first asked for: codecs stand above this package's front door."""
    if name.startswith("for_") and name in __all__:
        return getattr(import_module(".examples", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
