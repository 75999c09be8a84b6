"""Tables and figure of the times that chains need to leave a memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from .. import drawing
from ..expected import Expected
from ..protocol import ALPHA, N_STEPS
from ..results import Measured, Table
from .barriers import log_exit_rates, pair_rate, saddle

DISTANCES = (0.5, 1.0, math.sqrt(2))
HEIGHTS = (2.0, 3.0, 4.0, 5.0, 6.0)  # b = beta s²/8
SAMPLERS = {"ula": "SA", "mala": "MALA"}
HEIGHT_OF_SIZES = 5.0
PAPER_STEPS = N_STEPS
SHOWN_BETAS = {"digit 3": (200.0, 2000.0), "returns": (2000.0,)}
PER_THOUSAND = 1000

Array = Any


@dataclass(frozen=True)
class Point:
    """A measured rate with its Poisson error, and the rate of the closed form, per unit of time."""

    rate: float
    error: float
    formula: float


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


def rates_table(pairs: dict[tuple[float, str], list[Point]]) -> Table:
    """Table mixing-rates: crossings between two memories."""
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


def memories_table(sizes: dict[int, tuple[Point, float, float]]) -> Table:
    """Table mixing-memories: crossings among K memories."""
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


def data_table(banks: dict[str, Array], measured: dict[str, dict[float, Point]], limits: dict[str, float]) -> Table:
    """Table mixing-data: steps to leave a stored image or day."""
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
        return Measured(mean_power(patterns, beta), formula=mean_power(patterns, beta))
    rate = max(point.rate, point.error)
    return Measured(
        -math.log10(rate * ALPHA), point.error / rate / math.log(10), formula=-math.log10(point.formula * ALPHA)
    )


def mean_power(patterns: Array, beta: float) -> float:
    """log10 of the steps per crossing, by the mean of the rates of all memories."""
    logs = log_exit_rates(patterns, beta)
    log_mean = float(logsumexp(logs)) - math.log(len(logs))
    return -(log_mean + math.log(ALPHA)) / math.log(10)


def median_power(patterns: Array, beta: float) -> float:
    """log10 of the steps after which the median memory is left."""
    return -(float(np.median(log_exit_rates(patterns, beta))) + math.log(ALPHA)) / math.log(10)


def _shown(patterns: Array, beta: float) -> str:
    """The median number of steps as text."""
    power = median_power(patterns, beta)
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


def draw(
    pairs: dict[tuple[float, str], list[Point]],
    sizes: dict[int, tuple[Point, float, float]],
    banks: dict[str, Array],
    measured: dict[str, dict[float, Point]],
) -> Any:
    """Rates of two memories, of K memories, and on stored data."""
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
        steps = [10 ** mean_power(patterns, beta) for beta in betas]
        axes[2].loglog(betas, steps, "-", color=colour, lw=1, label=f"{name}, closed form")
        observed = measured[name]
        axes[2].plot(list(observed), [1 / (ALPHA * max(p.rate, p.error)) for p in observed.values()], "o", color=colour)
    axes[2].axhline(PAPER_STEPS, ls="--", color=drawing.RED, lw=1)
    axes[2].set(xlabel="β", ylabel="steps to leave a memory", title="(c) stored data", ylim=(10, 1e12))
    axes[2].legend(fontsize=8)
    return figure
