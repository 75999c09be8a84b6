"""Work on several cores: the numbers of a draw depend on its seed and its place only."""

import threading

import numpy as np
import pytest

import stochattn as sa
from banks import make_bank
from stochattn._backend import parallel
from stochattn.samplers import draw, exact


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(exact, "BLOCK_NUMBERS", 60)  # five rows of twelve numbers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_partition_and_any_number_of_threads_give_the_same_draws(small_blocks, library, dtype):
    bank = make_bank("weights", library, dtype)
    whole = np.asarray(draw(bank, 8.0, 43, seed=2))
    for n_threads in (1, 2, 5):
        assert np.array_equal(draw(bank, 8.0, 43, seed=2, n_threads=n_threads), whole)
    for first in (0, 1, 4, 5, 6, 38, 42):
        for n in (1, 2, 5, 43 - first):
            assert np.array_equal(draw(bank, 8.0, min(n, 43 - first), seed=2, first=first), whole[first : first + n])


def test_a_bank_in_a_file_gives_the_same_draws(small_blocks, tmp_path):
    bank = make_bank("unit")
    np.save(tmp_path / "bank.npy", bank.patterns)
    mapped = sa.MemoryBank.open(tmp_path / "bank.npy")
    assert np.array_equal(draw(mapped, 8.0, 43, seed=2), draw(bank, 8.0, 43, seed=2))


def test_blocks_do_not_repeat_numbers(small_blocks):
    """Around one memory draws are its place plus noise: 200 rows in 40 blocks are 200 different rows."""
    samples = draw(sa.MemoryBank(np.ones((1, 12))), 8.0, 200, seed=2)
    assert len(np.unique(samples.round(12), axis=0)) == 200
    picked = exact.picked_memories(np.arange(1.0, 1001.0), 2, range(200), 12)
    assert len(np.unique(picked)) > 150  # 181 of 1,000 on average; five if blocks had the same numbers


def test_threads_share_the_work_and_errors_end_it():
    barrier = threading.Barrier(2, timeout=10)
    parallel.in_threads(lambda _: barrier.wait(), range(2), 2)  # one thread alone would wait forever
    seen = []

    def work(piece):
        seen.append(piece)
        if piece == 1:
            raise ArithmeticError("piece 1")

    with pytest.raises(ArithmeticError, match="piece 1"):
        parallel.in_threads(work, range(10_000), 2)
    assert len(seen) < 10_000


def test_cores_are_limited_as_those_of_numerical_libraries_are(monkeypatch):
    monkeypatch.setattr(parallel.os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    for value, cores in {"": 4, "1": 1, "3": 3, "99": 4, "2,1": 2, "0": 4, "many": 4}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert parallel.usable_cores() == cores
    monkeypatch.delattr(parallel.os, "sched_getaffinity")
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: None)
    assert parallel.usable_cores() == 1


@pytest.mark.parametrize("n_jobs", [None, 1, 7, -1, -2, np.int64(3)])
def test_numbers_of_workers(n_jobs):
    assert parallel.checked_jobs(n_jobs) == n_jobs


@pytest.mark.parametrize(("n_jobs", "error"), [(0, ValueError), (True, TypeError), (1.5, TypeError), ("2", TypeError)])
def test_other_numbers_of_workers_are_refused(n_jobs, error):
    with pytest.raises(error, match="n_jobs must be"):
        parallel.checked_jobs(n_jobs)


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_results_of_workers_come_in_order(n_jobs):
    assert list(parallel.in_workers(abs, range(-5, 5), n_jobs, prefer="threads")) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]
