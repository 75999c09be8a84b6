"""Stochastic attention: sample new examples from a handful of stored ones, without training.

    import stochattn as sa
    model = sa.StochasticAttention(X)            # X: (K, d), a row per stored example
    new = model.sample(1000, rng=0)              # exact, independent draws

Importing this loads numpy and nothing heavier.
"""

from . import bounds, conditioning, energy, heads, metrics, temperature
from ._version import __version__
from .draws import Draws
from .memory import MemoryBank
from .model import StochasticAttention
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
    "heads",
    "metrics",
    "run",
    "sequential",
    "temperature",
]
