"""Attention over many memories in blocks with a running maximum, so that no array of all states by all memories exists.

Weights are relative to the largest logit so far, w = exp(l − top). A block that raises the maximum by δ scales the
earlier sums by exp(−δ), so the result is one softmax over all memories, up to rounding, at any beta.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from .._backend.arrays import (
    Array,
    concatenate,
    detached,
    device_name,
    empty,
    full,
    full_precision,
    is_torch,
    namespace,
    on_cuda,
)
from .._backend.checks import first_line, is_out_of_memory
from .._backend.products import ROWS_PER_BLOCK, exponent_floor, floored_exp, matmul, rows_times

MAX_MEMORIES_AT_ONCE = 8192
"""Up to this many memories are attended to at once; more are attended to in blocks."""
BLOCK = 4096
"""Memories in a block: enough for matrix products at full speed, few enough for the logits to stay in the cache."""
DEVICE_BLOCK = 2**16
"""Memories in a block on a device, where each block costs about twenty kernel launches."""
MAX_BLOCK_NUMBERS = 2**23
"""Numbers in the memories of a block: wide memories make shorter blocks."""
MAX_ENTRIES, MAX_DEVICE_ENTRIES = 2**22, 2**26
"""Logits (states times memories) that exist at one time; on a device launches are expensive, and memory is not."""


class Sums(NamedTuple):
    """Sums of attention over the memories, with weights w relative to the largest logit."""

    top: Array  # (n, 1) the largest logit
    total: Array  # (n, 1) Σ w
    readout: Array  # (n, v) Σ w · value; v = 0 without values
    spread: Array  # (n, 1) Σ w (logit − top), if it was asked for

    @property
    def logsumexp(self) -> Array:
        """log Σ exp(logit): (n, 1)."""
        return self.top + namespace(self.total).log(self.total)

    @property
    def mean(self) -> Array:
        """Σ p · value, with the softmax p: (n, v)."""
        return self.readout / self.total

    @property
    def entropy(self) -> Array:
        """−Σ p log p: (n, 1)."""
        return namespace(self.total).log(self.total) - self.spread / self.total


def slices(n: int, size: int) -> list[slice]:
    """Slices of n rows, each of `size` rows but the last."""
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]


def blocks(K: int, d: int = 1) -> list[slice]:
    """Slices of K rows of d numbers. They depend on K and d alone, and so does the order of every sum."""
    return slices(K, max(min(BLOCK, MAX_BLOCK_NUMBERS // d), 8))


def memory_blocks(patterns: Array) -> list[slice]:
    """Slices of the memories (K, d) that are processed together."""
    K, d = patterns.shape
    return slices(K, DEVICE_BLOCK) if on_cuda(patterns) else blocks(K, d)


def row_blocks(xi: Array, K: int) -> list[slice]:
    """Slices of the states xi (n, d) whose logits with K memories, or with a block of them, stay within MAX_ENTRIES.

    Blocks of rows that are multiplied together are not split (see `rows_times`).
    """
    entries, block = (MAX_DEVICE_ENTRIES, DEVICE_BLOCK) if on_cuda(xi) else (MAX_ENTRIES, BLOCK)
    size = max(entries // (K if K <= MAX_MEMORIES_AT_ONCE else block) // ROWS_PER_BLOCK, 1) * ROWS_PER_BLOCK
    return slices(len(xi), size) or [slice(0, 0)]


def attention(
    xi: Array,
    patterns: Array,
    log_r: Array | None,
    beta: float,
    *,
    values: Array | None = None,
    spread: bool = False,
    row_stable: bool = False,
) -> Sums:
    """The sums of softmax(beta X xi + log r) over all memories (Eq. 4, 13).

    xi: (n, d); patterns: (K, d); log_r: (K,) or None for zeros; values: (K, v) to average, or None.
    beta = inf is hard attention: all weight on the largest overlap, shared between ties.
    spread: also sum the term that the entropy needs.
    row_stable: each row's bits depend on that row alone; n is then 1 or a multiple of a block (see `rows_times`).
    """
    one_pass = partial(
        _one_pass, patterns=patterns, log_r=log_r, beta=beta, values=values, with_spread=spread, row_stable=row_stable
    )
    with full_precision(xi):
        rows = row_blocks(xi, len(patterns))
        parts = [part for some in rows for part in _in_parts_that_fit(one_pass, xi[some], patterns)]
    return parts[0] if len(parts) == 1 else Sums(*map(concatenate, zip(*parts, strict=True)))


def _in_parts_that_fit(one_pass: Callable[[Array], Sums], xi: Array, patterns: Array) -> list[Sums]:
    """The sums for some states, which are halved again and again while a device has too little memory for them."""
    try:
        return [one_pass(xi)]
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        reason = first_line(error)  # not the error itself, whose frames hold the arrays that did not fit
    if len(xi) <= ROWS_PER_BLOCK:
        size = f"{len(xi)} states to K={len(patterns)} memories of d={patterns.shape[1]}"
        remedy = "Free memory there, or keep the bank on the CPU."
        raise MemoryError(f"attention of {size} does not fit on {device_name(xi)}: {reason} {remedy}")
    half = -(-len(xi) // 2 // ROWS_PER_BLOCK) * ROWS_PER_BLOCK
    return [part for some in (xi[:half], xi[half:]) for part in _in_parts_that_fit(one_pass, some, patterns)]


def _one_pass(
    xi: Array,
    patterns: Array,
    log_r: Array | None,
    beta: float,
    values: Array | None,
    with_spread: bool,
    row_stable: bool,
) -> Sums:
    xp, n, hard, floor = namespace(xi), len(xi), beta == math.inf, exponent_floor(xi.itemsize)
    v = 0 if values is None else values.shape[1]
    # Below any logit, but finite: inf − inf would appear while every memory so far is masked out.
    top = full((n, 1), -1e300 if xi.itemsize == 8 else -1e37, xi)
    total, readout, spread = (full((n, width), 0.0, xi) for width in (1, v, 1))
    scratch, product = (None if is_torch(xi) else empty((n * m,), xi) for m in (min(BLOCK, len(patterns)), v))
    for block in memory_blocks(patterns):
        keys = patterns[block]
        logits = _multiply(xi, keys.T, scratch, row_stable)
        if not hard:
            logits *= beta
        if log_r is not None:  # to hard attention, only masked memories matter
            logits += xp.where(log_r[block] > -math.inf, 0.0, -math.inf) if hard else log_r[block]
        here = xp.amax(detached(logits), axis=-1, keepdims=True)
        # Weights this small change no bit of a sum. Skipping them depends on all rows, so row-stable sums do not.
        if not row_stable and n and float((here - top).max()) < floor:
            continue
        highest = xp.maximum(top, here)
        if hard:
            weights, decay = (logits == highest) * xp.ones_like(logits), (top == highest) * xp.ones_like(top)
        else:
            logits -= highest
            exponents = xp.clip(logits, floor, None) if with_spread else None
            weights, decay = floored_exp(logits), xp.exp(top - highest)
            if exponents is not None:
                spread = decay * (spread - (highest - top) * total) + (weights * exponents).sum(-1, keepdims=True)
        total = total * decay + weights.sum(-1, keepdims=True)
        if values is not None:
            read = _multiply(weights, keys if values is patterns else values[block], product, row_stable)
            readout = readout * decay + read
        top = highest
    return Sums(top, total, readout, spread)


def _multiply(x: Array, matrix: Array, scratch: Array | None, row_stable: bool) -> Array:
    """x @ matrix; numpy overwrites the beginning of `scratch`, which saves an allocation."""
    if row_stable:
        return rows_times(x, matrix)
    shape = len(x), matrix.shape[1]
    return matmul(x, matrix, None if scratch is None else scratch[: math.prod(shape)].reshape(shape))
