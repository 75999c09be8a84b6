"""Ranges and sets of cells as regions of features, and texts of the command line as conditions.

Conditions on columns that relations determine, as conditions on the columns that determine them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..._backend.arrays import Array
from .. import lazy_pandas as pd
from ..controls import Range, condition_text
from ..delimited.numbers import Notation
from ..options import InputError, listed
from ..regions import Region
from .columns.columns import PLAIN, Column, Levels, Value, find_value
from .columns.scales import Ranks
from .relations.relations import (
    INVERSES,
    LEAST_SOURCES,
    ColumnFormula,
    ColumnFunction,
    ColumnOrder,
    amount_of,
    determined,
    half_step,
    own_numbers,
)

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
        met = (one.contains(features[:, block]) for one, block in zip(restrictions, blocks, strict=True))
        return np.logical_and.reduce(list(met))

    low, high = (np.concatenate([one[side] for one in restrictions]) for side in (0, 1))
    return Region(np.concatenate(places), low, high, contains)


def restriction(column: Column, value: Several, notation: Notation = PLAIN) -> Restriction:
    """The features whose cells lie in a range or are one of several values; InputError if it is impossible."""
    transform = column.require_transform(value)
    if isinstance(transform, Levels):
        return _of_levels(column, value, notation, transform)
    if isinstance(value, Range):
        return _of_range(column, value, notation, transform)
    return _of_numbers(column, value, notation, transform)


def _of_levels(column: Column, value: Several, notation: Notation, levels: Levels) -> Restriction:
    if isinstance(value, Range):
        if not all(isinstance(one, int | float | np.number) and not isinstance(one, bool) for one in levels.values):
            names = listed(list(map(str, levels.values)))
            raise column.refusal(value, f"holds categories, which have no order. Name several of {names} instead.")
        numbers = np.array(levels.values, dtype=np.float64)
        allowed = _inside(value, *ends_of(column, value, notation))(numbers)
        if not allowed.any():
            raise column.refusal(value, f"has no value in there. It has {listed(list(map(str, levels.values)))}.")
    else:
        allowed = np.zeros(len(levels.values), dtype=bool)
        allowed[[column.find_level(one, notation, levels) for one in _members(column, value)]] = True
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
            raise column.refusal(value, column.explain_limit(none, limit, ranks))
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
    step = math.ceil(end * scale - 1e-9 * max(1.0, abs(end * scale)))
    if excluded and round(step / scale, decimals) <= end:
        step += 1
    stored = values[values > end] if excluded else values[values >= end]  # some have more decimals than new ones get
    return min((step - 0.5) / scale, float(stored.min(initial=np.inf)))


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
        return column.find_level(one, notation, levels) if isinstance(levels, Levels) else column.number(one, notation)

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
    for column in sorted(codec.columns, key=lambda column_: -len(column_.name)):
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
        if "|" in high and find_value(high, levels, notation) is None:
            return {column.parse(part.strip(), notation) for part in high.split("|")}
        return column.parse(high, notation)
    ends = {RANGES[MIRRORED[match["first"]]]: _end(column, low, notation)} if low else {}
    return Range(**ends, **({RANGES[sign]: _end(column, high.strip(), notation)} if sign else {}))


def _end(column: Column, text: str, notation: Notation) -> Value:
    """An end of a range: a number, or a text where the column does not hold numbers."""
    if column.unit or column.transform is None:
        return text
    try:
        number = column.number(text, notation)
    except InputError:
        if isinstance(column.transform, Levels):
            return text
        raise
    return int(number) if number.is_integer() else number


Condition = Value | Several


def given_relations(codec: TableCodec, values: Mapping[str, Condition]) -> dict[str, Condition]:
    """The conditions, those on a column that another one determines turned into conditions on the latter.

    InputError where new rows could not meet a condition and a relation at once.
    """
    out, computed = dict(values), determined(codec.relations)
    for name in [name for name in values if name in computed]:
        one = computed[name]
        if isinstance(one, ColumnFormula) and _is_copy(codec, one):
            source, copied = one.sources[0], out.pop(name)
            out[source] = codec.both(source, out[source], copied) if source in out else copied
            continue
        if isinstance(one, ColumnFormula) and one.operation in INVERSES and not _has_members(values[name]):
            source, interval = one.sources[0], _source_range(codec, one, out.pop(name))
            out[source] = codec.both(source, out[source], interval) if source in out else interval
            continue
        if not isinstance(one, ColumnFunction):
            remedy = (
                f"Condition on {' and '.join(map(repr, one.names[1:]))}, or state other relations with constraints."
            )
            raise InputError(f"condition {condition_text(name, values[name])}: the column is {one}. {remedy}")
        sources = _sources(codec, one.source, name, out.pop(name))
        out[one.source] = codec.both(one.source, out[one.source], sources) if one.source in out else sources
    for order in _implied([one for one in codec.relations if isinstance(one, ColumnOrder)]):
        if order.low in values and order.high in values:
            _require_possible(codec, order, values)
    return out


def _is_copy(codec: TableCodec, formula: ColumnFormula) -> bool:
    """Whether a formula gives the very values of its source, which it does not if the target is rounded more."""
    if formula.operation or formula.factor != 1 or formula.shift != 0:
        return False
    target, source = (half_step(codec.columns[codec.position(name)]) for name in formula.names)
    return target <= source


def _has_members(condition: Condition) -> bool:
    """Whether a condition lists values, which are no interval."""
    return isinstance(condition, AbstractSet | list | tuple)


def _source_range(codec: TableCodec, formula: ColumnFormula, condition: Condition) -> Range:
    """The interval of the source of a formula whose rows have a value of the target that meets a condition.

    New values of the target are rounded, so its ends lie halfway between the last value that meets it and the next.
    """
    target, source = (codec.columns[codec.position(name)] for name in formula.names)
    low, high = _numbers(codec, formula.target, condition)
    is_open = [getattr(condition, name, None) is not None for name in ("gt", "lt")]
    step = 1.0 if target.unit else 2 * half_step(target)
    if step and math.isfinite(low):
        low = (math.floor(low / step + 1e-9) + 0.5 if is_open[0] else math.ceil(low / step - 1e-9) - 0.5) * step
    if step and math.isfinite(high):
        high = (math.ceil(high / step - 1e-9) - 0.5 if is_open[1] else math.floor(high / step + 1e-9) + 0.5) * step
    is_open = [step > 0 or is_excluded for is_excluded in is_open]
    ends = [amount_of(target, number) for number in (low, high)]
    if formula.factor < 0:
        ends, is_open = ends[::-1], is_open[::-1]
    try:
        ends[0], is_open[0] = _lower_end(formula, ends[0], is_open[0])
        ends[1] = formula.source_amount(ends[1])
    except (ValueError, OverflowError):
        raise target.refusal(condition, f"is {formula}, which does not give such values.") from None
    names = ("gt" if is_open[0] else "ge", "lt" if is_open[1] else "le")
    return Range(**{name: _value(source, end) for name, end in zip(names, ends, strict=True) if math.isfinite(end)})


def _lower_end(formula: ColumnFormula, amount: float, is_open: bool) -> tuple[float, bool]:
    """The amount of the source that gives the lower end of the target, and whether it is excluded itself.

    Of an end below all that the operation gives, the least amount that it takes.
    """
    try:
        return formula.source_amount(amount), is_open
    except ValueError:
        return LEAST_SOURCES[formula.operation], False


def _value(column: Column, amount: float) -> Value:
    """An amount of a column as a value that its conditions take."""
    return own_numbers(column, amount) if column.date_scale is None else pd.Timestamp(amount, unit="s")


def _implied(orders: Sequence[ColumnOrder]) -> list[ColumnOrder]:
    """The orders, and those that follow from them: a <= c from a <= b and b <= c."""
    strictness = {(one.low, one.high): one.strict for one in orders}
    while True:
        chains = [(a, d, s or t) for (a, b), s in strictness.items() for (c, d), t in strictness.items() if b == c]
        new = {(a, d): strict for a, d, strict in chains if strict > strictness.get((a, d), -1)}
        if not new:
            return [ColumnOrder(low, high, strict) for (low, high), strict in strictness.items()]
        strictness |= new


def _sources(codec: TableCodec, source: str, target: str, condition: Condition) -> Condition:
    """The values of a column whose rows have a value of the target that meets a condition."""
    column, notation = codec.columns[codec.position(target)], codec.style.notation(target)
    if isinstance(column.transform, Levels) and not isinstance(condition, Range):
        several = condition if isinstance(condition, AbstractSet | list | tuple) else [condition]
        for value in several:
            column.condition(value, notation)  # an error where there is no such value
    pairs = codec.stored[[source, target]].dropna().drop_duplicates(source)
    rows = zip(pairs[source].tolist(), pairs[target].tolist(), strict=True)
    allowed = [x for x, y in rows if meets(column, y, condition, notation)]
    if not allowed:
        raise column.refusal(condition, f"has no stored value that meets it, and follows from {source!r}.")
    return allowed[0] if len(allowed) == 1 else set(allowed)


def _require_possible(codec: TableCodec, order: ColumnOrder, values: Mapping[str, Condition]) -> None:
    """InputError where conditions on both columns of an order do not imply it."""
    last = _ends(codec, order.low, values[order.low])[1]
    first = _ends(codec, order.high, values[order.high])[0]
    if last > first or (order.strict and last == first) or math.isnan(last - first):
        pair = f"{condition_text(order.low, values[order.low])} and {condition_text(order.high, values[order.high])}"
        raise InputError(f"condition {pair}: rows must also meet {order}. Condition on one of the two, or narrow both.")


def _ends(codec: TableCodec, name: str, condition: Condition) -> tuple[float, float]:
    """The least and the largest amount that a condition allows, in seconds since 1970 for dates."""
    column = codec.columns[codec.position(name)]
    low, high = _numbers(codec, name, condition)
    return amount_of(column, low), amount_of(column, high)


def _numbers(codec: TableCodec, name: str, condition: Condition) -> tuple[float, float]:
    """The least and the largest number of a column that a condition allows."""
    column, notation = codec.columns[codec.position(name)], codec.style.notation(name)
    if isinstance(condition, Range):
        return ends_of(column, condition, notation)
    values = condition if isinstance(condition, AbstractSet | list | tuple) else [condition]
    numbers = [column.number(value, notation) for value in values]
    return min(numbers), max(numbers)
