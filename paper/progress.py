"""Progress of an experiment, sent to a callback if one is set."""

from __future__ import annotations

import time
from collections.abc import Callable

Callback = Callable[[str, float | None], None]
_callback: Callback | None = None
INTERVAL = 0.5  # seconds between two updates of one bar


def set_callback(callback: Callback | None) -> None:
    """Call `callback(text, share)` on each update; share is the completed part, None if unknown."""
    global _callback
    _callback = callback


def stage(text: str) -> None:
    """Report that a stage begins."""
    if _callback is not None:
        _callback(text, None)


class Bar:
    """A stage with a known number of steps."""

    def __init__(self, total: int, label: str) -> None:
        self.total, self.label, self.last_update = total, label, 0.0

    def __enter__(self) -> Bar:
        stage(self.label)
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, completed: int) -> None:
        """Report the number of completed steps."""
        now = time.monotonic()
        if _callback is not None and now - self.last_update > INTERVAL:
            self.last_update = now
            _callback(self.label, completed / self.total)
