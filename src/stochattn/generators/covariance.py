"""Covariance kernels around the memories: noise that follows the data's own directions, everywhere or near each memory.

p_beta puts a round kernel of variance 1/beta around each memory. Here the nearest memories of memory k (itself among
them) have the mean c_k and the covariance C_k, which make its kernel

    N(c_k + sqrt(1 - s) (m_k - c_k),  s Sigma_k),      Sigma_k = (1 - b) C_k + b C,      C the mean of all C_k, shrunk:

the share s of a neighbourhood's variance is noise, and the rest comes from where the memory lies in it, so that the
variance is kept. With s near 0 the memories come back; with s = 1 and all memories as neighbours, it is one Gaussian.
Memories in dense regions appear in more neighbourhoods than others: a scale for each column restores the variance that
memories have. The law stays a Gaussian mixture: draws, normalised density and linear conditions are exact. s, b and the
number of neighbours are chosen by likelihood (`choose_width`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._backend.arrays import Array, ArrayLike, floats, to_numpy
from .._backend.checks import count, one_of
from ..core.memory import MemoryBank, as_bank
from ..core.mixture import equations, pick
from .neighborhoods import SHAPES, Moments, Width, choose_width, log_kernels, mixture_log_density


@dataclass(frozen=True, eq=False)
class CovarianceKernels:
    """Σ_k w_k N(m_k, L_k L_kᵀ), given that A x = y where it is conditioned.

    means (K, d), roots L (K, d, d) or one for all (1, d, d), log_weights (K,), observed A (r, d) and y (r,) or None
    """

    means: Array
    roots: Array
    log_weights: Array
    width: Width
    observed: tuple[Array, Array] | None = None

    @classmethod
    def fit(
        cls,
        memories: ArrayLike | MemoryBank,
        *,
        shape: str = "local",
        width: Width | None = None,
        folds: int = 5,
        rng: int = 0,
    ) -> CovarianceKernels:
        """Kernels around memories (K, d), or the active ones of a bank; its multiplicities weigh kernels and moments.

        shape: where the width is chosen, "local" means and covariances near each memory, or "pooled": those of all
        """
        one_of("shape", shape, SHAPES)
        bank: MemoryBank = as_bank(memories).active
        rows = to_numpy(bank.patterns).astype(np.float64)
        if width is None:
            width = choose_width(rows, shape=shape, folds=folds, rng=rng)
        log_r = to_numpy(bank.log_r).astype(np.float64)
        log_weights = log_r - np.logaddexp.reduce(log_r)
        moments = Moments.of(rows, width.checked().neighbours, np.exp(log_weights))
        return cls(*moments.kernels(rows, width), log_weights, width)

    @property
    def d(self) -> int:
        """Dimension."""
        return int(self.means.shape[1])

    def log_density(self, x: ArrayLike) -> Array:
        """log density of rows, normalised; (n, d) -> (n,). Of kernels without a condition."""
        if self.observed is not None:
            raise ValueError("conditioned kernels live on a subspace and have no density over all coordinates.")
        x = np.atleast_2d(to_numpy(floats(x, "x")).astype(np.float64))
        if x.shape[1] != self.d:
            raise ValueError(f"x must have d={self.d} columns; got {x.shape[1]}.")
        return mixture_log_density(x, self.means, self.roots, self.log_weights)

    def log_density_of(self, A: ArrayLike, y: ArrayLike) -> Array:
        """log density of A x at values y; A (r, d), (n, r) -> (n,)."""
        rows = np.atleast_2d(np.asarray(A, dtype=np.float64))
        return mixture_log_density(np.atleast_2d(y), self.means @ rows.T, self._roots_of(rows), self.log_weights)

    def _roots_of(self, rows: Array) -> Array:
        """Roots of the covariances of A x: (K, r, r) or (1, r, r)."""
        halves = rows @ self.roots
        return np.linalg.cholesky(halves @ halves.transpose(0, 2, 1))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n independent draws (n, d), and the memory each was drawn around (n,). The first m of n are the m draws."""
        which, noise = rng.spawn(2)
        k = pick(np.cumsum(np.exp(self.log_weights)), which.random(count("n", n)))
        x = noise.standard_normal((n, self.d))
        shared = len(self.roots) == 1
        for j in [0] if shared else np.unique(k):  # one matrix per memory: no (n, d, d) array
            own, root = np.arange(n) if shared else np.flatnonzero(k == j), self.roots[j]
            # einsum, not BLAS, whose last bits depend on how many rows there are
            x[own] = np.einsum("ij,nj->ni", root, x[own]) + self.means[k[own]]
            if self.observed is not None:
                rows, values = self.observed
                half = rows @ root
                gain = np.linalg.solve(half @ half.T, half @ root.T)
                x[own] += np.einsum("nr,rd->nd", values - np.einsum("nd,rd->nr", x[own], rows), gain)
        return x, k

    def condition(self, A: ArrayLike, y: ArrayLike) -> CovarianceKernels:
        """The law of x given that A x = y, exactly; A (r, d), y (r,)."""
        if self.observed is not None:
            raise ValueError("these kernels are conditioned already: pass all conditions at once.")
        rows, values = equations(A, y)
        fit = log_kernels(values[None], self.means @ rows.T, self._roots_of(rows))[0]
        log_weights = self.log_weights + fit
        return replace(self, log_weights=log_weights - np.logaddexp.reduce(log_weights), observed=(rows, values))

    def __repr__(self) -> str:
        return f"CovarianceKernels(K={len(self.means)}, d={self.d}: {self.width})"
