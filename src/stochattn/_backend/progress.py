"""A progress bar that appears once work has taken two seconds."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.status import Status

DELAY_SECONDS = 2.0
SHOWN: list[Bar | Status] = []
"""Bars and spinners on the terminal. A new bar stops the others: all of them would write to the last line."""


class Progress:
    """Counts up to `total`, and shows a bar on stderr after `DELAY_SECONDS`.

    shown: True, False, or None for "if stderr is a terminal or a notebook".
    """

    _nesting = 0  # contexts that are open

    def __init__(self, total: int, label: str, shown: bool | None = None) -> None:
        self.total, self.label = total, label
        interactive = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
        self.shown = interactive if shown is None else shown
        self.begin = time.perf_counter()
        self._bar: Bar | None = None

    def __enter__(self) -> Progress:
        self.shown = self.shown and not Progress._nesting  # only the outermost bar knows how long all of it takes
        Progress._nesting += 1
        return self

    def __exit__(self, *error: object) -> None:
        Progress._nesting -= 1
        if self._bar is not None:
            self._bar.stop()
            SHOWN.remove(self._bar)

    def update(self, done: int) -> None:
        if not self.shown or (self._bar is None and time.perf_counter() - self.begin < DELAY_SECONDS):
            return
        self._bar = self._bar or self._opened()
        self._bar.update(self._bar.task_ids[0], completed=done)

    def _opened(self) -> Bar:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        for other in SHOWN:
            other.stop()
        texts = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
        bar = Bar(*texts, TimeRemainingColumn(), console=Console(file=sys.stderr), transient=True)
        bar.add_task(self.label, total=self.total)
        bar.start()
        SHOWN.append(bar)
        return bar
