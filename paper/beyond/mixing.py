"""How long chains need to leave a memory, against beta, the distance of memories and their number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import stochattn as sa

from ..data import Data
from ..progress import stage
from ..protocol import ALPHA, seeds
from ..results import Figure, Result
from .barriers import crossings, in_span, pair_rate, saddle
from .mixing_tables import (
    DISTANCES,
    HEIGHT_OF_SIZES,
    HEIGHTS,
    PAPER_STEPS,
    SAMPLERS,
    Point,
    data_table,
    draw,
    mean_power,
    median_power,
    memories_table,
    rates_table,
)

SIZES = (2, 4, 8, 16, 32)
N_CROSSINGS = 200  # expected crossings of a run, from which its length follows
MAX_STEPS = 2_000_000  # of all chains together
DIGIT_BETAS = (50.0, 100.0, 150.0)
RETURN_BETAS = (25.0,)

Array = Any


def run(data: Data, seed: int, quick: bool) -> Result:
    """Tables mixing-rates, mixing-memories and mixing-data, figure mixing."""
    scale = 20 if quick else 1
    stage("two memories")
    # Rates depend on b alone, so runs with the same noise at several distances would be one run.
    unused = iter(seeds(seed, len(DISTANCES) * len(SAMPLERS) * len(HEIGHTS) + len(SIZES)))
    pairs = {
        (distance, sampler): [pair(distance, b, sampler, next(unused), scale) for b in HEIGHTS]
        for distance in DISTANCES
        for sampler in SAMPLERS
    }
    stage("more memories")
    sizes = {K: many(K, HEIGHT_OF_SIZES, next(unused), scale) for K in SIZES}
    banks = {"digit 3": _digits(data), "returns": _days(data)}
    measured = {
        "digit 3": {beta: _measured(banks["digit 3"], beta, seed, 100, 300_000 // scale) for beta in DIGIT_BETAS},
        "returns": {beta: _measured(banks["returns"], beta, seed, 20, 6_000 // scale) for beta in RETURN_BETAS},
    }
    limits = {name: last_useful_beta(patterns) for name, patterns in banks.items()}
    return Result(
        [rates_table(pairs), memories_table(sizes), data_table(banks, measured, limits)],
        [Figure("mixing", _CAPTION, lambda: draw(pairs, sizes, banks, measured))],
    )


_CAPTION = (
    "Rates at which chains leave a memory. (a) Two memories at three distances: all rates lie on one curve of "
    "b = βs²/8 (line: closed form). (b) Orthonormal memories at b = 5: the rate grows with their number. (c) Steps of "
    "size 0.01 to leave a stored image or day, against β; dashed: the 5,000 steps of the paper's chains."
)


def pair(distance: float, b: float, sampler: str, seed: int, scale: int = 1) -> Point:
    """Crossings between two unit memories at a distance, with the temperature at which b = beta s²/8."""
    cosine = 1 - distance**2 / 2
    bank = sa.MemoryBank(np.array([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]]))
    return _count(bank, 8 * b / distance**2, sampler, float(pair_rate(b)), seed, scale)


def many(K: int, b: float, seed: int, scale: int = 1) -> tuple[Point, float, float]:
    """Crossings among K orthonormal memories, at distance √2; and the barrier by Newton's method and as b − log 2."""
    patterns, beta = np.eye(K), 4 * b
    point = _count(sa.MemoryBank(patterns), beta, "ula", (K - 1) * float(pair_rate(b)), seed, scale)
    return point, saddle(0, 1, patterns, beta).barrier, b - math.log(2)


def _count(bank: sa.MemoryBank, beta: float, sampler: str, formula: float, seed: int, scale: int) -> Point:
    total = min(N_CROSSINGS / (formula * ALPHA), MAX_STEPS) / scale
    n_steps = max(min(int(total / 100), 800), 20)
    n_chains = int(total / n_steps)
    n, elapsed = crossings(bank, beta, sampler, ALPHA, n_chains, n_steps, 1, seed)
    return Point(n / elapsed, math.sqrt(max(n, 1)) / elapsed, formula)


def last_useful_beta(patterns: Array, n_steps: int = PAPER_STEPS) -> float:
    """The beta at which the median memory is left once in n_steps, by the closed form."""
    low, high = 1.0, 1e5
    for _ in range(30):
        middle = math.sqrt(low * high)
        useful = median_power(patterns, middle) < math.log10(n_steps)
        low, high = (middle, high) if useful else (low, middle)
    return low


def _measured(patterns: Array, beta: float, seed: int, n_chains: int, n_steps: int) -> Point:
    stage(f"chains on {len(patterns):,} memories, β = {beta:g}")
    single = sa.MemoryBank(patterns.astype(np.float32))
    each = max(n_steps // n_chains, 20)
    n, elapsed = crossings(single, beta, "ula", ALPHA, n_chains, each, 5, seed)
    return Point(n / elapsed, math.sqrt(max(n, 1)) / elapsed, 10 ** -mean_power(patterns, beta) / ALPHA)


def _digits(data: Data) -> Array:
    return in_span(data.digits(3, 100).patterns)


def _days(data: Data) -> Array:
    from ..experiments.returns import market

    return np.asarray(market(data)[0].patterns, dtype=np.float64)
