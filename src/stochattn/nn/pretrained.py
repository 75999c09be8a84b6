"""Pretrained models: the attention implementation "stochastic", and a context that applies it to layers and heads.

The queries of a layer take Langevin steps among its keys, and the model's own attention reads them out. Caches, grouped
heads, dropout and masks are therefore those of the model, and a layer without steps is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ContextDecorator, ExitStack, contextmanager
from copy import copy
from functools import partial
from threading import Lock
from types import SimpleNamespace
from typing import TypeAlias
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from .._backend.checks import count
from .inspection import INTERFACE, Acts, attention_modules, calls
from .interception import Entry, HeadSteps, InterceptedCalls, intercepted, positions, steps_on
from .steps import LangevinSteps
from .watch import Watch, warn_of_missing

Attended: TypeAlias = "tuple[Tensor, Tensor | None]"
NAME, PLAIN = "stochastic", "sdpa"
IN_CONTEXT = "stochastic_context"  # for models without torch's attention, whose soft caps and sinks it has not
IMPLEMENTATION = "_attn_implementation_internal"
UNSUPPORTED = ("head_mask", "indices", "block_indices")
CAPS = {"softcap": "softcap", "s_aux": "sinks"}  # names in transformers and in `stochastic_attention`
_LOCK = Lock()
_ORIGINALS: dict[tuple[int, str], SimpleNamespace] = {}  # with the owner, so that no other object gets its id
_CHECKED: WeakSet[nn.Module] = WeakSet()
_HOOKS: list[RemovableHandle] = []


def register(
    n_steps: int = 0,
    *,
    alpha: float = 0.01,
    noise: float = 1.0,
    beta: float | Tensor | None = None,
    generator: torch.Generator | None = None,
) -> None:
    """Register the attention "stochastic" with transformers, for `model.set_attn_implementation("stochastic")`.

    The settings apply to all models that use this implementation; register again to change them. beta is a number, or
    a tensor such as (heads, 1, 1). Modules without an attention interface keep their own attention; a warning names
    them when the model is called, and `check(model)` lists them.

    >>> from stochattn.nn import register
    >>> register(n_steps=0)
    """
    head_steps = HeadSteps(LangevinSteps(n_steps, alpha, noise, beta, generator))
    _register(NAME, lambda module: head_steps)
    for hook in _HOOKS:
        hook.remove()
    _HOOKS[:] = [register_module_forward_pre_hook(_check_named)] if n_steps else []


def _register(name: str, steps_of: Callable[[nn.Module], HeadSteps]) -> None:
    """Add an attention to transformers whose layers take the steps that `steps_of` returns."""
    try:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as functions
    except ImportError as problem:
        needed = "the attention implementation 'stochastic' needs transformers 4.50 or newer"
        raise ImportError(f"{needed}. Install it with: pip install 'stochattn[transformers]'") from problem
    enter = getattr(functions, "register", functions.__setitem__)  # a plain dict in 4.50
    enter(name, partial(_attend, steps_of, functions[PLAIN]))
    try:
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as masks
    except ImportError:  # before 4.53 models make their own masks; `_attend` refuses those without causal order
        return
    masks.register(name, masks[PLAIN])


def stochastic(
    model: nn.Module,
    n_steps: int = 10,
    *,
    alpha: float = 0.01,
    noise: float = 1.0,
    beta: float | Tensor | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    generator: torch.Generator | None = None,
) -> AbstractContextManager[nn.Module]:
    """A context in which the queries of the chosen layers and heads of a model take Langevin steps; yields the model.

    layers, heads: indices, or None for all. Layers are numbered as in `check(model)`, with those of an encoder before
    those of its decoder; negative numbers count from the end. beta is each layer's own scale by default, a number, or
    a tensor such as (heads, 1, 1). The other layers use torch's attention. Of several contexts open on a layer, the
    last one applies. A context may be used again. If layers is None, a warning after the first forward pass names
    attention that took no steps.

    >>> import torch
    >>> from stochattn.nn import stochastic
    >>> from transformers import GPT2Config, GPT2Model
    >>> config = GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=9, bos_token_id=0, eos_token_id=0)
    >>> model = GPT2Model(config).eval()
    >>> with stochastic(model, n_steps=2, layers=[-1], generator=torch.Generator().manual_seed(0)):
    ...     hidden = model(torch.tensor([[1, 2, 3]])).last_hidden_state
    >>> hidden.shape
    torch.Size([1, 3, 8])
    """
    steps = HeadSteps(LangevinSteps(n_steps, alpha, noise, beta, generator), _whole_numbers("heads", heads))
    context = _Context(model, steps, _whole_numbers("layers", layers))
    context.chosen()
    return context


class _Context(ContextDecorator, AbstractContextManager[nn.Module]):
    """What `stochastic` returns; each time that it is entered, the layers of the model are found anew."""

    def __init__(self, model: nn.Module, steps: HeadSteps, numbers: tuple[int, ...] | None) -> None:
        self.model, self.steps, self.numbers, self.entered = model, steps, numbers, list[ExitStack]()

    def chosen(self) -> list[nn.Module]:
        modules = attention_modules(self.model)
        if self.numbers is None:
            return modules
        return [modules[i] for i in positions("layers", self.numbers, len(modules))]

    def __enter__(self) -> nn.Module:
        watch = Watch(self.model) if self.numbers is None and self.steps.steps.n_steps else None
        chosen = self.chosen()
        with ExitStack() as undo:
            undo.enter_context(_through_torch(self.model))
            if watch is not None:
                undo.callback(watch.finish)
            if self.model not in chosen:
                undo.enter_context(intercepted(self.model, Entry(None, watch)))
            for module in chosen:
                config = vars(module).get("config")
                by_interface = getattr(config, IMPLEMENTATION, None) == IN_CONTEXT
                undo.enter_context(intercepted(module, Entry(self.steps, watch, config, by_interface)))
            self.entered.append(undo.pop_all())
        return self.model

    def __exit__(self, *error: object) -> None:
        self.entered.pop().close()


def _attend(
    steps_of: Callable[[nn.Module], HeadSteps],
    readout: Callable[..., Attended],
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    **options: object,
) -> Attended:
    """The attention that transformers calls in each layer: its own "sdpa", after the steps of the queries."""
    for name in UNSUPPORTED:
        if options.get(name) is not None:
            rule = f"{name} must be None with the implementation 'stochastic', because torch's attention has none"
            raise ValueError(f"{rule}; {type(module).__name__} passes one. Use a model without it.")
    causal = getattr(module, "is_causal", False) and not getattr(module, "is_cross_attention", False)
    if causal and attention_mask is not None and attention_mask.shape[-2] == 1 < query.shape[-2]:
        problem = f"{type(module).__name__} leaves the causal order to its own attention"
        rule = f"attention_mask must have one row per query; {problem}"
        raise ValueError(f"{rule}. Use stochastic(model, ...), or a newer release of transformers.")
    capped = {ours: options.pop(theirs, None) for theirs, ours in CAPS.items()}
    head_steps = steps_of(module)
    if head_steps.steps.n_steps or any(value is not None for value in capped.values()):
        with InterceptedCalls(head_steps, module, **capped):
            return readout(module, query, key, value, attention_mask, **options)
    return readout(module, query, key, value, attention_mask, **options)


def _check_named(module: nn.Module, inputs: object) -> None:
    """Warn of layers that take no steps before the first pass of a model that uses the implementation by its name."""
    if torch.compiler.is_compiling() or getattr(vars(module).get("config"), IMPLEMENTATION, None) != NAME:
        return
    if module not in _CHECKED:
        _CHECKED.update(module.modules())
        rule = "By name, only layers with the attention interface of transformers take steps"
        remedy = f"{rule}, and others may misread the masks; use stochastic(model, ...) for those. "
        warn_of_missing(module, {Acts.BOTH, Acts.OWN}, [], remedy)


@contextmanager
def _through_torch(model: nn.Module) -> Iterator[None]:
    """A context in which a model uses torch's attention, and other models that share its configuration do not."""
    modules = list(model.modules())
    if not any(INTERFACE in calls(type(module)) for module in modules):
        yield
        return
    copies = _copies(modules)
    with ExitStack() as undo:
        for module in modules:
            if id(config := vars(module).get("config")) in copies:
                undo.enter_context(_temporarily_set(module, "config", copies[id(config)]))
            if "_attn_implementation" in vars(module):  # GPT-2 in 4.50
                undo.enter_context(_temporarily_set(module, "_attn_implementation", PLAIN))
        yield


def _copies(modules: list[nn.Module]) -> dict[int, object]:
    """Copies of the configurations of modules, by the id of the original, which name torch's attention.

    transformers' own switch would change the configuration itself, and restore one name for all parts of a model.
    """
    without = [
        one.config for one in modules if getattr(one, "_supports_sdpa", True) is False and hasattr(one, "config")
    ]
    copies = dict[int, object]()
    for module in modules:
        config = vars(module).get("config")
        name = getattr(config, IMPLEMENTATION, None)
        if name is None or id(config) in copies:
            continue
        is_copy = (id(module), "config") in _ORIGINALS
        made = copies[id(config)] = config if is_copy else copy(config)
        # In some releases torch's attention leaves soft caps out, which the model's own attention has.
        capped = name != PLAIN and getattr(config, "attn_logit_softcapping", None) is not None
        vars(made)[IMPLEMENTATION] = IN_CONTEXT if capped or any(one is config for one in without) else PLAIN
    if any(getattr(made, IMPLEMENTATION) == IN_CONTEXT for made in copies.values()):
        _register(IN_CONTEXT, lambda module: steps_on(module) or HeadSteps(LangevinSteps()))
    for made in copies.values():
        vars(made).update({name: copies[id(part)] for name, part in vars(made).items() if id(part) in copies})
    return copies


def _whole_numbers(name: str, values: Sequence[int] | None) -> tuple[int, ...] | None:
    if values is None:
        return None
    if not isinstance(values, Iterable) or isinstance(values, (str, Mapping)):
        raise TypeError(f"{name} must be a list of whole numbers or None; got {values!r}.")
    return tuple(count(f"each of {name}", number, -(2**31)) for number in values)


@contextmanager
def _temporarily_set(owner: nn.Module, name: str, value: object) -> Iterator[None]:
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
                _keep_changes(original.value, vars(owner)[name])
                vars(owner)[name] = original.value
                del _ORIGINALS[key]


def _keep_changes(config: object, changed: object) -> None:
    """Give a configuration the attributes that were set on its copy in a context."""
    for name, value in vars(changed).items() if hasattr(config, IMPLEMENTATION) else ():
        if name != IMPLEMENTATION and not hasattr(value, IMPLEMENTATION):
            vars(config)[name] = value
