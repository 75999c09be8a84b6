"""Progress: a bar or lines, and only of the outermost work."""

import sys
import time
from types import SimpleNamespace

from stochattn._backend import progress as _progress
from stochattn._backend.progress import Progress


def test_a_bar_within_a_bar_is_not_shown(monkeypatch):
    monkeypatch.setattr(_progress, "DELAY_SECONDS", 0.0)
    opened = []
    monkeypatch.setattr(Progress, "_opened", lambda self: opened.append(self.label) or Silent())
    with Progress(3, "outer", True) as outer:
        with Progress(5, "inner", True) as inner:
            inner.update(1)
        outer.update(1)
    with Progress(5, "after", True) as after:
        after.update(1)
    assert opened == ["outer", "after"]


class Silent:
    task_ids = (0,)

    def __init__(self):
        _progress.SHOWN.append(self)

    def update(self, task, completed):
        pass

    def stop(self):
        pass


def test_lines_are_printed_where_stderr_is_not_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(_progress, "LINE_SECONDS", 0.05)
    with Progress(10, "silent") as progress:
        progress.update(5)
        time.sleep(0.2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(Progress, "in_logs", True)
    with _progress.waiting("reading a.csv"):
        time.sleep(0.2)
        with Progress(10**11, "drawing") as progress, Progress(3, "inner") as inner:
            progress.update(5 * 10**10)
            inner.update(1)
            time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "reading a.csv: 0 s so far"
    assert lines[-1] == "drawing: 50,000,000,000 of 100,000,000,000 (50 %), about 0 s left"
    assert set(lines) == {lines[0], lines[-1]}
    with Progress(10, "silent", False) as progress:
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_durations_are_in_a_unit_that_says_enough():
    seconds = (0.4, 119, 120, 3600, 7200, 100_000, 86_400 * 79)
    assert [_progress.duration(s) for s in seconds] == ["0 s", "119 s", "2 min", "60 min", "2 h", "28 h", "79 days"]


def test_a_dumb_terminal_gets_lines_and_not_a_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert _progress.is_interactive()
    monkeypatch.setenv("TERM", "dumb")
    assert not _progress.is_interactive()


def test_a_notebook_is_a_kernel_that_runs_and_not_a_library_that_is_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    for shell, expected in ((None, False), (SimpleNamespace(), False), (SimpleNamespace(kernel=1), True)):
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda shell=shell: shell))
        assert _progress.is_interactive() is expected


class Terminal:
    def isatty(self):
        return True
