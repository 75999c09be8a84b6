"""Results of a benchmark run: rows of a table, limits of the machine and curves; reading and writing as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from stochattn._backend.files import write_atomically

MAX_OTHER_WORK = 0.1
"""Above this share of cores used by other processes, a comparison is unfair to baselines that use all cores."""


class Row(NamedTuple):
    """One row of the table. `value` is a ratio (unit "x") or a value in `unit`; None if it was not measured.

    disturbed: share of the cores that other processes used during the measurement
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
        """Whether the target is met; None without a target or a value, or if other processes used too many cores."""
        if self.target is None or self.value is None or self.disturbed > MAX_OTHER_WORK:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target


class Limit(NamedTuple):
    """A limit of the machine, in `unit` per second."""

    name: str
    rate: float
    unit: str


class Curve(NamedTuple):
    """Seconds per step over one size; `series` maps a label to one value for each of `x`, without NaN."""

    name: str
    x_label: str
    x: Sequence[float]
    series: dict[str, Sequence[float]]


@dataclass
class Results:
    """The results so far."""

    about: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)

    def add(self, found: Sequence[Row | Limit | Curve]) -> None:
        """Append the results of a task to the lists of their types."""
        lists: dict[type, list[Any]] = {Row: self.rows, Limit: self.limits, Curve: self.curves}
        for one in found:
            lists[type(one)].append(one)

    def rate(self, limit: str) -> float:
        """The rate of a limit measured earlier in this run."""
        return next(one.rate for one in self.limits if one.name == limit)

    def merged_with(self, earlier: Results) -> Results:
        """Earlier results with the parts of this run replaced."""
        parts = {row.part for row in self.rows}
        kept = [row for row in earlier.rows if row.part not in parts]
        about = {**earlier.about, "complete": earlier.about["complete"] and self.about["complete"]}
        return Results(about, kept + self.rows, self.limits or earlier.limits, self.curves or earlier.curves)

    def write(self, path: Path) -> None:
        """Write all results as JSON."""
        content: dict[str, Any] = {"about": self.about}
        for name in ("rows", "limits", "curves"):
            content[name] = [one._asdict() for one in getattr(self, name)]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read the results that `write` wrote."""
        content = json.loads(path.read_text("utf-8"))
        return cls(
            content["about"],
            [Row(**row) for row in content["rows"]],
            [Limit(**limit) for limit in content["limits"]],
            [Curve(**curve) for curve in content["curves"]],
        )


class Task(NamedTuple):
    """A measurement with the part that it belongs to and its name in the progress bar."""

    part: str
    what: str
    measure: Callable[[Results], Sequence[Row | Limit | Curve]]
