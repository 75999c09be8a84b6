"""pandas, imported when one of its names is first used: commands that need no table start without it."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("pandas"), name)
