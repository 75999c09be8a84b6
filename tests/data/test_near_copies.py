"""The rule for near-copies: which distances count, and how many vectors are worth measuring."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import stochattn as sa
from stochattn.cli.messages import _novelty_lines
from stochattn.data.near_copies import NearCopies, distances_among, near_limit
from stochattn.data.tables.cells import Cells, equal_cells


def rule(K, size):
    """The rule for K stored vectors of some size, which take no memory."""
    return NearCopies(None, None, np.broadcast_to(np.zeros(1), (K, size)), 1.0)


@pytest.mark.parametrize(
    ("K", "size", "most", "n"),
    [
        (10, 10, 5000, 5000),  # quick, so that all are measured
        (10, 10, 3, 3),
        (1000, 4000, 5000, 1000),  # 4e9 multiplications
        (10_000, 4000, 5000, 500),
        (10_000, 4000, 20, 20),
    ],
)
def test_as_many_are_measured_as_the_work_allows(K, size, most, n):
    assert rule(K, size).n_measured(most) == n


def test_near_copies_of_one_stored_vector_are_unknown():
    assert distances_among(np.ones((1, 3))).shape == (0,)
    assert np.isnan(near_limit(np.empty(0)))
    codec = sa.fit(np.arange(12.0).reshape(4, 3), "table").codec
    synth = sa.fit(np.arange(12.0).reshape(4, 3), "table")
    alone = NearCopies.of(synth.kind, codec, np.array([2]))
    assert alone.count(codec.stored) == (0, 0)


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
    (line,) = _novelty_lines(SimpleNamespace(**known, near_copies=near))
    assert line == f"novelty 0.500, exact copies 100.0 %, {said}"
