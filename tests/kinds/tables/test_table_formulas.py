"""Texts that spreadsheets would run as formulas: a note names them, and safe files hold them as texts."""

import csv

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from command_runner import works
from made_tables import written
from stochattn.kinds import InputError
from stochattn.kinds.delimited.formulas import without_apostrophes
from stochattn.kinds.tables.codec import TableCodec

NOTE = "texts in 'remark', '=name', 'same' begin as formulas of spreadsheets do"


def risky(n=40, seed=0):
    rng = np.random.default_rng(seed)
    remark = rng.choice(["=HYPERLINK(A1)", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "fine", "-5", "-"], n)
    frame = {"remark": remark, "plain": rng.choice(["a=b", "A+", "x-y"], n), "x": np.round(rng.normal(0, 5, n), 1)}
    return pd.DataFrame({**frame, "=name": rng.integers(-50, 50, n), "same": "\tconstant"})


@pytest.fixture
def source(tmp_path):
    risky().to_csv(tmp_path / "risky.csv", index=False)
    return tmp_path / "risky.csv"


def raw(path, delimiter=","):
    with path.open(newline="") as file:
        rows = list(csv.reader(file, delimiter=delimiter))
    return rows[0], list(zip(*rows[1:], strict=True))


def test_a_note_names_columns_with_formulas():
    assert f"{NOTE}: pass safe_csv=True to write them as texts" in sa.fit(risky()).codec.notes
    assert f"{NOTE}: they get an apostrophe in front in CSV and TSV files" in sa.fit(risky(), safe_csv=True).codec.notes
    for text in ("\n=1+1", "＝1+1", "＋1+1"):
        assert any("formulas" in note for note in sa.fit(risky()[["x"]].assign(a=["b", text] * 20)).codec.notes), text
    harmless = risky()[["plain", "x"]].assign(sign=np.where(np.arange(40) % 2, "+", "-"), day="2021-01-05")
    assert not any("formulas" in note for note in sa.fit(harmless).codec.notes)


@pytest.mark.parametrize(("ending", "delimiter"), [(".csv", ","), (".tsv", "\t")])
def test_safe_files_hold_formulas_as_texts_and_numbers_as_numbers(source, tmp_path, ending, delimiter):
    plain, safe = tmp_path / f"plain{ending}", tmp_path / f"safe{ending}"
    told = works("sample", source, "-n", 200, "-o", plain)
    works("sample", source, "-n", 200, "--safe-csv", "-o", safe)
    assert "--safe-csv" in told.stderr
    (names, columns), (safe_names, safe_columns) = raw(plain, delimiter), raw(safe, delimiter)
    assert names == ["remark", "plain", "x", "=name", "same"]
    assert safe_names == ["remark", "plain", "x", "'=name", "same"]
    assert set(columns[0]) == {"=HYPERLINK(A1)", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "fine", "-5", "-"}
    expected = {"'=HYPERLINK(A1)", "'+cmd|' /C calc'!A0", "'-2+3", "'@SUM(1)", "fine", "-5", "-"}
    assert set(safe_columns[0]) == expected
    assert columns[1:4] == safe_columns[1:4]
    assert any(cell.startswith("-") for cell in safe_columns[2])
    assert set(safe_columns[4]) == {"'\tconstant"}


def test_safe_files_are_read_back_as_they_were(source, tmp_path):
    synth = sa.fit(source, safe_csv=True)
    synth.write(tmp_path / "new.csv", 60, rng=0)
    for codec in (synth.codec, sa.fit(source).codec):  # a report may be made without the option
        pd.testing.assert_frame_equal(synth.kind.read_new(codec, tmp_path / "new.csv"), synth.sample(60, rng=0))
    synth.save(tmp_path / "a.synth")
    assert sa.load(tmp_path / "a.synth").codec.options.safe_csv
    frame = sa.fit(risky(), safe_csv=True)  # other formats have no formulas
    frame.write(tmp_path / "new.parquet", 20, rng=0)
    assert "=name" in pd.read_parquet(tmp_path / "new.parquet")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_line_end_within_a_cell_begins_no_row(tmp_path, newline):
    """A spreadsheet would run the second line of the cell, which an apostrophe before the first one does not stop."""
    cells = ["a\r=1+1", "\r=1+1", "b\n=1+1", "c"]
    frame = pd.DataFrame({"remark": cells * 10, "x": range(40)})
    frame.to_csv(tmp_path / "a.csv", index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator=newline)
    synth = sa.fit(tmp_path / "a.csv", safe_csv=True)
    synth.write(tmp_path / "new.csv", 60, rng=0)
    with (tmp_path / "new.csv").open(newline="") as file:
        names, *rows = csv.reader(file)
    assert (names, len(rows)) == (["remark", "x"], 60)
    assert {remark for remark, _ in rows} == {"a\r=1+1", "'\r=1+1", "b\n=1+1", "c"}
    assert (tmp_path / "new.csv").read_bytes().endswith(newline.encode())


def test_apostrophes_are_taken_from_formulas_alone():
    cells = pd.Series(["'=1+1", "'tis", "=2", "'", None], dtype="object")
    frame = pd.DataFrame({"'=name": cells, "=n": np.arange(5, dtype="float32"), "'other": cells})
    found = without_apostrophes(frame, ["=name", "=n"])
    assert list(found) == ["=name", "=n", "'other"]
    assert found["=name"].tolist()[:4] == ["=1+1", "'tis", "=2", "'"]
    assert found["=name"].isna().tolist() == [False] * 4 + [True]
    assert found["=n"].dtype == np.float32
    assert found["'other"].tolist()[0] == "'=1+1"


def test_a_file_without_a_column_of_formulas_is_an_error_that_names_it(source, tmp_path):
    risky().drop(columns="remark").to_csv(tmp_path / "new.csv", index=False)
    synth = sa.fit(source)
    with pytest.raises(InputError, match="has no column 'remark'"):
        synth.kind.read_new(synth.codec, tmp_path / "new.csv")


def test_numbers_below_a_formula_keep_their_decimal_comma(tmp_path):
    rows = "".join(f"{i},{i % 4}5;{'ab'[i % 2]}\n" for i in range(12))
    (tmp_path / "t.csv").write_text(f"=x;c\n{rows}")
    synth = sa.fit(tmp_path / "t.csv", safe_csv=True)
    synth.write(tmp_path / "new.csv", 20, rng=0)
    names, columns = raw(tmp_path / "new.csv", ";")
    assert names == ["'=x", "c"]
    assert all("," in cell and "." not in cell for cell in columns[0])


def test_names_that_are_formulas_stay_as_they_are_unless_safe_files_are_asked_for():
    codec = TableCodec.fit(risky())
    assert written(codec, "csv", codec.stored).decode().splitlines()[0] == "remark,plain,x,=name,same"
