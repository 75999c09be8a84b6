"""Sequential sampling (Algorithm 3): one kept state per day, projected to values such as returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._backend.arrays import Array, ArrayLike, namespace, to_numpy
from .._backend.checks import check_count
from .._backend.random import SeedLike
from ..core.energy import attend
from ..core.memory import MemoryBank, as_bank
from .draws import Draws
from .loop import run
from .plan import Beta, Start


@dataclass(frozen=True, eq=False, repr=False)
class Paths:
    """What `sequential` returns: `values` (n_paths, n_days, v), and the `draws` of the chains behind them.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.sequential(bank, 20.0, n_days=5, inner_steps=10, n_paths=3, rng=0).values.shape
    (3, 5, 2)
    """

    values: Array
    draws: Draws

    def __repr__(self) -> str:
        n_paths, n_days, v = self.values.shape
        return f"Paths({n_paths} paths x {n_days} days, values in {v} dimensions, {self.draws!r})"


def sequential(
    bank: MemoryBank | ArrayLike,
    beta: Beta,
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

    beta: a number, or one for each day, for regimes of volatility that a constant beta cannot have.
    The row of day t is softmax(beta X xi) values, at that day's beta; a bank without values projects to its patterns.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> paths = sa.sequential(bank, 20.0, n_days=5, inner_steps=10, n_paths=3, rng=0)
    >>> paths.values.shape
    (3, 5, 2)
    """
    bank = as_bank(bank)
    n_days, inner_steps = check_count("n_days", n_days), check_count("inner_steps", inner_steps)
    betas = np.asarray(to_numpy(beta), dtype=np.float64)
    if betas.ndim and betas.shape != (n_days,):
        raise ValueError(f"beta must be one number or one for each of the {n_days} days; got shape {betas.shape}.")
    mala: dict[str, Any] = {"sampler": "mala", "alpha": alpha, "start": start, "sigma_init": sigma_init}
    daily: dict[str, Any] = {"n_steps": n_days * inner_steps, "warmup": 0, "thin": inner_steps}
    every_step = np.repeat(betas, inner_steps) if betas.ndim else beta
    draws = run(bank, every_step, n_chains=n_paths, **mala, **daily, rng=rng, progress=progress)
    if not len(draws.steps):  # interrupted during the first day: there is nothing to return
        raise KeyboardInterrupt
    of_day = np.broadcast_to(betas, (n_days,))[: len(draws.steps)]
    states = zip(draws.samples.swapaxes(0, 1), of_day, strict=True)
    days = [attend(xi, bank, float(beta), values=bank.values) for xi, beta in states]
    return Paths(namespace(bank.patterns).stack(days, 1), draws)
