"""Rows of a table as matrices of numbers, for the formats that hold nothing else: .npy and Zarr."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._backend.arrays import Array
from .. import lazy_pandas as pd
from ..options import InputError
from .cells import Cells
from .columns import MAX_EXACT, Column


def require_numbers(columns: Sequence[Column], format: str) -> None:
    """InputError if a column is not numeric."""
    for name, dtype in [(column.name, column.dtype) for column in columns if column.dtype.kind not in "iufb"]:
        found = f"format {format}: column {name!r} is not numeric ({dtype}), and .{format} holds only numbers"
        remedy = f"Write .csv or .parquet, or leave it out with columns={{{name!r}: 'drop'}}."
        raise InputError(f"{found}. {remedy}")


def require_exact(long: Sequence[str], dtype: np.dtype[np.generic], format: str) -> None:
    """InputError if a matrix of this dtype does not hold the whole numbers of these columns exactly."""
    if long and dtype.kind == "f":
        why = "has whole numbers of over 15 digits, which a matrix with fractions does not hold exactly"
        raise InputError(f"format {format}: column {long[0]!r} {why}. Write .csv or .parquet.")


def matrix_of(frame: pd.DataFrame) -> tuple[Array, list[str]]:
    """Numeric columns as a matrix (n, columns), and the columns of whole numbers that floats do not distinguish."""
    whole = [Cells.of(frame[name]) for name, dtype in frame.dtypes.items() if dtype.kind in "iu"]
    long = [cells.name for cells in whole if (np.abs(cells.numbers) >= MAX_EXACT).any()]
    return np.stack([_plain(frame[name]) for name in frame.columns], axis=1), long


def matrix_dtype(stored: pd.DataFrame) -> np.dtype[np.generic]:
    """The dtype of all rows like the stored ones, in a matrix: floats where a cell may be missing."""
    return np.result_type(*(_plain(stored[name]).dtype for name in stored.columns))


def _plain(series: pd.Series) -> Array:
    """A numeric column (n,) as a plain array; NaN for missing cells."""
    if isinstance(series.dtype, np.dtype):
        return np.asarray(series.to_numpy())
    if series.isna().any():
        return Cells.of(series).numbers
    return np.asarray(series.to_numpy(dtype="bool" if series.dtype.kind == "b" else series.dtype.name.lower()))
