"""What figures show, read from their axes, and the plane of the map."""

import base64

import numpy as np
import pytest
from matplotlib.colors import to_hex

from stochattn.report import figures
from stochattn.report.figures import ItemMap


@pytest.fixture
def shown(monkeypatch):
    """Axes of the figures that were made, the last one last, none of which is rendered."""
    made = []
    monkeypatch.setattr(figures, "_save", lambda axes, **_: made.append(axes) or b"<svg/>")
    return made


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_entropy_is_shown_against_beta_below_its_ceiling(shown):
    betas, entropies = np.array([0.1, 1.0, 10.0]), np.array([2.0, 1.5, 1.0])
    figures.entropy(betas, entropies, 2.5, {"chosen": 1.0, "inflection": 3.0})
    (axes,) = shown
    curve, ceiling, chosen, inflection = axes.get_lines()
    np.testing.assert_array_equal(curve.get_xydata(), np.transpose([betas, entropies]))
    assert list(ceiling.get_ydata()) == [2.5, 2.5]
    assert (chosen.get_xdata()[0], inflection.get_xdata()[0]) == (1.0, 3.0)
    assert chosen.get_linestyle() != inflection.get_linestyle()
    assert axes.get_xscale() == "log"
    assert axes.get_xlim() == (0.1, 10.0)
    assert axes.get_ylim()[0] == 0
    assert [name for name, spine in axes.spines.items() if spine.get_visible()] == ["left", "bottom"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("β", "attention entropy, nats")
    assert legend(axes) == ["chosen", "inflection"]


def test_cumulative_shares_of_new_and_stored_values(shown):
    figures.cumulative(np.array([3.0, 1.0, 2.0]), np.array([5.0, 4.0]), {"limit": 1.5}, "distance")
    new, stored, limit = shown[0].get_lines()
    np.testing.assert_allclose(new.get_xydata(), [[1, 0], [2, 0.5], [3, 1]])
    np.testing.assert_allclose(stored.get_xydata(), [[4, 0], [5, 1]])
    assert limit.get_xdata()[0] == 1.5
    assert (new.get_drawstyle(), new.get_color(), stored.get_color()) == ("steps-post", figures.NEW, figures.OLD)
    assert legend(shown[0]) == ["new to stored", "stored to each other", "limit"]
    assert shown[0].get_xlim()[0] == 0
    assert (shown[0].get_xlabel(), shown[0].get_ylabel()) == ("distance", "cumulative share")
    figures.cumulative(np.arange(1000.0), np.empty(0), {}, "distance")
    (alone,) = shown[1].get_lines()
    assert len(alone.get_xdata()) == 400


def test_histograms_show_shares(shown):
    figures.histogram(np.array([0.0, 1.0, 1.0, 4.0]), np.array([2.0, 2.0]), {"mean": 1.5}, "novelty")
    bars = shown[0].patches[:40]
    assert [bar.get_height() for bar in bars if bar.get_height()] == [0.25, 0.5, 0.25]
    assert bars[0].get_x() == pytest.approx(0)
    assert bars[-1].get_x() + bars[-1].get_width() == pytest.approx(4)
    outline = shown[0].patches[40].get_xy()
    assert outline[:, 1].max() == 1
    assert legend(shown[0]) == ["new", "stored, against all others", "mean"]


def test_equal_values_have_a_histogram(shown):
    figures.histogram(np.full(3, 2.0), np.empty(0), {}, "novelty")
    assert sum(bar.get_height() for bar in shown[0].patches) == pytest.approx(1)
    assert min(bar.get_width() for bar in shown[0].patches) > 0
    assert legend(shown[0]) == ["new"]


def test_a_plot_without_values_has_no_legend(shown):
    figures.cumulative(np.empty(0), np.empty(0), {}, "distance")
    assert shown[0].get_legend() is None


def test_plots_are_svg():
    plot = figures.cumulative(np.arange(3.0), np.arange(2.0), {}, "distance")
    assert b"<svg" in base64.b64decode(plot.removeprefix("data:image/svg+xml;base64,"))


@pytest.mark.parametrize("n_new", [1, 5])
def test_few_new_points_are_above_the_stored_ones(shown, n_new):
    figures.plane(np.arange(6.0).reshape(3, 2), np.arange(2.0 * n_new).reshape(n_new, 2), np.array([0.6, 0.4]), None)
    new, stored, *_ = shown[0].collections
    assert (new.get_zorder() > stored.get_zorder()) is (n_new == 1)
    assert legend(shown[0]) == ["new", "stored"]
    keys = shown[0].get_legend().legend_handles
    assert to_hex(keys[0].get_facecolor()[0]) == figures.NEW
    assert to_hex(keys[1].get_edgecolor()[0]) == figures.OLD
    assert (shown[0].get_xlabel(), shown[0].get_ylabel()) == (
        "first component, 60% of the variance",
        "second component, 40%",
    )


def project(stored, new):
    """Points of stored and of new rows on the plane of the stored ones, and the shares of its directions."""
    plane = ItemMap(stored)
    return plane.stored, plane.project(new), plane.shares


def test_the_plane_has_the_directions_in_which_stored_rows_vary():
    """Rows on a line of slope (3, 4), with a constant column: one direction has all of the variance."""
    t = np.array([0.0, 1.0, 3.0])
    stored, new, shares = project(np.outer(t, [3.0, 4.0, 0.0]) + np.array([1.0, 2.0, 7.0]), np.array([[4.0, 6.0, 9.0]]))
    sign = np.sign(stored[2, 0])
    np.testing.assert_allclose(sign * stored[:, 0], 5 * (t - t.mean()), atol=1e-9)
    assert sign * new[0, 0] == pytest.approx(5 * (1 - t.mean()), abs=1e-9)
    np.testing.assert_allclose(stored[:, 1], 0, atol=1e-9)
    np.testing.assert_allclose(shares, [1, 0], atol=1e-9)


@pytest.mark.parametrize(
    "stored", [np.tile([1.0, 2.0, 3.0], (4, 1)), np.array([[1.0, 2.0, 3.0]])], ids=["equal", "single"]
)
def test_stored_rows_without_a_direction_are_one_point(stored):
    found = project(stored, np.arange(6.0).reshape(2, 3))
    assert [part.shape for part in found] == [(len(stored), 2), (2, 2), (2,)]
    assert not any(part.any() for part in found)


def test_the_same_rows_have_the_same_plane():
    rows = np.random.default_rng(0).normal(size=(60, 20))
    for first, second in zip(project(rows, rows), project(rows, rows), strict=True):
        np.testing.assert_array_equal(first, second)


def test_rows_of_one_column_lie_on_a_line():
    stored, new, shares = project(np.array([[0.0], [2.0]]), np.array([[3.0]]))
    np.testing.assert_allclose(np.abs(stored), [[1, 0], [1, 0]])
    np.testing.assert_allclose(np.abs(new), [[2, 0]])
    np.testing.assert_allclose(shares, [1, 0])
