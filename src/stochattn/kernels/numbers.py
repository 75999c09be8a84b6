"""Random numbers in registers: Philox4x32 counted by (chain, step, place, purpose), as `_philox` counts it in torch.

Here and in the other files of kernels, functions under `triton.jit` run on the device, or in Triton's interpreter.
FAST takes the device's approximate logarithm and sine, right to some 2e-7, for float32; the interpreter has none of
them. `TYPE` is the dtype of the numbers.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

ROUNDS = tl.constexpr(10)


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
    """Standard normals for columns first to first + R of the chains: (C, R). Four of them come of each four words."""
    Q: tl.constexpr = R // 4
    none = tl.zeros([C, Q], tl.int32)
    place = first // 4 + tl.arange(0, Q)[None, :] + none
    a, b, c, d = words(key, chain[:, None] + none, step + none, place, PURPOSE)
    n0, n1 = normal_pair(a, b, TYPE, FAST)
    n2, n3 = normal_pair(c, d, TYPE, FAST)
    return tl.reshape(tl.join(tl.join(n0, n2), tl.join(n1, n3)), [C, R])


@triton.jit
def exponential(key, chain, step, PURPOSE: tl.constexpr, TYPE: tl.constexpr, FAST: tl.constexpr):
    """Standard exponentials, −log u: one a chain."""
    a, _b, _c, _d = words(key, chain, step, tl.zeros(chain.shape, tl.int32), PURPOSE)
    return -log(uniform(a, TYPE), FAST)


@triton.jit
def log_acceptance(x):
    """As in `_philox`: the accurate logarithm, since few chains need it and its digits cancel."""
    series = -x * x * x * x * (0.25 - x * (0.2 - x * (1 / 6 - x * (1 / 7 - x * (0.125 - x * (1 / 9))))))
    direct = tl.log(tl.maximum(1.0 + x, 1e-10)) - x * (1.0 - x * (0.5 - x * (1 / 3)))
    return 3.0 * tl.where(tl.abs(x) < 0.1, series, direct)


@triton.jit
def chi_square(key, chain, step, degrees, PURPOSE: tl.constexpr, TYPE: tl.constexpr, FAST: tl.constexpr):
    """Chi-square numbers of three degrees of freedom or more, one a chain, by the rejection of Marsaglia and Tsang.

    Attempts are counted by place, so that a chain's number does not depend on how many attempts its company takes.
    """
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
