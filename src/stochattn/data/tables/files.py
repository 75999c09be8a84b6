"""Files with tables: delimited text, Parquet, or a matrix of numbers."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from ..legacy import InputError
from .delimited import TableFile, first_line, read_delimited
from .style import Style

PARQUET = (".parquet", ".pq")


def read_table(path: Path) -> TableFile:
    """The table in a file: delimited text, Parquet, or a matrix as .npy."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    if not content.strip():
        raise InputError(f"{path}: the file is empty. A table needs a line of column names and at least two rows.")
    ending = path.suffix.lower()
    if ending in PARQUET:
        return TableFile(_parquet(path, content), Style(), (), ())
    if ending == ".npy":
        return TableFile(_matrix(path, content), Style(), (), ())
    return read_delimited(path, content, "\t" if ending in (".tsv", ".tab") else None)


def _parquet(path: Path, content: bytes) -> Any:
    import pandas as pd

    try:
        return pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise InputError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow, or save as CSV.") from None
    except Exception as error:  # pyarrow's own, which derive from no common class
        raise InputError(f"{path}: is no Parquet file ({first_line(error)}).") from None


def _matrix(path: Path, content: bytes) -> Any:
    import pandas as pd

    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError):
        raise InputError(f"{path}: is no .npy file of numbers. Save one with numpy.save.") from None
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(
            f"{path}: a table must be a matrix of numbers; got shape {array.shape} of {array.dtype}. "
            "Save a row per example."
        )
    return pd.DataFrame(array, columns=[f"x{j + 1}" for j in range(array.shape[1])])
