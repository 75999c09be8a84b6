"""StochasticMultiheadAttention: torch's multi-head attention whose queries first take Langevin steps among the keys."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, linear, pad

from .functional import Keys, fill_empty_rows, langevin_states, stochastic_attention
from .steps import LangevinSteps, additive, require_floats, require_mask, wide

EXTRA_STATE = "_extra_state"  # torch's name of it


class StochasticMultiheadAttention(nn.MultiheadAttention):  # type: ignore[misc]  # torch is not typed here
    """nn.MultiheadAttention with steps of Algorithm 1 in each head, and the same arguments, parameters and masks.

    n_steps, alpha, noise, beta (None: 1/√head_dim) and generator are those of `stochastic_attention`; without steps
    the results are torch's. learn_beta=True makes it a parameter, `log_beta` (heads,), that starts at this value. Keys
    that add_bias_kv and add_zero_attn append are memories like the others. A query without any key reads zeros. State
    dicts of nn.MultiheadAttention can be loaded; those of this class hold the steps too, as extra state, if there are
    any. A copy draws from the generator of its original, so that copied layers do not repeat its noise. Steps are taken
    in eval mode too, in which torch's encoder layer would fuse its operations; an nn.TransformerEncoder made of such a
    layer warns that it does not, unless enable_nested_tensor=False.

    >>> import torch
    >>> from stochattn.nn import StochasticMultiheadAttention
    >>> layer = StochasticMultiheadAttention(8, 2, batch_first=True, n_steps=3)
    >>> x = torch.zeros(1, 5, 8)
    >>> layer(x, x, x)[0].shape
    torch.Size([1, 5, 8])
    """

    def __init__(
        self, embed_dim: int, num_heads: int, *arguments: object, learn_beta: bool = False, **options: Any
    ) -> None:
        steps = {field.name: options.pop(field.name) for field in fields(LangevinSteps) if field.name in options}
        super().__init__(embed_dim, num_heads, *arguments, **options)
        self.steps = LangevinSteps(**steps)
        self.register_parameter("log_beta", None)
        if learn_beta:
            self._learn_beta()

    @classmethod
    def from_torch(cls, attention: nn.MultiheadAttention, **steps: Any) -> StochasticMultiheadAttention:
        """A module that shares parameters and settings with `attention`, but not its hooks, with steps (n_steps, …)."""
        if not isinstance(attention, nn.MultiheadAttention):
            raise TypeError(f"attention must be an nn.MultiheadAttention; got {type(attention).__name__}.")
        names = ("embed_dim", "num_heads", "dropout", "add_zero_attn", "kdim", "vdim", "batch_first")
        options = {name: getattr(attention, name) for name in names}
        options |= {"bias": attention.in_proj_bias is not None, "add_bias_kv": attention.bias_k is not None}
        log_beta = None if {"beta", "learn_beta"} & steps.keys() else getattr(attention, "log_beta", None)
        learn_beta = steps.pop("learn_beta", False)
        layer = cls(**options, device="meta", **steps)
        parameters = dict(attention.named_parameters(recurse=False))
        parameters.pop("log_beta", None)
        if parameters.keys() != dict(layer.named_parameters(recurse=False)).keys():
            remedy = "torch.nn.utils.prune.remove, torch.nn.utils.parametrize.remove_parametrizations"
            rule = "attention must have its weights as plain parameters; it is pruned or parametrized"
            raise TypeError(f"{rule}. Make that permanent first: {remedy}.")
        for name, parameter in parameters.items():
            setattr(layer, name, parameter)  # not a copy: optimizers and frozen weights stay as they are
        layer.out_proj = attention.out_proj
        layer.log_beta = log_beta
        if learn_beta:
            layer._learn_beta()
        return layer.train(attention.training)  # type: ignore[no-any-return]

    def _learn_beta(self) -> None:
        """Make log beta a parameter with the dtype and device of the weights; beta of the steps is its first value."""
        beta = 1 / math.sqrt(self.head_dim) if self.steps.beta is None else self.steps.beta
        weight = self.out_proj.weight
        start = torch.as_tensor(beta, dtype=weight.dtype, device=weight.device).detach().log()
        if start.numel() not in (1, self.num_heads):
            rule = f"beta must be a number or have one element per head, {self.num_heads}, with learn_beta=True"
            raise ValueError(f"{rule}; got shape {tuple(start.shape)}.")
        self.steps = replace(self.steps, beta=None)
        self.log_beta = nn.Parameter(start.reshape(-1).expand(self.num_heads).clone())

    def current_steps(self) -> LangevinSteps:
        """The steps of a call, with the learned beta (heads, 1, 1) if there is one."""
        if self.log_beta is None:
            return self.steps
        return replace(self.steps, beta=wide(self.log_beta).exp()[:, None, None])

    def _reset_parameters(self) -> None:
        # nn.TransformerEncoderLayer checks this flag before it takes a fused path in eval mode, which reads the weights
        # and calls no forward, so that no step would be taken. It is True only while torch initializes the weights.
        self._qkv_same_embed_dim = self.in_proj_weight is not None
        super()._reset_parameters()
        self._qkv_same_embed_dim = False

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The output, and the weights of the readout or None; arguments and shapes are nn.MultiheadAttention's."""
        for name, x in (("query", query), ("key", key), ("value", value)):
            require_floats(name, x, "(length, batch, width)")
        if is_causal and attn_mask is None:
            raise ValueError("attn_mask must be given if is_causal is True, which is a hint about it, as in torch.")
        if query.is_nested:
            if not (query is key is value and self.batch_first and attn_mask is None and key_padding_mask is None):
                rule = "query must not be nested, except in self-attention with batch_first and without masks"
                raise ValueError(f"{rule}. Pad it.")
            return self._attend_nested(query, need_weights, average_attn_weights)
        batched, weights = query.ndim == 3, None
        q, k, v = self._project(query=(query, self.embed_dim), key=(key, self.kdim), value=(value, self.vdim))
        if not (batched or key_padding_mask is None):
            key_padding_mask = key_padding_mask[None]
        mask = self._mask(attn_mask, key_padding_mask, q, k)
        if need_weights:
            out, weights = self._read(q, k, v, mask)
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            p = self.dropout if self.training else 0.0
            out = stochastic_attention(q, k, v, attn_mask=mask, dropout_p=p, **vars(self.current_steps()))
        out = self.out_proj(out.transpose(1, 2).flatten(2))
        if not batched:
            return out[0], None if weights is None else weights[0]
        return out if self.batch_first else out.transpose(0, 1), weights

    def _project(self, **inputs: tuple[Tensor, int]) -> list[Tensor]:
        """Queries, keys and values of each head, including the appended keys: (N, heads, length, head_dim)."""
        separate = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        weights = separate if self.in_proj_weight is None else self.in_proj_weight.chunk(3)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        maps, dimensions = [], inputs["query"][0].ndim
        for (name, (x, width)), weight, bias in zip(inputs.items(), weights, biases, strict=True):
            if dimensions not in (2, 3) or x.ndim != dimensions or x.shape[-1] != width:
                rule = f"{name} must be (length, {width}), or with a batch if query, key and value have one"
                raise ValueError(f"{rule}; got shape {tuple(x.shape)}.")
            rows = x[None] if x.ndim == 2 else x if self.batch_first else x.transpose(0, 1)
            maps.append(linear(rows, weight, bias))
        q, k, v = maps
        if (of_key := tuple(k.shape[:2])) != (of_value := tuple(v.shape[:2])):
            raise ValueError(f"value must have the length and batch of key, {of_key}; got {of_value}.")
        if self.bias_k is not None:
            pairs = ((k, self.bias_k), (v, self.bias_v))
            k, v = (torch.cat([x, row.to(x.dtype).expand(len(x), 1, -1)], 1) for x, row in pairs)
        if self.add_zero_attn:
            k, v = pad(k, (0, 0, 0, 1)), pad(v, (0, 0, 0, 1))
        return [x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for x in (q, k, v)]

    def _mask(self, attn_mask: Tensor | None, padding: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
        """The sum of both masks, to add to the logits: (N, heads, L, S), where S includes the appended keys."""
        (N, heads, L, _), appended = q.shape, (self.bias_k is not None) + bool(self.add_zero_attn)
        S, mask = k.shape[-2] - appended, None
        if attn_mask is not None:
            mask = _hidden("attn_mask", attn_mask, q, (L, S), (N * heads, L, S))
            mask = mask.reshape(-1, heads, L, S) if mask.ndim == 3 else mask
        if padding is not None:
            hidden = _hidden("key_padding_mask", padding, q, (N, S))[:, None, None]
            mask = hidden if mask is None else mask + hidden
        return mask if mask is None else pad(mask, (0, appended))

    def _read(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The result of `stochastic_attention`, and the weights (N, heads, L, S) of its readout."""
        steps = self.current_steps()
        xi = langevin_states(q, k, attn_mask=mask, **vars(steps))
        with torch.autocast(q.device.type, enabled=False):
            seen, blind = fill_empty_rows(mask)
            weights = Keys(k.to(xi.dtype), steps.beta_of(q), seen).weights(xi)
            weights = weights if blind is None else weights.masked_fill(blind, 0.0)
            weights = dropout(weights, self.dropout, self.training)
            return (weights @ v.to(xi.dtype)).to(q.dtype), weights.to(q.dtype)

    def _attend_nested(self, x: Tensor, need_weights: bool, average: bool) -> tuple[Tensor, Tensor | None]:
        """The result for nested rows of different lengths, which nn.TransformerEncoder makes of padded ones."""
        lengths = [len(row) for row in x.unbind()]
        padded = x.to_padded_tensor(0.0)
        hidden = torch.arange(padded.shape[1], device=x.device) >= torch.tensor(lengths, device=x.device)[:, None]
        out, weights = self.forward(padded, padded, padded, hidden, need_weights, None, average)
        return torch.nested.as_nested_tensor([out[i, :length] for i, length in enumerate(lengths)]), weights

    def __deepcopy__(self, memo: dict[int, object]) -> StochasticMultiheadAttention:
        memo[id(self.steps)] = self.steps  # shared, so that copies do not repeat the noise
        layer = memo[id(self)] = self.__class__.__new__(self.__class__)
        layer.__dict__.update(deepcopy(self.__dict__, memo))
        return layer

    def get_extra_state(self) -> Tensor:
        """n_steps, alpha, noise and beta as one tensor, which safetensors can hold too."""
        return self.steps.state()

    def set_extra_state(self, state: Tensor) -> None:
        """Take the steps from a state dict; the generator stays."""
        self.steps = LangevinSteps.from_state(state, self.steps.generator)

    def _save_to_state_dict(self, destination: dict[str, object], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if torch.equal(self.steps.state(), LangevinSteps().state()):
            del destination[prefix + EXTRA_STATE]  # the state dict is then the one of nn.MultiheadAttention

    def _load_from_state_dict(self, state_dict: dict[str, object], prefix: str, *rest: object) -> None:
        default = {} if prefix + EXTRA_STATE in state_dict else {prefix + EXTRA_STATE: self.steps.state()}
        super()._load_from_state_dict(state_dict | default, prefix, *rest)

    def extra_repr(self) -> str:
        """Sizes and steps, for `print`."""
        learned = "" if self.log_beta is None else ", learn_beta=True"
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, {self.steps}{learned}"


def _hidden(name: str, mask: Tensor, q: Tensor, *shapes: tuple[int, ...]) -> Tensor:
    """A mask of one of these shapes, True for a hidden key, as numbers to add to the logits."""
    require_mask(name, mask, "True hides a key")
    if tuple(mask.shape) not in shapes:
        raise ValueError(f"{name} must have shape {' or '.join(map(str, shapes))}; got {tuple(mask.shape)}.")
    return additive(~mask if mask.dtype == torch.bool else mask, q)
