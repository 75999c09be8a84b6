"""A progress bar for work that turns out to take longer than two seconds."""

from __future__ import annotations

import sys
import time
from typing import Any

PATIENCE = 2.0  # seconds before a bar appears
SHOWN: list[Any] = []
"""Spinners and bars. A bar that appears takes their place: they would all write on a terminal's last line."""


class Progress:
    """Counts towards `total`; shows a bar on stderr once two seconds have passed.

    shown: True, False, or None for "when stderr is a terminal or a notebook".
    """

    _running = 0  # bars that count, one within the other

    def __init__(self, total: int, label: str, shown: bool | None = None) -> None:
        self.total, self.label = total, label
        self.shown = _someone_watches() if shown is None else shown
        self.begin = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        self.shown = self.shown and not Progress._running  # the outermost bar says how long it all takes
        Progress._running += 1
        return self

    def __exit__(self, *error: object) -> None:
        Progress._running -= 1
        if self._bar is not None:
            self._bar.stop()
            SHOWN.remove(self._bar)

    def at(self, done: int) -> None:
        """Say how much is done."""
        if not self.shown or (self._bar is None and time.perf_counter() - self.begin < PATIENCE):
            return
        if self._bar is None:
            self._open()
        self._bar.update(self._task, completed=done)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        for other in SHOWN:  # a spinner, or a bar that counts to something smaller
            other.stop()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
        )
        self._bar = Bar(*columns, console=Console(file=sys.stderr), transient=True)
        self._task = self._bar.add_task(self.label, total=self.total)
        self._bar.start()
        SHOWN.append(self._bar)


def _someone_watches() -> bool:
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
