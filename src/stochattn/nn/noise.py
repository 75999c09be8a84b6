"""The normal numbers of Langevin steps: from torch's generators, from a seed, from fast methods on CPUs and on GPUs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from types import ModuleType
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from .. import kernels
from .._backend.arrays import NumpyArray
from .._backend.checks import check_count
from .checkpoints import repeatable


class Attended(NamedTuple):
    """Keys (..., S, d) that states attend to, in float32 or half precision, and numbers to add to the logits."""

    key: Tensor
    mask: Tensor | None
    is_causal: bool


class DeviceNoise:
    """A function add(x, spread): x + spread ε, in place; ε is a function of a random key and of the call's number.

    The steps of one launch have the same noise. So a layer that needs a gradient, for which a checkpoint may repeat
    what it computed without one, repeats its states up to rounding.
    """

    def __init__(self, launch: ModuleType, key: Tensor) -> None:
        self.launch, self.key, self.step = launch, key, 0

    @classmethod
    def of(cls, like: Tensor, generator: torch.Generator | None) -> DeviceNoise | None:
        """Noise for tensors like this one, or None where no kernel generates it."""
        if (launch := kernels.layer_launcher(like)) is None:
            return None
        return cls(launch, torch.randint(2**62, (1,), generator=generator, device=like.device))

    def __call__(self, x: Tensor, spread: float | Tensor) -> Tensor:
        """x + spread ε with new ε ~ N(0, 1)."""
        eps = self.launch.normals(x, self.key, self.step)
        self.step += 1
        return x.addcmul_(eps, spread) if isinstance(spread, Tensor) else x.add_(eps, alpha=spread)


def states_in_one_launch(
    xi: Tensor, attended: Attended, n_steps: int, alpha: float, beta: float, spread: float, noise: DeviceNoise | None
) -> Tensor | None:
    """The states (..., H, L, d) after the steps from xi, in float32; None where no kernel takes them."""
    needs_gradient = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (xi, *attended[:2]))
    if needs_gradient or (launch := kernels.layer_launcher(xi)) is None:
        return None
    unread = torch.zeros(1, dtype=torch.int64, device=xi.device)  # without noise, no key is read
    key = unread if noise is None else noise.key
    steps = launch.Steps(n_steps, alpha, beta, spread, attended.is_causal)
    keys = attended.key.expand(*xi.shape[:-2], *attended.key.shape[-2:])
    states: Tensor | None = launch.states_after_steps(xi, keys, attended.mask, key, steps)
    return states


AddNoise: TypeAlias = "Callable[[Tensor, float | Tensor], Tensor]"
MIN_FAST_NUMBERS = 1 << 15  # numbers per step from which the method of `_by_quantiles` is faster than torch's own
SQRT_2 = math.sqrt(2)


def noise_source(
    like: Tensor, generator: torch.Generator | None, seed: int | Tensor | None = None, n_steps: int = 0
) -> AddNoise:
    """A function add(x, spread): x + spread ε, in place, with new ε ~ N(0, 1) at each call, for x like `like`.

    spread is a number, or a tensor that broadcasts to x. With a seed, ε is a function of it and of the call's number.
    n_steps is the number of calls to come, if it is known; their numbers may then be prepared.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return _plain(like, generator) if seed is None else _from_seed(seed)
    if seed is not None:
        if not is_transformed():
            return _from_seed(seed)
        generator = _seed_generator(
            int(seed), 0, like.device
        )  # vmap decides whether the rows of its batch share numbers
    elif generator is not None:
        generator = repeatable(generator)
    return _from_generator(like, generator, n_steps)


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
    """The seed: an integer, an integer tensor of one element, which may be an input of a graph, or None."""
    if seed is None:
        return None
    if generator is not None:
        raise ValueError("seed must be None if a generator is given: the noise comes from one of them. Drop one.")
    if isinstance(seed, Tensor):
        if seed.numel() != 1 or seed.is_floating_point():
            got = f"{seed.dtype} of shape {tuple(seed.shape)}"
            raise TypeError(f"seed must be an integer, or an integer tensor of one element; got {got}.")
        return seed
    return seed if torch.compiler.is_compiling() else check_count("seed", seed, 0)


def _from_generator(like: Tensor, generator: torch.Generator | None, n_steps: int = 0) -> AddNoise:
    if is_transformed():
        return _plain(like, generator)
    if like.device.type == "cpu" and like.dtype == torch.float32 and like.numel() >= MIN_FAST_NUMBERS:
        return _by_quantiles(like.shape, generator, n_steps)
    return DeviceNoise.of(like, generator) or _plain(like, generator)


def _plain(like: Tensor, generator: torch.Generator | None) -> AddNoise:
    """Normals of torch, without a generator by `randn_like`, which takes the dynamic shapes of a compiled function."""
    transformed = is_transformed()

    def add(x: Tensor, spread: float | Tensor) -> Tensor:
        if generator is None:
            eps = torch.randn_like(x)
        else:
            eps = torch.randn(x.shape, generator=generator, device=like.device, dtype=like.dtype)
        return x + spread * eps if transformed else _add(x, eps, spread)

    return add


def _add(x: Tensor, eps: Tensor, spread: float | Tensor) -> Tensor:
    return x.addcmul_(eps, spread) if isinstance(spread, Tensor) else x.add_(eps, alpha=spread)


def _from_seed(seed: int | Tensor) -> AddNoise:
    """Normals of `torch.ops.stochattn.normal`, which compiled and exported graphs contain as an operation."""
    key, step = seed if isinstance(seed, Tensor) else torch.tensor(seed, device="cpu"), 0

    def add(x: Tensor, spread: float | Tensor) -> Tensor:
        nonlocal step
        step += 1
        return _add(x, normal(key, step, x.shape, x.dtype, x.device), spread)

    return add


@torch.library.custom_op("stochattn::normal", mutates_args=())  # type: ignore[untyped-decorator]
def normal(seed: Tensor, step: int, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Standard normals of a shape, a function of (seed, step); the same in eager, compiled and exported code."""
    out = torch.zeros(tuple(shape), dtype=dtype, device=device)
    return _from_generator(out, _seed_generator(int(seed), step, device))(out, 1.0)


@normal.register_fake  # type: ignore[untyped-decorator]
def _(seed: Tensor, step: int, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device=device)


def _seed_generator(seed: int, step: int, device: torch.device) -> torch.Generator:
    words = np.random.SeedSequence(seed % 2**64, spawn_key=(step,)).generate_state(1, np.uint64)
    return torch.Generator(device).manual_seed(int(words[0] >> np.uint64(1)))


def _by_quantiles(shape: torch.Size, generator: torch.Generator | None, n_steps: int) -> AddNoise:
    """ε = √2 erf⁻¹(u) for u uniform on (−1, 1), computed by torch on all cores from random bits of numpy.

    torch's own bits take four times as long. Few operations use all cores, because each waits for the slowest core, and
    a further thread generates the bits of the next of n_steps calls meanwhile.
    """
    bits = np.random.SFC64(torch.randint(2**32, (4,), generator=generator, device="cpu").tolist())
    uniform = torch.empty(shape, dtype=torch.float32, device="cpu")
    draw: Callable[[], NumpyArray] = partial(bits.random_raw, (uniform.numel() + 1) // 2)  # type: ignore[assignment]
    middle = torch.tensor(2.0**-32, dtype=torch.float32, device="cpu")  # −2³¹ to 2³¹ − 1 has its middle at −½
    unit = 2.0**-31 * (1 - 2.0**-24)  # the largest 32-bit integer gives the largest float below 1, a normal of 5.4
    remaining = n_steps if torch.get_num_threads() > 1 else 0
    ahead = _thread(os.getpid()).submit(draw) if remaining else None  # the same numbers, drawn earlier

    def add(x: Tensor, spread: float | Tensor) -> Tensor:
        nonlocal remaining, ahead
        words = draw() if ahead is None else ahead.result()
        integers = torch.from_numpy(words.view(np.int32)[: uniform.numel()]).view(shape)
        eps = torch.add(middle, integers, alpha=unit, out=uniform).erfinv_()
        if isinstance(spread, Tensor):  # autograd keeps the numbers of each step for the gradient of the spread
            x.addcmul_(eps.clone() if spread.requires_grad else eps, spread, value=SQRT_2)
        else:
            x.add_(eps, alpha=SQRT_2 * spread)
        remaining -= 1
        # The same numbers, drawn while the attention of the next step is computed.
        ahead = _thread(os.getpid()).submit(draw) if remaining > 0 else None
        return x

    return add


@cache
def _thread(process: int) -> ThreadPoolExecutor:
    """The thread of a process that generates bits; a forked process gets a new one, because threads are not forked."""
    return ThreadPoolExecutor(1, "stochattn-noise")
