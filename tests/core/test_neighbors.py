"""Nearest neighbors against brute force: masked banks, banks in files, large banks, duplicates, torch, blocks."""

import numpy as np
import pytest
import torch

from banks import LIBRARIES, to_library
from stochattn import MemoryBank, conditioning, neighbors
from stochattn.storage import blockwise, mapped


def rows(n, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def all_distances(x, y):
    """Distances of every pair, from differences: (n, d), (K, d) -> (n, K)."""
    return np.sqrt(np.square(x[:, None] - y[None]).sum(-1))


@pytest.fixture
def small_blocks(monkeypatch):
    """Small blocks of rows and memories, so every loop runs several times."""
    monkeypatch.setattr(neighbors, "BLOCK_ENTRIES", 50)
    monkeypatch.setattr(neighbors, "MAX_ROWS", 7)
    monkeypatch.setattr(blockwise, "BLOCK", 8)
    monkeypatch.setattr(blockwise, "MAX_ENTRIES", 256)
    monkeypatch.setattr(blockwise, "MAX_MEMORIES_AT_ONCE", 10)


@pytest.fixture(params=["one block", "many blocks"])
def block_size(request):
    if request.param == "many blocks":
        request.getfixturevalue("small_blocks")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("row_stable", [False, True])
def test_nearest_index(library, row_stable, block_size):
    X, x = rows(61), rows(32, seed=1)
    half_squares = np.square(X).sum(1) / 2
    expected = all_distances(x, X)
    found = neighbors.nearest_index(*(to_library(a, library) for a in (x, X, half_squares)), row_stable=row_stable)
    np.testing.assert_array_equal(found, expected.argmin(1))
    half_squares[::2] = np.inf  # excluded
    expected[:, ::2] = np.inf
    found = neighbors.nearest_index(*(to_library(a, library) for a in (x, X, half_squares)), row_stable=row_stable)
    np.testing.assert_array_equal(found, expected.argmin(1))


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_first_of_equal_memories_is_the_nearest(library, block_size):
    X = rows(40)
    X[[13, 29]] = X[3]
    found = neighbors.nearest_index(*(to_library(a, library) for a in (X, X, np.square(X).sum(1) / 2)))
    assert np.asarray(found)[[3, 13, 29]].tolist() == [3, 3, 3]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("masked", [False, True])
def test_nearest_memory(library, dtype, masked, block_size):
    X, x = rows(61).astype(dtype), rows(30, seed=1).reshape(5, 6, 4).astype(dtype)
    bank = MemoryBank(to_library(X, library))
    gaps = all_distances(x.reshape(-1, 4).astype(np.float64), X.astype(np.float64))
    if masked:
        kept = np.arange(1, 61, 3)
        bank = conditioning.subset(bank, kept)
        gaps[:, np.setdiff1d(np.arange(61), kept)] = np.inf
    k, distance = neighbors.nearest_memory(to_library(x, library), bank)
    assert tuple(k.shape) == tuple(distance.shape) == (5, 6)
    assert type(k) is type(distance) is (torch.Tensor if library == "torch" else np.ndarray)
    np.testing.assert_array_equal(k, gaps.argmin(1).reshape(5, 6))
    np.testing.assert_allclose(distance, gaps.min(1).reshape(5, 6), rtol=1e-5 if dtype is np.float32 else 1e-12)


def test_one_state_has_one_nearest_memory():
    k, distance = neighbors.nearest_memory([0.9, 0.0], MemoryBank(np.eye(2)))
    assert k == 0
    assert distance == pytest.approx(0.1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int16])
@pytest.mark.parametrize("large", [False, True])
def test_memories_in_a_file(tmp_path, dtype, large, block_size, monkeypatch):
    if large:
        monkeypatch.setattr(mapped, "MAX_SMALL_NUMBERS", 100)
    X, x = (20 * rows(61)).astype(dtype), 20 * rows(9, seed=1)
    np.save(tmp_path / "bank.npy", X)
    bank, exact = MemoryBank.open(tmp_path / "bank.npy"), X.astype(np.float64)
    gaps = all_distances(x, exact)
    k, distance = neighbors.nearest_memory(x, bank)
    np.testing.assert_array_equal(k, gaps.argmin(1))
    np.testing.assert_allclose(distance, gaps.min(1), rtol=1e-5)
    between = all_distances(exact, exact)
    np.fill_diagonal(between, np.inf)
    np.testing.assert_allclose(neighbors.neighbor_distances(bank), between.min(1), rtol=1e-6)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_distances_between_memories(library, large, masked, block_size, monkeypatch):
    if large:
        monkeypatch.setattr(mapped, "MAX_SMALL_NUMBERS", 100)
    X = rows(61)
    X[50] = X[4]  # duplicates in different blocks
    kept = np.arange(1, 61, 3) if masked else np.arange(61)
    bank = MemoryBank(to_library(X, library))
    bank = conditioning.subset(bank, kept) if masked else bank
    gaps = all_distances(X[kept], X[kept])
    np.fill_diagonal(gaps, np.inf)
    found = neighbors.neighbor_distances(bank)
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, gaps.min(1), rtol=1e-12, atol=0)
    if not masked:
        assert found[4] == found[50] == 0
    chosen = neighbors.spaced_indices(len(kept), 5)
    np.testing.assert_array_equal(neighbors.neighbor_distances(bank, max_rows=5), found[chosen])


def test_distances_of_near_duplicates_are_accurate(block_size):
    X = rows(30) + 1000.0
    X[7] = X[3] + 1e-6
    found = neighbors.neighbor_distances(MemoryBank(X))
    np.testing.assert_allclose(found[[3, 7]], np.linalg.norm(X[7] - X[3]), rtol=1e-12)


def test_one_memory_has_no_neighbor():
    with pytest.raises(ValueError, match="bank must keep at least two memories"):
        neighbors.neighbor_distances(conditioning.subset(MemoryBank(np.eye(3)), [1]))


def test_nearest_rows_of_others(block_size):
    x, y = rows(23), rows(41, seed=1)
    gaps = all_distances(x, y)
    np.testing.assert_array_equal(neighbors.nearest_rows(x, y), gaps.argmin(1))
    np.testing.assert_allclose(neighbors.nearest_distances(x, y), gaps.min(1), rtol=1e-12)
    chosen = np.array([5, 0, 22, 5])
    np.testing.assert_array_equal(neighbors.nearest_rows(x, y, chosen), gaps.argmin(1)[chosen])
    np.testing.assert_allclose(neighbors.nearest_distances(x, y, chosen), gaps.min(1)[chosen], rtol=1e-12)


def test_nearest_other_rows(block_size):
    x = rows(41)
    x[30] = x[2]
    gaps = all_distances(x, x)
    np.fill_diagonal(gaps, np.inf)
    np.testing.assert_array_equal(neighbors.nearest_rows(x), gaps.argmin(1))
    np.testing.assert_allclose(neighbors.nearest_distances(x), gaps.min(1), rtol=1e-12, atol=0)
    assert neighbors.nearest_rows(x)[[2, 30]].tolist() == [30, 2]
    chosen = np.array([30, 7, 2])
    np.testing.assert_array_equal(neighbors.nearest_rows(x, chosen=chosen), gaps.argmin(1)[chosen])
    np.testing.assert_array_equal(neighbors.nearest_distances(x, chosen=chosen), gaps.min(1)[chosen])


def test_rows_may_be_lists_and_tensors():
    x, y = [[0.0, 0.0], [5.0, 5.0]], torch.tensor([[4, 4], [1, 0]])
    assert neighbors.nearest_rows(x, y).tolist() == [1, 0]
    np.testing.assert_allclose(neighbors.nearest_distances(x, y), [1, np.sqrt(2)])


@pytest.mark.parametrize("k", [1, 3, 41])
def test_k_nearest(k, block_size):
    x = rows(41)
    found = neighbors.k_nearest(x, k)
    assert found.shape == (41, k)
    expected = np.argsort(all_distances(x, x), axis=1)[:, :k]
    np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(expected, axis=1))
    assert all(i in found[i] for i in range(41))


@pytest.mark.parametrize(("n", "max_count"), [(5, 10), (10, 10), (100, 7), (3, 1)])
def test_evenly(n, max_count):
    found = neighbors.spaced_indices(n, max_count)
    assert len(np.unique(found)) == len(found) == min(n, max_count)
    assert found[0] == 0
    assert found.max() < n
    if len(found) > 1:
        assert found[-1] == n - 1
        assert np.ptp(np.diff(found)) <= 1


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((0, 3)), None, "rows must be a non-empty matrix"),
        (np.zeros(3), None, r"rows must be a non-empty matrix with one row per example; got shape \(3,\)"),
        (np.zeros((2, 3)), np.zeros((2, 4)), "others must have 3 columns, as rows has; got 4"),
        (np.zeros((2, 3)), np.zeros((0, 3)), "others must be a non-empty matrix"),
        ([[np.nan]], None, "rows must be finite"),
    ],
)
def test_bad_rows(x, y, message):
    for function in (neighbors.nearest_rows, neighbors.nearest_distances):
        with pytest.raises(ValueError, match=message):
            function(x, y)


@pytest.mark.parametrize("d", [1, 3, 40])
def test_duplicates_are_found_by_brute_force_too(d):
    rng = np.random.default_rng(d)
    X = rng.standard_normal((60, d))
    X[10], X[20], X[21], X[30:40] = X[0], X[5] + 1e-11, X[5] - 1e-11, X[41]
    X[50] = X[49] + 1e-6
    gaps = np.linalg.norm(X[:, None] - X, axis=2) + np.where(np.eye(60, dtype=bool), np.inf, 0)
    found = neighbors.have_duplicates(X, 1e-9)
    np.testing.assert_array_equal(found, gaps.min(1) <= 1e-9)
    assert found.sum() == 16
    assert not neighbors.have_duplicates(X[:1], 1e-9).any()
    assert neighbors.have_duplicates(np.ones((500, d)), 1e-9).all()


def test_duplicates_at_the_tolerance_are_found_despite_the_rounding_of_projections():
    """Pairs whose distance is the tolerance up to rounding, far from the origin: projections round by as much."""
    rng = np.random.default_rng(0)
    angles, X = rng.uniform(0, 2 * np.pi, 4000), rng.uniform(-1e6, 1e6, (4000, 2))
    X[0] = 0.0
    Y = X + 1e-6 * np.stack((np.cos(angles), np.sin(angles)), 1)
    near = np.linalg.norm(X - Y, axis=1) <= 1e-6
    assert 1000 < near.sum() < 3000
    np.testing.assert_array_equal(neighbors.have_duplicates(np.concatenate((X, Y)), 1e-6), np.tile(near, 2))


def test_duplicates_of_a_row_that_has_another_one_are_found():
    rng = np.random.default_rng(1)
    X = (10 * np.arange(200)[:, None, None] + rng.uniform(-1, 1, (200, 3, 3))).reshape(-1, 3)
    gaps = np.linalg.norm(X[:, None] - X, axis=2) + np.where(np.eye(600, dtype=bool), np.inf, 0)
    np.testing.assert_array_equal(neighbors.have_duplicates(X, 1.0), gaps.min(1) <= 1.0)
