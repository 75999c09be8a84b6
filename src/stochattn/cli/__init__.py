"""The command line: `stochattn sample`, `inspect`, `report`, `demo`."""

from .app import build_app, run

__all__ = ["build_app", "run"]
