"""Ctrl-C during a run: a request to stop after the current step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Stop(NamedTuple):
    """Whether Ctrl-C was pressed."""

    asked: threading.Event

    def __bool__(self) -> bool:
        return self.asked.is_set()


@contextmanager
def interruptible() -> Iterator[Stop]:
    """Turn Ctrl-C into a request to stop after the current step, so that no kept state is half written."""
    stop = Stop(threading.Event())
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )

    def ask(number: int, frame: Any) -> None:
        if stop:  # the second Ctrl-C means it
            raise KeyboardInterrupt
        stop.asked.set()

    if ours:
        signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
