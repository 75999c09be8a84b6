"""A scikit-learn estimator around the exact mixture: fit, sample, score_samples."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ._backend.arrays import ArrayLike, NumpyArray
from .core.memory import MemoryBank
from .model import StochasticAttention

__all__ = ["StochasticAttentionDensity"]


class StochasticAttentionDensity(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """The density p_beta of stochastic attention around the training rows.

    Parameters
    ----------
    beta : float or {"natural", "inflection", "knee", "leave_one_out"}
    equal_weights : bool
        True gives each row the same weight (a Gaussian kernel density of bandwidth beta**-0.5), False the weight
        exp(beta * norm**2 / 2) of the Hopfield energy.
    random_state : int, RandomState instance or None, for `sample`

    Attributes
    ----------
    beta_ : float
    offset_ : ndarray of shape (n_features,), subtracted from the rows: their mean, or zeros without equal weights
    model_ : StochasticAttention, of the rows minus the offset

    >>> density = StochasticAttentionDensity(beta=10.0, random_state=0).fit([[0.0, 1.0], [1.0, 0.0]])
    >>> density.sample(5).shape
    (5, 2)
    """

    def __init__(self, beta: float | str = "natural", equal_weights: bool = True, random_state: object = None) -> None:
        self.beta, self.equal_weights, self.random_state = beta, equal_weights, random_state

    def fit(self, X: ArrayLike, y: object = None) -> StochasticAttentionDensity:
        """Store the rows of X (n_samples, n_features) and choose beta."""
        X = validate_data(self, X, dtype=(np.float64, np.float32))
        # With equal weights the density is translation invariant; near the origin it loses no digits.
        self.offset_ = X.mean(0) if self.equal_weights else np.zeros(X.shape[1], X.dtype)
        self.model_ = StochasticAttention(MemoryBank(X - self.offset_), self.beta, equal_weights=self.equal_weights)
        self.beta_ = self.model_.beta
        return self

    def score_samples(self, X: ArrayLike) -> NumpyArray:
        """log p_beta of each row: (n_samples,)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        return self.model_.log_density(X - self.offset_)

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Total log-likelihood of the rows of X."""
        return float(np.sum(self.score_samples(X)))

    def sample(self, n_samples: int = 1) -> NumpyArray:
        """New rows, drawn exactly: (n_samples, n_features)."""
        check_is_fitted(self)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return self.model_.sample(n_samples, rng=int(seed)) + self.offset_
