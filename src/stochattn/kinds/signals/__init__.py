"""Signals as a kind of data."""

from .kind import KIND

__all__ = ["KIND"]
