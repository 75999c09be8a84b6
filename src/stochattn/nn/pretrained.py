"""Pretrained models: transformers' implementation "stochastic", and a context that turns it on for some layers, heads.

The queries of a layer walk among its keys; what they read is the model's own attention. So caches, grouped heads,
dropout and masks are those of the model, and a layer that takes no step is untouched.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from .._checks import count
from .interception import HeadWalk, WalkedCalls
from .walk import Walk

NAME = "stochastic"
SETTINGS = "_stochattn_walk"  # where an attention module finds how its queries walk
INTERFACE, TORCH = "ALL_ATTENTION_FUNCTIONS", "scaled_dot_product_attention"
UNSEEN = ("softcap", "s_aux", "head_mask")  # they change weights in ways that torch's attention does not know


def register(
    n_steps: int = 0,
    *,
    alpha: float = 0.01,
    noise: float = 1.0,
    beta: float | None = None,
    generator: torch.Generator | None = None,
) -> None:
    """Make `model.set_attn_implementation("stochastic")` known to transformers: its attention and its masks.

    The settings are those of all models that are switched on by this name; register again to change them.
    `stochastic(model, ...)` has settings of its own for as long as it lasts.
    """
    default = HeadWalk(Walk(n_steps, alpha, noise, beta, generator))
    try:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as functions
    except ImportError as problem:
        raise ImportError(
            "the attention implementation 'stochastic' needs transformers 4.50 or newer: "
            "pip install 'stochattn[transformers]'"
        ) from problem
    _enter(functions, partial(_attend, readout=functions["sdpa"], default=default))
    try:
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as masks
    except ImportError:  # before 4.53 models made their masks themselves, in full for names they did not know
        return
    _enter(masks, masks["sdpa"])


@contextmanager
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
) -> Iterator[nn.Module]:
    """The model, with stochastic attention in the chosen layers and heads (all unless given) until the context ends.

    Layers are counted in the order of `attention_modules(model)`, an encoder's before its decoder's; negative numbers
    count from the end. beta is each layer's own scale unless given. Contexts can be nested: the inner one decides.
    """
    walk = HeadWalk(Walk(n_steps, alpha, noise, beta, generator), _whole_numbers("heads", heads))
    modules = attention_modules(model)
    with ExitStack() as undo:
        if any(_uses(module, INTERFACE) for module in modules):
            _switch_on(model, undo)
        for layer in _positions(layers, len(modules)):
            module = modules[layer]
            if _uses(module, INTERFACE):
                _set(module, SETTINGS, walk, undo)
            else:
                _set(module, "forward", partial(_forward, _plain_forward(module), walk), undo)
        yield model


def attention_modules(model: nn.Module) -> list[nn.Module]:
    """The attention of a model, in the order of `model.modules()`: what uses transformers' attention interface, and

    what calls torch's scaled_dot_product_attention itself.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch module; got {type(model).__name__}.")
    found = [module for module in model.modules() if _uses(module, INTERFACE) or _uses(module, TORCH)]
    if not found:
        raise ValueError(
            f"model must hold attention that goes through transformers' attention interface or calls torch's "
            f"scaled_dot_product_attention; {type(model).__name__} holds none. Load a model of transformers with "
            "attn_implementation='sdpa'; for nn.MultiheadAttention there is StochasticMultiheadAttention."
        )
    return found


def _attend(
    module: nn.Module, *tensors: Tensor | None, readout: Callable[..., Any], default: HeadWalk, **options: Any
) -> Any:
    """What transformers calls in each layer: its own "sdpa", with the queries walked on the way."""
    for name in UNSEEN:
        if options.get(name) is not None:
            raise ValueError(
                f"{name} must be None with the implementation 'stochastic', which reads as torch's attention does; "
                f"{type(module).__name__} passes one. Use a model without it."
            )
    walk: HeadWalk = getattr(module, SETTINGS, default)
    if not walk.walk.n_steps:
        return readout(module, *tensors, **options)
    with WalkedCalls(walk):
        return readout(module, *tensors, **options)


def _forward(forward: Callable[..., Any], walk: HeadWalk, *args: Any, **options: Any) -> Any:
    """What a module does that calls torch's attention itself, with its queries walked."""
    with WalkedCalls(walk) as calls:
        result = forward(*args, **options)
    if not calls.seen:
        name = getattr(forward, "__qualname__", str(forward))
        raise RuntimeError(
            f"{name} did not call torch's scaled_dot_product_attention this time, so no query walked. "
            "Ask it for no attention weights and no head mask, and turn other implementations off."
        )
    return result


def _plain_forward(module: nn.Module) -> Callable[..., Any]:
    """The forward of a module without the walk of a context around this one."""
    forward = module.forward
    ours = isinstance(forward, partial) and forward.func is _forward
    return cast(Callable[..., Any], forward.args[0] if ours else forward)


def _uses(module: nn.Module, name: str) -> bool:
    """Whether the forward of a module, as written in its class, mentions a name."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code is not None and name in code.co_names


def _switch_on(model: nn.Module, undo: ExitStack) -> None:
    """Each configuration in the model names our implementation, until undone.

    Set one by one: transformers' own switch would give all of them one name when it is turned back.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as functions

    if NAME not in functions:
        register()
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    for config in configs.values():
        if hasattr(config, "_attn_implementation_internal"):
            _set(config, "_attn_implementation_internal", NAME, undo)


def _set(owner: Any, name: str, value: Any, undo: ExitStack) -> None:
    """An attribute of one object, as it was once undone."""
    own = vars(owner)
    if name in own:
        undo.callback(own.__setitem__, name, own[name])
    else:
        undo.callback(own.pop, name, None)
    own[name] = value


def _enter(interface: Any, function: Callable[..., Any]) -> None:
    if hasattr(interface, "register"):
        interface.register(NAME, function)
    else:  # a plain dict in 4.50
        interface[NAME] = function


def _positions(layers: Sequence[int] | None, n_layers: int) -> list[int]:
    chosen = _whole_numbers("layers", layers)
    if chosen is None:
        return list(range(n_layers))
    for layer in chosen:
        if not -n_layers <= layer < n_layers:
            raise ValueError(f"layers must lie between 0 and {n_layers - 1}: the model has {n_layers}; got {layer}.")
    return sorted({layer % n_layers for layer in chosen})


def _whole_numbers(name: str, values: Sequence[int] | None) -> tuple[int, ...] | None:
    if values is None:
        return None
    try:
        numbers = list(values)
    except TypeError:
        raise TypeError(f"{name} must be a list of whole numbers or None; got {values!r}. [0] is the first.") from None
    return tuple(dict.fromkeys(count(name, number, -(2**31)) for number in numbers))
