"""Signals as a kind of data."""
