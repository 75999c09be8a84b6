"""The Langevin steps that queries take in key space before they are read out: their settings and their noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .._backend.checks import count, inverse_temperature, non_negative, step_size

MIN_FAST_NUMBERS = 1 << 15
"""Numbers per step from which the method of `_by_quantiles` is faster than torch's own."""
PAIRS_AT_ONCE = 1 << 14
"""Pairs of numbers whose bits are generated at once, few enough to stay in the cache."""
SQRT_2 = math.sqrt(2)


@dataclass(frozen=True)
class LangevinSteps:
    """Checked settings of ξ ← (1 − alpha) ξ + alpha attend(ξ) + noise √(2 alpha / beta) ε, taken n_steps times.

    noise = 1 is Algorithm 1, noise = 0 its deterministic iteration. beta = None is the beta of the attention that the
    steps precede. generator = None is torch's default generator.
    """

    n_steps: int = 0
    alpha: float = 0.01
    noise: float = 1.0
    beta: float | None = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and value.requires_grad:
                raise TypeError(
                    f"{name} must be a number; got a tensor that requires a gradient, and this argument has none."
                )
        checked = {
            "n_steps": count("n_steps", self.n_steps, 0),
            "alpha": step_size(self.alpha),
            "noise": non_negative("noise", self.noise),
            "beta": None if self.beta is None else inverse_temperature(self.beta),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)  # as plain numbers, which torch requires for a scale
        if not (self.generator is None or isinstance(self.generator, torch.Generator)):
            raise TypeError(
                f"generator must be a torch.Generator or None; got {type(self.generator).__name__}. "
                "Make one with torch.Generator().manual_seed(0)."
            )

    def beta_of(self, query: Tensor) -> float:
        """The inverse temperature for queries (..., d): beta, or 1/√d if that is None."""
        return 1 / math.sqrt(query.shape[-1]) if self.beta is None else self.beta

    def __str__(self) -> str:
        settings = {name: getattr(self, name) for name in ("n_steps", "alpha", "noise", "beta")}
        return ", ".join(f"{name}={value}" for name, value in settings.items() if value is not None)


def noise_source(like: Tensor, generator: torch.Generator | None) -> Callable[[Tensor, float], Tensor]:
    """A function add(x, spread): x + spread ε, in place, with new ε ~ N(0, 1) at each call, for x like `like`.

    The same generator in the same state gives the same numbers.
    """
    fast = like.device.type == "cpu" and like.dtype == torch.float32 and like.numel() >= MIN_FAST_NUMBERS
    if fast and not (torch.compiler.is_compiling() or torch.jit.is_tracing()):
        return _by_quantiles(like.shape, generator)
    if generator is None:  # `randn_like` also takes the dynamic shapes of a compiled function
        return lambda x, spread: x.add_(torch.randn_like(x), alpha=spread)
    options = {"generator": generator, "device": like.device, "dtype": like.dtype}
    return lambda x, spread: x.add_(torch.randn(x.shape, **options), alpha=spread)


def _by_quantiles(shape: torch.Size, generator: torch.Generator | None) -> Callable[[Tensor, float], Tensor]:
    """ε = √2 erf⁻¹(u) for u uniform on (−1, 1), computed by torch on all cores from random bits of numpy.

    torch's own bits take four times as long. Few operations use all cores, because each waits for the slowest core.
    """
    bits = np.random.SFC64(torch.randint(2**32, (4,), generator=generator, device="cpu").tolist())
    uniform = torch.empty(shape, dtype=torch.float32, device="cpu")
    pairs = np.empty((uniform.numel() + 1) // 2, np.uint64)
    whole = torch.from_numpy(pairs.view(np.int32)[: uniform.numel()]).view(shape)
    # −2³¹ to 2³¹ − 1 has its middle at −½
    middle = torch.tensor(2.0**-32, dtype=torch.float32, device="cpu")
    unit = 2.0**-31 * (1 - 2.0**-24)  # the largest 32-bit integer gives the largest float below 1, a normal of 5.4

    def add(x: Tensor, spread: float) -> Tensor:
        for begin in range(0, len(pairs), PAIRS_AT_ONCE):
            part = pairs[begin : begin + PAIRS_AT_ONCE]
            part[:] = bits.random_raw(len(part))
        torch.add(middle, whole, alpha=unit, out=uniform)
        return x.add_(uniform.erfinv_(), alpha=SQRT_2 * spread)

    return add
