"""Plots of stored and new values on one scale, and the map with its colours."""

import re

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn.kinds.comparison import Part, Values
from stochattn.report import figures, measure
from stochattn.report.figures import HEIGHT, WIDTH, item_map, overlays

from . import made
from .made import build_report
from .parsed import Parsed


def part(stored, new, name="a", **options):
    return Part(name, "old", "young", 0.25, lambda: Values(np.array(stored), np.array(new), **options))


def heights(page, which):
    """Heights of the bars of a histogram, as shares of the tallest possible one."""
    (path,) = re.findall(f'<path class="{which}" d="([^"]*)"', page)
    return [round((HEIGHT - 1 - float(y)) / (HEIGHT - 3), 2) for y in re.findall(r"V([\d.]+)H", path)]


def test_whole_numbers_have_a_bar_for_each():
    page = overlays([part([1, 1, 2, 4], [2, 2, 2, 2])], "column")
    assert heights(page, "old") == [0.5, 0.25, 0, 0.25]  # of the tallest bar, which has all new values
    assert heights(page, "new") == [0, 1, 0, 0]
    assert [float(x) for x in re.findall(r"H([\d.]+)", page)][:4] == [WIDTH / 4, WIDTH / 2, 3 * WIDTH / 4, WIDTH]
    assert Parsed(page).text.endswith("a · distance 0.25014")
    assert '<div class="range"><span>1</span><span>4</span></div>' in page
    assert all(f'<span class="key {which}"></span>' in page for which in ("new", "old"))
    assert "1 column, the most different first" in page


def test_numbers_far_from_all_others_are_counted_at_the_ends():
    stored = np.linspace(0, 1, 2001)
    page = overlays([part(np.append(stored, 1e6), stored)], "column")
    assert "≥ 1.986" in page  # as far beyond 99.5 % of them as these are apart
    assert "≤" not in page
    assert heights(page, "old")[-1] > 0


def test_one_number_beside_many_equal_ones_is_shown():
    page = overlays([part([0.5] * 999 + [5.5], [0.5] * 999)], "column")
    assert "≥" not in page
    assert '<div class="range"><span>0.5</span><span>5.5</span></div>' in page


@pytest.mark.parametrize(("n", "n_bars"), [(10, 8), (300, 14), (4000, 24)])
def test_more_numbers_have_more_bars(n, n_bars):
    assert len(heights(overlays([part(np.linspace(0, 1, n), np.linspace(0, 1, 5000))], "column"), "new")) == n_bars


def test_up_to_eight_categories_have_bars_of_their_own():
    for n in (8, 9):
        page = overlays([part(list("abcdefghi")[:n], ["a"])], "column")
        assert page.count('<div class="level">') == 8
        assert ("others" in page) is (n == 9)


def test_one_number_alone_has_a_plot():
    assert heights(overlays([part([0.5, 0.5], [0.5])], "column"), "new")[0] == 1


def test_numbers_are_written_as_their_part_writes_them():
    text = Parsed(overlays([part([0, 30], [3], as_text=lambda day: f"day {day:.0f}")], "column")).text
    assert text.endswith("day 0day 30")


def test_categories_have_two_bars_and_rare_ones_are_taken_together():
    stored = ["x"] * 5 + list("abcdefghi") + ["y"] * 6
    page = overlays([part(stored, ["x"] * 9 + ["new"])], "column")
    levels = re.findall('<div class="level">.*?</div>', page)
    assert len(levels) == 8
    assert Parsed(levels[0]).text == "x90\u00a0% / 25\u00a0%"
    assert 'class="new" style="width:100.0%"' in levels[0]
    assert 'class="old" style="width:27.8%"' in levels[0]
    assert Parsed(levels[1]).text == "y0\u00a0% / 30\u00a0%"
    assert Parsed(levels[2]).text == "new10\u00a0% / 0\u00a0%"
    assert Parsed(levels[7]).text == "5 others0\u00a0% / 25\u00a0%"


def test_the_number_of_plots_is_limited_and_said():
    parts = [part([0.0, 1.0], [0.5], name=f"part {i}") for i in range(30)]
    page = overlays(parts, "position")
    assert "24 of 30 positions, the most different first" in page
    assert page.count("<svg") == 24
    assert "part 23" in page
    assert "part 24" not in page
    assert "18 more" in page  # six are seen without a click
    assert overlays([Part("a", "", "", 0.0)], "position") == ""


def test_a_part_without_values_says_so():
    assert '<p class="note">There are no values to compare.</p>' in overlays([part([], [1.0])], "column")


def test_names_are_escaped_and_plots_have_alternative_texts():
    page = overlays([part(["<b>", "<b>"], ['"'], name=made.SCRIPT)], "column")
    assert "<script" not in page
    assert "<b><bdi>&lt;b" not in page
    images = [attributes for _, attributes in Parsed(page).elements if attributes.get("role") == "img"]
    assert [image["aria-label"] for image in images] == [
        f"Distribution of the column {made.SCRIPT}: stored old; new young"
    ]


@pytest.mark.parametrize("kind", made.KINDS)
def test_every_kind_shows_its_parts(reports, kind):
    labels = [attributes.get("aria-label") or "" for _, attributes in Parsed(reports[kind]).elements]
    n_parts = {"protein": 24, "image": 9, "table": 5, "returns": 4}[kind]
    assert sum(label.startswith("Distribution of the") for label in labels) == n_parts


def test_overlays_of_a_table_leave_out_missing_cells_and_write_dates():
    stored = pd.DataFrame(
        {
            "day": pd.date_range("2024-01-01", periods=12),
            "word": ["a", "b", None] * 4,
            "size": [1.5, np.nan, 2.5, 0.5] * 3,
        }
    )
    synth = sa.fit(stored, "table", generator="hopfield")
    values = {one.name: one.values() for one in synth.kind.measures.compare(synth.codec, stored[:4]).parts}
    assert values["day"].as_text(values["day"].new[2]) == "2024-01-03"
    assert values["word"].are_names
    assert values["word"].new.tolist() == ["a", "b", "a"]
    assert values["size"].new.tolist() == [1.5, 2.5, 0.5]
    assert len(values["size"].stored) == 9


def plotted(monkeypatch, synth, items):
    """The arguments with which the map was drawn, and its text."""
    drawn = []
    monkeypatch.setattr(figures, "plane", lambda *arguments: drawn.append(arguments) or "data:,")
    text = Parsed(item_map(measure(synth, items, seed=0, progress=False, quick=True))).text
    return drawn[0], text


def test_rows_have_the_colour_of_the_class_that_they_say(monkeypatch):
    stored = pd.DataFrame({"x": np.arange(20.0) % 7, "z": np.arange(20.0) ** 2, "class": ["a", "b"] * 10})
    synth = sa.fit(stored, "table", generator="hopfield")
    items = stored.assign(**{"class": ["b"] * 15 + ["a"] * 5})
    (_, _, _, colours), text = plotted(monkeypatch, synth, items)
    assert colours[0] == [figures.PALETTE[0], figures.PALETTE[1]] * 10
    assert colours[1] == [figures.PALETTE[1]] * 15 + [figures.PALETTE[0]] * 5
    assert "Triangles are new, rings are stored. Colors are classes: a b." in text


def test_pictures_have_the_colour_of_the_nearest_stored_one(monkeypatch):
    synth = made.images(np.random.default_rng(0), 24, generator="hopfield")
    (_, _, _, colours), text = plotted(monkeypatch, synth, synth.codec.stored[[3, 0, 2]])
    expected = [colours[0][k] for k in (3, 0, 2)]
    assert colours[1] == expected
    assert len(set(expected)) == 2
    assert "a new image has that of the stored image nearest to it." in text


def test_the_most_frequent_of_many_classes_have_colours(monkeypatch):
    names = np.array([f"c{i:02d}" for i in range(12)] * 5 + ["c11", "c10"])
    stored = pd.DataFrame({"x": np.arange(62.0), "z": np.arange(62.0) % 5, "class": names})
    synth = sa.fit(stored, "table", generator="hopfield")
    (_, _, _, colours), text = plotted(monkeypatch, synth, stored)
    assert [names[i] for i in range(12) if colours[0][i] == figures.OTHERS] == ["c08", "c09"]
    assert len(set(colours[0])) == 11
    assert "2 others." in text


def test_there_are_no_colours_without_classes(monkeypatch):
    synth = made.synth("table", generator="hopfield")
    (_, _, _, colours), text = plotted(monkeypatch, synth, synth.sample_items(10, 1))
    assert colours is None
    assert "Colours" not in text


def test_the_map_is_drawn_with_and_without_colours():
    points, shares = np.arange(6.0).reshape(3, 2), np.array([0.6, 0.4])
    plain, coloured = (figures.plane(points, points + 1, shares, c) for c in (None, (["#f00"] * 3, ["#00f"] * 3)))
    assert plain.startswith("data:image/png;base64,")
    assert plain != coloured


def test_a_report_shows_both_kinds_of_plots_of_a_table():
    synth = made.synth("table", generator="hopfield")
    page = build_report(synth, synth.sample_items(40, 1), source="x", quick=True)
    assert page.count('class="range"') == 4
    assert page.count('class="level"') == 4
