"""Ctrl-C while a program is still importing: one line instead of the traceback of whatever was being imported."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # as in typing, which takes longer to import than everything here
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended, by convention: 128 and the number of the signal."""
MESSAGE = "interrupted; no output was changed."


class CtrlCEndsAtOnce:
    """In the block, Ctrl-C ends the program: packages that are half imported turn KeyboardInterrupt into other errors.

    Where SIGINT is ignored, as a shell does it for jobs in the background, it stays ignored.
    """

    def __enter__(self) -> None:
        self._handler = signal.getsignal(signal.SIGINT)
        if self._handler is signal.default_int_handler:
            signal.signal(signal.SIGINT, _end)

    def __exit__(self, *error: object) -> None:
        signal.signal(signal.SIGINT, self._handler)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, f"error: {MESSAGE}\n".encode())
    os._exit(INTERRUPTED)
