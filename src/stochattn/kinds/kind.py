"""What a kind of data is: one object with everything that an application asks about it.

To add a kind, write a codec and a subclass of `Kind`, and register an instance of it (`stochattn.register_kind`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Generic, TypeAlias, TypeVar

import numpy as np

from .._backend.arrays import Array
from .._backend.checks import check_choice, suggest_names
from .._backend.html import Html
from .._backend.state import Plain
from ..core.neighbors import nearest_rows
from .codec import Codec, Format, Items, Settings, Writer
from .comparison import Comparison, compare_features
from .controls import Control
from .gallery import GalleryItems, feature_gallery
from .generator import Generator
from .hopfield import require_exact
from .options import HopfieldOptions, InputError, NoOptions, option_fields

AUTO = "auto"
"""The generator that a kind of data names first, or that a trial finds better, unless an option belongs to another."""
C = TypeVar("C", bound=Codec)


@dataclass(frozen=True)
class KeyMeasure:
    """The measure of items as a whole that a verdict looks at; it may be worse by `slack` than for stored items.

    >>> from stochattn.kinds import KeyMeasure
    >>> KeyMeasure("correlation error", 0.1, "Features vary together", "correlations are lost").slack
    0.1
    """

    name: str
    slack: float
    claim: str
    failure: str


@dataclass(frozen=True)
class RecallMeasures:
    """Measures that are 1 for copies: a verdict wants them closer to their ideal, that among stored items, than to 1.

    advice: what to do where they are not; empty for that on moving away from stored items by beta

    >>> from stochattn.kinds import RecallMeasures
    >>> RecallMeasures(("similarity of the market",), "The market is new", "the market follows stored ones").names
    ('similarity of the market',)
    """

    names: tuple[str, ...]
    claim: str
    failure: str
    advice: str = ""


@dataclass(frozen=True)
class KeptMeasure:
    """A measure, ideally 1, of what every item has: draws from a half may lose twice what the half itself loses.

    >>> from stochattn.kinds import KeptMeasure
    >>> KeptMeasure("conserved sites", "Conserved sites are kept", "conserved sites change").name
    'conserved sites'
    """

    name: str
    claim: str
    failure: str


class Kind(ABC, Generic[C]):
    """A kind of data: everything an application needs to know about it. One instance of each is registered.

    item, items, part: what an example is called, one and several, and what it consists of: "row", "rows", "column"
    inputs, condition_help: what it reads, and how a condition is written on the command line, for help texts
    codec_options: a dataclass of options of reading
    generators:    options of each generator, a dataclass by name; the first generator is the default
    alternatives:  generators that a trial fits where the default does not pass, in order of preference
    last_resort:   a plain generator for where no other passes, or ""
    formats:       output formats; the first is the default
    key_measure:   what a verdict looks at beside single parts
    recall_measures: how closely an aspect of new items follows stored ones; None where there is no such thing
    kept_measure:  what new items must keep, measured against held-out ones; None where there is no such thing
    style:         CSS of its gallery, which a page includes

    >>> import stochattn as sa
    >>> kind = sa.fit(["MKVL", "MRIL", "MKIL"]).kind
    >>> kind.name, kind.items, next(iter(kind.generators))
    ('protein', 'sequences', 'latent')
    """

    name: str
    item: str
    items: str
    part: str = "feature"
    inputs: str = ""
    condition_help: str = ""
    codec_options: type = NoOptions
    generators: Mapping[str, type] = MappingProxyType({"hopfield": HopfieldOptions})
    alternatives: tuple[str, ...] = ()
    last_resort: str = ""
    formats: tuple[Format, ...] = ()
    key_measure: KeyMeasure = KeyMeasure("correlation error", 0.1, "Features vary together", "correlations are lost")
    kept_measure: KeptMeasure | None = None
    recall_measures: RecallMeasures | None = None
    style: str = ""

    @abstractmethod
    def recognises(self, path: Path) -> bool:
        """Whether a file or folder holds this kind of data, by its name and its first lines."""

    def accepts(self, data: object) -> bool:
        """Whether data in memory, such as an array or a data frame, is of this kind."""
        return False

    @abstractmethod
    def read(self, path: Path, options: Any) -> C:
        """The codec of a file or folder; InputError for one that cannot be used."""

    def read_recognised(self, path: Path, options: Any) -> C:
        """The codec of a file whose kind the user did not name; a note may say what else it could be."""
        return self.read(path, options)

    def codec_of(self, data: Any, options: Any) -> C:
        """The codec of data in memory."""
        raise InputError(f"{self.name} data is read from files: name one.")

    @abstractmethod
    def codec_from_state(self, state: dict[str, Any]) -> C:
        """The codec whose `state` this is."""

    @abstractmethod
    def fit_generator(self, name: str, codec: C, weights: Array, options: Any) -> Generator:
        """The generator of that name, fitted on the stored items that count `weights` (K,) times."""

    def evaluated_options(self, options: Any) -> Any:
        """Options of a generator for split-half validation, where those of the draws do not apply."""
        return options

    def parse_condition(self, codec: C, texts: Sequence[str]) -> Mapping[Any, Any]:
        """Texts of the command line, NAME=VALUE each, as values for `Codec.condition`."""
        raise InputError(f"{self.name} data takes no conditions: leave them out.")

    def check_condition(self, codec: C, options: Any, observation: Any) -> None:
        """InputError where a generator with these options cannot be given an observation; it need not be fitted."""
        if isinstance(options, HopfieldOptions):
            require_exact(options.sampler)

    def select(self, codec: C, name: str, text: str) -> Array | None:
        """The stored items whose part `name` has the value that a text means: (K,) booleans; None without that part."""
        return None

    def scored(self, codec: C, items: Items) -> tuple[Items, Array | None]:
        """Items that a user passes for their density, checked, and which of them (n,) have none; None if all may."""
        return items, None

    @abstractmethod
    def writer(self, codec: C, place: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        """Something to write new items with, into an open binary stream or an empty folder."""

    def as_array(self, codec: C, items: Items, first: int) -> Array:
        """New items, number `first` and those that follow, as numbers (n, ...), whose dtype does not depend on them.

        It is what the format "zarr" holds; InputError for items that are not numbers.
        """
        raise InputError(f"format zarr holds numbers, and {self.items} are not: choose another format.")

    def array_attributes(self, codec: C) -> dict[str, Plain]:
        """What a reader of the array needs to know: names of its columns, for example, as plain values by name."""
        return {}

    def read_parts(self, parts: Sequence[Path], options: Any) -> C:
        """The codec of several files, which together hold what one file could; see `parts_in`."""
        codecs = [self.read(part, options) for part in parts]
        return codecs[0].refit(codecs[0].join([codec.stored for codec in codecs]))  # type: ignore[return-value]

    @abstractmethod
    def read_new(self, codec: C, path: Path) -> Items:
        """Items of the same shape as the stored ones, from a file such as a writer wrote."""

    def read_labels(self, codec: C, path: Path) -> Array | None:
        """The class of each new item in such a file (n,), where it holds classes beside the items; else None."""
        return None

    def repeated_identifiers(self, codec: C, items: Items) -> Mapping[str, tuple[float, float]]:
        """Shares of new items with an identifier of a stored one, and of stored ones that share theirs, by its name."""
        return {}

    def same(self, codec: C, first: Items, second: Items) -> Array:
        """Which values of two sets of items are equal: (n, values) booleans."""
        return np.isclose(codec.features(first), codec.features(second), rtol=1e-9, atol=1e-12)

    def annotate(self, codec: C, items: Items, n_total: int) -> tuple[Array, dict[str, Array]]:
        """The stored item nearest to each new one (n,), of n_total in all, and further columns (n,) for its header."""
        return nearest_rows(codec.features(items), codec.features(codec.stored)), {}

    def labels_of(self, codec: C, items: Items, source: Array) -> Array:
        """The class of each new item: that of the stored item it was drawn around, or what the item itself says."""
        return np.array(codec.labels)[source]

    @property
    def items_have_labels(self) -> bool:
        """Whether new items say their own class."""
        return False

    def comparable(self, codec: C, items: Items) -> Array:
        """Items as vectors whose distances tell copies from new items; one item may give several: (m, p)."""
        return codec.features(items)

    def parts(self, codec: C) -> tuple[tuple[str, ...], Array]:
        """Names of the parts of an item, and the number of the part to which each feature of `comparable` belongs."""
        p = self.comparable(codec, codec.take(codec.stored, np.arange(1))).shape[1]
        return tuple(map(str, range(1, p + 1))), np.arange(p)

    def predictors(self, codec: C, items: Items) -> Array:
        """The features that may predict the class of an item, without those that say it: (n, p)."""
        return codec.features(items)

    def statistics(self, codec: C, items: Items) -> Array | None:
        """Figures of each item as a whole (n, q), by which a trial tells new items from held-out ones; None for none.

        They are for what a user sees at once and single features do not show, such as noise, blur and hard bounds.
        """
        return None

    def non_overlapping(self, codec: C, indices: Array) -> Array:
        """Those of the stored items `indices` that share nothing with one taken before: (m,)."""
        return indices

    def compare(self, codec: C, items: Items) -> Comparison:
        """New items against the stored ones: measures of the whole, and its parts."""
        return compare_features(codec.features(items), codec.features(codec.stored))

    def summarize(self, extra: Mapping[str, Array]) -> dict[str, float]:
        """Figures for the summary of a result, from the further columns of its items."""
        return {}

    def column_types(self, codec: C) -> tuple[tuple[str, str], ...]:
        """Names and types of the parts of an item, where they have types."""
        return ()

    def controls(self, codec: C) -> tuple[Control, ...]:
        """The controls with which a user of a page conditions new items."""
        return ()

    def gallery(self, codec: C, shown: GalleryItems) -> Html:
        """New items beside the stored ones nearest to them, as a part of a page.

        Each is an element of the class "item", or a row of the class "new" in a table, in the order of `shown`.
        """
        return feature_gallery(codec.features(shown.items), codec.features(codec.stored), codec.ids, shown)


AnyKind: TypeAlias = Kind[Any]
"""A kind of data, whatever its codec is."""


@dataclass(frozen=True)
class GeneratorChoice:
    """A generator by name, and its options, an instance of the dataclass that its kind of data declares."""

    name: str
    options: Any


ARGUMENTS = ("kind", "generator", "trial", "n_jobs")
"""Arguments of `fit`, which misspelt ones may mean."""


def choose_generator(kind: AnyKind, name: str, options: dict[str, Any]) -> GeneratorChoice:
    """The generator that a name and options ask for; an unknown option is an error that names the known ones."""
    names = tuple(kind.generators)
    check_choice("generator", name, (AUTO, *names))
    tried = names if name == AUTO else (name,)
    candidates = [one for one in tried if set(options) <= set(option_fields(kind.generators[one]))]
    if not candidates:
        known = sorted({field for one in tried for field in option_fields(kind.generators[one])})
        wrong = next((option for option in options if option not in known), None)
        if wrong is None:
            raise InputError(f"options {', '.join(options)} belong to different generators of {kind.name} data.")
        reading = sorted(option_fields(kind.codec_options))
        where = f"{kind.name} data" if name == AUTO else f"{kind.name} data with the generator {name!r}"
        like = suggest_names(wrong, [*ARGUMENTS, *reading, *known])
        found = f"{wrong} is not an option of {where}; there are {', '.join([*reading, *known])}. {like}"
        raise InputError(found.rstrip())
    return GeneratorChoice(candidates[0], kind.generators[candidates[0]](**options))
