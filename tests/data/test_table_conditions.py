"""Conditions of tables that lie outside the stored values: noted nearby, refused far away."""

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn.data import InputError


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
    held = "the column has stored values from 0 to 49, and a condition may lie outside them by the width of this range"
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
