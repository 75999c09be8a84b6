"""Figures, targets and verdicts in words, for the terminal and for the page."""

from __future__ import annotations

from .measured import DISTURBING, Row


def figure(value: float | None, unit: str) -> str:
    """A value with its unit, three digits."""
    if value is None:
        return "-"
    number = f"{value:.2e}" if value >= 1e6 else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{number}{'' if unit == 'x' else ' '}{unit}"


def target(row: Row) -> str:
    """A row's target."""
    return "" if row.target is None else f"{'≤' if row.at_most else '≥'} {figure(row.target, row.unit)}"


def verdict(row: Row) -> str:
    """Whether the target is met; empty where there is none to judge by."""
    if row.target is not None and row.disturbed > DISTURBING and row.unit != "MB":  # other work takes time, not memory
        return "not judged"
    return {True: "yes", False: "NO", None: ""}[row.met]


def details(row: Row) -> str:
    """What was measured, and whether other work disturbed it."""
    if row.disturbed <= DISTURBING:
        return row.details
    beside = f"disturbed: other work took {100 * row.disturbed:.0f} % of the cores"
    return f"{row.details}; {beside}" if row.details else beside
