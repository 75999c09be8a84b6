"""The stationary bootstrap (Politis and Romano 1994): runs of stored days with geometric lengths.

The mean length follows the rule of Politis and White (2004), as corrected by Patton, Politis and White (2009). It is
applied to the absolute returns of each ticker, whose autocorrelation the bootstrap is meant to preserve, and averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from stochattn._backend.arrays import Array

PathSampler = Callable[[int, int, np.random.Generator], Array]
"""(n, days, rng) -> n paths (n, days, N)."""


def mean_length(series: Array) -> float:
    """The mean run length that minimizes the error of the variance of the mean; runs of one series: (runs, days)."""
    centered = series - series.mean()
    n = series.size
    bandwidth = math.ceil(math.sqrt(n)) + max(5, math.ceil(math.log10(n)))
    covariance = np.array([np.sum(centered[:, k:] * centered[:, : series.shape[1] - k]) / n for k in range(bandwidth)])
    quiet, limit = max(5, math.ceil(math.log10(n))), 2 * math.sqrt(math.log10(n) / n)
    small = np.abs(covariance / covariance[0]) < limit
    first = next((k for k in range(1, bandwidth - quiet) if small[k : k + quiet].all()), bandwidth - quiet)
    lags = np.arange(-min(2 * max(first - 1, 1), bandwidth - 1), min(2 * max(first - 1, 1), bandwidth - 1) + 1)
    taper = np.clip(2 * (1 - np.abs(lags) / lags[-1]), 0, 1)  # a flat-top kernel
    terms = taper * covariance[np.abs(lags)]
    spread, slope = terms.sum(), (np.abs(lags) * terms).sum()
    return float(np.clip((slope**2 / spread**2 * n) ** (1 / 3), 1, min(3 * math.sqrt(n), n / 3)))


def fit(stored: Array) -> PathSampler:
    """A sampler of runs of the stored blocks (blocks, days, N); each block is circular."""
    sizes = np.abs(stored)
    length = float(np.mean([mean_length(sizes[:, :, i]) for i in range(stored.shape[2])]))

    def sample(n: int, days: int, rng: np.random.Generator) -> Array:
        begins = rng.random((n, days)) < 1 / length
        begins[:, 0] = True
        block, first = rng.integers(len(stored), size=(n, days)), rng.integers(stored.shape[1], size=(n, days))
        last = np.maximum.accumulate(np.where(begins, np.arange(days), 0), axis=1)  # where each day's run begins
        row = np.arange(n)[:, None]
        return np.asarray(stored[block[row, last], (first[row, last] + np.arange(days) - last) % stored.shape[1]])

    return sample
