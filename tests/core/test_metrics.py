"""Metrics against brute force."""

import math

import numpy as np
import pytest

from banks import make_bank, to_library
from stochattn import MemoryBank, conditioning, metrics, neighbors


def cosine(x, y):
    return x @ y / math.sqrt((x @ x) * (y @ y))


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal((4, 6, 12))


def test_novelty_and_max_cosine(x, library):
    bank = make_bank("subset", library)
    kept = np.asarray(bank.patterns)[[0, 2, 3]]
    brute = np.array([[max(cosine(v, m) for m in kept) for v in chain] for chain in x])
    np.testing.assert_allclose(metrics.max_cosine(x, bank), brute, rtol=1e-12)
    np.testing.assert_allclose(metrics.novelty(x, bank), 1 - brute, rtol=1e-12)
    assert metrics.novelty(np.zeros(12), bank) == 1


def test_diversity_is_the_mean_over_pairs(x, library):
    rows = x.reshape(-1, 12)
    pairs = [1 - cosine(rows[i], rows[j]) for i in range(24) for j in range(i)]
    assert metrics.diversity(make_bank("unit", library).patterns * 0 + 1) == pytest.approx(0, abs=1e-12)
    assert metrics.diversity(x) == pytest.approx(np.mean(pairs), rel=1e-12)
    assert metrics.diversity([[1.0, 0.0], [0.0, 2.0]]) == pytest.approx(1.0)
    assert math.isnan(metrics.diversity(x[0, :1]))
    with pytest.raises(ValueError, match=r"xi must hold samples .*; got shape \(0,\)"):
        metrics.diversity([])
    with pytest.raises(ValueError, match="got a single number"):
        metrics.diversity(3.0)


def test_novelty_of_rows_leaves_out_their_own(monkeypatch):
    stored = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]])
    rows = np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    for block in (metrics.BLOCK_ENTRIES, 3):
        monkeypatch.setattr(metrics, "BLOCK_ENTRIES", block)
        np.testing.assert_allclose(metrics.cosine_novelty(rows, stored), [0, 0, 1])
        np.testing.assert_allclose(metrics.cosine_novelty(rows, stored, excluded=np.array([0, 0, 1])), [1, 0, 1])
        np.testing.assert_allclose(metrics.cosine_novelty(-stored[:1], stored[:2], excluded=np.array([1])), [2])


@pytest.mark.parametrize("K", [5000, 9000])
def test_masked_memories_are_no_cosine_of_zero(K, library):
    X = 1 + np.random.default_rng(0).random((K, 3))
    bank = conditioning.subset(MemoryBank(to_library(X, library)), [4, K - 1])
    expected = max(cosine(-np.ones(3), X[k]) for k in (4, K - 1))
    assert expected < -0.9
    assert metrics.max_cosine(-np.ones((1, 3)), bank) == pytest.approx(expected)


def test_nearest_memory(x, library, monkeypatch):
    bank = make_bank("subset", library)
    gaps = np.linalg.norm(x[:, :, None] - np.asarray(bank.patterns)[[0, 2, 3]], axis=-1)
    for block in (metrics.BLOCK_ENTRIES, 7):  # also with many blocks of rows
        monkeypatch.setattr(metrics, "BLOCK_ENTRIES", block)
        k, distance = neighbors.nearest_memory(x, bank)
        np.testing.assert_array_equal(k, np.array([0, 2, 3])[gaps.argmin(-1)])
        np.testing.assert_allclose(distance, gaps.min(-1))


def test_neighbor_distances_leave_one_out():
    X = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0], [3.0, 5.0 + 1e-9]])
    np.testing.assert_allclose(neighbors.neighbor_distances(MemoryBank(X)), [5, 1, 1e-9, 1e-9], rtol=1e-6)
    with pytest.raises(ValueError, match="at least two memories"):
        neighbors.neighbor_distances(MemoryBank(X[:1]))


def test_near_copies():
    bank = MemoryBank(np.eye(10) * 5)  # every neighbour is at √50
    samples = np.concatenate([bank.patterns + 0.01, bank.patterns[:5] + 3.0])  # the latter at 3√10 = 9.5
    assert metrics.near_copies(samples, bank) == pytest.approx(10 / 15)
    assert metrics.near_copies(samples, bank, threshold=1e-6) == 0


def test_frechet_diagonal():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((500, 3)), 1 + 2 * rng.standard_normal((400, 3))
    expected = sum(
        (a[:, j].mean() - b[:, j].mean()) ** 2 + (a[:, j].std(ddof=1) - b[:, j].std(ddof=1)) ** 2 for j in range(3)
    )
    assert metrics.frechet_diagonal(a, b) == pytest.approx(expected)
    with pytest.raises(ValueError, match="as many columns as xi, 3; got 2"):
        metrics.frechet_diagonal(a, b[:, :2])


def test_summary_follows_the_tables_protocol(x, library):
    bank = make_bank("unit", library)
    summary = metrics.summarize(x, bank, 9.0)
    chains = np.asarray(metrics.novelty(x, bank)).mean(1)
    assert summary.novelty.value == pytest.approx(chains.mean())
    assert summary.novelty.error == pytest.approx(chains.std(ddof=1) / 2)
    within = [metrics.diversity(chain) for chain in x]
    assert summary.diversity.value == pytest.approx(metrics.diversity(x))
    assert summary.diversity.error == pytest.approx(np.std(within, ddof=1) / 2)
    assert summary.energy.value == pytest.approx(metrics.mean_energy(x, bank, 9.0))
    assert summary.max_cosine.value == pytest.approx(1 - summary.novelty.value)
    assert summary.share_below_zero.value == metrics.share_below_zero(x, bank, 9.0)
    assert metrics.share_below_zero(bank.patterns, bank, 9.0) == 1
    assert str(metrics.Estimate(0.1522, 0.0013)) == "0.152 ± 0.001"
    with pytest.raises(ValueError, match=r"samples must be \(n_chains, n_kept, d\)"):
        metrics.summarize(x[0], bank, 9.0)


def test_copies_are_counted_although_the_bank_has_duplicates():
    X = np.random.default_rng(0).standard_normal((50, 5))
    bank = MemoryBank(np.concatenate([X, X[:2]]))
    assert metrics.near_copies(X, bank) == 1
    assert metrics.near_copies(X + 1e-6, bank) == 1
    assert metrics.near_copies(X + 5.0, bank) == 0
    assert metrics.near_copies(np.ones((3, 2)), MemoryBank(np.ones((4, 2)))) == 1


def test_a_zero_memory_has_no_cosine():
    with pytest.raises(ValueError, match="zero row where norms are needed; row 1"):
        metrics.novelty([1.0, 0.0], MemoryBank([[1.0, 0.0], [0.0, 0.0]]))


@pytest.mark.parametrize("K", [5000, 9000])
def test_a_zero_memory_that_is_masked_out_does_not_count(K, library):
    X = np.random.default_rng(0).standard_normal((K, 3))
    X[7] = 0
    bank = MemoryBank(to_library(X, library))
    kept = conditioning.subset(bank, np.arange(K) != 7)
    x = np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 0.5]])
    units = np.delete(X, 7, 0) / np.linalg.norm(np.delete(X, 7, 0), axis=1, keepdims=True)
    cosines = (x @ units.T).max(1) / np.linalg.norm(x, axis=1)
    np.testing.assert_allclose(metrics.max_cosine(x, kept), cosines, rtol=1e-12)
    np.testing.assert_allclose(metrics.novelty(x, kept.normalized()), 1 - cosines, atol=1e-12)
    with pytest.raises(ValueError, match=r"row 7 is all zeros \(1 in all\)"):
        metrics.max_cosine(x, conditioning.subset(bank, np.arange(K) > 3))
