"""Attention whose queries first take Langevin steps in key space: Algorithm 1 for each query, for any batch shape."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from .steps import LangevinSteps, noise_source

HALF = (torch.float16, torch.bfloat16)


def stochastic_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
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
    −3) may be a multiple of the number of key heads. beta is 1/√d by default. n_steps = 0 is
    scaled_dot_product_attention. noise scales the noise of the algorithm; noise = 0 is the deterministic iteration.
    attn_mask and is_causal are those of torch: a key that is masked for a query is masked at every step, and a query
    without any key reads zeros. dropout_p drops weights of the readout only. With steps, half precision is computed in
    float32; the result has the dtype that torch's attention would return.
    """
    steps = LangevinSteps(n_steps, alpha, noise, beta, generator)
    _check(query, key, value, attn_mask, is_causal)
    if not 0 <= dropout_p <= 1:
        raise ValueError(f"dropout_p must lie between 0 and 1; got {dropout_p!r}.")
    if not query.numel() or not key.shape[-2]:  # an error in some versions of torch
        return query.new_zeros((*query.shape[:-1], value.shape[-1]), dtype=_dtype_of_torch(query))
    mask, blind = _without_empty_rows(attn_mask)
    beta = steps.beta_of(query)
    # Not on a GPU, where torch would store all weights for shared heads.
    shared = not n_steps and query.device.type == "cpu" and query.ndim > 2 and query.shape[-3] != key.shape[-3]
    read = partial(
        scaled_dot_product_attention, dropout_p=dropout_p, is_causal=is_causal, scale=beta, enable_gqa=shared
    )
    if not shared:
        key, value = _repeated_heads(query, key, value)
    if n_steps:
        xi = _final_states(query, key, steps, mask, is_causal)
        with _without_autocast(query):
            out = read(xi, wide(key), wide(value), attn_mask=_additive(mask, xi))
        out = out.to(_dtype_of_torch(query))
    else:
        out = read(query, key, value, attn_mask=mask)
    return out if blind is None else out.masked_fill(blind, 0.0)


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

    Each step is ξ ← (1 − alpha) ξ + alpha attend(ξ) + noise √(2 alpha / beta) ε; half precision becomes float32.
    A query for which every key is masked stays where it is.
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
        mask = _additive(mask, xi)
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


def wide(x: Tensor) -> Tensor:
    """x in float32 if it is in half precision, which is too coarse for logits."""
    return x.float() if x.dtype in HALF else x


def _without_autocast(query: Tensor) -> AbstractContextManager[object]:
    """A context without automatic casts to half precision; the meta device has none to turn off."""
    return nullcontext() if query.is_meta else torch.autocast(query.device.type, enabled=False)


def _dtype_of_torch(query: Tensor) -> torch.dtype:
    """The dtype that torch's attention would return."""
    if query.is_meta or query.dtype == torch.float64 or not torch.is_autocast_enabled(query.device.type):
        return query.dtype
    return torch.get_autocast_dtype(query.device.type)


def _additive(mask: Tensor | None, xi: Tensor) -> Tensor | None:
    """The mask as numbers to add, in the dtype of the states, so that torch need not make them at every step."""
    if mask is None or mask.dtype != torch.bool:
        return mask if mask is None else mask.to(xi.dtype)
    return torch.zeros(mask.shape, dtype=xi.dtype, device=mask.device).masked_fill_(~mask, -math.inf)


def _without_empty_rows(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """The mask with all keys visible to the queries that had none, and which queries these are (..., L, 1) or None.

    Their result is set to zero later. A softmax over no keys is NaN, and in some versions of torch so is its gradient.
    """
    if mask is None:
        return None, None
    boolean = mask.dtype == torch.bool
    blind = ~mask.any(-1, keepdim=True) if boolean else (mask == -math.inf).all(-1, keepdim=True)
    if mask.device.type == "cpu" and not torch.compiler.is_compiling() and not blind.any():
        return mask, None
    return mask | blind if boolean else mask.masked_fill(blind, 0.0), blind


def _repeated_heads(query: Tensor, *stored: Tensor) -> tuple[Tensor, ...]:
    """Keys and values, repeated if the queries have a multiple of their heads."""
    groups = query.shape[-3] // max(stored[0].shape[-3], 1) if query.ndim > 2 else 1
    return stored if groups <= 1 else tuple(x.repeat_interleave(groups, -3) for x in stored)


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_floating_point() or not x.shape[-1]:
            got = f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"{name} must be a tensor of real numbers, (..., length, width); got {got}.")
    if query.shape[-1] != key.shape[-1]:
        rule = f"key must have the width of query, {query.shape[-1]}, because steps are taken among the keys"
        raise ValueError(f"{rule}; got {key.shape[-1]}.")
    if key.shape[:-1] != value.shape[:-1]:
        raise ValueError(f"value must be (..., S, v) beside key {tuple(key.shape)}; got {tuple(value.shape)}.")
    batches = zip(query.shape[:-3], key.shape[:-3], strict=False)
    same_heads = query.ndim == key.ndim and (query.ndim == 2 or query.shape[-3] % max(key.shape[-3], 1) == 0)
    if not (same_heads and all(k in (1, q) for q, k in batches)):
        raise ValueError(
            "query must have the leading dimensions of key, or a multiple of its heads in dimension -3; got shapes "
            f"{tuple(query.shape)} and {tuple(key.shape)}."
        )
    if mask is None:
        return
    if is_causal:
        raise ValueError("attn_mask must be None if is_causal is True, as in torch. Combine the two, or drop one.")
    if not isinstance(mask, Tensor) or not (mask.dtype == torch.bool or mask.is_floating_point()):
        kinds = "of booleans (True for a visible key) or of numbers to add to the logits"
        raise TypeError(f"attn_mask must be a tensor {kinds}; got {getattr(mask, 'dtype', type(mask).__name__)}.")
    scores = (*query.shape[:-1], key.shape[-2])
    try:
        fits = mask.ndim > 1 and torch.broadcast_shapes(mask.shape, scores) == scores
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"attn_mask must broadcast to (..., {scores[-2]}, {scores[-1]}); got {tuple(mask.shape)}.")
