"""The bank: accepted input, derived quantities, immutability."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array

import stochattn as sa
from banks import make_bank, to_library
from stochattn import MemoryBank, bounds, conditioning, energy, metrics, temperature
from stochattn import multihead as heads


def test_derived_quantities(library):
    X = np.random.default_rng(0).standard_normal((6, 9))
    bank = MemoryBank(to_library(X, library))
    assert (bank.K, bank.d, bank.rank) == (6, 9, 6)
    assert pytest.approx(np.linalg.norm(X, axis=1).max()) == bank.M
    assert bank.sigma_max == pytest.approx(np.linalg.norm(X, 2))
    np.testing.assert_allclose(bank.gram, X @ X.T)
    Q = np.asarray(bank.basis)
    np.testing.assert_allclose(Q.T @ Q, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(X @ Q @ Q.T, X, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(np.asarray(bank.normalized().patterns), axis=1), 1)


@pytest.mark.parametrize("shape", [(3, 8), (30, 8)])
def test_rank_of_dependent_memories(library, shape):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    bank = MemoryBank(to_library(X, library))
    assert bank.rank == 2
    Q = np.asarray(bank.basis)
    np.testing.assert_allclose(X @ Q @ Q.T, X, atol=1e-12)
    assert MemoryBank(np.zeros((2, 4))).rank == 1


def test_masked_bank_derives_from_its_kept_memories():
    bank = make_bank("unequal")
    masked, reduced = conditioning.subset(bank, [0, 3]), MemoryBank(bank.patterns[[0, 3]])
    assert masked.K == 5
    for name in ("M", "sigma_max", "rank", "log_total_r"):
        assert getattr(masked, name) == pytest.approx(getattr(reduced, name))


def test_the_bank_never_changes():
    X = np.eye(3)
    bank = MemoryBank(X)
    X[0, 0] = 7
    assert bank.patterns[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        bank.patterns[0, 0] = 7
    with pytest.raises(dataclasses.FrozenInstanceError):
        bank.patterns = X
    T = torch.eye(3)
    tensor_bank = MemoryBank(T)
    T[0, 0] = 7
    assert tensor_bank.patterns[0, 0] == 1


def test_read_only_memory_is_not_copied(tmp_path):
    np.save(tmp_path / "X.npy", np.eye(3))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert np.shares_memory(MemoryBank(mapped).patterns, mapped)


def test_an_array_that_becomes_writable_again_leaves_the_bank_unchanged():
    X, values = np.eye(3), np.ones((3, 2))
    for array in (X, values):
        array.flags.writeable = False
    bank = MemoryBank(X, values=values)
    for array in (X, values):
        array.flags.writeable = True
        array[0, 0] = 99
    assert bank.patterns[0, 0] == 1
    assert bank.values[0, 0] == 1


def test_a_map_that_was_opened_for_writing_is_copied(tmp_path):
    np.save(tmp_path / "X.npy", np.eye(3))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r+")
    mapped.flags.writeable = False
    bank = MemoryBank(mapped)
    mapped.flags.writeable = True
    mapped[0, 0] = 99
    assert bank.patterns[0, 0] == 1


def test_arrays_are_shared_only_if_that_is_asked_for(library):
    X = to_library(np.eye(3), library)
    bank = MemoryBank(X, values=X, copy=False)
    assert np.shares_memory(np.asarray(bank.patterns), np.asarray(X))
    assert np.shares_memory(np.asarray(bank.values), np.asarray(X))
    if library == "numpy":
        assert X.flags.writeable
        assert not bank.patterns.flags.writeable


def test_a_transposed_query_is_named():
    bank = MemoryBank(np.ones((5, 3)))
    with pytest.raises(ValueError, match=r"xi must have d=3 columns.*got 5. xi looks transposed: .* pass xi.T\."):
        energy.energy(np.ones((3, 5)), bank, 1.0)
    with pytest.raises(ValueError, match=r"got 4. probes looks transposed: .* pass probes.T\."):
        temperature.entropy_curve(bank, [1.0], probes=np.ones((3, 4)))
    with pytest.raises(ValueError, match=r"got 5. The bank looks transposed"):
        energy.energy(np.ones((2, 5)), bank, 1.0)
    with pytest.raises(ValueError, match=r"xi must have d=3 columns.*got 0\.$"):
        energy.energy(2.0, bank, 1.0)


def test_add_and_remove_give_new_banks(library):
    bank = MemoryBank(to_library(np.eye(3), library), log_r=[0.0, 1.0, 2.0], values=[[1.0], [2.0], [3.0]])
    more = bank.add([[1.0, 1.0, 1.0]], log_r=[5.0], values=[[4.0]])
    assert (bank.K, more.K) == (3, 4)
    np.testing.assert_array_equal(more.log_r, [0, 1, 2, 5])
    np.testing.assert_array_equal(more.values[:, 0], [1, 2, 3, 4])
    fewer = more.remove([0, -1])
    np.testing.assert_array_equal(fewer.patterns, np.eye(3)[1:])
    np.testing.assert_array_equal(fewer.log_r, [1, 2])
    assert type(fewer.patterns) is type(bank.patterns)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.float16, np.float32),
        (np.int64, np.float64),
        (np.uint8, np.float64),
        (np.bool_, np.float64),
    ],
)
def test_dtypes(given, kept):
    assert MemoryBank(np.eye(3).astype(given)).patterns.dtype == kept


def test_torch_dtypes():
    assert MemoryBank(torch.eye(2, dtype=torch.bfloat16)).patterns.dtype == torch.float32
    assert MemoryBank(torch.eye(2, dtype=torch.int32)).patterns.dtype == torch.float64


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([],), ValueError, r"patterns must be a non-empty matrix.*shape \(0,\)"),
        ((np.zeros((0, 3)),), ValueError, "non-empty"),
        (([1.0, 2.0],), ValueError, r"got shape \(2,\).*x\[None, :\]"),
        ((np.zeros((2, 3, 4)),), ValueError, "Flatten each example"),
        (([[1.0, math.nan]],), ValueError, r"1 of 2 entries are NaN or infinite, the first at index \(0, 1\)"),
        (([[1.0, math.inf]],), ValueError, "must be finite"),
        (([["a", "b"]],), TypeError, "must hold real numbers"),
        (([[1j, 2]],), TypeError, "must hold real numbers"),
        ((np.array([[object()]]),), TypeError, "must hold real numbers"),
        ((np.eye(2), [0.0]), ValueError, "log_r must have one entry for each of the K=2"),
        ((np.eye(2), [0.0, math.nan]), ValueError, "NaN or \\+inf"),
        ((np.eye(2), [0.0, math.inf]), ValueError, "NaN or \\+inf"),
        ((np.eye(2), [-math.inf, -math.inf]), ValueError, "log_r must leave at least one memory with"),
        ((np.eye(2), None, [[1.0]]), ValueError, "values must have one row for each of the K=2"),
        ((torch.eye(2) * 1j,), TypeError, "dense tensor of real numbers; got complex64"),
        ((torch.eye(2).to_sparse(),), TypeError, "dense tensor of real numbers; got sparse_coo"),
        ((None,), TypeError, "patterns must be an array of real numbers; got NoneType"),
        (("abc",), TypeError, "patterns must be an array; got the name 'abc'. Use MemoryBank.open"),
        ((csr_array(np.eye(2)),), TypeError, r"got csr_array. Call its .toarray\(\)"),
        (([[1.0, 2.0], [3.0]],), ValueError, "rows of one length"),
        (([],), ValueError, "Store at least one example"),
        ((np.ma.masked_greater(np.eye(2), 0.5),), ValueError, "must not be masked; 2 entries are"),
        ((pd.DataFrame({"age": [1.0, 2.0], "sex": ["f", "m"]}),), TypeError, "column 'sex' is"),
        ((pd.DataFrame({"age": pd.array([1, None], dtype="Int64")}),), ValueError, "must be finite; 1 of 2"),
        ((np.eye(2) * 1e200,), ValueError, "squared norms that float64 can represent; these are too large"),
        ((np.eye(2) * 1e-200,), ValueError, "these are too small"),
    ],
)
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        MemoryBank(*arguments)


def test_bad_changes():
    bank = MemoryBank(np.eye(3, 4))
    with pytest.raises(ValueError, match="d=4 columns"):
        bank.add(np.eye(2))
    with pytest.raises(ValueError, match="values must be given exactly when the bank has them; this one has none"):
        bank.add(np.eye(4), values=np.eye(4))
    with pytest.raises(ValueError, match="this one has them"):
        MemoryBank(np.eye(4), values=np.eye(4)).add(np.eye(4))
    with pytest.raises(ValueError, match="leave at least one"):
        bank.remove([0, 1, 2])
    with pytest.raises(ValueError, match=r"between 0 and 2 \(there are 3 memories\); got 3"):
        bank.remove([3])
    for indices in ([0.5], [True, False, False]):
        with pytest.raises(TypeError, match="indices must be integers from 0 to 2; got"):
            bank.remove(indices)
    with pytest.raises(ValueError, match=r"row 1 is all zeros.*bank.remove\(\[1\]\)"):
        MemoryBank([[1.0, 0.0], [0.0, 0.0]]).normalized()


def test_repr_shows_the_orientation():
    assert repr(MemoryBank(np.ones((99, 80)))).startswith("MemoryBank(K=99 memories, d=80")
    assert "3 kept" in repr(make_bank("subset"))
    assert "weighted" in repr(make_bank("weights"))
    assert "weighted" in repr(MemoryBank(np.eye(2), np.log([1.0, 1.5])))
    assert "values in 2 dimensions" in repr(MemoryBank(np.eye(2), values=np.eye(2)))


def test_data_frames_are_accepted():
    frame = pd.DataFrame({"age": pd.array([1, 2], dtype="Int64"), "smokes": [True, False], "bmi": [20.5, 30.0]})
    np.testing.assert_array_equal(MemoryBank(frame).patterns, [[1, 1, 20.5], [2, 0, 30]])


def test_tensors_with_gradients_are_stored_without():
    assert not MemoryBank(torch.eye(2, requires_grad=True)).patterns.requires_grad


def test_a_bank_for_one_beta_rejects_others():
    bank = conditioning.equalize(make_bank("unequal"), 5.0)
    assert bank.check_beta(5.0) == 5.0
    assert conditioning.subset(bank, [0, 1]).beta == bank.remove([0]).beta == 5.0
    clamped = conditioning.condition(bank, {0: 0.3}, 5.0)
    assert clamped.beta == 5.0
    for call in (
        lambda: energy.energy(np.zeros(12), bank, 6.0),
        lambda: energy.log_density(np.zeros(11), clamped, 4.0),
        lambda: energy.attend(np.zeros(12), bank, 500.0),
        lambda: conditioning.condition(bank, {0: 0.3}, 6.0),
        lambda: sa.run(bank, 6.0),
        lambda: sa.run(bank, np.linspace(4, 6, 5000)),
        lambda: sa.StochasticAttention(bank, beta=6.0).sample(3),
    ):
        with pytest.raises(ValueError, match="beta must be 5, at which this bank was conditioned or equalized"):
            call()
    for rule in ("natural", "leave_one_out", "inflection", "knee"):
        with pytest.raises(ValueError, match="must not be conditioned or equalized"):
            getattr(temperature, rule)(bank)
    with pytest.raises(ValueError, match="equalize first, then condition"):
        conditioning.equalize(clamped, 5.0)
    with pytest.raises(ValueError, match="cannot be normalized"):
        bank.normalized()


def test_arrays_and_other_things_in_place_of_a_bank():
    X = np.eye(3)
    for call in (
        lambda: energy.energy(X, X, 1.0),
        lambda: metrics.novelty(X, X),
        lambda: conditioning.subset(X, [0]),
        lambda: bounds.lipschitz(X, 1.0),
        lambda: heads.pca(X, 1),
    ):
        with pytest.raises(TypeError, match=r"bank must be a MemoryBank; got ndarray. Wrap an array: MemoryBank\(X\)"):
            call()
    assert sa.run(X, 5.0, n_chains=2, n_steps=2, warmup=0, thin=1, rng=0).samples.shape == (2, 2, 3)


def test_float32_keeps_every_direction_of_its_span():
    """Smooth data has small singular values; the rounding level of float32 would drop real ones."""
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, 20_000)
    X = np.exp(-((t - rng.random((60, 1))) ** 2) / 0.02)
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    bank = MemoryBank(X)
    lost = X - bank.coordinates @ bank.basis.T
    assert np.linalg.norm(lost, axis=1).max() < 1e-5


def test_views_of_writable_arrays_are_copied():
    base = np.eye(3)
    view = base.view()
    view.flags.writeable = False
    bank = MemoryBank(view)
    frame = pd.DataFrame(np.eye(3))
    framed = MemoryBank(frame.to_numpy())
    base[0, 0] = frame.iloc[0, 0] = 99
    assert bank.patterns[0, 0] == framed.patterns[0, 0] == 1


def test_big_endian_numbers_keep_their_precision():
    bank = MemoryBank(np.array([[1e9 + 1, 0.0], [1e9 + 2, 1.0]]).astype(">f8"))
    assert bank.patterns.dtype == np.dtype("float64")
    assert bank.patterns.dtype.isnative
    np.testing.assert_array_equal(bank.patterns[:, 0], [1e9 + 1, 1e9 + 2])


def test_multiplicities_are_finite_or_minus_infinity():
    for wrong in (np.inf, np.nan):
        with pytest.raises(ValueError, match="log_r must hold finite numbers, or -inf"):
            MemoryBank(np.eye(2), [0.0, wrong])


def test_short_memories_have_small_singular_values():
    assert MemoryBank([[1e-3, 0.0]]).sigma_max == pytest.approx(1e-3)
    assert MemoryBank([[0.0, 0.0]]).sigma_max == 0.0
