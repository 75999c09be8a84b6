"""Days of warm-started MALA (Algorithm 3), as many as in the paper: autocorrelations of returns and their squares."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import stochattn as sa

from .. import closed_form, drawing
from ..data import Data
from ..expected import expected
from ..progress import stage
from ..protocol import ALPHA
from ..results import Cause, Claim, Figure, Measured, Result
from .returns import SHOWN, market

BETA, INNER_STEPS = 12.0, 200
# The paper has one path of 2,766 days. Paths that start in equilibrium have the same autocorrelations, and a step of 32
# costs as much as a step of one. At β = 12 they have all days of the paper together, at β = 25 a fifth of its steps.
N_PATHS = 32
COLD_BETA, COLD_INNER, COLD_DAYS = 25.0, 2000, 18
COLD = "Sequential MALA (β = 25)"
N_LAGS = 20
LAGS_OF_MEAN = 10

Array = Any


def run(data: Data, seed: int, quick: bool) -> Result:
    """The temporal part of table finance-summary, and figure finance-acf-combined."""
    bank, returns, tickers = market(data)
    n_days = 2 * N_LAGS if quick else math.ceil(len(returns) / N_PATHS)
    inner = INNER_STEPS // 10 if quick else INNER_STEPS
    stage(f"{N_PATHS} paths of {n_days} days of {inner} steps")
    paths = sa.sequential(
        bank,
        BETA,
        n_days=n_days,
        inner_steps=inner,
        n_paths=N_PATHS,
        alpha=ALPHA,
        start="equilibrium",
        rng=seed,
    )
    made = np.asarray(paths.values, dtype=np.float64)
    band = 2.576 / math.sqrt(N_PATHS * n_days)
    rate = Measured(float(paths.draws.acceptance.mean()), formula=closed_form.mala_acceptance(ALPHA, bank.d))
    exact = _row(_independent(bank, BETA, N_PATHS * n_days, seed).reshape(made.shape))
    ours = {
        name: replace(cell, exact=exact[name].value if name in exact else None)
        for name, cell in {"acceptance": rate, **_row(made)}.items()
    }
    cold = _cold(bank, seed, quick)
    table = expected(__file__)["finance-sequence"].against(
        {"Sequential MALA (β = 12)": ours, COLD: cold, "Historical": _row(returns)},
        notes=(
            f"Over {returns.shape[1]} tickers: the share of lags 1 to {N_LAGS} inside the 99 % band of white noise, "
            f"the mean of ACF(g) at lag 1, the mean of ACF(g²) over lags 1 to {LAGS_OF_MEAN}. Exact: independent "
            "draws of the same law. Volatility clustering is absent at β = 12, as the paper says.",
            f"β = 12: {N_PATHS} paths of {n_days} days, {inner} steps a day. β = 25: {N_PATHS} paths of {COLD_DAYS} "
            f"days, {COLD_INNER:,} steps a day, {N_PATHS * COLD_DAYS * COLD_INNER / 1e6:.1f} million steps of the "
            "published 5.5 million; the error is a jackknife over the paths. All paths start in equilibrium; the paper "
            "has one path, whose autocorrelations are the same. “Same day”: the nearest stored day is that of the day "
            "before.",
        ),
        causes=_causes(ours, exact, cold, band),
    )
    chosen = [tickers.index(t) for t in SHOWN if t in tickers] or list(range(min(5, len(tickers))))
    past = autocorrelations(returns**2)[:LAGS_OF_MEAN].mean()
    finding = (
        f"{ours['ACF(g) inside 99 %'].value:.0%} of all lags and tickers are inside. At lag 1 ACF(g) is "
        f"{ours['ACF(g), lag 1'].value:.3f} on average, outside the band of ±{band:.3f}: two relaxation times pass "
        f"from day to day. ACF(g²) is {ours['ACF(g²)'].value:.4f} over lags 1 to {LAGS_OF_MEAN}, and "
        f"{past:.3f} in the market."
    )
    figure = Figure("finance-acf-combined", _CAPTION, lambda: _draw(made, returns, tickers, chosen), _CLAIM, finding)
    return Result([table], [figure], _claims(cold))


def _row(series: Array) -> dict[str, Measured]:
    """The quantities of the table for a series (days, tickers), or for paths (paths, days, tickers)."""
    plain, squared = autocorrelations(series), autocorrelations(series**2)
    band = 2.576 / np.sqrt(_n_products(series))[:, None]
    return {
        "ACF(g) inside 99 %": Measured(float((np.abs(plain) <= band).mean())),
        "ACF(g), lag 1": Measured(float(plain[0].mean())),
        "ACF(g²)": Measured(float(squared[:LAGS_OF_MEAN].mean())),
    }


def _independent(bank: sa.MemoryBank, beta: float, n_days: int, seed: int) -> Array:
    """Returns (n_days, tickers) of independent exact draws."""
    draws = sa.StochasticAttention(bank, beta=beta).sample(n_days, rng=seed)
    return np.asarray(sa.energy.attend(draws, bank, beta, values=bank.values), dtype=np.float64)


def _cold(bank: sa.MemoryBank, seed: int, quick: bool) -> dict[str, Measured]:
    """The row at β = 25: several paths of the stationary chain, pooled."""
    stage(f"β = 25: {N_PATHS} paths of {COLD_DAYS} days of {COLD_INNER:,} steps")
    paths = sa.sequential(
        bank,
        COLD_BETA,
        n_days=COLD_DAYS,
        inner_steps=COLD_INNER // 100 if quick else COLD_INNER,
        n_paths=N_PATHS,
        alpha=ALPHA,
        start="equilibrium",
        rng=seed,
    )
    made = np.asarray(paths.values, dtype=np.float64)
    law = _independent(bank, COLD_BETA, N_PATHS * COLD_DAYS, seed).reshape(made.shape)
    days = paths.draws.basins
    return {
        "acceptance": Measured(
            float(paths.draws.acceptance.mean()), formula=closed_form.mala_acceptance(ALPHA, bank.d)
        ),
        "ACF(g), lag 1": _jackknife(lambda x: autocorrelations(x, 1).mean(), made, law),
        "ACF(g²)": _jackknife(lambda x: autocorrelations(x**2, LAGS_OF_MEAN).mean(), made, law),
        "same day": Measured(float((days[:, 1:] == days[:, :-1]).mean())),
    }


def _jackknife(statistic: Callable[[Array], float], paths: Array, law: Array) -> Measured:
    """A statistic of all paths, its standard error by leaving out one path at a time, and its value under the law."""
    n = len(paths)
    without = np.array([statistic(np.delete(paths, i, axis=0)) for i in range(n)])
    error = math.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    return Measured(float(statistic(paths)), error, float(statistic(law)))


def _causes(
    ours: dict[str, Measured], exact: dict[str, Measured], cold: dict[str, Measured], band: float
) -> tuple[Cause, ...]:
    inside, lag_1 = exact["ACF(g) inside 99 %"].value, ours["ACF(g), lag 1"].value
    return (
        Cause(
            ("Sequential MALA (β = 12)",),
            ("ACF(g) inside 99 %",),
            f"independent draws have {inside:.1%} of their lags inside, but successive states of the chain are "
            f"correlated. Its ACF(g) at lag 1 is {lag_1:.3f} on average over the tickers, and the band is "
            f"±{band:.3f}: 200 steps of size 0.01 are two relaxation times, after which exp(−2) = 0.14 of a state "
            "remains (figure finance-acf-combined, top row).",
        ),
        Cause(
            (COLD,),
            ("ACF(g²)",),
            f"successive states are correlated: {cold['same day'].value:.1%} of them have the same nearest day as "
            f"2,000 steps before. Independent draws have {cold['ACF(g²)'].exact:.4f}.",
        ),
    )


def _claims(cold: dict[str, Measured]) -> list[Claim]:
    squares, same = cold["ACF(g²)"], cold["same day"].value
    far = abs(squares.value - 0.0005) > 3 * squares.error
    return [
        Claim(
            883,
            "mean over $424$ tickers: $0.0005$",
            "At β = 25 with 2,000 inner steps a day ACF(g²) is 0.0005, as for an equilibrium sampler.",
            "does not hold" if far else "holds",
            f"{squares.value:.4f} ± {squares.error:.4f} in {N_PATHS} paths of {COLD_DAYS} days from equilibrium, "
            f"and {squares.exact:.4f} for independent draws of the same law. {same:.1%} of the states have the same "
            "nearest day 2,000 steps later.",
            "chains",
        )
    ]


_CAPTION = (
    "Autocorrelation of daily returns (top) and of their squares (bottom), historical and generated; dashed: 99 % "
    "band of white noise. Volatility clusters in the market but not in the chain."
)
_CLAIM = (
    "ACF(g) of the generated series stays inside the 99 % band at all lags; ACF(g²) is persistently positive in the "
    "market and about 0 in the generated series."
)


def autocorrelations(series: Array, n_lags: int = N_LAGS) -> Array:
    """Autocorrelations at lags 1 … n_lags of each ticker, (n_lags, tickers).

    series: (days, tickers), or (paths, days, tickers); paths share their mean and variance
    """
    paths = series if series.ndim == 3 else series[None]
    centred = paths - paths.mean((0, 1))
    products = [(centred[:, lag:] * centred[:, :-lag]).mean((0, 1)) for lag in range(1, n_lags + 1)]
    return np.stack(products) / (centred**2).mean((0, 1))


def _n_products(series: Array) -> Array:
    """Number of products in an autocorrelation at lags 1 … 20, the inverse of its variance for white noise."""
    n_paths, n_days = series.shape[:2] if series.ndim == 3 else (1, len(series))
    return n_paths * (n_days - np.arange(1, N_LAGS + 1))


def _draw(made: Array, returns: Array, tickers: list[str], chosen: list[int]) -> Any:
    figure, axes = drawing.subplots(2, len(chosen), size=(3.0, 2.9), sharex=True, sharey="row", squeeze=False)
    lags = np.arange(1, N_LAGS + 1)
    band = 2.576 / math.sqrt(made.shape[0] * made.shape[1])
    for line, power, label in ((0, 1, "ACF(g)"), (1, 2, "ACF(g²)")):
        past, new = (autocorrelations(rows[..., chosen] ** power) for rows in (returns, made))
        for axis, column in zip(axes[line], range(len(chosen)), strict=True):
            axis.plot(lags, past[:, column], "o-", ms=4, lw=1.4, color=drawing.RED, label="historical")
            axis.plot(lags, new[:, column], "s-", ms=4, lw=1.4, color=drawing.BLUE, label="generated")
            for height in (-band, band):
                axis.axhline(height, color=drawing.BLACK, ls="--", lw=0.8)
            if line == 0:
                axis.set_title(tickers[chosen[column]])
            else:
                axis.set_xlabel("lag, days")
        axes[line][0].set_ylabel(label)
    axes[0][0].legend()
    return figure
