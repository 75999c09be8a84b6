"""The command line: `stochattn sample`, `inspect`, `report`, `demo`."""

from .commands import app, main

__all__ = ["app", "main"]
