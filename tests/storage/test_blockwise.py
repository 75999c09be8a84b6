"""Attention over more memories than one block holds, against brute force over all of them at once."""

import math
import warnings
import weakref

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax

import stochattn as sa
from banks import to_library
from stochattn import MemoryBank, conditioning, metrics, neighbors
from stochattn import energy as E
from stochattn.core.neighbors import nearest_index as nearest
from stochattn.samplers.base import ChainAttention
from stochattn.storage import blockwise
from stochattn.storage.blockwise import BLOCK, MAX_MEMORIES_AT_ONCE, attention, blocks, row_blocks

SIZES = (MAX_MEMORIES_AT_ONCE + 1, 3 * BLOCK, 3 * BLOCK + 17)  # one memory per block, whole blocks, an incomplete block
MASKED = slice(0, BLOCK + 5)  # one block and a part of the next


def ingredients(K=SIZES[0], d=4, seed=0, masked=False):
    rng = np.random.default_rng(seed)
    X, log_r = rng.standard_normal((K, d)), rng.standard_normal(K)
    if masked:
        log_r[MASKED] = -np.inf
    return X, log_r


def states(n=5, d=4):
    return np.random.default_rng(1).standard_normal((n, d))


@pytest.mark.parametrize("K", SIZES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("beta", [1e-3, 2.0, 1e4])
def test_many_memories_agree_with_brute_force(library, K, masked, beta):
    X, log_r = ingredients(K, masked=masked)
    bank, x = MemoryBank(to_library(X, library), log_r), states()
    logits = beta * x @ X.T + log_r
    p, lse = softmax(logits, axis=1), logsumexp(logits, axis=1)
    lengths = np.square(x).sum(1) / 2
    np.testing.assert_allclose(E.table_energy(x, bank, beta), lengths - lse / beta, rtol=1e-10)
    log_z = logsumexp(log_r + beta / 2 * np.square(X).sum(1))
    log_p = -beta * (lengths - lse / beta) - log_z + 2 * math.log(beta / (2 * math.pi))
    np.testing.assert_allclose(E.log_density(x, bank, beta), log_p, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(E.attend(x, bank, beta), p @ X, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(E.score(x, bank, beta), beta * (p @ X - x), rtol=1e-8, atol=1e-9)
    values = np.random.default_rng(2).standard_normal((K, 3))
    np.testing.assert_allclose(E.attend(x, bank, beta, values), p @ values, rtol=1e-9, atol=1e-12)
    plogp = np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0)
    np.testing.assert_allclose(E.entropy(x, bank, beta), -plogp.sum(1), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(E.weights(x, bank, beta), p, rtol=1e-9, atol=1e-300)


def test_energy_has_its_constants():
    X, log_r = ingredients(masked=True)
    bank, x = MemoryBank(X, log_r), states()
    longest = np.linalg.norm(X[np.isfinite(log_r)], axis=1).max()
    gap = logsumexp(log_r) / 3.0 + longest**2 / 2
    np.testing.assert_allclose(E.energy(x, bank, 3.0) - E.table_energy(x, bank, 3.0), gap, rtol=1e-12)


def test_hard_attention_takes_the_largest_overlap_and_shares_ties(library):
    X, log_r = ingredients(masked=True)
    X[[0, MAX_MEMORIES_AT_ONCE - 7, MAX_MEMORIES_AT_ONCE]] = (
        64.0  # duplicates in two blocks, whose products are exact; the first is masked out
    )
    x = np.round(8 * np.stack([X[MAX_MEMORIES_AT_ONCE], *states(3)])) / 8
    values = np.arange(2.0 * len(X)).reshape(-1, 2)
    bank = MemoryBank(to_library(X, library), log_r)
    overlaps = np.where(np.isfinite(log_r), x @ X.T, -np.inf)
    hits = np.isclose(overlaps, overlaps.max(1, keepdims=True), rtol=1e-14, atol=0)
    assert hits[0].sum() == 2
    expected = hits / hits.sum(1, keepdims=True)
    np.testing.assert_allclose(E.attend(x, bank, math.inf, values), expected @ values, rtol=1e-13)
    np.testing.assert_allclose(E.retrieve(x[1:], bank, math.inf, max_steps=1), (expected @ X)[1:], rtol=1e-13)


def test_float32_holds_at_every_temperature():
    X, log_r = (a.astype(np.float32) for a in ingredients(masked=True))
    bank, x = MemoryBank(X, log_r), states().astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for beta in (1e-3, 1.0, 1e6):
            for f in (E.energy, E.attend, E.score, E.log_density, E.entropy):
                value = f(x, bank, beta)
                assert value.dtype == np.float32
                assert np.isfinite(value).all()
    logits = 3.0 * x.astype(float) @ X.T.astype(float) + log_r
    np.testing.assert_allclose(E.attend(x, bank, 3.0), softmax(logits, axis=1) @ X, rtol=2e-5, atol=1e-6)


def test_shapes_of_states_are_kept_also_without_states(library):
    bank = MemoryBank(to_library(ingredients()[0], library))
    for shape in ((4,), (2, 3, 4), (0, 4)):
        x = np.zeros(shape)
        assert tuple(E.attend(x, bank, 2.0).shape) == shape
        assert tuple(E.log_density(x, bank, 2.0).shape) == tuple(E.entropy(x, bank, 2.0).shape) == shape[:-1]
        assert tuple(neighbors.nearest_memory(x, bank)[0].shape) == tuple(metrics.novelty(x, bank).shape) == shape[:-1]


def test_many_states_are_processed_in_blocks_of_rows():
    X, log_r = ingredients()
    bank, x = MemoryBank(X, log_r), states(1500)
    assert len(row_blocks(np.empty((1500, 1)), len(X))) > 1
    logits = 2.0 * x @ X.T + log_r
    np.testing.assert_allclose(E.attend(x, bank, 2.0), softmax(logits, axis=1) @ X, rtol=1e-9, atol=1e-12)
    few, many = MemoryBank(X[:60], log_r[:60]), states(80_000)
    np.testing.assert_allclose(
        E.entropy(many, few, 2.0), np.concatenate([E.entropy(part, few, 2.0) for part in np.split(many, 8)]), rtol=1e-9
    )


def test_no_array_of_states_by_memories():
    """The largest array is a block of logits, 1024 × 4096; all of them would take 120 MB."""
    import tracemalloc

    bank, x = MemoryBank(ingredients(3 * BLOCK)[0]), states(1200)
    tracemalloc.start()
    E.attend(x, bank, 2.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 45e6


def test_blocks_of_zero_weight_have_no_effect():
    X = np.concatenate((np.full((1, 2), 50.0), np.random.default_rng(0).standard_normal((2 * MAX_MEMORIES_AT_ONCE, 2))))
    sums = attention(np.ones((2, 2)), X, None, 100.0, values=X)
    np.testing.assert_array_equal(sums.mean, np.full((2, 2), 50.0))
    np.testing.assert_array_equal(sums.total, 1)


@pytest.mark.parametrize("layout", ["fortran", "transposed", "strided"])
def test_layouts_of_arrays_and_tensors(library, layout):
    X = ingredients()[0]
    wide = np.zeros((2 * len(X), 4))
    wide[::2] = X
    given = {"fortran": np.asfortranarray(X), "transposed": np.ascontiguousarray(X.T).T, "strided": wide[::2]}[layout]
    if library == "torch":
        given = torch.tensor(wide)[::2] if layout == "strided" else torch.tensor(np.ascontiguousarray(X.T)).T
    x = np.asfortranarray(states())
    expected = softmax(2.0 * x @ X.T, axis=1) @ X
    np.testing.assert_allclose(E.attend(x, MemoryBank(given), 2.0), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    given = torch.tensor(ingredients()[0]).to(dtype)
    X, x = given.double().numpy(), states()
    bank = MemoryBank(given)
    read = E.attend(x, bank, 2.0)
    assert read.dtype == torch.float32
    expected = softmax(2.0 * x @ X.T, axis=1) @ X
    np.testing.assert_allclose(read, expected, rtol=1e-4, atol=1e-5)


def test_gradients_pass_through_the_blocks():
    bank = MemoryBank(torch.tensor(ingredients()[0]))
    x = torch.tensor(states(), requires_grad=True)
    E.log_density(x, bank, 2.0).sum().backward()
    torch.testing.assert_close(x.grad, E.score(x.detach(), bank, 2.0))


@pytest.mark.parametrize("K", SIZES)
def test_nearest_agrees_with_brute_force(library, K):
    X, _ = ingredients(K)
    X[K - 1] = X[3]  # the first of equal memories
    x = np.concatenate((X[[3]], states()))
    gaps = np.square(x[:, None] - X).sum(-1)
    half = to_library(np.square(X).sum(1) / 2, library)
    found = nearest(to_library(x, library), to_library(X, library), half)
    np.testing.assert_array_equal(np.asarray(found)[1:], gaps.argmin(1)[1:])
    assert found[0] == 3
    masked = conditioning.subset(MemoryBank(to_library(X, library)), np.arange(K) > 4000)
    k, distance = neighbors.nearest_memory(x, masked)
    np.testing.assert_array_equal(np.asarray(k)[1:], 4001 + gaps[1:, 4001:].argmin(1))
    np.testing.assert_allclose(distance, np.sqrt(gaps[:, 4001:].min(1)), rtol=1e-9, atol=1e-12)
    cosines = x @ X[4001:].T / np.linalg.norm(X[4001:], axis=1) / np.linalg.norm(x, axis=1)[:, None]
    np.testing.assert_allclose(metrics.max_cosine(x, masked), cosines.max(1), rtol=1e-12)


def test_a_chain_is_bit_identical_alone_or_among_others(library):
    X, log_r = (a.astype(np.float32) for a in ingredients())
    field = ChainAttention(MemoryBank(to_library(X, library), log_r))
    x = to_library(states(2048).astype(np.float32), library)
    attended, lse = field.evaluate(x, 30.0)
    alone, lse_alone = field.evaluate(x[1016:1024], 30.0)
    assert np.array_equal(attended[1016:1024], alone)
    assert np.array_equal(lse[1016:1024], lse_alone)
    assert np.array_equal(field.nearest(x)[1016:1024], field.nearest(x[1016:1024]))


def test_rows_that_need_a_block_do_not_change_other_rows():
    X = np.full((MAX_MEMORIES_AT_ONCE + 1, 2), [0.0, 1.0], dtype=np.float32)
    X[0] = [50.0, 0.0]
    field = ChainAttention(MemoryBank(X))
    x = np.tile(np.float32([50.0, 0.0]), (8, 1))  # the first memory has all the weight
    alone = field.attend(x, 1.0)
    others = np.concatenate((x[:7], np.float32([[0.0, 50.0]])))  # the last row attends to other memories
    assert np.array_equal(field.attend(others, 1.0)[:7], alone[:7])


def test_rows_of_few_memories_in_blocks_have_the_same_bits():
    X, log_r = ingredients(2000)
    field, x = ChainAttention(MemoryBank(X, log_r)), states(4096)
    assert len(row_blocks(np.empty((4096, 1)), 2000)) > 1
    attended, lse = field.evaluate(x, 3.0)
    last, lse_last = field.evaluate(x[-8:], 3.0)
    assert np.array_equal(attended[-8:], last)
    assert np.array_equal(lse[-8:], lse_last)


def test_chains_over_many_memories_follow_the_same_law_alone_and_together():
    bank = MemoryBank(ingredients()[0])
    options = {"n_steps": 12, "warmup": 0, "thin": 4, "rng": 3, "sampler": "mala"}
    together, alone = sa.run(bank, 5.0, n_chains=9, **options), sa.run(bank, 5.0, n_chains=1, first_chain=4, **options)
    assert np.array_equal(together.samples[4], alone.samples[0])
    np.testing.assert_allclose(together.energies, E.energy(together.samples, bank, 5.0), rtol=1e-9)
    gaps = np.square(together.samples[0, 0] - bank.patterns).sum(1)
    assert together.basins[0, 0] == gaps.argmin()


def test_blocks_cover_everything_once():
    for K, d in ((1, 1), (4096, 3), (4097, 3), (10, 10**7)):
        rows = np.concatenate([np.arange(K)[block] for block in blocks(K, d)])
        np.testing.assert_array_equal(rows, np.arange(K))
    assert blocks(0) == []
    assert [len(range(100)[rows]) for rows in row_blocks(np.empty((0, 1)), 10)] == [0]


@pytest.mark.parametrize("fits", [100, 40])
def test_a_device_with_little_memory_takes_fewer_states_at_a_time(fits, monkeypatch):
    X, x = torch.tensor(ingredients()[0]), torch.tensor(states(300))
    whole = attention(x, X, None, 3.0, values=X)
    taken, failed = [], []

    def matmul(a, b, out=None):
        taken.append(len(a))
        assert not any(one() is not None for one in failed)  # no reference to the failed allocation remains
        if len(a) > fits:
            large = torch.empty(len(a))
            failed.append(weakref.ref(large))
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore words.")
        return a @ b

    monkeypatch.setattr(blockwise, "matmul", matmul)
    parts = attention(x, X, None, 3.0, values=X)
    assert max(n for n in taken if n <= fits) > fits / 2 - 32
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(parts.logsumexp, whole.logsumexp, rtol=1e-12)


def test_a_device_without_memory_left_is_an_error_with_sizes(monkeypatch):
    def matmul(a, b, out=None):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore words.")

    X = torch.tensor(ingredients()[0])
    monkeypatch.setattr(blockwise, "matmul", matmul)
    with pytest.raises(
        MemoryError, match=rf"attention of 32 states to K={len(X)} memories of d={X.shape[1]} does not fit"
    ):
        attention(torch.tensor(states(64)), X, None, 3.0, values=X)
