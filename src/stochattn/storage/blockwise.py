"""Passes over many memories in blocks: attention, without an array of all states by all memories, and the span.

Attention weights are relative to the largest logit so far, w = exp(l − top). A block that raises it by δ scales the
earlier sums by exp(−δ), so the result is one softmax over all memories, up to rounding, at any beta.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeGuard, TypeVar

import numpy as np

from .._backend import arrays
from .._backend.arrays import Array, NumpyArray, detach, full_precision, is_torch, namespace, on_cuda, to_numpy
from .._backend.checks import first_line, is_out_of_memory
from .._backend.console import Progress
from .._backend.products import ROWS_PER_BLOCK, exp_with_floor, exponent_floor, matmul, rows_times

if TYPE_CHECKING:
    from .dask import DaskRows

Result = TypeVar("Result")


def is_sharded(patterns: Array) -> TypeGuard[DaskRows]:
    """Whether memories are in shards of rows, which may be on other machines, as `DaskRows` are."""
    return hasattr(patterns, "map_reduce")


def pass_over(
    patterns: Array,
    part: Callable[..., Result],
    merge: Callable[[Result, Result], Result],
    states: Array | None = None,
    *vectors: Array | None,
) -> Result:
    """part(patterns, 0, states, *vectors) for memories (K, d); of memories in shards, the merged results of all shards.

    A shard is read where it is, by part(rows, start, states, *vectors) with the index `start` of its first memory. Of
    each of the vectors (K, ...), it gets the entries of its memories.
    """
    if is_sharded(patterns):
        return patterns.map_reduce(part, merge, states, *vectors)
    return part(patterns, 0, states, *vectors)


MAX_MEMORIES_AT_ONCE = 8192  # up to this many memories are attended to at once; more are attended to in blocks
BLOCK = 4096  # memories in a block: enough for products at full speed, few enough for the logits to stay in the cache
DEVICE_BLOCK = 2**16  # memories in a block on a device, where each block costs about twenty kernel launches
MAX_BLOCK_NUMBERS = 2**23  # numbers in the memories of a block: wide memories make shorter blocks
MAX_ENTRIES, MAX_DEVICE_ENTRIES = 2**22, 2**26  # logits (states times memories) that exist at one time
QR_NUMBERS = 2**22  # numbers of the memories that a step of the QR decomposition reads, or d² if that is more


class Sums(NamedTuple):
    """Sums of attention over the memories, with weights w relative to the largest logit."""

    top: Array  # (n, 1) the largest logit
    total: Array  # (n, 1) Σ w
    readout: Array  # (n, v) Σ w · value; v = 0 without values
    spread: Array  # (n, 1) Σ w (logit − top); (n, 0) if it was not asked for

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
        """−Σ p log p, if `attention` was asked for the spread: (n, 1)."""
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
    """Slices of the states xi (n, d), in whole blocks of rows, whose logits with K memories stay within MAX_ENTRIES."""
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
    """The sums of softmax(beta X xi + log r) over all memories (Eq. 4, 13), hard attention if beta is inf.

    xi: (n, d); patterns: (K, d); log_r: (K,) or None for zeros; values: (K, v) to average, or None.
    spread: also sum the term that the entropy needs. row_stable: each row's bits depend on that row alone; n is then 1
    or a multiple of a block (see `rows_times`).
    """
    if is_sharded(patterns) and log_r is not None and not log_r.any():
        log_r = None  # which need not travel
    averages_rows = values is patterns  # which are then not sent twice

    def part(patterns: Array, start: int, xi: Array, log_r: Array | None, values: Array | None) -> Sums:
        values = patterns if averages_rows else values
        attend = partial(_one_pass, patterns, log_r, values, beta=beta, with_spread=spread, stable=row_stable)
        with full_precision(xi):
            blocks = row_blocks(xi, len(patterns))
            parts = [sums for rows in blocks for sums in _in_parts_that_fit(attend, xi[rows], patterns)]
        return parts[0] if len(parts) == 1 else Sums(*map(arrays.concatenate, zip(*parts, strict=True)))

    merge: Callable[[Sums, Sums], Sums] = partial(merge_sums, hard=beta == math.inf)
    return pass_over(patterns, part, merge, xi, log_r, None if averages_rows else values)


def merge_sums(first: Sums, second: Sums, hard: bool) -> Sums:
    """The sums over the memories of both, relative to the larger of the two largest logits; hard: for beta = inf."""
    highest = namespace(first.top).maximum(first.top, second.top)
    scaled = []
    for top, total, readout, spread in (first, second):
        decay = relative_weight(top, highest, hard)
        scaled.append((total * decay, readout * decay, decay * (spread - (highest - top) * total)))
    return Sums(highest, *(a + b for a, b in zip(*scaled, strict=True)))


def relative_weight(logit: Array, highest: Array, hard: bool) -> Array:
    """The weight of a logit beside a higher one: exp(logit − highest), or in hard attention 1 if they are equal."""
    xp = namespace(logit)
    return (logit == highest) * xp.ones_like(logit) if hard else xp.exp(logit - highest)


def _in_parts_that_fit(attend: Callable[[Array], Sums], xi: Array, patterns: Array) -> list[Sums]:
    """The sums for some states, which are halved again and again while a device has too little memory for them."""
    try:
        return [attend(xi)]
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        reason = first_line(error)  # not the error itself, whose frames hold the arrays that did not fit
    if len(xi) <= ROWS_PER_BLOCK:
        size = f"{len(xi)} states to K={len(patterns)} memories of d={patterns.shape[1]}"
        remedy = "Free memory there, or keep the bank on the CPU."
        raise MemoryError(f"attention of {size} does not fit on {arrays.device_name(xi)}: {reason} {remedy}")
    half = -(-len(xi) // 2 // ROWS_PER_BLOCK) * ROWS_PER_BLOCK
    return [part for states in (xi[:half], xi[half:]) for part in _in_parts_that_fit(attend, states, patterns)]


def _one_pass(
    patterns: Array, log_r: Array | None, values: Array | None, xi: Array, beta: float, with_spread: bool, stable: bool
) -> Sums:
    xp, n, hard, floor = namespace(xi), len(xi), beta == math.inf, exponent_floor(xi.itemsize)
    v = 0 if values is None else values.shape[1]
    # Below any logit, but finite: inf − inf would appear while every memory so far is masked out.
    top = arrays.full((n, 1), -1e300 if xi.itemsize == 8 else -1e37, xi)
    total, readout, spread = (arrays.full((n, width), 0.0, xi) for width in (1, v, int(with_spread)))
    scratch, product = (None if is_torch(xi) else arrays.empty((n * m,), xi) for m in (min(BLOCK, len(patterns)), v))
    for block in memory_blocks(patterns):
        keys = patterns[block]
        logits = _multiply(xi, keys.T, scratch, stable)
        if not hard:
            logits *= beta
        if log_r is not None:  # to hard attention, only masked memories matter
            logits += xp.where(log_r[block] > -math.inf, 0.0, -math.inf) if hard else log_r[block]
        here = xp.amax(detach(logits), axis=-1, keepdims=True)
        # Weights this small change no bit of a sum. Skipping them depends on all rows, so row-stable sums do not.
        if not stable and n and float((here - top).max()) < floor:
            continue
        highest = xp.maximum(top, here)
        decay = relative_weight(top, highest, hard)
        if hard:
            weights = relative_weight(logits, highest, hard)
        else:
            logits -= highest
            exponents = xp.clip(logits, floor, None) if with_spread else None
            weights = exp_with_floor(logits)
            if exponents is not None:
                spread = decay * (spread - (highest - top) * total) + (weights * exponents).sum(-1, keepdims=True)
        total = total * decay + weights.sum(-1, keepdims=True)
        if values is not None:
            read = _multiply(weights, keys if values is patterns else values[block], product, stable)
            readout = readout * decay + read
        top = highest
    return Sums(top, total, readout, spread)


def _multiply(x: Array, matrix: Array, scratch: Array | None, row_stable: bool) -> Array:
    """x @ matrix; numpy overwrites the beginning of `scratch`, so that no two blocks of logits exist at one time."""
    if row_stable:
        return rows_times(x, matrix)
    shape = len(x), matrix.shape[1]
    return matmul(x, matrix, None if scratch is None else scratch[: math.prod(shape)].reshape(shape))


def squares_of_columns(patterns: Array) -> Array:
    """Inner products of the columns of the memories (K, d): (d, d)."""

    def part(patterns: Array, start: int, states: None) -> Array:
        total: Array = sum(rows.T @ rows for rows in (patterns[block] for block in blocks(*patterns.shape)))
        return total

    return pass_over(patterns, part, operator.add)


def span_basis(patterns: Array, K: int) -> NumpyArray:
    """Orthonormal basis of the span of the memories (K_kept, d): (d, rank). K of all memories scales the tolerance.

    Singular vectors are unique up to a sign at best: numpy computes them for both libraries, so that the same memories
    give the same chains, and in float64: in float32 a direction that matters can look like noise.
    """
    d = patterns.shape[1]
    _, singular, rows = np.linalg.svd(_triangle(patterns) if len(patterns) > d else _float64(patterns), False)
    noise = singular[0] * max(K, d) * np.finfo(singular.dtype).eps
    return rows[: max(int((singular > noise).sum()), 1)].T


def span_coordinates(patterns: NumpyArray, basis: NumpyArray) -> NumpyArray:
    """The memories of a file (K, d) in a basis (d, rank) of their span: (K, rank)."""
    coordinates = np.empty((len(patterns), basis.shape[1]), dtype=patterns.dtype)
    for block in blocks(*patterns.shape):
        np.matmul(patterns[block], basis, out=coordinates[block])
    return coordinates


def spans_all_dimensions(patterns: Array, norms_squared: Array, K: int) -> bool:
    """Whether the first 2 d of many memories (K_kept, d) span all d dimensions. False does not imply a lower rank."""
    d = patterns.shape[1]
    if len(patterns) <= max(d, MAX_MEMORIES_AT_ONCE):
        return False
    bound = math.sqrt(float(norms_squared.sum()))  # no singular value is larger
    noise = bound * max(K, d) * np.finfo(np.float64).eps
    return bool(np.linalg.svd(_float64(patterns[: 2 * d]), compute_uv=False)[-1] > noise)


def _float64(rows: Array) -> NumpyArray:
    return to_numpy(rows).astype(np.float64)


def _triangle(patterns: Array) -> NumpyArray:
    """R of the QR decomposition of more than d memories: (d, d). A Gram matrix of squares would lose digits."""
    begin = (np.empty((0, patterns.shape[1])),) * 2
    R, waiting = patterns.fold(_decompose, begin) if is_sharded(patterns) else _decompose(patterns, begin)
    return _qr(R, waiting) if len(waiting) else R


def _decompose(patterns: Array, before: tuple[NumpyArray, NumpyArray]) -> tuple[NumpyArray, NumpyArray]:
    """R (d, d) with further memories, and the last ones, too few for a further step: (n, d).

    A step takes a fixed number of memories, so that shards of any size give the same bits.
    """
    (R, waiting), (K, d) = before, patterns.shape
    size = max(min(MAX_MEMORIES_AT_ONCE, QR_NUMBERS // d), d)
    ends = [*range(size - len(waiting), K, size), K]
    with Progress(K, "finding the span") as bar:
        for begin, end in zip([0, *ends], ends, strict=False):
            waiting = np.concatenate((waiting, _float64(patterns[begin:end])))
            if len(waiting) == size:
                R, waiting = _qr(R, waiting), waiting[:0]
            bar.update(end)
    return R, waiting


def _qr(R: NumpyArray, rows: NumpyArray) -> NumpyArray:
    return np.asarray(np.linalg.qr(np.concatenate((R, rows)), mode="r"))
