"""Kinds of data: each reads, writes and encodes one, and exports it as `KIND`.

Generators: each samples arrays like those it was fitted on, and knows nothing of files.
"""

from __future__ import annotations

from .codec import Batch, Codec, Conditioned, Format, Settings, Writer
from .comparison import Comparison, Measure, Part, Values
from .description import KindDescription
from .gallery import Display
from .generator import Description, Generated, Generator
from .hopfield import Coordinates, HopfieldGenerator, LinearEmbedding, LinearObservation
from .kind import Kind
from .measures import KeptMeasure, KeyMeasure, Measures, RecallMeasures
from .options import HopfieldOptions, InputError, Knob, NoOptions, option
from .registry import kind_names, register_kind

__all__ = [
    "Batch",
    "Codec",
    "Comparison",
    "Conditioned",
    "Display",
    "Format",
    "HopfieldOptions",
    "InputError",
    "KeptMeasure",
    "KeyMeasure",
    "Kind",
    "KindDescription",
    "Knob",
    "Measure",
    "Measures",
    "NoOptions",
    "Part",
    "Settings",
    "Values",
    "Writer",
    "kind_names",
    "option",
    "register_kind",
    "RecallMeasures",
    "Coordinates",
    "Description",
    "Generated",
    "Generator",
    "HopfieldGenerator",
    "LinearEmbedding",
    "LinearObservation",
]
