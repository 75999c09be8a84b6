"""Gaussian mixtures with a kernel of its own size around each memory, and what is known exactly about them.

p_beta is one of them: every kernel round and of variance 1/beta. A codec that puts the memories' lengths back makes
another, whose kernel k is as much larger as memory k is. Sampling, density and linear observations stay closed-form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._backend.arrays import Array, to_numpy
from .energy import mixture_log_weights
from .memory import MemoryBank

IMPOSSIBLE = 1e-6
"""What an observation may miss, relative to its size, before it counts as impossible rather than as rounding."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Σ_k w_k N(means_k, diag(scales_k²)), given that A x = y where an observation was made.

    means:       (K, d)
    scales:      (K, 1) for round kernels, or (K, d); standard deviations
    log_weights: (K,), normalised
    observed:    (r, d) orthonormal rows and values (r,), or None: what `given` has fixed
    """

    means: Array
    scales: Array
    log_weights: Array
    observed: tuple[Array, Array] | None = None

    @classmethod
    def of(cls, bank: MemoryBank, beta: float, factors: Any = 1.0) -> Mixture:
        """p_beta of a bank; with factors (K, 1) or (K, d), the law of factor_k · xi for xi drawn around memory k."""
        patterns, beta = to_numpy(bank.patterns).astype(np.float64), bank.at(beta)
        factors = np.asarray(factors, dtype=np.float64)
        factors = np.broadcast_to(factors, (bank.K, factors.shape[-1] if factors.ndim else 1))
        log_weights = to_numpy(mixture_log_weights(bank, beta)).astype(np.float64)
        return cls(patterns * factors, np.abs(factors) / math.sqrt(beta), log_weights)

    @property
    def d(self) -> int:
        """Dimension."""
        return int(self.means.shape[1])

    @property
    def round(self) -> bool:
        """Whether every kernel has one size in all directions."""
        return bool(self.scales.shape[1] == 1)

    def given(self, A: Any, y: Any) -> Mixture:
        """The law of x given that A x = y, exactly: kernels that explain y better weigh more, and all of them obey it.

        A: (r, d); y: (r,). Rows may repeat or follow from each other, as long as they agree.
        """
        if self.observed is not None:
            raise ValueError("this mixture is conditioned already: pass all observations at once.")
        rows, values = equations(A, y)
        gap = values - self.means @ rows.T  # (K, r)
        if self.round:
            fit = np.square(gap / self.scales).sum(1)
            log_det = 2 * len(rows) * np.log(self.scales[:, 0])
        else:
            spread = self._spread(rows)
            _, log_det = np.linalg.slogdet(spread)
            fit = np.einsum("kr,kr->k", gap, np.linalg.solve(spread, gap[..., None])[..., 0])
        log_weights = self.log_weights - (fit + log_det) / 2
        log_weights = log_weights - np.logaddexp.reduce(log_weights)
        return Mixture(self.means, self.scales, log_weights, (rows, values))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n independent draws (n, d), and the memory each was drawn around (n,). The first m of n are the m draws."""
        which, noise = rng.spawn(2)
        k = pick(np.cumsum(np.exp(self.log_weights)), which.random(n))
        x = noise.standard_normal((n, self.d))
        x *= self.scales[k]
        x += self.means[k]
        if self.observed is not None:
            # A draw, moved onto the observation along its kernel's own directions, is a draw from the conditional law.
            rows, values = self.observed
            gap = values - x @ rows.T
            if self.round:
                x += gap @ rows
            else:
                spread = self._spread(rows)
                for j in np.unique(k):  # one small matrix a memory: no (n, r, r) array
                    pull = np.linalg.solve(spread[j], gap[k == j].T).T
                    x[k == j] += self.scales[j] ** 2 * (pull @ rows)
        return x, k

    def log_density(self, x: Any) -> Array:
        """log density of each row of x, of a mixture without an observation; (n, d) -> (n,)."""
        if self.observed is not None:
            raise ValueError("a conditioned mixture lives on a subspace and has no density over all coordinates.")
        x = np.atleast_2d(np.asarray(x, dtype=np.float64))
        scales = np.broadcast_to(self.scales, self.means.shape)
        volume = np.log(scales).sum(1) + self.d / 2 * math.log(2 * math.pi)
        kernels = [-(((row - self.means) / scales) ** 2).sum(1) / 2 - volume for row in x]
        return np.logaddexp.reduce(np.array(kernels) + self.log_weights, axis=1)

    def _spread(self, rows: Array) -> Array:
        """Covariance of the observed combinations under each kernel: (K, r, r)."""
        return np.einsum("rd,kd,sd->krs", rows, self.scales**2, rows, optimize=True)


def equations(A: Any, y: Any) -> tuple[Array, Array]:
    """A x = y as equations with orthonormal rows (r, d) and values (r,), without those that follow from others."""
    A, y = np.asarray(A, dtype=np.float64), np.asarray(y, dtype=np.float64)
    left, sizes, right = np.linalg.svd(A, full_matrices=False)
    solid = sizes > sizes.max(initial=0.0) * 1e-9
    inside = left[:, solid].T @ y
    missed = float(np.linalg.norm(y - left[:, solid] @ inside))
    if missed > IMPOSSIBLE * max(1.0, float(np.linalg.norm(y))):
        raise ValueError(f"the observation cannot be met by any state: it is missed by {missed:.3g} at best.")
    return right[solid], inside / sizes[solid]


def cumulative_weights(bank: MemoryBank, beta: float) -> Any:
    """Cumulative sums of the mixture's weights: (K,)."""
    return np.cumsum(np.exp(to_numpy(mixture_log_weights(bank, beta)).astype(np.float64)))


def pick(cumulative: Any, uniforms: Any) -> Array:
    """Memories drawn by inverting the distribution function `cumulative` at `uniforms`: (n,)."""
    # Scaling by the last entry keeps a uniform near 1 off memories of weight zero at the end.
    return np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")


def perplexity(log_weights: Any) -> float:
    """How many equal weights have the entropy of these, exp(−Σ p log p); log_weights (K,), normalised.

    >>> round(perplexity(np.log([0.5, 0.5, 1e-300])), 6)
    2.0
    """
    log_p = np.asarray(log_weights, dtype=np.float64)
    p = np.exp(log_p)
    return math.exp(-float((p[p > 0] * log_p[p > 0]).sum()))
