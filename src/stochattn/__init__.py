"""Stochastic attention: sample new examples from a handful of stored ones, without training.

    import stochattn as sa
    synth = sa.fit("patients.csv")               # a file, a folder, an array, a data frame or texts
    new = synth.sample(500, rng=0)               # new examples of the same kind

    model = sa.StochasticAttention(X)            # X: (K, d), one row per stored example
    new = model.sample(1000, rng=0)              # exact, independent draws of p_beta

Importing this loads numpy and nothing heavier.
"""

from importlib import import_module
from typing import Any

from ._version import __version__
from .core import bounds, conditioning, energy, metrics, neighbors, temperature
from .core.memory import MemoryBank
from .model import StochasticAttention, sample
from .samplers import Paths, multihead, register_sampler, run, sequential
from .samplers.draws import Draws

__all__ = [
    "Draws",
    "MemoryBank",
    "Paths",
    "Range",
    "StochasticAttention",
    "Synthesizer",
    "__version__",
    "bounds",
    "conditioning",
    "energy",
    "fit",
    "load",
    "metrics",
    "multihead",
    "neighbors",
    "register_kind",
    "register_sampler",
    "run",
    "sample",
    "sequential",
    "temperature",
]
_UPPER = {
    **dict.fromkeys(("Synthesizer", "fit", "load"), ".synthesizer"),
    **{"Range": ".data.ranges", "register_kind": ".data.registry"},
}
"""Names that need the kinds of data, which import more than numpy."""


def __getattr__(name: str) -> Any:
    """The names above, imported when they are first used."""
    if name in _UPPER:
        return getattr(import_module(_UPPER[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
