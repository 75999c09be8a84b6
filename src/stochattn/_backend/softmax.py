"""Softmax, log-sum-exp and exponentials that neither overflow nor slow down, for numpy and torch."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .arrays import Array, is_torch, namespace


def softmax_and_logsumexp(logits: Array) -> tuple[Array, Array]:
    """Softmax over the last axis (..., K), and log sum exp (...); both shifted by the maximum, so no beta overflows."""
    xp = namespace(logits)
    top = xp.amax(logits, axis=-1, keepdims=True)
    weights = xp.exp(logits - top)
    total = weights.sum(-1, keepdims=True)
    return weights / total, (top + xp.log(total))[..., 0]


def logsumexp(logits: Array) -> Array:
    """log sum exp over the last axis: (..., K) -> (...); -inf where every entry is -inf."""
    xp = namespace(logits)
    top = xp.amax(logits, axis=-1, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    with np.errstate(divide="ignore"):
        log_sum: Array = (top + xp.log(xp.exp(logits - top).sum(-1, keepdims=True)))[..., 0]
        return log_sum


def exponent_floor(x: Array) -> float:
    """The exponent below which values are clipped, just above the underflow of exp in the dtype of x.

    Clipping changes no sum whose largest term is 1, and numpy's exp is ten times slower below it.
    """
    return -700.0 if x.itemsize == 8 else -80.0


def floored_exp(x: Array) -> Array:
    """exp of x, clipped at `exponent_floor`; numpy overwrites x."""
    if is_torch(x):
        return x.exp() if x.is_cuda else x.clamp(min=exponent_floor(x)).exp()
    np.maximum(x, exponent_floor(x), out=x)
    return np.exp(x, out=x)


def shifted_exp_inplace(logits: Array) -> Array:
    """Overwrite logits (rows, K) with exp(logits − their maximum); return the maxima, (rows, 1)."""
    if is_torch(logits):
        top = logits.amax(-1, keepdim=True)
        logits.sub_(top)
        if not logits.is_cuda:  # on a device exp is equally fast for all exponents
            logits.clamp_(min=exponent_floor(logits))
        logits.exp_()
        return top
    starts, floor = _row_starts_and_floor(logits.shape, logits.dtype)
    top = logits.take(starts + logits.argmax(-1, keepdims=True))  # numpy's argmax is faster than its max
    np.subtract(logits, top, out=logits)
    np.maximum(logits, floor, out=logits)
    np.exp(logits, out=logits)
    return top


@lru_cache(maxsize=8)
def _row_starts_and_floor(shape: tuple[int, int], dtype: np.dtype[np.floating]) -> tuple[Array, Array]:
    """Index at which each row starts in a flat array, (rows, 1), and the floor as an array, faster to compare with."""
    rows, K = shape
    floor = np.array(exponent_floor(np.empty(0, dtype)), dtype)
    return (np.arange(rows) * K)[:, None], np.full(shape, floor) if rows * K <= 2**16 else floor
