"""The table at the top of docs/quality.md: each measure of ours, the best rival and the stored half, and its goal.

All figures are read from the tables of the page itself, so that the summary cannot differ from its details.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

TITLE = "At a glance"
MISSING = "–"


class Figure(NamedTuple):
    """A mean, its error, and the text of its cell."""

    mean: float
    error: float
    text: str


@dataclass(frozen=True)
class Goal:
    """What a measure should be.

    met:  whether a value reaches the goal, given those of the best rival and of the stored half (NaN if there is none)
    loss: how far a value is from the ideal
    """

    text: str
    met: Callable[[float, float, float], bool]
    loss: Callable[[float], float]


def at_most(limit: float, ideal: float = 0.0) -> Goal:
    """The goal of a measure that should not exceed a limit; values below the ideal are no better than it."""
    return Goal(f"≤ {limit:g}", lambda value, *_: value <= limit, lambda value: max(value - ideal, 0.0))


def at_least(limit: float) -> Goal:
    """The goal of a measure that should reach a limit."""
    return Goal(f"≥ {limit:g}", lambda value, *_: value >= limit, lambda value: -value)


def above_rivals() -> Goal:
    """The goal of a measure that should be as high as that of the best rival."""
    return Goal("≥ best rival", lambda value, rival, _: value >= rival, lambda value: -value)


def near_stored(limit: float) -> Goal:
    """The goal of a measure that should not be below that of the stored half by more than a limit."""
    return Goal(f"≥ stored − {limit:g}", lambda value, _, stored: value >= stored - limit, lambda value: -value)


def within(limit: float, ideal: float = 0.0) -> Goal:
    """The goal of a measure that should differ from its ideal by no more than a limit."""
    name = f"within {limit:g} of {ideal:g}" if ideal else f"within ±{limit:g}"
    return Goal(name, lambda value, *_: abs(value - ideal) <= limit, lambda value: abs(value - ideal))


@dataclass(frozen=True)
class Line:
    """One line of the summary: where its figures are, and the goal.

    section: title of the section of the page
    caption: how the last line of text before the table begins
    column:  the column of the measure; `nth` chooses among columns of the same name
    ours:    the row of the default generator
    stored:  the row of the stored half, if the table has one; it bounds what can be reached
    rivals:  the rows of other methods
    """

    kind: str
    measure: str
    section: str
    caption: str
    column: str
    goal: Goal
    ours: str
    rivals: tuple[str, ...]
    stored: str | None = None
    nth: int = 0


class Table(NamedTuple):
    """A table of the page: the line of text before it, its columns, and its rows by their first cells."""

    caption: str
    columns: list[str]
    rows: Mapping[str, list[str]]

    def figure(self, row: str, column: str, nth: int = 0) -> Figure | None:
        """The figure of a row in the nth column of this name; None where the cell says that it has none."""
        places = [i for i, name in enumerate(self.columns) if name == column]
        if len(places) <= nth or row not in self.rows:
            known = ", ".join(self.columns if len(places) <= nth else self.rows)
            asked = column if len(places) <= nth else row
            raise ValueError(f"the table after {self.caption!r} must have {asked!r}; it has {known}.")
        text = self.rows[row][places[nth]]
        if text in ("", MISSING):
            return None
        numbers = re.fullmatch(r"([-−]?[\d,]*\.?\d+)(?: ± ([\d,]*\.?\d+))?", text)
        if numbers is None:
            raise ValueError(f"{_cell(row, column)} must be a number, or two with ± between them; it is {text!r}.")
        mean, error = (float((group or "0").replace("−", "-").replace(",", "")) for group in numbers.groups())
        return Figure(mean, error, text)


def tables_of(text: str) -> list[Table]:
    """All tables in a text of Markdown."""
    found: list[Table] = []
    caption, lines = "", text.splitlines()
    for i, line in enumerate(lines):
        if not line.startswith("|"):
            caption = line.strip() or caption
        elif i + 1 < len(lines) and lines[i + 1].startswith("|---"):
            rows: dict[str, list[str]] = {}
            for row in lines[i + 2 :]:
                if not row.startswith("|"):
                    break
                first, *_ = cells = _cells(row)
                rows.setdefault(first, cells)
            found.append(Table(caption, _cells(line), rows))
    return found


def _cell(row: str, column: str) -> str:
    return f"the cell of {row!r} in column {column!r}"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def section_of(page: str, title: str) -> str:
    """The text of one section of a page; empty if the page has no such section."""
    return next((text for text in page.split("\n## ") if text.split("\n", 1)[0] == title), "")


class Row(NamedTuple):
    """The cells of one line of the summary."""

    kind: str
    measure: str
    ours: str
    rival: str
    stored: str
    goal: str
    verdict: str


def row_of(page: str, line: Line) -> Row | None:
    """The cells of a line; None if the page does not have its section yet."""
    section = section_of(page, line.section)
    if not section:
        return None
    matching = [table for table in tables_of(section) if table.caption.startswith(line.caption)]
    if not matching:
        raise ValueError(f"the section {line.section!r} must have a table after {line.caption!r}.")
    figure = partial(matching[0].figure, column=line.column, nth=line.nth)
    ours = figure(line.ours)
    if ours is None:
        raise ValueError(f"{_cell(line.ours, line.column)} must be a number.")
    others = [(name, found) for name in line.rivals if (found := figure(name)) is not None]
    rival = min(others, key=lambda other: line.goal.loss(other[1].mean), default=None)
    stored = figure(line.stored) if line.stored is not None else None
    return Row(
        line.kind,
        line.measure,
        ours.text,
        f"{rival[1].text} ({rival[0]})" if rival else MISSING,
        stored.text if stored else MISSING,
        line.goal.text,
        verdict(line.goal, ours, rival[1] if rival else None, stored),
    )


def verdict(goal: Goal, ours: Figure, rival: Figure | None, stored: Figure | None = None) -> str:
    """Whether the goal is met, and which of the two is nearer to the ideal by more than one standard error."""
    references = (figure.mean if figure else math.nan for figure in (rival, stored))
    reached = "met" if goal.met(ours.mean, *references) else "**missed**"
    if rival is None:
        return reached
    gain = goal.loss(rival.mean) - goal.loss(ours.mean)
    if abs(gain) <= math.hypot(ours.error, rival.error):
        return f"{reached}, level"
    return f"{reached}, {'ahead' if gain > 0 else 'behind'}"


def summary(page: str, lines: Sequence[Line]) -> str:
    """The section with the summary of a page that has the sections of its details."""
    rows = [row for line in lines if (row := row_of(page, line)) is not None]
    met = sum(row.verdict.startswith("met") for row in rows)
    head = ("kind", "measure", "ours", "best rival", "stored half", "goal", "verdict")
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
    return f"## {TITLE}\n\n{ABOUT.format(met=met, n=len(rows))}\n\n{table}\n"


ABOUT = """\
{met} of {n} goals are met. Each line is one measure of our default generator on held-out data, beside the rival that is
nearest to the ideal in this measure alone; no single rival has all of these figures. *Stored half* is the same measure
of stored examples that are given out again as if they were new, all of which are copies. *Ahead* and *behind* say which
of ours and the best rival is nearer to the ideal, and *level* that they differ by less than the standard error. The
sections below have all methods, and what was tried and did not help."""
