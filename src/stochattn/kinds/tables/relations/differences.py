"""Columns that are coded by how far they are from another one: of an order a <= b, b by b − a.

Where b − a varies far less than b, as the length of a stay beside its two dates, the noise of draws on the scale of b
would make it too long. Conditions on b turn the pair round: b has its own scale, and a is coded by b − a.
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
from .relations import ColumnOrder, Relation, Table, amounts, own_numbers

if TYPE_CHECKING:
    from .relations import CellArray

MAX_SPREAD = 0.25
"""Range of the middle 80 % of differences, over that of the larger column, up to which the difference is the scale."""
MIDDLE = (0.1, 0.9)
MIN_STEP = 1e-5
"""Steps of time in seconds, from which on floats hold seconds since 1970 exactly enough to be rounded to them."""
TIME_DECIMALS = 6
"""Most decimals of the steps of a clock between the times of two columns, whose steps may differ."""
Pair = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Difference:
    """The column `name`, coded by its distance from the column `base`, which it is above (sign 1) or below (−1).

    unit:     of the distances: seconds for dates, and 1 for numbers
    decimals: to which distances are rounded, as subtraction leaves a little more
    turns:    whether `base` may be coded by its distance from `name`, which is missing only where `base` is
    """

    name: str
    base: str
    sign: int
    unit: float
    decimals: int
    ranks: Ranks
    turns: bool = True

    @property
    def names(self) -> Pair:
        """The larger column and the smaller one."""
        return (self.name, self.base) if self.sign > 0 else (self.base, self.name)

    def distances(self, columns: Mapping[str, Column], table: Table) -> Array:
        """The larger column less the smaller one in rows (n,), in units; NaN where one of the two cells is missing."""
        return np.asarray(np.round(differences_of(self.names, columns, table) / self.unit, self.decimals))

    def features(self, columns: Mapping[str, Column], table: Table) -> Array:
        """Scores (n, 1) of the differences in rows; NaN where one of the two cells is missing."""
        return self.ranks.forward(self.distances(columns, table))[:, None]

    def cells(self, columns: Mapping[str, Column], base: CellArray, scores: Array) -> CellArray:
        """Cells (n,) at the distances that scores (n,) stand for from the cells (n,) of the base."""
        column, ranks = columns[self.name], columns[self.name].transform
        distances = self.sign * self.unit * self.ranks.inverse(scores)
        numbers = own_numbers(column, amounts(columns[self.base], Cells(self.base, base)) + distances)
        if isinstance(ranks, Ranks):
            numbers = np.clip(np.round(numbers, ranks.decimals or 0), ranks.low, ranks.high)
        return column.array_of(numbers)


def differences_of(names: Pair, columns: Mapping[str, Column], table: Table) -> Array:
    """The larger column less the smaller one in each row (n,), in seconds for dates; NaN where a cell is missing."""
    high, low = (amounts(columns[name], table[name]) for name in names)
    return np.asarray(high - low)


def chosen_differences(
    columns: Mapping[str, Column], table: Table, relations: Sequence[Relation]
) -> tuple[Difference, ...]:
    """For each column that is the larger one of an order, the narrowest difference, where it is narrow enough.

    Both columns have decimals, so that a sum gives the stored number again, and the base is missing only where the
    other one is.
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
        spread = _middle(differences_of(difference.names, columns, table)) / _middle(
            amounts(columns[relation.high], table[relation.high])
        )
        if spread <= MAX_SPREAD and (relation.high not in best or spread < best[relation.high][0]):
            best[relation.high] = spread, difference
    return _bases_first([difference for _, difference in best.values()])


def stated_differences(
    pairs: Sequence[Pair], columns: Mapping[str, Column], table: Table, relations: Sequence[Relation]
) -> tuple[Difference, ...]:
    """The same of columns and their bases that were chosen earlier.

    Those that are in no order now, or whose numbers have no decimals in these rows, are left out.
    """
    orders = {(one.high, one.low) for one in relations if isinstance(one, ColumnOrder)}
    usable = [pair for pair in pairs if pair in orders and _is_exact(columns, pair)]
    candidates = (_difference(name, base, columns, table) for name, base in usable)
    return _bases_first([one for one in candidates if one is not None])


def pairs_of(differences: Sequence[Difference]) -> tuple[Pair, ...]:
    """The columns that are coded by a distance, each with its base."""
    return tuple((one.name, one.base) for one in differences)


def turned(differences: Sequence[Difference], conditioned: AbstractSet[str]) -> tuple[Difference, ...]:
    """The differences, turned round so that columns that are conditioned on have their own scale.

    A column in between is coded from the nearest of them; of two that are conditioned on, both have their own scale.
    So have both columns of a difference that cannot be turned round.
    """
    roots = {difference.name for difference in differences} & conditioned
    if not roots:
        return tuple(differences)
    roots |= {difference.base for difference in differences} & conditioned
    left, reached, oriented = list(differences), set(roots), []
    while left:
        near = [difference for difference in left if {difference.name, difference.base} & reached]
        if not near:
            oriented += left  # of columns without any condition
            break
        for difference in near:
            left.remove(difference)
            if difference.name in reached and difference.base in reached:
                continue
            to = (
                difference
                if difference.base in reached
                else replace(difference, name=difference.base, base=difference.name, sign=-difference.sign)
            )
            if to is difference or difference.turns:
                reached.add(to.name)
                oriented.append(to)
    return tuple(oriented)


def _difference(name: str, base: str, columns: Mapping[str, Column], table: Table) -> Difference | None:
    """The difference of two ordered columns, the larger one first; None where it does not vary."""
    pair = name, base
    clocks, scales = [columns[one].date_scale for one in pair], [columns[one].transform for one in pair]
    steps = [clock.step / PER_SECOND[clock.unit] for clock in clocks if clock is not None]
    if steps:  # the finer of two clocks, as each column must be found again from the other one
        unit = min(steps)
        decimals = min(TIME_DECIMALS, math.floor(math.log10(unit / MIN_STEP)))
    else:
        unit = 1.0
        decimals = max(one.decimals or 0 for one in scales if isinstance(one, Ranks))  # equivalent: see `_is_exact`
    numbers = np.round(differences_of(pair, columns, table) / unit, decimals)
    distinct = Distinct.of(numbers[~np.isnan(numbers)])
    if len(distinct.values) < 2:
        return None
    own_decimals = decimals_of(distinct)
    turns = not (table[name].missing & ~table[base].missing).any()
    return Difference(
        name, base, 1, unit, decimals, Ranks.fit(distinct, *limits_of(distinct, own_decimals), own_decimals), turns
    )


def _is_exact(columns: Mapping[str, Column], names: Sequence[str]) -> bool:
    """Whether a number of one column plus a difference is rounded to the number of the other that it stands for."""
    for name in names:
        column = columns[name]
        if not isinstance(column.transform, Ranks) or column.transform.decimals is None:
            return False
        if column.date_scale is not None and column.date_scale.step / PER_SECOND[column.date_scale.unit] < MIN_STEP:
            return False
    return True


def _middle(numbers: Array) -> float:
    """The range of the middle of numbers (n,) without NaN, above zero."""
    low, high = np.quantile(numbers[~np.isnan(numbers)], MIDDLE)
    return max(float(high - low), np.finfo(np.float64).tiny)


def _bases_first(differences: Sequence[Difference]) -> tuple[Difference, ...]:
    """The differences in an order in which the base of each is decoded before it; without those of a circle."""
    left, ordered = list(differences), list[Difference]()
    while left:
        waiting = {difference.name for difference in left}
        ready = [difference for difference in left if difference.base not in waiting]
        if not ready:
            break
        ordered += ready
        left = [difference for difference in left if difference.base in waiting]
    return tuple(ordered)
