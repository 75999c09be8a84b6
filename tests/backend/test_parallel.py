"""Work on several cores: the numbers of a draw depend on its seed and its place only."""

import gc
import os
import pickle
import signal
import sys
import threading
import time
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
import threadpoolctl
import torch
from joblib.parallel import ThreadingBackend
from typer.testing import CliRunner

import stochattn as sa
from banks import make_bank, to_library
from stochattn._backend import parallel
from stochattn._backend.checks import InputError
from stochattn._backend.console import hide_warnings
from stochattn._backend.products import _controllers, limit_to_one_thread
from stochattn.cli import build_app
from stochattn.core.mixture import pick
from stochattn.kinds.images.generator import deformations
from stochattn.kinds.kind import GeneratorChoice
from stochattn.kinds.options import HopfieldOptions
from stochattn.kinds.tables.generator import neighborhoods
from stochattn.samplers import SAMPLERS, draw, exact
from stochattn.synthesizer.synthesizer import Fit, Synthesizer


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
    picked = pick(np.arange(1.0, 1001.0), exact.uniforms_of(2, range(200), 12))
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


@pytest.fixture
def kept_pool(monkeypatch):
    """The one kept thread of a machine with two cores."""
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(parallel, "usable_cores", lambda: 2)
        monkeypatch.setattr(parallel, "_kept", [pool])
        yield pool


def test_kept_threads_share_the_work_and_pass_on_errors(kept_pool):
    barrier = threading.Barrier(2, timeout=10)
    parallel.in_kept_threads(lambda _: barrier.wait(), range(2))  # one thread alone would wait forever
    seen = []
    parallel.in_kept_threads(seen.append, range(1000))
    assert sorted(seen) == list(range(1000))
    caller = threading.current_thread()
    for in_caller in (True, False):

        def work(_, in_caller=in_caller):
            barrier.wait()
            if in_caller == (threading.current_thread() is caller):
                raise ArithmeticError("in one of two threads")

        with pytest.raises(ArithmeticError, match="in one of two threads"):
            parallel.in_kept_threads(work, range(2))


def test_a_kept_thread_that_cannot_begin_delays_nothing(kept_pool):
    """Nor does it hold the arrays of calls that have returned."""
    release, seen, array = threading.Event(), [], np.empty(3)
    other_work, alive = kept_pool.submit(release.wait, 10), weakref.ref(array)
    try:
        parallel.in_kept_threads(lambda piece, array=array: seen.append(piece), range(4))
        assert seen == [0, 1, 2, 3]
        assert not other_work.done()
        del array
        assert alive() is None
    finally:
        release.set()


def test_cores_are_limited_as_those_of_numerical_libraries_are(monkeypatch):
    monkeypatch.setattr(parallel.os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    for value, cores in {"": 4, "1": 1, "3": 3, "99": 4, "2,1": 2, "0": 4, "many": 4}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert parallel.usable_cores() == cores
    monkeypatch.delattr(parallel.os, "sched_getaffinity")
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: None)
    assert parallel.usable_cores() == 1


@pytest.mark.parametrize("n_jobs", [None, 1, 7, -1, -2, np.int64(3), np.int64(-1)])
def test_numbers_of_workers(n_jobs):
    assert parallel.check_jobs(n_jobs) == n_jobs


@pytest.mark.parametrize(("n_jobs", "error"), [(0, ValueError), (True, TypeError), (1.5, TypeError), ("2", TypeError)])
def test_other_numbers_of_workers_are_refused(n_jobs, error):
    with pytest.raises(error, match="n_jobs must be"):
        parallel.check_jobs(n_jobs)


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_results_of_workers_come_in_order(n_jobs):
    with joblib.parallel_config(backend="threading"), parallel.in_workers(abs, range(-5, 5), n_jobs) as results:
        assert list(results) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]


def test_what_is_not_needed_any_more_is_not_begun():
    begun = []

    def work(piece):
        begun.append(piece)
        time.sleep(0.01)

    with joblib.parallel_config(backend="threading"), parallel.in_workers(work, range(1000), 2) as results:
        next(results)
    time.sleep(0.1)
    assert len(begun) < 10


def _interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_ctrl_c_before_the_results_have_a_name_shows_no_warning(backend, monkeypatch):
    begin = joblib.Parallel.__call__
    monkeypatch.setattr(joblib.Parallel, "__call__", lambda self, calls: _interrupt(begin(self, calls)))
    with warnings.catch_warnings(record=True) as shown, joblib.parallel_config(backend=backend):
        warnings.simplefilter("always")
        with pytest.raises(KeyboardInterrupt), parallel.in_workers(time.sleep, [0.1] * 9, 2):
            raise AssertionError("the work began in spite of Ctrl-C")
        gc.collect()
    assert [str(warning.message) for warning in shown] == []


def threads_and_cores(_):
    """What a worker has: threads of BLAS and of torch, and cores, before and inside `limit_to_one_thread`."""
    import torch

    found = []
    for limit in (nullcontext, limit_to_one_thread):
        with limit():
            info = [one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"]
            found.append((max(info), torch.get_num_threads(), parallel.usable_cores()))
    return found


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_workers_do_not_use_more_threads_than_there_are_cores(backend, monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    share = max(joblib.cpu_count() // 2, 1)
    with joblib.parallel_config(backend=backend), parallel.in_workers(threads_and_cores, range(2), 2) as results:
        for outside, inside in results:
            assert inside[:2] == (1, 1)
            if backend == "loky":
                assert max(outside) <= share
            else:
                assert outside[2] == 1


def test_single_threaded_ends_with_its_last_block():
    """Blocks of two threads overlap: the first to end must not give BLAS its threads back."""
    entered, left = threading.Event(), threading.Event()

    def blas_threads():  # of numpy's BLAS, and others that are loaded by now
        return max(one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas")

    def other():
        with limit_to_one_thread():
            entered.set()
            left.wait(10)

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        thread = threading.Thread(target=other)
        with limit_to_one_thread("scipy.linalg"):
            thread.start()
            assert entered.wait(10)
            assert blas_threads() == 1
        assert blas_threads() == 1
        left.set()
        thread.join()
        assert blas_threads() == 2


def test_single_threaded_limits_libraries_that_are_loaded_meanwhile(monkeypatch):
    """A block finds numpy's BLAS only, and one within it scipy's too."""
    blas, openmp = _controllers(len(sys.modules))
    some = [blas.select(filepath=blas.lib_controllers[0].filepath), blas]
    monkeypatch.setattr("stochattn._backend.products._controllers", lambda _: (some.pop(0), openmp))
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        with limit_to_one_thread(), limit_to_one_thread():
            assert {one.num_threads for one in blas.lib_controllers} == {1}
        assert {one.num_threads for one in blas.lib_controllers} == {2}


def test_torch_has_its_threads_back_whatever_the_order_of_blocks():
    """Thread B enters after A, and leaves after A: B must restore what there was before A."""
    before, seen = torch.get_num_threads(), []
    entered, left = threading.Event(), threading.Event()

    def other():
        with limit_to_one_thread(), limit_to_one_thread():
            seen.append(torch.get_num_threads())
            entered.set()
            left.wait(10)
        seen.append(torch.get_num_threads())

    torch.set_num_threads(3)
    try:
        thread = threading.Thread(target=other)
        with limit_to_one_thread():
            thread.start()
            assert entered.wait(10)
        assert torch.get_num_threads() == 3
        left.set()
        thread.join()
        new = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        new.start()
        new.join()
        assert seen == [1, 3, 3]
    finally:
        torch.set_num_threads(before)


def test_warnings_come_back_whatever_the_order_of_contexts():
    before = list(warnings.filters)
    first, second = hide_warnings(), hide_warnings("interrupted")
    first.__enter__()
    second.__enter__()
    warnings.warn("hidden", stacklevel=1)  # warnings are errors in the tests
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert warnings.filters == before


def _kill_this_process(_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_process_that_is_killed_is_one_line():
    killed = parallel.in_workers(_kill_this_process, [0, 0], 2)
    with (
        pytest.raises(InputError, match=r"^n_jobs=2: a worker process was ended, .* Use fewer workers"),
        killed as found,
    ):
        list(found)


def test_what_workers_share_is_unpacked_once_in_each_process():
    """Two unpackings of one object give one; the next object takes its place, also while the first is in use."""
    first, second = (parallel.Shared({"name": name, "rows": np.arange(4)}) for name in "ab")
    once, again = (pickle.loads(pickle.dumps(first)) for _ in range(2))
    assert once is again
    assert pickle.loads(pickle.dumps(second)).value["name"] == "b"
    assert np.array_equal(pickle.loads(pickle.dumps(first)).value["rows"], np.arange(4))


FIELDS = ("samples", "energies", "basins", "steps", "acceptance")


def assert_same_draws(a, b):
    assert a.settings == b.settings
    for name in FIELDS:
        assert type(getattr(a, name)) is type(getattr(b, name))
        assert np.asarray(getattr(a, name)).tobytes() == np.asarray(getattr(b, name)).tobytes()
    assert {**vars(a.last), "state": None} == {**vars(b.last), "state": None}
    assert a.last.state.keys() == b.last.state.keys()
    for name, value in a.last.state.items():
        assert np.shape(value) == np.shape(b.last.state[name])
        assert np.asarray(value).tobytes() == np.asarray(b.last.state[name]).tobytes()


CHAINS = {"n_chains": 29, "first_chain": 5, "n_steps": 30, "warmup": 0, "thin": 10, "rng": 3}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_runs_are_the_same_for_any_number_of_workers(sampler, library):
    """Also those that continue: from draws, from states and from memories, with whole and with cut blocks of rows."""
    bank = make_bank("weights", library)
    whole = sa.run(bank, 9.0, sampler=sampler, **CHAINS)
    states = np.asarray(whole.samples)[:, 0]
    with joblib.parallel_config(backend="threading"):
        for n_jobs in (1, 2, 3, 64):
            assert_same_draws(sa.run(bank, 9.0, sampler=sampler, n_jobs=n_jobs, **CHAINS), whole)
        continued = sa.run(bank, 9.0, n_steps=25, thin=10, start=whole)
        assert_same_draws(sa.run(bank, 9.0, n_steps=25, thin=10, start=whole, n_jobs=2), continued)
        for start in (states, np.arange(29) % 5, "equilibrium", "sphere"):
            options = {**CHAINS, "sampler": sampler, "start": start}
            assert_same_draws(sa.run(bank, 9.0, n_jobs=3, **options), sa.run(bank, 9.0, **options))


@pytest.fixture(scope="module")
def dask_client():
    from distributed import Client

    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0") as client:
        yield client


class ShiftedULA(SAMPLERS["ula"]):
    """A sampler that only this process knows: workers receive it."""


@pytest.mark.parametrize("backend", ["loky", "dask"])
@pytest.mark.parametrize("sampler", ["mala", "shifted"])
def test_runs_are_the_same_in_processes_and_on_a_cluster(backend, sampler, request, library, monkeypatch):
    """The bank is larger than the 1 MB from which on joblib maps arrays, and BLAS would use threads for it."""
    if backend == "dask":
        request.getfixturevalue("dask_client")
    monkeypatch.setitem(SAMPLERS, "shifted", ShiftedULA)
    patterns = np.random.default_rng(0).standard_normal((400, 784)) / 9
    bank = sa.MemoryBank(to_library(patterns, library))
    options = {**CHAINS, "sampler": sampler, "n_chains": 40}
    with threadpoolctl.threadpool_limits(2):
        whole = sa.run(bank, 9.0, **options)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert_same_draws(sa.run(bank, 9.0, **options), whole)


def test_on_keep_needs_one_job():
    with pytest.raises(ValueError, match="n_jobs must be 1 or None with on_keep"):
        sa.run(make_bank("unit"), 9.0, on_keep=print, n_jobs=2)
    steps = []
    with joblib.parallel_config(backend="threading", n_jobs=2):
        sa.run(make_bank("unit"), 9.0, on_keep=lambda step, x: steps.append((step, len(x))), **CHAINS)
    assert steps == [(10, 29), (20, 29), (30, 29)]


def test_starts_are_checked_before_the_chains_are_divided():
    with pytest.raises(ValueError, match="one entry for each of the 29 chains; got 4"):
        sa.run(make_bank("unit"), 9.0, start=np.zeros((4, 12)), n_jobs=2, **CHAINS)


@pytest.mark.parametrize("sampler", ["exact", "ula"])
def test_samples_are_the_same_for_any_number_of_jobs(sampler, small_blocks, tmp_path):
    model = sa.StochasticAttention(make_bank("unit"), beta=8.0, sampler=sampler).condition({0: 0.1})
    whole = model.sample(21, rng=1)
    with joblib.parallel_config(backend="threading"):
        for n_jobs in (1, 2, -1):
            assert np.array_equal(model.sample(21, rng=1, n_jobs=n_jobs), whole)
        assert np.array_equal(model.sample(21, rng=1, n_jobs=2, out=tmp_path / "new.npy"), whole)
    rows = make_bank("unit").patterns
    assert np.array_equal(sa.sample(rows, 21, rng=1, n_jobs=2), sa.sample(rows, 21, rng=1))
    with pytest.raises(ValueError, match="n_jobs must be"):
        model.sample(2, n_jobs=0)


def test_threads_for_n_jobs(monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 4)
    assert [parallel.n_threads(n) for n in (None, -1, -2, -9, 1, 7)] == [4, 4, 3, 1, 1, 7]


class AllAtTheEnd(ThreadingBackend):
    """A backend, as that of Ray, whose results come all at the end."""

    supports_return_generator = False


def test_backends_that_return_all_results_at_the_end():
    joblib.register_parallel_backend("all at the end", AllAtTheEnd)
    bank = make_bank("unit")
    whole = sa.run(bank, 9.0, **CHAINS)
    with joblib.parallel_config(backend="all at the end", n_jobs=2):
        assert_same_draws(sa.run(bank, 9.0, **CHAINS), whole)
        with parallel.in_workers(str, range(5), None, ordered=False) as found:
            assert list(found) == ["0", "1", "2", "3", "4"]


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Inputs whose generators search for their settings, by kind."""
    folder, rng = tmp_path_factory.mktemp("searched"), np.random.default_rng(0)
    rows = rng.standard_normal((80, 4)) @ rng.standard_normal((4, 4))
    rows[:40] += 5
    np.savetxt(folder / "rows.csv", rows, delimiter=",", header="a,b,c,d", comments="")
    ramps = np.linspace(0, 255, 12)[:, None] * rng.random((16, 1, 12))
    np.save(folder / "pictures.npy", (ramps + rng.integers(0, 20, (16, 12, 12))).clip(0, 255).astype(np.uint8))
    letters = np.array(list("ACDEFGHIKLMNPQRSTVWY"))[rng.integers(0, 6, (20, 15))]
    (folder / "family.fasta").write_text("".join(f">s{i}\n{''.join(row)}\n" for i, row in enumerate(letters)))
    return {"covariance": folder / "rows.csv", "patches": folder / "pictures.npy", "latent": folder / "family.fasta"}


def saved(source, path, **options):
    """The bytes of the synthesizer, with the settings that were found, and some of its draws."""
    synth = sa.fit(source, **options)
    drawn = synth.sample_items(5, 0)
    synth.save(path, replace=True)
    return path.read_bytes(), synth.codec.features(drawn).tobytes()


@pytest.mark.parametrize("generator", ["covariance", "patches", "latent"])
@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow), "dask"])
def test_fits_are_the_same_for_any_number_of_workers(searched, generator, backend, tmp_path, request):
    if backend == "dask":
        request.getfixturevalue("dask_client")
    source, path = searched[generator], tmp_path / "a.synth"
    with threadpoolctl.threadpool_limits(2):
        alone = saved(source, path)
    assert saved(source, path, n_jobs=1) == alone
    with joblib.parallel_config(backend=backend):
        for n_jobs in (2, 3):
            assert saved(source, path, n_jobs=n_jobs) == alone
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert saved(source, path) == alone


def test_searches_use_the_workers_that_are_asked_for(searched, monkeypatch):
    seen, real = [], neighborhoods.in_workers

    def watched(work, pieces, n_jobs):
        seen.append(len(pieces))
        return real(work, pieces, n_jobs)

    monkeypatch.setattr(neighborhoods, "in_workers", watched)
    with joblib.parallel_config(backend="threading"):
        for n_jobs, most in ((None, 1), (1, 1), (3, 3)):
            seen.clear()
            sa.fit(searched["covariance"], n_jobs=n_jobs).describe()
            assert max(seen) == most
        seen.clear()
        sa.fit(searched["covariance"]).sample(5000, rng=0, n_jobs=2)  # a search of the first draw
        assert max(seen) == 2
        seen.clear()
        conditioned = sa.fit(searched["covariance"], n_jobs=3).subset(np.arange(60)).condition(a=1.0)
        conditioned.sample(3, rng=0)
        assert max(seen) == 3
        assert (
            conditioned.refit(np.arange(40)).generator_fit.n_jobs is None
        )  # workers of a validation search one by one
        for command in ("sample", "report"):
            seen.clear()
            words = [command, str(searched["covariance"]), "-n", "20", "--jobs", "3", "-o"]
            out = searched["covariance"].with_name({"sample": "new.csv", "report": "page.html"}[command])
            words += [str(out), *(["--quick"] if command == "report" else [])]
            result = CliRunner().invoke(build_app(), words)
            assert result.exit_code == 0, result.output
            assert max(seen) == 3


def test_searches_in_threads_use_no_more_than_asked_for(searched, monkeypatch):
    seen, real = [], deformations.in_threads

    def watched(work, pieces, n_threads=None):
        seen.append(parallel.usable_cores())
        return real(work, pieces, n_threads)

    monkeypatch.setattr(deformations, "in_threads", watched)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    for n_jobs, most in ((None, 8), (1, 1), (2, 2), (-1, 8), (-2, 7)):
        seen.clear()
        sa.fit(searched["patches"], n_jobs=n_jobs).sample(1, rng=0)
        assert set(seen) == {most}
    assert parallel.usable_cores() == 8


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2"])
def test_numbers_of_workers_of_a_fit_are_checked(searched, n_jobs):
    with pytest.raises((ValueError, TypeError), match="n_jobs must be"):
        sa.fit(searched["covariance"], n_jobs=n_jobs)


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_settings_are_searched_for_at_once_if_workers_are_named(n_jobs):
    asked = []

    class Generator:
        def describe(self):
            asked.append(joblib.parallel.get_active_backend()[1])

    generator = Generator()
    kind = SimpleNamespace(fit_generator=lambda *arguments: generator)
    choice = GeneratorChoice("plain", HopfieldOptions())
    synth = Synthesizer(Fit(kind, SimpleNamespace(K=3), choice, np.ones(3), n_jobs=n_jobs))
    assert synth.generator is generator
    assert asked == ([] if n_jobs is None else [n_jobs])
