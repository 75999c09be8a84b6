"""Pretrained models: the attention implementation "stochastic", and a context that applies it to layers and heads.

The queries of a layer take Langevin steps among its keys, and the model's own attention reads them out. Caches, grouped
heads, dropout and masks are therefore those of the model, and a layer without steps is unchanged.
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
from .interception import HeadSteps, intercepted, positions, temporarily_set, with_steps
from .multihead import StochasticMultiheadAttention
from .steps import LangevinSteps

NAME, PLAIN = "stochastic", "sdpa"
INTERFACE, TORCH = "ALL_ATTENTION_FUNCTIONS", "scaled_dot_product_attention"
UNSUPPORTED = ("softcap", "s_aux", "head_mask", "indices", "block_indices")  # torch's attention has none of these


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
    steps = HeadSteps(LangevinSteps(n_steps, alpha, noise, beta, generator))
    try:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as functions
    except ImportError as problem:
        raise ImportError(
            "the attention implementation 'stochastic' needs transformers 4.50 or newer. Install it with: "
            "pip install 'stochattn[transformers]'"
        ) from problem
    _enter(functions, partial(_attend, readout=functions[PLAIN], head_steps=steps))
    try:
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as masks
    except ImportError:  # before 4.53 models make their own masks; `_attend` refuses those without causal order
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
    """A context in which the queries of the chosen layers and heads of a model take Langevin steps; yields the model.

    layers, heads: indices, or None for all. Layers are numbered as in `attention_modules(model)`, with those of an
    encoder before those of its decoder; negative numbers count from the end. beta is each layer's own scale by default.
    The other layers use torch's attention. Of several contexts open on a layer, the last one applies.
    """
    steps = HeadSteps(LangevinSteps(n_steps, alpha, noise, beta, generator), _whole_numbers("heads", heads))
    modules = attention_modules(model)
    numbers = _whole_numbers("layers", layers)
    chosen = modules if numbers is None else [modules[i] for i in positions("layers", numbers, len(modules))]
    multihead = [m for m in model.modules() if isinstance(m, nn.MultiheadAttention)]
    others = [m for m in multihead if not isinstance(m, StochasticMultiheadAttention)]
    if layers is None and others:
        warnings.warn(
            f"{len(others)} nn.MultiheadAttention in {type(model).__name__} will take no Langevin steps. Replace them "
            "with StochasticMultiheadAttention.from_torch, or name the layers that take steps.",
            stacklevel=2,
        )
    recomputed = any(getattr(m, "gradient_checkpointing", False) and m.training for m in model.modules())
    if generator is not None and recomputed:
        raise ValueError(
            "generator must be None with gradient checkpointing, whose second pass would draw other noise. "
            "Use torch.manual_seed for a reproducible run."
        )
    return _model_with_steps(model, modules, chosen, steps)


@contextmanager
def _model_with_steps(
    model: nn.Module, modules: list[nn.Module], chosen: list[nn.Module], steps: HeadSteps
) -> Iterator[nn.Module]:
    with ExitStack() as undo:
        if any(_uses(module, INTERFACE) for module in modules):
            for owner, name in _implementations(model):
                undo.enter_context(temporarily_set(owner, name, PLAIN))
        for module in chosen:
            undo.enter_context(intercepted(module, steps))
        yield model


def attention_modules(model: nn.Module) -> list[nn.Module]:
    """The attention modules of a model, in the order of `model.modules()`.

    Their forward uses transformers' attention interface, or calls torch's scaled_dot_product_attention.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch module; got {type(model).__name__}. For a pipeline, pass its .model.")
    found = [module for module in model.modules() if _uses(module, INTERFACE) or _uses(module, TORCH)]
    if not found:
        raise ValueError(
            f"model must have attention whose forward uses transformers' attention interface or calls torch's "
            f"scaled_dot_product_attention; {type(model).__name__} has none. Load a model of transformers with "
            "attn_implementation='sdpa', or replace nn.MultiheadAttention by StochasticMultiheadAttention."
        )
    return found


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    readout: Callable[..., object],
    head_steps: HeadSteps,
    **options: object,
) -> object:
    """The attention that transformers calls in each layer: its own "sdpa", after the steps of the queries."""
    for name in UNSUPPORTED:
        if options.get(name) is not None:
            raise ValueError(
                f"{name} must be None with the implementation 'stochastic', because torch's attention has no such "
                f"argument; {type(module).__name__} passes one. Use a model without it."
            )
    causal = getattr(module, "is_causal", False) and not getattr(module, "is_cross_attention", False)
    if causal and mask is not None and mask.shape[-2] == 1 < query.shape[-2]:
        raise ValueError(
            f"attention_mask must have one row per query; {type(module).__name__} of this release of transformers "
            "leaves the causal order to its own attention. Use stochastic(model, ...), or a newer release."
        )
    if not head_steps.steps.n_steps:
        return readout(module, query, key, value, mask, **options)
    return with_steps(readout, head_steps, module, query, key, value, mask, **options)[0]


def _uses(module: nn.Module, name: str) -> bool:
    """Whether the forward of a module's class refers to a name, or to torch's attention under another name."""
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


def _implementations(model: nn.Module) -> list[tuple[object, str]]:
    """Objects and attributes that name the attention implementation: configurations, and modules (GPT-2 in 4.50).

    They are set one by one, because transformers' own switch would restore the same name for all of them.
    """
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    name = "_attn_implementation_internal"
    owners = [(config, name) for config in configs.values() if getattr(config, name, None) is not None]
    if any(getattr(owner, name) not in (PLAIN, NAME) for owner, name in owners):
        for module in model.modules():
            if getattr(module, "_supports_sdpa", True) is False and any(_uses(m, INTERFACE) for m in module.modules()):
                raise ValueError(
                    f"model must support torch's attention, attn_implementation='sdpa', on which the steps are built; "
                    f"{type(module).__name__} of this release of transformers does not."
                )
    remembered = [module for module in model.modules() if "_attn_implementation" in vars(module)]
    return owners + [(module, "_attn_implementation") for module in remembered]


def _enter(interface: Any, function: Callable[..., object]) -> None:
    if hasattr(interface, "register"):
        interface.register(NAME, function)
    else:  # a plain dict in 4.50
        interface[NAME] = function


def _whole_numbers(name: str, values: Sequence[int] | None) -> tuple[int, ...] | None:
    if values is None:
        return None
    if not isinstance(values, Iterable) or isinstance(values, (str, Mapping)):
        raise TypeError(f"{name} must be a list of whole numbers or None; got {values!r}.")
    return tuple(dict.fromkeys(count(f"each of {name}", number, -(2**31)) for number in values))
