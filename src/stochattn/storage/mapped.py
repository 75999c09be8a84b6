"""Memories in a file: opened as a memory map after its header is checked, read row by row or block by block.

What is read is converted on the way (half precision to float32, whole numbers to float64); the file is never copied.
"""

from __future__ import annotations

import math
import os
import tokenize
from pathlib import Path
from typing import Any

import numpy as np

from .._backend.arrays import Array, concatenate, detached, is_torch, norms_squared
from .._backend.progress import Progress
from .blockwise import blocks

LARGE = 2**24
"""Numbers beyond which a bank is large: what would copy it, or look at all of it many times, then goes another way."""
MAGIC = b"\x93NUMPY"


class MappedRows:
    """Rows of a memory map, and their columns, as float32 or float64: (K, d). Indexing reads those rows alone.

    rows:     (K,) which rows of the map, or None for all
    columns:  (d,) which of its columns, or None for all
    divisors: (K,) what each row is divided by, or None
    """

    ndim = 2

    def __init__(self, base: Any, rows: Any = None, columns: Any = None, divisors: Any = None) -> None:
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

    def __getitem__(self, index: Any) -> Array:
        if isinstance(index, tuple):
            raise TypeError(f"memories in a file are read by whole rows; got the index {index!r}. Use patterns[rows].")
        rows = self.base[index if self.rows is None else self.rows[index]]
        if self.columns is not None:
            rows = rows[..., self.columns]
        rows = np.asarray(rows, dtype=self.dtype)
        return rows if self.divisors is None else rows / self.divisors[index][..., None]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        require_small(self, "this")
        return np.asarray(self[:], dtype=dtype)

    def take(self, rows: Any) -> MappedRows:
        """Some of these rows."""
        kept = rows if self.rows is None else self.rows[rows]
        return MappedRows(self.base, kept, self.columns, None if self.divisors is None else self.divisors[rows])

    def only(self, columns: Any) -> MappedRows:
        """Some of these columns; rows that were divided keep their divisors."""
        kept = columns if self.columns is None else self.columns[columns]
        return MappedRows(self.base, self.rows, kept, self.divisors)

    def over(self, divisors: Any) -> MappedRows:
        """These rows as they are now, each divided by a number of its own: (K,)."""
        total = divisors if self.divisors is None else self.divisors * divisors
        return MappedRows(self.base, self.rows, self.columns, total)


def is_mapped(x: Any) -> bool:
    """Whether x lies in a file that is open for reading alone."""
    return isinstance(x, MappedRows) or (isinstance(x, np.memmap) and not x.flags.writeable)


def source_of(patterns: Any) -> str | None:
    """The file that a memory map reads from, or None."""
    name = getattr(patterns.base if isinstance(patterns, MappedRows) else patterns, "filename", None)
    return None if name is None else str(name)


def lazily(x: Any) -> MappedRows:
    """A memory map as rows that are read when asked for."""
    return x if isinstance(x, MappedRows) else MappedRows(x)


def is_large(patterns: Array) -> bool:
    """Whether memories (K, d) are too many numbers to copy or to look at time and again."""
    return bool(patterns.shape[0] * patterns.shape[1] > LARGE)


def require_small(patterns: Array, what: str) -> None:
    """ValueError if `what` would copy a large file into memory."""
    if is_mapped(patterns) and patterns.ndim == 2 and is_large(patterns):
        size = patterns.shape[0] * patterns.shape[1] * patterns.itemsize / 2**30
        raise ValueError(
            f"{what} would copy the whole file of memories, {patterns.shape[0]} rows of {patterns.shape[1]} "
            f"({size:.1f} GiB). Load it first if it fits: MemoryBank(np.load(path))."
        )


def rows_at(patterns: Array, indices: Any) -> Array:
    """The memories at these indices, in their order: (n,) -> (n, d). A file is read from its beginning to its end."""
    if not is_mapped(patterns):
        return patterns[indices]
    order = np.argsort(indices, kind="stable")
    rows = np.empty((len(indices), patterns.shape[1]), dtype=patterns.dtype)
    for block in blocks(len(order), patterns.shape[1]):
        rows[order[block]] = patterns[indices[order[block]]]
    return rows


def file_name(argument: str, given: Any) -> str:
    """`given` as text, if it names a file."""
    name = os.fspath(given) if isinstance(given, str | os.PathLike) else given
    if not isinstance(name, str):
        raise TypeError(
            f"{argument} must name an .npy file, by a string or a pathlib.Path; got {given!r} ({type(given).__name__})."
        )
    return name


def opened(path: Any) -> Any:
    """The matrix in an .npy file as a memory map, once its header and its size are found right."""
    name = file_name("path", path)
    try:
        size = Path(name).stat().st_size
        with Path(name).open("rb") as stream:
            shape, fortran, dtype = _header(stream, name, size)
            begin = stream.tell()
    except OSError as error:
        raise type(error)(f"{name} cannot be read ({error.strerror}): name an .npy file of memories.") from None
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise TypeError(
            f"{name} must hold real numbers of at most 64 bits; it holds {dtype}. Save it as float32 or float64."
        )
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"{name} must hold a non-empty matrix with a row for each memory, (K, d); got shape {shape}.")
    if fortran and min(shape) > 1:
        raise ValueError(
            f"{name} must hold its rows one after the other (C order); it holds columns. "
            "Save it anew: np.save(path, np.ascontiguousarray(X))."
        )
    needed = begin + math.prod(shape) * dtype.itemsize
    if size < needed:
        raise ValueError(
            f"{name} is cut short: its header promises {shape[0]} rows of {shape[1]}, {needed} bytes; it has {size}. "
            "Write or copy it again."
        )
    return np.memmap(name, dtype=dtype, mode="r", offset=begin, shape=shape)


def _header(stream: Any, name: str, size: int) -> tuple[tuple[int, ...], bool, Any]:
    """Shape, order and dtype by the header of an .npy file; nothing else of it is read, and nothing unpickled."""
    begins = stream.read(len(MAGIC))
    if begins != MAGIC:
        found = "is empty" if not size else "is an archive (.npz)" if begins[:2] == b"PK" else "is no .npy file"
        raise ValueError(f"{name} {found}: memories are opened from a matrix that np.save wrote.")
    stream.seek(0)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
        if any(type(length) is not int or length < 0 for length in shape):
            raise ValueError
    except (ValueError, TypeError, EOFError, SyntaxError, RecursionError, tokenize.TokenError):
        raise ValueError(f"{name} has a header that cannot be read: write it again with np.save.") from None
    if dtype.hasobject:
        raise TypeError(f"{name} holds pickled objects, which are not opened: save it as an array of numbers.")
    return shape, fortran, dtype


def checked_norms(patterns: Any, progress: bool | None = None) -> Array:
    """‖m_k‖² of every memory (K,), in one pass over the file; ValueError names the first row that is not finite."""
    K, d = patterns.shape
    norms = np.empty(K, dtype=patterns.dtype)
    with Progress(K, "reading memories", progress) as bar, np.errstate(over="ignore", invalid="ignore"):
        for block in blocks(K, d):
            rows = np.asarray(patterns[block])
            norms[block] = norms_squared(rows)
            if not np.isfinite(norms[block]).all():
                _require_finite_rows(rows, block.start)
            bar.at(block.stop)
    return norms


def _require_finite_rows(rows: Array, first: int) -> None:
    bad = ~np.isfinite(rows)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"patterns must be finite; row {first + row} has NaN or an infinite number, the first in column {column}. "
            "Remove or impute such rows first."
        )


def norms_in_blocks(patterns: Array) -> Array:
    """‖m_k‖² of every memory (K,). A tensor's squares would be a copy of it, so a large one goes in blocks."""
    patterns = detached(patterns)
    if not (is_torch(patterns) and is_large(patterns)):
        return norms_squared(patterns)
    return concatenate([norms_squared(patterns[block]) for block in blocks(*patterns.shape)])
