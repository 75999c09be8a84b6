"""The command line: `stochattn sample`, `inspect`, `report`, `demo`."""

from .app import build_app, prepare, run

__all__ = ["build_app", "prepare", "run"]
