"""Memories in a `dask.array`, in chunks of rows on one machine or many. Each pass over them is one task graph.

A task reads one chunk, where it is, and returns its share of the result; a tree of tasks merges the shares. Draws are a
`dask.array` too: each chunk of memories hands over the rows that are drawn, and each block of draws adds its own noise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

import numpy as np

from .._backend.arrays import Array, NumpyArray
from .._backend.cluster import active_client
from .blockwise import slices
from .mapped import MappedRows
from .shards import Result, Shards

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.delayed import Delayed
    from distributed import Client

FAN_IN = 8  # results that a task merges
MAX_GRAPH_BYTES = 2**20  # of arrays that travel within a task graph; more are sent to the workers directly
MAX_VECTORS = 4  # of K numbers that the workers of a cluster hold between passes
MAX_ATTEMPTS = 3  # of a pass whose data was lost with a worker


class _Shard(NamedTuple):
    """The rows of one chunk that belong to the bank, from `start` to `stop` among its memories."""

    chunk: Delayed
    first: int  # row of the dask.array at which the chunk begins
    start: int
    stop: int


class _Placed(NamedTuple):
    """Parts of a vector, one for each shard, that the workers of a cluster hold."""

    vector: Array
    client: Client
    parts: list[object]


def is_dask(x: object) -> TypeGuard[DaskArray]:
    """Whether x is a `dask.array`. Dask is not imported for it: its user has imported it already."""
    dask_array = sys.modules.get("dask.array")
    return dask_array is not None and isinstance(x, dask_array.Array)


@dataclass(eq=False)
class DaskRows(MappedRows, Shards):
    """Rows and columns of a `dask.array`: (K, d). An index computes the rows that it names; `rows` must rise."""

    _placed: list[_Placed] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(cls, x: DaskArray) -> DaskRows:
        """The rows of a dask.array whose chunks are whole rows of known number; an error with the remedy otherwise."""
        if x.ndim != 2:
            hint = "For a single memory pass x[None, :]." if x.ndim == 1 else "Flatten each example to a row first."
            rule = "patterns must be a matrix with one row per memory, (K, d)"
            raise ValueError(f"{rule}; got a dask.array with {x.ndim} axes. {hint}")
        if x.dtype.kind not in "fiub" or x.dtype.itemsize > 8:
            raise TypeError(f"patterns must hold real numbers of at most 64 bits; got {x.dtype}. Convert them first.")
        if any(math.isnan(size) for sizes in x.chunks for size in sizes):
            remedy = "Compute them first: x.compute_chunk_sizes()."
            raise ValueError(f"patterns must have chunks of known sizes; this dask.array has unknown ones. {remedy}")
        if 0 in x.shape:
            raise ValueError(f"patterns must hold at least one memory with one column; got shape {x.shape}.")
        if len(x.chunks[1]) > 1:
            got, remedy = len(x.chunks[1]), f"Join them: x.rechunk(({max(x.chunks[0])}, -1))."
            raise ValueError(f"patterns must have chunks of whole rows; got {got} chunks along the columns. {remedy}")
        return cls(x)

    def __getitem__(self, index: int | slice | Array) -> NumpyArray:
        if isinstance(index, int | np.integer):
            row: NumpyArray = self[np.array([index])][0]
            return row
        if isinstance(index, tuple):
            raise TypeError(f"memories in a dask.array are read by whole rows; got the index {index!r}.")
        indices = np.arange(len(self))[index]
        order = np.argsort(indices, kind="stable")
        rows = np.empty((len(indices), self.shape[1]), dtype=self.dtype)
        if len(indices):
            rows[order] = np.concatenate(self._computed(lambda send: self._gathered(indices[order], send)))
        return rows

    def projected(self, basis: NumpyArray) -> DaskRows:
        """The rows in a basis (d, r), projected again at each pass: (K, r)."""
        chunks, meta = (self._array.chunks[0], (basis.shape[1],)), np.empty((0, 0), self.dtype)
        project = partial(_projected, columns=self.columns, basis=basis, dtype=self.dtype)
        return replace(self, base=self._array.map_blocks(project, chunks=chunks, meta=meta), columns=None)

    def merged(
        self,
        part: Callable[..., Result],
        merge: Callable[[Result, Result], Result],
        states: Array | None = None,
        vectors: Sequence[Array | None] = (),
    ) -> Result:
        def graph(send: _Send) -> list[Delayed]:
            shared, columns = send.to_all(states), [self._parts(vector, send) for vector in vectors]
            of_shard, merge_all = _task(_of_shard), _task(_merge)
            results = [
                of_shard(part, shard.start, shared, view, *(parts[i] for parts in columns))
                for i, (shard, view) in enumerate(zip(self._shards, self._views(send), strict=True))
            ]
            while len(results) > 1:
                results = [merge_all(merge, *results[i : i + FAN_IN]) for i in range(0, len(results), FAN_IN)]
            return results

        return self._computed(graph)[0]

    def folded(self, step: Callable[[Result, Array], Result], initial: Result) -> Result:
        def graph(send: _Send) -> list[Delayed]:
            result, fold = send.to_all(initial), _task(_fold)
            for view in self._views(send):
                result = fold(step, result, view)
            return [result]

        return self._computed(graph)[0]

    def drawn(self, k: NumpyArray, size: int, finish: Callable[[NumpyArray, int], NumpyArray]) -> DaskArray:
        """A dask.array of the memories k (n,), each chunk of `size` rows as finish(rows, number of the first) gives it.

        A chunk of memories is read once, for all draws. Until they are finished, the rows of all draws exist at once.
        """
        import dask.array

        stops = [shard.stop for shard in self._shards]
        shard_of, blocks = np.searchsorted(stops, k, side="right"), slices(len(k), size)
        order = np.argsort(shard_of, kind="stable")
        pieces: list[list[Delayed]] = [[] for _ in blocks]
        for some in np.split(order, np.flatnonzero(np.diff(shard_of[order])) + 1):
            (rows,), begin = self._gathered(k[some], _Send(None)), 0
            for block, n in zip(*np.unique(some // size, return_counts=True), strict=True):
                pieces[block].append(rows[begin : begin + int(n)])
                begin += int(n)
        made = [
            dask.array.from_delayed(
                _task(_finished)(finish, block.start, _places(shard_of[block]), *parts),
                shape=(block.stop - block.start, self.shape[1]),
                meta=np.empty((0, 0), dtype=self.dtype),
            )
            for block, parts in zip(blocks, pieces, strict=True)
        ]
        return dask.array.concatenate(made)

    @property
    def _array(self) -> DaskArray:
        return self.base

    @cached_property
    def _shards(self) -> list[_Shard]:
        """The chunks that hold memories of the bank."""
        sizes, found = self._array.chunks[0], []
        for chunk, size, end in zip(self._array.to_delayed()[:, 0], sizes, np.cumsum(sizes), strict=True):
            limits = np.array([end - size, end])
            start, stop = map(int, limits if self.rows is None else np.searchsorted(self.rows, limits))
            if start < stop:
                found.append(_Shard(chunk, int(end - size), start, stop))
        return found

    def _views(self, send: _Send) -> list[Delayed]:
        """The rows of each shard, made where they are needed."""
        rows, divisors, view = self._parts(self.rows, send), self._parts(self.divisors, send), _task(_view)
        parts = zip(self._shards, rows, divisors, strict=True)
        if self.rows is None and self.columns is None and self.divisors is None:
            return [shard.chunk for shard in self._shards]
        return [view(shard.chunk, shard.first, self.columns, *some) for shard, *some in parts]

    def _parts(self, vector: Array | None, send: _Send) -> list[object]:
        """What each shard gets of a vector (K, ...); the workers of a cluster keep the last few of them."""
        if vector is None:
            return [None] * len(self._shards)
        for known in self._placed:
            if known.vector is vector and known.client is send.client:
                return known.parts
        parts = send.each([vector[shard.start : shard.stop] for shard in self._shards])
        if send.client is not None:
            self._placed[:] = [*self._placed[1 - MAX_VECTORS :], _Placed(vector, send.client, parts)]
        return parts

    def _gathered(self, k: NumpyArray, send: _Send) -> list[Delayed]:
        """Tasks that take the memories k (n,), one for each shard that has any; k lists them shard by shard."""
        ends = np.searchsorted(k, [shard.stop for shard in self._shards])  # no order within a shard is needed for it
        found = [(shard, k[begin:end]) for shard, begin, end in zip(self._shards, [0, *ends], ends, strict=False)]
        found = [(shard, some) for shard, some in found if len(some)]
        rows = send.each([self._local_rows(shard, some) for shard, some in found])
        divisors = [None if self.divisors is None else self.divisors[some] for _, some in found]
        parts = zip(found, rows, divisors, strict=True)
        return [_task(_taken)(shard.chunk, 0, self.columns, *some) for (shard, _), *some in parts]

    def _local_rows(self, shard: _Shard, k: NumpyArray) -> NumpyArray:
        """The rows of a shard's chunk that hold the memories k; in 32 bits, because they travel."""
        rows = k if self.rows is None else self.rows[k]
        return np.asarray(rows - shard.first).astype(np.uint32)

    def _computed(self, graph: Callable[[_Send], list[Delayed]]) -> list[Result]:
        """The results of a graph, which is made again if a worker was lost with what it had been sent."""
        import dask

        for attempt in range(MAX_ATTEMPTS):
            try:
                return list(dask.compute(*graph(_Send(active_client())), traverse=False))
            except CancelledError:
                self._placed.clear()
                if attempt == MAX_ATTEMPTS - 1:
                    raise
        raise AssertionError


class _Send(NamedTuple):
    """Sends what tasks need: within the graph, or to the workers of a cluster first, if it is large."""

    client: Client | None

    def to_all(self, value: object) -> object:
        """One value for all tasks of a graph; it travels once."""
        if self.client is not None and getattr(value, "nbytes", 0) > MAX_GRAPH_BYTES:
            return self.client.scatter(value, broadcast=True, hash=False)
        from dask import delayed

        return None if value is None else delayed(value, pure=False, traverse=False)

    def each(self, parts: list[NumpyArray]) -> list[object]:
        """An array for each of several tasks."""
        if self.client is None or sum(part.nbytes for part in parts) <= MAX_GRAPH_BYTES:
            return list(parts)
        sent: list[object] = self.client.scatter(parts, hash=False)
        return sent


def _task(function: Callable[..., object]) -> Callable[..., Delayed]:
    from dask import delayed

    made: Callable[..., Delayed] = delayed(function, pure=False, traverse=False)
    return made


def _places(shard_of: NumpyArray) -> NumpyArray:
    """The places of rows (n,) that lie in the order of their shards."""
    return np.argsort(shard_of, kind="stable").astype(np.uint32)


def _view(
    chunk: NumpyArray, first: int, columns: Array | None, rows: Array | None, divisors: Array | None
) -> MappedRows:
    """Some rows and columns of a chunk, that are converted when they are read; rows count from the first chunk."""
    return MappedRows(np.asarray(chunk), None if rows is None else rows - first, columns, divisors)


def _readable(view: NumpyArray | MappedRows) -> NumpyArray | MappedRows:
    """A chunk as an array that attention can read; one of another dtype is converted block by block."""
    if isinstance(view, MappedRows):
        return view
    rows = np.asarray(view)
    return rows if rows.dtype in (np.float32, np.float64) else MappedRows(rows)


def _of_shard(part: Callable[..., Result], start: int, states: Array | None, view: Array, *vectors: Array) -> Result:
    return part(_readable(view), start, states, *vectors)


def _merge(merge: Callable[[Result, Result], Result], *results: Result) -> Result:
    return reduce(merge, results)


def _fold(step: Callable[[Result, Array], Result], result: Result, view: Array) -> Result:
    return step(result, _readable(view))


def _taken(
    chunk: NumpyArray, first: int, columns: Array | None, rows: NumpyArray, divisors: Array | None
) -> NumpyArray:
    """These rows of a chunk, counted from the first chunk, as numbers of the bank."""
    return _view(chunk, first, columns, rows, divisors)[:]


def _projected(chunk: NumpyArray, columns: Array | None, basis: NumpyArray, dtype: np.dtype[np.generic]) -> NumpyArray:
    rows = np.asarray(chunk, dtype=dtype) if columns is None else np.asarray(chunk[:, columns], dtype=dtype)
    return np.asarray(rows @ basis)


def _finished(
    finish: Callable[[NumpyArray, int], NumpyArray], first: int, order: NumpyArray, *parts: NumpyArray
) -> NumpyArray:
    """Draws from the rows of several shards, which lie in the order of their shards."""
    rows = np.empty((len(order), parts[0].shape[1]), dtype=parts[0].dtype)
    rows[order] = np.concatenate(parts)
    return finish(rows, first)
