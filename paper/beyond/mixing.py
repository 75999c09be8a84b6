"""How long chains need to leave a memory, against beta, the distance of memories and their number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

import stochattn as sa

from .. import drawing
from ..data import Data
from ..expected import Expected
from ..progress import stage
from ..protocol import ALPHA, N_STEPS, seeds
from ..results import Figure, Measured, Result, Table
from .barriers import crossings, in_span, log_exit_rates, pair_rate, saddle

DISTANCES = (0.5, 1.0, math.sqrt(2))
HEIGHTS = (2.0, 3.0, 4.0, 5.0, 6.0)  # b = beta s²/8
SAMPLERS = {"ula": "SA", "mala": "MALA"}
SIZES = (2, 4, 8, 16, 32)
HEIGHT_OF_SIZES = 5.0
ENOUGH = 200  # expected crossings of a run, from which its length follows
MAX_STEPS = 2_000_000  # of all chains together
PAPER_STEPS = N_STEPS
DIGIT_BETAS = (50.0, 100.0, 150.0)
RETURN_BETAS = (25.0,)
SHOWN_BETAS = {"digit 3": (200.0, 2000.0), "returns": (2000.0,)}
PER_THOUSAND = 1000

Array = Any


@dataclass(frozen=True)
class Point:
    """A measured rate with its Poisson error, and the rate of the closed form, per unit of time."""

    rate: float
    error: float
    formula: float


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
        [_rates(pairs), _memories(sizes), _data(banks, measured, limits)],
        [Figure("mixing", _CAPTION, lambda: _draw(pairs, sizes, banks, measured))],
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
    total = min(ENOUGH / (formula * ALPHA), MAX_STEPS) / scale
    n_steps = max(min(int(total / 100), 800), 20)
    n_chains = int(total / n_steps)
    n, elapsed = crossings(bank, beta, sampler, ALPHA, n_chains, n_steps, 1, seed)
    return Point(n / elapsed, math.sqrt(max(n, 1)) / elapsed, formula)


def slope(points: list[Point]) -> tuple[float, float]:
    """The slope of log(rate) against b, with the prefactor of the closed form taken out, and its standard error.

    log(rate / formula) − b is fitted by weighted least squares; the closed form has the slope −1.
    """
    x = np.array(HEIGHTS[: len(points)])
    y = np.array([math.log(max(p.rate, p.error) / p.formula) for p in points]) - x
    weights = np.array([(max(p.rate, p.error) / p.error) ** 2 for p in points])
    centred = x - (weights * x).sum() / weights.sum()
    spread = (weights * centred**2).sum()
    return float((weights * centred * y).sum() / spread), float(1 / math.sqrt(spread))


def last_useful_beta(patterns: Array, n_steps: int = PAPER_STEPS) -> float:
    """The beta at which the median memory is left once in n_steps, by the closed form."""
    low, high = 1.0, 1e5
    for _ in range(30):
        middle = math.sqrt(low * high)
        useful = _median_power(patterns, middle) < math.log10(n_steps)
        low, high = (middle, high) if useful else (low, middle)
    return low


def _measured(patterns: Array, beta: float, seed: int, n_chains: int, n_steps: int) -> Point:
    stage(f"chains on {len(patterns):,} memories, β = {beta:g}")
    single = sa.MemoryBank(patterns.astype(np.float32))
    each = max(n_steps // n_chains, 20)
    n, elapsed = crossings(single, beta, "ula", ALPHA, n_chains, each, 5, seed)
    return Point(n / elapsed, math.sqrt(max(n, 1)) / elapsed, 10 ** -_mean_power(patterns, beta) / ALPHA)


def _digits(data: Data) -> Array:
    return in_span(data.digits(3, 100).patterns)


def _days(data: Data) -> Array:
    from ..experiments.returns import market

    return np.asarray(market(data)[0].patterns, dtype=np.float64)


def _rates(pairs: dict[tuple[float, str], list[Point]]) -> Table:
    rows = {}
    for (distance, sampler), points in pairs.items():
        row = {
            f"b = {b:g}": Measured(PER_THOUSAND * p.rate, PER_THOUSAND * p.error, formula=PER_THOUSAND * p.formula)
            for b, p in zip(HEIGHTS, points, strict=True)
        }
        rows[f"distance {distance:.2f}, {SAMPLERS[sampler]}"] = {
            **row,
            "Arrhenius slope": Measured(*slope(points), formula=-1.0),
        }
    return Expected("mixing-rates", "Not in the paper: crossings between two memories", {}).against(
        rows,
        notes=(
            "Crossings per 1,000 units of time (one unit is 100 steps of size 0.01) of chains between two unit "
            "memories at distance s, at the temperature with b = βs²/8; the barrier of the energy is b − log 2. "
            "Errors: √n of n crossings. Formula: the exact mean crossing time of the diffusion, see "
            "`paper/beyond/barriers.py`. For large b it tends to (2/π)√(b/π) e⁻ᵇ, a function of b alone.",
            "Arrhenius slope: log(rate) against b by weighted least squares, with the prefactor of the formula.",
        ),
    )


def _memories(sizes: dict[int, tuple[Point, float, float]]) -> Table:
    rows = {
        f"K = {K}": {
            "crossings": Measured(PER_THOUSAND * p.rate, PER_THOUSAND * p.error, formula=PER_THOUSAND * p.formula),
            "barrier": Measured(barrier, formula=formula),
        }
        for K, (p, barrier, formula) in sizes.items()
    }
    return Expected("mixing-memories", "Not in the paper: crossings among K orthonormal memories", {}).against(
        rows,
        notes=(
            f"β = {4 * HEIGHT_OF_SIZES:g}, so b = {HEIGHT_OF_SIZES:g} for each pair. Crossings per 1,000 units of "
            "time; formula: K − 1 times the rate of one pair. Barrier: β(E(saddle) − E(minimum)), with the saddle "
            "found by Newton's method from the midpoint; formula: b − log 2, which neglects the other memories. Part "
            "of the surface between two memories is closer to a third one, so the sum over pairs is an upper bound.",
        ),
    )


def _data(banks: dict[str, Array], measured: dict[str, dict[float, Point]], limits: dict[str, float]) -> Table:
    rows = {}
    for name, patterns in banks.items():
        neighbours = nearest_heights(patterns)
        for beta in (*measured[name], *SHOWN_BETAS[name]):
            row = {
                "b of the nearest memory": Measured(beta * float(np.median(neighbours))),
                "log10 steps to leave": _log_steps(measured[name].get(beta), patterns, beta),
            }
            rows[f"{name}, β = {beta:g}{'' if beta in measured[name] else ' (closed form)'}"] = row
    checked = saddle_check(banks["digit 3"], 200.0)
    digit, day = limits["digit 3"], limits["returns"]
    last = max(measured["returns"])
    observed = measured["returns"][last]
    return Expected("mixing-data", "Not in the paper: steps to leave a stored image or day", {}).against(
        rows,
        notes=(
            "Steps of size 0.01. b of the nearest memory is a median over memories. Measured: observed steps per "
            "crossing of 100 chains (digit 3) or 20 chains (returns); formula: the inverse of the mean over memories "
            "of the sum of all pair rates. Other memories near a saddle take away part of it, so the sum is an upper "
            "bound of the rate, which is approached as β grows.",
            f"Saddles of the 30 closest pairs of digits at β = 200, by Newton's method from the midpoint: "
            f"{checked[0]:.0%} have one negative curvature, and the barrier differs from b − log 2 by at most "
            f"{checked[1]:.2f}.",
        ),
        findings=(
            "Where chains are useful: the sum of the pair rates is an upper bound, so the median stored digit 3 "
            f"(K = {len(banks['digit 3']):,}) is left at most once in the {PAPER_STEPS:,} steps of the paper's chains "
            f"at β = {digit:.0f}, and the median day (K = {len(banks['returns']):,}) at β = {day:.0f}. At larger β the "
            "number of steps grows by a factor e for each unit of b = βs²/8: chains return their start plus noise, and "
            "exact draws are the only way to reach the other memories. The median digit is left after at least "
            f"{_shown(banks['digit 3'], 200.0)} steps at β = 200 and {_shown(banks['digit 3'], 2000.0)} at β = 2,000, "
            f"the median day after at least {_shown(banks['returns'], 25.0)} steps at β = 25 and "
            f"{_shown(banks['returns'], 2000.0)} at β = 2,000. In chains at β = {last:g} a day was left once in "
            f"{1 / (ALPHA * max(observed.rate, observed.error)):,.0f} steps, because many memories share each saddle.",
        ),
    )


def _log_steps(point: Point | None, patterns: Array, beta: float) -> Measured:
    """log10 of the steps per crossing; without chains only the closed form, as its own value."""
    if point is None:
        return Measured(_mean_power(patterns, beta), formula=_mean_power(patterns, beta))
    rate = max(point.rate, point.error)
    return Measured(
        -math.log10(rate * ALPHA), point.error / rate / math.log(10), formula=-math.log10(point.formula * ALPHA)
    )


def _mean_power(patterns: Array, beta: float) -> float:
    """log10 of the steps per crossing, by the mean of the rates of all memories."""
    logs = log_exit_rates(patterns, beta)
    log_mean = float(logsumexp(logs)) - math.log(len(logs))
    return -(log_mean + math.log(ALPHA)) / math.log(10)


def _median_power(patterns: Array, beta: float) -> float:
    """log10 of the steps after which the median memory is left."""
    return -(float(np.median(log_exit_rates(patterns, beta))) + math.log(ALPHA)) / math.log(10)


def _shown(patterns: Array, beta: float) -> str:
    """The median number of steps as text."""
    power = _median_power(patterns, beta)
    return f"{10**power:,.0f}" if power < 4 else f"10^{power:.0f}"


def nearest_heights(patterns: Array) -> Array:
    """b/beta = s²/8 for the memory nearest to each, (K,)."""
    gram = patterns @ patterns.T
    squared = np.diag(gram)[:, None] + np.diag(gram)[None] - 2 * gram
    np.fill_diagonal(squared, np.inf)
    return squared.min(1) / 8


def saddle_check(patterns: Array, beta: float, n: int = 30) -> tuple[float, float]:
    """Over the n closest pairs: the share of saddles with one negative curvature, the largest error of b − log 2."""
    gram = patterns @ patterns.T
    squared = np.diag(gram)[:, None] + np.diag(gram)[None] - 2 * gram
    i, j = np.triu_indices(len(patterns), 1)
    closest = np.argsort(squared[i, j])[:n]
    found = [saddle(int(a), int(b), patterns, beta) for a, b in zip(i[closest], j[closest], strict=True)]
    gaps = [
        s.barrier - (beta * squared[a, b] / 8 - math.log(2))
        for s, a, b in zip(found, i[closest], j[closest], strict=True)
    ]
    return float(np.mean([s.index == 1 for s in found])), float(np.abs(gaps).max())


def _draw(
    pairs: dict[tuple[float, str], list[Point]],
    sizes: dict[int, tuple[Point, float, float]],
    banks: dict[str, Array],
    measured: dict[str, dict[float, Point]],
) -> Any:
    figure, axes = drawing.subplots(1, 3, size=(3.7, 3.2))
    b = np.linspace(1.5, 6.5, 60)
    axes[0].semilogy(b, pair_rate(b), "-", color=drawing.BLACK, lw=1, label="closed form")
    colours = dict(zip(DISTANCES, (drawing.BLUE, drawing.ORANGE, drawing.GREEN), strict=True))
    for (distance, sampler), points in pairs.items():
        axes[0].errorbar(
            np.array(HEIGHTS) + (0.06 if sampler == "mala" else -0.06),
            [p.rate for p in points],
            [p.error for p in points],
            fmt="o" if sampler == "ula" else "s",
            ms=4,
            mfc="none" if sampler == "mala" else None,
            color=colours[distance],
            label=f"{SAMPLERS[sampler]}, s = {distance:.2g}",
        )
    axes[0].set(xlabel="b = βs²/8", ylabel="crossings per unit of time", title="(a) two memories")
    axes[0].legend(fontsize=7)
    K = np.array(list(sizes))
    axes[1].loglog(
        K, [p.formula for p, *_ in sizes.values()], "-", color=drawing.BLACK, lw=1, label="(K − 1) × one pair"
    )
    axes[1].errorbar(
        K,
        [p.rate for p, *_ in sizes.values()],
        [p.error for p, *_ in sizes.values()],
        fmt="o",
        color=drawing.BLUE,
        label="SA",
    )
    axes[1].set_xticks(K, [str(k) for k in K])
    axes[1].set_xticks([], minor=True)
    axes[1].set(xlabel="K", ylabel="crossings per unit of time", title="(b) K orthonormal memories")
    axes[1].legend()
    betas = np.geomspace(10, 400, 25)
    for (name, patterns), colour in zip(banks.items(), (drawing.BLUE, drawing.ORANGE), strict=True):
        steps = [10 ** _mean_power(patterns, beta) for beta in betas]
        axes[2].loglog(betas, steps, "-", color=colour, lw=1, label=f"{name}, closed form")
        observed = measured[name]
        axes[2].plot(list(observed), [1 / (ALPHA * max(p.rate, p.error)) for p in observed.values()], "o", color=colour)
    axes[2].axhline(PAPER_STEPS, ls="--", color=drawing.RED, lw=1)
    axes[2].set(xlabel="β", ylabel="steps to leave a memory", title="(c) stored data", ylim=(10, 1e12))
    axes[2].legend(fontsize=8)
    return figure
