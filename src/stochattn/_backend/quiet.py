"""Warnings that are switched off in several threads at one time."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class Quiet:
    """A context that hides warnings whose message begins so. Threads may be in it at one time, unlike in Python's own.

    Filters belong to the process: the first thread sets them, and the last one restores them.
    """

    def __init__(self, message: str = "") -> None:
        self._message, self._lock, self._in_use = message, threading.Lock(), 0
        self._caught = warnings.catch_warnings()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._in_use:
                self._caught = warnings.catch_warnings()
                self._caught.__enter__()
                warnings.filterwarnings("ignore", message=self._message)
            self._in_use += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_use -= 1
                if not self._in_use:
                    self._caught.__exit__(None, None, None)


quietly = Quiet()
"""The context that hides all warnings."""
