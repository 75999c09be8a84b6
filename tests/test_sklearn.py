"""The scikit-learn estimator: its checks, and its agreement with KernelDensity."""

import numpy as np
import pytest
from sklearn.neighbors import KernelDensity
from sklearn.utils.estimator_checks import parametrize_with_checks

from stochattn.sklearn import StochasticAttentionDensity


@parametrize_with_checks([StochasticAttentionDensity()])
def test_estimator_checks(estimator, check):
    check(estimator)


def test_equal_weights_are_a_kernel_density():
    X, Y = np.random.default_rng(0).standard_normal((2, 30, 4))
    density = StochasticAttentionDensity(beta=4.0).fit(X)
    expected = KernelDensity(bandwidth=0.5).fit(X)
    np.testing.assert_allclose(density.score_samples(Y), expected.score_samples(Y), rtol=1e-10)
    assert density.score(Y) == pytest.approx(expected.score(Y))


def test_hopfield_weights_and_samples():
    X = np.random.default_rng(0).standard_normal((30, 4))
    density = StochasticAttentionDensity(random_state=0).fit(X)
    assert density.beta_ == density.model_.beta
    np.testing.assert_array_equal(density.sample(5), density.sample(5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    equal, own = (StochasticAttentionDensity(beta=4.0, equal_weights=e).fit(X) for e in (True, False))
    np.testing.assert_allclose(equal.score_samples(X), own.score_samples(X))  # unit norms: no difference
