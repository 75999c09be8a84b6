"""pandas, imported when one of its names is first used: commands that need no table start without it."""

from importlib import import_module


def __getattr__(name: str) -> object:
    return getattr(import_module("pandas"), name)
