"""Nearest neighbors by Euclidean distance, of states among the memories of a bank and of rows among other rows.

Every search maximizes x·m − ‖m‖²/2, block by block. Distances are then computed from the difference of two rows:
a difference of inner products would lose the distances of nearly equal rows to rounding.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from .._backend import arrays
from .._backend.arrays import Array, ArrayLike, NumpyArray, as_floats, like, namespace, norms_squared, to_numpy
from .._backend.products import matmul, rows_times
from ..storage.blockwise import blocks, memory_blocks, pass_over, row_blocks, slices
from ..storage.mapped import is_large, rows_at
from .memory import MemoryBank, check_states, require_bank

__all__ = ["have_duplicates", "k_nearest", "nearest_distances", "nearest_memory", "nearest_rows"]
__all__ += ["neighbor_distances"]

BLOCK_ENTRIES = 2**23  # pairs of rows whose inner products exist at one time
MAX_ROWS = 1024  # memories whose neighbors are searched in one pass over a large bank


def nearest_index(xi: Array, patterns: Array, half_squares: Array, row_stable: bool = False) -> Array:
    """Index of the memory nearest to each row, the first of equals: (n, d), (K, d) -> (n,).

    half_squares: (K,) ‖m_k‖²/2, or inf for memories to leave out
    row_stable:   each row's bits depend on that row alone (see `rows_times`)
    """
    return pass_over(patterns, partial(_closest, row_stable=row_stable), _closer, xi, half_squares).memory


class _Closest(NamedTuple):
    closeness: Array  # (n,) x·m − ‖m‖²/2
    memory: Array  # (n,) its index


def _closest(patterns: Array, start: int, xi: Array, half_squares: Array, *, row_stable: bool) -> _Closest:
    """The closest of some memories, whose indices count from `start`."""
    xp, multiply = namespace(xi), rows_times if row_stable else matmul
    parts: list[_Closest] = []
    for rows in row_blocks(xi, len(patterns)):
        states = xi[rows]
        closest = _Closest(arrays.full((len(states),), -math.inf, xi), arrays.zero_counts(len(states), xi)[:, 0])
        for block in memory_blocks(patterns):
            closeness = multiply(states, patterns[block].T)
            closeness -= half_squares[block]
            memory = xp.argmax(closeness, axis=-1) + (start + block.start)
            closest = _closer(closest, _Closest(xp.amax(closeness, axis=-1), memory))
        parts.append(closest)
    return _Closest(*map(arrays.concatenate, zip(*parts, strict=True)))


def _closer(first: _Closest, second: _Closest) -> _Closest:
    """The closer of two memories for each state, the first of equals."""
    xp, nearer = namespace(first.closeness), second.closeness > first.closeness
    return _Closest(xp.where(nearer, second.closeness, first.closeness), xp.where(nearer, second.memory, first.memory))


def nearest_memory(xi: ArrayLike, bank: MemoryBank) -> tuple[Array, Array]:
    """Index of the nearest kept memory and the distance to it; (..., d) -> (...), (...).

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> index, distance = sa.neighbors.nearest_memory([[0.9, 0.0], [0.0, 3.0]], bank)
    >>> index, distance.round(6)
    (array([0, 1]), array([0.1, 2. ]))
    """
    rows = check_states(xi, bank)
    half_squares = namespace(bank.log_r).where(bank.log_r > -math.inf, bank.norms_squared / 2, math.inf)
    k = nearest_index(rows.reshape(-1, bank.d), bank.patterns, half_squares)
    gap = rows - rows_at(bank.patterns, k).reshape(rows.shape)
    return k.reshape(rows.shape[:-1]), norms_squared(gap) ** 0.5


def neighbor_distances(bank: MemoryBank, max_rows: int | None = None) -> NumpyArray:
    """Distance from each kept memory, or from `max_rows` evenly spaced ones, to the nearest other one: (K_kept,).

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.neighbors.neighbor_distances(bank).round(4)
    array([1.4142, 1.4142])
    """
    K = len(require_bank(bank).kept)
    if K < 2:
        raise ValueError("bank must keep at least two memories, so that each has a neighbor; it keeps one.")
    chosen, patterns = spaced_indices(K, max_rows or K), bank.active.patterns
    if not is_large(patterns):
        return nearest_distances(to_numpy(patterns), chosen=chosen)
    distances = []  # of a bank that is read and converted block by block
    for part in slices(len(chosen), MAX_ROWS):
        rows = rows_in_float64(patterns, chosen[part])
        nearest = pass_over(patterns, partial(_nearest, query_indices=chosen[part]), _closer, rows).memory
        distances.append(np.linalg.norm(rows - rows_in_float64(patterns, nearest), axis=1))
    return np.concatenate(distances)


def nearest_rows(rows: ArrayLike, others: ArrayLike | None = None, chosen: NumpyArray | None = None) -> NumpyArray:
    """Index of the row of `others`, or of the other rows, nearest to each row or each chosen one: (n, d) -> (n,).

    >>> import stochattn as sa
    >>> sa.neighbors.nearest_rows([[0.0], [1.0], [5.0]])
    array([1, 0, 1])
    """
    return _search(rows, others, chosen)[0]


def nearest_distances(rows: ArrayLike, others: ArrayLike | None = None, chosen: NumpyArray | None = None) -> NumpyArray:
    """Distance from each row (n, d) to the row that `nearest_rows` finds: (n,).

    >>> import stochattn as sa
    >>> sa.neighbors.nearest_distances([[0.0], [1.0], [5.0]])
    array([1., 1., 4.])
    """
    return _search(rows, others, chosen)[1]


def k_nearest(rows: NumpyArray, k: int) -> NumpyArray:
    """Indices of the k rows nearest to each row, itself included, in no particular order: (K, d) -> (K, k).

    >>> import numpy as np, stochattn as sa
    >>> np.sort(sa.neighbors.k_nearest(np.array([[0.0], [1.0], [5.0]]), 2))
    array([[0, 1],
           [0, 1],
           [1, 2]])
    """
    half = np.square(rows).sum(1) / 2
    parts = slices(len(rows), max(BLOCK_ENTRIES // len(rows), 1))
    return np.concatenate([np.argpartition(half - rows[part] @ rows.T, k - 1, axis=1)[:, :k] for part in parts])


def have_duplicates(rows: ArrayLike, tolerance: float) -> NumpyArray:
    """Whether another row lies within `tolerance` of each row; (n, d) -> (n,) booleans.

    Rows that are close have projections that are close, so that only neighbors along one direction are compared.

    >>> import stochattn as sa
    >>> sa.neighbors.have_duplicates([[0.0], [1.0], [1.0 + 1e-12]], tolerance=1e-9)
    array([False,  True,  True])
    """
    points = as_rows(rows, "rows")
    direction = np.random.default_rng(0).standard_normal(points.shape[1])
    along = points @ (direction / np.linalg.norm(direction))
    order, is_duplicate = np.argsort(along, kind="stable"), np.zeros(len(points), dtype=bool)
    reach = tolerance + 1e-12 * float(np.abs(along).max())  # of projections, which have rounding errors
    for shift in range(1, len(points)):
        first, second = order[:-shift], order[shift:]
        near = (along[second] - along[first] <= reach) & ~(is_duplicate[first] & is_duplicate[second])
        # At a larger shift, no pair with a row that is not marked yet is near either.
        if not near.any():
            break
        first, second = first[near], second[near]
        equal = np.linalg.norm(points[first] - points[second], axis=1) <= tolerance
        is_duplicate[first[equal]] = is_duplicate[second[equal]] = True
    return is_duplicate


def spaced_indices(n: int, max_count: int) -> NumpyArray:
    """At most `max_count` of the indices below n, evenly spaced."""
    return np.arange(n) if n <= max_count else np.linspace(0, n - 1, max_count).round().astype(np.intp)


def as_rows(x: ArrayLike, name: str) -> NumpyArray:
    """x as a non-empty float64 matrix with one row per example: (n, d)."""
    rows = to_numpy(as_floats(x, name)).astype(np.float64, copy=False)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"{name} must be a non-empty matrix with one row per example; got shape {rows.shape}.")
    return rows


def _search(rows: ArrayLike, others: ArrayLike | None, chosen: NumpyArray | None) -> tuple[NumpyArray, NumpyArray]:
    """Index of the nearest row of `others`, or of the other rows, and the distance to it: (n,), (n,)."""
    points = as_rows(rows, "rows")
    queries, query_indices = (points, np.arange(len(points))) if chosen is None else (points[chosen], chosen)
    stored = points if others is None else as_rows(others, "others")
    if points.shape[1] != stored.shape[1]:
        raise ValueError(f"others must have {points.shape[1]} columns, as rows has; got {stored.shape[1]}.")
    if others is not None:
        query_indices = np.full(len(queries), -1)  # no query is a row of `others`
    nearest, distances = [], []
    for part in slices(len(queries), max(BLOCK_ENTRIES // max(stored.shape), 1)):
        k = _nearest(stored, 0, queries[part], query_indices=query_indices[part], at_once=True).memory
        nearest.append(k)
        distances.append(np.linalg.norm(queries[part] - stored[k], axis=1))
    return np.concatenate(nearest), np.concatenate(distances)


def _nearest(
    stored: Array, start: int, rows: NumpyArray, *, query_indices: NumpyArray, at_once: bool = False
) -> _Closest:
    """The stored row nearest to each row, which is not that row itself, with indices from `start`: (n, d) -> (n,)."""
    closest = _Closest(np.full(len(rows), -np.inf), np.zeros(len(rows), dtype=np.intp))
    query_indices = query_indices - start
    for part in [slice(0, len(stored))] if at_once else blocks(*stored.shape):
        keys = to_numpy(stored[part]).astype(np.float64, copy=False)
        closeness = rows @ keys.T - np.einsum("kd,kd->k", keys, keys) / 2
        here = np.flatnonzero((part.start <= query_indices) & (query_indices < part.stop))
        closeness[here, query_indices[here] - part.start] = -np.inf
        nearest = closeness.argmax(1)
        top = closeness[np.arange(len(rows)), nearest]
        closest = _closer(closest, _Closest(top, nearest + (start + part.start)))
    return closest


def rows_in_float64(patterns: Array, indices: NumpyArray) -> NumpyArray:
    """The memories at these indices, as a numpy array in float64: (n,) -> (n, d)."""
    return to_numpy(rows_at(patterns, like(indices, patterns, keep_dtype=True))).astype(np.float64)
