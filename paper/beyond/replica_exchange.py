"""Replica exchange between temperatures, compared with one chain and with exact draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import logsumexp

import stochattn as sa
from stochattn import neighbors

from ..data import Data
from ..expected import Expected
from ..progress import Bar, stage
from ..protocol import average, seeds, shortened
from ..results import Measured, Result

COLD, HOT = 200.0, 20.0
N_REPLICAS = 24
ALPHA = 0.1
N_STEPS, SWAP_EVERY, KEEP_EVERY = 20_000, 10, 100
N_RUNS = 3

Array = Any


@dataclass(eq=False)
class Exchange:
    """What a run of replica exchange recorded.

    nearest: the memory nearest to the coldest replica, at every kept step
    tried, swapped: attempts and successes for each pair of neighbouring temperatures
    path:    the place of the first replica in the sequence of temperatures, after every attempt
    trips:   how often a replica went from the coldest temperature to the hottest and back
    """

    tried: Array
    swapped: Array
    nearest: list[int] = field(default_factory=list)
    path: list[int] = field(default_factory=list)
    trips: int = 0


def run(data: Data, seed: int, quick: bool) -> Result:
    """Table replica-exchange: digit 3 at β = 200, all replicas from pattern 1."""
    bank = data.digits(3, 100)
    # Outside the span of the memories the target is white noise, so exchange within the span gives the same visits.
    basis = np.linalg.svd(bank.patterns, full_matrices=False)[2]
    reduced = sa.MemoryBank(bank.patterns @ basis.T)
    betas = np.geomspace(COLD, HOT, N_REPLICAS)
    n_steps, n_runs = (shortened(N_STEPS // 4, quick), 1) if quick else (N_STEPS, N_RUNS)
    stage(f"{N_REPLICAS} replicas, {n_steps:,} steps")
    runs = [exchange(reduced, betas, n_steps, s) for s in seeds(seed, n_runs)]
    kept = len(runs[0].nearest)
    alone = [
        sa.run(reduced, COLD, alpha=ALPHA, n_chains=1, n_steps=n_steps, thin=KEEP_EVERY, warmup=0, start=[0], rng=s)
        for s in seeds(seed, n_runs)
    ]
    exact = [sa.StochasticAttention(reduced, beta=COLD).sample(kept, rng=s) for s in seeds(seed, n_runs)]
    exact_visits = average([visited(neighbors.nearest_memory(rows, reduced)[0]) for rows in exact])
    rates = [found.swapped / np.maximum(found.tried, 1) for found in runs]
    rows: dict[str, dict[str, Measured]] = {
        "replica exchange": {
            "memories visited": average([visited(found.nearest) for found in runs], exact_visits.value),
            "least swap rate": average([float(rate.min()) for rate in rates]),
            "mean swap rate": average([float(rate.mean()) for rate in rates]),
            "round trips": average([float(found.trips) for found in runs]),
        },
        "one chain": {
            "memories visited": average([visited(draws.basins[0]) for draws in alone], exact_visits.value),
        },
        "exact draws": {"memories visited": exact_visits},
    }
    table = Expected("replica-exchange", "Not in the paper: replica exchange at β = 200, digit 3", {}).against(
        rows,
        notes=(
            f"{N_REPLICAS} temperatures from β = {COLD:g} to {HOT:g}, {n_steps:,} steps of size {ALPHA:g}, a swap of "
            f"neighbours every {SWAP_EVERY} steps; all replicas start at pattern 1. Visited: memories nearest to the "
            f"coldest replica at {kept} kept steps, and to as many exact draws. Mean over {n_runs} runs.",
            f"A step of replica exchange costs {N_REPLICAS} attention steps; an exact draw costs none.",
        ),
    )
    return Result([table])


def exchange(bank: sa.MemoryBank, betas: Array, n_steps: int, seed: int) -> Exchange:
    """Replica exchange from pattern 1, with the coldest state kept every KEEP_EVERY steps."""
    start, kept = np.repeat(bank.patterns[:1], len(betas), axis=0), range(KEEP_EVERY, n_steps + 1, KEEP_EVERY)
    return exchanged(bank, betas, start, list(kept), n_steps, SWAP_EVERY, np.random.default_rng(seed))


def exchanged(
    bank: sa.MemoryBank, betas: Array, start: Array, kept: Sequence[int], n_steps: int, swap_every: int, rng: Any
) -> Exchange:
    """Langevin steps at each temperature, and swaps of neighbouring replicas with the Metropolis probability.

    start: (len(betas), d) states; kept: steps after which the memory nearest to the coldest state is recorded, as often
    as each is named. Arithmetic is in the dtype of the memories.
    """
    x, dtype, times = start.copy(), bank.patterns.dtype, Counter(kept)
    replica, reached_end = np.arange(len(betas)), np.zeros(len(betas), dtype=bool)
    found = Exchange(np.zeros(len(betas) - 1), np.zeros(len(betas) - 1))
    alpha, scale, column = (np.asarray(v, dtype) for v in (ALPHA, np.sqrt(2 * ALPHA / betas)[:, None], betas[:, None]))
    with Bar(n_steps, f"{len(betas)} temperatures") as bar:
        for step in range(1, n_steps + 1):
            logits = column * (x @ bank.patterns.T)
            weights = np.exp(logits - logits.max(1, keepdims=True))
            attended = (weights / weights.sum(1, keepdims=True)) @ bank.patterns
            x = x + alpha * (attended - x) + scale * rng.standard_normal(x.shape, dtype=dtype)
            if step % swap_every == 0:
                swap(x, replica, bank, betas, found, (step // swap_every) % 2, rng)
                reached_end[replica[-1]] = True
                if reached_end[replica[0]]:
                    found.trips += 1
                    reached_end[replica[0]] = False
                found.path.append(int(np.flatnonzero(replica == 0)[0]))
            if times[step]:
                found.nearest += [int(neighbors.nearest_memory(x[:1], bank)[0][0])] * times[step]
            bar.update(step)
    return found


def swap(x: Array, replica: Array, bank: sa.MemoryBank, betas: Array, found: Exchange, odd: int, rng: Any) -> None:
    """Propose to swap the states of the neighbours (odd, odd + 1), (odd + 2, odd + 3), …"""
    i = np.arange(odd, len(betas) - 1, 2)
    overlaps, halves = x @ bank.patterns.T, (x**2).sum(1) / 2

    def log_target(states: Array, at: Array) -> Array:
        """log exp(−beta E) of states at the temperatures `at`, without constants that cancel."""
        return logsumexp(betas[at, None] * overlaps[states], axis=1) - betas[at] * halves[states]

    gain = log_target(i, i + 1) + log_target(i + 1, i) - log_target(i, i) - log_target(i + 1, i + 1)
    accepted = i[np.log(rng.random(len(i))) < gain]
    found.tried[i] += 1
    found.swapped[accepted] += 1
    for moved in (x, replica):
        moved[accepted], moved[accepted + 1] = moved[accepted + 1].copy(), moved[accepted].copy()


def visited(nearest: Any) -> float:
    """How many different memories are among these."""
    return float(len(set(np.asarray(nearest).ravel().tolist())))
