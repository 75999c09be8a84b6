"""Controls of a page for the columns of a table: limits, whole numbers, dates and signs as in the file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn.kinds.tables import kind as controls


@pytest.fixture
def by_name(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["age;weight;smoker;seen;city;treated"]
    for i in range(60):
        seen = f"2021-05-{1 + i % 28:02d} {i % 24:02d}:{7 * i % 60:02d}:00"
        lines.append(
            f"{20 + (17 * i) % 50};{f'{50 + 40 * rng.random():.2f}'.replace('.', ',')};"
            f"{'yes' if i % 3 else 'no'};{seen};{'Oslo' if i % 2 else 'Bergen'};"
            f"{'TRUE' if i % 4 else 'FALSE'}"
        )
    (tmp_path / "patients.csv").write_text("\n".join(lines))
    synth = sa.fit(tmp_path / "patients.csv", "table")
    return {one.name: one for one in synth.kind.display.controls(synth.codec)}, synth.codec.stored


def test_numbers_run_from_the_least_to_the_greatest_as_they_are_written(by_name):
    found, stored = by_name
    age, weight = found["age"], found["weight"]
    assert (age.low, age.high) == (stored["age"].min(), stored["age"].max()) == (20, 69)
    assert age.low < age.high
    assert age.is_whole
    assert not weight.is_whole
    assert (age.kind, weight.kind) == ("number", "number")
    assert weight.decimal == ","
    assert weight.texts({"low": "55.5"}) == ("weight>=55,5",)
    assert (weight.low, weight.high) == (stored["weight"].min(), stored["weight"].max())


def test_dates_run_from_day_to_day_and_choices_are_as_in_the_file(by_name):
    found, _ = by_name
    seen = found["seen"]
    assert (seen.low, seen.high, seen.kind, seen.is_timed) == ("2021-05-01", "2021-05-28", "date", True)
    assert set(found["smoker"].choices) == {"yes", "no"}
    assert set(found["city"].choices) == {"Oslo", "Bergen"}
    assert set(found["treated"].choices) == {"TRUE", "FALSE"}


def test_only_the_first_columns_have_a_control(monkeypatch, tmp_path):
    values = np.random.default_rng(0).normal(size=(30, 5)).round(2)
    np.savetxt(tmp_path / "t.csv", values, delimiter=",", header="a,b,c,d,e", comments="")
    synth = sa.fit(tmp_path / "t.csv", "table")
    assert [one.name for one in synth.kind.display.controls(synth.codec)] == list("abcde")
    monkeypatch.setattr(controls, "MAX_CONTROLS", 2)
    assert [one.name for one in synth.kind.display.controls(synth.codec)] == ["a", "b"]


def test_times_of_day_are_chosen_as_they_are_written():
    rng = np.random.default_rng(0)
    starts = [f"{h:02d}:{m:02d}" for h, m in zip(rng.integers(7, 19, 30), rng.integers(0, 60, 30), strict=True)]
    synth = sa.fit(pd.DataFrame({"start": starts, "x": rng.normal(0, 1, 30).round(2)}))
    control = synth.kind.display.controls(synth.codec)[0]
    assert (control.low, control.high, control.kind) == (min(starts), max(starts), "text")
    texts = control.texts({"low": "09:00", "high": "11:15"})
    new = synth.condition(synth.kind.parse_condition(synth.codec, texts)).sample(20, rng=0)["start"]
    assert new.between("09:00", "11:15").all()
