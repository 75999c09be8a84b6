"""Langevin chains: all steps from one kept state to the next in one launch.

Up to 128 memories stay on the chip; more are read, block by block, from the cache that all blocks of chains share.
Tensor cores multiply float16 numbers. A float32 number x is the sum of two of them, high + low/2048, and the product of
two such sums, high·high + (high·low + low·high)/2048, is accurate to 2⁻²², as accurate as float32: three products in
place of one, and still several times faster than float32 arithmetic. Numbers are scaled so that the longest memory has
a length of about one.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .._backend.random import Purpose
from .numbers import chi_square, exponential, normal_pair, normals, words

STEP, SQUARE = tl.constexpr(int(Purpose.STEP)), tl.constexpr(int(Purpose.SQUARE))
ACCEPT, COMPLEMENT = tl.constexpr(int(Purpose.ACCEPT)), tl.constexpr(int(Purpose.COMPLEMENT))
LOG2E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)


@triton.jit
def split_float(x, FACTOR: tl.constexpr = 2048.0):
    """x as high + low/FACTOR, both float16."""
    high = x.to(tl.float16)
    return high, ((x - high.to(tl.float32)) * FACTOR).to(tl.float16)


@triton.jit
def memories(high_ptr, low_ptr, bias_ptr, first, R: tl.constexpr, B: tl.constexpr):
    """Memories first to first + B, each as two float16 (B, R), and their log multiplicities (B,), −inf for padding."""
    k = first + tl.arange(0, B)
    places = k[:, None] * R + tl.arange(0, R)[None, :]
    return tl.load(high_ptr + places), tl.load(low_ptr + places), tl.load(bias_ptr + k)


@triton.jit
def logits_of(a, b, high, low, bias, beta):
    """Logits, in units of log 2, of states as two float16 (C, R): (C, B)."""
    overlaps = tl.dot(a, tl.trans(low), tl.dot(b, tl.trans(high)))
    overlaps = tl.dot(a, tl.trans(high), overlaps * (1.0 / 2048.0))
    return overlaps * (beta * LOG2E) + bias[None, :] * LOG2E


@triton.jit
def attend_on_chip(u, high, low, bias, beta):
    """attend(u) at u (C, R), and the log-sum-exp of the logits (C,), with all memories on the chip."""
    a, b = split_float(u)
    logits = logits_of(a, b, high, low, bias, beta)
    top = tl.max(logits, 1)
    weights = tl.exp2(logits - top[:, None])
    total = tl.sum(weights, 1)
    a, b = split_float(weights)
    attended = tl.dot(a, low, tl.dot(b, high))
    attended = tl.dot(a, high, attended * (1.0 / 2048.0)) / total[:, None]
    return attended, (top + tl.log2(total)) * LN2


@triton.jit
def attend_in_blocks(u, high_ptr, low_ptr, bias_ptr, beta, K, C: tl.constexpr, R: tl.constexpr, B: tl.constexpr):
    """The same with memories that are read block by block, and a running maximum."""
    a, b = split_float(u)
    top = tl.full([C], -float("inf"), tl.float32)
    total = tl.zeros([C], tl.float32)
    attended = tl.zeros([C, R], tl.float32)
    for first in range(0, K, B):
        high, low, bias = memories(high_ptr, low_ptr, bias_ptr, first, R, B)
        logits = logits_of(a, b, high, low, bias, beta)
        new_top = tl.maximum(top, tl.max(logits, 1))
        weights = tl.exp2(logits - new_top[:, None])
        shrunk = tl.exp2(top - new_top)
        total = total * shrunk + tl.sum(weights, 1)
        weights_high, weights_low = split_float(weights)
        part = tl.dot(weights_high, low, tl.dot(weights_low, high)) * (1.0 / 2048.0)
        attended = tl.dot(weights_high, high, attended * shrunk[:, None] + part)
        top = new_top
    return attended / total[:, None], (top + tl.log2(total)) * LN2


@triton.jit
def chains_of(first_chain, n, r, C: tl.constexpr, R: tl.constexpr):
    """The rows of this program, their chains, the offsets of their entries, and which entries exist."""
    rows = tl.program_id(0) * C + tl.arange(0, C)
    columns = tl.arange(0, R)
    places = rows[:, None].to(tl.int64) * r + columns[None, :]
    return rows, first_chain + rows, places, (rows[:, None] < n) & (columns[None, :] < r)


@triton.jit(do_not_specialize=["n", "r", "K", "key", "first_chain", "first_step", "steps"])
def ula(
    u_ptr, high_ptr, low_ptr, bias_ptr, n, r, K, key, first_chain, first_step, steps, alpha, beta,
    R: tl.constexpr, B: tl.constexpr, C: tl.constexpr, ON_CHIP: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Algorithm 1, `steps` times, in place."""
    _rows, chain, places, real = chains_of(first_chain, n, r, C, R)
    if ON_CHIP:
        high, low, bias = memories(high_ptr, low_ptr, bias_ptr, 0, R, B)
    u = tl.load(u_ptr + places, mask=real, other=0.0)
    scale = tl.sqrt(2 * alpha / beta)
    for s in range(steps):
        if ON_CHIP:
            attended, _ = attend_on_chip(u, high, low, bias, beta)
        else:
            attended, _ = attend_in_blocks(u, high_ptr, low_ptr, bias_ptr, beta, K, C, R, B)
        # Columns beyond r get noise too: all memories are zero there, and the columns are not stored.
        noise = normals(key, chain, first_step + s, 0, STEP, C, R, tl.float32, FAST)
        u = (1 - alpha) * u + alpha * attended + scale * noise
    tl.store(u_ptr + places, u, mask=real)


@triton.jit
def propose_outside(
    key, chain, step, along, across, decay, scale, dimensions, OUTSIDE: tl.constexpr, FAST: tl.constexpr
):
    """The part of a proposal outside the span (see `complement.RadialComplement`); OUTSIDE is min(dimensions, 5)."""
    none = tl.zeros(chain.shape, tl.int32)
    a, b, _c, _d = words(key, chain, step, none, COMPLEMENT)
    first, second = normal_pair(a, b, tl.float32, FAST)
    along = decay * along + scale * first
    if OUTSIDE > 1:
        side = decay * across + scale * second
        squared = side * side
        if OUTSIDE == 3:
            a, b, _c, _d = words(key, chain, step, none, SQUARE)
            normal, _ = normal_pair(a, b, tl.float32, FAST)
            squared += scale * scale * normal * normal
        if OUTSIDE == 4:
            squared += scale * scale * 2 * exponential(key, chain, step, SQUARE, tl.float32, FAST)
        if OUTSIDE == 5:
            squared += scale * scale * chi_square(key, chain, step, dimensions - 2, SQUARE, tl.float32, FAST)
        across = tl.sqrt(squared)
    return along, across


@triton.jit(do_not_specialize=["n", "r", "K", "key", "first_chain", "first_step", "steps", "dimensions"])
def mala(
    u_ptr, along_ptr, across_ptr, rejected_ptr, high_ptr, low_ptr, bias_ptr, n, r, K, key, first_chain, first_step,
    steps, alpha, beta, dimensions,
    R: tl.constexpr, B: tl.constexpr, C: tl.constexpr, ON_CHIP: tl.constexpr, OUTSIDE: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Algorithm 2, `steps` times, in place; the acceptance ratio is the one of samplers/mala.py."""
    rows, chain, places, real = chains_of(first_chain, n, r, C, R)
    if ON_CHIP:
        high, low, bias = memories(high_ptr, low_ptr, bias_ptr, 0, R, B)
    u = tl.load(u_ptr + places, mask=real, other=0.0)
    along = tl.load(along_ptr + rows, mask=rows < n, other=0.0)
    across = tl.load(across_ptr + rows, mask=rows < n, other=0.0)
    inside = (tl.arange(0, R) < r)[None, :]
    scale = tl.sqrt(2 * alpha / beta)
    rejected = tl.zeros([C], tl.int32)
    if ON_CHIP:
        attended, lse = attend_on_chip(u, high, low, bias, beta)
    else:
        attended, lse = attend_in_blocks(u, high_ptr, low_ptr, bias_ptr, beta, K, C, R, B)
    slope = u - attended
    log_potential = lse - alpha * beta / 4 * (tl.sum(slope * slope, 1) + along * along + across * across)
    for s in range(steps):
        step = first_step + s
        noise = tl.where(inside, normals(key, chain, step, 0, STEP, C, R, tl.float32, FAST), 0.0)
        # Keeping `new` and not the move from u saves registers: half as fast again.
        new = u + alpha * (attended - u) + scale * noise
        new_along, new_across = along, across
        if OUTSIDE > 0:
            new_along, new_across = propose_outside(
                key, chain, step, along, across, 1 - alpha, scale, dimensions, OUTSIDE, FAST
            )
        if ON_CHIP:
            new_attended, lse = attend_on_chip(new, high, low, bias, beta)
        else:
            new_attended, lse = attend_in_blocks(new, high_ptr, low_ptr, bias_ptr, beta, K, C, R, B)
        slope = new - new_attended
        outside = new_along * new_along + new_across * new_across
        new_log_potential = lse - alpha * beta / 4 * (tl.sum(slope * slope, 1) + outside)
        log_ratio = new_log_potential - log_potential - beta / 2 * tl.sum((new - u) * (attended + new_attended), 1)
        accepted = -exponential(key, chain, step, ACCEPT, tl.float32, FAST) < log_ratio
        rejected += 1 - accepted.to(tl.int32)
        u = tl.where(accepted[:, None], new, u)
        attended = tl.where(accepted[:, None], new_attended, attended)
        log_potential = tl.where(accepted, new_log_potential, log_potential)
        along = tl.where(accepted, new_along, along)
        across = tl.where(accepted, new_across, across)
    tl.store(u_ptr + places, u, mask=real)
    tl.store(along_ptr + rows, along, mask=rows < n)
    tl.store(across_ptr + rows, across, mask=rows < n)
    tl.store(rejected_ptr + rows, rejected, mask=rows < n)
