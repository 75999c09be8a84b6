"""Dates that are strings: read and written as Python does, one by one."""

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn.kinds import InputError
from stochattn.kinds.delimited.reading import read_table
from stochattn.kinds.tables.columns.cells import Cells
from stochattn.kinds.tables.columns.dates import fit_date_scale

FORMATS = ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%d/%m/%Y %H:%M"]


def random_times(n=300):
    """Times of the years 1000 to 9999, among them the ends of years and a leap day."""
    first, last = (np.datetime64(day, "s").astype(int) for day in ("1000-01-01T00:00:00", "9999-12-31T23:59:59"))
    inside = np.random.default_rng(0).integers(first, last, n)
    return np.append(inside, [first, last, np.datetime64("2024-02-29T12:30:45", "s").astype(int)]).astype("M8[s]")


@pytest.mark.parametrize("day_first", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_dates_are_read_and_written_as_python_does(format, day_first):
    strings = [f"{time.year:04d}".join(time.strftime(format.replace("%Y", "\1")).split("\1"))
               for time in random_times().tolist()]  # fmt: skip
    scale, _ = fit_date_scale(Cells.of(pd.Series(strings)), day_first, str)
    assert scale.format == format
    numbers = scale.numbers(pd.Series(strings))
    expected = [(datetime.strptime(text, format) - datetime(1970, 1, 1)).total_seconds() for text in strings]
    np.testing.assert_array_equal((scale.origin + numbers * scale.step) / 1e6, expected)
    assert scale.strings(numbers) == strings


@pytest.mark.parametrize("other", ["2021-02-30", "2021-13-01", "2021-1-05", "+021-01-05"])
def test_strings_that_are_not_written_back_as_they_stand_are_not_dates(other):
    strings = ["2020-01-05", "2020-01-06", other]
    assert fit_date_scale(Cells.of(pd.Series(strings)), False, str)[0] is None


def test_thousands_of_dates_with_the_month_first_are_read():
    """The first guess may have the day first, under which most of these are not dates."""
    times = pd.date_range("2020-01-13", periods=3000, freq="D")
    scale, may_be_swapped = fit_date_scale(Cells.of(pd.Series(times.strftime("%m/%d/%Y"))), True, str)
    assert (scale.format, may_be_swapped) == ("%m/%d/%Y", False)


@pytest.mark.parametrize("format", ["%Y-%m-%d", "%d.%m.%Y"])
def test_missing_dates_stay_missing(format):
    texts = pd.Series(pd.date_range("2021-01-30", periods=6)).dt.strftime(format)
    column = texts.mask([False, False, True, False, False, False])
    cells = Cells.of(column)
    scale, _ = fit_date_scale(cells.present, True, str)
    np.testing.assert_array_equal(scale.numbers(cells), [0, 1, np.nan, 3, 4, 5])
    assert scale.strings(np.arange(6.0)) == texts.tolist()


@pytest.mark.parametrize(
    ("written", "format"),
    [
        (lambda t: f"{t.month}/{t.day}/{t:%y}", "%m/%d/%y"),
        (lambda t: f"{t.day}.{t.month}.{t:%y}", "%d.%m.%y"),
        (lambda t: f"{t.month}/{t.day}/{t.year} {t.hour}:{t:%M}", "%m/%d/%Y %H:%M"),
        (lambda t: f"{t:%m/%d/%Y} {t.hour}:{t:%M}", "%m/%d/%Y %H:%M"),
        (lambda t: f"{t.month}/{t.day}/{t:%y %H:%M}", "%m/%d/%y %H:%M"),
        (lambda t: f"{t.month}/{t.day}/{t.year} {t.hour % 12 or 12}:{t:%M %p}", "%m/%d/%Y %I:%M %p"),
    ],
)
def test_dates_of_spreadsheets_may_go_without_leading_zeros(written, format):
    rng = np.random.default_rng(0)
    times = pd.Timestamp("2004-06-01") + pd.to_timedelta(rng.integers(0, 2 * 10**6, 90), "min")
    synth = sa.fit(pd.DataFrame({"a": rng.normal(size=90), "seen": list(map(written, times))}))
    assert dict(synth.kind.display.column_types(synth.codec))["seen"] == "date"
    for text in synth.sample(60, rng=0)["seen"]:
        time = datetime.strptime(text, format)
        assert written(time) == text
        assert 2003 < time.year < 2010


def write_column(path, name, cells):
    path.write_text("\n".join([f"{name},x", *(f"{cell},{row}.5" for row, cell in enumerate(cells))]) + "\n")
    return path


def test_integers_that_are_calendar_dates_are_read_as_dates(tmp_path):
    days = pd.date_range("2010-01-20", periods=60, freq="11D").strftime("%Y%m%d")
    synth = sa.fit(write_column(tmp_path / "t.csv", "visit", days), trial=False)
    column = synth.codec.columns[0]
    assert (str(column.type), column.date_scale.format) == ("date", "%Y%m%d")
    new = synth.sample(200, rng=0).visit
    assert pd.to_datetime(new, format="%Y%m%d", errors="coerce").notna().all()
    assert set(synth.condition(visit=20100217).sample(3, rng=0).visit) == {"20100217"}
    synth.write(tmp_path / "new.csv", 2, rng=0)
    written = synth.kind.read_new(synth.codec, tmp_path / "new.csv")
    assert written.visit.tolist() == synth.sample(2, rng=0).visit.tolist()


@pytest.mark.parametrize(
    "cells",
    [
        ["20100217", "20100230", "20100301", "20100302"],  # February has no 30th
        ["20100217", "20100301"] * 4,  # two days may be two numbers
        ["18100217", "18100301", "18100302", "18100303"],
        ["20100217.5", "20100301", "20100302", "20100303"],
    ],
)
def test_other_integers_stay_integers(tmp_path, cells):
    assert read_table(write_column(tmp_path / "t.csv", "code", cells)).frame.code.dtype.kind in "if"


def test_a_type_that_is_set_keeps_integers_that_may_be_dates(tmp_path):
    path = write_column(tmp_path / "t.csv", "code", ["20100217", "20100301", "20100302", "20100303"])
    assert read_table(path).frame.code.tolist() == ["20100217", "20100301", "20100302", "20100303"]
    assert read_table(path, types={"code": "integer"}).frame.code.tolist() == [20100217, 20100301, 20100302, 20100303]


@pytest.mark.parametrize(("sep", "zone"), [(" ", ""), ("T", ""), (" ", "+02:00")])
def test_times_as_python_writes_them_have_a_fraction_only_where_it_is_not_zero(tmp_path, sep, zone):
    rng = np.random.default_rng(0)
    start = datetime(2021, 1, 1, 13, 58, 58)
    times = [start + timedelta(seconds=int(s), microseconds=int(u)) for s, u in rng.integers(0, 900_000, (50, 2))]
    times[::2] = [time.replace(microsecond=0) for time in times[::2]]
    cells = [time.isoformat(sep) + zone for time in times]
    synth = sa.fit(write_column(tmp_path / "t.csv", "time", cells), trial=False)
    column = synth.codec.columns[0]
    assert str(column.type) == "date"
    assert column.date_scale.strings(column.date_scale.numbers(synth.codec.stored.time)) == cells
    for text in synth.sample(50, rng=0).time:
        assert datetime.fromisoformat(text).isoformat(sep) == text


def test_times_with_fractions_of_two_lengths_are_refused(tmp_path):
    cells = ["2021-01-01 13:58:58.081", "2021-01-01 13:59:00.081000", "2021-01-01 14:00:00", "2021-01-02 14:00:00"]
    with pytest.raises(InputError, match="dates are in two formats"):
        sa.fit(write_column(tmp_path / "t.csv", "time", cells))


@pytest.mark.parametrize("text", ["05.07.2023", "5/7/23", "05-07-2023"])
def test_a_condition_that_may_have_the_day_or_the_month_first_is_refused(text):
    visits = pd.date_range("2023-01-01", periods=40, freq="5D")
    synth = sa.fit(pd.DataFrame({"visit": visits.strftime("%Y-%m-%d"), "x": range(40)}), "table")
    with pytest.raises(ValueError, match="Pass a date such as"):
        synth.condition(visit=text)
    assert set(synth.condition(visit="2023-05-01").sample(2, rng=0).visit) == {"2023-05-01"}
    with_days_first = sa.fit(pd.DataFrame({"visit": visits.strftime("%d.%m.%Y"), "x": range(40)}), "table")
    assert set(with_days_first.condition(visit="05.07.2023").sample(2, rng=0).visit) == {"05.07.2023"}
