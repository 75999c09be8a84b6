"""Linear coordinates: kept variance, and restored lengths."""

import numpy as np
import pytest
from scipy.stats import norm as normal
from sklearn.covariance import LedoitWolf

from stochattn import temperature
from stochattn.core.neighbors import nearest_rows as nearest
from stochattn.kinds import Coordinates, HopfieldGenerator, LinearEmbedding
from stochattn.kinds.regions import FeatureObservation, Region
from stochattn.kinds.returns.generator.coordinates import Groups

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
    with pytest.raises(ValueError, match="variance must be above 0"):
        Coordinates.fit(FEATURES, variance=0.0)
    with pytest.raises(ValueError, match="item 1 is all zeros"):
        Coordinates.fit(np.zeros((3, 2)), centre=False, variance=None)
    with pytest.raises(ValueError, match="item 2 equals the mean"):
        Coordinates.fit([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match="centre must be True"):
        Coordinates.fit(FEATURES, centre=False)


def test_an_item_near_the_mean_has_a_direction():
    made = Coordinates.fit([[1.0, 0.0], [1e-4, 0.0], [-1.0, -1e-4], [0.0, 1.0], [0.0, -1.0]])
    np.testing.assert_allclose(np.linalg.norm(made.stored, axis=1), 1)


def test_features_that_follow_from_others_add_no_dimension():
    features = FEATURES @ np.array([[1.0, 0, 0, 1, 0], [0, 1, 0, 1, 1], [0, 0, 1, 0, 1], [0] * 5, [0] * 5])
    assert Coordinates.fit(features).d == 3


def law(weights=None, features=FEATURES, norm="restored", **options):
    embedding = LinearEmbedding(Coordinates.fit(features, norm=norm), (5,))
    return HopfieldGenerator.fit(embedding, np.ones(12) if weights is None else weights, **options)


def test_a_rule_needs_two_items():
    one = np.eye(12)[3]
    with pytest.raises(ValueError, match="one stored item is left, and the rule 'natural' compares two"):
        law(one)
    assert law(one, beta=2.0).beta == 2.0
    assert law(one, novelty=0.2).novelty == 0.2


def test_a_novelty_under_a_condition_is_found_in_any_unit():
    """Features in another unit have rows in that unit, and so a beta in its inverse square."""
    betas = []
    for unit in (1.0, 1e5):
        wanted = law(features=unit * FEATURES, norm="whole", novelty=0.1)
        betas.append(wanted.condition((np.array([3]), np.array([2.5 * unit]))).beta)
    assert betas[1] == pytest.approx(betas[0] * 1e-10, rel=1e-3)


@pytest.mark.parametrize("novelty", [0.1, 0.2, 0.25])
def test_a_novelty_under_a_condition_is_that_of_its_draws(novelty):
    """log beta is found to 1e-4, and the novelty of the same draws changes by less than 0.1 per unit of it."""
    given = law(novelty=novelty).condition((np.array([3]), np.array([2.5])))
    assert given.predicted_novelty() == pytest.approx(novelty, abs=2e-5)


def between(low, high, column=0):
    every = Region(np.array([column]), np.array([low]), np.array([high]), lambda x: np.ones(len(x), dtype=bool))
    return FeatureObservation(np.empty(0, dtype=np.intp), np.empty(0), every)


def test_items_are_drawn_around_as_often_as_they_meet_a_range():
    """Of coordinates along one axis: weights times the normal mass of the range around each item."""
    made = law(np.arange(1.0, 13.0), norm="whole", beta=2.0).condition(between(3.0, 4.0))
    deviation = np.sqrt(np.square(made.embedding.coordinates.outward[:, 0]).sum() / 2.0)
    mass = np.diff(normal.cdf((np.array([3.0, 4.0]) - FEATURES[:, [0]]) / deviation), axis=1)[:, 0]
    expected = np.arange(1.0, 13.0) * mass
    np.testing.assert_allclose(made.source_probabilities(), expected / expected.sum(), atol=1e-9)


def test_draws_meet_a_range_as_narrow_as_rounding():
    low = 3.3
    high = np.nextafter(np.nextafter(low, 4), 4)
    drawn = law(beta=2.0).condition(between(low, high)).sample(300, np.random.default_rng(0)).values[:, 0]
    assert ((drawn >= low) & (drawn <= high)).all()


def test_few_items_that_explain_a_condition_are_noted():
    assert law(beta=0.1, norm="whole").condition(between(1.0, 3.0)).describe().notes == ()
    only = int(np.argmax(FEATURES[:, 0]))
    narrow = law(beta=1e4, norm="whole").condition((np.array([0]), FEATURES[[only], 0]))
    assert narrow.describe().notes == ("about 1 stored item explains the condition: draws stay close to it.",)


def test_a_novelty_that_only_a_condition_allows_is_met_under_it():
    """Draws without a condition reach 0.34; a value that no stored row has moves them away, to 0.46 at least."""
    law = HopfieldGenerator.fit(LinearEmbedding(Coordinates.fit(FEATURES), (5,)), np.ones(12), novelty=0.55)
    with pytest.raises(ValueError, match=r"novelty must lie between 0\.00 and 0\.34"):
        law.sample(1, np.random.default_rng(0))
    given = law.condition((np.array([3]), np.array([10.0])))
    made = given.sample(20_000, np.random.default_rng(0))
    np.testing.assert_allclose(made.values[:, 3], 10.0, atol=1e-9)
    unit, stored = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (made.rows, given.stored_rows))
    assert (1 - (unit @ stored.T).max(1)).mean() == pytest.approx(0.55, abs=0.01)
    assert "novelty" in given.describe().summary


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_group_without_length_has_some_direction_and_a_length_that_is_not_seen(scale):
    groups = Groups.of(12, market=False)
    z = scale * np.random.default_rng(0).standard_normal((5, 12))
    z[2, : groups.sizes[0]] = 0.0
    directions, lengths = groups.split(z)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1)
    expected = groups.lengths(z)
    expected[2, 0] = 1e-12 * expected.max()
    np.testing.assert_allclose(lengths, expected)
    np.testing.assert_allclose(groups.with_lengths(directions, lengths), z, rtol=1e-9, atol=1e-11 * scale)


def test_a_predicted_novelty_weighs_rows_of_unequal_norms_alike():
    rows = np.random.default_rng(0).standard_normal((40, 6)) * np.linspace(0.5, 2, 40)[:, None]
    coordinates = Coordinates.fit(rows, norm="whole")
    law = HopfieldGenerator.fit(LinearEmbedding(coordinates, (6,)), np.ones(40), beta=5.0)
    assert law.embedding.equal_weights
    alike, by_norm = (temperature.novelty_at(law.bank, 5.0, equal_weights=equal) for equal in (True, False))
    assert law.predicted_novelty() == pytest.approx(alike)
    assert abs(alike - by_norm) > 0.01
