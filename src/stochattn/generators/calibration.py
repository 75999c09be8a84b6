"""Monotone maps from the quantiles of draws to those of a history, one for each column."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array

# equivalent: another fine grid and other numbers of draws give the same quantiles, within the error named below
GRID, N_DRAWS = np.sinh(np.linspace(-np.arcsinh(30.0), np.arcsinh(30.0), 129)), 2**16
"""Points in standard deviations at which a law of days is measured, finely in the middle and widely in the tails, and
days drawn where it has no closed form: an error of 0.003 in its quantiles."""


class Calibration(NamedTuple):
    """Monotone maps, one for each column, from the quantiles of draws to those of the history.

    Noise around a day is spread over all columns, and the history has columns that jump on their own: the draws of a
    column have thinner tails. The maps preserve order, and so most of the dependence between columns. The paper's
    affine correction does the same for mean and standard deviation.
    """

    maps: tuple[Array | None, ...]  # (2, points) of draws and history, linear in between; None for a constant column

    @classmethod
    def from_mixture(cls, means: Array, spreads: Array, history: Array) -> Calibration:
        """From mixtures with equal weights of N(means_ti, spreads_ti²), (T, N) each, to the history (T, N)."""
        from scipy.special import ndtr

        spreads = np.maximum(spreads, 1e-12 * history.std(0) + 1e-300)
        columns = zip(_grids(history), means.T, spreads.T, strict=True)
        return cls._to_history((ndtr((x[:, None] - mean) / spread).mean(1) for x, mean, spread in columns), history)

    @classmethod
    def from_draws(cls, draw: Callable[[], Array], history: Array) -> Calibration:
        """From the law of draws, any number of days (n, N) a call, to the history (T, N)."""
        grids = _grids(history)
        counts, n = np.zeros((len(grids), len(GRID))), 0
        while n < N_DRAWS:
            days = draw()
            n += len(days)
            for count, x, values in zip(counts, grids, days.T, strict=True):
                count += np.bincount(np.searchsorted(x, values), minlength=len(x) + 1)[:-1]
        return cls._to_history(np.cumsum(counts, axis=1) / n, history)

    @classmethod
    def _to_history(cls, shares: Iterable[Array], history: Array) -> Calibration:
        """The maps from laws of which `shares` says, for each column, how much lies at or below each grid point."""
        maps, ranks = [], (np.arange(len(history)) + 0.5) / len(history)
        for past, x, share in zip(history.T, _grids(history), shares, strict=True):
            inside = (share >= ranks[0]) & (share <= ranks[-1]) & (np.ptp(past) > 0)
            x, y = x[inside], np.interp(share[inside], ranks, np.sort(past))
            maps.append(np.stack([_extended(x, x), _extended(y, x)]) if len(x) > 2 else None)
        return cls(tuple(maps))

    def __call__(self, draws: Array) -> Array:
        """Draws with the distribution of the history: (..., N) -> (..., N)."""
        new = np.array(draws, dtype=np.float64)
        for i, points in enumerate(self.maps):
            if points is not None:
                new[..., i] = np.interp(new[..., i], *points)
        return new

    def inverse(self, column: int, value: float) -> float:
        """The draw of a column that is mapped to this value."""
        points = self.maps[column]
        return value if points is None else float(np.interp(value, points[1], points[0]))


def _grids(history: Array) -> list[Array]:
    """Grid points for each column of the history (T, N), in its units."""
    return [past.mean() + past.std() * GRID for past in history.T]


def _extended(values: Array, x: Array) -> Array:
    """Values with one more at each end, ten ranges of x away, on the line through that end and the middle."""
    middle, distance = len(x) // 2, 10 * (x[-1] - x[0])
    low = (values[middle] - values[0]) / (x[middle] - x[0])
    high = (values[-1] - values[middle]) / (x[-1] - x[middle])
    return np.concatenate(([values[0] - low * distance], values, [values[-1] + high * distance]))
