"""Matrices whose rows or columns look like signals: a note says what they were read as, and how to change it."""

import numpy as np
import pytest

from command_runner import works
from stochattn.kinds.smoothing import columns_are_smooth, roughness, rows_are_smooth


def waves(n=30, points=60, noise=0.2, seed=0):
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, points)
    curves = [np.sin(2 * np.pi * (f * t + shift)) for f, shift in rng.uniform(0.5, 3, (n, 2))]
    return np.array(curves) + noise * rng.normal(size=(n, points))


def test_roughness_is_von_neumanns_ratio():
    """1 for independent points, with a standard error of 1/√(lines points), and 1 − correlation for a Markov chain."""
    rng = np.random.default_rng(0)
    assert roughness(rng.normal(size=(400, 500))) == pytest.approx(1, abs=0.02)
    chain = np.zeros((400, 2000))
    noise = rng.normal(size=chain.shape)
    for t in range(1, 2000):
        chain[:, t] = 0.9 * chain[:, t - 1] + noise[:, t]
    assert roughness(chain[:, 200:]) == pytest.approx(0.1, abs=0.01)
    assert np.isnan(roughness(np.zeros((5, 20))))
    assert np.isnan(roughness(rng.normal(size=(3, 20))))
    assert np.isnan(roughness(rng.normal(size=(20, 7))))
    assert np.isfinite(roughness(rng.normal(size=(4, 8))))
    bytes_ = rng.integers(-128, 128, (50, 40)).astype(np.int8)  # differences of which need more bits
    assert roughness(bytes_) == roughness(bytes_.astype(float))


def test_smooth_rows_are_signals_and_sorted_tables_are_not():
    rng = np.random.default_rng(1)
    assert rows_are_smooth(waves())
    assert not columns_are_smooth(waves())
    assert columns_are_smooth(waves(noise=0.1).T)
    assert not rows_are_smooth(waves().T)
    table = rng.normal(size=(200, 12)) * rng.gamma(1, 10, 12)
    ordered = table[np.argsort(table[:, 0])]
    grouped = table + 20 * np.repeat(np.arange(4), 50)[:, None]  # sorted by class, as many tables are
    for one in (table, ordered, grouped + table):
        assert not rows_are_smooth(one)
    assert not columns_are_smooth(table)
    assert not columns_are_smooth(ordered)
    assert not rows_are_smooth(np.where(waves() > 0.9, np.nan, waves()))
    assert not rows_are_smooth(waves().astype(object))
    one_missing = waves()
    one_missing[3, 5] = np.nan
    assert not rows_are_smooth(one_missing)
    heights = np.add.outer(np.sin(np.arange(40) / 9), np.cos(np.arange(50) / 9))  # a map, smooth in both directions
    assert roughness(heights) < 0.1
    assert not rows_are_smooth(heights)


@pytest.mark.parametrize(("correlation", "smooth"), [(0.93, True), (0.87, False)])
def test_columns_are_smooth_within_a_narrower_limit_than_rows(correlation, smooth):
    """Roughness is 1 − correlation: 0.07 or 0.13, where rows may have 0.3."""
    chain = np.random.default_rng(0).normal(size=(2000, 12))
    for t in range(1, 2000):
        chain[t] += correlation * chain[t - 1]
    assert columns_are_smooth(chain) is smooth
    assert rows_are_smooth(chain.T)


@pytest.mark.parametrize("command", ["inspect", "sample"])
def test_commands_say_what_an_array_was_taken_for(tmp_path, command):
    more = () if command == "inspect" else ("-n", 2, "-o", tmp_path / "new.npy")

    def said(name, array, *options):
        np.save(tmp_path / f"{name}.npy", array)
        done = works(command, tmp_path / f"{name}.npy", *options, *more)
        return " ".join((done.stdout + done.stderr).replace("\u2502", " ").split())

    rows = "a table of 30 rows and 60 columns, but neighboring values of a row are alike"
    found = said("rows", waves())
    assert rows in found
    assert "If each row is a signal, pass --kind signals" in found
    found = said("columns", waves(noise=0.1).T)
    assert "neighboring values of a column are alike" in found
    assert "If each column is a signal, transpose the array and pass --kind signals" in found
    assert "alike" not in said("rows", waves(), "--kind", "table")
    assert "alike" not in said("rows", waves(), "--kind", "signals")
    found = said("columns", waves(noise=0.1).T, "--kind", "signals")
    assert "read as 60 signals of 30 points, one per row" in found
    assert "alike" not in said("table", np.random.default_rng(0).normal(size=(40, 12)))
    names = ",".join(f"t{i}" for i in range(60))
    np.savetxt(tmp_path / "named.csv", waves(), delimiter=",", header=names, comments="")
    out = () if command == "inspect" else ("-n", 2, "-o", tmp_path / "new.csv")
    done = works(command, tmp_path / "named.csv", *out)
    assert "alike" not in done.stdout + done.stderr  # a file with names of columns is a table
