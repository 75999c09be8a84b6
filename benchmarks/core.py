"""The core's speed: the paper's protocol (30 chains, 5,000 steps, 150 states kept) against chain-by-chain NumPy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import stochattn as sa
from stochattn.samplers import draw

from .straightforward import CHAINS

N_CHAINS, N_STEPS, ALPHA, BETA = 30, 5000, 0.01, 2000.0
KEEP = [2000, 2700, 3500, 4200, 4900]


class Row(NamedTuple):
    """A measured ratio and what it should reach."""

    what: str
    ratio: float
    target: str
    met: bool
    details: str


def images(K: int, d: int) -> sa.MemoryBank:
    """Unit rows, positive and correlated as pixels are."""
    rng = np.random.default_rng(0)
    return sa.MemoryBank(np.exp(rng.standard_normal((K, 12)) @ rng.standard_normal((12, d)) / 3)).normalized()


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def against_chain_by_chain(
    sampler: str, bank: sa.MemoryBank, rounds: int, rival_steps: int
) -> tuple[float, float, float]:
    """Median over rounds of (rival's time a step) / (ours), and both in microseconds for a step of 30 chains."""
    X = np.array(bank.patterns)
    rng = np.random.default_rng(0)

    def rival() -> None:
        for k in range(N_CHAINS):
            CHAINS[sampler](X[k], X, BETA, ALPHA, rival_steps, rng)

    def ours() -> None:
        sa.run(
            bank,
            BETA,
            sampler=sampler,
            n_chains=N_CHAINS,
            n_steps=N_STEPS,
            keep=KEEP,
            alpha=ALPHA,
            rng=0,
            progress=False,
        )

    ours()  # the bank's basis is computed once and kept
    pairs = [(seconds(rival) / rival_steps, seconds(ours) / N_STEPS) for _ in range(rounds)]
    ratio = statistics.median(theirs / mine for theirs, mine in pairs)
    return [ratio, *(1e6 * statistics.median(column) for column in zip(*pairs, strict=True))]


def step_time(bank: sa.MemoryBank, rounds: int) -> float:
    """Seconds a step of 30 chains: the slope between a long and a short run that keep the same number of states."""

    def run(n_steps: int) -> Callable[[], object]:
        keep = [n_steps // 2, n_steps]
        return lambda: sa.run(bank, BETA, n_chains=N_CHAINS, n_steps=n_steps, keep=keep, rng=0, progress=False)

    run(10)()
    return statistics.median((seconds(run(16_000)) - seconds(run(1000))) / 15_000 for _ in range(rounds))


def measure(quick: bool = False) -> list[Row]:
    """All rows, the slow parts shortened if `quick`."""
    rounds = 2 if quick else 5
    rows = []
    shapes = {"MNIST": images(100, 784), "Olivetti": images(100, 4096)}
    targets = {("MNIST", "ula"): 12, ("MNIST", "mala"): 25, ("Olivetti", "ula"): 60, ("Olivetti", "mala"): 60}
    chain_seconds = 0.0
    for (shape, sampler), target in targets.items():
        bank = shapes[shape]
        ratio, theirs, ours = against_chain_by_chain(sampler, bank, rounds, 40 if shape == "Olivetti" else 150)
        if (shape, sampler) == ("MNIST", "ula"):
            chain_seconds = theirs * 1e-6 * N_STEPS
        what = f"{sampler.upper()}, {shape} shape (K={bank.K}, d={bank.d})"
        rows.append(
            Row(what, ratio, f">= {target}", ratio >= target, f"{theirs:.0f} against {ours:.1f} us a step of 30 chains")
        )
    bank = shapes["MNIST"]
    draw(bank, BETA, 150, 0)
    exact = statistics.median(seconds(lambda: draw(bank, BETA, 150, 0)) for _ in range(50))
    ratio = chain_seconds / exact
    details = f"{chain_seconds:.2f} s against {1e3 * exact:.2f} ms"
    rows.append(Row("exact draw of the 150 states, MNIST shape", ratio, ">= 3000", ratio >= 3000, details))
    wide, narrow = images(100, 100_000), shapes["MNIST"]
    pairs = [(step_time(wide, 1), step_time(narrow, 1)) for _ in range(rounds)]
    ratio = statistics.median(a / b for a, b in pairs)
    details = (
        " against ".join(f"{1e6 * statistics.median(column):.1f}" for column in zip(*pairs, strict=True)) + " us a step"
    )
    rows.append(Row("time a step, d = 100,000 over d = 784", ratio, "<= 1.3", ratio <= 1.3, details))
    return rows
