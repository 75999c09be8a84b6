"""The summary at the top of docs/quality.md."""

from pathlib import Path

import pytest

from benchmarks import quality, summary
from benchmarks.summary import Figure, Line, above_rivals, at_least, at_most, near_stored, within
from benchmarks.summary_lines import LINES

PAGE = """# Page

Text.

## Chairs: ours

About chairs.

| method | copies | gain | gain |
|---|---|---|---|
| stored | 1.0 ± 0.0 | 0 | 0 |
| ours | 0.020 ± 0.003 | −1.5 ± 0.5 | 1,200 |
| rival | 0.010 ± 0.001 | 2.5 ± 0.5 | – |
| other | 0.500 ± 0.001 | 1 ± 1 | 900 ± 1 |

Other chairs.

| method | copies |
|---|---|
| ours | 0.9 |
"""


def line(column="copies", goal=None, **changes):
    values = {"kind": "chairs", "measure": column, "section": "Chairs: ours", "caption": "About", "column": column}
    values |= {
        "goal": goal or at_most(0.03, ideal=0.01),
        "ours": "ours",
        "rivals": ("rival", "other"),
        "stored": "stored",
    }
    return Line(**(values | changes))


def test_a_line_has_ours_the_best_rival_and_the_stored_half():
    row = summary.row_of(PAGE, line())
    assert row == ("chairs", "copies", "0.020 ± 0.003", "0.010 ± 0.001 (rival)", "1.0 ± 0.0", "≤ 0.03", "met, behind")


def test_columns_of_one_name_are_chosen_by_number():
    first = summary.row_of(PAGE, line("gain", at_least(2.0)))
    second = summary.row_of(PAGE, line("gain", at_least(2.0), nth=1))
    assert (first.ours, first.rival, first.verdict) == ("−1.5 ± 0.5", "2.5 ± 0.5 (rival)", "**missed**, behind")
    assert (second.ours, second.rival, second.verdict) == ("1,200", "900 ± 1 (other)", "met, ahead")  # rival has none


def test_the_table_is_chosen_by_the_text_before_it():
    row = summary.row_of(PAGE, line(caption="Other", rivals=(), stored=None))
    assert (row.ours, row.rival, row.stored, row.verdict) == ("0.9", "–", "–", "**missed**")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"caption": "Tables"}, "must have a table after 'Tables'"),
        ({"column": "weight"}, "must have 'weight'; it has method, copies, gain, gain"),
        ({"ours": "nobody"}, "must have 'nobody'; it has stored, ours, rival, other"),
        ({"column": "gain", "nth": 1, "ours": "rival"}, "'rival' in column 'gain' must be a number"),
        ({"column": "method"}, "must be a number, or two with ± between them; it is 'ours'"),
    ],
)
def test_a_figure_that_is_not_on_the_page_is_an_error(changes, message):
    with pytest.raises(ValueError, match=message):
        summary.row_of(PAGE, line(**changes))


def test_a_section_that_the_page_lacks_gives_no_line():
    assert summary.row_of(PAGE, line(section="Tables")) is None


@pytest.mark.parametrize(
    ("goal", "ours", "rival", "expected"),
    [
        (at_most(0.6, ideal=0.5), 0.45, 0.50, "met, level"),  # below the ideal is no better than the ideal
        (at_most(0.6, ideal=0.5), 0.60, 0.61, "met, level"),  # less than the standard error apart
        (at_most(0.6, ideal=0.5), 0.61, 0.80, "**missed**, ahead"),
        (within(0.05, ideal=1.0), 0.94, 1.20, "**missed**, ahead"),
        (within(0.05, ideal=1.0), 1.04, 1.00, "met, behind"),
        (above_rivals(), 2.0, 2.0, "met, level"),
        (above_rivals(), 1.9, 2.0, "**missed**, behind"),
    ],
)
def test_verdicts(goal, ours, rival, expected):
    assert summary.verdict(goal, Figure(ours, 0.008, ""), Figure(rival, 0.009, "")) == expected


def test_a_goal_can_be_relative_to_the_stored_half():
    stored = Figure(96.0, 0.5, "")
    assert summary.verdict(near_stored(3.0), Figure(93.0, 0.5, ""), None, stored) == "met"
    assert summary.verdict(near_stored(3.0), Figure(92.9, 0.5, ""), None, stored) == "**missed**"


def test_the_page_begins_with_the_summary_of_its_tables():
    page = Path("docs/quality.md").read_text("utf-8")
    assert page == quality.with_summary(page), "run `python -m benchmarks.quality --summary`"
    assert page.split("\n## ")[1].startswith(summary.TITLE)
    assert summary.section_of(page, summary.TITLE).count("\n| ") - 2 == len(LINES)


def test_the_summary_counts_the_goals_that_are_met():
    text = summary.summary(PAGE, (line(), line("gain", at_least(2.0)), line(section="Tables")))
    assert text.startswith("## At a glance\n\n1 of 2 goals are met.")
