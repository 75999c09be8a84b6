"""Gaussian copula with empirical marginals, as the synthesizer of that name in SDV.

Amounts become normal scores of their ranks; a category becomes a random point in its interval of [0, 1], whose width is
its share, intervals in order of frequency. New scores are normal with the correlation of the stored ones.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from benchmarks.rivals.frames import is_category, rounded


def draw(stored: pd.DataFrame, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """n new rows."""
    K, names = len(stored), list(stored)
    shares = {name: stored[name].value_counts() / K for name in names if is_category(stored[name])}
    scores = np.column_stack([_scores(stored[name], shares.get(name), rng) for name in names])
    scores /= np.maximum(scores.std(0), 1e-9)  # constant columns have no correlation
    correlation = np.atleast_2d(np.cov(scores, rowvar=False, ddof=0)) + 1e-9 * np.eye(len(names))
    u = ndtr(rng.multivariate_normal(np.zeros(len(names)), correlation, n, method="eigh"))
    columns = {name: _cells(stored[name], shares.get(name), u[:, j]) for j, name in enumerate(names)}
    return pd.DataFrame(columns).astype(stored.dtypes.to_dict())


def _scores(column: pd.Series, shares: pd.Series | None, rng: np.random.Generator) -> np.ndarray:
    if shares is None:
        return ndtri((column.rank().to_numpy() - 0.5) / len(column))
    ends = dict(zip(shares.index, np.cumsum(shares.to_numpy()), strict=True))
    high = np.array([ends[cell] for cell in column])
    width = np.array([shares[cell] for cell in column])
    return ndtri(np.clip(high - width * rng.random(len(column)), 1e-6, 1 - 1e-6))


def _cells(column: pd.Series, shares: pd.Series | None, u: np.ndarray) -> np.ndarray:
    if shares is None:
        return rounded(np.quantile(column.to_numpy(dtype=float), u), column)
    place = np.searchsorted(np.cumsum(shares.to_numpy()), u)
    return shares.index.to_numpy()[np.minimum(place, len(shares) - 1)]
