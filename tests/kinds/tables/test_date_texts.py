"""Dates that are read and written without pandas, against pandas."""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn.kinds.tables.columns.cells import Cells
from stochattn.kinds.tables.columns.dates import clock_of, read_dates, written_dates

DAYS = ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%Y%m%d", "%d-%m-%Y UTC"]
TIMES = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%d/%m/%Y %H:%M"]
UNITS = {**dict.fromkeys(DAYS, "D"), "%d/%m/%Y %H:%M": "m"}


def made_times(n=300):
    """Times of the years 1000 to 9999, among them the ends of years and a leap day."""
    first, last = (np.datetime64(day, "s").astype(int) for day in ("1000-01-01T00:00:00", "9999-12-31T23:59:59"))
    some = np.random.default_rng(0).integers(first, last, n)
    return np.append(some, [first, last, np.datetime64("2024-02-29T12:30:45", "s").astype(int)]).astype("M8[s]")


@pytest.mark.parametrize("format", [*DAYS, *TIMES])
def test_dates_are_read_and_written_as_pandas_does(format):
    times = made_times()
    texts = pd.Series(times).dt.strftime(format).tolist()
    assert written_dates(times.astype("M8[us]"), format) == texts
    expected = pd.to_datetime(pd.Series(texts, dtype="object"), format=format).to_numpy(dtype="M8[us]")
    found = read_dates(texts, format)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found, times.astype(f"M8[{UNITS.get(format, 's')}]").astype("M8[us]"))


@pytest.mark.parametrize(
    "text",
    [
        "2021-02-30",
        "2021-13-01",
        "2021-1-05",
        "2021/01/05",
        "٢٠٢١-01-05",
        "0999-01-01",
        "+021-01-05",
        "\x00021-01-05",  # which NumPy reads as no date at all
        "2021-01-05 ",
        5.0,
    ],
)
def test_other_texts_are_left_to_pandas(text):
    assert read_dates(["2020-01-05", text], "%Y-%m-%d") is None
    assert read_dates(["2020-01-05", "2020-01-06"], "%Y-%m-%d") is not None


@pytest.mark.parametrize("format", ["%y-%m-%d", "%Y-%m-%d %H", "%Y-%m", "%d %b %Y", "%Y-%m-%d %H:%M:%S.%f", "%Y–%m–%d"])
def test_formats_of_other_parts_are_left_to_pandas(format):
    times = made_times(3)
    assert written_dates(times, format) is None
    assert read_dates(pd.Series(times).dt.strftime(format).tolist(), format) is None


def test_times_that_libraries_write_differently_are_left_to_pandas():
    for time in ("0999-12-31", "NaT"):
        assert written_dates(np.array(["2020-01-01", time], dtype="M8[us]"), "%Y-%m-%d") is None


@pytest.mark.parametrize("day_first", [False, True])
@pytest.mark.parametrize("format", [*DAYS[:3], *TIMES])
def test_the_clock_of_a_column_is_the_one_that_pandas_finds(format, day_first, monkeypatch):
    texts = pd.Series(made_times(40)).dt.strftime(format)
    found = clock_of(Cells.of(texts), day_first, str)
    monkeypatch.setattr("stochattn.kinds.tables.columns.dates.read_dates", lambda *_: None)
    monkeypatch.setattr("stochattn.kinds.tables.columns.dates.written_dates", lambda *_: None)
    assert found == clock_of(Cells.of(texts), day_first, str)
    assert found[0].format == format


@pytest.mark.parametrize("format", ["%Y-%m-%d", "%d.%m.%Y"])
def test_missing_dates_stay_missing(format):
    texts = pd.Series(pd.date_range("2021-01-30", periods=6)).dt.strftime(format)
    column = texts.mask([False, False, True, False, False, False])
    cells = Cells.of(column)
    clock, _ = clock_of(cells.present, True, str)
    np.testing.assert_array_equal(clock.numbers(cells), [0, 1, np.nan, 3, 4, 5])
    assert clock.texts(np.arange(6.0)) == texts.tolist()


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
