"""Columns of a table: each is fitted on its cells, and maps cells to features and features to cells."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple, cast

import numpy as np

from ...._backend.arrays import Array
from ...._backend.checks import suggest_names
from ... import lazy_pandas as pd
from ...codec import condition_text
from ...delimited.notations import DurationNotation, TextNotation, TimeNotation
from ...delimited.numbers import Notation
from ...options import InputError, listed
from ..description import ColumnType
from .cells import CellArray, Cells, CellType, is_plain
from .dates import PER_SECOND, DateScale
from .scales import Distinct, Ranks

Value = bool | int | float | str | datetime.date | np.generic  # what a cell can be conditioned on
PLAIN = Notation()


class Source(NamedTuple):
    """Where a table comes from: the name of the file, the line of each row (n,) or (), and the order of day and month.

    day_first: whether 01/02/2021 is the first of February where no date decides
    """

    name: str = ""
    lines: tuple[int, ...] = ()
    day_first: bool = False

    def place(self, column: str, row: int | None = None) -> str:
        """A column, or one cell of it."""
        where = f"{self.name}, " if self.name else ""
        if row is not None:
            where += f"{self.line(row)}, "
        return f"{where}column {column!r}"

    def line(self, row: int) -> str:
        """The line of a row in the file, or the number of the row."""
        return f"line {self.lines[row]}" if self.lines else f"row {row + 1}"


@dataclass(frozen=True)
class Levels:
    """One-hot features of a few values, with a scale that gives the block the variance of one numeric column."""

    values: tuple[object, ...]
    scale: float

    @classmethod
    def fit(cls, cells: Cells | pd.Series) -> Levels:
        """The levels of a column (n,) with at least two distinct values."""
        cells = Cells.of(cells)
        if cells.is_plain and cells.dtype.kind != "f":  # NumPy and Python are faster than pandas for many columns
            distinct = Distinct.of(cells.present.array)
            values, frequent = distinct.values.tolist(), sorted(distinct.counts.tolist(), reverse=True)
        elif cells.dtype.name == "str":
            counts = cells.present.counts
            values, frequent = sorted(counts), sorted(counts.values(), reverse=True)
        else:
            series = cells.series
            values = series.astype("category").cat.remove_unused_categories().cat.categories
            frequent = [count for count in series.value_counts() if count]
        shares = np.array(frequent, dtype=float) / sum(frequent)
        return cls(tuple(values), 1 / math.sqrt(1 - float(np.square(shares).sum())))

    def forward(self, cells: Cells | pd.Series) -> Array:
        """A column (n,) as features (n, levels); NaN for a missing or unknown value."""
        places = {value: place for place, value in enumerate(self.values)}
        codes = np.array(list(map(places.get, Cells.of(cells).objects, repeat(-1))), dtype=np.intp)
        features = np.eye(len(self.values))[codes] * self.scale
        features[codes < 0] = np.nan
        return features


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table: without a transform it has no features; identifiers continue after `last_number`.

    date_scale: of dates and times
    notation:   of numbers and times whose cells are strings such as $12.50 and 08:30
    """

    name: str
    type: ColumnType
    dtype: CellType
    transform: Ranks | Levels | None = None
    date_scale: DateScale | None = None
    last_number: int = 0
    notation: TextNotation | None = None

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.transform.values) if isinstance(self.transform, Levels) else int(self.transform is not None)

    @property
    def ranks(self) -> Ranks:
        """The transform of a column that holds numbers or dates."""
        return cast(Ranks, self.transform)

    @property
    def levels(self) -> Levels:
        """The transform of a column that holds categories."""
        return cast(Levels, self.transform)

    def features(self, cells: Cells | pd.Series) -> Array:
        """Cells (n,) as features (n, width); NaN for missing cells."""
        if isinstance(self.transform, Ranks):
            return self.transform.forward(self.numbers(cells))[:, None]
        cells = Cells.of(cells)
        return np.empty((len(cells.array), 0)) if self.transform is None else self.transform.forward(cells)

    def jitter(self, features: Array, rng: np.random.Generator, amount: float) -> Array:
        """Features (n, width) moved among those of the same cells; categories by `amount` of the way to the next."""
        if isinstance(self.transform, Levels):  # with an amount of 0.1, each still decodes to its value
            return features + amount * self.transform.scale * rng.standard_normal(features.shape)
        return features if self.transform is None else self.transform.jitter(features, rng)

    def numbers(self, cells: Cells | pd.Series) -> Array:
        """Cells (n,) of an ordered column as numbers (n,); NaN for missing cells."""
        cells = Cells.of(cells)
        if self.notation is not None:
            return cells.numbers_in(self.notation)
        return cells.numbers if self.date_scale is None else self.date_scale.numbers(cells)

    def array(self, features: Array) -> CellArray:
        """Features (n, width) as cells (n,), in an array of the dtype of the column."""
        if isinstance(self.transform, Ranks):
            return self.array_of(self.transform.inverse(features[:, 0]))
        cells = [self.levels.values[place] for place in np.argmax(features, axis=1).tolist()]
        return np.array(cells, dtype=self.dtype) if is_plain(self.dtype) else pd.array(cells, dtype=self.dtype)

    def array_of(self, numbers: Array) -> CellArray:
        """Numbers (n,) of this column as cells (n,), in an array of its dtype."""
        if self.notation is not None:
            return write_numbers(pd.Series(numbers), self.notation).astype(self.dtype).array
        if is_plain(self.dtype):
            if self.dtype.kind == "f":  # noise may exceed the range of the type
                numbers = np.minimum(np.maximum(numbers, np.finfo(self.dtype).min), np.finfo(self.dtype).max)
            return numbers.astype(self.dtype, copy=False)
        if self.date_scale is not None and self.date_scale.format is not None:
            return pd.array(self.date_scale.strings(numbers), dtype=self.dtype)
        series = pd.Series(numbers) if self.date_scale is None else self.date_scale.series(numbers)
        return series.astype(self.dtype).array

    def cells(self, features: Array) -> pd.Series:
        """Features (n, width) as cells, a column (n,)."""
        return pd.Series(self.array(features), dtype=self.dtype)

    def make_ids(self, first: int, n: int) -> pd.Series:
        """Identifiers of n new rows, of which `first` come before: a column (n,)."""
        numbers = range(self.last_number + first + 1, self.last_number + first + n + 1)
        return pd.Series(numbers if self.dtype.kind in "iuf" else [f"new-{i}" for i in numbers], dtype=self.dtype)

    @property
    def unit(self) -> str:
        """The unit of numbers that are times, or nothing; numbers of one unit can be compared."""
        return "date" if self.date_scale is not None else "" if self.notation is None else self.notation.unit

    @property
    def grid(self) -> tuple[int, int, int]:
        """Origin, step and divisor of the amounts of numbers x: (origin + x · step) / divisor, in seconds for dates."""
        if self.date_scale is not None:
            return self.date_scale.origin, self.date_scale.step, PER_SECOND[self.date_scale.unit]
        if isinstance(self.notation, TimeNotation | DurationNotation):
            return self.notation.start, self.notation.step, 1
        return 0, 1, 1

    def parse(self, text: str, notation: Notation = PLAIN) -> Value:
        """The value that a text means in this column, with numbers in this notation."""
        if isinstance(self.transform, Levels):
            value = self.transform.values[self.find_level(text, notation)]
            return value.item() if isinstance(value, np.generic) else value  # type: ignore[return-value]
        if self.transform is None or self.unit:
            return text
        number = self.number(text, notation)
        return int(number) if number.is_integer() else number

    def condition(self, value: Value, notation: Notation = PLAIN) -> tuple[Array, bool]:
        """Features (width,) of a value, and whether it lies beyond the stored ones; InputError if it is impossible."""
        ranks = self.require_transform(value)
        if isinstance(ranks, Levels):
            return np.eye(self.width)[self.find_level(value, notation)] * ranks.scale, False
        number = self.number(value, notation)
        if not ranks.low <= number <= ranks.high:
            raise self.refusal(value, self.explain_limit("below" if number < ranks.low else "above"))
        if ranks.decimals is not None and round(number, ranks.decimals) != number and number not in ranks.values:
            precision = f"{ranks.decimals} decimals" if ranks.decimals else "integers"
            if self.date_scale is not None:
                precision = "dates in longer steps of time"
            elif self.grid[1] > 1:
                precision = f"times such as {self.shown(round(number))}"
            raise self.refusal(value, f"has {precision}. Round the value to that.")
        self.require_near(value, number)
        return ranks.forward([number]), not ranks.values[0] <= number <= ranks.values[-1]

    def require_transform(self, value: object) -> Ranks | Levels:
        """The transform; InputError for a condition on a column that has none."""
        if self.transform is None:
            raise self.refusal(value, f"cannot be conditioned on: it {UNMODELED[self.type]}.")
        return self.transform

    def explain_limit(self, side: str) -> str:
        """Why there are no new values below or above the limit, and what to do."""
        ranks = self.ranks
        limit, end = (ranks.low, 0) if side == "below" else (ranks.high, -1)
        is_shared = ranks.values[end] == limit and ranks.first[end] < ranks.last[end]
        why = ": many stored rows have this value, so it is taken as the end of the scale" if is_shared else ""
        low, high = (self.shown(end) if math.isfinite(end) else "" for end in (ranks.low, ranks.high))
        within = f"from {low} to {high}" if low and high else f"of at least {low}" if low else f"of at most {high}"
        remedy = f"Choose values {within}, or widen its limits with ranges"
        return f"has no new values {side} {self.shown(limit)}{why}. {remedy}."

    def require_near(self, value: object, number: float) -> None:
        """InputError where a number lies outside the stored range by more than the width of this range.

        Further out, draws would depend on a linear extrapolation from too few rows.
        """
        least, greatest = float(self.ranks.values[0]), float(self.ranks.values[-1])
        near = least - (greatest - least), greatest + (greatest - least)
        if not near[0] <= number <= near[1]:
            low, high = (self.shown(end) for end in (max(near[0], self.ranks.low), min(near[1], self.ranks.high)))
            extent = f"has stored values from {self.shown(least)} to {self.shown(greatest)}"
            why = "and a condition may lie outside this range by its width at most"
            raise self.refusal(value, f"{extent}, {why}. Choose a value between {low} and {high}.")

    def shown(self, number: float) -> str:
        """A number of this column as a message shows it: dates and times as in the cells."""
        if self.date_scale is not None:
            return str(self.date_scale.series(np.array([number])).iloc[0])
        if self.notation is not None and (self.notation.unit or number in self.notation.labels):
            return self.notation.write(number)
        return f"{number:.10g}"

    def refusal(self, value: object, why: str) -> InputError:
        """An error on a condition on this column, with the reason."""
        return InputError(f"condition {condition_text(self.name, value)}: the column {why}")

    def find_level(self, value: Value, notation: Notation) -> int:
        """Position of the level of a value, or of the value that a string means."""
        values = self.levels.values
        place = find_value(str(value), values, notation if isinstance(value, str) else PLAIN)
        if place is None and isinstance(value, bool | np.bool_):
            place = find_value(str(int(value)), values)
        if place is None:
            names = list(map(str, values))
            raise self.refusal(value, f"has no such value. {suggest_names(str(value), names)}It has {listed(names)}.")
        return place

    def number(self, value: Value, notation: Notation) -> float:
        """A value, or the value that a string means, as a number of this column."""
        number = math.nan
        if self.date_scale is not None:
            number = self.date_scale.number(value)
        elif isinstance(value, str):
            number = (self.notation or notation).number(value)
        elif isinstance(value, int | float | np.number) and not isinstance(value, bool):
            number = float(value)
        if not math.isfinite(number):
            content, remedy = "numbers", "a number"
            if self.date_scale is not None:
                content, remedy = "dates", "a date such as 2021-03-01"
            elif self.unit and isinstance(self.transform, Ranks):
                content, remedy = "times", f"one such as {self.shown(self.transform.values[0])}"
            raise self.refusal(value, f"holds {content}, and this is not one. Pass {remedy}.")
        return number

    def matches(self, series: pd.Series, text: str, notation: Notation = PLAIN) -> Array:
        """Which cells (n,) equal the value that a string means, as in the file or as a number or date."""
        if (scale := self.date_scale or self.notation) is not None:
            return np.asarray(self.numbers(series) == scale.number(text))
        values = list(series.dropna().unique())
        if (place := find_value(text, values, notation)) is None:
            return np.zeros(len(series), dtype=bool)
        return np.asarray((series == values[place]).fillna(False).to_numpy(dtype=bool))


UNMODELED = {
    ColumnType.ID: "holds identifiers, and new rows get new ones",
    ColumnType.CARRIED: "is constant or not modeled, and its cells are those of stored rows",
}


def number_rows(columns: Sequence[Column], rows: pd.DataFrame, first: int) -> pd.DataFrame:
    """New rows, of which `first` come before, with new identifiers."""
    ids = [column for column in columns if column.type == ColumnType.ID]
    return rows.assign(**{column.name: column.make_ids(first, len(rows)) for column in ids})


def write_numbers(series: pd.Series, notation: TextNotation) -> pd.Series:
    """Numbers (n,) as strings in a notation; None for missing numbers."""
    cells = zip(series, series.isna(), strict=True)
    strings = [None if is_missing else notation.write(cell) for cell, is_missing in cells]
    return pd.Series(strings, index=series.index, dtype="object")


def find_value(text: str, values: Sequence[object], notation: Notation = PLAIN) -> int | None:
    """Position of the value that a string means: the same string, the only one but for capitals, or an equal number."""
    strings = list(map(str, values))
    if text in strings:
        return strings.index(text)
    alike = [place for place, string in enumerate(strings) if string.casefold() == text.casefold()]
    if len(alike) == 1:
        return alike[0]
    number = notation.number(text)
    numeric = [isinstance(value, int | float | np.number | np.bool_) and type(value) is not bool for value in values]
    return next((place for place, value in enumerate(values) if numeric[place] and value == number), None)
