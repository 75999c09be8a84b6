"""Warm-started sequences: the paper's Algorithm 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._backend.arrays import Array, namespace, to_numpy
from .._backend.checks import count
from ..core.energy import attend
from ..core.memory import as_bank
from .draws import Draws
from .runner import run


@dataclass(frozen=True, eq=False, repr=False)
class Paths:
    """What `sequential` returns: `values` (n_paths, n_days, v), and the `draws` of the chains behind them."""

    values: Array
    draws: Draws

    def __repr__(self) -> str:
        n_paths, n_days, v = self.values.shape
        return f"Paths({n_paths} paths x {n_days} days, values in {v} dimensions, {self.draws!r})"


def sequential(
    bank: Any,
    beta: float | Sequence[float],
    *,
    n_days: int,
    inner_steps: int = 200,
    n_paths: int = 1,
    alpha: float = 0.01,
    start: Any = "memories",
    sigma_init: float = 0.01,
    rng: Any = None,
    progress: bool | None = None,
) -> Paths:
    """MALA chains that go on from day to day, each day's state projected to the bank's values (Algorithm 3).

    beta: a number, or one for each day, beta(t): regimes of volatility that a fixed beta cannot have.
    Day t's row is softmax(beta X xi) values, at that day's beta; a bank without values projects to its patterns.
    A single path is computed as a vector (`run`'s lone): it equals the first of several to rounding.
    """
    bank = as_bank(bank)
    n_days, inner_steps = count("n_days", n_days), count("inner_steps", inner_steps)
    betas: Any = beta
    if np.ndim(beta) != 0:
        betas = np.asarray(to_numpy(beta), dtype=np.float64)
        if betas.shape != (n_days,):
            raise ValueError(f"beta must be one number or one for each of the {n_days} days; got shape {betas.shape}.")
        betas = np.repeat(betas, inner_steps)
    draws = run(
        bank,
        betas,
        sampler="mala",
        n_chains=n_paths,
        n_steps=n_days * inner_steps,
        warmup=0,
        thin=inner_steps,
        alpha=alpha,
        start=start,
        sigma_init=sigma_init,
        rng=rng,
        lone=n_paths == 1,
        progress=progress,
    )
    if not len(draws.steps):  # interrupted in the first day: there is nothing to return
        raise KeyboardInterrupt
    days = [
        attend(draws.samples[:, day], bank, float(np.broadcast_to(beta, (n_days,))[day]), values=bank.values)
        for day in range(draws.samples.shape[1])
    ]
    return Paths(namespace(bank.patterns).stack(days, 1), draws)
