"""Calls of torch's attention inside a model, with the queries walked first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from .functional import langevin_states
from .walk import Walk


@dataclass(frozen=True)
class HeadWalk:
    """A walk, and the heads of a layer that take it: all where None."""

    walk: Walk
    heads: tuple[int, ...] | None = None

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        **options: Any,
    ) -> Tensor:
        """scaled_dot_product_attention of the queries (batch, heads, L, d) where the walk has taken them."""
        beta = scale if self.walk.beta is None else self.walk.beta
        chain = {"attn_mask": attn_mask, "is_causal": is_causal, "beta": beta}
        query = self._walked(query, key, chain).to(query.dtype)
        return scaled_dot_product_attention(
            query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=beta, **options
        )

    def _walked(self, query: Tensor, key: Tensor, chain: dict[str, Any]) -> Tensor:
        walk, mask = self.walk, chain["attn_mask"]
        chain |= {"n_steps": walk.n_steps, "alpha": walk.alpha, "noise": walk.noise, "generator": walk.generator}
        if self.heads is None:
            return langevin_states(query, key, **chain)
        heads = torch.tensor(_checked(self.heads, query), device=query.device)
        if mask is not None and mask.ndim > 2 and mask.shape[-3] > 1:
            chain["attn_mask"] = mask.index_select(-3, heads)
        keys = key.index_select(-3, heads // (query.shape[-3] // key.shape[-3]))
        moved = langevin_states(query.index_select(-3, heads), keys, **chain)
        return query.index_copy(1, heads, moved.to(query.dtype))


class WalkedCalls(TorchFunctionMode):  # type: ignore[misc]
    """A context in which queries walk before torch attends; where two are open, the inner one decides."""

    def __init__(self, settings: HeadWalk) -> None:
        super().__init__()
        self.settings = settings
        self.seen = False

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), options: Mapping[str, Any] | None = None
    ) -> Any:
        if function is scaled_dot_product_attention:
            self.seen = True
            with torch._C.DisableTorchFunction():  # the walk calls torch's attention too
                return self.settings.attend(*args, **(options or {}))
        return function(*args, **(options or {}))


def _checked(heads: tuple[int, ...], query: Tensor) -> list[int]:
    """The heads, counted from the front."""
    if query.ndim != 4:
        raise ValueError(
            f"heads must be None where queries are not (batch, heads, L, d); they are {tuple(query.shape)}."
        )
    n_heads = query.shape[-3]
    for head in heads:
        if not -n_heads <= head < n_heads:
            raise ValueError(f"heads must lie between 0 and {n_heads - 1}, the heads of a layer; got {head}.")
    return [head % n_heads for head in heads]
