"""Cells of the columns of a table, taken from a data frame many columns at a time, with cached properties."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from ...._backend.arrays import Array
from ... import lazy_pandas as pd
from ...delimited.notations import TextNotation
from ...native import PLAIN_KINDS
from .scales import Distinct

CellArray: TypeAlias = "Array | pd.api.extensions.ExtensionArray"
CellType: TypeAlias = "np.dtype | pd.api.extensions.ExtensionDtype"


def is_plain(dtype: CellType) -> bool:
    """Whether this is a dtype of NumPy for numbers or booleans."""
    return isinstance(dtype, np.dtype) and dtype.kind in PLAIN_KINDS


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells (n,) of a column: an array of NumPy where it has the dtype, else of pandas.

    Pandas takes about ten times as long as NumPy for a small column, and tables may have thousands of columns.

    rows: (n,) the row of the table of each cell, or None for all rows
    """

    name: str
    array: CellArray
    rows: Array | None = None

    @classmethod
    def of(cls, column: Cells | pd.Series) -> Cells:
        """The cells of a column of a data frame; cells are returned as they are."""
        if isinstance(column, Cells):
            return column
        of_numpy = isinstance(column.dtype, np.dtype) and column.dtype.kind in f"{PLAIN_KINDS}O"
        return cls(str(column.name), column.to_numpy() if of_numpy else column.array)

    @property
    def dtype(self) -> CellType:
        return self.array.dtype

    @property
    def is_plain(self) -> bool:
        """Whether these are numbers or booleans with a dtype of NumPy."""
        return is_plain(self.array.dtype)

    @cached_property
    def missing(self) -> Array:
        """Which cells are missing: (n,) booleans."""
        if self.is_plain:
            return np.isnan(self.array) if self.dtype.kind == "f" else np.zeros(len(self.array), dtype=bool)
        return np.asarray(pd.isna(self.array))

    @cached_property
    def present(self) -> Cells:
        """The cells that are not missing."""
        if not self.missing.any():
            return self
        rows = np.flatnonzero(~self.missing)
        return Cells(self.name, self.array[rows], rows if self.rows is None else self.rows[rows])

    def row(self, place: int) -> int:
        """The row of a cell in the table."""
        return place if self.rows is None else int(self.rows[place])

    @cached_property
    def series(self) -> pd.Series:
        """The cells as a series, with their rows as index."""
        return pd.Series(self.array, index=self.rows, name=self.name, dtype=self.dtype, copy=False)

    @cached_property
    def objects(self) -> list[Any]:
        """The cells as plain objects."""
        return list(self.array.tolist())

    @cached_property
    def dates(self) -> dict[str, Array]:
        """A cache of the cells as times, M8 (n,), by the format in which they were read."""
        return {}

    @cached_property
    def numbers(self) -> Array:
        """Cells of a numeric column as numbers (n,); NaN for missing cells."""
        if self.is_plain:
            return np.asarray(self.array, dtype=np.float64)
        return np.asarray(self.series.to_numpy(dtype="float64", na_value=np.nan))

    @cached_property
    def distinct(self) -> Distinct:
        """The distinct numbers of a numeric column without missing cells."""
        return Distinct.of(self.numbers)

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each of the cells occurs; none of them may be missing."""
        return Counter(self.objects)

    @cached_property
    def n_distinct(self) -> int:
        """How many distinct cells there are; none of them may be missing."""
        if self.is_plain:
            return len((self.distinct if self.dtype.kind == "f" else Distinct.of(self.array)).values)
        return len(self.counts) if self.dtype.name == "str" else int(self.series.nunique())

    def numbers_in(self, notation: TextNotation) -> Array:
        """Strings as numbers (n,); NaN for missing cells, and for strings that are not numbers."""
        return np.array([notation.number(cell) if isinstance(cell, str) else math.nan for cell in self.objects])


def cells_of(frame: pd.DataFrame) -> dict[str, Cells]:
    """The columns of a frame by name. Columns of the same dtype of NumPy are taken together, which is far faster."""
    names, dtypes = frame.columns.tolist(), frame.dtypes.tolist()
    arrays: dict[int, CellArray] = {}
    for dtype in set(filter(is_plain, dtypes)):
        places = [place for place, column_dtype in enumerate(dtypes) if column_dtype == dtype]
        rows = np.ascontiguousarray(frame.iloc[:, places].to_numpy().T)
        arrays |= zip(places, rows, strict=True)
    remaining = [place for place, dtype in enumerate(dtypes) if not is_plain(dtype)]
    series = frame.iloc[:, remaining].set_axis(remaining, axis=1).items()
    arrays |= {place: Cells.of(column).array for place, column in series}
    return {name: Cells(name, arrays[place]) for place, name in enumerate(names)}


def equal_cells(first: Cells, second: Cells) -> Array:
    """Which cells (n,) of two columns are equal; two missing cells are equal."""
    x, y = first.array, second.array
    if first.dtype == second.dtype and first.is_plain:
        return np.asarray((x == y) | ((x != x) & (y != y)))
    if first.dtype == second.dtype and first.dtype.name == "str":  # a missing string is NaN
        if first.objects == second.objects:
            return np.ones(len(first.objects), dtype=bool)
        pairs = zip(first.objects, second.objects, strict=True)
        return np.array([a == b or (a != a and b != b) for a, b in pairs], dtype=bool)
    x, y = (cells.series.to_numpy(dtype=object, na_value=None) for cells in (first, second))
    return np.asarray((x == y) | (first.missing & second.missing))  # a missing date does not equal itself
