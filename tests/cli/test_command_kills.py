"""Processes that are killed while they write, or that write to one place at the same time."""

import os
import subprocess
import sys

import pytest

from command_runner import refused, works
from stochattn._backend import files
from stochattn.cli import commands
from stochattn.kinds.summary import read_summary

KILLED_AT_EACH_MOVE = """
import os, shutil, signal, sys
from pathlib import Path
import stochattn as sa

source, out, moves = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
synth, real_replace = sa.fit(source), os.replace
synth.write(out / "a0" / out.name, 5, rng=0)
for at in range(1, moves + 2):
    place = out / f"a{at}" / out.name
    shutil.copytree(place.parent.with_name("a0"), place.parent)
    child = os.fork()
    if child == 0:
        count = 0
        def replace(old, new):
            global count
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
            real_replace(old, new)
        os.replace, shutil.rmtree = replace, lambda *given, **options: os.kill(os.getpid(), signal.SIGKILL)
        synth.write(place, 6, rng=1, replace=True)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
"""
FOUR_WRITERS = """
import os, sys, time
from pathlib import Path
import stochattn as sa

source, out = Path(sys.argv[1]), Path(sys.argv[2])
synth, real_replace = sa.fit(source), os.replace
os.replace = lambda old, new: (time.sleep(0.01), real_replace(old, new))  # the others have time to come between
synth.describe()
children = []
for writer in range(4):
    child = os.fork()
    if child == 0:
        code = 0
        for turn in range(5):
            try:
                synth.write(out, 3 + writer, rng=writer, replace=True)
            except Exception as error:
                print(writer, type(error).__name__, error, file=sys.stderr)
                code = 1
        os._exit(code)
    children.append(child)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def python(code, *words):
    done = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_file_and_its_summary_fit_or_are_refused_after_a_kill_at_any_move(inputs, tmp_path):
    place = tmp_path / "new.csv"
    (place / "a0").mkdir(parents=True)
    python(KILLED_AT_EACH_MOVE, inputs["table"], place, 2)
    before, between, after = (place / f"a{at}" / "new.csv" for at in (1, 2, 3))
    assert read_summary(before).fits(before)
    assert read_summary(before).n == 5
    assert not read_summary(between).fits(between)
    assert "is not what its summary" in refused("report", inputs["table"], between)
    assert "is not what an earlier run wrote" in refused("sample", inputs["table"], "-o", between)
    assert read_summary(after).fits(after)
    assert read_summary(after).n == 6
    for path in (before, between, after):
        works("sample", inputs["table"], "-n", 7, "--replace", "-o", path)
        assert read_summary(path).fits(path)
        assert sorted(p.name for p in path.parent.iterdir()) == ["new.csv", "new.csv.json"]


def test_a_folder_has_its_name_again_after_a_kill_at_any_move(inputs, tmp_path):
    place = tmp_path / "new"
    (place / "a0").mkdir(parents=True)
    python(KILLED_AT_EACH_MOVE, inputs["image"], place, 2)
    for at, n in ((1, 5), (2, 6), (3, 6)):
        path = place / f"a{at}" / "new"
        assert path.exists() == (at != 2)
        summary = commands._find_summary(path, inputs["image"]) or read_summary(path)  # what a report does first
        assert summary.n == n
        assert summary.fits(path)
        assert [p.name for p in path.parent.iterdir()] == ["new"]


@pytest.mark.parametrize(("kind", "name"), [("table", "new.csv"), ("image", "new")])
def test_of_four_processes_that_write_to_one_place_one_wins(inputs, kind, name, tmp_path):
    python(FOUR_WRITERS, inputs[kind], tmp_path / name)
    summary = read_summary(tmp_path / name)
    assert summary.fits(tmp_path / name)
    assert summary.n == 3 + summary.seed
    assert len(list(tmp_path.iterdir())) == {"table": 2, "image": 1}[kind]


def test_a_work_folder_is_removed_once_its_process_has_ended(tmp_path):
    with files.write_together(tmp_path) as first:
        (first / "a").touch()
        (work,) = tmp_path.iterdir()
        files.write_atomically(tmp_path / "b", "two")  # a second run does not touch the work of the first
        assert work.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]
    left = tmp_path / ".stochattn-abcd1234.part"
    (left / "new").mkdir(parents=True)
    (left / "new" / "huge").touch()
    mine = tmp_path / ".stochattn-notes.part"
    mine.mkdir()
    files.write_atomically(tmp_path / "b", "three")
    assert not left.exists()
    assert mine.exists()


def test_a_folder_that_took_the_name_in_the_meantime_is_kept(tmp_path):
    left = tmp_path / ".stochattn-abcd1234.part"
    (left / "new" / "faces").mkdir(parents=True)
    (left / "old").mkdir()
    (tmp_path / "faces").mkdir()
    (tmp_path / "faces" / "mine").touch()
    files.recover(tmp_path)
    assert os.listdir(tmp_path / "faces") == ["mine"]
    assert left.exists()
