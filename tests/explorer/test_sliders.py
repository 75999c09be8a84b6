"""The slider of each generator: which end recalls, and what lies in the middle."""

from __future__ import annotations

import pytest

from stochattn.explorer.fields import STEPS, Slider
from stochattn.kinds.options import knob_of
from stochattn.kinds.registry import kind_of

# The option, the values at the end that recalls, in the middle, and at the other end.
EXPECTED = {
    ("table", "covariance"): ("width", 0.01, 0.1, 1.0),
    ("image", "deformations"): ("scale", 0.0, 1.5, 3.0),
    ("image", "patches"): ("radius", 16.0, 2.83, 0.5),
    ("signals", "deformations"): ("scale", 0.0, 1.5, 3.0),
    ("signals", "windows"): ("width", 0.01, 0.1, 1.0),
}


@pytest.mark.parametrize(("kind", "generator"), EXPECTED)
def test_a_slider_goes_from_recall_to_generation(kind, generator):
    option, recall, middle, far = EXPECTED[kind, generator]
    found = knob_of(kind_of(kind).generators[generator])
    assert found is not None
    name, knob = found
    slider = Slider.of(name, knob, None)
    assert name == option
    assert [slider.value(p) for p in (0, STEPS / 2, STEPS)] == pytest.approx([recall, middle, far], rel=0.01)


def test_beta_recalls_where_it_is_large_and_has_no_ends_of_its_own():
    name, knob = knob_of(kind_of("table").generators["hopfield"])
    assert (name, knob.low, knob.high, knob.recalls_at, knob.is_log) == ("beta", None, None, "high", True)
    assert Slider.of(name, knob, None) is None
