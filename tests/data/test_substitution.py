"""The mixture in sequence space against sums over all sequences, brute force, and its own definition."""

import itertools

import numpy as np
import pytest
from made_items import family

from stochattn.generators.sequences import (
    BY_MEMORY,
    GAP,
    RATES,
    SubstitutionMixture,
    WeightedSequences,
    _best_rate_weights,
    _left_out_log_likelihoods,
    draw_symbols,
    relative_substitution_rates,
    site_distributions,
)

SHORT = family(K=9, L=2, seed=3)
ALL = np.array(list(itertools.product(range(GAP + 1), repeat=2)), dtype=np.uint8)
CODES = family(K=20, L=12)


def mixture(codes, weights=None, **options):
    return SubstitutionMixture.fit(WeightedSequences.of(codes, weights), **options)


def brute_log_density(model, x):
    total = 0.0
    for k, memory in enumerate(model.sequences.codes):
        for r, t in enumerate(RATES):
            chance = np.exp(model.log_weights[k, r])
            for i, (a, b) in enumerate(zip(memory, x, strict=True)):
                chance *= (1 - t) * (a == b) + t * model.sites[i, b]
            total += chance
    return np.log(total)


def deviation(observed, chances):
    """(χ² − df)/√(2 df), cells with fewer than five expected are pooled; about 1 in 10,000 is above 4 under the law."""
    expected = chances * observed.sum()
    rare = expected < 5
    assert not observed[expected == 0].any()
    pooled = [np.append(x[~rare], x[rare].sum() + 1e-9) for x in (observed, expected)]
    df = len(pooled[0]) - 1
    return (((pooled[0] - pooled[1]) ** 2 / pooled[1]).sum() - df) / np.sqrt(2 * df)


def counts_of(codes):
    return np.bincount(codes[:, 0].astype(int) * (GAP + 1) + codes[:, 1], minlength=len(ALL))


def test_density_agrees_with_its_definition():
    model = mixture(CODES)
    rows = np.concatenate([CODES[:2], family(K=3, L=12, seed=8)])
    np.testing.assert_allclose(model.log_density(rows), [brute_log_density(model, row) for row in rows], rtol=1e-10)


def test_density_sums_to_one_over_all_sequences():
    model = mixture(SHORT)
    assert np.exp(model.log_density(ALL)).sum() == pytest.approx(1, abs=1e-12)
    longer = np.array(list(itertools.product(range(GAP + 1), repeat=3)), dtype=np.uint8)
    fitted = mixture(family(K=6, L=3), pseudo_counts="likelihood")
    assert np.exp(fitted.log_density(longer)).sum() == pytest.approx(1, abs=1e-12)


def test_kernels_are_reversible_with_the_site_distributions():
    model = mixture(SHORT)
    for t in (0.05, 0.5):
        P = (1 - t) * np.eye(GAP + 1) + t * model.sites[0]
        flow = model.sites[0][:, None] * P
        np.testing.assert_allclose(flow, flow.T, atol=1e-15)
        np.testing.assert_allclose(model.sites[0] @ P, model.sites[0], atol=1e-15)


def test_draws_have_the_density():
    model = mixture(SHORT)
    codes, source, _ = model.sample(40_000, np.random.default_rng(0))
    assert deviation(counts_of(codes), np.exp(model.log_density(ALL))) < 4
    assert deviation(np.bincount(source, minlength=9), np.full(9, 1 / 9)) < 4
    independent = mixture(SHORT).sites  # the test must reject draws with permuted sources
    assert deviation(counts_of(codes), np.outer(independent[0], independent[1]).ravel()) > 4


def test_conditions_give_the_conditional_distribution():
    model = mixture(SHORT)
    for symbol in (int(SHORT[0, 0]), next(a for a in range(GAP) if a not in SHORT[:, 0])):
        joint = np.where(ALL[:, 0] == symbol, np.exp(model.log_density(ALL)), 0.0)
        conditional = model.condition({0: symbol})
        np.testing.assert_allclose(np.exp(conditional.log_density(ALL)), joint / joint.sum(), atol=1e-12)
        codes = conditional.sample(20_000, np.random.default_rng(1)).values
        assert (codes[:, 0] == symbol).all()
        assert deviation(counts_of(codes), joint / joint.sum()) < 4


def test_conditioning_in_two_steps_is_conditioning_at_once():
    model = mixture(CODES)
    symbols = {3: int(CODES[4, 3]), 7: GAP}
    steps = model.condition({3: symbols[3]}).condition({7: GAP, 3: symbols[3]})
    np.testing.assert_allclose(steps.log_weights, model.condition(symbols).log_weights, atol=1e-12)
    assert model.condition({}).log_density(CODES[:1]) == pytest.approx(model.log_density(CODES[:1])[0])
    assert "2 conditioned sites" in steps.describe().summary
    with pytest.raises(ValueError, match="site 3 is conditioned on another symbol already"):
        steps.condition({3: (symbols[3] + 1) % 20})


def test_all_sites_conditioned_leave_one_sequence():
    model = mixture(SHORT).condition({0: 4, 1: 5})
    assert np.exp(model.log_density(ALL)).sum() == pytest.approx(1)
    assert model.log_density(np.array([[4, 5]])) == pytest.approx(0, abs=1e-9)
    assert (model.sample(3, np.random.default_rng(0)).values == [4, 5]).all()


def test_leave_one_out_likelihoods_refit_without_the_sequence():
    chosen, values = _left_out_log_likelihoods(WeightedSequences.of(CODES), 5.0)
    np.testing.assert_array_equal(chosen, np.arange(20))
    others = np.delete(CODES, 2, axis=0)
    sites = site_distributions(WeightedSequences.of(others), 5.0).mixed
    own = sites[np.arange(12), CODES[2]]
    for r, t in enumerate(RATES[::6]):
        kernels = np.prod((1 - t) * (others == CODES[2]) + t * own, axis=1)
        assert values[2, 6 * r] == pytest.approx(np.log(kernels.mean()), rel=1e-10)


def test_weights_of_rates_are_the_best_of_a_grid():
    rng = np.random.default_rng(0)
    logs, w = rng.normal(0, 1.5, (30, 3)), np.full(30, 1 / 30)

    def value(rate_weights):
        return w @ np.log(np.exp(logs) @ rate_weights)

    steps = np.linspace(0, 1, 41)
    grid = [value(np.array([a, b, 1 - a - b])) for a in steps for b in steps if a + b <= 1 + 1e-9]
    assert max(grid) - 1e-9 <= value(_best_rate_weights(logs, w)) < max(grid) + 1e-3


def test_natural_pseudo_counts_agree_as_pairs_do():
    sites = site_distributions(WeightedSequences.of(CODES))
    pairs = [(a == b).sum() for a, b in itertools.combinations(CODES, 2)]
    assert (sites.frequencies * sites.mixed).sum() == pytest.approx(np.mean(pairs), rel=1e-10)
    draws = draw_symbols(sites.mixed.T[None], np.random.default_rng(0).random((20_000, 12)))
    agreement = (draws[:, None] == CODES[None]).sum(2).mean(1)
    assert abs(agreement.mean() - np.mean(pairs)) < 5 * agreement.std() / np.sqrt(20_000)


def test_natural_pseudo_counts_agree_as_pairs_do_at_a_site_that_hardly_varies():
    codes = np.full((200, 1), 3, dtype=np.uint8)
    codes[:2] = 4
    sites = site_distributions(WeightedSequences.of(codes))
    pairs = 1 - 2 * 2 * 198 / (200 * 199)
    assert (sites.frequencies * sites.mixed).sum() == pytest.approx(pairs, rel=1e-10)


def test_weights_of_zero_exclude_and_duplicates_count_twice():
    weights = np.ones(20)
    weights[[1, 5]] = 0
    masked, subset = mixture(CODES, weights), mixture(np.delete(CODES, [1, 5], axis=0))
    np.testing.assert_allclose(masked.log_density(CODES), subset.log_density(CODES), rtol=1e-10)
    assert not np.isin(masked.sample(500, np.random.default_rng(0)).source, [1, 5]).any()
    weights[3] = 50
    assert np.mean(mixture(CODES, weights).sample(500, np.random.default_rng(0)).source == 3) > 0.6


def test_the_first_draws_of_more_are_the_same():
    model = mixture(CODES)
    few, many = (model.sample(n, np.random.default_rng(4)).values for n in (7, 300))
    np.testing.assert_array_equal(few, many[:7])


@pytest.mark.parametrize(
    "codes",
    [
        CODES[:2],
        np.repeat(CODES[:1], 5, axis=0),
        np.where(np.arange(12) == 4, 7, CODES),
        np.where(np.arange(12) == 4, GAP, CODES),
        np.full((3, 4), GAP),
    ],
    ids=["two sequences", "identical", "constant site", "gap site", "all gaps"],
)
@pytest.mark.parametrize("pseudo_counts", ["natural", "likelihood", 0.0])
def test_degenerate_sequences_still_have_a_distribution(codes, pseudo_counts):
    model = mixture(codes, pseudo_counts=pseudo_counts)
    np.testing.assert_allclose(model.sites.sum(1), 1)
    assert (model.sites > 0).all()
    drawn, source, _ = model.sample(50, np.random.default_rng(0))
    assert np.isfinite(model.log_density(drawn)).all()
    assert source.max() < len(codes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((CODES, np.zeros(20)), "at least two sequences need a positive weight; got 0 of 20"),
        ((CODES[:1],), "at least two sequences"),
        ((CODES, np.ones(3)), r"one number per sequence, \(20,\); got shape \(3,\)"),
        ((CODES, -np.ones(20)), "not negative; got -1"),
        ((CODES + 30,), "from 0 to 20"),
        ((CODES.astype(float),), "whole numbers from 0 to 20; got float64"),
        ((np.empty((0, 4), dtype=int),), "non-empty"),
    ],
)
def test_impossible_sequences_are_an_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        mixture(*arguments)


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


def test_a_site_conditioned_on_the_first_symbol_is_counted():
    model = mixture(CODES, pseudo_counts=1.0)
    assert "given 1 conditioned site (exact)" in model.condition({1: 0}).describe().summary
    assert "given 2 conditioned sites (exact)" in model.condition({1: 0, 2: 3}).describe().summary
    assert "given" not in model.describe().summary


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


def test_impossible_conditions_are_an_error():
    model = mixture(CODES)
    with pytest.raises(ValueError, match="at most 11, counted from 0; got 12"):
        model.condition({12: 0})
    with pytest.raises(ValueError, match="at least 0; got -1"):
        model.condition({-1: 0})
    with pytest.raises(ValueError, match="from 0 to 20, which is a gap; got 21"):
        model.condition({1: 21})
    with pytest.raises(ValueError, match="Recode letters first"):
        model.condition({1: "W"})
    with pytest.raises(ValueError, match=r"shape \(n, 12\)"):
        model.log_density(CODES[:, :5])
    with pytest.raises(ValueError, match="'natural', 'likelihood'"):
        mixture(CODES, pseudo_counts="most")
