"""The scale of a column of numbers: normal scores of their ranks, and back; their decimals and limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..._backend.arrays import Array, ArrayLike

SNAP = 1e-7
"""How near a score must come to that of a stored value to be that value: above rounding, far below a rank."""
MAX_DECIMALS = 12
MAX_ODD = 0.05  # share of numbers that may have more decimals than new ones get


@dataclass(frozen=True, eq=False)
class Ranks:
    """The map from numbers to scores, linear between the distinct stored values (m,), with slopes of the tails.

    scores:      (m,) normal scores of mid-ranks, of unit variance over the stored numbers
    first, last: (m,) scores of the first and the last rank that a value takes: all in between decode to it, so that
                 a value which many rows share stays as frequent as it is
    low, high:   limits that no value passes; a tail bends towards its limit and stays inside
    decimals:    to which values other than the stored ones are rounded, or None
    deviation:   standard deviation of the normal law that ranks follow, in units of scores
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

    @classmethod
    def fit(cls, numbers: Array, low: float, high: float, decimals: int | None) -> Ranks:
        """Ranks of these numbers (n,), of which at least two differ; NaN is left out."""
        numbers = numbers[~np.isnan(numbers)]
        values, counts = np.unique(numbers, return_counts=True)
        scores, first, last, scale = _scores(tuple(counts.tolist()))
        steps = max(1, len(values) // 4)  # tails go on at the slopes of the outer quarters, of one step at least
        slopes = (values[steps:] - values[:-steps]) / (scores[steps:] - scores[:-steps])
        tails = float(slopes[0]), float(slopes[-1])
        return cls(values, scores, first, last, tails, low, high, decimals, 1 / scale)

    def forward(self, numbers: ArrayLike) -> Array:
        """Numbers (n,) as scores (n,); NaN stays NaN."""
        x = np.asarray(numbers, dtype=np.float64)
        values, top = self.values, len(self.values) - 1
        j = np.clip(np.searchsorted(values, x, side="right") - 1, 0, top)
        after = np.minimum(j + 1, top)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(after > j, (x - values[j]) / (values[after] - values[j]), 0.0)
            s = self.last[j] + share * (self.first[after] - self.last[j])
            s = np.where(x == values[j], self.scores[j], s)
            below = _unbent(values[0] - x, values[0] - self.low, self.slopes[0])
            above = _unbent(x - values[-1], self.high - values[-1], self.slopes[1])
            s = np.where(x < values[0], self.first[0] - below, np.where(x > values[-1], self.last[-1] + above, s))
        return np.where(np.isnan(x), np.nan, s)

    def inverse(self, scores: ArrayLike) -> Array:
        """Scores (n,) as numbers (n,); those of stored values give these values exactly."""
        s = np.asarray(scores, dtype=np.float64)
        wide = self.first < self.last
        at = np.concatenate((self.first, self.last[wide]))
        order = np.argsort(at, kind="stable")
        x = np.interp(s, at[order], np.concatenate((self.values, self.values[wide]))[order])
        below, above = self.first[0] - s, s - self.last[-1]
        x = np.where(below > 0, self.values[0] - _bent(below, self.values[0] - self.low, self.slopes[0]), x)
        x = np.where(above > 0, self.values[-1] + _bent(above, self.high - self.values[-1], self.slopes[1]), x)
        if self.decimals is not None:
            x = np.round(x, self.decimals)
        x = np.clip(x, self.low, self.high)
        j = np.clip(np.searchsorted(self.scores, s), 1, len(self.scores) - 1)
        j = j - (s - self.scores[j - 1] < self.scores[j] - s)
        return np.where(np.abs(s - self.scores[j]) < SNAP, self.values[j], x)

    def jittered(self, features: Array, rng: np.random.Generator) -> Array:
        """Scores (n, 1), those of a value that many rows share spread over its ranks, evenly."""
        from scipy.special import ndtr, ndtri

        s = features[:, 0]
        j = np.clip(np.searchsorted(self.scores, s - SNAP), 0, len(self.scores) - 1)
        low, high = ndtr(self.first[j] / self.deviation), ndtr(self.last[j] / self.deviation)
        spread = ndtri(low + rng.random(len(s)) * (high - low)) * self.deviation
        return np.where(np.abs(s - self.scores[j]) < SNAP, spread, s)[:, None]


@lru_cache(maxsize=64)  # columns without equal numbers share theirs
def _scores(times: tuple[int, ...]) -> tuple[Array, Array, Array, float]:
    """Normal scores (m,) of values that occur so many times: in the middle, of their first and of their last rank.

    They are divided by their standard deviation over all numbers, which is the last of the four.
    """
    from scipy.special import ndtri

    counts = np.array(times)
    n, past = int(counts.sum()), np.cumsum(counts)
    first, last = ndtri((past - counts + 0.5) / n), ndtri((past - 0.5) / n)
    scores = ndtri((past - counts / 2) / n)
    scale = math.sqrt(np.average(scores**2, weights=counts) - np.average(scores, weights=counts) ** 2)
    return scores / scale, first / scale, last / scale, scale


def _bent(beyond: Array, room: float, slope: float) -> Array:
    """How far a tail goes: slope · beyond without a limit, and never as far as `room` where there is one."""
    if math.isinf(room):
        return slope * np.maximum(beyond, 0)
    return -room * np.expm1(-slope / room * np.maximum(beyond, 0)) if room > 0 else np.zeros_like(beyond)


def _unbent(distance: Array, room: float, slope: float) -> Array:
    """The inverse of `_bent`; the limit itself is a long but finite way out."""
    if math.isinf(room):
        return distance / slope
    return -np.log(np.maximum(1 - distance / room, 1e-6)) * (room / slope) if room > 0 else np.zeros_like(distance)


def decimals_of(numbers: Array) -> int | None:
    """How many decimals these finite numbers have but for a few odd ones, or None where decimals cannot write them.

    A few are one in twenty of the numbers, and of the distinct ones: where most are zero, the rest is not odd.
    """
    values, counts = np.unique(numbers, return_counts=True)
    exact, n = values.astype(np.float64), len(numbers)
    size = max(float(np.sort(np.abs(numbers.astype(np.float64)))[math.ceil((n - 1) * (1 - MAX_ODD))]), 1e-200)
    most = min(MAX_DECIMALS, math.floor(math.log10(2.0**53 / size)))

    def suffice(decimals: int) -> bool:
        odd = exact.round(decimals).astype(numbers.dtype, copy=False) != values
        n_odd = np.count_nonzero(odd)
        few = max(1, MAX_ODD * len(values)) >= n_odd < len(values) - n_odd
        return n_odd == 0 or bool(few and counts[odd].sum() <= MAX_ODD * n)

    if most < 0 or not suffice(most):
        return None
    return next(decimals for decimals in range(most + 1) if suffice(decimals))


def limits_of(numbers: Array, decimals: int | None) -> tuple[float, float]:
    """Limits that the numbers themselves suggest: low, high, infinite where there is none.

    Positive numbers stay positive, and numbers without sign change keep their sign. A least or greatest value that
    many rows share (one in twenty, and at least three) is the end of a scale.
    """
    least, greatest = float(numbers.min()), float(numbers.max())
    step, many = 0.0 if decimals is None else 10.0**-decimals, max(3, len(numbers) / 20)
    low = min(step, least) if least >= 0 else -math.inf
    high = max(-step, greatest) if greatest <= 0 else math.inf
    low = least if np.count_nonzero(numbers == least) >= many else low
    return low, greatest if np.count_nonzero(numbers == greatest) >= many else high
