"""Conditions of tables that lie outside the stored values: noted nearby, refused far away."""

import math

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn import Range
from stochattn.kinds import InputError
from stochattn.kinds.tables.columns.columns import Source
from stochattn.kinds.tables.columns.inference import fit_column
from stochattn.kinds.tables.conditions import restrict
from stochattn.kinds.tables.description import ColumnType
from stochattn.kinds.tables.kind import KIND


def amounts(n=80, seed=0):
    """A column from 0 to 49 and one that follows it, beside a category and a date."""
    rng = np.random.default_rng(seed)
    a = np.concatenate([[0, 49], rng.integers(0, 50, n - 2)])
    day = pd.Timestamp("2021-01-01") + pd.to_timedelta(np.concatenate([[0, 100], rng.integers(0, 101, n - 2)]), "D")
    city = rng.choice(["Oslo", "Bergen", "Rome"], n, p=[0.5, 0.3, 0.2])
    return pd.DataFrame({"a": a, "b": np.round(a / 2 + rng.normal(0, 3, n), 2), "city": city, "day": day})


@pytest.mark.parametrize("generator", ["covariance", "hopfield"])
def test_values_further_outside_than_the_stored_range_is_wide_are_refused(generator):
    synth = sa.fit(amounts(), generator=generator)
    held = "the column has stored values from 0 to 49, and a condition may lie outside this range by its width"
    with pytest.raises(InputError, match=f"^condition a=1000000000: {held} at most. Choose a value between 0 and 98.$"):
        synth.condition(a=10**9)
    with pytest.raises(InputError, match="a value between 0 and 98"):
        synth.condition(a=99)
    new = synth.condition(a=98)
    assert any("a=98 lies beyond the stored values" in note for note in new.notes)
    assert (new.sample(20, rng=0)["a"] == 98).all()
    assert new.sample(20, rng=0)["b"].max() < 100  # 49 follows from the line, and 24.5 is the largest that is stored


@pytest.mark.parametrize(("ranges", "least"), [({}, 0), ({"a": (-100, 100)}, -49), ({"a": (-20, 100)}, -20)])
def test_conditions_meet_the_limits_of_the_column_and_the_width_of_its_range(ranges, least):
    """Values from 0 to 49 stay positive, unless `ranges` says otherwise; 49 below them is the width of their range."""
    synth = sa.fit(amounts(), ranges=ranges)
    for value in (least, 98):
        assert (synth.condition(a=value).sample(5, rng=0)["a"] == value).all()
    for value in (least - 1, 99):
        with pytest.raises(InputError, match=f"^condition a={value}: the column has "):
            synth.condition(a=value)
    with pytest.raises(InputError, match=f"^condition a<{least - 1}: the column has "):
        synth.condition(a=sa.Range(lt=least - 1))


def test_dates_outside_are_named_as_dates():
    synth = sa.fit(amounts())
    assert (synth.condition(day="2021-07-20").sample(3, rng=0)["day"] == pd.Timestamp("2021-07-20")).all()
    with pytest.raises(InputError, match=r"from 2021-01-01.* to 2021-04-11.* between 2020-09-23.* and 2021-07-20"):
        synth.condition(day="2021-07-21")


def restricted(cells, value, limits=(None, None)):
    """A column, and the features that a condition allows."""
    column, _ = fit_column(pd.Series(cells, name="x"), Source(), ColumnType.NUMERIC, limits)
    return column, restrict(column, value)


@pytest.mark.parametrize(
    ("cells", "value", "limits"),
    [
        (np.append(np.arange(10, 50) / 10, 2.63), Range(ge=2.62, le=2.7), (None, None)),  # 2.63 has an odd decimal
        (np.append(np.arange(10, 50) / 10, 2.67), Range(ge=2.5, le=2.68), (None, None)),
        (1000 + np.random.default_rng(0).random(40), Range(ge=5e-4, le=1000.5), (0.0, None)),
        (np.random.default_rng(0).random(40), Range(ge=0.5, le=1001 - 5e-4), (None, 1001.0)),
        (np.arange(10, 50) / 10, Range(ge=6.0), (None, 6.0)),
        (np.arange(10, 50) / 10, {1.0, 2.5, 4.9}, (None, None)),
    ],
    ids=["odd above the lower end", "odd below the upper end", "lower limit", "upper limit", "at the limit", "set"],
)
def test_a_box_holds_all_features_whose_cells_are_allowed(cells, value, limits):
    column, allowed = restricted(cells, value, limits)
    features = np.concatenate([column.features(pd.Series(cells)), np.linspace(-60, 60, 40001)[:, None]])
    met = allowed.contains(features)
    assert met.any()
    assert ((allowed.low <= features) & (features <= allowed.high))[met].all()
    assert math.isinf(allowed.low[0]) or not met.all()


def test_ranges_beyond_the_stored_values_are_noted():
    codec = sa.fit(amounts()).codec
    assert codec.condition({"a": Range(gt=60)}).notes == ("a>60 lies beyond the stored values of column 'a'",)
    assert codec.condition({"a": Range(gt=40)}).notes == ()
    with pytest.raises(InputError, match=r"^condition a>98\.5: .* Choose a value between 0 and 98\.$"):
        codec.condition({"a": Range(gt=98.5)})


def test_a_name_between_two_ends_that_no_column_has():
    codec = sa.fit(amounts()).codec
    for text in ("10<=aa<20", "aa>20", "aa=20"):
        with pytest.raises(InputError, match="condition: there is no column 'aa'"):
            KIND.parse_condition(codec, [text])


@pytest.mark.parametrize("options", [{"classes": "city"}, {"classes": "pooled"}, {"generator": "hopfield"}])
@pytest.mark.parametrize("given", [{"a": 20}, {"a": Range(ge=20)}])
def test_the_density_of_conditioned_rows_is_refused_with_the_remedy(options, given):
    frame = amounts()
    synth = sa.fit(frame, **options).condition(given)
    with pytest.raises(ValueError, match=r"^log_density must be called before condition\(\): draws under a condition"):
        synth.log_density(frame[:2])
