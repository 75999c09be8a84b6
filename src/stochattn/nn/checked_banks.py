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
        raise ValueError(f"{rule}; got shape {tuple(np.shape(values))}.")
    flat = None if log_r is None else torch.as_tensor(log_r).expand(shape[:-1]).reshape(-1)
    bank = MemoryBank(_flat(patterns), flat, None if values is None else _flat(values))
    made = Banks(*(_as_tensor(x) for x in (bank.patterns, bank.log_r, bank.values)))
    batch = Banks(*(None if x is None else x.unflatten(0, shape[:-1]) for x in made))
    empty = (batch.log_r == -math.inf).all(-1)
    if empty.any():
        first = tuple(empty.nonzero()[0].tolist())
        raise ValueError(f"log_r must leave at least one memory in every bank; bank {first} has only −inf.")
    return batch


def checked_beta(beta: float | str | Tensor, banks: Banks, learn_beta: bool) -> Tensor:
    """beta as a tensor like the patterns, () or one for each bank, a parameter if it is one or `learn_beta` is True."""
    batch, kind = tuple(banks.patterns.shape[:-2]), {"dtype": banks.patterns.dtype, "device": banks.patterns.device}
    if isinstance(beta, Tensor) and not isinstance(beta, nn.Parameter) and beta.requires_grad:
        rule = "beta must be a number or an nn.Parameter"
        remedy = "A module would detach it; pass nn.Parameter(beta), or learn_beta=True."
        raise TypeError(f"{rule}; got a tensor that requires a gradient and is not a parameter. {remedy}")
    if isinstance(beta, str) and beta == "natural":
        chosen = torch.tensor(_natural(banks), **kind)
    elif isinstance(beta, Tensor | np.ndarray) and beta.ndim:
        chosen = beta if isinstance(beta, nn.Parameter) else torch.as_tensor(beta).to(**kind)
        if tuple(chosen.shape) != batch:
            raise ValueError(f"beta must be one number, or one for each bank {batch}; got shape {tuple(chosen.shape)}.")
        for number in chosen.detach().flatten().tolist():
            inverse_temperature(number)
    else:
        number = inverse_temperature(beta.detach() if isinstance(beta, Tensor) else beta)
        chosen = beta if isinstance(beta, nn.Parameter) else torch.tensor(number, **kind)
    return nn.Parameter(chosen) if learn_beta and not isinstance(chosen, nn.Parameter) else chosen


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
