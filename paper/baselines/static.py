"""Baselines without gradient training: replay, noise, convex combinations, and a mixture on principal components."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np

import stochattn as sa

Array = Any


class Baseline(Protocol):
    """A method that generates rows."""

    def sample(self, n: int, rng: int) -> Array:
        """n samples (n, d), determined by the seed."""


class Replay:
    """Stored patterns, drawn with replacement ("bootstrap" in the paper)."""

    def __init__(self, bank: sa.MemoryBank) -> None:
        self.patterns = bank.patterns

    def sample(self, n: int, rng: int) -> Array:
        """n stored patterns."""
        return self.patterns[np.random.default_rng(rng).integers(len(self.patterns), size=n)]


class GaussianPerturbation:
    """Stored patterns plus white noise; the paper uses the sigma of one Langevin step, √(2 alpha/beta)."""

    def __init__(self, bank: sa.MemoryBank, sigma: float) -> None:
        self.patterns, self.sigma = bank.patterns, sigma

    def sample(self, n: int, rng: int) -> Array:
        """n perturbed patterns, not normalised."""
        generator = np.random.default_rng(rng)
        rows = self.patterns[generator.integers(len(self.patterns), size=n)]
        return rows + self.sigma * generator.standard_normal(rows.shape)


class ConvexCombination:
    """Convex combinations of all stored patterns with Dirichlet(1, …, 1) weights."""

    def __init__(self, bank: sa.MemoryBank) -> None:
        self.patterns = bank.patterns

    def sample(self, n: int, rng: int) -> Array:
        """n combinations, not normalised."""
        return np.random.default_rng(rng).dirichlet(np.ones(len(self.patterns)), size=n) @ self.patterns


class MixtureOnPCA:
    """A Gaussian mixture with diagonal covariances on the centred principal components.

    EM starts from k-means++ seeds as means, the variance of all data in each direction, and equal weights.
    """

    def __init__(self, bank: sa.MemoryBank, rng: int, n_components: int = 50, n_clusters: int = 10) -> None:
        from sklearn.cluster import kmeans_plusplus
        from sklearn.decomposition import PCA
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture

        n_components = min(n_components, bank.K - 1, bank.d)
        self.pca = PCA(n_components, svd_solver="full").fit(bank.patterns)
        scores = self.pca.transform(bank.patterns)
        n_clusters = min(n_clusters, bank.K)
        self.mixture = GaussianMixture(
            n_clusters,
            covariance_type="diag",
            weights_init=np.full(n_clusters, 1 / n_clusters),
            means_init=kmeans_plusplus(scores, n_clusters, random_state=rng)[0],
            precisions_init=np.tile(1 / (scores.var(0) + 1e-6), (n_clusters, 1)),
            tol=1e-8,
            max_iter=500,
            reg_covar=1e-6,
            random_state=rng,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # 500 iterations are the paper's limit
            self.mixture.fit(scores)

    def sample(self, n: int, rng: int) -> Array:
        """n samples, not normalised: the published values need this, although the text of the paper says otherwise."""
        self.mixture.random_state = rng
        rows = self.pca.inverse_transform(self.mixture.sample(n)[0])
        return rows[np.random.default_rng(rng).permutation(n)]  # scikit-learn returns them cluster by cluster


class MatchedGaussian:
    """Independent normals with each coordinate's mean and variance taken from samples."""

    def __init__(self, samples: Array) -> None:
        rows = samples.reshape(-1, samples.shape[-1])
        self.mean, self.spread = rows.mean(0), rows.std(0, ddof=1)

    def sample(self, n: int, rng: int) -> Array:
        """n samples."""
        return self.mean + self.spread * np.random.default_rng(rng).standard_normal((n, len(self.mean)))


class IsotropicGaussian:
    """White noise scaled to the mean norm of the samples."""

    def __init__(self, samples: Array) -> None:
        self.d = samples.shape[-1]
        self.norm = float(np.linalg.norm(samples, axis=-1).mean())

    def sample(self, n: int, rng: int) -> Array:
        """n random directions with that norm."""
        rows = np.random.default_rng(rng).standard_normal((n, self.d))
        return self.norm * rows / np.linalg.norm(rows, axis=1, keepdims=True)
