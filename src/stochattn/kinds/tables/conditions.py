"""Conditions on the cells of new rows: as regions of features, from the command line, and through relations.

A condition on a column that a relation determines becomes a condition on the columns that determine it.
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
from ..codec import Range, condition_text
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
    from_amounts,
    half_step,
    index_by_target,
    to_amounts,
)

if TYPE_CHECKING:
    from .codec import TableCodec


Members = AbstractSet[Value] | list[Value] | tuple[Value, ...]
Several = Range | Members  # conditions that allow more than one value
Condition = Value | Several
MARGIN = 1e-6
"""Scores added to each side of a box, above the rounding of scores; also the share of the room up to a limit within
which scores do not distinguish numbers from the limit."""
LARGEST_STEP = {"float16": 2.0**-10, "float32": 2.0**-23}
"""Relative rounding error of the cells of narrow floats, by the name of their dtype."""
RANGES = {">": "gt", ">=": "ge", "<": "lt", "<=": "le"}
LOW_ENDS = {"<": "gt", "<=": "ge"}  # as in 40 <= age


class Restriction(NamedTuple):
    """Features of a column under a condition: a box (width,) that holds them, and a test of features (n, width)."""

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
        met = (part.contains(features[:, block]) for part, block in zip(restrictions, blocks, strict=True))
        return np.logical_and.reduce(list(met))

    low, high = (np.concatenate([part[side] for part in restrictions]) for side in (0, 1))
    return Region(np.concatenate(places), low, high, contains)


def restrict(column: Column, value: Several, notation: Notation = PLAIN) -> Restriction:
    """The features whose cells lie in a range or are one of several values; InputError if there are none."""
    transform = column.require_transform(value)
    if not isinstance(value, Range) and not value:
        raise column.refusal(value, "takes at least one value. Name one.")
    if isinstance(transform, Levels):
        return _restrict_levels(column, value, notation)
    if isinstance(value, Range):
        return _restrict_to_range(column, value, notation)
    return _restrict_to_numbers(column, value, notation)


def _restrict_levels(column: Column, value: Several, notation: Notation) -> Restriction:
    values = column.levels.values
    if isinstance(value, Range):
        names = listed(list(map(str, values)))
        if not all(isinstance(level, int | float | np.number) and not isinstance(level, bool) for level in values):
            raise column.refusal(value, f"holds categories, which have no order. Name several of {names} instead.")
        allowed = _inside(value, *ends_of(column, value, notation))(np.array(values, dtype=np.float64))
        if not allowed.any():
            raise column.refusal(value, f"has no value in this range. It has {names}.")
    else:
        allowed = np.zeros(len(values), dtype=bool)
        allowed[[column.find_level(member, notation) for member in value]] = True
    free = np.full(len(allowed), np.inf)
    return Restriction(-free, free, lambda features: allowed[np.argmax(features, axis=1)])


def _restrict_to_range(column: Column, value: Range, notation: Notation) -> Restriction:
    ranks, (low, high) = column.ranks, ends_of(column, value, notation)
    if low > high:
        raise column.refusal(value, "has no value in this range: the ends are reversed. Swap them.")
    if low > ranks.high or (low == ranks.high and value.ge is None):
        raise column.refusal(value, column.explain_limit("above"))
    if high < ranks.low or (high == ranks.low and value.le is None):
        raise column.refusal(value, column.explain_limit("below"))
    for end in ([low] if low > ranks.values[-1] else []) + ([high] if high < ranks.values[0] else []):
        column.require_near(value, end)
    first = _edge(low, value.ge is None, ranks.values, ranks.decimals)
    last = -_edge(-high, value.le is None, -ranks.values, ranks.decimals)
    if first > last or (ranks.decimals is not None and first == last):
        raise column.refusal(value, "has no value in this range, at the decimals of its values. Widen the range.")
    return _restrict_between(column, first, last, _inside(value, low, high), value)


def _restrict_to_numbers(column: Column, value: Members, notation: Notation) -> Restriction:
    ranks, numbers = column.ranks, np.sort([column.number(member, notation) for member in value])
    for member in value:
        column.condition(member, notation)  # an InputError for an impossible value
    first = _edge(numbers[0], False, ranks.values, ranks.decimals)
    last = -_edge(-numbers[-1], False, -ranks.values, ranks.decimals)
    return _restrict_between(column, first, last, lambda cells: np.isin(cells, numbers), value)


def _restrict_between(
    column: Column, first: float, last: float, inside: Callable[[Array], Array], value: Several
) -> Restriction:
    """The restriction to cells that are `inside`, all of which come from numbers between first and last."""
    ranks = column.ranks

    def contains(features: Array) -> Array:
        return inside(column.numbers(column.cells(features)))

    step = LARGEST_STEP.get(column.dtype.name.lower(), 2.0**-52)
    low = -math.inf if math.isinf(first) else _end_score(first - step * abs(first), ranks, False) - MARGIN
    high = math.inf if math.isinf(last) else _end_score(last + step * abs(last), ranks, True) + MARGIN
    beyond = first > ranks.values[-1] or last < ranks.values[0]
    note = f"{condition_text(column.name, value)} lies beyond the stored values of column {column.name!r}"
    return Restriction(np.array([low]), np.array([high]), contains, note if beyond else "")


def _edge(end: float, excluded: bool, values: Array, decimals: int | None) -> float:
    """The least number that is rounded to a cell at or above an end, or above an end that is excluded."""
    if decimals is None or math.isinf(end):
        return end
    scale = 10.0**decimals
    step = math.ceil(end * scale - 1e-9 * max(1.0, abs(end * scale)))
    if excluded and round(step / scale, decimals) <= end:
        step += 1
    stored = values[values > end] if excluded else values[values >= end]  # some have more decimals than new values
    return min((step - 0.5) / scale, float(stored.min(initial=np.inf)))


def _end_score(number: float, ranks: Ranks, is_upper: bool) -> float:
    """The least or the largest score of a number; infinite near the limit, where scores do not distinguish numbers."""
    sign, outermost, limit = (1, ranks.values[-1], ranks.high) if is_upper else (-1, ranks.values[0], ranks.low)
    room = sign * (limit - outermost)
    if math.isfinite(room) and sign * number >= sign * limit - 2 * MARGIN * room:
        return sign * math.inf
    shared = np.flatnonzero(ranks.values == number)
    scores = ranks.last if is_upper else ranks.first
    return float(scores[shared[0]] if len(shared) else ranks.forward([number])[0])


def ends_of(column: Column, value: Range, notation: Notation) -> tuple[float, float]:
    """The ends of a range as numbers of a column, infinite where there is none."""
    low, high = (None if end is None else column.number(end, notation) for end in (value.low, value.high))
    return -math.inf if low is None else low, math.inf if high is None else high


def _inside(value: Range, low: float, high: float) -> Callable[[Array], Array]:
    def inside(numbers: Array) -> Array:
        above = numbers > low if value.ge is None else numbers >= low
        return np.asarray(above & (numbers < high if value.le is None else numbers <= high))

    return inside


def intersect(column: Column, first: Condition, second: Condition, notation: Notation) -> Condition:
    """The condition of cells of a column that meet two conditions; InputError where no cell does."""
    overlap: Condition | None
    if isinstance(first, Range) and isinstance(second, Range):
        overlap = _overlap(column, first, second, notation)
    else:
        values, condition = (second, first) if isinstance(first, Range) else (first, second)
        members = [] if isinstance(values, Range) else _list_values(values)
        met = [member for member in members if meets(column, member, condition, notation)]
        overlap = set(met) if len(met) > 1 else met[0] if met else None
    if overlap is None:
        earlier = condition_text(column.name, first)
        raise column.refusal(second, f"has no value that also meets {earlier}. Leave out one of the two.")
    return overlap


def _overlap(column: Column, first: Range, second: Range, notation: Notation) -> Range | None:
    """The values that lie in two ranges, or None where none does."""
    (first_low, first_high), (second_low, second_high) = (ends_of(column, end, notation) for end in (first, second))
    lower = second if (second_low, second.ge is None) > (first_low, first.ge is None) else first
    upper = second if (second_high, second.le is not None) < (first_high, first.le is not None) else first
    low, high = max(first_low, second_low), min(first_high, second_high)
    if low > high or (low == high and (lower.ge is None or upper.le is None)):
        return None
    return Range(ge=lower.ge, gt=lower.gt, le=upper.le, lt=upper.lt)


def meets(column: Column, value: Value, condition: Condition, notation: Notation) -> bool:
    """Whether a value of a column meets a condition."""
    if isinstance(condition, Range):
        return bool(_inside(condition, *ends_of(column, condition, notation))(np.array(column.number(value, notation))))

    def place(member: Value) -> float:
        if isinstance(column.transform, Levels):
            return column.find_level(member, notation)
        return column.number(member, notation)

    return place(value) in {place(member) for member in _list_values(condition)}


def _list_values(condition: Value | Members) -> list[Value]:
    """The values that a condition other than a range allows."""
    return list(condition) if isinstance(condition, AbstractSet | list | tuple) else [condition]


def parse_conditions(codec: TableCodec, texts: Sequence[str]) -> dict[str, Condition]:
    """Conditions by column, from strings such as COLUMN=VALUE, COLUMN=VALUE|VALUE, COLUMN>VALUE and LOW<=COLUMN<HIGH.

    Names may themselves contain such signs: the longest name that fits is meant.
    """
    values: dict[str, Condition] = {}
    for text in texts:
        column, match = _split(codec, text)
        _add(values, codec, column.name, _parse(column, match, codec.style.notation(column.name)))
    codec.condition(values)  # an InputError for impossible values
    return values


def _add(conditions: dict[str, Condition], codec: TableCodec, name: str, condition: Condition) -> None:
    conditions[name] = codec.combine(name, conditions[name], condition) if name in conditions else condition


def _split(codec: TableCodec, text: str) -> tuple[Column, re.Match[str]]:
    """The column that a string names, and the parts of the string."""
    after, before = r"\s*(?P<sign>{})(?P<high>.*)", r"\s*(?P<low>[^<>=]+?)\s*(?P<first><=?)\s*"
    for column in sorted(codec.columns, key=lambda candidate: -len(candidate.name)):
        if column.name in text:
            name = re.escape(column.name)
            plain = f"(?P<low>)(?P<first>){name}{after.format('<=?|>=?|=')}"
            between = f"{before}{name}(?:{after.format('<=?')})?"
            match = re.fullmatch(plain, text, re.DOTALL) or re.fullmatch(between, text, re.DOTALL)
            if match:
                return column, match
    parts = re.split("<=?|>=?|=", text)
    # An InputError that suggests names of columns.
    codec.position(parts[1] if len(parts) == 3 and text.count("<") == 2 else parts[0])
    raise InputError(f"condition {text!r} must be NAME=VALUE, such as {text}=1.")


def _parse(column: Column, match: re.Match[str], notation: Notation) -> Condition:
    sign, low, high = match["sign"], match["low"], match["high"]
    if sign == "=":
        levels = column.transform.values if isinstance(column.transform, Levels) else ()
        if "|" in high and find_value(high, levels, notation) is None:
            return {column.parse(part.strip(), notation) for part in high.split("|")}
        return column.parse(high, notation)
    ends = {LOW_ENDS[match["first"]]: _end(column, low, notation)} if low else {}
    return Range(**ends, **({RANGES[sign]: _end(column, high.strip(), notation)} if sign else {}))


def _end(column: Column, text: str, notation: Notation) -> Value:
    """An end of a range: a number, or a string where the column does not hold numbers."""
    if not isinstance(column.transform, Levels):
        return column.parse(text, notation)
    try:
        number = column.number(text, notation)
    except InputError:
        return text
    return int(number) if number.is_integer() else number


def resolve_relations(codec: TableCodec, values: Mapping[str, Condition]) -> dict[str, Condition]:
    """The conditions, where a condition on a computed column is replaced by one on the column it is computed from.

    InputError where new rows could not meet a condition and a relation at once.
    """
    resolved, computed = dict(values), index_by_target(codec.relations)
    for name in [name for name in values if name in computed]:
        relation = computed[name]
        is_list = isinstance(values[name], AbstractSet | list | tuple)
        if isinstance(relation, ColumnFunction):
            _add(resolved, codec, relation.source, _list_sources(codec, relation.source, name, resolved.pop(name)))
        elif isinstance(relation, ColumnFormula) and _is_copy(codec, relation):
            _add(resolved, codec, relation.sources[0], resolved.pop(name))
        elif isinstance(relation, ColumnFormula) and relation.operation in INVERSES and not is_list:
            _add(resolved, codec, relation.sources[0], _source_range(codec, relation, resolved.pop(name)))
        else:
            sources = " and ".join(map(repr, relation.names[1:]))
            remedy = f"Condition on {sources}, or state other relations with constraints."
            raise InputError(f"condition {condition_text(name, values[name])}: the column is {relation}. {remedy}")
    for order in _close_orders([relation for relation in codec.relations if isinstance(relation, ColumnOrder)]):
        if order.low in values and order.high in values:
            _require_possible(codec, order, values)
    return resolved


def _is_copy(codec: TableCodec, formula: ColumnFormula) -> bool:
    """Whether a formula gives exactly the values of its source, which it does not if the target has fewer decimals."""
    if formula.operation or formula.factor != 1 or formula.shift != 0:
        return False
    target, source = (half_step(codec.by_name[name]) for name in formula.names)
    return target <= source


def _source_range(codec: TableCodec, formula: ColumnFormula, condition: Condition) -> Range:
    """The interval of the source of a formula in which the target meets a condition.

    New values of the target are rounded, so the ends lie halfway between the last value that meets it and the next.
    """
    target, source = (codec.by_name[name] for name in formula.names)
    low, high = _find_ends(codec, target, condition)
    is_open = [getattr(condition, name, None) is not None for name in ("gt", "lt")]
    step = 1.0 if target.unit else 2 * half_step(target)
    if step and math.isfinite(low):
        low = (math.floor(low / step + 1e-9) + 0.5 if is_open[0] else math.ceil(low / step - 1e-9) - 0.5) * step
    if step and math.isfinite(high):
        high = (math.ceil(high / step - 1e-9) - 0.5 if is_open[1] else math.floor(high / step + 1e-9) + 0.5) * step
    is_open = [step > 0 or is_excluded for is_excluded in is_open]
    ends = [to_amounts(target, number) for number in (low, high)]
    if formula.factor < 0:
        ends, is_open = ends[::-1], is_open[::-1]
    try:
        ends[0], is_open[0] = _lower_end(formula, ends[0], is_open[0])
        ends[1] = formula.source_amount(ends[1])
    except (ValueError, OverflowError):
        raise target.refusal(condition, f"is {formula}, which does not give such values.") from None
    names = ("gt" if is_open[0] else "ge", "lt" if is_open[1] else "le")
    amounts = {name: end for name, end in zip(names, ends, strict=True) if math.isfinite(end)}
    if source.date_scale is not None:
        return Range(**{name: pd.Timestamp(amount, unit="s") for name, amount in amounts.items()})
    return Range(**{name: from_amounts(source, amount) for name, amount in amounts.items()})


def _lower_end(formula: ColumnFormula, amount: float, is_open: bool) -> tuple[float, bool]:
    """The amount of the source that gives the lower end of the target, and whether that amount is excluded.

    For an end below all results of the operation, this is the least amount that the operation takes.
    """
    try:
        return formula.source_amount(amount), is_open
    except ValueError:
        return LEAST_SOURCES[formula.operation], False


def _close_orders(orders: Sequence[ColumnOrder]) -> list[ColumnOrder]:
    """The orders, and those that follow from them: a <= c from a <= b and b <= c."""
    strictness = {(order.low, order.high): order.strict for order in orders}
    while True:
        chains = [(a, d, s or t) for (a, b), s in strictness.items() for (c, d), t in strictness.items() if b == c]
        new = {(a, d): strict for a, d, strict in chains if strict > strictness.get((a, d), -1)}
        if not new:
            return [ColumnOrder(low, high, strict) for (low, high), strict in strictness.items()]
        strictness |= new


def _list_sources(codec: TableCodec, source: str, target: str, condition: Condition) -> Condition:
    """The values of a column whose stored rows have a value of the target that meets a condition."""
    column, notation = codec.by_name[target], codec.style.notation(target)
    if isinstance(column.transform, Levels) and not isinstance(condition, Range):
        for value in _list_values(condition):
            column.condition(value, notation)  # an InputError for an unknown value
    pairs = codec.stored[[source, target]].dropna().drop_duplicates(source)
    rows = zip(pairs[source].tolist(), pairs[target].tolist(), strict=True)
    allowed = [x for x, y in rows if meets(column, y, condition, notation)]
    if not allowed:
        raise column.refusal(condition, f"has no stored value that meets it, and is determined by {source!r}.")
    return allowed[0] if len(allowed) == 1 else set(allowed)


def _require_possible(codec: TableCodec, order: ColumnOrder, values: Mapping[str, Condition]) -> None:
    """InputError where conditions on both columns of an order do not imply it."""
    low, high = (codec.by_name[name] for name in order.names)
    last = to_amounts(low, _find_ends(codec, low, values[order.low])[1])
    first = to_amounts(high, _find_ends(codec, high, values[order.high])[0])
    if last > first or (order.strict and last == first) or math.isnan(last - first):
        pair = f"{condition_text(order.low, values[order.low])} and {condition_text(order.high, values[order.high])}"
        raise InputError(f"condition {pair}: rows must also meet {order}. Condition on one of the two, or narrow both.")


def _find_ends(codec: TableCodec, column: Column, condition: Condition) -> tuple[float, float]:
    """The least and the largest number of a column that a condition allows."""
    notation = codec.style.notation(column.name)
    if isinstance(condition, Range):
        return ends_of(column, condition, notation)
    numbers = [column.number(value, notation) for value in _list_values(condition)]
    return min(numbers), max(numbers)
