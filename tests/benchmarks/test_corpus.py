"""The harness of `make corpus` notices what a user should not see: each fault that is planted here is one."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from corpus.outcomes import Outcome
from corpus.run import Limits, read_endings, start
from corpus.sets import list_sets

LIMITS = Limits(seconds=0.5, idle=4, memory=2**29)


def refuse(text: str, code: int = 2) -> None:
    print(f"error: {text}", file=sys.stderr)
    sys.exit(code)


def spin() -> None:
    while True:
        pass


FAULTS = {
    "too long": spin,
    "hang": lambda: time.sleep(60),
    "crash": lambda: os.kill(os.getpid(), 9),
    "exit in between": lambda: os._exit(1),
    "memory": lambda: np.ones(2**30, np.uint8),
    "traceback": lambda: {}["a"],
    "words of another library": lambda: np.ones(2).reshape(3),
    "exit code": lambda: refuse("the file is empty: name another.", 3),
    "fault of the program": lambda: refuse("ZeroDivisionError: division by zero. Report it.", 1),
    "no line of error": lambda: sys.exit(2),
    "no remedy": lambda: refuse("the file is empty."),
    "name of an exception": lambda: refuse("KeyError: 'a'. Name another file."),
    "warning of numpy": lambda: np.log(np.zeros(1)),
    "warning for programmers": lambda: warnings.warn("x will be removed", FutureWarning, stacklevel=2),
}


def outcome_of(action: Callable[[], object], folder) -> Outcome:
    process = start({"inspect": lambda: None, "sample": action}, folder, LIMITS)
    _, status = os.waitpid(process, 0)
    return Outcome("package", "name", 0, 0, read_endings(folder, status, LIMITS))


@pytest.mark.filterwarnings("default")  # as they are for a user
@pytest.mark.parametrize("action", FAULTS.values(), ids=FAULTS)
def test_fault(action, tmp_path):
    assert outcome_of(action, tmp_path).verdict == "fault"


def test_refusal_with_a_remedy_is_none(tmp_path):
    outcome = outcome_of(lambda: refuse("the file is empty: name another."), tmp_path)
    assert (outcome.verdict, outcome.reason) == ("refused in part", "sample: the file is empty: name another.")


def test_pass(tmp_path):
    assert outcome_of(lambda: print("note: all signals have mean 0", file=sys.stderr), tmp_path).verdict == "passed"


def test_later_groups_leave_out_the_sets_of_earlier_ones(tmp_path, monkeypatch):
    groups = {"known": "ab", "new": "bc", "later": "acde"}
    for names in groups.values():
        for name in names:
            (tmp_path / f"{name}.csv").write_text("x\n1\n2\n")
    listings = {
        group: {"package": lambda packages, cache, names=names: ((name, packages / f"{name}.csv") for name in names)}
        for group, names in groups.items()
    }
    monkeypatch.setattr("corpus.sets.LISTINGS", listings)
    found = {group: [data.name for data in list_sets(tmp_path, tmp_path, group)] for group in groups}
    assert found == {"known": ["a", "b"], "new": ["c"], "later": ["d", "e"]}
