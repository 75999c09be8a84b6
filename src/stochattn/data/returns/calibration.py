"""Monotone maps, one for each ticker, from what draws are distributed like to what the history is.

Noise around a day is spread over all tickers alike, in units of their covariance; the history has tickers that jump on
their own. So a ticker's draws have thinner tails than its history. The law of its draws is known (a mixture of normal
laws), or measured once on many draws; the map that carries its quantiles to the historical ones leaves order, and so
most of the dependence, alone.
It does for all quantiles what the paper's affine correction does for mean and standard deviation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..._backend.arrays import Array

N_KNOTS = 129
WIDEST = 30.0
"""Knots reach to so many standard deviations, spaced evenly in arsinh: fine in the middle, wide in the tails."""
N_DRAWS = 2**16
"""Days that a law is measured on where it has no closed form: an error of 0.003 in its quantiles."""


class Calibration(NamedTuple):
    """Piecewise linear maps through knots, extended by a proportion beyond what the history has seen.

    knots: for each of N tickers, increasing values that the map takes, and those that it gives: (2, knots); None for a
           ticker that never moves, which is left alone
    """

    knots: tuple[Array | None, ...]

    @classmethod
    def between(cls, means: Array, spreads: Array, history: Array) -> Calibration:
        """From mixtures with equal weights of N(means_ti, spreads_ti²), (T, N) each, to the history (T, N)."""
        from scipy.special import ndtr

        def below(i: int, x: Array) -> Array:
            spread = np.maximum(spreads[:, i], 1e-12 * history[:, i].std())
            return ndtr((x[:, None] - means[:, i]) / spread).mean(1)

        return cls.through(below, history)

    @classmethod
    def measured(cls, draw: Callable[[], Array], history: Array) -> Calibration:
        """From the law of draws, any number of days (n, N) a call, to the history (T, N)."""
        grid = history.mean(0) + history.std(0) * _grid()[:, None]  # (knots, N)
        counts, n = np.zeros(grid.shape), 0
        while n < N_DRAWS:
            days = draw()
            n += len(days)
            for i, (x, values) in enumerate(zip(grid.T, days.T, strict=True)):
                counts[:, i] += np.bincount(np.searchsorted(x, values), minlength=len(x) + 1)[:-1]
        shares = np.cumsum(counts, axis=0) / n
        return cls.through(lambda i, _: shares[:, i], history)

    @classmethod
    def through(cls, below: Callable[[int, Array], Array], history: Array) -> Calibration:
        """The maps from laws of which below(i, x) says what share of ticker i lies at or under each x."""
        knots: list[Array | None] = []
        ranks = (np.arange(len(history)) + 0.5) / len(history)
        for i, past in enumerate(history.T):
            if np.ptp(past) == 0:
                knots.append(None)
                continue
            x = past.mean() + past.std() * _grid()
            shares = below(i, x)
            inside = (shares >= ranks[0]) & (shares <= ranks[-1])
            x, y = x[inside], np.interp(shares[inside], ranks, np.sort(past))
            knots.append(np.stack([_extended(x, x), _extended(y, x)]) if len(x) > 2 else None)
        return cls(tuple(knots))

    def __call__(self, draws: Array) -> Array:
        """Draws as they would be distributed in the history: (..., N) -> (..., N)."""
        new = np.array(draws, dtype=np.float64)
        for i, knots in enumerate(self.knots):
            if knots is not None:
                new[..., i] = np.interp(new[..., i], *knots)
        return new

    def backward(self, ticker: int, value: float) -> float:
        """What the map takes to this value of a ticker."""
        knots = self.knots[ticker]
        return value if knots is None else float(np.interp(value, knots[1], knots[0]))


def _grid() -> Array:
    """Knots in standard deviations: (N_KNOTS,)."""
    return np.sinh(np.linspace(-np.arcsinh(WIDEST), np.arcsinh(WIDEST), N_KNOTS))


def _extended(values: Array, x: Array) -> Array:
    """Knots with one more at each end, ten ranges away, along the line through that end and the middle one."""
    middle = len(x) // 2
    reach = 10 * (x[-1] - x[0])
    low = (values[middle] - values[0]) / (x[middle] - x[0])
    high = (values[-1] - values[middle]) / (x[-1] - x[middle])
    return np.concatenate(([values[0] - low * reach], values, [values[-1] + high * reach]))
