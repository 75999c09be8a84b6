"""Layers whose memories are on several ranks: queries are the same on all ranks, and so are results and gradients."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .._backend.checks import check_count
from ..storage.ranks import Fact
from .ranks import ShardedMemory

if TYPE_CHECKING:
    from .functional import LangevinSteps

Noise = Callable[[Tensor, float], Tensor]


def retrieve(memory: ShardedMemory, xi: Tensor, n_steps: int) -> Tensor:
    """`HopfieldMemory.forward` of a sharded memory; (..., d) -> (..., d), or (..., v) if it has values."""

    def facts() -> dict[str, Fact]:
        _require_floats("xi", xi)
        return {"n_steps": check_count("n_steps", n_steps, 0)}

    state, beta = memory.agreed_states("HopfieldMemory", xi, None, facts)
    for _ in range(n_steps):
        state = memory.bank.attend(state, beta)
    values = memory.bank.shard.values
    return (state if values is None else memory.bank.attend(state, beta, values)).to(xi.dtype)


def attend_after_steps(
    query: Tensor,
    memory: Tensor | ShardedMemory,
    value: Tensor | ShardedMemory,
    beta: float | None,
    steps_of: Callable[[], LangevinSteps],
    unsupported: Mapping[str, bool],
    noise_source: Callable[[Tensor, torch.Generator | None], Noise],
) -> Tensor:
    """`stochastic_attention` with the memories of all ranks as keys; unsupported: arguments that it does not take."""
    if not isinstance(memory, ShardedMemory):
        raise TypeError(f"key must be the ShardedMemory that is the value; got {type(memory).__name__}. Pass it twice.")

    def facts() -> dict[str, Fact]:
        _require_floats("query", query)
        if value is not memory:
            rule = "value must be the ShardedMemory that is the key, whose values are read, or else its memories"
            remedy = "Pass it twice: stochastic_attention(query, bank, bank)."
            raise ValueError(f"{rule}; got {type(value).__name__}. {remedy}")
        for name in [name for name, passed in unsupported.items() if passed]:
            raise ValueError(f"{name} must be left out with a ShardedMemory: every query attends to all memories.")
        steps = steps_of()
        same: dict[str, Fact] = {"n_steps": steps.n_steps, "alpha": steps.alpha, "noise": steps.noise}
        if steps.n_steps and steps.noise:
            same["the state of the generator"] = _generator_state(steps.generator, memory.bank.shard.patterns.device)
        return same

    xi, at = memory.agreed_states("stochastic_attention", query, beta, facts)
    steps = steps_of()
    add_noise, spread = noise_source(xi, steps.generator), steps.noise * math.sqrt(2 * steps.alpha / at)
    for _ in range(steps.n_steps):
        xi = torch.lerp(xi, memory.bank.attend(xi, at), steps.alpha)
        if spread:
            xi = add_noise(xi, spread)
    return memory.bank.attend(xi, at, memory.bank.shard.values).to(query.dtype)


def _require_floats(name: str, x: object) -> None:
    if not (isinstance(x, Tensor) and x.is_floating_point()):
        got = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"{name} must be a tensor of real numbers, (..., d); got {got}.")


def _generator_state(generator: torch.Generator | None, device: torch.device) -> int:
    """A checksum of the state of a generator, or of torch's own on a device."""
    if generator is not None:
        state = generator.get_state()
    else:
        state = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
    return zlib.crc32(state.numpy().tobytes())
