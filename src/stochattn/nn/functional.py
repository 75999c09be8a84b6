"""Attention whose queries first take Langevin steps in key space: Algorithm 1 for each query, for any batch shape."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import dropout, pad, scaled_dot_product_attention

from .. import kernels
from .._backend.checks import check_positive
from ..storage.ranks import Fact
from .ranks import ShardedMemory, require_left_out
from .steps import (
    AddNoise,
    DeviceNoise,
    LangevinSteps,
    additive,
    describe,
    is_transformed,
    noise_source,
    require_broadcast,
    require_floats,
    require_mask,
    require_seed,
    wide,
)


def stochastic_attention(
    query: Tensor,
    key: Tensor | ShardedMemory,
    value: Tensor | ShardedMemory,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | Tensor | None = None,
    enable_gqa: bool = False,
    beta: float | Tensor | None = None,
    n_steps: int = 0,
    alpha: float = 0.01,
    noise: float = 1.0,
    generator: torch.Generator | None = None,
    seed: int | Tensor | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """softmax(beta K ξ) V, where ξ is the state after `n_steps` of Algorithm 1 from the query in key space.

    query: (..., L, d); key: (..., S, d); value: (..., S, v); result: (..., L, v). Arguments up to enable_gqa are those
    of scaled_dot_product_attention, which this is for n_steps = 0; scale is another name of beta, and heads may share
    keys without enable_gqa too. n_steps, alpha, noise, beta and generator are those of `LangevinSteps`. With a seed, an
    integer or an integer tensor, the noise is a function of it, also in compiled and exported graphs. Masks hold
    at every step, a query without any key reads zeros, and dropout_p drops weights of the readout only. Half precision
    takes its steps in float32; the result has the dtype that torch's attention would have.

    softcap c replaces the logits by c tanh(logits / c). sinks (heads,) are logits of a key and a value at the origin.
    key and value may be one ShardedMemory, in which every query (..., d) looks: (..., d) -> (..., v), at its beta
    unless another is given, without masks and dropout. Generators must be in the same state on all ranks.

    >>> import torch, stochattn.nn
    >>> q, k, v = torch.zeros(2, 4), torch.eye(4), torch.ones(4, 3)
    >>> stochattn.nn.stochastic_attention(q, k, v, n_steps=5, seed=0).shape
    torch.Size([2, 3])
    """
    beta = _choose_beta(beta, scale)
    steps_of = partial(LangevinSteps, n_steps, alpha, noise, beta, generator)
    if isinstance(key, ShardedMemory) or isinstance(value, ShardedMemory):
        is_passed = {"attn_mask": attn_mask is not None, "is_causal": is_causal, "softcap": softcap is not None}
        is_passed |= {"dropout_p": bool(dropout_p), "seed": seed is not None, "sinks": sinks is not None}
        return _attend_on_ranks(query, key, value, beta, steps_of, is_passed)
    steps = steps_of()
    query, groups = _check_shapes(query, key, value, attn_mask, is_causal)
    if not 0 <= dropout_p <= 1:
        raise ValueError(f"dropout_p must lie between 0 and 1; got {dropout_p!r}.")
    seed, dtype = require_seed(seed, generator), query.dtype
    if not query.is_meta and dtype != torch.float64 and torch.is_autocast_enabled(query.device.type):
        dtype = torch.get_autocast_dtype(query.device.type)  # which torch's attention would return
    if not query.numel() or not key.shape[-2]:  # an error in some versions of torch
        return query.new_zeros((*query.shape[:-1], value.shape[-1]), dtype=dtype)
    # Not on a GPU, where torch would store all weights for shared heads.
    plain = not steps.n_steps and softcap is None and sinks is None
    share = plain and query.device.type == "cpu" and bool(groups > 1)
    if not share:
        key, value = _repeat_heads(groups, key, value)
    keys, blind = _prepare_keys(query, key, steps, attn_mask, is_causal, softcap, sinks)
    value = value if sinks is None else pad(value, (0, 0, 0, 1))
    if steps.n_steps:
        keys, value = keys.wide(), wide(value)
        query = _final_states(query, keys, steps, seed)
    with _without_autocast(query) if steps.n_steps else nullcontext():
        out = keys.attend(query, value, dropout_p, share)
    return out.to(dtype) if blind is None else out.to(dtype).masked_fill(blind, 0.0)


def langevin_states(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    *,
    scale: float | Tensor | None = None,
    beta: float | Tensor | None = None,
    n_steps: int = 1,
    alpha: float = 0.01,
    noise: float = 1.0,
    generator: torch.Generator | None = None,
    seed: int | Tensor | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """The states ξ (..., L, d) that `stochastic_attention` reads out, after Algorithm 1 from the queries (..., L, d).

    Half precision becomes float32. A query for which every key is masked stays where it is.

    >>> import torch, stochattn.nn
    >>> stochattn.nn.langevin_states(torch.zeros(2, 4), torch.eye(4), n_steps=5, seed=0).shape
    torch.Size([2, 4])
    """
    steps = LangevinSteps(n_steps, alpha, noise, _choose_beta(beta, scale), generator)
    query, groups = _check_shapes(query, key, key, attn_mask, is_causal)
    if not query.numel() or not key.shape[-2]:
        return wide(query).clone()
    (key,) = _repeat_heads(groups, key)
    keys, blind = _prepare_keys(query, key, steps, attn_mask, is_causal, softcap, sinks)
    xi = _final_states(query, keys.wide(), steps, require_seed(seed, generator))
    return xi if blind is None else torch.where(blind, wide(query), xi)


@dataclass(frozen=True)
class Keys:
    """Keys (..., S, d) of an attention, with what changes its logits; no row of the mask is empty."""

    key: Tensor
    beta: float | Tensor
    mask: Tensor | None = None
    is_causal: bool = False
    softcap: float | None = None
    stored: Tensor | None = None  # the keys in their own dtype, if `key` is in that of the states

    def wide(self) -> Keys:
        """The keys in the dtype of the states that take steps, with the mask as numbers to add."""
        key = wide(self.key)
        return replace(self, key=key, mask=additive(self.mask, key), stored=self.key)

    def attend(self, xi: Tensor, value: Tensor, dropout_p: float = 0.0, share: bool = False) -> Tensor:
        """softmax(beta K ξ) V for states (..., L, d) and values (..., S, v); share: heads of queries share keys."""
        if self.softcap is not None:
            return dropout(self.weights(xi), dropout_p) @ value
        scale = 1.0 if isinstance(self.beta, Tensor) else self.beta
        xi = xi * self.beta.to(xi) if isinstance(self.beta, Tensor) else xi
        return scaled_dot_product_attention(
            xi, self.key, value, self.mask, dropout_p, self.is_causal, scale=scale, enable_gqa=share
        )

    def weights(self, xi: Tensor) -> Tensor:
        """softmax(beta K ξ) for states (..., L, d): (..., L, S)."""
        beta = self.beta.to(xi) if isinstance(self.beta, Tensor) else self.beta
        logits = (beta * xi) @ self.key.mT
        if self.softcap is not None:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        mask = _causal(xi, self.key) if self.is_causal else self.mask
        return (logits if mask is None else logits + additive(mask, logits)).softmax(-1)


def _prepare_keys(
    query: Tensor,
    key: Tensor,
    steps: LangevinSteps,
    mask: Tensor | None,
    is_causal: bool,
    softcap: float | None,
    sinks: Tensor | None,
) -> tuple[Keys, Tensor | None]:
    """The keys as the queries see them, and whether a query has no key, (..., L, 1) or None."""
    (mask, blind), beta, rows = fill_empty_rows(mask), steps.beta_of(query), (*query.shape[:-1], 1)
    softcap = None if softcap is None else check_positive("softcap", softcap, "None is no cap.")
    if sinks is not None:
        mask = _mask_with_sinks(query, key, additive(_causal(query, key) if is_causal else mask, query), sinks)
        key, is_causal = pad(key, (0, 0, 0, 1)), False
    if isinstance(beta, Tensor) and torch.broadcast_shapes(beta.shape, rows) != rows:
        raise ValueError(f"beta must be a number or broadcast to (..., L, 1), here {rows}; got {tuple(beta.shape)}.")
    return Keys(key, beta, mask, is_causal, softcap), blind


def _mask_with_sinks(query: Tensor, key: Tensor, mask: Tensor | None, sinks: Tensor) -> Tensor:
    """Numbers to add to the logits of all keys and of a last one, the sink: (..., heads, L, S + 1)."""
    heads = query.shape[-3] if query.ndim > 2 else 1
    if not isinstance(sinks, Tensor) or tuple(sinks.shape) != (heads,):
        raise ValueError(f"sinks must be a tensor of shape ({heads},), one logit per head; got {describe(sinks)}.")
    seen = query.new_zeros((1, key.shape[-2])) if mask is None else mask
    column = sinks.to(seen.dtype).reshape((-1, 1, 1) if query.ndim > 2 else (1, 1))
    rows = torch.broadcast_shapes(seen.shape[:-1], column.shape[:-1])
    return torch.cat([seen.expand(*rows, -1), column.expand(*rows, 1)], -1)


def _final_states(query: Tensor, keys: Keys, steps: LangevinSteps, seed: int | Tensor | None) -> Tensor:
    """The states after Algorithm 1 from each query, among keys in the dtype of the states."""
    with _without_autocast(query):
        xi = wide(query) if steps.n_steps else wide(query).clone()
        spread = steps.spread(keys.beta)
        spread = spread.to(xi) if isinstance(spread, Tensor) else spread
        add_noise = noise_source(xi, steps.generator, seed, steps.n_steps) if steps.noise else None
        if (states := _in_one_launch(xi, keys, steps, spread, add_noise)) is not None:
            return states
        transformed = is_transformed()
        for _ in range(steps.n_steps):
            attended = keys.attend(xi, keys.key)
            if transformed or attended.requires_grad:
                xi = torch.lerp(xi, attended, steps.alpha)
            else:  # without a gradient, the new state overwrites the attended one
                xi = attended.lerp_(xi, 1 - steps.alpha)
            if add_noise is not None:
                xi = add_noise(xi, spread)
    return xi


def _in_one_launch(
    xi: Tensor, keys: Keys, steps: LangevinSteps, spread: float | Tensor, add_noise: AddNoise | None
) -> Tensor | None:
    """The states after all steps in float32, where a kernel takes them, with the noise of steps in a loop."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or is_transformed() or keys.softcap is not None:
        return None
    if isinstance(keys.beta, Tensor) or not (add_noise is None or isinstance(add_noise, DeviceNoise)):
        return None
    key = cast(Tensor, keys.stored)
    needs_gradient = any(x is not None and x.requires_grad for x in (xi, key, keys.mask)) and torch.is_grad_enabled()
    if needs_gradient or (launch := kernels.layer_launcher(xi)) is None:
        return None
    unread = torch.zeros(1, dtype=torch.int64, device=xi.device)  # without noise, no key is read
    key, seed = key.expand(*xi.shape[:-2], *key.shape[-2:]), unread if add_noise is None else add_noise.key
    settings = (steps.n_steps, steps.alpha, keys.beta, spread)
    return cast("Tensor | None", launch.states_after_steps(xi, key, keys.mask, keys.is_causal, seed, *settings))


def _choose_beta(beta: float | Tensor | None, scale: float | Tensor | None) -> float | Tensor | None:
    """beta or scale, which are two names of one argument."""
    if beta is not None and scale is not None:
        raise ValueError(f"scale must be None if beta is given: they are one argument; got {scale!r} and {beta!r}.")
    return scale if beta is None else beta


def _causal(query: Tensor, key: Tensor) -> Tensor:
    """The mask of a causal order, True for a visible key: (L, S)."""
    return torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()


def _without_autocast(query: Tensor) -> AbstractContextManager[object]:
    """A context without automatic casts to half precision; the meta device has none to turn off."""
    return nullcontext() if query.is_meta else torch.autocast(query.device.type, enabled=False)


def fill_empty_rows(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """The mask with all keys visible to queries that had none, and whether a query had none, (..., L, 1) or None."""
    if mask is None:  # a softmax over no keys is NaN, and in some versions of torch so is its gradient
        return None, None
    boolean = mask.dtype == torch.bool
    blind = ~mask.any(-1, keepdim=True) if boolean else (mask == -math.inf).all(-1, keepdim=True)
    is_readable = mask.device.type == "cpu" and not (torch.compiler.is_compiling() or is_transformed())
    if is_readable and not blind.any():
        return mask, None
    return mask | blind if boolean else mask.masked_fill(blind, 0.0), blind


def _check_shapes(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool
) -> tuple[Tensor, int]:
    """The queries with the leading dimensions of the result, and how many of their heads share a head of keys."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_floating_point() or not x.shape[-1]:
            raise TypeError(f"{name} must be a tensor of real numbers, (..., length, width); got {describe(x)}.")
    q, k = query.shape, key.shape
    if q[-1] != k[-1]:
        raise ValueError(f"key must have the width of query, {q[-1]}, so that steps mix the two; got {k[-1]}.")
    if k[:-1] != value.shape[:-1]:
        raise ValueError(f"value must be (..., S, v) beside key {tuple(k)}; got {tuple(value.shape)}.")
    leading, groups = q[:-2], 1
    if leading != k[:-2]:
        shared = len(q) > 2 and len(k) > 2 and k[-3] > 0 and q[-3] % k[-3] == 0 and q[-3] > 1
        groups = q[-3] // k[-3] if shared else 1
        try:
            leading = torch.broadcast_shapes(leading, (*k[:-3], q[-3]) if shared else k[:-2])
        except RuntimeError:
            rule = "query must have the leading dimensions of key, up to broadcasting, or a multiple of its heads (-3)"
            raise ValueError(f"{rule}; got shapes {tuple(q)} and {tuple(k)}.") from None
    if mask is not None:
        if is_causal:
            raise ValueError("attn_mask must be None if is_causal is True, as in torch. Combine the two, or drop one.")
        require_mask("attn_mask", mask, "True for a visible key")
        require_broadcast("attn_mask", mask, (*leading, q[-2], k[-2]), at_least=2)
    return query if leading == q[:-2] else query.expand(*leading, *q[-2:]), groups


def _repeat_heads(groups: int, *stored: Tensor) -> tuple[Tensor, ...]:
    return stored if groups <= 1 else tuple(x.repeat_interleave(groups, -3) for x in stored)


def _attend_on_ranks(
    query: Tensor,
    memory: Tensor | ShardedMemory,
    value: Tensor | ShardedMemory,
    beta: float | Tensor | None,
    steps_of: Callable[[], LangevinSteps],
    is_passed: Mapping[str, bool],
) -> Tensor:
    """`stochastic_attention` with the memories of all ranks as keys; is_passed: of arguments that it does not take."""
    if not isinstance(memory, ShardedMemory):
        raise TypeError(f"key must be the ShardedMemory that is the value; got {describe(memory)}. Pass it twice.")

    def facts() -> dict[str, Fact]:
        require_floats("query", query)
        if value is not memory:
            rule = "value must be the ShardedMemory that is the key, whose values are read, or else its memories"
            raise ValueError(f"{rule}; got {describe(value)}. Pass it twice: stochastic_attention(query, bank, bank).")
        require_left_out(is_passed)
        steps = steps_of()
        same: dict[str, Fact] = {"n_steps": steps.n_steps, "alpha": steps.alpha, "noise": steps.noise}
        if steps.n_steps and steps.noise:
            device = memory.bank.shard.patterns.device
            default = torch.cuda.default_generators[device.index] if device.type == "cuda" else torch.default_generator
            state = (steps.generator or default).get_state()
            same["the state of the generator"] = zlib.crc32(state.numpy().tobytes())
        return same

    xi, at = memory.agree_on_states("stochastic_attention", query, beta, facts)
    steps = steps_of()
    add_noise, spread = noise_source(xi, steps.generator), steps.spread(at)
    for _ in range(steps.n_steps):
        xi = torch.lerp(xi, memory.bank.attend(xi, at), steps.alpha)
        if spread:
            xi = add_noise(xi, spread)
    return memory.bank.attend(xi, at, memory.bank.shard.values).to(query.dtype)
