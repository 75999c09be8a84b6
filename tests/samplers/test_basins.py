"""Sums over the few memories that matter, and chains that stay in their basins between two products."""

import math

import numpy as np
import pytest
import torch

import stochattn as sa
from stochattn.samplers import base
from stochattn.samplers.base import Basins, BasinSums, Largest, negligible, sparse_sums


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_over_few_memories_are_those_over_all(dtype):
    """Rows with one, eight, nine and all memories, and an idle one, whose sums nobody uses."""
    rng = np.random.default_rng(0)
    values, logits = rng.standard_normal((50, 6)).astype(dtype), np.full((5, 50), -1000.0, dtype)
    for row, n in enumerate((1, 8, 9, 50, 50)):
        logits[row, rng.permutation(50)[:n]] = rng.uniform(-5, 5, n)
    weights = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))

    def dense(w):  # of rows with few memories, nothing may come from here
        return np.where((w > 1e-30).sum(1, keepdims=True) > 8, w @ values, np.nan)

    largest = Largest.of(logits, np.arange(5) == 4)
    assert largest.alone.tolist() == [True, False, False, False, True]
    np.testing.assert_array_equal(largest.top, logits.max(1))
    np.testing.assert_array_equal(largest.best, logits.argmax(1))
    sums = sparse_sums(logits.copy(), largest, values, dense)
    np.testing.assert_allclose(sums[:4], (weights @ values)[:4], rtol=0, atol=50 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(sums[4], values[logits[4].argmax()])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_one_memory_have_the_same_bits_beside_other_rows(dtype):
    """Rows with one, two and all memories; a sum that begins with zero turns -0.0 into 0.0."""
    values = np.random.default_rng(0).standard_normal((20, 6)).astype(dtype)
    values[3, :2] = -0.0
    logits = np.full((3, 20), -1000.0, dtype)
    logits[0, 3] = logits[1, 3] = logits[1, 7] = 5.0
    logits[2] = 1.0

    def sums(rows):
        some = logits[rows].copy()
        return sparse_sums(some, Largest.of(some, np.zeros(len(some), dtype=bool)), values, lambda w: w @ values)

    alone = sums(slice(0, 1))
    assert alone.tobytes() == (values[3] + np.zeros(6, dtype)).tobytes()
    for rows in (slice(0, 2), slice(0, 3)):
        assert sums(rows)[0].tobytes() == alone.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_memories_are_added_one_by_one_in_their_own_precision(dtype):
    values = np.random.default_rng(0).standard_normal((20, 6)).astype(dtype)
    logits = np.full((1, 20), -1000.0, dtype)
    logits[0, [3, 7, 12]] = (4.3, 5.0, 3.9)
    largest = Largest.of(logits, np.zeros(1, dtype=bool))
    expected = np.zeros(6, dtype)
    for k in (3, 7, 12):
        expected += np.exp(logits[0, k] - logits[0, 7]) * values[k]
    np.testing.assert_array_equal(sparse_sums(logits, largest, values, lambda w: w @ values)[0], expected)


@pytest.mark.parametrize(("itemsize", "dtype"), [(4, np.float32), (8, np.float64)])
def test_what_is_left_out_of_sums_is_less_than_their_rounding(itemsize, dtype):
    assert 8192 * math.exp(negligible(itemsize)) < np.finfo(dtype).eps / 2


def test_only_large_banks_of_numpy_have_basins(monkeypatch):
    made = []
    monkeypatch.setattr(base, "BasinSums", lambda *arrays: made.append(arrays))
    X = np.random.default_rng(0).standard_normal((512, 600))
    for memories in (X[:8], torch.tensor(X)):
        base.ChainAttention(sa.MemoryBank(memories))
    assert not made
    base.ChainAttention(sa.MemoryBank(X))
    assert len(made) == 1


def bank_in_clusters(dtype, log_r=False):
    """700 unit memories of 400 dimensions in 14 clusters, the members of which are near each other."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((14, 1, 400)) + 0.2 * rng.standard_normal((14, 50, 400))
    X = X.reshape(700, 400) / np.linalg.norm(X.reshape(700, 400), axis=1, keepdims=True)
    offsets = np.where(rng.random(700) < 0.1, -np.inf, rng.standard_normal(700)) if log_r else None
    return sa.MemoryBank(X.astype(dtype), offsets)


def counted_products(monkeypatch):
    """The rows of each product over all memories, as a list that grows while chains run."""
    original, rows = base.ChainAttention._logits, []

    def logits(self, xi, beta):
        rows.append(len(xi))
        return original(self, xi, beta)

    monkeypatch.setattr(base.ChainAttention, "_logits", logits)
    return rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("sampler", "options"), [("ula", {}), ("mala", {"alpha": 0.02}), ("underdamped", {})])
@pytest.mark.parametrize("beta", [600.0, 3000.0, 20_000.0])
def test_chains_have_the_same_bits_with_and_without_basins(sampler, options, beta, dtype, monkeypatch):
    """Chains change their memory at the smallest beta, and never at the largest."""
    bank, n_steps = bank_in_clusters(dtype, log_r=beta == 3000), 120
    settings = {"sampler": sampler, "n_chains": 40, "rng": 0, "progress": False, **options}
    products = counted_products(monkeypatch)
    found = sa.run(bank, beta, n_steps=n_steps, warmup=0, thin=20, **settings)
    n_products = len(products)
    begun = sa.run(bank, beta, n_steps=50, warmup=0, thin=20, **settings)
    continued = sa.run(bank, beta, n_steps=n_steps - 50, keep=[10, 70], start=begun)
    monkeypatch.setattr(base, "N_RIVALS", 1)
    monkeypatch.setattr(base, "MAX_ENTRIES", 64 * 700 - 1)  # distances are not kept
    other = sa.run(bank, beta, n_steps=n_steps, warmup=0, thin=20, **settings)
    original = Basins.at
    monkeypatch.setattr(Basins, "at", lambda self, xi: (*original(self, xi)[:2], np.zeros(len(xi), dtype=bool)))
    plain = sa.run(bank, beta, n_steps=n_steps, warmup=0, thin=20, **settings)
    for draws in (found, other):
        for name in ("samples", "energies", "basins", "acceptance"):
            assert getattr(draws, name).tobytes() == getattr(plain, name).tobytes(), name
    np.testing.assert_array_equal(continued.samples, plain.samples[:, [2, 5]])
    assert (np.diff(plain.basins, axis=1) != 0).any() == (beta == 600)
    assert n_products < n_steps / 3 or beta != 20_000


def sums_of_steps(bank, states, beta, active):
    """For states (steps, n, r): sums with a column of the weights' sums, largest logits, and rows of products."""
    X, offsets, rows = bank.patterns, bank.log_r, []
    values = np.column_stack([X, np.ones(len(X))])
    sums = BasinSums(X, values, offsets)

    def logits(xi):
        rows[-1] += len(xi)
        return beta * xi @ X.T + offsets

    for xi in states:
        rows.append(0)
        yield *sums(xi, beta, logits, lambda w: w @ values, active), rows[-1]


@pytest.mark.parametrize("active", [slice(0, 64), slice(3, 60)])
@pytest.mark.parametrize("beta", [600.0, 3000.0])
def test_sums_and_largest_logits_are_those_over_all_memories(beta, active):
    """Chains near memories, some of which leave their basins; rows that are not active may have any sums."""
    rng, bank = np.random.default_rng(0), bank_in_clusters(np.float64, log_r=True)
    begin = bank.patterns[rng.integers(0, 700, 64)] + 0.01 * rng.standard_normal((64, 400))
    states = begin + np.cumsum(0.002 * rng.standard_normal((30, 64, 400)), axis=0)
    n_products = 0
    for xi, (sums, top, n_rows) in zip(states, sums_of_steps(bank, states, beta, active), strict=True):
        logits = beta * xi @ bank.patterns.T + bank.log_r
        largest = logits.max(1, keepdims=True)
        weights = np.exp(logits - largest)
        expected = np.column_stack([weights @ bank.patterns, weights.sum(1)])
        np.testing.assert_allclose(top[active], largest[active], rtol=1e-12)
        np.testing.assert_allclose(sums[active], expected[active], rtol=0, atol=1e-10)
        n_products += n_rows
    assert n_products > 100


def test_only_blocks_with_a_chain_outside_of_basins_are_multiplied():
    """Of two blocks of 32 chains, the first stays at memories, and the second between two of them."""
    bank = bank_in_clusters(np.float64)
    xi = np.concatenate([bank.patterns[:32], np.tile(bank.patterns[:2].mean(0), (32, 1))])
    found = sums_of_steps(bank, [xi] * 5, 20_000.0, slice(0, 64))
    assert [n_rows for _, _, n_rows in found] == [64, 64, 32, 32, 32]


def test_a_schedule_notes_no_basins(monkeypatch):
    """What is noted at one beta would be of no use at the next."""
    made = []
    monkeypatch.setattr(base, "Basins", lambda *arguments: made.append(Basins(*arguments)) or made[-1])
    sa.run(bank_in_clusters(np.float32), np.linspace(1000, 2000, 20), n_chains=3, n_steps=20, keep=[20], rng=0)
    assert len(made) == 1  # of the state that is kept, whose energy is computed at the last beta


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_chain_that_is_said_to_stay_has_no_other_memory_near(dtype, scale):
    """Chains that move to all sides, and straight towards other memories; some of which differ by rounding alone."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 24))
    X *= rng.uniform(0.9, 1.1, (60, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    X[30:45] = X[15:30] + 1e-3 * rng.standard_normal((15, 24))
    X[45:] = X[15:30]
    X = (scale * X).astype(dtype)
    bank, beta = BasinSums(X, X, rng.standard_normal(60).astype(dtype)), 600 / scale**2
    begin = X[rng.integers(0, 60, 400)] + (0.03 * scale * rng.standard_normal((400, 24))).astype(dtype)

    def logits(x):
        return (beta * (x.astype(np.float64) @ X.T.astype(np.float64)) + bank.log_r).astype(dtype)

    largest = Largest.of(logits(begin), np.zeros(400, dtype=bool))
    there = Basins(bank, 400, beta)
    there.note(np.arange(400), begin, logits(begin), largest.best, largest.alone)
    assert 100 < largest.alone.sum() < 350
    n_stay = 0
    for share in (0.5, 0.9, 0.99, 0.999999, 1.01, 1.5):
        directions = rng.standard_normal((400, 24))
        directions[::2] = (X[rng.integers(0, 60, 400)] - X[largest.best])[::2]
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        xi = (begin + directions / np.where(lengths > 0, lengths, 1) * there.reach[:, None] * share).astype(dtype)
        _, top, stays = there.at(xi)
        found = Largest.of(logits(xi), np.zeros(400, dtype=bool))
        assert found.alone[stays].all()
        np.testing.assert_array_equal(found.best[stays], largest.best[stays])
        np.testing.assert_allclose(top[stays], found.top[stays], rtol=1e-4 if dtype == np.float32 else 1e-12)
        assert not stays[lengths[:, 0] > 0].any() or share < 1
        n_stay += stays.sum()
    assert n_stay >= 3 * largest.alone.sum()


@pytest.mark.parametrize("kept", [True, False], ids=["distances kept", "distances computed again"])
def test_what_is_noted_later_replaces_what_was_noted_first(kept, monkeypatch):
    """Ten chains, the first five of which have another memory the second time."""
    if not kept:
        monkeypatch.setattr(base, "MAX_ENTRIES", 10 * 30 - 1)
    X = np.random.default_rng(0).standard_normal((30, 12))
    first, second = np.arange(10), np.concatenate([np.arange(20, 25), np.arange(5, 10)])
    again, once = (Basins(BasinSums(X, X, None), 10, 50.0) for _ in range(2))
    for best, noted in ((first, [again]), (second, [again, once])):
        xi = X[best] + 0.01
        for one in noted:
            one.note(np.arange(10), xi, 50.0 * xi @ X.T, best, np.ones(10, dtype=bool))
    assert (once.reach > 0).all()
    for name in ("begin", "best", "sums", "reach", "margin", "memories", "offsets"):
        np.testing.assert_array_equal(getattr(again, name), getattr(once, name), err_msg=name)


def test_a_chain_that_is_not_finite_is_in_no_basin():
    X = np.eye(8, dtype=np.float32)
    there = Basins(BasinSums(X, X, None), 2, 50.0)
    there.note(np.arange(2), X[:2], 50 * X[:2] @ X.T, np.arange(2), np.ones(2, dtype=bool))
    assert there.at(X[:2])[2].all()
    for value in (np.nan, np.inf, -np.inf, 3e38):
        assert not there.at(np.full((2, 8), value, np.float32))[2].any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_blocks_of_idle_rows_alone_do_no_harm(sampler):
    """In the span, blocks have fewer rows than those of the chains, so that some blocks hold no chain."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 200)) @ rng.standard_normal((200, 600))
    bank = sa.MemoryBank((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32))
    draws = sa.run(bank, 2000.0, sampler=sampler, n_chains=5, n_steps=20, keep=[20], rng=0, progress=False)
    assert np.isfinite(draws.samples).all()
