"""Mixtures against brute force: scipy's normal density, rejection from the joint law."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import stochattn as sa
from stochattn.core.mixture import Mixture

MEANS = np.array([[0.0, 1.0, 0.5], [1.0, -0.5, 0.0], [-1.0, 0.2, -0.4]])
WEIGHTS = np.array([0.2, 0.5, 0.3])
ROUND = np.array([[0.3], [0.5], [0.2]])
STRETCHED = np.array([[0.3, 0.5, 0.2], [0.4, 0.2, 0.6], [0.2, 0.3, 0.3]])
SCALES = {"round": ROUND, "stretched": STRETCHED}


def mixture(kind):
    return Mixture(MEANS, SCALES[kind], np.log(WEIGHTS))


def test_p_beta_is_a_mixture():
    bank = sa.MemoryBank(np.random.default_rng(0).standard_normal((4, 3)))
    x = np.random.default_rng(1).standard_normal((5, 3))
    law = Mixture.of(bank, 3.0)
    kernels = zip(np.exp(law.log_weights), law.means, law.scales, strict=True)
    density = sum(w * multivariate_normal(m, s**2 * np.eye(3)).pdf(x) for w, m, s in kernels)
    assert np.log(density) == pytest.approx(sa.energy.log_density(x, bank, 3.0), rel=1e-12)


def test_factors_scale_means_and_kernels():
    bank = sa.MemoryBank(np.eye(3))
    scaled = Mixture.of(bank, 4.0, np.array([[1.0], [2.0], [3.0]]))
    np.testing.assert_allclose(scaled.means, np.diag([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(scaled.scales, [[0.5], [1.0], [1.5]])


@pytest.mark.parametrize("kind", SCALES)
def test_conditional_law_agrees_with_rejection(kind):
    # Of 4 million joint draws some 20,000 lie within 0.005 of the observation; thresholds are 5 standard errors, so
    # that a wrong weight, gain or spread of 5 % is seen.
    A, y = np.array([[1.0, 0.5, -0.3]]), np.array([0.3])
    x, k = mixture(kind).condition(A, y).sample(40_000, np.random.default_rng(0))
    joint, memory = mixture(kind).sample(4_000_000, np.random.default_rng(1))
    near = np.abs(joint @ A[0] - y[0]) < 0.005
    n = near.sum()
    assert n > 10_000
    assert np.abs(x @ A[0] - y[0]).max() < 1e-12
    for j in range(3):
        p, q = (k == j).mean(), (memory[near] == j).mean()
        assert abs(p - q) < 5 * np.sqrt(max(q * (1 - q), 1e-4) * (1 / n + 1 / len(x)))
    for i in range(3):
        spread = joint[near, i].std()
        assert abs(x[:, i].mean() - joint[near, i].mean()) < 5 * spread * np.sqrt(1 / n + 1 / len(x))
        assert x[:, i].std() == pytest.approx(spread, rel=5 / np.sqrt(n))


def test_conditioned_coordinates_agree_with_the_core():
    bank = sa.MemoryBank(np.random.default_rng(3).standard_normal((5, 4)))
    clamped = sa.conditioning.condition(bank, {1: 0.4}, 2.0)
    conditioned = Mixture.of(bank, 2.0).condition(np.eye(4)[[1]], [0.4])
    np.testing.assert_allclose(conditioned.log_weights, sa.energy.mixture_log_weights(clamped, 2.0), atol=1e-12)


def test_repeated_observations_agree_and_contradictory_ones_are_errors():
    A = np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    once = mixture("round").condition(A[:1], [0.5])
    twice = mixture("round").condition(A, [0.5, 1.0])
    np.testing.assert_allclose(once.log_weights, twice.log_weights, atol=1e-12)
    with pytest.raises(ValueError, match="no state satisfies"):
        mixture("round").condition(A, [0.5, 0.9])
    with pytest.raises(ValueError, match="already conditioned"):
        once.condition(A[:1], [0.5])


def test_fewer_draws_are_the_first_of_more():
    few, k = mixture("round").sample(5, np.random.default_rng(7))
    more, kk = mixture("round").sample(50, np.random.default_rng(7))
    np.testing.assert_array_equal(few, more[:5])
    np.testing.assert_array_equal(k, kk[:5])
