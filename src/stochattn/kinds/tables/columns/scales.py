"""The scale of a column of numbers: normal scores of ranks, the way back, and the decimals and limits of numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array, ArrayLike

SNAP = 1e-7
"""A score that is as near to the score of a stored value stands for that value: above rounding, far below a rank."""
MAX_DECIMALS = 12
BETWEEN = 1e-5
"""Scores left between two neighboring atoms, for conditions on numbers in between; draws hardly ever fall there."""
MIN_SHARED, MAX_CHANCE = 3, 1e-3
"""Least rows with the value of an atom, and the largest chance of a single false atom in a column."""
MAX_ODD = 0.05  # share of stored numbers that may have more decimals than new ones get


class Distinct(NamedTuple):
    """Distinct numbers (m,) in rising order, and how often each occurs (m,)."""

    values: Array
    counts: Array

    @classmethod
    def of(cls, numbers: Array) -> Distinct:
        """The distinct ones of these numbers (n,); np.unique gives the same in three times as long."""
        ordered = np.sort(numbers)
        is_new = np.ones(len(ordered), dtype=bool)
        np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
        starts = np.append(is_new.nonzero()[0], len(ordered))
        return cls(ordered[is_new], starts[1:] - starts[:-1])


@dataclass(frozen=True, eq=False)
class Ranks:
    """The map from numbers to scores, linear between the distinct stored values (m,), with slopes of the tails.

    scores:      (m,) normal scores of mid-ranks, of unit variance over the stored numbers
    first, last: (m,) scores of the first and the last rank of a value: all scores in between decode to it, so that a
                 value which many rows share keeps its frequency
    low, high:   limits of values; a tail bends towards its limit
    decimals:    to which new values are rounded, or None
    deviation:   standard deviation of the normal distribution of ranks, in units of scores
    """

    values: Array
    scores: Array
    first: Array
    last: Array
    slopes: tuple[float, float]
    low: float
    high: float
    decimals: int | None
    deviation: float = 1.0

    @cached_property
    def odd(self) -> Array:
        """The stored values with more decimals, which new rows have as often."""
        return self.values if self.decimals is None else self.values[self.values != self.values.round(self.decimals)]

    @classmethod
    def fit(cls, distinct: Distinct, low: float, high: float, decimals: int | None) -> Ranks:
        """Ranks of at least two distinct numbers."""
        values = distinct.values
        scores, first, last, scale = _scores(distinct.counts.tobytes())
        atoms = are_atoms(values, distinct.counts, decimals)
        j = np.flatnonzero(atoms[:-1] & atoms[1:])  # hardly any number lies between two neighboring atoms
        middle, half = (last[j] + first[j + 1]) / 2, np.minimum(first[j + 1] - last[j], BETWEEN) / 2
        first, last = first.copy(), last.copy()
        last[j], first[j + 1] = middle - half, middle + half
        steps = max(1, len(values) // 4)  # tails continue with the slopes of the outer quarters of the values
        below = float((values[steps] - values[0]) / (scores[steps] - scores[0]))
        above = float((values[-1] - values[-1 - steps]) / (scores[-1] - scores[-1 - steps]))
        return cls(values, scores, first, last, (below, above), low, high, decimals, 1 / scale)

    def forward(self, numbers: ArrayLike) -> Array:
        """Numbers (n,) as scores (n,); NaN stays NaN."""
        x, values = np.asarray(numbers, dtype=np.float64), self.values
        j = np.maximum(np.searchsorted(values, x, side="right") - 1, 0)
        stored = x == values[j]
        if stored.all():
            return np.asarray(self.scores[j])
        after = np.minimum(j + 1, len(values) - 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(after > j, (x - values[j]) / (values[after] - values[j]), 0.0)
            s = self.last[j] + share * (self.first[after] - self.last[j])
            s = np.where(stored, self.scores[j], s)
            below = _unbend(values[0] - x, values[0] - self.low, self.slopes[0])
            above = _unbend(x - values[-1], self.high - values[-1], self.slopes[1])
            s = np.where(x < values[0], self.first[0] - below, np.where(x > values[-1], self.last[-1] + above, s))
        return np.where(np.isnan(x), np.nan, s)

    def inverse(self, scores: ArrayLike) -> Array:
        """Scores (n,) as numbers (n,); the scores of stored values give exactly these values."""
        s = np.asarray(scores, dtype=np.float64)
        j = np.minimum(np.maximum(np.searchsorted(self.scores, s), 1), len(self.scores) - 1)
        j -= s - self.scores[j - 1] < self.scores[j] - s
        stored = np.abs(s - self.scores[j]) < SNAP
        if stored.all():
            return np.asarray(self.values[j])
        at, values = np.stack((self.first, self.last), 1).ravel(), np.repeat(self.values, 2)  # both are sorted
        x = np.interp(s, at, values)
        below, above = self.first[0] - s, s - self.last[-1]
        x = np.where(below > 0, self.values[0] - _bend(below, self.values[0] - self.low, self.slopes[0]), x)
        x = np.where(above > 0, self.values[-1] + _bend(above, self.high - self.values[-1], self.slopes[1]), x)
        if self.decimals is not None:
            x = np.where(np.isin(x, self.odd), x, np.round(x, self.decimals))
        return np.where(stored, self.values[j], np.clip(x, self.low, self.high))

    def jitter(self, features: Array, rng: np.random.Generator) -> Array:
        """Scores (n, 1); those of a value that many rows share are spread evenly over its ranks."""
        from scipy.special import ndtr, ndtri

        s = features[:, 0]
        j = np.clip(np.searchsorted(self.scores, s - SNAP), 0, len(self.scores) - 1)
        low, high = ndtr(self.first[j] / self.deviation), ndtr(self.last[j] / self.deviation)
        spread = ndtri(low + rng.random(len(s)) * (high - low)) * self.deviation
        return np.where(np.abs(s - self.scores[j]) < SNAP, spread, s)[:, None]


def are_atoms(values: Array, counts: Array, decimals: int | None) -> Array:
    """Which values (m,) are shared by more rows than rounding explains, such as doses, or integers among fractions.

    Under rounding alone, the count of a value is a Poisson variable whose mean is that of the counts of its two
    neighbors, each divided by the steps of rounding in between.
    """
    from scipy.special import gammainc

    if len(values) < 2:
        return np.zeros(len(values), dtype=bool)
    step = 0.0 if decimals is None else 10.0**-decimals
    shares = np.minimum(step / np.maximum(np.diff(values), step or 1.0), 1.0)
    below, above = np.append(np.nan, counts[:-1] * shares), np.append(counts[1:] * shares, np.nan)
    expected = np.nanmean([below, above], axis=0)
    return np.asarray((counts >= MIN_SHARED) & (gammainc(counts, expected) < MAX_CHANCE / len(values)))


@lru_cache(maxsize=64)  # all columns without equal numbers have the same scores
def _scores(count_bytes: bytes) -> tuple[Array, Array, Array, float]:
    """Normal scores (m,) of the middle, first and last ranks of values with counts (m,), and their standard deviation.

    The scores are divided by this deviation, which is taken over all numbers.
    """
    from scipy.special import ndtri

    counts = np.frombuffer(count_bytes, dtype=np.intp)
    n, past = int(counts.sum()), np.cumsum(counts)
    first, last = ndtri((past - counts + 0.5) / n), ndtri((past - 0.5) / n)
    scores = ndtri((past - counts / 2) / n)
    scale = math.sqrt((scores**2 * counts).sum() / n - ((scores * counts).sum() / n) ** 2)
    return scores / scale, first / scale, last / scale, scale


def _bend(beyond: Array, room: float, slope: float) -> Array:
    """How far a tail lies beyond the outermost value: slope · beyond without a limit, and below `room` with a limit."""
    if math.isinf(room):
        return slope * np.maximum(beyond, 0)
    return -room * np.expm1(-slope / room * np.maximum(beyond, 0)) if room > 0 else np.zeros_like(beyond)


def _unbend(distance: Array, room: float, slope: float) -> Array:
    """The inverse of `_bend`; the score of the limit itself is large but finite."""
    if math.isinf(room):
        return distance / slope
    if room > 0:
        return -np.log(np.maximum(1 - np.clip(distance, 0, room) / room, 1e-6)) * (room / slope)
    return np.zeros_like(distance)


def decimals_of(distinct: Distinct) -> int | None:
    """How many decimals finite numbers have, with few exceptions, or None where they are not decimal numbers.

    At most one in twenty of the numbers, and of the distinct numbers, may have more decimals: where most numbers are
    zero, the others are no exceptions.
    """
    values, counts = distinct
    exact, n = values.astype(np.float64, copy=False), int(counts.sum())
    sizes = np.sort(np.abs(exact.repeat(counts)))
    size = max(float(sizes[math.ceil((n - 1) * (1 - MAX_ODD))]), 1e-200)
    most = min(MAX_DECIMALS, math.floor(math.log10(2.0**53 / size)))

    def suffice(decimals: int) -> bool:
        odd = exact.round(decimals).astype(values.dtype, copy=False) != values
        n_odd = np.count_nonzero(odd)
        few = max(1, MAX_ODD * len(values)) >= n_odd < len(values) - n_odd
        return n_odd == 0 or bool(few and counts[odd].sum() <= MAX_ODD * n)

    if most < 0 or not suffice(most):
        return None
    return next(decimals for decimals in range(most + 1) if suffice(decimals))


def limits_of(distinct: Distinct, decimals: int | None) -> tuple[float, float]:
    """The limits low and high that numbers suggest, infinite where there is none.

    Positive numbers stay positive, and numbers without a change of sign keep their sign. A least or greatest value that
    many rows share (one in twenty, and at least three) is the end of a scale.
    """
    values, counts = distinct
    least, greatest = float(values[0]), float(values[-1])
    step, many = 0.0 if decimals is None else 10.0**-decimals, max(3, int(counts.sum()) / 20)
    low = min(step, least) if least >= 0 else -math.inf
    high = max(-step, greatest) if greatest <= 0 else math.inf
    return least if counts[0] >= many else low, greatest if counts[-1] >= many else high
