"""Windows of days: which days each has, their coordinates, and the calibration of drawn days to the history."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, ArrayLike
from .coordinates import Coordinates

MAX_NUMBERS = 2**23
"""Numbers that the rows of all windows may hold; beyond it windows begin at every second day, every third …"""
FIRST_GROUP = 4
"""Components in the first group; each further group has twice as many as the one before."""
GRID, N_DRAWS = np.sinh(np.linspace(-np.arcsinh(30.0), np.arcsinh(30.0), 129)), 2**16
"""Points in standard deviations at which a law of days is measured, finely in the middle and widely in the tails, and
days drawn where it has no closed form: an error of 0.003 in its quantiles."""


class Blocks(NamedTuple):
    """Windows of consecutive days. A window that reaches the end of its run of days continues at the run's first day.

    Every day is then in as many windows as any other, or one more; otherwise a crash in the middle of runs of 250 days
    makes expected shortfall 14 % too large. Disjoint windows count days equally too, but preserve 0.41 of the
    clustering of 20 tickers, and windows that begin every day 0.69. The seams at ends of runs cost 0.02 of that.
    """

    runs: tuple[int, ...]  # lengths of the runs of days without a gap; none is shorter than the window
    window: int
    step: int = 1  # days from the first day of a window to that of the next, at most

    @classmethod
    def within(cls, runs: tuple[int, ...], window: int, n_columns: int) -> Blocks:
        """Windows that begin every day; where that is too many numbers, as often as a divisor of the window allows."""
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
        found = []
        for start, run in zip(self.run_starts, self.runs, strict=True):  # equivalent: each run has a start
            n = -(-run // self.step)
            firsts = np.arange(n) * run // n  # evenly spaced
            found.append(start + (firsts[:, None] + np.arange(self.window)) % run)
        return np.concatenate(found)

    def segments(self) -> list[list[tuple[int, int]]]:
        """First and last day of the one or two segments of consecutive days that each window has."""
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
    components of a day are taken in groups (4, 8, 16 …, by falling variance). A row holds the direction of every group
    of every day, each scaled by √(its share of the d dimensions), so that the row has unit norm and noise treats all
    dimensions alike. Decoding restores the lengths of groups: the sizes of the market's move and of finer ones survive.
    """

    inward: Array
    outward: Array
    window: int
    lengths: Array  # (K, window, groups)

    @classmethod
    def of_days(cls, day: Coordinates, history: Array, blocks: Blocks, norm: str) -> WindowCoordinates:
        """Coordinates of the windows of a history (T, N), by a map fitted on days whose rows keep their lengths."""
        inward, outward = (np.eye(len(day.mean)) if part is None else part for part in (day.inward, day.outward))
        z = day.rows(history)  # (T, c)
        directions, lengths = _split(z)
        stored = blocks.gather(z if norm == "whole" else directions / math.sqrt(blocks.window))
        each = lengths[blocks.days]
        norms = np.sqrt(np.square(each).sum((1, 2)))
        return cls(day.mean, inward, outward, stored, norms, norm, day.variance, blocks.window, each)

    def rows(self, features: ArrayLike) -> Array:
        """Flat windows (n, window·N) as rows (n, window·c)."""
        z = self._components(np.asarray(features, dtype=np.float64).reshape(-1, len(self.mean)))
        return (z if self.norm == "whole" else _split(z)[0] / math.sqrt(self.window)).reshape(-1, self.d)

    def _components(self, days: Array) -> Array:
        return (days - self.mean) @ self.inward

    def factors(self, beta: float = math.inf, source: Array | slice = slice(None)) -> Array:
        """Factors that turn rows drawn around the memories `source` into coordinates: (n, d); (n, 1) if all are 1."""
        lengths = self.lengths[source]
        if self.norm != "restored":
            return np.ones((len(lengths), 1))
        return self._by_component(lengths, beta).reshape(len(lengths), self.d)

    def _by_component(self, lengths: Array, beta: float) -> Array:
        """Lengths of groups as factors of components: (..., groups) -> (..., c)."""
        sizes = group_sizes(len(self.outward))
        growth = math.sqrt(1 + self.d / beta)  # of the norm of a row by noise, in the root mean square
        return np.repeat(lengths * (np.sqrt(self.d / sizes) / growth), sizes, axis=-1)

    def features(self, coordinates: Array) -> Array:
        """Coordinates (n, d) as flat windows (n, window·N)."""
        return super().features(coordinates.reshape(-1, len(self.outward))).reshape(-1, self.window * len(self.mean))

    def with_lengths(self, coordinates: Array, source: Array) -> Array:
        """Coordinates (n, d) in which every group of every day is exactly as long as in the memory `source`: (n, d).

        Factors make lengths right on average; exact ones preserve 79 % of the clustering of 20 tickers, not 69 %.
        """
        if self.norm != "restored":
            return coordinates
        wanted = self.lengths[source].reshape(-1, self.lengths.shape[-1])
        return _with_lengths(coordinates.reshape(-1, len(self.outward)), wanted).reshape(coordinates.shape)

    def sample_days(self, beta: float, days: Array, rng: np.random.Generator) -> Array:
        """A draw around each of these days (T, N), distributed like the days of windows drawn at beta: (T, N)."""
        z = self._components(days)
        noise = rng.standard_normal(z.shape)
        if self.norm != "restored":
            return super().features(z + noise / math.sqrt(beta))
        directions, lengths = _split(z)
        return super().features(_with_lengths(directions + noise * math.sqrt(self.window / beta), lengths))

    def marginals(self, beta: float, days: Array) -> tuple[Array, Array]:
        """Means and standard deviations of columns around each of these days, drawn at beta: (T, N), (T, N)."""
        z = self._components(days)
        factors, growth = np.ones_like(z), 1.0
        if self.norm == "restored":
            factors, growth = self._by_component(_split(z)[1], beta), math.sqrt(1 + self.d / beta)
        means = self.mean + z @ self.outward / growth
        return means, np.sqrt(np.square(factors) @ np.square(self.outward) / beta)

    def observation(self, columns: ArrayLike, values: ArrayLike) -> tuple[Array, Array]:
        """That the features `columns` (day·N + column) equal `values`, as equations of coordinates: (r, d), (r,)."""
        day, column = np.divmod(columns, len(self.mean))
        A = np.zeros((len(day), self.window, len(self.outward)))
        A[np.arange(len(day)), day], y = super().observation(column, values)
        return A.reshape(len(day), self.d), y


def group_sizes(c: int) -> Array:
    """Sizes 4, 8, 16 … of the groups that c components are taken in; the last has all that remain.

    >>> group_sizes(30)
    array([ 4,  8, 18])
    """
    sizes, size = [], FIRST_GROUP
    while c >= 3 * size:  # this group, and at least one of twice its size after it
        sizes.append(size)
        c, size = c - size, 2 * size
    return np.array([*sizes, c])


def _grouped(z: Array) -> tuple[Array, Array, Array]:
    """Sizes and starts of the groups of components (n, c), and their lengths (n, groups)."""
    sizes = group_sizes(z.shape[1])
    starts = np.cumsum(sizes) - sizes
    return sizes, starts, np.sqrt(np.add.reduceat(np.square(z), starts, axis=1))


def _with_lengths(z: Array, lengths: Array) -> Array:
    """Components of days (n, c) with the same directions, and groups of these lengths (n, groups): (n, c)."""
    sizes, _, own = _grouped(z)
    return z * np.repeat(lengths / np.maximum(own, 1e-300), sizes, axis=1)


def _split(z: Array) -> tuple[Array, Array]:
    """Components of days (T, c) as directions of groups, of unit norm together: (T, c); and lengths (T, groups)."""
    sizes, starts, lengths = _grouped(z)
    # A group of length zero has no direction. Any will do, at a length too small to be seen.
    smallest = 1e-12 * float(lengths.max(initial=1e-300))
    zero = lengths <= smallest
    lengths = np.where(zero, smallest, lengths)
    directions = np.where(np.repeat(zero, sizes, axis=1), 0.0, z / np.repeat(lengths, sizes, axis=1))
    directions[:, starts] = np.where(zero, 1.0, directions[:, starts])
    return directions * np.repeat(np.sqrt(sizes / z.shape[1]), sizes), lengths


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
