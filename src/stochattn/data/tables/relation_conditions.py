"""Conditions on columns that relations determine, as conditions on the columns that determine them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from ..options import InputError
from ..ranges import Range, condition_text
from .clocks import PER_SECOND
from .columns import Levels, Value
from .conditions import Several, ends_of, meets
from .relations import ColumnOrder, ColumnSum, determined

if TYPE_CHECKING:
    from .codec import TableCodec

Condition = Value | Several


def given_relations(codec: TableCodec, values: Mapping[str, Condition]) -> dict[str, Condition]:
    """The conditions, those on a column that another one determines turned into conditions on the latter.

    InputError where new rows could not meet a condition and a relation at once.
    """
    out, known = dict(values), determined(codec.relations)
    for name in [name for name in values if name in known]:
        one = known[name]
        if isinstance(one, ColumnSum):
            remedy = f"Condition on {' and '.join(map(repr, one.terms))}, or state other relations with constraints."
            raise InputError(f"condition {condition_text(name, values[name])}: the column is {one}. {remedy}")
        sources = _sources(codec, one.source, name, out.pop(name))
        out[one.source] = codec.both(one.source, out[one.source], sources) if one.source in out else sources
    for order in _implied([one for one in codec.relations if isinstance(one, ColumnOrder)]):
        if order.low in values and order.high in values:
            _require_possible(codec, order, values)
    return out


def _implied(orders: Sequence[ColumnOrder]) -> list[ColumnOrder]:
    """The orders, and those that follow from them: a <= c from a <= b and b <= c."""
    found = {(one.low, one.high): one.strict for one in orders}
    while True:
        chains = [(a, d, s or t) for (a, b), s in found.items() for (c, d), t in found.items() if b == c]
        new = {(a, d): strict for a, d, strict in chains if strict > found.get((a, d), -1)}
        if not new:
            return [ColumnOrder(low, high, strict) for (low, high), strict in found.items()]
        found |= new


def _sources(codec: TableCodec, source: str, target: str, condition: Condition) -> Condition:
    """The values of a column whose rows have a value of the target that meets a condition."""
    column, notation = codec.columns[codec.position(target)], codec.style.notation(target)
    if isinstance(column.transform, Levels) and not isinstance(condition, Range):
        several = condition if isinstance(condition, AbstractSet | list | tuple) else [condition]
        for value in several:
            column.condition(value, notation)  # an error where there is no such value
    pairs = codec.stored[[source, target]].dropna().drop_duplicates(source)
    rows = zip(pairs[source].tolist(), pairs[target].tolist(), strict=True)
    found = [x for x, y in rows if meets(column, y, condition, notation)]
    if not found:
        raise column.refusal(condition, f"has no stored value that meets it, and follows from {source!r}.")
    return found[0] if len(found) == 1 else set(found)


def _require_possible(codec: TableCodec, one: ColumnOrder, values: Mapping[str, Condition]) -> None:
    """InputError where conditions on both columns of an order do not imply it."""
    last = _ends(codec, one.low, values[one.low])[1]
    first = _ends(codec, one.high, values[one.high])[0]
    if last > first or (one.strict and last == first) or math.isnan(last - first):
        both = f"{condition_text(one.low, values[one.low])} and {condition_text(one.high, values[one.high])}"
        raise InputError(f"condition {both}: rows must also meet {one}. Condition on one of the two, or narrow both.")


def _ends(codec: TableCodec, name: str, condition: Condition) -> tuple[float, float]:
    """The least and the largest number that a condition allows, in seconds since 1970 for dates."""
    column, notation = codec.columns[codec.position(name)], codec.style.notation(name)
    if isinstance(condition, Range):
        low, high = ends_of(column, condition, notation)
    else:
        several = condition if isinstance(condition, AbstractSet | list | tuple) else [condition]
        numbers = [column.number(one, notation) for one in several]
        low, high = min(numbers), max(numbers)
    if column.clock is None:
        return low, high
    first, last = (
        (column.clock.origin + one * column.clock.step) / PER_SECOND[column.clock.unit] for one in (low, high)
    )
    return first, last
