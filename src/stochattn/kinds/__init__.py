"""Kinds of data and generators: what both must be, and the kinds by name.

A folder for each kind of data reads, writes and encodes it, and exports it as `KIND`. A generator samples arrays like
those that it was fitted on, and knows nothing of files. Each name is imported when it is first used, so that looking at
a file or at options loads no generator.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing
if TYPE_CHECKING:  # every name of __all__: type checkers do not look at __getattr__ below
    from .codec import Batch, Codec, Conditioned, Format, Settings, Writer
    from .comparison import Comparison, KeptMeasure, KeyMeasure, Measure, Measures, Part, RecallMeasures, Values
    from .display import Display
    from .generator import Description, Generated, Generator
    from .hopfield import Coordinates, HopfieldGenerator, LinearEmbedding, LinearObservation
    from .kind import Kind
    from .options import HopfieldOptions, InputError, KindDescription, Knob, NoOptions, option
    from .registry import kind_names, register_kind

__all__ = [
    "Batch",
    "Codec",
    "Comparison",
    "Conditioned",
    "Coordinates",
    "Description",
    "Display",
    "Format",
    "Generated",
    "Generator",
    "HopfieldGenerator",
    "HopfieldOptions",
    "InputError",
    "KeptMeasure",
    "KeyMeasure",
    "Kind",
    "KindDescription",
    "Knob",
    "LinearEmbedding",
    "LinearObservation",
    "Measure",
    "Measures",
    "NoOptions",
    "Part",
    "RecallMeasures",
    "Settings",
    "Values",
    "Writer",
    "kind_names",
    "option",
    "register_kind",
]
_MODULES = ("options", "registry", "codec", "comparison", "display", "generator", "hopfield", "kind")
"""The modules that define the names, those first that the others import."""


if not TYPE_CHECKING:  # else every misspelled name would have a type

    def __getattr__(name: str) -> object:
        """The names above, imported when they are first used."""
        from importlib import import_module

        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        modules = (import_module(f".{module}", __name__) for module in _MODULES)
        value = next(getattr(module, name) for module in modules if hasattr(module, name))
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
