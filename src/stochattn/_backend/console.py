"""What a program shows: a progress bar or lines in a log, no warnings in some blocks, and one line at Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

    from rich.progress import Progress as Bar
    from rich.status import Status

DELAY_SECONDS = 2.0
LINE_SECONDS = 5.0
SHOWN: list[Bar | Status] = []  # on the terminal; a new one stops the others, because all write to the last line
_UNITS = ((86_400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def is_interactive() -> bool:
    """Whether stderr is a notebook, or a terminal that can redraw a line."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if get_ipython is not None and hasattr(get_ipython(), "kernel"):  # a library that is imported makes no notebook
        return True
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


class Progress:
    """Counts up to `total`, and shows a bar on stderr after `DELAY_SECONDS`, or a line every `LINE_SECONDS`.

    shown: True for a bar, False for nothing, or None for what fits: a bar if stderr is interactive, else lines if the
           program wants them
    """

    in_logs = False  # whether lines are printed where stderr is not interactive: for programs, which set it
    _nesting = 0  # contexts that are open

    def __init__(self, total: int, label: str, shown: bool | None = None) -> None:
        self.total, self.label, self.done = total, label, 0
        self.shown = is_interactive() if shown is None else shown
        self._lines = print_lines(self._line) if shown is None and not self.shown else nullcontext()
        self.begin = time.perf_counter()
        self._updated = 0.0  # seconds after the beginning
        self._bar: Bar | None = None

    def __enter__(self) -> Progress:
        if Progress._nesting:  # only the outermost knows how long all of it takes
            self.shown, self._lines = False, nullcontext()
        Progress._nesting += 1
        self._lines.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._lines.__exit__(None, None, None)
        if self._bar is not None:
            self._bar.stop()
            SHOWN.remove(self._bar)
        Progress._nesting -= 1

    def update(self, done: int) -> None:
        self.done, self._updated = min(done, self.total), time.perf_counter() - self.begin
        if not self.shown or (self._bar is None and self._updated < DELAY_SECONDS):
            return
        self._bar = self._bar or self._open_bar()
        self._bar.update(self._bar.task_ids[0], completed=self.done)

    def _line(self, seconds: float) -> str:
        if not self.done:  # nothing says yet how long the rest takes
            return f"{self.label}: 0 of {self.total:,}, {duration(seconds)} so far"
        # The rest takes as long per item as the items that are done, less the time of the current item so far.
        each = self._updated / self.done
        left = max(each * (self.total - self.done) - min(max(seconds - self._updated, 0.0), each), 0.0)
        share = 100 * self.done / max(self.total, 1)
        return f"{self.label}: {self.done:,} of {self.total:,} ({share:.0f} %), about {duration(left)} left"

    def _open_bar(self) -> Bar:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        for shown in SHOWN:
            shown.stop()
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
        bar = Bar(*columns, TimeRemainingColumn(), console=Console(file=sys.stderr), transient=True)
        bar.add_task(self.label, total=self.total)
        bar.start()
        SHOWN.append(bar)
        return bar


@contextmanager
def print_lines(line: Callable[[float], str]) -> Iterator[None]:
    """A context that prints a line to stderr every `LINE_SECONDS`, if `Progress.in_logs`.

    line: what to say after so many seconds; empty for nothing
    """
    begin, ended = time.perf_counter(), Event()

    def run() -> None:
        while not ended.wait(LINE_SECONDS):
            text = line(time.perf_counter() - begin)
            if text and sys.stderr is not None:
                print(text, file=sys.stderr, flush=True)

    if not Progress.in_logs:
        yield
        return
    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def show_waiting(label: str) -> AbstractContextManager[None]:
    """Lines that say how long work of unknown length has taken, while no `Progress` is open."""
    return print_lines(lambda seconds: "" if Progress._nesting else f"{label}: {duration(seconds)} so far")


def duration(seconds: float) -> str:
    """A time in the largest unit in which it is at least two: 90 s, 12 min, 5 h, 4 days."""
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= 2 * size or unit == "s")
    return f"{seconds / size:,.0f} {unit}"


_lock = threading.Lock()
_in_use = 0  # contexts that are open now, in all threads
_caught = warnings.catch_warnings()


@contextmanager
def hide_warnings(message: str = "") -> Iterator[None]:
    """A context that hides warnings whose message begins with this text. Several threads may be in it at the same time.

    Filters belong to the process: the first context saves them, and the last one to end restores them. Until then,
    warnings that any of them hides stay hidden.
    """
    global _in_use, _caught
    with _lock:
        if not _in_use:
            _caught = warnings.catch_warnings()
            _caught.__enter__()
        warnings.filterwarnings("ignore", message=message)
        _in_use += 1
    try:
        yield
    finally:
        with _lock:
            _in_use -= 1
            if not _in_use:
                _caught.__exit__(None, None, None)


INTERRUPTED = 130  # the exit code of a program that Ctrl-C ended, by convention: 128 and the number of the signal
MESSAGE = "interrupted; no output was changed."


@contextmanager
def end_at_ctrl_c() -> Iterator[None]:
    """A context in which Ctrl-C ends the program: half-imported packages turn KeyboardInterrupt into other errors.

    Where SIGINT is ignored, as a shell does it for jobs in the background, it stays ignored.
    """

    def end(number: int, frame: FrameType | None) -> None:
        os.write(2, f"error: {MESSAGE}\n".encode())
        os._exit(INTERRUPTED)

    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
