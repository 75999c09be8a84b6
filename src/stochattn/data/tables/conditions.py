"""Ranges and sets of cells as regions of features, and texts of the command line as conditions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ...generators.restriction import Region
from ..delimited_numbers import Notation
from ..options import InputError, listed
from ..ranges import Range, condition_text
from .columns import PLAIN, Column, Levels, Value, position_of
from .scales import Ranks

if TYPE_CHECKING:
    from .codec import TableCodec

Members = AbstractSet[Value] | list[Value] | tuple[Value, ...]
Several = Range | Members  # conditions that allow more than one value
WIDENED = 1e-6
"""Scores by which a box is wider than the cells need, above the rounding of scores; also a share of the room up to a
limit, within which scores do not tell numbers from the limit."""
LARGEST_STEP = {"float16": 2.0**-10, "float32": 2.0**-23}
"""By how much the cells of narrow floats may differ from the numbers they stand for, by the name of their type."""
RANGES = {">": "gt", ">=": "ge", "<": "lt", "<=": "le"}
MIRRORED = {"<": ">", "<=": ">="}


class Restriction(NamedTuple):
    """Features of a column whose cells a condition allows: a box (width,), and a test of features (n, width)."""

    low: Array
    high: Array
    contains: Callable[[Array], Array]
    note: str = ""


def region_of(parts: Iterable[tuple[Array, Restriction]]) -> Region:
    """The region in which the features at some positions of each column meet its restriction."""
    places, restrictions = zip(*parts, strict=True)
    ends = np.cumsum([len(place) for place in places]).tolist()
    blocks = [slice(end - len(place), end) for place, end in zip(places, ends, strict=True)]

    def contains(features: Array) -> Array:
        met = (one.contains(features[:, own]) for one, own in zip(restrictions, blocks, strict=True))
        return np.logical_and.reduce(list(met))

    low, high = (np.concatenate([one[side] for one in restrictions]) for side in (0, 1))
    return Region(np.concatenate(places), low, high, contains)


def restriction(column: Column, value: Several, notation: Notation = PLAIN) -> Restriction:
    """The features whose cells lie in a range or are one of several values; InputError if it is impossible."""
    transform = column.modelled(value)
    if isinstance(transform, Levels):
        return _of_levels(column, value, notation, transform)
    if isinstance(value, Range):
        return _of_range(column, value, notation, transform)
    return _of_numbers(column, value, notation, transform)


def _of_levels(column: Column, value: Several, notation: Notation, levels: Levels) -> Restriction:
    if isinstance(value, Range):
        if not all(isinstance(one, int | float | np.number) and not isinstance(one, bool) for one in levels.values):
            known = listed(list(map(str, levels.values)))
            raise column.refusal(value, f"holds categories, which have no order. Name several of {known} instead.")
        numbers = np.array(levels.values, dtype=np.float64)
        allowed = _inside(value, *ends_of(column, value, notation))(numbers)
        if not allowed.any():
            raise column.refusal(value, f"has no value in there. It has {listed(list(map(str, levels.values)))}.")
    else:
        allowed = np.zeros(len(levels.values), dtype=bool)
        allowed[[column.level(one, notation, levels) for one in _members(column, value)]] = True
    free = np.full(len(allowed), np.inf)
    return Restriction(-free, free, lambda features: allowed[np.argmax(features, axis=1)])


def _of_range(column: Column, value: Range, notation: Notation, ranks: Ranks) -> Restriction:
    low, high = ends_of(column, value, notation)
    if low > high:
        raise column.refusal(value, "has no value in there: the ends are reversed. Swap them.")
    for none, limit, outside in (
        ("above", ranks.high, low > ranks.high or (low == ranks.high and value.ge is None)),
        ("below", ranks.low, high < ranks.low or (high == ranks.low and value.le is None)),
    ):
        if outside:
            raise column.refusal(value, column.limit_reached(none, limit, ranks))
    for end in ([low] if low > ranks.values[-1] else []) + ([high] if high < ranks.values[0] else []):
        column.require_near(value, end, ranks)
    first = _edge(low, value.ge is None, ranks.values, ranks.decimals)
    last = -_edge(-high, value.le is None, -ranks.values, ranks.decimals)
    if first > last or (ranks.decimals is not None and first == last):
        raise column.refusal(value, "has no value in there, at the decimals of its values. Widen the range.")
    return _between(column, ranks, first, last, _inside(value, low, high), value)


def _of_numbers(column: Column, value: Members, notation: Notation, ranks: Ranks) -> Restriction:
    numbers = np.sort([column.number(one, notation) for one in _members(column, value)])
    for one in value:
        column.condition(one, notation)  # an error where it is impossible
    first = _edge(numbers[0], False, ranks.values, ranks.decimals)
    last = -_edge(-numbers[-1], False, -ranks.values, ranks.decimals)
    return _between(column, ranks, first, last, lambda cells: np.isin(cells, numbers), value)


def _between(
    column: Column, ranks: Ranks, first: float, last: float, inside: Callable[[Array], Array], value: Several
) -> Restriction:
    """The restriction to cells that are `inside`, all of which come from numbers between first and last."""

    def contains(features: Array) -> Array:
        return inside(column.numbers(column.cells(features)))

    step = LARGEST_STEP.get(column.dtype.name.lower(), 2.0**-52)
    low = -math.inf if math.isinf(first) else _least_score(first - step * abs(first), ranks) - WIDENED
    high = math.inf if math.isinf(last) else _largest_score(last + step * abs(last), ranks) + WIDENED
    beyond = first > ranks.values[-1] or last < ranks.values[0]
    note = f"{condition_text(column.name, value)} lies beyond the stored values of column {column.name!r}"
    return Restriction(np.array([low]), np.array([high]), contains, note if beyond else "")


def _edge(end: float, excluded: bool, values: Array, decimals: int | None) -> float:
    """The least number that may become a cell at or above an end, or above it, once it is rounded."""
    if decimals is None or math.isinf(end):
        return end
    scale = 10.0**decimals
    whole = math.ceil(end * scale - 1e-9 * max(1.0, abs(end * scale)))
    if excluded and round(whole / scale, decimals) <= end:
        whole += 1
    stored = values[values > end] if excluded else values[values >= end]  # some have more decimals than new ones get
    return min((whole - 0.5) / scale, float(stored.min(initial=np.inf)))


def _least_score(number: float, ranks: Ranks) -> float:
    """The least score that stands for a number or, near the lower limit, for any number down there."""
    room = ranks.values[0] - ranks.low
    if math.isfinite(room) and number <= ranks.low + 2 * WIDENED * room:
        return -math.inf
    shared = np.flatnonzero(ranks.values == number)
    return float(ranks.first[shared[0]] if len(shared) else ranks.forward([number])[0])


def _largest_score(number: float, ranks: Ranks) -> float:
    """The largest score that stands for a number or, near the upper limit, for any number up there."""
    room = ranks.high - ranks.values[-1]
    if math.isfinite(room) and number >= ranks.high - 2 * WIDENED * room:
        return math.inf
    shared = np.flatnonzero(ranks.values == number)
    return float(ranks.last[shared[0]] if len(shared) else ranks.forward([number])[0])


def ends_of(column: Column, value: Range, notation: Notation) -> tuple[float, float]:
    """The ends of a range as numbers of a column, infinite where there is none."""
    low, high = (None if end is None else column.number(end, notation) for end in (value.low, value.high))
    return -math.inf if low is None else low, math.inf if high is None else high


def _inside(value: Range, low: float, high: float) -> Callable[[Array], Array]:
    def inside(numbers: Array) -> Array:
        above = numbers > low if value.ge is None else numbers >= low
        return np.asarray(above & (numbers < high if value.le is None else numbers <= high))

    return inside


def both(column: Column, first: Value | Several, second: Value | Several, notation: Notation) -> Value | Several:
    """The condition that cells of a column meet which meet two; InputError where none does."""
    found: Value | Several | None
    if isinstance(first, Range) and isinstance(second, Range):
        found = _overlap(column, first, second, notation)
    else:
        some, other = (second, first) if isinstance(first, Range) else (first, second)
        met = [] if isinstance(some, Range) else [v for v in _listed(some) if meets(column, v, other, notation)]
        found = set(met) if len(met) > 1 else met[0] if met else None
    if found is None:
        earlier = condition_text(column.name, first)
        raise column.refusal(second, f"has no value that also meets {earlier}. Leave out one of the two.")
    return found


def _overlap(column: Column, first: Range, second: Range, notation: Notation) -> Range | None:
    """The values that lie in two ranges, or None where none does."""
    (low, high), (other_low, other_high) = (ends_of(column, one, notation) for one in (first, second))
    lower = second if (other_low, second.ge is None) > (low, first.ge is None) else first
    upper = second if (other_high, second.le is not None) < (high, first.le is not None) else first
    low, high = max(low, other_low), min(high, other_high)
    if low > high or (low == high and (lower.ge is None or upper.le is None)):
        return None
    return Range(ge=lower.ge, gt=lower.gt, le=upper.le, lt=upper.lt)


def meets(column: Column, value: Value, condition: Value | Several, notation: Notation) -> bool:
    """Whether a value of a column meets a condition."""
    if isinstance(condition, Range):
        return bool(_inside(condition, *ends_of(column, condition, notation))(np.array(column.number(value, notation))))

    def place(one: Value) -> float:
        levels = column.transform
        return column.level(one, notation, levels) if isinstance(levels, Levels) else column.number(one, notation)

    return place(value) in {place(one) for one in _listed(condition)}


def _listed(condition: Value | Members) -> list[Value]:
    """The values that a condition other than a range allows."""
    return list(condition) if isinstance(condition, AbstractSet | list | tuple) else [condition]


def _members(column: Column, value: Members) -> Members:
    if not value:
        raise column.refusal(value, "takes at least one value. Name one.")
    return value


def parsed_conditions(codec: TableCodec, texts: Sequence[str]) -> dict[str, Value | Several]:
    """Texts COLUMN=VALUE, COLUMN=VALUE|VALUE, COLUMN>VALUE, VALUE<=COLUMN<VALUE and the like, by column.

    Names may themselves contain such signs: the longest name that fits is meant.
    """
    values: dict[str, Value | Several] = {}
    for text in texts:
        column, match = _named(codec, text)
        value = _parsed(column, match, codec.style.notation(column.name))
        values[column.name] = codec.both(column.name, values[column.name], value) if column.name in values else value
    codec.condition(values)  # impossible values are an error here
    return values


def _named(codec: TableCodec, text: str) -> tuple[Column, re.Match[str]]:
    """The column that a text names, and the parts of the text."""
    after, before = r"\s*(?P<sign>{})(?P<high>.*)", r"\s*(?P<low>[^<>=]+?)\s*(?P<first><=?)\s*"
    for column in sorted(codec.columns, key=lambda one: -len(one.name)):
        if column.name in text:
            name = re.escape(column.name)
            plain = f"(?P<low>)(?P<first>){name}{after.format('<=?|>=?|=')}"
            between = f"{before}{name}(?:{after.format('<=?')})?"
            match = re.fullmatch(plain, text, re.DOTALL) or re.fullmatch(between, text, re.DOTALL)
            if match:
                return column, match
    parts = re.split("<=?|>=?|=", text)
    codec.position(parts[1] if len(parts) == 3 and text.count("<") == 2 else parts[0])  # an error that offers others
    raise InputError(f"condition {text!r} must be NAME=VALUE, such as {text}=1.")


def _parsed(column: Column, match: re.Match[str], notation: Notation) -> Value | Several:
    """The value that the parts of a text mean."""
    sign, low, high = match["sign"], match["low"], match["high"]
    if sign == "=":
        levels = column.transform.values if isinstance(column.transform, Levels) else ()
        if "|" in high and position_of(high, levels, notation) is None:
            return {column.parsed(part.strip(), notation) for part in high.split("|")}
        return column.parsed(high, notation)
    ends = {RANGES[MIRRORED[match["first"]]]: _end(column, low, notation)} if low else {}
    return Range(**ends, **({RANGES[sign]: _end(column, high.strip(), notation)} if sign else {}))


def _end(column: Column, text: str, notation: Notation) -> Value:
    """An end of a range: a number, or a text where the column does not hold numbers."""
    if column.clock is not None or column.transform is None:
        return text
    try:
        number = column.number(text, notation)
    except InputError:
        if isinstance(column.transform, Levels):
            return text
        raise
    return int(number) if number.is_integer() else number
