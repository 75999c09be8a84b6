"""The rule for near-copies: which distances count."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn.cli.messages import _format_novelty
from stochattn.kinds.comparison import distances_among, near_limit, share_near
from stochattn.kinds.tables.columns.cells import Cells, equal_cells


def test_distances_among_many_numbers_are_those_of_fewer_vectors():
    vectors = np.random.default_rng(0).normal(size=(4000, 600))
    distances = distances_among(vectors)
    assert len(distances) == 4e9 // vectors.size  # multiplications, instead of 2,000 vectors
    assert distances[-1] == pytest.approx(np.linalg.norm(vectors[:-1] - vectors[-1], axis=1).min())


def test_near_copies_of_one_stored_vector_are_unknown():
    assert distances_among(np.ones((1, 3))).shape == (0,)
    assert np.isnan(near_limit(np.empty(0)))
    synth = sa.fit(np.arange(12.0).reshape(4, 3), "table")
    assert np.isnan(near_limit(distances_among(synth.kind.measures.stored_vectors(synth.codec, np.array([2])))))


def test_the_limit_is_the_first_percentile_of_distances_that_are_not_zero():
    distances = np.concatenate([np.zeros(50), np.linspace(1, 2, 101)])
    assert near_limit(distances) == pytest.approx(1.01)


def test_missing_texts_are_equal_to_each_other_and_to_nothing_else():
    import pandas as pd

    a = Cells.of(pd.Series(["x", None, None, "y", "z"], dtype="str", name="a"))
    b = Cells.of(pd.Series(["x", None, "q", None, "w"], dtype="str", name="a"))
    assert equal_cells(a, b).tolist() == [True, True, False, False, False]
    assert equal_cells(a, a).all()


DTYPES = ["datetime64[s]", "datetime64[ns]", "datetime64[us, Europe/Berlin]", "timedelta64[ns]", "Int64", "Float64"]


@pytest.mark.parametrize("dtype", [*DTYPES, "float64", "boolean", "category", "str", "string", "object"])
def test_cells_of_every_dtype_equal_those_with_the_same_value_and_missing_equal_missing(dtype):
    import pandas as pd

    values = {"da": ["2023-01-01", "2023-01-02"], "ti": ["1 day", "2 days"], "bo": [True, False], "In": [1, 2]}
    one, other = values.get(dtype[:2], [1.5, 2.5] if "loat" in dtype else ["x", "y"])
    first, second = [one, None, None, one, one], [one, None, one, None, other]
    a, b = (Cells.of(pd.Series(cells, name="a").astype(dtype)) for cells in (first, second))
    assert a.missing.tolist() == [False, True, True, False, False]
    assert equal_cells(a, b).tolist() == [True, True, False, False, False]
    assert equal_cells(a, b).dtype == bool


def test_copies_of_rows_with_missing_dates_are_counted():
    import pandas as pd

    dates = pd.Series(pd.date_range("2023-01-01", periods=6)).where(np.arange(6) % 2 > 0)
    codec = sa.fit(pd.DataFrame({"date": dates, "x": np.arange(6.0)}), "table").codec
    assert codec.same(codec.stored, codec.stored.copy()).all()


@pytest.mark.parametrize(("near", "said"), [(None, "near-copies unknown"), (0.0, "near-copies 0.0 %")])
def test_a_summary_says_where_near_copies_are_unknown(near, said):
    known = {"novelty": 0.5, "novelty_predicted": None, "novelty_target": None, "copies": 1.0}
    (line,) = _format_novelty(SimpleNamespace(**known, near_copies=near))
    assert line == f"novelty 0.500, exact copies 100.0 %, {said}"


def test_real_items_that_equal_stored_ones_do_not_hide_near_copies():
    """One real item in 20 is a repeat. Without it, the nearest twentieth of the others is at a distance of 1."""
    real = np.array([0.0, *range(1, 20)])
    assert share_near(np.full(10, 0.5), real, 0.05) == 1
    assert share_near(np.full(10, 3.0), real, 0.05) == 0
    # Of ten, two are copies, one of them as often as real items are, and one is nearer than the limit.
    assert share_near(np.array([0.0, 0.0, 0.5, *np.full(7, 5.0)]), real, 0.05) == pytest.approx(0.2 - 0.05 + 0.1)


def answers(columns="abcd"):
    """Sixty different rows of columns with few values each: numbers, texts and missing cells."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(0, 6, (300, len(columns))), columns=list(columns)).astype({"a": "float"})
    frame["b"] = frame["b"].map(dict(enumerate("uvwxyz")))
    frame.loc[::9, "a"] = np.nan
    return frame.drop_duplicates().head(60).reset_index(drop=True)


def share_copied(new, stored):
    """Share of new rows that equal a stored one."""
    rows = {tuple(map(str, row)) for row in stored.itertuples(index=False)}
    return np.mean([tuple(map(str, row)) in rows for row in new.itertuples(index=False)])


def test_rows_that_copy_a_stored_row_are_drawn_again():
    synth = sa.fit(answers(), "table", classes="pooled")
    new = synth.sample(700, rng=0)
    assert share_copied(new, answers()) == 0
    pd.testing.assert_frame_equal(synth.sample(150, rng=0), new.head(150))
    pd.testing.assert_frame_equal(synth.sample(700, rng=0, n_jobs=2), new)
    batch = next(iter(synth.batches(700, 0)))  # what is said of the rows is that of the rows drawn instead
    pd.testing.assert_frame_equal(batch.items, new)
    np.testing.assert_allclose(batch.novelty, synth.novelty(new))
    assert (new["a"].isna() == answers()["a"].isna().to_numpy()[batch.source]).all()


@pytest.mark.parametrize(
    ("stored", "options", "condition"),
    [
        (answers("abc"), {}, {}),  # so few columns have equal rows by chance
        (pd.concat([answers(), answers()]), {}, {}),  # stored rows repeat themselves
        (answers(), {"width": (1e-4, 0.5, 20)}, {}),  # recall
    ],
)
def test_copies_stay_where_they_are_usual_or_meant(stored, options, condition):
    new = sa.fit(stored, "table", classes="pooled", **options).condition(condition).sample(300, rng=0)
    assert share_copied(new, stored) > 0.02


def test_a_condition_that_leaves_only_copies_is_met_by_them():
    row = answers().iloc[3]
    new = sa.fit(answers(), "table", classes="pooled").condition(row.to_dict()).sample(20, rng=0)
    assert (new == row).all(axis=None)
