"""Pretrained models: transformers' implementation "stochastic", and a context that turns it on for some layers, heads.

The queries of a layer walk among its keys; what they read is the model's own attention. So caches, grouped heads,
dropout and masks are those of the model, and a layer that takes no step is untouched.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from .._backend.checks import count
from .interception import HeadWalk, lent, walked, walking
from .multihead import StochasticMultiheadAttention
from .walk import Walk

NAME, PLAIN = "stochastic", "sdpa"
INTERFACE, TORCH = "ALL_ATTENTION_FUNCTIONS", "scaled_dot_product_attention"
UNSEEN = ("softcap", "s_aux", "head_mask", "indices", "block_indices")  # torch's attention does not know of these


def register(
    n_steps: int = 0,
    *,
    alpha: float = 0.01,
    noise: float = 1.0,
    beta: float | None = None,
    generator: torch.Generator | None = None,
) -> None:
    """Make `model.set_attn_implementation("stochastic")` known to transformers: its attention and its masks.

    The settings are those of all models that are switched on by this name; register again to change them. What has no
    attention interface is not switched on, of which transformers warns: `attention_modules(model)` says what has.
    """
    walk = HeadWalk(Walk(n_steps, alpha, noise, beta, generator))
    try:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as functions
    except ImportError as problem:
        raise ImportError(
            "the attention implementation 'stochastic' needs transformers 4.50 or newer: "
            "pip install 'stochattn[transformers]'"
        ) from problem
    _enter(functions, partial(_attend, readout=functions[PLAIN], walk=walk))
    try:
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as masks
    except ImportError:  # before 4.53 models made their masks themselves; `_attend` refuses those that are not causal
        return
    _enter(masks, masks[PLAIN])


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
    """A context for `with`, in which the chosen layers and heads of a model (all unless given) attend stochastically.

    Layers are counted in the order of `attention_modules(model)`, an encoder's before its decoder's; negative numbers
    count from the end. beta is each layer's own scale unless given. All other layers attend as torch does. Where
    several contexts are open on a layer, the last one decides.
    """
    walk = HeadWalk(Walk(n_steps, alpha, noise, beta, generator), _whole_numbers("heads", heads))
    modules = attention_modules(model)
    chosen = [modules[layer] for layer in _positions(layers, len(modules))]
    if layers is None:
        _tell_of_others(model)
    if generator is not None and any(
        getattr(m, "gradient_checkpointing", False) and m.training for m in model.modules()
    ):
        raise ValueError(
            "generator must be None while gradient checkpoints are on: their second pass would draw other noise. "
            "torch.manual_seed makes such a run repeatable."
        )
    return _walking_model(model, modules, chosen, walk)


@contextmanager
def _walking_model(
    model: nn.Module, modules: list[nn.Module], chosen: list[nn.Module], walk: HeadWalk
) -> Iterator[nn.Module]:
    with ExitStack() as undo:
        if any(_uses(module, INTERFACE) for module in modules):
            for owner, name in _implementations(model):
                undo.enter_context(lent(owner, name, PLAIN))
        for module in chosen:
            undo.enter_context(walking(module, walk))
        yield model


def attention_modules(model: nn.Module) -> list[nn.Module]:
    """The attention of a model, in the order of `model.modules()`: what uses transformers' attention interface, and

    what calls torch's scaled_dot_product_attention itself.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch module; got {type(model).__name__}. Of a pipeline, give its .model.")
    found = [module for module in model.modules() if _uses(module, INTERFACE) or _uses(module, TORCH)]
    if not found:
        raise ValueError(
            f"model must hold attention whose own forward uses transformers' attention interface or calls torch's "
            f"scaled_dot_product_attention; {type(model).__name__} holds none. Load a model of transformers with "
            "attn_implementation='sdpa'; for nn.MultiheadAttention there is StochasticMultiheadAttention."
        )
    return found


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    readout: Callable[..., Any],
    walk: HeadWalk,
    **options: Any,
) -> Any:
    """What transformers calls in each layer: its own "sdpa", with the queries walked on the way."""
    for name in UNSEEN:
        if options.get(name) is not None:
            raise ValueError(
                f"{name} must be None with the implementation 'stochastic', which reads as torch's attention does; "
                f"{type(module).__name__} passes one. Use a model without it."
            )
    causal = getattr(module, "is_causal", False) and not getattr(module, "is_cross_attention", False)
    if causal and mask is not None and mask.shape[-2] == 1 < query.shape[-2]:
        raise ValueError(
            f"attention_mask must say what each query may see; {type(module).__name__} of this release of transformers "
            "leaves the order of tokens to its own attention. Use stochastic(model, ...), or a newer release."
        )
    if not walk.walk.n_steps:
        return readout(module, query, key, value, mask, **options)
    return walked(readout, walk, module, query, key, value, mask, **options)[0]


def _uses(module: nn.Module, name: str) -> bool:
    """Whether the forward of a module, as its class wrote it, mentions a name or what torch has under it."""
    for kind in type(module).__mro__:
        if "forward" not in vars(kind):
            continue
        forward = inspect.unwrap(vars(kind)["forward"])
        code = getattr(forward, "__code__", None)
        if code is None:
            return False
        known = [forward.__globals__.get(mentioned) for mentioned in code.co_names]
        if name in code.co_names or (name == TORCH and any(one is scaled_dot_product_attention for one in known)):
            return True
        if "super" not in code.co_names:
            return False
    return False


def _implementations(model: nn.Module) -> list[tuple[Any, str]]:
    """Where the model says how it attends: each configuration, and modules that remember theirs (GPT-2 in 4.50).

    They are set one by one: transformers' own switch would give all of them one name when it is turned back.
    """
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    name = "_attn_implementation_internal"
    owners = [(config, name) for config in configs.values() if getattr(config, name, None) is not None]
    if any(getattr(owner, name) not in (PLAIN, NAME) for owner, name in owners):
        for module in model.modules():
            if getattr(module, "_supports_sdpa", True) is False and _uses_interface_inside(module):
                raise ValueError(
                    f"model must be able to use torch's attention, attn_implementation='sdpa', which the walk is made "
                    f"of; {type(module).__name__} of this release of transformers cannot."
                )
    remembered = [module for module in model.modules() if "_attn_implementation" in vars(module)]
    return owners + [(module, "_attn_implementation") for module in remembered]


def _uses_interface_inside(model: nn.Module) -> bool:
    return any(_uses(module, INTERFACE) for module in model.modules())


def _tell_of_others(model: nn.Module) -> None:
    """Warn of attention in the model that will not walk."""
    others = [
        module
        for module in model.modules()
        if isinstance(module, nn.MultiheadAttention) and not isinstance(module, StochasticMultiheadAttention)
    ]
    if others:
        warnings.warn(
            f"{len(others)} nn.MultiheadAttention in {type(model).__name__} will not walk: replace them by "
            "StochasticMultiheadAttention.from_torch, or name the layers that should.",
            stacklevel=3,
        )


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
            raise ValueError(
                f"layers must lie between {-n_layers} and {n_layers - 1}: the model has {n_layers}; got {layer}."
            )
    return sorted({layer % n_layers for layer in chosen})


def _whole_numbers(name: str, values: Sequence[int] | None) -> tuple[int, ...] | None:
    if values is None:
        return None
    if not isinstance(values, Iterable) or isinstance(values, (str, Mapping)):
        raise TypeError(
            f"{name} must be a list of whole numbers or None; got {values!r}. [0] is the first, [-1] the last."
        )
    return tuple(dict.fromkeys(count(f"each of {name}", number, -(2**31)) for number in values))
