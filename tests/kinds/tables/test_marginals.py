"""Stratified columns: one value from each interval, the law of single draws, ranks and dependence kept."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import kstest, multivariate_normal, norm

from stochattn.kinds.regions import FeatureObservation, Region
from stochattn.kinds.tables.generator.covariance import CovarianceGenerator, CovarianceKernels, Marginals, fit_offsets
from stochattn.kinds.tables.generator.neighborhoods import KernelParams


def generator(K=24):
    """Kernels around rows of two features that depend on each other, the first with two modes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=K) + np.where(np.arange(K) % 2, 3.0, -3.0)
    features = np.column_stack([x, 0.8 * x + rng.normal(size=K)])
    return CovarianceGenerator.fit(
        features, np.ones(K), np.arange(K), (), lambda f, rng, amount: f, KernelParams(0.5, 1.0, 0)
    )


def distribution(made, j, x):
    """The distribution function of feature j, from its kernels, at numbers x (n,)."""
    means = made.space.features(made.kernels.means)[:, j]
    deviation = np.sqrt((made.kernels.roots[0] @ made.kernels.roots[0].T)[j, j])
    return norm.cdf((np.asarray(x)[:, None] - means) / deviation).mean(1)


def shift_of(shares):
    """v such that every fifth of the shares (R,), in rising order from one of the first five on, is (j + v) / R."""
    R, found = len(shares), []
    for start in range(5):
        knots = np.arange(start, R, 5)
        rests = R * np.sort(shares)[knots] - knots
        if np.ptp(rests) < 0.02:  # the distribution function is evaluated on a grid
            found.append((start, rests.mean()))
    (one,) = found
    return one


def test_every_fifth_draw_of_a_round_is_where_it_is_expected_by_a_random_shift():
    """Null: v of 200 rounds is uniform, and j₁ is each of 0 … 4 equally often; KS above 0.137 in 1 of 1,000 runs."""
    made = generator()
    rows = made.sample(24 * 200, np.random.default_rng(1)).values
    found = []
    for first in range(0, len(rows), 24):
        both = [shift_of(distribution(made, j, rows[first : first + 24, j])) for j in range(2)]
        assert both[0][0] == both[1][0]
        assert both[0][1] == pytest.approx(both[1][1], abs=0.02)  # columns of a round move together
        found.append(both[0])
    starts, shifts = np.array(found).T
    assert kstest(shifts, "uniform").statistic < 0.137
    assert np.bincount(starts.astype(int)).min() > 20  # of 40, 3.5 standard errors


def test_single_draws_have_the_law_of_the_kernels():
    """Null: the first of each round has the law F. 4,000 draws: KS above 0.0308 in 1 of 1,000 runs.

    The ends of a round of 24 add an error below 0.005. Without stratification the test is the same: the law is not
    that of other kernels.
    """
    made = generator()
    firsts = np.array([made.sample(1, np.random.default_rng(seed)).values[0] for seed in range(4000)])
    for j in range(2):
        assert kstest(distribution(made, j, firsts[:, j]), "uniform").statistic < 0.0358
    assert np.corrcoef(firsts.T)[0, 1] == pytest.approx(_correlation(made), abs=0.03)


def test_columns_that_nearly_determine_each_other_still_do():
    """Residuals of y on x have the deviation 0.02 in the kernels; ranks of each column alone would make it 0.1."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=25)
    features = np.column_stack([x, x + 0.02 * rng.normal(size=25)])
    made = CovarianceGenerator.fit(
        features, np.ones(25), np.arange(25), (), lambda f, rng, amount: f, KernelParams(0.8, 1.0, 0)
    )
    rows = made.sample(2500, np.random.default_rng(5)).values
    assert (rows[:, 0] - rows[:, 1]).std() < 0.035


def _correlation(made):
    means, noise = made.kernels.means, made.kernels.roots[0] @ made.kernels.roots[0].T
    total = np.cov(means.T, ddof=0) + noise
    return total[0, 1] / np.sqrt(total[0, 0] * total[1, 1])


def test_ranks_stay_and_other_columns_do_not_change():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(40, 3))
    weights = np.full(5, 0.2)
    marginals = Marginals.of(rng.normal(size=(5, 1)), np.ones((1, 1)), weights, np.array([1]))
    found = marginals.stratify(features, 20, np.random.default_rng(0))
    np.testing.assert_array_equal(found[:, [0, 2]], features[:, [0, 2]])
    for part in (slice(0, 20), slice(20, 40)):
        np.testing.assert_array_equal(np.argsort(found[part, 1]), np.argsort(features[part, 1]))
    assert not np.allclose(found[:, 1], features[:, 1])


def test_conditioned_draws_are_independent_and_few_are_the_first_of_more():
    made = generator()
    assert made.marginals is not None
    given = made.condition((np.array([0]), np.array([1.5])))
    assert given.marginals is None
    assert (given.sample(50, np.random.default_rng(0)).values[:, 0] == 1.5).all()  # to the last bit
    many, few = (made.sample(n, np.random.default_rng(3)) for n in (60, 7))
    np.testing.assert_array_equal(many.values[:7], few.values)
    np.testing.assert_array_equal(many.source[:7], few.source)


def test_many_kernels_are_taken_together_without_changing_the_law():
    rng = np.random.default_rng(6)
    means, weights = rng.gamma(2.0, size=(5000, 1)), rng.dirichlet(np.ones(5000))
    for variances in (np.full((1, 1), 0.01), rng.uniform(0.01, 0.1, size=(5000, 1))):
        found = Marginals.of(means, variances, weights, np.array([0]))
        exact = weights @ norm.cdf((found.grid[0] - means) / np.sqrt(np.broadcast_to(variances, (5000, 1))))
        np.testing.assert_allclose(found.shares[0], exact, atol=1e-3)


def test_columns_of_few_rows_do_not_depend_on_each_other():
    """Short rounds would move all columns by one common shift, and with it give them a correlation of 0.2."""
    assert generator(8).marginals is None
    assert generator(10).marginals is not None
    features = np.array([[-1.0, -1], [-1, 1], [1, -1], [1, 1]])
    made = CovarianceGenerator.fit(
        features, np.ones(4), np.arange(4), (), lambda f, rng, amount: f, KernelParams(1.0, 1.0, 0)
    )
    x, y = made.sample(4000, np.random.default_rng(0)).values.T
    assert abs(np.corrcoef(x, y)[0, 1]) < 5 / np.sqrt(4000)


def interval(low, high):
    """That the first feature lies between two numbers."""
    region = Region(np.array([0]), np.array([low]), np.array([high]), lambda features: np.ones(len(features), bool))
    return FeatureObservation(np.empty(0, dtype=int), np.empty(0), region)


def test_shares_of_rows_given_an_interval_are_those_of_their_kernels_in_it():
    made = generator()
    given = made.condition(interval(2.0, 4.0))
    means = made.space.features(made.kernels.means)[:, 0]
    deviation = np.sqrt((made.kernels.roots[0] @ made.kernels.roots[0].T)[0, 0])
    inside = norm.cdf((4.0 - means) / deviation) - norm.cdf((2.0 - means) / deviation)
    np.testing.assert_allclose(np.exp(given.log_shares), inside / inside.sum(), rtol=1e-9)
    np.testing.assert_array_equal(made.log_shares, made.kernels.log_weights)
    assert given.marginals is None
    with pytest.raises(ValueError, match="before condition"):
        given.log_density(np.zeros((1, 2)))


def test_one_hot_features_are_not_stratified():
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.normal(size=24), np.eye(2)[np.arange(24) % 2], rng.normal(size=24)])
    made = CovarianceGenerator.fit(
        features, np.ones(24), np.arange(24), [slice(1, 3)], lambda f, rng, amount: f, KernelParams(0.5, 1.0, 0)
    )
    np.testing.assert_array_equal(made.amounts, [0, 3])
    np.testing.assert_array_equal(made.marginals.positions, [0, 3])


def test_no_more_rows_are_drawn_than_whole_rounds_need(monkeypatch):
    drawn, around = [], CovarianceKernels.around
    monkeypatch.setattr(
        CovarianceKernels, "around", lambda self, k, *others: drawn.append(len(k)) or around(self, k, *others)
    )
    made = generator()
    drawn.clear()
    assert len(made.sample(30, np.random.default_rng(0)).values) == 30
    made.condition((np.array([0]), np.array([1.5]))).sample(30, np.random.default_rng(0))
    assert drawn == [48, 30]  # two rounds of 24, and single draws


def test_draws_of_a_round_are_moved_linearly_between_those_that_are_moved_to_their_place():
    """By the definition, with the start and shift of each round known: two kernels, two rounds of ten draws."""
    means = np.array([[-3.0], [3.0]])
    marginals = Marginals.of(means, np.ones((1, 1)), np.array([0.3, 0.7]), np.array([0]))
    numbers = np.array([[0.5, 0.3], [0.9, 0.8]])  # starts at 2 and 4, shifts of 0.3 and 0.8
    x = np.random.default_rng(0).normal(size=(20, 1)) + np.where(np.arange(20) % 3, 3.0, -3.0)[:, None]
    found = marginals.stratify(x, 10, SimpleNamespace(random=lambda shape: numbers))

    def share(values):
        return 0.3 * norm.cdf(values + 3) + 0.7 * norm.cdf(values - 3)

    for i, (start, shift) in enumerate(((2, 0.3), (4, 0.8))):
        u = share(x[10 * i : 10 * i + 10, 0])
        knots = np.array([start, start + 5])
        at, to = [0.0, *np.sort(u)[knots], 1.0], [0.0, *(knots + shift) / 10, 1.0]
        np.testing.assert_allclose(share(found[10 * i : 10 * i + 10, 0]), np.interp(u, at, to), atol=2e-3)


def test_the_density_is_that_of_the_kernels_and_the_width_as_given():
    made = generator()
    rows, root = np.array([[0.5, 1.0], [3.0, 2.0], [-9.0, 4.0]]), made.kernels.roots[0]
    centers = made.space.features(made.kernels.means)
    expected = np.mean([multivariate_normal(center, root @ root.T).pdf(rows) for center in centers], axis=0)
    np.testing.assert_allclose(made.log_density(rows), np.log(expected), rtol=1e-6)
    assert made.describe().summary.endswith("(as given)")


def test_offsets_give_values_their_shares():
    features, shares = np.random.default_rng(0).normal(size=(4000, 4)), np.array([0.7, 0.25, 0.0, 0.05])
    offsets = fit_offsets(features, shares)
    found = np.bincount(np.argmax(features + offsets, axis=1), minlength=4) / 4000
    np.testing.assert_allclose(found, shares, atol=0.002)
    assert offsets[2] == -np.inf
