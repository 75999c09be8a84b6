"""Gaussian mixtures with one kernel per memory, and their exact samples and conditional distributions.

p_beta is one of them, with isotropic kernels of variance 1/beta. An embedding that restores the lengths of the memories
makes another, whose kernel k is scaled as memory k is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from .._backend.arrays import ArrayLike, NumpyArray, to_numpy
from .energy import mixture_log_weights
from .memory import MemoryBank

MAX_RESIDUAL = 1e-6  # of an observation, relative to its size; a larger one is more than rounding


@dataclass(frozen=True, eq=False)
class Mixture:
    """Σ_k w_k N(means_k, diag(scales_k²)), conditioned on A x = y if there is an observation."""

    means: NumpyArray  # (K, d)
    scales: NumpyArray  # standard deviations, (K, 1) for isotropic kernels, or (K, d)
    log_weights: NumpyArray  # (K,), normalized
    observed: tuple[NumpyArray, NumpyArray] | None = None  # orthonormal rows (r, d) and values (r,)

    @classmethod
    def of(cls, bank: MemoryBank, beta: float, factors: ArrayLike = 1.0) -> Mixture:
        """p_beta of a bank; with factors (K, 1) or (K, d), that of factor_k · xi for draws xi around m_k."""
        patterns, log_weights = (to_numpy(x).astype(float) for x in (bank.patterns, mixture_log_weights(bank, beta)))
        scaling = np.atleast_1d(np.asarray(factors, dtype=np.float64))
        scaling = np.broadcast_to(scaling, (bank.K, scaling.shape[-1]))
        return cls(patterns * scaling, np.abs(scaling) / math.sqrt(beta), log_weights)

    def condition(self, A: ArrayLike, y: ArrayLike) -> Mixture:
        """The exact distribution of x given A x = y: kernels that explain y weigh more, and all draws satisfy A x = y.

        A: (r, d); y: (r,). Equations may repeat or follow from each other, as long as they agree.
        """
        if self.observed is not None:
            raise ValueError("this mixture is already conditioned. Pass all observations at once.")
        rows, values = equations(A, y)
        gap = values - self.means @ rows.T  # (K, r)
        if self.scales.shape[1] == 1:
            fit, log_det = np.square(gap / self.scales).sum(1), 2 * len(rows) * np.log(self.scales[:, 0])
        else:
            spread = self._spread(rows)
            _, log_det = np.linalg.slogdet(spread)
            fit = np.einsum("kr,kr->k", gap, np.linalg.solve(spread, gap[..., None])[..., 0])
        log_weights = self.log_weights - (fit + log_det) / 2
        return replace(self, log_weights=log_weights - np.logaddexp.reduce(log_weights), observed=(rows, values))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[NumpyArray, NumpyArray]:
        """n independent draws (n, d), and the memory of each (n,). The first m of n draws are those of `sample(m)`."""
        which, noise = rng.spawn(2)
        k = pick(np.cumsum(np.exp(self.log_weights)), which.random(n))
        return self.around(k, noise, self.observed), k

    def moments(self, rows: NumpyArray) -> tuple[NumpyArray, NumpyArray]:
        """Means (K, r) and covariances, (K, r, r) or (1, r, r), of rows (r, d) times x, whatever was observed."""
        alike = bool((self.scales == self.scales[0]).all())
        return self.means @ rows.T, (replace(self, scales=self.scales[:1]) if alike else self)._spread(rows)

    def around(
        self, k: NumpyArray, rng: np.random.Generator, observed: tuple[NumpyArray, NumpyArray] | None
    ) -> NumpyArray:
        """A draw around each memory k (n,), given values, (r,) or (n, r), of orthonormal rows (r, d): (n, d)."""
        x = rng.standard_normal((len(k), self.means.shape[1]))
        x *= self.scales[k]
        x += self.means[k]
        if observed is not None:
            # A draw, projected onto the observation by its kernel's covariance, is a draw given the observation.
            rows, values = observed
            gap = values - x @ rows.T
            if self.scales.shape[1] == 1:
                x += gap @ rows
            else:
                spread = self._spread(rows)
                for j in np.unique(k):  # one small matrix per memory: no (n, r, r) array
                    x[k == j] += self.scales[j] ** 2 * (np.linalg.solve(spread[j], gap[k == j].T).T @ rows)
        return x

    def _spread(self, rows: NumpyArray) -> NumpyArray:
        """Covariance of the observed combinations under each kernel: (K, r, r)."""
        return np.asarray(np.einsum("rd,kd,sd->krs", rows, self.scales**2, rows, optimize=True))


def equations(A: ArrayLike, y: ArrayLike) -> tuple[NumpyArray, NumpyArray]:
    """A x = y as equations with orthonormal rows (r, d) and values (r,), without equations that follow from others."""
    matrix, values = np.asarray(A, dtype=np.float64), np.asarray(y, dtype=np.float64)
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    independent = singular > singular.max(initial=0.0) * 1e-9
    inside = left[:, independent].T @ values
    residual = float(np.linalg.norm(values - left[:, independent] @ inside))
    if residual > MAX_RESIDUAL * max(1.0, float(np.linalg.norm(values))):
        raise ValueError(f"no state satisfies the observation: the smallest residual is {residual:.3g}.")
    return right[independent], inside / singular[independent]


def independent_rows(A: NumpyArray) -> tuple[NumpyArray, NumpyArray]:
    """Orthonormal rows (c, d) of the span of A (r, d), and the matrix (r, c) that turns values of A x into theirs."""
    left, singular, right = np.linalg.svd(A, full_matrices=False)
    independent = singular > singular.max(initial=0.0) * 1e-9
    return right[independent], left[:, independent] / singular[independent]


def cumulative_weights(bank: MemoryBank, beta: float) -> NumpyArray:
    """Cumulative sums of the weights of the mixture: (K,)."""
    return np.cumsum(np.exp(to_numpy(mixture_log_weights(bank, beta)).astype(np.float64)))


def pick(cumulative: NumpyArray, uniforms: NumpyArray) -> NumpyArray:
    """Indices of memories, the inverse of the distribution function `cumulative` at `uniforms`: (n,)."""
    # Scaled by the last entry, so that a uniform near 1 never picks a memory with weight zero at the end.
    return np.asarray(np.searchsorted(cumulative, uniforms * cumulative[-1], side="right"))


def pick_stratified(log_weights: NumpyArray, n: int, rng: np.random.Generator) -> NumpyArray:
    """Kernels (n,) of weights (K,), chosen in rounds of K: the first m of n are those of a call for m.

    A round has one uniform number in each of K intervals of length 1/K, in random order: with equal weights it chooses
    each kernel once, while K independent choices would leave out a third of the kernels. Each draw alone has the
    distribution of the mixture.
    """
    orders, inside = rng.spawn(2)
    K = len(log_weights)
    places = np.array([orders.permutation(K) for _ in range(math.ceil(n / K))]).ravel()
    u = (places[:n] + inside.random(n)) / K
    return pick(np.cumsum(np.exp(log_weights)), u)


def perplexity(log_weights: ArrayLike) -> float:
    """The number of equal weights that have the same entropy, exp(−Σ p log p); log_weights (K,), normalized.

    >>> round(perplexity(np.log([0.5, 0.5, 1e-300])), 6)
    2.0
    """
    log_p = np.asarray(log_weights, dtype=np.float64)
    p = np.exp(log_p)
    return math.exp(-float((p[p > 0] * log_p[p > 0]).sum()))
