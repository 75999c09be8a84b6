"""Stochastic attention: sample new examples from a handful of stored ones, without training.

    import stochattn as sa
    synth = sa.fit("patients.csv")               # a file, a folder, an array, a data frame or strings
    new = synth.sample(500, rng=0)               # new examples of the same kind

    model = sa.StochasticAttention(X)            # X: (K, d), one row per stored example
    new = model.sample(1000, rng=0)              # exact, independent draws of p_beta

Importing this loads nothing else; each name imports what it needs when it is first used.
"""

from ._version import __version__

TYPE_CHECKING = False  # as in typing, which takes longer to import than everything here
if TYPE_CHECKING:  # every name of __all__: type checkers do not look at __getattr__ below
    from . import core as core
    from . import model as model
    from . import samplers as samplers
    from .core import bounds, conditioning, energy, metrics, neighbors, temperature
    from .core.memory import MemoryBank
    from .kinds.codec import Range
    from .kinds.registry import register_kind
    from .model import StochasticAttention, sample
    from .nn.ranks import ShardedMemory
    from .samplers import multihead
    from .samplers.draws import Draws
    from .samplers.loop import run
    from .samplers.plan import register_sampler
    from .samplers.sequential import Paths, sequential
    from .synthesizer import Synthesizer, fit, load

__all__ = [
    "Draws",
    "MemoryBank",
    "Paths",
    "Range",
    "ShardedMemory",
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
_HOMES = {
    **{name: f".core.{name}" for name in ("bounds", "conditioning", "energy", "metrics", "neighbors", "temperature")},
    **{"multihead": ".samplers.multihead", "core": ".core", "model": ".model", "samplers": ".samplers"},
    **{"MemoryBank": ".core.memory", "Draws": ".samplers.draws", "register_kind": ".kinds.registry"},
    "Range": ".kinds.codec",
    "ShardedMemory": ".nn.ranks",
    **dict.fromkeys(("StochasticAttention", "sample"), ".model"),
    **dict.fromkeys(("Paths", "register_sampler", "run", "sequential"), ".samplers"),
    **dict.fromkeys(("Synthesizer", "fit", "load"), ".synthesizer"),
}
"""The module of each name, or the module that ends with this name."""


if not TYPE_CHECKING:  # else every misspelled name would have a type

    def __getattr__(name: str) -> object:
        """The names above, imported when they are first used."""
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(_HOMES[name], __name__)
        value = module if _HOMES[name].endswith(f".{name}") else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
