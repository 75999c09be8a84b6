"""Site laws: the priors against HMMER's profiles, and the choice between the two rules."""

import numpy as np
import pytest

from stochattn.generators import site_laws
from stochattn.generators.sequences import GAP, WeightedSequences
from stochattn.generators.site_priors import NUCLEOTIDE, PROTEIN

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
    found = site_laws.dirichlet_law(WeightedSequences.of(codes.astype(np.uint8)), prior).mixed
    np.testing.assert_allclose(found, np.array(profile.match_emissions)[1:], atol=1e-6)


def test_laws_are_distributions_also_where_no_sequence_has_a_residue():
    codes = np.random.default_rng(0).integers(0, 20, (9, 6)).astype(np.uint8)
    codes[:, 2], codes[:5, 3] = GAP, GAP
    sequences = WeightedSequences.of(codes, np.arange(1.0, 10.0))
    for law in (site_laws.plain_law(sequences, PROTEIN), site_laws.dirichlet_law(sequences, PROTEIN)):
        np.testing.assert_allclose(law.mixed.sum(1), 1)
        assert (law.mixed > 0).all()


def test_the_rule_is_chosen_by_sequences_left_out():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 20, (20, 30)).astype(np.uint8)
    codes[:, :25] = np.arange(25) % 20  # many conserved sites, which one share for all sites would damage
    sequences = WeightedSequences.of(codes)
    assert site_laws.fit_site_law(sequences, PROTEIN).rule == "Dirichlet"
    scores = {}
    for rule in (site_laws.plain_law, site_laws.dirichlet_law):
        scores[rule.__name__] = 0.0
        for k in range(20):
            others = WeightedSequences.of(np.delete(codes, k, axis=0))
            scores[rule.__name__] += np.log(rule(others, PROTEIN).mixed[np.arange(30), codes[k]]).sum()
    assert scores["dirichlet_law"] > scores["plain_law"]
