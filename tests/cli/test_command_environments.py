"""Commands where the clock was set back, and under a locale with decimal commas."""

import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

import stochattn as sa
from command_runner import works
from stochattn.kinds.summary import read_summary

IN_GERMAN = """
import locale, sys
from stochattn.__main__ import main

locale.setlocale(locale.LC_NUMERIC, "")  # as a program may that calls the library; the command itself does not
assert locale.format_string("%.1f", 0.5) == "0,5"
main()
"""


def test_a_clock_that_was_set_back_changes_nothing(inputs, tmp_path, monkeypatch):
    out = tmp_path / "new.csv"
    works("sample", inputs["table"], "-n", 5, "--seed", 1, "-o", out)
    left = tmp_path / ".stochattn-abcd1234.part"
    (left / "new").mkdir(parents=True)
    before, later = out.read_bytes(), time.time() + 1e8
    for path in (out, tmp_path / "new.csv.json", left, inputs["table"]):
        os.utime(path, (later, later))
    monkeypatch.setattr(time, "time", lambda: 0.0)  # zip files hold no times before 1980
    works("sample", inputs["table"], "-n", 6, "--seed", 1, "-o", out)
    assert out.read_bytes().startswith(before)
    assert read_summary(out).fits(out)
    assert not left.exists()
    works("sample", inputs["image"], "-n", 2, "-o", tmp_path / "new.npz")
    synth = sa.fit(inputs["table"])
    synth.save(tmp_path / "a.synth")
    assert sa.load(tmp_path / "a.synth").sample(3, rng=0).equals(synth.sample(3, rng=0))


@pytest.fixture(scope="module")
def german(tmp_path_factory):
    """The environment of a locale that writes 0,5, made for these tests."""
    if shutil.which("localedef") is None or not os.path.exists("/usr/share/i18n/locales/de_DE"):
        pytest.skip("needs localedef and the source of de_DE, to make a locale with decimal commas")
    folder = tmp_path_factory.mktemp("locales")
    made = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")]
    subprocess.run(made, check=False, capture_output=True)  # it returns 1 for warnings
    return {**os.environ, "LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8"}


def test_a_locale_with_decimal_commas_gives_the_same_bytes(german, tmp_path):
    rng, source = np.random.default_rng(0), tmp_path / "a.csv"
    days = [f"{d:02d} {m} 2021" for m in ("March", "May", "December") for d in rng.permutation(28)[:14] + 1]
    rows = [f"{x:.3f},${1000 + 90 * abs(x):.2f},{day}" for x, day in zip(rng.normal(0, 1, 42), days, strict=True)]
    source.write_text("\n".join(["x,price,day", *rows]) + "\n")
    words = ["sample", source, "-n", "20", "--condition", "x>0.25"]
    done = subprocess.run(
        [sys.executable, "-c", IN_GERMAN, *words, "-o", tmp_path / "german.csv"],
        env=german,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    works(*words, "-o", tmp_path / "plain.csv")
    assert (tmp_path / "german.csv").read_bytes() == (tmp_path / "plain.csv").read_bytes()
    assert " 2021\n" in (tmp_path / "plain.csv").read_text()
