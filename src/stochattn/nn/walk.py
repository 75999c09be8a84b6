"""Walk: how queries move in key space before they read."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .._backend.checks import count, inverse_temperature, non_negative, step_size


@dataclass(frozen=True)
class Walk:
    """Settings of the chain of a query, checked: ξ ← (1 − alpha) ξ + alpha attend(ξ) + noise √(2 alpha / beta) ε.

    n_steps times; beta None is that of the attention it is used in. noise = 1 is Algorithm 1, noise = 0 the
    deterministic iteration. generator None is torch's own.
    """

    n_steps: int = 0
    alpha: float = 0.01
    noise: float = 1.0
    beta: float | None = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and value.requires_grad:
                raise TypeError(
                    f"{name} must be a number; got a tensor that asks for a gradient, which gets none here."
                )
        checked = {
            "n_steps": count("n_steps", self.n_steps, 0),
            "alpha": step_size(self.alpha),
            "noise": non_negative("noise", self.noise),
            "beta": None if self.beta is None else inverse_temperature(self.beta),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)  # as plain numbers: torch takes no others for a scale
        if not (self.generator is None or isinstance(self.generator, torch.Generator)):
            raise TypeError(
                f"generator must be a torch.Generator or None; got {type(self.generator).__name__}. "
                "torch.Generator().manual_seed(0) makes one."
            )

    def beta_of(self, query: Tensor) -> float:
        """The inverse temperature of queries (..., d): 1/√d unless one is set."""
        return 1 / math.sqrt(query.shape[-1]) if self.beta is None else self.beta

    def __str__(self) -> str:
        given = (f"{name}={getattr(self, name)}" for name in ("n_steps", "alpha", "noise", "beta"))
        return ", ".join(one for one in given if not one.endswith("=None"))
