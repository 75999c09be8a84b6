"""The result of an experiment: tables of published, measured and predicted values with verdicts, and figures."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

LIMIT = 3.0  # standard errors between two values that agree
NEAR = 0.5  # a margin this close to the limit is reported as near, because another seed could change the verdict
TESTABLE = 0.5  # a value is not testable if the limit exceeds this share of it

MAX_NOISE = 2.0  # nor if our error exceeds that of the published value by this factor


class Verdict(StrEnum):
    """How a published value and ours compare."""

    MATCH = "match"
    NEAR = "near the limit"  # between 2.5 and 3.5 standard errors: neither a match nor a difference
    DIFFERS = "differs"
    WEAK = "not testable"  # three standard errors exceed half of the value, or our error is twice that of the paper
    NEW = "new"  # the paper has no such value
    MISSING = "missing"  # the paper has it, this run does not


@dataclass(frozen=True)
class Published:
    """A number as the paper prints it.

    relation: "=", or "<" and ">" where the paper prints a bound
    error:    the printed standard error, None if none is printed, with error_decimals digits
    decimals: number of printed digits; half of the last one is the rounding
    band:     a tolerance stated before the run, for values that depend on training noise or other data; `why` explains
    one_run:  the standard error of one run of the published size, recorded in an earlier full run; it is used if the
              paper prints no error, so that the tolerance cannot grow with the spread of the run that is compared
    """

    value: float
    error: float | None
    decimals: int
    relation: str = "="
    band: float | None = None
    why: str = ""
    error_decimals: int = 0
    one_run: float | None = None

    @classmethod
    def parse(cls, text: str, band: float | None = None, why: str = "", one_run: float | None = None) -> Published:
        """From "0.459 ± 0.011", "> 0.99" or "99.2 %".

        >>> Published.parse("0.459 ± 0.011").error
        0.011
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
        return cls(value, printed_error, decimals, relation or "=", band, why, len(error_digits or ""), one_run)

    @property
    def rounding(self) -> float:
        """Half of the last printed digit."""
        return float(0.5 * 10**-self.decimals)

    @property
    def standard_error(self) -> float:
        """A third of the band, the printed error (at least half of its last digit), or the recorded error."""
        if self.band is not None:
            return self.band / LIMIT
        if self.error is not None:
            return max(self.error, float(0.5 * 10**-self.error_decimals))
        return self.one_run or 0.0

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:.{self.error_decimals}f}"
        return f"{'' if self.relation == '=' else self.relation + ' '}{self.value:.{self.decimals}f}{error}"


@dataclass(frozen=True)
class Measured:
    """Our value, its standard error, and the prediction of the exact law: from exact draws, and from a formula if any.

    spread: if the value is a mean over several runs, the standard deviation of one run; None for a single run
    seeds:  if the experiment was repeated with several seeds, the value of each; `value` is their mean
    """

    value: float
    error: float = math.nan
    exact: float | None = None
    formula: float | None = None
    spread: float | None = None
    seeds: tuple[float, ...] = ()

    @property
    def standard_error(self) -> float:
        """The standard error, zero if there is none."""
        return 0.0 if math.isnan(self.error) else self.error

    @property
    def one_run(self) -> float:
        """The standard error of one run of the published size."""
        return self.standard_error if self.spread is None else self.spread


@dataclass(frozen=True)
class Cell:
    """One quantity of one row."""

    measured: Measured | None
    published: Published | None

    @property
    def standard_error(self) -> float:
        """The combined standard error of both values; with a band it is a third of the band."""
        if self.published is None or self.measured is None:
            return math.nan
        if self.published.band is not None:
            return self.published.standard_error
        return math.hypot(self.published.standard_error, self.measured.standard_error)

    @property
    def tolerance(self) -> float:
        """The largest difference that agrees: the printed rounding plus three standard errors, or the band."""
        if self.published is None or self.published.band is not None:
            return LIMIT * self.standard_error
        return self.published.rounding + LIMIT * self.standard_error

    @property
    def margin(self) -> float:
        """The difference of both values in standard errors, beyond the printed rounding; NaN if one is missing."""
        return math.nan if self.measured is None else self.margin_of(self.measured.value)

    def margin_of(self, value: float) -> float:
        """The margin of another value of ours, such as that of one seed."""
        if self.published is None or self.measured is None:
            return math.nan
        gap = value - self.published.value
        excess = {"=": abs(gap), "<": gap, ">": -gap}[self.published.relation]
        if self.published.band is None:
            excess -= self.published.rounding + 1e-12
        if excess <= 0:
            return 0.0
        return excess / self.standard_error if self.standard_error else math.inf

    @property
    def testable(self) -> bool:
        """Whether a wrong value would be noticed.

        Three standard errors must be smaller than half of the printed value, and our own error at most twice that of
        the published value: a run that is too noisy cannot confirm anything.
        """
        theirs, ours = self.published, self.measured
        if theirs is None or ours is None:
            return False
        has_scale = theirs.relation == "=" and abs(theirs.value) > theirs.rounding
        if has_scale and LIMIT * self.standard_error > TESTABLE * abs(theirs.value):
            return False
        return theirs.band is not None or ours.standard_error <= MAX_NOISE * max(theirs.standard_error, theirs.rounding)

    @property
    def verdict(self) -> Verdict:
        """Whether our value and the published value agree within three standard errors."""
        if self.published is None:
            return Verdict.NEW
        if self.measured is None:
            return Verdict.MISSING
        if self.margin > LIMIT + NEAR:
            return Verdict.DIFFERS
        if self.margin >= LIMIT - NEAR:
            return Verdict.NEAR
        return Verdict.MATCH if self.testable else Verdict.WEAK


@dataclass(frozen=True)
class Cause:
    """Why some cells differ, with the evidence; explained=False if it is not known. Empty `quantities` means all."""

    rows: tuple[str, ...]
    quantities: tuple[str, ...]
    text: str
    explained: bool = True

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


def over_seeds(tables: Sequence[Table]) -> Table:
    """The table of several runs of one experiment with different seeds: means, with the value of each seed."""
    if len(tables) == 1:
        return tables[0]
    first = tables[0]
    cells = {}
    for row, quantities in first.cells.items():
        cells[row] = {
            quantity: replace(cell, measured=_mean([table.cells[row][quantity].measured for table in tables]))
            for quantity, cell in quantities.items()
        }
    return replace(first, cells=cells)


def _mean(runs: Sequence[Measured | None]) -> Measured | None:
    """The mean over seeds, with its standard error from the spread over seeds."""
    found = [run for run in runs if run is not None]
    if not found:
        return None
    values = [run.value for run in found]
    n, mean = len(values), sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / max(n - 1, 1))
    exact = [run.exact for run in found if run.exact is not None]
    return Measured(
        mean,
        deviation / math.sqrt(n),
        sum(exact) / len(exact) if exact else None,
        found[0].formula,
        math.sqrt(sum(run.one_run**2 for run in found) / n),
        tuple(values),
    )


@dataclass(frozen=True)
class Claim:
    """A statement in the text of the paper, what was computed, and whether the statement holds.

    line:  the line in the source of the paper
    quote: some of its words there, with which a test finds the line
    words: the statement in short
    how:   "arithmetic" (of the paper's own numbers), "proof", "closed form", "exact draws", "data", "chains",
           "training", or "none" if it was not tested
    """

    line: int
    quote: str
    words: str
    verdict: str
    evidence: str
    how: str


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or an additional one; `draw` returns a matplotlib figure.

    caption: what is shown
    claim:   what the caption of the paper says about it; empty if the figure is not in the paper
    finding: what this run shows about the claim
    """

    name: str
    caption: str
    draw: Callable[[], Any]
    claim: str = ""
    finding: str = ""


@dataclass(frozen=True)
class Result:
    """The tables, figures and examined claims of an experiment."""

    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
