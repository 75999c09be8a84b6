"""Controls with which a user of a page conditions new items. Each turns what was chosen into texts for conditions.

A kind of data lists its controls (`Kind.display.controls`). An application draws them by their type and does not need
to know the kind: `fixed` and `current` are what the page gets, and `texts` turns a choice into NAME=VALUE texts for
`Kind.parse_condition`.

Ranges of values that conditions allow, and values of conditions as texts and as plain values.
"""

from __future__ import annotations

import datetime
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from .._backend.state import Plain
from .codec import distinct_names
from .options import InputError

MAX_OFFERED = 1000
"""Stored items that a list offers."""
Choice = Mapping[str, Plain]
"""What a user chose: plain values by name, as a page sends them; empty where nothing is conditioned."""


@dataclass(frozen=True)
class Control(ABC):
    """One control: `name` is unique among those of a kind, and `label` is what the user reads."""

    name: str
    label: str
    type: ClassVar[str]

    @abstractmethod
    def texts(self, choice: Choice) -> tuple[str, ...]:
        """Conditions as `Kind.parse_condition` reads them; empty for an empty choice."""

    def fixed(self) -> dict[str, Plain]:
        """What a page needs to draw it, as plain values that do not change."""
        shown = {one.name: getattr(self, one.name) for one in fields(self)}
        return {"type": self.type, **{name: value for name, value in shown.items() if not callable(value)}}

    def current(self, choice: Choice) -> dict[str, Plain]:
        """What it shows while this is chosen."""
        return {"choice": dict(choice)}


@dataclass(frozen=True)
class RangeControl(Control):
    """Values from `low` to `high` of a part; the same value twice means that value. Chosen: low, high.

    kind:    "number", "date" for texts such as 2021-05-01, or "text" for others in an order, such as 08:30
    decimal: the decimal sign of the conditions
    is_timed: whether dates are days of values with a time, which last up to the next day
    """

    low: float | str
    high: float | str
    kind: str = "number"
    is_whole: bool = False
    decimal: str = "."
    is_timed: bool = False
    type: ClassVar[str] = "range"

    def texts(self, choice: Choice) -> tuple[str, ...]:
        """NAME=VALUE, or a range with the ends that are given."""
        low, high = (self._text(choice.get(end)) for end in ("low", "high"))
        if not low and not high:
            return ()
        if self.is_timed and high:
            end = self._next_day(high)
            return (f"{low}<={self.name}<{end}" if low else f"{self.name}<{end}",)
        if low == high:
            return (f"{self.name}={low}",)
        if low and high:
            return (f"{low}<={self.name}<={high}",)
        return (f"{self.name}>={low}" if low else f"{self.name}<={high}",)

    def _next_day(self, day: str) -> str:
        try:
            return str(datetime.date.fromisoformat(day) + datetime.timedelta(days=1))
        except (ValueError, OverflowError):
            raise InputError(f"{self.label}: must be a day such as 2021-05-01; got {day!r}.") from None

    def _text(self, value: Plain) -> str:
        written = "" if value is None else str(value).strip()
        return written.replace(".", self.decimal) if self.kind == "number" else written


@dataclass(frozen=True)
class ChoiceControl(Control):
    """One or several values of a part. Chosen: values."""

    choices: tuple[str, ...]
    type: ClassVar[str] = "choice"

    def texts(self, choice: Choice) -> tuple[str, ...]:
        """NAME=VALUE|VALUE; InputError for several values of which one contains the sign between them."""
        values = choice.get("values")
        names = list(map(str, values)) if isinstance(values, list | tuple) else []
        if len(names) > 1 and (split := next((name for name in names if "|" in name), None)) is not None:
            raise InputError(f"{self.label}: {split!r} contains |, which separates values. Choose it alone.")
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


class _AsStored(Control):
    """A part that is as in a stored item, which a list offers by its id, with its number where others have it too."""

    ids: tuple[str, ...]

    def source(self, choice: Choice) -> str:
        """The name of the chosen stored item, by which a condition finds it."""
        return distinct_names(self.ids)[_index(choice, self.ids)]

    def fixed(self) -> dict[str, Plain]:
        """With the names of stored items that the list offers."""
        return {**super().fixed(), "ids": list(distinct_names(self.ids)[:MAX_OFFERED])}


@dataclass(frozen=True)
class RectangleControl(_AsStored):
    """A rectangle of a grid that is as in a stored item. Chosen: source, and top, bottom, left, right from 1.

    shown: the address of an image of stored item k
    """

    height: int
    width: int
    ids: tuple[str, ...]
    shown: Callable[[int], str]
    type: ClassVar[str] = "rectangle"

    def texts(self, choice: Choice) -> tuple[str, ...]:
        """TOP:BOTTOM,LEFT:RIGHT=ID."""
        sides = [
            _whole(self.label, side, choice[side]) for side in ("top", "bottom", "left", "right") if side in choice
        ]
        if len(sides) < 4:
            return ()
        top, bottom, left, right = sides
        return (f"{top}:{bottom},{left}:{right}={self.source(choice)}",)

    def current(self, choice: Choice) -> dict[str, Plain]:
        """With the image of the chosen stored item."""
        return {**super().current(choice), "backdrop": self.shown(_index(choice, self.ids))}


@dataclass(frozen=True)
class StretchControl(_AsStored):
    """A stretch of time that is as in a stored item. Chosen: first, last (from 1, ends included), source, channel.

    shown: the values of each channel of stored item k, thinned for a small plot
    """

    length: int
    channels: tuple[str, ...]
    ids: tuple[str, ...]
    shown: Callable[[int], list[list[float]]]
    type: ClassVar[str] = "stretch"

    def texts(self, choice: Choice) -> tuple[str, ...]:
        """FIRST:LAST=ID, with CHANNEL@ before it where one of several channels is chosen."""
        ends = [_whole(self.label, end, choice[end]) for end in ("first", "last") if end in choice]
        if len(ends) < 2:
            return ()
        channel = choice.get("channel")
        prefix = f"{channel}@" if channel and len(self.channels) > 1 else ""
        return (f"{prefix}{ends[0]}:{ends[1]}={self.source(choice)}",)

    def current(self, choice: Choice) -> dict[str, Plain]:
        """With the values of the chosen stored item."""
        return {**super().current(choice), "lines": self.shown(_index(choice, self.ids))}


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
        found = []
        for series, steps in choice.items():
            given = sorted((int(step), value) for step, value in steps.items()) if isinstance(steps, Mapping) else ()
            for step, value in given:
                if not isinstance(value, int | float) or not math.isfinite(value):
                    raise InputError(f"{series}, step {step}: must be a number; got {value!r}. Leave it out.")
                found.append(f"{series}@{step}={float(value)!r}")
        return tuple(found)


def _index(choice: Choice, ids: Sequence[str]) -> int:
    """The stored item that is chosen, the first by default."""
    source = choice.get("source", 0)
    return source if isinstance(source, int) and 0 <= source < len(ids) else 0


def _whole(label: str, side: str, value: Plain) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise InputError(f"{label}: {side} must be a whole number; got {value!r}.")
    return int(value)


@dataclass(frozen=True, kw_only=True, repr=False)
class Range:
    """Values between two ends, either of which may be left out: `Range(ge=40, lt=60)` is 40 <= value < 60.

    ge, gt: the lower end, included or excluded; le, lt: the upper end, included or excluded

    >>> import stochattn as sa
    >>> sa.Range(ge=40, lt=60)
    Range(ge=40, lt=60)
    """

    ge: Any = None
    gt: Any = None
    le: Any = None
    lt: Any = None

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise InputError("a Range needs at least one end: pass ge, gt, le or lt, such as Range(ge=40).")
        for included, excluded in (("ge", "gt"), ("le", "lt")):
            if getattr(self, included) is not None and getattr(self, excluded) is not None:
                raise InputError(f"a Range takes {included} or {excluded}, not both; got {self!r}. Pass one of them.")

    @property
    def low(self) -> Any:
        """The lower end, or None."""
        return self.gt if self.ge is None else self.ge

    @property
    def high(self) -> Any:
        """The upper end, or None."""
        return self.lt if self.le is None else self.le

    def __repr__(self) -> str:
        given = (f"{name}={end!r}" for name, end in self.ends().items())
        return f"Range({', '.join(given)})"

    def ends(self) -> dict[str, Any]:
        """The ends that are given, by name."""
        return {one.name: end for one in fields(self) if (end := getattr(self, one.name)) is not None}


def condition_text(name: object, value: object) -> str:
    """A condition as it is written on the command line: age=40, 40<=age<60, city=Bergen|Oslo."""
    if isinstance(value, Range):
        low = "" if value.low is None else f"{value.low}{'<' if value.ge is None else '<='}"
        high = "" if value.high is None else f"{'<' if value.le is None else '<='}{value.high}"
        if low and not high:
            return f"{name}{'>' if value.ge is None else '>='}{value.low}"
        return f"{low}{name}{high}"
    return f"{name}={'|'.join(sorted(map(str, value)))}" if isinstance(value, AbstractSet) else f"{name}={value}"


def plain_conditions(conditions: Mapping[Any, Any]) -> dict[Any, Plain]:
    """Conditions as plain values: the ends of a range by name, and the members of a set."""

    def plain(value: object) -> Plain:
        if isinstance(value, Range):
            return value.ends()
        return {"members": sorted(value, key=str)} if isinstance(value, AbstractSet) else value

    return {name: plain(value) for name, value in conditions.items()}


def conditions_of(state: Mapping[Any, Plain]) -> dict[Any, Any]:
    """The conditions whose `plain_conditions` these are."""

    def value(plain: Plain) -> Any:
        if not isinstance(plain, dict):
            return plain
        return set(plain["members"]) if "members" in plain else Range(**plain)

    return {name: value(plain) for name, plain in state.items()}
