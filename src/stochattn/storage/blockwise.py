"""Attention over many memories in blocks, with a running maximum: never an array of states by memories beyond a block.

With weights relative to the largest logit so far, w = exp(l − top), a block that raises the maximum by δ scales what
was summed before by exp(−δ): the sums are those of one softmax over all memories, to rounding, at any beta.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._backend.arrays import (
    ROWS_PER_BLOCK,
    Array,
    concatenate,
    detached,
    device_name,
    empty,
    exponent_floor,
    floored_exp,
    full,
    full_precision,
    is_torch,
    multiplied,
    namespace,
    on_cuda,
    rows_times,
)
from .._backend.device_memory import first_line, is_out_of_memory

MANY = 8192
"""Up to so many memories are attended to at once; beyond, in blocks."""
BLOCK = 4096
"""Memories in a block: enough for products at their full rate, few enough for the rest to stay in cache."""
DEVICE_BLOCK = 2**16
"""Memories in a block on a device, where a block costs some twenty launches."""
BLOCK_NUMBERS = 2**23
"""Numbers that the memories of a block hold at most: wide memories make shorter blocks."""
ENTRIES, DEVICE_ENTRIES = 2**22, 2**26
"""States times memories whose logits exist at one time; on a device launches are dear, and memory is not."""


class Sums(NamedTuple):
    """What attention sums over the memories, with weights w relative to the largest logit."""

    top: Array  # (n, 1) the largest logit
    total: Array  # (n, 1) Σ w
    readout: Array  # (n, v) Σ w · value, or None
    spread: Array  # (n, 1) Σ w (logit − top), or None

    @property
    def logsumexp(self) -> Array:
        """log Σ exp(logit): (n, 1)."""
        return self.top + namespace(self.top).log(self.total)

    @property
    def mean(self) -> Array:
        """Σ p · value, with the softmax p: (n, v)."""
        return self.readout / self.total

    @property
    def entropy(self) -> Array:
        """−Σ p log p: (n, 1)."""
        return namespace(self.top).log(self.total) - self.spread / self.total


def blocks(K: int, d: int = 1) -> list[slice]:
    """Slices of K rows of d numbers. They depend on the bank alone, and with them the order of every sum."""
    size = max(min(BLOCK, BLOCK_NUMBERS // d), 8)
    return [slice(begin, min(begin + size, K)) for begin in range(0, K, size)]


def memory_blocks(patterns: Array) -> list[slice]:
    """Slices of the memories (K, d) that are looked at together."""
    K, d = patterns.shape
    if not on_cuda(patterns):
        return blocks(K, d)
    return [slice(begin, min(begin + DEVICE_BLOCK, K)) for begin in range(0, K, DEVICE_BLOCK)]


def row_blocks(xi: Array, K: int) -> list[slice]:
    """Slices of the states xi (n, d) whose logits with K memories at once, or a block of many, stay within ENTRIES.

    Blocks of rows that are multiplied together stay whole (see `rows_times`).
    """
    entries, block = (DEVICE_ENTRIES, DEVICE_BLOCK) if on_cuda(xi) else (ENTRIES, BLOCK)
    size = max(entries // (K if K <= MANY else block) // ROWS_PER_BLOCK, 1) * ROWS_PER_BLOCK
    return [slice(begin, min(begin + size, len(xi))) for begin in range(0, max(len(xi), 1), size)]


def attention(
    xi: Array,
    patterns: Array,
    log_r: Array,
    beta: float,
    *,
    values: Array = None,
    spread: bool = False,
    row_stable: bool = False,
) -> Sums:
    """The sums of softmax(beta X xi + log r) over all memories.

    xi: (n, d); patterns: (K, d); log_r: (K,) or None; values: (K, v) what to read out, or None for nothing.
    beta = inf is hard attention: all weight on the largest overlap, shared between ties. spread: sum what the entropy
    is made of. row_stable: each row's bits depend on that row alone (n whole blocks of rows, or 1; see `rows_times`).
    """
    with full_precision(xi):
        parts = [
            part
            for rows in row_blocks(xi, len(patterns))
            for part in _fitting(xi[rows], patterns, log_r, beta, values, spread, row_stable)
        ]
    if len(parts) == 1:
        return parts[0]
    return Sums(*(None if field[0] is None else concatenate(field) for field in zip(*parts, strict=True)))


def _fitting(xi: Array, patterns: Array, *options: Any) -> list[Sums]:
    """The sums for some states, in halves of halves of them where a device has too little memory for all at once."""
    try:
        return [_one_pass(xi, patterns, *options)]
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        reason = first_line(error)  # not the error, whose frames hold what did not fit
    if len(xi) <= ROWS_PER_BLOCK:
        raise MemoryError(
            f"attention of {len(xi)} states to K={len(patterns)} memories of d={patterns.shape[1]} does not fit on "
            f"{device_name(xi)}: {reason} Free memory there, or keep the bank on the CPU."
        )
    half = -(-len(xi) // 2 // ROWS_PER_BLOCK) * ROWS_PER_BLOCK
    return [*_fitting(xi[:half], patterns, *options), *_fitting(xi[half:], patterns, *options)]


def _one_pass(
    xi: Array, patterns: Array, log_r: Array, beta: float, values: Array, spread: bool, row_stable: bool
) -> Sums:
    """The sums for some states, in one pass over the memories."""
    hard = beta == math.inf
    running = _Running(xi, None if values is None else values.shape[1], spread, row_stable)
    scratch = None if is_torch(xi) else empty((len(xi) * min(BLOCK, len(patterns)),), xi)
    for block in memory_blocks(patterns):
        keys = patterns[block]
        if row_stable:
            logits = rows_times(xi, keys.T)
        else:
            out = None if scratch is None else scratch[: len(xi) * len(keys)].reshape(len(xi), len(keys))
            logits = multiplied(xi, keys.T, out)
        if not hard:
            logits *= beta
        if log_r is not None:
            logits += _mask_of(log_r[block]) if hard else log_r[block]
        running.add(logits, keys if values is patterns else None if values is None else values[block], hard)
    return running.sums


class _Running:
    """The sums over the blocks seen so far."""

    def __init__(self, xi: Array, width: int | None, spread: bool, row_stable: bool) -> None:
        n, self.row_stable, self.floor = len(xi), row_stable, exponent_floor(xi)
        # Finite, so that nothing minus infinity appears while every memory so far is masked out; below any logit.
        lowest = -1e300 if xi.itemsize == 8 else -1e37
        self.sums = Sums(
            full((n, 1), lowest, xi),
            full((n, 1), 0.0, xi),
            None if width is None else full((n, width), 0.0, xi),
            full((n, 1), 0.0, xi) if spread else None,
        )
        self.scratch = None if width is None else empty((n, width), xi)

    def add(self, logits: Array, values: Array, hard: bool) -> None:
        """Take in a block: logits (n, m), which are overwritten, and values (m, v) or None."""
        xp = namespace(logits)
        top, total, readout, spread = self.sums
        here = xp.amax(detached(logits), axis=-1, keepdims=True)
        # Weights this small change no sum by a bit. A row's company would decide over them, so not where bits count.
        if not self.row_stable and len(here) and float((here - top).max()) < self.floor:
            return
        highest = xp.maximum(top, here)
        if hard:
            weights, decay = (logits == highest) * xp.ones_like(logits), (top == highest) * xp.ones_like(top)
        else:
            logits -= highest
            exponents = None if spread is None else xp.clip(logits, self.floor, None)
            weights, decay = floored_exp(logits), xp.exp(top - highest)
            if spread is not None:
                rise = highest - top
                spread = decay * (spread - rise * total) + (weights * exponents).sum(-1, keepdims=True)
        total = total * decay + weights.sum(-1, keepdims=True)
        if readout is not None:
            product = rows_times(weights, values) if self.row_stable else multiplied(weights, values, self.scratch)
            readout = readout * decay + product
        self.sums = Sums(highest, total, readout, spread)


def _mask_of(log_r: Array) -> Array:
    """0 for memories that count, -inf for those that do not: (m,)."""
    xp = namespace(log_r)
    return xp.where(log_r > -math.inf, xp.zeros_like(log_r), log_r)
