"""Attention whose queries first take Langevin steps in key space: Algorithm 1 for each query, for any batch shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from .._backend.checks import count, inverse_temperature, non_negative, step_size
from .sharded_layers import attended_after_steps
from .sharded_memory import ShardedMemory

HALF = (torch.float16, torch.bfloat16)
MIN_FAST_NUMBERS = 1 << 15  # numbers per step from which the method of `_by_quantiles` is faster than torch's own
PAIRS_AT_ONCE = 1 << 14  # pairs of numbers whose bits are generated at once, few enough to stay in the cache
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
                raise TypeError(f"{name} must be a number; got a tensor that requires a gradient, and it has none.")
        checked = {
            "n_steps": count("n_steps", self.n_steps, 0),
            "alpha": step_size(self.alpha),
            "noise": non_negative("noise", self.noise),
            "beta": None if self.beta is None else inverse_temperature(self.beta),
            "generator": require_generator(self.generator),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)  # as plain numbers, which torch requires for a scale

    def beta_of(self, query: Tensor) -> float:
        """The inverse temperature for queries (..., d): beta, or 1/√d if that is None."""
        return 1 / math.sqrt(query.shape[-1]) if self.beta is None else self.beta

    def __str__(self) -> str:
        return ", ".join(f"{name}={x}" for name, x in vars(self).items() if name != "generator" and x is not None)


def stochastic_attention(
    query: Tensor,
    key: Tensor | ShardedMemory,
    value: Tensor | ShardedMemory,
    *,
    beta: float | None = None,
    n_steps: int = 0,
    alpha: float = 0.01,
    noise: float = 1.0,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    dropout_p: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """softmax(beta K ξ) V, where ξ is the state after `n_steps` of Algorithm 1 from the query in key space.

    query: (..., L, d); key: (..., S, d); value: (..., S, v); result: (..., L, v). The number of query heads (dimension
    −3) may be a multiple of the number of key heads. n_steps, alpha, noise, beta (1/√d by default) and generator are
    those of `LangevinSteps`; n_steps = 0 is scaled_dot_product_attention, whose masks these are. A key that is masked
    for a query is masked at every step, and a query without any key reads zeros. dropout_p drops weights of the readout
    only. With steps, half precision is computed in float32; the result has the dtype that torch's attention would have.

    key and value may be one ShardedMemory, in which every query (..., d) looks: (..., d) -> (..., v), without masks and
    dropout, at the beta of the memory unless another is given. Generators must be in the same state on all ranks.
    """
    if isinstance(key, ShardedMemory) or isinstance(value, ShardedMemory):
        steps_of = partial(LangevinSteps, n_steps, alpha, noise, beta, generator)
        unsupported = {"attn_mask": attn_mask is not None, "is_causal": bool(is_causal), "dropout_p": bool(dropout_p)}
        return attended_after_steps(query, key, value, beta, steps_of, unsupported, noise_source)
    steps = LangevinSteps(n_steps, alpha, noise, beta, generator)
    _check(query, key, value, attn_mask, is_causal)
    if not 0 <= dropout_p <= 1:
        raise ValueError(f"dropout_p must lie between 0 and 1; got {dropout_p!r}.")
    dtype = query.dtype
    if not query.is_meta and dtype != torch.float64 and torch.is_autocast_enabled(query.device.type):
        dtype = torch.get_autocast_dtype(query.device.type)  # which torch's attention would return
    if not query.numel() or not key.shape[-2]:  # an error in some versions of torch
        return query.new_zeros((*query.shape[:-1], value.shape[-1]), dtype=dtype)
    mask, blind = _without_empty_rows(attn_mask)
    # Not on a GPU, where torch would store all weights for shared heads.
    shared = not n_steps and query.device.type == "cpu" and query.ndim > 2 and query.shape[-3] != key.shape[-3]
    beta = steps.beta_of(query)
    if not shared:
        key, value = _repeated_heads(query, key, value)
    if n_steps:
        query, key, value = _final_states(query, key, steps, mask, is_causal), wide(key), wide(value)
        mask = additive(mask, query)
    with _without_autocast(query) if n_steps else nullcontext():
        out = scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal, scale=beta, enable_gqa=shared)
    return out.to(dtype) if blind is None else out.to(dtype).masked_fill(blind, 0.0)


def langevin_states(
    query: Tensor,
    key: Tensor,
    *,
    beta: float | None = None,
    n_steps: int = 1,
    alpha: float = 0.01,
    noise: float = 1.0,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The states ξ (..., L, d) that `stochastic_attention` reads out, after Algorithm 1 from the queries (..., L, d).

    Half precision becomes float32. A query for which every key is masked stays where it is.
    """
    steps = LangevinSteps(n_steps, alpha, noise, beta, generator)
    _check(query, key, key, attn_mask, is_causal)
    if not query.numel() or not key.shape[-2]:
        return wide(query).clone()
    mask, blind = _without_empty_rows(attn_mask)
    (key,) = _repeated_heads(query, key)
    xi = _final_states(query, key, steps, mask, is_causal)
    return xi if blind is None else torch.where(blind, wide(query), xi)


def _final_states(query: Tensor, key: Tensor, steps: LangevinSteps, mask: Tensor | None, is_causal: bool) -> Tensor:
    """The states after Algorithm 1 from each query; keys have the heads of the queries, and no mask row is empty."""
    beta = steps.beta_of(query)
    spread = steps.noise * math.sqrt(2 * steps.alpha / beta)
    with _without_autocast(query):
        xi, key = wide(query) if steps.n_steps else wide(query).clone(), wide(key)
        mask = additive(mask, xi)
        add_noise = noise_source(xi, steps.generator)
        for _ in range(steps.n_steps):
            attended = scaled_dot_product_attention(xi, key, key, attn_mask=mask, is_causal=is_causal, scale=beta)
            if attended.requires_grad:
                xi = torch.lerp(xi, attended, steps.alpha)
            else:  # without a gradient, the new state overwrites the attended one
                xi = attended.lerp_(xi, 1 - steps.alpha)
            if spread:
                xi = add_noise(xi, spread)
    return xi


def noise_source(like: Tensor, generator: torch.Generator | None) -> Callable[[Tensor, float], Tensor]:
    """A function add(x, spread): x + spread ε, in place, with new ε ~ N(0, 1) at each call, for x like `like`."""
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
    middle = torch.tensor(2.0**-32, dtype=torch.float32, device="cpu")  # −2³¹ to 2³¹ − 1 has its middle at −½
    unit = 2.0**-31 * (1 - 2.0**-24)  # the largest 32-bit integer gives the largest float below 1, a normal of 5.4

    def add(x: Tensor, spread: float) -> Tensor:
        for begin in range(0, len(pairs), PAIRS_AT_ONCE):
            part = pairs[begin : begin + PAIRS_AT_ONCE]
            part[:] = bits.random_raw(len(part))
        torch.add(middle, whole, alpha=unit, out=uniform)
        return x.add_(uniform.erfinv_(), alpha=SQRT_2 * spread)

    return add


def wide(x: Tensor) -> Tensor:
    """x in float32 if it is in half precision, which is too coarse for logits."""
    return x.float() if x.dtype in HALF else x


def additive(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """A mask, True for a visible key, as numbers to add to the logits, which torch need not make at each step then."""
    if mask is None or mask.dtype != torch.bool:
        return mask if mask is None else mask.to(like.dtype)
    return torch.zeros(mask.shape, dtype=like.dtype, device=mask.device).masked_fill_(~mask, -math.inf)


def require_generator(generator: torch.Generator | None) -> torch.Generator | None:
    """The generator; TypeError if it is something else."""
    if not (generator is None or isinstance(generator, torch.Generator)):
        rule = f"generator must be a torch.Generator or None; got {type(generator).__name__}"
        raise TypeError(f"{rule}. Make one with torch.Generator().manual_seed(0).")
    return generator


def require_mask(name: str, mask: Tensor, meaning: str) -> None:
    """TypeError unless a mask is a tensor of booleans or of numbers; `meaning` is that of True."""
    if not isinstance(mask, Tensor) or not (mask.dtype == torch.bool or mask.is_floating_point()):
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"{name} must be a tensor of booleans ({meaning}) or of numbers to add; got {got}.")


def _without_autocast(query: Tensor) -> AbstractContextManager[object]:
    """A context without automatic casts to half precision; the meta device has none to turn off."""
    return nullcontext() if query.is_meta else torch.autocast(query.device.type, enabled=False)


def _without_empty_rows(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """The mask with all keys visible to the queries that had none, and which queries these are (..., L, 1) or None."""
    if mask is None:  # a softmax over no keys is NaN, and in some versions of torch so is its gradient
        return None, None
    boolean = mask.dtype == torch.bool
    blind = ~mask.any(-1, keepdim=True) if boolean else (mask == -math.inf).all(-1, keepdim=True)
    if mask.device.type == "cpu" and not torch.compiler.is_compiling() and not blind.any():
        return mask, None
    return mask | blind if boolean else mask.masked_fill(blind, 0.0), blind


def _repeated_heads(query: Tensor, *stored: Tensor) -> tuple[Tensor, ...]:
    groups = query.shape[-3] // max(stored[0].shape[-3], 1) if query.ndim > 2 else 1
    return stored if groups <= 1 else tuple(x.repeat_interleave(groups, -3) for x in stored)


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_floating_point() or not x.shape[-1]:
            got = f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"{name} must be a tensor of real numbers, (..., length, width); got {got}.")
    q, k = tuple(query.shape), tuple(key.shape)
    if q[-1] != k[-1]:
        raise ValueError(f"key must have the width of query, {q[-1]}, so that steps mix the two; got {k[-1]}.")
    if k[:-1] != value.shape[:-1]:
        raise ValueError(f"value must be (..., S, v) beside key {k}; got {tuple(value.shape)}.")
    same_heads = len(q) == len(k) and (len(q) == 2 or q[-3] % max(k[-3], 1) == 0)
    if not (same_heads and all(k[i] in (1, q[i]) for i in range(len(q) - 3))):
        rule = "query must have the leading dimensions of key, or a multiple of its heads in dimension -3"
        raise ValueError(f"{rule}; got shapes {q} and {k}.")
    if mask is None:
        return
    if is_causal:
        raise ValueError("attn_mask must be None if is_causal is True, as in torch. Combine the two, or drop one.")
    require_mask("attn_mask", mask, "True for a visible key")
    scores = (*q[:-1], k[-2])
    fits = all(m in (1, s) for m, s in zip(mask.shape[::-1], scores[::-1], strict=False))
    if not (fits and 1 < mask.ndim <= len(scores)):
        raise ValueError(f"attn_mask must broadcast to (..., {scores[-2]}, {scores[-1]}); got {tuple(mask.shape)}.")
