"""Paths of days, projected to values: the paper's Algorithm 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._backend.arrays import Array, ArrayLike, namespace, to_numpy
from .._backend.checks import count
from .._backend.random import SeedLike
from ..core.energy import attend
from ..core.memory import MemoryBank, as_bank
from .draws import Draws
from .plan import Start
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
    bank: MemoryBank | ArrayLike,
    beta: float | Sequence[float] | Array,
    *,
    n_days: int,
    inner_steps: int = 200,
    n_paths: int = 1,
    alpha: float = 0.01,
    start: Start = "memories",
    sigma_init: float = 0.01,
    rng: SeedLike = None,
    progress: bool | None = None,
) -> Paths:
    """MALA chains with one kept state per day, projected to the bank's values (Algorithm 3).

    beta: a number, or one for each day, beta(t): regimes of volatility that a constant beta cannot have.
    The row of day t is softmax(beta X xi) values, at that day's beta; a bank without values projects to its patterns.
    """
    bank = as_bank(bank)
    n_days, inner_steps = count("n_days", n_days), count("inner_steps", inner_steps)
    betas = np.asarray(to_numpy(beta), dtype=np.float64)
    if betas.ndim and betas.shape != (n_days,):
        raise ValueError(f"beta must be one number or one for each of the {n_days} days; got shape {betas.shape}.")
    draws = run(
        bank,
        np.repeat(betas, inner_steps) if betas.ndim else beta,
        sampler="mala",
        n_chains=n_paths,
        n_steps=n_days * inner_steps,
        warmup=0,
        thin=inner_steps,
        start=start,
        sigma_init=sigma_init,
        rng=rng,
        progress=progress,
        alpha=alpha,
    )
    if not len(draws.steps):  # interrupted during the first day: there is nothing to return
        raise KeyboardInterrupt
    daily = np.broadcast_to(betas, (n_days,))
    days = [
        attend(draws.samples[:, day], bank, float(daily[day]), values=bank.values)
        for day in range(draws.samples.shape[1])
    ]
    return Paths(namespace(bank.patterns).stack(days, 1), draws)
