"""The tasks of a pass over memories in a `dask.array`, as its workers run them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from .._backend.arrays import Array, NumpyArray
from .mapped import MappedRows
from .shards import Result


def view_of(
    chunk: NumpyArray, first: int, columns: Array | None, rows: Array | None, divisors: Array | None
) -> MappedRows:
    """Some rows and columns of a chunk, that are converted when they are read; rows count from the first chunk."""
    return MappedRows(np.asarray(chunk), None if rows is None else rows - first, columns, divisors)


def readable(view: NumpyArray | MappedRows) -> NumpyArray | MappedRows:
    """A chunk as an array that attention can read; one of another dtype is converted block by block."""
    if isinstance(view, MappedRows):
        return view
    rows = np.asarray(view)
    return rows if rows.dtype in (np.float32, np.float64) else MappedRows(rows)


def of_shard(part: Callable[..., Result], start: int, states: Array | None, view: Array, *vectors: Array) -> Result:
    """The result of a pass for one shard."""
    return part(readable(view), start, states, *vectors)


def merge_all(merge: Callable[[Result, Result], Result], *results: Result) -> Result:
    """Neighboring results as one."""
    return reduce(merge, results)


def joined(*pieces: NumpyArray) -> NumpyArray:
    """The pieces of an array that was sent in several."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def fold_shard(step: Callable[[Result, Array], Result], result: Result, view: Array) -> Result:
    """The result so far and one more shard."""
    return step(result, readable(view))


def taken(chunk: NumpyArray, first: int, columns: Array | None, rows: NumpyArray, divisors: Array | None) -> NumpyArray:
    """These rows of a chunk, counted from the first chunk, as numbers of the bank."""
    return view_of(chunk, first, columns, rows, divisors)[:]


def project(chunk: NumpyArray, columns: Array | None, basis: NumpyArray, dtype: np.dtype[np.generic]) -> NumpyArray:
    """The rows of a chunk, or some columns of them, in a basis (d, r)."""
    rows = np.asarray(chunk, dtype=dtype) if columns is None else np.asarray(chunk[:, columns], dtype=dtype)
    return np.asarray(rows @ basis)


def finished(
    finish: Callable[[NumpyArray, int], NumpyArray], first: int, order: NumpyArray, *parts: NumpyArray
) -> NumpyArray:
    """Draws from the rows of several shards, which lie in the order of their shards."""
    rows = np.empty((len(order), parts[0].shape[1]), dtype=parts[0].dtype)
    rows[order] = np.concatenate(parts)
    return finish(rows, first)
