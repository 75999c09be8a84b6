"""Kinds of data from other packages, which declare them as entry points.

A package names its kind in its pyproject.toml, and the command line then reads and writes it:

    [project.entry-points."stochattn.kinds"]
    sensor = "my_package.sensors:KIND"
"""

from __future__ import annotations

from importlib.metadata import entry_points

from ..data.registry import register_kind
from .messages import say

GROUP = "stochattn.kinds"


def register_plugins() -> None:
    """Register the kinds of installed packages; one that cannot be loaded is left out with a note."""
    for entry in entry_points(group=GROUP):
        try:
            register_kind(entry.load())
        except Exception as error:  # other people's code must not stop a command that does not need it
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            say(f"note: the plug-in {entry.name!r} ({entry.value}) was not loaded: {reason}")
