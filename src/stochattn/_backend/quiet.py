"""Warnings that are switched off in several threads at one time."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_in_use = 0  # contexts that are open now, in all threads
_caught = warnings.catch_warnings()


@contextmanager
def quietly(message: str = "") -> Iterator[None]:
    """A context that hides warnings whose message begins so. Threads may be in it at one time, unlike in Python's own.

    Filters belong to the process: the first context saves them, and the last one to end restores them. Until then, what
    one of them hides stays hidden.
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
