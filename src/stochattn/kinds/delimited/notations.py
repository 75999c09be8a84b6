"""Notations of strings that stand for numbers: times of day, durations, quarters, weeks, amounts, limits of detection.

A notation is that of a column if it writes every cell back as it is, so that new cells look like stored ones.

number(text):    the number that a string means; NaN for a string that is not in this notation
write(number):   a number as a string
ends:            the least and the greatest number that new cells can have, infinite where there is none
labels:          strings of numbers that are not measured but beyond a limit, by that number
unit:            the unit of whole steps of time, which are compared with others of the same unit; "" for other numbers
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from typing import ClassVar, TypeAlias

from .numbers import NUMBER, Notation, NumberForm, count_padding, form_of, plain_number

TIME = re.compile(
    r"(?P<sign>-?)(?:(?P<days>\d+) days? )?(?P<first>\d+):(?P<minutes>[0-5]\d)"
    r"(?::(?P<seconds>[0-5]\d)(?:\.(?P<fraction>\d{1,9}))?)?(?P<half> ?[AaPp]\.?[Mm]\.?)?"
)
PERIODS = (
    re.compile(r"(?P<year>\d{4})(?P<between>[-/ ]?)(?P<letter>[A-Za-z]{1,2})(?P<part>\d{1,2})"),
    re.compile(r"(?P<letter>[A-Za-z]{1,2})(?P<part>\d{1,2})(?P<between>[-/ ]|)(?P<year>\d{4})"),
)
PER_YEAR = {"Q": 4, "H": 2, "W": 0, "KW": 0}
"""Parts of a year by their letters; weeks are those of ISO 8601, of which years have 52 or 53."""
PART = re.compile(r"(\d+)( ?)([A-Za-z]+)( ?)")
SECONDS = {
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
}
"""Seconds in the units of durations such as 3h 20m."""
LIMITS = ("<", ">", "≤", "≥")
LIMIT = re.compile(r"(?P<sign>[<>]=?|[≤≥]) ?(?P<limit>.*)")
MIN_MEASURED = 2  # distinct numbers beside <0.1, below which such cells are classes: <18, >65
DAY = 24 * 60


@dataclass(frozen=True)
class TimeNotation:
    """Times of day and durations, in the longest steps that reach all: 08:30, 8:05 PM, 1:23:45, 2 days 03:04:05."""

    n_parts: int  # 2 for hours and minutes, or minutes and seconds, which count alike; 3 for hours, minutes and seconds
    digits: int = 0  # of fractions of a second
    is_padded: bool = True  # whether the first part has a zero in front
    halves: tuple[str, str] | None = None  # what follows times before and after noon, such as " AM" and " PM"
    has_days: bool = False  # whether days stand in front
    step: int = 1  # of numbers, in units of the last part that is written
    start: int = 0  # the time of the number 0, in the same units
    ends: tuple[float, float] = (-math.inf, math.inf)
    labels: ClassVar[Mapping[float, str]] = {}

    @property
    def unit(self) -> str:
        return f"{'minutes' if self.n_parts == 2 else 'seconds'} / {10**self.digits}"

    @property
    def _day(self) -> int:
        return DAY * (60 if self.n_parts == 3 else 1) * int(10**self.digits)

    def number(self, text: str) -> float:
        match = TIME.fullmatch(text.strip())
        if match is None or bool(match["half"]) != bool(self.halves) or (match["days"] and not self.has_days):
            return math.nan
        first = int(match["first"])
        if match["half"]:
            if not 1 <= first <= 12:
                return math.nan
            first = first % 12 + 12 * (match["half"].strip()[0] in "Pp")
        steps = 60 * first + int(match["minutes"])
        if self.n_parts == 3:
            fraction = (match["fraction"] or "").ljust(self.digits, "0")[: self.digits]
            steps = (60 * steps + int(match["seconds"] or 0)) * 10**self.digits + int(fraction or 0)
        number = steps + int(match["days"] or 0) * self._day
        return ((-number if match["sign"] else number) - self.start) / self.step

    def write(self, number: float) -> str:
        signed = self.start + round(number) * self.step
        steps = abs(signed)
        days, steps = divmod(steps, self._day) if self.has_days else (0, steps)
        rest = ""
        if self.n_parts == 3:
            steps, fraction = divmod(steps, 10**self.digits)
            steps, seconds = divmod(steps, 60)
            rest = f":{seconds:02d}" + (f".{fraction:0{self.digits}d}" if self.digits else "")
        first, minutes = divmod(steps, 60)
        if self.halves:
            rest += self.halves[first >= 12]
            first = (first - 1) % 12 + 1
        before = f"{days} days " if self.has_days else ""
        return f"{'-' if signed < 0 else ''}{before}{first:0{1 + self.is_padded}d}:{minutes:02d}{rest}"


def _time_notation(cells: Sequence[str]) -> TimeNotation | None:
    if (first := TIME.fullmatch(cells[0])) is None:
        return None
    hours = [cell.partition(":")[0] for cell in cells]
    half = first["half"] or ""
    opposite = half.translate(str.maketrans("AaPp", "PpAa"))
    shape = TimeNotation(
        n_parts=3 if first["seconds"] else 2,
        digits=len(first["fraction"] or ""),
        is_padded=bool(first["days"]) or all(len(hour) > 1 for hour in hours),
        halves=(half, opposite) if half.strip()[:1] in ("A", "a") else (opposite, half) if half else None,
        has_days=bool(first["days"]),
    )
    numbers = [shape.number(cell) for cell in cells]
    if not all(map(math.isfinite, numbers)):
        return None
    start, step = _grid(numbers)
    is_of_a_day = not shape.has_days and all(0 <= number < shape._day for number in numbers)
    low = -math.inf if any(number < 0 for number in numbers) else 0.0
    high = float((shape._day - 1 - start) // step) if is_of_a_day else math.inf
    return replace(shape, step=step, start=start, ends=(low, high))


def _grid(numbers: Sequence[float]) -> tuple[int, int]:
    """The start, from 0 on, and the longest step of an even grid that holds integers (n,)."""
    first, *others = map(int, numbers)
    step = math.gcd(*(number - first for number in others)) or 1
    return first % step, step


@dataclass(frozen=True)
class DurationNotation:
    """Durations in units of time, in the longest steps that reach all: 3h 20m, 2d 4h, PT1H30M."""

    begin: str
    units: tuple[str, ...]  # what follows each number, such as "h" and "m", with the spaces in front of it
    between: str
    width: int  # digits of the numbers after the first one, at least
    has_zero: bool  # whether parts that are zero are written, other than the only one
    step: int = 1  # of numbers, in the last unit
    start: int = 0  # the duration of the number 0, in this unit
    labels: ClassVar[Mapping[float, str]] = {}
    ends: ClassVar[tuple[float, float]] = (0.0, math.inf)

    @property
    def unit(self) -> str:
        return f"{self._seconds[-1]} s"

    @property
    def _seconds(self) -> tuple[int, ...]:
        return tuple(SECONDS[unit.strip().lower()] for unit in self.units)

    def number(self, text: str) -> float:
        parts = PART.findall(text.strip().removeprefix(self.begin))
        lengths = dict(zip(self.units, self._seconds, strict=True))
        if not parts or any(space + unit not in lengths for _, space, unit, _ in parts):
            return math.nan
        length = sum(int(number) * lengths[space + unit] for number, space, unit, _ in parts) / self._seconds[-1]
        return (length - self.start) / self.step

    def write(self, number: float) -> str:
        rest, texts = (self.start + round(number) * self.step) * self._seconds[-1], list[str]()
        for unit, seconds in zip(self.units, self._seconds, strict=True):
            count, rest = divmod(rest, seconds)
            is_last = unit == self.units[-1]
            if count or self.has_zero or (is_last and not texts):
                texts.append(f"{count:0{self.width if texts else 1}d}{unit}")
        return self.begin + self.between.join(texts)


def _duration_notation(cells: Sequence[str]) -> DurationNotation | None:
    begin = "PT" if cells[0].startswith("PT") else ""
    if re.fullmatch(rf"(?:{PART.pattern})+", cells[0].removeprefix(begin)) is None:
        return None
    rows = [PART.findall(cell.removeprefix(begin)) for cell in cells]
    longest = max(rows, key=len)
    seconds = [SECONDS.get(unit.lower(), 0) for _, _, unit, _ in longest]
    if len(longest) < 2 or not all(before > after for before, after in pairwise([*seconds, 0])):
        return None
    width = min(len(number) for row in rows for number, *_ in row[1:])
    units = tuple(space + unit for _, space, unit, _ in longest)
    shapes = (DurationNotation(begin, units, longest[0][3], width, has_zero) for has_zero in (True, False))
    shape = next((shape for shape in shapes if all(_is_kept(shape, cell) for cell in cells)), None)
    if shape is None:
        return None
    start, step = _grid([shape.number(cell) for cell in cells])
    return replace(shape, start=start, step=step)


@dataclass(frozen=True)
class PeriodNotation:
    """Quarters, half-years and weeks, in steps of one: 2020Q1, Q3 2019, 2020-W07."""

    is_year_first: bool
    between: str
    letter: str
    width: int
    labels: ClassVar[Mapping[float, str]] = {}

    @property
    def unit(self) -> str:
        return self.letter.upper().removeprefix("K")

    @property
    def _per_year(self) -> int:
        return PER_YEAR[self.letter.upper()]

    @property
    def ends(self) -> tuple[float, float]:
        return self._number(1, 1), self._number(9999, max(1, self._per_year))

    def _number(self, year: int, part: int) -> float:
        if self._per_year:
            return float(self._per_year * year + part - 1) if 1 <= part <= self._per_year else math.nan
        try:
            return float(date.fromisocalendar(year, part, 1).toordinal() // 7)
        except ValueError:
            return math.nan

    def number(self, text: str) -> float:
        match = PERIODS[not self.is_year_first].fullmatch(text.strip())
        if match is None or match["letter"].upper() != self.letter.upper():
            return math.nan
        return self._number(int(match["year"]), int(match["part"]))

    def write(self, number: float) -> str:
        if self._per_year:
            year, part = divmod(round(number), self._per_year)
            part += 1
        else:
            year, part, _ = date.fromordinal(7 * round(number) + 1).isocalendar()
        period = f"{self.letter}{part:0{self.width}d}"
        first, second = (f"{year:04d}", period) if self.is_year_first else (period, f"{year:04d}")
        return f"{first}{self.between}{second}"


def _period_notation(cells: Sequence[str]) -> PeriodNotation | None:
    for pattern in PERIODS:
        match = pattern.fullmatch(cells[0])
        if match is not None and match["letter"].upper() in PER_YEAR:
            widths = {len(period["part"]) for cell in cells if (period := pattern.fullmatch(cell)) is not None}
            return PeriodNotation(pattern is PERIODS[0], match["between"], match["letter"], min(widths))
    return None


@dataclass(frozen=True)
class LimitNotation:
    """Measured numbers, and limits of detection such as <0.1 and >500, beyond which nothing was measured.

    A limit stands for a number half a step beyond it, where a step is one of the last decimal. Many rows can share this
    number, as they share any other, and no measured number equals it.
    """

    measured: Notation
    half_step: float
    labels: Mapping[float, str]
    ends: tuple[float, float] = (-math.inf, math.inf)
    unit: ClassVar[str] = ""

    def number(self, text: str) -> float:
        match = LIMIT.fullmatch(text.strip())
        if match is None:
            return self.measured.number(text)
        limit = self.measured.number(match["limit"])
        return limit - self.half_step if match["sign"][0] in "<≤" else limit + self.half_step

    def write(self, number: float) -> str:
        return self.labels.get(float(number)) or self.measured.write(number)


def _limit_notation(cells: Sequence[str]) -> LimitNotation | None:
    matches = {cell: match for cell in cells if cell[:1] in LIMITS and (match := LIMIT.fullmatch(cell)) is not None}
    if not matches:
        return None
    others = [cell for cell in cells if cell not in matches]
    measured = (number_notation(others) or _plain_notation(others)) if others else None
    numbers = [] if measured is None else [measured.number(cell) for cell in others]
    if measured is None or len(set(numbers)) < MIN_MEASURED:
        return None
    with_limits = (*others, *(match["limit"] for match in matches.values()))
    texts = [plain_number(text, measured.decimal, units=True) or "" for text in with_limits]
    half_step = 0.5 * 10.0 ** -max(len(text.partition(".")[2]) for text in texts)
    shape = LimitNotation(measured, half_step, {})
    counts, labels = Counter(cells), dict[float, str]()
    for cell in matches:  # of two strings of one limit, the more frequent is written
        number = shape.number(cell)
        labels[number] = max(labels.get(number, cell), cell, key=counts.__getitem__)
    low, high = min(labels), max(labels)
    ends = low if low < min(numbers) else -math.inf, high if high > max(numbers) else math.inf
    return LimitNotation(measured, half_step, labels, ends)


TextNotation: TypeAlias = Notation | TimeNotation | DurationNotation | PeriodNotation | LimitNotation


def number_notation(cells: Sequence[str]) -> Notation | None:
    """The notation of strings (n,), all of which are numbers with more than digits, such as $12.50; None for others."""
    for decimal in (".", ","):
        if plain_number(cells[0], decimal, units=True) is None:
            continue
        numbers = [number for cell in cells if (number := plain_number(cell, decimal, units=True)) is not None]
        if len(numbers) < len(cells):
            continue
        form, has_sign = form_of(cells, decimal), any(decimal in cell for cell in cells)
        may_be_fractions = decimal == "," and form == NumberForm(thousands=".") and not has_sign
        if may_be_fractions and all(re.fullmatch(NUMBER, cell) for cell in cells):  # such as 4.516
            return None
        if form is not None or (decimal == "," and has_sign):
            return Notation(decimal, form, count_padding(numbers, "."))
    return None


def _plain_notation(cells: Sequence[str], by_zeros: bool = True) -> Notation | None:
    """The notation of plain numbers (n,) with a decimal point; None for other strings. See `count_padding`."""
    if not all(re.fullmatch(NUMBER, cell) and "," not in cell and not re.match(r"[-+]?0\d", cell) for cell in cells):
        return None
    return Notation(".", None, count_padding(cells, ".", by_zeros))


def notation_of(cells: Sequence[str]) -> TextNotation | None:
    """The notation of strings (n,), none of them missing; None where they are not numbers, or are plain integers.

    >>> notation_of(["2019Q4", "2020Q1"]).number("2020Q3") - notation_of(["2019Q4", "2020Q1"]).number("2020Q1")
    2.0
    >>> notation_of(["<0.1", "0.35", "1.20"]).write(0.5)
    '0.50'
    """
    if not any(map(str.isdigit, cells[0])):
        return None
    for find_notation in (_time_notation, _duration_notation, _period_notation, _limit_notation):
        notation = find_notation(cells)
        if notation is not None and all(_is_kept(notation, cell) for cell in cells):
            return notation
    amounts = number_notation(cells)
    if amounts is not None or "." not in "".join(cells):  # integers may be names, such as 10115
        return amounts
    plain = _plain_notation(cells, by_zeros=False)  # 3.0, 3.9 and 3.11 are versions
    return plain if plain is not None and all(_is_kept(plain, cell) for cell in cells) else None


def _is_kept(notation: TextNotation, cell: str) -> bool:
    """Whether a cell is written back as it is, or beside limits as another string of its number: 1.5 for 1.50."""
    number = notation.number(cell)
    if not math.isfinite(number):
        return False
    if notation.write(number) == cell:
        return True
    return bool(notation.labels) and _sign(notation.labels.get(number, "")) == _sign(cell)


def _sign(cell: str) -> str:
    match = LIMIT.fullmatch(cell)
    return "" if match is None else match["sign"]
