"""Relations between columns as texts, and those that hold in every stored row, found with a guard against chance."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations

import numpy as np

from ..._backend.arrays import Array
from ..options import InputError, listed
from .columns import Column, ColumnType, Levels, suggestion
from .relations import ColumnFunction, ColumnOrder, ColumnSum, Relation, Table, amounts, determined, require_met
from .scales import Ranks

MIN_ROWS, MIN_DISTINCT = 20, 5
"""Rows without missing cells that a relation must hold in, and distinct values of the columns of a sum or an order."""
MAX_LOG_CHANCE = math.log(1e-3)
"""Largest log probability that columns without any dependence would meet a relation, over all pairs together."""
MAX_LOG_CHANCE_OF_ORDER = math.log(0.01)
"""The same of one order: one that is not meant changes few new rows, and only by swapping two cells."""
MAX_COLUMNS = 60
"""Columns of amounts, and of categories, beyond which none is searched."""
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
            held = f"{one.source!r} must hold categories, and is {known[one.source].type}"
            raise InputError(f"constraints: {str(one)!r}: {held}. Set its type with columns.")
        return
    for name in one.names:
        column = known[name]
        if not isinstance(column.transform, Ranks) or (isinstance(one, ColumnSum) and column.clock is not None):
            needed = "numbers" if isinstance(one, ColumnSum) else "numbers or dates"
            raise InputError(f"constraints: {str(one)!r}: {name!r} must hold {needed}, and is {column.type}.")


def found_relations(columns: Sequence[Column], table: Table, label: str | None) -> tuple[Relation, ...]:
    """Relations that all stored rows meet, and that columns without dependence would hardly meet by chance."""
    functions = _functions([c for c in columns if c.width], table, label)
    taken = {one.target for one in functions}
    usual = [c for c in columns if isinstance(c.transform, Ranks) and c.name not in taken]
    ordered = [c for c in usual if len(c.transform.values) >= MIN_DISTINCT] if len(usual) <= MAX_COLUMNS else []  # type: ignore[union-attr]
    numbers = {c.name: amounts(c, table[c.name]) for c in ordered}
    sums = _sums({c.name: numbers[c.name] for c in ordered if c.clock is None and not _is_narrow(c)})
    return (*sums, *_orders(ordered, numbers, sums), *functions)


def _is_narrow(column: Column) -> bool:
    """Whether a column has whole numbers of so few bytes that sums may exceed them."""
    return column.dtype.kind in "iu" and np.dtype(column.dtype.name.lower()).itemsize < 4


def _sums(numbers: Mapping[str, Array]) -> list[ColumnSum]:
    names, found = list(numbers), []
    if len(names) < 3:
        return []
    matrix = np.stack(list(numbers.values()))
    rows = ~np.isnan(matrix).any(0)
    if rows.sum() < MIN_ROWS:
        return []
    matrix = matrix[:, rows]
    means, scale, totals, terms = matrix.mean(1), np.abs(matrix).max(), set[int](), set[int]()
    for i, j in combinations(range(len(names)), 2):
        near = np.flatnonzero(np.abs(means[i] + means[j] - means) <= 1e-6 * max(scale, 1e-300))
        for k in near.tolist():
            error = np.abs(matrix[i] + matrix[j] - matrix[k])
            largest = np.abs(matrix[[i, j, k]]).max(0)
            # A column that one relation determines is in no other.
            if k in (i, j) or {i, j, k} & totals or k in terms or (error > 1e-9 * largest).any():
                continue
            found.append(ColumnSum(names[k], (names[i], names[j])))
            totals.add(k)
            terms |= {i, j}
    return found


def _orders(columns: Sequence[Column], numbers: Mapping[str, Array], sums: Sequence[ColumnSum]) -> list[ColumnOrder]:
    """Pairs a <= b, without those that follow from others, and without totals, which follow from their terms."""
    totals = {one.total for one in sums}
    clocked = {c.name: c.clock is not None for c in columns}
    held: set[tuple[str, str]] = set()
    for low, high in permutations(numbers, 2):
        if clocked[low] != clocked[high] or {low, high} & totals:
            continue
        a, b = numbers[low], numbers[high]
        rows = ~(np.isnan(a) | np.isnan(b))
        a, b = a[rows], b[rows]
        if len(a) < MIN_ROWS or (a > b).any() or (a == b).all():
            continue
        broken = 1 - np.searchsorted(np.sort(a), b, side="right").mean() / len(a)  # share of pairs of different rows
        if broken < 1 and len(a) * math.log1p(-broken) < MAX_LOG_CHANCE_OF_ORDER:
            held.add((low, high))
    middle = {(a, d) for a, b in held for c, d in held if b == c}
    return [ColumnOrder(low, high) for low, high in sorted(held - middle)]


def _functions(columns: Sequence[Column], table: Table, label: str | None) -> list[ColumnFunction]:
    """Columns that a column of categories determines; of two that determine each other, the label is the source."""
    sources = [c for c in columns if isinstance(c.transform, Levels) and len(c.transform.values) > 2]
    sources.sort(key=lambda c: c.name != label)
    targets = [c for c in columns if c.type not in (ColumnType.DATE, ColumnType.NUMERIC)]
    found: list[ColumnFunction] = []
    if not 0 < len(sources) <= MAX_COLUMNS or len(targets) > 2 * MAX_COLUMNS:
        return []
    n_pairs = len(sources) * len(targets)
    for source in sources:
        for target in targets:
            used = {one.source for one in found} | {one.target for one in found}
            if source.name == target.name or target.name in used or source.name in {one.target for one in found}:
                continue
            one = ColumnFunction(source.name, target.name)
            if _is_significant(table, one, n_pairs) and not one.broken({}, table).any():
                both = ColumnFunction(source.name, target.name, both_ways=True)
                found.append(one if both.broken({}, table).any() else both)
    return found


def _is_significant(table: Table, one: ColumnFunction, n_pairs: int) -> bool:
    """Whether a target without dependence on the source would hardly be equal in all rows of each source."""
    rows = ~(table[one.source].missing | table[one.target].missing)
    if rows.sum() < MIN_ROWS:
        return False
    codes = [np.unique(np.array([str(x) for x in table[name].objects])[rows], return_inverse=True, return_counts=True)
             for name in one.names]  # fmt: skip
    shares = codes[1][2] / rows.sum()
    log_chance = sum(math.log(float((shares**count).sum())) for count in codes[0][2].tolist())
    return log_chance + math.log(n_pairs) < MAX_LOG_CHANCE
