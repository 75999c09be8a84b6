"""The exact law, implemented from its definition without code of the library.

p_beta is the mixture of N(m_k, I/beta) with weights r_k exp(beta |m_k|^2/2); everything here follows from that line.
"""

from dataclasses import dataclass

import numpy as np


@dataclass
class Mixture:
    means: np.ndarray  # (K, d), without memories of weight zero
    weights: np.ndarray  # (K,)
    beta: float
    numbers: np.ndarray  # the memories' indices in the bank

    r: np.ndarray  # (K,) multiplicities

    @classmethod
    def from_ingredients(cls, X, r, beta):
        w = r * np.exp(beta * (np.square(X).sum(1) - 1) / 2)
        kept = np.flatnonzero(r)
        return cls(X[kept], w[kept] / w.sum(), beta, kept, r[kept])

    @classmethod
    def of(cls, bank, beta):
        """The mixture of a bank; tests of the bank itself use `from_ingredients`."""
        X = np.asarray(bank.patterns).astype(np.float64)
        return cls.from_ingredients(X, np.exp(np.asarray(bank.log_r).astype(np.float64)), beta)

    @property
    def d(self):
        return self.means.shape[1]

    def draw(self, n, seed):
        rng = np.random.default_rng(seed)
        k = rng.choice(len(self.weights), size=n, p=self.weights)
        return self.means[k] + rng.standard_normal((n, self.d)) / np.sqrt(self.beta)

    def table_energy(self, x):
        """0.5 |x|^2 - log(sum_k r_k exp(beta m_k x))/beta, by scipy."""
        from scipy.special import logsumexp

        return np.square(x).sum(-1) / 2 - logsumexp(self.beta * x @ self.means.T, b=self.r, axis=-1) / self.beta

    def nearest(self, x):
        gaps = x[:, None, :] - self.means[None]
        return self.numbers[np.square(gaps).sum(-1).argmin(1)]

    def projection_moments(self, a):
        """Mean and second moment of a·x."""
        along = self.means @ a
        return self.weights @ along, self.weights @ along**2 + a @ a / self.beta

    def mean_square(self):
        return self.weights @ np.square(self.means).sum(1) + self.d / self.beta


def z_score(sample, expected, expected_error=0.0):
    """Difference between the mean of independent numbers and the expected value, in standard errors."""
    sample = np.asarray(sample, dtype=np.float64)
    error = np.hypot(sample.std(ddof=1) / np.sqrt(len(sample)), expected_error)
    return (sample.mean() - expected) / error
