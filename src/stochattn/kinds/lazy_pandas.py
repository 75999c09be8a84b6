"""pandas, imported when one of its names is first used: commands that need no table start without it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(import_module("pandas"), name)
