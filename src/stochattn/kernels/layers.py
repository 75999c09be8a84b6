"""The host side of `layer_steps.py`: the Langevin steps of an attention layer in one launch."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton
from torch import Tensor
from triton.runtime import OutOfResources

from . import layer_steps

MAX_WIDTH = 128  # of a head
MAX_HEADS = 65_535  # of all batches: CUDA has no more programs in the second direction
MAX_STATES = 2**31  # queries of all heads, whose numbers are counters of the noise
BLOCKS = ((64, 64), (16, 64), (16, 32))
"""Queries and keys of a block, the fastest first; smaller ones are for smaller chips."""


class Steps(NamedTuple):
    """xi ← (1 − alpha) xi + alpha attend(xi) + spread ε, `n` times, with attention at beta."""

    n: int
    alpha: float
    beta: float
    spread: float
    is_causal: bool = False


def normals(like: Tensor, seed: Tensor, step: int) -> Tensor:
    """The standard normals of a step (0, 1, ...) for states like these (..., d), a function of the seed, in float32."""
    d, out = like.shape[-1], torch.empty_like(like, memory_format=torch.contiguous_format)
    D = max(triton.next_power_of_2(d), 16)
    C = max(4096 // D, 1)
    with torch.cuda.device_of(out):
        layer_steps.fill_noise[(triton.cdiv(out.numel() // d, C),)](
            out, seed, out.numel() // d, d, step, C=C, D=D, FAST=out.is_cuda
        )
    return out


def states_after_steps(query: Tensor, key: Tensor, mask: Tensor | None, seed: Tensor, steps: Steps) -> Tensor | None:
    """The states after the steps from queries (..., H, L, d), in float32 and of that shape; None if they are too large.

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
    reach = 8 * steps.spread * math.sqrt(steps.n)  # how far noise alone hardly ever carries an entry
    pairs = (x.reshape(key_heads, -1) for x in (flat_key, flat_query))
    largest = [torch.linalg.vector_norm(x, math.inf, dim=1, dtype=torch.float32) for x in pairs]
    out, half = torch.empty_like(flat_query, dtype=torch.float32), key.dtype in (torch.float16, torch.bfloat16)
    added = None if mask is None else mask.expand(*query.shape[:-1], S).reshape(-1, n_heads, L, S)
    masking = (seed, 0, 0, 0, 0) if added is None else (added, *added.stride())
    constants = {"D": max(triton.next_power_of_2(d), 16), "HALF": half}
    for C, B in BLOCKS:
        rows = triton.cdiv(S, B) * B
        high = query.new_empty((key_heads, rows, constants["D"]), dtype=torch.half)
        low = high if half else torch.empty_like(high)
        try:
            with torch.cuda.device_of(query):
                layer_steps.split_keys[(rows // B, key_heads)](
                    flat_key, high, low, *largest, reach, S, d, B=B, **constants
                )
                layer_steps.take_steps[(triton.cdiv(L, C), heads)](
                    flat_query, out, high, low, *largest, seed, reach, L, S, rows, d, n_heads, groups, *masking,
                    *steps[:4], C=C, B=B, CAUSAL=steps.is_causal, MASK=mask is not None, NOISE=bool(steps.spread),
                    FAST=query.is_cuda, **constants,
                )  # fmt: skip
        except OutOfResources:  # raised before anything ran
            continue
        return out.view(query.shape)
    return None
