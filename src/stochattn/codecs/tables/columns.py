"""Kinds of columns: each is fitted on a column of a table, turns its cells into features, and features into cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._arrays import Array
from ..base import InputError
from .dates import Clock
from .ranks import Ranks

KINDS = ("numeric", "integer", "boolean", "category", "date", "id", "carried", "drop")
"""`carried` cells are those of the memory a new row is drawn around; `drop` leaves the column out."""


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
        """Features (width,) of a value given as text, and whether it lies beyond the stored ones."""
        if self.how is None:
            raise InputError(f"column {self.name!r} cannot be fixed: it is {_WITHOUT[self.kind]}.")
        if isinstance(self.how, Levels):
            known = [str(value) for value in self.how.values]
            if text not in known:
                raise InputError(
                    f"{self.name}={text}: column {self.name!r} has no such value. It has {_listed(known)}."
                )
            return np.eye(self.width)[known.index(text)] * self.how.scale, False
        number = self._number(text, decimal)
        if not self.how.low <= number <= self.how.high:
            ends = [f"below {self.how.low:g}"] if math.isfinite(self.how.low) else []
            ends += [f"above {self.how.high:g}"] if math.isfinite(self.how.high) else []
            raise InputError(
                f"{self.name}={text}: column {self.name!r} has nothing {' or '.join(ends)}. Choose another value, or "
                "widen its range with --range."
            )
        if self.how.decimals is not None and round(number, self.how.decimals) != number:
            many = f"{self.how.decimals} decimals" if self.how.decimals else "whole numbers"
            raise InputError(f"{self.name}={text}: column {self.name!r} has {many}. Round the value to that.")
        beyond = not self.how.values[0] <= number <= self.how.values[-1]
        return self.how.forward([number]), beyond

    def _number(self, text: str, decimal: str) -> float:
        """A text as a number of this column."""
        import pandas as pd

        if self.clock is not None:
            number = float(self.clock.numbers(pd.Series([text]))[0]) if self.clock.format else math.nan
            if math.isnan(number):
                other = pd.to_datetime(text, errors="coerce", utc=self.clock.zone is not None)
                if pd.isna(other):
                    raise InputError(f"{self.name}={text}: is no date. Write it as 2021-03-01.")
                plain = other if self.clock.zone is None else other.tz_convert("UTC").tz_localize(None)
                number = (plain.as_unit("ns").value - self.clock.origin) / self.clock.step
            return number
        try:
            number = float(text.replace(decimal, "."))
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"{self.name}={text}: column {self.name!r} holds numbers, and this is none.")
        return number


_WITHOUT = {
    "id": "an identifier, numbered anew for new rows",
    "carried": "constant, or not modelled, and taken over from the stored row",
}


def _listed(values: list[str]) -> str:
    return ", ".join(values[:12]) + (f" and {len(values) - 12} more" if len(values) > 12 else "")


def numbers_of(series: Any) -> Array:
    """Cells (n,) of a numeric column as numbers (n,); NaN for missing ones."""
    return np.asarray(series.to_numpy(dtype="float64", na_value=np.nan))
