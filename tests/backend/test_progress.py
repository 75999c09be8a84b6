"""Progress: a bar or lines, and only of the outermost work."""

import sys
import time
from types import SimpleNamespace

from stochattn._backend import console as _progress
from stochattn._backend.console import Progress


def test_a_bar_within_a_bar_is_not_shown(monkeypatch):
    monkeypatch.setattr(_progress, "DELAY_SECONDS", 0.0)
    opened = []
    monkeypatch.setattr(Progress, "_open_bar", lambda self: opened.append(self.label) or Silent())
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


READING = "reading a.csv: 0 s so far"
DRAWING = "drawing: 50,000,000,000 of 100,000,000,000 (50 %), about 0 s left"


def test_lines_are_printed_where_stderr_is_not_a_terminal(monkeypatch, capsys):
    """Lines come from threads, which a busy machine runs late: each wait ends when its line is there."""
    monkeypatch.setattr(_progress, "LINE_SECONDS", 0.05)
    monkeypatch.setattr(_progress, "duration", lambda seconds: "0 s")
    monkeypatch.setattr(Progress, "in_logs", True)
    drawing = Progress(10**11, "drawing")
    drawing.update(5 * 10**10)
    with _progress.show_waiting("reading a.csv"):
        assert printed_until(READING, capsys) == {READING}
        with drawing, Progress(3, "inner") as inner:
            inner.update(1)
            assert printed_until(DRAWING, capsys) <= {READING, DRAWING}  # one of reading may have been under way
            time.sleep(0.2)
            assert set(capsys.readouterr().err.split("\n")) <= {DRAWING, ""}
        assert printed_until(READING, capsys) <= {READING, DRAWING}


def test_no_line_is_printed_without_a_program_that_wants_it(monkeypatch, capsys):
    monkeypatch.setattr(_progress, "LINE_SECONDS", 0.05)
    for in_logs, shown in ((False, None), (True, False)):
        monkeypatch.setattr(Progress, "in_logs", in_logs)
        with Progress(10, "silent", shown) as progress:
            progress.update(5)
            time.sleep(0.2)
        assert capsys.readouterr().err == ""


def printed_until(line, capsys):
    """The different lines on stderr from now on until `line` is one of them."""
    printed, deadline = "", time.monotonic() + 60
    while line not in printed.splitlines():
        assert time.monotonic() < deadline, f"{line!r} was not printed, but {printed!r}"
        time.sleep(0.01)
        printed += capsys.readouterr().err
    return set(printed.splitlines()) - {""}


def test_the_time_that_is_left_does_not_grow_while_nothing_is_done(monkeypatch):
    """Of six pieces, each takes 100 s, and the third is late."""
    now = [0.0]
    monkeypatch.setattr(_progress.time, "perf_counter", lambda: now[0])
    progress = Progress(6, "drawing")
    assert progress._line(50.0) == "drawing: 0 of 6, 50 s so far"
    now[0] = 200.0
    progress.update(2)
    left = [progress._line(seconds).split("about ")[1] for seconds in (200.0, 240.0, 290.0, 310.0, 500.0)]
    assert left == ["7 min left", "6 min left", "5 min left", "5 min left", "5 min left"]
    now[0] = 600.0
    progress.update(3)
    assert progress._line(600.0).endswith("about 10 min left")


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


def test_no_time_is_left_when_all_is_done():
    bar = Progress(60, "drawing")
    bar.done, bar._updated = 60, 9.0
    assert bar._line(10.0) == "drawing: 60 of 60 (100 %), about 0 s left"


def test_no_more_is_done_than_there_is_to_do():
    bar = Progress(25, "choosing a width")
    bar.update(28)
    assert bar._line(10.0).startswith("choosing a width: 25 of 25 (100 %), about 0 s left")
