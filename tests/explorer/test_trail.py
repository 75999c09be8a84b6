"""The plot over the knob of generators without beta, and which sliders have marks."""

from dataclasses import replace

import numpy as np
import pytest

from stochattn.explorer.fields import STEPS, Mark, Slider, setting_state
from stochattn.explorer.plots import KnobPlot
from stochattn.explorer.state import Drawn, PageSettings, Trail

WIDTH, BETA = Slider("width", 0.01, 1.0, "low", True), Slider("beta", 0.1, 1000.0, "high", True)


def gallery(novelty, **settings):
    return Drawn(PageSettings("covariance", **settings), (), (), np.array(novelty), (), "", None, (), 0.0)


def test_the_trail_has_the_mean_novelty_of_each_value_and_begins_again_where_more_than_the_knob_changes():
    trail = Trail()
    trail.add(gallery([0.1, 0.3], knob=0.1), 0.1)
    trail.add(gallery([0.5], knob=0.4, seed=3, n=20), 0.4)
    points = trail.add(gallery([0.4], knob=0.1), 0.1)
    assert points == pytest.approx({0.1: 0.4, 0.4: 0.5})
    assert trail.add(gallery([0.9]), None) == points  # a value that nobody knows has no place
    assert trail.add(gallery([0.7], knob=0.4, conditions=("age=3",)), 0.4) == {0.4: 0.7}


def test_the_plot_of_a_knob_has_the_positions_of_the_slider():
    plot = KnobPlot()
    plot.show(WIDTH, {0.1: 0.2, 1.0: 0.4}, 0.1)
    assert plot.points.data == {"x": [pytest.approx(STEPS / 2), STEPS], "y": [0.2, 0.4]}
    assert plot.figure.xaxis[0].major_label_overrides[STEPS // 2] == "0.1"
    assert plot.figure.y_range.end == pytest.approx(0.46)
    assert (plot.now.visible, plot.now.location) == (True, pytest.approx(STEPS / 2))
    plot.show(WIDTH, {}, None)
    assert not plot.now.visible


def test_only_the_slider_of_beta_has_marks():
    marks = (Mark("natural", 9.0, "as far as they are from each other"),)
    settings = PageSettings("hopfield", 9.0)
    knob = setting_state(settings, BETA, marks, None, True)["knob"]
    assert knob["has_marks"]
    assert [one["name"] for one in knob["marks"]] == ["natural"]
    other = setting_state(replace(settings, generator="covariance"), WIDTH, marks, None, True)["knob"]
    assert not other["has_marks"]
    assert other["marks"] == []
