"""Memories and draws in .npy files. Memories are mapped after a check of the header, and read row by row or in blocks.

Rows are converted when they are read (half precision to float32, integers to float64); the file is never copied.
Draws are written block by block, in bounded memory; their file appears when it is complete.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeGuard

import numpy as np

from .._backend import arrays
from .._backend.array_files import ArrayFileError, npy_header, read_header
from .._backend.arrays import Array, ArrayLike, NumpyArray, as_floats, detach, is_torch, norms_squared, to_numpy
from .._backend.console import Progress
from .._backend.files import is_summary, require_replaceable, write_npy_header, write_together
from .._version import __version__
from .blockwise import blocks, is_sharded, pass_over


def check_norms(patterns: Array, progress: bool | None = None) -> Array:
    """‖m_k‖² of every memory (K,), from one pass over them; ValueError names the first row that is not finite."""
    shown = False if is_sharded(patterns) else progress  # shards are read by several threads or processes
    squares, flaw = pass_over(patterns, partial(_norms, progress=shown), _join_norms)
    if flaw is not None:
        where = f"row {flaw[0]} has NaN or an infinite number, the first in column {flaw[1]}"
        raise ValueError(f"patterns must be finite; {where}. Remove or impute such rows first.")
    return squares


class _Norms(NamedTuple):
    squares: NumpyArray  # (K,)
    flaw: tuple[int, int] | None  # row and column of the first number that is not finite


def _norms(patterns: Array, start: int, states: None, *, progress: bool | None) -> _Norms:
    K, d = patterns.shape
    norms = np.empty(K, dtype=patterns.dtype)
    with Progress(K, "reading memories", progress) as bar, np.errstate(over="ignore", invalid="ignore"):
        for block in blocks(K, d):
            rows = np.asarray(patterns[block])
            norms[block] = norms_squared(rows)
            if not np.isfinite(norms[block]).all() and not np.isfinite(rows).all():
                row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
                return _Norms(norms, (start + block.start + row, column))
            bar.update(block.stop)
    return _Norms(norms, None)


def _join_norms(first: _Norms, second: _Norms) -> _Norms:
    return _Norms(np.concatenate((first.squares, second.squares)), first.flaw or second.flaw)


MAX_SMALL_NUMBERS = 2**24  # numbers in a bank that may be copied, or read many times; a larger bank is neither
BLOCK_NUMBERS = 2**22  # numbers drawn at a time: 16 MB in float32
ROWS = "rows"  # the kind of data in the settings beside a file of draws


@dataclass(eq=False)
class MappedRows:
    """Rows and columns of a memory map as float32 or float64: (K, d). An index reads the rows that it names, no others.

    rows (K,) and columns (d,) are indices of the map, None for all; each row is divided by its entry of divisors (K,).
    """

    base: NumpyArray
    rows: Array | None = None
    columns: Array | None = None
    divisors: Array | None = None
    ndim = 2

    def __post_init__(self) -> None:
        half = self.base.dtype.kind == "f" and self.base.dtype.itemsize <= 4
        self.dtype = np.dtype(np.float32 if half else np.float64)
        self.itemsize = self.dtype.itemsize
        self.shape = len(self), self.base.shape[1] if self.columns is None else len(self.columns)
        self.filename = getattr(self.base, "filename", None)

    def __len__(self) -> int:
        return len(self.base) if self.rows is None else len(self.rows)

    def __getitem__(self, index: int | slice | Array) -> NumpyArray:
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
        return replace(self, rows=kept, divisors=None if self.divisors is None else self.divisors[rows])

    def select_columns(self, columns: Array) -> MappedRows:
        """The columns at these indices; rows that were divided keep their divisors."""
        return replace(self, columns=columns if self.columns is None else self.columns[columns])

    def divide_rows(self, divisors: Array) -> MappedRows:
        """These rows, each divided by its own number: (K,)."""
        return replace(self, divisors=divisors if self.divisors is None else self.divisors * divisors)


def is_mapped(x: object) -> TypeGuard[NumpyArray]:
    """Whether x is in a file that is open for reading only; `MappedRows` count as arrays, though read by whole rows."""
    return isinstance(x, MappedRows) or (isinstance(x, np.memmap) and x.mode == "r")


def as_mapped_rows(x: Array | MappedRows) -> MappedRows:
    """A memory map as rows that are converted when they are read."""
    return x if isinstance(x, MappedRows) else MappedRows(x)


def is_large(patterns: Array | MappedRows) -> bool:
    """Whether memories (K, d) are too many numbers to copy, or to pass over many times."""
    return bool(patterns.shape[0] * patterns.shape[1] > MAX_SMALL_NUMBERS)


def require_small(patterns: Array | MappedRows, what: str) -> None:
    """ValueError if `what` would copy a large file into memory."""
    if is_mapped(patterns) and patterns.ndim == 2 and is_large(patterns):
        K, d = patterns.shape
        size = f"{K} rows of {d} ({K * d * patterns.itemsize / 2**30:.1f} GiB)"
        source, load = ("dask.array", "x.compute()") if is_sharded(patterns) else ("file", "np.load(path)")
        remedy = f"Load it first if it fits: MemoryBank({load})."
        raise ValueError(f"{what} would copy the whole {source} of memories, {size}. {remedy}")


def rows_at(patterns: Array, indices: Array) -> Array:
    """The memories at these indices, in their order: (n,) -> (n, d). A file is read from start to end."""
    if not is_mapped(patterns) or is_sharded(patterns):
        return patterns[indices]
    order = np.argsort(indices, kind="stable")
    rows = np.empty((len(indices), patterns.shape[1]), dtype=patterns.dtype)
    for block in blocks(len(order), patterns.shape[1]):
        rows[order[block]] = patterns[indices[order[block]]]
    return rows


def open_matrix(path: object) -> NumpyArray:
    """The matrix in an .npy file as a read-only memory map, after its header and its size are checked."""
    name = _file_name("path", path)
    try:
        size = Path(name).stat().st_size
        with Path(name).open("rb") as stream:
            start = stream.read(len(np.lib.format.MAGIC_PREFIX))
            if start != np.lib.format.MAGIC_PREFIX:
                problem = "is an archive (.npz)" if start[:2] == b"PK" else "is not an .npy file"
                problem = problem if size else "is empty"
                raise ValueError(f"{name} {problem}. Memories are opened from a matrix that np.save wrote.")
            stream.seek(0)
            shape, fortran, dtype = read_header(stream)
            begin = stream.tell()
    except ArrayFileError:
        raise ValueError(f"{name} has a header that cannot be read. Write it again with np.save.") from None
    except OSError as error:
        raise type(error)(f"{name} cannot be read ({error.strerror}). Choose an .npy file of memories.") from None
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        wrong = f"it holds {'pickled objects' if dtype.hasobject else dtype}. Save it as float32 or float64."
        raise TypeError(f"{name} must hold real numbers of at most 64 bits; {wrong}")
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"{name} must hold a non-empty matrix with one row per memory, (K, d); got shape {shape}.")
    if fortran and min(shape) > 1:
        remedy = "Save it again: np.save(path, np.ascontiguousarray(X))."
        raise ValueError(f"{name} must be stored row by row (C order); it is stored column by column. {remedy}")
    needed = begin + math.prod(shape) * dtype.itemsize
    if size < needed:
        declared = f"its header declares {shape[0]} rows of {shape[1]}, {needed} bytes"
        raise ValueError(f"{name} is truncated: {declared}; it has {size}. Write or copy it again.")
    return np.memmap(name, dtype=dtype, mode="r", offset=begin, shape=shape)


def check_patterns(patterns: ArrayLike, progress: bool | None, copy: bool) -> tuple[Array, Array]:
    """The memories as a read-only array (K, d), and their squared norms (K,); a mapped file is never copied."""
    memories: Array
    if is_mapped(patterns) and patterns.ndim == 2 and 0 not in patterns.shape and patterns.dtype.kind in "fiub":
        # Memory maps of other types become rows that are converted when they are read.
        memories = patterns if patterns.dtype in (np.float32, np.float64) else as_mapped_rows(patterns)
        norms = check_norms(memories, progress)
    else:
        if isinstance(patterns, str | os.PathLike):
            name = os.fspath(patterns)
            raise TypeError(f"patterns must be an array; got the name {name!r}. Use MemoryBank.open(name).")
        memories = check_matrix(patterns, "patterns")
        plain = detach(memories)
        # The squares of a large tensor would be as large as the tensor.
        parts = blocks(*plain.shape) if is_torch(plain) and is_large(plain) else [slice(None)]
        with np.errstate(over="ignore"):
            norms = arrays.concatenate([norms_squared(plain[block]) for block in parts])
    largest, (least, most) = float(norms.max()), arrays.safe_range(memories)
    zero = largest == 0 and not any(bool(to_numpy(memories[block]).any()) for block in blocks(*memories.shape))
    if not (least <= largest <= most or zero):
        wrong = f"these are too {'large' if largest > most else 'small'}. Rescale them."
        raise ValueError(f"patterns must have squared norms that {memories.dtype} can represent; {wrong}")
    return memories if is_mapped(memories) else arrays.freeze(memories, copy), norms


def check_matrix(x: ArrayLike, name: str) -> Array:
    """x as a non-empty matrix of finite floats with one row per memory: (K, d)."""
    matrix = as_floats(x, name)
    shape = tuple(matrix.shape)
    if len(shape) != 2 or 0 in shape:
        hints = {1: "For a single memory pass x[None, :].", 2: "Store at least one example."}
        hint = hints.get(2 if shape == (0,) else len(shape), "Flatten each example to a row first.")
        rule = f"{name} must be a non-empty matrix with one row per memory, (K, d)"
        raise ValueError(f"{rule}; got shape {shape}. {hint}")
    return matrix


def rows_at_a_time(d: int) -> int:
    """Rows of d numbers that are drawn and written together."""
    return max(BLOCK_NUMBERS // d, 1)


def check_output(out: object, n_bytes: int, source: str | None, replace: bool = False) -> Path:
    """`out` as a path: an .npy file that is not `source`, on a disk with n_bytes free; an error otherwise.

    replace: whether a file that no earlier call wrote may be replaced
    """
    path = Path(_file_name("out", out)).expanduser()
    if path.suffix.lower() != ".npy":
        raise ValueError(f"out must end in .npy, the format that is written; got {str(out)!r}.")
    if path.exists() and not path.is_file():
        raise ValueError(f"out must be a file; {path} is not one. Choose another name.")
    if source is not None and path.exists() and path.samefile(source):
        raise ValueError(f"out must not be the file of the memories, {path}. Choose another name.")
    beside = _sidecar(path)
    if beside.exists() and not is_summary(beside):
        raise ValueError(f"out={str(path)!r}: {beside.name} exists and was not written by this library. Rename it.")
    require_replaceable(f"out={str(path)!r}", path, _is_written, replace)
    folder = next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))
    needed, free = (n / 2**30 for n in (n_bytes + 4096, shutil.disk_usage(folder).free))
    if needed > free:
        remedy = "Draw fewer rows, or choose another disk."
        raise OSError(f"out={str(path)!r} needs {needed:.1f} GiB, and {free:.1f} GiB are free. {remedy}")
    return path


def _is_written(path: Path) -> bool:
    """Whether `write_rows` wrote a file: the settings beside it are of rows of its shape."""
    try:
        facts, header = json.loads(_sidecar(path).read_text("utf-8")), npy_header(path)
        return header is not None and facts["kind"] == ROWS and header.shape == (facts["n"], facts["d"])
    except (OSError, ValueError, TypeError, KeyError):
        return False


def write_rows(
    path: Path,
    parts: Iterable[Array],
    shape: tuple[int, int],
    settings: dict[str, object],
    progress: bool | None,
    replace: bool = False,
) -> Array:
    """Write blocks of rows, (n, d) in all, to a file; return the file as a read-only memory map.

    `path`.json gets the settings. Both files appear when they are complete; an error or Ctrl-C changes nothing.
    """
    facts = {"version": __version__, "kind": ROWS, "n": shape[0], "d": shape[1], **settings}
    try:
        path = path.resolve()
        check = partial(require_replaceable, f"out={str(path)!r}", path, _is_written, replace)
        with write_together(path.parent, check) as folder:
            with (folder / path.name).open("wb") as stream, Progress(shape[0], "drawing", progress) as bar:
                done = 0
                for array in map(to_numpy, parts):
                    if not done:
                        write_npy_header(stream, array.dtype, shape)
                    stream.write(np.ascontiguousarray(array).data)
                    done += len(array)
                    bar.update(done)
            _sidecar(folder / path.name).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise type(error)(f"out={str(path)!r} cannot be written ({error.strerror}). Choose another name.") from None
    return np.asanyarray(np.load(path, mmap_mode="r"))


def _sidecar(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _file_name(argument: str, value: object) -> str:
    name = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    if not isinstance(name, str):
        rule = f"{argument} must name an .npy file, as a string or a pathlib.Path"
        raise TypeError(f"{rule}; got {value!r} ({type(value).__name__}).")
    return name
