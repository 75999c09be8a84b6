"""The scale of a column of dates and times: whole steps of time, and back to cells as they are written.

Dates in texts of one length, digits and separators, read and written without pandas in a fraction of the time.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array
from ... import lazy_pandas as pd
from ...options import InputError
from .cells import Cells

ISO = b"0000-00-00T00:00:00"
LENGTHS = {"D": 10, "m": 16, "s": 19}
"""How many letters of an ISO date say so much."""
PARTS = {"%Y": (0, 4), "%m": (5, 7), "%d": (8, 10), "%H": (11, 13), "%M": (14, 16), "%S": (17, 19)}
"""Where the digits of each part begin and end in an ISO date."""
UNITS = {3: "D", 5: "m", 6: "s"}
"""What a format with so many parts says."""
FIRST_YEAR = np.datetime64("1000-01-01")
"""Libraries differ on how to write an earlier year."""


class Layout(NamedTuple):
    """Where the digits of a format stand.

    template: a text of this format with zeros for digits, as bytes
    own, iso: (m,) places of the digits in this text, and in an ISO date
    """

    template: Array
    own: Array
    iso: Array
    unit: str


@lru_cache
def layout_of(format: str) -> Layout | None:
    """The layout of a format with a year of four digits, month and day, and maybe hours and minutes and seconds."""
    words = re.findall(r"%.|[^%]", format)
    parts = [word for word in words if word.startswith("%")]
    if sorted(parts) != sorted(list(PARTS)[: len(parts)]) or len(parts) not in UNITS or not format.isascii():
        return None
    text = ""
    positions: list[int] = []
    iso: list[int] = []
    for word in words:
        places = range(*PARTS[word]) if word in PARTS else range(0)
        positions += range(len(text), len(text) + len(places))
        iso += places
        text += "0" * len(places) or word
    return Layout(
        np.frombuffer(text.encode("ascii"), dtype=np.uint8), np.array(positions), np.array(iso), UNITS[len(parts)]
    )


def read_dates(texts: Sequence[str], format: str) -> Array | None:
    """Texts (n,) of this format as times, M8[us] (n,); None where one of them is not an exact date of a known layout.

    >>> read_dates(["24.12.2020", "01.01.2021"], "%d.%m.%Y")
    array(['2020-12-24T00:00:00.000000', '2021-01-01T00:00:00.000000'],
          dtype='datetime64[us]')
    """
    layout = layout_of(format)
    try:
        text = "".join(texts)
    except TypeError:  # they are not texts
        return None
    if layout is None or set(map(len, texts)) != {len(layout.template)} or not text.isascii():
        return None
    letters = np.frombuffer(text.encode("ascii"), dtype=np.uint8).reshape(len(texts), -1)
    pattern, zeros = letters.copy(), ord("0")
    digits = pattern[:, layout.own]
    pattern[:, layout.own] = zeros
    if (digits - zeros > 9).any() or (pattern != layout.template).any():  # bytes below zero wrap round to large ones
        return None
    iso = _filled(np.frombuffer(ISO, dtype=np.uint8)[: LENGTHS[layout.unit]], layout.iso, digits)
    try:
        times = iso.view(f"S{iso.shape[1]}").ravel().astype("M8[us]")
    except ValueError:  # the 31st of June
        return None
    return None if (times < FIRST_YEAR).any() else np.asarray(times)


def written_dates(times: Array, format: str) -> list[str] | None:
    """Times (n,), M8, as texts of this format; None where it has no known layout.

    >>> written_dates(np.array(["2020-12-24T18:30"], dtype="M8[us]"), "%m/%d/%Y %H:%M")
    ['12/24/2020 18:30']
    """
    layout = layout_of(format)
    if layout is None or (times < FIRST_YEAR).any() or np.isnat(times).any():
        return None
    n, length = len(times), len(layout.template)
    iso = times.astype(f"M8[{layout.unit}]").astype(f"S{LENGTHS[layout.unit]}")
    letters = _filled(layout.template, layout.own, iso.view(np.uint8).reshape(n, -1)[:, layout.iso])
    text = letters.tobytes().decode("ascii")
    return [text[start : start + length] for start in range(0, n * length, length)]


def _filled(template: Array, places: Array, letters: Array) -> Array:
    """The template (m,) once for each row of letters (n, k), which replace those at the places (k,): (n, m)."""
    filled = np.repeat(template[None], len(letters), axis=0)
    filled[:, places] = letters
    return filled


ISO_DAY = "%Y-%m-%d"
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SHORT_FORMATS = {
    r"\d\d?-[A-Z][a-z]{2}-\d\d": "%d-%b-%y",
    r"[A-Z][a-z]{2} \d{4}": "%b %Y",
    r"[A-Z][a-z]{2}-\d\d": "%b-%y",
    r"[A-Z][a-z]{3,} \d{4}": "%B %Y",
    r"\d\d/\d{4}": "%m/%Y",
    r"\d\d\.\d{4}": "%m.%Y",
    r"\d{4}M\d\d": "%YM%m",
}
MARK = "\x01"
"""A character that is in no date."""
FIRST, LAST = -62_135_596_800, 253_402_300_799
"""Seconds since 1970 of the years 1 and 9999, between which dates can be written."""


@dataclass(frozen=True)
class Clock:
    """How a column measures time: in steps of so many units (s, ms, us, ns) since the origin, in units since 1970.

    format: of dates that are text, or None for datetimes
    bare:   letters of the parts of the format that go without leading zeros, such as dm for 5/3/20 08:00
    local:  whether steps are those of the zone's own clocks, on which a day may have 23 hours
    days:   whether cells are datetime.date objects
    shifts: for texts that end with an offset from UTC (+02:00), the times in units since 1970 from which offsets hold,
            with the offsets in units; a new time has the offset of the last stored one before it
    colon:  whether such offsets are written with one
    digits: of fractions of a second, in texts
    """

    format: str | None = None
    bare: str = ""
    zone: str | None = None
    origin: int = 0
    step: int = 1
    unit: str = "us"
    local: bool = False
    days: bool = False
    shifts: tuple[tuple[int, int], ...] = ()
    colon: bool = True
    digits: int = 6

    @property
    def counts_days(self) -> bool:
        """Whether every date is the beginning of a day, without a time."""
        day = 86_400 * PER_SECOND[self.unit]
        is_of_own_days = (self.zone is None or self.local) and not self.shifts
        return is_of_own_days and self.step % day == 0 and self.origin % day == 0

    def fitted(self, cells: Cells) -> Clock:
        """The same clock, counting from the first date in the longest steps that reach all of them."""
        return self._fitted(self._times(cells.present))

    def _fitted(self, dates: Array) -> Clock:
        times = dates.astype("int64")
        origin, second = int(times.min()), PER_SECOND[self.unit]
        steps = [86_400 * second, 3_600 * second, 60 * second, second, 10**6, 10**3, 1]
        return replace(self, origin=origin, step=next(step for step in steps if (times % step == origin % step).all()))

    def numbers(self, cells: Cells | pd.Series) -> Array:
        """A column (n,) as steps since the origin; NaN where it is missing, or not a date."""
        return self._steps(self._times(Cells.of(cells)))

    def _steps(self, times: Array) -> Array:
        units = times.astype("int64")
        # By halves: nanoseconds of more than 292 years are no 64-bit integer.
        passed = 2.0 * (units // 2 - self.origin // 2) + (units % 2 - self.origin % 2)
        return np.where(np.isnat(times), np.nan, passed / self.step)

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
        if self.shifts:
            local = time if time.tz is not None else time - pd.Timedelta(int(self._offset(time)), unit=self.unit)
            time = local.tz_localize("UTC") if local.tz is None else local.tz_convert("UTC")
        if self.zone is not None:
            time = time.tz_localize(self.zone) if time.tz is None else time
            time = time.tz_convert(self.zone if self.local else "UTC")
        plain = time.tz_localize(None).to_datetime64().astype(f"M8[{self.unit}]")
        return float((int(plain.astype("int64")) - self.origin) / self.step)

    def _at(self, numbers: Array) -> Array:
        """Steps (n,) as times that can be written, M8 (n,)."""
        first, last = (end * PER_SECOND[self.unit] for end in (FIRST, LAST))
        if self.unit == "ns":
            first, last = pd.Timestamp.min.value + 10**9, pd.Timestamp.max.value - 10**9
        low, high = min(-((self.origin - first) // self.step), 0), (last - self.origin) // self.step
        steps = np.minimum(np.maximum(np.round(numbers), float(low)), float(high)).astype(np.int64)
        return np.asarray((self.origin + steps * self.step).view(f"M8[{self.unit}]"))

    def series(self, numbers: Array) -> pd.Series:
        """Steps (n,) as a column."""
        if self.format is not None:
            return pd.Series(self.texts(numbers), dtype="str")
        times = pd.Series(self._at(numbers))
        if self.days:
            return times.dt.date
        if self.zone is None:
            return times
        if not self.local:
            return times.dt.tz_localize("UTC").dt.tz_convert(self.zone)
        # An hour that clocks skip becomes the next there is, and one that they repeat the first of the two.
        return times.dt.tz_localize(self.zone, ambiguous=np.ones(len(times), dtype=bool), nonexistent="shift_forward")

    def texts(self, numbers: Array) -> list[str]:
        """Steps (n,) as texts, for a clock with a format."""
        times, written = self._at(numbers), None
        if not (self.bare or self.shifts):
            written = written_dates(times, str(self.format))
        return self._texts(pd.Series(times)).tolist() if written is None else written

    def _texts(self, times: pd.Series) -> pd.Series:
        """Times (n,), of UTC where texts have an offset, as texts."""
        offsets, format = self._offsets(times.to_numpy().astype("int64")), str(self.format).removesuffix("%z")
        if self.bare:  # each of its parts is marked, and the mark goes with a zero behind it
            format = re.sub(f"%[{self.bare}]", rf"{MARK}\g<0>", format)
        texts = (times + offsets.astype(f"m8[{self.unit}]") if self.shifts else times).dt.strftime(format)
        texts = texts.str.replace(f"{MARK}0?", "", regex=True) if self.bare else texts
        if self.digits < 6:
            texts = texts.str.replace(rf"(?<=\.\d{{{self.digits}}})\d+", "", regex=True)
        if not self.shifts:
            return texts
        minutes = (offsets // (60 * PER_SECOND[self.unit])).tolist()
        middle = ":" if self.colon else ""
        return texts + [f"{'-' if m < 0 else '+'}{abs(m) // 60:02d}{middle}{abs(m) % 60:02d}" for m in minutes]

    def _offsets(self, times: Array) -> Array:
        """The offset from UTC at each time (n,), both in units."""
        if not self.shifts:
            return np.zeros(len(times), dtype=np.int64)
        starts, offsets = np.array(self.shifts, dtype=np.int64).T
        return np.asarray(offsets[np.maximum(np.searchsorted(starts, times, side="right") - 1, 0)])

    def _offset(self, time: pd.Timestamp) -> int:
        """The offset from UTC at a time of the column's own clocks."""
        local = np.array([time.to_datetime64().astype(f"M8[{self.unit}]").astype("int64")])
        return int(self._offsets(local - self._offsets(local))[0])

    def _times(self, cells: Cells) -> Array:
        """Cells (n,) as times, M8 (n,); NaT where they are missing, or not a date."""
        if self.format is not None and (read := self._read(cells)) is not None:
            return read
        series = cells.series
        if self.days:
            days = [None if is_missing else cell for cell, is_missing in zip(series, series.isna(), strict=True)]
            return np.array(days, dtype="M8[D]").astype(f"M8[{self.unit}]")
        if self.format is not None:
            zoned = self.format.endswith("%z")
            series = pd.to_datetime(series.astype("object"), format=self.format, errors="coerce", utc=zoned)
            series = series.dt.tz_localize(None) if zoned else series
        elif self.zone is not None:
            series = (series if self.local else series.dt.tz_convert("UTC")).dt.tz_localize(None)
        return np.asarray(series.to_numpy(dtype=f"M8[{self.unit}]"))

    def _read(self, cells: Cells) -> Array | None:
        """Texts (n,) as times, M8 (n,), where NumPy can read all that are not missing; None where pandas must."""
        present, format = cells.present, str(self.format)
        if format not in present.dates:
            present.dates[format] = read_dates(present.objects, format)
        read = present.dates[format]
        if read is None or present is cells:
            return read
        times = np.full(len(cells.array), np.datetime64("NaT"), dtype=read.dtype)
        times[~cells.missing] = read
        return times


def clock_of(cells: Cells, day_first: bool, place: Callable[[int], str]) -> tuple[Clock | None, bool]:
    """The clock of cells (n,), none of them missing, that are dates, or None; whether days and months may be swapped.

    InputError, with the place of a row, where one format reads some dates and another the rest.
    """
    dtype = cells.dtype
    if dtype.kind == "M":
        return _clock_of_times(cells), False
    if dtype.kind != "O" or dtype.name == "category":
        return None, False
    if dtype.name != "str" and pd.api.types.infer_dtype(cells.array, skipna=True) == "date":
        return Clock(unit="s", days=True).fitted(cells), False
    if Clock(ISO_DAY)._read(cells) is not None:  # as most dates are, and pandas takes long to find out
        return _clock_of_texts(cells, ISO_DAY), False
    if (first := _guess(str(cells.objects[0]), day_first)) is None:
        return None, False
    formats = list(dict.fromkeys((first, _guess(str(cells.objects[0]), not day_first) or first)))
    clocks = [clock for format in formats if (clock := _clock_of_texts(cells, format)) is not None]
    if not clocks:
        _require_one_format(cells.series, formats, day_first, place)
        return None, False
    return clocks[0], len(clocks) == 2


def _clock_of_times(cells: Cells) -> Clock:
    """The clock of a column of datetimes: of the zone's own clocks, where these reach all of them in longer steps."""
    series = cells.series
    zone = getattr(series.dtype, "tz", None)
    clock = Clock(zone=None if zone is None else str(zone), unit=series.dt.unit).fitted(cells)
    if zone is None:
        return clock
    local, present = replace(clock, local=True).fitted(cells), series.dropna()
    same = local.step > clock.step and (local.series(local.numbers(present)).to_numpy() == present.to_numpy()).all()
    return local if same else clock


def _clock_of_texts(cells: Cells, format: str) -> Clock | None:
    """A clock that reads every one of the texts and writes it back as it stands."""
    times, written = Clock(format)._times(cells), cells.objects
    if cells.dates.get(format) is not None:
        return Clock(format)._fitted(times)
    if np.isnat(times).any():
        return None
    fraction = re.search(r"\.(\d+)", str(written[0])) if "%f" in format else None
    clock = replace(Clock(format), digits=6 if fraction is None else min(6, len(fraction[1])))
    clock = _with_shifts(clock, cells.series, times) if format.endswith("%z") else clock
    clocks = (replace(clock, bare=bare)._fitted(times) for bare in ("", "dmHI", "HI", "dm"))
    return next((clock for clock in clocks if clock.texts(clock._steps(times)) == written), None)


def _with_shifts(clock: Clock, texts: pd.Series, read: Array) -> Clock:
    """The clock with the offsets that texts (n,) end with, read as times (n,), each from the first one on."""
    parts = texts.astype("str").str.extract(r"([+-])(\d\d):?(\d\d)$")
    if parts.isna().to_numpy().any():
        return clock
    sign, hours, minutes = (parts[j].to_numpy(dtype=object) for j in range(3))
    seconds = np.where(sign == "-", -60, 60) * (60 * hours.astype(np.int64) + minutes.astype(np.int64))
    times = read.astype(np.int64)
    order = np.argsort(times, kind="stable")
    times, offsets = times[order], seconds[order] * PER_SECOND[clock.unit]
    changes = np.flatnonzero(np.append(True, np.diff(offsets) != 0))
    shifts = tuple(zip(times[changes].tolist(), offsets[changes].tolist(), strict=True))
    return replace(clock, shifts=shifts, colon=str(texts.iloc[0])[-3] == ":")


def _require_one_format(texts: pd.Series, formats: list[str], day_first: bool, place: Callable[[int], str]) -> None:
    """InputError for the first text that is a date, but in none of these formats."""
    read = [~np.isnan(Clock(format).numbers(texts)) for format in formats]
    unread = np.flatnonzero(~np.any(read, axis=0))
    if len(unread):
        first, text = str(texts.iloc[0]), str(texts.iloc[unread[0]])
        if _guess(text, day_first) is not None:
            where = f"{place(int(texts.index[unread[0]]))}: dates are in two formats"
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
    if not re.search(r"\d\D+\d", text):
        return _short_format(text, day_first)
    zone = re.search(r" ?[A-Z]{3,5}$", text)  # such as UTC, the same in all texts
    text, ending = (text[: zone.start()], zone[0]) if zone else (text, "")
    with warnings.catch_warnings(action="ignore"):  # that day comes first although month could
        format = pd.tseries.api.guess_datetime_format(text, dayfirst=day_first)
        if format is None or re.match(r"%Y\D%d\D%m", format):  # nobody writes year, day, month
            format = pd.tseries.api.guess_datetime_format(text, dayfirst=False) if day_first else None
    if format is None or re.match(r"%Y\D%d\D%m", format):
        return _short_format(text, day_first) if not ending else None
    return f"{str(format).replace('%z', 'Z') if text.endswith('Z') else format}{ending}"
