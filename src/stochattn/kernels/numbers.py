"""Random numbers by Philox4x32 with the counters (chain, step, place, purpose), as in `philox.py`.

The first functions compute them in registers; `fill`, `fill_one_each`, `pick` and `draw` store noise and exact draws.
FAST uses the device's approximate logarithm and sine, accurate to about 2e-7, for float32; Triton's interpreter has no
such functions. `TYPE` is the dtype of the numbers.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .._backend.random import Purpose

ROUNDS = tl.constexpr(10)
DRAW = tl.constexpr(int(Purpose.DRAW))


@triton.jit
def words(key, chain, step, place, PURPOSE: tl.constexpr):
    """Four words of 32 random bits for each entry of the counters, which have one shape."""
    return tl.philox(key, chain, step, place, tl.full(chain.shape, PURPOSE, tl.int32), ROUNDS)


@triton.jit
def uniform(word, TYPE: tl.constexpr):
    """Uniform numbers in (0, 1]: the middle of one of 2³² equal steps, rounded."""
    return word.to(tl.uint32, bitcast=True).to(TYPE) * 2.3283064365386963e-10 + 1.1641532182693481e-10


@triton.jit
def log(x, FAST: tl.constexpr):
    """The natural logarithm."""
    if FAST:
        return libdevice.fast_logf(x)
    return tl.log(x)


@triton.jit
def normal_pair(x, y, TYPE: tl.constexpr, FAST: tl.constexpr):
    """Two standard normals from two words, by Box and Muller; the angle lies in [−π, π)."""
    radius = tl.sqrt(tl.maximum(-2.0 * log(uniform(x, TYPE), FAST), 0.0))  # an approximate log 1 may be above 0
    angle = y.to(tl.int32, bitcast=True).to(TYPE) * 1.4629180792671596e-09
    if FAST:
        return radius * libdevice.fast_cosf(angle), radius * libdevice.fast_sinf(angle)
    return radius * tl.cos(angle), radius * tl.sin(angle)


@triton.jit
def normals(
    key, chain, step, first,
    PURPOSE: tl.constexpr, C: tl.constexpr, R: tl.constexpr, TYPE: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Standard normals for columns first to first + R of the chains: (C, R). Four words give four of them."""
    Q: tl.constexpr = R // 4
    none = tl.zeros([C, Q], tl.int32)
    place = first // 4 + tl.arange(0, Q)[None, :] + none
    a, b, c, d = words(key, chain[:, None] + none, step + none, place, PURPOSE)
    n0, n1 = normal_pair(a, b, TYPE, FAST)
    n2, n3 = normal_pair(c, d, TYPE, FAST)
    return tl.reshape(tl.join(tl.join(n0, n2), tl.join(n1, n3)), [C, R])


@triton.jit
def exponential(key, chain, step, PURPOSE: tl.constexpr, TYPE: tl.constexpr, FAST: tl.constexpr):
    """Standard exponentials, −log u: one per chain."""
    a, _b, _c, _d = words(key, chain, step, tl.zeros(chain.shape, tl.int32), PURPOSE)
    return -log(uniform(a, TYPE), FAST)


@triton.jit
def log_acceptance(x):
    """As in `philox.py`: with the accurate logarithm, since few chains need it and its digits cancel."""
    series = -x * x * x * x * (0.25 - x * (0.2 - x * (1 / 6 - x * (1 / 7 - x * (0.125 - x * (1 / 9))))))
    direct = tl.log(tl.maximum(1.0 + x, 1e-10)) - x * (1.0 - x * (0.5 - x * (1 / 3)))
    return 3.0 * tl.where(tl.abs(x) < 0.1, series, direct)


@triton.jit
def chi_square(key, chain, step, degrees, PURPOSE: tl.constexpr, TYPE: tl.constexpr, FAST: tl.constexpr):
    """Chi-square numbers of three degrees or more, one per chain, by the rejection of Marsaglia and Tsang."""
    shape = degrees.to(TYPE) * 0.5 - 0.3333333333333333
    spread = 1.0 / tl.sqrt(9.0 * shape)
    value = tl.zeros(chain.shape, TYPE)
    waiting = tl.full(chain.shape, 1, tl.int32)
    attempt = tl.zeros(chain.shape, tl.int32)
    while tl.sum(waiting) > 0:
        a, b, c, _d = words(key, chain, step, attempt, PURPOSE)
        normal, _ = normal_pair(a, b, TYPE, FAST)
        x = spread * normal
        right = (x > -1.0) & (log(uniform(c, TYPE), FAST) < shape * log_acceptance(x))
        value = tl.where((waiting > 0) & right, 2.0 * shape * (1.0 + x) * (1.0 + x) * (1.0 + x), value)
        waiting = tl.where(right, 0, waiting)
        attempt += 1
    return value


@triton.jit(do_not_specialize=["n", "width", "key", "first_chain", "step"])
def fill(
    out_ptr, n, width, key, first_chain, step,
    PURPOSE: tl.constexpr, C: tl.constexpr, D: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Standard normals of a purpose at a step: out (n, width). The key is a number, or the address of one."""
    if key.dtype.is_ptr():
        key = tl.load(key)
    rows = tl.program_id(0) * C + tl.arange(0, C)
    columns = tl.program_id(1) * D + tl.arange(0, D)
    values = normals(key, first_chain + rows, step, tl.program_id(1) * D, PURPOSE, C, D, out_ptr.dtype.element_ty, FAST)
    places = rows[:, None].to(tl.int64) * width + columns[None, :]
    tl.store(out_ptr + places, values, mask=(rows[:, None] < n) & (columns[None, :] < width))


@triton.jit(do_not_specialize=["n", "key", "first_chain", "step", "degrees"])
def fill_one_each(
    out_ptr, n, key, first_chain, step, degrees, PURPOSE: tl.constexpr, C: tl.constexpr, FAST: tl.constexpr
):  # fmt: skip
    """One number per chain, (n,): exponential, or chi-square if `degrees` is positive."""
    rows = tl.program_id(0) * C + tl.arange(0, C)
    none = tl.zeros([C], tl.int32)
    if degrees > 0:
        values = chi_square(key, first_chain + rows, step + none, degrees, PURPOSE, out_ptr.dtype.element_ty, FAST)
    else:
        values = exponential(key, first_chain + rows, step + none, PURPOSE, out_ptr.dtype.element_ty, FAST)
    tl.store(out_ptr + rows, values, mask=rows < n)


@triton.jit(do_not_specialize=["n", "key", "first", "K"])
def pick(out_ptr, cumulative_ptr, n, key, first, K, HALVINGS: tl.constexpr, C: tl.constexpr):
    """The memories of draws first to first + n: the first whose cumulative weight exceeds a uniform number."""
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
    """m_k + spread ε with the memories k that `pick` chose: draws first to first + n, out (n, d)."""
    rows = tl.program_id(0) * C + tl.arange(0, C)
    begin = tl.program_id(1) * D
    columns = begin + tl.arange(0, D)
    memory = tl.load(memory_ptr + rows, mask=rows < n, other=0)
    noise = normals(key, first + rows, 0, begin, DRAW, C, D, out_ptr.dtype.element_ty, FAST)
    spread = tl.load(spread_ptr)  # a number passed by itself would be rounded to float32
    real = (rows[:, None] < n) & (columns[None, :] < d)
    mean = tl.load(patterns_ptr + memory[:, None].to(tl.int64) * d + columns[None, :], mask=real, other=0.0)
    tl.store(out_ptr + rows[:, None].to(tl.int64) * d + columns[None, :], mean + spread * noise, mask=real)
