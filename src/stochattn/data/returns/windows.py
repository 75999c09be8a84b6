"""Coordinates of windows of days: each day split into directions, which noise may turn, and lengths, which are kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._backend.arrays import Array
from ...generators.coordinates import Coordinates
from .blocks import Blocks, gathered

FIRST_OCTAVE = 4


@dataclass(frozen=True, eq=False)
class WindowCoordinates(Coordinates):
    """A linear map for a single day, applied to each day of a window; features are windows laid flat, (n, window·N).

    mean (N,), inward (N, c) and outward (c, N) are a day's; rows are (n, window·c). With norm "restored" a day's
    components are taken in octaves (4, 8, 16 …, by falling variance). A row holds the direction of every octave of
    every day, each scaled by √(its share of the d dimensions), so that the row has unit norm and noise treats all
    alike; decoding puts back the length of each (`with_lengths`). So the size of the market's move survives, and that
    of finer movements, and how both run through the window; noise turns the directions.

    window:  days in a window
    lengths: (K, window, octaves) lengths of the stored days
    """

    window: int
    lengths: Array

    @classmethod
    def of_days(cls, day: Coordinates, history: Array, blocks: Blocks, norm: str) -> WindowCoordinates:
        """Coordinates of the windows of a history (T, N), by a map fitted on days."""
        z = day.rows(history)  # (T, c): `day` leaves lengths in its rows
        directions, lengths = _split(z)
        rows = z if norm == "whole" else directions / math.sqrt(blocks.window)
        kept = lengths[blocks.days]
        norms = np.sqrt(np.square(kept).sum((1, 2)))
        stored = gathered(rows, blocks)
        return cls(day.mean, day.inward, day.outward, stored, norms, norm, day.variance, blocks.window, kept)

    @property
    def c(self) -> int:
        """Components of a day."""
        return self.d // self.window

    def day(self, days: Any) -> Array:
        """Days (n, N) as components (n, c)."""
        centred = np.asarray(days, dtype=np.float64) - self.mean
        return centred if self.inward is None else centred @ self.inward

    def rows(self, features: Any) -> Array:
        """Windows laid flat (n, window·N) as rows (n, window·c)."""
        z = self.day(np.asarray(features, dtype=np.float64).reshape(-1, len(self.mean)))
        return (z if self.norm == "whole" else _split(z)[0] / math.sqrt(self.window)).reshape(-1, self.d)

    def factors(self, beta: float | None = None) -> Array:
        """What turns a row drawn around memory k into coordinates: the kept lengths, less what noise added: (K, d)."""
        return self.factors_of(np.arange(len(self.stored)), beta)

    def factors_of(self, memory: Array, beta: float | None) -> Array:
        """The factors of some memories: (n, d); (n, 1) where lengths are not kept apart."""
        if self.norm != "restored":
            return np.ones((len(memory), 1))
        return self._spread(self.lengths[memory], beta).reshape(len(memory), self.d)

    def _spread(self, lengths: Array, beta: float | None) -> Array:
        """Lengths of octaves as factors of components: (..., octaves) -> (..., c)."""
        stretch = 1.0 if beta is None else math.sqrt(1 + self.d / beta)
        sizes = octaves(self.c)
        scales = np.sqrt(self.d / sizes) / stretch
        return np.repeat(lengths * scales, sizes, axis=-1)

    def features(self, coordinates: Any) -> Array:
        """Coordinates (n, d) as windows laid flat (n, window·N)."""
        z = np.asarray(coordinates).reshape(-1, self.c)
        days = self.mean + (z if self.outward is None else z @ self.outward)
        return days.reshape(-1, self.window * len(self.mean))

    def with_lengths(self, coordinates: Any, memory: Array) -> Array:
        """Coordinates (n, d) whose every octave of every day is exactly as long as the memory's there: (n, d).

        Noise turns directions, and makes lengths right only on average. Left so, a violent day comes out calm now and
        then, and volatility clusters less: at 20 tickers 69 % of the history's clustering is kept, and 79 % this way.
        """
        z = np.asarray(coordinates, dtype=np.float64)
        if self.norm != "restored":
            return z
        kept = self.lengths[memory]
        return _lengthened(z.reshape(-1, self.c), kept.reshape(-1, kept.shape[-1])).reshape(z.shape)

    def drawn_days(self, beta: float, days: Array, rng: np.random.Generator) -> Array:
        """A draw around each of these days, with the day's lengths, as windows drawn at beta have them: (T, N)."""
        z = self.day(days)
        directions, lengths = _split(z)
        noise = rng.standard_normal(z.shape)
        if self.norm == "restored":
            z = _lengthened(directions + noise * math.sqrt(self.window / beta), lengths)
        else:
            z = z + noise / math.sqrt(beta)
        return self.mean + (z if self.outward is None else z @ self.outward)

    def marginals(self, beta: float, days: Array) -> tuple[Array, Array]:
        """The law of each ticker on a day drawn at beta, lengths left as noise makes them.

        Means and spreads of normal laws around each day: (T, N), (T, N).
        """
        z = self.day(days)
        outward = np.eye(len(self.mean)) if self.outward is None else self.outward
        factors, stretch = np.ones_like(z), 1.0
        if self.norm == "restored":
            factors, stretch = self._spread(_split(z)[1], beta), math.sqrt(1 + self.d / beta)
        return self.mean + z @ outward / stretch, np.sqrt(np.square(factors) @ np.square(outward) / beta)

    def observation(self, columns: Any, values: Any) -> tuple[Array, Array]:
        """That the features `columns` (day·N + ticker) equal `values`, as equations of coordinates: (r, d), (r,)."""
        day, ticker = np.divmod(np.asarray(columns, dtype=np.intp), len(self.mean))
        outward = np.eye(len(self.mean)) if self.outward is None else self.outward
        A = np.zeros((len(day), self.window, self.c))
        A[np.arange(len(day)), day] = outward[:, ticker].T
        return A.reshape(len(day), self.d), np.asarray(values, dtype=np.float64) - self.mean[ticker]


@dataclass(frozen=True, eq=False)
class CrossSections(Coordinates):
    """The paper's rows: each day less its mean over the tickers, each window scaled to unit norm."""

    n_tickers: int

    @classmethod
    def of_days(cls, history: Array, blocks: Blocks) -> CrossSections:
        """Rows of the windows of a history (T, N); each must have a direction."""
        windows = gathered(history - history.mean(1, keepdims=True), blocks)
        norms = np.linalg.norm(windows, axis=1)
        mean, rows = np.zeros(windows.shape[1]), windows / norms[:, None]
        return cls(mean, None, None, rows, norms, "paper", 1.0, history.shape[1])

    def rows(self, features: Any) -> Array:
        """Windows laid flat (n, window·N) as rows of the same shape."""
        days = np.asarray(features, dtype=np.float64).reshape(-1, self.n_tickers)
        return super().rows((days - days.mean(1, keepdims=True)).reshape(-1, self.d))


def octaves(c: int) -> Array:
    """Sizes 4, 8, 16 … of the groups that c components are taken in; the last takes the rest.

    >>> octaves(30)
    array([ 4,  8, 18])
    >>> octaves(3)
    array([3])
    """
    sizes, size = [], FIRST_OCTAVE
    while c >= 3 * size:  # this group, and at least one of twice its size after it
        sizes.append(size)
        c, size = c - size, 2 * size
    return np.array([*sizes, c])


def _lengthened(z: Array, lengths: Array) -> Array:
    """Components of days (n, c) turned nowhere, and each octave made as long as asked: (n, octaves) -> (n, c)."""
    sizes = octaves(z.shape[1])
    now = np.sqrt(np.add.reduceat(np.square(z), np.cumsum(sizes) - sizes, axis=1))
    return z * np.repeat(lengths / np.maximum(now, 1e-300), sizes, axis=1)


def _split(z: Array) -> tuple[Array, Array]:
    """Components of days (T, c) as directions of octaves, of unit norm together: (T, c); and lengths (T, octaves)."""
    c = z.shape[1]
    sizes = octaves(c)
    starts = np.cumsum(sizes) - sizes
    lengths = np.sqrt(np.add.reduceat(np.square(z), starts, axis=1))
    # An octave at rest has no direction. Any will do, at a length too small to be seen.
    smallest = 1e-12 * max(float(lengths.max(initial=0.0)), 1e-300)
    still = lengths <= smallest
    lengths = np.where(still, smallest, lengths)
    each = np.repeat(lengths, sizes, axis=1)
    directions = np.where(np.repeat(still, sizes, axis=1), 0.0, z / each)
    directions[:, starts] = np.where(still, 1.0, directions[:, starts])
    return directions * np.repeat(np.sqrt(sizes / c), sizes), lengths
