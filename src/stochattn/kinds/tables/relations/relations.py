"""Relations between columns that hold in every stored row, and how new rows are made to meet them.

A sum `c = a + b`, a formula `fold = a / b` and a function `code -> name` determine one column, which is computed from
the others. Only formulas may use such a column: it is in no other relation. Of an order `a <= b` the two cells are
swapped where they break it, or one of them is moved where the other is conditioned on.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from ...._backend.arrays import Array
from ... import lazy_pandas as pd
from ...options import InputError
from ..columns.cells import Cells
from ..columns.columns import Column
from ..columns.scales import Ranks

TOLERANCE = 1e-9
"""Share of the largest number in a sum by which rounding may change it."""
MAX_PASSES = 100
"""Rounds in which orders are restored, one after the other: each may move a column of another."""

if TYPE_CHECKING:
    CellArray: TypeAlias = Array | pd.api.extensions.ExtensionArray
Table = Mapping[str, Cells]
Number = TypeVar("Number", float, Array)


def amounts(column: Column, cells: Cells) -> Array:
    """Numbers (n,) of a column that can be compared with those of others: dates in seconds since 1970."""
    return np.asarray(amount_of(column, column.numbers(cells)))


def amount_of(column: Column, number: Number) -> Number:
    """A number of a column, or numbers (n,), as `amounts` has them."""
    origin, step, divisor = column.grid
    return (origin + number * step) / divisor


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
        numbers = np.stack([amounts(columns[name], table[name]) for name in self.names])
        error = np.abs(numbers[0] - numbers[1:].sum(0))
        return np.asarray(error > np.minimum(TOLERANCE * np.abs(numbers).max(0), largest_error(columns[self.total])))


SECONDS_PER_DAY = 86_400
OPERATIONS: Mapping[str, Callable[..., Array]] = {
    "": lambda x: x,
    "log": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "/^2": lambda x, y: x / y**2,
    "-": lambda x, y: (x - y) / SECONDS_PER_DAY,
}
"""Of the numbers of one column, or of two; the difference of two dates is in days."""


def _square(root: float) -> float:
    if root < 0:
        raise ValueError(f"a square root is at least 0; got {root:g}.")
    return root * root


INVERSES: Mapping[str, Callable[[float], float]] = {
    "": lambda y: y,
    "log": math.exp,
    "log10": lambda y: 10.0**y,
    "log2": lambda y: 2.0**y,
    "log1p": math.expm1,
    "sqrt": _square,
    "exp": math.log,
}
"""The operations of one column that can be inverted; each increases. ValueError for what an operation never gives."""
LEAST_SOURCES = {"sqrt": 0.0, "exp": math.log(sys.float_info.min)}
"""The least numbers of operations that give no number below some value: those of normal floats."""
SINGLE_PRECISION = 2.0**-23
"""Relative error of numbers that were single-precision floats once."""
MAX_LOSS = 0.01
"""Share of the middle half of a column that the rounding of its sources may hide, beyond its own last decimal."""


@dataclass(frozen=True)
class ColumnFormula:
    """target = factor · operation(sources) + shift, rounded as the target is: copies, units, logs, ratios, products.

    shift: of dates, in days
    """

    target: str
    sources: tuple[str, ...]
    operation: str = ""
    factor: float = 1.0
    shift: float = 0.0
    is_dated: bool = False

    def __str__(self) -> str:
        first, second = self.sources[0], self.sources[-1]
        body = {"": first, "*": f"{first} * {second}", "/": f"{first} / {second}", "/^2": f"{first} / {second}^2",
                "-": f"({first} - {second})"}.get(self.operation, f"{self.operation}({first})")  # fmt: skip
        factor = "" if self.factor == 1 else f"{self.factor:.15g} * "
        shift = f" {'-' if self.shift < 0 else '+'} {abs(self.shift):.15g}{' days' if self.is_dated else ''}" * (
            self.shift != 0
        )
        return f"{self.target} = {factor}{body}{shift}"

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the relation."""
        return (self.target, *self.sources)

    def values(self, numbers: Sequence[Array]) -> Array:
        """What the amounts (n,) of the sources give for the target: (n,), not finite where they give nothing."""
        with np.errstate(all="ignore"):
            shift = self.shift * (SECONDS_PER_DAY if self.is_dated else 1)
            return np.asarray(self.factor * OPERATIONS[self.operation](*numbers) + shift)

    def source_amount(self, amount: float) -> float:
        """The amount of the only source that gives this amount of the target; infinite amounts stay infinite."""
        shift = self.shift * (SECONDS_PER_DAY if self.is_dated else 1)
        scaled = (amount - shift) / self.factor
        return INVERSES[self.operation](scaled) if math.isfinite(scaled) else scaled

    def errors(
        self, columns: Mapping[str, Column], amounts_of: Mapping[str, Array], *, rounded_sources: bool = True
    ) -> tuple[Array, Array]:
        """How far the target is from what the sources give (n,), and how far rounding explains (n,).

        rounded_sources: whether the sources may have been rounded after the target was computed from them
        """
        sources = [amounts_of[name] for name in self.sources]
        expected, numbers = self.values(sources), amounts_of[self.target]
        rounding = half_step(columns[self.target]) * (1 + 1e-6) + 1e-12 * np.abs(numbers)
        middle = _middle_half(columns[self.target])
        hidden = np.zeros(len(numbers))
        steps = [half_step(columns[name]) for name in self.names]
        # Of a copy, and of nearly one that is rounded likewise, rounding of the source explains nothing.
        distance = round(abs(abs(self.factor) - 1), 9)
        is_copy = not self.operation and distance <= (MAX_LOSS if steps[0] == steps[1] else 0)
        if rounded_sources and not is_copy:
            for place, half in enumerate(steps[1:]):
                moved = [self.values([*sources[:place], sources[place] + half * side, *sources[place + 1 :]])
                         for side in (-1, 1)]  # fmt: skip
                with np.errstate(invalid="ignore"):
                    hidden += np.fmax(*(np.abs(values - expected) for values in moved))
            hidden = np.minimum(np.nan_to_num(hidden, nan=0.0), MAX_LOSS * middle)
        allowed = np.maximum(rounding + hidden, np.minimum(SINGLE_PRECISION * np.abs(numbers), 1e-6 * middle))
        with np.errstate(invalid="ignore"):
            return np.abs(numbers - expected), allowed

    def broken(self, columns: Mapping[str, Column], table: Table) -> Array:
        """Rows (n,) that do not meet it; those with missing cells do."""
        numbers = {name: amounts(columns[name], table[name]) for name in self.names}
        error, allowed = self.errors(columns, numbers)
        missing = np.isnan(list(numbers.values())).any(0)
        return np.asarray(~missing & ~(error <= allowed))


def half_step(column: Column) -> float:
    """By how much rounding may have changed the amounts of a column; 0 where they have no fixed decimals."""
    decimals = column.transform.decimals if isinstance(column.transform, Ranks) else None
    if column.date_scale is not None:
        return 0.5 * _step(column)
    return 0.0 if decimals is None else 0.5 * 10.0**-decimals  # times in texts are exact, whatever their step


def _middle_half(column: Column) -> float:
    """The range of the middle half of the distinct stored amounts of a column."""
    if not isinstance(column.transform, Ranks):
        return 0.0
    low, high = np.quantile(column.transform.values, [0.25, 0.75])
    return float(amount_of(column, high) - amount_of(column, low))


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
        is_broken = _broken(table[self.source], table[self.target])
        return is_broken | _broken(table[self.target], table[self.source]) if self.both_ways else is_broken


def _broken(source: Cells, target: Cells) -> Array:
    missing, seen = source.missing | target.missing, dict[object, object]()
    pairs = zip(source.objects, target.objects, missing.tolist(), strict=True)
    return np.array([not is_missing and seen.setdefault(x, y) != y for x, y, is_missing in pairs], dtype=bool)


Relation = ColumnSum | ColumnFormula | ColumnOrder | ColumnFunction


def determined(relations: Sequence[Relation]) -> dict[str, ColumnSum | ColumnFormula | ColumnFunction]:
    """The columns that relations determine, by name."""
    computed = [one for one in relations if not isinstance(one, ColumnOrder)]
    return {one.total if isinstance(one, ColumnSum) else one.target: one for one in computed}


def in_order(formulas: Sequence[ColumnFormula]) -> list[ColumnFormula]:
    """Formulas, those that compute a source of others first; without those of a circle."""
    waiting, ordered = list(formulas), list[ColumnFormula]()
    while ready := [one for one in waiting if not {other.target for other in waiting} & set(one.sources)]:
        ordered += ready
        waiting = [one for one in waiting if one not in ready]
    return ordered


def enforce(
    relations: Sequence[Relation],
    columns: Mapping[str, Column],
    stored: pd.DataFrame,
    cells: dict[str, CellArray],
    conditioned: AbstractSet[str],
    source: Array | None = None,
) -> None:
    """Change the cells of new rows, by column, so that they meet the relations; conditioned cells stay.

    source: the stored row (n,) that each was drawn around, whose cells replace those that a formula takes too far, and
            those of the columns that other relations link to them
    """
    beyond = _restore_all(relations, columns, stored, cells, conditioned)
    if source is None or not beyond:
        return
    for formula, rows in beyond:
        for name in _linked(formula, relations) - conditioned:
            donors = stored[name].array.take(source[rows])
            present = ~Cells(name, donors).missing
            cells[name] = cells[name].copy()
            cells[name][rows[present]] = donors[present]
    _restore_all(relations, columns, stored, cells, conditioned)


def _restore_all(
    relations: Sequence[Relation],
    columns: Mapping[str, Column],
    stored: pd.DataFrame,
    cells: dict[str, CellArray],
    conditioned: AbstractSet[str],
) -> list[tuple[ColumnFormula, Array]]:
    """Let new cells meet the relations; the formulas that pass a limit of their column, and in which rows (m,)."""
    orders = [relation for relation in relations if isinstance(relation, ColumnOrder)]
    for _ in range(MAX_PASSES if orders else 0):
        moved = [_restore(relation, columns, cells, conditioned) for relation in orders]
        if not any(moved):
            break
    for relation in relations:  # of columns that are in no order
        if isinstance(relation, ColumnSum):
            _add(relation, columns, cells, conditioned)
        elif isinstance(relation, ColumnFunction):
            _look_up(relation, stored, cells)
    formulas = in_order([relation for relation in relations if isinstance(relation, ColumnFormula)])
    beyond = [(formula, _compute(formula, columns, cells)) for formula in formulas]
    return [(formula, rows) for formula, rows in beyond if len(rows)]


def _linked(formula: ColumnFormula, relations: Sequence[Relation]) -> set[str]:
    """The columns of a formula, and those that other relations link to them: stored rows meet all of them at once."""
    names = set(formula.names)
    while more := set().union(*(one.names for one in relations if names & set(one.names))) - names:
        names |= more
    return names


def _compute(formula: ColumnFormula, columns: Mapping[str, Column], cells: dict[str, CellArray]) -> Array:
    """Write what a formula gives; the rows (m,) in which it passes a limit of its column."""
    target = columns[formula.target]
    present = ~Cells(formula.target, cells[formula.target]).missing
    expected = formula.values([amounts(columns[name], Cells(name, cells[name])) for name in formula.sources])
    numbers = own_numbers(target, expected)
    cells[formula.target] = _written(target, cells[formula.target], numbers, present & np.isfinite(numbers))
    ranks = target.transform
    is_beyond = (numbers < ranks.low) | (numbers > ranks.high) if isinstance(ranks, Ranks) else np.zeros_like(present)
    return np.flatnonzero(present & is_beyond)


def _add(
    column_sum: ColumnSum, columns: Mapping[str, Column], cells: dict[str, CellArray], conditioned: AbstractSet[str]
) -> None:
    numbers = np.stack([amounts(columns[name], Cells(name, cells[name])) for name in column_sum.names])
    present = ~np.isnan(numbers).any(0)
    ranks = columns[column_sum.total].transform
    if isinstance(ranks, Ranks):
        free = [name for name in column_sum.terms if name not in conditioned]
        sums = np.where(present, numbers[1:].sum(0), np.nan)
        low, high = (amount_of(columns[column_sum.total], end) for end in (ranks.low, ranks.high))
        above = np.where(sums > high, high, np.nan)  # equivalent: a sum at the limit would move by zero
        below = np.where(sums < low, low, np.nan)  # equivalent: as above
        _move_terms(column_sum, columns, cells, numbers, free, above, _rounded_down)
        _move_terms(column_sum, columns, cells, numbers, free, below, _rounded_up)
    total = np.where(present, numbers[1:].sum(0), numbers[0])
    column = columns[column_sum.total]
    cells[column_sum.total] = _written(column, cells[column_sum.total], own_numbers(column, total), present)


def _move_terms(
    column_sum: ColumnSum,
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
            ways[name] = amount_of(columns[name], float(end)) - numbers[column_sum.names.index(name)]
    distance, excess = sum(ways.values(), np.zeros(len(limit))), limit - numbers[1:].sum(0)
    share = np.clip(np.divide(excess, distance, out=np.zeros(len(limit)), where=wrong & (distance != 0)), 0.0, 1.0)
    for name, way in ways.items():
        row = column_sum.names.index(name)
        moved = own_numbers(columns[name], numbers[row] + share * way)
        cells[name] = _written(columns[name], cells[name], moved, wrong, rounded)
        numbers[row] = amounts(columns[name], Cells(name, cells[name]))


def _look_up(function: ColumnFunction, stored: pd.DataFrame, cells: dict[str, CellArray]) -> None:
    known = stored[[function.source, function.target]].dropna().drop_duplicates(function.source)
    targets = dict(zip(known[function.source].tolist(), known[function.target].tolist(), strict=True))
    cells_, sources = Cells(function.target, cells[function.target]), Cells(function.source, cells[function.source])
    pairs = zip(sources.objects, cells_.objects, cells_.missing.tolist(), strict=True)
    values = [old if missing else targets.get(x, old) for x, old, missing in pairs]
    dtype = stored[function.target].dtype
    cells[function.target] = (
        pd.Series(values, dtype=dtype).array if cells_.missing.any() else pd.array(values, dtype=dtype)
    )


def _restore(
    order: ColumnOrder, columns: Mapping[str, Column], cells: dict[str, CellArray], fixed: AbstractSet[str]
) -> bool:
    """Let new cells meet an order; whether some did not."""
    low, high = (columns[name] for name in order.names)
    table = {name: Cells(name, cells[name]) for name in order.names}
    wrong = order.broken(columns, table)
    if not wrong.any():
        return False
    below, above = (amounts(columns[name], table[name]) for name in order.names)
    smaller, larger = np.minimum(below, above), np.maximum(below, above)
    if order.strict:
        larger = np.where(smaller == larger, larger + _step(high), larger)
    if order.low in fixed:
        smaller, larger = below, np.maximum(above, below + (_step(high) if order.strict else 0.0))
    elif order.high in fixed:
        smaller, larger = np.minimum(below, above - (_step(low) if order.strict else 0.0)), above
    for column, numbers, rounded in ((low, smaller, _rounded_down), (high, larger, _rounded_up)):
        if column.name not in fixed:
            moved = own_numbers(column, numbers)
            cells[column.name] = _written(column, cells[column.name], moved, wrong, rounded)
    return True


def _step(column: Column) -> float:
    """The least by which two cells of a column differ."""
    _, step, divisor = column.grid
    if column.date_scale is not None:
        return step / divisor
    # equivalent: numbers have ranks; for type checkers
    decimals = column.transform.decimals if isinstance(column.transform, Ranks) else None
    return 1e-9 if decimals is None else 10.0**-decimals * step


def largest_error(total: Column) -> float:
    """The error of a sum up to which it is rounded to the total: less than half of its last decimal."""
    decimals = total.transform.decimals if isinstance(total.transform, Ranks) else None
    return np.inf if decimals is None else 0.49 * 10.0**-decimals


def own_numbers(column: Column, amount: Number) -> Number:
    """Amounts (n,), as `amounts` has them, as numbers of the column."""
    origin, step, divisor = column.grid
    return (amount * divisor - origin) / step


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
    for relation in relations:
        rows = np.flatnonzero(relation.broken(columns, table))
        if len(rows):
            values = ", ".join(f"{name} {table[name].objects[rows[0]]}" for name in relation.names)
            more = f", and {len(rows) - 1:,} more rows break it" if len(rows) > 1 else ""
            where = f"row {rows[0] + 1} has {values}{more}"
            raise InputError(f"constraints: {str(relation)!r} does not hold in the data: {where}. Leave it out.")
