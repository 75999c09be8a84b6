"""Relations between columns that hold in every stored row, found with a guard against chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations

import numpy as np

from ..._backend.arrays import Array
from .columns import Column, ColumnType, Levels
from .relations import TOLERANCE, ColumnFunction, ColumnOrder, ColumnSum, Relation, Table, amounts, largest_error
from .scales import Ranks

MIN_ROWS, MIN_DISTINCT = 20, 5
"""Rows without missing cells that a relation must hold in, and distinct values of the columns of a sum or an order."""
MAX_LOG_CHANCE = math.log(1e-3)
"""Largest log probability that columns without any dependence would meet a relation, over all pairs together."""
MAX_LOG_CHANCE_OF_ORDER = math.log(0.01)
"""The same of one order: one that is not meant changes few new rows, and only by swapping two cells."""
MAX_COLUMNS = 60
"""Columns of amounts, and of categories, beyond which none is searched."""


def found_relations(columns: Sequence[Column], table: Table, label: str | None) -> tuple[Relation, ...]:
    """Relations that all stored rows meet, and that columns without dependence would hardly meet by chance."""
    functions = _functions([c for c in columns if c.width], table, label)
    taken = {one.target for one in functions}
    usual = [c for c in columns if isinstance(c.transform, Ranks) and c.name not in taken]
    ordered = [c for c in usual if len(c.transform.values) >= MIN_DISTINCT] if len(usual) <= MAX_COLUMNS else []  # type: ignore[union-attr]
    numbers = {c.name: amounts(c, table[c.name]) for c in ordered}
    summed = [c for c in ordered if c.clock is None and not _is_narrow(c)]
    sums = _sums({c.name: numbers[c.name] for c in summed}, [largest_error(c) for c in summed])
    return (*sums, *_orders(ordered, numbers, sums), *functions)


def _is_narrow(column: Column) -> bool:
    """Whether a column has whole numbers of so few bytes that sums may exceed them."""
    return column.dtype.kind in "iu" and np.dtype(column.dtype.name.lower()).itemsize < 4


def _sums(numbers: Mapping[str, Array], largest_errors: Sequence[float]) -> list[ColumnSum]:
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
            allowed = np.minimum(TOLERANCE * np.abs(matrix[[i, j, k]]).max(0), largest_errors[k])
            # A column that one relation determines is in no other.
            if k in (i, j) or {i, j, k} & totals or k in terms or (error > allowed).any():
                continue
            found.append(ColumnSum(names[k], (names[i], names[j])))
            totals.add(k)
            terms |= {i, j}
    return found


def _orders(columns: Sequence[Column], numbers: Mapping[str, Array], sums: Sequence[ColumnSum]) -> list[ColumnOrder]:
    """Pairs a <= b, without those that follow from others, and without totals, which follow from their terms."""
    totals = {one.total for one in sums}
    clocked = {c.name: c.clock is not None for c in columns}
    found: set[tuple[str, str]] = set()
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
            found.add((low, high))
    middle = {(a, d) for a, b in found for c, d in found if b == c}
    return [ColumnOrder(low, high) for low, high in sorted(found - middle)]


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
