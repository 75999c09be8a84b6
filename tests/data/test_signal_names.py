"""Names of channels that a condition may use, in messages."""

import numpy as np

from stochattn.data.signals.codec import SignalCodec, _similar


def test_at_most_three_channels_are_named():
    assert _similar("zz", ("a", "b", "c")) == "there are a, b, c."
    assert _similar("zz", ("a", "b", "c", "d")) == "there are a, b, c and others."
    assert _similar("temprature", ("temperature", "load")) == "did you mean temperature?"


def test_a_codec_of_other_signals_has_no_notes_of_the_first(monkeypatch):
    signals = np.random.default_rng(0).normal(size=(6, 1, 9))
    first = SignalCodec(signals, ids=tuple("abcdef"), channels=("value",), notes=("one column was dropped",))
    assert first.refit(signals[:4] + 1).notes == ()
    assert first.refit(signals[:4] + 1).ids == ("1", "2", "3", "4")
