"""How a page shows items of a kind of data, and the controls with which its user conditions new ones.

`Display` is a frozen object that a `Kind` names. Its defaults work for any codec whose `features` are numbers.

A kind of data lists its controls (`Kind.display.controls`). An application draws them by their type and does not need
to know the kind: `fixed` and `current` are what the page gets, and `texts` turns a choice into NAME=VALUE strings for
`Kind.parse_condition`.
"""

from __future__ import annotations

import datetime
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from .._backend.arrays import Array
from .._backend.html import Html, fold, join, name, number, share, tag, wide
from .._backend.state import Plain
from .codec import Codec, distinct_names
from .options import InputError

MAX_OFFERED = 1000  # stored items that a list offers
Choice = Mapping[str, Plain]  # what a user chose, by name, as a page sends it; empty without a condition


@dataclass(frozen=True)
class Control(ABC):
    """One control: `name` is unique among the controls of a kind, and `label` is what the user reads."""

    name: str
    label: str
    type: ClassVar[str]

    @abstractmethod
    def texts(self, choice: Choice) -> tuple[str, ...]:
        """Conditions as `Kind.parse_condition` reads them; empty for an empty choice."""

    def fixed(self) -> dict[str, Plain]:
        """What a page needs to draw the control: plain values that do not change."""
        return {"type": self.type, **{name: value for name, value in vars(self).items() if not callable(value)}}

    def current(self, choice: Choice) -> dict[str, Plain]:
        """What the control shows while this is chosen."""
        return {"choice": dict(choice)}


@dataclass(frozen=True)
class RangeControl(Control):
    """The values of a part between two ends; equal ends ask for one value. Chosen: low, high.

    kind:    "number", "date" for strings such as 2021-05-01, or "text" for ordered strings such as 08:30
    decimal: the decimal sign of the conditions
    low, high: the least and the largest value on offer
    is_timed: whether values have a time of day too, so that a range lasts to the end of its last day
    """

    low: float | str
    high: float | str
    kind: str = "number"
    is_whole: bool = False
    decimal: str = "."
    is_timed: bool = False
    type: ClassVar[str] = "range"

    def texts(self, choice: Choice) -> tuple[str, ...]:
        """NAME=VALUE, or a range with the chosen ends."""
        low, high = (str(choice[end]).strip() if choice.get(end) is not None else "" for end in ("low", "high"))
        if self.kind == "number":
            low, high = low.replace(".", self.decimal), high.replace(".", self.decimal)
        if not low and not high:
            return ()
        if self.is_timed and high:
            try:
                end = datetime.date.fromisoformat(high) + datetime.timedelta(days=1)
            except (ValueError, OverflowError):
                raise InputError(f"{self.label}: must be a day such as 2021-05-01; got {high!r}.") from None
            return (f"{low}<={self.name}<{end}" if low else f"{self.name}<{end}",)
        if low == high:
            return (f"{self.name}={low}",)
        if low and high:
            return (f"{low}<={self.name}<={high}",)
        return (f"{self.name}>={low}" if low else f"{self.name}<={high}",)


@dataclass(frozen=True)
class ChoiceControl(Control):
    """One or several values of a part. Chosen: values."""

    choices: tuple[str, ...]
    type: ClassVar[str] = "choice"

    def texts(self, choice: Choice) -> tuple[str, ...]:
        """NAME=VALUE|VALUE; InputError if one of several values contains the sign |."""
        values = choice.get("values")
        names = list(map(str, values)) if isinstance(values, list | tuple) else []
        ambiguous = [name for name in names if "|" in name]
        if ambiguous and len(names) > 1:
            raise InputError(f"{self.label}: {ambiguous[0]!r} contains |, which separates values. Choose it alone.")
        return (f"{self.name}={'|'.join(names)}",) if names else ()


@dataclass(frozen=True)
class LettersControl(Control):
    """Letters at places of a sequence, shown as a logo. Chosen: a letter by place.

    places:  names of the places
    letters: for each place, letters and their shares, the most frequent first
    heights: how informative each place is, from 0 to 1
    """

    places: tuple[str, ...]
    letters: tuple[tuple[tuple[str, float], ...], ...]
    heights: tuple[float, ...]
    alphabet: tuple[str, ...]
    type: ClassVar[str] = "letters"

    def texts(self, choice: Choice) -> tuple[str, ...]:
        """PLACE=LETTER for each."""
        ordered = sorted(choice, key=lambda place: self.places.index(place) if place in self.places else -1)
        return tuple(f"{place}={choice[place]}" for place in ordered if choice[place])


class StoredControl(Control):
    """A part that new items have in common with a stored item, `source`, chosen from a list of distinct names.

    shown: what a page needs to show stored item k; it gets this as its value `shown_as`
    """

    ids: tuple[str, ...]
    shown: Callable[[int], Plain]
    shown_as: ClassVar[str]

    def index(self, choice: Choice) -> int:
        """The index of the chosen stored item, the first by default."""
        source = choice.get("source", 0)
        return source if isinstance(source, int) and 0 <= source < len(self.ids) else 0

    def source(self, choice: Choice) -> str:
        """The name of the chosen stored item, by which a condition finds it."""
        return distinct_names(self.ids)[self.index(choice)]

    def read_integers(self, choice: Choice, *sides: str) -> list[int]:
        """The integers of these sides; none unless all of them are chosen."""
        integers = []
        for side in filter(choice.__contains__, sides):
            value = choice[side]
            if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
                raise InputError(f"{self.label}: {side} must be an integer; got {value!r}.")
            integers.append(int(value))
        return integers if len(integers) == len(sides) else []

    def fixed(self) -> dict[str, Plain]:
        return {**super().fixed(), "ids": list(distinct_names(self.ids)[:MAX_OFFERED])}

    def current(self, choice: Choice) -> dict[str, Plain]:
        return {**super().current(choice), self.shown_as: self.shown(self.index(choice))}


@dataclass(frozen=True)
class RectangleControl(StoredControl):
    """A rectangle on a stored image, `shown` as its address. Chosen: source, and top, bottom, left, right from 1."""

    height: int
    width: int
    ids: tuple[str, ...]
    shown: Callable[[int], str]
    type: ClassVar[str] = "rectangle"
    shown_as: ClassVar[str] = "backdrop"

    def texts(self, choice: Choice) -> tuple[str, ...]:
        """TOP:BOTTOM,LEFT:RIGHT=ID."""
        sides = self.read_integers(choice, "top", "bottom", "left", "right")
        if not sides:
            return ()
        top, bottom, left, right = sides
        return (f"{top}:{bottom},{left}:{right}={self.source(choice)}",)


@dataclass(frozen=True)
class StretchControl(StoredControl):
    """A stretch of time, by thinned values of each channel. Chosen: first, last (from 1, both in), source, channel."""

    length: int
    channels: tuple[str, ...]
    ids: tuple[str, ...]
    shown: Callable[[int], list[list[float]]]
    type: ClassVar[str] = "stretch"
    shown_as: ClassVar[str] = "lines"

    def texts(self, choice: Choice) -> tuple[str, ...]:
        """FIRST:LAST=ID, with CHANNEL@ before it where one of several channels is chosen."""
        ends = self.read_integers(choice, "first", "last")
        channel = choice.get("channel") if len(self.channels) > 1 else None
        prefix = f"{channel}@" if channel else ""
        return (f"{prefix}{ends[0]}:{ends[1]}={self.source(choice)}",) if ends else ()


@dataclass(frozen=True)
class StepsControl(Control):
    """Numbers at the first steps of a path, by series and step. Chosen: {series: {step: number}}.

    extents: for each series, the largest number that the slider reaches
    """

    series: tuple[str, ...]
    n_steps: int
    extents: tuple[float, ...]
    type: ClassVar[str] = "steps"

    def texts(self, choice: Choice) -> tuple[str, ...]:
        """SERIES@STEP=NUMBER for each."""
        texts = []
        for series, steps in choice.items():
            numbers = steps.items() if isinstance(steps, Mapping) else ()
            for step, value in sorted((int(step), value) for step, value in numbers):
                if not isinstance(value, int | float) or not math.isfinite(value):
                    raise InputError(f"{series}, step {step}: must be a number; got {value!r}. Leave it out.")
                texts.append(f"{series}@{step}={float(value)!r}")
        return tuple(texts)


C = TypeVar("C", bound=Codec)

MAX_OPEN = 6  # cards that are seen without a click where they take much room
MAX_FEATURES = 40


class GalleryItems(NamedTuple):
    """The m new items of a gallery."""

    items: Any
    numbers: Array  # (m,) the place of each among all, from 0
    nearest: Array  # (m,) index of the stored item beside it
    novelty: Array  # (m,)
    extra: dict[str, Array]  # further columns by name, (m,) each
    with_differences: bool = False  # whether differences are shown beside items in which they cannot be marked


def card_heading(shown: GalleryItems, i: int, stored: Html) -> Html:
    """Number of item i, its novelty and further figures, and the stored item beside it."""
    figures = [f"novelty {number(float(shown.novelty[i]), 2)}"]
    figures += [f"{k} {(share if k == 'identity' else number)(float(x[i]))}" for k, x in shown.extra.items()]
    return tag("h4", tag("b", f"New {shown.numbers[i] + 1:,}"), f" · {' · '.join(figures)} · nearest: ", stored)


def stored_name(ids: tuple[str, ...], labels: tuple[str, ...] | None, k: int) -> Html:
    """The name of a stored item, and its class if it has one."""
    return name(ids[k]) if labels is None else join([name(ids[k]), " (", name(labels[k], 30), ")"])


def lay_out(cards: list[Html], class_: str) -> Html:
    """The first cards, and the others folded away: on a phone, each takes the width of the page."""
    first, rest = cards[:MAX_OPEN], cards[MAX_OPEN:]
    shown = tag("div", *first, class_=class_)
    return join([shown, fold(f"{len(rest)} more", tag("div", *rest, class_=class_))]) if rest else shown


def _feature_gallery(codec: Codec, shown: GalleryItems) -> Html:
    """Two rows of numbers for each item: the new one, and the stored one nearest to it."""
    new, stored = codec.features(shown.items), codec.features(codec.stored)
    columns = range(min(new.shape[1], MAX_FEATURES))
    rows = []
    for i, k in enumerate(shown.nearest):
        first = join([tag("b", f"New {shown.numbers[i] + 1:,}"), f" · {number(float(shown.novelty[i]), 2)}"])
        for head, values, kind in ((first, new[i], "new"), (name(codec.ids[k], 24), stored[k], "old")):
            rows.append(tag("tr", tag("td", head), *(tag("td", f"{values[j]:.4g}") for j in columns), class_=kind))
    head = tag("tr", tag("th", "novelty", scope="col"), *(tag("th", f"{j + 1}", scope="col") for j in columns))
    body = tag("table", tag("thead", head), tag("tbody", *rows), class_="cells")
    about = tag("p", "Each new item above the stored item nearest to it.", class_="note")
    return join([about, wide(body, "new items beside stored items")])


def _no_entries(codec: Codec) -> tuple[()]:
    return ()


@dataclass(frozen=True)
class Display(Generic[C]):
    """How items of a kind of data are shown.

    gallery:  (codec, shown): new items beside the stored ones nearest to them, as a part of a page. Each new item is an
              element of the class "item", or a row of the class "new" in a table, in the order of `shown`
    style:    CSS of the gallery, which a page includes
    controls: (codec): the controls with which a user of a page conditions new items
    column_types: (codec): names and types of the parts of an item, if they have types

    >>> import stochattn as sa
    >>> from stochattn.kinds import Display
    >>> Display().controls(sa.fit(["MKVL", "MRIL", "MKIL"]).codec)
    ()
    """

    gallery: Callable[[C, GalleryItems], Html] = _feature_gallery
    style: str = ""
    controls: Callable[[C], tuple[Control, ...]] = _no_entries
    column_types: Callable[[C], tuple[tuple[str, str], ...]] = _no_entries
