"""What an experiment is doing now, told to whoever listens: the runner's display, or nobody."""

from __future__ import annotations

import time
from collections.abc import Callable

Listener = Callable[[str, float | None], None]
_listener: Listener | None = None
INTERVAL = 0.5  # seconds between two reports of one bar


def listen(listener: Listener | None) -> None:
    """Send what follows to a function of a text and a share done (None: not known)."""
    global _listener
    _listener = listener


def stage(text: str) -> None:
    """Say what begins now."""
    if _listener is not None:
        _listener(text, None)


class Bar:
    """A stage whose share done is known."""

    def __init__(self, total: int, label: str) -> None:
        self.total, self.label, self.told = total, label, 0.0

    def __enter__(self) -> Bar:
        stage(self.label)
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def at(self, done: int) -> None:
        """Say how much is done."""
        now = time.monotonic()
        if _listener is not None and now - self.told > INTERVAL:
            self.told = now
            _listener(self.label, done / self.total)
