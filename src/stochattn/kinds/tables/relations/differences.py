"""Columns that are coded by their distance from another column: of an order a <= b, b by b − a.

Where b − a varies far less than b, as the length of a stay does beside its two dates, noise on the scale of b would be
too much for b − a. Under a condition on b the pair is swapped: b has its own scale, and a is coded by b − a.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...._backend.arrays import Array
from ..columns.cells import Cells
from ..columns.columns import Column
from ..columns.dates import PER_SECOND
from ..columns.scales import Distinct, Ranks, decimals_of, limits_of
from .relations import ColumnOrder, Relation, Table, from_amounts, read_amounts

if TYPE_CHECKING:
    from .relations import CellArray

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
        column, ranks = columns[self.name], columns[self.name].transform
        distances = self.sign * self.unit * self.ranks.inverse(scores)
        numbers = from_amounts(column, read_amounts(columns[self.base], Cells(self.base, base)) + distances)
        if isinstance(ranks, Ranks):
            numbers = np.clip(np.round(numbers, ranks.decimals or 0), ranks.low, ranks.high)
        return column.array_of(numbers)


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
    for relation in relations:
        if not isinstance(relation, ColumnOrder) or not _is_exact(columns, relation.names):
            continue
        if (table[relation.low].missing & ~table[relation.high].missing).any():
            continue
        difference = _difference(relation.high, relation.low, columns, table)
        if difference is None:
            continue
        differences = differences_of(difference.names, columns, table)
        spread = _middle_range(differences) / _middle_range(read_amounts(columns[relation.high], table[relation.high]))
        if spread <= MAX_SPREAD and (relation.high not in best or spread < best[relation.high][0]):
            best[relation.high] = spread, difference
    return _bases_first([difference for _, difference in best.values()])


def restore_differences(
    pairs: Sequence[Pair], columns: Mapping[str, Column], table: Table, relations: Sequence[Relation]
) -> tuple[Difference, ...]:
    """The differences of columns and bases that were chosen earlier.

    Pairs that are in no order now, or whose numbers have no fixed decimals in these rows, are left out.
    """
    orders = {(relation.high, relation.low) for relation in relations if isinstance(relation, ColumnOrder)}
    usable = [pair for pair in pairs if pair in orders and _is_exact(columns, pair)]
    candidates = (_difference(name, base, columns, table) for name, base in usable)
    return _bases_first([difference for difference in candidates if difference is not None])


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


def _difference(name: str, base: str, columns: Mapping[str, Column], table: Table) -> Difference | None:
    """The difference of two ordered columns, the larger one first; None where it does not vary."""
    pair = columns[name], columns[base]
    date_scales, scales = [column.date_scale for column in pair], [column.transform for column in pair]
    steps = [scale.step / PER_SECOND[scale.unit] for scale in date_scales if scale is not None]
    if steps:  # the shorter step, as each column must be recovered from the other one
        unit = min(steps)
        decimals = min(TIME_DECIMALS, math.floor(math.log10(unit / MIN_STEP)))
    else:
        unit = 1.0
        decimals = max(scale.decimals or 0 for scale in scales if isinstance(scale, Ranks))
    numbers = np.round(differences_of((name, base), columns, table) / unit, decimals)
    distinct = Distinct.of(numbers[~np.isnan(numbers)])
    if len(distinct.values) < 2:
        return None
    can_swap = not (table[name].missing & ~table[base].missing).any()
    new_decimals = decimals_of(distinct)
    ranks = Ranks.fit(distinct, *limits_of(distinct, new_decimals), new_decimals)
    return Difference(name, base, 1, unit, decimals, ranks, can_swap)


def _is_exact(columns: Mapping[str, Column], names: Sequence[str]) -> bool:
    """Whether a number of one column plus a difference is rounded exactly to the number of the other column."""
    for name in names:
        column = columns[name]
        if not isinstance(column.transform, Ranks) or column.transform.decimals is None:
            return False
        if column.date_scale is not None and column.date_scale.step / PER_SECOND[column.date_scale.unit] < MIN_STEP:
            return False
    return True


def _middle_range(numbers: Array) -> float:
    """The range of the middle 80 % of numbers (n,) without NaN, above zero."""
    low, high = np.quantile(numbers[~np.isnan(numbers)], MIDDLE)
    return max(float(high - low), np.finfo(np.float64).tiny)


def _bases_first(differences: Sequence[Difference]) -> tuple[Difference, ...]:
    """The differences, each after that of its base; without differences in a cycle."""
    left, ordered = list(differences), list[Difference]()
    while left:
        waiting = {difference.name for difference in left}
        ready = [difference for difference in left if difference.base not in waiting]
        if not ready:
            break
        ordered += ready
        left = [difference for difference in left if difference.base in waiting]
    return tuple(ordered)
