"""Relations between columns that hold in every stored row, and how new rows are made to meet them.

A sum `c = a + b` and a function `code -> name` determine one column, which is computed from the others and is in no
other relation. Of an order `a <= b` the two cells are swapped where they break it, or one of them is moved where the
other is conditioned on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..._backend.arrays import Array
from .. import lazy_pandas as pd
from ..options import InputError
from .cells import Cells
from .clocks import PER_SECOND
from .columns import Column
from .scales import Ranks

TOLERANCE = 1e-9
"""Share of the largest number in a sum by which rounding may change it."""
MAX_PASSES = 100
"""Rounds in which orders are restored, one after the other: each may move a column of another."""

if TYPE_CHECKING:
    CellArray: TypeAlias = Array | pd.api.extensions.ExtensionArray
Table = Mapping[str, Cells]


def amounts(column: Column, cells: Cells) -> Array:
    """Numbers (n,) of a column that can be compared with those of others: dates in seconds since 1970."""
    numbers = column.numbers(cells)
    if column.clock is None:
        return numbers
    return np.asarray((column.clock.origin + numbers * column.clock.step) / PER_SECOND[column.clock.unit])


@dataclass(frozen=True)
class ColumnSum:
    """total = Σ terms."""

    total: str
    terms: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.total} = {' + '.join(self.terms)}"

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the relation."""
        return (self.total, *self.terms)

    def broken(self, columns: Mapping[str, Column], table: Table) -> Array:
        """Rows (n,) that do not meet it; those with missing cells do."""
        numbers = np.stack([columns[name].numbers(table[name]) for name in self.names])
        error = np.abs(numbers[0] - numbers[1:].sum(0))
        return np.asarray(error > np.minimum(TOLERANCE * np.abs(numbers).max(0), largest_error(columns[self.total])))


@dataclass(frozen=True)
class ColumnOrder:
    """low <= high, or low < high where it is strict."""

    low: str
    high: str
    strict: bool = False

    def __str__(self) -> str:
        return f"{self.low} {'<' if self.strict else '<='} {self.high}"

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the relation."""
        return (self.low, self.high)

    def broken(self, columns: Mapping[str, Column], table: Table) -> Array:
        """Rows (n,) that do not meet it; those with missing cells do."""
        low, high = (amounts(columns[name], table[name]) for name in self.names)
        return np.asarray(low >= high if self.strict else low > high)


@dataclass(frozen=True)
class ColumnFunction:
    """The cell of `source` determines that of `target`; both ways if it is one-to-one."""

    source: str
    target: str
    both_ways: bool = False

    def __str__(self) -> str:
        return f"{self.source} {'<->' if self.both_ways else '->'} {self.target}"

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the relation."""
        return (self.source, self.target)

    def broken(self, columns: Mapping[str, Column], table: Table) -> Array:
        """Rows (n,) whose target is not the one that the first row with the same source has."""
        found = _broken(table[self.source], table[self.target])
        return found | _broken(table[self.target], table[self.source]) if self.both_ways else found


def _broken(source: Cells, target: Cells) -> Array:
    missing, seen = source.missing | target.missing, dict[object, object]()
    pairs = zip(source.objects, target.objects, missing.tolist(), strict=True)
    return np.array([not gone and seen.setdefault(x, y) != y for x, y, gone in pairs], dtype=bool)


Relation = ColumnSum | ColumnOrder | ColumnFunction


def determined(relations: Sequence[Relation]) -> dict[str, ColumnSum | ColumnFunction]:
    """The columns that relations determine, by name."""
    found: dict[str, ColumnSum | ColumnFunction] = {}
    for one in relations:
        if isinstance(one, ColumnSum):
            found[one.total] = one
        elif isinstance(one, ColumnFunction):
            found[one.target] = one
    return found


def enforce(
    relations: Sequence[Relation],
    columns: Mapping[str, Column],
    stored: pd.DataFrame,
    cells: dict[str, CellArray],
    conditioned: AbstractSet[str],
) -> None:
    """Change the cells of new rows, by column, so that they meet the relations; conditioned cells stay."""
    orders = [one for one in relations if isinstance(one, ColumnOrder)]
    for _ in range(MAX_PASSES if orders else 0):
        moved = [_restore(one, columns, cells, conditioned) for one in orders]
        if not any(moved):
            break
    for one in relations:  # of columns that are in no order
        if isinstance(one, ColumnSum):
            _add(one, columns, cells, conditioned)
        elif isinstance(one, ColumnFunction):
            _look_up(one, stored, cells)


def _add(
    one: ColumnSum, columns: Mapping[str, Column], cells: dict[str, CellArray], conditioned: AbstractSet[str]
) -> None:
    numbers = np.stack([columns[name].numbers(Cells(name, cells[name])) for name in one.names])
    present = ~np.isnan(numbers).any(0)
    ranks = columns[one.total].transform
    if isinstance(ranks, Ranks):
        free = [name for name in one.terms if name not in conditioned]
        sums = np.where(present, numbers[1:].sum(0), np.nan)
        above = np.where(sums > ranks.high, ranks.high, np.nan)  # equivalent: a sum at the limit would move by zero
        below = np.where(sums < ranks.low, ranks.low, np.nan)  # equivalent: as above
        _move_terms(one, columns, cells, numbers, free, above, _rounded_down)
        _move_terms(one, columns, cells, numbers, free, below, _rounded_up)
    total = np.where(present, numbers[1:].sum(0), numbers[0])
    cells[one.total] = _written(columns[one.total], cells[one.total], total, present)


def _move_terms(
    one: ColumnSum,
    columns: Mapping[str, Column],
    cells: dict[str, CellArray],
    numbers: Array,
    free: Sequence[str],
    limit: Array,
    rounded: Callable[[Array, int], Array],
) -> None:
    """Change the terms of rows whose total passes a limit (n,), NaN where it does not, so that it meets the limit.

    Each free term moves towards its least or greatest stored number, by the same share of its way. `numbers`, those of
    the total and of its terms, change with the cells.
    """
    wrong = ~np.isnan(limit)
    ways = {}
    for name in free if wrong.any() else ():
        ranks = columns[name].transform
        if isinstance(ranks, Ranks):
            end = ranks.values[0 if rounded is _rounded_down else -1]
            ways[name] = end - numbers[one.names.index(name)]
    whole, excess = sum(ways.values(), np.zeros(len(limit))), limit - numbers[1:].sum(0)
    share = np.clip(np.divide(excess, whole, out=np.zeros(len(limit)), where=wrong & (whole != 0)), 0.0, 1.0)
    for name, way in ways.items():
        row = one.names.index(name)
        cells[name] = _written(columns[name], cells[name], numbers[row] + share * way, wrong, rounded)
        numbers[row] = columns[name].numbers(Cells(name, cells[name]))


def _look_up(one: ColumnFunction, stored: pd.DataFrame, cells: dict[str, CellArray]) -> None:
    known = stored[[one.source, one.target]].dropna().drop_duplicates(one.source)
    found = dict(zip(known[one.source].tolist(), known[one.target].tolist(), strict=True))
    new, gone = Cells(one.target, cells[one.target]), Cells(one.source, cells[one.source])
    pairs = zip(gone.objects, new.objects, new.missing.tolist(), strict=True)
    values = [old if missing else found.get(x, old) for x, old, missing in pairs]
    dtype = stored[one.target].dtype
    cells[one.target] = pd.Series(values, dtype=dtype).array if new.missing.any() else pd.array(values, dtype=dtype)


def _restore(
    one: ColumnOrder, columns: Mapping[str, Column], cells: dict[str, CellArray], fixed: AbstractSet[str]
) -> bool:
    """Let new cells meet an order; whether some did not."""
    low, high = (columns[name] for name in one.names)
    table = {name: Cells(name, cells[name]) for name in one.names}
    wrong = one.broken(columns, table)
    if not wrong.any():
        return False
    below, above = (amounts(columns[name], table[name]) for name in one.names)
    smaller, larger = np.minimum(below, above), np.maximum(below, above)
    if one.strict:
        larger = np.where(smaller == larger, larger + _step(high), larger)
    if one.low in fixed:
        smaller, larger = below, np.maximum(above, below + (_step(high) if one.strict else 0.0))
    elif one.high in fixed:
        smaller, larger = np.minimum(below, above - (_step(low) if one.strict else 0.0)), above
    for column, numbers, rounded in ((low, smaller, _rounded_down), (high, larger, _rounded_up)):
        if column.name not in fixed:
            own = own_numbers(column, numbers)
            cells[column.name] = _written(column, cells[column.name], own, wrong, rounded)
    return True


def _step(column: Column) -> float:
    """The least by which two cells of a column differ."""
    if column.clock is not None:
        return column.clock.step / PER_SECOND[column.clock.unit]
    # equivalent: numbers have ranks; for type checkers
    decimals = column.transform.decimals if isinstance(column.transform, Ranks) else None
    return 1e-9 if decimals is None else 10.0**-decimals


def largest_error(total: Column) -> float:
    """The error of a sum up to which it is rounded to the total: less than half of its last decimal."""
    decimals = total.transform.decimals if isinstance(total.transform, Ranks) else None
    return np.inf if decimals is None else 0.49 * 10.0**-decimals


def own_numbers(column: Column, amount: Array) -> Array:
    """Amounts (n,), as `amounts` has them, as numbers of the column."""
    if column.clock is None:
        return amount
    return np.asarray((amount * PER_SECOND[column.clock.unit] - column.clock.origin) / column.clock.step)


def _rounded_down(numbers: Array, decimals: int) -> Array:
    nearest = np.round(numbers, decimals)
    return np.where(nearest > numbers, np.round(nearest - 10.0**-decimals, decimals), nearest)


def _rounded_up(numbers: Array, decimals: int) -> Array:
    nearest = np.round(numbers, decimals)
    return np.where(nearest < numbers, np.round(nearest + 10.0**-decimals, decimals), nearest)


def _written(
    column: Column,
    cells: CellArray,
    numbers: Array,
    changed: Array,
    rounded: Callable[[Array, int], Array] = np.round,
) -> CellArray:
    """Cells (n,) of a column, those that changed as the numbers say, with the decimals of the column."""
    places = np.flatnonzero(changed)
    decimals = column.transform.decimals if isinstance(column.transform, Ranks) else None
    new = column.array_of(numbers[places] if decimals is None else rounded(numbers[places], decimals))
    out: CellArray = cells.copy()
    out[places] = new
    return out


def require_met(relations: Sequence[Relation], columns: Mapping[str, Column], table: Table) -> None:
    """InputError for a relation that a stored row breaks."""
    for one in relations:
        rows = np.flatnonzero(one.broken(columns, table))
        if len(rows):
            values = ", ".join(f"{name} {table[name].objects[rows[0]]}" for name in one.names)
            more = f", and {len(rows) - 1:,} more rows break it" if len(rows) > 1 else ""
            where = f"row {rows[0] + 1} has {values}{more}"
            raise InputError(f"constraints: {str(one)!r} does not hold in the data: {where}. Leave it out.")
