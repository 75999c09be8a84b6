"""Names of channels that a condition may use, in messages."""

import numpy as np

from stochattn.kinds.codec import suggest_ids
from stochattn.kinds.signals.codec import SignalCodec


def test_at_most_three_channels_are_named():
    assert suggest_ids("zz", ("a", "b", "c")) == "there are a, b, c."
    assert suggest_ids("zz", ("a", "b", "c", "d")) == "there are a, b, c and others."
    assert suggest_ids("temprature", ("temperature", "load")) == "did you mean temperature?"
    assert suggest_ids("sensor", ("sensor1", "sensor2", "sensor3", "sensor4")).count(" or ") == 2


def test_a_codec_of_other_signals_has_no_notes_of_the_first():
    signals = np.random.default_rng(0).normal(size=(6, 1, 9))
    known = np.array([0]), np.array([5.0])
    first = SignalCodec(signals, tuple("abcdef"), ("value",), notes=("one column was dropped",), conditions=known)
    assert first.refit(signals[:4] + 1).conditions is None  # conditions are not those of other signals
    assert first.refit(signals[:4] + 1).notes == ()
    assert first.refit(signals[:4] + 1).ids == ("1", "2", "3", "4")
