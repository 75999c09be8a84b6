"""Relations between columns as texts, such as `c = a + b`, and back from what a user states."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..._backend.checks import suggestion
from ..options import InputError, listed
from .columns import Column, Levels
from .relations import ColumnFunction, ColumnOrder, ColumnSum, Relation, Table, determined, require_met
from .scales import Ranks

NONE = "none"
FORM = "c = a + b, a <= b, a < b, code -> name or code <-> name"
SIGNS = re.compile(r"\s*(<->|->|<=|>=|<|>|=)\s*")


def stated_relations(texts: Sequence[str], columns: Sequence[Column], table: Table) -> tuple[Relation, ...]:
    """The relations that texts state; InputError where one has another form, names no column or does not hold."""
    if list(texts) == [NONE]:
        return ()
    known = {column.name: column for column in columns if column.width}
    found = tuple(_parsed(str(text), known) for text in texts)
    for one in found:
        _require_types(one, known)
        for other in found:
            if other is not one and (both := set(determined([one])) & set(other.names)):
                why = f"determines {min(both)!r}, which {str(other)!r} names too"
                raise InputError(f"constraints: {str(one)!r} {why}. Leave one of the two out.")
    require_met(found, known, table)
    return found


def _parsed(text: str, known: Mapping[str, Column]) -> Relation:
    parts = SIGNS.split(text)
    whole = [part.strip() for part in parts[::2]]
    if len(parts) != 3 or not all(whole):
        raise InputError(f"constraints: {text!r} must have the form {FORM}.")
    left, sign, right = whole[0], parts[1], whole[1]
    if sign == "=":
        return ColumnSum(_known(left, known, text), tuple(_known(one, known, text) for one in _terms(right, known)))
    first, second = _known(left, known, text), _known(right, known, text)
    if sign in ("->", "<->"):
        return ColumnFunction(first, second, sign == "<->")
    low, high = (first, second) if sign[0] == "<" else (second, first)
    return ColumnOrder(low, high, strict=len(sign) == 1)


def _terms(text: str, known: Mapping[str, Column]) -> list[str]:
    """The names between plus signs; a name may have such a sign itself."""
    if text in known:
        return [text]
    for sign in (" + ", "+"):
        if sign in text:
            return [part.strip() for part in text.split(sign)]
    return [text]


def _known(name: str, known: Mapping[str, Column], text: str) -> str:
    if name in known:
        return name
    offered = f"{suggestion(name, list(known))}Columns that are modelled are {listed(list(known))}."
    raise InputError(f"constraints: {text!r} names {name!r}, which is not a modelled column. {offered}")


def _require_types(one: Relation, known: Mapping[str, Column]) -> None:
    if len(set(one.names)) < len(one.names):
        raise InputError(f"constraints: {str(one)!r} names a column twice. Name different ones.")
    if isinstance(one, ColumnFunction):
        if not isinstance(known[one.source].transform, Levels):
            found = f"{one.source!r} must hold categories, and is {known[one.source].type}"
            raise InputError(f"constraints: {str(one)!r}: {found}. Set its type with columns.")
        return
    for name in one.names:
        column = known[name]
        if not isinstance(column.transform, Ranks) or (isinstance(one, ColumnSum) and column.clock is not None):
            needed = "numbers" if isinstance(one, ColumnSum) else "numbers or dates"
            raise InputError(f"constraints: {str(one)!r}: {name!r} must hold {needed}, and is {column.type}.")
