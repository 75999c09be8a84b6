"""New rows in files: writers of delimited text, Parquet and matrices (.npy and Zarr), and frames cast or saved."""

from __future__ import annotations

import csv
import io
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import date
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np

from ..._backend.arrays import Array
from ..._backend.files import write_npy_header
from ..._backend.state import Plain
from .. import lazy_pandas as pd
from ..codec import Batch
from ..delimited.cells import Style
from ..delimited.formulas import LINE_END, RowLines, as_text
from ..native import MAX_EXACT
from ..options import InputError
from .columns.cells import Cells, is_plain
from .columns.columns import Column, number_rows, write_numbers


def require_numbers(columns: Sequence[Column], format: str) -> None:
    """InputError if a column is not numeric."""
    for name, dtype in [(column.name, column.dtype) for column in columns if column.dtype.kind not in "iufb"]:
        problem = f"format {format}: column {name!r} is not numeric ({dtype}), and .{format} holds only numbers"
        remedy = f"Write .csv or .parquet, or leave it out with columns={{{name!r}: 'drop'}}."
        raise InputError(f"{problem}. {remedy}")


def require_exact(long: Sequence[str], dtype: np.dtype[np.generic], format: str) -> None:
    """InputError if a matrix of this dtype does not hold the integers of these columns exactly."""
    if long and dtype.kind == "f":
        why = "has integers of over 15 digits, which a matrix with fractions does not hold exactly"
        raise InputError(f"format {format}: column {long[0]!r} {why}. Write .csv or .parquet.")


def matrix_of(frame: pd.DataFrame) -> tuple[Array, list[str]]:
    """Numeric columns as a matrix (n, columns), and the columns of integers that floats do not distinguish."""
    integers = [Cells.of(frame[name]) for name, dtype in frame.dtypes.items() if dtype.kind in "iu"]
    long = [cells.name for cells in integers if (np.abs(cells.numbers) >= MAX_EXACT).any()]
    return np.stack([_plain(frame[name]) for name in frame.columns], axis=1), long


def make_matrix(columns: Sequence[Column], stored: pd.DataFrame, rows: pd.DataFrame) -> Array:
    """New rows as a matrix (n, columns) of the dtype of stored and new rows together; NaN for missing cells."""
    require_numbers(columns, "zarr")
    matrix, too_long = matrix_of(rows)
    dtype = matrix_dtype(stored)
    require_exact(too_long, dtype, "zarr")
    return matrix.astype(dtype, casting="same_kind")


def matrix_dtype(stored: pd.DataFrame) -> np.dtype[np.generic]:
    """The dtype of a matrix of stored and new rows: floats where a cell may be missing."""
    return np.result_type(*(_plain(stored[name]).dtype for name in stored.columns))


def _plain(series: pd.Series) -> Array:
    """A numeric column (n,) as a plain array; NaN for missing cells."""
    if isinstance(series.dtype, np.dtype):
        return np.asarray(series.to_numpy())
    if series.isna().any():
        return Cells.of(series).numbers
    return np.asarray(series.to_numpy(dtype="bool" if series.dtype.kind == "b" else series.dtype.name.lower()))


class TableWriter(ABC):
    """Writes new rows block by block, and numbers identifiers across all blocks."""

    def __init__(self, stream: BinaryIO, columns: Sequence[Column]) -> None:
        self.stream, self.columns = stream, columns

    def write(self, batch: Batch) -> None:
        self._write(number_rows(self.columns, batch.items, batch.first))

    @abstractmethod
    def _write(self, frame: pd.DataFrame) -> None: ...

    def close(self) -> None:  # noqa: B027  # most formats need nothing
        """Write what follows the last block."""


class DelimitedWriter(TableWriter):
    """New rows as delimited text; formulas in the columns `quoted` begin with an apostrophe."""

    begun = False

    def __init__(self, stream: BinaryIO, columns: Sequence[Column], style: Style, quoted: Sequence[str]) -> None:
        super().__init__(stream, columns)
        self.style, self.quoted = style, quoted

    def _write(self, frame: pd.DataFrame) -> None:
        style, common = self.style, {"index": False, "decimal": self.style.decimal}
        for name in self.quoted:
            if frame[name].dtype.kind == "O":
                frame[name] = frame[name].astype("object").map(as_text)
        for name in frame.columns:
            if name in style.truths:
                true, false = style.truths[name]
                frame[name] = frame[name].astype("object").map({True: true, False: false})
            elif name in style.forms or (name in style.decimals and frame[name].dtype.kind == "f"):
                frame[name] = write_numbers(frame[name], style.notation(name))
            if name in style.codes and frame[name].isna().any():
                cells = frame[[name]].to_csv(header=False, na_rep=style.codes[name], **common)
                frame[name] = [row[0] for row in csv.reader(io.StringIO(cells, newline=""))]
        layout = {"sep": style.delimiter, "na_rep": style.missing, "lineterminator": LINE_END, **common}
        names = [as_text(name) if name in self.quoted else name for name in frame.columns]
        header = names if style.header and not self.begun else False
        text = io.StringIO(newline="")
        frame.to_csv(RowLines(text, style.newline), header=header, **layout)
        encoding = style.encoding
        if self.begun:  # only the first block begins with a byte order mark
            encoding = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(encoding, encoding)
        self.stream.write(text.getvalue().encode(encoding, errors="replace"))
        self.begun = True


class ParquetWriter(TableWriter):
    """New rows as Parquet, a row group for each block."""

    def __init__(self, stream: BinaryIO, columns: Sequence[Column]) -> None:
        super().__init__(stream, columns)
        self.file: Any = None
        try:
            self.pyarrow, self.parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        except ImportError:
            raise InputError("writing Parquet needs pyarrow: pip install pyarrow, or write CSV instead.") from None

    def _write(self, frame: pd.DataFrame) -> None:
        table = self.pyarrow.Table.from_pandas(frame, preserve_index=False, schema=self.file and self.file.schema)
        self.file = self.file or self.parquet.ParquetWriter(self.stream, table.schema)
        self.file.write_table(table)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


class MatrixWriter(TableWriter):
    """New rows as a matrix of numbers in .npy. A temporary file holds blocks until the dtype of all rows is known."""

    def __init__(self, stream: BinaryIO, columns: Sequence[Column]) -> None:
        super().__init__(stream, columns)
        require_numbers(columns, "npy")
        self.blocks = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`, or with this object)
        self.shapes: list[tuple[int, int]] = []
        self.dtype: np.dtype = np.dtype(bool)  # the dtype that holds every entry so far
        self.long: list[str] = []  # columns of integers that floats do not distinguish

    def _write(self, frame: pd.DataFrame) -> None:
        block, too_long = matrix_of(frame)
        self.long += too_long
        self.dtype = np.result_type(self.dtype, block.dtype)
        self.shapes.append(block.shape)
        np.save(self.blocks, block)

    def close(self) -> None:
        """Write all of them as an array (n, columns) of the dtype that holds every column."""
        with self.blocks:
            require_exact(self.long, self.dtype, "npy")
            write_npy_header(self.stream, self.dtype, (sum(rows for rows, _ in self.shapes), self.shapes[-1][1]))
            self.blocks.seek(0)
            for _ in self.shapes:
                block = np.load(self.blocks, allow_pickle=False)
                self.stream.write(np.ascontiguousarray(block, dtype=self.dtype).data)


def cast(frame: pd.DataFrame, columns: Sequence[Column], where: str) -> pd.DataFrame:
    """The columns of a frame in this order, with these dtypes; InputError for one that is absent or does not fit."""
    frame = frame.set_axis(list(map(str, frame.columns)), axis=1).reset_index(drop=True)
    cells = {}
    for column in columns:
        if column.name not in frame:
            raise InputError(f"{where}: has no column {column.name!r}, which the stored table has. Add it.")
        series = frame[column.name]
        if column.notation is not None and series.dtype.kind in "iuf":  # as strings, like the stored cells
            series = write_numbers(series, column.notation)
        try:
            cells[column.name] = _convert(series, column)
        except (TypeError, ValueError):
            raise InputError(f"{where}, column {column.name!r}: {series.dtype} does not fit {column.dtype}.") from None
    return pd.DataFrame(cells)


def _convert(series: pd.Series, column: Column) -> pd.Series:
    """Cells with the dtype of a column, or the nullable dtype of the same kind where cells are missing."""
    dtype, scale = column.dtype, column.date_scale
    if scale is not None and scale.has_date_objects and type(next(iter(series.dropna()), None)) is not date:
        return pd.to_datetime(series).dt.date.astype(dtype)
    if series.dtype == dtype:
        return series
    if dtype.kind in "iu" and series.dtype.kind == "f" and (series % 1 > 0).any():
        return series  # the report shows fractions
    if dtype.kind in "iub" and series.isna().any():
        return series.astype("boolean" if dtype.kind == "b" else dtype.name.replace("i", "I").replace("u", "U"))
    if dtype.kind == "O" and dtype.name != "category":
        return series.astype("object").map(str, na_action="ignore").astype(dtype)
    return series.astype(dtype)


def frame_state(frame: pd.DataFrame) -> dict[str, Plain]:
    """A frame as plain values. Numbers of one dtype share one array: ten thousand small arrays take long to write."""
    columns: list[dict[str, Plain]] = []
    shared: dict[str, list[Array]] = {}
    for name, series in frame.items():
        dtype = series.dtype
        if is_plain(dtype):
            together = shared.setdefault(str(dtype), [])
            columns.append({"name": name, "shared": str(dtype), "at": len(together)})
            together.append(series.to_numpy())
        else:
            columns.append({"name": name, "dtype": str(dtype), **_column_state(series)})
    return {"columns": columns, "shared": {dtype: np.stack(cells) for dtype, cells in shared.items()}}


def _column_state(series: pd.Series) -> dict[str, Plain]:
    if series.dtype.name == "category":
        codes, dtype = series.cat.codes.to_numpy().astype(np.int64), series.dtype
        return {"cells": codes, "categories": dtype.categories.tolist(), "ordered": bool(dtype.ordered)}
    if series.dtype.kind == "M":
        return {"cells": series.astype("int64").to_numpy()}
    cells = zip(series, series.isna(), strict=True)  # a missing cell may be None, NaN or NA, which is not plain
    return {"cells": [None if is_missing and not isinstance(cell, float) else cell for cell, is_missing in cells]}


def frame_from_state(state: dict[str, Any]) -> pd.DataFrame:
    """The frame of `frame_state`."""
    return pd.DataFrame({column["name"]: _column_of(column, state["shared"]) for column in state["columns"]})


def _column_of(state: dict[str, Any], shared: dict[str, Array]) -> Array | pd.Series | pd.Categorical:
    if "shared" in state:
        return shared[state["shared"]][state["at"]]
    cells = state["cells"]
    if "categories" in state:
        return pd.Categorical.from_codes(cells, dtype=pd.CategoricalDtype(state["categories"], state["ordered"]))
    is_array = isinstance(cells, np.ndarray)  # of datetimes, as integers
    return pd.Series(cells).astype(state["dtype"]) if is_array else pd.Series(cells, dtype=state["dtype"])
