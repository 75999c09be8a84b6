"""The slider from recall to generation: positions on the page, and values of the generator's knob."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._backend.arrays import to_numpy
from ..core.neighbors import neighbor_distances
from ..data.options import Knob
from ..generators.hopfield import Hopfield

STEPS = 200
DIGITS = 4
"""Significant digits of a value, so that a command that repeats it stays short."""
MAX_PROBES = 256  # memories whose neighbours set the scale of beta
SHARP, DIFFUSE = 30.0, 0.5
"""How far the slider reaches beyond the beta at which noise is as large as the distance between memories, and to which
beta, in units of the inverse spread of overlaps, it goes down: there attention is nearly uniform."""


class Slider(NamedTuple):
    """The values of a knob between two ends. Position 0, on the left, recalls; position `STEPS` is furthest from it."""

    option: str
    low: float
    high: float
    recalls_at: str
    is_log: bool
    n_stops: int = STEPS  # positions that it takes; few where each takes long to draw, so that all can be prepared

    @classmethod
    def of(cls, option: str, knob: Knob, hopfield: Hopfield | None) -> Slider | None:
        """The slider of a knob; None where it needs memories to set its ends, and there are none."""
        if knob.low is not None and knob.high is not None:
            return cls(option, knob.low, knob.high, knob.recalls_at, knob.is_log)
        return None if hopfield is None else cls(option, *beta_range(hopfield), knob.recalls_at, knob.is_log)

    def value(self, position: float) -> float:
        """The value at a position from 0 to `STEPS`, rounded."""
        share = min(max(round(position / STEPS * self.n_stops) / self.n_stops, 0.0), 1.0)
        share = share if self.recalls_at == "low" else 1 - share
        if self.is_log:
            found = math.exp((1 - share) * math.log(self.low) + share * math.log(self.high))
        else:
            found = (1 - share) * self.low + share * self.high
        return float(f"{found:.{DIGITS}g}")

    @property
    def stops(self) -> list[float]:
        """The values at its positions, from recall on."""
        return [self.value(STEPS * i / self.n_stops) for i in range(self.n_stops + 1)]

    def position(self, value: float) -> float:
        """The position of a value, within the ends."""
        inside = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            share = (inside - self.low) / (self.high - self.low)
        return STEPS * (share if self.recalls_at == "low" else 1 - share)


def beta_range(hopfield: Hopfield) -> tuple[float, float]:
    """From a beta at which attention is nearly uniform to one at which draws are all but copies."""
    bank = hopfield.bank.active
    rows = to_numpy(bank.patterns).astype(np.float64)
    gaps = neighbor_distances(bank, MAX_PROBES) if len(rows) > 1 else np.zeros(1)
    typical = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else bank.M or 1.0
    spread = float(np.ptp(rows @ rows[0])) or bank.M**2 or 1.0
    sharp, diffuse = SHARP * bank.d / typical**2, DIFFUSE / spread
    return min(diffuse, sharp / 1000), sharp
