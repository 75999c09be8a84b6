"""LangevinSteps: the checked settings of the steps that queries take, the noise of steps, and checks of tensors."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from types import ModuleType
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from .. import kernels
from .._backend.arrays import NumpyArray
from .._backend.checks import check_alpha, check_beta, check_count, check_non_negative
from .checkpoints import repeatable

HALF = (torch.float16, torch.bfloat16)
AddNoise: TypeAlias = "Callable[[Tensor, float | Tensor], Tensor]"
MIN_FAST_NUMBERS = 1 << 15  # numbers per step from which the method of `_by_quantiles` is faster than torch's own
SQRT_2 = math.sqrt(2)


@dataclass(frozen=True)
class LangevinSteps:
    """Checked settings of ξ ← (1 − alpha) ξ + alpha attend(ξ) + noise √(2 alpha / beta) ε, taken n_steps times.

    noise = 1 is Algorithm 1, noise = 0 its deterministic iteration. beta is a number, or a tensor that broadcasts to
    (..., L, 1), such as (heads, 1, 1), and may require a gradient; None is the beta of the attention that the steps
    precede. generator = None is torch's default generator.

    >>> from stochattn.nn import LangevinSteps
    >>> LangevinSteps(n_steps=10).alpha
    0.01
    """

    n_steps: int = 0
    alpha: float = 0.01
    noise: float = 1.0
    beta: float | Tensor | None = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        for name in ("n_steps", "alpha", "noise"):
            value = getattr(self, name)
            if isinstance(value, Tensor) and value.requires_grad:
                raise TypeError(f"{name} must be a number; got a tensor that requires a gradient, and it has none.")
        checked = {
            "n_steps": check_count("n_steps", self.n_steps, 0),
            "alpha": check_alpha(self.alpha),
            "noise": check_non_negative("noise", self.noise),
            "beta": None if self.beta is None else check_beta_or_tensor(self.beta),
            "generator": require_generator(self.generator),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)  # as plain numbers, which torch requires for a scale

    def beta_of(self, query: Tensor) -> float | Tensor:
        """The inverse temperature for queries (..., d): beta, or 1/√d if that is None."""
        return 1 / math.sqrt(query.shape[-1]) if self.beta is None else self.beta

    def spread(self, beta: float | Tensor) -> float | Tensor:
        """The standard deviation of the noise of a step, noise √(2 alpha / beta)."""
        variance = 2 * self.alpha / beta
        return self.noise * (variance.sqrt() if isinstance(variance, Tensor) else math.sqrt(variance))

    def state(self) -> Tensor:
        """The settings but the generator as one tensor: n_steps, alpha, noise, the shape of beta and its elements."""
        numbers = [self.n_steps, self.alpha, self.noise, -1]
        if self.beta is not None:
            beta = torch.as_tensor(self.beta, dtype=torch.float64).detach()
            numbers[3:] = [beta.ndim, *beta.shape, *beta.flatten().tolist()]
        return torch.tensor(numbers, dtype=torch.float64)

    @classmethod
    def from_state(cls, state: Tensor, generator: torch.Generator | None = None) -> LangevinSteps:
        """The settings that `state` returned."""
        n_steps, alpha, noise, ndim, *rest = state.tolist()
        sizes = [int(size) for size in rest[: max(int(ndim), 0)]]
        elements = torch.tensor(rest[len(sizes) :], dtype=torch.float64)
        beta = None if ndim < 0 else elements.reshape(sizes)  # a number is checked as such
        return cls(int(n_steps), alpha, noise, beta, generator)

    def __str__(self) -> str:
        shown = {name: x for name, x in vars(self).items() if name != "generator" and x is not None}
        if isinstance(self.beta, Tensor):
            shown["beta"] = f"tensor of shape {tuple(self.beta.shape)}"
        return ", ".join(f"{name}={x}" for name, x in shown.items())


def check_beta_or_tensor(beta: object) -> float | Tensor:
    """A positive number, or a tensor of real numbers with more than one element or a gradient."""
    if not isinstance(beta, Tensor) or (beta.numel() == 1 and not beta.requires_grad):
        return check_beta(beta)
    if not beta.is_floating_point():
        raise TypeError(f"beta must be a number or a tensor of real numbers; got {beta.dtype}.")
    is_functorch = torch._C._functorch.is_functorch_wrapped_tensor(beta)
    is_readable = not (torch.compiler.is_compiling() or beta.is_meta or is_functorch)
    if is_readable and beta.device.type == "cpu" and not bool(((beta > 0) & (beta < math.inf)).all()):
        raise ValueError(f"beta must have positive, finite elements; the smallest is {float(beta.detach().min())}.")
    return beta


def wide(x: Tensor) -> Tensor:
    """x in float32 if it is in half precision, which is too coarse for logits."""
    return x.float() if x.dtype in HALF else x


def additive(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """A mask, True for a visible key, as numbers to add to the logits, so that torch need not convert it each step."""
    if mask is None or mask.dtype != torch.bool:
        return mask if mask is None else mask.to(like.dtype)
    return torch.zeros((), dtype=like.dtype, device=mask.device).masked_fill(~mask, -math.inf)


def describe(x: object) -> str:
    """The dtype and shape of a tensor, or the type of something else, for messages."""
    return f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__


def require_floats(name: str, x: object, shape: str = "(..., d)") -> None:
    """TypeError unless x is a tensor of real numbers."""
    if not (isinstance(x, Tensor) and x.is_floating_point()):
        raise TypeError(f"{name} must be a tensor of real numbers, {shape}; got {describe(x)}.")


def require_mask(name: str, mask: Tensor, meaning: str) -> None:
    """TypeError unless a mask is a tensor of booleans or of numbers; `meaning` is that of True."""
    if not isinstance(mask, Tensor) or not (mask.dtype == torch.bool or mask.is_floating_point()):
        raise TypeError(f"{name} must be a tensor of booleans ({meaning}) or of numbers to add; got {describe(mask)}.")


def require_broadcast(name: str, mask: Tensor, logits: tuple[int, ...], at_least: int = 1) -> None:
    """ValueError unless a mask of `at_least` dimensions broadcasts to logits of this shape."""
    fits = all(m in (1, s) for m, s in zip(mask.shape[::-1], logits[::-1], strict=False))
    if not (fits and at_least <= mask.ndim <= len(logits)):
        raise ValueError(f"{name} must broadcast to the logits, {logits}; got {tuple(mask.shape)}.")


class DeviceNoise:
    """A function add(x, spread): x + spread ε, in place; ε is a function of a random key and of the call's number.

    The steps of one launch have the same noise. So a layer that needs a gradient, for which a checkpoint may repeat
    what it computed without one, repeats its states up to rounding.
    """

    def __init__(self, launch: ModuleType, like: Tensor, generator: torch.Generator | None) -> None:
        self.launch, self.step = launch, 0
        self.key = torch.randint(2**62, (1,), generator=generator, device=like.device)

    def __call__(self, x: Tensor, spread: float | Tensor) -> Tensor:
        """x + spread ε with new ε ~ N(0, 1)."""
        self.step += 1
        return _add(x, self.launch.normals(x, self.key, self.step - 1), spread)


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
        # vmap decides whether the rows of its batch share numbers
        generator = _seed_generator(int(seed), 0, like.device)
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
            raise TypeError(f"seed must be an integer, or an integer tensor of one element; got {describe(seed)}.")
        return seed
    return seed if torch.compiler.is_compiling() else check_count("seed", seed, 0)


def _from_generator(like: Tensor, generator: torch.Generator | None, n_steps: int = 0) -> AddNoise:
    if is_transformed():
        return _plain(like, generator)
    if like.device.type == "cpu" and like.dtype == torch.float32 and like.numel() >= MIN_FAST_NUMBERS:
        return _by_quantiles(like.shape, generator, n_steps)
    launch = kernels.layer_launcher(like)
    return _plain(like, generator) if launch is None else DeviceNoise(launch, like, generator)


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


def _add(x: Tensor, eps: Tensor, spread: float | Tensor, scale: float = 1.0) -> Tensor:
    """x + scale spread ε, in place."""
    if isinstance(spread, Tensor):
        return x.addcmul_(eps, spread, value=scale)
    return x.add_(eps, alpha=scale * spread)


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
        if isinstance(spread, Tensor) and spread.requires_grad:
            eps = eps.clone()  # which autograd keeps for the gradient of the spread
        x = _add(x, eps, spread, SQRT_2)
        remaining -= 1
        # The same numbers, drawn while the attention of the next step is computed.
        ahead = _thread(os.getpid()).submit(draw) if remaining > 0 else None
        return x

    return add


@cache
def _thread(process: int) -> ThreadPoolExecutor:
    """The thread of a process that generates bits; a forked process gets a new one, because threads are not forked."""
    return ThreadPoolExecutor(1, "stochattn-noise")
