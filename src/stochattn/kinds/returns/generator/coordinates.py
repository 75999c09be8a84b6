"""Windows of days: their days, their coordinates in groups of components, and the calibration of their marginals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array, ArrayLike
from ....core import temperature
from ...hopfield import Coordinates
from .market import MAX_JITTER, surrounding_volatility, with_market

GRID, N_DRAWS = np.sinh(np.linspace(-np.arcsinh(30.0), np.arcsinh(30.0), 129)), 2**16
"""Grid points in standard deviations for the distribution of days, fine in the middle and wide in the tails, and number
of draws of days if there is no closed form, which gives an error of 0.003 in quantiles."""


class MarginalCalibration(NamedTuple):
    """Monotone maps, one for each column, from the quantiles of draws to those of the history.

    Noise around a day is spread over all columns, but columns of the history also jump alone, so the draws of a column
    have thinner tails. The maps preserve order, and so most of the dependence between columns. The affine correction of
    the paper does the same for mean and standard deviation.
    """

    maps: tuple[Array | None, ...]  # (2, points) of draws and history, linearly interpolated; None for constant columns

    @classmethod
    def from_mixture(cls, means: Array, spreads: Array, history: Array) -> MarginalCalibration:
        """From mixtures with equal weights of N(means_ti, spreads_ti²), (T, N) each, to the history (T, N)."""
        from scipy.special import ndtr

        spreads = np.maximum(spreads, 1e-12 * history.std(0) + 1e-300)
        columns = zip(_grids(history), means.T, spreads.T, strict=True)
        return cls._to_history((ndtr((x[:, None] - mean) / spread).mean(1) for x, mean, spread in columns), history)

    @classmethod
    def from_draws(cls, draw: Callable[[], Array], history: Array) -> MarginalCalibration:
        """From draws, any number of days (n, N) a call, to the history (T, N)."""
        grids = _grids(history)
        counts, n = np.zeros((len(grids), len(GRID))), 0
        while n < N_DRAWS:
            days = draw()
            n += len(days)
            for bin_counts, x, values in zip(counts, grids, days.T, strict=True):
                bin_counts += np.bincount(np.searchsorted(x, values), minlength=len(x) + 1)[:-1]
        return cls._to_history(np.cumsum(counts, axis=1) / n, history)

    @classmethod
    def _to_history(cls, shares: Iterable[Array], history: Array) -> MarginalCalibration:
        """The maps from distributions whose `shares` are, for each column, the probabilities up to each grid point."""
        maps, ranks = [], (np.arange(len(history)) + 0.5) / len(history)
        for past, x, share in zip(history.T, _grids(history), shares, strict=True):
            inside = (share >= ranks[0]) & (share <= ranks[-1]) & (np.ptp(past) > 0)
            x, y = x[inside], np.interp(share[inside], ranks, np.sort(past))
            maps.append(np.stack([_extend(x, x), _extend(y, x)]) if len(x) > 2 else None)
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
    """Grid points for each column of the history (T, N), in units of the column."""
    return [past.mean() + past.std() * GRID for past in history.T]


def _extend(values: Array, x: Array) -> Array:
    """Values with one more at each end, ten ranges of x away, on the line through this end and the middle."""
    middle, distance = len(x) // 2, 10 * (x[-1] - x[0])
    low = (values[middle] - values[0]) / (x[middle] - x[0])
    high = (values[-1] - values[middle]) / (x[-1] - x[middle])
    return np.concatenate(([values[0] - low * distance], values, [values[-1] + high * distance]))


FIRST_GROUP = 4  # components in the first group; each further group has twice as many as the previous one
MARKET_SHARE = 0.75
"""Share of the market in the squared norm of a row. Noise is equal in all dimensions of a row, so that it changes the
size of the market little and the other directions much. With this share, 8 to 26 % of draws (10 to 200 columns) have
the day around which they were drawn as their nearest stored day; with equal shares of all dimensions, 22 to 90 % do."""


class Groups(NamedTuple):
    """Groups of consecutive components, and the share of each in the squared norm of a row."""

    sizes: Array  # (groups,)
    shares: Array  # (groups,), which sum to one

    @classmethod
    def of(cls, c: int, market: bool) -> Groups:
        """Groups of c components with equal shares of all dimensions; market: the first component by itself."""
        if not market:
            sizes = group_sizes(c)
            return cls(sizes, sizes / c)
        sizes = group_sizes(c - 1)
        shares = (MARKET_SHARE, *(1 - MARKET_SHARE) * sizes / (c - 1))
        return cls(np.array([1, *sizes]), np.array(shares))

    def by_component(self, values: Array) -> Array:
        """Values of groups for each of their components: (..., groups) -> (..., c)."""
        return np.repeat(values, self.sizes, axis=-1)

    def lengths(self, z: Array) -> Array:
        """Lengths of the groups of components: (n, c) -> (n, groups)."""
        return np.sqrt(np.add.reduceat(np.square(z), np.cumsum(self.sizes) - self.sizes, axis=1))

    def with_lengths(self, z: Array, lengths: Array) -> Array:
        """Components (n, c) with the same directions, and groups of these lengths (n, groups): (n, c)."""
        return z * self.by_component(lengths / np.maximum(self.lengths(z), 1e-300))

    def split(self, z: Array) -> tuple[Array, Array]:
        """Components (n, c) as directions of groups, of unit norm together: (n, c); and lengths (n, groups)."""
        lengths, starts = self.lengths(z), np.cumsum(self.sizes) - self.sizes
        # A group of length zero has no direction; it gets any direction with a negligible length.
        smallest = 1e-12 * max(float(lengths.max(initial=0.0)), 1e-300)
        zero = lengths <= smallest
        lengths = np.where(zero, smallest, lengths)
        directions = np.where(self.by_component(zero), 0.0, z / self.by_component(lengths))
        directions[:, starts] = np.where(zero, 1.0, directions[:, starts])
        return directions * self.by_component(np.sqrt(self.shares)), lengths


def group_sizes(c: int) -> Array:
    """Sizes 4, 8, 16 … of the groups of c components; the last group has all that remain.

    >>> group_sizes(30)
    array([ 4,  8, 18])
    """
    sizes, size = [], FIRST_GROUP
    while c >= 3 * size:  # this group, and at least one of twice its size after it
        sizes.append(size)
        c, size = c - size, 2 * size
    return np.array([*sizes, c])


MAX_NUMBERS = 2**23  # values in the rows of all windows; with more, windows begin every second day, third day …


class Blocks(NamedTuple):
    """Windows of consecutive days. A window that reaches the end of its run of days wraps around to its first day.

    Every day is then in as many windows as any other, or one more; otherwise a crash in the middle of runs of 250 days
    makes expected shortfall 14 % too large. Disjoint windows weigh days equally too, but preserve 0.41 of the
    clustering of 20 tickers, and windows that begin every day 0.69. The seams at ends of runs cost 0.02 of that.
    """

    runs: tuple[int, ...]  # lengths of the runs of consecutive days; none is shorter than the window
    window: int
    step: int = 1  # largest number of days between the first days of consecutive windows

    @classmethod
    def within(cls, runs: tuple[int, ...], window: int, n_columns: int) -> Blocks:
        """Windows that begin every day, or, with too many values, as often as a divisor of the window allows."""
        max_windows = MAX_NUMBERS // (window * n_columns)
        steps = (step for step in range(1, window) if window % step == 0)
        return cls(runs, window, next((s for s in steps if sum(-(-run // s) for run in runs) <= max_windows), window))

    @property
    def is_separate(self) -> bool:
        """Whether each run is one window, so that no window follows another in the history."""
        return self.step >= max(self.runs)

    @property
    def run_starts(self) -> Array:
        """The first day of each run: (runs,)."""
        return np.cumsum((0, *self.runs[:-1]))

    @property
    def days(self) -> Array:
        """Indices of the days of each window: (K, window)."""
        windows = []
        for start, run in zip(self.run_starts, self.runs, strict=True):
            n = -(-run // self.step)
            firsts = np.arange(n) * run // n  # evenly spaced
            windows.append(start + (firsts[:, None] + np.arange(self.window)) % run)
        return np.concatenate(windows)

    def evenly(self, n_days: int) -> Array:
        """Evenly spaced windows (n,) of every run with at least `n_days` days together, or all windows."""
        counts = [-(-run // self.step) for run in self.runs]
        excess = sum(counts) * self.window // n_days  # number of windows over the number needed
        stride = max((s for s in range(1, self.window + 1) if self.window % s == 0 and s <= excess), default=1)
        starts = np.cumsum((0, *counts[:-1]))
        return np.concatenate([start + np.arange(0, n, stride) for start, n in zip(starts, counts, strict=True)])

    def segments(self) -> list[list[tuple[int, int]]]:
        """First and last day of the one or two segments of consecutive days of each window."""
        windows = (np.split(days, np.flatnonzero(np.diff(days) != 1) + 1) for days in self.days)
        return [[(int(part[0]), int(part[-1])) for part in parts] for parts in windows]

    def gather(self, days: Array) -> Array:
        """Rows of days (T, c) as flat windows, read-only: (K, window·c)."""
        indices = self.days
        flat = np.empty((len(indices), self.window * days.shape[1]))
        np.take(days, indices, axis=0, out=flat.reshape(*indices.shape, -1))
        flat.flags.writeable = False
        return flat


@dataclass(frozen=True, eq=False)
class WindowCoordinates(Coordinates):
    """A linear map for a single day, applied to each day of a window; features are flat windows, (n, window·N).

    mean (N,), inward (N, c) and outward (c, N) are those of a day; rows are (n, window·c). With norm "restored" the
    first component of a day is the market, if there is one, and the others are taken in groups (4, 8, 16 …, by falling
    variance). A row holds the direction of every group of every day, the sign of the market among them, each scaled by
    √(its share), so that the row has unit norm. Decoding restores the lengths of groups and the sign of the market.
    """

    inward: Array
    outward: Array
    window: int
    days: Array  # (K, window) indices of the days of each window
    round: Array  # (n,) windows that include all days about equally often
    groups: Groups
    market: str  # one of `MARKETS`, but not "auto"
    components: Array  # (T, c) of each day of the history
    directions: Array  # (T, c) of groups, of unit norm together
    lengths: Array  # (T, groups)
    surroundings: Array | None  # (T, N) volatility of the columns around each day, without the market; None without one

    @cached_property
    def natural_beta(self) -> float:
        """The natural beta of the stored windows; infinite if they repeat, so that they have none."""
        try:
            return temperature.natural(self.stored)
        except ValueError:
            return math.inf

    @classmethod
    def of_days(cls, day: Coordinates, history: Array, blocks: Blocks, norm: str, market: str) -> WindowCoordinates:
        """Coordinates of the windows of a history (T, N), by a map fitted on days whose rows keep their lengths."""
        day, market = with_market(day, history, market if norm == "restored" else "none", blocks.window)
        inward, outward = np.asarray(day.inward), np.asarray(day.outward)
        z = day.rows(history)  # (T, c)
        groups, surroundings = Groups.of(len(outward), market != "none"), None
        if market != "none":
            surroundings = surrounding_volatility(z[:, 1:] @ outward[1:], blocks.runs)
        directions, lengths = groups.split(z)
        stored = blocks.gather(z if norm == "whole" else directions / math.sqrt(blocks.window))
        days, round = blocks.days, blocks.evenly(N_DRAWS)
        norms = np.sqrt(np.square(lengths).sum(1)[days].sum(1))
        fields = (day.mean, inward, outward, stored, norms, norm, day.variance, blocks.window)
        return cls(*fields, days, round, groups, market, z, directions, lengths, surroundings)

    def rows(self, features: ArrayLike) -> Array:
        """Flat windows (n, window·N) as rows (n, window·c)."""
        z = self.project(np.asarray(features, dtype=np.float64).reshape(-1, len(self.mean)))
        return (z if self.norm == "whole" else self.groups.split(z)[0] / math.sqrt(self.window)).reshape(-1, self.d)

    def project(self, days: Array) -> Array:
        """Days (n, N) in coordinates: (n, c)."""
        return (days - self.mean) @ self.inward

    def factors(self, beta: float = math.inf, source: Array | slice = slice(None)) -> Array:
        """Factors from rows drawn around the memories `source` to coordinates: (n, d), or (n, 1) if all are 1."""
        days = self.days[source]
        if self.norm != "restored":
            return np.ones((len(days), 1))
        return self._by_component(self.lengths[days], beta).reshape(len(days), self.d)

    def _by_component(self, lengths: Array, beta: float) -> Array:
        """Lengths of groups as factors of components, which noise makes longer: (..., groups) -> (..., c)."""
        rms = np.sqrt(self.groups.shares / self.window + self.groups.sizes / beta)  # the root mean square
        return self.groups.by_component(lengths / rms)

    def features(self, coordinates: Array) -> Array:
        """Coordinates (n, d) as flat windows (n, window·N)."""
        return self.day_features(coordinates.reshape(-1, len(self.outward))).reshape(-1, self.window * len(self.mean))

    def day_features(self, z: Array) -> Array:
        """Coordinates of days (n, c) as days (n, N)."""
        return self.mean + self._times(z, self.outward)

    def _times(self, days: Array, matrix: Array) -> Array:
        """days (n, a) @ matrix (a, b), a window at a time, so that its bits do not depend on the number of windows."""
        is_complete = len(days) % self.window == 0
        blocks = days.reshape(-1, self.window, days.shape[1]) if is_complete else days
        return np.asarray(blocks @ matrix).reshape(len(days), -1)

    def draw_days(self, beta: float, days: Array, noise: Array, flips: Array | float = 1.0) -> Array:
        """Coordinates (n, c) of draws at beta around the days with these indices (n,), from normal noise (n, c).

        Every group has exactly the length of its day; lengths that are correct only on average would preserve less of
        the clustering. The market keeps its sign, and its size is multiplied by exp(jitter · noise). The noise of the
        other components has the volatility of the columns around the day, so they stay volatile at the same times. With
        a new path of the market, all components are multiplied by `flips` (n,), so that tickers move as much as before.
        """
        if self.norm != "restored":
            return self.components[days] + noise / math.sqrt(beta)
        directions, lengths = self.directions[days], self.lengths[days]
        scale = math.sqrt(self.window / beta)
        if self.surroundings is None:
            return self.groups.with_lengths(directions + noise * scale, lengths)
        local = self._times(noise[:, 1:], self.outward[1:]) * self.surroundings[days]
        local = self._times(local, self.inward[:, 1:])
        z = np.concatenate([directions[:, :1], directions[:, 1:] + local * scale], axis=1)
        z = self.groups.with_lengths(z, lengths)
        z[:, 0] = self.scores(beta, days, noise[:, 0])
        return z * np.reshape(flips, (-1, 1))

    def scores(self, beta: float, days: Array, noise: Array) -> Array:
        """Market scores of draws at beta around these days (n,), from standard normal noise (n,): (n,)."""
        jitter = min(math.sqrt(self.window / (beta * self.groups.shares[0])), MAX_JITTER)
        return self.components[days, 0] * np.exp(jitter * noise - jitter**2)  # with the same mean square

    def with_score(self, days: Array, score: Array) -> Array:
        """Days (n, N), moved along the market to these market scores (n,): (n, N)."""
        return days + (score[:, None] - self._times(days - self.mean, self.inward[:, :1])) * self.outward[0]

    def marginals(self, beta: float, days: Array) -> tuple[Array, Array]:
        """Means and standard deviations of columns around each of these days, drawn at beta: (T, N), (T, N)."""
        z = self.project(days)
        factors, centers = np.ones_like(z), z
        if self.norm == "restored":
            directions, lengths = self.groups.split(z)
            factors = self._by_component(lengths, beta)
            centers = factors * directions / math.sqrt(self.window)
        return self.mean + centers @ self.outward, np.sqrt(np.square(factors) @ np.square(self.outward) / beta)

    def observation(self, columns: ArrayLike, values: ArrayLike) -> tuple[Array, Array]:
        """Equations of coordinates for features `columns` (day·N + column) that equal `values`: (r, d), (r,)."""
        day, column = np.divmod(columns, len(self.mean))
        A = np.zeros((len(day), self.window, len(self.outward)))
        A[np.arange(len(day)), day], y = super().observation(column, values)
        return A.reshape(len(day), self.d), y
