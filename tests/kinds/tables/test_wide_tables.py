"""Tables of hundreds of columns: what is listed of them, and what reading them imports."""

import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from command_runner import works
from stochattn.kinds.delimited import reading as delimited
from stochattn.kinds.delimited.numbers import plain_numbers
from stochattn.kinds.hopfield import Coordinates
from stochattn.kinds.native import frame_of
from stochattn.kinds.registry import kind_for
from stochattn.kinds.tables.columns.cells import cells_of

INSPECTED = """
import sys
from stochattn.__main__ import main

sys.argv = ["stochattn", "inspect", sys.argv[1], "--json"]
try:
    main()
except SystemExit:
    print([name for name in ("sklearn", "scipy.stats", "matplotlib") if name in sys.modules], file=sys.stderr)
"""


def write_wide(path):
    rng = np.random.default_rng(0)
    rows = [[f"{x:.3f}" for x in row] + [rng.choice(["red", "blue"])] for row in rng.normal(0, 1, (12, 149))]
    lines = [[f"c{j}" for j in range(150)], *rows]
    path.write_text("".join(",".join(line) + "\n" for line in lines))
    return path


def test_inspect_lists_a_hundred_columns_and_counts_the_others(tmp_path):
    source = write_wide(tmp_path / "wide.csv")
    shown = " ".join(works("inspect", source).stdout.replace("│", " ").split())  # a narrow table wraps its cells
    assert "column c99 " in shown
    assert "column c100 " not in shown
    assert "50 more columns" in shown
    assert "49 numeric, 1 category (--json lists them)" in shown
    assert len(json.loads(works("inspect", source, "--json").stdout)["columns"]) == 150


def test_inspecting_a_table_does_not_import_what_takes_a_second(tmp_path):
    source = write_wide(tmp_path / "wide.csv")
    done = subprocess.run([sys.executable, "-c", INSPECTED, source], capture_output=True, text=True, timeout=60)
    assert done.stderr == "[]\n"
    assert json.loads(done.stdout)["K"] == 12


@pytest.mark.parametrize(("first", "is_dated"), [("red", False), ("1.25", False), ("2020-01-{:02d}", True)])
def test_the_first_lines_are_cut_once_to_recognize_a_table(tmp_path, monkeypatch, first, is_dated):
    lines = ["name,x,y", *(f"{first.format(row + 1)},{row}.5,{row}" for row in range(30))]
    lines += [f"other,{row}.5,{row}" for row in range(300)] if not is_dated else []
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    seen, cut = [], delimited._parse_text
    monkeypatch.setattr(
        delimited, "_parse_text", lambda path, content, **k: seen.append(content) or cut(path, content, **k)
    )
    kind = kind_for(path)
    assert [content.count(b"\n") for content in seen] == [min(len(lines), delimited.MAX_LINES)]
    assert kind.name == ("returns" if is_dated else "table")


def test_components_are_those_of_scikit_learn():
    features = np.random.default_rng(0).normal(3.0, 1.0, (20, 30))
    centered = features - features.mean(0)
    found = Coordinates.fit(features, variance=1.0, norm="whole")
    expected = PCA(svd_solver="full").fit(centered).components_[:19]
    np.testing.assert_array_equal(found.outward, expected)
    np.testing.assert_array_equal(found.stored, centered @ expected.T)


@pytest.mark.parametrize("decimals", [0, 1, 3, 9, None])
def test_plain_numbers_are_those_of_pandas_to_the_last_bit(decimals):
    rng = np.random.default_rng(0)
    places = rng.integers(0, 6, 400) if decimals is None else np.full(400, decimals)
    numbers = rng.normal(0, 1, 400) * 10.0 ** rng.integers(-2, 4, 400)
    cells = [f"{x:.{n}f}" for x, n in zip(numbers, places, strict=True)]
    cells[7] = f"{-0.0:.{places[7]}f}"
    expected = pd.read_csv(io.StringIO("\n".join(["x", *cells])))["x"].to_numpy()
    values, padding = plain_numbers(cells, ".")
    assert values.dtype == expected.dtype
    assert values.tobytes() == expected.tobytes()
    assert padding == (decimals or 0)


def test_a_single_plain_number():
    assert plain_numbers(["1.50"], ".") == (1.5, 2)
    assert plain_numbers(["7"], ",") == (7, 0)


@pytest.mark.parametrize(
    "cell", ["", "NA", "007", "+1", ".5", "5.", "1e3", "1,5", " 1", "1\n2", "٣", "-", "1234567890.12345"]
)
def test_a_cell_that_is_not_a_plain_number_leaves_its_column_to_pandas(cell):
    assert plain_numbers(["1.5", cell, "2.5"], ".") is None


def test_columns_keep_their_order_dtypes_and_cells_when_they_are_taken_and_put_together():
    columns = {"a": [1.5, np.nan], "b": ["x", None], "c": [1, 2], "d": [0.5, 2.5], "e": [True, False], "f": [3, 4]}
    frame = pd.DataFrame(columns).astype({"d": "float32", "f": "Int64"})
    cells = cells_of(frame)
    pd.testing.assert_frame_equal(frame_of({name: one.array for name, one in cells.items()}), frame)
    assert [one.missing.tolist() for one in cells.values()] == frame.isna().to_numpy().T.tolist()
