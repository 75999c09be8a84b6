"""Ordered columns whose difference is narrow, such as the two dates of a stay, are coded by the difference."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

import stochattn as sa
from stochattn.kinds.tables.columns.cells import cells_of
from stochattn.kinds.tables.kind import KIND
from stochattn.kinds.tables.relations.differences import Difference, choose_differences, orient, restore_differences
from stochattn.kinds.tables.relations.relations import ColumnOrder
from stochattn.report.checks import run_checks
from stochattn.report.evidence import measure

MAX_KS = 0.1
"""The 5 % critical value for samples of 200 and 2,000. Dates drawn on their own scales give 0.3."""


def stays(n=200, seed=0, mean=5.0):
    """Stays of an exponential length in days, over a year, and a ward where they are longer."""
    rng = np.random.default_rng(seed)
    first = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 365, n), unit="D")
    ward = rng.choice(["a", "b"], n)
    days = np.round(rng.exponential(mean, n) * np.where(ward == "b", 2.0, 1.0)).astype(int)
    last = first + pd.to_timedelta(days, unit="D")
    dates = {"admitted": first.strftime("%Y-%m-%d"), "discharged": last.strftime("%Y-%m-%d")}
    return pd.DataFrame({"age": rng.integers(18, 90, n), **dates, "ward": ward})


def lengths(rows):
    return (pd.to_datetime(rows["discharged"]) - pd.to_datetime(rows["admitted"])).dt.days


@pytest.fixture(scope="module")
def synth():
    return sa.fit(stays(), "table")


def test_new_stays_are_as_long_as_stored_ones(synth):
    new = synth.sample(2000, rng=0)
    assert ks_2samp(lengths(new), lengths(stays())).statistic < MAX_KS
    assert lengths(new).min() == 0
    for ward in "ab":  # what depends on the length still does
        mean = lengths(stays()[stays()["ward"] == ward]).mean()
        assert lengths(new[new["ward"] == ward]).mean() == pytest.approx(mean, rel=0.2)


def test_stored_rows_are_decoded_to_themselves(synth):
    codec = synth.codec
    assert [(one.name, one.base) for one in codec.differences] == [("discharged", "admitted")]
    pd.testing.assert_frame_equal(codec.decode(codec.encode(codec.stored), np.arange(200)), codec.stored)
    oriented = codec.with_scales_of({"discharged"})
    assert [(one.name, one.base) for one in oriented.differences] == [("admitted", "discharged")]
    assert codec.with_scales_of({"discharged"}) is oriented
    found = oriented.decode(oriented.encode(codec.stored), np.arange(200))
    pd.testing.assert_frame_equal(found, codec.stored)


def test_conditions_on_either_date_or_on_both_leave_the_lengths(synth):
    for given in ({"admitted": "2023-05-01"}, {"discharged": "2023-05-01"}):
        new = synth.condition(given).sample(1000, rng=0)
        (name, date), *_ = given.items()
        assert set(new[name]) == {date}
        assert ks_2samp(lengths(new), lengths(stays())).statistic < 2 * MAX_KS
    may = synth.condition(discharged=sa.Range(ge="2023-05-01", lt="2023-06-01")).sample(500, rng=0)
    assert may["discharged"].between("2023-05-01", "2023-05-31").all()
    assert ks_2samp(lengths(may), lengths(stays())).statistic < 2 * MAX_KS
    both = synth.condition(admitted="2023-05-01").condition(discharged="2023-05-09")
    assert both.codec.differences == ()
    assert set(lengths(both.sample(20, rng=0))) == {8}


def test_conditions_share_the_fit_in_each_of_the_two_codings(synth, monkeypatch):
    fits = []
    original = type(synth.kind).fit_generator
    monkeypatch.setattr(
        type(synth.kind), "fit_generator", lambda self, *given: fits.append(1) or original(self, *given)
    )
    fresh = sa.fit(stays(60), "table", classes="pooled")
    for date in ("2023-05-01", "2023-05-02", "2023-05-03"):
        fresh.condition(admitted=date).sample(2, rng=0)
        fresh.condition(age=40).condition(discharged=date).sample(2, rng=0)
    fresh.sample(2, rng=0)
    assert len(fits) == 2


def test_saved_and_refitted_synthesizers_keep_the_coding(synth, tmp_path):
    for number, one in enumerate((synth, synth.condition(discharged="2023-05-01"))):
        one.save(tmp_path / f"{number}.synth")
        again = sa.load(tmp_path / f"{number}.synth")
        pd.testing.assert_frame_equal(again.sample(30, rng=3), one.sample(30, rng=3))
        half = one.refit(np.arange(0, 200, 2))
        assert [d.name for d in half.codec.differences] == [d.name for d in one.codec.differences]


def test_wide_differences_and_bases_that_are_missing_alone_are_not_coded():
    frame = stays(mean=120.0)
    assert sa.fit(frame, "table").codec.differences == ()
    frame = stays()
    frame.loc[:20, "discharged"] = None
    codec = sa.fit(frame, "table").codec
    assert len(codec.differences) == 1
    pd.testing.assert_frame_equal(codec.decode(codec.encode(codec.stored), np.arange(200)), codec.stored)
    frame = stays()
    frame.loc[:20, "admitted"] = None
    assert sa.fit(frame, "table").codec.differences == ()


def test_numbers_with_decimals_and_chains():
    rng = np.random.default_rng(0)
    low = rng.normal(50, 20, 150).round(1)
    middle = (low + rng.gamma(2, 1, 150)).round(2)
    frame = pd.DataFrame({"low": low, "middle": middle, "high": (middle + rng.gamma(2, 1, 150)).round(2)})
    synth = sa.fit(frame, "table", constraints=["low <= middle", "middle <= high"])
    assert [(one.name, one.base) for one in synth.codec.differences] == [("middle", "low"), ("high", "middle")]
    found = synth.codec.decode(synth.codec.encode(frame), np.arange(150))
    pd.testing.assert_frame_equal(found, frame, check_exact=True)
    new = synth.sample(1500, rng=0)
    assert ks_2samp(new["high"] - new["middle"], frame["high"] - frame["middle"]).statistic < 1.2 * MAX_KS
    given = synth.condition(high=60.5).sample(200, rng=0)
    assert (given["high"] == 60.5).all()
    assert (given["low"] <= given["middle"]).all()
    assert (given["middle"] <= 60.5).all()
    assert given["low"].min() > 60.5 - 25


@pytest.mark.parametrize(
    ("conditioned", "expected"),
    [
        ((), [("b", "a", 1), ("c", "b", 1), ("d", "a", 1), ("y", "x", 1)]),
        ("a", [("b", "a", 1), ("c", "b", 1), ("d", "a", 1), ("y", "x", 1)]),
        ("c", [("a", "b", -1), ("b", "c", -1), ("d", "a", 1), ("y", "x", 1)]),
        ("cd", [("a", "d", -1), ("b", "c", -1), ("y", "x", 1)]),
        ("abcdxy", []),
    ],
)
def test_pairs_are_oriented_towards_what_is_conditioned_on(synth, conditioned, expected):
    ranks = synth.codec.differences[0].ranks
    pairs = [("b", "a"), ("c", "b"), ("d", "a"), ("y", "x")]
    found = orient([Difference(name, base, 1, 1.0, 0, ranks) for name, base in pairs], set(conditioned))
    assert sorted((one.name, one.base, one.sign) for one in found) == expected
    known = set("abcdxy") - {one.name for one in found}
    for one in found:  # each base is decoded before what is coded from it
        assert one.base in known
        known.add(one.name)


def test_a_report_checks_the_difference_alone(synth):
    items = synth.sample(300, rng=0)
    part = next(p for p in synth.kind.measures.compare(synth.codec, items).parts if p.name == "discharged − admitted")
    assert part.stored.endswith(" days")
    assert part.values().as_text(4.5) == "4.5 days"
    assert part.distance == pytest.approx(ks_2samp(lengths(items), lengths(stays())).statistic)
    assert run_checks(measure(synth, items, 0, quick=True)).single_parts.passed
    later = pd.to_datetime(items["admitted"]) + pd.to_timedelta(lengths(items) + 4, unit="D")
    bad = run_checks(measure(synth, items.assign(discharged=later.dt.strftime("%Y-%m-%d")), 0, quick=True)).single_parts
    assert bad.passed is False
    assert "discharged − admitted by 0.3" in bad.finding


def test_rows_that_break_the_order_have_no_density(synth):
    rows = stays()[:4]
    rows.loc[1, "discharged"] = "2022-12-01"
    found = synth.log_density(rows)
    assert np.isneginf(found).tolist() == [False, True, False, False]


def test_of_two_bases_the_nearer_one_is_chosen():
    rng = np.random.default_rng(0)
    low = rng.normal(50, 20, 150).round(1)
    near = (low + rng.gamma(4, 1, 150)).round(1)
    high = (near + rng.gamma(1, 0.5, 150)).round(1)
    codec = sa.fit(pd.DataFrame({"low": low, "near": near, "high": high}), "table").codec
    table, orders = cells_of(codec.stored), [ColumnOrder("low", "high"), ColumnOrder("near", "high")]
    for relations in (orders, orders[::-1]):
        (found,) = choose_differences(codec.by_name, table, relations)
        assert (found.name, found.base) == ("high", "near")


def test_numbers_without_decimals_are_not_coded():
    """A sum of floats would not give the stored number again."""
    rng = np.random.default_rng(0)
    low = rng.normal(50, 20, 150)
    codec = sa.fit(pd.DataFrame({"low": low, "high": low + rng.gamma(2, 1, 150)}), "table").codec
    assert any(isinstance(one, ColumnOrder) for one in codec.relations)
    assert codec.differences == ()
    table = cells_of(codec.stored)
    assert restore_differences([("high", "low")], codec.by_name, table, codec.relations) == ()


def test_rows_are_scored_as_they_are_coded(synth):
    """A row that ends before it begins has the density zero; a usual stay has more than a long one."""
    rows = stays().iloc[[3, 3, 3, 3]].assign(admitted="2023-03-02", age=40)
    rows["discharged"] = ["2023-03-01", "2023-03-05", "2023-06-30", None]
    found = synth.log_density(rows)
    assert found[0] == -np.inf
    assert np.isfinite(found[1:3]).all()
    assert found[1] > found[2] + 2


def test_an_order_stays_with_a_column_of_two_values():
    low = np.arange(60) % 2 * 3
    frame = pd.DataFrame({"low": low, "high": low + np.random.default_rng(0).integers(0, 40, 60)})
    codec = sa.fit(frame, "table", columns={"low": "integer"}, constraints=["low <= high"]).codec
    assert [str(one) for one in codec.relations] == ["low <= high"]
    assert codec.refit(codec.stored.iloc[:30]).relations == codec.relations


def test_the_larger_column_has_the_scale_of_the_difference():
    codec = sa.fit(stays(40), "table").codec
    coded = {one.name: one.transform for one in codec.coded}
    assert coded["discharged"] is codec.differences[0].ranks
    assert coded["admitted"] is codec.by_name["admitted"].transform


def test_times_finer_than_floats_of_seconds_are_not_coded():
    rng = np.random.default_rng(0)
    first = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 10**13, 60), unit="us")
    for unit, n in (("us", 0), ("ms", 1)):
        began = first.floor(unit)
        ended = began + pd.to_timedelta(rng.integers(1, 10**6, 60), unit=unit)
        codec = sa.fit(pd.DataFrame({"began": began, "ended": ended}), "table").codec
        assert len(codec.differences) == n


def chain(n=150, seed=0):
    """Three dates in a row, of which the first two are two days or more from each other."""
    rng = np.random.default_rng(seed)
    days = np.cumsum([rng.integers(0, 365, n), 1 + rng.geometric(0.2, n), 1 + rng.geometric(0.3, n)], axis=0)
    dates = {
        name: pd.Timestamp("2023-01-01") + pd.to_timedelta(one, "D") for name, one in zip("abc", days, strict=True)
    }
    return pd.DataFrame({**dates, "age": rng.integers(20, 80, n)})


def pairs(synth):
    return [(one.name, one.base) for one in synth.codec.differences]


@pytest.mark.parametrize("names", ["ab", "ac", "bc", "abc"])
def test_the_law_does_not_depend_on_the_order_of_conditions(names, tmp_path):
    synth = sa.fit(chain(), "table", classes="pooled")
    given = {"a": pd.Timestamp("2023-05-01"), "b": pd.Timestamp("2023-05-08"), "c": pd.Timestamp("2023-05-20")}
    together = synth.condition({name: given[name] for name in names})
    expected = together.sample(20, rng=0)
    for order in permutations(names):
        found = synth
        for name in order:
            found = found.condition({name: given[name]})
        assert found.codec is together.codec
        pd.testing.assert_frame_equal(found.sample(20, rng=0), expected)
    first = synth.condition({names[-1]: given[names[-1]]})
    first.save(tmp_path / "first.synth")
    again = sa.load(tmp_path / "first.synth")
    assert pairs(again) == pairs(first)
    again = again.condition({name: given[name] for name in names})
    assert pairs(again) == pairs(together)
    pd.testing.assert_frame_equal(again.sample(20, rng=0), expected)
    assert pairs(first.refit(np.arange(0, 150, 2)).condition(a=given["a"])) == pairs(synth)


def test_a_chain_is_coded_from_the_conditions_alone():
    codec = sa.fit(chain(), "table").codec
    after = codec.with_scales_of({"c"})
    assert [(one.name, one.base) for one in after.differences] == [("b", "c"), ("a", "b")]
    assert after.with_scales_of(set()) is codec
    assert after.with_scales_of({"a"}) is codec
    assert after.with_scales_of({"c"}) is after
    assert after.with_scales_of({"b"}) is codec.with_scales_of({"b"})
    assert after.original is codec


def round_trip(codec):
    """Which cells of the stored rows are decoded to themselves: booleans (n, columns)."""
    rows = codec.decode(codec.encode(codec.stored), np.arange(len(codec.stored)))
    return codec.same(codec.stored, rows)


def test_columns_with_different_clocks_are_decoded_exactly_in_both_directions():
    rng = np.random.default_rng(0)
    low = chain()["a"] + pd.to_timedelta(rng.integers(0, 86_400_000, 150), "ms")
    high = low.dt.floor("D") + pd.to_timedelta(1 + rng.geometric(0.2, 150), "D")
    codec = sa.fit(pd.DataFrame({"a": low, "b": high}), "table").codec
    (one,) = codec.differences
    assert (one.unit, one.decimals, one.ranks.decimals) == (1e-3, 2, 0)
    after = codec.with_scales_of({"b"})
    assert [(one.name, one.base) for one in after.differences] == [("a", "b")]
    assert round_trip(codec).all()
    assert round_trip(after).all()


def test_a_difference_is_not_oriented_where_known_cells_would_be_lost():
    frame = chain()
    frame.loc[:20, "b"] = pd.NaT
    codec = sa.fit(frame[["a", "b"]], "table").codec
    assert [(one.name, one.base, one.can_swap) for one in codec.differences] == [("b", "a", False)]
    after = codec.with_scales_of({"b"})
    assert after.differences == ()
    assert codec.with_scales_of({"a"}) is codec
    assert round_trip(after).all()


@pytest.mark.parametrize("constraint", ["a < b", "a <= b"])
def test_rows_with_distances_that_are_never_drawn_have_no_density(constraint):
    """Stored distances are two days and more, so that none below two is drawn."""
    frame = chain()[["a", "b", "age"]]
    synth = sa.fit(frame, "table", constraints=[constraint], classes="pooled")
    assert synth.codec.differences[0].ranks.low == 2
    rows = frame.iloc[[0] * 4].assign(b=[frame["a"][0] + pd.Timedelta(days=days) for days in (0, 1, 2, 9)])
    assert np.isneginf(synth.log_density(rows)).tolist() == [True, True, False, False]


@pytest.mark.parametrize(("constraint", "impossible"), [("a < b", True), ("a <= b", False)])
def test_equal_cells_of_a_strict_order_have_no_density(constraint, impossible):
    frame = chain()[["a", "b", "age"]]
    synth = sa.fit(frame, "table", constraints=[constraint], classes="pooled")
    (one,) = synth.codec.differences
    wide = replace(synth.codec, differences=(replace(one, ranks=replace(one.ranks, low=0.0, high=9.0)),))
    rows = frame.iloc[[0] * 4].assign(b=[frame["a"][0] + pd.Timedelta(days=days) for days in (0, 1, 9, 10)])
    assert KIND.prepare_for_density(wide, rows)[1].tolist() == [impossible, False, False, True]


def test_a_difference_that_does_not_turn_round_stays_beside_a_conditioned_base(synth):
    ranks = synth.codec.differences[0].ranks
    known = [Difference("b", "a", 1, 1.0, 0, ranks, can_swap=False), Difference("c", "b", 1, 1.0, 0, ranks)]
    found = {names: [(one.name, one.base) for one in orient(known, set(names))] for names in ("ac", "c", "b")}
    assert found == {"ac": [("b", "a")], "c": [("b", "c")], "b": [("c", "b")]}


def test_equal_cells_of_a_strict_order_are_never_drawn_whatever_other_relations_there_are():
    rng = np.random.default_rng(0)
    a, d = rng.integers(0, 200, 80), rng.integers(1, 9, 80)
    frame = pd.DataFrame({"a": a, "b": a + rng.integers(1, 9, 80), "d": d, "c": a + d})
    synth = sa.fit(frame, "table", constraints=["c = a + d", "a < b"])
    assert [one.name for one in synth.codec.differences] == ["b"]
    rows = frame.iloc[[0, 0]].assign(b=[int(a[0]), int(a[0]) + 3])
    found = synth.log_density(rows)
    assert found[0] == -np.inf
    assert np.isfinite(found[1])
