"""Arrays in .npy and .npz files, and in Zarr: a folder of chunks, which many processes can write at a time.

Headers are read first: an array is read only if it is wanted and not too large. numpy raises errors of many types for
damaged files; here every failure is an ArrayFileError with a reason in a few words, to which the caller adds the name
of the file and the remedy. Nothing is unpickled. The package zarr is optional.
"""

from __future__ import annotations

import json
import math
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NamedTuple

import numpy as np

from .arrays import NumpyArray, gigabytes
from .checks import InputError, first_line

MAX_BYTES = 2**32  # bytes of all arrays of a compressed file, unless the caller sets another limit


class ArrayFileError(ValueError):
    """A file that does not hold arrays, is damaged, or holds too much."""


class ArrayHeader(NamedTuple):
    """What an .npy file says about its array before its data."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[np.generic]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: IO[bytes]) -> ArrayHeader:
    """The header of an .npy file, after which the stream is at its data."""
    no_header = "it does not begin with the header of an array"
    with _failures(no_header), warnings.catch_warnings(action="ignore"):  # numpy warns of headers that Python 2 wrote
        old = np.lib.format.read_magic(stream) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
        header = ArrayHeader(*read(stream))
    if any(type(length) is not int or length < 0 for length in header.shape):
        raise ArrayFileError("its header has an impossible shape")
    return header


def npy_header(path: Path) -> ArrayHeader | None:
    """The header of an .npy file; None for any other file, or one that cannot be read."""
    try:
        with path.open("rb") as stream:
            return read_header(stream)
    except (OSError, ArrayFileError):
        return None


def read_npy(stream: IO[bytes]) -> NumpyArray:
    """The array of an .npy file that is open for reading from its beginning."""
    header = read_header(stream)
    with _failures():
        begin = stream.tell()
        left = stream.seek(0, 2) - begin
        stream.seek(0)
        return _read(stream, header, left)


def npz_headers(path: Path) -> dict[str, ArrayHeader]:
    """The headers of the arrays in an .npz file, by name; OSError if it cannot be opened."""
    with path.open("rb") as stream, _failures(), zipfile.ZipFile(stream) as archive:
        return {name: header for name, (_, header) in _members(archive).items()}


def read_npz(path: Path, names: Collection[str] | None = None, max_bytes: int = MAX_BYTES) -> dict[str, NumpyArray]:
    """The arrays of an .npz file, or those of these names; OSError if it cannot be opened.

    Arrays that are stored without compression are not larger than the file, and do not count towards `max_bytes`.
    """
    with path.open("rb") as file, _failures(), zipfile.ZipFile(file) as archive:
        members = {name: member for name, member in _members(archive).items() if names is None or name in names}
        compressed = (header for info, header in members.values() if info.compress_type != zipfile.ZIP_STORED)
        inflated = sum(header.n_bytes for header in compressed)
        if inflated > max_bytes:
            raise ArrayFileError(f"its arrays take {gigabytes(inflated)}, and the limit is {gigabytes(max_bytes)}")
        arrays = {}
        for name, (info, header) in members.items():
            with _failures(), archive.open(info) as stream:
                arrays[name] = _read(stream, header, info.file_size)
        return arrays


def _read(stream: IO[bytes], header: ArrayHeader, left: int) -> NumpyArray:
    if header.dtype.hasobject:
        raise ArrayFileError("it holds Python objects, which are not read")
    if header.n_bytes > left:
        raise ArrayFileError(f"it is truncated: {header.n_bytes:,} bytes are declared, and {left:,} are left")
    return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _members(archive: zipfile.ZipFile) -> dict[str, tuple[zipfile.ZipInfo, ArrayHeader]]:
    members = {}
    for info in archive.infolist():
        if info.filename.endswith(".npy"):
            with _failures(), archive.open(info) as stream:
                members[info.filename.removesuffix(".npy")] = info, read_header(stream)
    return members


@contextmanager
def _failures(reason: str = "it is damaged") -> Iterator[None]:
    """Turn every error of numpy, zipfile and zlib in the block into an ArrayFileError."""
    try:
        yield
    except ArrayFileError:
        raise
    except MemoryError:
        raise ArrayFileError("its arrays do not fit into memory") from None
    except (zipfile.BadZipFile, zlib.error):
        raise ArrayFileError("it is not an archive of arrays, or is damaged") from None
    except Exception:  # damaged files raise errors of many types, some with a page of text
        raise ArrayFileError(reason) from None


def named_strings(arrays: Mapping[str, NumpyArray], names: Sequence[str], n: int) -> tuple[str, ...] | None:
    """The first array (n,) with one of these names, as strings (1.0 as "1" if all are integers); None without one."""
    for name in names:
        if name in arrays and arrays[name].shape == (n,):
            values = arrays[name]
            if values.dtype.kind == "f" and (values == np.rint(values)).all():
                values = values.astype(np.int64)
            return tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values.tolist())
    return None


METADATA = "zarr.json"  # the file of an array of version 3 that describes it; `.zarray` is that of version 2
UNFINISHED = "*.partial"  # what a process that was killed leaves of a chunk


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
    names = ".zgroup", METADATA, ".zarray"
    file = next((path / name for name in names if (path / name).is_file()), None)
    if file is None:
        return None
    try:
        about = json.loads(file.read_text("utf-8"))
        if file.name == ".zgroup" or about.get("node_type") == "group":
            raise InputError(f"{path} is a Zarr group, not an array: name one of its arrays, such as {path / 'NAME'}.")
        name, shape = about["data_type" if file.name == METADATA else "dtype"], tuple(map(int, about["shape"]))
        try:
            dtype = np.dtype(str(name))
        except TypeError:  # a dtype of strings, or of another library
            dtype = np.dtype(object)
        return ArrayHeader(shape, False, dtype)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: {file.name} does not describe a Zarr array. Write the array again.") from None


def read_zarr(path: Path, max_bytes: int = MAX_BYTES) -> tuple[NumpyArray, Mapping[str, object]]:
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
    folder: Path, shape: tuple[int, ...], chunk_rows: int, dtype: np.dtype[np.generic], attributes: Mapping[str, object]
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
