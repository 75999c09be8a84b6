"""New sequences given symbols of some sites: against sums over all sequences, and against draws that happen to fit."""

import itertools

import numpy as np
import pytest

from made_items import family
from stochattn.kinds.proteins.generator import mixture as sequence_mixture
from stochattn.kinds.proteins.generator.latent import CalibratedLatent
from stochattn.kinds.proteins.generator.mixture import ConditionedSequences, SequenceMixture
from stochattn.kinds.proteins.generator.patterns import GapDistribution, Tie
from stochattn.kinds.proteins.generator.sequences import GAP, NUCLEOTIDE, WeightedSequences

LETTERS, L = 3, 6
GAPS = [[], [1, 2], [0], [4, 5], [1, 2, 3]]
PATTERNS = np.array([[i in sites for i in range(L)] for sites in GAPS])
STORED = np.where(PATTERNS, GAP, np.arange(5 * L).reshape(5, L) // 2 % LETTERS).astype(np.uint8)
ALL = np.array(list(itertools.product([0, 1, 2, GAP], repeat=L)), dtype=np.uint8)
"""Every sequence of six sites and three letters."""
TIES = (Tie(np.array([0, 3]), np.array([1, 1])), Tie(np.array([1, 4]), np.array([2, 0])))
"""Two ties that overlap. Of the residue whose parity counts, 1, the first has two."""
GIVEN = {
    "nothing": {},
    "a residue": {2: 1},
    "a gap": {2: GAP},
    "a residue of a tie": {0: 1},
    "another residue in a tie": {0: 2},
    "a gap in a tie": {3: GAP},
    "a gap and the residue of a tie": {0: 1, 3: GAP},
    "both residues of a tie": {0: 1, 3: 1},
    "both residues of the other tie": {1: 2, 4: 0},
    "one of two residues of a tie": {0: 1, 3: 0},
    "residues of two ties": {0: 1, 4: 0, 2: 2},
    "all sites": {0: 1, 1: 2, 2: 1, 3: 1, 4: GAP, 5: 0},
}


def law(ties=TIES, most=None, never=()):
    """never: components that do not have the first residue of the first tie."""
    rng = np.random.default_rng(5)
    table = rng.dirichlet(np.ones(LETTERS), (6, L)).transpose(0, 2, 1).astype(np.float32)
    table[list(never), 1, 0] = 0.0
    table /= table.sum(1, keepdims=True)
    gaps = GapDistribution.fit(WeightedSequences.of(STORED), np.zeros(L, dtype=bool))
    found = SequenceMixture(np.array([0, 1, 2, 3, 4, 0]), table, gaps, ties, broken=0.1)
    return found if most is None else found.limit_odd_share(1, most)


THREE = (Tie(np.array([0, 3, 5]), np.array([1, 1, 2])),)
"""A tie of an odd number of sites, which leaves an odd number of others."""
LAWS = {
    "independent": law(()),
    "ties": law(),
    "ties and parity": law(most=0.05),
    "a tie of three and parity": law(THREE, most=0.05),
    "a tie that some components never have": law(never=(0, 3)),
}


def conditioned(model, given):
    return ConditionedSequences(WeightedSequences.of(STORED), model, np.full(L, -1)).condition(given)


def meets(codes, given):
    return np.all([codes[:, site] == code for site, code in given.items()] or np.ones((1, len(codes)), bool), axis=0)


def counts(codes):
    digits = np.where(codes == GAP, LETTERS, codes).astype(int)
    return np.bincount(digits @ (LETTERS + 1) ** np.arange(L)[::-1], minlength=len(ALL))


def deviation(observed, chances):
    """(χ² − df)/√(2 df), cells with fewer than five expected are pooled; about 1 in 10,000 is above 4 under the law."""
    expected = chances * observed.sum()
    assert not observed[expected == 0].any()
    rare = expected < 5
    pooled = [np.append(x[~rare], x[rare].sum() + 1e-9) for x in (observed, expected)]
    df = max(len(pooled[0]) - 1, 1)
    return (((pooled[0] - pooled[1]) ** 2 / pooled[1]).sum() - df) / np.sqrt(2 * df)


@pytest.mark.parametrize("model", LAWS.values(), ids=LAWS)
def test_the_law_before_a_condition_adds_up_to_one_and_is_that_of_its_draws(model):
    chances = np.exp(model.log_density(ALL))
    assert chances.sum() == pytest.approx(1, abs=1e-5)
    assert deviation(counts(model.draws.sample(60_000, np.random.default_rng(0))[0]), chances) < 4


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("model", LAWS.values(), ids=LAWS)
def test_the_density_is_that_of_all_sequences_that_fit(model, given):
    joint = np.where(meets(ALL, given), np.exp(model.log_density(ALL)), 0.0)
    found = conditioned(model, given)
    assert found.posterior.log_evidence == pytest.approx(np.log(joint.sum()), abs=2e-5)  # probabilities are float32
    np.testing.assert_allclose(np.exp(found.log_density(ALL)), joint / joint.sum(), rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("model", LAWS.values(), ids=LAWS)
def test_draws_have_the_density(model, given):
    """20,000 draws; `test_a_wrong_law_would_be_noticed` shows what this can tell apart."""
    joint = np.where(meets(ALL, given), np.exp(model.log_density(ALL)), 0.0)
    drawn = conditioned(model, given).sample(20_000, np.random.default_rng(1)).values
    assert deviation(counts(drawn), joint / joint.sum()) < 4


@pytest.mark.parametrize("given", [GIVEN["a residue"], GIVEN["a residue of a tie"], GIVEN["a gap in a tie"]])
def test_draws_are_those_of_the_unconditioned_law_that_fit(given):
    """Two samples, χ² by cells; with some 10,000 in each, shares that differ by 0.03 are told apart."""
    model = LAWS["ties and parity"]
    drawn = model.draws.sample(60_000, np.random.default_rng(2))[0]
    kept = counts(drawn[meets(drawn, given)])
    new = counts(conditioned(model, given).sample(int(kept.sum()), np.random.default_rng(3)).values)
    assert kept.sum() > 2000
    some = kept + new >= 10
    df = int(some.sum()) - 1
    statistic = (np.square(kept - new)[some] / (kept + new)[some]).sum()
    assert (statistic - df) / np.sqrt(2 * df) < 4


def test_a_wrong_law_would_be_noticed():
    """The power of the χ² above: laws in which one part of Bayes' rule is missing are rejected, by 8 or more."""
    model, given = LAWS["ties and parity"], {0: 1, 1: 0}
    right = np.where(meets(ALL, given), np.exp(model.log_density(ALL)), 0.0)
    observed = counts(conditioned(model, given).sample(20_000, np.random.default_rng(4)).values)
    assert deviation(observed, right / right.sum()) < 4
    for other in (law(most=0.2), law(most=None), law((), most=0.05)):
        wrong = np.where(meets(ALL, given), np.exp(other.log_density(ALL)), 0.0)
        assert deviation(observed, wrong / wrong.sum()) > 8
    overwritten = model.draws.sample(20_000, np.random.default_rng(5))[0]  # components keep their weight
    for site, code in given.items():
        overwritten[:, site] = code
    assert deviation(counts(overwritten), right / right.sum()) > 8


def test_conditions_in_two_steps_are_one_condition():
    model = LAWS["ties and parity"]
    steps = conditioned(model, {0: 1}).condition({2: 1, 0: 1})
    once = conditioned(model, {0: 1, 2: 1})
    np.testing.assert_array_equal(steps.log_density(ALL), once.log_density(ALL))
    few, many = (once.sample(n, np.random.default_rng(0)).values for n in (7, 1500))
    np.testing.assert_array_equal(few, many[:7])


def test_nothing_given_is_the_law_itself():
    model = CalibratedLatent(WeightedSequences.of(family(K=20, L=12)))
    codes = model.condition({}).sample(50, np.random.default_rng(0)).values
    np.testing.assert_array_equal(codes, model.sample(50, np.random.default_rng(0)).values)
    assert "given" not in model.condition({}).describe().summary


def test_residues_that_no_stored_sequence_has_are_possible():
    codes = family(K=20, L=12)
    model = CalibratedLatent(WeightedSequences.of(codes))
    unseen = next(code for code in range(GAP) if code not in codes[:, 4])
    given = model.condition({4: unseen})
    drawn = given.sample(3000, np.random.default_rng(0))
    assert (drawn.values[:, 4] == unseen).all()
    assert np.isfinite(given.log_density(drawn.values)).all()
    share = np.exp(given.posterior.log_evidence)
    free = model.sample(200_000, np.random.default_rng(1)).values
    n_found = (free[:, 4] == unseen).sum()
    assert abs(n_found - 200_000 * share) < 5 * np.sqrt(200_000 * share)
    assert n_found > 20
    kept = codes[codes[:, 4] == codes[0, 4]]  # what is given decides about the stored sequences around which draws are
    sources = model.condition({4: int(codes[0, 4])}).sample(3000, np.random.default_rng(0)).source
    assert np.isin(sources, np.flatnonzero(codes[:, 4] == codes[0, 4])).mean() > len(kept) / len(codes) + 0.1


def test_a_condition_that_one_sequence_explains_is_told():
    codes = family(K=20, L=12)
    model = CalibratedLatent(WeightedSequences.of(codes))
    summary = model.condition({i: int(codes[3, i]) for i in range(10)}).describe()
    assert "given 10 conditioned sites (exact)" in summary.summary
    assert "stored sequence explains the condition" in summary.notes[0]
    assert not model.condition({0: int(codes[3, 0])}).describe().notes
    assert "given 1 conditioned site (exact)" in model.condition({0: int(codes[3, 0])}).describe().summary


def test_impossible_conditions_are_an_error(monkeypatch):
    model = CalibratedLatent(WeightedSequences.of(family(K=6, L=4) % 4), prior=NUCLEOTIDE)
    with pytest.raises(ValueError, match=r"shape \(n, 4\)"):
        model.condition({1: 2}).log_density(STORED)
    unbroken = SequenceMixture(LAWS["ties"].memory, LAWS["ties"].probabilities, LAWS["ties"].gaps, TIES)
    with pytest.raises(ValueError, match="cannot occur together"):
        conditioned(unbroken, {0: 1, 3: 0})
    monkeypatch.setattr(sequence_mixture, "MAX_TIES", 1)
    with pytest.raises(ValueError, match="at most 1 groups of residues that come together; got 2 groups"):
        conditioned(LAWS["ties"], GIVEN["residues of two ties"])
    conditioned(LAWS["ties"], GIVEN["both residues of a tie"])
