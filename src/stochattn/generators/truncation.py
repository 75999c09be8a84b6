"""Normal laws between two ends, accurate however far out the ends lie, and mixtures of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._backend.arrays import Array
from ..core.mixture import pick

MIN_VARIANCE = 1e-12
"""Directions with less variance than this share of the largest have none: features that follow from others."""
MAX_ENTRIES = 2**22  # equivalent: only the size of the blocks changes
"""Entries of the matrices that are held at once."""


def log_mass(low: Array, high: Array) -> Array:
    """log P(low <= x <= high) of a standard normal x, for any low <= high."""
    from scipy.special import log_ndtr

    low, high, _ = _to_the_left(low, high)
    above, below = log_ndtr(high), log_ndtr(low)
    with np.errstate(divide="ignore", invalid="ignore"):  # far enough out, both are −inf
        return np.where(np.isneginf(above), -np.inf, above + np.log(-np.expm1(below - above)))


def truncated_normal(low: Array, high: Array, uniforms: Array) -> Array:
    """A standard normal variable given that it lies between low and high, by its quantiles at uniforms: (n,) each."""
    from scipy.special import log_ndtr, ndtri_exp

    left, right, mirrored = _to_the_left(low, high)
    with np.errstate(divide="ignore"):
        share = np.log(np.maximum(uniforms, 1e-300))
        quantile = np.logaddexp(log_ndtr(left), share + log_mass(left, right))
    x = np.clip(ndtri_exp(np.minimum(quantile, 0.0)), left, right)
    return np.where(mirrored, -x, x)


def _to_the_left(low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Intervals, mirrored where they lie to the right of zero: in the left tail log Φ has all its digits."""
    mirrored = low > -high
    return np.where(mirrored, -high, low), np.where(mirrored, -low, high), mirrored


@dataclass(frozen=True, eq=False)
class TruncatedMixture:
    """Σ_k w_k N(means_k, covariances_k) of r features, given that feature j lies between low and high."""

    means: Array  # (K, r)
    roots: Array  # (K, r, r) or (1, r, r), of covariances that may be singular
    slopes: Array  # (K, r) or (1, r): how much each feature follows feature j
    deviations: Array  # (K,) or (1,) of feature j
    log_weights: Array  # (K,) log w_k P(low <= y_j <= high | k), which add up to the mass of the interval
    j: int
    low: float
    high: float

    @classmethod
    def of(cls, means: Array, covariances: Array, log_weights: Array, low: Array, high: Array) -> TruncatedMixture:
        """The mixture given one of the intervals low to high (r,), the one that holds the least of it."""
        scale = float(np.abs(covariances).max())
        variances = np.maximum(np.diagonal(covariances, axis1=1, axis2=2), MIN_VARIANCE**1.5 * scale)
        deviations = np.sqrt(variances)
        joint = log_weights[:, None] + log_mass((low - means) / deviations, (high - means) / deviations)
        j = int(np.argmin(np.logaddexp.reduce(joint, axis=0)))
        slopes = np.where(variances[:, [j]] > MIN_VARIANCE * scale, covariances[:, :, j] / variances[:, [j]], 0.0)
        powers, directions = np.linalg.eigh(covariances)
        roots = directions * np.sqrt(np.where(powers > MIN_VARIANCE * scale, powers, 0.0))[:, None, :]
        return cls(means, roots, slopes, deviations[:, j], joint[:, j], j, float(low[j]), float(high[j]))

    @property
    def log_probability(self) -> float:
        """log P(low <= y_j <= high)."""
        return float(np.logaddexp.reduce(self.log_weights))

    @property
    def shares(self) -> Array:
        """How often each kernel is drawn from: (K,)."""
        return np.exp(self.log_weights - self.log_probability)

    def draw(self, uniforms: Array, noise: Array) -> tuple[Array, Array]:
        """Kernels (n,) and features (n, r), made of uniforms (n, 2) and standard normal noise (n, r)."""
        k = pick(np.cumsum(self.shares), uniforms[:, 0])
        y, size = np.empty_like(noise), max(MAX_ENTRIES // noise.shape[1] ** 2, 1)  # equivalent: size of blocks
        for start in range(0, len(k), size):
            part = slice(start, start + size)
            y[part] = self._features(k[part], uniforms[part, 1], noise[part])
        return k, y

    def _features(self, k: Array, uniforms: Array, noise: Array) -> Array:
        own = k if len(self.roots) > 1 else np.zeros_like(k)
        mean, deviation = self.means[k, self.j], self.deviations[own]
        low, high = ((end - mean) / deviation for end in (self.low, self.high))
        at = np.clip(mean + deviation * truncated_normal(low, high, uniforms), self.low, self.high)
        # A draw without the interval, moved to that value of feature j: the others follow as they do in the kernel.
        pooled = len(self.roots) == 1
        y = np.einsum("ij,nj->ni", self.roots[0], noise) if pooled else np.einsum("nij,nj->ni", self.roots[k], noise)
        y += self.means[k]
        y += self.slopes[own] * (at - y[:, self.j])[:, None]
        y[:, self.j] = at
        return y
