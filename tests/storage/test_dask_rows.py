"""Banks in a dask.array: agreement with banks in memory for any chunks, draws, chains, memory, and bad arrays."""

import re
import shutil
import subprocess
import sys
import tracemalloc
from contextlib import nullcontext

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from test_mapped import KINDS, everything, memories

import stochattn as sa
from stochattn import MemoryBank, conditioning, neighbors, temperature
from stochattn import energy as E
from stochattn._backend.array_files import ZarrRows, create_zarr, read_zarr
from stochattn.core import temperature as probes
from stochattn.samplers import draw
from stochattn.storage import blockwise, mapped
from stochattn.storage import dask as dask_rows
from stochattn.storage.dask import DaskRows

CHUNKS = ((300,), (7, 200, 0, 93), (30,) * 10, (1,) * 20 + (280,))  # one, an empty one, more than a task merges
FEW = {"n_chains": 3, "n_steps": 40, "warmup": 0, "thin": 10, "rng": 1}


@pytest.fixture(autouse=True)
def one_thread():
    """Two threads would compete for the memory that a test measures."""
    with dask.config.set(scheduler="sync"):
        yield


def chunked(X, chunks=CHUNKS[1]):
    return da.from_array(X, chunks=(chunks, X.shape[1]))


@pytest.mark.parametrize("chunks", CHUNKS, ids=len)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:retrieve stopped")
def test_every_function_agrees_with_the_bank_in_memory(kind, chunks):
    X = memories()
    mine, theirs = KINDS[kind](MemoryBank(chunked(X, chunks))), KINDS[kind](MemoryBank(X))
    assert isinstance(mine.patterns, DaskRows)
    np.testing.assert_array_equal(mine.norms_squared, theirs.norms_squared)
    assert (mine.rank, repr(mine)) == (theirs.rank, repr(theirs))
    x = memories(4, mine.d, seed=1)
    found, expected = everything(mine, x), everything(theirs, x)
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f4", np.int16, np.uint8, np.bool_])
def test_other_dtypes_are_converted_as_they_are_read(dtype):
    X = np.round(3 * memories()).astype(dtype)
    bank, plain, x = MemoryBank(chunked(X)), MemoryBank(X), memories(4, seed=1)
    assert bank.patterns.dtype == plain.patterns.dtype
    assert bank.patterns[3].shape == (5,)
    np.testing.assert_array_equal(bank.patterns[[7, 3]], plain.patterns[[7, 3]])
    np.testing.assert_allclose(E.attend(x, bank, 2.0), E.attend(x, plain, 2.0), rtol=1e-4, atol=1e-4)
    assert np.array_equal(draw(bank, 2.0, 50, 3).compute(), draw(plain, 2.0, 50, 3))


@pytest.mark.parametrize("beta", [0.01, 2.0, 1e4])
def test_merging_is_one_softmax_at_any_beta(beta):
    X = memories() * np.geomspace(1e-3, 10, 300)[:, None]  # the last chunk outweighs the others
    x = memories(4, seed=1)
    for rows in (X, X[::-1]):
        logits = beta * x @ rows.T
        top = logits.max(1, keepdims=True)
        p = np.exp(logits - top)
        sums = blockwise.attention(x, DaskRows.of(chunked(rows)), None, beta, values=rows[:, :2], spread=True)
        np.testing.assert_allclose(sums.logsumexp, top + np.log(p.sum(1, keepdims=True)), rtol=1e-12)
        p /= p.sum(1, keepdims=True)
        np.testing.assert_allclose(sums.mean, p @ rows[:, :2], rtol=1e-9, atol=1e-12)
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = -np.nansum(p * np.log(p), axis=1, keepdims=True)
        np.testing.assert_allclose(sums.entropy, expected, rtol=1e-8, atol=1e-9)


def test_a_shard_that_is_masked_out_counts_for_nothing():
    X, x = memories(), memories(4, seed=1)
    for kept in (np.arange(7), np.arange(250, 300)):  # the first chunk only, the last only
        mine, theirs = (conditioning.subset(MemoryBank(b), kept) for b in (chunked(X), X))
        for f in (E.energy, E.attend, E.entropy):
            np.testing.assert_allclose(f(x, mine, 2.0), f(x, theirs, 2.0), rtol=1e-9, atol=1e-9)
        assert set(neighbors.nearest_memory(x, mine)[0]) <= set(kept)
        assert len(mine.active.patterns._shards) == 1


@pytest.mark.parametrize("chunks", CHUNKS, ids=len)
def test_draws_are_the_same_bits_for_any_chunks(chunks, monkeypatch):
    monkeypatch.setattr("stochattn.samplers.exact.BLOCK_NUMBERS", 100)  # 20 rows in a block of draws
    monkeypatch.setattr(mapped, "BLOCK_NUMBERS", 300)  # and 60 in a chunk of the result
    X = memories()
    for change in (*KINDS.values(), lambda bank: bank.normalized().remove([0, 5])):
        mine, theirs = change(MemoryBank(chunked(X, chunks))), change(MemoryBank(X))
        for first in (0, 33):
            drawn = draw(mine, 2.0, 250, 3, first)
            assert isinstance(drawn, da.Array)
            assert max(drawn.chunks[0]) < 250
            assert np.array_equal(drawn.compute(), draw(theirs, 2.0, 250, 3, first))
            assert np.array_equal(drawn[100:130].compute(), draw(theirs, 2.0, 30, 3, first + 100))


def test_a_chunk_of_draws_needs_the_chunks_of_its_memories_only():
    read = []

    def counted(block, block_info=None):
        if block_info and block_info[0]["chunk-location"] is not None:
            read.append(block_info[0]["chunk-location"][0])
        return block

    x = chunked(memories(), (30,) * 10).map_blocks(counted, dtype=float)
    model = sa.StochasticAttention(x, 2.0, equal_weights=True)
    few = model.subset(np.arange(65, 85)).sample(50, rng=0)
    read.clear()
    few.compute()
    assert sorted(read) == [2]
    read.clear()
    model.sample(5000, rng=0).compute()
    assert sorted(read) == list(range(10))  # each once, for all draws


def test_the_facade_agrees_with_the_model_in_memory(tmp_path):
    X, x = memories(), memories(4, seed=1)
    mine, theirs = (sa.StochasticAttention(b, equal_weights=True) for b in (chunked(X), X))
    assert mine.beta == theirs.beta  # few enough numbers to be copied: the same rule on the same rows
    new = theirs.sample(50, rng=0)
    drawn = mine.sample(50, rng=0)
    assert np.array_equal(drawn.compute(), new)
    np.testing.assert_allclose(mine.log_density(drawn), theirs.log_density(new), rtol=1e-9)
    for name in ("energy", "log_density", "score", "attend", "retrieve"):
        np.testing.assert_allclose(getattr(mine, name)(x), getattr(theirs, name)(x), rtol=1e-7, atol=1e-7)
    drawn.to_zarr(tmp_path / "new.zarr")
    assert np.array_equal(da.from_zarr(tmp_path / "new.zarr").compute(), new)
    mine.sample(50, rng=0, out=tmp_path / "new.npy")
    assert np.array_equal(np.load(tmp_path / "new.npy"), new)
    for change in (lambda m: m.condition({1: 0.2, 3: -0.5}), lambda m: m.weight(np.arange(300.0))):
        assert np.array_equal(change(mine).sample(50, rng=0).compute(), change(theirs).sample(50, rng=0))


@pytest.mark.parametrize("sampler", ["ula", "mala", "underdamped", "exact"])
@pytest.mark.parametrize("kind", ["full", "span", "subset"])
def test_chains_agree_to_rounding(sampler, kind):
    """40 steps amplify the differences of summation in float64, some 1e-16, to less than 1e-9 relative."""
    X = memories(300, 4) @ memories(4, 4 if kind == "full" else 9, seed=1) / 3
    mine, theirs = (MemoryBank(b) for b in (chunked(X), X))
    if kind == "subset":
        mine, theirs = (conditioning.subset(b, np.arange(5, 250, 2)) for b in (mine, theirs))
    found, expected = (sa.run(b, 2.0, sampler=sampler, **FEW) for b in (mine, theirs))
    assert found.settings == expected.settings
    assert found.settings.dimensions == 4
    np.testing.assert_allclose(found.samples, expected.samples, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.energies, expected.energies, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found.basins, expected.basins)
    alone = sa.run(mine, 2.0, sampler=sampler, **{**FEW, "n_chains": 1, "first_chain": 2})
    assert np.array_equal(alone.samples[0], found.samples[2])


def test_a_step_is_one_task_graph(monkeypatch):
    computed = []
    monkeypatch.setattr(
        dask, "compute", lambda *graphs, f=dask.compute, **given: computed.append(1) or f(*graphs, **given)
    )
    bank = MemoryBank(chunked(memories()))
    assert len(computed) == 1  # norms
    E.attend(memories(2000, seed=1), bank, 2.0)
    E.energy(memories(4, seed=1), bank, 2.0)
    assert len(computed) == 3
    computed.clear()
    sa.run(bank, 2.0, n_steps=30, warmup=0, thin=30, rng=0, n_chains=8, span=False)
    assert len(computed) == 1 + 30 + 2 + 1  # the start, steps, energies and basins at the end, the fingerprint


@pytest.fixture
def everything_large(monkeypatch):
    monkeypatch.setattr(mapped, "MAX_SMALL_NUMBERS", 100)


@pytest.mark.parametrize("equal_weights", [False, True])
def test_rules_for_large_banks_choose_the_beta_of_the_bank_in_memory(everything_large, equal_weights):
    X = memories(300) / 2
    mine, theirs = MemoryBank(chunked(X)), MemoryBank(X)
    for rule in (temperature.natural, temperature.leave_one_out):
        found, expected = (rule(b, equal_weights=equal_weights) for b in (mine, theirs))
        assert found == pytest.approx(expected, rel=1e-5)
    for call in (
        lambda: temperature.inflection(mine),
        lambda: temperature.for_novelty(mine, 0.1),
        lambda: mine.add(np.zeros((1, 5))),
    ):
        with pytest.raises(ValueError, match=r"copy the whole dask.array of memories, 300 rows of 5 .*x.compute\(\)"):
            call()


def test_leave_one_out_with_a_chunk_of_the_memory_that_is_left_out(everything_large):
    X = memories(61) / 2
    mine = MemoryBank(da.from_array(X, chunks=((60, 1), (5,))))
    assert temperature.leave_one_out(mine) == pytest.approx(temperature.leave_one_out(X), rel=1e-5)


def test_natural_reads_the_rows_of_all_betas_together(everything_large, monkeypatch):
    bank, gathered = MemoryBank(chunked(memories())), []
    monkeypatch.setattr(probes, "rows_at", lambda patterns, k: gathered.append(len(k)) or mapped.rows_at(patterns, k))
    temperature.natural(bank)
    assert len(gathered) <= probes.MAX_PASSES
    assert gathered[0] == probes.BETAS_PER_PASS * 512


@pytest.mark.slow
def test_memory_is_that_of_a_chunk(tmp_path):
    """Peaks, as numpy allocates them, stay below four chunks of 1 MB for a bank of 40."""
    K, d, chunk = 160_000, 64, 4000
    x = da.random.default_rng(0).standard_normal((K, d), chunks=(chunk, d), dtype=np.float32)
    x.to_zarr(tmp_path / "bank.zarr")
    x, states = da.from_zarr(tmp_path / "bank.zarr"), memories(32, d, seed=1)
    size, vectors = chunk * d * 4, K * 8 * 4
    peaks = {}

    def measure(name, work):
        tracemalloc.start()
        made = work()
        peaks[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return made

    bank = measure("bank", lambda: MemoryBank(x))
    model = measure("model", lambda: sa.StochasticAttention(bank, 1.0, equal_weights=True))
    measure("attend", lambda: model.attend(states))
    measure("nearest", lambda: neighbors.nearest_memory(states, bank))
    measure("run", lambda: model.run(sampler="ula", n_steps=2, warmup=0, thin=2, rng=0, n_chains=8))
    measure("draws", lambda: model.sample(5000, rng=0).to_zarr(tmp_path / "new.zarr"))
    assert max(peaks.values()) < vectors + 4 * size, peaks
    assert K * d * 4 > 3 * (vectors + 4 * size)  # the bank itself would not pass


def test_arrays_that_cannot_be_banks():
    x = chunked(memories())
    cases = {
        "got 3 chunks along the columns. Join them: x.rechunk((200, -1)).": x.rechunk({1: 2}),
        "has unknown ones. Compute them first: x.compute_chunk_sizes().": x[x[:, 0] > 0],
        "got a dask.array with 1 axes. For a single memory pass x[None, :].": x[0],
        "got a dask.array with 3 axes. Flatten each example to a row first.": x[:, :, None],
        "got shape (0, 5)": x[:0],
    }
    for message, wrong in cases.items():
        with pytest.raises(ValueError, match=r"^patterns must") as error:
            sa.StochasticAttention(wrong)
        assert message in str(error.value)
        assert "\n" not in str(error.value)
    with pytest.raises(TypeError, match="must hold real numbers of at most 64 bits; got complex128"):
        MemoryBank(x * 1j)
    with pytest.raises(TypeError, match="read by whole rows"):
        MemoryBank(x).patterns[:, 0]


def test_nan_in_one_chunk_is_found_by_its_row():
    X = memories()
    X[207, 3] = np.nan
    X[250] = np.inf
    with pytest.raises(ValueError, match=r"^patterns must be finite; row 207 has NaN .* in column 3"):
        MemoryBank(chunked(X))


def test_no_progress_is_shown_by_the_threads_that_read_chunks(monkeypatch):
    shown = []

    class Bar(nullcontext):
        def __init__(self, K, label, progress):
            super().__init__(self)
            shown.append(progress)

        def update(self, done):
            pass

    monkeypatch.setattr("stochattn.storage.mapped.Progress", Bar)
    MemoryBank(chunked(memories()), progress=True)
    assert set(shown) == {False}


def test_dask_is_not_needed_without_dask_arrays():
    code = "import sys; sys.modules['dask'] = sys.modules['distributed'] = None; import numpy as np, stochattn as sa; "
    code += "sa.StochasticAttention(np.eye(4), 9.0).sample(3, rng=0)"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert dask_rows.is_dask(da.ones(3))
    assert not dask_rows.is_dask(np.ones(3))


def test_chunks_of_a_zarr_array_that_are_lost_are_named(tmp_path):
    """Zarr reads a chunk that is not there as zeros, without a word."""
    place = tmp_path / "bank.zarr"
    array = zarr.create_array(store=place, shape=(100, 3), chunks=(10, 3), dtype="float64")
    array[...] = np.random.default_rng(0).normal(3, 1, (100, 3))
    assert MemoryBank(da.from_zarr(place)).K == 100  # warnings are errors
    shutil.rmtree(place / "c" / "4")
    lost = (
        "1 of 10 chunks are not stored, and are read as 0.0. Copy the array again, unless all values in them are 0.0."
    )
    for x in (da.from_zarr(place), da.from_zarr(place).astype("float32").rechunk((50, 3))):
        with pytest.warns(UserWarning, match=f"patterns come from a Zarr array: {re.escape(lost)}"):
            MemoryBank(x)
    with pytest.warns(UserWarning, match=f"bank.zarr: {re.escape(lost)}"):
        sa.fit(place, "table")


def test_arrays_that_are_written_have_all_chunks_also_those_of_zeros(tmp_path):
    create_zarr(tmp_path, (20, 2), 5, np.dtype(float), {})
    rows = ZarrRows(tmp_path)
    rows.write(0, np.zeros((20, 2)))
    rows.close()
    assert (read_zarr(tmp_path)[0] == 0).all()  # without a warning
