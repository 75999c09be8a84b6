"""The protocol of the paper: 30 chains from 30 chosen patterns, 5,000 steps, five states kept per chain."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import stochattn as sa
from stochattn import metrics

from . import closed_form
from .results import Measured

ALPHA, SIGMA_INIT = 0.01, 0.01
N_CHAINS, N_STEPS = 30, 5000
KEPT = (2000, 2700, 3500, 4200, 4900)  # five of the pool 2000, 2100, … 4900
POOL = tuple(range(2000, 5000, 100))
N_SAMPLES = N_CHAINS * len(KEPT)
# The published start patterns of the runs with K = 100, counted from 1.
_STARTS = "63 46 49 72 69 21 64 70 51 37 8 68 43 10 59 23 39 33 53 15 27 62 38 11 55 3 20 90 52 24"
STARTS = np.array(_STARTS.split(), dtype=int) - 1
QUICK = 10  # a quick run divides the number of steps by this
QUANTITIES = ("novelty", "diversity", "energy", "max_cosine", "share_below_zero")
EXACT_REPEATS = 20  # the prediction of the exact law is the mean over this many sets of 150 draws

Array = Any


def starts(K: int, seed: int = 0) -> Array:
    """The published start patterns for K = 100; 30 random patterns otherwise, since the paper does not list them."""
    if K == 100:
        return STARTS
    chosen = np.random.default_rng(seed).permutation(K)
    return np.resize(chosen, N_CHAINS)


def steps(kept: tuple[int, ...], quick: bool) -> list[int]:
    """The steps after which states are kept."""
    return [shortened(step, quick) for step in kept]


def chains(bank: sa.MemoryBank, beta: float, sampler: str, seed: int, quick: bool = False, **options: Any) -> sa.Draws:
    """The 30 chains of the paper's experiments; options of `stochattn.run` override the protocol."""
    kept = options.pop("kept", KEPT)
    settings = {
        "n_chains": N_CHAINS,
        "n_steps": shortened(N_STEPS, quick),
        "keep": steps(kept, quick),
        "alpha": ALPHA,
        "start": starts(bank.K, seed),
        "sigma_init": SIGMA_INIT,
        "rng": seed,
        **options,
    }
    return sa.run(bank, beta, sampler=sampler, **settings)


def from_sphere(
    bank: sa.MemoryBank, beta: float, n_steps: int, warmup: int, seed: int, quick: bool, **options: Any
) -> sa.Draws:
    """Chains of the synthetic experiments, which start at random points of the unit sphere."""
    settings = {"sampler": "ula", "n_steps": shortened(n_steps, quick), "warmup": shortened(warmup, quick), **options}
    return sa.run(bank, float(beta), start="sphere", alpha=ALPHA, rng=seed, **settings)


def grouped(samples: Array) -> Array:
    """Reshape 150 independent samples to 30 groups of five, to compute errors as for chains."""
    return samples.reshape(N_CHAINS, -1, samples.shape[-1])


def measured(samples: Array, bank: sa.MemoryBank, beta: float) -> dict[str, Measured]:
    """The quantities of the tables for samples (n_chains, n_kept, d), with standard errors over chains."""
    summary = metrics.summarize(samples, bank, beta)
    return {name: Measured(*getattr(summary, name)) for name in QUANTITIES}


def exact_sets(bank: sa.MemoryBank, beta: float, seed: int, own_basins: bool, repeats: int) -> list[Array]:
    """Sets of 150 exact draws (30, 5, d).

    own_basins: five draws around each of the 30 start patterns, the law of chains that never leave their basin;
    otherwise independent draws of the whole mixture.
    """
    if not own_basins:
        draws = sa.StochasticAttention(bank, beta=beta).sample(repeats * N_SAMPLES, rng=seed)
        return [grouped(part) for part in draws.reshape(repeats, N_SAMPLES, bank.d)]
    rng = np.random.default_rng(seed)
    centres = bank.patterns[starts(bank.K, seed)][:, None]
    return [centres + rng.standard_normal((N_CHAINS, len(KEPT), bank.d)) / np.sqrt(beta) for _ in range(repeats)]


def exact_law(
    bank: sa.MemoryBank, beta: float, seed: int, own_basins: bool, energy_beta: float | None = None
) -> dict[str, float]:
    """The expected quantities of the tables under the exact law, from 20 sets of exact draws."""
    rows = [
        measured(samples, bank, energy_beta or beta)
        for samples in exact_sets(bank, beta, seed, own_basins, EXACT_REPEATS)
    ]
    return {name: float(np.mean([row[name].value for row in rows])) for name in QUANTITIES}


COLD = 200.0
"""At or above this beta, chains on unit images of 784 pixels stay in their start basin for a whole run."""


def sampled(
    bank: sa.MemoryBank,
    beta: float,
    sampler: str,
    seed: int,
    quick: bool,
    quantities: tuple[str, ...] = ("novelty", "diversity", "energy"),
    energy_beta: float | None = None,
    own_basins: bool | None = None,
    **options: Any,
) -> tuple[dict[str, Measured], sa.Draws]:
    """A table row for chains of a sampler: measured values with those of the exact law and of the formula."""
    draws = chains(bank, beta, sampler, seed, quick, **options)
    row = measured(draws.samples, bank, energy_beta or beta)
    cold = beta >= COLD if own_basins is None else own_basins
    exact = exact_law(bank, beta, seed, cold, energy_beta)
    of = starts(bank.K, seed) if cold else None
    alpha = options.get("alpha", ALPHA) if sampler == "ula" else None
    formula = closed_form.well_separated(bank, beta, alpha, of) if cold and energy_beta in (None, beta) else {}
    return {
        name: Measured(row[name].value, row[name].error, exact[name], formula.get(name)) for name in quantities
    }, draws


def of_samples(
    samples: Array, bank: sa.MemoryBank, beta: float, quantities: tuple[str, ...] = ("novelty", "diversity", "energy")
) -> dict[str, Measured]:
    """A table row for independent samples (150, d) of a baseline."""
    row = measured(grouped(samples), bank, beta)
    return {name: row[name] for name in quantities}


def seeds(seed: int, n: int) -> list[int]:
    """n seeds for n runs; different values of `seed` give unrelated seeds."""
    return [int(child.generate_state(1, np.uint32)[0]) for child in np.random.SeedSequence(seed).spawn(n)]


def average(values: Sequence[float], exact: float | None = None, formula: float | None = None) -> Measured:
    """The mean over several runs, its standard error, and the standard deviation of one run."""
    n = len(values)
    spread = float(np.std(values, ddof=1)) if n > 1 else math.nan
    return Measured(float(np.mean(values)), spread / math.sqrt(n), exact, formula, spread if n > 1 else None)


def over_runs(run: Callable[[int], dict[str, Measured]], n_runs: int, seed: int) -> dict[str, Measured]:
    """Each quantity averaged over several runs."""
    rows = [run(s) for s in seeds(seed, n_runs)]
    if n_runs == 1:
        return rows[0]
    return {
        name: average([row[name].value for row in rows], cell.exact, cell.formula) for name, cell in rows[0].items()
    }


def acceptance(draws: sa.Draws, formula: float | None = None) -> Measured:
    """The share of accepted proposals, with its error over chains."""
    return Measured(float(draws.acceptance.mean()), metrics.over_chains(draws.acceptance), formula=formula)


def difference(
    first: sa.Draws, second: sa.Draws, bank: sa.MemoryBank, beta: float, formula: float | None = None
) -> dict[str, Measured]:
    """First minus second, for two runs with the same noise; the error is computed from the differences per chain.

    spread is the error of two runs with independent noise, which applies to a published difference.
    """
    one, two = (measured(draws.samples, bank, beta) for draws in (first, second))
    pairs = [[measured(chain[None], bank, beta) for chain in draws.samples] for draws in (first, second)]
    return {
        name: Measured(
            one[name].value - two[name].value,
            metrics.over_chains([a[name].value - b[name].value for a, b in zip(*pairs, strict=True)]),
            formula=formula,
            spread=math.hypot(one[name].error, two[name].error),
        )
        for name in QUANTITIES
    }


def shortened(n: int, quick: bool) -> int:
    """n, or a tenth of it in a quick run."""
    return max(n // QUICK, 1) if quick else n
