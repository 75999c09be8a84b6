"""Pretrained models: the attention implementation "stochastic", and a context that applies it to layers and heads.

The queries of a layer take Langevin steps among its keys, and the model's own attention reads them out. Caches, grouped
heads, dropout and masks are therefore those of the model, and a layer without steps is unchanged.
"""

from __future__ import annotations

import inspect
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from threading import Lock
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from .._backend.checks import count
from .functional import LangevinSteps, langevin_states
from .multihead import StochasticMultiheadAttention

NAME, PLAIN = "stochastic", "sdpa"
INTERFACE, TORCH = "ALL_ATTENTION_FUNCTIONS", "scaled_dot_product_attention"
UNSUPPORTED = ("softcap", "s_aux", "head_mask", "indices", "block_indices")  # torch's attention has none of these
_LOCK = Lock()
_ORIGINALS: dict[tuple[int, str], SimpleNamespace] = {}  # with the owner, so that no other object gets its id


def register(
    n_steps: int = 0,
    *,
    alpha: float = 0.01,
    noise: float = 1.0,
    beta: float | None = None,
    generator: torch.Generator | None = None,
) -> None:
    """Register the attention "stochastic" with transformers, for `model.set_attn_implementation("stochastic")`.

    The settings apply to all models that use this implementation; register again to change them. Modules without an
    attention interface keep their own attention, and transformers warns; `attention_modules(model)` lists the others.
    """
    head_steps = _HeadSteps(LangevinSteps(n_steps, alpha, noise, beta, generator))
    try:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as functions
    except ImportError as problem:
        needed = "the attention implementation 'stochastic' needs transformers 4.50 or newer"
        raise ImportError(f"{needed}. Install it with: pip install 'stochattn[transformers]'") from problem
    enter = getattr(functions, "register", functions.__setitem__)  # a plain dict in 4.50
    enter(NAME, partial(_attend, head_steps, functions[PLAIN]))
    try:
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as masks
    except ImportError:  # before 4.53 models make their own masks; `_attend` refuses those without causal order
        return
    masks.register(NAME, masks[PLAIN])


def stochastic(
    model: nn.Module,
    n_steps: int = 10,
    *,
    alpha: float = 0.01,
    noise: float = 1.0,
    beta: float | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    generator: torch.Generator | None = None,
) -> AbstractContextManager[nn.Module]:
    """A context in which the queries of the chosen layers and heads of a model take Langevin steps; yields the model.

    layers, heads: indices, or None for all. Layers are numbered as in `attention_modules(model)`, with those of an
    encoder before those of its decoder; negative numbers count from the end. beta is each layer's own scale by default.
    The other layers use torch's attention. Of several contexts open on a layer, the last one applies.
    """
    steps = _HeadSteps(LangevinSteps(n_steps, alpha, noise, beta, generator), _whole_numbers("heads", heads))
    modules = attention_modules(model)
    numbers = _whole_numbers("layers", layers)
    chosen = modules if numbers is None else [modules[i] for i in _positions("layers", numbers, len(modules))]
    n_stochastic = sum(isinstance(m, StochasticMultiheadAttention) for m in model.modules())
    n_others = sum(isinstance(m, nn.MultiheadAttention) for m in model.modules()) - n_stochastic
    if layers is None and n_others:
        problem = f"{n_others} nn.MultiheadAttention in {type(model).__name__} will take no Langevin steps"
        remedy = "Replace them with StochasticMultiheadAttention.from_torch, or name the layers that take steps"
        warnings.warn(f"{problem}. {remedy}.", stacklevel=2)
    recomputed = any(getattr(m, "gradient_checkpointing", False) and m.training for m in model.modules())
    if generator is not None and recomputed:
        rule = "generator must be None with gradient checkpointing, whose second pass would draw other noise"
        raise ValueError(f"{rule}. Use torch.manual_seed for a reproducible run.")
    return _with_steps(model, chosen, steps)


@contextmanager
def _with_steps(model: nn.Module, chosen: list[nn.Module], steps: _HeadSteps) -> Iterator[nn.Module]:
    with ExitStack() as undo:
        if any(_uses(module, INTERFACE) for module in model.modules()):
            for owner, name in _implementations(model):
                # One by one: transformers' own switch would restore the same name for all of them.
                undo.enter_context(_temporarily_set(owner, name, PLAIN))
        for module in chosen:
            undo.enter_context(_intercepted(module, steps))
        yield model


def attention_modules(model: nn.Module) -> list[nn.Module]:
    """The modules of a model whose forward uses transformers' attention interface or calls torch's attention."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch module; got {type(model).__name__}. For a pipeline, pass its .model.")
    found = [module for module in model.modules() if _uses(module, INTERFACE) or _uses(module, TORCH)]
    if not found:
        rule = f"model must have attention whose forward uses transformers' attention interface or torch's {TORCH}"
        remedy = "Load a model with attn_implementation='sdpa', or use StochasticMultiheadAttention"
        raise ValueError(f"{rule}; {type(model).__name__} has none. {remedy}.")
    return found


def _attend(steps: _HeadSteps, readout: Callable[..., Any], module: nn.Module, *inputs: Any, **options: Any) -> Any:
    """The attention that transformers calls in each layer: its own "sdpa", after the steps of the queries."""
    query, _, _, mask = inputs
    for name in UNSUPPORTED:
        if options.get(name) is not None:
            rule = f"{name} must be None with the implementation 'stochastic', because torch's attention has none"
            raise ValueError(f"{rule}; {type(module).__name__} passes one. Use a model without it.")
    causal = getattr(module, "is_causal", False) and not getattr(module, "is_cross_attention", False)
    if causal and mask is not None and mask.shape[-2] == 1 < query.shape[-2]:
        problem = f"{type(module).__name__} leaves the causal order to its own attention"
        rule = f"attention_mask must have one row per query; {problem}"
        raise ValueError(f"{rule}. Use stochastic(model, ...), or a newer release of transformers.")
    with _InterceptedCalls(steps) if steps.steps.n_steps else nullcontext():
        return readout(module, *inputs, **options)


def _uses(module: nn.Module, name: str) -> bool:
    """Whether the forward of a module's class refers to a name, or to torch's attention under another name."""
    for kind in type(module).__mro__:
        if "forward" in vars(kind):
            forward = inspect.unwrap(vars(kind)["forward"])
            names = getattr(getattr(forward, "__code__", None), "co_names", ())
            renamed = any(forward.__globals__.get(one) is scaled_dot_product_attention for one in names)
            if name in names or (name == TORCH and renamed):
                return True
            if "super" not in names:
                return False
    return False


def _implementations(model: nn.Module) -> list[tuple[object, str]]:
    """Objects and attributes that name the attention implementation: configurations, and modules (GPT-2 in 4.50)."""
    name = "_attn_implementation_internal"
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    owners = [(config, name) for config in configs.values() if getattr(config, name, None) is not None]
    if any(getattr(owner, name) not in (PLAIN, NAME) for owner, name in owners):
        for module in model.modules():
            if getattr(module, "_supports_sdpa", True) is False and any(_uses(m, INTERFACE) for m in module.modules()):
                rule = "model must support torch's attention, attn_implementation='sdpa', on which the steps are built"
                raise ValueError(f"{rule}; {type(module).__name__} of this release of transformers does not.")
    remembered = [module for module in model.modules() if "_attn_implementation" in vars(module)]
    return owners + [(module, "_attn_implementation") for module in remembered]


def _whole_numbers(name: str, values: Sequence[int] | None) -> tuple[int, ...] | None:
    if values is None:
        return None
    if not isinstance(values, Iterable) or isinstance(values, (str, Mapping)):
        raise TypeError(f"{name} must be a list of whole numbers or None; got {values!r}.")
    return tuple(count(f"each of {name}", number, -(2**31)) for number in values)


@dataclass(frozen=True)
class _HeadSteps:
    """Langevin steps, and the heads of a layer that take them; None for all heads."""

    steps: LangevinSteps
    heads: tuple[int, ...] | None = None

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *arguments: Any, **options: Any) -> Tensor:
        """scaled_dot_product_attention of the queries (batch, heads, L, d) after their steps; (batch, heads, L, v)."""
        options |= zip(("attn_mask", "dropout_p", "is_causal"), arguments, strict=False)
        scale = options.pop("scale", None)
        own = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        mask, is_causal = options.get("attn_mask"), options.get("is_causal", False)
        if self.heads is None:
            query = self._states(query, key, own, mask, is_causal)
        elif self.heads:
            if query.ndim != 4:
                raise ValueError(f"heads must be None unless queries have 4 dimensions; they are {tuple(query.shape)}.")
            heads = torch.tensor(_positions("heads", self.heads, query.shape[-3]), device=query.device)
            keys = key.index_select(-3, heads // (query.shape[-3] // key.shape[-3]))
            if mask is not None and mask.ndim > 2 and mask.shape[-3] > 1:
                mask = mask.index_select(-3, heads)
            moved = self._states(query.index_select(-3, heads), keys, own, mask, is_causal)
            query = query.index_copy(1, heads, moved)
        return scaled_dot_product_attention(query, key, value, scale=own, **options)

    def _states(self, query: Tensor, key: Tensor, own: float, mask: Tensor | None, is_causal: bool) -> Tensor:
        """The queries after their steps, to be read out at the layer's own scale."""
        beta = own if self.steps.beta is None else self.steps.beta
        settings = {**vars(self.steps), "beta": beta, "attn_mask": mask, "is_causal": is_causal}
        states = langevin_states(query, key, **settings)
        return (states if beta == own else states * (beta / own)).to(query.dtype)


class _InterceptedCalls(TorchFunctionMode):  # type: ignore[misc]
    """A context in which queries take steps before torch attends; of nested contexts, the inner one applies."""

    def __init__(self, head_steps: _HeadSteps) -> None:
        super().__init__()
        self.head_steps, self.called = head_steps, False

    def __torch_function__(
        self, function: Callable[..., object], types: object, args: Any = (), options: Mapping[str, Any] | None = None
    ) -> object:
        # A compiled graph that runs in Python contains the steps already.
        caller = "" if torch.compiler.is_compiling() else sys._getframe(1).f_code.co_filename
        if function is not scaled_dot_product_attention or caller.startswith("<eval_with_key>"):
            return function(*args, **(options or {}))
        self.called = True
        with torch._C.DisableTorchFunction():  # an outer context must not intercept the calls of the steps
            return self.head_steps.attend(*args, **(options or {}))


class _InterceptedForward:
    """The forward of a module, with the steps of the last context that is open on it."""

    def __init__(self, forward: Callable[..., object]) -> None:
        self.forward, self.open = forward, list[_HeadSteps]()

    def __call__(self, *args: object, **options: object) -> object:
        calls = _InterceptedCalls(self.open[-1])
        with calls:
            result = self.forward(*args, **options)
        if not calls.called:
            name = getattr(self.forward, "__qualname__", str(self.forward))
            problem = f"{name} did not call torch's {TORCH}, so no query took a Langevin step"
            raise RuntimeError(f"{problem}. Request no attention weights or head mask, and no other implementation.")
        return result

    def __reduce__(self) -> tuple[object, ...]:
        # A file gets the module's own forward, and so does a copy: no context would end the steps.
        return getattr, (self.forward.__self__, "forward")  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[int, object]) -> Any:
        return deepcopy(self.forward, memo)


@contextmanager
def _intercepted(module: nn.Module, head_steps: _HeadSteps) -> Iterator[None]:
    """A context in which the queries of a module take steps; several may be open, and may end in any order."""
    own = vars(module)
    with _LOCK:
        if not isinstance(module.forward, _InterceptedForward):
            own["forward"] = _InterceptedForward(module.forward)
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
def _temporarily_set(owner: object, name: str, value: str) -> Iterator[None]:
    """A context in which an attribute has another value; the last such context to end restores the original."""
    key = id(owner), name
    with _LOCK:
        original = _ORIGINALS.setdefault(key, SimpleNamespace(owner=owner, value=getattr(owner, name), contexts=0))
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


def _positions(name: str, values: tuple[int, ...], n: int) -> list[int]:
    """The layers or heads as indices below n, sorted and without duplicates: 3 and -1 may be the same."""
    if wrong := [value for value in values if not -n <= value < n]:
        raise ValueError(f"{name} must lie between {-n} and {n - 1}: there are {n}; got {wrong[0]}.")
    return sorted({value % n for value in values})
