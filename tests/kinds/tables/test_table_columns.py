"""Encoding and decoding of columns by type."""

import math
from datetime import date, datetime

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

from stochattn.kinds import InputError
from stochattn.kinds.delimited.numbers import Notation
from stochattn.kinds.tables.codec import TableCodec
from stochattn.kinds.tables.columns.cells import Cells
from stochattn.kinds.tables.columns.columns import ColumnType, Levels, Source
from stochattn.kinds.tables.columns.inference import TableOptions, fit_column
from stochattn.kinds.tables.columns.scales import Distinct, decimals_of, limits_of


def column(cells, type=None, limits=(None, None), label=False, name="x", **series):
    asked = None if type is None else ColumnType(type)
    return fit_column(pd.Series(cells, name=name, **series), Source("t.csv"), asked, limits, label)


def there_and_back(cells, **options):
    fitted, _ = column(cells, **options)
    series = pd.Series(cells, name="x")
    back = fitted.cells(fitted.features(series) + 1e-12)
    assert back.dtype == series.dtype
    return fitted, back.tolist()


def test_a_few_odd_values_do_not_set_the_decimals():
    prices = np.round(np.random.default_rng(0).uniform(1, 9, 177), 2)
    with_odd = np.append(prices, 9.899999)
    assert decimals_of(Distinct.of(with_odd)) == 2
    fitted, back = there_and_back(with_odd.tolist())
    assert back == with_odd.tolist()
    new = fitted.cells(np.linspace(-3, 3, 500)[:, None])
    assert new.isin(with_odd).mean() < 0.9
    assert [value for value in new if round(value, 2) != value and value != 9.899999] == []
    assert fitted.cells(fitted.condition("9.899999")[0][None])[0] == 9.899999
    # If most values are zero, the others decide; and a tenth of the values is more than a few.
    mostly_zero = np.concatenate((np.zeros(960), prices[:40]))
    assert decimals_of(Distinct.of(mostly_zero)) == 2
    assert decimals_of(Distinct.of(np.array([1.5] * 5 + [1.25] * 5 + [2.0] * 50 + [2.125, 3.375, 4.625]))) == 3
    assert decimals_of(Distinct.of(np.append(prices, 1e15))) == 2


def test_a_smallest_value_of_more_decimals_stays_within_the_limits():
    prices = np.append(np.round(np.random.default_rng(0).uniform(1, 9, 177), 2), 0.004)
    fitted, back = there_and_back(prices.tolist())
    assert fitted.transform.decimals == 2
    assert back[-1] == 0.004
    assert limits_of(Distinct.of(-prices), 2) == (-math.inf, -0.004)


@pytest.mark.parametrize(
    ("cells", "options", "type"),
    [
        ([1.5, 2.25, -3.0], {}, "numeric"),
        ([1, 2, 7], {}, "integer"),
        ([1.0, 2.0, None], {}, "integer"),
        ([0, 1, 1], {}, "boolean"),
        ([True, False, True], {}, "boolean"),
        (["yes", "no", "yes"], {}, "boolean"),
        (["a", "b", "a", "c", "a", "b"], {}, "category"),
        (["p1", "p2", "p3", "p4", "p5"], {}, "id"),
        ([3, 1, 2], {"name": "id"}, "id"),
        ([2, 1, 2, 3], {"label": True}, "category"),
        (["2021-03-01", "2021-04-01", None], {}, "date"),
        ([5, 5, 5], {}, "carried"),
        ([None, None], {"dtype": float}, "carried"),
    ],
)
def test_inferred_types(cells, options, type):
    assert column(cells, **options)[0].type == type


def test_stored_cells_are_decoded_exactly():
    assert there_and_back([0.1 + 0.2, 1 / 3, -7e10])[1] == [0.1 + 0.2, 1 / 3, -7e10]
    assert there_and_back([3, 1, 2, 2, 100])[1] == [3, 1, 2, 2, 100]
    assert there_and_back(["b", "a", "b", "b"])[1] == ["b", "a", "b", "b"]
    assert there_and_back([True, False, False])[1] == [True, False, False]
    texts = ["1.3.2021", "28.11.2021", "13.1.2021"]
    fitted, back = there_and_back(texts)
    assert (fitted.date_scale.format, back) == ("%d.%m.%Y", texts)
    stamps = pd.to_datetime(["2021-03-01 10:00", "2021-03-02 11:30"]).tolist()
    assert there_and_back(stamps)[1] == stamps
    zoned = pd.to_datetime(["2021-03-01 10:00", "2021-07-02 11:30"]).tz_localize("Europe/Vienna").tolist()
    assert there_and_back(zoned)[1] == zoned


def test_new_cells_are_rounded_and_stay_in_their_dtype():
    fitted, _ = column(np.array([1, 5, 9], dtype=np.uint8))
    cells = fitted.cells(np.array([[-1e6], [1e6]]))
    assert cells.dtype == np.uint8
    assert cells.tolist() == [1, 255]  # positive whole numbers stay positive
    prices, _ = column([1.25, 3.5, 10.75])
    assert all(round(value, 2) == value for value in prices.cells(np.linspace(-3, 3, 50)[:, None]))


def test_ranges_limit_new_values_and_must_hold_for_stored_ones():
    fitted, _ = column([0.2, 0.5, 0.9], limits=(None, 1.0))
    assert fitted.cells(np.array([[99.0]]))[0] <= 1
    with pytest.raises(InputError, match=r"t.csv, column 'x': stored values run from 0.2 to 0.9, outside"):
        column([0.2, 0.5, 0.9], limits=(None, 0.8))


def test_a_category_block_has_the_variance_of_one_numeric_column():
    series = pd.Series(["a"] * 5 + ["b"] * 3 + ["c"] * 2)
    block = Levels.fit(series).forward(series)
    assert block.var(0).sum() == pytest.approx(1)
    numeric = column(np.arange(10.0) ** 3)[0].features(pd.Series(np.arange(10.0) ** 3))
    assert numeric.var() == pytest.approx(1)


def test_whole_days_stay_whole_days():
    fitted, _ = column(["2021-03-01", "2021-04-01", "2021-06-15"])
    cells = fitted.cells(np.linspace(-2, 2, 9)[:, None])
    assert pd.to_datetime(cells, format="%Y-%m-%d").dt.hour.eq(0).all()


def test_whole_local_days_stay_whole_local_days():
    days = pd.Series(pd.to_datetime(["2021-03-01", "2021-07-02", "2021-12-24"]).tz_localize("Europe/Vienna"), name="x")
    fitted, _ = fit_column(days, Source())
    cells = fitted.cells(np.linspace(-2, 2, 200)[:, None])
    assert cells.dtype == days.dtype
    assert cells.nunique() > 50
    assert (cells.dt.hour == 0).all()
    assert fitted.cells(fitted.features(days)).tolist() == days.tolist()
    summer = fitted.cells(fitted.condition("2021-08-01")[0][None])[0]
    assert summer == pd.Timestamp("2021-08-01", tz="Europe/Vienna")
    # The zone's own clocks do not distinguish two equal hours: times are then counted in UTC.
    twice = pd.to_datetime(["2021-10-30 00:30", "2021-10-31 00:30", "2021-10-31 01:30"], utc=True)
    hours = pd.Series(twice.tz_convert("Europe/Vienna"), name="x")
    fitted, _ = fit_column(hours, Source())
    assert fitted.cells(fitted.features(hours)).tolist() == hours.tolist()


def test_dates_before_1678_are_preserved():
    old = pd.Series(np.array(["1492-10-12", "1066-10-14", "2021-03-01"], dtype="M8[s]"), name="x")
    fitted, _ = fit_column(old, Source())
    back = fitted.cells(fitted.features(old))
    assert back.dtype == old.dtype
    assert back.tolist() == old.tolist()
    assert fitted.cells(fitted.condition("1588-08-08")[0][None]).tolist() == [pd.Timestamp("1588-08-08")]
    assert fitted.cells(np.array([[-1e9], [1e9]])).dt.year.tolist() == [1, 9999]


def test_days_as_objects_are_preserved():
    days = [date(2021, 3, 1), None, date(1501, 7, 2), date(2021, 12, 24)]
    fitted, _ = column(days)
    assert fitted.type == "date"
    series = pd.Series(days, dtype=object)
    assert fitted.cells(fitted.features(series.dropna())).tolist() == [days[0], *days[2:]]
    new = fitted.cells(np.linspace(-1, 1, 9)[:, None])
    assert {type(cell) for cell in new} == {date}
    assert fitted.matches(series, "2021-03-01").tolist() == [True, False, False, False]


def test_times_finer_than_floats_are_carried():
    stamps = pd.Series(pd.to_datetime([1, 2**60 + 1, 2**60 + 3], unit="ns").as_unit("ns"), name="x")
    fitted, note = fit_column(stamps, Source())
    assert fitted.type == "carried"
    assert "more steps of time than floats distinguish" in note


def test_long_numbers():
    assert column([1.5e17, 2.5e17, -3e17])[0].type == "numeric"
    assert there_and_back([1.5e17, 2.5e17, -3e17])[1] == [1.5e17, 2.5e17, -3e17]
    assert column([2**60 + 1, 2**60 + 2, 5])[0].type == "id"
    assert column([2**60 + 1, 2**60 + 2, 5, 5])[0].type == "carried"
    for type in ("integer", "numeric"):
        with pytest.raises(InputError, match=f"cannot be read as {type}: it holds integers of over 15 digits"):
            column([2**60 + 1, 2**60 + 2, 5], type)
    assert there_and_back([2**60 + 1, 2**60 + 2, 2**60 + 1], type="category")[1] == [2**60 + 1, 2**60 + 2, 2**60 + 1]


def test_the_whole_column_decides_which_is_day_and_which_month():
    assert column(["01/02/2021", "13/02/2021"])[0].date_scale.format == "%d/%m/%Y"
    fitted, note = column(["01/02/2021", "03/04/2021"])
    assert fitted.date_scale.format == "%m/%d/%Y"
    assert "dates are read as %m/%d/%Y" in note
    assert column(["2021-02-01", "2021-03-04"])[1] == ""


def test_dates_in_two_formats_are_an_error_that_names_both():
    with pytest.raises(InputError) as error:
        fit_column(pd.Series(["2021-03-01", "03/04/2021"], name="when"), Source("t.csv", (2, 3)))
    assert str(error.value).startswith(
        "t.csv, line 3, column 'when': dates are in two formats, '2021-03-01' and '03/04/2021'."
    )


def test_a_text_among_dates_makes_them_texts():
    assert column(["2021-03-01", "unknown", "unknown", "2021-03-01"])[0].type == "category"


@pytest.mark.parametrize(
    ("cells", "type", "why"),
    [
        (["a", "b"], "numeric", "holds strings such as 'a', not numbers"),
        ([True, False], "numeric", "holds booleans such as 'True', not numbers"),
        ([1.5, 2.0], "integer", "holds fractions"),
        ([1, 2, 3], "boolean", "3 distinct values"),
        (["a", "b"], "date", "does not hold dates"),
        ([1.5, 2.5], "id", "holds numbers with fractions such as '1.5', and identifiers are strings"),
    ],
)
def test_a_type_that_does_not_fit_is_an_error(cells, type, why):
    with pytest.raises(InputError, match=f"cannot be read as {type}: it .*{why}"):
        column(cells, type)


def test_infinite_and_unsupported_cells_are_errors():
    with pytest.raises(InputError, match=r"t.csv, row 2, column 'x': is infinite"):
        column([1.0, np.inf, 2.0])
    with pytest.raises(InputError, match=r"column 'x': cells of type list \(such as '\[1\]'\) are not handled"):
        column([[1], [2]])
    with pytest.raises(
        InputError, match=r"column 'x': mixes cells of type int \(such as '1'\) and str \(such as 'a'\)"
    ):
        column([None, 1, 2, "a"])


def test_a_value_may_be_a_text_that_means_it():
    ages, _ = column([20, 30, 60])
    features, beyond = ages.condition("40")
    assert ages.cells(features[None])[0] == 40
    assert (beyond, ages.condition("70")[1]) == (False, True)
    when, _ = column(["01.03.2021", "15.03.2021", "14.04.2021"])
    for text in ("2021-03-15", "15.03.2021"):
        assert when.condition(text)[0] == when.features(pd.Series(["15.03.2021"]))[0]
    for text, why in (("-3", "has no new values below 1"), ("40.5", "has integers"), ("old", "this is not one")):
        with pytest.raises(InputError, match=why):
            ages.condition(text)
    with pytest.raises(InputError, match=r"^condition x=c: the column has no such value. It has a, b\.$"):
        column(["a", "b", "a", "b"])[0].condition("c")
    with pytest.raises(InputError, match=r"Did you mean 'setosa'\? It has setosa, virginica\."):
        column(["setosa", "virginica"] * 2)[0].condition("setossa")
    with pytest.raises(InputError, match=r"^condition x=soon: the column holds dates, and this is not one\."):
        when.condition("soon")


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        ([20, 30, 60], (30, 30.0, np.int64(30), np.float32(30), "30")),
        ([True, False, True], (False, np.False_, "FALSE")),
        ([1, 0, 1], (0, 0.0, False, "0")),
        (["1", "2", "1"], (2, "2")),
        (
            ["01.03.2021", "15.03.2021", "14.04.2021"],
            (date(2021, 3, 15), datetime(2021, 3, 15), pd.Timestamp("2021-03-15"), np.datetime64("2021-03-15")),
        ),
    ],
)
def test_values_may_have_any_type_that_means_the_cell(cells, values):
    fitted, _ = column(cells)
    for value in values:
        assert fitted.cells(fitted.condition(value)[0][None])[0] == cells[1]


def test_values_may_lie_outside_by_the_width_of_the_stored_range():
    fitted, _ = column([-10, 0, 15, 30])
    assert [fitted.condition(value)[1] for value in (-50, -10, 30, 70)] == [True, False, False, True]
    for value in (-51, 71):
        with pytest.raises(InputError, match="Choose a value between -50 and 70"):
            fitted.condition(value)


def test_values_of_another_type_are_errors():
    for value in (True, date(2021, 3, 1), math.nan, math.inf):
        with pytest.raises(InputError, match="the column holds numbers, and this is not one"):
            column([20, 30, 60])[0].condition(value)
    for value in (3, 2.5, True):
        with pytest.raises(InputError, match="the column holds dates, and this is not one"):
            column(["2021-03-01", "2021-04-01"])[0].condition(value)
    with pytest.raises(InputError, match=r"the column has no such value\. It has False, True"):
        column([True, False, True])[0].condition(2)


def test_texts_are_parsed_with_the_decimal_sign_of_the_file():
    assert column([1.5, 2.25, 4.0])[0].parse("2,25", Notation(",")) == 2.25
    ages = column([20, 30, 60])[0].parse("40")
    assert (ages, type(ages)) == (40, int)
    assert column([1.0, 0.0, 1.0])[0].parse("1,0", Notation(",")) == 1.0
    assert column(["2021-03-01", "2021-04-01"])[0].parse("2021-03-15") == "2021-03-15"
    truth = column([True, False, True])[0].parse("TRUE")
    assert (truth, type(truth)) == (True, bool)


@pytest.mark.parametrize(
    ("cells", "texts"),
    [
        ([True, False, True], ("TRUE", "true", "True")),
        (["yes", "no", "yes"], ("yes", "YES")),
        ([1.0, 0.0, 1.0], ("1", "1.0", "1,0")),
    ],
)
def test_a_value_may_be_spelt_in_more_than_one_way(cells, texts):
    fitted, _ = column(cells)
    for text in texts:
        assert fitted.cells(fitted.condition(text, Notation(","))[0][None])[0] == cells[0]
        assert fitted.matches(pd.Series(cells), text, Notation(",")).tolist() == [True, False, True]
    assert not fitted.matches(pd.Series(cells), "perhaps").any()


def test_case_matters_if_values_differ_only_by_case():
    fitted, _ = column(["a", "A", "b", "a", "A", "b"])
    assert fitted.matches(pd.Series(["a", "A", "b"]), "A").tolist() == [False, True, False]
    assert fitted.matches(pd.Series(["a", "A", "b"]), "B").tolist() == [False, False, True]


def test_new_identifiers_continue_after_the_stored_ones():
    assert column(["p1", "p2", "p3", "p4"])[0].make_ids(2, 2).tolist() == ["new-3", "new-4"]
    assert column(["new-7", "new-2", "a", "b"])[0].make_ids(0, 1).tolist() == ["new-8"]
    numbers = column([4, 9, 5], name="id")[0].make_ids(0, 2)
    assert (numbers.tolist(), numbers.dtype) == ([10, 11], np.int64)


def test_jittered_features_mean_the_same_cells_and_differ():
    """Numbers that many rows share follow a normal law after jittering; every feature still means its cell."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"count": rng.poisson(1.0, 2000), "truth": rng.random(2000) < 0.1})
    frame["group"] = rng.choice(["a", "b", "c"], 2000)
    codec = TableCodec.fit(frame)
    for column, own in zip(codec.columns, codec.blocks, strict=True):
        jittered = column.jitter(codec.encode(frame)[:, own], np.random.default_rng(1), 0.1)
        assert (column.cells(jittered) == frame[column.name]).all()
        assert len(np.unique(jittered[:, 0])) == 2000
        if column.name == "count":
            # 2,000 normal values: the KS distance is below 0.036 with probability 0.99.
            assert kstest(jittered[:, 0] / column.transform.deviation, "norm").statistic < 0.036


def test_a_target_whose_numbers_do_not_repeat_is_an_amount():
    assert column([310, 75, 141, 206, 97, 60], label=True)[0].type == "integer"
    assert column([0, 1, 2, 0, 1, 2], label=True)[0].type == "category"


UNITS = {"s": ["1D", "1h", "1min", "1s"], "ms": ["1D", "1s", "1ms"], "us": ["1h", "1s", "1ms", "1us"]}
UNITS["ns"] = ["1D", "1min", "1s", "1ms", "1us", "1ns"]


@pytest.mark.parametrize(("unit", "step"), [(unit, step) for unit, steps in UNITS.items() for step in steps])
def test_new_times_have_the_steps_of_stored_ones(unit, step):
    first, step = pd.Timestamp("2021-03-01 05:06:07"), pd.Timedelta(step)
    stored = pd.Series([first + i * step for i in (0, 3, 10, 21, 40)], name="x").dt.as_unit(unit)
    fitted, _ = fit_column(stored, Source())
    assert fitted.cells(fitted.features(stored)).tolist() == stored.tolist()
    new = fitted.cells(np.linspace(-1.5, 1.5, 60)[:, None])
    assert new.dtype == stored.dtype
    assert {(time - first) % step for time in new} == {pd.Timedelta(0)}
    assert len(set(new)) > 20


def test_new_times_in_nanoseconds_stay_within_what_pandas_can_hold():
    times = [pd.Timestamp(text) for text in ("1950-03-01", "2021-03-01 10:00:01", "2100-04-01")]
    stored = pd.Series(times, name="x").dt.as_unit("ns")
    fitted, _ = fit_column(stored, Source())
    low, high = fitted.cells(np.array([[-1e9], [1e9]]))
    assert pd.Timestamp.min <= low < pd.Timestamp.min + pd.Timedelta("2.1s")
    assert pd.Timestamp.max - pd.Timedelta("2.1s") < high <= pd.Timestamp.max


def test_a_message_on_dates_counts_missing_cells_too():
    with pytest.raises(InputError, match=r"^t\.csv, line 5, column 'when': dates are in two formats"):
        fit_column(pd.Series(["2021-03-01", None, None, "03/04/2021"], name="when"), Source("t.csv", (2, 3, 4, 5)))


def test_categories_are_listed_in_their_own_order():
    cells = pd.Categorical(["low", "high", "mid", "low"], categories=["low", "mid", "high"])
    with pytest.raises(InputError, match="It has low, mid, high"):
        column(cells)[0].condition("none")


def test_two_spellings_of_a_truth_are_categories():
    assert column(["Yes", "yes", "no"] * 5)[0].type == "category"
    assert column(["yes", "no"] * 5)[0].type == "boolean"


def test_small_whole_numbers_stay_within_their_dtype():
    cells = np.array([-100, 0, 20, 90, 126], dtype=np.int8)
    new = column(cells)[0].cells(np.array([[-30.0], [30.0]]))
    assert (new.dtype, new.tolist()) == (np.int8, [-128, 127])


def test_amounts_in_texts_are_numbers():
    cells = pd.Series(["$1,200.50", None, "$3.00", "$17.25"], name="x", dtype="str")
    fitted, note = fit_column(cells, Source())
    assert fitted.type == "numeric"
    assert note == ": cells such as $1,200.50 are read as numbers, and new ones are written the same way"
    np.testing.assert_array_equal(fitted.numbers(cells), [1200.5, np.nan, 3.0, 17.25])
    assert fitted.cells(fitted.features(cells.dropna())).tolist() == ["$1,200.50", "$3.00", "$17.25"]


def test_cells_are_the_objects_that_pandas_gives():
    times = pd.Series(pd.to_datetime(["2021-03-01 10:15", "2021-03-02 11:30"])).dt.as_unit("ns")
    for cells in (times, pd.Series([1, None], dtype="Int64"), pd.Series(["a", None], dtype="category")):
        assert pd.Series(Cells.of(cells.rename("x")).objects, dtype=cells.dtype).equals(cells)
    assert Cells.of(times.rename("x")).objects[1] == pd.Timestamp("2021-03-02 11:30")


def test_a_column_of_objects_stays_one():
    cells = pd.Series(["a", None, "b"], dtype="object", name="x")
    pd.testing.assert_series_equal(Cells.of(cells).series, cells)
    present = Cells.of(cells).present.series
    assert (present.dtype, present.index.tolist()) == (object, [0, 2])


def test_nanoseconds_of_more_than_292_years_are_preserved():
    """Differences of such times are no 64-bit integers."""
    dates = [date(1700, 1, 1), date(1850, 6, 15), date(2010, 3, 2), date(2250, 12, 31), date(1990, 1, 1)]
    days = pd.to_datetime([str(day) for day in dates]).as_unit("ns")
    codec = TableCodec.fit(pd.DataFrame({"day": days, "x": np.arange(5.0)}))
    column = codec.columns[0]
    assert column.date_scale.step == 86_400 * 10**9
    assert column.numbers(Cells.of(codec.stored["day"])).tolist() == [(day - dates[0]).days for day in dates]
    pd.testing.assert_series_equal(codec.decode(codec.encode(codec.stored), np.arange(5))["day"], codec.stored["day"])


@pytest.mark.parametrize(
    ("unit", "times", "step"),
    [
        ("s", [1, 86_401, 172_801], 86_400),
        ("s", [0, 7_200, 3_600], 3_600),
        ("s", [30, 90, 630], 60),
        ("ms", [7, 1_007, 4_007], 1_000),
        ("us", [1_000, 3_000, 8_000], 1_000),
        ("ns", [3_000_000, 5_000_000, 12_000_000], 1_000_000),
        ("ns", [3_000, 5_000, 12_000], 1_000),
        ("ns", [1, 4, 9], 1),
    ],
)
def test_times_are_counted_in_the_longest_steps_that_reach_all_of_them(unit, times, step):
    stamps = pd.Series(np.array(times).astype(f"M8[{unit}]"), name="x")
    clock = column(stamps)[0].date_scale
    assert (clock.origin, clock.step) == (min(times), step)
    np.testing.assert_array_equal(clock.numbers(stamps), (np.array(times) - min(times)) / step)
    assert clock.series(clock.numbers(stamps)).tolist() == stamps.tolist()


def weights(n, *others):
    """n different weights, the last of them other texts."""
    return [f"{60 + i * 7 % n / 4}" for i in range(n - len(others))] + list(others)


@pytest.mark.parametrize(
    ("cells", "type", "note"),
    [
        (weights(10, "7o.5"), "id", "; one of its cells is not a number ('7o.5' in row 10): correct or empty it"),
        (
            weights(10, "x", "y"),
            "id",
            "; 2 of its cells are not numbers (such as 'x' in row 9): correct or empty these",
        ),
        (weights(9, "x", "y"), "id", ""),  # more than one in five are texts
        ([*("70,5", "3,5") * 20, "x" * 40, None, "70,5"], "category", f"('{'x' * 30}' in row 41): correct or empty it"),
        (
            [None, "1", "x", "3", "2"] * 2 + ["1", "3", "2"] * 9,
            "category",
            "(such as 'x' in row 3): correct or empty these",
        ),
        ([None, "1", "x", "3", "2"] * 3 + ["1", "3", "2"] * 9, "category", ""),  # three cells may be a class
        (["3", "2", "x", "1"], "id", ""),
        (["007", "012", "003"] * 9, "category", ""),  # all are numbers
    ],
)
def test_notes_name_few_cells_that_keep_a_column_from_being_numbers(cells, type, note):
    fitted, said = column(pd.Series(cells, dtype="str"))
    assert fitted.type == type
    assert said.endswith(note) if note else "number" not in said
    assert ("is read as categories; " in said) == (type == "category" and bool(note))


def test_the_line_of_a_cell_that_is_not_a_number_is_named(tmp_path):
    rows = "".join(f"{i},{'' if i == 3 else 'six' if i in (7, 11) else 60.5 + i}\n" for i in range(20))
    (tmp_path / "t.csv").write_text(f"n,weight\n{rows}")
    with pytest.raises(InputError) as error:
        TableCodec.read(tmp_path / "t.csv", TableOptions(columns={"weight": "numeric"}))
    assert str(error.value).endswith(
        "t.csv, line 9, column 'weight': 'six' is not a number, and 1 more of its cells are not either: it cannot be "
        "read as numeric. Correct or empty such cells, or set another type with columns."
    )
    codec = TableCodec.read(tmp_path / "t.csv")
    assert any(
        "2 of its cells are not numbers (such as 'six' in line 9): correct or empty" in one for one in codec.notes
    )
    with pytest.raises(InputError, match="row 2, column 'x': 'b' is not a number: it cannot be read as integer"):
        column(pd.Series(["1", "b", "3"], name="x"), type=ColumnType.INTEGER)
    with pytest.raises(InputError, match=r"column 'x': cannot be read as numeric: it holds .*, not numbers"):
        column(pd.Series(["a", "b", "c"], name="x"), type=ColumnType.NUMERIC)


@pytest.mark.parametrize(
    ("cells", "type"),
    [
        (["1", "2", "x"] * 5, "category"),
        (np.arange(600) * 7 % 600, "integer"),
        (np.arange(600) * 7 % 600 / 8, "numeric"),
        ([1, 2**53 - 1, 5], "integer"),
        (["2024-01-01", "2024-02-01", "2024-01-15"], "date"),
        ([3.0, 1.0, 2.0, 1.0], "id"),
        (["b", "a", "b"], "boolean"),
    ],
)
def test_types_that_cells_fit_can_be_set(cells, type):
    assert column(cells, type=type)[0].type == type


@pytest.mark.parametrize(
    ("cells", "type", "said"),
    [
        ([1, 2**53, 5], "integer", "over 15 digits"),
        ([3.0, 1.5, 2.0], "id", "identifiers are strings or integers"),
        ([1, 2, 3], "boolean", "holds 3 distinct values, not two"),
    ],
)
def test_types_that_cells_do_not_fit_are_refused(cells, type, said):
    with pytest.raises(InputError, match=said):
        column(cells, type=type)


def test_decimals_of_narrow_floats_are_those_that_they_print():
    fitted, _ = column(np.array([0.1, 0.7, 1.3, 2.6, 3.1] * 4, dtype=np.float32) + np.arange(20, dtype=np.float32))
    assert fitted.transform.decimals == 1


def test_the_least_and_the_largest_stored_value_must_lie_in_the_range():
    cells = np.arange(20.0) + 0.5
    for limits, message in (((1.0, None), "outside the range 1 to"), ((None, 19.0), "to 19")):
        with pytest.raises(InputError, match=f"stored values run from 0.5 to 19.5, .*{message}"):
            column(cells, limits=limits)
