"""pandas, imported when one of its names is first used: commands that need no table start without it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import *  # noqa: F403


def __getattr__(name: str) -> Any:
    value = getattr(import_module("pandas"), name)
    globals()[name] = value  # so that the next use finds it
    return value
