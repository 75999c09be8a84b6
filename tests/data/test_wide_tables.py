"""Tables of hundreds of columns: what is listed of them, and what reading them imports."""

import json
import subprocess
import sys

import numpy as np
from command_runner import works
from sklearn.decomposition import PCA

from stochattn.generators.coordinates import Coordinates

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


def test_components_are_those_of_scikit_learn():
    features = np.random.default_rng(0).normal(3.0, 1.0, (20, 30))
    centred = features - features.mean(0)
    found = Coordinates.fit(features, variance=1.0, norm="whole")
    expected = PCA(svd_solver="full").fit(centred).components_[:19]
    np.testing.assert_array_equal(found.outward, expected)
    np.testing.assert_array_equal(found.stored, centred @ expected.T)
