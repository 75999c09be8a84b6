"""Checks of the rows, multiplicities, values and inverse temperatures of one bank or a batch of banks."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from .._backend.arrays import ArrayLike
from .._backend.checks import inverse_temperature
from ..core.memory import MemoryBank
from ..core.temperature import natural


class Banks(NamedTuple):
    """patterns (*B, K, d), log_r (*B, K), and values (*B, K, v) or None, as tensors of one dtype and device."""

    patterns: Tensor
    log_r: Tensor
    values: Tensor | None


def checked_banks(patterns: ArrayLike, log_r: ArrayLike | None, values: ArrayLike | None) -> Banks:
    """The rows of one bank (K, d), or of a batch of banks (*B, K, d), with the checks of `MemoryBank`."""
    shape = tuple(np.shape(patterns))
    if len(shape) < 3:
        bank = MemoryBank(patterns, log_r, values)
        return Banks(*(_as_tensor(x) for x in (bank.patterns, bank.log_r, bank.values)))
    if 0 in shape:
        raise ValueError(f"patterns must be banks (..., K, d) with at least one row each; got shape {shape}.")
    if log_r is not None and tuple(np.shape(log_r)) not in (shape[:-1], shape[-2:-1]):
        one = f"({shape[-2]},) or {shape[:-1]}"
        raise ValueError(f"log_r must have one entry for each memory, shape {one}; got shape {tuple(np.shape(log_r))}.")
    if values is not None and (np.ndim(values) != len(shape) or tuple(np.shape(values))[:-1] != shape[:-1]):
        rule = f"values must have one row for each memory, shape ({', '.join(map(str, shape[:-1]))}, v)"
        remedy = " Pass values[..., None] for one number per memory." if np.shape(values) == shape[:-1] else ""
        raise ValueError(f"{rule}; got shape {tuple(np.shape(values))}.{remedy}")
    given = None if log_r is None else log_r if isinstance(log_r, Tensor) else torch.tensor(np.asarray(log_r))
    flat = None if given is None else given.expand(shape[:-1]).reshape(-1)
    bank = MemoryBank(_flat(patterns), flat, None if values is None else _flat(values))
    made = Banks(*(_as_tensor(x) for x in (bank.patterns, bank.log_r, bank.values)))
    batch = Banks(*(None if x is None else x.unflatten(0, shape[:-1]) for x in made))
    empty = (batch.log_r == -math.inf).all(-1)
    if empty.any():
        first = tuple(empty.nonzero()[0].tolist())
        raise ValueError(f"log_r must leave at least one memory in every bank; bank {first} has only −inf.")
    return batch


def checked_beta(
    beta: float | str | Tensor, batch: tuple[int, ...], like: Tensor, learn_beta: bool, of: str = "bank"
) -> Tensor:
    """beta as a tensor like another, () or one for each bank of a batch; an nn.Parameter stays what it is.

    learn_beta: whether a beta that is not one becomes a parameter; of: what the batch consists of, for the messages
    """
    if isinstance(beta, Tensor) and not isinstance(beta, nn.Parameter) and beta.requires_grad:
        rule = "beta must be a number or an nn.Parameter"
        remedy = "A module would detach it; pass nn.Parameter(beta), or learn_beta=True."
        raise TypeError(f"{rule}; got a tensor that requires a gradient and is not a parameter. {remedy}")
    kind = {"dtype": like.dtype, "device": like.device}
    if isinstance(beta, Tensor | np.ndarray) and beta.ndim:
        fits = tuple(beta.shape) == batch
        if not fits and (isinstance(beta, nn.Parameter) or math.prod(beta.shape) != 1):
            raise ValueError(f"beta must be one number, or one for each {of} {batch}; got shape {tuple(beta.shape)}.")
        numbers = beta.detach() if isinstance(beta, Tensor) else torch.as_tensor(beta)
        for number in numbers.flatten().tolist():
            inverse_temperature(number)
        chosen = numbers.to(**kind, copy=True).reshape(batch if fits else ())
    else:
        chosen = torch.tensor(inverse_temperature(beta.detach() if isinstance(beta, Tensor) else beta), **kind)
    if isinstance(beta, nn.Parameter):
        return beta
    return nn.Parameter(chosen) if learn_beta else chosen


def register_beta(module: nn.Module, beta: Tensor) -> None:
    """Make beta a parameter of a module if it is one, and else a buffer."""
    if isinstance(beta, nn.Parameter):
        module.register_parameter("beta", beta)
    else:
        module.register_buffer("beta", beta)


def positive_beta(beta: Tensor, like: Tensor) -> Tensor:
    """beta in the dtype of another tensor; ValueError if learning made it negative, which is checked on the CPU."""
    eager = isinstance(beta, nn.Parameter) and beta.device.type == "cpu" and not torch.compiler.is_compiling()
    if eager and not (beta > 0).all():
        rule = f"beta must stay positive while it is learned; it is {float(beta.detach().min()):g}"
        raise ValueError(f"{rule}. Use a smaller learning rate, or clamp it after each step.")
    return beta.to(like.dtype)


def natural_beta(banks: Banks) -> Tensor:
    """The natural beta of every bank, of shape B."""
    return torch.tensor(_natural(banks), dtype=banks.patterns.dtype, device=banks.patterns.device)


def _natural(banks: Banks) -> float | list[float]:
    """The natural beta of the bank, or of each in a batch of any shape, as nested lists."""
    if banks.patterns.ndim == 2:
        return natural(MemoryBank(banks.patterns, banks.log_r))
    return [_natural(Banks(*parts, None)) for parts in zip(banks.patterns, banks.log_r, strict=True)]  # type: ignore[misc]


def _flat(x: ArrayLike) -> ArrayLike:
    rows = x if isinstance(x, Tensor) else np.asarray(x)
    return rows.reshape(-1, rows.shape[-1])


def _as_tensor(x: ArrayLike | None) -> Tensor | None:
    return x if x is None or isinstance(x, Tensor) else torch.tensor(x[:])  # type: ignore[index]
