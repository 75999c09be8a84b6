"""Normal numbers for every step of a walk; on a CPU faster than torch's own, which come from one core."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

FEW = 1 << 15  # below, torch's own are as fast
PART = 1 << 16  # bits are made for so many at once, which stay in the cache
SQRT_2 = math.sqrt(2)


def normal_source(like: Tensor, generator: torch.Generator | None) -> Callable[[], Tensor]:
    """A function that returns standard normals with the shape, dtype and device of `like` at each call.

    The next call may write over them. The same generator in the same state gives the same numbers.
    """
    fast = like.device.type == "cpu" and like.dtype == torch.float32 and like.numel() >= FEW
    if not fast or torch.compiler.is_compiling() or torch.jit.is_tracing():
        if generator is None:
            return lambda: torch.randn_like(like)  # of any length where a compiled function has any
        return lambda: torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype)
    return _by_quantiles(like.shape, generator)


def _by_quantiles(shape: torch.Size, generator: torch.Generator | None) -> Callable[[], Tensor]:
    """√2 erf⁻¹(u) of u uniform on (−1, 1), by torch on all cores, of numpy's bits: torch's take four times as long."""
    bits = np.random.SFC64(torch.randint(2**32, (4,), generator=generator, device="cpu").tolist())
    normals = torch.empty(shape, dtype=torch.float32, device="cpu")
    parts = normals.view(-1).split(PART)
    # the middle of −2³¹ and 2³¹ − 1 is −½
    middle = torch.tensor(2.0**-32, dtype=torch.float32, device="cpu")
    unit = 2.0**-31 * (1 - 2.0**-24)  # the largest of 32 bits gives the largest float below 1, a normal of 5.4

    def draw() -> Tensor:
        for part in parts:
            whole = bits.random_raw((len(part) + 1) // 2).view(np.int32)[: len(part)]
            torch.add(middle, torch.from_numpy(whole), alpha=unit, out=part)
        return normals.erfinv_().mul_(SQRT_2)

    return draw
