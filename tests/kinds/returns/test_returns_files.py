"""Files of returns: reading histories in many formats, writing and reading scenarios, one-line errors."""

import io
import math

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from made_returns import made_codec, made_returns, names
from stochattn.kinds import Batch, InputError, Settings
from stochattn.kinds.returns import reading
from stochattn.kinds.returns.description import ReturnsOptions
from stochattn.kinds.returns.kind import KIND

SETTINGS = Settings(0, "windows", "prices.csv", 10.0)
FORMATS = {format.name: format for format in KIND.formats}


def frame_of(returns, first="2022-01-03"):
    prices = 100 * np.exp(np.vstack([np.zeros(returns.shape[1]), np.cumsum(returns, axis=0)]))
    frame = pd.DataFrame(prices, columns=names(returns.shape[1]))
    frame.insert(0, "date", pd.bdate_range(first, periods=len(prices)).strftime("%Y-%m-%d"))
    return frame


def read_history(path, **options):
    return reading.read_history(path, ReturnsOptions(**options))


def convert_frame(frame):
    return reading.convert_frame(frame, ReturnsOptions())


def batch(items, first=0):
    return Batch(first, items, None, None, {}, None)


# --- Histories


def test_prices_become_log_returns(tmp_path):
    frame = pd.DataFrame({"date": ["2024-01-02", "2024-01-03", "2024-01-04"], "A": [100, 110, 99], "B": [2, 1, 4]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = read_history(tmp_path / "a.csv")
    np.testing.assert_allclose(found.log_returns, np.log([[1.1, 0.5], [0.9, 4.0]]))
    assert found.tickers == ("A", "B")
    assert found.dates == ("2024-01-03", "2024-01-04")
    np.testing.assert_array_equal(found.last_prices, [99, 4])
    assert found.notes == ("prices became log-returns.",)
    frame[:2].to_csv(tmp_path / "b.csv", index=False)
    np.testing.assert_allclose(
        read_history(tmp_path / "b.csv").log_returns, np.log([[1.1, 0.5]])
    )  # two days are enough


def made_file(path, dates, values):
    path.write_text("date,A\n" + "".join(f"{date},{value}\n" for date, value in zip(dates, values, strict=True)))
    return path


@pytest.mark.parametrize(
    ("dates", "found", "noted"),
    [
        (["11/01/2024", "12/01/2024", "01/02/2024"], ("2024-01-12", "2024-02-01"), False),  # in order: day first
        (["01/02/2024", "02/02/2024", "03/02/2024"], ("2024-02-02", "2024-03-02"), True),  # in order either way
        (["2024-01-02", "2024-01-02 12:00"], ("2024-01-02T12:00:00",), False),  # midnight is a time among others
    ],
)
def test_dates_are_read_as_their_order_says(tmp_path, dates, found, noted):
    history = read_history(made_file(tmp_path / "a.csv", dates, range(1, len(dates) + 1)))
    assert history.dates == found
    assert any("were read with the month first" in note for note in history.notes) is noted


def test_values_are_returns_if_more_than_one_in_twenty_is_negative(tmp_path):
    dates = [f"2024-01-{day:02d}" for day in range(1, 21)]
    with pytest.raises(InputError, match=r"a price of -0\.5 has no log-return"):
        read_history(made_file(tmp_path / "a.csv", dates, [-0.5, *[0.5] * 19]))
    found = read_history(made_file(tmp_path / "b.csv", dates, [-0.5, -0.4, *[0.5] * 18]))
    assert found.log_returns[:3, 0].tolist() == [-0.5, -0.4, 0.5]
    assert any("a typical value exceeds 0.2: if these are percent" in note for note in found.notes)
    small = read_history(made_file(tmp_path / "c.csv", dates, [-0.05, -0.04, *[0.1] * 18]))
    assert small.notes == ("values were read as log-returns.",)
    with pytest.raises(ValueError, match="values must be"):
        read_history(tmp_path / "c.csv", values="yen")


def test_a_missing_date_in_the_index_of_a_data_frame_is_named():
    frame = pd.DataFrame({"A": [1.0, 2.0]}, index=pd.DatetimeIndex(["2024-01-02", None]))
    with pytest.raises(InputError, match="row 2: the date is missing in column 'date'"):
        convert_frame(frame)


@pytest.mark.parametrize(
    "form", ["reversed", "semicolons", "tabs", "day first", "index", "digits", "parquet", "blank line"]
)
def test_one_history_in_many_files(tmp_path, form):
    history = made_returns(days=40, N=3)
    frame = frame_of(history)
    path = tmp_path / ("a.parquet" if form == "parquet" else "a.csv")
    times = pd.to_datetime(frame["date"])
    if form == "reversed":
        frame[::-1].to_csv(path, index=False)
    elif form == "semicolons":
        frame.to_csv(path, index=False, sep=";", decimal=",")
    elif form == "tabs":
        frame.to_csv(path, index=False, sep="\t")
    elif form in ("day first", "digits"):
        frame["date"] = times.dt.strftime("%d/%m/%Y" if form == "day first" else "%Y%m%d")
        frame.to_csv(path, index=False)
    elif form == "index":
        frame.set_index(times)[["T0", "T1", "T2"]].rename_axis(None).to_csv(path)
    elif form == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
        frame.set_index(times.rename("when")).drop(columns="date").to_parquet(path)
    else:
        path.write_text(frame.to_csv(index=False).replace("\n", "\n\n", 5) + "\n\n")
    found = read_history(path)
    np.testing.assert_allclose(found.log_returns, history, atol=1e-12)
    assert found.dates[0] == "2022-01-04"
    assert any("sorted" in note for note in found.notes) == (form == "reversed")


DAYS = ("2024-01-02", "2024-01-03", "2024-01-04")


@pytest.mark.parametrize(
    ("numbers", "expected", "note"),
    [
        (("1,226", "1,5", "2,25"), (1.226, 1.5, 2.25), "numbers such as 1,5 were read with a decimal comma"),
        (("0,226", "0,301", "0,412"), (0.226, 0.301, 0.412), "numbers such as 0,226 were read with a decimal comma"),
        (("1.226,50", "98,5", "1.300,25"), (1226.5, 98.5, 1300.25), "with a decimal comma"),
        (("1,226", "998.5", "2,251"), (1226, 998.5, 2251), "commas in numbers such as 1,226 were read as thousands"),
        (("1,226.50", "998", "2,251"), (1226.5, 998, 2251), "read as thousands separators"),
        (("1,226,000", "998", "2,251"), (1226000, 998, 2251), "read as thousands separators"),
        (("1226.5", "998", "2251"), (1226.5, 998, 2251), None),
    ],
    ids=str,
)
@pytest.mark.parametrize("separator", ["\t", ";"], ids=["tabs", "semicolons"])
def test_commas_mean_one_thing_in_a_file(tmp_path, separator, numbers, expected, note):
    lines = ["date", "A"], *zip(DAYS, numbers, strict=True)
    (tmp_path / "a.tsv").write_text("\n".join(separator.join(line) for line in lines))
    found = read_history(tmp_path / "a.tsv")
    np.testing.assert_allclose(found.log_returns[:, 0], np.diff(np.log(expected)), rtol=1e-12)
    assert any("comma" in text for text in found.notes) == (note is not None)
    assert note is None or any(note in text for text in found.notes)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (("1,226", "1,301", "998"), "line 2, column 'A': '1,226' may mean 1226 or 1.226, and no other number"),
        (("1,5", "12.5", "998"), r"writes '1,5' \(line 2, column 'A'\) with a decimal comma and '12.5' \(line 3"),
        (("0,5", "1,226.50", "998"), "write all numbers in one way"),
        (("12", "a,b", "998"), "line 3, column 'A': 'a,b' is not a number"),
    ],
    ids=str,
)
def test_commas_that_mean_two_things(tmp_path, numbers, message):
    lines = ["date", "A"], *zip(DAYS, numbers, strict=True)
    (tmp_path / "a.tsv").write_text("\n".join("\t".join(line) for line in lines))
    with pytest.raises(InputError, match=message) as error:
        read_history(tmp_path / "a.tsv")
    assert str(tmp_path / "a.tsv") in str(error.value)


def test_dates_with_points_beside_decimal_commas(tmp_path):
    (tmp_path / "a.csv").write_text("date;A\n02.01.2024;1,5\n03.01.2024;3,0\n04.01.2024;6,0\n")
    found = read_history(tmp_path / "a.csv")
    np.testing.assert_allclose(found.log_returns[:, 0], [math.log(2)] * 2)
    assert found.dates == ("2024-01-03", "2024-01-04")


def test_returns_are_read_unchanged(tmp_path):
    history = made_returns(days=40, N=3)
    frame = frame_of(history).iloc[1:].assign(**{f"T{i}": history[:, i] for i in range(3)})
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = read_history(tmp_path / "a.csv")
    np.testing.assert_allclose(found.log_returns, history, rtol=1e-12)
    assert found.last_prices is None
    assert any("as log-returns" in note for note in found.notes)


def test_tickers_with_gaps_and_days_without_values_are_dropped_with_a_note(tmp_path):
    frame = frame_of(made_returns(days=40, N=4))
    frame.loc[:5, "T1"] = np.nan
    frame.loc[38:, "T2"] = np.nan
    frame.loc[20, ["T0", "T1", "T2", "T3"]] = np.nan
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = read_history(tmp_path / "a.csv")
    assert found.tickers == ("T0", "T3")
    assert found.log_returns.shape == (39, 2)
    said = "2 of 4 tickers have missing values and were dropped: T1 (6 days), T2 (3 days); fill='previous' fills"
    assert any(said in note for note in found.notes)
    assert any("1 day without any value was dropped" in note for note in found.notes)
    frame.drop(columns="T2").to_csv(tmp_path / "a.csv", index=False)
    notes = read_history(tmp_path / "a.csv").notes
    assert any("1 of 3 tickers has missing values and was dropped: T1 (6 days)" in note for note in notes)


@pytest.mark.parametrize("index", ["none", "row numbers", "counted from 1"])
def test_rows_without_dates_are_days_in_their_order(tmp_path, index):
    """The same history as with dates; a first column that counts the rows is no ticker."""
    frame = frame_of(made_returns(days=40, N=3))
    there, frame = convert_frame(frame), frame.drop(columns="date")
    frame.index += index == "counted from 1"
    frame.to_csv(tmp_path / "a.csv", index=index != "none")
    for found in (
        read_history(tmp_path / "a.csv"),
        convert_frame(frame),
        convert_frame(frame.set_axis([9] * len(frame))),
    ):
        assert found.tickers == there.tickers
        assert found.dates is None
        np.testing.assert_allclose(found.log_returns, there.log_returns, rtol=1e-12)
        np.testing.assert_allclose(found.last_prices, there.last_prices, rtol=1e-12)
        assert "there are no dates: rows were read as consecutive days." in found.notes
    synth = sa.fit(frame, "returns", window=4)
    assert (synth.codec.ids[0], synth.codec.labels) == ("days 1 to 4", None)
    assert synth.sample(3, rng=0).shape == (3, 4, 3)
    synth.save(tmp_path / "a.synth")
    np.testing.assert_array_equal(sa.load(tmp_path / "a.synth").sample(3, rng=0), synth.sample(3, rng=0))
    assert sa.fit(frame).kind.name == "table"  # numbers alone do not tell a history from a table


def test_a_single_column_of_counting_numbers_is_a_ticker():
    """Beside other columns, it would count the rows."""
    found = convert_frame(pd.DataFrame({"A": np.arange(1.0, 41)}))
    assert found.tickers == ("A",)
    np.testing.assert_allclose(found.log_returns[:, 0], np.log(np.arange(2.0, 41) / np.arange(1.0, 40)))


def test_matrices_are_days_by_tickers():
    returns = made_returns(days=40, N=3)
    found = convert_frame(returns)
    np.testing.assert_array_equal(found.log_returns, returns)
    assert (found.tickers, found.dates) == (("ticker 1", "ticker 2", "ticker 3"), None)
    with pytest.raises(InputError, match=r"with one row per day; got an array of shape \(40,\)"):
        convert_frame(returns[:, 0])


def test_dates_of_an_index_may_be_texts_days_or_periods():
    frame = frame_of(made_returns(days=40, N=3))
    there, days = convert_frame(frame), pd.to_datetime(frame["date"])
    values = frame.drop(columns="date")
    for index in (frame["date"].tolist(), days.dt.date.tolist(), pd.PeriodIndex(days, freq="D")):
        found = convert_frame(values.set_axis(index))
        assert (found.dates, found.tickers) == (there.dates, there.tickers)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"A": ["x", "y"], "B": ["u", "v"]}), "the data frame has no numbers in its columns, A, B"),
        (pd.DataFrame(index=range(3)), "the data frame is empty"),
        (pd.DataFrame({"A": [1.0]}), "has 1 day, and a return needs two"),
        (pd.DataFrame({"day": pd.to_datetime([]), "A": np.empty(0)}), "has 0 day, and a return needs two"),
        (pd.DataFrame({"day": pd.to_datetime([None] * 3), "A": [1.0, 2, 3]}), "the date is missing in column 'day'"),
        (pd.DataFrame({"A": np.full(99, 5.0), "B": np.full(99, 7.0)}), "all stored days are equal"),
        (pd.DataFrame({"A": 1 + np.arange(20.0) % 3, "B": np.arange(1.0, 21)}), "19 returns make 0 windows of 60 days"),
    ],
    ids=["no numbers", "empty", "one day", "no day", "no dates", "constant prices", "fewer days than a window"],
)
def test_frames_that_are_no_history_are_one_line(frame, message):
    with pytest.raises(InputError, match=message) as error:
        sa.fit(frame, "returns", window=60)
    assert "\n" not in str(error.value)


def test_one_ticker_gives_scenarios_and_a_note():
    prices = 100 * np.exp(made_returns(days=200, N=1)[:, 0].cumsum())
    synth = sa.fit(pd.DataFrame({"A": prices}), "returns")
    assert synth.sample(5, rng=0).shape == (5, 24, 1)
    assert any("a single component" in note for note in synth.notes)


def test_lists_of_tickers_say_how_many_more_there_are(tmp_path):
    frame = frame_of(made_returns(days=40, N=9))
    pd.DataFrame({f"T{i}": ["up", "down"] for i in range(9)}).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InputError, match=r"no numbers in its columns, T0, T1, T2, T3, T4 and 4 more\. Returns need"):
        read_history(tmp_path / "a.csv")
    frame.loc[3, [f"T{j}" for j in range(8)]] = np.nan
    frame.to_csv(tmp_path / "a.csv", index=False)
    notes = read_history(tmp_path / "a.csv").notes
    assert any("dropped: T0 (1 day), T1 (1 day), T2 (1 day), T3 (1 day), T4 (1 day) and 3 more" in n for n in notes)


def test_empty_days_are_filled_with_the_previous_price(tmp_path):
    frame = frame_of(made_returns(days=40, N=4))
    frame.loc[:5, "T1"] = frame.loc[10, "T0"] = np.nan
    frame.loc[20:22, ["T0", "T2"]] = np.nan
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert read_history(tmp_path / "a.csv").tickers == ("T3",)
    found = read_history(tmp_path / "a.csv", fill="previous")
    assert found.tickers == ("T0", "T2", "T3")
    assert "empty days were filled with the previous price: T0 (4 days), T2 (3 days)." in found.notes
    assert any("dropped: T1 (6 days), because they begin later." in note for note in found.notes)
    np.testing.assert_array_equal(found.log_returns[[9, 19, 20, 21], 0], 0)
    np.testing.assert_allclose(found.log_returns[22, 1], np.log(frame.loc[23, "T2"] / frame.loc[19, "T2"]))
    codec = sa.fit(tmp_path / "a.csv", "returns", fill="previous").codec
    assert codec.tickers == found.tickers


def test_empty_returns_are_filled_with_zero(tmp_path):
    history = made_returns(days=40, N=3)
    frame = frame_of(history).iloc[1:].assign(**{f"T{i}": history[:, i] for i in range(3)})
    frame.iloc[7, 2] = np.nan
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = read_history(tmp_path / "a.csv", fill="previous")
    assert found.log_returns[7, 1] == 0
    np.testing.assert_allclose(found.log_returns[8], history[8], rtol=1e-12)
    assert "empty days were filled with a return of zero: T1 (1 day)." in found.notes
    with pytest.raises(ValueError, match="fill must be one of 'none', 'previous'; got 'next'"):
        read_history(tmp_path / "a.csv", fill="next")


def _spoil(frame, case):
    if case == "zero price":
        frame.loc[7, "T1"] = 0.0
    elif case == "negative price":
        frame.loc[7, "T1"] = -3.0
    elif case == "no dates":
        frame = frame.drop(columns="date").assign(sector="energy")
    elif case == "no numbers":
        frame = pd.DataFrame({"A": ["up", "down"] * 20, "B": ["x", "y"] * 20})
    elif case == "scenarios":
        frame = frame.drop(columns="date").assign(scenario=np.arange(len(frame)) // 3)
    elif case == "date twice":
        frame.loc[8, "date"] = frame.loc[7, "date"]
    elif case == "two formats":
        frame.loc[9, "date"] = "17/01/2022"
    elif case == "date missing":
        frame.loc[9, "date"] = None
    elif case == "text":
        frame["T1"] = frame["T1"].astype(object)
        frame.loc[4, "T1"] = "halted"
    elif case == "zero after a blank line":
        frame.loc[7, "T1"] = 0.0
        frame.loc[3] = np.nan
    elif case == "gaps everywhere":
        for i in range(3):
            frame.loc[5 + i, f"T{i}"] = np.nan
    elif case == "few days":
        frame = frame.iloc[:4]
    elif case == "one day":
        frame = frame.iloc[:1]
    elif case == "constant":
        frame[["T0", "T1", "T2"]] = 5.0
    elif case == "only dates":
        frame = frame[["date"]]
    return frame


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("zero price", r"line 9 \(2022-01-12\), column 'T1': a price of 0 has no log-return"),
        ("zero after a blank line", r"line 9 \(2022-01-12\), column 'T1'"),
        ("negative price", "column 'T1': a price of -3"),
        ("no dates", "has no column of dates, and 'sector' holds no numbers. Write dates as 2024-12-31, or leave"),
        (
            "no numbers",
            "has no numbers in its columns, A, B. Returns need a column of prices or",
        ),
        ("scenarios", "holds scenarios and not a history"),
        ("date twice", "line 9 and line 10: the date 2022-01-12 appears twice"),
        ("two formats", "line 11, column 'date': '17/01/2022' is not a date in the format of the others"),
        ("date missing", "line 11: the date is missing"),
        ("text", "line 6, column 'T1': 'halted' is not a number"),
        ("gaps everywhere", "every ticker has missing values"),
        ("few days", "3 returns make 1 windows of 3 days"),
        ("one day", "a return needs two"),
        ("constant", "all stored days are equal"),
        ("only dates", "no column beside its dates"),
    ],
)
def test_bad_histories_are_one_line(tmp_path, case, message):
    path = tmp_path / "prices.csv"
    _spoil(frame_of(made_returns(days=40, N=3)), case).to_csv(path, index=False)
    with pytest.raises(InputError, match=message) as error:
        KIND.read(path, ReturnsOptions(window=3))
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"date,A,A\n2024-01-02,1,2\n", "columns 2, 3 have the same name 'A'"),
        (b"date,A,\n2024-01-02,1,2\n", "column 3 has no name"),
        (b"date,A\n2024-01-02,1\n2024-01-03,1,2\n2024-01-04,1\n", "line 3: has 3 values where the first line has 2"),
        (b"date,A\n2024-01-02,1,5\n2024-01-03,1,2\n", "line 2: has 3 values where the first line has 2"),
        (b"\x89PNG\xff\xfe\x00", "is a binary file, not text"),
    ],
)
def test_files_that_are_not_tables(tmp_path, content, message):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_history(tmp_path / "a.csv")


def test_missing_files_and_files_that_are_not_parquet(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_history(tmp_path / "a.csv")
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"no")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_history(tmp_path / "a.parquet")


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("output", ["returns", "prices"])
def test_written_scenarios_read_back(tmp_path, format, window, output):
    if format == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    codec = made_codec(window=window, output=output, last_prices=np.arange(1.0, 7.0))
    items = codec.stored[10:20]
    written = []
    for sizes in ((10,), (4, 6)):
        stream = io.BytesIO()
        writer = KIND.writer(codec, stream, FORMATS[format], SETTINGS)
        first = 0
        for size in sizes:
            writer.write(batch(items[first : first + size], first))
            first += size
        writer.close()
        written.append(stream.getvalue())
    assert format == "parquet" or written[0] == written[1]
    path = tmp_path / f"new.{format}"
    path.write_bytes(written[1])
    assert KIND.measures.same(codec, KIND.read_new(codec, path), items).all()
    frame = pd.read_csv(path) if format == "csv" else pd.read_parquet(path)
    assert list(frame.columns) == ["scenario", *(["day"] if window > 1 else []), *codec.tickers]
    assert frame["scenario"].tolist() == np.repeat(np.arange(1, 11), window).tolist()
    if format == "parquet":
        from pyarrow.parquet import read_schema

        assert read_schema(path).pandas_metadata["index_columns"] == []  # rows have numbers in columns only
    if output == "prices":
        expected = np.arange(1.0, 7.0) * np.exp(items.sum(1))
        np.testing.assert_allclose(frame[list(codec.tickers)].to_numpy()[window - 1 :: window], expected, rtol=1e-9)


def test_prices_start_at_100_without_stored_prices():
    codec = made_codec(output="prices", window=1)
    assert any("start at 100" in note for note in codec.notes)
    stream = io.BytesIO()
    KIND.writer(codec, stream, FORMATS["csv"], SETTINGS).write(batch(codec.stored[:1]))
    first = float(stream.getvalue().decode().splitlines()[1].split(",")[1])
    assert first == pytest.approx(100 * math.exp(codec.history[0, 0]), rel=1e-9)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_file_must_agree_with_the_option(tmp_path, format):
    """Positive returns are not prices; a file of the other type is an error that names the option."""
    if format == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    last = np.array([0.5, 2.0, 30.0, 400.0, 100.0, 100.0])
    returns, prices = (made_codec(output=output, last_prices=last) for output in ("returns", "prices"))
    risen = np.abs(returns.stored[10:11]) + 1e-4
    for name, codec in (("returns", returns), ("prices", prices)):
        with open(tmp_path / f"{name}.{format}", "wb") as stream:
            writer = KIND.writer(codec, stream, FORMATS[format], SETTINGS)
            writer.write(batch(risen))
            writer.close()
    np.testing.assert_allclose(KIND.read_new(returns, tmp_path / f"returns.{format}"), risen, rtol=1e-9)
    np.testing.assert_allclose(KIND.read_new(prices, tmp_path / f"prices.{format}"), risen, rtol=1e-9)
    with pytest.raises(InputError, match=r"seems to hold prices, and is read as returns\..*output=.prices"):
        KIND.read_new(returns, tmp_path / f"prices.{format}")
    with pytest.raises(InputError, match=r"seems to hold returns, and is read as prices\..*output=.returns"):
        KIND.read_new(prices, tmp_path / f"returns.{format}")


def test_prices_below_zero_are_returns(tmp_path):
    (tmp_path / "a.csv").write_text("scenario,T0,T1\n1,0.1,-0.1\n")
    with pytest.raises(InputError, match=r"prices must be positive\..*output=.returns"):
        KIND.read_new(made_codec(N=2, output="prices"), tmp_path / "a.csv")


def test_longer_paths_are_split_into_windows(tmp_path):
    codec = made_codec(window=3)
    stream = io.BytesIO()
    KIND.writer(codec, stream, FORMATS["csv"], SETTINGS).write(batch(codec.history[None, :7]))
    (tmp_path / "a.csv").write_bytes(stream.getvalue())
    new = KIND.read_new(codec, tmp_path / "a.csv")
    np.testing.assert_allclose(new, codec.history[:6].reshape(2, 3, 6), atol=1e-10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scenario,T0\n1,0.1\n", "no column 'T1'"),
        ("scenario,day,T0,T1\n1,1,0.1,x\n1,2,0,0\n", "line 2, column 'T1': 'x' is not a number"),
        ("scenario,day,T0,T1\n1,1,0.1,0\n1,2,0,0\n2,1,0,0\n", "the days 1 to 2"),
        ("scenario,T0,T1\n1,0.1,-0.1\n", "have 1 days and the window 2"),
        ("scenario,T0,T1\n", "no rows"),
    ],
)
def test_scenarios_that_do_not_fit(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        KIND.read_new(made_codec(N=2, window=2), tmp_path / "a.csv")


def test_a_parquet_file_without_scenarios_is_refused(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    pd.DataFrame({"scenario": [], "T0": [], "T1": []}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="holds no scenario"):
        KIND.read_new(made_codec(N=2, window=2), tmp_path / "a.parquet")


# --- Recognising a history


@pytest.mark.parametrize(
    ("case", "recognised"),
    [
        ("prices", True),
        ("falling dates", True),
        ("parquet", True),
        ("one ticker", False),
        ("a text", False),
        ("dates in disorder", False),
        ("no dates", False),
        ("quarters", False),
        ("another extension", False),
    ],
)
def test_a_history_is_recognised_by_dates_beside_numbers(tmp_path, case, recognised):
    frame = frame_of(made_returns(days=20, N=3))
    path = tmp_path / {"parquet": "a.parquet", "another extension": "a.dat"}.get(case, "a.csv")
    if case == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
        frame.set_index(pd.to_datetime(frame["date"])).drop(columns="date").to_parquet(path)
    elif case == "falling dates":
        frame[::-1].to_csv(path, index=False)
    elif case == "one ticker":
        frame[["date", "T0"]].to_csv(path, index=False)
    elif case == "a text":
        frame.assign(T1="halted").to_csv(path, index=False)
    elif case == "dates in disorder":
        frame.iloc[[3, 1, 2, *range(4, 20)]].to_csv(path, index=False)
    elif case == "quarters":
        quarters = pd.period_range("1990Q1", periods=len(frame), freq="Q").astype(str)
        frame.assign(date=quarters).to_csv(path, index=False)
    elif case == "no dates":
        frame.drop(columns="date").to_csv(path, index=False)
    else:
        frame.to_csv(path, index=False)
    assert KIND.recognizes(path) is recognised


@pytest.mark.parametrize(
    ("format", "example"), [("%d-%b-%y", "19-Sep-03"), ("%b %d %Y", "Sep 1 2003"), ("%b %d, %Y", "Sep 1, 2003")]
)
def test_dates_with_names_of_months_are_read(tmp_path, format, example):
    """Dates are those of the same history with dates as in ISO 8601, in rows from the last day to the first."""
    frame = frame_of(made_returns(days=80, N=3), first="2003-06-02")
    frame.to_csv(tmp_path / "iso.csv", index=False)
    texts = pd.to_datetime(frame["date"]).dt.strftime(format).str.replace(" 0", " ")
    frame.assign(date=texts)[::-1].to_csv(tmp_path / "named.csv", index=False)
    assert example in set(texts)
    expected, history = read_history(tmp_path / "iso.csv"), read_history(tmp_path / "named.csv")
    assert history.dates == expected.dates
    np.testing.assert_allclose(history.log_returns, expected.log_returns)


def test_columns_with_zeros_are_no_prices_and_are_read_as_a_table(tmp_path):
    """Distances of runs, ill workers and changes of a count stand beside dates too."""
    frame = frame_of(np.abs(made_returns(days=80, N=3)))
    frame["T1"] = np.arange(len(frame)) % 4 + 0.0  # zeros
    frame.to_csv(tmp_path / "runs.csv", index=False)
    synth = sa.fit(tmp_path / "runs.csv", trial=False)
    assert synth.kind.name == "table"
    assert any("If it is a price history, pass kind='returns'" in note for note in synth.codec.notes)
    with pytest.raises(InputError, match="a price of 0 has no log-return"):
        sa.fit(tmp_path / "runs.csv", "returns")
    frame.loc[4:, "T1"] = 7.5
    frame.to_csv(tmp_path / "mistake.csv", index=False)  # one price of 0 is a mistake, and its place is said
    with pytest.raises(InputError, match=r"mistake\.csv, line 2 .*'T1': a price of 0"):
        sa.fit(tmp_path / "mistake.csv")


def test_bars_with_a_volume_of_zero_are_a_history(tmp_path):
    close = 50 * np.exp(made_returns(days=80, N=1).cumsum(0))[:, 0]
    bars = pd.DataFrame({"date": pd.bdate_range("2022-01-03", periods=80).astype(str), "close": close, "volume": 0})
    bars.assign(open=close, high=close, low=close, dividends=0).to_csv(tmp_path / "a.csv", index=False)
    assert KIND.recognizes(tmp_path / "a.csv")


def test_a_note_on_a_recognized_history_says_how_to_read_it_as_a_table(tmp_path):
    path = tmp_path / "meat.csv"
    frame_of(made_returns(days=80, N=3)).to_csv(path, index=False)
    assert any("if it is not a history of prices, pass kind='table'" in note for note in sa.fit(path).codec.notes)
    assert not any("kind=" in note for note in sa.fit(path, "returns").codec.notes)


# --- Long format, and percent signs


def long_prices(days=40):
    """Prices (days, 3) of A, B and C, and the same in long format, beside opening prices and volumes."""
    rng = np.random.default_rng(0)
    dates = pd.bdate_range("2023-01-02", periods=days, name="date")
    prices = pd.DataFrame(50 * np.exp(0.01 * rng.standard_normal((days, 3)).cumsum(0)), dates, columns=list("ABC"))
    rows = prices.reset_index().melt("date", var_name="Symbol", value_name="Adj Close")
    return prices, rows.assign(Open=1.0, Volume=1000)


@pytest.mark.parametrize("order", ["date", "Symbol"])
def test_prices_with_a_row_per_day_and_ticker(tmp_path, order):
    prices, rows = long_prices()
    rows = rows.sort_values(order, kind="stable")
    rows.to_csv(tmp_path / "long.csv", index=False)
    for source in (tmp_path / "long.csv", rows, rows.set_index("date")):
        synth = sa.fit(source)
        assert synth.kind is KIND
        assert synth.codec.tickers == ("A", "B", "C")
        np.testing.assert_allclose(synth.codec.history, np.diff(np.log(prices.to_numpy()), axis=0), atol=1e-12)
        assert synth.codec.dates[-1] == str(prices.index[-1].date())
        assert any("'Adj Close' became a row per day" in note and "Open, Volume" in note for note in synth.notes)


def test_a_row_that_stands_twice_is_one_and_two_prices_of_a_day_are_an_error():
    prices, rows = long_prices()
    again = pd.concat([rows, rows.iloc[[5]]])
    assert len(sa.fit(again).codec.history) == len(prices) - 1
    again.iloc[-1, 2] = 7.0
    with pytest.raises(InputError, match=r"row 6 and row 121: A has two values of 'Adj Close' on 2023-01-09.*one row"):
        sa.fit(again)
    with pytest.raises(InputError, match=r"columns of numbers are x, Open, Volume\. Name the column of prices 'close'"):
        sa.fit(rows.rename(columns={"Adj Close": "x"}), kind="returns")


def test_days_and_tickers_that_never_repeat_are_a_table():
    _, rows = long_prices()
    once = rows.iloc[:40].assign(Symbol=[f"S{i}" for i in range(40)])
    assert sa.fit(once).kind.name == "table"


@pytest.mark.parametrize("sign", ["%", " %"])
def test_returns_in_percent_are_divided_by_a_hundred(tmp_path, sign):
    values = np.random.default_rng(0).standard_normal((60, 2)).round(2)
    dates = pd.bdate_range("2023-01-02", periods=60, name="date")
    frame = pd.DataFrame(values, dates, columns=["A", "B"]).map(lambda value: f"{value:.2f}{sign}")
    frame.to_csv(tmp_path / "percent.csv")
    for synth in (sa.fit(tmp_path / "percent.csv"), sa.fit(frame, kind="returns")):
        np.testing.assert_allclose(synth.codec.history, values / 100, atol=1e-15)
        assert "numbers with a percent sign were divided by 100 (A, B)." in synth.notes
        assert not any("written the same way" in note or "divide them" in note for note in synth.notes)


def test_long_prices_whose_dates_begin_with_the_day_keep_their_order(tmp_path):
    days = pd.date_range("2024-01-25", periods=60, freq="B").strftime("%d/%m/%Y")
    frame = pd.DataFrame({"date": np.tile(days, 2), "ticker": np.repeat(["A", "B"], 60)})
    frame["close"] = 100 + np.random.default_rng(0).normal(size=120).cumsum().round(2)
    frame.to_csv(tmp_path / "prices.csv", index=False)
    synth = sa.fit(tmp_path / "prices.csv")
    assert not any("in order" in note for note in synth.notes)
    assert str(synth.codec.dates[0])[:10] in ("2024-01-25", "2024-01-26")


@pytest.mark.parametrize(("columns", "close"), [(["Adj Close"], "Adj Close"), ([], "Close")])
def test_a_file_with_open_high_low_close_and_volume_is_the_history_of_one_ticker(tmp_path, columns, close):
    price = 100 * np.exp(np.cumsum(np.random.default_rng(0).normal(0, 0.01, 90)))
    days = pd.bdate_range("2020-01-01", periods=90).strftime("%Y-%m-%d")
    bars = {"Open": price - 1, "High": price + 2, "Low": price - 2, "Close": price, "Adj Close": 0.9 * price + 1}
    bars = {name: bars[name] for name in ("Open", "High", "Low", "Close", *columns)}
    frame = pd.DataFrame({"Date": days, **bars, "Volume": np.arange(90)})  # a day without trades has a volume of 0
    frame.to_csv(tmp_path / "a.csv", index=False)
    history = read_history(tmp_path / "a.csv")
    assert history.tickers == (close,)
    np.testing.assert_allclose(history.log_returns[:, 0], np.diff(np.log(bars[close])))
    assert f"{close!r} was read as its price" in history.notes[0]
    assert "Open, High, Low" in history.notes[0]
    assert "Volume were left out" in history.notes[0]
    assert sa.fit(tmp_path / "a.csv").kind.name == "returns"


def test_a_ticker_called_open_is_a_ticker_beside_others(tmp_path):
    frame = frame_of(made_returns(days=40, N=5)).set_axis(["date", "OPEN", "HIGH", "LOW", "CLOSE", "SPY"], axis=1)
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert read_history(tmp_path / "a.csv").tickers == ("OPEN", "HIGH", "LOW", "CLOSE", "SPY")
