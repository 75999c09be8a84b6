"""Modules whose calls of torch's attention take Langevin steps first, while a context is open on them.

The class of a module is replaced by a subclass with other calls, so that hooks which replace `forward`, copies
for several devices, compiled code and recomputation all keep the steps.
"""

from __future__ import annotations

import copyreg
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import NamedTuple, SupportsIndex, TypeAlias, TypedDict, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from .checkpoints import RepeatedCalls, in_backward, in_checkpoint
from .functional import langevin_states, stochastic_attention
from .steps import LangevinSteps
from .watch import Watch

STATE = "_stochattn_steps"
POSITIONAL = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
Given: TypeAlias = "Mapping[str, object]"
_SUBCLASSES: dict[type[nn.Module], type[nn.Module]] = {}
_LOCK = Lock()


class Masking(TypedDict, total=False):
    """What changes the logits of an attention."""

    attn_mask: Tensor
    is_causal: bool
    softcap: float
    sinks: Tensor


class Options(Masking, total=False):
    """The options of scaled_dot_product_attention."""

    dropout_p: float
    scale: float | None
    enable_gqa: bool


@dataclass(frozen=True)
class HeadSteps:
    """Langevin steps, and the heads of a layer that take them; None for all heads."""

    steps: LangevinSteps
    heads: tuple[int, ...] | None = None

    def attend(self, query: Tensor, key: Tensor, value: Tensor, options: Options) -> Tensor:
        """scaled_dot_product_attention of the queries (batch, heads, L, d) after their steps; (batch, heads, L, v).

        The options may include softcap and sinks, which `stochastic_attention` has.
        """
        scale = options.get("scale")
        own = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        seen: Masking = {}
        for name in Masking.__annotations__:
            if options.get(name) is not None:
                seen[name] = options[name]  # type: ignore[literal-required]
        query = self._moved(query, key, own, seen)
        options = {**options, "scale": own}
        if "softcap" in seen or "sinks" in seen:
            return stochastic_attention(query, key, value, **options)
        return scaled_dot_product_attention(query, key, value, **options)  # type: ignore[misc]

    def _moved(self, query: Tensor, key: Tensor, own: float, seen: Masking) -> Tensor:
        """The queries, of which those of the chosen heads took their steps."""
        if self.heads is None:
            return self._states(query, key, own, seen)
        if not self.heads:
            return query
        if query.ndim != 4:
            raise ValueError(f"heads must be None unless queries have 4 dimensions; they are {tuple(query.shape)}.")
        heads = torch.tensor(positions("heads", self.heads, query.shape[-3]), device=query.device)
        keys = key.index_select(-3, heads // (query.shape[-3] // key.shape[-3]))
        mask, sinks = seen.get("attn_mask"), seen.get("sinks")
        if mask is not None and mask.ndim > 2 and mask.shape[-3] > 1:
            seen = {**seen, "attn_mask": mask.index_select(-3, heads)}
        if sinks is not None:
            seen = {**seen, "sinks": sinks.index_select(0, heads)}
        moved = self._states(query.index_select(-3, heads), keys, own, seen)
        if len(moved) > len(query):
            query = query.expand(len(moved), -1, -1, -1)
        return query.index_copy(1, heads, moved)

    def _states(self, query: Tensor, key: Tensor, own: float, seen: Masking) -> Tensor:
        """The queries after their steps, to be read out at the layer's own scale."""
        beta = own if self.steps.beta is None else self.steps.beta
        states = langevin_states(query, key, **{**vars(self.steps), "beta": beta, **seen})
        return (states if beta is own else states * (beta / own)).to(query.dtype)


class InterceptedCalls(TorchFunctionMode):  # type: ignore[misc]
    """A context in which queries take steps before torch attends; of nested contexts, the inner one applies."""

    def __init__(self, head_steps: HeadSteps, module: nn.Module, **capped: object) -> None:
        super().__init__()
        self.head_steps, self.module, self.called = head_steps, module, False
        self.capped = {name: value for name, value in capped.items() if value is not None}  # softcap, sinks

    def __torch_function__(
        self, function: Callable[..., object], types: object, args: Sequence[Tensor] = (), options: Given | None = None
    ) -> object:
        # A compiled graph that runs in Python contains the steps already.
        caller = "" if torch.compiler.is_compiling() else sys._getframe(1).f_code.co_filename
        if function is not scaled_dot_product_attention or caller.startswith("<eval_with_key>"):
            return function(*args, **(options or {}))
        self.called = True
        with torch._C.DisableTorchFunction():  # an outer context must not intercept the calls of the steps
            given = {**(options or {}), **dict(zip(POSITIONAL, args, strict=False)), **self.capped}
            query, key, value = (cast(Tensor, given.pop(name)) for name in POSITIONAL[:3])
            settings = cast(Options, given)
            by_head = self.head_steps.heads or self.capped or isinstance(self.head_steps.steps.beta, Tensor)
            if by_head and (heads := _packed_heads(self.module, query)):
                return _unpacked(self.head_steps, heads, query, key, value, settings)
            return self.head_steps.attend(query, key, value, settings)


def _packed_heads(module: nn.Module, query: Tensor) -> int:
    """The number of query heads of a layer whose heads that share keys lie in the place of the length, or else 0.

    transformers does this for a single new token.
    """
    groups = getattr(module, "num_key_value_groups", 1)
    heads = getattr(getattr(module, "config", None), "num_attention_heads", 0)
    packed = groups > 1 and query.ndim == 4 and query.shape[1] * groups == heads
    return heads if packed and query.shape[2] == groups else 0


def _unpacked(head_steps: HeadSteps, heads: int, query: Tensor, key: Tensor, value: Tensor, options: Options) -> Tensor:
    """The attention of queries whose heads lie in the place of the length, with the heads in their own place."""
    mask = options.get("attn_mask")
    if mask is not None and mask.ndim == 4 and mask.shape[1] > 1:
        options = {**options, "attn_mask": mask.reshape(len(mask), heads, 1, mask.shape[-1])}
    single = query.reshape(len(query), heads, 1, -1)
    out = head_steps.attend(single, key, value, {**options, "enable_gqa": True})
    return out.reshape(*query.shape[:-1], -1)


class Entry(NamedTuple):
    """What a context does to a module: its steps, the watch on the model, and the configuration that it sets.

    by_interface: an attention of this package reads `steps_on`, and may call no attention of torch
    """

    steps: HeadSteps | None
    watch: Watch | None
    config: object = None
    by_interface: bool = False


@dataclass
class _State:
    """The contexts that are open on a module, and those of calls that checkpoints will repeat."""

    plain: type[nn.Module]
    open: list[Entry] = field(default_factory=list)
    running: list[Entry] = field(default_factory=list)
    repeated: RepeatedCalls[Entry] = field(default_factory=RepeatedCalls)

    def current(self) -> Entry | None:
        """The context that applies to a call: the last one opened, or that of the call which is repeated."""
        last = self.open[-1] if self.open else None
        with_steps = last is not None and last.steps is not None
        if torch.compiler.is_compiling():
            return last
        if in_backward() and (with_steps or len(self.repeated)):
            found = self.repeated.find()
            if found is None and with_steps:
                rule = "the backward pass repeats a call of a checkpoint whose forward pass this context has not seen"
                raise RuntimeError(f"{rule}. Run both in it, with preserve_rng_state=True.")
            return found
        if (with_steps or len(self.repeated)) and in_checkpoint():
            if last is not None and with_steps:
                self.repeated.store(last)
            else:
                self.repeated.supersede()
        return last

    @contextmanager
    def run(self, module: nn.Module, entry: Entry) -> Iterator[None]:
        """A context for one call; one that is repeated after its context has ended also gets its configuration."""
        own, kept = vars(module), vars(module).get("config")
        late = entry.config is not None and not self.open
        self.running.append(entry)
        if late:
            own["config"] = entry.config
        try:
            yield
        finally:
            self.running.pop()
            if late:
                own["config"] = kept


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
        calls = InterceptedCalls(entry.steps, module)
        with calls, state.run(module, entry):
            result = call()
    if strict and not (calls.called or entry.by_interface):
        if any(STATE in vars(inner) for inner in module.modules() if inner is not module):
            return result  # attention within this module took the steps
        problem = f"{type(module).__qualname__}.forward did not call torch's scaled_dot_product_attention"
        remedy = "Request no attention weights or head mask, and no other implementation"
        raise RuntimeError(f"{problem}, so no query took a Langevin step. {remedy}.")
    return result


def _intercepting(kind: type[nn.Module]) -> type[nn.Module]:
    """A subclass whose calls take the steps of the contexts that are open; pickles and copies are of the class."""
    if kind in _SUBCLASSES:
        return _SUBCLASSES[kind]

    def call(self: nn.Module, *args: object, **options: object) -> object:
        compiled = getattr(self._compiled_call_impl, "_torchdynamo_orig_callable", None)
        if self._compiled_call_impl is None or getattr(compiled, "__func__", None) is call_impl:
            return kind.__call__(self, *args, **options)  # which calls the method below
        return _with_steps(self, partial(kind.__call__, self, *args, **options), strict=False)

    def call_impl(self: nn.Module, *args: object, **options: object) -> object:
        return _with_steps(self, partial(kind._call_impl, self, *args, **options), strict=True)

    def reduce(self: nn.Module, protocol: SupportsIndex) -> tuple[object, ...]:
        state = self.__getstate__()
        state = {name: one for name, one in state.items() if name != STATE} if isinstance(state, dict) else state
        return copyreg._reconstructor, (kind, object, None), state  # type: ignore[attr-defined]

    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    methods = {"__call__": call, "_call_impl": call_impl, "__reduce_ex__": reduce}
    made = _SUBCLASSES[kind] = type(kind.__name__, (kind,), {**names, **methods})
    return made


@contextmanager
def intercepted(module: nn.Module, entry: Entry) -> Iterator[None]:
    """A context in which the queries of a module take steps; several may be open, and may end in any order.

    The module keeps its new class afterwards if checkpoints wait for their backward pass.
    """
    own = vars(module)
    with _LOCK:
        state = own.setdefault(STATE, _State(type(module)))
        if type(module) is state.plain:
            module.__class__ = _intercepting(state.plain)
        state.open.append(entry)
    try:
        yield
    finally:
        with _LOCK:
            del state.open[next(i for i, one in enumerate(state.open) if one is entry)]
            if not state.open and not len(state.repeated):
                module.__class__ = state.plain
                del own[STATE]


def positions(name: str, values: tuple[int, ...], n: int) -> list[int]:
    """The layers or heads as indices below n, sorted and without duplicates: 3 and -1 may be the same."""
    if wrong := [value for value in values if not -n <= value < n]:
        raise ValueError(f"{name} must lie between {-n} and {n - 1}: there are {n}; got {wrong[0]}.")
    return sorted({value % n for value in values})
