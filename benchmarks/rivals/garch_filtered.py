"""Filtered historical simulation (Barone-Adesi, Giannopoulos and Vosper 1999) with a GARCH(1,1) for each ticker.

variance_t = omega + alpha e²_{t−1} + beta variance_{t−1} is fitted by Gaussian quasi-likelihood. New paths take the
standardized residuals of whole stored days, so that tickers move together, and scale them by the simulated variances.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize
from scipy.signal import lfilter

from stochattn._backend.arrays import Array

from .stationary_bootstrap import PathSampler

MAX_PERSISTENCE = 0.999
BURN_IN = 250
"""Days simulated before the first day of a path, so that paths begin with a variance from the stationary law."""


def variances(residuals: Array, omega: float, alpha: float, beta: float) -> Array:
    """Conditional variances of residuals (blocks, days); each block begins at the variance of all days."""
    start = residuals.var()
    squares = np.concatenate([np.full((len(residuals), 1), start), residuals[:, :-1] ** 2], axis=1)
    state = np.full((len(residuals), 1), beta * start)
    return np.asarray(lfilter([1.0], [1.0, -beta], omega + alpha * squares, axis=1, zi=state)[0])


def fit_garch(residuals: Array) -> tuple[float, float, float]:
    """omega, alpha and beta of a series (blocks, days), by quasi maximum likelihood from several starts."""
    scale = residuals.var()

    def parameters(x: Array) -> tuple[float, float, float]:
        persistence, share = MAX_PERSISTENCE / (1 + math.exp(-x[1])), 1 / (1 + math.exp(-x[2]))
        return scale * math.exp(x[0]) * (1 - persistence), persistence * share, persistence * (1 - share)

    def loss(x: Array) -> float:
        v = np.maximum(variances(residuals, *parameters(x)), 1e-6 * scale)
        return float(np.mean(np.log(v) + residuals**2 / v))

    starts = [np.array([0.0, 3.0, -2.0]), np.array([0.0, 1.0, -1.0])]
    bounds = [(-3.0, 3.0), (-6.0, 7.0), (-7.0, 4.0)]
    found = min((minimize(loss, x, method="L-BFGS-B", bounds=bounds) for x in starts), key=lambda each: each.fun)
    return parameters(found.x)


def fit(stored: Array) -> PathSampler:
    """A sampler of filtered historical simulation on the stored blocks (blocks, days, N)."""
    mean = stored.mean((0, 1))
    residuals = stored - mean
    fitted = [fit_garch(residuals[:, :, i]) for i in range(stored.shape[2])]
    omega, alpha, beta = np.array(fitted).T
    v = np.stack([variances(residuals[:, :, i], *each) for i, each in enumerate(fitted)], axis=2)
    standard = (residuals / np.sqrt(v)).reshape(-1, stored.shape[2])

    def sample(n: int, days: int, rng: np.random.Generator) -> Array:
        variance = np.tile(residuals.var((0, 1)), (n, 1))
        paths = np.empty((n, days, len(mean)))
        for t, chosen in enumerate(rng.integers(len(standard), size=(BURN_IN + days, n))):
            shocks = standard[chosen] * np.sqrt(variance)
            if t >= BURN_IN:
                paths[:, t - BURN_IN] = mean + shocks
            variance = omega + alpha * shocks**2 + beta * variance
        return paths

    return sample
