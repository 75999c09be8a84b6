"""Writers of new rows: delimited text in the style of the file that was read, Parquet, and matrices of numbers."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from ..._backend.arrays import Array
from ..._backend.files import write_npy_header
from ..base import Batch, Writer
from ..delimited_cells import Style
from ..options import InputError
from .columns import MAX_EXACT, Column, ColumnType, numbers_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.parquet as pq


class Numbering:
    """A writer that gives new rows their identifiers, numbered across all blocks."""

    def __init__(self, columns: Sequence[Column], writer: Writer) -> None:
        self.ids, self.writer = [column for column in columns if column.type == ColumnType.ID], writer

    def write(self, batch: Batch) -> None:
        """Number these and write them."""
        new = {column.name: column.numbered(batch.first, len(batch.items)) for column in self.ids}
        self.writer.write(batch._replace(items=batch.items.assign(**new)))

    def close(self) -> None:
        """Write what comes after the last of them."""
        self.writer.close()


class DelimitedWriter:
    """New rows as delimited text, block by block."""

    def __init__(self, stream: BinaryIO, style: Style) -> None:
        self.stream, self.style, self.begun = stream, style, False

    def write(self, batch: Batch) -> None:
        """Write these; column names come before the first of them."""
        style, frame = self.style, batch.items.copy(deep=False)
        for name in frame.columns:
            if name in style.truths:
                true, false = style.truths[name]
                frame[name] = frame[name].astype("object").map({True: true, False: false})
            elif name in style.decimals and frame[name].dtype.kind == "f":
                padded = partial(_padded, style.decimals[name])
                texts = frame[name].map(padded, na_action="ignore").astype("object")
                frame[name] = texts.str.replace(".", style.decimal, regex=False) if style.decimal != "." else texts
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

    def close(self) -> None:
        """Nothing comes after the last row."""


def _padded(decimals: int, number: float) -> str:
    """A number with so many decimals, or more if it has them."""
    text = f"{number:.{decimals}f}"
    return text if float(text) == number else repr(float(number))


class ParquetWriter:
    """New rows as Parquet, a row group for each block."""

    def __init__(self, stream: BinaryIO) -> None:
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise InputError("writing Parquet needs pyarrow: pip install pyarrow, or write CSV instead.") from None
        self.stream = stream
        self.file: pq.ParquetWriter | None = None

    def write(self, batch: Batch) -> None:
        """Write these as a row group."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pandas(batch.items, preserve_index=False, schema=self.file and self.file.schema)
        if self.file is None:
            self.file = pq.ParquetWriter(self.stream, table.schema)
        self.file.write_table(table)

    def close(self) -> None:
        """Write the footer of the file."""
        if self.file is not None:
            self.file.close()


class MatrixWriter:
    """New rows as one matrix of numbers in .npy, without names.

    Its dtype is known with the last row: until then blocks lie in a temporary file.
    """

    def __init__(self, stream: BinaryIO, columns: Sequence[Column]) -> None:
        for column in columns:
            if column.dtype.kind not in "iufb":
                raise InputError(
                    f"format npy: column {column.name!r} is not numeric ({column.dtype}), and .npy holds only numbers. "
                    f"Write .csv or .parquet, or leave it out with columns={{{column.name!r}: 'drop'}}."
                )
        self.stream = stream
        self.blocks = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`, gone with this object at the latest)
        self.shapes: list[tuple[int, int]] = []
        self.dtype: np.dtype = np.dtype(bool)  # the dtype that holds every entry so far
        self.largest: dict[str, float] = {}  # of the columns of whole numbers

    def write(self, batch: Batch) -> None:
        """Keep these."""
        frame = batch.items
        block = np.stack([_plain(frame[name]) for name in frame.columns], axis=1)
        for name in frame.columns:
            if frame[name].dtype.kind in "iu":
                here = np.nanmax(np.abs(numbers_of(frame[name])), initial=0)
                self.largest[name] = max(self.largest.get(name, 0.0), float(here))
        self.dtype = np.result_type(self.dtype, block.dtype)
        self.shapes.append(block.shape)
        np.save(self.blocks, block)

    def close(self) -> None:
        """Write all of them as an array (n, columns) of the dtype that holds every column."""
        with self.blocks:
            for name, largest in self.largest.items() if self.dtype.kind == "f" else ():
                if largest >= MAX_EXACT:
                    raise InputError(
                        f"format npy: column {name!r} has whole numbers of over 15 digits, which a matrix with "
                        "fractions does not hold exactly. Write .csv or .parquet."
                    )
            shape = sum(rows for rows, _ in self.shapes), self.shapes[-1][1]
            write_npy_header(self.stream, self.dtype, shape)
            self.blocks.seek(0)
            for _ in self.shapes:
                block = np.load(self.blocks, allow_pickle=False)
                self.stream.write(np.ascontiguousarray(block, dtype=self.dtype).data)


def _plain(series: pd.Series) -> Array:
    """A numeric column (n,) as a plain array; NaN for missing cells."""
    if isinstance(series.dtype, np.dtype):
        return np.asarray(series.to_numpy())
    if series.isna().any():
        return np.asarray(series.to_numpy(dtype="float64", na_value=np.nan))
    return np.asarray(series.to_numpy(dtype="bool" if series.dtype.kind == "b" else series.dtype.name.lower()))
