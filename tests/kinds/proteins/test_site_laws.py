"""Site laws: the priors against HMMER's profiles, discounts by another route, balanced errors and their choice."""

import numpy as np
import pytest

from stochattn.core.neighbors import spaced_indices
from stochattn.kinds.proteins.generator import sequences as site_laws
from stochattn.kinds.proteins.generator.sequences import GAP, NUCLEOTIDE, PROTEIN, Discount, Sites, WeightedSequences


def sites_of(sequences, prior):
    """Their sites."""
    return Sites.of(site_laws.residue_frequencies(sequences, prior.n_letters), sequences.effective_size, prior)


ALPHABETS = {"amino": (PROTEIN, "ACDEFGHIKLMNPQRSTVWY"), "dna": (NUCLEOTIDE, "ACGT")}


@pytest.mark.parametrize("name", ALPHABETS)
def test_posterior_means_are_those_of_hmmer(name):
    hmmer = pytest.importorskip("pyhmmer")
    prior, letters = ALPHABETS[name]
    alphabet = getattr(hmmer.easel.Alphabet, name)()
    codes = np.random.default_rng(0).integers(0, len(letters), (7, 12))
    codes[:, 3], codes[:5, 4] = 2, 1
    texts = ["".join(letters[code] for code in row) for row in codes]
    rows = [hmmer.easel.TextSequence(name=f"{i}".encode(), sequence=text) for i, text in enumerate(texts)]
    alignment = hmmer.easel.TextMSA(name=b"made", sequences=rows).digitize(alphabet)
    builder = hmmer.plan7.Builder(alphabet, weighting="none", effective_number="none")
    profile = builder.build_msa(alignment, hmmer.plan7.Background(alphabet))[0]
    sites = sites_of(WeightedSequences.of(codes.astype(np.uint8)), prior)
    share, pseudo = sites.prior_share, sites.prior_pseudo
    found = (1 - share)[:, None] * sites.counts / 7 + share[:, None] * pseudo
    np.testing.assert_allclose(found, np.array(profile.match_emissions)[1:], atol=1e-6)
    np.testing.assert_allclose(sites.theta / (7 + sites.theta), share)


def test_laws_are_distributions_also_where_no_sequence_has_a_residue():
    codes = np.random.default_rng(0).integers(0, 20, (9, 6)).astype(np.uint8)
    codes[:, 2], codes[:5, 3] = GAP, GAP
    sequences = WeightedSequences.of(codes, np.arange(1.0, 10.0))
    laws = [sites_of(sequences, PROTEIN).mix(Discount(d, s)) for d in (0.0, 0.5, 1.0) for s in (0.0, 1.0)]
    for law in (*laws, site_laws.fit_sites(sequences, PROTEIN)):
        np.testing.assert_allclose(law.mixed.sum(1), 1)
        assert (law.mixed > 0).all()
        np.testing.assert_allclose(law.frequencies.sum(1), 1)
        assert law.share[2] == 1  # no sequence has a residue there


def test_a_discount_is_taken_from_each_residue_and_given_to_what_replaces_it():
    # At site 0 residue 0 is seen 6 times and residue 1 twice; at site 1 residues 0 and 2 replace each other.
    codes = np.array([[0, 0], [0, 0], [0, 0], [0, 2], [0, 2], [0, 2], [1, 2], [1, GAP]], dtype=np.uint8)
    sites = sites_of(WeightedSequences.of(codes), PROTEIN)
    law = sites.mix(Discount(0.75, 0.0))
    assert law.share[0] == pytest.approx(2 * 0.75 / 8)
    np.testing.assert_allclose(law.frequencies[0, :2], np.array([5.25, 1.25]) / 6.5)
    np.testing.assert_allclose(law.share[1], 2 * 0.75 / 7)
    # With composition p over q = 20 letters, exchanges of 0 are 6·2 with 1 and 3·4 with 2, over 8 sequences.
    p = np.full(20, 1.0)
    p[:3] += [9, 2, 4]
    p /= 35
    pairs = np.zeros((20, 20))
    pairs[0, 1] = pairs[1, 0] = 6 * 2 / 8
    pairs[0, 2] = pairs[2, 0] = 3 * 4 / 8
    pairs += 10 * np.outer(p, p)
    np.fill_diagonal(pairs, 0)
    rows = pairs / pairs.sum(1, keepdims=True)
    np.testing.assert_allclose(sites.exchanged[0], 0.75 * rows[0] + 0.25 * rows[1])
    np.testing.assert_allclose(law.pseudo, (sites.prior_pseudo + sites.exchanged) / 2)
    scaled = sites.mix(Discount(0.75, 2.0))
    np.testing.assert_allclose(scaled.share[0], (2 * sites.theta[0] + 1.5) / (8 + 2 * sites.theta[0]))


def family_of_sites(K, L, seed, evenness=0.15):
    """Sequences with independent sites, each of which has a few common residues and many rare ones."""
    rng = np.random.default_rng(seed)
    laws = rng.dirichlet(np.full(20, evenness), L)
    return np.stack([rng.choice(20, size=K, p=law) for law in laws], axis=1).astype(np.uint8)


def agreement(a, b):
    """Σ_i Σ_a a_i(a) b_i(a), the expected number of sites at which draws from both have the same residue."""
    return float((a * b).sum())


def test_two_draws_agree_more_by_as_much_as_draws_and_sequences_left_out_agree_less():
    codes = family_of_sites(12, 30, 0)
    sequences = WeightedSequences.of(codes)
    discount = site_laws.choose_discount(sequences, PROTEIN)
    assert discount.counts > 0
    pairs = np.mean([(codes[a] == codes[b]).sum() for a in range(12) for b in range(12) if a != b])
    law = sites_of(sequences, PROTEIN).mix(discount).mixed
    missing = []
    for k in range(12):
        others = sites_of(WeightedSequences.of(np.delete(codes, k, axis=0)), PROTEIN).mix(discount).mixed
        missing.append(pairs - agreement(others, np.eye(20)[codes[k]]))
    assert agreement(law, law) - pairs == pytest.approx(np.mean(missing), abs=0.01)


def test_errors_are_balanced_among_weighted_sequences_with_gaps():
    """By loops over pairs of sequences, and over sequences left out, at the sites where both have a residue."""
    rng = np.random.default_rng(3)
    codes = family_of_sites(7, 12, 3)
    codes[rng.random(codes.shape) < 0.2] = GAP
    sequences = WeightedSequences.of(codes, rng.uniform(0.5, 2.0, 7))
    w = sequences.weights
    discount = site_laws.choose_discount(sequences, PROTEIN)
    mixed = sites_of(sequences, PROTEIN).mix(discount).mixed
    drawn, pairs, missing, places = 0.0, 0.0, 0.0, 0.0
    for k in range(7):
        others, theirs = np.delete(codes, k, axis=0), np.delete(w, k) / (1 - w[k])
        law = sites_of(WeightedSequences.of(others, theirs), PROTEIN).mix(discount).mixed
        for i in np.flatnonzero(codes[k] != GAP):
            occupied, equal = theirs[others[:, i] != GAP].sum(), theirs[others[:, i] == codes[k, i]].sum()
            pairs += w[k] * (1 - w[k]) * occupied
            drawn += w[k] * (1 - w[k]) * (occupied * np.square(mixed[i]).sum() - equal)
            places += w[k] * occupied
            missing += w[k] * (equal - occupied * law[i, codes[k, i]])
    assert 0 < discount.scale < 4
    assert drawn / pairs == pytest.approx(missing / places, abs=1e-5)


def test_sequences_unlike_each_other_have_at_most_four_times_the_pseudo_counts_of_the_prior():
    unlike = WeightedSequences.of(family_of_sites(3, 10, 0, evenness=5.0))
    assert site_laws.choose_discount(unlike, PROTEIN) == Discount(1.0, 4.0)


def test_the_discount_is_the_most_likely_for_sequences_left_out(monkeypatch):
    codes = family_of_sites(12, 30, 1)
    sequences = WeightedSequences.of(codes)

    def log_likelihood(discount):
        total = 0.0
        for k in range(12):
            others = sites_of(WeightedSequences.of(np.delete(codes, k, axis=0)), PROTEIN).mix(discount).mixed
            total += np.log(others[np.arange(30), codes[k]]).sum()
        return total

    best = site_laws.choose_discount(sequences, PROTEIN)
    others = []
    for tenth in range(round(10 * best.counts) + 1):
        monkeypatch.setattr(site_laws, "DISCOUNTS", np.array([tenth / 10]))
        others.append(site_laws.choose_discount(sequences, PROTEIN))
    assert others[-1] == pytest.approx(best)
    assert all(log_likelihood(best) > log_likelihood(other) for other in others[:-1])
    assert len(others) > 3
    # What no sequence shows is drawn more often than under the Dirichlet mixture alone.
    sites = sites_of(sequences, PROTEIN)
    unseen = sites.counts == 0
    assert sites.mix(best).mixed[unseen].sum() > 1.2 * sites.mix(others[0]).mixed[unseen].sum()


def test_two_sequences_and_sequences_without_a_common_site_have_the_pseudo_counts_of_the_prior():
    assert site_laws.choose_discount(WeightedSequences.of(family_of_sites(2, 5, 0)), PROTEIN) == Discount(0.0, 1.0)
    apart = np.full((3, 3), GAP, dtype=np.uint8)
    np.fill_diagonal(apart, 4)
    assert site_laws.choose_discount(WeightedSequences.of(apart), PROTEIN) == Discount(0.0, 1.0)


def test_sequences_that_are_alike_lose_no_counts():
    alike = WeightedSequences.of(np.repeat(family_of_sites(1, 5, 0), 4, axis=0))
    assert site_laws.choose_discount(alike, PROTEIN).counts == 0


def test_a_common_site_of_sequences_that_are_not_left_out_is_not_enough():
    """Of 102 sequences, 100 are left out one by one, and not those two that have a residue at the same site."""
    apart = np.full((102, 101), GAP, dtype=np.uint8)
    pair = np.setdiff1d(np.arange(102), spaced_indices(102, site_laws.MAX_LEFT_OUT))
    apart[np.setdiff1d(np.arange(102), pair), np.arange(100)] = 4
    apart[pair, 100] = 4
    assert site_laws.choose_discount(WeightedSequences.of(apart), PROTEIN) == Discount(0.0, 1.0)


def test_weights_count_like_copies():
    codes = family_of_sites(6, 10, 2)
    weights = np.array([3.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    sites = sites_of(WeightedSequences.of(codes, weights), PROTEIN)
    copied = np.repeat(codes, weights.astype(int), axis=0)
    frequencies = np.stack([np.bincount(column, minlength=20) for column in copied.T]) / 8
    np.testing.assert_allclose(sites.counts / sites.counts.sum(1, keepdims=True), frequencies)
    assert sites.counts.sum(1) == pytest.approx(8**2 / 14)
