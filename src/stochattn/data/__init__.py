"""Kinds of data: each reads, writes and encodes one, and exports it as `KIND`."""

from .base import Batch, Codec, Conditioned, Format, Settings, Writer
from .comparison import Comparison, Measure, Part, Values
from .kind import KeptMeasure, KeyMeasure, Kind
from .options import HopfieldOptions, InputError, Knob, NoOptions, option
from .registry import kind_names, register_kind

__all__ = [
    "Batch",
    "Codec",
    "Comparison",
    "Conditioned",
    "Format",
    "HopfieldOptions",
    "InputError",
    "KeptMeasure",
    "KeyMeasure",
    "Kind",
    "Knob",
    "Measure",
    "NoOptions",
    "Part",
    "Settings",
    "Values",
    "Writer",
    "kind_names",
    "option",
    "register_kind",
]
