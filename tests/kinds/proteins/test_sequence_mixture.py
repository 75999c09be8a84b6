"""The exact law of new sequences against sums over all sequences and frequencies of draws: gaps, ties, parity, held."""

import itertools

import numpy as np
import pytest

from stochattn.kinds.proteins.generator.latent import CalibratedLatent
from stochattn.kinds.proteins.generator.mixture import SequenceMixture
from stochattn.kinds.proteins.generator.patterns import (
    GapDistribution,
    Tie,
    find_invariant_columns,
    find_ties,
    limit_changes,
    loss,
)
from stochattn.kinds.proteins.generator.sequences import GAP, WeightedSequences

LETTERS = 4
PATTERNS = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0], [0, 1, 1]], dtype=bool)
STORED = np.where(PATTERNS, GAP, [[0, 1, 2], [0, 2, 3], [1, 1, 2], [3, 3, 3], [0, 0, 1]]).astype(np.uint8)
ALL = np.array(list(itertools.product([0, 1, 2, 3, GAP], repeat=3)), dtype=np.uint8)
"""Every sequence of three sites and four letters."""


def law(**options):
    rng = np.random.default_rng(3)
    table = rng.dirichlet(np.ones(LETTERS), (7, 3)).transpose(0, 2, 1).astype(np.float32)
    gaps = GapDistribution.fit(WeightedSequences.of(STORED), np.zeros(3, dtype=bool))
    return SequenceMixture(np.array([0, 1, 2, 3, 4, 0, 1]), table, gaps, **options)


TIES = (Tie(np.array([0, 2]), np.array([1, 3])),)
PAIR = (Tie(np.array([0, 2]), np.array([1, 1])),)


@pytest.mark.parametrize("ties", [(), TIES, PAIR], ids=["no tie", "tie", "tie of one residue"])
@pytest.mark.parametrize("most", [None, 0.1], ids=["any parity", "mostly even"])
def test_the_density_is_that_of_the_draws(ties, most):
    model = law(ties=ties, broken=0.1)
    model = model if most is None else model.limit_odd_share(1, most)
    chances = np.exp(model.log_density(ALL))
    assert chances.sum() == pytest.approx(1, abs=1e-5)
    n = 60_000
    drawn, _ = model.draws.sample(n, np.random.default_rng(0))
    index = {tuple(row): i for i, row in enumerate(ALL.tolist())}
    observed = np.bincount([index[tuple(row)] for row in drawn.tolist()], minlength=len(ALL))
    rare = n * chances < 5
    expected = np.append(n * chances[~rare], n * chances[rare].sum() + 1e-9)
    counted = np.append(observed[~rare], observed[rare].sum())
    df = len(expected) - 1
    # χ² beyond four standard deviations has a chance of about 1 in 10,000 under the law.
    assert (((counted - expected) ** 2 / expected).sum() - df) / np.sqrt(2 * df) < 4
    if most is not None:
        odd = ((drawn == 1).sum(1) % 2).mean()
        assert odd < most + 0.03  # gap patterns that are not stored are not part of the estimate


@pytest.mark.parametrize("most", [1e-4, 0.02, 0.2])
def test_without_gaps_the_share_of_odd_numbers_of_a_residue_is_the_one_asked_for(most):
    no_gaps = GapDistribution(np.zeros((1, 3), dtype=bool), np.zeros(3), np.zeros(3), 1e-12)
    table = np.random.default_rng(3).dirichlet(np.ones(LETTERS), (7, 3)).transpose(0, 2, 1).astype(np.float32)
    model = SequenceMixture(np.zeros(7, dtype=int), table, no_gaps, (), 0.1)
    whole = ALL[(ALL != GAP).all(1)]
    odd = (whole == 1).sum(1) % 2 == 1
    assert np.exp(model.log_density(whole))[odd].sum() > most
    chances = np.exp(model.limit_odd_share(1, most).log_density(whole))
    assert chances.sum() == pytest.approx(1, abs=1e-5)
    assert chances[odd].sum() == pytest.approx(most, rel=1e-4)
    assert model.limit_odd_share(1, 0.99) is model


def test_the_first_draws_do_not_depend_on_how_many_are_drawn():
    model = law(ties=TIES, broken=0.1).limit_odd_share(1, 0.1)
    few, many = (model.draws.sample(n, np.random.default_rng(1)) for n in (5, 3000))
    np.testing.assert_array_equal(few[0], many[0][:5])
    np.testing.assert_array_equal(few[1], many[1][:5])


def test_gap_patterns_are_a_law_and_keep_the_length_of_runs():
    rng = np.random.default_rng(0)
    gaps = np.zeros((30, 40), dtype=bool)
    for row in gaps[::2]:
        begin = rng.integers(0, 30)
        row[begin : begin + 8] = True
    codes = np.where(gaps, GAP, 3).astype(np.uint8)
    model = GapDistribution.fit(WeightedSequences.of(codes), np.zeros(40, dtype=bool))
    drawn = model.sample(np.arange(6000) % 30, rng.random(6000) < model.mixing, rng.random((6000, 40)))
    lengths = [
        pattern.sum() / (pattern & ~np.pad(pattern, ((0, 0), (1, 0)))[:, :-1]).sum() for pattern in (gaps, drawn)
    ]
    assert lengths[1] / lengths[0] == pytest.approx(1, abs=0.1)
    np.testing.assert_allclose(drawn.mean(0), model.probabilities.mean(0), atol=5 * 0.5 / np.sqrt(6000))
    small = GapDistribution.fit(WeightedSequences.of(STORED), np.zeros(3, dtype=bool))
    every = np.array(list(itertools.product([False, True], repeat=3)))
    np.testing.assert_allclose(np.exp(small.log_chain(every)).sum(), 1)


def test_invariant_columns_change_all_together_as_rarely_as_estimated():
    codes = np.tile(np.arange(10, dtype=np.uint8), (8, 1))
    codes[0, 9], codes[1, 8] = 3, GAP
    held = find_invariant_columns(WeightedSequences.of(codes))
    np.testing.assert_array_equal(held, [*range(9), -1])
    mixed = np.full((10, 20), 0.1 / 19)
    mixed[np.arange(10), np.arange(10)] = 0.9
    kept = limit_changes(mixed, held, 8)
    np.testing.assert_allclose(kept.sum(1), 1)
    assert np.prod(kept[np.arange(9), np.arange(9)]) == pytest.approx(1 - loss(8))
    np.testing.assert_allclose(kept[9], mixed[9])


def test_columns_are_held_where_most_sequences_have_one_residue_and_no_other():
    columns = ["AAAAAAAAAA", "AAAAAA----", "AAAAA-----", "A---------", "----------", "CAAAAAAAAA", "CCCCCCCCCC"]
    codes = np.array([["AC-".index(letter) for letter in column] for column in columns]).T
    codes = np.where(codes == 2, GAP, codes).astype(np.uint8)
    np.testing.assert_array_equal(find_invariant_columns(WeightedSequences.of(codes)), [0, 0, -1, -1, -1, -1, 1])


def test_ties_are_residues_that_at_least_half_of_the_sequences_have_together():
    rng = np.random.default_rng(0)
    for n_present, n_ties in ((10, 1), (9, 0), (19, 1)):
        codes = rng.integers(2, 20, (20, 6)).astype(np.uint8)
        codes[:n_present, [1, 4]] = 1
        codes[n_present:, [1, 4]] = np.arange(2, 22 - n_present)[:, None] % 20  # the others all differ
        ties = find_ties(WeightedSequences.of(codes), 20)
        assert len(ties) == n_ties
        assert all(tie.sites.tolist() == [1, 4] and tie.residues.tolist() == [1, 1] for tie in ties)
    for residue in (0, 5):
        held = np.full((20, 6), residue, dtype=np.uint8)
        assert find_ties(WeightedSequences.of(held), 20) == ()  # held columns are no ties


def test_residues_that_come_together_are_drawn_together():
    rng = np.random.default_rng(1)
    codes = rng.integers(2, 20, (40, 12)).astype(np.uint8)
    codes[:, [2, 7]] = 1  # a bond that all but six sequences have
    codes[:6, 2], codes[:6, 7] = rng.integers(2, 20, (2, 6))
    sequences = WeightedSequences.of(codes)
    (tie,) = find_ties(sequences, 20)
    np.testing.assert_array_equal(tie.sites, [2, 7])
    model = CalibratedLatent(sequences)
    drawn = model.sample(10_000, np.random.default_rng(0)).values
    first, second = drawn[:, 2] == 1, drawn[:, 7] == 1
    # Drawn one by one, 25 % would have one of the two. A tie is broken in loss(40) = 1.2 % of draws.
    assert (first != second).mean() < 0.01
    assert first.mean() == pytest.approx(model.parameters.sites.mixed[[2, 7], 1].mean(), abs=0.03)
    assert ((drawn == 1).sum(1) % 2).mean() < 0.02


def counted_rates(gaps, w, size):
    """How often gaps open and extend at each site, by counting pairs of neighbouring sites, with one pseudo-count."""
    counts = np.zeros((2, 2, gaps.shape[1]))  # before, now, site
    for row, weight in zip(gaps, w, strict=True):
        for i, now in enumerate(row):
            counts[int(row[i - 1]) if i else 0, int(now), i] += size * weight
    usual = [(counts[before, 1].sum() + 0.5) / (counts[before].sum() + 1) for before in (0, 1)]
    return [(counts[before, 1] + usual[before]) / (counts[before].sum(0) + 1) for before in (0, 1)]


def weighted_gaps(seed=4):
    rng = np.random.default_rng(seed)
    patterns = rng.random((6, 5)) < 0.3
    gaps = patterns[rng.integers(0, 6, 20)]
    gaps[::9] = rng.random((3, 5)) < 0.4
    gaps[:, 4] = False
    return gaps, WeightedSequences.of(np.where(gaps, GAP, 2).astype(np.uint8), rng.uniform(0.5, 2, 20))


def test_gaps_open_and_extend_as_often_as_they_do_at_each_site():
    gaps, sequences = weighted_gaps()
    held = np.arange(5) == 4
    found = GapDistribution.fit(sequences, held)
    opening, extending = counted_rates(gaps, sequences.weights, sequences.effective_size)
    np.testing.assert_allclose(found.opening[:4], opening[:4])
    np.testing.assert_allclose(found.extending[:4], extending[:4])
    # The held column has no gap; it has one as rarely as what no sequence shows, at most.
    least = loss(sequences.effective_size)
    assert found.opening[4] == pytest.approx(min(opening[4], least))
    assert found.extending[4] == pytest.approx(min(extending[4], least))
    before, expected = 0.0, []
    for p, q in zip(found.opening, found.extending, strict=True):
        before = (1 - before) * p + before * q
        expected.append(before)
    np.testing.assert_allclose(found.marginals, expected)


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_stored_and_chained_patterns_are_mixed_as_patterns_left_out_prefer(seed):
    """The likeliest share of the chain, from a fine grid, for patterns left out one by one; at most one half."""
    gaps, sequences = weighted_gaps(seed)
    w, size = sequences.weights, sequences.effective_size
    matches, chains = np.empty(20), np.empty(20)
    for k in range(20):
        others, theirs = np.delete(gaps, k, axis=0), np.delete(w, k) / (1 - w[k])
        opening, extending = counted_rates(others, theirs, size)
        matches[k] = sum(v for v, row in zip(theirs, others, strict=True) if (row == gaps[k]).all())
        before, chains[k] = False, 1.0
        for i, gap in enumerate(gaps[k]):
            p = extending[i] if before else opening[i]
            chains[k] *= p if gap else 1 - p
            before = gap
    grid = np.linspace(0.001, 0.5, 2000)
    likelihood = w @ np.log((1 - grid) * matches[:, None] + grid * chains[:, None])
    found = GapDistribution.fit(sequences, np.zeros(5, dtype=bool)).mixing
    assert found == pytest.approx(max(grid[likelihood.argmax()], loss(size)), abs=2e-3)


def test_invariant_columns_without_gaps_share_the_loss_and_never_more_than_half_of_the_patterns_are_new():
    rng = np.random.default_rng(0)
    gaps = rng.random((12, 9)) < 0.4  # as good as all patterns differ
    gaps[:, :2] = False
    sequences = WeightedSequences.of(np.where(gaps, GAP, 3).astype(np.uint8))
    found = GapDistribution.fit(sequences, np.arange(9) < 2)
    np.testing.assert_allclose(found.opening[:2], loss(12) / 2)
    assert found.mixing == 0.5
    opening, _ = counted_rates(gaps, sequences.weights, 12)
    assert opening[0] > loss(12) / 2
    one = GapDistribution.fit(sequences, np.arange(9) < 1)
    np.testing.assert_allclose(one.opening[:2], [min(opening[0], loss(12)), opening[1]])
    two = np.where((np.arange(9) % 2 == 1) & (np.arange(12) < 6)[:, None], GAP, 3)  # patterns that no chain explains
    few = GapDistribution.fit(WeightedSequences.of(two.astype(np.uint8)), np.zeros(9, dtype=bool))
    assert few.mixing == pytest.approx(loss(12))
