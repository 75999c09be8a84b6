"""Attention of a model that took no Langevin steps although the user asked for all layers, named in one warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from weakref import WeakSet

import torch
from torch import nn
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from .inspection import Acts, check
from .multihead import StochasticMultiheadAttention

FUNCTIONS = {
    *(scaled_dot_product_attention, multi_head_attention_forward),
    *(torch._native_multi_head_attention, torch._transformer_encoder_layer_fwd),
}
MAX_NAMES = 4
_CHECKED: WeakSet[nn.Module] = WeakSet()


class Watch(TorchFunctionMode):  # type: ignore[misc]
    """A context for the first forward pass of a model, which finds attention that no other context intercepts."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.called, self.missed = model, False, dict[str, None]()
        self.done = model in _CHECKED

    def around(self, module: nn.Module) -> Watch | None:
        """The watch for a call of a module: itself if this is the first pass of the model."""
        self.called = True
        return self if module is self.model and not self.done else None

    def __torch_function__(
        self,
        function: Callable[..., object],
        types: object,
        args: Sequence[object] = (),
        options: Mapping[str, object] | None = None,
    ) -> object:
        if function in FUNCTIONS and (caller := _calling_module()) is not None:
            name = next((name for name, one in self.model.named_modules() if one is caller), type(caller).__name__)
            if not isinstance(caller, StochasticMultiheadAttention):  # which takes its own steps
                self.missed[name or "(the model)"] = None
        return function(*args, **(options or {}))

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        super().__exit__(kind, *error)
        if kind is None:
            self.finish()

    def finish(self) -> None:
        """Warn of layers that took no steps, once for a model and only if it was called."""
        if self.done or not self.called:
            return
        self.done = True
        _CHECKED.add(self.model)
        warn_of_missing(self.model, {Acts.BOTH, Acts.CONTEXT, Acts.OWN}, list(self.missed))


def warn_of_missing(model: nn.Module, acting: set[Acts], seen: list[str], remedy: str = "") -> None:
    """Warn of the layers of a model that do not act, and of further ones that were seen to call torch's attention."""
    rows = check(model)
    reasons = {row.name: row.reason for row in rows if row.acts not in acting}
    reasons |= {name: "calls torch's attention outside its code" for name in seen if name not in reasons}
    if not reasons and any(row.acts in acting for row in rows):
        return
    few = "1 layer" if len(reasons) == 1 else f"{len(reasons)} layers" if reasons else "All layers"
    shown = "; ".join(_listed(reasons, reason) for reason in dict.fromkeys(reasons.values())) or "it has no attention"
    problem = f"{few} of {type(model).__name__} without Langevin steps: {shown}"
    warnings.warn(f"{problem}. {remedy}stochattn.nn.check(model) lists all layers.", stacklevel=2)


def _listed(reasons: Mapping[str, str], reason: str) -> str:
    """The first names of the layers that have this reason."""
    names = [name for name, one in reasons.items() if one == reason]
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{', '.join(names[:MAX_NAMES])}{more} ({reason})"


def _calling_module() -> nn.Module | None:
    """The innermost module among the callers."""
    frame = sys._getframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, nn.Module):
            return owner
        frame = frame.f_back  # type: ignore[assignment]
    return None
