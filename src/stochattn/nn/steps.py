"""LangevinSteps: the checked settings of the steps that queries take, and the checks of tensors of attention."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .._backend.checks import check_alpha, check_beta, check_count, check_non_negative
from .noise import require_generator

HALF = (torch.float16, torch.bfloat16)


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


def require_mask(name: str, mask: Tensor, meaning: str) -> None:
    """TypeError unless a mask is a tensor of booleans or of numbers; `meaning` is that of True."""
    if not isinstance(mask, Tensor) or not (mask.dtype == torch.bool or mask.is_floating_point()):
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"{name} must be a tensor of booleans ({meaning}) or of numbers to add; got {got}.")


def require_shapes(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> None:
    """An error unless the arguments of an attention fit each other."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_floating_point() or not x.shape[-1]:
            got = f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"{name} must be a tensor of real numbers, (..., length, width); got {got}.")
    q, k = query.shape, key.shape
    if q[-1] != k[-1]:
        raise ValueError(f"key must have the width of query, {q[-1]}, so that steps mix the two; got {k[-1]}.")
    if k[:-1] != value.shape[:-1]:
        raise ValueError(f"value must be (..., S, v) beside key {tuple(k)}; got {tuple(value.shape)}.")
    try:
        leading = q[:-2] if q[:-2] == k[:-2] else torch.broadcast_shapes(q[:-2], leading_of_keys(q, k))
    except RuntimeError:
        rule = "query must have the leading dimensions of key, up to broadcasting, or a multiple of its heads (-3)"
        raise ValueError(f"{rule}; got shapes {tuple(q)} and {tuple(k)}.") from None
    if mask is None:
        return
    if is_causal:
        raise ValueError("attn_mask must be None if is_causal is True, as in torch. Combine the two, or drop one.")
    require_mask("attn_mask", mask, "True for a visible key")
    scores = (*leading, q[-2], k[-2])
    fits = all(m in (1, s) for m, s in zip(mask.shape[::-1], scores[::-1], strict=False))
    if not (fits and 1 < mask.ndim <= len(scores)):
        raise ValueError(f"attn_mask must broadcast to (..., {scores[-2]}, {scores[-1]}); got {tuple(mask.shape)}.")


def leading_of_keys(query: torch.Size, key: torch.Size) -> tuple[int, ...]:
    """The leading dimensions (..., heads) of keys once each serves the query heads that share it."""
    shared = len(query) > 2 and len(key) > 2 and key[-3] > 0 and query[-3] % key[-3] == 0 and query[-3] > 1
    return (*key[:-3], query[-3]) if shared else tuple(key[:-2])
