"""Monotone maps, one for each ticker, from what draws are distributed like to what the history is.

Noise around a day is spread over all tickers alike, in units of their covariance; the history has tickers that jump on
their own. So a ticker's draws have thinner tails than its history. The law of its draws is known, a mixture of normal
laws, and the map that carries its quantiles to the historical ones leaves order, and so most of the dependence, alone.
It does for all quantiles what the paper's affine correction does for mean and standard deviation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._arrays import Array

N_KNOTS = 129
WIDEST = 30.0
"""Knots reach to so many standard deviations, spaced evenly in arsinh: fine in the middle, wide in the tails."""


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

        knots: list[Array | None] = []
        T = len(history)
        grid = np.sinh(np.linspace(-np.arcsinh(WIDEST), np.arcsinh(WIDEST), N_KNOTS))
        ranks = (np.arange(T) + 0.5) / T
        for centre, spread, past in zip(means.T, spreads.T, history.T, strict=True):
            deviation = float(np.sqrt(centre.var() + np.square(spread).mean()))
            if np.ptp(past) == 0 or deviation == 0:
                knots.append(None)
                continue
            x = centre.mean() + deviation * grid
            below = ndtr((x[:, None] - centre) / np.maximum(spread, 1e-12 * deviation)).mean(1)
            inside = (below >= ranks[0]) & (below <= ranks[-1])
            x, y = x[inside], np.interp(below[inside], ranks, np.sort(past))
            knots.append(np.stack([_extended(x, x), _extended(y, x)]))
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


def _extended(values: Array, x: Array) -> Array:
    """Knots with one more at each end, ten ranges away, along the line through that end and the middle one."""
    middle = len(x) // 2
    reach = 10 * (x[-1] - x[0])
    low = (values[middle] - values[0]) / (x[middle] - x[0])
    high = (values[-1] - values[middle]) / (x[-1] - x[middle])
    return np.concatenate(([values[0] - low * reach], values, [values[-1] + high * reach]))
