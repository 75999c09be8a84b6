"""What is known about a kind of data before its code is loaded: the files it reads, its words and its options.

The registry holds a `KindDescription` of each kind. Recognizing a file and building the options of the command line ask
these alone, so that only the code of the kind that a user chooses is loaded. A `Kind` is a description itself.

Options of codecs and generators are dataclasses whose fields have the help text of the command line.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from .._backend.checks import InputError as InputError
from .._backend.checks import check_beta, check_choice, check_positive

T = TypeVar("T")
NORMS = ("restored", "paper", "whole")  # what `Coordinates` does with the norms of rows


def with_count(n: int, singular: str, plural: str) -> str:
    """A number and the words that agree with it: 1 row is, 2 rows are."""
    return f"{n:,} {singular if n == 1 else plural}"


def listed(names: Sequence[str], most: int = 12) -> str:
    """The first few of some names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def describe_extension(extension: str) -> str:
    """What a message says about the extension of a file."""
    return f"has the extension {extension!r}" if extension else "has no extension"


class Knob(NamedTuple):
    """The slider of an option that moves a generator between recall and generation.

    low, high:  the ends of the slider; None if the stored items set them, as for beta
    recalls_at: the end at which stored items come back, "low" or "high"
    is_log:     whether equal steps of the slider are equal ratios
    place:      the index of the number, for an option that has several

    >>> from stochattn.kinds import Knob
    >>> Knob(0.0, 3.0).recalls_at
    'low'
    """

    low: float | None
    high: float | None
    recalls_at: str = "low"
    is_log: bool = False
    place: int | None = None


@dataclass(frozen=True)
class OptionHelp:
    """What the command line says about an option.

    text: one sentence; a default that is not plain is in square brackets at its end
    flag: the option's name on the command line if it is not that of the field
    knob: the slider, for the one option of a generator that moves it between recall and generation
    """

    text: str
    flag: str | None
    metavar: str | None
    choices: tuple[str, ...]
    knob: Knob | None
    python_only: bool  # whether the command line leaves it out


def option(
    default: T,
    text: str,
    *,
    flag: str | None = None,
    metavar: str | None = None,
    choices: tuple[str, ...] = (),
    knob: Knob | None = None,
    python_only: bool = False,
) -> T:
    """A field of a dataclass of options, with its help text.

    >>> from dataclasses import dataclass
    >>> from stochattn.kinds import option
    >>> @dataclass(frozen=True)
    ... class Options:
    ...     unit: str = option("volt", "Unit of the readings.")
    >>> Options().unit
    'volt'
    """
    about = {"help": OptionHelp(text, flag, metavar, choices, knob, python_only)}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=about)  # type: ignore[return-value]
    return field(default=default, metadata=about)


def option_fields(options: type) -> dict[str, OptionHelp]:
    """The help of each option of a dataclass, by name."""
    return {field.name: field.metadata["help"] for field in fields(options) if "help" in field.metadata}


def rename_former(options: Mapping[str, T], present: Collection[str]) -> dict[str, T]:
    """Options with `color` in place of `colour`, its name until version 0.2, for a kind of data that has it."""
    is_former = "color" in present and "colour" not in present
    return {"color" if is_former and name == "colour" else name: value for name, value in options.items()}


def knob_of(options: type) -> tuple[str, Knob] | None:
    """The name of the option that moves a generator between recall and generation, and its knob; None without one."""
    fields = option_fields(options).items()
    return next(((name, about.knob) for name, about in fields if about.knob is not None), None)


def given_options(options: object) -> dict[str, object]:
    """The options of a dataclass that do not have their default, by name."""
    defaults = type(options)()
    return {name: value for name, value in vars(options).items() if value != getattr(defaults, name)}


@dataclass(frozen=True)
class NoOptions:
    """The options of something that has none.

    >>> from stochattn.kinds import NoOptions
    >>> NoOptions()
    NoOptions()
    """


@dataclass(frozen=True)
class HopfieldOptions:
    """Options of the generator "hopfield": p_beta among embedded items. A kind adds options, or changes defaults.

    >>> from stochattn.kinds import HopfieldOptions
    >>> HopfieldOptions(beta=30.0).sampler
    'exact'
    """

    beta: float | str | None = option(
        None,
        "Inverse temperature: large recalls, small explores. A number, or the rule that chooses it: natural, "
        "inflection, knee, leave-one-out. [natural]",
        knob=Knob(None, None, "high", is_log=True),
    )
    novelty: float | None = option(
        None, "Mean novelty of draws instead of beta: 1 − cosine to the nearest stored row. Small recalls."
    )
    sampler: str = option("exact", "How p_beta is sampled: exact, or Langevin chains (ula, mala, underdamped). [exact]")
    variance: float | None = option(1.0, "Share of the variance that principal components keep.")
    whiten: bool = option(False, "Scale components so that noise follows the directions in which stored items differ.")
    norm: str = option(
        "restored",
        "restored: rows of unit length, and lengths put back. paper: lengths are lost, as published. whole: rows keep "
        "their lengths.",
        choices=NORMS,
    )

    def __post_init__(self) -> None:
        """An impossible temperature or sampler is an error here, not at the first draw."""
        if self.beta is not None and self.novelty is not None:
            got = f"got beta={self.beta!r} and novelty={self.novelty!r}"
            raise ValueError(f"beta and novelty must not both be given; {got}.")
        if isinstance(self.beta, str):
            from ..core.temperature import RULES

            names = tuple(rule.value.replace("_", "-") for rule in RULES)
            check_choice("beta", self.beta.replace("_", "-"), names, "a number or ")
        elif self.beta is not None:
            check_beta(self.beta)
        if self.novelty is not None:
            check_positive("novelty", self.novelty, "0 is exact recall, which no finite beta gives.")
        if self.sampler != type(self).sampler:
            from ..samplers import SAMPLERS

            check_choice("sampler", self.sampler, tuple(SAMPLERS))


AUTO = "auto"  # the generator that a kind names first or that a trial finds better, or the one that has the options


class KindDescription(ABC):  # kinds that are registered have methods that they must define
    """The words, the files and the options of a kind of data.

    item, items, part: what an example is called, one and several, and what it consists of: "row", "rows", "column"
    inputs, condition_help: what it reads, and how a condition is written on the command line, for help texts
    suffixes:      extensions of its files, in lower case
    codec_options: the dataclass of options of reading
    generators:    the dataclass of options of each generator, by name; the first generator is the default

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
