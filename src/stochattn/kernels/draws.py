"""Noise laid out in memory, and exact draws from the mixture: each entry made where it is written, in its dtype."""

from __future__ import annotations

import triton
import triton.language as tl

from .._backend.random import Purpose
from .numbers import chi_square, exponential, normals, words

DRAW = tl.constexpr(int(Purpose.DRAW))


@triton.jit(do_not_specialize=["n", "width", "key", "first_chain", "step"])
def fill(
    out_ptr, n, width, key, first_chain, step,
    PURPOSE: tl.constexpr, C: tl.constexpr, D: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Standard normals of a purpose at a step: out (n, width)."""
    rows = tl.program_id(0) * C + tl.arange(0, C)
    columns = tl.program_id(1) * D + tl.arange(0, D)
    values = normals(key, first_chain + rows, step, tl.program_id(1) * D, PURPOSE, C, D, out_ptr.dtype.element_ty, FAST)
    places = rows[:, None].to(tl.int64) * width + columns[None, :]
    tl.store(out_ptr + places, values, mask=(rows[:, None] < n) & (columns[None, :] < width))


@triton.jit(do_not_specialize=["n", "key", "first_chain", "step", "degrees"])
def fill_one_each(
    out_ptr, n, key, first_chain, step, degrees, PURPOSE: tl.constexpr, C: tl.constexpr, FAST: tl.constexpr
):  # fmt: skip
    """A number for each chain, (n,): exponential, or with degrees of freedom chi-square."""
    rows = tl.program_id(0) * C + tl.arange(0, C)
    none = tl.zeros([C], tl.int32)
    if degrees > 0:
        values = chi_square(key, first_chain + rows, step + none, degrees, PURPOSE, out_ptr.dtype.element_ty, FAST)
    else:
        values = exponential(key, first_chain + rows, step + none, PURPOSE, out_ptr.dtype.element_ty, FAST)
    tl.store(out_ptr + rows, values, mask=rows < n)


@triton.jit(do_not_specialize=["n", "key", "first", "K"])
def pick(out_ptr, cumulative_ptr, n, key, first, K, HALVINGS: tl.constexpr, C: tl.constexpr):
    """The memories of draws first to first + n: those whose cumulative weight is the first above a uniform number."""
    rows = tl.program_id(0) * C + tl.arange(0, C)
    none = tl.zeros([C], tl.int32)
    a, b, _c, _d = words(key, first + rows, none + 1, none, DRAW)
    coarse = (a.to(tl.uint32, bitcast=True) >> 5).to(tl.float64)
    fine = (b.to(tl.uint32, bitcast=True) >> 6).to(tl.float64)
    target = (coarse * 67108864.0 + fine) * 1.1102230246251565e-16 * tl.load(cumulative_ptr + K - 1)
    low, high = none, none + K - 1
    for _ in tl.static_range(HALVINGS):
        middle = (low + high) // 2
        above = tl.load(cumulative_ptr + middle) > target
        high = tl.where(above, middle, high)
        low = tl.where(above, low, tl.minimum(middle + 1, high))
    tl.store(out_ptr + rows, low, mask=rows < n)


@triton.jit(do_not_specialize=["n", "d", "key", "first"])
def draw(
    out_ptr, patterns_ptr, memory_ptr, spread_ptr, n, d, key, first,
    C: tl.constexpr, D: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """m_k + spread ε with the memories k that `pick` picked: draws first to first + n, out (n, d)."""
    rows = tl.program_id(0) * C + tl.arange(0, C)
    begin = tl.program_id(1) * D
    columns = begin + tl.arange(0, D)
    memory = tl.load(memory_ptr + rows, mask=rows < n, other=0)
    noise = normals(key, first + rows, 0, begin, DRAW, C, D, out_ptr.dtype.element_ty, FAST)
    spread = tl.load(spread_ptr)  # a number passed by itself would be rounded to float32
    real = (rows[:, None] < n) & (columns[None, :] < d)
    mean = tl.load(patterns_ptr + memory[:, None].to(tl.int64) * d + columns[None, :], mask=real, other=0.0)
    tl.store(out_ptr + rows[:, None].to(tl.int64) * d + columns[None, :], mean + spread * noise, mask=real)
