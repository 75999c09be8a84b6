"""The catalogue of claims, the totals of the page, and results with several seeds."""

import json
import os
import shutil
from pathlib import Path

import pytest

from paper import report, writing
from paper.experiments.claims_arithmetic import _ratio, arithmetic
from paper.results import Cause, Cell, Claim, Measured, Published, Table

DOCS = Path(__file__).parents[2] / "docs"
VERDICTS = {"holds", "holds in part", "does not hold", "not tested"}


def test_every_claim_has_a_line_a_verdict_and_evidence():
    claims = arithmetic()
    assert len(claims) > 25
    for claim in claims:
        assert claim.verdict in VERDICTS
        assert claim.line > 0
        assert claim.quote
        assert claim.evidence.endswith((".", "."))
        assert "|" not in claim.words + claim.evidence  # it would end a cell of the table


@pytest.mark.parametrize(("printed", "verdict"), [(6.9, "holds"), (7.0, "does not hold")])
def test_a_printed_ratio_is_compared_with_its_numbers(printed, verdict):
    assert _ratio(1, "x", "A ratio.", 0.416, 0.060, printed, 1).verdict == verdict


def record(tables=(), claims=(), quick=False):
    return {
        **{"tables": list(tables), "claims": list(claims), "figures": [], "quick": quick, "seed": 0, "code": "x"},
        **{"seconds": 1.0, "learned_seconds": 0.0, "remarks": [], "data": {}},
    }


def test_the_totals_count_each_published_value_once():
    ours = {"match": 0.5, "near": 0.53, "explained": 0.7, "unexplained": 0.8, "none": 0.9}
    cells = {row: {"x": Cell(Measured(value, 0.005), Published.parse("0.500 ± 0.010"))} for row, value in ours.items()}
    cells["weak"] = {"x": Cell(Measured(0.5, 0.0), Published.parse("0.50 ± 0.10"))}
    cells["not run"] = {"x": Cell(None, Published.parse("0.5"))}
    cells["new"] = {"x": Cell(Measured(0.5), None)}
    causes = (Cause(("explained",), (), "a reason"), Cause(("unexplained",), (), "not explained", explained=False))
    lines = list(report._totals({"a": record([Table("t", "T", cells, (), causes)])}))
    assert "| 1 | 1 | 1 | 2 | 2 | 7 |\n" in lines
    claims = [Claim(1, "q", "w", verdict, "e.", "proof") for verdict in ("holds", "holds", "not tested")]
    text = "Of 3 claims in the text, 2 hold, 0 hold in part, 0 do not hold, 1 were not tested.\n"
    assert text in list(report._totals({"a": record(claims=claims)}))


def test_claims_are_listed_by_line_and_not_taken_from_quick_runs():
    one, two, quick = (Claim(n, "q", f"claim {n}", "holds", "e.", "proof") for n in (9, 3, 1))
    lines = list(report._claims({"a": record(claims=[one, two]), "b": record(claims=[quick], quick=True)}))
    assert [line for line in lines if "claim " in line][-2:] == [
        "| 3 | claim 3 | holds | e. | proof |",
        "| 9 | claim 9 | holds | e. | proof |",
    ]


def table_of(value):
    return Table("t", "T", {"row": {"x": Cell(Measured(value, 0.01), Published.parse("0.5"))}})


def test_repetitions_are_joined_only_if_the_same_code_made_them(tmp_path):
    for i, (value, code) in enumerate(((0.4, "x"), (0.6, "x"), (0.9, "other"))):
        place = report.repetition(tmp_path, i)
        place.mkdir(exist_ok=True)
        stored = {**record(), "seed": 1000 * i, "code": code}
        content = {**stored, "tables": [json.loads(json.dumps(report.asdict(table_of(value))))]}
        (place / writing.RECORD).write_text(json.dumps(content))
    joined = report._joined(tmp_path)
    assert joined["seeds"] == [0, 1000]
    assert joined["seconds"] == 2.0
    assert joined["tables"][0].cells["row"]["x"].measured.value == pytest.approx(0.5)
    assert joined["tables"][0].cells["row"]["x"].measured.seeds == (0.4, 0.6)


def test_the_page_is_what_the_command_writes_from_the_committed_results(tmp_path):
    """If this fails: `python -m paper report`."""
    shutil.copytree(DOCS / "reproduction" / report.RESULTS, tmp_path / "reproduction" / report.RESULTS)
    report.write(tmp_path / "no runs", tmp_path / "reproduction.md")
    written = (tmp_path / "reproduction.md").read_text(encoding="utf-8")
    assert written == (DOCS / "reproduction.md").read_text(encoding="utf-8")
    stored, kept = (folder / "reproduction" / report.RESULTS for folder in (tmp_path, DOCS))
    assert {path.name: path.read_bytes() for path in stored.iterdir()} == {
        path.name: path.read_bytes() for path in kept.iterdir()
    }


def committed_claims():
    files = sorted((DOCS / "reproduction" / report.RESULTS).glob("*.json"))
    contents = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    return [claim for content in contents for claim in content.get("claims", ())]


def test_the_committed_claims_have_the_form_of_claims():
    claims = committed_claims()
    assert len(claims) > 50
    assert {claim["verdict"] for claim in claims} <= VERDICTS
    assert len({(claim["line"], claim["quote"]) for claim in claims}) == len(claims)


@pytest.mark.skipif("STOCHATTN_PAPER" not in os.environ, reason="needs STOCHATTN_PAPER, the source of the paper")
def test_the_claims_quote_the_line_that_they_name():
    lines = Path(os.environ["STOCHATTN_PAPER"]).read_text(encoding="utf-8").split("\n")
    for claim in committed_claims():
        assert claim["quote"] in lines[claim["line"] - 1], claim
