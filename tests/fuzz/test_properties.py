"""Properties that hold for every kind of data, on random valid data."""

import json
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stochattn as sa
from stochattn.evaluation.inspection import round_trip_loss
from stochattn.kinds.summary import checksum

from .checks import OUTPUTS, run_command
from .stored import Stored, stored, tables

pytestmark = pytest.mark.slow
FEW = settings(
    max_examples=int(os.environ.get("EXAMPLES", "12")),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def fitted(data: Stored, **options):
    with tempfile.TemporaryDirectory() as folder:
        yield sa.fit(data.write(Path(folder)), kind=data.kind, **options), Path(folder)


def same(synth, first, second):
    return len(first) == len(second) and synth.kind.measures.same(synth.codec, first, second).all()


@FEW
@given(stored(), st.integers(1, 9), st.integers(0, 99))
def test_the_first_of_many_are_the_few(data, m, seed):
    with fitted(data) as (synth, _):
        many, few = synth.sample_items(12, seed), synth.sample_items(m, seed)
        assert same(synth, many[:m], few)


@FEW
@given(stored(), st.integers(0, 99))
def test_a_loaded_synthesizer_draws_the_same(data, seed):
    with fitted(data) as (synth, folder):
        synth.save(folder / "kept.synth")
        assert same(synth, sa.load(folder / "kept.synth").sample_items(5, seed), synth.sample_items(5, seed))


@FEW
@given(stored())
def test_stored_items_decode_to_themselves(data):
    variance = {"variance": 1.0} if data.kind == "protein" else {}
    with fitted(data, generator="hopfield", **variance) as (synth, _):
        loss = round_trip_loss(synth)
        assert (loss.items, loss.values) == (1, 1)


@FEW
@given(tables(), st.integers(0, 99))
def test_tables_keep_columns_types_ranges_categories_and_missing_cells(data, seed):
    with fitted(data) as (synth, _):
        old, new = data.frame(), synth.sample(40, rng=seed)
    assert list(new.columns) == list(old.columns)
    for name in old:
        assert new[name].isna().any() <= old[name].isna().any()
        if name in ("number", "small", "gaps", "count"):
            assert pd.api.types.is_float_dtype(new[name]) or pd.api.types.is_integer_dtype(new[name])
            spread = old[name].max() - old[name].min()
            assert new[name].min() >= old[name].min() - spread
            assert new[name].max() <= old[name].max() + spread
            assert name == "number" or name == "gaps" or new[name].min() >= 0
        if name == "count":
            assert (new[name] == new[name].round()).all()
        if name in ("word", "truth"):
            assert set(new[name]) <= set(old[name])
        if name == "day":
            assert pd.to_datetime(new[name]).between("2018-01-01", "2023-01-01").all()


@FEW
@given(tables(), st.data(), st.integers(0, 99))
def test_conditions_hold_exactly(data, choices, seed):
    old = data.frame()
    name = choices.draw(st.sampled_from([name for name in data.columns if name != "gaps"]))
    value = old[name].iloc[choices.draw(st.integers(0, len(old) - 1))]
    value = value.item() if isinstance(value, np.generic) else value
    with fitted(data) as (synth, _):
        new = synth.condition(**{name: value}).sample(6, rng=seed)
    assert [str(one)[:10] if name == "day" else one for one in new[name]] == [value] * 6


@FEW
@given(stored(), st.integers(0, 99))
def test_the_summary_on_the_command_line_is_json_and_true(data, seed):
    with tempfile.TemporaryDirectory() as folder:
        path, out = data.write(Path(folder)), Path(folder) / OUTPUTS[data.kind]
        words = ["sample", str(path), "--kind", data.kind, "-n", "4", "--seed", str(seed), "-o", str(out), "--json"]
        printed = run_command(words).stdout
        summary = json.loads(printed)
        assert summary == json.loads(out.with_name(out.name + ".json").read_text())
        assert (summary["kind"], summary["n"], summary["seed"]) == (data.kind, 4, seed)
        assert summary["sha256"] == checksum(out)
