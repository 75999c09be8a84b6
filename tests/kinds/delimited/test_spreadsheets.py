"""Tables in spreadsheets: which sheet, what cells mean, and what cannot be read."""

import datetime

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from command_runner import refused, works
from made_sheets import write_ods, write_xlsx
from stochattn.kinds import InputError
from stochattn.kinds.delimited.reading import numbers_beside_dates, read_first_rows, read_table

pytest.importorskip("python_calamine", reason="an environment from before it was a dependency")
N = 30


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("book") / "study.xlsx"
    day = datetime.datetime(2021, 3, 1)
    rows = [
        [
            f"P{i:03d}",
            day + datetime.timedelta(days=int(rng.integers(0, 300))),
            datetime.time(int(rng.integers(7, 18)), 30),
            datetime.timedelta(hours=float(rng.integers(1, 60)) / 2),
            round(float(rng.normal(70, 9)), 1),
            int(rng.integers(20, 80)),
            bool(i % 3),
            "<0.1" if i % 5 == 0 else round(float(rng.uniform(0.1, 3)), 2),
            "#DIV/0!" if i == 4 else "left" if i % 2 else "right",
        ]
        for i in range(N)
    ]
    names = ["patient", "seen", "at", "stay", "weight", "age", "smoker", "crp", "side"]
    write_xlsx(
        path, {"Read me": [["About this study"]], "Patients": [["Table 1"], [], names, *rows], "Old": [["a"], [1], [2]]}
    )
    return path


@pytest.mark.parametrize("ending", [".xlsx", ".csv", " with empty cells.csv"])
@pytest.mark.parametrize("remarks", [["Source: Office of Statistics"], ["Source: Office of Statistics", "* estimated"]])
def test_lines_below_a_table_are_skipped(ending, remarks, tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / f"a{ending}"
    rows = [[40 - i, round(float(b), 2), "abc"[i % 3]] for i, b in enumerate(rng.normal(size=N))]
    if ending == ".xlsx":
        write_xlsx(path, {"Data": [["Table 1"], [], ["age", "b", "c"], *rows, [], *([text] for text in remarks)]})
    else:
        rest = ",," if "empty" in ending else ""
        lines = [",".join(map(str, row)) for row in (["age", "b", "c"], *rows)]
        path.write_text("\n".join([*lines, rest, *(f"{text}{rest}" for text in remarks)]))
    table = read_table(path)
    assert table.frame.to_numpy().tolist() == rows
    assert sum("below the table is skipped" in note for note in table.notes) == len(remarks)
    assert dict(sa.fit(path).kind.display.column_types(sa.fit(path).codec))["age"] != "id"


def test_rows_of_one_cell_stay_where_no_empty_line_parts_them_from_the_table(tmp_path):
    for end, n_rows in (("x,,\ny,,\n", 4), (",,\n7,,\n", 3), ("\n\n", 2)):
        (tmp_path / "a.csv").write_text(f"a,b,c\n1,2,3\n4,5,6\n{end}")
        assert read_table(tmp_path / "a.csv").frame.dropna(how="all").shape[0] == n_rows
    (tmp_path / "a.csv").write_text("name\nx\n\ny\nz\n")  # a column alone
    assert len(read_table(tmp_path / "a.csv").frame) == 3


def test_a_sheet_is_read_like_the_table_that_it_shows(book, tmp_path):
    table = read_table(book)
    frame = table.frame
    assert list(frame.columns) == ["patient", "seen", "at", "stay", "weight", "age", "smoker", "crp", "side"]
    assert frame["seen"].str.fullmatch(r"2021-\d\d-\d\d|2022-01-\d\d").all()
    assert frame["at"].str.fullmatch(r"\d\d:30:00").all()
    assert frame["stay"].str.fullmatch(r"\d+:[03]0:00").all()
    assert [frame[name].dtype.kind for name in ("weight", "age", "smoker")] == ["f", "i", "b"]
    assert frame["side"].isna().tolist() == [i == 4 for i in range(N)]
    assert table.lines == tuple(range(4, N + 4))  # the rows that a spreadsheet program numbers
    assert any("read from the sheet 'Patients', one of 3" in note for note in table.notes)
    assert any("'Table 1' is a title" in note for note in table.notes)
    synth = sa.fit(book)
    types = dict(synth.kind.display.column_types(synth.codec))
    assert types == dict(
        zip(
            frame, ["id", "date", *["integer"] * 2, "numeric", "integer", "boolean", "numeric", "category"], strict=True
        )
    )
    works("sample", book, "-n", 20, "-o", tmp_path / "new.csv")
    new = pd.read_csv(tmp_path / "new.csv")
    assert set(new["crp"]) & {"<0.1"}
    assert new["at"].str.fullmatch(r"\d\d:\d\d:00").all()


def test_a_sheet_is_named_or_numbered(book, tmp_path):
    assert (
        read_table(book, sheet="Old").frame["a"].tolist() == [1, 2] == read_table(book, sheet="3").frame["a"].tolist()
    )
    said = refused("inspect", book, "--sheet", "Patient")
    assert "--sheet: there is no sheet 'Patient'. Did you mean 'Patients'?" in said
    with pytest.raises(InputError, match="sheet 'Read me': holds no table"):
        read_table(book, sheet="Read me")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    assert "is not a spreadsheet" in refused("inspect", tmp_path / "a.csv", "--sheet", "Old")


def test_a_sheet_of_numbers_goes_before_remarks_and_explanations(tmp_path):
    remarks = [["Note"], ["Data of the study"], ["exported in May"]]
    codes = [["column", "meaning"], ["a", "age"], ["b", "mass"]]
    numbers, words = [["a", "b"], *([i, i * i] for i in range(9))], [["c"], ["x"], ["y"]]
    for sheets, chosen in (
        ({"Notes": remarks, "Codes": codes, "Data": numbers}, "Data"),
        ({"Notes": remarks, "Codes": codes}, "Codes"),
        ({"Empty": [], "Words": words}, "Words"),
    ):
        write_xlsx(tmp_path / "a.xlsx", sheets)
        assert f"read from the sheet {chosen!r}" in read_table(tmp_path / "a.xlsx").notes[0]
        (tmp_path / "a.xlsx").unlink()


def test_a_sheet_is_named_for_prices_and_signals_too(tmp_path):
    rng, day = np.random.default_rng(0), datetime.datetime(2020, 1, 1)
    prices = [[day + datetime.timedelta(days=i), *map(float, rng.uniform(9, 11, 2))] for i in range(90)]
    signals = [list(map(float, np.sin(np.linspace(0, 3, 20) + shift).round(3))) for shift in rng.normal(size=12)]
    write_xlsx(
        tmp_path / "a.xlsx",
        {"people": [["age", "mass"], [1, 2.5], [3, 4.5]], "prices": [["date", "A", "B"], *prices], "signals": signals},
    )
    assert sa.fit(tmp_path / "a.xlsx", kind="returns", sheet="prices").codec.tickers == ("A", "B")
    assert sa.fit(tmp_path / "a.xlsx", kind="signals", sheet=3).codec.stored.shape == (12, 1, 20)
    codec = sa.fit(tmp_path / "a.xlsx", sheet="prices").codec
    assert any("If it is a price history, pass kind='returns'" in note for note in codec.notes)
    (tmp_path / "p.csv").write_text("date,A\n")
    with pytest.raises(InputError, match=r"^sheet: .*p.csv is not a spreadsheet"):
        sa.fit(tmp_path / "p.csv", kind="returns", sheet="prices")


def test_other_formats_of_spreadsheets_and_files_that_are_none(book, tmp_path):
    write_ods(tmp_path / "a.ods", {"One": [["a", "b"], ["x", 1.5], ["y", 2]]})
    assert read_table(tmp_path / "a.ods").frame.to_dict("list") == {"a": ["x", "y"], "b": [1.5, 2.0]}
    (tmp_path / "a.ods").rename(tmp_path / "a.xls")  # the content says the format
    assert read_table(tmp_path / "a.xls").frame.to_dict("list") == {"a": ["x", "y"], "b": [1.5, 2.0]}
    (tmp_path / "b.xlsx").write_bytes(b"nonsense")
    said = refused("inspect", tmp_path / "b.xlsx")
    assert "b.xlsx: is not a spreadsheet, or is damaged" in said
    assert "EOCD" not in said  # a word of the library
    said = refused("sample", book, "-o", tmp_path / "new.xlsx")
    assert "spreadsheets are read, and not written. Write .csv" in said


def test_prices_in_a_sheet_are_recognised_as_returns(tmp_path):
    rng = np.random.default_rng(0)
    days = [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=i) for i in range(90)]
    prices = 100 * np.exp(np.cumsum(rng.normal(0, 0.01, (90, 2)), axis=0)).round(4)
    write_xlsx(
        tmp_path / "a.xlsx",
        {"prices": [["date", "A", "B"], *([day, *map(float, row)] for day, row in zip(days, prices, strict=True))]},
    )
    assert numbers_beside_dates(read_first_rows(tmp_path / "a.xlsx")) == [True, True]
    assert sa.fit(tmp_path / "a.xlsx").kind.name == "returns"
