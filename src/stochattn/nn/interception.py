"""Interception of torch's attention inside a model, so that queries take Langevin steps first."""

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
from .steps import LangevinSteps


@dataclass(frozen=True)
class HeadSteps:
    """Langevin steps, and the heads of a layer that take them; None for all heads."""

    steps: LangevinSteps
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
        """scaled_dot_product_attention of the queries (batch, heads, L, d) after their steps; (batch, heads, L, v)."""
        own = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        if self.heads is None:
            query = self._states(query, key, own, attn_mask, is_causal)
        elif self.heads:
            if query.ndim != 4:
                shape = tuple(query.shape)
                raise ValueError(f"heads must be None unless queries are (batch, heads, L, d); they are {shape}.")
            heads = torch.tensor(positions("heads", self.heads, query.shape[-3]), device=query.device)
            own_mask = attn_mask is not None and attn_mask.ndim > 2 and attn_mask.shape[-3] > 1
            mask = attn_mask.index_select(-3, heads) if own_mask else attn_mask  # type: ignore[union-attr]
            keys = key.index_select(-3, heads // (query.shape[-3] // key.shape[-3]))
            moved = self._states(query.index_select(-3, heads), keys, own, mask, is_causal)
            query = query.index_copy(1, heads, moved)
        return scaled_dot_product_attention(
            query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=own, **options
        )

    def _states(self, query: Tensor, key: Tensor, own: float, mask: Tensor | None, is_causal: bool) -> Tensor:
        """The queries after their steps, to be read out at the layer's own scale."""
        beta = own if self.steps.beta is None else self.steps.beta
        settings = {**vars(self.steps), "beta": beta}
        states = langevin_states(query, key, attn_mask=mask, is_causal=is_causal, **settings)
        return (states if beta == own else states * (beta / own)).to(query.dtype)


class _InterceptedCalls(TorchFunctionMode):  # type: ignore[misc]
    """A context in which queries take steps before torch attends; of nested contexts, the inner one applies."""

    def __init__(self, head_steps: HeadSteps) -> None:
        super().__init__()
        self.head_steps = head_steps
        self.called = False

    def __torch_function__(
        self,
        function: Callable[..., object],
        types: object,
        args: tuple[Any, ...] = (),
        options: Mapping[str, Any] | None = None,
    ) -> object:
        if function is not scaled_dot_product_attention or (not torch.compiler.is_compiling() and _from_a_graph()):
            return function(*args, **(options or {}))
        self.called = True
        with torch._C.DisableTorchFunction():  # an outer context must not intercept the calls of the steps
            return self.head_steps.attend(*args, **(options or {}))


def with_steps(
    function: Callable[..., object], head_steps: HeadSteps, *args: object, **options: object
) -> tuple[object, bool]:
    """The result of a function in which queries take steps before torch attends, and whether torch was called."""
    calls = _InterceptedCalls(head_steps)
    with calls:
        result = function(*args, **options)
    return result, calls.called


def _from_a_graph() -> bool:
    """Whether a compiled graph that runs in Python called torch's attention: that graph contains the steps already."""
    return sys._getframe(2).f_code.co_filename.startswith("<eval_with_key>")


class InterceptedForward:
    """The forward of a module, with the steps of the last context that is open on it."""

    def __init__(self, forward: Callable[..., object]) -> None:
        self.forward = forward
        self.open: list[HeadSteps] = []

    def __call__(self, *args: object, **options: object) -> object:
        """The result of the module."""
        result, called = with_steps(self.forward, self.open[-1], *args, **options)
        if not called:
            name = getattr(self.forward, "__qualname__", str(self.forward))
            raise RuntimeError(
                f"{name} did not call torch's scaled_dot_product_attention, so no query took a Langevin step. "
                "Do not request attention weights or a head mask, and turn other attention implementations off."
            )
        return result

    def __reduce__(self) -> tuple[object, ...]:
        """A file gets the module's own forward, for the same reason as a copy."""
        return getattr, (self.forward.__self__, "forward")  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[int, object]) -> Callable[..., object]:
        """A copy of the module takes no steps, because no context would end them."""
        plain: Callable[..., object] = deepcopy(self.forward, memo)
        return plain


@contextmanager
def intercepted(module: nn.Module, head_steps: HeadSteps) -> Iterator[None]:
    """A context in which the queries of a module take steps; several may be open, and may end in any order."""
    own = vars(module)
    with _LOCK:
        if not isinstance(module.forward, InterceptedForward):
            own["forward"] = InterceptedForward(module.forward)
        forward = own["forward"]
        forward.open.append(head_steps)
    try:
        yield
    finally:
        with _LOCK:
            del forward.open[next(i for i, one in enumerate(forward.open) if one is head_steps)]
            if not forward.open and own.get("forward") is forward:
                own["forward"] = forward.forward
                if forward.forward == type(module).forward.__get__(module):  # it was that of the class
                    del own["forward"]


@contextmanager
def temporarily_set(owner: object, name: str, value: str) -> Iterator[None]:
    """A context in which an attribute has another value; the last such context to end restores the original."""
    key = id(owner), name
    with _LOCK:
        original = _ORIGINALS.setdefault(key, _Original(owner, getattr(owner, name)))
        original.contexts += 1
        vars(owner)[name] = value
    try:
        yield
    finally:
        with _LOCK:
            original.contexts -= 1
            if not original.contexts:
                vars(owner)[name] = original.value
                del _ORIGINALS[key]


@dataclass
class _Original:
    owner: object  # a reference, so that no other object gets its id
    value: str
    contexts: int = 0


_ORIGINALS: dict[tuple[int, str], _Original] = {}
_LOCK = Lock()


def positions(name: str, values: tuple[int, ...], n: int) -> list[int]:
    """The layers or heads as indices below n, sorted and without duplicates: 3 and -1 may be the same."""
    for value in values:
        if not -n <= value < n:
            raise ValueError(f"{name} must lie between {-n} and {n - 1}: there are {n}; got {value}.")
    return sorted({value % n for value in values})
