"""Conditions of tables as ranges and sets: met by every row, with the law of rows that happen to meet them."""

import datetime

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency, ks_2samp
from test_table_conditions import amounts

import stochattn as sa
from command_runner import refused, works
from stochattn.kinds import InputError
from stochattn.kinds.codec import condition_text, plain_conditions, restore_conditions
from stochattn.kinds.summary import read_summary
from stochattn.kinds.tables.kind import KIND
from stochattn.report.page import settings
from stochattn.synthesizer import drawing

Range = sa.Range


def unusual(n=60, seed=0):
    """A column of each type that rounds, skews, limits or formats its cells in its own way."""
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 200, n)
    hours = pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 2000, n), unit="h")
    odd = np.round(rng.normal(10, 3, n), 1)
    odd[:2] = 10.23, 12.34  # with more decimals than new numbers get
    frame = {
        "skewed": np.exp(rng.normal(3, 2, n)),
        "zeros": np.where(rng.random(n) < 0.6, 0, rng.poisson(20, n)),
        "small": rng.integers(-20, 100, n).astype("int8"),
        "narrow": rng.normal(1000, 1, n).astype("float32"),
        "odd": odd,
        "gone": pd.array(np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 9, n)), dtype="Float64").astype("Int64"),
        "text_date": (pd.Timestamp("2020-12-01") + pd.to_timedelta(days, unit="D")).strftime("%d.%m.%Y"),
        "zoned": pd.Series(hours).dt.tz_localize("Europe/Oslo", nonexistent="shift_forward", ambiguous=True),
        "day": [datetime.date(2020, 1, 1) + datetime.timedelta(int(day)) for day in days],
        "class": rng.choice([1, 2, 3, 5], n),
        "yes": rng.random(n) < 0.4,
    }
    return pd.DataFrame(frame)


UNUSUAL = [
    ("skewed", Range(gt=7.123456789, lt=55.5), lambda x: (x > 7.123456789) & (x < 55.5)),
    ("skewed", Range(ge=1), lambda x: x >= 1),
    ("zeros", Range(ge=0, le=0), lambda x: x == 0),
    ("zeros", Range(gt=0), lambda x: x > 0),
    ("zeros", Range(lt=1e9), lambda x: x < 1e9),
    ("small", Range(gt=-3, lt=90), lambda x: (x > -3) & (x < 90)),
    ("small", Range(ge=80), lambda x: x >= 80),
    ("narrow", Range(le=999.9), lambda x: x <= 999.9),
    ("odd", Range(gt=10.2, le=12.3), lambda x: (x > 10.2) & (x <= 12.3)),
    ("odd", Range(ge=0.7, lt=9.7), lambda x: (x >= 0.7) & (x < 9.7)),
    ("gone", Range(ge=2, le=3), lambda x: (x >= 2) & (x <= 3)),
    ("gone", (1, 7), lambda x: x.isin([1, 7])),
    ("text_date", Range(gt="31.12.2020", le="2021-01-31"), lambda x: x.str.endswith(".01.2021")),
    ("zoned", Range(ge="2021-03-27", lt="2021-03-30"), lambda x: x.dt.day.isin([27, 28, 29]) & (x.dt.month == 3)),
    ("day", Range(ge=datetime.date(2020, 2, 1), lt=datetime.date(2020, 3, 1)), lambda x: x.map(lambda d: d.month == 2)),
    ("class", Range(gt=1, lt=5), lambda x: x.isin([2, 3])),
    ("class", {1, 5}, lambda x: x.isin([1, 5])),
    ("yes", [True], lambda x: x),
]


@pytest.fixture(scope="module")
def fitted():
    return {name: sa.fit(unusual(), generator=name) for name in ("covariance", "hopfield")}


@pytest.mark.parametrize("generator", ["covariance", "hopfield"])
@pytest.mark.parametrize(("column", "value", "met"), UNUSUAL)
def test_every_cell_meets_its_range_exactly_whatever_its_scale(fitted, generator, column, value, met):
    synth = fitted[generator]
    new = synth.condition({column: value}).sample(2000, rng=1)
    assert met(new[column]).all()
    assert new[column].notna().all()
    assert new.dtypes.drop("gone").equals(synth.sample(5, rng=0).dtypes.drop("gone"))
    others = new.drop(columns=column)
    assert not others.duplicated().any()


@pytest.mark.parametrize("column", ["small", "zeros", "odd", "text_date", "class"])
def test_cells_of_a_range_are_as_frequent_as_among_rows_that_happen_to_meet_it(fitted, column):
    """Null: the counts of cells are those of unconditioned draws in the range; chi-square at 1e-4.

    Both samples have 3,000 rows or more: a total variation of 0.06 between five cells is detected with power 0.99.
    """
    synth = fitted["covariance"]
    value, met = next((value, met) for name, value, met in UNUSUAL if name == column)
    new = synth.condition({column: value}).sample(5000, rng=2)[column]
    plain = synth.sample(60_000, rng=3)[column]
    counts = pd.DataFrame({"new": new.value_counts(), "plain": plain[met(plain)].value_counts()}).fillna(0)
    assert counts["plain"].sum() > 3000
    counts = counts.sort_index()
    groups = np.minimum(np.arange(len(counts)) * 5 // len(counts), 4)
    table = counts.groupby(groups).sum()
    if len(table) > 1:
        assert chi2_contingency(table.to_numpy().T).pvalue > 1e-4


@pytest.mark.parametrize("generator", ["covariance", "hopfield"])
@pytest.mark.parametrize(
    ("values", "met"),
    [
        ({"a": Range(ge=10, lt=25)}, lambda x: (x["a"] >= 10) & (x["a"] < 25)),
        ({"city": {"Oslo", "Rome"}}, lambda x: x["city"] != "Bergen"),
        (
            {"a": Range(ge=10, le=40), "b": Range(gt=8), "city": ["Oslo"]},
            lambda x: x["a"].between(10, 40) & (x["b"] > 8) & (x["city"] == "Oslo"),
        ),
    ],
)
def test_rows_have_the_law_of_those_that_happen_to_meet_the_condition(generator, values, met):
    """Null: equal laws. Kolmogorov-Smirnov at 1e-4, with about 10,000 rows each, detects a distance of 0.04."""
    synth = sa.fit(amounts(), generator=generator)
    plain = synth.sample(60_000, rng=5)
    plain = plain[met(plain)]
    new = synth.condition(values).sample(10_000, rng=6)
    assert met(new).all()
    for column in ("a", "b", "day"):
        first, second = (frame[column].astype("int64" if column == "day" else float) for frame in (plain, new))
        assert ks_2samp(first, second).pvalue > 1e-4
    shares = [(frame["city"] == "Oslo").mean() for frame in (plain, new)]
    assert abs(shares[0] - shares[1]) < 5 * np.sqrt(0.25 / len(plain) + 0.25 / len(new))


def test_ranges_go_together_with_fixed_values():
    synth = sa.fit(amounts())
    new = synth.condition(city="Rome", a=Range(ge=30, le=40), day="2021-02-01").sample(300, rng=0)
    assert set(new["city"]) == {"Rome"}
    assert new["a"].between(30, 40).all()
    assert (new["day"] == pd.Timestamp("2021-02-01")).all()
    assert new["a"].nunique() == 11


def test_more_columns_than_rows_take_ranges_too():
    wide = pd.DataFrame(np.random.default_rng(0).normal(0, 1, (20, 300))).rename(columns=str)
    new = sa.fit(wide).condition({"0": Range(ge=0.5, le=1), "7": Range(lt=0), "9": 0.25}).sample(200, rng=0)
    assert new["0"].between(0.5, 1).all()
    assert (new["7"] < 0).all()
    np.testing.assert_allclose(new["9"], 0.25, rtol=1e-9)


def test_a_wanted_novelty_is_that_of_rows_in_the_range():
    synth = sa.fit(amounts(), novelty=0.1).condition(a=Range(ge=20, le=40))
    assert synth.predicted_novelty() == pytest.approx(0.1, abs=0.001)
    assert synth.sample(50, rng=0)["a"].between(20, 40).all()


def test_fewer_rows_are_the_first_of_more_across_blocks(monkeypatch):
    monkeypatch.setattr(drawing, "BLOCK", 16)
    synth = sa.fit(amounts()).condition(a=Range(gt=40), city={"Rome", "Bergen"})
    few, more = (synth.sample(n, rng=3) for n in (20, 40))
    assert few.equals(more[:20])


def test_sets_of_texts_and_numbers_are_plain_values_too():
    values = {"x": {1, "a", 2.5}, "y": Range(ge=1), "z": 3}
    plain = plain_conditions(values)
    assert plain == {"x": {"members": [1, 2.5, "a"]}, "y": {"ge": 1}, "z": 3}
    assert restore_conditions(plain) == values


def test_saved_ranges_and_sets_come_back(tmp_path):
    values = {"a": Range(gt=10, le=30), "city": {"Oslo", "Rome"}, "day": Range(lt=datetime.date(2021, 3, 1))}
    synth = sa.fit(amounts()).condition(values)
    synth.save(tmp_path / "a.synth")
    again = sa.load(tmp_path / "a.synth")
    assert dict(again.conditions) == values
    pd.testing.assert_frame_equal(again.sample(30, rng=1), synth.sample(30, rng=1))
    assert "conditions={'a': Range(gt=10, le=30)" in repr(again)
    assert again.condition(a=Range(gt=10)).conditions["a"] == Range(gt=10, le=30)


@pytest.mark.parametrize("generator", ["covariance", "hopfield"])
def test_a_page_names_ranges_as_they_are_written_and_a_law_in_a_range_has_no_density(generator):
    synth = sa.fit(amounts(40), generator=generator).condition(a=Range(ge=10), city={"Oslo", "Rome"})
    shown = dict(settings(synth, 20, 0, None, None, None))
    assert "a&gt;=10, city=Oslo|Rome" in shown["Conditions"]
    with pytest.raises(ValueError, match="before condition"):
        synth.log_density(amounts(2))


def test_impossible_ranges_and_sets_are_errors_in_one_line():
    synth = sa.fit(amounts())
    for values, why in (
        ({"a": Range(ge=99)}, "condition a>=99: the column has stored values from 0 to 49, .* between 0 and 98"),
        ({"a": Range(lt=0)}, "condition a<0: the column has no new values below 0"),
        ({"a": Range(gt=40, lt=41)}, "condition 40<a<41: the column has no value in this range, at the decimals"),
        ({"a": Range(ge=20, le=10)}, "condition 20<=a<=10: .* ends are reversed. Swap them"),
        ({"a": Range(ge="x")}, "condition a=x: the column holds numbers, and this is not one"),
        ({"a": [1, 200]}, "condition a=200: the column has stored values from 0 to 49"),
        ({"a": []}, "takes at least one value"),
        (
            {"city": {"Oslo", "Paris"}},
            "condition city=Paris: the column has no such value. .*It has Bergen, Oslo, Rome",
        ),
        ({"city": Range(ge="Oslo")}, "condition city>=Oslo: the column holds categories, which have no order"),
        ({"town": Range(ge=1)}, "condition: there is no column 'town'"),
    ):
        with pytest.raises(InputError, match=why) as error:
            synth.condition(values)
        assert "\n" not in str(error.value)
    for ends, why in (
        ({}, "at least one end"),
        ({"ge": 1, "gt": 1}, "ge or gt, not both"),
        ({"le": 1, "lt": 2}, "le or"),
    ):
        with pytest.raises(InputError, match=why):
            Range(**ends)
    narrow = synth.condition({"a": Range(ge=0, le=0), "b": Range(ge=24.9), "day": Range(le="2021-01-02")})
    with pytest.raises(
        ValueError, match=r"^condition: less than a share of \S+ of all draws meets its ranges and sets"
    ):
        narrow.sample(1, rng=0)


def test_texts_of_ranges_and_sets_become_typed_values():
    frame = amounts().rename(columns={"b": "a<b"})
    frame["pair"] = np.where(frame["a"] > 20, "x|y", "x")
    codec = sa.fit(frame).codec
    for text, value in (
        ("a=40", {"a": 40}),
        ("a>40", {"a": Range(gt=40)}),
        ("a >= 4e1", {"a": Range(ge=40)}),
        ("a<12.5", {"a": Range(lt=12.5)}),
        ("40<=a", {"a": Range(ge=40)}),
        ("-1 < a <= 20", {"a": Range(gt=-1, le=20)}),
        ("a=3|7", {"a": {3, 7}}),
        ("a<b>2", {"a<b": Range(gt=2)}),
        ("1<=a<b<3", {"a<b": Range(ge=1, lt=3)}),
        ("city=oslo|Rome", {"city": {"Oslo", "Rome"}}),
        ("pair=x|y", {"pair": "x|y"}),
        ("day=2021-01-05|2021-01-06", {"day": {"2021-01-05", "2021-01-06"}}),
        ("2021-01-05<=day<2021-02-01", {"day": Range(ge="2021-01-05", lt="2021-02-01")}),
    ):
        assert KIND.parse_condition(codec, [text]) == value
    assert KIND.parse_condition(codec, ["a>3", "a<9"]) == {"a": Range(gt=3, lt=9)}
    written = [condition_text("a", value) for value in (Range(gt=1), Range(ge=1, lt=2), Range(le=3), {2, 1}, 4)]
    assert written == ["a>1", "1<=a<2", "a<=3", "a=1|2", "a=4"]


def test_ranges_on_the_command_line_and_in_the_report_of_its_samples(tmp_path):
    source, out = tmp_path / "t.csv", tmp_path / "new.csv"
    amounts(40).to_csv(source, index=False)
    texts = ("10<=a<=20", "city=Oslo|Rome", "day>=2021-02-01")
    works(
        "sample", source, "-n", 40, "--beta", 3, *(word for text in texts for word in ("--condition", text)), "-o", out
    )
    new = pd.read_csv(out)
    assert new["a"].between(10, 20).all()
    assert set(new["city"]) == {"Oslo", "Rome"}
    assert (new["day"] >= "2021-02-01").all()
    assert read_summary(out).conditions == texts
    works("report", source, out, "-o", tmp_path / "page.html")
    assert "10&lt;=a&lt;=20, city=Oslo|Rome, day&gt;=2021-02-01" in (tmp_path / "page.html").read_text()
    assert refused("sample", source, "--condition", "a>200", "-o", out).endswith("Choose a value between 0 and 98.")


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        ("protein", {3: Range(ge="A")}, "3>A"),
        ("image", {(3, 4): Range(ge=100)}, "3,4>100"),
        ("returns", {"T0": Range(le=-0.01)}, "T0<-0.01"),
    ],
)
def test_kinds_without_ranges_say_what_they_take(inputs, kind, values, text, tmp_path):
    synth = sa.fit(inputs[kind])
    with pytest.raises(InputError, match=r"such as|takes one value"):
        synth.condition(values)
    assert text in refused(
        "sample", inputs[kind], "--condition", text, "-o", tmp_path / "new.csv", "--format", synth.kind.formats[0].name
    )


@pytest.mark.parametrize("generator", ["covariance", "hopfield"])
def test_rows_in_a_range_are_drawn_around_the_subset_alone(generator):
    frame = amounts()
    synth = sa.fit(frame, generator=generator).subset(frame["city"] == "Rome").condition(a=Range(ge=20), b=Range(lt=20))
    made = synth.generator.sample(300, np.random.default_rng(0))
    assert (frame["city"].to_numpy()[made.source] == "Rome").all()
    assert len(synth.generator.sample(0, np.random.default_rng(0)).values) == 0
