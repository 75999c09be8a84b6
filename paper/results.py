"""The result of an experiment: tables of published, measured and predicted values with verdicts, and figures."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

TOLERANCE_IN_ERRORS = 3


class Verdict(StrEnum):
    """How a published value and ours compare."""

    MATCH = "match"
    DIFFERS = "differs"
    NEW = "new"  # the paper has no such value
    MISSING = "missing"  # the paper has it, this run does not


@dataclass(frozen=True)
class Published:
    """A number as the paper prints it.

    relation: "=", or "<" and ">" where the paper prints a bound
    error:    the printed standard error, None if none is printed, with error_decimals digits
    decimals: number of printed digits; half of the last one is the rounding
    band:     a tolerance stated before the run, for values that depend on training noise or other data; `why` explains
    """

    value: float
    error: float | None
    decimals: int
    relation: str = "="
    band: float | None = None
    why: str = ""
    error_decimals: int = 0

    @classmethod
    def parse(cls, text: str, band: float | None = None, why: str = "") -> Published:
        """From "0.459 ± 0.011", "> 0.99" or "99.2 %".

        >>> Published.parse("0.459 ± 0.011")
        Published(value=0.459, error=0.011, decimals=3, relation='=', band=None, why='', error_decimals=3)
        >>> Published.parse("99.2 %").value
        0.992
        """
        match = re.fullmatch(r"([<>]?)\s*([+-]?\d+(?:\.(\d+))?)\s*(%?)(?:\s*±\s*(\d+(?:\.(\d+))?))?", text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a published number such as '0.459 ± 0.011', '> 0.99' or '99.2 %'.")
        relation, number, digits, percent, error, error_digits = match.groups()
        decimals = len(digits or "") + (2 if percent else 0)
        value = round(float(number) / 100, decimals) if percent else float(number)
        printed_error = float(error) if error else None
        return cls(value, printed_error, decimals, relation or "=", band, why, len(error_digits or ""))

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:.{self.error_decimals}f}"
        return f"{'' if self.relation == '=' else self.relation + ' '}{self.value:.{self.decimals}f}{error}"


@dataclass(frozen=True)
class Measured:
    """Our value, its standard error, and the prediction of the exact law: from exact draws, and from a formula if any.

    spread: if the value is a mean over several runs, the standard deviation of one run; None for a single run.
    """

    value: float
    error: float = math.nan
    exact: float | None = None
    formula: float | None = None
    spread: float | None = None


@dataclass(frozen=True)
class Cell:
    """One quantity of one row."""

    measured: Measured | None
    published: Published | None

    @property
    def tolerance(self) -> float:
        """Three combined standard errors, or the printed rounding if that is larger, or the band if there is one.

        If no error is printed, or it was rounded to zero, the published run is assumed to have the error of one of
        our runs, because the protocol is the same.
        """
        if self.published is None or self.measured is None:
            return math.nan
        if self.published.band is not None:
            return self.published.band
        ours = 0.0 if math.isnan(self.measured.error) else self.measured.error
        one_run = ours if self.measured.spread is None else self.measured.spread
        rounding: float = 0.5 * 10**-self.published.decimals
        return max(TOLERANCE_IN_ERRORS * math.hypot(self.published.error or one_run, ours), rounding)

    @property
    def verdict(self) -> Verdict:
        """Whether our value and the published value agree within the tolerance."""
        if self.published is None:
            return Verdict.NEW
        if self.measured is None:
            return Verdict.MISSING
        gap = self.measured.value - self.published.value
        excess = {"=": abs(gap), "<": gap, ">": -gap}[self.published.relation]
        return Verdict.MATCH if excess <= self.tolerance + 1e-12 else Verdict.DIFFERS


@dataclass(frozen=True)
class Cause:
    """Why some cells differ, with the evidence. Empty `quantities` means all."""

    rows: tuple[str, ...]
    quantities: tuple[str, ...]
    text: str

    def covers(self, row: str, quantity: str) -> bool:
        """Whether this cause applies to a cell."""
        return row in self.rows and (not self.quantities or quantity in self.quantities)


Row = Mapping[str, Measured]


@dataclass(frozen=True)
class Table:
    """A table of the paper, or an additional one: a row per method, a cell per quantity.

    name:     the label of the table in the paper
    findings: statements in the text of the paper that these runs do not support
    """

    name: str
    title: str
    cells: Mapping[str, Mapping[str, Cell]]
    notes: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    findings: tuple[str, ...] = ()

    def items(self) -> Iterator[tuple[str, str, Cell]]:
        """Iterate over (row, quantity, cell)."""
        for row, cells in self.cells.items():
            for quantity, cell in cells.items():
                yield row, quantity, cell

    @property
    def quantities(self) -> list[str]:
        """The columns."""
        return list(dict.fromkeys(quantity for _, quantity, _ in self.items()))

    def counts(self) -> dict[Verdict, int]:
        """Number of cells per verdict."""
        verdicts = [cell.verdict for _, _, cell in self.items()]
        return {verdict: verdicts.count(verdict) for verdict in Verdict}

    def cause(self, row: str, quantity: str) -> Cause | None:
        """The cause that applies to a cell, if any."""
        return next((cause for cause in self.causes if cause.covers(row, quantity)), None)


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or an additional one; `draw` returns a matplotlib figure."""

    name: str
    caption: str
    draw: Callable[[], Any]


@dataclass(frozen=True)
class Result:
    """The tables and figures of an experiment."""

    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
