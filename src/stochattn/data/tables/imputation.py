"""Missing features, filled with their conditional means under a Gaussian."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..._backend.arrays import Array

N_ROUNDS = 5
"""Rounds of filling missing features and fitting the Gaussian that fills them."""


@dataclass(frozen=True, eq=False)
class Filling:
    """A Gaussian N(mean, share · XᵀX/K + ridge · I) over features; X are the filled stored features (K, p), centred."""

    mean: Array
    filled: Array
    centred: Array
    share: float
    ridge: float

    @classmethod
    def fit(cls, features: Array) -> Filling:
        """The Gaussian of features (K, p) with NaN for missing ones."""
        missing = np.isnan(features)
        means = np.where(missing, 0.0, features).sum(0) / np.maximum((~missing).sum(0), 1)
        gaussian = cls._of(np.where(missing, means, features))
        for _ in range(N_ROUNDS if missing.any() else 0):
            gaussian = cls._of(gaussian.fill(features))
        return gaussian

    @classmethod
    def _of(cls, filled: Array) -> Filling:
        mean = filled.mean(0)
        centred = filled - mean
        shrinkage, level = _shrinkage(centred), float(np.square(centred).mean())
        return cls(mean, filled, centred, 1 - shrinkage, max(shrinkage, 1e-6) * level)

    def fill(self, features: Array) -> Array:
        """Features (n, p) with each NaN replaced by its mean given the other features of the row."""
        missing = np.isnan(features)
        filled = features.copy()
        patterns, which = np.unique(np.packbits(missing, axis=1), axis=0, return_inverse=True)
        for pattern in range(len(patterns)):
            rows = np.flatnonzero(which.ravel() == pattern)
            gone = missing[rows[0]]
            if gone.any():
                known = features[np.ix_(rows, ~gone)] - self.mean[~gone]
                filled[np.ix_(rows, gone)] = self.mean[gone] + self._expected(known, gone)
        return filled

    def _expected(self, known: Array, gone: Array) -> Array:
        """Mean of the features `gone` given the others (n, p − m), both centred: (n, m)."""
        here, there = self.centred[:, ~gone], self.centred[:, gone]
        weight = self.share / len(self.centred)
        if here.shape[1] <= len(here):  # equivalent: both ways solve the same equations
            inner = weight * here.T @ here + self.ridge * np.eye(here.shape[1])
            return np.asarray(weight * np.linalg.solve(inner, known.T).T @ here.T @ there)
        # (aXᵀX + bI)⁻¹Xᵀ = Xᵀ(aXXᵀ + bI)⁻¹: with more features than rows, the matrix of rows is the smaller one. It is
        # the one of all features less the part of the missing ones, which are few: all patterns share the former.
        few = 2 * there.shape[1] < here.shape[1]
        products = self._products - there @ there.T if few else here @ here.T
        inner = weight * products + self.ridge * np.eye(len(here))
        return np.asarray(weight * np.linalg.solve(inner, here @ known.T).T @ there)

    @cached_property
    def _products(self) -> Array:
        """Products of the centred rows: (K, K)."""
        return np.asarray(self.centred @ self.centred.T)


def _shrinkage(centred: Array) -> float:
    """Ledoit and Wolf's shrinkage of the covariance of centred rows (K, p), at a cost of K p min(K, p)."""
    K, p = centred.shape
    # Scikit-learn's function works with (p, p) always; the norm it needs is that of the (K, K) products as well.
    products = centred @ centred.T if p > K else centred.T @ centred  # equivalent: both have the same norm
    level = float(np.square(centred).sum()) / (K * p)
    square = float(np.square(products).sum()) / K**2
    distance = (square - p * level**2) / p
    error = (float(np.square(np.square(centred).sum(1)).sum()) / K - square) / (p * K)
    return min(error, distance) / distance if distance > 0 and error > 0 else 0.0
