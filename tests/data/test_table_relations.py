"""Relations between columns: found with a guard against chance, stated as texts, kept in new rows and conditions."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn.data import InputError
from stochattn.data.tables.cells import Cells, cells_of
from stochattn.data.tables.relation_conditions import _implied, given_relations
from stochattn.data.tables.relation_search import MIN_ROWS, _orders, _sums
from stochattn.data.tables.relations import ColumnFunction, ColumnOrder, ColumnSum, amounts, enforce, largest_error


def bills(n=120, seed=0):
    """Numbers with a sum and an order, and codes of towns in lands."""
    rng = np.random.default_rng(seed)
    code = rng.integers(4, size=n)
    frame = pd.DataFrame({"net": rng.gamma(3, 50, n).round(2), "tax": rng.gamma(2, 10, n).round(2)})
    frame["gross"] = (frame["net"] + frame["tax"]).round(2)
    frame["low"] = rng.normal(80, 12, n).round().astype(int)
    frame["high"] = frame["low"] + rng.integers(0, 40, n)
    frame["code"] = np.array(["A", "B", "C", "D"])[code]
    frame["town"] = np.array(["Oslo", "Bergen", "Rome", "Paris"])[code]
    frame["land"] = np.array(["N", "N", "I", "F"])[code]
    return frame


@pytest.fixture(scope="module")
def synth():
    return sa.fit(bills(), "table")


def broken(rows):
    """How many rows break the sum, the order and the two functions."""
    pairs = [rows[["code", name]].drop_duplicates() for name in ("town", "land")]
    return (
        int(((rows["net"] + rows["tax"] - rows["gross"]).abs() > 1e-6).sum()),
        int((rows["low"] > rows["high"]).sum()),
        sum(len(pair) - pair["code"].nunique() for pair in pairs),
    )


def test_relations_are_found_and_reported(synth):
    amounts = (ColumnSum("gross", ("net", "tax")), ColumnOrder("low", "high"))
    functions = (ColumnFunction("code", "town", both_ways=True), ColumnFunction("code", "land"))
    assert synth.codec.relations == (*amounts, *functions)
    assert "gross = net + tax, low <= high, code <-> town, code -> land" in synth.codec.notes[-1]


def test_new_rows_meet_them_and_would_not_without(synth):
    assert broken(synth.sample(2000, rng=0)) == (0, 0, 0)
    free = sa.fit(bills(), "table", constraints=["none"], classes="pooled")
    assert free.codec.relations == ()
    sums, orders, functions = broken(free.sample(2000, rng=0))
    assert sums > 1000
    assert orders > 20
    assert functions > 2  # pairs that no stored row has


def test_independent_columns_have_none():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(40, 6)).round(2), columns=list("abcdef"))
    frame["far"] = frame["a"] + rng.uniform(100, 200, 40)  # larger than all others, whatever the row
    frame["kind"], frame["sort"] = rng.choice(["x", "y", "z"], 40), rng.choice(["u", "v"], 40)
    assert sa.fit(frame, "table").codec.relations == ()
    few = bills(12)
    assert sa.fit(few, "table").codec.relations == ()


def test_conditions_on_columns_that_others_determine(synth):
    assert set(synth.condition(town="Rome").sample(50, rng=0)["code"]) == {"C"}
    rows = synth.condition(land="N", low=70).sample(80, rng=0)
    assert set(rows["town"]) == {"Oslo", "Bergen"}
    assert (rows["low"] == 70).all()
    assert broken(rows) == (0, 0, 0)
    assert (synth.condition(high=60).sample(50, rng=0)["low"] <= 60).all()
    rows = synth.condition(low=sa.Range(le=70), high=sa.Range(ge=75)).sample(40, rng=0)
    assert ((rows["low"] <= 70) & (rows["high"] >= 75)).all()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"gross": 200}, "the column is gross = net \\+ tax. Condition on 'net' and 'tax'"),
        ({"low": 90, "high": 80}, "rows must also meet low <= high"),
        ({"low": sa.Range(le=90), "high": sa.Range(ge=80)}, "Condition on one of the two, or narrow both"),
        ({"town": "Rome", "code": "A"}, "no value that also meets"),
        ({"land": "X"}, "has no such value"),
    ],
)
def test_conditions_that_contradict_a_relation_are_refused(synth, values, said):
    with pytest.raises(InputError, match=said):
        synth.condition(values)


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        ("low <= hight", "names 'hight', which is not a modelled column. Did you mean 'high'"),
        ("high <= low", "'high <= low' does not hold in the data: row 1 has high"),
        ("gross = net", "does not hold in the data"),
        ("gross", "must have the form c = a \\+ b, a <= b"),
        ("low -> code", "'low' must hold categories, and is integer"),
        ("low <= town", "'town' must hold numbers or dates, and is category"),
        ("low <= low", "names a column twice"),
    ],
)
def test_constraints_that_are_wrong_are_refused(constraint, said):
    with pytest.raises(InputError, match=said) as error:
        sa.fit(bills(), "table", constraints=[constraint])
    assert "\n" not in str(error.value)


def test_constraints_are_the_ones_that_are_stated():
    synth = sa.fit(bills(), "table", constraints=["high >= low", "gross = net + tax"])
    assert synth.codec.relations == (ColumnOrder("low", "high"), ColumnSum("gross", ("net", "tax")))
    assert broken(synth.sample(500, rng=0))[:2] == (0, 0)
    strict = sa.fit(bills().assign(high=lambda x: x["high"] + 1), "table", constraints=["low < high"])
    rows = strict.sample(500, rng=0)
    assert (rows["low"] < rows["high"]).all()
    with pytest.raises(InputError, match="must be a list of texts"):
        sa.fit(bills(), "table", constraints="low <= high")
    with pytest.raises(InputError, match="must be a list of texts"):
        sa.fit(bills(), "table", constraints=5)


def test_a_saved_synthesizer_keeps_them(synth, tmp_path):
    synth.save(tmp_path / "bills.synth")
    loaded = sa.load(tmp_path / "bills.synth")
    assert loaded.codec.relations == synth.codec.relations
    pd.testing.assert_frame_equal(loaded.sample(40, rng=2), synth.sample(40, rng=2))


def test_dates_are_ordered_and_missing_cells_stay():
    rng = np.random.default_rng(3)
    start = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 400, 150), unit="D")
    frame = pd.DataFrame({"start": start, "end": start + pd.to_timedelta(rng.integers(0, 30, 150), unit="D")})
    frame.loc[::7, "end"] = pd.NaT
    frame["cost"] = rng.normal(5, 1, 150).round(1)
    synth = sa.fit(frame, "table")
    assert synth.codec.relations == (ColumnOrder("start", "end"),)
    rows = synth.sample(600, rng=0)
    assert 0.05 < rows["end"].isna().mean() < 0.25
    assert not (rows["start"] > rows["end"]).any()


def test_a_column_that_one_relation_determines_is_in_no_other():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"d": rng.gamma(2, 10, 150).round(1), "a": rng.gamma(3, 5, 150).round(1)})
    frame["b"] = rng.gamma(2, 7, 150).round(1)
    frame["c"] = (frame["a"] + frame["b"]).round(1)
    frame["e"] = (frame["c"] + frame["d"]).round(1)
    synth = sa.fit(frame[["d", "c", "e", "a", "b"]], "table")
    (one,) = (one for one in synth.codec.relations if isinstance(one, ColumnSum))
    rows = synth.sample(500, rng=0)
    assert (rows[list(one.terms)].sum(axis=1) - rows[one.total]).abs().max() < 1e-6
    orders = [one for one in synth.codec.relations if isinstance(one, ColumnOrder)]
    assert all(one.total not in order.names for order in orders)
    for texts in (["e = c + d", "c = a + b"], ["c = a + b", "c <= e"], ["c = a + b", "e = c + d"]):
        with pytest.raises(InputError, match=r"'c = a \+ b' determines 'c', which '.*' names too. Leave one"):
            sa.fit(frame, "table", constraints=texts)


def levels(n=200):
    """Three columns in order, of which the middle one has decimals, and dates in two units."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"lo": rng.normal(0, 2, n).round(2)})
    frame["mid"] = (frame["lo"] + rng.exponential(0.5, n)).round(2)
    frame["hi"] = np.ceil(frame["mid"]).astype(int)
    start = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")
    frame["start"] = start.astype("datetime64[ns]")
    frame["end"] = (start + pd.to_timedelta(rng.integers(0, 20, n), unit="D")).astype("datetime64[s]")
    return frame


def test_chains_of_orders_hold_and_rounding_does_not_break_them():
    synth = sa.fit(levels(), "table", constraints=["lo <= mid", "mid <= hi", "start <= end"])
    for given in (synth, synth.condition(lo=1.21), synth.condition(hi=1), synth.condition(lo=-1.0, hi=2)):
        rows = given.sample(300, rng=0)
        assert (rows["lo"] <= rows["mid"]).all()
        assert (rows["mid"] <= rows["hi"]).all()
        assert (rows["start"] <= rows["end"]).all()


def test_conditions_must_meet_orders_that_follow_from_others():
    synth = sa.fit(levels(), "table", constraints=["lo <= mid", "mid <= hi", "start <= end"])
    with pytest.raises(InputError, match="rows must also meet lo <= hi"):
        synth.condition(lo=1.0, hi=0)
    rows = synth.condition(start="2020-03-01", end="2020-03-09").sample(5, rng=0)
    assert set(rows["end"]) == {pd.Timestamp("2020-03-09")}
    with pytest.raises(InputError, match="rows must also meet start <= end"):
        synth.condition(start="2020-03-09", end="2020-03-01")


def test_sums_of_narrow_whole_numbers_are_not_kept():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.integers(0, 127, (150, 2)).astype(np.uint8), columns=["a", "b"])
    frame["c"] = (frame["a"] + frame["b"]).astype(np.uint8)
    assert not any(isinstance(one, ColumnSum) for one in sa.fit(frame, "table").codec.relations)


@pytest.mark.parametrize("condition", [{}, {"a": 50}])
def test_a_range_of_a_total_holds_for_sums_of_new_rows(condition):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 60, 150)
    frame = pd.DataFrame({"a": a, "b": rng.integers(0, 101 - a), "x": rng.normal(size=150).round(2)})
    frame["total"] = frame["a"] + frame["b"]
    free = sa.fit(frame, "table").condition(condition).sample(1000, rng=0)
    assert (free["total"] > 100).any()  # sums of new terms pass it where no range is given
    new = sa.fit(frame, "table", ranges={"total": (0, 100)}).condition(condition).sample(1000, rng=0)
    assert new["total"].max() <= 100
    assert (new["a"] + new["b"] == new["total"]).all()
    assert new[["a", "b"]].min().min() >= 0
    assert (new["a"] == 50).all() == bool(condition)


# Each function by itself


def columns_of(frame, **options):
    """The columns of a table by name, and its cells."""
    codec = sa.fit(frame, "table", **options).codec
    cells = {name: Cells(name, frame[name].array) for name in frame}
    return {column.name: column for column in codec.columns}, cells


def test_dates_are_compared_in_seconds():
    days = pd.Series(pd.date_range("2024-01-01", periods=40, freq="D"))
    frame = pd.DataFrame({"begin": days, "end": (days + pd.Timedelta("90min")).astype("datetime64[ms]")})
    columns, cells = columns_of(frame)
    for name in frame:
        expected = [stamp.timestamp() for stamp in frame[name].dt.tz_localize("UTC")]
        np.testing.assert_allclose(amounts(columns[name], cells[name]), expected, rtol=1e-12)


def test_a_sum_may_be_off_by_the_rounding_of_its_largest_number():
    columns = dict.fromkeys("abct", SimpleNamespace(numbers=np.asarray, transform=None))
    table = {"a": [0.1, 1e6, 1.0], "b": [0.2, 1e-4, 1.0], "c": [0.0, 0.0, 0.0], "t": [0.3, 1e6, 2.1]}
    assert ColumnSum("t", ("a", "b", "c")).broken(columns, table).tolist() == [False, False, True]


@pytest.mark.parametrize(("n", "found"), [(MIN_ROWS, True), (MIN_ROWS - 1, False)])
def test_sums_need_some_rows(n, found):
    """Large numbers with cents, and a zero among them."""
    rng = np.random.default_rng(0)
    a, b = rng.gamma(3, 5e5, (2, n)).round(2)
    b[0] = 0.0
    numbers = {"a": a, "other": rng.gamma(3, 5e5, n), "b": b, "total": (a + b).round(2)}
    assert _sums(numbers, [0.0049] * len(numbers)) == ([ColumnSum("total", ("a", "b"))] if found else [])
    numbers["total"][1] += 0.01
    assert _sums(numbers, [0.0049] * len(numbers)) == []


def test_orders_that_follow_from_others_are_strict_if_one_of_these_is():
    for first, second in ((True, False), (False, True), (True, True), (False, False)):
        found = _implied([ColumnOrder("a", "b", first), ColumnOrder("b", "c", second)])
        assert ColumnOrder("a", "c", first or second) in found
        assert len(found) == 3


def test_conditions_on_what_is_determined_become_conditions_on_what_determines_it(synth):
    assert given_relations(synth.codec, {"town": "Rome", "low": 70}) == {"code": "C", "low": 70}
    assert given_relations(synth.codec, {"land": "N"}) == {"code": {"A", "B"}}


def test_orders_are_restored_until_all_hold():
    """From 3, 2, 1, which takes more than one pass."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.sort(rng.integers(0, 900, (60, 3)), axis=1), columns=list("abc"))
    columns, _ = columns_of(frame)
    cells = {name: frame[name].array[:2].copy() for name in "abc"}
    for name, value in zip("abc", (300, 200, 100), strict=True):
        cells[name][0] = value
    kept = {name: cells[name][1] for name in "abc"}
    enforce([ColumnOrder("b", "c"), ColumnOrder("a", "b")], columns, frame, cells, set())
    assert [cells[name][0] for name in "abc"] == [100, 200, 300]
    assert {name: cells[name][1] for name in "abc"} == kept


def test_strict_orders_move_numbers_without_decimals_by_little():
    rng = np.random.default_rng(0)
    low = rng.normal(size=60)
    frame = pd.DataFrame({"low": low, "high": low + rng.gamma(1, 1, 60)})
    columns, _ = columns_of(frame)
    cells = {name: frame["low"].array[:3].copy() for name in frame}
    enforce([ColumnOrder("low", "high", strict=True)], columns, frame, cells, set())
    gaps = np.asarray(cells["high"]) - np.asarray(cells["low"])
    assert (gaps > 0).all()
    assert (gaps < 1e-6).all()


def test_what_is_determined_is_looked_up_where_it_is_not_missing():
    frame = bills()
    columns, _ = columns_of(frame[["code", "town"]])
    cells = {name: pd.array(values, dtype=frame[name].dtype) for name, values in
             {"code": ["C", "A", "D"], "town": ["Oslo", None, "Paris"]}.items()}  # fmt: skip
    enforce([ColumnFunction("code", "town")], columns, frame, cells, set())
    assert [None if pd.isna(town) else town for town in cells["town"]] == ["Rome", None, "Paris"]
    assert list(cells["code"]) == ["C", "A", "D"]


@pytest.mark.parametrize(("shift", "found"), [(6, True), (7, False)])
def test_orders_that_chance_makes_in_one_of_a_hundred_tables_are_not_found(shift, found):
    """a is 0 to 19, and b = a + s. Of the pairs of rows (i, j), m (m + 1) / 800 have a_i > b_j, with m = 19 − s."""
    a = np.arange(20.0)
    chance = (1 - (19 - shift) * (20 - shift) / 800) ** 20
    assert 0.002 < chance < 0.025
    columns = [SimpleNamespace(name=name, clock=None) for name in "ab"]
    assert (chance < 0.01) == found
    assert _orders(columns, {"a": a, "b": a + shift}, []) == ([ColumnOrder("a", "b")] if found else [])


def codes(n=40):
    """Letters of which two rows each have the same, in five towns, of which one is abroad."""
    rows = np.arange(n)
    letters = [f"{'abcde'[i % 5]}{'uvwx'[i // 5]}" for i in rows % (n // 2)]
    towns = np.array(["Oslo", "Bergen", "Rome", "Paris", "Graz"])[rows % 5]
    return pd.DataFrame({"code": letters, "town": towns, "abroad": towns == "Graz", "x": rows * 7 % n / 8})


def test_a_column_that_another_one_determines_determines_none_itself():
    """The town also determines whether it is abroad; code does too, with too few rows each to rule out chance."""
    frame = codes()
    assert sa.fit(frame, "table", columns={"code": "category"}).codec.relations == (ColumnFunction("code", "town"),)
    assert sa.fit(frame.drop(columns="code"), "table").codec.relations == (ColumnFunction("town", "abroad"),)


def test_functions_need_some_rows():
    frame = bills(MIN_ROWS)[["code", "town", "net"]]
    assert sa.fit(frame, "table").codec.relations == (ColumnFunction("code", "town", both_ways=True),)
    frame.loc[3, "town"] = None
    assert sa.fit(frame, "table").codec.relations == ()


@pytest.mark.parametrize(("n", "found"), [(60, 59), (61, 0)])
def test_functions_are_searched_among_at_most_60_columns_of_categories(n, found):
    letters = np.array(["a", "b", "c"])[np.arange(24) % 3]
    frame = pd.DataFrame({f"c{i}": letters for i in range(n)})
    assert len(sa.fit(frame, "table").codec.relations) == found


def test_relations_between_columns_of_which_one_is_constant_in_some_rows_are_left_out_for_these():
    frame = bills()
    frame.loc[:59, "tax"] = 5.0
    frame["gross"] = (frame["net"] + frame["tax"]).round(2)
    frame.loc[:59, ["code", "town", "land"]] = ["A", "Oslo", "N"]
    synth = sa.fit(frame, "table")
    assert len(synth.codec.relations) == 4
    half = synth.refit(np.arange(60))
    assert half.codec.relations == (ColumnOrder("low", "high"),)
    assert half.sample(20, rng=0).shape == (20, 8)
    assert synth.refit(np.arange(30, 120)).codec.relations == synth.codec.relations


def counted(values, **limits):
    """Columns of whole numbers by name, with stored values each, and ranges that they must keep."""
    frame = pd.DataFrame(values)
    return columns_of(frame, ranges=limits, columns=dict.fromkeys(frame, "integer"), constraints=["none"])[0], frame


@pytest.mark.parametrize(
    ("cells", "conditioned", "expected"),
    [
        ((48, 72), (), (36, 54)),  # 30 too many: each term goes a quarter of its way to zero
        ((42, 64), ("a",), (42, 48)),
        ((30, 60), (), (30, 60)),
        ((0, 10), (), (10, 20)),  # 20 too few: each goes an eighth of its way to 80 or 90
        ((0, 10), ("b",), (20, 10)),
        ((12, 18), (), (12, 18)),
        ((60, 95), ("b",), (0, 95)),  # cannot be met: the term goes all the way
    ],
)
def test_terms_move_by_the_same_share_of_their_ways_until_their_total_is_in_its_range(cells, conditioned, expected):
    values = {"a": np.linspace(0, 80, 41), "b": np.linspace(0, 90, 41), "t": np.linspace(30, 90, 41)}
    columns, frame = counted({name: one.astype(int) for name, one in values.items()}, t=(30, 90))
    new = {name: frame[name].array[:1].copy() for name in frame}
    new["a"][0], new["b"][0] = cells
    enforce([ColumnSum("t", ("a", "b"))], columns, frame, new, set(conditioned))
    assert (new["a"][0], new["b"][0]) == expected
    assert new["t"][0] == sum(expected)


def test_ranges_of_numbers_that_are_codes_select_the_rows_that_determine_them():
    sizes = np.array([0.5, 1.0, 2.0, 1.0])[np.arange(80) % 4]
    frame = pd.DataFrame(
        {"code": np.array(list("ABCD"))[np.arange(80) % 4], "size": sizes, "x": np.arange(80) * 7 % 80}
    )
    synth = sa.fit(frame, "table")
    assert synth.codec.relations == (ColumnFunction("code", "size"),)
    assert given_relations(synth.codec, {"size": sa.Range(ge=0.8)}) == {"code": {"B", "C", "D"}}
    assert given_relations(synth.codec, {"size": [0.5, 2.0]}) == {"code": {"A", "C"}}
    with pytest.raises(InputError, match="has no such value"):
        given_relations(synth.codec, {"size": [0.5, 3.0]})


def test_strict_orders_refuse_conditions_that_meet():
    frame = bills().assign(high=lambda x: x["high"] + 1)
    strict, usual = (sa.fit(frame, "table", constraints=[f"low {sign} high"]) for sign in ("<", "<="))
    assert set(usual.condition(low=80, high=80).sample(5, rng=0)["high"]) == {80}
    assert set(strict.condition(low=80, high=81).sample(5, rng=0)["high"]) == {81}
    with pytest.raises(InputError, match="rows must also meet low < high"):
        strict.condition(low=80, high=80)


@pytest.mark.parametrize("text", ["low <=", "<= high", "low <= high <= gross", "-> code", ""])
def test_constraints_name_columns_on_both_sides_of_one_sign(text):
    with pytest.raises(InputError, match="must have the form c = a"):
        sa.fit(bills(), "table", constraints=[text])


def test_names_with_plus_signs_are_terms_of_sums():
    frame = bills().rename(columns={"net": "a+b", "gross": "total"})
    synth = sa.fit(frame, "table", constraints=["total = a+b + tax"])
    assert synth.codec.relations == (ColumnSum("total", ("a+b", "tax")),)
    frame = frame.assign(copy=frame["a+b"])
    assert sa.fit(frame, "table", constraints=["copy = a+b"]).codec.relations == (ColumnSum("copy", ("a+b",)),)
    tight = bills()[["net", "tax", "gross"]]
    assert sa.fit(tight, "table", constraints=["gross=net+tax"]).codec.relations == (
        ColumnSum("gross", ("net", "tax")),
    )


def test_sums_of_dates_are_refused():
    frame = levels()[["start", "end", "lo"]]
    with pytest.raises(InputError, match="'end' must hold numbers, and is date"):
        sa.fit(frame, "table", constraints=["end = start + lo"])
    assert sa.fit(frame, "table", constraints=["end >= start"]).codec.relations == (ColumnOrder("start", "end"),)


@pytest.mark.parametrize(("offset", "expected"), [(10**15, []), (0, ["b = a + age"])])
def test_sums_are_exact_to_the_last_decimal_of_large_numbers(offset, expected):
    """Of identifiers near 1e15, a billionth is larger than all ages."""
    rng = np.random.default_rng(0)
    a, age = offset + rng.integers(10**5, 10**6, 60), rng.integers(20, 80, 60)
    b = a + (rng.integers(1, 9, 60) if offset else age)
    frame = pd.DataFrame({"a": a, "b": b, "age": age})
    found = sa.fit(frame, "table", columns=dict.fromkeys(frame, "integer")).codec
    assert [str(one) for one in found.relations if isinstance(one, ColumnSum)] == expected
    broken = ColumnSum("b", ("a", "age")).broken(found.by_name, cells_of(found.stored))
    assert broken.any() == bool(offset)


def test_the_error_of_a_sum_is_below_half_of_the_last_decimal():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"cents": rng.gamma(3, 50, 60).round(2), "real": rng.normal(size=60), "sex": ["f", "m"] * 30})
    found = [largest_error(column) for column in sa.fit(frame, "table").codec.columns]
    assert found == [pytest.approx(0.0049), np.inf, np.inf]
