"""Aligned sequences as codes: weights, site distributions and substitution rates, against brute force."""

import itertools

import numpy as np
import pytest

from made_items import family
from stochattn.kinds.proteins.generator.sequences import (
    BY_MEMORY,
    WeightedSequences,
    check_codes,
    draw_symbols,
    relative_substitution_rates,
    site_distributions,
)

CODES = family(K=20, L=12)


def test_natural_pseudo_counts_agree_as_pairs_do():
    sites = site_distributions(WeightedSequences.of(CODES))
    pairs = [(a == b).sum() for a, b in itertools.combinations(CODES, 2)]
    assert (sites.frequencies * sites.mixed).sum() == pytest.approx(np.mean(pairs), rel=1e-10)
    draws = draw_symbols(sites.mixed.T[None], np.random.default_rng(0).random((20_000, 12)))
    agreement = (draws[:, None] == CODES[None]).sum(2).mean(1)
    assert abs(agreement.mean() - np.mean(pairs)) < 5 * agreement.std() / np.sqrt(20_000)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (CODES[:, :3], r"shape \(n, 12\), one row per sequence; got \(20, 3\)"),
        (CODES + 30, "from 0 to 20"),
        (CODES.astype(float), "integers from 0 to 20; got float64"),
    ],
)
def test_impossible_sequences_are_an_error(codes, message):
    with pytest.raises(ValueError, match=message):
        check_codes(codes, 12)


def test_sequences_without_weight_are_left_out():
    sequences = WeightedSequences.of(CODES, np.arange(20) % 2)
    np.testing.assert_array_equal(sequences.codes, CODES[1::2])
    np.testing.assert_array_equal(sequences.indices, np.arange(1, 20, 2))


def test_weights_may_have_any_size():
    for size in (1e-300, 1.0, 1e300):
        found = WeightedSequences.of(CODES[:3], size * np.array([1.0, 2.0, 3.0])).weights
        np.testing.assert_allclose(found, np.array([1, 2, 3]) / 6)


def test_probabilities_of_symbols_need_not_be_normalised():
    rng = np.random.default_rng(0)
    probabilities, uniforms = rng.random((50, 21, 4)), rng.random((50, 4))
    shares = np.cumsum(probabilities / probabilities.sum(1, keepdims=True), axis=1)
    expected = (shares[:, :-1] <= uniforms[:, None]).sum(1)
    np.testing.assert_array_equal(draw_symbols(probabilities, uniforms), expected)


def test_sequences_unlike_the_others_are_substituted_more():
    """By the definition, with loops: rates are in proportion to the missing agreement, shrunk towards its mean."""
    sequences = WeightedSequences.of(CODES)
    sites = site_distributions(sequences)
    K, L = CODES.shape
    agreement = [
        sum(np.mean([CODES[j, i] == CODES[k, i] for j in range(K) if j != k]) for i in range(L)) for k in range(K)
    ]
    spread = np.var(agreement)
    chance = 0.0
    for f, mixed in zip(sites.frequencies, sites.mixed, strict=True):
        chance += sum(mixed * f * f) - sum(mixed * f) ** 2
    real = np.sqrt(max(1 - chance / spread, 0))
    missing = np.square(sites.frequencies).sum() - (np.mean(agreement) + real * (agreement - np.mean(agreement)))
    missing = np.maximum(missing, 0)
    expected = missing / missing.mean() * BY_MEMORY
    np.testing.assert_allclose(relative_substitution_rates(sequences), expected, rtol=1e-9)
