"""A Gaussian process for each class: its mean, and its covariance shrunk to a stationary one.

    Σ = (1 − a) S + a R + ε I

S is the empirical covariance, R has the autocovariance of each channel at all times and no covariance of channels. The
likelihood of left-out signals chooses a.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve, toeplitz

from stochattn._backend.arrays import Array

SHARES, N_FOLDS, RIDGE = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0), 4, 1e-4


def draw(signals: Array, classes: Array, source: Array, rng: np.random.Generator) -> Array:
    """Draws of the processes of the classes of `source` (n,), fitted on signals (K, C, T): (n, C, T)."""
    new = np.empty((len(source), *signals.shape[1:]))
    for c in np.unique(classes):
        own, wanted = signals[classes == c], np.flatnonzero(classes[source] == c)
        mean, covariance = own.mean(0), shrunk(own, chosen_share(own))
        noise = np.linalg.cholesky(covariance) @ rng.standard_normal((len(covariance), len(wanted)))
        new[wanted] = mean + noise.T.reshape(-1, *mean.shape)
    return new


def shrunk(signals: Array, share: float) -> Array:
    """Σ of signals (k, C, T) of a class, features in the order of channels: (C·T, C·T)."""
    k, C, T = signals.shape
    away = signals - signals.mean(0)
    rows = away.reshape(k, -1)
    lags = np.array([[(away[:, c, : T - lag] * away[:, c, lag:]).sum() for lag in range(T)] for c in range(C)]) / (
        (k - 1) * T
    )
    stationary = block_diag(*(toeplitz(one) for one in lags))
    ridge = RIDGE * np.repeat(lags[:, 0], T) + np.finfo(float).tiny
    return np.asarray((1 - share) * rows.T @ rows / (k - 1) + share * stationary + np.diag(ridge))


def chosen_share(signals: Array) -> float:
    """The share a under which left-out signals (k, C, T) are likeliest."""
    scores = np.zeros(len(SHARES))
    for f in range(N_FOLDS):
        left_out = np.arange(len(signals)) % N_FOLDS == f
        used = signals[~left_out]
        if len(used) < 2 or not left_out.any():
            continue
        away = (signals[left_out] - used.mean(0)).reshape(left_out.sum(), -1)
        for i, share in enumerate(SHARES):
            factor = cho_factor(shrunk(used, share), lower=True)
            squares = (away.T * cho_solve(factor, away.T)).sum()
            scores[i] -= squares / 2 + len(away) * np.log(np.diag(factor[0])).sum()
    return SHARES[int(scores.argmax())]
