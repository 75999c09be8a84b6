"""Energies of eight chains and of one long chain, compared with the exact law on a small random bank."""

from __future__ import annotations

from typing import Any

import numpy as np

import stochattn as sa
from stochattn import energy

from .. import drawing
from ..data import Data
from ..expected import expected
from ..progress import stage
from ..protocol import average, from_sphere
from ..results import Figure, Measured, Result

BETA, N_CHAINS, N_REFERENCES = 5.0, 8, 8
N_STEPS, WARMUP = 20_000, 5000
N_STEPS_LONG, WARMUP_LONG = 200_000, 50_000
N_SUBSAMPLE = 5000
N_EXACT = 1_000_000
PUBLISHED_DISTANCE = 0.0118
N_RUNS = 32  # number of runs with eight chains each, for the distribution of one published run


def run(data: Data, seed: int, quick: bool) -> Result:
    """Figure experiments (b), with the numbers behind it."""
    from scipy.stats import ks_2samp

    bank = data.synthetic("exp2")

    def energies(sampler: str, n_chains: int, n_steps: int, warmup: int, first: int = 0) -> Any:
        options = {"sampler": sampler, "n_chains": n_chains, "first_chain": first}
        thin = 5 if n_steps == N_STEPS else 10
        draws = from_sphere(bank, BETA, n_steps, warmup, seed, quick, thin=thin, **options)
        return energy.table_energy(draws.samples, bank, BETA)

    stage("chains of 20,000 steps")
    short = energies("ula", N_CHAINS * N_RUNS, N_STEPS, WARMUP).reshape(N_RUNS, -1)
    adjusted = energies("mala", N_CHAINS * N_RUNS, N_STEPS, WARMUP).reshape(N_RUNS, -1)
    stage("chains of 200,000 steps")
    long = energies("ula", N_REFERENCES, N_STEPS_LONG, WARMUP_LONG, first=1000)
    exact = energy.table_energy(sa.StochasticAttention(bank, beta=BETA).sample(N_EXACT, rng=seed), bank, BETA)
    rng = np.random.default_rng(seed)

    def distance(sample: Any, reference: Any) -> float:
        return float(ks_2samp(rng.choice(sample, N_SUBSAMPLE), rng.choice(reference, N_SUBSAMPLE)).statistic)

    def row(runs: Any, distances: list[float] | None, law: float | None) -> dict[str, Measured]:
        cells = {
            "mean energy": average(runs.mean(1), float(exact.mean())),
            "std energy": average(runs.std(1), float(exact.std())),
        }
        if distances:
            cells["KS to reference"] = average(distances, law)
        return cells

    # Mean distance between two samples of 5,000 states from the same law.
    null = float(np.mean([distance(exact, exact) for _ in range(20)]))
    distances = [distance(runs, long[i % N_REFERENCES]) for i, runs in enumerate(short)]
    as_small = float(np.mean(np.array(distances) <= PUBLISHED_DISTANCE))
    rows = {
        "eight chains": row(short, distances, null),
        "long reference chain": row(long, None, None),
        "eight chains, MALA, against the exact law": row(adjusted, [distance(a, exact) for a in adjusted], null),
        "eight chains, against the exact law": {"KS to reference": average([distance(a, exact) for a in short], null)},
    }
    table = expected(__file__)["experiments-b"].against(
        rows,
        notes=(
            "The published values come from the result files of the authors. Our runs keep every 5th state (every 10th "
            "of the long chains); the published runs keep all.",
            f"Mean and spread over {N_RUNS} runs of the published size. The reference of the paper is a long ULA "
            f"chain. Under the exact law the mean energy is {exact.mean():.4f} and the standard deviation "
            f"{exact.std():.4f} ({N_EXACT:,} draws).",
            f"Two independent samples of 5,000 from the same law have a KS distance of {null:.4f} on average. The "
            "states "
            "of a chain are correlated, so the distance between eight chains and a long chain is larger and varies "
            f"widely: {as_small:.0%} of our {N_RUNS} runs have at most the published {PUBLISHED_DISTANCE}. The value "
            "shows that the chains agree, but it cannot confirm this run; the mean and the standard deviation do.",
        ),
    )
    finding = (
        f"they agree, and both agree with the exact law: the mean energy is {short.mean():.4f} in short chains, "
        f"{long.mean():.4f} in long ones and {exact.mean():.4f} exactly. The KS distance cannot tell: two independent "
        f"samples of 5,000 have {null:.4f} on average."
    )
    figure = Figure("experiments-b", _CAPTION, lambda: _draw(short[0], long[0], exact), _CLAIM, finding)
    return Result([table], [figure])


_CAPTION = "Energies of eight pooled chains, of one long chain, and of the exact law (line); d = 8, K = 4, β = 5."
_CLAIM = "the pooled energies of eight chains agree with those of a long reference chain (KS and moments in an inset)."


def _draw(short: Any, long: Any, exact: Any) -> Any:
    figure, axis = drawing.subplots(1, 1, size=(8.4, 5.0))
    bins = np.linspace(-0.5, 1.8, 70)
    axis.hist(short, bins, density=True, color=drawing.GREY, alpha=0.6, label="eight chains, pooled")
    axis.hist(long, bins, density=True, histtype="step", color=drawing.RED, lw=2.0, label="one long chain")
    density, edges = np.histogram(exact, bins, density=True)
    axis.plot((edges[1:] + edges[:-1]) / 2, density, color=drawing.BLUE, lw=1.8, label="exact law")
    axis.set(xlabel="energy", ylabel="density")
    axis.legend()
    return figure
