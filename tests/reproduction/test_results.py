import csv
import io
import math

import pytest

from paper import writing
from paper.expected import Expected
from paper.results import Cause, Cell, Figure, Measured, Published, Result, Verdict


@pytest.mark.parametrize(
    ("text", "value", "error", "decimals", "relation"),
    [
        ("0.459 ± 0.011", 0.459, 0.011, 3, "="),
        ("-0.500 ± 0.000", -0.5, 0.0, 3, "="),
        ("> 0.99", 0.99, None, 2, ">"),
        ("< 0.001", 0.001, None, 3, "<"),
        ("99.2 %", 0.992, None, 3, "="),
        ("9", 9.0, None, 0, "="),
    ],
)
def test_published_numbers_are_read_as_printed(text, value, error, decimals, relation):
    published = Published.parse(text)
    assert (published.value, published.error, published.decimals, published.relation) == (
        value,
        error,
        decimals,
        relation,
    )


@pytest.mark.parametrize("text", ["", "about 3", "0.1 ± x", "1,5", "0.5 +- 0.1"])
def test_text_that_is_not_a_number_is_an_error(text):
    with pytest.raises(ValueError, match="is not a published number"):
        Published.parse(text)


@pytest.mark.parametrize(
    ("printed", "ours", "error", "verdict"),
    [
        ("0.500 ± 0.004", 0.514, 0.003, Verdict.MATCH),  # 3 √(0.004² + 0.003²) = 0.015
        ("0.500 ± 0.004", 0.516, 0.003, Verdict.DIFFERS),
        ("0.500", 0.504, 0.001, Verdict.MATCH),  # no printed error: our error counts twice, 3 √2 0.001 = 0.0042
        ("0.500", 0.505, 0.001, Verdict.DIFFERS),
        ("0.50 ± 0.00", 0.5049, 0.0, Verdict.MATCH),  # the printed rounding
        ("0.50 ± 0.00", 0.5051, 0.0, Verdict.DIFFERS),
        ("> 0.99", 0.999, 0.0, Verdict.MATCH),
        ("> 0.99", 0.98, 0.0, Verdict.DIFFERS),
        ("< 0.001", -3.0, 0.0, Verdict.MATCH),
        ("< 0.001", 0.01, 0.001, Verdict.DIFFERS),
        ("0.500", 0.5006, math.nan, Verdict.DIFFERS),
    ],
)
def test_the_verdict_follows_the_stated_rule(printed, ours, error, verdict):
    assert Cell(Measured(ours, error), Published.parse(printed)).verdict is verdict


def test_the_error_of_one_run_replaces_an_error_that_is_not_printed():
    """3 √(0.02² + 0.01²) = 0.067: the spread for the published run, the mean's error for ours."""
    ours = Measured(0.5, 0.01, spread=0.02)
    assert Cell(ours, Published.parse("0.566")).verdict is Verdict.MATCH
    assert Cell(ours, Published.parse("0.568")).verdict is Verdict.DIFFERS
    assert Cell(ours, Published.parse("0.54 ± 0.01")).verdict is Verdict.MATCH  # printed: 3 √2 0.01 = 0.042
    assert Cell(ours, Published.parse("0.55 ± 0.01")).verdict is Verdict.DIFFERS


@pytest.mark.parametrize("text", ["38.6 ± 0.16", "0.459 ± 0.011", "> 0.99", "1.5 ± 0.01", "9"])
def test_published_numbers_are_shown_as_printed(text):
    assert str(Published.parse(text)) == text


def test_a_band_replaces_the_errors_and_missing_is_not_new():
    published = Published.parse("0.5 ± 0.001", band=0.1)
    assert Cell(Measured(0.59, 0.001), published).verdict is Verdict.MATCH
    assert Cell(Measured(0.61, 9.0), published).verdict is Verdict.DIFFERS
    assert Cell(None, published).verdict is Verdict.MISSING
    assert Cell(Measured(1.0), None).verdict is Verdict.NEW


@pytest.fixture
def table():
    published = Expected("t", "A table", {"a": {"x": Published.parse("0.5")}, "b": {"x": Published.parse("1.0")}})
    return published.against(
        {"a": {"x": Measured(-0.0004, 0.01, 0.6, 0.7)}, "c": {"y": Measured(3.0, 0.0, spread=1.0)}},
        notes=("A note.",),
        causes=(Cause(("a",), (), "because"),),
        findings=("It says so.",),
    )


def test_a_table_keeps_values_without_a_counterpart(table):
    assert [(row, quantity, cell.verdict) for row, quantity, cell in table.items()] == [
        ("a", "x", Verdict.DIFFERS),
        ("c", "y", Verdict.NEW),
        ("b", "x", Verdict.MISSING),
    ]
    assert table.cause("a", "x").text == "because"
    assert table.cause("b", "x") is None


def test_tables_are_read_back_from_their_files(table, tmp_path):
    writing.write(Result([table], [Figure("f", "A caption.", blank)]), tmp_path, {"seed": 3})
    assert {p.name for p in tmp_path.iterdir()} == {"t.csv", "t.md", "f.png", "f.pdf", "result.json"}
    back = writing.read(tmp_path)
    assert back["tables"] == [table]
    assert back["seed"] == 3
    line = next(csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert (line["row"], line["published"], line["ours"], line["exact"], line["verdict"]) == (
        *("a", "0.5", "-0.0004", "0.6", "differs"),
    )
    text = (tmp_path / "t.md").read_text()
    assert "| a | paper 0.5<br>ours 0.00 ± 0.01 ≠<br>exact 0.60<br>formula 0.70 |" in text
    assert "not run" in text


@pytest.mark.parametrize("damage", ["truncate", "no picture", "no record"])
def test_an_incomplete_result_is_not_read(table, tmp_path, damage):
    writing.write(Result([table], [Figure("f", "A caption.", blank)]), tmp_path, {})
    if damage == "truncate":
        record = tmp_path / "result.json"
        record.write_bytes(record.read_bytes()[:-40])
    else:
        (tmp_path / {"no picture": "f.png", "no record": "result.json"}[damage]).unlink()
    assert writing.read(tmp_path) is None


def test_an_old_record_is_removed_before_new_files(table, tmp_path):
    writing.write(Result([table], [Figure("f", "", blank)]), tmp_path, {"seed": 0})
    with pytest.raises(ZeroDivisionError):
        writing.write(Result([table], [Figure("f", "", blank), Figure("g", "", lambda: 1 / 0)]), tmp_path, {"seed": 1})
    assert writing.read(tmp_path) is None


def test_a_figure_that_fails_leaves_no_record(table, tmp_path):
    with pytest.raises(ZeroDivisionError):
        writing.write(Result([table], [Figure("f", "", lambda: 1 / 0)]), tmp_path, {})
    assert writing.read(tmp_path) is None


def blank():
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(1, 1))
