"""Arrays in Zarr: a folder of chunks, which many processes can write at a time. The package zarr is optional."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .array_files import MAX_BYTES, ArrayFileError, ArrayHeader
from .arrays import NumpyArray, gigabytes
from .checks import InputError, first_line
from .state import Plain

METADATA = "zarr.json"
"""The file of an array of version 3 that describes it; `.zarray` is that of version 2."""
UNFINISHED = "*.partial"
"""What a process that was killed leaves of a chunk."""


def zarr_module() -> ModuleType:
    """The module zarr; InputError with the remedy if it is not installed."""
    try:
        return import_module("zarr")
    except ImportError:
        raise InputError("Zarr arrays need zarr, which is not installed: pip install 'stochattn[dask]'.") from None


def zarr_header(path: Path) -> ArrayHeader | None:
    """Shape and dtype of a Zarr array, for which zarr itself is not needed; None for anything else.

    InputError for a Zarr group, and for an array whose description cannot be read.
    """
    if not path.is_dir():
        return None
    if (path / ".zgroup").is_file():
        raise _group(path)
    file = next((path / name for name in (METADATA, ".zarray") if (path / name).is_file()), None)
    if file is None:
        return None
    try:
        about = json.loads(file.read_text("utf-8"))
        if about.get("node_type") == "group":
            raise _group(path)
        dtype = about["data_type"] if file.name == METADATA else about["dtype"]
        return ArrayHeader(tuple(map(int, about["shape"])), False, _dtype(dtype))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: {file.name} does not describe a Zarr array. Write the array again.") from None


def read_zarr(path: Path, max_bytes: int = MAX_BYTES) -> tuple[NumpyArray, Mapping[str, Plain]]:
    """A Zarr array and its attributes; ArrayFileError if it cannot be read, or is larger than max_bytes."""
    header, zarr = zarr_header(path), zarr_module()
    if header is not None and header.n_bytes > max_bytes:
        raise ArrayFileError(f"it holds {gigabytes(header.n_bytes)}, and at most {gigabytes(max_bytes)} are read")
    try:
        array = zarr.open_array(path, mode="r")
        values, attributes, missing = np.asarray(array[...]), dict(array.attrs), missing_chunks(array)
    except Exception as error:  # errors of zarr and of its codecs share no base class
        raise ArrayFileError(first_line(error)) from None
    if missing:
        warnings.warn(f"{path}: {missing}", stacklevel=2)
    return values, attributes


def missing_chunks(array: Any) -> str:
    """A sentence on chunks of a Zarr array that are not stored, which Zarr reads as its fill value; empty for none.

    They may be lost, as in a copy that was interrupted. Zarr also leaves out chunks that hold the fill value alone.
    """
    n_missing = array.nchunks - array.nchunks_initialized
    if not n_missing:
        return ""
    count = f"{n_missing:,} of {array.nchunks:,} chunks are not stored, and are read as {array.fill_value}"
    return f"{count}. Copy the array again, unless all values in them are {array.fill_value}."


def create_zarr(
    folder: Path, shape: tuple[int, ...], chunk_rows: int, dtype: np.dtype[np.generic], attributes: Mapping[str, Plain]
) -> None:
    """Describe an array of this shape in an empty folder, in chunks of whole rows; `ZarrRows` fills it."""
    chunks = (min(chunk_rows, shape[0]), *shape[1:])
    zarr_module().create_array(store=folder, shape=shape, chunks=chunks, dtype=dtype, attributes=dict(attributes))


class ZarrRows:
    """Writes rows of an array that `create_zarr` made, a chunk at a time; other processes may write other chunks."""

    def __init__(self, folder: Path) -> None:
        zarr = zarr_module()
        with zarr.config.set({"array.write_empty_chunks": True}):  # those of zeros too, so that none seems to be lost
            self._array = zarr.open_array(folder, mode="r+")
        self._waiting: list[NumpyArray] = []
        self._begin = 0  # the number of the first waiting row

    def write(self, first: int, rows: NumpyArray) -> None:
        """Write rows (n, ...), the first of which is row `first`; they follow those of the last call."""
        self._begin = self._begin if self._waiting else first
        self._waiting.append(rows)
        self._flush(sum(map(len, self._waiting)) // self._array.chunks[0] * self._array.chunks[0])

    def close(self) -> None:
        """Write the rows that do not fill a chunk."""
        self._flush(sum(map(len, self._waiting)))

    def _flush(self, n: int) -> None:
        if n:
            rows = np.concatenate(self._waiting)
            self._array[self._begin : self._begin + n] = rows[:n]
            self._begin, self._waiting = self._begin + n, [rows[n:]] if n < len(rows) else []


def _group(path: Path) -> InputError:
    return InputError(f"{path} is a Zarr group, not an array: name one of its arrays, such as {path / 'NAME'}.")


def _dtype(name: object) -> np.dtype[np.generic]:
    try:
        return np.dtype(str(name))
    except TypeError:  # a dtype of strings, or of another library
        return np.dtype(object)
