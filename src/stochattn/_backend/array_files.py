"""Arrays in .npy and .npz files. Headers are read first: an array is read only if it is wanted and not too large.

numpy raises errors of many types for damaged files; here every failure is an ArrayFileError with a reason in a few
words, to which the caller adds the name of the file and the remedy. Nothing is unpickled.
"""

from __future__ import annotations

import math
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from .arrays import NumpyArray, gigabytes

MAX_BYTES = 2**32
"""Bytes of all arrays of a compressed file, unless the caller sets another limit."""


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
    with path.open("rb") as stream, _archive(stream) as archive:
        return {name: header for name, (_, header) in _members(archive).items()}


def read_npz(path: Path, names: Collection[str] | None = None, max_bytes: int = MAX_BYTES) -> dict[str, NumpyArray]:
    """The arrays of an .npz file, or those of these names; OSError if it cannot be opened.

    Arrays that are stored without compression are not larger than the file, and do not count towards `max_bytes`.
    """
    with path.open("rb") as file, _archive(file) as archive:
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
def _archive(stream: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    with _failures(), zipfile.ZipFile(stream) as archive:
        yield archive


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
