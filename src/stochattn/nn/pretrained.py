"""Pretrained models: the attention implementation "stochastic", and a context that applies it to layers and heads.

The queries of a layer take Langevin steps among its keys, and the model's own attention reads them out. Caches, grouped
heads, dropout and masks are therefore those of the model, and a layer without steps is unchanged.

While a context is open on a module, its class is replaced by a subclass with other calls, so that hooks which replace
`forward`, copies for several devices, compiled code and recomputation all keep the steps.
"""

from __future__ import annotations

import copyreg
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ContextDecorator, ExitStack, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field
from functools import cache, partial
from inspect import signature
from threading import Lock
from types import SimpleNamespace
from typing import Any, NamedTuple, SupportsIndex, TypeAlias
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from .._backend.checks import check_count
from .checkpoints import RepeatedCalls, in_backward, in_checkpoint
from .functional import langevin_states, stochastic_attention
from .inspection import INTERFACE, Acts, Call, Watch, attention_modules, calls, warn_of_missing
from .steps import LangevinSteps

STATE = "_stochattn_steps"
POSITIONAL = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
MASKING = ("attn_mask", "is_causal", "softcap", "sinks")  # options that change the logits of an attention
Options: TypeAlias = "dict[str, Any]"  # of scaled_dot_product_attention
_LOCK = Lock()


@dataclass(frozen=True)
class HeadSteps:
    """Langevin steps, and the heads of a layer that take them; None for all heads."""

    steps: LangevinSteps
    heads: tuple[int, ...] | None = None

    def attend(self, query: Tensor, key: Tensor, value: Tensor, options: Options) -> Tensor:
        """What queries (batch, heads, L, d) read after their steps, by torch's attention unless it lacks an option."""
        scale = options.get("scale")
        scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        seen = {name: options[name] for name in MASKING if options.get(name) is not None}
        attend = stochastic_attention if "softcap" in seen or "sinks" in seen else scaled_dot_product_attention
        return attend(self._take_steps(query, key, scale, seen), key, value, **{**options, "scale": scale})

    def _take_steps(self, query: Tensor, key: Tensor, scale: float, seen: Options) -> Tensor:
        """The queries after the steps of the chosen heads."""
        if self.heads is None:
            return self._states(query, key, scale, seen)
        if not self.heads:
            return query
        if query.ndim != 4:
            raise ValueError(f"heads must be None unless queries have 4 dimensions; they are {tuple(query.shape)}.")
        heads = torch.tensor(normalize_indices("heads", self.heads, query.shape[-3]), device=query.device)
        keys = key.index_select(-3, heads // (query.shape[-3] // key.shape[-3]))
        mask, sinks = seen.get("attn_mask"), seen.get("sinks")
        if mask is not None and mask.ndim > 2 and mask.shape[-3] > 1:
            seen = {**seen, "attn_mask": mask.index_select(-3, heads)}
        if sinks is not None:
            seen = {**seen, "sinks": sinks.index_select(0, heads)}
        states = self._states(query.index_select(-3, heads), keys, scale, seen)
        return query.expand(len(states), -1, -1, -1).index_copy(1, heads, states)

    def _states(self, query: Tensor, key: Tensor, scale: float, seen: Options) -> Tensor:
        """The queries after their steps, to be read out at the scale of the layer."""
        beta = scale if self.steps.beta is None else self.steps.beta
        states = langevin_states(query, key, **{**vars(self.steps), "beta": beta, **seen})
        return (states if beta is scale else states * (beta / scale)).to(query.dtype)


class InterceptedCalls(TorchFunctionMode):  # type: ignore[misc]
    """A context in which queries take steps before torch attends; of nested contexts, the inner one applies."""

    def __init__(self, head_steps: HeadSteps, module: nn.Module, **capped: object) -> None:
        super().__init__()
        self.head_steps, self.module, self.called = head_steps, module, False
        self.capped = capped  # softcap, sinks

    def __torch_function__(
        self, function: Call, types: object, args: Sequence[Tensor] = (), options: Mapping[str, object] | None = None
    ) -> object:
        # A compiled graph that runs in Python contains the steps already.
        caller = "" if torch.compiler.is_compiling() else sys._getframe(1).f_code.co_filename
        if function is not scaled_dot_product_attention or caller.startswith("<eval_with_key>"):
            return function(*args, **(options or {}))
        self.called = True
        with torch._C.DisableTorchFunction():  # an outer context must not intercept the calls of the steps
            settings: Options = {**(options or {}), **dict(zip(POSITIONAL, args, strict=False)), **self.capped}
            query, key, value = (settings.pop(name) for name in POSITIONAL[:3])
            by_head = self.head_steps.heads or self.capped or isinstance(self.head_steps.steps.beta, Tensor)
            if not (by_head and (heads := _packed_heads(self.module, query))):
                return self.head_steps.attend(query, key, value, settings)
            mask = settings.get("attn_mask")
            if mask is not None and mask.ndim == 4 and mask.shape[1] > 1:
                settings["attn_mask"] = mask.reshape(len(mask), heads, 1, mask.shape[-1])
            single, settings["enable_gqa"] = query.reshape(len(query), heads, 1, -1), True
            return self.head_steps.attend(single, key, value, settings).reshape(*query.shape[:-1], -1)


def _packed_heads(module: nn.Module, query: Tensor) -> int:
    """The number of query heads if those that share keys lie in the place of the length, as for a new token; or 0."""
    groups = getattr(module, "num_key_value_groups", 1)
    heads = getattr(getattr(module, "config", None), "num_attention_heads", 0)
    is_packed = groups > 1 and query.ndim == 4 and query.shape[1] * groups == heads and query.shape[2] == groups
    return heads if is_packed else 0


class Entry(NamedTuple):
    """What a context does to a module: its steps, the watch on the model, and the configuration that it sets."""

    steps: HeadSteps | None
    watch: Watch | None
    config: object = None


@dataclass
class _State:
    """The contexts that are open on a module, and those of calls that checkpoints will repeat."""

    plain: type[nn.Module]
    open: list[Entry] = field(default_factory=list)
    running: list[Entry] = field(default_factory=list)
    repeated: RepeatedCalls[Entry] = field(default_factory=RepeatedCalls)

    def current(self) -> Entry | None:
        """The context that applies to a call: the last one that was opened, or the context of a repeated call."""
        last = self.open[-1] if self.open else None
        with_steps = last is not None and last.steps is not None
        if torch.compiler.is_compiling() or not (with_steps or len(self.repeated)):
            return last
        if in_backward():
            repeated = self.repeated.find()
            if repeated is None and with_steps:
                rule = "the backward pass repeats a call of a checkpoint whose forward pass this context has not seen"
                raise RuntimeError(f"{rule}. Run both in it, with preserve_rng_state=True.")
            return repeated
        if in_checkpoint():
            if last is not None and with_steps:
                self.repeated.store(last)
            else:
                self.repeated.supersede()
        return last

    @contextmanager
    def run(self, module: nn.Module, entry: Entry) -> Iterator[None]:
        """A context for one call; a call that is repeated after its context has ended also gets its configuration."""
        attributes, config = vars(module), vars(module).get("config")
        late = entry.config is not None and not self.open
        self.running.append(entry)
        if late:
            attributes["config"] = entry.config
        try:
            yield
        finally:
            self.running.pop()
            if late:
                attributes["config"] = config


def steps_on(module: nn.Module) -> HeadSteps | None:
    """The steps of the call of a module that runs now, or None."""
    state = vars(module).get(STATE)
    return state.running[-1].steps if state is not None and state.running else None


def _with_steps(module: nn.Module, call: Callable[[], object], strict: bool) -> object:
    """The result of a call of a module in its contexts; strict: an error if torch's attention was not called."""
    state: _State | None = vars(module).get(STATE)
    entry = state.current() if state is not None else None
    if state is None or entry is None:
        return call()
    watch = None if entry.watch is None or torch.compiler.is_compiling() else entry.watch.around(module)
    with watch or nullcontext():
        if entry.steps is None:
            return call()
        attention = InterceptedCalls(entry.steps, module)
        with attention, state.run(module, entry):
            result = call()
    by_interface = getattr(entry.config, IMPLEMENTATION, None) == IN_CONTEXT  # its attention reads `steps_on`
    if strict and not (attention.called or by_interface):
        if any(STATE in vars(inner) for inner in module.modules() if inner is not module):
            return result  # attention within this module took the steps
        problem = f"{type(module).__qualname__}.forward did not call torch's scaled_dot_product_attention"
        remedy = "Request no attention weights or head mask, and no other implementation"
        raise RuntimeError(f"{problem}, so no query took a Langevin step. {remedy}.")
    return result


@cache
def _subclass(kind: type[nn.Module]) -> type[nn.Module]:
    """A subclass whose calls take the steps of the open contexts; pickles and copies are of the class itself."""

    def call(self: nn.Module, *args: object, **options: object) -> object:
        compiled = getattr(self._compiled_call_impl, "_torchdynamo_orig_callable", None)
        if self._compiled_call_impl is None or getattr(compiled, "__func__", None) is call_impl:
            return kind.__call__(self, *args, **options)  # which calls the method below
        return _with_steps(self, partial(kind.__call__, self, *args, **options), strict=False)

    def call_impl(self: nn.Module, *args: object, **options: object) -> object:
        return _with_steps(self, partial(kind._call_impl, self, *args, **options), strict=True)

    def reduce(self: nn.Module, protocol: SupportsIndex) -> tuple[object, ...]:
        state = self.__getstate__()
        state = {name: x for name, x in state.items() if name != STATE} if isinstance(state, dict) else state
        return copyreg._reconstructor, (kind, object, None), state  # type: ignore[attr-defined]

    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    methods = {"__call__": call, "_call_impl": call_impl, "__reduce_ex__": reduce}
    return type(kind.__name__, (kind,), {**names, **methods})


@contextmanager
def intercept(module: nn.Module, entry: Entry) -> Iterator[None]:
    """A context in which the queries of a module take steps; several may be open, and may end in any order.

    The module keeps its new class afterwards if checkpoints wait for their backward pass.
    """
    attributes = vars(module)
    with _LOCK:
        state = attributes.setdefault(STATE, _State(type(module)))
        if type(module) is state.plain:
            module.__class__ = _subclass(state.plain)  # type: ignore[arg-type]  # classes are hashable
        state.open.append(entry)
    try:
        yield
    finally:
        with _LOCK:
            del state.open[next(i for i, opened in enumerate(state.open) if opened is entry)]
            if not state.open and not len(state.repeated):
                module.__class__ = state.plain
                del attributes[STATE]


def normalize_indices(name: str, values: tuple[int, ...], n: int) -> list[int]:
    """The layers or heads as indices below n, sorted and without duplicates: 3 and -1 may be the same."""
    if wrong := [value for value in values if not -n <= value < n]:
        raise ValueError(f"{name} must lie between {-n} and {n - 1}: there are {n}; got {wrong[0]}.")
    return sorted({value % n for value in values})


NAME, PLAIN = "stochastic", "sdpa"
IN_CONTEXT = "stochastic_context"  # for models without torch's attention, whose soft caps and sinks it has not
IMPLEMENTATION = "_attn_implementation_internal"
HARMLESS = ("position_ids", "cache_position", "cu_seq_lens_q", "cu_seq_lens_k", "num_items_in_batch")
"""Tensors that models pass beside the keys, which change nothing once rotations are applied and masks are made."""
CAPS = {"softcap": "softcap", "s_aux": "sinks"}  # names in transformers and in `stochastic_attention`
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
    _HOOKS[:] = [register_module_forward_pre_hook(_warn_by_name)] if n_steps else []


def _register(name: str, steps_of: Callable[[nn.Module], HeadSteps]) -> None:
    """Add an attention to transformers whose layers take the steps that `steps_of` returns."""
    try:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as functions
    except ImportError as problem:
        needed = "the attention implementation 'stochastic' needs transformers 4.50 or newer"
        raise ImportError(f"{needed}. Install it with: pip install 'stochattn[transformers]'") from problem
    enter = getattr(functions, "register", functions.__setitem__)  # a plain dict in 4.50
    tensors = frozenset(signature(functions[PLAIN]).parameters).union(HARMLESS)
    enter(name, partial(_attend, steps_of, functions[PLAIN], tensors))
    try:
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as masks
    except ImportError:  # before 4.53 models make their own masks; `_attend` refuses those without causal order
        return
    # Eager masks are numbers to add. Boolean ones, as torch's attention has, change models that add numbers to them.
    masks.register(name, masks["eager"])


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
    >>> model = GPT2Model(GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=9, bos_token_id=0, eos_token_id=0))
    >>> with stochastic(model, n_steps=2, layers=[-1], generator=torch.Generator().manual_seed(0)):
    ...     hidden = model(torch.tensor([[1, 2, 3]])).last_hidden_state
    >>> hidden.shape
    torch.Size([1, 3, 8])
    """
    steps = HeadSteps(LangevinSteps(n_steps, alpha, noise, beta, generator), _check_integers("heads", heads))
    return _Context(model, steps, _check_integers("layers", layers))


class _Context(ContextDecorator, AbstractContextManager[nn.Module]):
    """What `stochastic` returns; its layers are looked up each time that it is entered."""

    def __init__(self, model: nn.Module, steps: HeadSteps, numbers: tuple[int, ...] | None) -> None:
        self.model, self.steps, self.numbers, self.entered = model, steps, numbers, list[ExitStack]()
        self.select_layers()  # numbers that do not exist are an error now

    def select_layers(self) -> list[nn.Module]:
        modules = attention_modules(self.model)
        if self.numbers is None:
            return modules
        return [modules[i] for i in normalize_indices("layers", self.numbers, len(modules))]

    def __enter__(self) -> nn.Module:
        watch = Watch(self.model) if self.numbers is None and self.steps.steps.n_steps else None
        layers = self.select_layers()
        with ExitStack() as undo:
            undo.enter_context(_through_torch(self.model))
            if watch is not None:
                undo.callback(watch.finish)
            if self.model not in layers:
                undo.enter_context(intercept(self.model, Entry(None, watch)))
            for module in layers:
                undo.enter_context(intercept(module, Entry(self.steps, watch, vars(module).get("config"))))
            self.entered.append(undo.pop_all())
        return self.model

    def __exit__(self, *error: object) -> None:
        self.entered.pop().close()


def _attend(
    steps_of: Callable[[nn.Module], HeadSteps],
    readout: Callable[..., tuple[Tensor, Tensor | None]],
    allowed_tensors: frozenset[str],
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    **options: object,
) -> tuple[Tensor, Tensor | None]:
    """The attention that transformers calls in each layer: its own "sdpa", after the steps of the queries."""
    passed = {ours: options.pop(theirs, None) for theirs, ours in CAPS.items()}
    capped = {name: value for name, value in passed.items() if value is not None}
    for name, option in options.items():  # transformers' own "sdpa" drops unknown ones
        if isinstance(option, Tensor) and name not in allowed_tensors:
            rule = f"{name} must be None with the implementation 'stochastic', because torch's attention has none"
            raise ValueError(f"{rule}; {type(module).__name__} passes one. Use a model without it.")
    causal = getattr(module, "is_causal", False) and not getattr(module, "is_cross_attention", False)
    if causal and attention_mask is not None and attention_mask.shape[-2] == 1 < query.shape[-2]:
        rule = f"attention_mask must have one row per query; {type(module).__name__} leaves the order to its attention"
        raise ValueError(f"{rule}. Use stochastic(model, ...), or a newer release of transformers.")
    head_steps = steps_of(module)
    with InterceptedCalls(head_steps, module, **capped) if head_steps.steps.n_steps or capped else nullcontext():
        return readout(module, query, key, value, attention_mask, **options)


def _warn_by_name(module: nn.Module, inputs: object) -> None:
    """Before the first pass of a model that uses the implementation by its name, warn of layers that take no steps."""
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
    copies = _copy_configs(modules)
    with ExitStack() as undo:
        for module in modules:
            if id(config := vars(module).get("config")) in copies:
                undo.enter_context(_temporarily_set(module, "config", copies[id(config)]))
            if "_attn_implementation" in vars(module):  # GPT-2 in 4.50
                undo.enter_context(_temporarily_set(module, "_attn_implementation", PLAIN))
        yield


def _copy_configs(modules: list[nn.Module]) -> dict[int, object]:
    """Copies of the configurations of modules, by the id of the original, in which torch's attention is set.

    The switch of transformers would change the configuration itself, and restore one name for all parts of a model.
    """
    refusing = (module for module in modules if getattr(module, "_supports_sdpa", True) is False)
    without = [module.config for module in refusing if hasattr(module, "config")]
    copies = dict[int, object]()
    for module in modules:
        config = vars(module).get("config")
        name = getattr(config, IMPLEMENTATION, None)
        if name is None or id(config) in copies:
            continue
        is_copy = (id(module), "config") in _ORIGINALS
        copied = copies[id(config)] = config if is_copy else copy(config)
        # In some releases torch's attention leaves soft caps out, which the model's own attention has.
        capped = name != PLAIN and getattr(config, "attn_logit_softcapping", None) is not None
        in_context = capped or any(config is unsupported for unsupported in without)
        vars(copied)[IMPLEMENTATION] = IN_CONTEXT if in_context else PLAIN
    if any(getattr(copied, IMPLEMENTATION) == IN_CONTEXT for copied in copies.values()):
        _register(IN_CONTEXT, lambda module: steps_on(module) or HeadSteps(LangevinSteps()))
    for copied in copies.values():
        vars(copied).update({name: copies[id(part)] for name, part in vars(copied).items() if id(part) in copies})
    return copies


def _check_integers(name: str, values: Sequence[int] | None) -> tuple[int, ...] | None:
    if values is None:
        return None
    if not isinstance(values, Iterable) or isinstance(values, (str, Mapping)):
        raise TypeError(f"{name} must be a list of integers or None; got {values!r}.")
    return tuple(check_count(f"each of {name}", number, -(2**31)) for number in values)


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
                if hasattr(original.value, IMPLEMENTATION):  # what was set on the copy of a configuration stays set
                    changes = vars(vars(owner)[name]).items()
                    kept = {k: x for k, x in changes if k != IMPLEMENTATION and not hasattr(x, IMPLEMENTATION)}
                    vars(original.value).update(kept)
                vars(owner)[name] = original.value
                del _ORIGINALS[key]
