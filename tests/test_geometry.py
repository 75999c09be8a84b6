"""Covariance kernels against scipy's normal densities and rejection; widths judged with covariances refitted."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.covariance import ledoit_wolf

import stochattn as sa
from stochattn.geometry import CovarianceKernels, Width, choose_width

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((40, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 0.7, 0.2], [0.0, 0.0, 0.2]])
WIDTH = Width(0.5, 0.1, 6)


def brute_covariance(k, width):
    gaps = np.linalg.norm(ROWS - ROWS[k], axis=1)
    near = np.argsort(gaps)[1 : width.neighbours + 1]
    local = sum(np.outer(ROWS[j] - ROWS[k], ROWS[j] - ROWS[k]) for j in near) / len(near)
    pooled = ledoit_wolf(ROWS)[0]
    return width.local * local + width.pooled * pooled + 1e-6 * np.trace(pooled) / 3 * np.eye(3)


def brute_density(x, weights=None):
    weights = np.full(40, 1 / 40) if weights is None else weights
    return sum(w * multivariate_normal(ROWS[k], brute_covariance(k, WIDTH)).pdf(x) for k, w in enumerate(weights))


def test_density_is_that_of_scipy():
    x = RNG.standard_normal((7, 3))
    kernels = CovarianceKernels.fit(ROWS, width=WIDTH)
    np.testing.assert_allclose(kernels.log_density(x), np.log(brute_density(x)), rtol=1e-9)


def test_multiplicities_weigh_kernels():
    r = RNG.uniform(0.5, 3, 40)
    kernels = CovarianceKernels.fit(sa.conditioning.weight(sa.MemoryBank(ROWS), r), width=WIDTH)
    x = RNG.standard_normal((5, 3))
    np.testing.assert_allclose(kernels.log_density(x), np.log(brute_density(x, r / r.sum())), rtol=1e-9)


def test_pooled_kernels_share_one_covariance():
    kernels = CovarianceKernels.fit(ROWS, width=Width(0.0, 0.3, 0))
    assert kernels.roots.shape == (1, 3, 3)
    x = RNG.standard_normal((5, 3))
    pooled = ledoit_wolf(ROWS)[0]
    covariance = 0.3 * pooled + 1e-6 * np.trace(pooled) / 3 * np.eye(3)
    expected = np.mean([multivariate_normal(row, covariance).pdf(x) for row in ROWS], axis=0)
    np.testing.assert_allclose(kernels.log_density(x), np.log(expected), rtol=1e-9)


def test_draws_have_the_mixture_s_moments():
    # 100,000 draws: means within 5 standard errors, covariances within 3 %.
    x, k = CovarianceKernels.fit(ROWS, width=WIDTH).sample(100_000, np.random.default_rng(1))
    assert np.all(np.abs(x.mean(0) - ROWS.mean(0)) < 5 * x.std(0) / np.sqrt(100_000))
    within = np.mean([brute_covariance(j, WIDTH) for j in range(40)], axis=0)
    np.testing.assert_allclose(np.cov(x.T), within + np.cov(ROWS.T, bias=True), atol=0.03 * np.trace(within))
    own = x[k == 7] - ROWS[7]
    np.testing.assert_allclose(own.T @ own / len(own), brute_covariance(7, WIDTH), atol=0.1 * np.trace(within))


def test_fewer_draws_are_the_first_of_more():
    kernels = CovarianceKernels.fit(ROWS, width=WIDTH)
    few, more = (kernels.sample(n, np.random.default_rng(3))[0] for n in (5, 50))
    np.testing.assert_array_equal(few, more[:5])


def test_conditional_law_is_what_rejection_gives():
    # Some 20,000 of 3 million joint draws lie within 0.01 of the observation: means to 5 standard errors.
    kernels = CovarianceKernels.fit(ROWS, width=WIDTH)
    A, y = np.array([[1.0, -0.5, 0.3]]), np.array([0.4])
    x, k = kernels.given(A, y).sample(40_000, np.random.default_rng(1))
    joint, memory = kernels.sample(3_000_000, np.random.default_rng(2))
    near = np.abs(joint @ A[0] - y[0]) < 0.01
    n = near.sum()
    assert n > 10_000
    assert np.abs(x @ A[0] - y[0]).max() < 1e-10
    for i in range(3):
        spread = joint[near, i].std()
        assert abs(x[:, i].mean() - joint[near, i].mean()) < 5 * spread * np.sqrt(1 / n + 1 / 40_000)
        assert x[:, i].std() == pytest.approx(spread, rel=5 / np.sqrt(n))
    shares = [np.bincount(index, minlength=40) / len(index) for index in (k, memory[near])]
    assert np.abs(shares[0] - shares[1]).max() < 5 * np.sqrt(shares[1].max() / n)


def test_the_chosen_width_is_the_likeliest_when_covariances_are_refitted():
    """By brute force over a small grid, each fold judged by kernels fitted without it."""
    from stochattn import geometry

    rows = np.random.default_rng(5).standard_normal((24, 2)) * [1.0, 0.1]
    chosen = choose_width(rows, shape="pooled", folds=3, rng=4)
    order = np.random.default_rng(4).permutation(24)
    likelihood = {}
    for b in geometry.POOLED:
        total = 0.0
        for i in range(3):
            left = np.sort(order[i::3])
            kernels = CovarianceKernels.fit(np.delete(rows, left, axis=0), width=Width(0.0, b, 0))
            total += kernels.log_density(rows[left]).sum()
        likelihood[b] = total
    assert chosen == Width(0.0, max(likelihood, key=likelihood.get), 0)


def test_local_kernels_beat_pooled_and_round_ones_on_a_curve():
    angle = np.random.default_rng(6).uniform(0, 2 * np.pi, 400)
    ring = np.stack([np.cos(angle), np.sin(angle)], 1) + 0.005 * np.random.default_rng(7).standard_normal((400, 2))
    ring = np.concatenate([ring, 0.005 * np.random.default_rng(8).standard_normal((400, 3))], axis=1)
    stored, held_out = ring[:200], ring[200:]
    local, pooled = (
        CovarianceKernels.fit(stored, shape=shape).log_density(held_out).mean() for shape in ("local", "pooled")
    )
    beta = sa.temperature.leave_one_out(stored, equal_weights=True)
    plain = sa.StochasticAttention(sa.MemoryBank(stored), beta=beta, equal_weights=True).log_density(held_out).mean()
    assert local > pooled + 0.3
    assert local > plain + 0.3


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        (np.ones((6, 2)), {}, "all alike"),
        (ROWS[:3], {}, "at least 4"),
        (ROWS, {"shape": "odd"}, "shape must be one of"),
        (ROWS, {"width": Width(-1.0, 0.1, 5)}, "zero or more"),
    ],
)
def test_what_cannot_be_fitted_is_said(rows, options, said):
    with pytest.raises(ValueError, match=said):
        CovarianceKernels.fit(rows, **options)


def test_constant_columns_stay_nearly_constant():
    rows = np.concatenate([ROWS, np.full((40, 1), 3.0)], axis=1)
    x, _ = CovarianceKernels.fit(rows).sample(100, np.random.default_rng(0))
    assert np.abs(x[:, 3] - 3).max() < 0.05
