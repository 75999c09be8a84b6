"""The plot over the knob of generators without beta, and which sliders have marks."""

from dataclasses import replace

import numpy as np
import pytest

from stochattn.explorer.fields import STEPS, Mark, Slider, setting_state
from stochattn.explorer.plots import KnobPlot
from stochattn.explorer.state import Drawn, PageSettings

WIDTH, BETA = Slider("width", 0.01, 1.0, "low", True), Slider("beta", 0.1, 1000.0, "high", True)


def gallery(novelty, **settings):
    return Drawn(PageSettings("covariance", **settings), (), (), np.array(novelty), (), "", None, (), 0.0)


def test_the_plot_of_a_knob_has_the_mean_novelty_of_each_value_and_begins_again_where_more_than_the_knob_changes():
    plot = KnobPlot()
    plot.show(WIDTH, gallery([0.1, 0.3], knob=0.1), 0.1)
    plot.show(WIDTH, gallery([0.5], knob=1.0, seed=3, n=20), 1.0)
    plot.show(WIDTH, gallery([0.4], knob=0.1), 0.1)
    points = {"x": [pytest.approx(STEPS / 2), STEPS], "y": [0.4, 0.5]}
    assert plot.points.data == points
    plot.show(WIDTH, gallery([0.9]), None)  # a value that nobody knows has no place
    assert plot.points.data == points
    assert not plot.now.visible
    plot.show(WIDTH, gallery([0.7], knob=1.0, conditions=("age=3",)), 1.0)
    assert plot.points.data == {"x": [STEPS], "y": [0.7]}


def test_the_plot_of_a_knob_has_the_positions_of_the_slider():
    plot = KnobPlot()
    plot.show(WIDTH, gallery([0.2], knob=1.0), 1.0)
    plot.show(WIDTH, gallery([0.4], knob=0.1), 0.1)
    assert plot.figure.xaxis[0].major_label_overrides[STEPS // 2] == "0.1"
    assert plot.figure.y_range.end == pytest.approx(0.46)
    assert (plot.now.visible, plot.now.location) == (True, pytest.approx(STEPS / 2))


def test_only_the_slider_of_beta_has_marks():
    marks = (Mark("natural", 9.0, "as far as they are from each other"),)
    settings = PageSettings("hopfield", 9.0)
    knob = setting_state(settings, BETA, marks, None, True)["knob"]
    assert knob["has_marks"]
    assert [one["name"] for one in knob["marks"]] == ["natural"]
    other = setting_state(replace(settings, generator="covariance"), WIDTH, marks, None, True)["knob"]
    assert not other["has_marks"]
    assert other["marks"] == []
