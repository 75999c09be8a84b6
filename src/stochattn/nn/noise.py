"""The normal numbers of Langevin steps: from torch's generators, from a seed, and fast ones on a CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from .._backend.checks import count
from .checkpoints import repeatable

AddNoise: TypeAlias = "Callable[[Tensor, float | Tensor], Tensor]"
MIN_FAST_NUMBERS = 1 << 15  # numbers per step from which the method of `_by_quantiles` is faster than torch's own
PAIRS_AT_ONCE = 1 << 14  # pairs of numbers whose bits are generated at once, few enough to stay in the cache
SQRT_2 = math.sqrt(2)


def noise_source(like: Tensor, generator: torch.Generator | None, seed: int | Tensor | None = None) -> AddNoise:
    """A function add(x, spread): x + spread ε, in place, with new ε ~ N(0, 1) at each call, for x like `like`.

    spread is a number, or a tensor that broadcasts to x. With a seed, ε is a function of it and of the call's number.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return _plain(like, generator) if seed is None else _from_seed(seed)
    if seed is not None:
        if not is_transformed():
            return _from_seed(seed)
        generator = _seeded(int(seed), 0, like.device)  # vmap decides whether the rows of its batch share numbers
    elif generator is not None:
        generator = repeatable(generator)
    return _from_generator(like, generator)


def is_transformed() -> bool:
    """Whether torch.func, such as vmap, runs this code: values are then unknown, and changes in place may fail."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._functorch.peek_interpreter_stack() is not None


def require_generator(generator: torch.Generator | None) -> torch.Generator | None:
    """The generator; TypeError if it is something else."""
    if not (generator is None or isinstance(generator, torch.Generator)):
        rule = f"generator must be a torch.Generator or None; got {type(generator).__name__}"
        raise TypeError(f"{rule}. Make one with torch.Generator().manual_seed(0).")
    return generator


def require_seed(seed: int | Tensor | None, generator: torch.Generator | None) -> int | Tensor | None:
    """The seed: a whole number, an integer tensor of one element, which may be an input of a graph, or None."""
    if seed is None:
        return None
    if generator is not None:
        raise ValueError("seed must be None if a generator is given: the noise comes from one of them. Drop one.")
    if isinstance(seed, Tensor):
        if seed.numel() != 1 or seed.is_floating_point():
            got = f"{seed.dtype} of shape {tuple(seed.shape)}"
            raise TypeError(f"seed must be a whole number, or an integer tensor of one element; got {got}.")
        return seed
    return seed if torch.compiler.is_compiling() else count("seed", seed, 0)


def _from_generator(like: Tensor, generator: torch.Generator | None) -> AddNoise:
    fast = like.device.type == "cpu" and like.dtype == torch.float32 and like.numel() >= MIN_FAST_NUMBERS
    return _by_quantiles(like.shape, generator) if fast and not is_transformed() else _plain(like, generator)


def _plain(like: Tensor, generator: torch.Generator | None) -> AddNoise:
    """Normals of torch, without a generator by `randn_like`, which takes the dynamic shapes of a compiled function."""

    def add(x: Tensor, spread: float | Tensor) -> Tensor:
        if generator is None:
            return _added(x, torch.randn_like(x), spread)
        return _added(x, torch.randn(x.shape, generator=generator, device=like.device, dtype=like.dtype), spread)

    return add


def _added(x: Tensor, eps: Tensor, spread: float | Tensor) -> Tensor:
    if is_transformed():
        return x + spread * eps
    return x.addcmul_(eps, spread) if isinstance(spread, Tensor) else x.add_(eps, alpha=spread)


def _from_seed(seed: int | Tensor) -> AddNoise:
    """Normals of `torch.ops.stochattn.normal`, which compiled and exported graphs contain as an operation."""
    key, step = seed if isinstance(seed, Tensor) else torch.tensor(seed, device="cpu"), 0

    def add(x: Tensor, spread: float | Tensor) -> Tensor:
        nonlocal step
        step += 1
        return _added(x, normal(key, step, x.shape, x.dtype, x.device), spread)

    return add


@torch.library.custom_op("stochattn::normal", mutates_args=())  # type: ignore[untyped-decorator]
def normal(seed: Tensor, step: int, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Standard normals of a shape, a function of (seed, step); the same in eager, compiled and exported code."""
    out = torch.zeros(tuple(shape), dtype=dtype, device=device)
    return _from_generator(out, _seeded(int(seed), step, device))(out, 1.0)


@normal.register_fake  # type: ignore[untyped-decorator]
def _(seed: Tensor, step: int, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device=device)


def _seeded(seed: int, step: int, device: torch.device) -> torch.Generator:
    words = np.random.SeedSequence(seed % 2**64, spawn_key=(step,)).generate_state(1, np.uint64)
    return torch.Generator(device).manual_seed(int(words[0] >> np.uint64(1)))


def _by_quantiles(shape: torch.Size, generator: torch.Generator | None) -> AddNoise:
    """ε = √2 erf⁻¹(u) for u uniform on (−1, 1), computed by torch on all cores from random bits of numpy.

    torch's own bits take four times as long. Few operations use all cores, because each waits for the slowest core.
    """
    bits = np.random.SFC64(torch.randint(2**32, (4,), generator=generator, device="cpu").tolist())
    uniform = torch.empty(shape, dtype=torch.float32, device="cpu")
    pairs = np.empty((uniform.numel() + 1) // 2, np.uint64)
    whole = torch.from_numpy(pairs.view(np.int32)[: uniform.numel()]).view(shape)
    middle = torch.tensor(2.0**-32, dtype=torch.float32, device="cpu")  # −2³¹ to 2³¹ − 1 has its middle at −½
    unit = 2.0**-31 * (1 - 2.0**-24)  # the largest 32-bit integer gives the largest float below 1, a normal of 5.4

    def add(x: Tensor, spread: float | Tensor) -> Tensor:
        for begin in range(0, len(pairs), PAIRS_AT_ONCE):
            part = pairs[begin : begin + PAIRS_AT_ONCE]
            part[:] = bits.random_raw(len(part))
        torch.add(middle, whole, alpha=unit, out=uniform)
        eps = uniform.erfinv_()
        if isinstance(spread, Tensor):  # autograd keeps the numbers of each step for the gradient of the spread
            return x.addcmul_(eps.clone() if spread.requires_grad else eps, spread, value=SQRT_2)
        return x.add_(eps, alpha=SQRT_2 * spread)

    return add
