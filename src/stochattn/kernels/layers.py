"""Langevin steps of an attention layer: all steps of all queries in one launch.

A program advances a block of queries of one head. Their states stay on the chip; keys are read block by block, as in
FlashAttention, and mostly come from the cache because many programs read the same keys. As in `programs.py`, three
products of float16 replace one of float32, and are as accurate. Keys in half precision need two of them: in the units
of their head, a power of two, they are float16 numbers, except entries far smaller than the largest.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime import OutOfResources

from .._backend.random import Purpose
from . import launch
from .numbers import normals as tile_normals
from .programs import LOG2E, STEP, split_float

LOWEST = tl.constexpr(-1e30)  # below any logit, and not infinite


@triton.jit
def unit_of(key_max_ptr, query_max_ptr, head, reach):
    """A power of two that is not below any entry of the keys and queries of a head, nor below `reach`."""
    largest = tl.maximum(tl.load(key_max_ptr + head), tl.load(query_max_ptr + head))
    return tl.exp2(tl.ceil(tl.log2(tl.maximum(tl.maximum(largest, reach), 1e-30))))


@triton.jit(do_not_specialize=["S", "d"])
def split_keys(
    key_ptr, high_ptr, low_ptr, key_max_ptr, query_max_ptr, reach, S, d,
    D: tl.constexpr, B: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """Keys (heads, S, d) in units of their head as two float16 each, (heads, S rounded up to B, D), zero beyond."""
    head, block = tl.program_id(1), tl.program_id(0)
    unit = unit_of(key_max_ptr, query_max_ptr, head, reach)
    rows, columns = block * B + tl.arange(0, B), tl.arange(0, D)
    real = (rows[:, None] < S) & (columns[None, :] < d)
    key = tl.load(key_ptr + (head * S + rows[:, None]).to(tl.int64) * d + columns[None, :], mask=real, other=0.0)
    high, low = split_float(key.to(tl.float32) / unit)
    places = (head * tl.num_programs(0) * B + rows[:, None]).to(tl.int64) * D + columns[None, :]
    tl.store(high_ptr + places, high)
    if not HALF:
        tl.store(low_ptr + places, low)


@triton.jit
def attend(
    u, rows, high_ptr, low_ptr, mask_ptr, row_stride, column_stride, beta, L, S, end,
    D: tl.constexpr, C: tl.constexpr, B: tl.constexpr, CAUSAL: tl.constexpr, MASK: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """What attention reads at states u (C, D) of the queries `rows`, from the keys of a head up to `end`."""
    columns = tl.arange(0, D)
    a, b = split_float(u)
    top = tl.full([C], LOWEST, tl.float32)  # a block may have no visible key
    total = tl.zeros([C], tl.float32)
    attended = tl.zeros([C, D], tl.float32)
    for first in range(0, end, B):
        k = first + tl.arange(0, B)
        places = k[:, None] * D + columns[None, :]
        high = tl.load(high_ptr + places)
        overlaps = tl.dot(b, tl.trans(high))
        if not HALF:
            low = tl.load(low_ptr + places)
            overlaps = tl.dot(a, tl.trans(low), overlaps)
        logits = tl.dot(a, tl.trans(high), overlaps * (1.0 / 2048.0)) * (beta * LOG2E)
        if MASK:
            inside = (rows[:, None] < L) & (k[None, :] < S)
            at = mask_ptr + rows[:, None].to(tl.int64) * row_stride + k[None, :] * column_stride
            added = tl.load(at, mask=inside, other=0.0)  # the least float32 is a usual mask, and must not overflow
            logits += tl.where(added == -float("inf"), added, tl.maximum(LOG2E * added, LOWEST / 10))
        visible = (k[None, :] < S) & (rows[:, None] >= k[None, :]) if CAUSAL else k[None, :] < S
        logits = tl.where(visible, logits, -float("inf"))
        new_top = tl.maximum(top, tl.max(logits, 1))
        weights = tl.exp2(logits - new_top[:, None])
        shrunk = tl.exp2(top - new_top)
        total = total * shrunk + tl.sum(weights, 1)
        weights_high, weights_low = split_float(weights)
        part = tl.dot(weights_low, high)
        if not HALF:
            part = tl.dot(weights_high, low, part)
        attended = tl.dot(weights_high, high, attended * shrunk[:, None] + part * (1.0 / 2048.0))
        top = new_top
    return attended / total[:, None]


@triton.jit(do_not_specialize=["L", "S", "rows_of_keys", "d", "heads", "groups", "steps"])
def take_steps(
    query_ptr, out_ptr, high_ptr, low_ptr, key_max_ptr, query_max_ptr, seed_ptr, reach, L, S, rows_of_keys, d,
    heads, groups, mask_ptr, batch_stride, head_stride, row_stride, column_stride, steps, alpha, beta, spread,
    D: tl.constexpr, C: tl.constexpr, B: tl.constexpr,
    CAUSAL: tl.constexpr, MASK: tl.constexpr, NOISE: tl.constexpr, HALF: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """xi ← (1 − alpha) xi + alpha attend(xi) + spread ε, `steps` times, from queries (batch, heads, L, d).

    The mask, which is added to logits, is (batch, heads, L, S) with these strides, zero where it is broadcast.
    """
    head = tl.program_id(1)
    unit = unit_of(key_max_ptr, query_max_ptr, head // groups, reach)
    rows, columns = tl.program_id(0) * C + tl.arange(0, C), tl.arange(0, D)
    real = (rows[:, None] < L) & (columns[None, :] < d)
    places = (head * L + rows[:, None]).to(tl.int64) * d + columns[None, :]
    u = tl.load(query_ptr + places, mask=real, other=0.0).to(tl.float32) / unit
    seed = tl.load(seed_ptr)
    first_key = ((head // groups) * rows_of_keys).to(tl.int64) * D
    mask_ptr += (head // heads).to(tl.int64) * batch_stride + (head % heads).to(tl.int64) * head_stride
    end = tl.minimum(S, (tl.program_id(0) + 1) * C) if CAUSAL else S
    for s in range(steps):
        attended = attend(
            u, rows, high_ptr + first_key, low_ptr + first_key, mask_ptr, row_stride, column_stride,
            beta * unit * unit, L, S, end, D, C, B, CAUSAL, MASK, HALF,
        )  # fmt: skip
        u = (1 - alpha) * u + alpha * attended
        if NOISE:
            u += spread / unit * tile_normals(seed, head * L + rows, s, 0, STEP, C, D, tl.float32, FAST)
    tl.store(out_ptr + places, u * unit, mask=real)


MAX_WIDTH = 128  # of a head
MAX_HEADS = 65_535  # of all batches: CUDA has no more programs in the second direction
MAX_STATES = 2**31  # queries of all heads, whose numbers are counters of the noise
BLOCKS = ((64, 64), (16, 64), (16, 32))
"""Queries and keys of a block, the fastest first; smaller ones are for smaller chips."""


def normals(like: Tensor, seed: Tensor, step: int) -> Tensor:
    """The standard normals of a step (0, 1, ...) for states like these (..., d), a function of the seed, in float32."""
    d = like.shape[-1]
    return launch.normals(like, seed, range(like.numel() // d), step, Purpose.STEP, d).view(like.shape)


def states_after_steps(
    query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool, seed: Tensor,
    n_steps: int, alpha: float, beta: float, spread: float,
) -> Tensor | None:  # fmt: skip
    """The states after the steps from queries (..., H, L, d), in float32; None if they are too large for the kernel.

    key:  (..., G, S, d), where H is a multiple of G and the dimensions before it are those of the queries
    mask: numbers to add to the logits, broadcast to (..., H, L, S), in float32; no row is -inf everywhere. Or None
    seed: an integer below 2⁶³ in a tensor (1,), on the device of the queries; noise is a function of it
    """
    L, d = query.shape[-2:]
    n_heads, groups = (query.shape[-3], query.shape[-3] // key.shape[-3]) if query.ndim > 2 else (1, 1)
    flat_query, flat_key = (x.reshape(-1, *x.shape[-2:]).contiguous() for x in (query, key))
    heads, (key_heads, S, _) = len(flat_query), flat_key.shape
    if d > MAX_WIDTH or heads > MAX_HEADS or heads * L >= MAX_STATES:
        return None
    reach = 8 * spread * math.sqrt(n_steps)  # further than noise alone carries an entry, but for rare cases
    pairs = (x.reshape(key_heads, -1) for x in (flat_key, flat_query))
    largest = [torch.linalg.vector_norm(x, math.inf, dim=1, dtype=torch.float32) for x in pairs]
    out, half = torch.empty_like(flat_query, dtype=torch.float32), key.dtype in (torch.float16, torch.bfloat16)
    biases = None if mask is None else mask.expand(*query.shape[:-1], S).reshape(-1, n_heads, L, S)
    masking = (seed, 0, 0, 0, 0) if biases is None else (biases, *biases.stride())
    constants = {"D": max(triton.next_power_of_2(d), 16), "HALF": half}
    for C, B in BLOCKS:
        rows = triton.cdiv(S, B) * B
        high = query.new_empty((key_heads, rows, constants["D"]), dtype=torch.half)
        low = high if half else torch.empty_like(high)
        try:
            with torch.cuda.device_of(query):
                split_keys[(rows // B, key_heads)](flat_key, high, low, *largest, reach, S, d, B=B, **constants)
                take_steps[(triton.cdiv(L, C), heads)](
                    flat_query, out, high, low, *largest, seed, reach, L, S, rows, d, n_heads, groups, *masking,
                    n_steps, alpha, beta, spread, C=C, B=B, CAUSAL=is_causal, MASK=mask is not None, NOISE=bool(spread),
                    FAST=query.is_cuda, **constants,
                )  # fmt: skip
        except OutOfResources:  # raised before anything ran
            continue
        return out.view(query.shape)
    return None
