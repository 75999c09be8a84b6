"""When a stored result is reused for a task, and when the task runs again."""

import shutil

import pytest

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


def test_the_code_digest_covers_all_imports_of_an_experiment():
    from paper.experiments import digits

    names = {path.name for path in runner._own_files(runner.Path(digits.__file__), set())}
    assert {"digits.py", "digits.toml", "mnist.py", "mnist.toml", "protocol.py", "static.py", "vae.py"} <= names
    assert {"training.py", "closed_form.py", "results.py", "data.py", "sources.py"} <= names
    assert not {"cli.py", "runner.py", "report.py", "protein.py"} & names
    digests = {name: runner.code_digest(name) for name in ("digits", "mnist", "protein")}
    assert len(set(digests.values())) == 3
