"""Columns that are coded by their distance from another column: of an order a <= b, b by b − a.

Where b − a varies far less than b, as the length of a stay does beside its two dates, noise on the scale of b would be
too much for b − a. Under a condition on b the pair is swapped: b has its own scale, and a is coded by b − a.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from ...._backend.arrays import Array
from ..columns.cells import CellArray, Cells
from ..columns.columns import Column
from ..columns.dates import PER_SECOND
from ..columns.scales import Distinct, Ranks, decimals_of, limits_of
from .relations import ColumnOrder, Relation, Table, from_amounts, read_amounts, sort_by_sources

MAX_SPREAD = 0.25
"""A column is coded by a difference whose middle 80 % span at most this share of the middle 80 % of the column."""
MIDDLE = (0.1, 0.9)
MIN_STEP = 1e-5
"""Least step of time in seconds to which seconds since 1970 can be rounded, with the precision of floats."""
TIME_DECIMALS = 6
"""Most decimals of the time between two columns, in steps, as their steps may differ."""
Pair = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Difference:
    """The column `name`, coded by its distance from the column `base`, which it is above (sign 1) or below (−1).

    unit:     of the distances: seconds for dates, and 1 for numbers
    decimals: to which distances are rounded, as subtraction has rounding errors
    can_swap: whether `base` may be coded by its distance from `name`, as `name` is missing only where `base` is
    """

    name: str
    base: str
    sign: int
    unit: float
    decimals: int
    ranks: Ranks
    can_swap: bool = True

    @property
    def names(self) -> Pair:
        """The larger column and the smaller one."""
        return (self.name, self.base) if self.sign > 0 else (self.base, self.name)

    def distances(self, columns: Mapping[str, Column], table: Table) -> Array:
        """The larger column less the smaller one in rows (n,), in units; NaN where a cell is missing."""
        return np.asarray(np.round(differences_of(self.names, columns, table) / self.unit, self.decimals))

    def features(self, columns: Mapping[str, Column], table: Table) -> Array:
        """Scores (n, 1) of the differences in rows; NaN where a cell is missing."""
        return self.ranks.forward(self.distances(columns, table))[:, None]

    def cells(self, columns: Mapping[str, Column], base: CellArray, scores: Array) -> CellArray:
        """Cells (n,) from the cells (n,) of the base and the scores (n,) of the distances from these."""
        column, ranks = columns[self.name], columns[self.name].ranks
        distances = self.sign * self.unit * self.ranks.inverse(scores)
        numbers = from_amounts(column, read_amounts(columns[self.base], Cells(self.base, base)) + distances)
        return column.array_of(np.clip(np.round(numbers, ranks.decimals or 0), ranks.low, ranks.high))


def differences_of(names: Pair, columns: Mapping[str, Column], table: Table) -> Array:
    """The larger column less the smaller one in each row (n,), in seconds for dates; NaN where a cell is missing."""
    high, low = (read_amounts(columns[name], table[name]) for name in names)
    return np.asarray(high - low)


def choose_differences(
    columns: Mapping[str, Column], table: Table, relations: Sequence[Relation]
) -> tuple[Difference, ...]:
    """For each column that is the larger one of an order, the narrowest difference, where it is narrow enough.

    Both columns must have fixed decimals, so that base plus difference is the stored number, and the base must be
    missing only where the column is.
    """
    best: dict[str, tuple[float, Difference]] = {}
    for high, low in _list_orders(relations):
        if (table[low].missing & ~table[high].missing).any():
            continue
        if (difference := _fit_difference(high, low, columns, table)) is not None:
            distances = differences_of((high, low), columns, table)
            spread = _middle_range(distances) / _middle_range(read_amounts(columns[high], table[high]))
            if spread <= MAX_SPREAD and (high not in best or spread < best[high][0]):
                best[high] = spread, difference
    return _sort([difference for _, difference in best.values()])


def restore_differences(
    pairs: Sequence[Pair], columns: Mapping[str, Column], table: Table, relations: Sequence[Relation]
) -> tuple[Difference, ...]:
    """The differences of columns and bases that were chosen earlier.

    Pairs that are in no order now, or whose numbers have no fixed decimals in these rows, are left out.
    """
    orders = _list_orders(relations)
    candidates = [_fit_difference(*pair, columns, table) for pair in pairs if pair in orders]
    return _sort([difference for difference in candidates if difference is not None])


def _list_orders(relations: Sequence[Relation]) -> list[Pair]:
    """The larger and the smaller column of each order."""
    return [(relation.high, relation.low) for relation in relations if isinstance(relation, ColumnOrder)]


def _sort(differences: Sequence[Difference]) -> tuple[Difference, ...]:
    """The differences, each after that of its base; without differences in a cycle."""
    return tuple(sort_by_sources(differences, lambda difference: (difference.name, difference.base)))


def list_pairs(differences: Sequence[Difference]) -> tuple[Pair, ...]:
    """The columns that are coded by a distance, each with its base."""
    return tuple((difference.name, difference.base) for difference in differences)


def orient(differences: Sequence[Difference], conditioned: AbstractSet[str]) -> tuple[Difference, ...]:
    """The differences, swapped so that columns with a condition have their own scale.

    Other columns are coded by their distance from the nearest column with a condition. Where both columns of a
    difference have a condition, or it cannot be swapped, both have their own scale.
    """
    roots = {difference.name for difference in differences} & conditioned
    if not roots:
        return tuple(differences)
    roots |= {difference.base for difference in differences} & conditioned
    left, reached, oriented = list(differences), set(roots), []
    while left:
        near = [difference for difference in left if {difference.name, difference.base} & reached]
        if not near:
            oriented += left  # no column of these has a condition
            break
        for difference in near:
            left.remove(difference)
            if difference.base not in reached and difference.can_swap:
                difference = replace(difference, name=difference.base, base=difference.name, sign=-difference.sign)
            if difference.name not in reached and difference.base in reached:
                reached.add(difference.name)
                oriented.append(difference)
    return tuple(oriented)


def _fit_difference(name: str, base: str, columns: Mapping[str, Column], table: Table) -> Difference | None:
    """The difference of two ordered columns, the larger one first; None where it is not exact, or does not vary."""
    pair = columns[name], columns[base]
    steps = [scale.step / PER_SECOND[scale.unit] for column in pair if (scale := column.date_scale) is not None]
    unit = min(steps, default=1.0)  # the shorter step, as each column must be recovered from the other one
    fixed = [column.ranks.decimals for column in pair if column.ranks.decimals is not None]
    if len(fixed) < 2 or unit < MIN_STEP:  # a number plus a difference is not rounded to the other number
        return None
    decimals = min(TIME_DECIMALS, math.floor(math.log10(unit / MIN_STEP))) if steps else max(fixed)
    numbers = np.round(differences_of((name, base), columns, table) / unit, decimals)
    distinct = Distinct.of(numbers[~np.isnan(numbers)])
    if len(distinct.values) < 2:
        return None
    can_swap = not (table[name].missing & ~table[base].missing).any()
    new_decimals = decimals_of(distinct)
    ranks = Ranks.fit(distinct, *limits_of(distinct, new_decimals), new_decimals)
    return Difference(name, base, 1, unit, decimals, ranks, can_swap)


def _middle_range(numbers: Array) -> float:
    """The range of the middle 80 % of numbers (n,) without NaN, above zero."""
    low, high = np.quantile(numbers[~np.isnan(numbers)], MIDDLE)
    return max(float(high - low), np.finfo(np.float64).tiny)
