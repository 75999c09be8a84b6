"""Memories in a file: opened as a memory map after a check of the header, and read row by row or block by block.

Rows are converted when they are read (half precision to float32, integers to float64); the file is never copied.
"""

from __future__ import annotations

import math
import os
import tokenize
from pathlib import Path
from typing import BinaryIO, TypeAlias, TypeGuard

import numpy as np

from .._backend.arrays import Array, NumpyArray, concatenate, detached, is_torch, norms_squared
from .._backend.progress import Progress
from .blockwise import blocks

MAX_SMALL_NUMBERS = 2**24
"""Numbers in a bank that may be copied, or passed over many times. A larger bank is neither."""
MAGIC = b"\x93NUMPY"
Index: TypeAlias = int | slice | Array


class MappedRows:
    """Rows and columns of a memory map as float32 or float64: (K, d). An index reads the rows that it names, no others.

    rows:     (K,) indices of rows of the map, or None for all
    columns:  (d,) indices of its columns, or None for all
    divisors: (K,) a number for each row to be divided by, or None
    """

    ndim = 2

    def __init__(
        self, base: NumpyArray, rows: Array | None = None, columns: Array | None = None, divisors: Array | None = None
    ) -> None:
        self.base, self.rows, self.columns, self.divisors = base, rows, columns, divisors
        half = base.dtype.kind == "f" and base.dtype.itemsize <= 4
        self.dtype = np.dtype(np.float32 if half else np.float64)
        self.itemsize = self.dtype.itemsize

    @property
    def shape(self) -> tuple[int, int]:
        """(K, d)."""
        return len(self), self.base.shape[1] if self.columns is None else len(self.columns)

    def __len__(self) -> int:
        return len(self.base) if self.rows is None else len(self.rows)

    def __getitem__(self, index: Index) -> NumpyArray:
        if isinstance(index, tuple):
            raise TypeError(f"memories in a file are read by whole rows; got the index {index!r}. Use patterns[rows].")
        rows = self.base[index if self.rows is None else self.rows[index]]
        if self.columns is not None:
            rows = rows[..., self.columns]
        rows = np.asarray(rows, dtype=self.dtype)
        return rows if self.divisors is None else rows / self.divisors[index][..., None]

    def __array__(self, dtype: np.dtype[np.generic] | None = None, copy: bool | None = None) -> NumpyArray:
        require_small(self, "this")
        return np.asarray(self[:], dtype=dtype)

    def take(self, rows: Array) -> MappedRows:
        """The rows at these indices."""
        kept = rows if self.rows is None else self.rows[rows]
        return MappedRows(self.base, kept, self.columns, None if self.divisors is None else self.divisors[rows])

    def select_columns(self, columns: Array) -> MappedRows:
        """The columns at these indices; rows that were divided keep their divisors."""
        kept = columns if self.columns is None else self.columns[columns]
        return MappedRows(self.base, self.rows, kept, self.divisors)

    def divided_by(self, divisors: Array) -> MappedRows:
        """These rows, each divided by its own number: (K,)."""
        total = divisors if self.divisors is None else self.divisors * divisors
        return MappedRows(self.base, self.rows, self.columns, total)


def is_mapped(x: object) -> TypeGuard[NumpyArray]:
    """Whether x is in a file that is open for reading only; `MappedRows` pass as an array, read by whole rows."""
    return isinstance(x, MappedRows) or (isinstance(x, np.memmap) and not x.flags.writeable)


def source_file(patterns: object) -> str | None:
    """The name of the file that a memory map reads from, or None."""
    name = getattr(patterns.base if isinstance(patterns, MappedRows) else patterns, "filename", None)
    return None if name is None else str(name)


def as_mapped_rows(x: Array | MappedRows) -> MappedRows:
    """A memory map as rows that are converted when they are read."""
    return x if isinstance(x, MappedRows) else MappedRows(x)


def is_large(patterns: Array | MappedRows) -> bool:
    """Whether memories (K, d) are too many numbers to copy, or to pass over many times."""
    return bool(patterns.shape[0] * patterns.shape[1] > MAX_SMALL_NUMBERS)


def require_small(patterns: Array | MappedRows, what: str) -> None:
    """ValueError if `what` would copy a large file into memory."""
    if is_mapped(patterns) and patterns.ndim == 2 and is_large(patterns):
        size = patterns.shape[0] * patterns.shape[1] * patterns.itemsize / 2**30
        raise ValueError(
            f"{what} would copy the whole file of memories, {patterns.shape[0]} rows of {patterns.shape[1]} "
            f"({size:.1f} GiB). Load it first if it fits: MemoryBank(np.load(path))."
        )


def rows_at(patterns: Array, indices: Array) -> Array:
    """The memories at these indices, in their order: (n,) -> (n, d). A file is read from start to end."""
    if not is_mapped(patterns):
        return patterns[indices]
    order = np.argsort(indices, kind="stable")
    rows = np.empty((len(indices), patterns.shape[1]), dtype=patterns.dtype)
    for block in blocks(len(order), patterns.shape[1]):
        rows[order[block]] = patterns[indices[order[block]]]
    return rows


def file_name(argument: str, value: object) -> str:
    """The value as text, if it is the name of a file."""
    name = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    if not isinstance(name, str):
        rule = f"{argument} must name an .npy file, as a string or a pathlib.Path"
        raise TypeError(f"{rule}; got {value!r} ({type(value).__name__}).")
    return name


def open_matrix(path: object) -> NumpyArray:
    """The matrix in an .npy file as a read-only memory map, after its header and its size are checked."""
    name = file_name("path", path)
    try:
        size = Path(name).stat().st_size
        with Path(name).open("rb") as stream:
            shape, fortran, dtype = _header(stream, name, size)
            begin = stream.tell()
    except OSError as error:
        raise type(error)(f"{name} cannot be read ({error.strerror}). Choose an .npy file of memories.") from None
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        wrong = f"it holds {dtype}. Save it as float32 or float64."
        raise TypeError(f"{name} must hold real numbers of at most 64 bits; {wrong}")
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"{name} must hold a non-empty matrix with one row per memory, (K, d); got shape {shape}.")
    if fortran and min(shape) > 1:
        raise ValueError(
            f"{name} must be stored row by row (C order); it is stored column by column. "
            "Save it again: np.save(path, np.ascontiguousarray(X))."
        )
    needed = begin + math.prod(shape) * dtype.itemsize
    if size < needed:
        raise ValueError(
            f"{name} is truncated: its header declares {shape[0]} rows of {shape[1]}, {needed} bytes; it has {size}. "
            "Write or copy it again."
        )
    return np.memmap(name, dtype=dtype, mode="r", offset=begin, shape=shape)


def _header(stream: BinaryIO, name: str, size: int) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Shape, order and dtype from the header of an .npy file; the data is not read, and nothing is unpickled."""
    start = stream.read(len(MAGIC))
    if start != MAGIC:
        found = "is empty" if not size else "is an archive (.npz)" if start[:2] == b"PK" else "is not an .npy file"
        raise ValueError(f"{name} {found}. Memories are opened from a matrix that np.save wrote.")
    stream.seek(0)
    try:
        old = np.lib.format.read_magic(stream) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
        if any(type(length) is not int or length < 0 for length in shape):
            raise ValueError
    except (ValueError, TypeError, EOFError, SyntaxError, RecursionError, tokenize.TokenError):
        raise ValueError(f"{name} has a header that cannot be read. Write it again with np.save.") from None
    if dtype.hasobject:
        raise TypeError(f"{name} holds pickled objects, which are not opened. Save it as an array of numbers.")
    return shape, fortran, dtype


def checked_norms(patterns: Array, progress: bool | None = None) -> Array:
    """‖m_k‖² of every memory (K,), from one pass over the file; ValueError names the first row that is not finite."""
    K, d = patterns.shape
    norms = np.empty(K, dtype=patterns.dtype)
    with Progress(K, "reading memories", progress) as bar, np.errstate(over="ignore", invalid="ignore"):
        for block in blocks(K, d):
            rows = np.asarray(patterns[block])
            norms[block] = norms_squared(rows)
            if not np.isfinite(norms[block]).all() and not np.isfinite(rows).all():
                row, column = np.argwhere(~np.isfinite(rows))[0]
                raise ValueError(
                    f"patterns must be finite; row {block.start + row} has NaN or an infinite number, the first in "
                    f"column {column}. Remove or impute such rows first."
                )
            bar.update(block.stop)
    return norms


def norms_in_blocks(patterns: Array) -> Array:
    """‖m_k‖² of every memory (K,), in blocks for a large tensor, whose squares would be as large as the tensor."""
    patterns = detached(patterns)
    if not (is_torch(patterns) and is_large(patterns)):
        return norms_squared(patterns)
    return concatenate([norms_squared(patterns[block]) for block in blocks(*patterns.shape)])
