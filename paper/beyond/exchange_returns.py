"""Replica exchange on the returns, at the cost of the paper's 30 chains, compared with these and with exact draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import stochattn as sa
from stochattn import energy

from .. import drawing
from ..data import Data
from ..expected import Expected
from ..experiments.returns import market
from ..protocol import N_CHAINS, N_STEPS, POOL, average, chains, seeds, shortened
from ..results import Figure, Measured, Result, Table
from .replica_exchange import ALPHA, Exchange, exchanged, visited

BETAS = (25.0, 2000.0)
HOT = 5.0
RATIO = 1.1  # of neighbouring temperatures
SWAP_EVERY = 4
TOTAL_STEPS = N_CHAINS * N_STEPS  # attention steps of the paper's chains, shared by the replicas
N_KEPT = N_CHAINS * len(POOL)
N_EXACT = 3  # sets of exact draws; the others run once

Array = Any


def run(data: Data, seed: int, quick: bool) -> Result:
    """Table replica-exchange-returns and its figure."""
    bank, *_ = market(data)
    formula = bank.K * (1 - (1 - 1 / bank.K) ** N_KEPT)
    rows: dict[str, dict[str, Measured]] = {}
    paths: dict[str, Array] = {}
    swap_rates: dict[str, Array] = {}
    for beta in BETAS:
        ladder = temperatures(beta)
        n_steps = shortened(TOTAL_STEPS, quick) // len(ladder)
        found = [exchange(bank, ladder, n_steps, s) for s in seeds(seed, 1)]
        rates = [one.swapped / np.maximum(one.tried, 1) for one in found]
        name = f"replica exchange, {len(ladder)} temperatures, β = {beta:g}"
        paths[f"β = {beta:g}"], swap_rates[f"β = {beta:g}"] = np.array(found[0].path), rates[0]
        rows[name] = {
            "days visited": average([visited(one.nearest) for one in found], formula=formula),
            "least swap rate": average([float(rate.min()) for rate in rates]),
            "mean swap rate": average([float(rate.mean()) for rate in rates]),
            "round trips": average([float(one.trips) for one in found]),
        }
        rows[f"30 chains of the paper (SA), β = {beta:g}"] = {
            "days visited": average([_by_chains(bank, beta, s, quick) for s in seeds(seed, 1)], formula=formula)
        }
        exact = [sa.StochasticAttention(bank, beta=beta).sample(N_KEPT, rng=s) for s in seeds(seed, N_EXACT)]
        visits = [visited(energy.weights(states, bank, beta).argmax(-1)) for states in exact]
        rows[f"exact draws, β = {beta:g}"] = {"days visited": average(visits, formula=formula)}
    figure = Figure("replica-exchange-returns", _CAPTION, lambda: _draw(paths, swap_rates))
    return Result([_table(rows, bank.K, quick)], [figure])


_CAPTION = (
    "Replica exchange on the returns. Left: swap rates between neighbouring temperatures. Right: temperatures that the "
    "replica which starts at the coldest one visits; a round trip reaches the hottest one and returns."
)


def temperatures(cold: float) -> Array:
    """Values of beta from `cold` to HOT in a geometric sequence with ratio at most RATIO."""
    return np.geomspace(cold, HOT, math.ceil(math.log(cold / HOT) / math.log(RATIO)) + 1)


def exchange(bank: sa.MemoryBank, betas: Array, n_steps: int, seed: int) -> Exchange:
    """Replica exchange from random days; the coldest state is kept N_KEPT times, as often as the paper's chains'."""
    rng = np.random.default_rng(seed)
    start = bank.patterns[rng.choice(bank.K, len(betas))]
    kept = np.linspace(1, n_steps, N_KEPT).astype(int).tolist()
    return exchanged(bank, betas, start, kept, n_steps, SWAP_EVERY, rng)


def _by_chains(bank: sa.MemoryBank, beta: float, seed: int, quick: bool) -> float:
    start = np.random.default_rng(seed).choice(bank.K, N_CHAINS)
    draws = chains(bank, beta, "ula", seed, quick, kept=POOL, start=start)
    return visited(draws.basins)


def _table(rows: dict[str, dict[str, Measured]], K: int, quick: bool) -> Table:
    total = shortened(TOTAL_STEPS, quick)
    return Expected("replica-exchange-returns", "Not in the paper: replica exchange on the returns", {}).against(
        rows,
        notes=(
            f"K = {K:,} days. Days visited: different days among the nearest of {N_KEPT} kept states; formula: of as "
            f"many independent draws. Each method but the exact draws has {total:,} attention steps: 30 chains of "
            f"{shortened(N_STEPS, quick):,}, or a sequence of temperatures from β to {HOT:g} with a swap of neighbours "
            f"every {SWAP_EVERY} steps of size {ALPHA:g}, from random days. One run of each; "
            f"{N_EXACT} sets of exact draws.",
            "Round trips: how often a state went from the coldest temperature to the hottest and back, all replicas "
            "together. The number of temperatures grows with √d log β, and a random walk over n of them takes of the "
            "order of n² swaps.",
        ),
        findings=(" ".join(_statement(rows, beta) for beta in BETAS),),
    )


def _statement(rows: dict[str, dict[str, Measured]], beta: float) -> str:
    """The days visited by each method at one temperature, in a sentence."""
    exchanged, alone, exact = (
        next(row for name, row in rows.items() if name.startswith(method) and name.endswith(f"β = {beta:g}"))
        for method in ("replica", "30 chains", "exact")
    )
    return (
        f"At β = {beta:,.0f} and equal cost, replica exchange visits {exchanged['days visited'].value:.0f} days with "
        f"{exchanged['round trips'].value:.0f} round trips, the paper's 30 chains visit "
        f"{alone['days visited'].value:.0f}, and exact draws, which cost no steps, "
        f"{exact['days visited'].value:.0f}."
    )


def _draw(paths: dict[str, Array], swap_rates: dict[str, Array]) -> Any:
    figure, axes = drawing.subplots(1, 1 + len(paths), size=(3.6, 3.1))
    for (name, rate), colour in zip(swap_rates.items(), (drawing.BLUE, drawing.ORANGE), strict=True):
        axes[0].plot(np.linspace(0, 1, len(rate)), rate, "o-", ms=3, color=colour, label=name)
    axes[0].set(xlabel="from the coldest to the hottest", ylabel="swap rate", ylim=(0, 1), title="(a) swaps")
    axes[0].legend()
    for axis, (name, path), colour, letter in zip(
        axes[1:], paths.items(), (drawing.BLUE, drawing.ORANGE), "bc", strict=True
    ):
        axis.plot(np.arange(len(path)) * SWAP_EVERY, path, "-", lw=0.8, color=colour)
        axis.set(xlabel="step", ylabel="temperature, 0 is coldest", title=f"({letter}) {name}")
    return figure
