"""What is known about a kind of data before its code is loaded: the files it reads, its words and its options.

The registry holds a `KindDescription` of each kind. Recognizing a file and building the options of the command line ask
these alone, so that only the code of the kind that a user chooses is loaded. A `Kind` is a description itself.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from .options import HopfieldOptions, NoOptions

AUTO = "auto"
"""The generator that a kind of data names first, or that a trial finds better, unless an option belongs to another."""


class KindDescription(ABC):  # kinds that are registered have methods that they must define
    """The words, the files and the options of a kind of data.

    item, items, part: what an example is called, one and several, and what it consists of: "row", "rows", "column"
    inputs, condition_help: what it reads, and how a condition is written on the command line, for help texts
    suffixes:      extensions of its files, in lower case
    codec_options: a dataclass of options of reading
    generators:    options of each generator, a dataclass by name; the first generator is the default

    >>> from stochattn.kinds.registry import description_of
    >>> description_of("protein").items, ".sto" in description_of("protein").suffixes
    ('sequences', True)
    """

    name: str
    item: str
    items: str
    part: str = "feature"
    inputs: str = ""
    condition_help: str = ""
    suffixes: tuple[str, ...] = ()
    codec_options: type = NoOptions
    generators: Mapping[str, type] = MappingProxyType({"hopfield": HopfieldOptions})

    def recognizes(self, path: Path) -> bool:
        """Whether a file or folder holds this kind of data, by its name and its first lines."""
        return path.suffix.lower() in self.suffixes and not path.is_dir()

    def accepts(self, data: object) -> bool:
        """Whether data in memory, such as an array or a data frame, is of this kind."""
        return False
