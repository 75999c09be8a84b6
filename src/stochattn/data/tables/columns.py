"""Kinds of columns: each is fitted on a column of a table, turns its cells into features, and features into cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ..legacy import InputError
from .dates import Clock
from .naming import listed, meant, near
from .ranks import Ranks

KINDS = ("numeric", "integer", "boolean", "category", "date", "id", "carried", "drop")
"""`carried` cells are those of the memory a new row is drawn around; `drop` leaves the column out."""

MOST_EXACT = 2.0**53
"""From here on a float does not tell whole numbers apart."""


class Source(NamedTuple):
    """Where a table comes from, for messages."""

    name: str = ""
    lines: tuple[int, ...] = ()
    day_first: bool = False  # how 01/02/2021 is read where nothing in the column decides

    def at(self, column: str, row: int | None = None) -> str:
        """A column, or one cell of it."""
        where = f"{self.name}, " if self.name else ""
        if row is not None:
            where += f"line {self.lines[row]}, " if self.lines else f"row {row + 1}, "
        return f"{where}column {column!r}"


@dataclass(frozen=True)
class Levels:
    """One-hot features of a few values, scaled so that the block has the variance of one numeric column."""

    values: tuple[Any, ...]
    scale: float

    @classmethod
    def fit(cls, series: Any) -> Levels:
        """Levels of a column (n,), of which at least two differ."""
        counts = series.value_counts()
        counts = counts[counts > 0]
        ordered = [v for v in series.dtype.categories if v in counts.index] if series.dtype.name == "category" else None
        values = tuple(sorted(counts.index, key=lambda v: (str(type(v)), v)) if ordered is None else ordered)
        shares = counts.to_numpy(dtype=float) / float(counts.sum())
        return cls(values, 1 / math.sqrt(1 - float(np.square(shares).sum())))

    def forward(self, series: Any) -> Array:
        """A column (n,) as features (n, levels); NaN for a missing or unknown value."""
        import pandas as pd

        codes = pd.Index(self.values).get_indexer(pd.Index(series.astype("object")))
        features = np.eye(len(self.values))[codes] * self.scale
        features[codes < 0] = np.nan
        return features

    def back(self, features: Array) -> Array:
        """Features (n, levels) as positions among the values (n,)."""
        return np.argmax(features, axis=1)

    def loosened(self, features: Array, rng: np.random.Generator, by: float) -> Array:
        """Features (n, levels) moved by this share of the way to the next; with 0.1, none means another."""
        return features + by * self.scale * rng.standard_normal(features.shape)


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table.

    dtype:  of its cells, as pandas has it
    how:    between cells and features; None for a column without features
    clock:  of dates
    after:  of identifiers, the number that new ones continue from
    """

    name: str
    kind: str
    dtype: Any
    how: Ranks | Levels | None = None
    clock: Clock | None = None
    after: int = 0

    @property
    def width(self) -> int:
        """Number of features."""
        return 0 if self.how is None else 1 if isinstance(self.how, Ranks) else len(self.how.values)

    def features(self, series: Any) -> Array:
        """Cells (n,) as features (n, width); NaN for missing cells."""
        if self.how is None:
            return np.empty((len(series), 0))
        if isinstance(self.how, Levels):
            return self.how.forward(series)
        return self.how.forward(self.numbers(series))[:, None]

    def loosened(self, features: Array, rng: np.random.Generator, by: float) -> Array:
        """Features (n, width) moved among those that decode to the same cells, so that equal cells lie apart.

        A law of features that is judged by its density must not gain by putting all of it on a few points.
        by: how far categories move, as a share of the way to the next
        """
        if isinstance(self.how, Levels):
            return self.how.loosened(features, rng, by)
        return features if self.how is None else self.how.loosened(features, rng)

    def numbers(self, series: Any) -> Array:
        """Cells (n,) of a column with an order as numbers (n,); NaN for missing ones."""
        return numbers_of(series) if self.clock is None else self.clock.numbers(series)

    def cells(self, features: Array) -> Any:
        """Features (n, width) as cells, a column (n,)."""
        import pandas as pd

        if isinstance(self.how, Levels):
            values = pd.Series(list(self.how.values), dtype=self.dtype)
            return values.take(self.how.back(features)).reset_index(drop=True)
        if self.how is None:
            raise ValueError(f"column {self.name!r} has no features to make cells of.")
        numbers = self.how.back(features[:, 0])
        series = pd.Series(numbers) if self.clock is None else self.clock.series(numbers)
        return series if series.dtype == self.dtype else series.astype(self.dtype)

    def numbered(self, first: int, n: int) -> Any:
        """Identifiers of new rows, from number `first` on: a column (n,)."""
        import pandas as pd

        numbers = range(self.after + first + 1, self.after + first + n + 1)
        return pd.Series(numbers if self.dtype.kind in "iuf" else [f"new-{i}" for i in numbers], dtype=self.dtype)

    def value(self, text: str, decimal: str = ".") -> tuple[Array, bool]:
        """Features (width,) of a value given as text with --fix, and whether it lies beyond the stored ones."""
        asked = f"--fix {self.name}={text}"
        if self.how is None:
            raise InputError(f"{asked}: column {self.name!r} cannot be fixed: it is {_WITHOUT[self.kind]}.")
        if isinstance(self.how, Levels):
            place = meant(text, self.how.values, decimal)
            if place is None:
                known = [str(value) for value in self.how.values]
                raise InputError(
                    f"{asked}: column {self.name!r} has no such value. {near(text, known)}It has {listed(known)}."
                )
            return np.eye(self.width)[place] * self.how.scale, False
        number = self._number(text, decimal)
        if math.isnan(number):
            wrong = "holds numbers, and this is none" if self.clock is None else "holds dates, and this is no date"
            remedy = "Write a number." if self.clock is None else "Write it as 2021-03-01."
            raise InputError(f"{asked}: column {self.name!r} {wrong}. {remedy}")
        self._check(number, self.how, asked)
        return self.how.forward([number]), not self.how.values[0] <= number <= self.how.values[-1]

    def _check(self, number: float, how: Ranks, asked: str) -> None:
        """InputError for a number outside the limits, or between the numbers that the column can have."""
        if not how.low <= number <= how.high:
            ends = [f"below {how.low:g}"] if math.isfinite(how.low) else []
            ends += [f"above {how.high:g}"] if math.isfinite(how.high) else []
            raise InputError(
                f"{asked}: column {self.name!r} has nothing {' or '.join(ends)}. Choose another value, or widen its "
                "range with --range."
            )
        if how.decimals is not None and round(number, how.decimals) != number and number not in how.values:
            many = f"{how.decimals} decimals" if how.decimals else "whole numbers"
            what = many if self.clock is None else "whole steps of time, as its dates have"
            raise InputError(f"{asked}: column {self.name!r} has {what}. Round the value to that.")

    def matches(self, series: Any, text: str, decimal: str = ".") -> Array:
        """Which cells (n,) a text means, written as in the file or as an equal number or date: (n,) booleans."""
        if self.clock is not None:
            return np.asarray(self.numbers(series) == self.clock.number(text))
        values = list(series.dropna().unique())
        place = meant(text, values, decimal)
        if place is None:
            return np.zeros(len(series), dtype=bool)
        return np.asarray((series == values[place]).fillna(False).to_numpy(dtype=bool))

    def _number(self, text: str, decimal: str) -> float:
        """A text as a number of this column; NaN if it is none."""
        if self.clock is not None:
            return self.clock.number(text)
        try:
            number = float(text.replace(decimal, "."))
        except ValueError:
            return math.nan
        return number if math.isfinite(number) else math.nan


_WITHOUT = {
    "id": "an identifier, numbered anew for new rows",
    "carried": "constant, or not modelled, and taken over from the stored row",
}


def numbers_of(series: Any) -> Array:
    """Cells (n,) of a numeric column as numbers (n,); NaN for missing ones."""
    return np.asarray(series.to_numpy(dtype="float64", na_value=np.nan))
