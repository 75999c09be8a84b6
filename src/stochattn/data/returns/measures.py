"""How scenarios compare with a history: marginals, correlations, tails, clustering of volatility."""

from __future__ import annotations

import numpy as np

from ..._backend.arrays import Array, ArrayLike
from .. import Comparison, Measure, Part

LAGS = 10
TAIL = 0.01


def compare_returns(items: ArrayLike, history: Array, tickers: tuple[str, ...]) -> Comparison:
    """Scenarios (n, days, N) against a history of log-returns (T, N)."""
    items = np.asarray(items, dtype=np.float64)
    days = items.reshape(-1, items.shape[-1])
    statistic, p = kolmogorov_smirnov(days, history)
    about = "Share of tickers whose daily returns pass a two-sample Kolmogorov-Smirnov test at 5 %."
    measures = [Measure("KS pass", float((p > 0.05).mean()), 0.95, about)]
    if len(tickers) > 1 and len(days) > 2:
        about = "Frobenius norm of the difference of the correlation matrices, relative to the historical one."
        measures.append(Measure("correlation error", correlation_error(days, history), 0.0, about))
    found, ideal = (float(each.mean()) if len(each) else 0.0 for each in map(excess_kurtosis, (days, history)))
    about = "Mean over the tickers; 0 for a normal law, more for heavier tails."
    measures.append(Measure("excess kurtosis", found, ideal, about))
    about = "Mean log-return of an equal-weight portfolio on its worst 1 % of days."
    measures.append(Measure("expected shortfall 1 %", expected_shortfall(days), expected_shortfall(history), about))
    if lags := min(LAGS, items.shape[1] - 1):
        about = "How much volatility clusters: mean autocorrelation of squared returns inside a scenario."
        past = squares_autocorrelation(history[None], lags) if len(history) > lags else None
        measures.append(Measure(f"ACF of squares, lags 1 to {lags}", squares_autocorrelation(items, lags), past, about))
    columns = zip(tickers, history.T, days.T, statistic.tolist(), strict=True)
    parts = (Part(name, _describe(old), _describe(new), distance) for name, old, new, distance in columns)
    return Comparison(tuple(measures), tuple(parts))


def kolmogorov_smirnov(days: Array, history: Array) -> tuple[Array, Array]:
    """Statistic and p-value for each ticker, (N,), (N,); of as many new days as historical ones."""
    from scipy.stats import ks_2samp

    chosen = days[np.linspace(0, len(days) - 1, min(len(days), len(history))).round().astype(int)]
    tests = [ks_2samp(new, old, method="asymp") for new, old in zip(chosen.T, history.T, strict=True)]
    return np.array([test.statistic for test in tests]), np.array([test.pvalue for test in tests])


def correlation_error(days: Array, history: Array) -> float:
    """‖C_new − C_old‖ / ‖C_old‖ in the Frobenius norm; a ticker that never moves is uncorrelated with the others."""
    old = _correlations(history)
    return float(np.linalg.norm(_correlations(days) - old) / np.linalg.norm(old))


def excess_kurtosis(days: Array) -> Array:
    """Fourth moment over squared variance, less 3, of each ticker that moves: (T, N) -> (at most N,)."""
    centred = days - days.mean(0)
    variance = np.square(centred).mean(0)
    moving = variance > 0
    return (centred[:, moving] ** 4).mean(0) / variance[moving] ** 2 - 3


def expected_shortfall(days: Array) -> float:
    """Mean return of the equal-weight portfolio over its worst days: (T, N) -> number."""
    portfolio = np.sort(days.mean(1))
    return float(portfolio[: max(1, round(TAIL * len(portfolio)))].mean())


def squares_autocorrelation(paths: Array, n_lags: int = LAGS) -> float:
    """ACF(g²), the mean over lags 1 … n_lags and over tickers, pooled over paths: (n, days, N) -> number.

    Squares are centred by their mean over all paths: that of a short window would hide whether it is a calm one. For a
    single path it is the usual autocorrelation, and the paper's.
    """
    squares = np.square(np.asarray(paths, dtype=np.float64))
    squares = squares - squares.mean((0, 1))
    n, days = squares.shape[:2]
    scale = np.square(squares).sum((0, 1))
    moving = scale > 0
    lags = []
    for lag in range(1, n_lags + 1):
        products = np.einsum("ptn,ptn->n", squares[:, lag:], squares[:, :-lag])
        # A single path divides by all its days, as is usual; windows have fewer pairs the longer the lag.
        pairs = 1.0 if n == 1 else days / (days - lag)
        lags.append((products[moving] * pairs / scale[moving]).mean())
    return float(np.mean(lags))


def _correlations(days: Array) -> Array:
    centred = days - days.mean(0)
    spread = np.sqrt(np.square(centred).sum(0))
    unit = centred / np.where(spread > 0, spread, 1.0)
    correlations = unit.T @ unit
    np.fill_diagonal(correlations, 1.0)
    return correlations


def _describe(column: Array) -> str:
    low, high = np.quantile(column, [0.01, 0.99])
    return f"{column.mean():+.4f} ± {column.std():.4f}, 98 % in {low:+.3f} … {high:+.3f}"
