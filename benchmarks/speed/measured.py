"""What a run of the benchmarks finds: rows of a table, limits of the machine, curves; and its JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from stochattn._backend.files import write_whole

DISTURBING = 0.1
"""The share of cores from which other processes make a comparison unfair: rivals that use all cores wait for them."""


class Row(NamedTuple):
    """One line of the table. `value` is a ratio (unit "x") or a figure in `unit`; None if it was not measured.

    disturbed: the share of the machine's cores that other processes took meanwhile.
    """

    part: str
    what: str
    against: str
    value: float | None
    unit: str = "x"
    target: float | None = None
    at_most: bool = False
    details: str = ""
    disturbed: float = 0.0

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None where there is none, no value, or too much other work beside it."""
        if self.target is None or self.value is None or self.disturbed > DISTURBING:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target


class Limit(NamedTuple):
    """What the machine can do at most, in `unit` a second."""

    name: str
    rate: float
    unit: str


class Curve(NamedTuple):
    """Seconds a step against one size. `series` maps a label to seconds, NaN-free, a value for each of `x`."""

    name: str
    x_label: str
    x: Sequence[float]
    series: dict[str, Sequence[float]]


@dataclass
class Results:
    """All that was measured so far."""

    about: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)

    def add(self, found: Sequence[Row | Limit | Curve]) -> None:
        """Sort what a task found into its list."""
        lists: dict[type, list[Any]] = {Row: self.rows, Limit: self.limits, Curve: self.curves}
        for one in found:
            lists[type(one)].append(one)

    def rate(self, limit: str) -> float:
        """The rate of a limit measured earlier in this run."""
        return next(one.rate for one in self.limits if one.name == limit)

    def beside(self, earlier: Results) -> Results:
        """Earlier results on this machine, with the parts that this run measured in the place of theirs."""
        parts = {row.part for row in self.rows}
        kept = [row for row in earlier.rows if row.part not in parts]
        about = {**earlier.about, "complete": earlier.about["complete"] and self.about["complete"]}
        return Results(about, kept + self.rows, self.limits or earlier.limits, self.curves or earlier.curves)

    def write(self, path: Path) -> None:
        """All of it as JSON."""
        content: dict[str, Any] = {"about": self.about}
        for name in ("rows", "limits", "curves"):
            content[name] = [one._asdict() for one in getattr(self, name)]
        write_whole(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> Results:
        """What `write` wrote."""
        content = json.loads(path.read_text("utf-8"))
        return cls(
            content["about"],
            [Row(**row) for row in content["rows"]],
            [Limit(**limit) for limit in content["limits"]],
            [Curve(**curve) for curve in content["curves"]],
        )


class Task(NamedTuple):
    """A piece of work that can be named, chosen by its part, and shown while it runs."""

    part: str
    what: str
    work: Callable[[Results], Sequence[Row | Limit | Curve]]
