"""Nearest neighbors, by Euclidean distance: of states among the memories of a bank, and of rows among other rows.

Every search compares x·m − ‖m‖²/2, which one matrix product gives, block by block. Distances are then computed from the
difference of two rows: those of nearly equal rows would be lost to rounding in a difference of inner products.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._backend.arrays import (
    Array,
    concatenate,
    floats,
    like,
    multiplied,
    namespace,
    norms_squared,
    rows_times,
    to_numpy,
)
from ..storage.blockwise import blocks, memory_blocks, row_blocks
from ..storage.mapped import is_large, rows_at
from .memory import MemoryBank, require_bank, states

BLOCK_ENTRIES = 2**23
"""Rows are compared with others in blocks of at most this many pairs."""
MAX_ROWS = 1024
"""Memories of a large bank whose neighbors are searched in one pass over it."""


def nearest_index(xi: Array, patterns: Array, half_squares: Array, row_stable: bool = False) -> Array:
    """Index of the memory at the least distance from each row, the first of equals: (n, d) -> (n,).

    half_squares: (K,) ‖m_k‖²/2, inf for memories that do not count.
    row_stable: each row's bits depend on that row alone (see `rows_times`).
    """
    xp = namespace(xi)
    multiply = rows_times if row_stable else multiplied
    parts = []
    for rows in row_blocks(xi, len(patterns)):
        best = closest = None
        for block in memory_blocks(patterns):
            closeness = multiply(xi[rows], patterns[block].T)
            closeness -= half_squares[block]
            here = xp.argmax(closeness, axis=-1)
            level = xp.amax(closeness, axis=-1)
            if best is None:
                best, closest = level, here
            else:
                nearer = level > best
                best, closest = xp.where(nearer, level, best), xp.where(nearer, here + block.start, closest)
        parts.append(closest)
    return parts[0] if len(parts) == 1 else concatenate(parts)


def nearest_memory(xi: Any, bank: MemoryBank) -> tuple[Array, Array]:
    """Index of the nearest kept memory and the distance to it; (..., d) -> (...), (...)."""
    xi = states(xi, bank)
    half_squares = namespace(bank.log_r).where(bank.log_r > -math.inf, bank.norms_squared / 2, math.inf)
    k = nearest_index(xi.reshape(-1, bank.d), bank.patterns, half_squares)
    gap = xi - rows_at(bank.patterns, k).reshape(xi.shape)
    return k.reshape(xi.shape[:-1]), norms_squared(gap) ** 0.5


def neighbor_distances(bank: MemoryBank, most: int | None = None) -> Array:
    """Distance from each kept memory to its nearest other kept memory (leave one out): (K_kept,) numpy.

    most: compute it for this many memories only, evenly spaced.
    """
    K = len(require_bank(bank).kept)
    if K < 2:
        raise ValueError("the bank must keep at least two memories for them to have neighbors; it keeps one.")
    chosen = evenly(K, K if most is None else most)
    patterns = bank.active.patterns
    if is_large(patterns):
        return _distances_in_large_bank(patterns, chosen)
    return nearest_distances(to_numpy(patterns), chosen=chosen)


def nearest_rows(rows: Any, others: Any = None, chosen: Array | None = None) -> Array:
    """Index of the nearest of the others; without others, of the nearest other row: (n, d) -> (n,).

    chosen: (m,) search for these rows only; the result is then (m,)

    >>> nearest_rows([[0.0], [1.0], [1.2]])
    array([1, 2, 1])
    """
    rows, others, own = _searched(rows, others, chosen)
    half = np.einsum("kd,kd->k", others, others) / 2
    found = np.empty(len(rows), dtype=np.intp)
    for part in _parts(len(rows), max(others.shape)):
        closeness = rows[part] @ others.T - half
        if own is not None:
            closeness[np.arange(len(closeness)), own[part]] = -np.inf
        found[part] = closeness.argmax(1)
    return found


def nearest_distances(rows: Any, others: Any = None, chosen: Array | None = None) -> Array:
    """Distance to the nearest of the others; without others, to the nearest other row: (n, d) -> (n,).

    chosen: (m,) search for these rows only; the result is then (m,)
    """
    found = nearest_rows(rows, others, chosen)
    rows, others, _ = _searched(rows, others, chosen)
    distances = np.empty(len(rows))
    for part in _parts(len(rows), max(others.shape)):
        distances[part] = np.linalg.norm(rows[part] - others[found[part]], axis=1)
    return distances


def k_nearest(rows: Array, k: int) -> Array:
    """Indices of the k nearest rows of each row, itself among them, in no order: (K, d) -> (K, k)."""
    half = np.square(rows).sum(1) / 2
    near = np.empty((len(rows), k), dtype=np.intp)
    for part in _parts(len(rows), len(rows)):
        near[part] = np.argpartition(half - rows[part] @ rows.T, k - 1, axis=1)[:, :k]
    return near


def evenly(n: int, most: int) -> Array:
    """At most `most` of n indices, evenly spaced."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(np.intp)


def as_rows(x: Any, name: str) -> Array:
    """x as a non-empty float64 matrix with a row for each example: (n, d)."""
    rows = to_numpy(floats(x, name)).astype(np.float64, copy=False)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"{name} must be a non-empty matrix with a row for each example; got shape {rows.shape}.")
    return rows


def _searched(rows: Any, others: Any, chosen: Array | None) -> tuple[Array, Array, Array | None]:
    """The rows to search for, the rows to search among, and the own index of each where these are the same."""
    rows = as_rows(rows, "rows")
    if others is None:
        own = np.arange(len(rows)) if chosen is None else chosen
        return (rows if chosen is None else rows[chosen]), rows, own
    others = as_rows(others, "others")
    if rows.shape[1] != others.shape[1]:
        raise ValueError(f"others must have {rows.shape[1]} columns, as the rows; got {others.shape[1]}.")
    return (rows if chosen is None else rows[chosen]), others, None


def _parts(n: int, width: int) -> list[slice]:
    size = max(BLOCK_ENTRIES // width, 1)
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]


def _distances_in_large_bank(patterns: Array, chosen: Array) -> Array:
    """`neighbor_distances` of the chosen memories, which are read and converted block by block: (n,)."""
    distances = []
    for some in np.array_split(chosen, -(-len(chosen) // MAX_ROWS)):
        rows = to_numpy(rows_at(patterns, like(some, patterns, keep_dtype=True))).astype(np.float64)
        best, closest = np.full(len(rows), -np.inf), np.zeros(len(rows), dtype=np.intp)
        for block in blocks(*patterns.shape):
            keys = to_numpy(patterns[block]).astype(np.float64)
            closeness = rows @ keys.T - np.einsum("kd,kd->k", keys, keys) / 2
            own = np.flatnonzero((block.start <= some) & (some < block.stop))
            closeness[own, some[own] - block.start] = -np.inf
            here = closeness.argmax(1)
            nearer = closeness[np.arange(len(rows)), here] > best
            best = np.where(nearer, closeness[np.arange(len(rows)), here], best)
            closest = np.where(nearer, here + block.start, closest)
        others = to_numpy(rows_at(patterns, like(closest, patterns, keep_dtype=True))).astype(np.float64)
        distances.append(np.linalg.norm(rows - others, axis=1))
    return np.concatenate(distances)
