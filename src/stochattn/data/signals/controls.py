"""The control of a page that keeps a stretch of a stored signal."""

from __future__ import annotations

import numpy as np

from ..controls import Control, StretchControl
from .codec import SignalCodec

MAX_POINTS, MAX_CHANNELS = 240, 4  # of the small plot


def signal_controls(codec: SignalCodec) -> tuple[Control, ...]:
    """A stretch of time, marked on a stored signal, that new signals have in common with it."""
    chosen = np.unique(np.linspace(0, codec.length - 1, min(codec.length, MAX_POINTS)).astype(int))

    def shown(k: int) -> list[list[float]]:
        return [channel[chosen].tolist() for channel in codec.stored[k][:MAX_CHANNELS]]

    return (StretchControl("stretch", "Stretch to keep", codec.length, codec.channels, codec.ids, shown),)
