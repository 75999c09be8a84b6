"""Writers of new rows: delimited text in the style of the file that was read, Parquet, and matrices of numbers."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from ..._backend.arrays import Array
from ..._backend.files import write_npy_header
from ..base import Batch
from ..delimited_cells import Style
from ..options import InputError
from .columns import MAX_EXACT, Column, ColumnType, numbers_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.parquet as pq


class TableWriter:
    """Writes new rows block by block, with identifiers that are numbered across all blocks."""

    def __init__(self, stream: BinaryIO, columns: Sequence[Column]) -> None:
        self.stream, self.ids = stream, [column for column in columns if column.type == ColumnType.ID]

    def write(self, batch: Batch) -> None:
        """Number these and write them."""
        new = {column.name: column.numbered(batch.first, len(batch.items)) for column in self.ids}
        self._write(batch.items.assign(**new))

    def _write(self, frame: pd.DataFrame) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Write what comes after the last of them."""


class DelimitedWriter(TableWriter):
    """New rows as delimited text."""

    def __init__(self, stream: BinaryIO, columns: Sequence[Column], style: Style) -> None:
        super().__init__(stream, columns)
        self.style, self.begun = style, False

    def _write(self, frame: pd.DataFrame) -> None:
        style = self.style
        for name in frame.columns:
            if name in style.truths:
                true, false = style.truths[name]
                frame[name] = frame[name].astype("object").map({True: true, False: false})
            elif name in style.decimals and frame[name].dtype.kind == "f":
                texts = frame[name].map(lambda cell, n=style.decimals[name]: _padded(cell, n), na_action="ignore")
                frame[name] = texts.astype("object").str.replace(".", style.decimal, regex=False)
            if name in style.codes and frame[name].isna().any():
                cells = frame[[name]].to_csv(index=False, header=False, decimal=style.decimal, na_rep=style.codes[name])
                frame[name] = [row[0] for row in csv.reader(io.StringIO(cells, newline=""))]
        text = frame.to_csv(
            index=False,
            header=style.header and not self.begun,
            sep=style.delimiter,
            decimal=style.decimal,
            na_rep=style.missing,
            lineterminator=style.newline,
        )
        encoding = style.encoding
        if self.begun:  # a mark at the beginning belongs before the first block only
            encoding = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le"}.get(encoding, encoding)
        self.stream.write(text.encode(encoding, errors="replace"))
        self.begun = True


def _padded(number: float, decimals: int) -> str:
    """A number with so many decimals, or more if it has them."""
    text = f"{number:.{decimals}f}"
    return text if float(text) == number else repr(float(number))


class ParquetWriter(TableWriter):
    """New rows as Parquet, a row group for each block."""

    def __init__(self, stream: BinaryIO, columns: Sequence[Column]) -> None:
        super().__init__(stream, columns)
        self.file: pq.ParquetWriter | None = None
        try:
            self.pyarrow, self.parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        except ImportError:
            raise InputError("writing Parquet needs pyarrow: pip install pyarrow, or write CSV instead.") from None

    def _write(self, frame: pd.DataFrame) -> None:
        table = self.pyarrow.Table.from_pandas(frame, preserve_index=False, schema=self.file and self.file.schema)
        self.file = self.file or self.parquet.ParquetWriter(self.stream, table.schema)
        self.file.write_table(table)

    def close(self) -> None:
        """Write the footer of the file."""
        if self.file is not None:
            self.file.close()


class MatrixWriter(TableWriter):
    """New rows as one matrix of numbers in .npy, without names.

    Its dtype is known with the last row: until then blocks lie in a temporary file.
    """

    def __init__(self, stream: BinaryIO, columns: Sequence[Column]) -> None:
        super().__init__(stream, columns)
        for column in columns:
            if column.dtype.kind not in "iufb":
                raise InputError(
                    f"format npy: column {column.name!r} is not numeric ({column.dtype}), and .npy holds only numbers. "
                    f"Write .csv or .parquet, or leave it out with columns={{{column.name!r}: 'drop'}}."
                )
        self.blocks = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`, gone with this object at the latest)
        self.shapes: list[tuple[int, int]] = []
        self.dtype: np.dtype = np.dtype(bool)  # the dtype that holds every entry so far
        self.long: list[str] = []  # columns of whole numbers that floats do not distinguish

    def _write(self, frame: pd.DataFrame) -> None:
        block = np.stack([_plain(frame[name]) for name in frame.columns], axis=1)
        whole = [name for name, dtype in frame.dtypes.items() if dtype.kind in "iu"]
        self.long += [name for name in whole if np.nanmax(np.abs(numbers_of(frame[name])), initial=0) >= MAX_EXACT]
        self.dtype = np.result_type(self.dtype, block.dtype)
        self.shapes.append(block.shape)
        np.save(self.blocks, block)

    def close(self) -> None:
        """Write all of them as an array (n, columns) of the dtype that holds every column."""
        with self.blocks:
            if self.long and self.dtype.kind == "f":
                raise InputError(
                    f"format npy: column {self.long[0]!r} has whole numbers of over 15 digits, which a matrix with "
                    "fractions does not hold exactly. Write .csv or .parquet."
                )
            write_npy_header(self.stream, self.dtype, (sum(rows for rows, _ in self.shapes), self.shapes[-1][1]))
            self.blocks.seek(0)
            for _ in self.shapes:
                block = np.load(self.blocks, allow_pickle=False)
                self.stream.write(np.ascontiguousarray(block, dtype=self.dtype).data)


def _plain(series: pd.Series) -> Array:
    """A numeric column (n,) as a plain array; NaN for missing cells."""
    if isinstance(series.dtype, np.dtype):
        return np.asarray(series.to_numpy())
    if series.isna().any():
        return numbers_of(series)
    return np.asarray(series.to_numpy(dtype="bool" if series.dtype.kind == "b" else series.dtype.name.lower()))
