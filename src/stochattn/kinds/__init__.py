"""Kinds of data: each reads, writes and encodes one, and exports it as `KIND`.

Generators: each samples arrays like those it was fitted on, and knows nothing of files.

Each name is imported when it is first used, so that looking at a file or at options loads no generator.
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
_HOMES = {
    **dict.fromkeys(("Batch", "Codec", "Conditioned", "Format", "Settings", "Writer"), "codec"),
    **dict.fromkeys(("Comparison", "Measure", "Part", "Values"), "comparison"),
    **dict.fromkeys(("KeptMeasure", "KeyMeasure", "Measures", "RecallMeasures"), "comparison"),
    "Display": "display",
    **dict.fromkeys(("Description", "Generated", "Generator"), "generator"),
    **dict.fromkeys(("Coordinates", "HopfieldGenerator", "LinearEmbedding", "LinearObservation"), "hopfield"),
    "Kind": "kind",
    **dict.fromkeys(("HopfieldOptions", "InputError", "KindDescription", "Knob", "NoOptions", "option"), "options"),
    **dict.fromkeys(("kind_names", "register_kind"), "registry"),
}
"""The module of each name."""


if not TYPE_CHECKING:  # else every misspelt name would have a type

    def __getattr__(name: str) -> object:
        """The names above, imported when they are first used."""
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
