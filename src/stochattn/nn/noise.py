"""Normal noise for every step of a walk; on a CPU faster than torch's own numbers, which come from one core."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

FEW = 1 << 15  # below, torch's own are as fast
PART = 1 << 14  # pairs of numbers whose bits are made at once: they stay in the cache
SQRT_2 = math.sqrt(2)


def noise_source(like: Tensor, generator: torch.Generator | None) -> Callable[[Tensor, float], Tensor]:
    """add(x, spread): x + spread ε in x's place, with new ε ~ N(0, 1) at each call; x of the shape and kind of `like`.

    The same generator in the same state gives the same numbers.
    """
    fast = like.device.type == "cpu" and like.dtype == torch.float32 and like.numel() >= FEW
    if fast and not (torch.compiler.is_compiling() or torch.jit.is_tracing()):
        return _by_quantiles(like.shape, generator)
    if generator is None:  # of any length where a compiled function has any
        return lambda x, spread: x.add_(torch.randn_like(x), alpha=spread)
    options = {"generator": generator, "device": like.device, "dtype": like.dtype}
    return lambda x, spread: x.add_(torch.randn(x.shape, **options), alpha=spread)


def _by_quantiles(shape: torch.Size, generator: torch.Generator | None) -> Callable[[Tensor, float], Tensor]:
    """ε = √2 erf⁻¹(u) of u uniform on (−1, 1), by torch on all cores, of numpy's bits: torch's take four times as long.

    Few operations run on all cores: each of them would wait where another program holds one.
    """
    bits = np.random.SFC64(torch.randint(2**32, (4,), generator=generator, device="cpu").tolist())
    uniform = torch.empty(shape, dtype=torch.float32, device="cpu")
    pairs = np.empty((uniform.numel() + 1) // 2, np.uint64)
    whole = torch.from_numpy(pairs.view(np.int32)[: uniform.numel()]).view(shape)
    # the middle of −2³¹ and 2³¹ − 1 is −½
    middle = torch.tensor(2.0**-32, dtype=torch.float32, device="cpu")
    unit = 2.0**-31 * (1 - 2.0**-24)  # the largest of 32 bits gives the largest float below 1, a normal of 5.4

    def add(x: Tensor, spread: float) -> Tensor:
        for begin in range(0, len(pairs), PART):
            part = pairs[begin : begin + PART]
            part[:] = bits.random_raw(len(part))
        torch.add(middle, whole, alpha=unit, out=uniform)
        return x.add_(uniform.erfinv_(), alpha=SQRT_2 * spread)

    return add
