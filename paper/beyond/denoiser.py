"""A diffusion baseline without training: the closed-form denoiser of the stored patterns, under DDIM and annealing.

Patterns of unit norm plus white noise of variance σ² have the density p_beta with beta = 1/σ², so the posterior mean of
the pattern given the noisy state is attention at that beta. A diffusion model that has learned its data perfectly is
this denoiser, and reverse diffusion from a large σ to 1/√beta draws from p_beta without any chain in its basins.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

import stochattn as sa
from stochattn import energy, neighbors

from ..data import Data
from ..expected import Expected
from ..progress import stage
from ..protocol import N_SAMPLES, average, chains, exact_sets, measured, seeds, shortened
from ..results import Measured, Result, Table

BETAS = (2000.0, 200.0)
N_LEVELS = 200  # the number of steps of the paper's diffusion model
LARGEST_SIGMA = 10.0
N_INNER, ALPHA_INNER = 3, 0.2  # Langevin steps at each level of the annealed schedule
N_RUNS = 3
QUANTITIES = ("novelty", "diversity", "energy")

Array = Any


def run(data: Data, seed: int, quick: bool) -> Result:
    """Table closed-form-denoiser: reverse diffusion with the exact score, on digit 3."""
    bank = data.digits(3, 100)
    n_runs, n_levels = (1, shortened(N_LEVELS, quick)) if quick else (N_RUNS, N_LEVELS)
    rows: dict[str, dict[str, Measured]] = {}
    for beta in BETAS:
        stage(f"β = {beta:g}")
        methods = {
            "DDIM with the closed-form denoiser": lambda s, b=beta: ddim(bank, b, s, n_levels),
            "annealed Langevin with the same score": lambda s, b=beta: annealed(bank, b, s, n_levels),
            "30 chains of the paper (SA)": lambda s, b=beta: chains(bank, b, "ula", s, quick).samples,
            "exact draws": lambda s, b=beta: exact_sets(bank, b, s, own_basins=False, repeats=1)[0],
        }
        runs = {
            name: [_row(bank, beta, sample(s)) for s in seeds(seed, n_runs)]  # type: ignore[no-untyped-call]
            for name, sample in methods.items()
        }
        law = {name: float(np.mean([row[name] for row in runs["exact draws"]])) for name in (*QUANTITIES, VISITED)}
        for name, found in runs.items():
            exact = {} if name == "exact draws" else law
            rows[f"{name}, β = {beta:g}"] = {
                quantity: average([row[quantity] for row in found], exact.get(quantity)) for quantity in found[0]
            }
    rows["DDIM to the end (σ = 0.001)"] = {
        quantity: average(values)
        for quantity, values in _columns(
            [_row(bank, BETAS[0], ddim(bank, 1e6, s, n_levels)) for s in seeds(seed, n_runs)]
        ).items()
    }
    return Result([_table(rows, n_runs, n_levels, bank.K)])


VISITED = "memories visited"


def ddim(bank: sa.MemoryBank, beta: float, seed: int, n_levels: int = N_LEVELS) -> Array:
    """150 samples (30, 5, d) by deterministic reverse diffusion from a large σ to 1/√beta.

    x ← D(x) + (σ'/σ)(x − D(x)), the DDIM step for noise of growing variance, with D(x) = attend(x) at beta = 1/σ².
    """
    sigmas = np.geomspace(LARGEST_SIGMA, 1 / math.sqrt(beta), n_levels + 1)
    x = bank.patterns.mean(0) + sigmas[0] * np.random.default_rng(seed).standard_normal((N_SAMPLES, bank.d))
    for sigma, smaller in pairwise(sigmas):
        denoised = energy.attend(x, bank, 1 / sigma**2)
        x = denoised + (smaller / sigma) * (x - denoised)
    return x.reshape(30, -1, bank.d)


def annealed(bank: sa.MemoryBank, beta: float, seed: int, n_levels: int = N_LEVELS) -> Array:
    """150 samples (30, 5, d) by Langevin steps at each σ of the same schedule (annealed Langevin dynamics)."""
    rng = np.random.default_rng(seed)
    sigmas = np.geomspace(LARGEST_SIGMA, 1 / math.sqrt(beta), n_levels + 1)
    x = bank.patterns.mean(0) + sigmas[0] * rng.standard_normal((N_SAMPLES, bank.d))
    for sigma in sigmas[1:]:
        for _ in range(N_INNER):
            noise = math.sqrt(2 * ALPHA_INNER) * sigma * rng.standard_normal(x.shape)
            x = x + ALPHA_INNER * (energy.attend(x, bank, 1 / sigma**2) - x) + noise
    return x.reshape(30, -1, bank.d)


def _row(bank: sa.MemoryBank, beta: float, samples: Array) -> dict[str, float]:
    """The quantities of the tables, and how many memories are the nearest of at least one sample."""
    cells = measured(samples, bank, beta)
    nearest, _ = neighbors.nearest_memory(samples.reshape(-1, bank.d), bank)
    return {**{name: cells[name].value for name in QUANTITIES}, VISITED: float(len(set(np.asarray(nearest).tolist())))}


def _columns(rows: list[dict[str, float]]) -> dict[str, list[float]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def _table(rows: dict[str, dict[str, Measured]], n_runs: int, n_levels: int, K: int) -> Table:
    visited = K * (1 - (1 - 1 / K) ** N_SAMPLES)
    return Expected(
        "closed-form-denoiser", "Not in the paper: reverse diffusion with the closed-form denoiser, digit 3", {}
    ).against(
        rows,
        notes=(
            f"Mean and spread over {n_runs} runs of {N_SAMPLES} samples, {n_levels} noise levels from σ = "
            f"{LARGEST_SIGMA:g} to 1/√β. This is the diffusion model of the paper's table with a perfect network: the "
            "same stored patterns, no training.",
            f"Memories visited: {N_SAMPLES} independent draws of a uniform mixture of {K} visit {visited:.1f} on "
            "average; "
            "the chains of the paper visit their 30 starts only.",
            "The annealed schedule ends with steps of size "
            f"{ALPHA_INNER:g}, so its variance is 1/(1 − {ALPHA_INNER:g}/2) times too large.",
            "Continued to the end, reverse diffusion returns stored digits: the perfect diffusion model of 100 images "
            "copies them.",
        ),
    )
