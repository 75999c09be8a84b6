"""Samples written to a file: the rows of a call without a file, in bounded memory, written atomically."""

import json
import os
import shutil
import signal
import tracemalloc
from collections import namedtuple

import numpy as np
import pytest

import stochattn as sa
from banks import make_bank
from stochattn import MemoryBank, model
from stochattn.samplers import draw, exact
from stochattn.samplers.exact import draws_in_blocks
from stochattn.storage import mapped as to_disk


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(to_disk, "BLOCK_NUMBERS", 12 * 7)


@pytest.mark.parametrize("kind", ["unit", "subset"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_file_has_the_rows_of_a_call_without_it(tmp_path, small_blocks, kind, dtype, library):
    model = sa.StochasticAttention(make_bank(kind, library, dtype), beta=8.0)
    written = model.sample(40, rng=5, out=tmp_path / "new.npy")
    assert isinstance(written, np.memmap)
    assert not written.flags.writeable
    assert written.dtype == dtype
    assert np.array_equal(written, np.asarray(model.sample(40, rng=5)))
    assert np.array_equal(written[:9], np.asarray(model.sample(9, rng=5)))
    assert np.array_equal(np.load(tmp_path / "new.npy"), written)


@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_chains_are_written_in_blocks_too(tmp_path, small_blocks, sampler):
    model = sa.StochasticAttention(make_bank("unit"), beta=8.0, sampler=sampler)
    assert np.array_equal(model.sample(10, rng=5, out=tmp_path / "new.npy"), model.sample(10, rng=5))


def test_few_chains_at_a_time(tmp_path, monkeypatch):
    """Every chain has its own generator; short rows must not create millions of them at once."""
    together = sa.StochasticAttention(np.eye(2), beta=8.0, sampler="ula").sample(10, rng=5)
    taken = []
    run = model.run
    monkeypatch.setattr(model, "run", lambda *a, **options: taken.append(options["n_chains"]) or run(*a, **options))
    monkeypatch.setattr(model, "MAX_CHAINS", 4)
    written = sa.StochasticAttention(np.eye(2), beta=8.0, sampler="ula").sample(10, rng=5, out=tmp_path / "x.npy")
    assert taken == [4, 4, 2]
    assert np.array_equal(written, together)


@pytest.mark.parametrize("size", [1, 7, 39, 40, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_of_draws_agree_with_the_draws(size, dtype):
    bank = make_bank("weights", dtype=dtype)
    parts = list(draws_in_blocks(bank, 8.0, 40, 2, size))
    assert np.array_equal(np.concatenate(parts), draw(bank, 8.0, 40, 2))
    assert {len(part) for part in parts[:-1]} <= {size}


def test_one_function_from_file_to_file(tmp_path):
    X = make_bank("unequal").patterns
    np.save(tmp_path / "bank.npy", X)
    (tmp_path / "new").mkdir()
    written = sa.sample(
        tmp_path / "bank.npy", 30, rng=1, out=str(tmp_path / "new" / "x.npy"), equal_weights=True, progress=False
    )
    assert np.array_equal(written, sa.sample(X, 30, rng=1, equal_weights=True))
    assert np.array_equal(written, sa.sample(MemoryBank(X), 30, rng=np.int64(1), equal_weights=True))
    beta = sa.temperature.natural(X, equal_weights=True)
    facts = json.loads((tmp_path / "new" / "x.npy.json").read_text())
    assert len(facts.pop("fingerprint")) == 32
    assert facts == {
        "version": sa.__version__,
        "kind": "rows",
        "n": 30,
        "d": 12,
        "seed": 1,
        "beta": beta,
        "rule": "natural",
        "novelty": None,
        "sampler": "exact",
        "device": "cpu",
        "memories": str(tmp_path / "bank.npy"),
        "K": 5,
        "kept": 5,
        "dtype": "float64",
        "equal_weights": True,
        "conditioned": False,
    }
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["x.npy", "x.npy.json"]


def test_different_laws_have_different_settings(tmp_path):
    model = sa.StochasticAttention(make_bank("unit"), beta=9.0)
    seen = []
    for number, other in enumerate((model, model.subset([0, 1]), model.weight(3.0, [1]))):
        other.sample(5, rng=0, out=tmp_path / f"{number}.npy")
        facts = json.loads((tmp_path / f"{number}.npy.json").read_text())
        seen.append((facts["kept"], facts["conditioned"], facts["fingerprint"]))
    assert [one[:2] for one in seen] == [(5, False), (2, True), (5, True)]
    assert len({one[2] for one in seen}) == 3


def test_the_seed_of_a_generator_is_recorded(tmp_path):
    written = sa.sample(np.eye(3), 5, beta=9.0, rng=np.random.default_rng(3), out=tmp_path / "x.npy")
    seed = json.loads((tmp_path / "x.npy.json").read_text())["seed"]
    assert np.array_equal(written, sa.sample(np.eye(3), 5, beta=9.0, rng=seed))


def test_memory_stays_bounded(tmp_path, monkeypatch):
    for module in (to_disk, exact):
        monkeypatch.setattr(module, "BLOCK_NUMBERS", 2**16)  # half a megabyte; all rows take 24
    tracemalloc.start()
    sa.sample(np.eye(12), 250_000, beta=9.0, rng=0, out=tmp_path / "x.npy")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e6


def test_ctrl_c_keeps_the_earlier_file(tmp_path, small_blocks, monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    out = tmp_path / "x.npy"
    old = np.array(sa.sample(np.eye(12), 3, beta=9.0, rng=0, out=out))
    settings = (tmp_path / "x.npy.json").read_text()
    update = to_disk.Progress.update

    def interrupted(self, done):
        update(self, done)
        if done > 20:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(to_disk.Progress, "update", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            sa.sample(np.eye(12), 100, beta=9.0, rng=1, out=out)
    finally:
        signal.signal(signal.SIGINT, before)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.npy", "x.npy.json"]
    assert np.array_equal(np.load(out), old)
    assert (tmp_path / "x.npy.json").read_text() == settings


def test_a_full_disk_is_an_error_before_and_while_writing(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1, 1, 2**30))
    with pytest.raises(OSError, match=r"needs 89\.4 GiB, and 1\.0 GiB are free") as caught:
        sa.sample(np.eye(12), 10**9, beta=9.0, rng=0, out=tmp_path / "x.npy")
    assert "\n" not in str(caught.value)
    monkeypatch.undo()

    def full(stream, dtype, shape):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(to_disk, "write_npy_header", full)
    with pytest.raises(OSError, match=r"cannot be written \(No space left on device\). Choose another name"):
        sa.sample(np.eye(12), 10, beta=9.0, rng=0, out=tmp_path / "x.npy")
    assert list(tmp_path.iterdir()) == []


def test_files_that_cannot_be_written(tmp_path):
    np.save(tmp_path / "bank.npy", np.eye(3))
    np.save(tmp_path / "half.npy", np.eye(3).astype(np.float16))
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "mine.npy.json").write_text("{}")
    for memories, out, error, message in (
        (np.eye(3), "x.csv", ValueError, r"out must end in .npy, the format that is written; got '.*x\.csv'"),
        (np.eye(3), "folder.npy", ValueError, "out must be a file"),
        (np.eye(3), "mine.npy", ValueError, "mine.npy.json exists and was not written by this library"),
        (np.eye(3), "file/x.npy", OSError, r"cannot be written \((Not a directory|File exists)\)"),
        (tmp_path / "bank.npy", "bank.npy", ValueError, "out must not be the file of the memories"),
        (tmp_path / "half.npy", "half.npy", ValueError, "out must not be the file of the memories"),
    ):
        with pytest.raises(error, match=message) as caught:
            sa.sample(memories, 5, beta=9.0, rng=0, out=tmp_path / out)
        assert "\n" not in str(caught.value)
    for wrong, shown in ((7, r"7 \(int\)"), (b"x.npy", r"b'x.npy' \(bytes\)")):
        with pytest.raises(TypeError, match=f"out must name an .npy file, as a string or a pathlib.Path; got {shown}"):
            sa.sample(np.eye(3), 5, beta=9.0, rng=0, out=wrong)
    with pytest.raises(ValueError, match="n must be at least 1"):
        sa.sample(np.eye(3), 0, beta=9.0, out=tmp_path / "x.npy")
