"""Relations between columns: found with a guard against chance, stated as texts, kept in new rows and conditions."""

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn.kinds import InputError
from stochattn.kinds.codec import Range
from stochattn.kinds.tables.columns.cells import Cells, cells_of
from stochattn.kinds.tables.conditions import _close_orders, resolve_relations
from stochattn.kinds.tables.relations.discovery import MIN_ROWS, _find_sums, discover_relations, log_chance_of_order
from stochattn.kinds.tables.relations.relations import (
    ColumnFormula,
    ColumnFunction,
    ColumnOrder,
    ColumnSum,
    enforce,
    largest_error,
    read_amounts,
)


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
        ("low <= hight", "names 'hight', which is not a modeled column. Did you mean 'high'"),
        ("high <= low", "'high <= low' does not hold in the data: row 1 has high"),
        ("gross = net", "does not hold in the data"),
        ("gross", "must have the form c = a \\+ b, c = a / b, "),
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
    with pytest.raises(InputError, match="must be a list of strings"):
        sa.fit(bills(), "table", constraints="low <= high")
    with pytest.raises(InputError, match="must be a list of strings"):
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
        np.testing.assert_allclose(read_amounts(columns[name], cells[name]), expected, rtol=1e-12)


def test_a_sum_may_be_off_by_the_rounding_of_its_largest_number():
    column = SimpleNamespace(numbers=np.asarray, ranks=SimpleNamespace(decimals=None), grid=(0, 1, 1))
    columns = dict.fromkeys("abct", column)
    table = {"a": [0.1, 1e6, 1.0], "b": [0.2, 1e-4, 1.0], "c": [0.0, 0.0, 0.0], "t": [0.3, 1e6, 2.1]}
    assert ColumnSum("t", ("a", "b", "c")).broken(columns, table).tolist() == [False, False, True]


@pytest.mark.parametrize(("n", "found"), [(MIN_ROWS, True), (MIN_ROWS - 1, False)])
def test_sums_need_some_rows(n, found):
    """Large numbers with cents, and a zero among them."""
    rng = np.random.default_rng(0)
    a, b = rng.gamma(3, 5e5, (2, n)).round(2)
    b[0] = 0.0
    numbers = {"a": a, "other": rng.gamma(3, 5e5, n), "b": b, "total": (a + b).round(2)}
    assert _find_sums(numbers, [0.0049] * len(numbers)) == ([ColumnSum("total", ("a", "b"))] if found else [])
    numbers["total"][1] += 0.01
    assert _find_sums(numbers, [0.0049] * len(numbers)) == []


def test_orders_that_follow_from_others_are_strict_if_one_of_these_is():
    for first, second in ((True, False), (False, True), (True, True), (False, False)):
        found = _close_orders([ColumnOrder("a", "b", first), ColumnOrder("b", "c", second)])
        assert ColumnOrder("a", "c", first or second) in found
        assert len(found) == 3


def test_conditions_on_what_is_determined_become_conditions_on_what_determines_it(synth):
    assert resolve_relations(synth.codec, {"town": "Rome", "low": 70}) == {"code": "C", "low": 70}
    assert resolve_relations(synth.codec, {"land": "N"}) == {"code": {"A", "B"}}


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


@pytest.mark.parametrize("ties", [False, True])
def test_the_chance_of_an_order_is_its_share_of_all_permutations(ties):
    low, high = (np.array(one, dtype=float) for one in ([1, 2, 2, 4, 6], [3, 2, 5, 9, 6] if ties else [3, 2, 5, 9, 7]))
    kept = [np.all(low <= high[list(order)]) for order in permutations(range(5))]
    assert np.exp(log_chance_of_order(low, high)) == pytest.approx(np.mean(kept))


def growth(n=200):
    """Columns that grow together without an order that holds by definition, and two of which one bounds the other."""
    rng = np.random.default_rng(0)
    size = np.sort(rng.normal(100, 30, n))
    prices, people = size + rng.normal(0, 1, n), 1.4 * size + rng.normal(45, 6, n)
    held = rng.integers(20, 90, n)
    frame = {
        "prices": prices,
        "people": people,
        "held": held,
        "used": held - rng.poisson(2, n),
        "other": rng.normal(size=n),
    }
    return pd.DataFrame(frame).round(1)


def test_an_order_between_columns_that_merely_grow_together_is_reported_and_not_enforced():
    codec = sa.fit(growth(), "table").codec
    assert codec.relations == (ColumnOrder("used", "held"),)
    assert any("prices <= people" in note and "may be chance" in note for note in codec.notes)
    assert not any("used <= held" in note and "may be chance" in note for note in codec.notes)


@pytest.mark.parametrize(
    ("low", "high", "enforced"),
    [("t_min", "t_max", True), ("MinPrice", "price", True), ("tstart", "tstop", True), ("Lower", "Upper", True),
     ("systolic", "diastolic", False), ("x1", "x2", False), ("flow", "fhigh", True), ("low", "up", False)],
)  # fmt: skip
def test_names_that_say_which_is_larger_make_an_order_certain(low, high, enforced):
    frame = growth()[["prices", "people"]].set_axis([low, high], axis=1)
    assert sa.fit(frame, "table").codec.relations == ((ColumnOrder(low, high),) if enforced else ())


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


def test_a_category_beside_many_distinct_numbers_is_searched_without_underflow():
    """A number with a share of 1 / 500 has a probability of zero in floats to be in all 170 rows of a grade."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"grade": rng.choice(["a", "b", "c"], 500), "platelets": rng.integers(50, 600, 500)})
    assert sa.fit(frame, "table").codec.relations == ()
    frame["code"] = frame["grade"].map({"a": 1, "b": 2, "c": 3})
    assert sa.fit(frame, "table").codec.relations == (ColumnFunction("grade", "code", both_ways=True),)


@pytest.mark.parametrize(("n", "found"), [(60, 59), (61, 0)])
def test_functions_are_searched_among_at_most_60_columns_of_categories(n, found):
    letters = np.array(["a", "b", "c"])[np.arange(24) % 3]
    frame = pd.DataFrame({f"c{i}": letters for i in range(n)})
    assert len(sa.fit(frame, "table").codec.relations) == found


def test_functions_are_searched_with_one_pass_over_the_cells_of_each_column():
    n_reads = 0

    class Cell(str):
        def __str__(self):
            nonlocal n_reads
            n_reads += 1
            return super().__str__()

        def __hash__(self):
            nonlocal n_reads
            n_reads += 1
            return super().__hash__()

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.choice(["a", "b", "c"], (100, 8)), columns=list("ABCDEFGH"))
    frame["H"] = frame["A"].map({"a": "x", "b": "y", "c": "x"})
    columns = sa.fit(frame, "table", trial=False).codec.columns
    cells = {name: pd.array(list(map(Cell, frame[name])), dtype=object) for name in frame}
    relations = discover_relations(columns, {name: Cells(name, cells[name]) for name in frame}, None)[0]
    assert relations == (ColumnFunction("A", "H"),)
    assert n_reads <= frame.size


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
    assert resolve_relations(synth.codec, {"size": sa.Range(ge=0.8)}) == {"code": {"B", "C", "D"}}
    assert resolve_relations(synth.codec, {"size": [0.5, 2.0]}) == {"code": {"A", "C"}}
    with pytest.raises(InputError, match="has no such value"):
        resolve_relations(synth.codec, {"size": [0.5, 3.0]})


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
    assert sa.fit(frame, "table", constraints=["copy = a+b"]).codec.relations == (ColumnFormula("copy", ("a+b",)),)
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
    frame = pd.DataFrame({"cents": rng.gamma(3, 50, 60).round(2), "real": rng.normal(size=60)})
    found = [largest_error(column) for column in sa.fit(frame, "table").codec.columns]
    assert found == [pytest.approx(0.0049), np.inf]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (lambda frame: {"rent_k": frame["rent"] / 1000}, "rent_k = 0.001 * rent"),
        (lambda frame: {"total_usd": 1.25 * frame["total"]}, "total_usd = 1.25 * total"),
        (lambda frame: {"log_rent": np.log(frame["rent"])}, "log_rent = log(rent)"),
    ],
)
def test_other_units_of_the_columns_of_a_sum_are_computed_from_them(other, expected):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"rent": rng.gamma(4, 200, 150).round(), "food": rng.gamma(3, 80, 150).round()})
    frame["total"] = frame["rent"] + frame["food"]
    frame = frame.assign(**other(frame))
    synth = sa.fit(frame, "table", trial=False)
    assert {str(one) for one in synth.codec.relations} == {"total = rent + food", expected}
    new = synth.sample(200, rng=0)
    np.testing.assert_allclose(new["rent"] + new["food"], new["total"], rtol=0)
    (name,) = other(frame)
    np.testing.assert_allclose(new[name], other(new)[name])


def test_of_two_units_one_has_the_sums():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.gamma(3, 100, (150, 2)).round(), columns=["rent", "food"])
    frame["total"] = frame["rent"] + frame["food"]
    synth = sa.fit(frame.join((frame / 1000).add_suffix("_k")), "table", trial=False)
    assert [str(one) for one in synth.codec.relations] == [
        "total = rent + food",
        *(f"{name}_k = 0.001 * {name}" for name in frame),
    ]


# Formulas


def units(n=200, seed=0):
    """Copies, units, logs, ratios and products beside what they are computed from, in two decimals or as in files."""
    rng = np.random.default_rng(seed)
    kg, cm = rng.normal(75, 12, n).round(1), rng.normal(172, 9, n).round()
    frame = pd.DataFrame({"kg": kg, "weight": kg, "cm": cm, "pounds": (kg / 0.45359237).round(1)})
    frame["bmi"] = (kg / (cm / 100) ** 2).round(1)
    unrounded = rng.normal(15, 8, n)  # both scales of a thermometer are rounded
    frame["celsius"], frame["fahrenheit"] = unrounded.round(1), (1.8 * unrounded + 32).round(1)
    frame["price"], frame["quantity"] = rng.gamma(3, 5, n).round(2), rng.integers(1, 30, n)
    frame["total"] = (frame["price"] * frame["quantity"]).round(2)
    frame["treated"], frame["control"] = rng.gamma(5, 2, (2, n)).round(2)
    frame["fold"] = frame["treated"] / frame["control"]
    frame["log_fold"] = np.log2(frame["fold"]).round(4)
    start = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 400, n), unit="D")
    frame["start"], frame["stop"] = start, start + pd.to_timedelta(rng.integers(0, 60, n), unit="D")
    frame["days"] = (frame["stop"] - frame["start"]).dt.days
    frame["due"] = frame["stop"] + pd.Timedelta("30D")
    return frame


FORMULAS = ("weight = kg", "pounds = 2.20462 * kg", "bmi = 10000 * kg / cm^2", "fahrenheit = 1.8 * celsius + 32",
            "total = price * quantity", "fold = treated / control", "log_fold = log2(fold)", "days = (stop - start)",
            "due = stop + 30 days")  # fmt: skip


@pytest.fixture(scope="module")
def measured():
    return sa.fit(units(), "table")


def test_copies_units_logs_ratios_and_products_are_found_and_hold_in_new_rows(measured):
    formulas = {str(one) for one in measured.codec.relations if isinstance(one, ColumnFormula)}
    assert formulas == set(FORMULAS)
    new = measured.sample(500, rng=0)
    assert (new["weight"] == new["kg"]).all()
    assert (new["pounds"] - new["kg"] / 0.45359237).abs().max() < 0.0502
    assert (new["bmi"] - 1e4 * new["kg"] / new["cm"] ** 2).abs().max() < 0.0501
    assert (new["fahrenheit"] - 1.8 * new["celsius"] - 32).abs().max() < 0.0501
    assert (new["total"] - new["price"] * new["quantity"]).abs().max() < 0.00501
    np.testing.assert_allclose(new["fold"], new["treated"] / new["control"])
    np.testing.assert_allclose(new["log_fold"], np.log2(new["treated"] / new["control"]), atol=0.0000501)
    assert (new["days"] == (new["stop"] - new["start"]).dt.days).all()
    assert (new["due"] - new["stop"] == pd.Timedelta("30D")).all()
    assert new["kg"].nunique() > 100


def test_formulas_are_stated_and_saved_as_they_are_written(measured, tmp_path):
    stated = sa.fit(units(), "table", constraints=list(FORMULAS))
    assert {str(one) for one in stated.codec.relations} == set(FORMULAS)
    measured.save(tmp_path / "units.synth")
    loaded = sa.load(tmp_path / "units.synth")
    assert loaded.codec.relations == measured.codec.relations
    pd.testing.assert_frame_equal(loaded.sample(20, rng=1), measured.sample(20, rng=1))
    assert measured.refit(np.arange(0, 200, 2)).codec.relations == measured.codec.relations


def test_conditions_on_a_copy_are_those_on_its_source_and_on_other_formulas_are_refused(measured):
    rows = measured.condition(weight=sa.Range(ge=80)).sample(30, rng=0)
    assert (rows["kg"] >= 80).all()
    assert (rows["weight"] == rows["kg"]).all()
    with pytest.raises(InputError, match=r"the column is bmi = 10000 \* kg / cm\^2. Condition on 'kg' and 'cm'"):
        measured.condition(bmi=25)


def test_columns_that_rounding_does_not_explain_have_no_formula():
    """A second reading of the same amount, a sum with noise, and a product of two others with an error of 1 %."""
    rng = np.random.default_rng(0)
    first = rng.normal(50, 10, 300).round(1)
    frame = pd.DataFrame({"first": first, "second": (first + rng.choice([-0.1, 0.0, 0.1], 300)).round(1)})
    frame["age"] = rng.integers(20, 80, 300)
    frame["then"] = frame["age"] - rng.integers(0, 2, 300)
    frame["area"] = (frame["first"] * frame["age"] * rng.normal(1, 0.01, 300)).round(1)
    assert not any(isinstance(one, ColumnFormula) for one in sa.fit(frame, "table").codec.relations)


@pytest.mark.parametrize("step", [1, 0.1])
@pytest.mark.parametrize("steps", [[0, 0, 0, 1], [0, 1]])
def test_columns_that_differ_by_a_step_in_some_rows_have_no_formula(steps, step):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.integers(1950, 2021, 100)
        frame = pd.DataFrame({"x": x * step, "treated": (x + rng.choice(steps, 100)) * step}).round(1)
        relations = sa.fit(frame, "table", trial=False).codec.relations
        assert not [str(one) for one in relations if isinstance(one, ColumnFormula)], seed


def test_half_a_step_is_no_shift_of_a_copy():
    x = np.random.default_rng(0).integers(0, 1000, 100)
    relations = sa.fit(pd.DataFrame({"x": x, "y": x + np.arange(100) % 2}), "table", trial=False).codec.relations
    assert not [str(one) for one in relations if isinstance(one, ColumnFormula)]


def test_a_formula_keeps_the_limits_of_its_column():
    frame = units()[["kg", "weight", "price", "quantity", "total"]]
    synth = sa.fit(frame, "table", ranges={"total": (0, float(frame["total"].max()))})
    new = synth.sample(1500, rng=0)
    assert new["total"].max() <= frame["total"].max()
    assert (new["total"] - new["price"] * new["quantity"]).abs().max() < 0.00501
    free = sa.fit(frame, "table").sample(1500, rng=0)
    assert free["total"].max() > frame["total"].max()


@pytest.mark.parametrize("linked", ["low <= high", "sum = low + high", "product = low * high"])
@pytest.mark.parametrize("conditions", [{}, {"high": 20.0}])
def test_a_formula_that_keeps_its_limits_breaks_no_other_relation(linked, conditions):
    rng = np.random.default_rng(0)
    low = rng.gamma(4, 3, 300).round(1) + 0.1
    frame = pd.DataFrame({"low": low, "high": (low + rng.gamma(1, 2, 300)).round(1)})
    frame = frame.assign(base=rng.gamma(9, 1.5, 300).round(1) + 0.1, sum=frame.sum(axis=1), product=frame.prod(axis=1))
    frame["ratio"] = frame["low"] / frame["base"]
    frame = frame[frame["ratio"] <= 1].reset_index(drop=True)
    synth = sa.fit(frame, "table", constraints=["ratio = low / base", linked], ranges={"ratio": (0, 1)}, trial=False)
    new = synth.condition(**conditions).sample(2000, rng=0) if conditions else synth.sample(2000, rng=0)
    assert not any(relation.broken(synth.codec.by_name, cells_of(new)).any() for relation in synth.codec.relations)
    assert new["ratio"].max() <= 1 or conditions


@pytest.mark.parametrize(
    ("constraints", "said"),
    [
        (["weight = 2 * kg"], "does not hold in the data: row 1 has weight"),
        (["due = 2 * stop"], "'due' must hold numbers, and is date"),
        (["weight = kg", "kg = weight"], "determines 'weight', which"),
        (["weight = kg", "weight = 1 * kg + 0"], "determines 'weight', which"),
        (["weight = log(kilo)"], "which is not a modeled column"),
    ],
)
def test_formulas_that_are_wrong_are_refused(constraints, said):
    with pytest.raises(InputError, match=said):
        sa.fit(units(), "table", constraints=constraints)


def linked():
    rng = np.random.default_rng(0)
    km = rng.integers(1, 200, 80)
    frame = {"km": km, "yards": np.round(1093.6 * km + 3), "debit": 7.0 - 2 * km, "x": rng.normal(size=80).round(2)}
    weight = np.exp(rng.normal(3, 1, 80)).round(3)
    dates = pd.Timestamp("2020-01-01") + pd.to_timedelta(km, unit="D")
    return pd.DataFrame(
        {
            **frame,
            "weight": weight,
            "log_weight": np.log(weight).round(4),
            "seen": dates,
            "due": dates + pd.Timedelta(days=30),
        }
    )


@pytest.mark.parametrize(
    ("column", "condition", "met"),
    [
        ("yards", Range(ge=40_000, lt=90_000), lambda x: (x >= 40_000) & (x < 90_000)),
        ("yards", 1093.6 * 40 // 1 + 3, lambda x: x == 1093.6 * 40 // 1 + 3),
        ("debit", Range(gt=-101), lambda x: x > -101),
        ("debit", Range(le=-101), lambda x: x <= -101),
        ("log_weight", Range(gt=2.5, le=3.5), lambda x: (x > 2.5) & (x <= 3.5)),
        ("due", Range(ge="2020-03-01", lt="2020-04-01"), lambda x: x.dt.month == 3),
        ("due", "2020-03-04", lambda x: x == "2020-03-04"),
        ("seen", Range(gt="2020-03-31"), lambda x: x > "2020-03-31"),
    ],
)
def test_conditions_on_columns_that_a_formula_of_one_column_gives(column, condition, met):
    synth = sa.fit(linked(), trial=False)
    new = synth.condition({column: condition}).sample(500, rng=0)
    assert met(new[column]).all()
    assert new[column].notna().all()
    columns = {column.name: column for column in synth.codec.columns}
    assert not any(relation.broken(columns, cells_of(new)).any() for relation in synth.codec.relations)


@pytest.mark.parametrize("condition", [Range(lt=40), Range(ge=40), Range(gt=39, le=41), 40])
def test_conditions_on_a_rounded_copy_hold_for_the_rounded_values(condition):
    weight = np.random.default_rng(0).normal(40, 20, 200).round(1)
    frame = pd.DataFrame({"weight": weight, "rounded": weight.round().astype(int)})
    synth = sa.fit(frame, "table", trial=False)
    assert [str(one) for one in synth.codec.relations] == ["rounded = weight"]
    new = synth.condition(rounded=condition).sample(300, rng=0)
    ends = condition.ends() if isinstance(condition, Range) else {"ge": 40, "le": 40}
    for comparison, end in ends.items():
        assert getattr(new["rounded"], comparison)(end).all()
    assert new["weight"].min() < 40 or "ge" not in ends  # which is rounded up


def curves():
    rng = np.random.default_rng(0)
    x, y = np.append([0, 0, 0], rng.gamma(1, 30, 200).round()), rng.normal(0, 1, 203).round(4)
    frame = pd.DataFrame({"x": x, "root": np.sqrt(x).round(1), "y": y, "power": np.exp(y).round(2)})
    return sa.fit(frame, "table", trial=False, constraints=["root = sqrt(x)", "power = exp(y)"])


@pytest.mark.parametrize(
    ("column", "condition"),
    [("root", Range(ge=-5)), ("root", Range(ge=0)), ("root", 0), ("power", Range(ge=0)), ("power", Range(ge=-1, le=2))],
)
def test_conditions_below_what_a_formula_gives_exclude_none_of_its_values(column, condition):
    source = {"root": "x", "power": "y"}[column]
    synth = curves()
    new = synth.condition({column: condition}).sample(300, rng=0)
    high = {0: 0, Range(ge=-1, le=2): 2}.get(condition, np.inf)
    assert (new[column] <= high).all()
    least = synth.sample(300, rng=0)[source].quantile(0.05)
    assert new[source].min() <= least


def test_conditions_that_are_below_what_a_formula_gives_are_refused():
    synth = curves()
    for condition in ({"root": Range(lt=0)}, {"power": Range(lt=-1)}):
        with pytest.raises(InputError, match="does not give such values"):
            synth.condition(condition)


def test_a_condition_on_a_formula_that_gives_no_such_value_is_refused():
    with pytest.raises(InputError, match="log_weight"):
        sa.fit(linked(), trial=False).condition(log_weight=Range(gt=800))


def test_units_computed_from_a_rounded_number_are_exact_multiples_of_it_in_new_rows():
    """Kilometers with two decimals, from which meters and unrounded miles were computed."""
    rng = np.random.default_rng(0)
    km = rng.gamma(3, 4, 80).round(2)
    stored = pd.DataFrame({"km": km, "miles": km / 1.609344, "m": (1000 * km).round(), "hours": rng.normal(9, 2, 80)})
    new = sa.fit(stored, "table", trial=False).sample(50, rng=0)
    np.testing.assert_allclose(new["miles"], new["km"] / 1.609344, rtol=1e-9)
    np.testing.assert_allclose(new["m"], 1000 * new["km"], rtol=1e-9)


MILES, POUNDS = 0.621371, 2.20462


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("names", [["km", "m", "copy", "miles"], ["miles", "copy", "m", "km"], ["m", "miles", "km"]])
def test_units_stay_together_where_a_computed_one_has_more_decimals(names, seed):
    """Miles of rounded kilometers: as their source, they would give meters between the rounded kilometers."""
    rng = np.random.default_rng(seed)
    km = rng.uniform(1, 90, 120).round(1)
    units = {"km": km, "m": 1000 * km, "copy": km, "miles": (MILES * km).round(3)}
    frame = pd.DataFrame({**{name: units[name] for name in names}, "age": rng.integers(20, 80, 120)})
    new = sa.fit(frame, trial=False).sample(500, rng=1)
    np.testing.assert_allclose(new["m"], 1000 * new["km"], rtol=1e-12)
    np.testing.assert_allclose(new["miles"], MILES * new["km"], rtol=0, atol=6e-4)
    if "copy" in names:
        np.testing.assert_array_equal(new["copy"], new["km"])


@pytest.mark.parametrize("seed", range(4))
def test_a_factor_of_many_digits_is_found_behind_coarse_rounding(seed):
    """A slope of 64 rows is not as precise as 120 whole pounds tell together."""
    rng = np.random.default_rng(seed)
    kg = rng.uniform(50, 99, 120).round(2)
    frame = pd.DataFrame({"kg": kg, "lb": (POUNDS * kg).round(0).astype(int), "t": rng.normal(size=120)})
    new = sa.fit(frame, trial=False).sample(500, rng=0)
    assert np.abs(new["lb"] - POUNDS * new["kg"]).max() < 0.52
