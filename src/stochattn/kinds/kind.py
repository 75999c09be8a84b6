"""What a kind of data is: what reads its files, fits its generators and writes new items.

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
    """Where a former member is now, with a warning: the object that holds it, "" for the kind, and its name there."""
    holder, _, present = _FORMER[former].rpartition(".")
    place = f"in Kind.{holder}, as {present!r} of stochattn.kinds.{holder.capitalize()}"
    now = place if holder else f"called Kind.{present}"
    warnings.warn(f"Kind.{former} is now {now}.", DeprecationWarning, stacklevel=3)
    return holder, present


class Kind(KindDescription, Generic[C]):
    """A kind of data: it reads files, fits generators, and writes new items. One instance of each is registered.

    The members of `KindDescription`, beside:
    alternatives:  generators that a trial fits where the default does not pass, in order of preference
    last_resort:   a plain generator for where no other passes, or ""
    formats:       output formats; the first is the default
    measures:      how new items are measured against stored ones: what the report and the trial of generators ask
    display:       how a page shows them

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
        """The codec of a file whose kind the user did not name; a note may say what else it could be."""
        return self.read(path, options)

    def codec_of(self, data: Any, options: Any) -> C:
        """The codec of data in memory."""
        raise InputError(f"{self.name} data is read from files: name one.")

    @abstractmethod
    def codec_from_state(self, state: dict[str, Any]) -> C:
        """The codec whose `state` this is."""

    def fit_generator(self, name: str, codec: C, weights: Array, options: Any) -> Generator:
        """The generator of that name, fitted on the stored items that count `weights` (K,) times.

        By default "hopfield" and "gaussian" among the arrays of the codec.
        """
        from .plain import Gaussian

        arrays = np.asarray(codec.encode(codec.stored), dtype=np.float64)
        if isinstance(options, HopfieldOptions):
            return HopfieldGenerator.of(LinearEmbedding.of(arrays, options), weights, options)
        if name == "gaussian":
            return Gaussian.of_arrays(arrays, weights)
        raise NotImplementedError(f"{type(self).__name__}.fit_generator must fit the generator {name!r}.")

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

    def prepare_for_density(self, codec: C, items: Items) -> tuple[Items, Array | None]:
        """Items that a user passes for their density, checked, and which of them (n,) have none; None if all may."""
        return items, None

    @abstractmethod
    def writer(self, codec: C, destination: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        """Something to write new items with, into an open binary stream or an empty folder."""

    def as_array(self, codec: C, items: Items, first: int) -> Array:
        """New items, number `first` and those that follow, as numbers (n, ...), whose dtype does not depend on them.

        It is what the format "zarr" holds; InputError for items that are not numbers.
        """
        raise InputError(f"format zarr holds numbers, and {self.items} are not: choose another format.")

    def array_attributes(self, codec: C) -> dict[str, Plain]:
        """What a reader of the array needs to know: names of its columns, for example, as plain values by name."""
        return {}

    def read_files(self, paths: Sequence[Path], options: Any) -> C:
        """The codec of several files, which together hold what one file could; see `parts_in`."""
        codecs = [self.read(path, options) for path in paths]
        return codecs[0].refit(codecs[0].join([codec.stored for codec in codecs]))  # type: ignore[return-value]

    def read_new(self, codec: C, path: Path) -> Items:
        """Items of the same shape as the stored ones, from a file such as a writer wrote; by default as stored ones."""
        return self.read(path, self.codec_options()).stored

    def read_labels(self, codec: C, path: Path) -> Array | None:
        """The class of each new item in such a file (n,), where it holds classes beside the items; else None."""
        return None


AnyKind: TypeAlias = Kind[Any]
"""A kind of data, whatever its codec is."""


@dataclass(frozen=True)
class GeneratorChoice:
    """A generator by name, and its options, an instance of the dataclass that its kind of data declares."""

    name: str
    options: Any


ARGUMENTS = ("kind", "generator", "trial", "n_jobs")
"""Arguments of `fit`, which misspelt ones may mean."""


def choose_generator(kind: KindDescription, name: str, options: dict[str, Any]) -> GeneratorChoice:
    """The generator that a name and options ask for; an unknown option is an error that names the known ones."""
    generators = tuple(kind.generators) if name == AUTO else (name,)
    check_choice("generator", name, (AUTO, *kind.generators))
    candidates = [tried for tried in generators if options.keys() <= option_fields(kind.generators[tried]).keys()]
    if not candidates:
        names = sorted({option for tried in generators for option in option_fields(kind.generators[tried])})
        wrong = next((option for option in options if option not in names), None)
        if wrong is None:
            raise InputError(f"options {', '.join(options)} belong to different generators of {kind.name} data.")
        reading = sorted(option_fields(kind.codec_options))
        where = f"{kind.name} data" if name == AUTO else f"{kind.name} data with the generator {name!r}"
        kinds = _kinds_with(wrong)
        if kinds and kind.name not in kinds:
            choices = " or ".join(f"kind={name!r}" for name in kinds)
            raise InputError(f"{wrong} is not an option of {where}: leave it out, or name the kind with {choices}.")
        like = suggest_names(wrong, [*ARGUMENTS, *reading, *names])
        rule = f"{wrong} is not an option of {where}; there are {', '.join([*reading, *names])}"
        raise InputError(f"{rule}. {like}".rstrip())
    return GeneratorChoice(candidates[0], kind.generators[candidates[0]](**options))


def _kinds_with(option: str) -> list[str]:
    """The kinds of data that have an option of reading or generating by this name."""
    from .registry import descriptions

    return [
        kind.name
        for kind in descriptions()
        if any(option in option_fields(options) for options in (kind.codec_options, *kind.generators.values()))
    ]
