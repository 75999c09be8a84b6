"""Checks of the arrays that a bank is made of, and of those that are compared with it."""

from __future__ import annotations

import math
import os

import numpy as np

from .._backend.arrays import Array, ArrayLike, NumpyArray, floats, frozen_copy, like, to_numpy
from ..storage.blockwise import blocks
from ..storage.mapped import as_mapped_rows, checked_norms, is_mapped, norms_in_blocks


def checked_patterns(patterns: ArrayLike, progress: bool | None = None) -> tuple[Array, Array]:
    """The memories as a read-only array (K, d), and their squared norms (K,); a mapped file is not copied."""
    memories: Array
    if is_mapped(patterns) and patterns.ndim == 2 and 0 not in patterns.shape and patterns.dtype.kind in "fiub":
        # Memory maps of other types become rows that are converted when they are read.
        memories = patterns if patterns.dtype in (np.float32, np.float64) else as_mapped_rows(patterns)
        norms = checked_norms(memories, progress)
    else:
        if isinstance(patterns, str | os.PathLike):
            name = os.fspath(patterns)
            raise TypeError(f"patterns must be an array; got the name {name!r}. Use MemoryBank.open(name).")
        memories = checked_matrix(patterns, "patterns")
        with np.errstate(over="ignore"):
            norms = norms_in_blocks(memories)
    largest = float(norms.max())
    zero = largest == 0 and not any(bool(to_numpy(memories[block]).any()) for block in blocks(*memories.shape))
    if not (0 < largest < math.inf or zero):
        size = "large" if largest else "small"
        rule = f"patterns must have squared norms that {memories.dtype} can represent"
        raise ValueError(f"{rule}; these are too {size}. Rescale them.")
    return memories if is_mapped(memories) else frozen_copy(memories), norms


def checked_matrix(x: ArrayLike, name: str) -> Array:
    """x as a non-empty matrix of finite floats with one row per memory: (K, d)."""
    matrix = floats(x, name)
    shape = tuple(matrix.shape)
    if len(shape) != 2 or 0 in shape:
        hints = {1: "For a single memory pass x[None, :].", 2: "Store at least one example."}
        hint = hints.get(len(shape), "Flatten each example to a row first.") if shape != (0,) else hints[2]
        rule = f"{name} must be a non-empty matrix with one row per memory, (K, d)"
        raise ValueError(f"{rule}; got shape {shape}. {hint}")
    return matrix


def checked_log_r(log_r: ArrayLike | None, patterns: Array) -> Array:
    """Log multiplicities as a read-only array like `patterns`, finite or -inf but not all -inf: (K,). None is zeros."""
    K = len(patterns)
    made = like(np.zeros(K) if log_r is None else log_r, patterns)
    if tuple(made.shape) != (K,):
        raise ValueError(f"log_r must have one entry for each of the K={K} memories; got shape {tuple(made.shape)}.")
    plain = to_numpy(made)
    if np.isnan(plain).any() or (plain == math.inf).any():
        raise ValueError("log_r must hold finite numbers, or -inf to mask a memory out; got NaN or +inf.")
    if not np.isfinite(plain).any():
        raise ValueError("log_r must keep at least one memory; every entry is -inf. Keep some memory.")
    return frozen_copy(made)


def checked_values(values: ArrayLike | None, patterns: Array) -> Array | None:
    """Values as a read-only array like `patterns`, with one row per memory: (K, v)."""
    if values is None:
        return None
    rows, K = checked_matrix(like(floats(values, "values"), patterns), "values"), len(patterns)
    if len(rows) != K:
        raise ValueError(f"values must have one row for each of the K={K} memories; got {len(rows)} rows.")
    return frozen_copy(rows)


def checked_indices(indices: ArrayLike, n: int, name: str, of: str) -> NumpyArray:
    """Indices as a flat array of integers below n; negative ones count from the end. `of` names the n things."""
    array = np.atleast_1d(to_numpy(indices))
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be booleans, or whole numbers from 0 to {n - 1}; got {indices!r}.")
    array = array.astype(np.intp).ravel()
    outside = array[(array < -n) | (array >= n)]
    if len(outside):
        raise ValueError(f"{name} must lie between 0 and {n - 1} (there are {n} {of}); got {outside[0]}.")
    return array % n


def width_message(name: str, width: int, K: int, d: int) -> str:
    """The error message for rows that are not as wide as the K memories of d dimensions."""
    hint = " The bank looks transposed: rows are memories here, so pass X.T." if width == K and d != K else ""
    return f"{name} must have d={d} columns to match the bank (K={K} memories, d={d}); got {width}.{hint}"
