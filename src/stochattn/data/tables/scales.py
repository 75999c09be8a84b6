"""Scales of columns: numbers as normal scores of their ranks, dates as whole steps of time, and back."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from ..._backend.arrays import Array, ArrayLike
from .. import lazy_pandas as pd
from ..options import InputError

SNAP = 1e-7
"""How near a score must come to that of a stored value to be that value: above rounding, far below a rank."""
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
FIRST, LAST = -62_135_596_800, 253_402_300_799
"""Seconds since 1970 of the years 1 and 9999, between which dates can be written."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """The map from numbers to scores, linear between the distinct stored values (m,), with slopes of the tails.

    scores:      (m,) normal scores of mid-ranks, of unit variance over the stored numbers
    first, last: (m,) scores of the first and the last rank that a value takes: all in between decode to it, so that
                 a value which many rows share stays as frequent as it is
    low, high:   limits that no value passes; a tail bends towards its limit and stays inside
    decimals:    to which values other than the stored ones are rounded, or None
    deviation:   standard deviation of the normal law that ranks follow, in units of scores
    """

    values: Array
    scores: Array
    first: Array
    last: Array
    slopes: tuple[float, float]
    low: float
    high: float
    decimals: int | None
    deviation: float = 1.0

    @classmethod
    def fit(cls, numbers: Array, low: float, high: float, decimals: int | None) -> Ranks:
        """Ranks of these numbers (n,), of which at least two differ; NaN is left out."""
        from scipy.special import ndtri

        numbers = numbers[~np.isnan(numbers)]
        values, counts = np.unique(numbers, return_counts=True)
        n, past = len(numbers), np.cumsum(counts)
        first, last = ndtri((past - counts + 0.5) / n), ndtri((past - 0.5) / n)
        scores = ndtri((past - counts / 2) / n)
        scale = math.sqrt(np.average(scores**2, weights=counts) - np.average(scores, weights=counts) ** 2)
        scores, first, last = scores / scale, first / scale, last / scale
        steps = max(1, len(values) // 4)  # tails go on at the slopes of the outer quarters, of one step at least
        slopes = (values[steps:] - values[:-steps]) / (scores[steps:] - scores[:-steps])
        tails = float(slopes[0]), float(slopes[-1])
        return cls(values, scores, first, last, tails, low, high, decimals, 1 / scale)

    def forward(self, numbers: ArrayLike) -> Array:
        """Numbers (n,) as scores (n,); NaN stays NaN."""
        x = np.asarray(numbers, dtype=np.float64)
        values, top = self.values, len(self.values) - 1
        j = np.clip(np.searchsorted(values, x, side="right") - 1, 0, top)
        after = np.minimum(j + 1, top)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(after > j, (x - values[j]) / (values[after] - values[j]), 0.0)
            s = self.last[j] + share * (self.first[after] - self.last[j])
            s = np.where(x == values[j], self.scores[j], s)
            below = _unbent(values[0] - x, values[0] - self.low, self.slopes[0])
            above = _unbent(x - values[-1], self.high - values[-1], self.slopes[1])
            s = np.where(x < values[0], self.first[0] - below, np.where(x > values[-1], self.last[-1] + above, s))
        return np.where(np.isnan(x), np.nan, s)

    def inverse(self, scores: ArrayLike) -> Array:
        """Scores (n,) as numbers (n,); those of stored values give these values exactly."""
        s = np.asarray(scores, dtype=np.float64)
        wide = self.first < self.last
        at = np.concatenate((self.first, self.last[wide]))
        order = np.argsort(at, kind="stable")
        x = np.interp(s, at[order], np.concatenate((self.values, self.values[wide]))[order])
        below, above = self.first[0] - s, s - self.last[-1]
        x = np.where(below > 0, self.values[0] - _bent(below, self.values[0] - self.low, self.slopes[0]), x)
        x = np.where(above > 0, self.values[-1] + _bent(above, self.high - self.values[-1], self.slopes[1]), x)
        if self.decimals is not None:
            x = np.round(x, self.decimals)
        x = np.clip(x, self.low, self.high)
        j = np.clip(np.searchsorted(self.scores, s), 1, len(self.scores) - 1)
        j = j - (s - self.scores[j - 1] < self.scores[j] - s)
        return np.where(np.abs(s - self.scores[j]) < SNAP, self.values[j], x)

    def jittered(self, features: Array, rng: np.random.Generator) -> Array:
        """Scores (n, 1), those of a value that many rows share spread over its ranks, evenly."""
        from scipy.special import ndtr, ndtri

        s = features[:, 0]
        j = np.clip(np.searchsorted(self.scores, s - SNAP), 0, len(self.scores) - 1)
        low, high = ndtr(self.first[j] / self.deviation), ndtr(self.last[j] / self.deviation)
        spread = ndtri(low + rng.random(len(s)) * (high - low)) * self.deviation
        return np.where(np.abs(s - self.scores[j]) < SNAP, spread, s)[:, None]


def _bent(beyond: Array, room: float, slope: float) -> Array:
    """How far a tail goes: slope · beyond without a limit, and never as far as `room` where there is one."""
    if math.isinf(room):
        return slope * np.maximum(beyond, 0)
    return -room * np.expm1(-slope / room * np.maximum(beyond, 0)) if room > 0 else np.zeros_like(beyond)


def _unbent(distance: Array, room: float, slope: float) -> Array:
    """The inverse of `_bent`; the limit itself is a long but finite way out."""
    if math.isinf(room):
        return distance / slope
    return -np.log(np.maximum(1 - distance / room, 1e-6)) * (room / slope) if room > 0 else np.zeros_like(distance)


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

    def fitted(self, series: pd.Series) -> Clock:
        """The same clock, counting from the first date in the longest steps that reach all of them."""
        times = self._times(series.dropna()).astype("int64")
        origin, second = int(times.min()), PER_SECOND[self.unit]
        steps = [86_400 * second, 3_600 * second, 60 * second, second, *(s for s in (10**6, 10**3, 1) if s < second)]
        return replace(self, origin=origin, step=next(step for step in steps if not ((times - origin) % step).any()))

    def numbers(self, series: pd.Series) -> Array:
        """A column (n,) as steps since the origin; NaN where it is missing, or not a date."""
        times = self._times(series)
        return np.where(np.isnat(times), np.nan, (times.astype("int64") - self.origin) / self.step)

    def number(self, value: object) -> float:
        """A date, or a text that means one, as steps since the origin; NaN if it is not a date.

        A time without a zone is one of the column's zone.
        """
        if isinstance(value, str) and self.format:
            number = float(self.numbers(pd.Series([value]))[0])
            if not math.isnan(number):
                return number
        try:
            time = pd.Timestamp(value) if isinstance(value, str | date | np.datetime64) else pd.NaT
        except ValueError:
            time = pd.NaT
        if pd.isna(time):
            return math.nan
        if self.zone is not None:
            time = time.tz_localize(self.zone) if time.tz is None else time
            time = time.tz_convert(self.zone if self.local else "UTC")
        plain = time.tz_localize(None).to_datetime64().astype(f"M8[{self.unit}]")
        return float((int(plain.astype("int64")) - self.origin) / self.step)

    def series(self, numbers: Array) -> pd.Series:
        """Steps (n,) as a column."""
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
        if self.days:
            cells = [None if gone else cell for cell, gone in zip(series, series.isna(), strict=True)]
            return np.array(cells, dtype="M8[D]").astype(f"M8[{self.unit}]")
        if self.format is not None:
            series = pd.to_datetime(series.astype("object"), format=self.format, errors="coerce")
        elif self.zone is not None:
            series = (series if self.local else series.dt.tz_convert("UTC")).dt.tz_localize(None)
        return np.asarray(series.to_numpy(dtype=f"M8[{self.unit}]"))


def clock_of(series: pd.Series, day_first: bool, place: Callable[[int], str]) -> tuple[Clock | None, bool]:
    """The clock of a column that holds dates, or None, and whether its days and months could be swapped.

    InputError, with the place of a row, where one format reads some dates and another the rest.
    """
    if series.dtype.kind == "M":
        return _clock_of_times(series), False
    if series.dtype.kind != "O" or series.dtype.name == "category":
        return None, False
    if pd.api.types.infer_dtype(series, skipna=True) == "date":
        return Clock(unit="s", days=True).fitted(series), False
    texts = series.dropna()
    if texts.empty or (first := _guess(str(texts.iloc[0]), day_first)) is None:
        return None, False
    formats = list(dict.fromkeys((first, _guess(str(texts.iloc[0]), not day_first) or first)))
    clocks = [clock for format in formats if (clock := _clock_of_texts(texts, format)) is not None]
    if not clocks:
        _require_one_format(texts, formats, day_first, place)
        return None, False
    return clocks[0], len(clocks) == 2 and clocks[0].format != "%Y-%m-%d"


def _clock_of_times(series: pd.Series) -> Clock:
    """The clock of a column of datetimes: of the zone's own clocks, where these reach all of them in longer steps."""
    zone = getattr(series.dtype, "tz", None)
    clock = Clock(zone=None if zone is None else str(zone), unit=series.dt.unit).fitted(series)
    if zone is None:
        return clock
    local, present = replace(clock, local=True).fitted(series), series.dropna()
    same = local.step > clock.step and (local.series(local.numbers(present)).to_numpy() == present.to_numpy()).all()
    return local if same else clock


def _clock_of_texts(texts: pd.Series, format: str) -> Clock | None:
    """A clock that reads every one of the texts and writes it back as it stands."""
    if np.isnan(Clock(format).numbers(texts)).any():
        return None
    clocks = (Clock(format, bare).fitted(texts) for bare in (False, True))
    return next((c for c in clocks if (c.series(c.numbers(texts)).to_numpy() == texts.to_numpy()).all()), None)


def _require_one_format(texts: pd.Series, formats: list[str], day_first: bool, place: Callable[[int], str]) -> None:
    """InputError for the first text that is a date, but in none of these formats."""
    read = [~np.isnan(Clock(format).numbers(texts)) for format in formats]
    unread = np.flatnonzero(~np.any(read, axis=0))
    if len(unread):
        first, text = str(texts.iloc[0]), str(texts.iloc[unread[0]])
        if _guess(text, day_first) is not None:
            where = f"{place(int(texts.index[unread[0]]))}: dates are in two formats"
            raise InputError(f"{where}, {first!r} and {text!r}. Write all of them in one.")


def _guess(text: str, day_first: bool) -> str | None:
    """The format of a date, or None. A year alone, and digits without separators, are numbers or names instead."""
    if not re.search(r"\d\D+\d", text):
        return None
    with warnings.catch_warnings(action="ignore"):  # that day comes first although month could
        format = pd.tseries.api.guess_datetime_format(text, dayfirst=day_first)
    if format is None or re.match(r"%Y\D%d\D%m", format):  # nobody writes year, day, month
        return None
    return str(format).replace("%z", "Z") if text.endswith("Z") else str(format)
