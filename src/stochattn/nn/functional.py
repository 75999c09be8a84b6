"""Attention whose queries walk in key space before they read: Algorithm 1 for each query, on tensors of any batch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from .._checks import count, inverse_temperature, non_negative, step_size

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
    generator: torch.Generator | None = None,
) -> Tensor:
    """softmax(beta K ξ) V, with ξ the state of a chain in key space, `n_steps` of Algorithm 1 from the query.

    query: (..., L, d); key: (..., S, d); value: (..., S, v); result (..., L, v). Queries may have a multiple of the
    keys' heads (dimension −3). beta is 1/√d unless given. n_steps = 0 is scaled_dot_product_attention; noise scales
    that of the algorithm, and noise = 0 is the deterministic iteration. attn_mask and is_causal mean what they mean
    there: a key that is hidden from a query is hidden at every step, and a query from which all are hidden reads zeros.
    Half precision is computed in float32 once there are steps; the result has the queries' dtype.
    """
    mask = _checked(query, key, value, attn_mask, is_causal)
    if not count("n_steps", n_steps, 0):
        return _read(query, key, value, _beta(beta, query), mask, is_causal)
    walk: dict[str, Any] = {"beta": beta, "n_steps": n_steps, "alpha": alpha, "noise": noise, "generator": generator}
    xi = langevin_states(query, key, attn_mask=mask, is_causal=is_causal, **walk)
    with torch.autocast(query.device.type, enabled=False):
        out = _read(xi, _wide(key), _wide(value), _beta(beta, query), _as_bias(mask, xi), is_causal)
    return out.to(query.dtype)


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
    """The states ξ (..., L, d) that `stochastic_attention` reads out: Algorithm 1 from the queries (..., L, d),

    ξ ← (1 − alpha) ξ + alpha attend(ξ) + noise √(2 alpha / beta) ε, n_steps times; half precision in float32.
    """
    mask, beta = _checked(query, key, key, attn_mask, is_causal), _beta(beta, query)
    alpha, spread = step_size(alpha), non_negative("noise", noise) * math.sqrt(2 * step_size(alpha) / beta)
    with torch.autocast(query.device.type, enabled=False):
        xi, key = _wide(query), _wide(key)
        mask = _as_bias(mask, xi)
        for _ in range(count("n_steps", n_steps, 0)):
            xi = torch.lerp(xi, _read(xi, key, key, beta, mask, is_causal), alpha)
            if spread:
                eps = torch.randn(xi.shape, generator=generator, device=xi.device, dtype=xi.dtype)
                xi = torch.add(xi, eps, alpha=spread)
    return xi


def _beta(beta: float | None, query: Tensor) -> float:
    return 1 / math.sqrt(query.shape[-1]) if beta is None else inverse_temperature(beta)


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in HALF else x


def _as_bias(mask: Tensor | None, xi: Tensor) -> Tensor | None:
    """A mask of numbers in the dtype of the states; of booleans as it is."""
    return mask if mask is None or mask.dtype == torch.bool else mask.to(xi.dtype)


def _read(xi: Tensor, key: Tensor, value: Tensor, beta: float, mask: Tensor | None, is_causal: bool) -> Tensor:
    """softmax(beta K ξ + mask) V: (..., L, v); zeros where every key is hidden."""
    groups = xi.shape[-3] // key.shape[-3] if xi.ndim > 2 else 1
    if groups > 1:
        key, value = (x.repeat_interleave(groups, -3) for x in (key, value))
    out = scaled_dot_product_attention(xi, key, value, attn_mask=mask, is_causal=is_causal, scale=beta)
    if mask is None:
        return out
    hidden = ~mask if mask.dtype == torch.bool else mask == -math.inf
    return out.masked_fill(hidden.all(-1, keepdim=True), 0.0)  # older versions of torch give NaN there


def _checked(query: Any, key: Any, value: Any, mask: Tensor | None, is_causal: bool) -> Tensor | None:
    """The mask, once all shapes are found to fit."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_floating_point():
            got = f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"{name} must be a tensor of real numbers, (..., length, width); got {got}.")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"key must have the width of query, {query.shape[-1]}: chains walk among the keys; got {key.shape[-1]}."
        )
    if key.shape[:-1] != value.shape[:-1]:
        raise ValueError(f"value must be (..., S, v) beside key {tuple(key.shape)}; got {tuple(value.shape)}.")
    if query.ndim > 2 and (key.ndim != query.ndim or key.shape[-3] == 0 or query.shape[-3] % key.shape[-3]):
        raise ValueError(
            f"query must have as many leading dimensions as key, and a multiple of its heads; got shapes "
            f"{tuple(query.shape)} and {tuple(key.shape)}."
        )
    if mask is None:
        return None
    if is_causal:
        raise ValueError("attn_mask must be None where is_causal is True, as in torch; add the two, or drop one.")
    if not isinstance(mask, Tensor) or not (mask.dtype == torch.bool or mask.is_floating_point()):
        raise TypeError("attn_mask must be a tensor of booleans (True takes part) or of numbers that are added.")
    lengths = query.shape[-2], key.shape[-2]
    try:
        fits = torch.broadcast_shapes(mask.shape, (*query.shape[:-2], *lengths)) == (*query.shape[:-2], *lengths)
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"attn_mask must broadcast to (..., {lengths[0]}, {lengths[1]}); got {tuple(mask.shape)}.")
    return mask
