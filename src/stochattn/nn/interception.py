"""Calls of torch's attention inside a model, with the queries walked first."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
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
        own = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        query = self._walked(query, key, own, {"attn_mask": attn_mask, "is_causal": is_causal})
        return scaled_dot_product_attention(
            query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=own, **options
        )

    def _walked(self, query: Tensor, key: Tensor, own: float, sight: dict[str, Any]) -> Tensor:
        """The queries where the walk has taken them, to be read at the layer's own scale."""
        if self.heads is None:
            return self._states(query, key, own, sight)
        if not self.heads:
            return query
        heads = torch.tensor(_checked(self.heads, query), device=query.device)
        mask = sight["attn_mask"]
        if mask is not None and mask.ndim > 2 and mask.shape[-3] > 1:
            sight = {**sight, "attn_mask": mask.index_select(-3, heads)}
        keys = key.index_select(-3, heads // (query.shape[-3] // key.shape[-3]))
        return query.index_copy(1, heads, self._states(query.index_select(-3, heads), keys, own, sight))

    def _states(self, query: Tensor, key: Tensor, own: float, sight: dict[str, Any]) -> Tensor:
        beta = own if self.walk.beta is None else self.walk.beta
        states = langevin_states(query, key, **{**vars(self.walk), "beta": beta}, **sight)
        return (states if beta == own else states * (beta / own)).to(query.dtype)


class WalkedCalls(TorchFunctionMode):  # type: ignore[misc]
    """A context in which queries walk before torch attends; where two are open, the inner one decides."""

    def __init__(self, settings: HeadWalk) -> None:
        super().__init__()
        self.settings = settings
        self.seen = False

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), options: Mapping[str, Any] | None = None
    ) -> Any:
        if function is not scaled_dot_product_attention or (not torch.compiler.is_compiling() and _from_a_graph()):
            return function(*args, **(options or {}))
        self.seen = True
        with torch._C.DisableTorchFunction():  # an outer context must not see the walk's own calls
            return self.settings.attend(*args, **(options or {}))


def walked(function: Callable[..., Any], walk: HeadWalk, *args: Any, **options: Any) -> tuple[Any, bool]:
    """What a function returns whose calls of torch's attention walk, and whether there was one."""
    calls = WalkedCalls(walk)
    with calls:
        result = function(*args, **options)
    return result, calls.seen


def _from_a_graph() -> bool:
    """Whether torch's attention was called by a compiled graph that runs in Python: the walk is in that graph."""
    return sys._getframe(2).f_code.co_filename.startswith("<eval_with_key>")


class WalkingForward:
    """The forward of a module with its queries walked, as the last of the open contexts says."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward = forward
        self.open: list[HeadWalk] = []

    def __call__(self, *args: Any, **options: Any) -> Any:
        """What the module returns."""
        result, seen = walked(self.forward, self.open[-1], *args, **options)
        if not seen:
            name = getattr(self.forward, "__qualname__", str(self.forward))
            raise RuntimeError(
                f"{name} did not call torch's scaled_dot_product_attention this time, so no query walked. "
                "Ask it for no attention weights and no head mask, and turn other implementations off."
            )
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        """What a file gets of it: the module's own forward, for the same reason as a copy."""
        return getattr, (self.forward.__self__, "forward")  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., Any]:
        """A copy of the module does not walk: no context would end it."""
        plain: Callable[..., Any] = deepcopy(self.forward, memo)
        return plain


@contextmanager
def walking(module: nn.Module, walk: HeadWalk) -> Iterator[None]:
    """The queries of a module walk until the context ends, in whatever order contexts end."""
    own = vars(module)
    with _LOCK:
        if not isinstance(module.forward, WalkingForward):
            own["forward"] = WalkingForward(module.forward)
        forward = own["forward"]
        forward.open.append(walk)
    try:
        yield
    finally:
        with _LOCK:
            del forward.open[next(i for i, one in enumerate(forward.open) if one is walk)]
            if not forward.open and own.get("forward") is forward:
                own["forward"] = forward.forward
                if forward.forward == type(module).forward.__get__(module):  # it was the class's own
                    del own["forward"]


@contextmanager
def lent(owner: Any, name: str, value: str) -> Iterator[None]:
    """An attribute has another value; its own comes back when the last context ends that asked for it."""
    key = id(owner), name
    with _LOCK:
        held = _LENT.setdefault(key, _Held(owner, getattr(owner, name)))
        held.contexts += 1
        vars(owner)[name] = value
    try:
        yield
    finally:
        with _LOCK:
            held.contexts -= 1
            if not held.contexts:
                vars(owner)[name] = held.value
                del _LENT[key]


@dataclass
class _Held:
    owner: Any  # so that no other object takes its id
    value: str
    contexts: int = 0


_LENT: dict[tuple[int, str], _Held] = {}
_LOCK = Lock()


def _checked(heads: tuple[int, ...], query: Tensor) -> list[int]:
    """The heads, counted from the front."""
    if query.ndim != 4:
        raise ValueError(
            f"heads must be None where queries are not (batch, heads, L, d); they are {tuple(query.shape)}."
        )
    n_heads = query.shape[-3]
    for head in heads:
        if not -n_heads <= head < n_heads:
            raise ValueError(f"heads must lie between {-n_heads} and {n_heads - 1}: a layer has {n_heads}; got {head}.")
    return sorted({head % n_heads for head in heads})  # 3 and -1 may be one
