"""Memories in a `dask.array`, in chunks of rows on one machine or many. Each pass over them is one task graph.

A task reads one chunk, where it is, and returns its share of the result; a tree of tasks merges the shares. Draws are a
`dask.array` too: each chunk of memories hands over the rows that are drawn, and each block of draws adds its own noise.
"""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from importlib import import_module
from pkgutil import resolve_name
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TypeGuard
from weakref import WeakSet

import numpy as np

from .._backend.array_files import missing_chunks
from .._backend.arrays import Array, NumpyArray
from .._backend.checks import InputError, first_line
from .._version import __version__
from .blockwise import Result, slices
from .mapped import MappedRows

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.delayed import Delayed
    from distributed import Client


CONNECT_SECONDS = 10
ADDRESS = re.compile(r"((tcp|tls|ucx|ws|wss)://)?(\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}")
_checked: WeakSet[Client] = WeakSet()  # clients whose workers have this version


def dask_module(name: str) -> ModuleType:
    """A module of dask or distributed, imported now; InputError with the remedy if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        remedy = "pip install 'stochattn[dask]'"
        raise InputError(f"work on many machines needs Dask, which is not installed: {remedy}.") from None


def active_client() -> Client | None:
    """The client of the cluster that `dask.compute` would use now; None for threads or processes of this machine."""
    if "distributed" not in sys.modules:
        return None
    client: Client | None = getattr(dask_module("dask.base").get_scheduler(), "__self__", None)
    if client is not None and client not in _checked:
        require_same_version(client)
        _checked.add(client)
    return client


@contextmanager
def connect(scheduler: str) -> Iterator[Client]:
    """A client of the scheduler at this address, with at least one worker, all of which have this version."""
    distributed = dask_module("distributed")
    if not isinstance(scheduler, str) or not ADDRESS.fullmatch(scheduler):
        raise InputError(f"scheduler must be an address such as tcp://host:8786; got {scheduler!r}.")
    remedy = "Start one with `dask scheduler` and workers with `dask worker ADDRESS`, or correct the address."
    try:
        client = distributed.Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"scheduler {scheduler!r} cannot be reached ({first_line(error)}). {remedy}") from None
    with client:
        if not client.scheduler_info(n_workers=-1)["workers"]:
            raise InputError(f"scheduler {scheduler!r} has no workers. Start some: dask worker {scheduler}.")
        require_same_version(client)
        yield client


def require_same_version(client: Client) -> None:
    """InputError if a worker has no stochattn, or another version than this process."""
    versions = client.run(resolve_name, "stochattn:__version__", on_error="return")
    for worker, version in versions.items():
        if version != __version__:
            problem = "cannot import stochattn" if isinstance(version, Exception) else f"has stochattn {version}"
            remedy = f"Install it there: pip install 'stochattn[dask]=={__version__}'."
            raise InputError(f"worker {worker} {problem}, and this process has {__version__}. {remedy}")


def view_rows(
    chunk: NumpyArray, first: int, rows: Array | None, columns: Array | None, divisors: Array | None
) -> MappedRows:
    """Some rows and columns of a chunk, which are converted when they are read; rows count from the first chunk."""
    return MappedRows(np.asarray(chunk), None if rows is None else rows - first, columns, divisors)


def as_readable(view: NumpyArray | MappedRows) -> NumpyArray | MappedRows:
    """A chunk as an array that attention can read; one of another dtype is converted block by block."""
    if isinstance(view, MappedRows):
        return view
    rows = np.asarray(view)
    return rows if rows.dtype in (np.float32, np.float64) else MappedRows(rows)


def read_shard(part: Callable[..., Result], view: Array, *arguments: object) -> Result:
    """The result of a function of the rows of a shard."""
    return part(as_readable(view), *arguments)


def join(function: Callable[[Sequence[Result]], Result], *results: Result) -> Result:
    """The function of several results, which Dask passes on as arguments, not in a list."""
    return function(results)


def take_rows(chunk: NumpyArray, rows: NumpyArray, columns: Array | None, divisors: Array | None) -> NumpyArray:
    """These rows of a chunk in the dtype of the bank."""
    return MappedRows(np.asarray(chunk), rows, columns, divisors)[:]


def project_rows(chunk: NumpyArray, columns: Array | None, basis: NumpyArray) -> NumpyArray:
    """The rows of a chunk, or some columns of them, in a basis (d, r)."""
    return np.asarray(MappedRows(np.asarray(chunk), columns=columns)[:] @ basis)


def finish_draws(
    finish: Callable[[NumpyArray, int], NumpyArray], first: int, order: NumpyArray, *parts: NumpyArray
) -> NumpyArray:
    """Draws from rows in the order of their shards."""
    rows = np.empty((len(order), parts[0].shape[1]), dtype=parts[0].dtype)
    rows[order] = np.concatenate(parts)
    return finish(rows, first)


FAN_IN = 8  # results that a task merges
MAX_GRAPH_BYTES = 2**21  # of arrays that travel within a task graph; more are sent before it
MAX_VECTORS = 4  # of K numbers that the workers of a cluster hold between passes


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
class DaskRows(MappedRows):
    """Rows and columns of a `dask.array`: (K, d). An index computes the rows that it names; `rows` are increasing."""

    base: DaskArray
    _placed: list[_Placed] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(cls, x: DaskArray) -> DaskRows:
        """The rows of a dask.array in chunks of a known number of whole rows; an error with the remedy otherwise."""
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
        # Each Zarr array that `dask.array.from_zarr` reads is the only entry of a layer of the graph.
        layers = x.__dask_graph__().layers.items()
        entries = [entry for name, layer in layers if str(name).startswith("original-") for entry in layer.values()]
        zarr_arrays = [entry for entry in entries if hasattr(entry, "nchunks_initialized")]
        for missing in filter(None, map(missing_chunks, zarr_arrays)):
            warnings.warn(f"patterns come from a Zarr array: {missing}", stacklevel=3)
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
            rows[order] = np.concatenate(self._compute(lambda send: self._gather(indices[order], send)))
        return rows

    def project(self, basis: NumpyArray) -> DaskRows:
        """The rows in a basis (d, r), projected again at each pass: (K, r)."""
        chunks, meta = (self.base.chunks[0], (basis.shape[1],)), np.empty((0, 0), self.dtype)
        work = partial(project_rows, columns=self.columns, basis=basis)
        return replace(self, base=self.base.map_blocks(work, chunks=chunks, meta=meta), columns=None)

    def map_reduce(
        self,
        part: Callable[..., Result],
        merge: Callable[[Result, Result], Result],
        states: Array | None,
        *vectors: Array | None,
    ) -> Result:
        """The results of part(rows, start, states, *vectors) of all shards, merged in their order."""

        def graph(send: _Send) -> list[Delayed]:
            shared, columns = send.to_all(states), [self._parts(vector, send) for vector in vectors]
            work, merge_all = _task(read_shard), partial(_task(join), partial(reduce, merge))
            results = [
                work(part, view, shard.start, shared, *(parts[i] for parts in columns))
                for i, (shard, view) in enumerate(zip(self._shards, self._views(send), strict=True))
            ]
            while len(results) > 1:
                results = [merge_all(*results[i : i + FAN_IN]) for i in range(0, len(results), FAN_IN)]
            return results

        return self._compute(graph)[0]

    def fold(self, step: Callable[[Array, Result], Result], initial: Result) -> Result:
        """The result of step(rows, result) for one shard after the other, from `initial` on."""

        def graph(send: _Send) -> list[Delayed]:
            result, work = send.to_all(initial), _task(read_shard)
            for view in self._views(send):
                result = work(step, view, result)
            return [result]

        return self._compute(graph)[0]

    def draw_rows(self, k: NumpyArray, size: int, finish: Callable[[NumpyArray, int], NumpyArray]) -> DaskArray:
        """A dask.array of finish(rows, number of the first row) for each `size` rows of the memories k (n,).

        A chunk of memories is read once, for all draws. Until they are finished, the rows of all draws exist at once.
        """
        import dask.array

        stops = [shard.stop for shard in self._shards]
        shard_of, blocks = np.searchsorted(stops, k, side="right"), slices(len(k), size)
        order = np.argsort(shard_of, kind="stable")
        pieces: list[list[Delayed]] = [[] for _ in blocks]
        for draws in np.split(order, np.flatnonzero(np.diff(shard_of[order])) + 1):  # the draws from each shard
            (rows,), begin = self._gather(k[draws], _Send(None)), 0
            for block, n in zip(*np.unique(draws // size, return_counts=True), strict=True):
                pieces[block].append(rows[begin : begin + int(n)])
                begin += int(n)
        chunks, meta = [], np.empty((0, 0), dtype=self.dtype)
        for block, parts in zip(blocks, pieces, strict=True):
            order = np.argsort(shard_of[block], kind="stable").astype(np.uint32)
            rows = _task(finish_draws)(finish, block.start, order, *parts)
            chunks.append(dask.array.from_delayed(rows, (block.stop - block.start, self.shape[1]), meta=meta))
        return dask.array.concatenate(chunks)

    @cached_property
    def _shards(self) -> list[_Shard]:
        """The chunks that hold memories of the bank."""
        sizes, shards = self.base.chunks[0], []
        for chunk, size, end in zip(self.base.to_delayed()[:, 0], sizes, np.cumsum(sizes), strict=True):
            limits = np.array([end - size, end])
            start, stop = map(int, limits if self.rows is None else np.searchsorted(self.rows, limits))
            if start < stop:
                shards.append(_Shard(chunk, int(end - size), start, stop))
        return shards

    def _views(self, send: _Send) -> list[Delayed]:
        """The rows of each shard, selected where they are needed."""
        if self.rows is None and self.columns is None and self.divisors is None:
            return [shard.chunk for shard in self._shards]
        rows, divisors, view = self._parts(self.rows, send), self._parts(self.divisors, send), _task(view_rows)
        parts = zip(self._shards, rows, divisors, strict=True)
        return [view(shard.chunk, shard.first, indices, self.columns, factors) for shard, indices, factors in parts]

    def _parts(self, vector: Array | None, send: _Send) -> list[object]:
        """The part of a vector (K, ...) for each shard; the workers of a cluster keep the last few vectors."""
        if vector is None:
            return [None] * len(self._shards)
        for placed in self._placed:
            if placed.vector is vector and placed.client is send.client:
                return placed.parts
        parts = send.each([vector[shard.start : shard.stop] for shard in self._shards])
        if send.client is not None:
            self._placed[:] = [*self._placed[1 - MAX_VECTORS :], _Placed(vector, send.client, parts)]
        return parts

    def _gather(self, k: NumpyArray, send: _Send) -> list[Delayed]:
        """Tasks that take the memories k (n,), one for each shard that has any; k lists them shard by shard."""
        ends = np.searchsorted(k, [shard.stop for shard in self._shards])  # which needs no order within a shard
        shards = [(shard, k[begin:end]) for shard, begin, end in zip(self._shards, [0, *ends], ends, strict=False)]
        shards = [(shard, indices) for shard, indices in shards if len(indices)]
        base_rows = [(indices if self.rows is None else self.rows[indices]) - shard.first for shard, indices in shards]
        rows = send.each([np.asarray(local).astype(np.uint32) for local in base_rows])  # 32 bits, because they travel
        divisors = [None if self.divisors is None else self.divisors[indices] for _, indices in shards]
        parts = zip(shards, rows, divisors, strict=True)
        return [_task(take_rows)(shard.chunk, local, self.columns, factor) for (shard, _), local, factor in parts]

    def _compute(self, graph: Callable[[_Send], list[Delayed]]) -> list[Result]:
        """The results of a graph, which is built again if the cluster was restarted and has lost what it was sent."""
        import dask

        try:
            return list(dask.compute(*graph(_Send(active_client())), traverse=False))
        except CancelledError:
            if not self._placed:
                raise
            self._placed.clear()
            return list(dask.compute(*graph(_Send(active_client())), traverse=False))


class _Send(NamedTuple):
    """Sends arrays to tasks: within their graph, or in graphs of their own if they are large.

    Arrays are tasks too. `Client.scatter` would be shorter, but what it sends is lost with a worker, and it waits
    forever for a worker that ends at that moment.
    """

    client: Client | None

    def to_all(self, value: object) -> Delayed | None:
        """One value for all tasks of a graph; it travels once."""
        if value is None:
            return None
        if self.client is None or not isinstance(value, np.ndarray) or value.nbytes <= MAX_GRAPH_BYTES:
            return _task(value)
        pieces = np.array_split(value, -(-value.nbytes // MAX_GRAPH_BYTES)) if len(value) > 1 else [value]
        return _task(join)(np.concatenate, *(self.client.persist(_task(piece)) for piece in pieces))

    def each(self, parts: list[NumpyArray]) -> list[object]:
        """An array for each of several tasks."""
        if self.client is None or sum(part.nbytes for part in parts) <= MAX_GRAPH_BYTES:
            return list(parts)
        return [self.client.persist(self.to_all(part)) for part in parts]


def _task(content: object) -> Delayed:
    """A function of tasks, or a value that is a task."""
    from dask import delayed

    return delayed(content, pure=False, traverse=False)
