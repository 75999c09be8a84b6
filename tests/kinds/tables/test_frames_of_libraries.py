"""Data frames of polars and pyarrow: in and out as the same type, with conditions, masks and files."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn.kinds import InputError

N = 60


def columns():
    rng, day = np.random.default_rng(0), datetime.date(2021, 1, 1)
    return {
        "who": [f"p{i}" for i in range(N)],
        "age": [int(x) for x in rng.integers(20, 80, N)],
        "weight": [float(x) for x in rng.normal(70, 9, N).round(1)],
        "visits": [None if i % 7 == 0 else int(x) for i, x in enumerate(rng.integers(0, 99, N))],
        "smoker": [bool(x) for x in rng.random(N) < 0.5],
        "seen": [day + datetime.timedelta(days=int(x)) for x in rng.integers(0, 300, N)],
        "start": [datetime.time(int(x), 30) for x in rng.integers(6, 20, N)],
        "stay": [datetime.timedelta(minutes=int(x)) for x in rng.integers(6, 2000, N)],
        "city": [str(x) for x in rng.choice(["Oslo", "Bergen", "Rome"], N)],
    }


def frame_of_polars():
    polars = pytest.importorskip("polars", reason="a package that users of its frames have")
    return polars.DataFrame(columns()).with_columns(
        polars.col("age").cast(polars.Int16), polars.col("city").cast(polars.Categorical)
    )


def frame_of_pyarrow():
    pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet")
    times = pyarrow.array(columns()["start"], pyarrow.time64("ns"))  # the only times of day that narwhals knows
    return pyarrow.table({**columns(), "start": times})


FRAMES = {"polars": frame_of_polars, "pyarrow": frame_of_pyarrow}


@pytest.mark.parametrize("library", FRAMES)
def test_new_rows_are_a_frame_of_the_same_library_with_the_same_types(library, tmp_path):
    stored = FRAMES[library]()
    synth = sa.fit(stored)
    types = dict(synth.kind.display.column_types(synth.codec))
    assert list(types.values()) == [
        "id",
        "integer",
        "numeric",
        "integer",
        "boolean",
        "date",
        "integer",
        "integer",
        "category",
    ]
    new = synth.sample(40, rng=0)
    assert type(new) is type(stored)
    assert new.schema == stored.schema
    ages = np.array(new["age"])
    assert ages.min() < 40 < 60 < ages.max()
    given = synth.condition(
        age=sa.Range(ge=40, lt=60), seen=sa.Range(ge=datetime.date(2021, 6, 1)), city="Oslo"
    ).sample(20, rng=0)
    assert all(40 <= int(str(age)) < 60 for age in given["age"])
    assert {str(city) for city in given["city"]} == {"Oslo"}
    mask = np.array(stored["age"]) > 40
    assert np.array_equal(
        synth.subset(type(stored["age"])(mask) if library == "polars" else mask).kept, np.flatnonzero(mask)
    )
    same = sa.fit(pd.DataFrame({"age": columns()["age"], "weight": columns()["weight"]}))
    narrow = sa.fit(stored.select(["age", "weight"]))
    np.testing.assert_allclose(narrow.log_density(stored), same.log_density(pd.DataFrame(columns())))
    plain = pd.DataFrame({"age": ages, "weight": np.array(new["weight"])})
    np.testing.assert_allclose(narrow.novelty(new), same.novelty(plain), atol=1e-6)  # a narrower type rounds other sums
    synth.save(tmp_path / "a.synth")
    loaded = sa.load(tmp_path / "a.synth").sample(40, rng=0)
    assert loaded.schema == new.schema
    assert loaded.equals(new)


def test_frames_that_are_not_in_memory_and_other_objects_are_refused():
    with pytest.raises(InputError, match=r"must be in memory; got a LazyFrame.*Call collect\(\)"):
        sa.fit(frame_of_polars().lazy())
    with pytest.raises(
        InputError, match=r"must be a data frame of pandas, polars.*got object\. Pass a pandas.DataFrame"
    ):
        sa.fit(object(), "table")
    with pytest.raises(InputError, match=r"got a DataFrame that is not computed\. Call compute\(\)"):
        sa.fit(pytest.importorskip("dask.dataframe").from_pandas(pd.DataFrame({"a": [1, 2]}), npartitions=1))


def test_new_rows_keep_the_string_and_dictionary_types_of_pyarrow():
    pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet")
    city = pyarrow.array(columns()["city"])
    stored = pyarrow.table({"a": columns()["weight"], "b": city.cast("large_string"), "c": city.dictionary_encode()})
    assert sa.fit(stored).sample(5, rng=0).schema == stored.schema


def test_times_durations_periods_and_limits_of_pandas_keep_their_types():
    rng, day = np.random.default_rng(0), pd.Timestamp("2020-01-01")
    stored = pd.DataFrame(
        {
            "start": columns()["start"],
            "stay": pd.to_timedelta(rng.integers(1, 900, N), unit="min"),
            "quarter": (day + pd.to_timedelta(rng.integers(0, 900, N), unit="D")).to_period("Q"),
            "price": [None if i == 5 else decimal.Decimal(f"{x:.2f}") for i, x in enumerate(rng.normal(9, 2, N))],
            "crp": ["<0.5" if x < 0.5 else round(float(x), 1) for x in rng.gamma(2, 1, N)],  # as read_excel has it
            "half": rng.normal(size=N).astype("float16"),
            "city": columns()["city"],
        }
    )
    synth = sa.fit(stored)
    assert set(dict(synth.kind.display.column_types(synth.codec)).values()) == {"integer", "numeric", "category"}
    new = synth.sample(200, rng=0)
    assert new.dtypes.equals(stored.dtypes)
    for name in stored:
        assert set(map(type, new[name].dropna())) == set(map(type, stored[name].dropna()))
    assert "<0.5" in set(new["crp"])
    assert new["stay"].nunique() > 100
    assert synth.log_density(stored).shape == (N,)


@pytest.mark.parametrize(
    "seconds",
    [np.random.default_rng(1).normal(60, 9, N), np.random.default_rng(1).normal(0, 9e7, N)],
    ids=["nanoseconds", "years before and after"],
)
def test_durations_with_fractions_and_signs_are_drawn(seconds):
    polars = pytest.importorskip("polars", reason="a package that users of its frames have")
    stored = pd.DataFrame({"a": columns()["weight"], "p": pd.to_timedelta(seconds, "s")})
    stored.loc[3, "p"] = pd.NaT
    new = sa.fit(stored).sample(300, rng=0)
    assert new.dtypes.equals(stored.dtypes)
    drawn = new["p"].dt.total_seconds()
    assert drawn.nunique() > 200
    assert abs(drawn.mean() - seconds.mean()) < seconds.std()
    assert 0.5 < drawn.std() / seconds.std() < 1.5
    other = polars.DataFrame({"a": columns()["weight"], "p": [datetime.timedelta(seconds=x) for x in seconds]})
    assert sa.fit(other).sample(20, rng=0).schema == other.schema


def test_durations_and_times_that_the_user_declares_as_identifiers_are_numbered():
    polars = pytest.importorskip("polars", reason="a package that users of its frames have")
    start = [datetime.time(i % 24, 0, 0, i) for i in range(N)]
    lengths = [datetime.timedelta(seconds=i**2) for i in range(N)]
    cells, types = {"a": columns()["weight"], "p": lengths, "start": start}, {"p": "id", "start": "id"}
    stored = pd.DataFrame(cells)
    for frame in (stored, polars.DataFrame(cells)):
        new = sa.fit(frame, columns=types).sample(3, rng=0)
        assert list(new["p"]) == list(new["start"]) == ["new-1", "new-2", "new-3"]
    times = sa.fit(stored.drop(columns="p")).sample(50, rng=0)["start"]  # with microseconds, but at midnight
    assert set(map(type, times)) == {datetime.time}


def test_frames_of_pandas_with_the_types_of_pyarrow_keep_them():
    pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet")
    cells = {name: cells for name, cells in columns().items() if name != "who"}
    table = pyarrow.table({**cells, "cost": [decimal.Decimal(i**2) / 4 for i in range(N)]})
    stored = table.to_pandas(types_mapper=pd.ArrowDtype).rename(columns={"age": 3})
    synth, expected = sa.fit(stored), sa.fit(pd.DataFrame(table.to_pydict()).rename(columns={"age": 3}))
    assert synth.kind.display.column_types(synth.codec) == expected.kind.display.column_types(expected.codec)
    new = synth.sample(20, rng=0)
    assert list(new.dtypes) == list(stored.dtypes)
    assert synth.log_density(new).shape == (20,)
    lists = pd.Series([[1]] * N, dtype=pd.ArrowDtype(pyarrow.list_(pyarrow.int8())))
    nested = pd.DataFrame({"a": cells["weight"], "b": lists})
    with pytest.raises(InputError, match=r"column 'b' holds cells of type list.*are not handled"):
        sa.fit(nested)


def test_sparse_columns_and_integers_of_128_bits_keep_their_types():
    polars = pytest.importorskip("polars", reason="a package that users of its frames have")
    a, visits = columns()["weight"], columns()["visits"]
    stored = pd.DataFrame({"a": a, "b": pd.arrays.SparseArray([0 if x is None else x for x in visits], fill_value=0)})
    assert sa.fit(stored).sample(20, rng=0).dtypes.equals(stored.dtypes)
    other = polars.DataFrame({"a": a, "b": visits}).cast({"b": polars.Int128})
    new = sa.fit(other).sample(20, rng=0)
    assert new.schema == other.schema
    assert new["b"].n_unique() > 10
    with pytest.raises(InputError, match=r"column 'b' holds integers that do not fit into 64 bits"):
        sa.fit(other.with_columns(polars.col("b") * 10**20))


def test_saved_synthesizers_draw_the_types_of_their_frames(tmp_path):
    polars = pytest.importorskip("polars", reason="a package that users of its frames have")
    testing = pytest.importorskip("polars.testing")
    pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet")
    rng, start = np.random.default_rng(0), pd.Timestamp("2020-01-01")
    city, cost = columns()["city"], [decimal.Decimal(i**2) / 4 for i in range(N)]
    seen = [start.to_pydatetime() + stay for stay in columns()["stay"]]
    of_pandas = pd.DataFrame(
        {
            "month": (start + pd.to_timedelta(rng.integers(0, 900, N), unit="D")).to_period("M"),
            "stay": pd.to_timedelta(rng.integers(1, 900, N), unit="s"),
            "start": columns()["start"],
            "half": rng.normal(size=N).astype("float16"),
            "crp": ["<0.5" if x < 0.5 else round(float(x), 1) for x in rng.gamma(2, 1, N)],
            "sparse": pd.arrays.SparseArray(rng.integers(0, 9, N), fill_value=0),
            "city": pd.Series(city, dtype=pd.ArrowDtype(pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))),
            "cost": pd.Series(cost, dtype=pd.ArrowDtype(pyarrow.decimal128(12, 2))),
        }
    )
    of_polars = polars.DataFrame(
        {
            "small": polars.Series(rng.integers(0, 99, N)).cast(polars.Int8),
            "city": polars.Series(city, dtype=polars.Enum(sorted(set(city)))),
            "seen": polars.Series(seen, dtype=polars.Datetime("ms", "UTC")),
            "cost": polars.Series(cost, dtype=polars.Decimal(12, 2)),
        }
    )
    for stored, same in ((of_pandas, pd.testing.assert_frame_equal), (of_polars, testing.assert_frame_equal)):
        synth = sa.fit(stored)
        synth.save(tmp_path / "a.synth", replace=True)
        same(sa.load(tmp_path / "a.synth").sample(30, rng=0), synth.sample(30, rng=0))


def prices():
    rng = np.random.default_rng(0)
    levels = 100 * np.exp(np.cumsum(rng.normal(0, 0.01, (90, 3)), axis=0))
    dates = [str(day.date()) for day in pd.bdate_range("2022-01-03", periods=90)]
    return pd.DataFrame(levels, columns=["AA", "BB", "CC"], index=pd.Index(dates, name="date"))


def in_long_format(wide):
    return wide.rename_axis(columns="ticker").stack().rename("close").reset_index()


def test_prices_are_read_from_frames_of_any_library():
    polars = pytest.importorskip("polars", reason="a package that users of its frames have")
    pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet")
    wide, long = prices(), in_long_format(prices())
    expected = np.diff(np.log(wide.to_numpy()), axis=0)
    for frame in (
        wide,
        long.set_index(["date", "ticker"]),
        long.astype({"ticker": "category"}),
        polars.from_pandas(wide.reset_index()).with_columns(polars.col("date").str.to_date()),
        polars.from_pandas(long),
        pyarrow.Table.from_pandas(wide),
        pyarrow.Table.from_pandas(long, preserve_index=False),
    ):
        codec = sa.fit(frame).codec
        assert codec.tickers == ("AA", "BB", "CC")
        np.testing.assert_allclose(codec.history, expected)


def test_tables_with_dates_are_not_taken_for_prices():
    frame, wide = pd.DataFrame(columns()).drop(columns=["start", "stay"]), prices()
    assert sa.fit(frame.set_index(["who", "seen"])).kind.name == "table"
    assert sa.fit(FRAMES["polars"]()).kind.name == "table"
    synth = sa.fit(wide.reset_index())  # in pandas, dates of prices are the index
    assert synth.kind.name == "table"
    assert any("If it is a price history, pass kind='returns'" in note for note in synth.notes)
