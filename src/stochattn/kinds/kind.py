"""What a kind of data is: it reads files, fits generators and writes new items.

A kind names two objects for applications: `Measures` compare new items with stored ones, and `Display` shows them. To
add a kind, write a codec and a subclass of `Kind`, and register an instance of it (`stochattn.register_kind`).
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, TypeAlias, TypeVar

import numpy as np

from .._backend.arrays import Array
from .._backend.checks import check_choice, suggest_names
from .._backend.state import Plain
from .codec import Codec, Format, Items, Settings, Writer
from .comparison import Measures
from .display import Display
from .generator import Generator
from .hopfield import HopfieldGenerator, LinearEmbedding, require_exact
from .options import AUTO as AUTO
from .options import HopfieldOptions, InputError, KindDescription, option_fields

C = TypeVar("C", bound=Codec)

_FORMER = {
    **{name: f"display.{name}" for name in ("column_types", "controls", "gallery", "style")},
    **{name: f"measures.{name}" for name in ("annotate", "comparable", "compare", "non_overlapping", "predictors")},
    **{name: f"measures.{name}" for name in ("repeated_identifiers", "same", "statistics", "summarize")},
    **{"key_measure": "measures.key", "kept_measure": "measures.kept", "recall_measures": "measures.recall"},
    **{"parts": "measures.named_parts", "labels_of": "measures.labels", "items_have_labels": "measures.labels"},
    **{"scored": "prepare_for_density", "recognises": "recognizes"},
    **{"read_recognised": "read_recognized", "read_parts": "read_files"},
}
"""Members of `Kind` until version 0.2, and where each is now."""


def _place_of_former(former: str) -> tuple[str, str]:
    """The object that has a former member now, "" for the kind itself, and its name there; with a warning."""
    holder, _, present = _FORMER[former].rpartition(".")
    place = f"in Kind.{holder}, as {present!r} of stochattn.kinds.{holder.capitalize()}"
    now = place if holder else f"called Kind.{present}"
    warnings.warn(f"Kind.{former} is now {now}.", DeprecationWarning, stacklevel=3)
    return holder, present


class Kind(KindDescription, Generic[C]):
    """A kind of data: it reads files, fits generators, and writes new items. One instance of each is registered.

    Its members are those of `KindDescription` and these:
    alternatives:  generators that a trial fits if the default does not pass, in order of preference
    last_resort:   a plain generator in case that no other passes, or ""
    formats:       output formats; the first is the default
    measures:      how the report and the trial of generators measure new items against stored ones
    display:       how a page shows items

    >>> import stochattn as sa
    >>> kind = sa.fit(["MKVL", "MRIL", "MKIL"]).kind
    >>> kind.name, kind.items, next(iter(kind.generators))
    ('protein', 'sequences', 'latent')
    """

    alternatives: tuple[str, ...] = ()
    last_resort: str = ""
    formats: tuple[Format, ...] = ()
    measures: Measures[C] = Measures()
    display: Display[C] = Display()

    if not TYPE_CHECKING:  # type checkers know only the present members

        def __new__(cls, *args, **kwargs):
            """An instance; members that kinds defined until version 0.2 go to where they are now."""
            kind = super().__new__(cls)
            for former in filter(partial(hasattr, cls), _FORMER):
                holder, present = _place_of_former(former)
                value = partial(kind.labels_of, source=()) if present == "labels" else getattr(kind, former)
                if holder:
                    present, value = holder, replace(getattr(kind, holder), **{present: value})
                setattr(kind, present, value)
            return kind

        def __getattr__(self, name):
            """Members that are in `measures` and `display`, or have another name, since version 0.2."""
            if name not in _FORMER:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            holder, present = _place_of_former(name)
            owner = getattr(self, holder) if holder else self
            return getattr(owner, name if holder and hasattr(owner, name) else present)

    @abstractmethod
    def read(self, path: Path, options: Any) -> C:
        """The codec of a file or folder; InputError for one that cannot be used."""

    def read_recognized(self, path: Path, options: Any) -> C:
        """The codec of a file whose kind the user did not name. A note may say what else it could be."""
        return self.read(path, options)

    def codec_of(self, data: Any, options: Any) -> C:
        """The codec of data in memory."""
        raise InputError(f"{self.name} data is read from files: name one.")

    @abstractmethod
    def codec_from_state(self, state: dict[str, Any]) -> C:
        """The codec whose `state` this is."""

    def fit_generator(self, name: str, codec: C, weights: Array, options: Any) -> Generator:
        """The generator of that name for items with weights (K,); by default "hopfield" or "gaussian" of any arrays."""
        from .plain import Gaussian

        arrays = np.asarray(codec.encode(codec.stored), dtype=np.float64)
        if isinstance(options, HopfieldOptions):
            return HopfieldGenerator.of(LinearEmbedding.of(arrays, options), weights, options)
        if name == "gaussian":
            return Gaussian.of_arrays(arrays, weights)
        raise NotImplementedError(f"{type(self).__name__}.fit_generator must fit the generator {name!r}.")

    def evaluated_options(self, options: Any) -> Any:
        """Options of a generator for evaluation, without those that only draws for users need."""
        return options

    def parse_condition(self, codec: C, texts: Sequence[str]) -> Mapping[Any, Any]:
        """NAME=VALUE strings of the command line as values for `Codec.condition`."""
        raise InputError(f"{self.name} data takes no conditions: leave them out.")

    def check_condition(self, codec: C, options: Any, observation: Any) -> None:
        """InputError if a generator with these options, which need not be fitted, cannot take an observation."""
        if isinstance(options, HopfieldOptions):
            require_exact(options.sampler)

    def select(self, codec: C, name: str, text: str) -> Array | None:
        """The stored items whose part `name` has the value of a string: (K,) booleans; None without such a part."""
        return None

    def prepare_for_density(self, codec: C, items: Items) -> tuple[Items, Array | None]:
        """Checked items whose density a user asks for, and which of them (n,) have density 0; None for none."""
        return items, None

    @abstractmethod
    def writer(self, codec: C, destination: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        """A writer of new items into an open binary stream or an empty folder."""

    def as_array(self, codec: C, items: Items, first: int) -> Array:
        """New items, from number `first` on, as numbers (n, ...) for the format "zarr"; the dtype never changes."""
        raise InputError(f"format zarr holds numbers, and {self.items} are not: choose another format.")

    def array_attributes(self, codec: C) -> dict[str, Plain]:
        """What a reader of the array needs to know, such as names of its columns: plain values by name."""
        return {}

    def read_files(self, paths: Sequence[Path], options: Any) -> C:
        """The codec of several files that together hold what one file could; see `parts_in`."""
        codecs = [self.read(path, options) for path in paths]
        return codecs[0].refit(codecs[0].join([codec.stored for codec in codecs]))  # type: ignore[return-value]

    def read_new(self, codec: C, path: Path) -> Items:
        """Items of the same shape as the stored ones, from a file that a writer wrote."""
        return self.read(path, self.codec_options()).stored

    def read_labels(self, codec: C, path: Path) -> Array | None:
        """The class of each new item in such a file (n,); None if the file holds no classes beside the items."""
        return None


AnyKind: TypeAlias = Kind[Any]  # a kind of data, whatever its codec is


@dataclass(frozen=True)
class GeneratorChoice:
    """A generator by name, and its options, an instance of the dataclass that its kind of data declares."""

    name: str
    options: Any


def choose_generator(kind: KindDescription, name: str, options: dict[str, Any]) -> GeneratorChoice:
    """The generator that a name and options ask for; an unknown option is an error that names the known ones."""
    check_choice("generator", name, (AUTO, *kind.generators))
    fields = {tried: option_fields(kind.generators[tried]) for tried in (kind.generators if name == AUTO else (name,))}
    for candidate, of_generator in fields.items():
        if options.keys() <= of_generator.keys():
            return GeneratorChoice(candidate, kind.generators[candidate](**options))
    names = sorted(set().union(*fields.values()))
    unknown = next((option for option in options if option not in names), None)
    if unknown is None:
        raise InputError(f"options {', '.join(options)} belong to different generators of {kind.name} data.")
    where = f"{kind.name} data" if name == AUTO else f"{kind.name} data with the generator {name!r}"
    from .registry import descriptions

    kinds = dict.fromkeys(
        description.name
        for description in descriptions()
        for options in (description.codec_options, *description.generators.values())
        if unknown in option_fields(options)
    )
    if kinds and kind.name not in kinds:
        choices = " or ".join(f"kind={name!r}" for name in kinds)
        raise InputError(f"{unknown} is not an option of {where}: leave it out, or name the kind with {choices}.")
    reading = sorted(option_fields(kind.codec_options))
    like = suggest_names(unknown, ["kind", "generator", "trial", "n_jobs", *reading, *names])  # arguments of `fit` too
    rule = f"{unknown} is not an option of {where}; there are {', '.join([*reading, *names])}"
    raise InputError(f"{rule}. {like}".rstrip())
