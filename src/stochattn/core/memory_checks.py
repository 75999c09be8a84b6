"""What a bank accepts: memories, their multiplicities, and values, checked once."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from .._backend.arrays import Array, floats, frozen_copy, like, to_numpy
from ..storage.blockwise import blocks
from ..storage.mapped import checked_norms, is_mapped, lazily, norms_in_blocks


def checked_patterns(given: Any, progress: bool | None = None) -> tuple[Array, Array]:
    """Memories that nobody else can write to (K, d), and their squared norms (K,); a mapped file stays where it is."""
    if is_mapped(given) and given.ndim == 2 and 0 not in given.shape and given.dtype.kind in "fiub":
        patterns = _plain_or_lazy(given)
        norms = checked_norms(patterns, progress)
    else:
        if isinstance(given, (str, os.PathLike)):
            raise TypeError(f"patterns must be an array; got the name {os.fspath(given)!r}. Use MemoryBank.open(name).")
        patterns = checked_matrix(given, "patterns")
        with np.errstate(over="ignore"):
            norms = norms_in_blocks(patterns)
    _require_representable_norms(norms, patterns)
    if not is_mapped(patterns):
        patterns = frozen_copy(patterns)
    return patterns, norms


def _plain_or_lazy(given: Any) -> Any:
    """A memory map of float32 or float64 as it is; of anything else, rows that are converted when they are read."""
    return given if given.dtype in (np.float32, np.float64) else lazily(given)


def checked_matrix(x: Any, name: str) -> Array:
    """x as a non-empty matrix of finite floats, a row for each memory: (K, d)."""
    x = floats(x, name)
    shape = tuple(x.shape)
    if len(shape) != 2 or 0 in shape:
        hints = {1: "For a single memory pass x[None, :].", 2: "Store at least one example."}
        hint = hints.get(len(shape), "Flatten each example to a row first.") if shape != (0,) else hints[2]
        raise ValueError(
            f"{name} must be a non-empty matrix with a row for each memory, (K, d); got shape {shape}. {hint}"
        )
    return x


def checked_log_r(log_r: Any, patterns: Array) -> Array:
    """log multiplicities like `patterns`, finite or -inf, and not all of them -inf: (K,)."""
    log_r = like(log_r, patterns)
    K = len(patterns)
    if tuple(log_r.shape) != (K,):
        raise ValueError(f"log_r must have one entry for each of the K={K} memories; got shape {tuple(log_r.shape)}.")
    plain = to_numpy(log_r)
    if np.isnan(plain).any() or (plain == math.inf).any():
        raise ValueError("log_r must hold finite numbers, or -inf to mask a memory out; got NaN or +inf.")
    if not np.isfinite(plain).any():
        raise ValueError("log_r must leave at least one memory; every entry is -inf. Keep some memory.")
    return log_r


def _require_representable_norms(norms: Array, patterns: Array) -> None:
    squared = float(norms.max())
    if not math.isfinite(squared) or (squared == 0 and _any_nonzero(patterns)):
        size = "large" if squared else "small"
        raise ValueError(
            f"patterns must have squared norms that {patterns.dtype} can hold; these are too {size}. Rescale them."
        )


def _any_nonzero(patterns: Array) -> bool:
    return any(bool(to_numpy(patterns[block]).any()) for block in blocks(*patterns.shape))
