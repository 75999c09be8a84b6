"""Langevin steps of layers on a GPU: noise that is computed where it is needed, and all steps in one launch."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from .. import kernels


class Attended(NamedTuple):
    """Keys (..., S, d) that states attend to, in float32 or half precision, and numbers to add to the logits."""

    key: Tensor
    mask: Tensor | None
    is_causal: bool


class DeviceNoise:
    """A function add(x, spread): x + spread ε, in place; ε is a function of a random key and of the call's number.

    The steps of one launch have the same noise. So a layer that needs a gradient, for which a checkpoint may repeat
    what it computed without one, repeats its states up to rounding.
    """

    def __init__(self, launch: ModuleType, key: Tensor) -> None:
        self.launch, self.key, self.step = launch, key, 0

    @classmethod
    def of(cls, like: Tensor, generator: torch.Generator | None) -> DeviceNoise | None:
        """Noise for tensors like this one, or None where no kernel generates it."""
        if (launch := kernels.layer_launcher(like)) is None:
            return None
        return cls(launch, torch.randint(2**62, (1,), generator=generator, device=like.device))

    def __call__(self, x: Tensor, spread: float | Tensor) -> Tensor:
        """x + spread ε with new ε ~ N(0, 1)."""
        eps = self.launch.normals(x, self.key, self.step)
        self.step += 1
        return x.addcmul_(eps, spread) if isinstance(spread, Tensor) else x.add_(eps, alpha=spread)


def states_in_one_launch(
    xi: Tensor, attended: Attended, n_steps: int, alpha: float, beta: float, spread: float, noise: DeviceNoise | None
) -> Tensor | None:
    """The states (..., H, L, d) after the steps from xi, in float32; None where no kernel takes them."""
    needs_gradient = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (xi, *attended[:2]))
    if needs_gradient or (launch := kernels.layer_launcher(xi)) is None:
        return None
    unread = torch.zeros(1, dtype=torch.int64, device=xi.device)  # equivalent: without noise, no key is read
    key = unread if noise is None else noise.key
    steps = launch.Steps(n_steps, alpha, beta, spread, attended.is_causal)
    keys = attended.key.expand(*xi.shape[:-2], *attended.key.shape[-2:])
    found: Tensor | None = launch.states_after_steps(xi, keys, attended.mask, key, steps)
    return found
