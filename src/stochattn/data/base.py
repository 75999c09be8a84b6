"""What a kind of data is: a codec between items and arrays, generators of such arrays, and what applications ask.

items --Codec.encode--> arrays --Generator--> new arrays --Codec.decode--> new items

An item is one stored or new example as the codec holds it: a sequence, a picture, a row of a table. To add a kind,
write a codec and a subclass of `Kind`, and register an instance of it (`stochattn.register_kind`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar

import numpy as np

from .._backend.arrays import Array
from .._backend.html import Html
from .._backend.state import Plain
from .._version import __version__
from ..core.neighbors import nearest_rows
from ..generators.base import Generator
from ..generators.coordinates import NORMS
from .comparison import Comparison, compare_features
from .gallery import GalleryItems, feature_gallery

Items = Any
"""Items as their codec holds them: an array whose first axis counts them, a data frame, or any sequence."""
T = TypeVar("T")


class InputError(ValueError):
    """A file, an item or an option that cannot be used. The message names it, the rule and the remedy in one line."""


@dataclass(frozen=True)
class OptionHelp:
    """What the command line says about an option.

    text:    one sentence; a default that is not plain stands in square brackets at its end
    flag:    the option's name on the command line where it is not that of the field
    metavar: what a value looks like, such as NAME=VALUE
    choices: the values it can have, if they are few
    """

    text: str
    flag: str | None = None
    metavar: str | None = None
    choices: tuple[str, ...] = ()


def option(
    default: T,
    text: str,
    *,
    flag: str | None = None,
    metavar: str | None = None,
    choices: tuple[str, ...] = (),
) -> T:
    """A field of a dataclass of options, with its help text."""
    about = {"help": OptionHelp(text, flag, metavar, choices)}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=about)  # type: ignore[return-value]
    return field(default=default, metadata=about)


def option_fields(options: type) -> dict[str, tuple[Field[Any], OptionHelp]]:
    """The options of a dataclass by name, with what is said about each."""
    return {one.name: (one, one.metadata["help"]) for one in fields(options) if "help" in one.metadata}


def given_options(options: object) -> dict[str, object]:
    """Those options of a dataclass that are not at their default, by name."""
    given = {}
    for one in fields(options):  # type: ignore[arg-type]
        factory = one.default_factory
        usual = one.default if factory is MISSING else factory()
        if getattr(options, one.name) != usual:
            given[one.name] = getattr(options, one.name)
    return given


@dataclass(frozen=True)
class NoOptions:
    """The options of something that has none."""


@dataclass(frozen=True)
class HopfieldOptions:
    """Options of the generator "hopfield": p_beta among embedded items. A kind adds its own, or changes defaults."""

    beta: float | str | None = option(
        None,
        "Inverse temperature: large recalls, small explores. A number, or the rule that chooses it: natural, "
        "inflection, knee, leave-one-out. [natural]",
    )
    novelty: float | None = option(
        None, "Mean novelty of draws instead of beta: 1 − cosine to the nearest stored row. Small recalls."
    )
    sampler: str = option("exact", "How p_beta is sampled: exact, or Langevin chains (ula, mala). [exact]")
    variance: float | None = option(1.0, "Share of the variance that principal components keep.")
    whiten: bool = option(False, "Scale components so that noise follows the directions in which stored items differ.")
    norm: str = option(
        "restored",
        "restored: rows of unit length, and lengths put back. paper: lengths are lost, as published. whole: rows keep "
        "their lengths.",
        choices=NORMS,
    )


class Settings(NamedTuple):
    """What a result file carries about its making."""

    seed: int
    generator: str
    source: str
    beta: float | None = None
    version: str = __version__


class Batch(NamedTuple):
    """New items on their way to a file.

    first:   number of the first of them, from 0
    items:   the new items
    nearest: (n,) index of the stored item that each is nearest to; None where each is made of many
    novelty: (n,) 1 − max cos with a stored row; None likewise
    extra:   further columns by name, (n,) each
    source:  (n,) index of the stored item that each was drawn around; None likewise
    """

    first: int
    items: Items
    nearest: Array | None
    novelty: Array | None
    extra: dict[str, Array]
    source: Array | None


class Writer(Protocol):
    """Takes new items, block by block, and writes them in one format."""

    def write(self, batch: Batch) -> None:
        """Write these."""

    def close(self) -> None:
        """Write what comes after the last of them."""


@dataclass(frozen=True)
class Format:
    """An output format.

    name:       how it is asked for
    extensions: file name extensions that ask for it; "" is a folder, and its writer gets an empty folder
    collected:  whether the writer holds all items until the end
    max_items:  how many items a file can show, or None
    """

    name: str
    extensions: tuple[str, ...]
    collected: bool = False
    max_items: int | None = None

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of files."""
        return self.extensions == ("",)


@dataclass(frozen=True)
class KeyMeasure:
    """The measure of items as a whole that a verdict looks at.

    name:    of the measure, as `Kind.compare` calls it
    slack:   how much worse it may be than for stored items drawn again
    claim:   what it shows
    failure: what it means where it fails
    """

    name: str
    slack: float
    claim: str
    failure: str


class Conditioned(NamedTuple):
    """What conditioning makes of a codec.

    codec:       the codec whose decode meets the condition
    observation: what generators are conditioned on, as those of this kind understand it
    notes:       what a user must know about the condition, a line each
    """

    codec: Codec
    observation: Any
    notes: tuple[str, ...] = ()


class Codec(ABC):
    """Items to arrays and back, fitted on stored items. It knows nothing of sampling, and never changes.

    stored: the stored items
    ids:    (K,) a name for each of them
    labels: (K,) a class for each of them, or None
    notes:  one line for whatever was dropped, mapped or assumed while reading
    """

    stored: Items
    ids: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def K(self) -> int:
        """How many items are stored."""
        return len(self.ids)

    @abstractmethod
    def encode(self, items: Items) -> Array:
        """Items as the arrays that generators sample: (n, ...)."""

    @abstractmethod
    def decode(self, arrays: Array, source: Array | None = None) -> Items:
        """Arrays as items; what arrays do not say is that of the stored items `source` (n,)."""

    def features(self, items: Items) -> Array:
        """Items as vectors of numbers, whose distances tell how unlike items are: (n, p)."""
        return np.asarray(self.encode(items), dtype=np.float64).reshape(len(items), -1)

    @abstractmethod
    def refit(self, items: Items) -> Codec:
        """A codec with the same options, fitted on other items of the same shape."""

    @abstractmethod
    def state(self) -> dict[str, Plain]:
        """All it needs to be made again by `Kind.codec_from_state`: plain values and arrays, by name."""

    def condition(self, values: Mapping[Any, Any]) -> Conditioned:
        """The codec, and what generators are conditioned on, given values by name; InputError for impossible ones."""
        raise InputError("this kind of data takes no conditions: leave them out.")

    def take(self, items: Items, indices: Array) -> Items:
        """Some of the items."""
        return items[np.asarray(indices)]

    def join(self, parts: Sequence[Items]) -> Items:
        """Items one after the other."""
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def to_user(self, items: Items) -> Any:
        """Items as a user of the library wants to see them."""
        return items


class Kind(ABC):
    """A kind of data: everything an application needs to know about it. One instance of each is registered.

    name:          how it is asked for, such as "table"
    item, items:   what an example is called, one and several: "row", "rows"
    part:          what an item consists of: "column"
    inputs:        what it reads, for help texts: "a table (CSV, Parquet)"
    condition_help: how a condition is written on the command line, for help texts
    codec_options: a dataclass of options of reading
    generators:    options of each generator, a dataclass by name; the first generator is the default
    formats:       output formats; the first is the default
    key_measure:   what a verdict looks at beside single parts
    """

    name: str
    item: str
    items: str
    part: str = "feature"
    inputs: str = ""
    condition_help: str = ""
    codec_options: type = NoOptions
    generators: Mapping[str, type] = MappingProxyType({"hopfield": HopfieldOptions})
    formats: tuple[Format, ...] = ()
    key_measure: KeyMeasure = KeyMeasure("correlation error", 0.1, "Features vary together", "correlations are lost")

    # Reading

    @abstractmethod
    def recognises(self, path: Path) -> bool:
        """Whether a file or folder holds this kind of data, by its name and its first lines."""

    def accepts(self, data: object) -> bool:
        """Whether data in memory, such as an array or a data frame, is of this kind."""
        return False

    @abstractmethod
    def read(self, path: Path, options: Any) -> Codec:
        """The codec of a file or folder; InputError for one that cannot be used."""

    def codec_of(self, data: Any, options: Any) -> Codec:
        """The codec of data in memory."""
        raise InputError(f"{self.name} data is read from files: name one.")

    @abstractmethod
    def codec_from_state(self, state: dict[str, Any]) -> Codec:
        """The codec whose `state` this is."""

    # Generating

    @abstractmethod
    def fit_generator(self, name: str, codec: Codec, weights: Array, options: Any) -> Generator:
        """The generator of that name, fitted on the stored items that count `weights` (K,) times."""

    def evaluated_options(self, options: Any) -> Any:
        """Options of a generator for split-half validation, where those of the draws do not apply."""
        return options

    def parse_condition(self, codec: Codec, texts: Sequence[str]) -> Mapping[Any, Any]:
        """Texts of the command line, NAME=VALUE each, as values for `Codec.condition`."""
        raise InputError(f"{self.name} data takes no conditions: leave them out.")

    # Writing, and reading back what was written

    @abstractmethod
    def writer(self, codec: Codec, place: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        """Something to write new items with, into an open binary stream or an empty folder."""

    @abstractmethod
    def read_new(self, codec: Codec, path: Path) -> Items:
        """Items of the same shape as the stored ones, from a file such as a writer wrote."""

    # Comparing

    def same(self, codec: Codec, first: Items, second: Items) -> Array:
        """Which values of two sets of items are equal: (n, values) booleans."""
        return np.isclose(codec.features(first), codec.features(second), rtol=1e-9, atol=1e-12)

    def annotate(self, codec: Codec, items: Items, n_total: int) -> tuple[Array, dict[str, Array]]:
        """The stored item nearest to each new one (n,), and further columns (n,) for its header, by name.

        n_total: how many new items there will be in all
        """
        return nearest_rows(codec.features(items), codec.features(codec.stored)), {}

    def labels_of(self, codec: Codec, items: Items, source: Array) -> Array:
        """The class of each new item: that of the stored item it was drawn around, or what the item itself says."""
        return np.array(codec.labels)[source]

    @property
    def items_have_labels(self) -> bool:
        """Whether new items say their own class."""
        return False

    def comparable(self, codec: Codec, items: Items) -> Array:
        """Items as vectors whose distances tell copies from new items; one item may give several: (m, p)."""
        return codec.features(items)

    def non_overlapping(self, codec: Codec, indices: Array) -> Array:
        """Those of the stored items `indices` that share nothing with one taken before: (m,)."""
        return indices

    def compare(self, codec: Codec, items: Items) -> Comparison:
        """New items against the stored ones: measures of the whole, and its parts."""
        return compare_features(codec.features(items), codec.features(codec.stored))

    def summarize(self, extra: Mapping[str, Array]) -> dict[str, float]:
        """Figures for the summary of a result, from the further columns of its items."""
        return {}

    def column_types(self, codec: Codec) -> tuple[tuple[str, str], ...]:
        """Names and types of the parts of an item, where they have types."""
        return ()

    def gallery(self, codec: Codec, shown: GalleryItems) -> Html:
        """New items beside the stored ones nearest to them, as a part of a page."""
        return feature_gallery(codec.features(shown.items), codec.features(codec.stored), codec.ids, shown)
