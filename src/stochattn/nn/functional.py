"""Attention whose queries walk in key space before they read: Algorithm 1 for each query, on tensors of any batch."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from .noise import noise_source
from .walk import Walk

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
    """softmax(beta K ξ) V, with ξ the state of a chain in key space, `n_steps` of Algorithm 1 from the query.

    query: (..., L, d); key: (..., S, d); value: (..., S, v); result (..., L, v). Queries may have a multiple of the
    keys' heads (dimension −3). beta is 1/√d unless given. n_steps = 0 is scaled_dot_product_attention; noise scales
    that of the algorithm, and noise = 0 is the deterministic iteration. attn_mask and is_causal mean what they mean
    there: a key that is hidden from a query is hidden at every step, and a query from which all are hidden reads zeros.
    dropout_p drops weights of the readout, steps see every key. Half precision is computed in float32 once there are
    steps; the result has the dtype that torch's attention would give it.
    """
    walk = Walk(n_steps, alpha, noise, beta, generator)
    _check(query, key, value, attn_mask, is_causal)
    if not 0 <= dropout_p <= 1:
        raise ValueError(f"dropout_p must lie between 0 and 1; got {dropout_p!r}.")
    if not query.numel() or not key.shape[-2]:  # of which torch's own makes an error in some versions
        return query.new_zeros((*query.shape[:-1], value.shape[-1]), dtype=_dtype_of_torch(query))
    mask, blind = _seeing(attn_mask)
    readout: dict[str, Any] = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": walk.beta_of(query)}
    if not n_steps and query.device.type == "cpu" and query.ndim > 2 and query.shape[-3] != key.shape[-3]:
        readout["enable_gqa"] = True  # on a GPU torch would write all weights out for it
    else:
        key, value = _as_many_heads(query, key, value)
    if n_steps:
        xi = _walked(query, key, walk, mask, is_causal)
        with _as_it_is(query):
            out = scaled_dot_product_attention(xi, wide(key), wide(value), attn_mask=_added(mask, xi), **readout)
        out = out.to(_dtype_of_torch(query))
    else:
        out = scaled_dot_product_attention(query, key, value, attn_mask=mask, **readout)
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
    """The states ξ (..., L, d) that `stochastic_attention` reads out: Algorithm 1 from the queries (..., L, d),

    ξ ← (1 − alpha) ξ + alpha attend(ξ) + noise √(2 alpha / beta) ε, n_steps times; half precision in float32.
    A query from which every key is hidden is its own state.
    """
    walk = Walk(n_steps, alpha, noise, beta, generator)
    _check(query, key, key, attn_mask, is_causal)
    if not query.numel() or not key.shape[-2]:
        return wide(query).clone()
    mask, blind = _seeing(attn_mask)
    (key,) = _as_many_heads(query, key)
    xi = _walked(query, key, walk, mask, is_causal)
    return xi if blind is None else torch.where(blind, wide(query), xi)


def _walked(query: Tensor, key: Tensor, walk: Walk, mask: Tensor | None, is_causal: bool) -> Tensor:
    """Algorithm 1 from each query; keys of as many heads, a mask under which every query sees some key."""
    beta = walk.beta_of(query)
    spread = walk.noise * math.sqrt(2 * walk.alpha / beta)
    with _as_it_is(query):
        xi, key = wide(query) if walk.n_steps else wide(query).clone(), wide(key)
        mask = _added(mask, xi)
        add_noise = noise_source(xi, walk.generator)
        for _ in range(walk.n_steps):
            pull = scaled_dot_product_attention(xi, key, key, attn_mask=mask, is_causal=is_causal, scale=beta)
            # where no gradient is asked for, the new state takes the place of the pull
            xi = torch.lerp(xi, pull, walk.alpha) if pull.requires_grad else pull.lerp_(xi, 1 - walk.alpha)
            if spread:
                xi = add_noise(xi, spread)
    return xi


def wide(x: Tensor) -> Tensor:
    """x in float32 if it is in half precision: a logit has no digits to lose."""
    return x.float() if x.dtype in HALF else x


def _as_it_is(query: Tensor) -> AbstractContextManager[Any]:
    """A context without automatic casts to half precision; tensors without numbers know of none."""
    return nullcontext() if query.is_meta else torch.autocast(query.device.type, enabled=False)


def _dtype_of_torch(query: Tensor) -> torch.dtype:
    """The dtype that torch's attention would return."""
    if query.is_meta or query.dtype == torch.float64 or not torch.is_autocast_enabled(query.device.type):
        return query.dtype
    return torch.get_autocast_dtype(query.device.type)


def _added(mask: Tensor | None, xi: Tensor) -> Tensor | None:
    """The mask as numbers to add, in the dtype of the states: torch would make them at every step."""
    if mask is None or mask.dtype != torch.bool:
        return mask if mask is None else mask.to(xi.dtype)
    return torch.zeros(mask.shape, dtype=xi.dtype, device=mask.device).masked_fill_(~mask, -math.inf)


def _seeing(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """The mask with all keys shown to the queries that saw none, and those queries (..., L, 1): they are to read zeros.

    A softmax over nothing is NaN, in some versions of torch its gradient is too.
    """
    if mask is None:
        return None, None
    boolean = mask.dtype == torch.bool
    blind = ~mask.any(-1, keepdim=True) if boolean else (mask == -math.inf).all(-1, keepdim=True)
    if mask.device.type == "cpu" and not torch.compiler.is_compiling() and not blind.any():
        return mask, None
    return mask | blind if boolean else mask.masked_fill(blind, 0.0), blind


def _as_many_heads(query: Tensor, *stored: Tensor) -> tuple[Tensor, ...]:
    """Keys and values repeated where queries have a multiple of their heads."""
    groups = query.shape[-3] // max(stored[0].shape[-3], 1) if query.ndim > 2 else 1
    return stored if groups <= 1 else tuple(x.repeat_interleave(groups, -3) for x in stored)


def _check(query: Any, key: Any, value: Any, mask: Tensor | None, is_causal: bool) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_floating_point() or not x.shape[-1]:
            got = f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"{name} must be a tensor of real numbers, (..., length, width); got {got}.")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"key must have the width of query, {query.shape[-1]}: chains walk among the keys; got {key.shape[-1]}."
        )
    if key.shape[:-1] != value.shape[:-1]:
        raise ValueError(f"value must be (..., S, v) beside key {tuple(key.shape)}; got {tuple(value.shape)}.")
    if not _leads(query, key):
        raise ValueError(
            "query must have the leading dimensions of key, but for a multiple of its heads (dimension -3); got shapes "
            f"{tuple(query.shape)} and {tuple(key.shape)}."
        )
    if mask is not None:
        _check_mask(mask, query, key, is_causal)


def _leads(query: Tensor, key: Tensor) -> bool:
    """Whether each query has its keys: batches are the query's, or of one; heads divide the query's."""
    if query.ndim != key.ndim:
        return False
    heads = query.ndim == 2 or query.shape[-3] % max(key.shape[-3], 1) == 0
    return heads and all(k in (1, q) for q, k in zip(query.shape[:-3], key.shape[:-3], strict=True))


def _check_mask(mask: Any, query: Tensor, key: Tensor, is_causal: bool) -> None:
    if is_causal:
        raise ValueError("attn_mask must be None where is_causal is True, as in torch; add the two, or drop one.")
    if not isinstance(mask, Tensor) or not (mask.dtype == torch.bool or mask.is_floating_point()):
        raise TypeError("attn_mask must be a tensor of booleans (True takes part) or of numbers that are added.")
    scores = (*query.shape[:-1], key.shape[-2])
    try:
        fits = mask.ndim > 1 and torch.broadcast_shapes(mask.shape, scores) == scores
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"attn_mask must broadcast to (..., {scores[-2]}, {scores[-1]}); got {tuple(mask.shape)}.")
