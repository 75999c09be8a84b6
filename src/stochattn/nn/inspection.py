"""Which layers of a model take Langevin steps, by the functions that their code names, and a warning of the others."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from types import CodeType, FunctionType
from typing import NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import nn
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from .multihead import StochasticMultiheadAttention

INTERFACE, TORCH = "ALL_ATTENTION_FUNCTIONS", "scaled_dot_product_attention"
# Classes of layers that mix positions; those with another name are noticed when they call torch's attention.
ATTENTION_NAME = re.compile(r"Attn|Attention|DeltaNet|Mixer|TimeMix|Retention|RecurrentBlock|MHSA|GPSA")
_CALLS: WeakKeyDictionary[type[nn.Module], set[str]] = WeakKeyDictionary()
SWITCH = "fused_attn"  # of the layers of timm, some of which (Swin, XCiT) have it off unless the user turns it on
MAX_DEPTH = 3  # functions that call each other from forward to torch's attention


class Acts(Enum):
    """Where a layer takes Langevin steps."""

    BOTH = "in the context and by name"
    CONTEXT = "in the context"
    OWN = "by its own settings"
    NO = "no"


class Layer(NamedTuple):
    """A layer of a model: its number in `layers`, or None if it has none, and whether and why it takes steps."""

    number: int | None
    name: str
    kind: str
    acts: Acts
    reason: str


class LayerTable(tuple[Layer, ...]):
    """The layers of a model, in the order of its modules; prints as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self:
            return f"no attention: no layer calls torch's {TORCH} or transformers' interface, or has a name like it"
        head = ("layer", "module", "class", "takes steps", "reason")
        rows = [("-" if x.number is None else str(x.number), x.name, x.kind, x.acts.value, x.reason) for x in self]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows))


def check(model: nn.Module) -> LayerTable:
    """A table of the attention layers of a model: which take steps in `stochastic(model)` or by name, and why not.

    The code of the layers decides, without a forward pass. `layer` is the number to give in `layers=`.

    >>> from stochattn.nn import check
    >>> from transformers import GPT2Config, GPT2Model
    >>> model = GPT2Model(GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=9, bos_token_id=0, eos_token_id=0))
    >>> len(check(model))
    2
    """
    require_module(model)
    rows, number = list[Layer](), 0
    for name, module in _layers(model):
        acts, reason = _status(module)
        has_number = acts in (Acts.BOTH, Acts.CONTEXT)
        rows.append(Layer(number if has_number else None, name, type(module).__name__, acts, reason))
        number += has_number
    return LayerTable(rows)


def attention_modules(model: nn.Module) -> list[nn.Module]:
    """The modules of a model whose code uses transformers' attention interface or calls torch's attention.

    >>> from stochattn.nn import attention_modules
    >>> from transformers import GPT2Config, GPT2Model
    >>> model = GPT2Model(GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=9, bos_token_id=0, eos_token_id=0))
    >>> [type(module).__name__ for module in attention_modules(model)]
    ['GPT2Attention', 'GPT2Attention']
    """
    require_module(model)
    modules = [module for module in model.modules() if calls(type(module)) and not _is_switched_off(module)]
    if not modules:
        rule = f"model must have attention whose forward uses transformers' attention interface or torch's {TORCH}"
        has, remedy = "none", "Load a model with attn_implementation='sdpa', or use StochasticMultiheadAttention"
        if any(map(_is_switched_off, model.modules())):
            has, remedy = f"{SWITCH} = False", f"Set {SWITCH} = True on its attention layers"
        raise ValueError(f"{rule}; {type(model).__name__} has {has}. {remedy}.")
    return modules


def require_module(model: object) -> None:
    """TypeError unless the model is a torch module."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch module; got {type(model).__name__}. For a pipeline, pass its .model.")


def _layers(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Layers that call attention, torch's own layers, and others named like attention that contain none of these."""
    in_layers = set[nn.Module]()
    for name, module in model.named_modules():
        _, *parts = module.modules()
        if _calls_attention(module):
            in_layers.update(parts)
        elif module in in_layers or not _is_attention(module) or any(map(_is_attention, parts)):
            continue
        yield name or "(the model)", module


def _calls_attention(module: nn.Module) -> bool:
    return bool(calls(type(module))) or isinstance(module, nn.MultiheadAttention)


def _is_attention(module: nn.Module) -> bool:
    return _calls_attention(module) or ATTENTION_NAME.search(type(module).__name__) is not None


def _status(module: nn.Module) -> tuple[Acts, str]:
    """Where a layer takes steps, and why not elsewhere."""
    if isinstance(module, StochasticMultiheadAttention):
        return Acts.OWN, str(module.steps)
    names = calls(type(module))
    if _is_switched_off(module):
        return Acts.NO, f"does not call torch's {TORCH} while its {SWITCH} is False; set it to True"
    if INTERFACE in names:
        return Acts.BOTH, ""
    if names:
        return Acts.CONTEXT, "calls torch's attention itself, not transformers' interface: by name it takes no steps"
    if isinstance(module, nn.MultiheadAttention):
        return Acts.NO, "torch's own layer; replace it with StochasticMultiheadAttention.from_torch"
    return Acts.NO, f"does not call torch's {TORCH}"


def _is_switched_off(module: nn.Module) -> bool:
    """Whether a layer could call torch's attention, but its own switch makes it compute the weights itself."""
    return calls(type(module)) == {TORCH} and getattr(module, SWITCH, True) is False


def calls(kind: type[nn.Module]) -> set[str]:
    """INTERFACE and TORCH, as far as the forward of a class, or a function that it calls, refers to them."""
    if kind in _CALLS:
        return _CALLS[kind]
    functions = _CALLS[kind] = set[str]()
    for base in kind.__mro__:
        if "forward" in vars(base):
            forward = inspect.unwrap(vars(base)["forward"])
            names = _follow(forward, kind, MAX_DEPTH, functions)
            if "super" not in names:
                break
    return functions


def _follow(function: object, kind: type[nn.Module], depth: int, functions: set[str]) -> set[str]:
    """The names in the code of a function; INTERFACE and TORCH in it, or in what it calls, are added to `functions`."""
    if not isinstance(function, FunctionType):
        return set()
    names = set(_names(function.__code__))
    for name in names:
        outside, inside = function.__globals__.get(name), inspect.getattr_static(kind, name, None)
        method = inspect.unwrap(inside) if isinstance(inside, FunctionType) else None
        is_written = isinstance(method, FunctionType) and not method.__module__.startswith("torch.")
        if is_written and depth and name != "forward":
            _follow(method, kind, depth - 1, functions)
        elif name in (INTERFACE, TORCH) or outside is scaled_dot_product_attention:
            functions.add(INTERFACE if name == INTERFACE else TORCH)
        elif depth and isinstance(outside, FunctionType) and outside.__module__ == function.__module__:
            _follow(outside, kind, depth - 1, functions)
    return names


def _names(code: CodeType) -> Iterator[str]:
    """The names in a code object and in those that it contains, such as inner functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


FUNCTIONS = {scaled_dot_product_attention, multi_head_attention_forward}
FUNCTIONS |= {torch._native_multi_head_attention, torch._transformer_encoder_layer_fwd}
MAX_NAMES = 4
Call: TypeAlias = "Callable[..., object]"
_CHECKED: WeakSet[nn.Module] = WeakSet()


class Watch(TorchFunctionMode):  # type: ignore[misc]
    """A context for the first forward pass of a model, which finds attention that no other context intercepts."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.called, self.missed = model, False, dict[str, None]()

    def around(self, module: nn.Module) -> Watch | None:
        """The watch for a call of a module: itself if this is the first pass of the model."""
        self.called = True
        return self if module is self.model and module not in _CHECKED else None

    def __torch_function__(
        self, function: Call, types: object, args: Sequence[object] = (), options: Mapping[str, object] | None = None
    ) -> object:
        if function in FUNCTIONS and (caller := _calling_module()) is not None:
            names = (name for name, module in self.model.named_modules() if module is caller)
            name = next(names, type(caller).__name__)
            if not isinstance(caller, StochasticMultiheadAttention):  # which takes its own steps
                self.missed[name or "(the model)"] = None
        return function(*args, **(options or {}))

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        super().__exit__(kind, *error)
        if kind is None:
            self.finish()

    def finish(self) -> None:
        """Warn of layers that took no steps, once for a model and only if it was called."""
        if self.called and self.model not in _CHECKED:
            _CHECKED.add(self.model)
            warn_of_missing(self.model, {Acts.BOTH, Acts.CONTEXT, Acts.OWN}, list(self.missed))


def warn_of_missing(model: nn.Module, acting: set[Acts], seen: list[str], remedy: str = "") -> None:
    """Warn of the layers of a model that do not act, and of further ones that were seen to call torch's attention."""
    rows = check(model)
    reasons = {row.name: row.reason for row in rows if row.acts not in acting}
    reasons |= {name: "calls torch's attention outside its code" for name in seen if name not in reasons}
    if not reasons and any(row.acts in acting for row in rows):
        return
    count = "1 layer" if len(reasons) == 1 else f"{len(reasons)} layers" if reasons else "All layers"
    shown = []
    for reason in dict.fromkeys(reasons.values()):
        names = [name for name, layer_reason in reasons.items() if layer_reason == reason]
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        shown.append(f"{', '.join(names[:MAX_NAMES])}{more} ({reason})")
    problem = f"{count} of {type(model).__name__} without Langevin steps: {'; '.join(shown) or 'it has no attention'}"
    warnings.warn(f"{problem}. {remedy}stochattn.nn.check(model) lists all layers.", stacklevel=2)


def _calling_module() -> nn.Module | None:
    """The innermost module among the callers."""
    frame = sys._getframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, nn.Module):
            return owner
        frame = frame.f_back  # type: ignore[assignment]
    return None
