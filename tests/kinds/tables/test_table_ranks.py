"""Normal scores of numbers and their inverse, decimals and limits, imputation of features."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.covariance import ledoit_wolf, ledoit_wolf_shrinkage

import stochattn as sa
from stochattn.kinds.tables.codec import Filling
from stochattn.kinds.tables.columns.scales import Distinct, Ranks, decimals_of, limits_of


def test_scores_are_normal_quantiles_of_mid_ranks():
    ranks = Ranks.fit(Distinct.of(np.array([3.0, 1.0, 2.0, 2.0])), -math.inf, math.inf, None)
    scores = norm.ppf([1 / 8, 4 / 8, 7 / 8])
    assert np.allclose(ranks.scores, scores / np.std([scores[0], scores[1], scores[1], scores[2]]))
    assert ranks.values.tolist() == [1, 2, 3]
    assert np.isnan(ranks.forward([np.nan])).all()


def test_between_values_the_map_is_linear_and_invertible():
    x = np.array([0.1, 0.5, 2.0, 2.0, 7.0, 9.5])
    ranks = Ranks.fit(Distinct.of(x), -math.inf, math.inf, None)
    assert ranks.inverse(ranks.forward(x)).tolist() == x.tolist()
    middle = (ranks.last[2] + ranks.first[3]) / 2
    assert ranks.inverse([middle])[0] == pytest.approx(4.5)
    probes = np.array([-20.0, 0.3, 1.1, 5.0, 9.0, 30.0])
    assert np.allclose(ranks.inverse(ranks.forward(probes)), probes)


def test_tails_continue_with_the_slope_of_the_outer_quarter():
    x = np.arange(9.0)
    ranks = Ranks.fit(Distinct.of(x), -math.inf, math.inf, None)
    slope = (x[8] - x[6]) / (ranks.scores[8] - ranks.scores[6])
    assert ranks.inverse([ranks.last[-1] + 3.0])[0] == pytest.approx(8 + 3 * slope)
    assert ranks.inverse([ranks.first[0] - 3.0])[0] == pytest.approx(-3 * slope)


def test_a_tail_with_a_limit_never_reaches_it():
    ranks = Ranks.fit(Distinct.of(np.array([1.0, 2.0, 4.0, 8.0])), 0.0, 9.0, None)
    far = ranks.inverse([-6.0, 6.0])
    assert 0 < far[0] < 1
    assert 8 < far[1] < 9
    assert np.allclose(ranks.inverse(ranks.forward([0.2, 8.9])), [0.2, 8.9])
    near = ranks.first[0] - 1e-5
    assert (1 - ranks.inverse([near])[0]) / 1e-5 == pytest.approx(ranks.slopes[0], rel=1e-3)


def test_tails_bend_towards_limits_near_and_far():
    ranks = Ranks.fit(Distinct.of(np.array([2.0, 3.0, 5.0, 9.0])), 1.75, 30.0, None)
    probes = np.array([1.8, 1.95, 9.5, 25.0])
    assert np.allclose(ranks.inverse(ranks.forward(probes)), probes)
    assert ranks.inverse([-1e6, 1e6]).tolist() == [1.75, 30.0]


def test_a_shared_value_keeps_its_share():
    x = np.concatenate((np.zeros(80), np.linspace(1, 5, 20)))
    ranks = Ranks.fit(Distinct.of(x), 0.0, math.inf, None)
    scale = ranks.scores[-1] / norm.ppf(99.5 / 100)
    drawn = ranks.inverse(np.random.default_rng(0).standard_normal(200_000) * scale)
    # Scores from the first rank of zero to the last, 79.5 of 100, decode to zero, and so does all below.
    # The standard error of a share of 0.8 among 200,000 is 0.0009.
    assert abs((drawn == 0).mean() - 0.795) < 0.004


@pytest.mark.parametrize(
    ("numbers", "decimals"),
    [
        ([1, 2, 30], 0),
        ([1.5, 2.0], 1),
        ([0.15, 1.1, 0.29], 2),
        ([0.1 + 0.2], None),
        ([1e20], None),
        ([0.0], 0),
        ([0.123456789012], 12),
        ([0.1234567890123], None),
    ],
)
def test_decimals(numbers, decimals):
    assert decimals_of(Distinct.of(np.array(numbers, dtype=float))) == decimals


def test_one_in_twenty_numbers_may_have_more_decimals():
    numbers = np.round(np.linspace(1, 9, 57), 2)
    for n_odd, decimals in ((3, 2), (4, 5)):
        odd = 20 + np.arange(n_odd) + 0.12345
        assert decimals_of(Distinct.of(np.append(numbers, odd))) == decimals


def test_decimals_of_single_precision():
    assert decimals_of(Distinct.of(np.array([0.1, 2.35], dtype=np.float32))) == 2


def test_limits_come_from_the_sign_and_from_repeated_extremes():
    free = (-math.inf, math.inf)
    assert limits_of(Distinct.of(np.array([-1.0, 2.0])), None) == free
    assert limits_of(Distinct.of(np.array([0.0, 2.0])), None) == (0, math.inf)
    assert limits_of(Distinct.of(np.array([0.5, 2.0])), 1) == (0.1, math.inf)
    assert limits_of(Distinct.of(np.array([3.0, 2.0])), 0) == (1, math.inf)
    assert limits_of(Distinct.of(np.array([-0.5, -2.0])), None) == (-math.inf, 0)
    assert limits_of(Distinct.of(np.array([1, 2, 3, 4, 5, 5, 5.0])), 0) == (1, 5)
    assert limits_of(Distinct.of(np.array([3, 3, 3, 4, 5, 6.0])), 0) == (3, math.inf)
    assert limits_of(Distinct.of(np.array([-6, -5, -4, -3.0])), 0) == (-math.inf, -1)


def test_imputed_values_are_conditional_means_of_the_shrunk_gaussian():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4)) @ rng.standard_normal((4, 4))
    gaussian = Filling.fit(X)
    assert np.array_equal(gaussian.filled, X)
    row = np.array([[0.3, np.nan, -1.0, np.nan]])
    covariance, _ = ledoit_wolf(X)
    mean, known, gone = X.mean(0), [0, 2], [1, 3]
    gain = covariance[np.ix_(gone, known)] @ np.linalg.inv(covariance[np.ix_(known, known)])
    expected = mean[gone] + gain @ (row[0, known] - mean[known])
    assert np.allclose(gaussian.fill(row)[0, gone], expected)
    # With fewer rows than features the same figures come from the matrix of rows.
    few = Filling.fit(X[:3])
    covariance, _ = ledoit_wolf(X[:3])
    gain = covariance[np.ix_([3], [0, 1, 2])] @ np.linalg.inv(covariance[:3, :3])
    row = np.array([[0.3, 0.1, -1.0, np.nan]])
    assert np.allclose(few.fill(row)[0, 3], X[:3, 3].mean() + gain @ (row[0, :3] - X[:3, :3].mean(0)))


@pytest.mark.parametrize(
    "gone", [[2], [0, 1, 3, 4], [0, 1, 2, 3, 4, 6, 8]], ids=["few missing", "many missing", "fewer present than rows"]
)
def test_rows_of_more_features_than_rows_are_filled_likewise(gone):
    X = np.random.default_rng(3).standard_normal((3, 9)) + np.arange(9)
    covariance, _ = ledoit_wolf(X)
    known = np.setdiff1d(np.arange(9), gone)
    row = np.arange(9.0) / 2
    gain = covariance[np.ix_(gone, known)] @ np.linalg.inv(covariance[np.ix_(known, known)])
    expected = X.mean(0)[gone] + gain @ (row[known] - X.mean(0)[known])
    row[gone] = np.nan
    assert np.allclose(Filling.fit(X).fill(row[None])[0, gone], expected)


def test_missing_features_are_filled_in_five_rounds():
    """Means come first; each round fits the shrunk Gaussian to the filled rows and takes its conditional means."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((30, 3)) @ rng.standard_normal((3, 3)) + [5.0, -2.0, 1.0]
    X[rng.random(X.shape) < 0.25] = np.nan
    expected = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    for _ in range(5):
        (covariance, _), mean = ledoit_wolf(expected), expected.mean(0)
        for row, gone in zip(expected, np.isnan(X), strict=True):
            gain = covariance[np.ix_(gone, ~gone)] @ np.linalg.inv(covariance[np.ix_(~gone, ~gone)])
            row[gone] = mean[gone] + gain @ (row[~gone] - mean[~gone])
    assert np.allclose(Filling.fit(X).filled, expected, rtol=1e-10)


def test_one_feature_is_not_shrunk():
    assert Filling.fit(np.array([[-2.0], [-1.0], [1.0], [2.0]])).share == 1


def test_many_rows_are_hardly_shrunk():
    X = np.random.default_rng(1).standard_normal((4000, 2)) * [1.0, 9.0]
    covariance, shrinkage = ledoit_wolf(X)
    gaussian = Filling.fit(X)
    assert 0 < shrinkage < 0.005
    assert gaussian.ridge == pytest.approx(shrinkage * np.trace(covariance) / 2)


@pytest.mark.parametrize("shape", [(30, 4), (5, 60)])
def test_shrinkage_agrees_with_scikit_learn(shape):
    X = np.random.default_rng(1).standard_normal(shape) * np.geomspace(1, 9, shape[1])
    X -= X.mean(0)
    assert 1 - Filling.fit(X).share == pytest.approx(ledoit_wolf_shrinkage(X, assume_centered=True))


@pytest.mark.parametrize("n_missing", [1, 3, 12, 30])
def test_missing_features_of_wide_rows_are_conditional_means(n_missing):
    """Few and many missing features take different routes to Σ_gk Σ_kk⁻¹ (x_k − μ_k)."""
    rng = np.random.default_rng(n_missing)
    X = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 40)) + 0.3 * rng.normal(size=(8, 40))
    gaussian = Filling.fit(X)
    row = rng.normal(size=(1, 40))
    gone = np.zeros(40, dtype=bool)
    gone[rng.choice(40, n_missing, replace=False)] = True
    row[0, gone] = np.nan
    centered = X - X.mean(0)
    covariance = gaussian.share * centered.T @ centered / 8 + gaussian.ridge * np.eye(40)
    weights = np.linalg.solve(covariance[np.ix_(~gone, ~gone)], (row[0] - X.mean(0))[~gone])
    expected = X.mean(0)[gone] + covariance[np.ix_(gone, ~gone)] @ weights
    found = gaussian.fill(row)[0]
    np.testing.assert_allclose(found[gone], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found[~gone], row[0, ~gone])


def test_values_of_a_schedule_are_the_only_ones_that_are_drawn_and_others_can_be_conditioned_on():
    """Weeks 0, 4, 8, 12 and doses, beside ages, of which new ones lie between the stored ones."""
    rng = np.random.default_rng(0)
    ages = rng.normal(50, 12, 160).round()
    frame = {"week": np.tile([0, 4, 8, 12], 40), "dose": rng.choice([0.5, 2.5, 10], 160), "age": ages}
    synth = sa.fit(pd.DataFrame(frame), "table", trial=False)
    new = synth.sample(2000, rng=0)
    assert set(new["week"]) == {0, 4, 8, 12}
    assert set(new["dose"]) == {0.5, 2.5, 10}
    assert not new["age"].isin(ages).all()
    assert set(synth.condition(week=6).sample(20, rng=0)["week"]) == {6}
    assert set(synth.condition(week=sa.Range(ge=5, lt=7)).sample(50, rng=0)["week"]) == {5, 6}
