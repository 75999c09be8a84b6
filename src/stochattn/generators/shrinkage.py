"""Covariances shrunk towards the identity: by likelihood where rows are many, by Ledoit and Wolf's rule elsewhere."""

from __future__ import annotations

import math

import numpy as np

from .._backend.arrays import Array

FLOOR = 1e-6
"""Share of the mean variance that every direction has at least: constant columns stay nearly constant."""
SHRINKAGE = (0.0, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Shares of the identity that likelihood chooses from."""
MIN_ROWS_PER_FEATURE = 5
"""Rows per feature from which on likelihood chooses: with fewer, one Gaussian says little about kernels."""


def shrunk_covariance(spread: Array, w: Array) -> tuple[Array, float]:
    """The covariance (1 − λ) S + λ tr(S)/d I of centred rows (k, d) that weigh w (k,), and its shrinkage λ.

    Ledoit and Wolf's λ has the least square error, and where columns nearly determine each other, it adds more noise
    across their ties than there is along them. Likelihood keeps these ties.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    n, d = spread.shape
    if n == 1:
        return np.zeros((d, d)), 0.0
    rows = spread * np.sqrt(n * w)[:, None]  # weighted rows as so many rows of unit weight
    covariance = rows.T @ rows / n
    if n >= MIN_ROWS_PER_FEATURE * d:
        shrinkage = likeliest_shrinkage(rows)
    else:
        shrinkage = float(ledoit_wolf_shrinkage(rows, assume_centered=True))
    return (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / d * np.eye(d), shrinkage


def likeliest_shrinkage(rows: Array) -> float:
    """The λ of SHRINKAGE under which centred rows (n, d), each left out in turn, are likeliest under one Gaussian.

    With G = (1 − λ) n/(n−1) S + λ tr(S)/d I and r = xᵀ G⁻¹ x, the Gaussian without row x has the covariance G − β x xᵀ,
    β = (1 − λ)/(n − 1), and 2 log p(x) = −log |G| − log(1 − β r) − r/(1 − β r) + constant (Hoffbeck and Landgrebe,
    1996).
    """
    n = len(rows)
    powers, directions = np.linalg.eigh(rows.T @ rows / n)
    powers, level = np.maximum(powers, 0.0), max(float(powers.mean()), 1e-300)
    squares, best, most = np.square(rows @ directions), SHRINKAGE[-1], -math.inf
    for shrinkage in SHRINKAGE:
        variances = (1 - shrinkage) * n / (n - 1) * powers + (shrinkage + FLOOR) * level
        lengths = squares @ (1 / variances)
        room = np.maximum(1 - (1 - shrinkage) / (n - 1) * lengths, 1e-12)
        likelihood = -n * float(np.log(variances).sum()) - float((np.log(room) + lengths / room).sum())
        if likelihood > most:
            best, most = shrinkage, likelihood
    return best
