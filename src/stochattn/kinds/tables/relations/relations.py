"""Relations between columns that hold in every stored row, and how they are enforced in new rows.

A sum `c = a + b`, a formula `fold = a / b` and a function `code -> name` determine one column, which is computed from
the others. Only formulas may use such a column; it is in no other relation. Two cells that break an order `a <= b` are
swapped, or one of them is moved where the other is conditioned on.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ...._backend.arrays import Array
from ... import lazy_pandas as pd
from ...options import InputError
from ..columns.cells import CellArray, Cells
from ..columns.columns import Column

TOLERANCE = 1e-9
"""Relative error of a sum by rounding, in units of its largest number."""
MAX_PASSES = 100
"""The most rounds in which orders are restored: each order may move a column of another order."""

Table = Mapping[str, Cells]
Number = TypeVar("Number", float, Array)
Step = TypeVar("Step")


def read_amounts(column: Column, cells: Cells) -> Array:
    """Cells as amounts (n,) that can be compared between columns: dates are in seconds since 1970."""
    return np.asarray(to_amounts(column, column.numbers(cells)))


def to_amounts(column: Column, numbers: Number) -> Number:
    """Numbers (n,) of a column, or one number, as amounts."""
    origin, step, divisor = column.grid
    return (origin + numbers * step) / divisor


def from_amounts(column: Column, amounts: Number) -> Number:
    """Amounts (n,), or one amount, as numbers of a column."""
    origin, step, divisor = column.grid
    return (amounts * divisor - origin) / step


@dataclass(frozen=True)
class ColumnSum:
    """total = Σ terms."""

    total: str
    terms: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.total} = {' + '.join(self.terms)}"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.total, *self.terms)

    def broken(self, columns: Mapping[str, Column], table: Table) -> Array:
        numbers = np.stack([read_amounts(columns[name], table[name]) for name in self.names])
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
"""Operations on the amounts of one or two columns; the difference of two dates is in days."""


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
"""Inverses of the increasing operations on one column; a ValueError for a number that the operation never gives."""
LEAST_SOURCES = {"sqrt": 0.0, "exp": math.log(sys.float_info.min)}
"""The least arguments of operations whose results have a lower bound."""
SINGLE_PRECISION = 2.0**-23
"""Relative rounding error of numbers that were stored in single precision."""
MAX_LOSS = 0.01
"""Largest error of a formula by the rounding of its sources, as a share of the middle half of the target."""


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
        if self.shift == 0:
            return f"{self.target} = {factor}{body}"
        sign, unit = "-" if self.shift < 0 else "+", " days" if self.is_dated else ""
        return f"{self.target} = {factor}{body} {sign} {abs(self.shift):.15g}{unit}"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.target, *self.sources)

    @property
    def _shift_amount(self) -> float:
        return self.shift * (SECONDS_PER_DAY if self.is_dated else 1)

    def values(self, numbers: Sequence[Array]) -> Array:
        """Amounts (n,) of the target from amounts (n,) of the sources; not finite where the operation is undefined."""
        with np.errstate(all="ignore"):
            return np.asarray(self.factor * OPERATIONS[self.operation](*numbers) + self._shift_amount)

    def source_amount(self, amount: float) -> float:
        """The amount of the only source that gives this amount of the target; an infinite amount for infinite ones."""
        scaled = (amount - self._shift_amount) / self.factor
        return INVERSES[self.operation](scaled) if math.isfinite(scaled) else scaled

    def errors(
        self, columns: Mapping[str, Column], amounts_of: Mapping[str, Array], *, rounded_sources: bool = True
    ) -> tuple[Array, Array]:
        """Errors (n,) of the formula in rows, and the largest errors (n,) that rounding explains.

        rounded_sources: whether the sources may have been rounded after the target was computed from them
        """
        sources = [amounts_of[name] for name in self.sources]
        expected, numbers = self.values(sources), amounts_of[self.target]
        target = columns[self.target]
        rounding = half_step(target) * (1 + 1e-6) + 1e-12 * np.abs(numbers)
        low, high = to_amounts(target, np.quantile(target.ranks.values, [0.25, 0.75]))
        middle = float(high - low)
        hidden = np.zeros(len(numbers))
        steps = [half_step(columns[name]) for name in self.names]
        # In a copy, or nearly a copy with the same decimals, the rounding of the source explains no error.
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
        numbers = {name: read_amounts(columns[name], table[name]) for name in self.names}
        error, allowed = self.errors(columns, numbers)
        missing = np.isnan(list(numbers.values())).any(0)
        return np.asarray(~missing & ~(error <= allowed))


def half_step(column: Column) -> float:
    """The largest rounding error of the amounts of a column; 0 where they have no fixed decimals."""
    if column.date_scale is not None:
        return 0.5 * _step(column)
    decimals = column.ranks.decimals
    return 0.0 if decimals is None else 0.5 * 10.0**-decimals  # times in strings are exact, whatever their step


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
        return (self.low, self.high)

    def broken(self, columns: Mapping[str, Column], table: Table) -> Array:
        return self.compare(*(read_amounts(columns[name], table[name]) for name in self.names))

    def compare(self, low: Array, high: Array) -> Array:
        """Which amounts (n,) of the two columns do not meet the relation; NaN does."""
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
        return (self.source, self.target)

    def broken(self, columns: Mapping[str, Column], table: Table) -> Array:
        """Which rows (n,) have another target than the first row with the same source."""
        is_broken = _find_conflicts(table[self.source], table[self.target])
        return is_broken | _find_conflicts(table[self.target], table[self.source]) if self.both_ways else is_broken


def _find_conflicts(source: Cells, target: Cells) -> Array:
    missing, seen = source.missing | target.missing, dict[object, object]()
    pairs = zip(source.objects, target.objects, missing.tolist(), strict=True)
    return np.array([not is_missing and seen.setdefault(x, y) != y for x, y, is_missing in pairs], dtype=bool)


Relation = ColumnSum | ColumnFormula | ColumnOrder | ColumnFunction
"""A relation between columns `names`. `broken` tells which rows (n,) do not meet it; rows with missing cells do."""


def index_by_target(relations: Sequence[Relation]) -> dict[str, ColumnSum | ColumnFormula | ColumnFunction]:
    """Relations that determine a column, by the name of that column."""
    computed = [relation for relation in relations if not isinstance(relation, ColumnOrder)]
    return {relation.total if isinstance(relation, ColumnSum) else relation.target: relation for relation in computed}


def sort_by_sources(steps: Sequence[Step], names: Callable[[Step], Sequence[str]]) -> list[Step]:
    """Steps, each after those that compute its sources; without steps in a cycle.

    names: the column that a step computes, followed by its sources
    """
    waiting, ordered = list(steps), list[Step]()
    while waiting:
        targets = {names(step)[0] for step in waiting}
        ready = [step for step in waiting if not targets.intersection(names(step)[1:])]
        if not ready:
            break
        ordered += ready
        waiting = [step for step in waiting if step not in ready]
    return ordered


def enforce(
    relations: Sequence[Relation],
    columns: Mapping[str, Column],
    stored: pd.DataFrame,
    cells: dict[str, CellArray],
    conditioned: AbstractSet[str],
    source: Array | None = None,
) -> None:
    """Change the cells of new rows, by column, so that they meet the relations; conditioned cells do not change.

    source: the stored row (n,) of each new row. Its cells replace those of a formula whose result is beyond the limits
            of its column, and those of the columns that other relations link to the formula.
    """
    beyond = _restore_all(relations, columns, stored, cells, conditioned)
    if source is None or not beyond:
        return
    for formula, rows in beyond:
        for name in _list_linked(formula, relations) - conditioned:
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
    """Change new cells to meet the relations. Formulas whose results are beyond a limit, each with these rows (m,)."""
    orders = [relation for relation in relations if isinstance(relation, ColumnOrder)]
    for _ in range(MAX_PASSES if orders else 0):
        moved = [_restore_order(order, columns, cells, conditioned) for order in orders]
        if not any(moved):
            break
    for relation in relations:  # sums and functions have no columns that are in orders
        if isinstance(relation, ColumnSum):
            _restore_sum(relation, columns, cells, conditioned)
        elif isinstance(relation, ColumnFunction):
            _look_up(relation, stored, cells)
    formulas = [relation for relation in relations if isinstance(relation, ColumnFormula)]
    formulas = sort_by_sources(formulas, lambda formula: formula.names)
    beyond = [(formula, _compute(formula, columns, cells)) for formula in formulas]
    return [(formula, rows) for formula, rows in beyond if len(rows)]


def _list_linked(formula: ColumnFormula, relations: Sequence[Relation]) -> set[str]:
    """The columns of a formula, and those that other relations link to these, directly or through others."""
    names = set(formula.names)
    while True:
        linked = names.union(*(relation.names for relation in relations if names & set(relation.names)))
        if linked == names:
            return names
        names = linked


def _compute(formula: ColumnFormula, columns: Mapping[str, Column], cells: dict[str, CellArray]) -> Array:
    """Write the results of a formula. The rows (m,) in which the result is beyond a limit of its column."""
    target = columns[formula.target]
    present = ~Cells(formula.target, cells[formula.target]).missing
    numbers = from_amounts(target, formula.values([_read(columns[name], cells) for name in formula.sources]))
    _write(target, cells, numbers, present & np.isfinite(numbers))
    return np.flatnonzero(present & ((numbers < target.ranks.low) | (numbers > target.ranks.high)))


def _restore_sum(
    column_sum: ColumnSum, columns: Mapping[str, Column], cells: dict[str, CellArray], conditioned: AbstractSet[str]
) -> None:
    """Write the total. Where it would be beyond a limit, terms without a condition move, so that it is at the limit.

    Each of them moves towards its least or greatest stored number, by the same share of the distance.
    """
    total = columns[column_sum.total]
    numbers = np.stack([_read(columns[name], cells) for name in column_sum.names])
    present = ~np.isnan(numbers).any(0)
    sums = numbers[1:].sum(0)
    for side, limit in ((-1, to_amounts(total, total.ranks.high)), (1, to_amounts(total, total.ranks.low))):
        is_beyond = sums > limit if side < 0 else sums < limit
        wrong = present & is_beyond
        if not wrong.any():
            continue
        distances = dict[int, Array]()
        for row, name in enumerate(column_sum.terms, start=1):
            if name not in conditioned:
                end = columns[name].ranks.values[0 if side < 0 else -1]
                distances[row] = to_amounts(columns[name], float(end)) - numbers[row]
        room, excess = sum(distances.values(), np.zeros(len(sums))), limit - numbers[1:].sum(0)
        share = np.clip(np.divide(excess, room, out=np.zeros(len(sums)), where=wrong & (room != 0)), 0.0, 1.0)
        for row, distance in distances.items():
            column = columns[column_sum.names[row]]
            _write(column, cells, from_amounts(column, numbers[row] + share * distance), wrong, side)
            numbers[row] = _read(column, cells)
    sums = np.where(present, numbers[1:].sum(0), numbers[0])
    _write(total, cells, from_amounts(total, sums), present)


def _look_up(function: ColumnFunction, stored: pd.DataFrame, cells: dict[str, CellArray]) -> None:
    stored_pairs = stored[[function.source, function.target]].dropna().drop_duplicates(function.source)
    by_source = dict(zip(stored_pairs[function.source].tolist(), stored_pairs[function.target].tolist(), strict=True))
    sources, targets = (Cells(name, cells[name]) for name in function.names)
    rows = zip(sources.objects, targets.objects, targets.missing.tolist(), strict=True)
    values = [target if missing else by_source.get(source, target) for source, target, missing in rows]
    dtype = stored[function.target].dtype
    has_missing = targets.missing.any()
    cells[function.target] = pd.Series(values, dtype=dtype).array if has_missing else pd.array(values, dtype=dtype)


def _restore_order(
    order: ColumnOrder, columns: Mapping[str, Column], cells: dict[str, CellArray], fixed: AbstractSet[str]
) -> bool:
    """Change new cells to meet an order; whether any cell was changed."""
    low, high = (columns[name] for name in order.names)
    below, above = (_read(column, cells) for column in (low, high))
    wrong = order.compare(below, above)
    if not wrong.any():
        return False
    smaller, larger = np.minimum(below, above), np.maximum(below, above)
    if order.strict:
        larger = np.where(smaller == larger, larger + _step(high), larger)
    if order.low in fixed:
        smaller, larger = below, np.maximum(above, below + (_step(high) if order.strict else 0.0))
    elif order.high in fixed:
        smaller, larger = np.minimum(below, above - (_step(low) if order.strict else 0.0)), above
    for column, amounts, side in ((low, smaller, -1), (high, larger, 1)):
        if column.name not in fixed:
            _write(column, cells, from_amounts(column, amounts), wrong, side)
    return True


def _step(column: Column) -> float:
    """The least difference between two cells of a column."""
    _, step, divisor = column.grid
    if column.date_scale is not None:
        return step / divisor
    return 1e-9 if column.ranks.decimals is None else 10.0**-column.ranks.decimals * step


def largest_error(total: Column) -> float:
    """The largest error of a sum that rounding to the decimals of the total removes."""
    return np.inf if total.ranks.decimals is None else 0.49 * 10.0**-total.ranks.decimals


def _read(column: Column, cells: Mapping[str, CellArray]) -> Array:
    """The amounts (n,) of new cells of a column."""
    return read_amounts(column, Cells(column.name, cells[column.name]))


def _write(column: Column, cells: dict[str, CellArray], numbers: Array, changed: Array, side: int = 0) -> None:
    """Replace changed cells of a column by numbers (n,), rounded to its decimals.

    side: −1 to round down, 1 to round up, 0 to round to the nearest number
    """
    places, decimals = np.flatnonzero(changed), column.ranks.decimals
    new = numbers[places]
    if decimals is not None:
        nearest = np.round(new, decimals)
        is_across = side * nearest < side * new
        new = np.where(is_across, np.round(nearest + side * 10.0**-decimals, decimals), nearest)
    cells[column.name] = cells[column.name].copy()
    cells[column.name][places] = column.array_of(new)


def require_met(relations: Sequence[Relation], columns: Mapping[str, Column], table: Table) -> None:
    """InputError for a relation that a stored row breaks."""
    for relation in relations:
        rows = np.flatnonzero(relation.broken(columns, table))
        if len(rows):
            values = ", ".join(f"{name} {table[name].objects[rows[0]]}" for name in relation.names)
            more = f", and {len(rows) - 1:,} more rows break it" if len(rows) > 1 else ""
            where = f"row {rows[0] + 1} has {values}{more}"
            raise InputError(f"constraints: {str(relation)!r} does not hold in the data: {where}. Leave it out.")
