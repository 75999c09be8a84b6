"""Linear coordinates: kept variance, and restored lengths."""

import numpy as np
import pytest
from sklearn.covariance import LedoitWolf

from stochattn.core.neighbors import nearest_rows as nearest
from stochattn.generators import Coordinates, Hopfield, LinearEmbedding

FEATURES = np.random.default_rng(0).standard_normal((12, 5)) * [3, 1, 1, 0.5, 0.1] + 2
OPTIONS = [{}, {"whiten": True}, {"variance": None}, {"variance": None, "centre": False}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("norm", ["restored", "whole"])
def test_stored_features_are_reconstructed(options, norm):
    made = Coordinates.fit(FEATURES, norm=norm, **options)
    rows = made.rows(FEATURES)
    np.testing.assert_allclose(rows, made.stored, atol=1e-12)
    back = made.features(rows * made.factors()[nearest(rows, made.stored)])
    np.testing.assert_allclose(back, FEATURES, atol=1e-12)


def test_the_published_decoder_drops_lengths():
    made = Coordinates.fit(FEATURES, norm="paper")
    back = made.features(made.stored * made.factors()) - FEATURES.mean(0)
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), 1, atol=1e-12)


def test_a_share_of_variance_is_kept_and_reported():
    centred = FEATURES - FEATURES.mean(0)
    spectrum = np.sort(np.linalg.eigvalsh(centred.T @ centred))[::-1]
    made = Coordinates.fit(FEATURES, variance=0.9)
    share = np.cumsum(spectrum) / spectrum.sum()
    assert made.d == int(np.searchsorted(share, 0.9)) + 1
    assert made.variance == pytest.approx(share[made.d - 1])


def test_whitened_noise_has_the_shrunk_covariance():
    made = Coordinates.fit(FEATURES, whiten=True, norm="whole")
    np.testing.assert_allclose(made.outward.T @ made.outward, LedoitWolf().fit(FEATURES).covariance_, rtol=1e-9)


def test_draws_have_the_length_of_their_memory_on_average():
    rng = np.random.default_rng(1)
    made = Coordinates.fit(rng.standard_normal((40, 30)))
    beta = 20.0
    k = rng.integers(0, 40, 20_000)
    draws = made.stored[k] + rng.standard_normal((20_000, made.d)) / np.sqrt(beta)
    squares = np.square(draws * made.factors(beta)[k]).sum(1) / made.norms[k] ** 2
    assert abs(squares.mean() - 1) < 5 * squares.std() / np.sqrt(20_000)


def test_observed_features_are_linear_equations_of_coordinates():
    made = Coordinates.fit(FEATURES, norm="whole", whiten=True)
    A, y = made.observation([1, 3], FEATURES[4, [1, 3]])
    np.testing.assert_allclose(A @ made.stored[4], y, atol=1e-12)


def test_data_that_cannot_be_fitted_is_an_error():
    with pytest.raises(ValueError, match="are identical"):
        Coordinates.fit(np.ones((3, 2)))
    with pytest.raises(ValueError, match="variance must be above 0"):
        Coordinates.fit(FEATURES, variance=1.5)
    with pytest.raises(ValueError, match="item 2 equals the mean"):
        Coordinates.fit([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match="centre must be True"):
        Coordinates.fit(FEATURES, centre=False)


def test_a_novelty_that_only_a_condition_allows_is_met_under_it():
    """Draws without a condition reach 0.34; a value that no stored row has moves them away, to 0.46 at least."""
    law = Hopfield.fit(LinearEmbedding(Coordinates.fit(FEATURES), (5,)), np.ones(12), novelty=0.55)
    with pytest.raises(ValueError, match=r"novelty must lie between 0\.00 and 0\.34"):
        law.sample(1, np.random.default_rng(0))
    given = law.condition((np.array([3]), np.array([10.0])))
    made = given.sample(20_000, np.random.default_rng(0))
    np.testing.assert_allclose(made.values[:, 3], 10.0, atol=1e-9)
    unit, stored = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (made.rows, given.stored_rows))
    assert (1 - (unit @ stored.T).max(1)).mean() == pytest.approx(0.55, abs=0.01)
    assert "novelty" in given.describe().summary
