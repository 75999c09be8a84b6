"""Dates as whole steps of time since the first of them, and back, in the format they were written in."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

import numpy as np

from ..._backend.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
FIRST, LAST = -62_135_596_800, 253_402_300_799
"""Seconds since 1970 of the years 1 and 9999, between which dates can be written."""


class TwoFormats(ValueError):
    """Dates that one format does not read: the row, its text, and the format of those before."""

    def __init__(self, row: int, text: str, first: str) -> None:
        super().__init__(f"{first!r} and {text!r} are dates in two formats")
        self.row, self.text, self.first = row, text, first


@dataclass(frozen=True)
class Clock:
    """How a column measures time: in steps of so many units (s, ms, us, ns) since the origin, in units since 1970.

    format: of dates that are text, or None for datetimes
    bare:   whether numbers in the text go without leading zeros
    local:  whether steps are those of the zone's own clocks, on which a day may have 23 hours
    days:   whether cells are datetime.date objects
    """

    format: str | None = None
    bare: bool = False
    zone: str | None = None
    origin: int = 0
    step: int = 1
    unit: str = "us"
    local: bool = False
    days: bool = False

    def numbers(self, series: pd.Series) -> Array:
        """A column (n,) as steps since the origin; NaN where it is missing, or not a date."""
        times = self._times(series)
        steps = (times.astype("int64") - self.origin) / self.step
        return np.where(np.isnat(times), np.nan, steps)

    def number(self, value: object) -> float:
        """A date, or a text that means one, as steps since the origin; NaN if it is not a date.

        A time without a zone is one of the column's zone.
        """
        import pandas as pd

        if isinstance(value, str) and self.format:
            number = float(self.numbers(pd.Series([value]))[0])
            if not math.isnan(number):
                return number
        try:
            time = pd.Timestamp(value) if isinstance(value, str | date | np.datetime64) else pd.NaT
        except ValueError:
            return math.nan
        if pd.isna(time):
            return math.nan
        if self.zone is not None:
            time = time.tz_localize(self.zone) if time.tz is None else time
            time = time.tz_convert(self.zone if self.local else "UTC")
        plain = time.tz_localize(None).to_datetime64().astype(f"M8[{self.unit}]")
        return float((int(plain.astype("int64")) - self.origin) / self.step)

    def series(self, numbers: Array) -> pd.Series:
        """Steps (n,) as a column."""
        import pandas as pd

        first, last = (end * PER_SECOND[self.unit] for end in (FIRST, LAST))
        if self.unit == "ns":
            first, last = pd.Timestamp.min.value + 10**9, pd.Timestamp.max.value - 10**9
        limits = np.array([min(-((self.origin - first) // self.step), 0), (last - self.origin) // self.step], float)
        whole = np.clip(np.round(numbers), *limits).astype(np.int64)
        times = pd.Series((self.origin + whole * self.step).view(f"M8[{self.unit}]"))
        if self.days:
            return times.dt.date
        if self.format is not None:
            texts = times.dt.strftime(self.format)
            return texts.str.replace(r"(?<!\d)0(?=\d)", "", regex=True) if self.bare else texts
        if self.zone is None:
            return times
        if not self.local:
            return times.dt.tz_localize("UTC").dt.tz_convert(self.zone)
        # An hour that clocks skip becomes the next there is, and one that they repeat the first of the two.
        return times.dt.tz_localize(self.zone, ambiguous=np.ones(len(times), dtype=bool), nonexistent="shift_forward")

    def _times(self, series: pd.Series) -> Array:
        import pandas as pd

        if self.days:
            cells = [None if gone else cell for cell, gone in zip(series, series.isna(), strict=True)]
            return np.array(cells, dtype="M8[D]").astype(f"M8[{self.unit}]")
        if self.format is not None:
            series = pd.to_datetime(series.astype("object"), format=self.format, errors="coerce")
        elif self.zone is not None:
            series = (series if self.local else series.dt.tz_convert("UTC")).dt.tz_localize(None)
        return np.asarray(series.to_numpy(dtype=f"M8[{self.unit}]"))


def clock_of_times(series: pd.Series) -> Clock:
    """The clock of a column of datetimes: of the zone's own clocks, where these reach all of them in longer steps."""
    zone = getattr(series.dtype, "tz", None)
    clock = _set(Clock(zone=None if zone is None else str(zone), unit=series.dt.unit), series)
    if zone is None:
        return clock
    local, present = _set(replace(clock, local=True), series), series.dropna()
    same = local.step > clock.step and (local.series(local.numbers(present)).to_numpy() == present.to_numpy()).all()
    return local if same else clock


def clock_of_days(series: pd.Series) -> Clock:
    """The clock of a column of datetime.date objects."""
    return _set(Clock(unit="s", days=True), series)


def clock_of_texts(series: pd.Series, day_first: bool = False) -> tuple[Clock, bool] | None:
    """The clock of a column of texts, and whether day and month could be swapped; None if they are not dates.

    TwoFormats where one format reads some dates and another the rest.
    """
    texts = series.dropna()
    if texts.empty or _guess(str(texts.iloc[0]), day_first) is None:
        return None
    clocks = [clock for first in (day_first, not day_first) if (clock := _reads(texts, first)) is not None]
    if not clocks:
        _blame(texts, day_first)
        return None
    both = len(clocks) == 2 and clocks[0].format != clocks[1].format and clocks[0].format != "%Y-%m-%d"
    return clocks[0], both


def _reads(texts: pd.Series, day_first: bool) -> Clock | None:
    """A clock that reads every one of the texts and writes it back as it stands."""
    format = _guess(str(texts.iloc[0]), day_first)
    if format is None:
        return None
    if np.isnan(Clock(format).numbers(texts)).any():
        return None
    for bare in (False, True):
        clock = _set(Clock(format, bare), texts)
        if (clock.series(clock.numbers(texts)).to_numpy() == texts.to_numpy()).all():
            return clock
    return None


def _blame(texts: pd.Series, day_first: bool) -> None:
    """TwoFormats for the first text that is a date, but not in the format of the first one."""
    import pandas as pd

    first = str(texts.iloc[0])
    formats = {format for either in (day_first, not day_first) if (format := _guess(first, either)) is not None}
    read = [pd.to_datetime(texts.astype("object"), format=format, errors="coerce").notna() for format in formats]
    for row in np.flatnonzero(~np.any(read, axis=0)):
        text = str(texts.iloc[row])
        if _guess(text, day_first) is None:
            return
        raise TwoFormats(int(texts.index[row]), text, first)


def _set(clock: Clock, series: pd.Series) -> Clock:
    """The same clock, counting from the first date in the longest steps that reach all of them."""
    times = clock._times(series.dropna()).astype("int64")
    origin = int(times.min())
    second = PER_SECOND[clock.unit]
    steps = [86_400 * second, 3_600 * second, 60 * second, second, *(s for s in (10**6, 10**3, 1) if s < second)]
    return replace(clock, origin=origin, step=next(step for step in steps if not ((times - origin) % step).any()))


def _guess(text: str, day_first: bool) -> str | None:
    """The format of a date, or None. A year alone, and digits without separators, are numbers or names instead."""
    from pandas.tseries.api import guess_datetime_format

    if not re.search(r"\d\D+\d", text):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that day comes first although month could
        format = guess_datetime_format(text, dayfirst=day_first)
    if format is None or re.match(r"%Y\D%d\D%m", format):  # nobody writes year, day, month
        return None
    return str(format).replace("%z", "Z") if text.endswith("Z") else str(format)
