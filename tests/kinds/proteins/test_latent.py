"""The calibrated latent: frequencies, identity, covariance, clusters, weights, conditions, degenerate sequences."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

import stochattn
from made_items import family
from stochattn.kinds.proteins.generator import latent as module
from stochattn.kinds.proteins.generator.latent import CalibratedLatent, _calibrate_bias, _components, sample_kernels
from stochattn.kinds.proteins.generator.sequences import (
    GAP,
    PROTEIN,
    Sites,
    WeightedSequences,
    draw_symbols,
    indicators,
    nearest_identity,
    relative_substitution_rates,
)
from stochattn.kinds.proteins.generator.sequences import residue_frequencies as site_frequencies
from stochattn.kinds.proteins.sequences import connected_r

CODES = family(K=40, L=24)
"""Two clusters and nothing else: one component explains 35 % of the variance, too little for the target identity."""


def latent(codes, weights=None, **options):
    return CalibratedLatent(WeightedSequences.of(codes, weights), **options)


MODEL = latent(CODES)
D = len(MODEL.parameters.variances)
DRAWS, SOURCE, _ = MODEL.sample(20_000, np.random.default_rng(0))


def residue_frequencies(codes):
    """Frequencies of the residues at each site, among the sequences that have one there: (L, 20)."""
    counts = indicators(codes)[:, :, :GAP].sum(0)
    return counts / counts.sum(1, keepdims=True)


def test_draws_have_the_site_frequencies_of_the_stored_sequences():
    # 24 · 20 frequencies at five standard errors, plus the tolerance of calibration.
    wanted = MODEL.parameters.sites.mixed
    error = np.abs(residue_frequencies(DRAWS) - wanted)
    assert (error < 5 * np.sqrt(wanted * (1 - wanted) / (0.7 * len(DRAWS))) + 0.006).all()


def test_draws_are_as_near_to_stored_sequences_as_these_to_each_other():
    own = [
        max(np.sum((a == b) & (a != GAP)) / np.sum((a != GAP) | (b != GAP)) for j, b in enumerate(CODES) if j != k)
        for k, a in enumerate(CODES)
    ]
    np.testing.assert_allclose(nearest_identity(CODES)[1], own, rtol=1e-6)
    assert MODEL.parameters.target_identity == pytest.approx(np.mean(own))
    identity = nearest_identity(DRAWS, CODES)[1]
    # The 2,048 draws of the calibration have a standard error of 0.002.
    assert identity.mean() == pytest.approx(np.mean(own), abs=0.01)


def test_shrunk_kernels_keep_the_covariance():
    rng = np.random.default_rng(0)
    k = rng.integers(len(CODES), size=100_000)
    z = sample_kernels(MODEL.parameters.memories[k], MODEL.parameters.variances, 0.7, rng.standard_normal((len(k), D)))
    covariance = np.cov(z, rowvar=False)
    scale = np.sqrt(np.outer(MODEL.parameters.variances, MODEL.parameters.variances))
    assert np.abs(covariance / scale - np.eye(D)).max() < 6 * np.sqrt(2 / len(k))
    np.testing.assert_allclose(
        MODEL.parameters.memories.T @ MODEL.parameters.memories / 40, np.diag(MODEL.parameters.variances), atol=1e-4
    )


def test_components_explain_the_requested_share():
    centred = indicators(CODES).reshape(40, -1)
    centred = centred - centred.mean(0)
    shares = np.cumsum(np.linalg.eigvalsh(centred @ centred.T)[::-1]) / np.square(centred).sum()
    assert np.searchsorted(shares, 0.9) + 1 == D
    for share, d in ((0.35, np.searchsorted(shares, 0.35) + 1), (1.0, 39)):
        assert len(_components(WeightedSequences.of(CODES), share)[1]) == d


def test_components_weigh_as_much_as_they_are_signal():
    _, variances, outward = _components(WeightedSequences.of(CODES), 1.0)
    _, full, _ = _components(WeightedSequences.of(CODES), 0.9)
    centred = indicators(CODES).transpose(0, 2, 1).reshape(40, -1)
    centred = centred - centred.mean(0)
    eigenvalues, vectors = np.linalg.eigh(centred.T @ centred / 40)
    eigenvalues, vectors = eigenvalues[::-1][:39], vectors[:, ::-1].T[:39, : 20 * 24]
    np.testing.assert_allclose(variances, eigenvalues, rtol=1e-4)
    np.testing.assert_allclose(full, variances[: len(full)])
    signal = np.maximum(1 - eigenvalues[20:].mean() / eigenvalues, 0.05)  # 19 of 39 are noise
    lengths = np.linalg.norm(outward, axis=1) / np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(lengths, (signal / signal.max()) ** 2, rtol=1e-3)


def test_equal_components_have_equal_weights():
    codes = np.zeros((6, 6), dtype=np.uint8)
    np.fill_diagonal(codes, 1)  # each sequence differs from all others alike
    _, variances, outward = _components(WeightedSequences.of(codes), 1.0)
    np.testing.assert_allclose(variances, variances[0], rtol=1e-5)
    assert np.square(outward).sum() == pytest.approx(5, rel=1e-5)


def test_clusters_are_preserved():
    sites = draw_symbols(MODEL.parameters.sites.mixed.T[None], np.random.default_rng(1).random((4000, 24)))
    assert connected_r(CODES, DRAWS[:4000]) > 0.5
    assert abs(connected_r(CODES, sites)) < 0.05


def test_draws_around_an_outlier_are_outliers():
    outlier = np.random.default_rng(5).integers(0, 20, (1, 24)).astype(np.uint8)
    codes = np.concatenate([CODES, outlier])
    rates = relative_substitution_rates(WeightedSequences.of(codes))
    assert rates.argmax() == 40
    assert rates.mean() == pytest.approx(0.9)
    model = latent(codes)
    assert model.parameters.substitution_rates.max() == 0.5
    drawn, source, _ = model.sample(20_000, np.random.default_rng(0))
    agreement = (drawn[:, None] == CODES[None, ::4]).mean((1, 2))
    assert agreement[source == 40].mean() < agreement[source < 40].mean() - 0.05


def test_density_sums_to_one():
    triples = np.array(list(itertools.product(range(GAP + 1), repeat=3)), dtype=np.uint8)
    model = latent(family(K=12, L=3))
    assert np.exp(model.log_density(triples)).sum() == pytest.approx(1, abs=1e-5)


def test_weights_of_zero_exclude_sequences_and_sources_keep_their_indices():
    weights = np.where(np.arange(40) % 4 == 1, 0.0, 1.0)
    masked, subset = latent(CODES, weights), latent(CODES[weights > 0])
    first, source, _ = masked.sample(300, np.random.default_rng(0))
    np.testing.assert_array_equal(first, subset.sample(300, np.random.default_rng(0)).values)
    assert set(source % 4) == {0, 2, 3}


def test_weighted_sequences_have_weighted_frequencies():
    weights = np.where(CODES[:, 0] == CODES[0, 0], 9.0, 1.0)
    model = latent(CODES, weights)
    there = CODES[:, 5] != GAP
    counted = weights[CODES[:, 5] == CODES[0, 5]].sum() / weights[there].sum()
    weighted = WeightedSequences.of(CODES, weights)
    sites = Sites.of(site_frequencies(weighted, 20), weighted.effective_size, PROTEIN)
    assert sites.counts[5, CODES[0, 5]] / sites.counts[5].sum() == pytest.approx(counted)
    np.testing.assert_array_equal(model.parameters.sites.pseudo, sites.pseudo)
    drawn, source, _ = model.sample(20_000, np.random.default_rng(0))
    error = np.abs(residue_frequencies(drawn) - model.parameters.sites.mixed)
    assert error.max() < 5 * 0.5 / np.sqrt(0.7 * 20_000) + 0.006
    expected = weights[::2].sum() / weights.sum()
    assert np.mean(source % 2 == 0) == pytest.approx(expected, abs=5 * 0.5 / np.sqrt(20_000))


def test_the_same_seed_gives_the_same_first_draws():
    again = latent(CODES).sample(300, np.random.default_rng(0))
    np.testing.assert_array_equal(again.values, DRAWS[:300])
    np.testing.assert_array_equal(again.source, SOURCE[:300])
    assert MODEL.sample(0, np.random.default_rng(0)).values.shape == (0, 24)


def test_a_bandwidth_of_one_makes_one_gaussian():
    model = latent(CODES, bandwidth=1.0)
    z = sample_kernels(
        model.parameters.memories, model.parameters.variances, 1.0, np.zeros((40, len(model.parameters.variances)))
    )
    assert not z.any()


def test_the_bandwidth_is_that_of_the_normal_reference_or_a_part_of_it(monkeypatch):
    monkeypatch.setattr(module, "MAX_DRAWS", 256)
    found = latent(family(K=12, L=6)).parameters
    d = len(found.variances)
    reference = (4 / ((d + 2) * 12)) ** (1 / (d + 4))
    assert found.bandwidth == pytest.approx(reference) or found.bandwidth in (reference / 2, reference / 4)


@pytest.mark.parametrize(("K", "L", "seed"), [(40, 24, 0), (12, 6, 0), (20, 12, 1), (20, 12, 2)])
def test_the_gain_gives_the_target_identity_to_its_tolerance(K, L, seed):
    found = latent(family(K=K, L=L, seed=seed)).parameters
    assert found.calibration.identity == pytest.approx(found.target_identity, abs=1e-3)


def test_residues_follow_the_stored_ones_also_where_one_cluster_lacks_most_of_them():
    """The second cluster has a residue at site 5 in one of four sequences. 20,000 draws, of which 12,400 have one
    there: five standard errors of 0.004, and the tolerance of calibration."""
    rng, second = np.random.default_rng(0), np.arange(40) % 2 == 1
    codes = rng.integers(0, 20, (2, 14))[np.arange(40) % 2]
    codes = np.where(rng.random(codes.shape) < 0.15, rng.integers(0, 20, codes.shape), codes).astype(np.uint8)
    codes[:, 5] = np.where(second, 7, 3)
    codes[second & (np.arange(40) % 8 != 1), 5] = GAP
    model = latent(codes)
    drawn = model.sample(20_000, np.random.default_rng(0)).values
    found = residue_frequencies(drawn)[5, [3, 7]]
    np.testing.assert_allclose(found, model.parameters.sites.mixed[5, [3, 7]], atol=5 * 0.004 + 0.006)


def test_an_odd_number_of_cysteines_is_as_rare_as_a_quarter_of_one_more_sequence_where_none_has_one():
    """Of 30 sequences with 0, 2 or 4 cysteines: 0.25/31 of 20,000 draws, within 4.5 standard errors."""
    rng, n = np.random.default_rng(0), np.arange(30)[:, None]
    codes = rng.integers(2, 20, (2, 8))[np.arange(30) % 2]
    codes = np.where(rng.random(codes.shape) < 0.3, rng.integers(2, 20, codes.shape), codes).astype(np.uint8)
    codes[:, [1, 4]] = np.where(n % 2 == 0, 1, codes[:, [1, 4]])
    codes[:, [6, 7]] = np.where(n % 3 == 0, 1, codes[:, [6, 7]])
    drawn = latent(codes).sample(20_000, np.random.default_rng(0)).values
    expected = 0.25 / 31
    odd = ((drawn == 1).sum(1) % 2).mean()
    assert odd == pytest.approx(expected, abs=4.5 * np.sqrt(expected / 20_000))


@pytest.mark.slow
def test_near_copies_get_a_small_bandwidth():
    codes = np.repeat(family(K=10, L=24, seed=2), 4, axis=0)
    codes[np.arange(40), np.arange(40) % 24] = 3
    model, usual = latent(codes), latent(codes, bandwidth=0.7)
    # A bandwidth of 0.7 keeps draws from coming as near as copies are to each other, 0.93.
    first, second = usual.parameters.calibration.identity, model.parameters.calibration.identity
    assert first < model.parameters.target_identity - 0.05
    assert second == pytest.approx(model.parameters.target_identity, abs=module.TOLERANCE)
    assert model.parameters.bandwidth < usual.parameters.bandwidth


def test_calibration_takes_steps_as_long_as_the_response_asks_for(monkeypatch):
    rng = np.random.default_rng(0)
    x, wanted = rng.normal(size=(400, 21 * 3)).astype(np.float32), rng.dirichlet(np.ones(21), 3).T
    guess = np.log(wanted).ravel().astype(np.float32)
    monkeypatch.setattr(module, "MAX_ROUNDS", 6)  # steps of log(wanted/mean) alone would need 16
    _, found = _calibrate_bias(x, 6.0, wanted, np.full((400, 3), 1 / 400, np.float32), guess)
    np.testing.assert_allclose(found.mean(0), wanted, atol=1e-3)


def test_two_sequences_are_crossed():
    model = latent(CODES[:2])
    drawn, _, _ = model.sample(2000, np.random.default_rng(0))
    either = (drawn == CODES[0]) | (drawn == CODES[1])
    assert either.mean() > 0.5
    assert not (drawn == CODES[0]).all(1).any()


def test_draws_from_identical_sequences_change_all_columns_together_at_most_as_often_as_jeffreys_estimate():
    drawn, _, _ = latent(np.repeat(CODES[:1], 6, axis=0)).sample(20_000, np.random.default_rng(0))
    sites = CODES[0] != GAP
    changed = ((drawn != CODES[0]) & (drawn != GAP))[:, sites].any(1).mean()
    assert 0 < changed < 0.5 / 7 + 5 * np.sqrt(0.07 / 20_000)


def test_identical_sequences_need_no_gain():
    assert latent(np.repeat(CODES[:1], 6, axis=0)).parameters.calibration.gain == 0


def test_invariant_columns_are_not_substituted():
    codes = CODES.copy()
    codes[:, 2], codes[:, 3] = 0, 7
    model = latent(codes)
    rates = model.parameters.substitution_rates
    assert not rates[:, [2, 3]].any()
    assert rates[:, 4].any()
    drawn, _, _ = model.sample(2000, np.random.default_rng(0))
    assert (drawn[:, [2, 3]] == [0, 7]).all(1).mean() > 0.97


def test_constant_and_gap_sites_are_preserved():
    codes = CODES.copy()
    codes[:, 3], codes[:, 9] = 7, GAP
    drawn, _, _ = latent(codes).sample(2000, np.random.default_rng(0))
    assert (drawn[:, 3] == 7).mean() > 0.97
    assert (drawn[:, 9] == GAP).mean() > 0.9


def test_conditions_are_exact_and_keep_the_site_law():
    weights = np.where(np.arange(40) % 4 == 1, 0.0, 1.0 + (np.arange(40) < 5))
    codes = CODES.copy()
    codes[:, 5] = 7
    mixture = latent(codes, weights).condition({3: int(CODES[4, 3]), 9: GAP})
    drawn, source, _ = mixture.sample(2000, np.random.default_rng(0))
    assert (drawn[:, [3, 9]] == [CODES[4, 3], GAP]).all()
    assert set(source % 4) <= {0, 2, 3}
    assert (drawn[:, 5] == 7).mean() > 0.97
    assert np.isfinite(mixture.log_density(drawn)).all()


def test_the_description_names_the_identity_and_its_target():
    summary = MODEL.describe().summary
    assert f"{MODEL.parameters.calibration.identity:.3f}" in summary
    assert f"{MODEL.parameters.target_identity:.3f}" in summary


@pytest.mark.slow
@pytest.mark.skipif("STOCHATTN_DATA" not in os.environ, reason="needs real alignments: set STOCHATTN_DATA")
@pytest.mark.parametrize("name", ["PF00076_seed.sto", "PF00014_seed.sto"])
def test_half_of_a_pfam_family_predicts_the_other(name):
    from benchmarks.protein_measures import cross_fitted_ks
    from stochattn.evaluation import nearest_neighbor_accuracy, splits

    whole = stochattn.fit(Path(os.environ["STOCHATTN_DATA"]) / "pfam" / name).codec.stored
    figures = []
    for split in splits(len(whole), 3):
        stored, held_out = whole[split.stored], whole[split.held_out]
        new, _, _ = latent(stored).sample(len(held_out), np.random.default_rng(0))
        identity, true = (nearest_identity(codes, stored)[1] for codes in (new, held_out))
        accuracy = nearest_neighbor_accuracy(*(indicators(codes).reshape(len(codes), -1) for codes in (held_out, new)))
        figures.append(
            (cross_fitted_ks(new, held_out), identity.mean() - true.mean(), np.mean(accuracy), identity.max())
        )
    # Three splits of some 40 sequences: limits wider than what the benchmark finds over five. True sequences have a KS
    # of 0.2, and independent sites one of 0.5 on PF00076.
    ks, excess, accuracy, highest = np.mean(figures, axis=0)
    assert ks < 0.42
    assert abs(excess) < 0.05
    assert accuracy < 0.78
    assert highest < 0.8
