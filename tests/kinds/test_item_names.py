"""Stored items with the same id: lists tell them apart, and a condition takes the one that was chosen."""

import numpy as np
import pytest

import stochattn as sa
from stochattn.kinds import InputError
from stochattn.kinds.codec import distinct_names, index_of
from stochattn.kinds.display import RectangleControl, StretchControl

IDS = ("a", "b", "a", "a (3)")


def test_only_ids_that_occur_again_are_numbered():
    assert distinct_names(("a", "b")) == ("a", "b")
    assert distinct_names(IDS) == ("a (1)", "b", "a (3) (3)", "a (3)")  # the last is an id as it was given
    assert [index_of(IDS, name) for name in distinct_names(IDS)] == [0, 1, 2, 3]
    assert index_of(IDS, "a") == 0
    assert index_of(IDS, "a (2)") is None


def test_lists_offer_distinct_names_and_conditions_use_them():
    rectangle = RectangleControl("r", "r", 8, 9, IDS, lambda k: f"image {k}")
    assert rectangle.fixed()["ids"] == ["a (1)", "b", "a (3) (3)", "a (3)"]
    sides = {"top": 1, "bottom": 3, "left": 2, "right": 9}
    assert rectangle.texts({**sides, "source": 2}) == ("1:3,2:9=a (3) (3)",)
    stretch = StretchControl("t", "t", 60, ("x",), IDS[:3], lambda k: [[k]])
    assert stretch.texts({"first": 2, "last": 9, "source": 2}) == ("2:9=a (3)",)


def made(kind, ids):
    rng = np.random.default_rng(0)
    items = rng.integers(0, 256, (4, 6, 5)).astype(np.uint8) if kind == "image" else rng.standard_normal((4, 12))
    return sa.fit(items, kind=kind, ids=ids), items


def test_a_rectangle_is_as_in_the_picture_that_was_chosen():
    synth, pictures = made("image", ["a", "b", "a", "c"])
    (control,) = synth.kind.display.controls(synth.codec)
    texts = control.texts({"source": 2, "top": 1, "bottom": 2, "left": 1, "right": 5})
    values = synth.kind.parse_condition(synth.codec, texts)
    assert values == {((0, 2), (0, 5)): "a (3)"}
    observed = synth.codec.condition(values).observation.levels[:2] * 255
    assert observed == pytest.approx(pictures[2, :2])
    with pytest.raises(InputError, match=r"no stored image has the id 'a \(2\)'"):
        synth.kind.parse_condition(synth.codec, ["1:2,1:5=a (2)"])
    with pytest.raises(InputError, match=r"no stored image has the id 'd'"):
        synth.condition({((0, 2), (0, 5)): "d"})


def test_a_stretch_is_as_in_the_signal_that_was_chosen():
    synth, signals = made("signals", ["a", "b", "a", "c"])
    (control,) = synth.kind.display.controls(synth.codec)
    values = synth.kind.parse_condition(synth.codec, control.texts({"source": 2, "first": 1, "last": 4}))
    assert list(values.values()) == ["a (3)"]
    new = synth.condition(values).sample(2, rng=0)
    assert new[:, :4] == pytest.approx(np.tile(signals[2, :4], (2, 1)), abs=1e-9)
    with pytest.raises(InputError, match="no stored signal has the id 'd'"):
        synth.condition({(0, 4): "d"})
