"""When a stored result is reused for a task, when the task runs again, and by which workers."""

import dataclasses
import os
import shutil
import signal

import pytest
import threadpoolctl

from paper import runner
from paper.runner import Task

from . import made


@pytest.fixture
def task(folder, tmp_path):
    own = tmp_path / "data"
    shutil.copytree(folder, own)
    return Task("trajectories", own, tmp_path / "out", 0, True)


def test_a_result_is_reused_while_seed_data_and_code_are_unchanged(task, monkeypatch):
    assert not runner.is_done(task)
    runner.perform(task)
    assert runner.is_done(task)
    assert not runner.is_done(Task("trajectories", task.folder, task.out, 1, True))
    assert not runner.is_done(Task("trajectories", task.folder, task.out, 0, False))
    monkeypatch.setattr(runner, "code_digest", lambda name: "other")
    assert not runner.is_done(task)


def test_changed_or_damaged_data_is_not_reused(task):
    runner.perform(task)
    shutil.copy(task.folder / "synthetic.npz", task.folder / "olivetti.npz")
    made.list_checksums(task.folder)
    assert not runner.is_done(task)
    (task.folder / "olivetti.npz").write_bytes(b"")
    assert not runner.is_done(task)


def test_a_result_is_not_reused_if_the_library_gives_other_numbers(task, monkeypatch):
    runner.perform(task)
    current = runner.fingerprint(task.name)
    rounded = {part: [x * (1 + 1e-9) for x in numbers] for part, numbers in current.items()}
    monkeypatch.setattr(runner, "fingerprint", lambda name: rounded)
    assert runner.is_done(task)
    changed = {**current, "energy": [x + 1e-4 for x in current["energy"]]}
    monkeypatch.setattr(runner, "fingerprint", lambda name: changed)
    assert not runner.is_done(task)


def test_repetitions_have_other_seeds_and_folders_of_their_own(task):
    again = dataclasses.replace(task, repeat=2)
    assert (task.own_seed, again.own_seed) == (0, 2000)
    assert (task.label, again.label) == ("trajectories", "trajectories, seed 2000")
    assert again.place == task.out / "trajectories" / "repeat-2"
    runner.perform(task)
    assert not runner.is_done(again)
    runner.perform(again)
    assert runner.is_done(again)
    assert runner.is_done(task)


NAMES = ("trajectories", "temperature-sweep")


def numbers_of(out):
    """The bytes of all tables of the results in a folder, by name."""
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*.csv")}


def test_results_do_not_depend_on_the_number_of_workers(folder, tmp_path):
    shown, found = [], {}
    for jobs in (1, 2):
        tasks = [Task(name, folder, tmp_path / str(jobs), 0, True) for name in NAMES]
        outcomes = list(runner.run_all(tasks, jobs, lambda name, text, share: shown.append((name, share))))
        assert sorted(outcome.name for outcome in outcomes) == sorted(NAMES)
        assert not any(outcome.error or outcome.reused for outcome in outcomes)
        assert {name for name, _ in shown} == set(NAMES)
        shown.clear()
        found[jobs] = numbers_of(tmp_path / str(jobs))
    assert found[1]
    assert found[1] == found[2]


def test_a_worker_that_is_killed_ends_its_experiments_only(folder, tmp_path, monkeypatch):
    def killed(send, task):
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(runner, "_attempt", killed)
    tasks = [Task(name, folder, tmp_path, 0, True) for name in NAMES]
    outcomes = list(runner.run_all(tasks, 2, lambda *_: None))
    assert [outcome.name for outcome in outcomes] == list(NAMES)
    assert {outcome.error for outcome in outcomes} == {"its process ended without a result (out of memory?)"}


def test_experiments_use_one_thread_of_linear_algebra(folder, tmp_path, monkeypatch):
    threads = []

    def watched(task):
        threads.extend(one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas")
        return 0.0

    monkeypatch.setattr(runner, "perform", watched)
    with threadpoolctl.threadpool_limits(2):
        (outcome,) = runner.run_all([Task("trajectories", folder, tmp_path, 0, True)], 1, lambda *_: None)
    assert not outcome.error
    assert set(threads) == {1}
