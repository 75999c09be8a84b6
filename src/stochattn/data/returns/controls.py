"""The control of a page that sets the first days of scenarios."""

from __future__ import annotations

import numpy as np

from ..controls import Control, StepsControl
from .codec import ReturnsCodec

MAX_DAYS = 10


def scenario_controls(codec: ReturnsCodec) -> tuple[Control, ...]:
    """Log-returns of a ticker on the first days; sliders reach its largest stored move."""
    extents = tuple(float(f"{one:.2g}") for one in np.abs(codec.history).max(0))
    return (StepsControl("days", "First days, log-returns", codec.tickers, min(codec.window, MAX_DAYS), extents),)
