"""Made-up and damaged inputs: a short search for new problems, and the inputs of problems that were found before."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stochattn.evaluation.inspection import inspect

from .checks import COMMANDS, problem_of_array, problem_of_path

HERE = Path(__file__).parent
REGRESSIONS = sorted(path for path in (HERE / "regressions").iterdir() if path.name != "README.md")


def test_no_input_brings_out_more_than_a_one_line_error():
    command = [sys.executable, "-m", "fuzz.run", "--rounds", "2", "--seed", "0"]
    paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    result = subprocess.run(command, cwd=HERE.parent, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.name)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_inputs_that_once_brought_out_more_end_well(path, command, tmp_path):
    assert problem_of_path(path, command, tmp_path) is None


@pytest.mark.parametrize("path", [path for path in REGRESSIONS if path.suffix == ".npy"], ids=lambda path: path.name)
def test_arrays_that_once_brought_out_more_end_well(path):
    assert problem_of_array(np.load(path)) is None


def test_a_problem_is_seen(monkeypatch, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n3,5\n4,4\n" * 9)
    assert problem_of_path(tmp_path / "t.csv", ("inspect",), tmp_path) is None
    monkeypatch.setattr("stochattn.evaluation.inspection.inspect", lambda synth: [][0])
    assert "IndexError" in problem_of_path(tmp_path / "t.csv", ("inspect",), tmp_path)
    monkeypatch.setattr("stochattn.evaluation.inspection.inspect", lambda synth: int("x"))
    assert "ValueError" in problem_of_path(tmp_path / "t.csv", ("inspect",), tmp_path)
    monkeypatch.setattr("stochattn.evaluation.inspection.inspect", lambda synth: np.log(np.zeros(1)) and inspect(synth))
    assert "leaked warning: RuntimeWarning" in problem_of_path(tmp_path / "t.csv", ("inspect",), tmp_path)
