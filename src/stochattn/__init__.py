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

from ._version import __version__
from .core import bounds, conditioning, energy, metrics, neighbors, temperature
from .core.memory import MemoryBank
from .model import StochasticAttention, sample
from .samplers import Paths, multihead, run, sequential
from .samplers.draws import Draws

__all__ = [
    "Draws",
    "MemoryBank",
    "Paths",
    "StochasticAttention",
    "Synthesizer",
    "__version__",
    "bounds",
    "conditioning",
    "energy",
    "fit",
    "for_images",
    "for_proteins",
    "for_returns",
    "for_table",
    "load",
    "metrics",
    "multihead",
    "neighbors",
    "register_kind",
    "run",
    "sample",
    "sequential",
    "temperature",
]


_UPPER = {
    "Synthesizer": ".synthesizer",
    "fit": ".synthesizer",
    "load": ".synthesizer",
    "register_kind": ".data.registry",
}
"""Names that need kinds of data, loaded when first asked for."""


def __getattr__(name: str) -> Any:
    """The names that need a codec, loaded when first asked for: codecs stand above this package's front door."""
    if name.startswith("for_") and name in __all__:
        return getattr(import_module(".examples", __name__), name)
    if name in _UPPER:
        return getattr(import_module(_UPPER[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
