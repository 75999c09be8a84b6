"""Text of values, targets and verdicts, for the terminal and for the page."""

from __future__ import annotations

from .measured import MAX_OTHER_WORK, Row


def figure(value: float | None, unit: str) -> str:
    """A value with three digits and its unit."""
    if value is None:
        return "-"
    number = f"{value:.2e}" if value >= 1e6 else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{number}{'' if unit == 'x' else ' '}{unit}"


def target(row: Row) -> str:
    """The target of a row."""
    return "" if row.target is None else f"{'≤' if row.at_most else '≥'} {figure(row.target, row.unit)}"


def verdict(row: Row) -> str:
    """Whether the target is met; empty without a target."""
    if (
        row.target is not None and row.disturbed > MAX_OTHER_WORK and row.unit != "MB"
    ):  # other processes cost time, not memory
        return "not evaluated"
    return {True: "yes", False: "NO", None: ""}[row.met]


def details(row: Row) -> str:
    """Details of a row, with a note if other processes disturbed the measurement."""
    if row.disturbed <= MAX_OTHER_WORK:
        return row.details
    note = f"disturbed: other processes used {100 * row.disturbed:.0f} % of the cores"
    return f"{row.details}; {note}" if row.details else note
