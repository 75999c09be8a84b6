"""The scale of a column of dates and times: whole steps of time, and back to cells as they are written."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime

import numpy as np

from ...._backend.arrays import Array
from ... import lazy_pandas as pd
from ...options import InputError
from .cells import Cells

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SHORT_FORMATS = {
    r"\d\d?-[A-Z][a-z]{2}-\d\d": "%d-%b-%y",
    r"[A-Z][a-z]{2} \d{4}": "%b %Y",
    r"[A-Z][a-z]{2}-\d\d": "%b-%y",
    r"[A-Z][a-z]{3,} \d{4}": "%B %Y",
    r"\d\d/\d{4}": "%m/%Y",
    r"\d\d\.\d{4}": "%m.%Y",
    r"\d{4}M\d\d": "%YM%m",
    r"(19|20)\d{6}": "%Y%m%d",
}
COMPACT = "%Y%m%d"
"""The format of dates that look like integers, which a condition may state as such."""
MARK = "\x01"
"""A character that no date contains."""
FIRST, LAST = -62_135_596_800, 253_402_300_799
"""Seconds since 1970 of the first and the last second of the years 1 to 9999, which can be written."""


@dataclass(frozen=True)
class DateScale:
    """Dates and times as numbers: steps of `step` units (s, ms, us, ns) from `origin`, in units since 1970.

    format:   of dates that are strings, or None for datetimes
    unpadded: letters of the parts of the format without leading zeros, such as dm for 5/3/20 08:00
    local:    whether steps are those of local time in the zone, where a day may have 23 hours
    has_date_objects: whether cells are datetime.date objects
    shifts:   for strings that end with an offset from UTC (+02:00), the times from which each offset holds and the
              offsets, in units; a new time has the offset of the last stored time before it
    colon:    whether such offsets are written with a colon
    digits:   of fractions of a second, in strings
    omits_zero_fraction: whether a time without a fraction of a second is written without one, as Python writes it
    """

    format: str | None = None
    unpadded: str = ""
    zone: str | None = None
    origin: int = 0
    step: int = 1
    unit: str = "us"
    local: bool = False
    has_date_objects: bool = False
    shifts: tuple[tuple[int, int], ...] = ()
    colon: bool = True
    digits: int = 6
    omits_zero_fraction: bool = False

    @property
    def counts_days(self) -> bool:
        """Whether every date is the beginning of a day, without a time."""
        day = 86_400 * PER_SECOND[self.unit]
        has_local_days = (self.zone is None or self.local) and not self.shifts
        return has_local_days and self.step % day == 0 and self.origin % day == 0

    def fit(self, cells: Cells) -> DateScale:
        """The same scale with the first date as origin, in the longest steps that reach all dates."""
        return self._fit(self._times(cells.present))

    def _fit(self, dates: Array) -> DateScale:
        times = dates.astype("int64")
        origin, second = int(times.min()), PER_SECOND[self.unit]
        steps = [86_400 * second, 3_600 * second, 60 * second, second, 10**6, 10**3, 1]
        return replace(self, origin=origin, step=next(step for step in steps if (times % step == origin % step).all()))

    def numbers(self, cells: Cells | pd.Series) -> Array:
        """A column (n,) as steps since the origin; NaN where it is missing, or not a date."""
        return self._steps(self._times(Cells.of(cells)))

    def _steps(self, times: Array) -> Array:
        units = times.astype("int64")
        # By halves: nanoseconds of more than 292 years do not fit into 64 bits.
        passed = 2.0 * (units // 2 - self.origin // 2) + (units % 2 - self.origin % 2)
        return np.where(np.isnat(times), np.nan, passed / self.step)

    def number(self, value: object) -> float:
        """A date, or a string that means one, as steps since the origin; NaN if it is not a date.

        A time without a zone is taken in the zone of the column.
        """
        if isinstance(value, int | np.integer) and self.format == COMPACT:
            value = str(value)
        if isinstance(value, str) and self.format:
            number = float(self.numbers(pd.Series([value]))[0])
            if not math.isnan(number):
                return number
        if isinstance(value, str) and re.match(r"\d{1,2}([./-])\d{1,2}\1\d", value.strip()):
            return math.nan  # the day or the month may be first, and the column does not say which
        try:
            time = pd.Timestamp(value) if isinstance(value, str | date | np.datetime64) else pd.NaT
        except ValueError:
            time = pd.NaT
        if pd.isna(time):
            return math.nan
        if self.shifts:
            local = time if time.tz is not None else time - pd.Timedelta(int(self._offset(time)), unit=self.unit)
            time = local.tz_localize("UTC") if local.tz is None else local.tz_convert("UTC")
        if self.zone is not None:
            time = time.tz_localize(self.zone) if time.tz is None else time
            time = time.tz_convert(self.zone if self.local else "UTC")
        plain = time.tz_localize(None).to_datetime64().astype(f"M8[{self.unit}]")
        return float((int(plain.astype("int64")) - self.origin) / self.step)

    def _round_times(self, numbers: Array) -> Array:
        """Steps (n,) as the nearest times that can be written, M8 (n,)."""
        first, last = (end * PER_SECOND[self.unit] for end in (FIRST, LAST))
        if self.unit == "ns":
            first, last = pd.Timestamp.min.value + 10**9, pd.Timestamp.max.value - 10**9
        low, high = min(-((self.origin - first) // self.step), 0), (last - self.origin) // self.step
        steps = np.minimum(np.maximum(np.round(numbers), float(low)), float(high)).astype(np.int64)
        return np.asarray((self.origin + steps * self.step).view(f"M8[{self.unit}]"))

    def series(self, numbers: Array) -> pd.Series:
        """Steps (n,) as a column."""
        if self.format is not None:
            return pd.Series(self.strings(numbers), dtype="str")
        times = pd.Series(self._round_times(numbers))
        if self.has_date_objects:
            return times.dt.date
        if self.zone is None:
            return times
        if not self.local:
            return times.dt.tz_localize("UTC").dt.tz_convert(self.zone)
        # An hour that clocks skip becomes the next hour that exists, and a repeated hour the first of the two.
        return times.dt.tz_localize(self.zone, ambiguous=np.ones(len(times), dtype=bool), nonexistent="shift_forward")

    def strings(self, numbers: Array) -> list[str]:
        """Steps (n,) as strings, for a scale with a format."""
        times = self._round_times(numbers)
        offsets, format = self._offsets(times.astype("int64")), str(self.format).removesuffix("%z")
        if self.unpadded:  # each of its parts is marked, and the mark goes with a zero behind it
            format = re.sub(f"%[{self.unpadded}]", rf"{MARK}\g<0>", format)
        strings = pd.DatetimeIndex(times + offsets.astype(f"m8[{self.unit}]")).strftime(format)
        strings = strings.str.replace(f"{MARK}0?", "", regex=True) if self.unpadded else strings
        if self.digits < 6:
            strings = strings.str.replace(rf"(?<=\.\d{{{self.digits}}})\d+", "", regex=True)
        if self.omits_zero_fraction:
            strings = strings.str.replace(r"\.0+(?!\d)", "", regex=True)
        if self.shifts:
            minutes = (offsets // (60 * PER_SECOND[self.unit])).tolist()
            middle = ":" if self.colon else ""
            strings += [f"{'-' if m < 0 else '+'}{abs(m) // 60:02d}{middle}{abs(m) % 60:02d}" for m in minutes]
        return list(strings.tolist())

    def _offsets(self, times: Array) -> Array:
        """The offset from UTC at each time (n,), both in units."""
        if not self.shifts:
            return np.zeros(len(times), dtype=np.int64)
        starts, offsets = np.array(self.shifts, dtype=np.int64).T
        return np.asarray(offsets[np.maximum(np.searchsorted(starts, times, side="right") - 1, 0)])

    def _offset(self, time: pd.Timestamp) -> int:
        """The offset from UTC at a local time of the column."""
        local = np.array([time.to_datetime64().astype(f"M8[{self.unit}]").astype("int64")])
        return int(self._offsets(local - self._offsets(local))[0])

    def _times(self, cells: Cells) -> Array:
        """Cells (n,) as times, M8 (n,); NaT where they are missing, or not a date."""
        series = cells.series
        if self.has_date_objects:
            days = [None if is_missing else cell for cell, is_missing in zip(series, series.isna(), strict=True)]
            return np.array(days, dtype="M8[D]").astype(f"M8[{self.unit}]")
        if self.format is not None:
            return self._read_strings(cells)
        if self.zone is not None:
            series = (series if self.local else series.dt.tz_convert("UTC")).dt.tz_localize(None)
        return np.asarray(series.to_numpy(dtype=f"M8[{self.unit}]"))

    def _read_strings(self, cells: Cells) -> Array:
        present, format = cells.present, "ISO8601" if self.omits_zero_fraction else str(self.format)
        if format not in present.dates:
            in_utc = str(self.format).endswith("%z")
            dates = pd.to_datetime(present.objects, format=format, errors="coerce", utc=in_utc)
            present.dates[format] = np.asarray(dates.tz_localize(None).to_numpy(dtype=f"M8[{self.unit}]"))
        times = np.full(len(cells.array), np.datetime64("NaT"), dtype=f"M8[{self.unit}]")
        times[~cells.missing] = present.dates[format]
        return times


def fit_date_scale(cells: Cells, day_first: bool, place: Callable[[int], str]) -> tuple[DateScale | None, bool]:
    """The scale of cells (n,), none of them missing, that are dates, or None; whether days and months may be swapped.

    InputError, with the place of a row, where one format reads some dates and another the rest.
    """
    dtype = cells.dtype
    if dtype.kind == "M":
        return _fit_times(cells), False
    if dtype.kind != "O" or dtype.name == "category":
        return None, False
    if dtype.name != "str" and pd.api.types.infer_dtype(cells.array, skipna=True) == "date":
        return DateScale(unit="s", has_date_objects=True).fit(cells), False
    if (first := _guess(str(cells.objects[0]), day_first)) is None:
        return None, False
    formats = list(dict.fromkeys((first, _guess(str(cells.objects[0]), not day_first) or first)))
    scales = [scale for format in formats if (scale := _fit_strings(cells, format)) is not None]
    if not scales and (scale := _fit_python_times(cells, first)) is not None:
        scales = [scale]
    if not scales:
        _require_one_format(cells.series, formats, day_first, place)
        return None, False
    return scales[0], len(scales) == 2


def _fit_times(cells: Cells) -> DateScale:
    """The scale of a column of datetimes, in local time of the zone where that allows longer steps."""
    series = cells.series
    zone = getattr(series.dtype, "tz", None)
    scale = DateScale(zone=None if zone is None else str(zone), unit=series.dt.unit).fit(cells)
    if zone is None:
        return scale
    local, present = replace(scale, local=True).fit(cells), series.dropna()
    same = local.step > scale.step and (local.series(local.numbers(present)).to_numpy() == present.to_numpy()).all()
    return local if same else scale


def _fit_strings(cells: Cells, format: str) -> DateScale | None:
    fraction = re.search(r"\.(\d+)", str(cells.objects[0])) if "%f" in format else None
    return _complete(DateScale(format, digits=6 if fraction is None else min(6, len(fraction[1]))), cells)


def _fit_python_times(cells: Cells, format: str) -> DateScale | None:
    """A scale for times as Python writes them, of which only some have fractions of a second; None for others."""
    if "%S" not in format or not format.startswith("%Y-%m-%d"):
        return None
    format = format if "%f" in format else format.replace("%S", "%S.%f")
    return _complete(DateScale(format, omits_zero_fraction=True), cells)


def _complete(scale: DateScale, cells: Cells) -> DateScale | None:
    """The scale with the offsets and zeros that the strings have; None unless it writes all of them as they are."""
    format, times, written = str(scale.format), scale._times(cells), cells.objects
    if np.isnat(times).any():
        return None
    scale = _with_shifts(scale, cells.series, times) if format.endswith("%z") else scale
    scales = (replace(scale, unpadded=unpadded)._fit(times) for unpadded in ("", "dmHI", "HI", "dm"))
    return next((scale for scale in scales if scale.strings(scale._steps(times)) == written), None)


def _with_shifts(scale: DateScale, strings: pd.Series, times: Array) -> DateScale:
    """The scale with the offsets at the end of strings (n,) that stand for these times (n,)."""
    parts = strings.astype("str").str.extract(r"([+-])(\d\d):?(\d\d)$")
    if parts.isna().to_numpy().any():
        return scale
    sign, hours, minutes = (parts[j].to_numpy(dtype=object) for j in range(3))
    seconds = np.where(sign == "-", -60, 60) * (60 * hours.astype(np.int64) + minutes.astype(np.int64))
    order = np.argsort(times, kind="stable")
    times, offsets = times[order].astype(np.int64), seconds[order] * PER_SECOND[scale.unit]
    changes = np.flatnonzero(np.append(True, np.diff(offsets) != 0))
    shifts = tuple(zip(times[changes].tolist(), offsets[changes].tolist(), strict=True))
    return replace(scale, shifts=shifts, colon=str(strings.iloc[0])[-3] == ":")


def _require_one_format(strings: pd.Series, formats: list[str], day_first: bool, place: Callable[[int], str]) -> None:
    """InputError for the first string that is a date, but in none of these formats."""
    read = [~np.isnan(DateScale(format).numbers(strings)) for format in formats]
    unread = np.flatnonzero(~np.any(read, axis=0))
    if len(unread):
        first, text = str(strings.iloc[0]), str(strings.iloc[unread[0]])
        if _guess(text, day_first) is not None:
            where = f"{place(int(strings.index[unread[0]]))}: dates are in two formats"
            raise InputError(f"{where}, {first!r} and {text!r}. Write all of them in one.")


def _short_format(text: str, day_first: bool) -> str | None:
    """The format of a month, or of a date with a year of two digits or a time with AM, which pandas does not guess."""
    formats = [format for pattern, format in SHORT_FORMATS.items() if re.fullmatch(pattern, text)]
    if short := re.fullmatch(r"\d\d?([./-])\d\d?\1(\d\d|\d{4})( \d\d?:\d\d)?((?<=:\d\d):\d\d)?( [AP]M)?", text):
        year = "%y" if len(short[2]) == 2 else "%Y"
        orders = [("%d", "%m", year), ("%m", "%d", year)][: 1 if short[1] == "." else 2]
        time = f" {'%I' if short[5] else '%H'}:%M" if short[3] else ""
        ending = time + (":%S" if short[4] else "") + (" %p" if short[5] else "")
        formats = [short[1].join(order) + ending for order in (orders if day_first else orders[::-1])]
    for format in formats:
        with suppress(ValueError):  # 19.18.20 is not a date
            datetime.strptime(text, format)
            return format
    return None


def _guess(text: str, day_first: bool) -> str | None:
    """The format of a date, or None. A year alone, and digits without separators, are numbers or names instead."""
    with suppress(ValueError):  # most dates are like this, and pandas takes long to guess
        if date.fromisoformat(text).isoformat() == text:
            return "%Y-%m-%d"
    if not re.search(r"\d\D+\d", text):
        return _short_format(text, day_first)
    zone = re.search(r" ?[A-Z]{3,5}$", text)  # such as UTC, the same in all strings
    text, ending = (text[: zone.start()], zone[0]) if zone else (text, "")
    with warnings.catch_warnings(action="ignore"):  # that day comes first although month could
        format = pd.tseries.api.guess_datetime_format(text, dayfirst=day_first)
        if format is None or re.match(r"%Y\D%d\D%m", format):  # nobody writes year, day, month
            format = pd.tseries.api.guess_datetime_format(text, dayfirst=False) if day_first else None
    if format is None or re.match(r"%Y\D%d\D%m", format):
        return _short_format(text, day_first) if not ending else None
    return f"{str(format).replace('%z', 'Z') if text.endswith('Z') else format}{ending}"
