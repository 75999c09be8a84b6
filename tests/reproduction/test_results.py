import csv
import io
import math

import pytest

from paper import writing
from paper.expected import Expected
from paper.results import Cause, Cell, Claim, Figure, Measured, Published, Result, Verdict, over_seeds


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
        ("0.500 ± 0.004", 0.512, 0.003, Verdict.MATCH),  # (0.012 − 0.0005)/√(0.004² + 0.003²) = 2.3
        ("0.500 ± 0.004", 0.514, 0.003, Verdict.NEAR),  # 2.7
        ("0.500 ± 0.004", 0.517, 0.003, Verdict.NEAR),  # 3.3
        ("0.500 ± 0.004", 0.519, 0.003, Verdict.DIFFERS),  # 3.7
        ("0.500", 0.5025, 0.001, Verdict.MATCH),  # no printed and no recorded error: (0.0025 − 0.0005)/0.001 = 2
        ("0.500", 0.505, 0.001, Verdict.DIFFERS),
        ("0.50", 0.5049, 0.0, Verdict.MATCH),  # the printed rounding
        ("0.50", 0.5051, 0.0, Verdict.DIFFERS),
        ("0.50 ± 0.00", 0.517, 0.0, Verdict.MATCH),  # an error printed as zero is at most 0.005: 2.4
        ("0.50 ± 0.00", 0.523, 0.0, Verdict.DIFFERS),
        ("> 0.99", 0.999, 0.0, Verdict.MATCH),
        ("> 0.99", 0.98, 0.0, Verdict.DIFFERS),
        ("< 0.001", -3.0, 0.0, Verdict.MATCH),
        ("< 0.001", 0.01, 0.001, Verdict.DIFFERS),
        ("0.500", 0.5006, math.nan, Verdict.DIFFERS),
    ],
)
def test_the_verdict_follows_the_stated_rule(printed, ours, error, verdict):
    assert Cell(Measured(ours, error), Published.parse(printed)).verdict is verdict


@pytest.mark.parametrize("spread", [None, 0.001, 0.2])
def test_a_recorded_error_replaces_one_that_is_not_printed_whatever_our_spread(spread):
    """√(0.02² + 0.01²) = 0.0224: the recorded error for the published run, the mean's error for ours."""
    ours = Measured(0.5, 0.01, spread=spread)
    cells = [Cell(ours, Published.parse(text, one_run=0.02)) for text in ("0.540", "0.567", "0.590")]
    assert [cell.verdict for cell in cells] == [Verdict.MATCH, Verdict.NEAR, Verdict.DIFFERS]
    assert [round(cell.margin, 2) for cell in cells] == [1.77, 2.97, 4.0]
    assert cells[0].tolerance == pytest.approx(0.0005 + 3 * math.hypot(0.02, 0.01))


def test_agreement_that_proves_nothing_is_not_a_match():
    """Three standard errors of 0.0285 exceed half of 0.060; a difference of 5 standard errors is still one."""
    published = Published.parse("0.060", one_run=0.027)
    assert Cell(Measured(0.073, 0.009), published).verdict is Verdict.WEAK
    assert Cell(Measured(0.210, 0.009), published).verdict is Verdict.DIFFERS
    assert Cell(Measured(0.073, 0.009), Published.parse("0.600", one_run=0.027)).verdict is Verdict.DIFFERS
    assert Cell(Measured(0.590, 0.009), Published.parse("0.600", one_run=0.027)).verdict is Verdict.MATCH
    assert Cell(Measured(0.3, 0.0), Published.parse("0.416", band=0.3)).verdict is Verdict.WEAK
    assert Cell(Measured(0.0, 0.001), Published.parse("0.000", one_run=0.001)).verdict is Verdict.MATCH


def test_a_run_that_is_noisier_than_the_published_one_confirms_nothing():
    published = Published.parse("0.500 ± 0.002")
    assert Cell(Measured(0.501, 0.0039), published).verdict is Verdict.MATCH
    assert Cell(Measured(0.501, 0.0041), published).verdict is Verdict.WEAK


def test_runs_with_several_seeds_are_joined():
    published = Expected("t", "A table", {"a": {"x": Published.parse("0.500 ± 0.010")}})
    tables = [published.against({"a": {"x": Measured(value, 0.01, 0.5, 0.7)}}) for value in (0.49, 0.52, 0.55)]
    cell = over_seeds(tables).cells["a"]["x"]
    assert cell.measured.value == pytest.approx(0.52)
    assert cell.measured.error == pytest.approx(0.03 / math.sqrt(3))
    assert (cell.measured.exact, cell.measured.formula, cell.measured.seeds) == (0.5, 0.7, (0.49, 0.52, 0.55))
    assert cell.measured.one_run == pytest.approx(0.01)
    assert [round(cell.margin_of(value), 1) for value in cell.measured.seeds] == [0.5, 1.0, 2.5]
    assert over_seeds(tables[:1]) is tables[0]


@pytest.mark.parametrize("text", ["38.6 ± 0.16", "0.459 ± 0.011", "> 0.99", "1.5 ± 0.01", "9"])
def test_published_numbers_are_shown_as_printed(text):
    assert str(Published.parse(text)) == text


def test_a_band_replaces_the_errors_and_missing_is_not_new():
    published = Published.parse("0.5 ± 0.001", band=0.1)
    assert Cell(Measured(0.58, 0.001), published).verdict is Verdict.MATCH
    assert Cell(Measured(0.61, 9.0), published).verdict is Verdict.NEAR  # 3.3 thirds of the band
    assert Cell(Measured(0.62, 9.0), published).verdict is Verdict.DIFFERS
    assert Cell(Measured(0.61, 9.0), published).tolerance == pytest.approx(0.1)
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
    claim = Claim(7, "some words", "A claim.", "holds", "0 < 1", "proof")
    figure = Figure("f", "A caption.", blank, "a claim.", "a finding.")
    writing.write(Result([table], [figure], [claim]), tmp_path, {"seed": 3})
    assert {p.name for p in tmp_path.iterdir()} == {"t.csv", "t.md", "f.png", "f.pdf", "result.json"}
    back = writing.read(tmp_path)
    assert back["tables"] == [table]
    assert back["claims"] == [claim]
    assert back["figures"] == [{"name": "f", "caption": "A caption.", "claim": "a claim.", "finding": "a finding."}]
    assert back["seed"] == 3
    line = next(csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert (line["row"], line["published"], line["ours"], line["exact"], line["verdict"]) == (
        *("a", "0.5", "-0.0004", "0.6", "differs"),
    )
    text = (tmp_path / "t.md").read_text()
    assert "| a | paper 0.5<br>ours 0.00 ± 0.01 ≠ 45.0σ<br>exact 0.60<br>formula 0.70 |" in text
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
