"""The command line: `stochattn sample`, `inspect`, `report`, `demo`."""

from .app import build_app, main

__all__ = ["build_app", "main"]
