"""Measures of generated paths of returns: how much of the stored days' behavior they preserve, and what they copy.

Paths are (n, days, N); stored and held-out days are blocks (m, days, N). The portfolio has equal weights.
"""

from __future__ import annotations

import numpy as np

from stochattn._backend.arrays import Array
from stochattn.core.neighbors import nearest_distances
from stochattn.evaluation import held_out_metrics
from stochattn.kinds.returns.writing import kolmogorov_smirnov

LAGS = 10
LEVEL = 0.01
COPY = 1e-6
"""A day is copied if its distance to a stored day is below this share of its own norm."""
MAX_DAYS = 5000
"""Days, evenly spaced, whose nearest neighbors are searched."""


def fidelity(paths: Array, stored: Array) -> dict[str, float]:
    """How paths differ from the stored days that they were made from.

    ACF kept:    mean autocorrelation of |r| over lags 1 to 10 and tickers, relative to that of the stored days
    leverage:    mean over lags 1 to 10 of |difference of corr(r_t, |r_{t+lag}|)|, for the portfolio
    1 % VaR, ES: |relative error| of the 1 % quantile of the portfolio's days, and of the mean of its worst 1 % of days
    correlation: mean |difference| of the correlations between different tickers
    KS:          mean Kolmogorov-Smirnov distance of the tickers' days
    """
    new, old = days(paths), days(stored)
    return {
        "ACF kept": absolute_autocorrelation(paths) / absolute_autocorrelation(stored),
        "leverage": float(np.abs(leverage(paths) - leverage(stored)).mean()),
        "1 % VaR": abs(value_at_risk(new) / value_at_risk(old) - 1),
        "ES": abs(shortfall(new) / shortfall(old) - 1),
        "correlation": correlation_gap(new, old),
        "KS": float(kolmogorov_smirnov(new, old)[0].mean()),
    }


def novelty(paths: Array, stored: Array, held_out: Array) -> dict[str, float]:
    """What paths copy; distances are in units of the standard deviation of each ticker.

    days copied:     share of days that equal a stored day
    near copies:     share of days closer to a stored day than 99 % of the held-out days are
    train proximity: share of days closer to the stored days than to as many held-out days; 0.5 is ideal
    """
    scale = days(stored).std(0)
    new, old, other = (days(x) / scale for x in (paths, stored, held_out))
    new = new[np.linspace(0, len(new) - 1, min(len(new), MAX_DAYS)).round().astype(int)]
    found = held_out_metrics(new, old, other)
    return {
        "days copied": float((nearest_distances(new, old) <= COPY * np.linalg.norm(new, axis=1)).mean()),
        "near copies": found.near_copies,
        "train proximity": found.train_proximity,
    }


def days(paths: Array) -> Array:
    """The days of all paths: (n, days, N) -> (n·days, N)."""
    return paths.reshape(-1, paths.shape[-1])


def absolute_autocorrelation(paths: Array) -> float:
    """Mean autocorrelation of |r| over lags 1 to 10 and tickers, centered by the mean over all paths."""
    sizes = np.abs(paths) - np.abs(paths).mean((0, 1))
    variance = np.square(sizes).mean((0, 1))
    lags = [np.einsum("ptn,ptn->n", sizes[:, k:], sizes[:, :-k]) for k in range(1, LAGS + 1)]
    pairs = [len(paths) * (paths.shape[1] - k) for k in range(1, LAGS + 1)]
    return float(np.mean([each / n / variance for each, n in zip(lags, pairs, strict=True)]))


def leverage(paths: Array) -> Array:
    """corr(r_t, |r_{t+lag}|) of the portfolio for lags 1 to 10: (10,). A fall is followed by large moves."""
    r = paths.mean(2)
    size = np.abs(r) - np.abs(r).mean()
    r = r - r.mean()
    scale = np.sqrt(np.square(r).mean() * np.square(size).mean())
    return np.array([(r[:, :-k] * size[:, k:]).mean() / scale for k in range(1, LAGS + 1)])


def value_at_risk(rows: Array) -> float:
    """The 1 % quantile of the portfolio over days (n, N); median-unbiased, so that samples of any size compare."""
    return float(np.quantile(rows.mean(1), LEVEL, method="median_unbiased"))


def shortfall(rows: Array) -> float:
    """The mean of the portfolio over its worst 1 % of days (n, N)."""
    portfolio = np.sort(rows.mean(1))
    return float(portfolio[: max(1, round(LEVEL * len(portfolio)))].mean())


def correlation_gap(new: Array, old: Array) -> float:
    """Mean |difference| of the correlations between different tickers, of days (n, N) and (m, N)."""
    pairs = np.triu_indices(new.shape[1], 1)
    return float(np.abs(np.corrcoef(new.T)[pairs] - np.corrcoef(old.T)[pairs]).mean())
