"""A multivariate t, fitted by maximum likelihood; days are independent (Liu and Rubin 1995, the ECME algorithm)."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma

from stochattn._backend.arrays import Array

from .stationary_bootstrap import PathSampler

MAX_STEPS, TOLERANCE = 500, 1e-6
MIN_NU, MAX_NU = 1.0, 200.0


def maximum_likelihood(rows: Array) -> tuple[Array, Array, float]:
    """Location (N,), scale matrix (N, N) and degrees of freedom of the t law that fits rows (T, N) best."""
    T, N = rows.shape
    centre, scatter, nu = rows.mean(0), np.cov(rows.T).reshape(N, N), 6.0
    for _ in range(MAX_STEPS):
        centered = rows - centre
        distance = np.einsum("ti,ti->t", centered, np.linalg.solve(scatter, centered.T).T)
        new = _degrees_of_freedom(distance, N)
        weights = (new + N) / (new + distance)
        centre = weights @ rows / weights.sum()
        centered = rows - centre
        scatter = (centered * weights[:, None]).T @ centered / T
        if abs(new - nu) < TOLERANCE * nu:
            break
        nu = new
    return centre, scatter, new


def _degrees_of_freedom(distance: Array, N: int) -> float:
    """The nu that maximizes the likelihood of squared Mahalanobis distances (T,) in N dimensions."""

    def slope(nu: float) -> float:
        w = (nu + N) / (nu + distance)
        part = digamma((nu + N) / 2) - digamma(nu / 2) + np.log(nu / 2) - np.log((nu + N) / 2)
        return float(part + 1 + np.mean(np.log(w) - w))

    if slope(MAX_NU) > 0:
        return MAX_NU
    return MIN_NU if slope(MIN_NU) < 0 else float(brentq(slope, MIN_NU, MAX_NU))


def fit(stored: Array) -> PathSampler:
    """A sampler of independent days of the t law of the stored blocks (blocks, days, N)."""
    centre, scatter, nu = maximum_likelihood(stored.reshape(-1, stored.shape[2]))
    root = np.linalg.cholesky(scatter)

    def sample(n: int, days: int, rng: np.random.Generator) -> Array:
        normal = rng.standard_normal((n * days, len(root))) @ root.T
        return (centre + normal * np.sqrt(nu / rng.chisquare(nu, n * days))[:, None]).reshape(n, days, -1)

    return sample
