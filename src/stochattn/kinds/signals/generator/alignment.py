"""Classes of signals without a common beginning, and what lies before and after their signals.

In a class that is aligned, events have their times. In others (motions, contours, noise), a signal may begin at any
time, and a shifted signal is as good as the stored one. A shift shows what lies beyond the ends. Where the ends meet,
time runs around. An open signal is continued by the part of a stored signal that best matches its last points, and is
blended with it within these points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...._backend.arrays import Array
from ....core.neighbors import spaced_indices

MIN_SIGNALS, MIN_POINTS, MAX_COMPARED = 8, 16, 32
"""Signals of a class and points from which on alignment is tested; signals of a class that are compared, at most."""
PARTNERS, ALIGNED_SHARE, N_RANDOM = 1 / 5, 0.6, 10
"""Share of the other signals that one may be aligned with; least share of the correlation; random lags."""
FAR, MAX_FAR = 1 / 8, 1 / 5
"""A lag that is too large for warps, over the length, and the largest share of such lags in an aligned class."""
N_DRAWS = 99
"""Random shifts of a permutation test. A class differs from shifted ones if it exceeds all of them: level 1 %."""
MIN_VARIATION, MIN_CONTOUR_VARIATION, MAX_GROWTH = 2.0, 4.0, 1.5
"""Variance of the mean power of aligned signals, over that of shifted ones, and of contours; largest mean squared
difference of points up to 3/4 of the length apart in stationary signals, over that of points up to 1/4 apart."""
MAX_SEAM, MAX_GAP = 2.0, 0.05
"""Squared step from the last to the first point of closed signals, over that of other steps; of contours, over the
variance of both points among signals."""
MIN_SCALE = 1e-12
"""Standard deviation of a channel, over the largest value, below which it is constant."""
JOIN, MAX_JOIN = 1 / 16, 32
"""Points in which a signal is blended with another one, over the length, and at most."""
MARGIN, MAX_LAGS, MAX_POINTS = 1 / 8, 96, 512
"""Points beside a signal, over the length; lags of a neighbor that are tried, and points compared there, at most."""


def in_units(signals: Array) -> Array:
    """Signals (K, T, C) with channels in units of their standard deviation; constant ones are 0 up to rounding."""
    centered = signals - signals.mean((0, 1))
    scale = centered.std((0, 1))
    return np.asarray(centered / np.where(scale > MIN_SCALE * np.abs(signals).max(), scale, 1.0))


def is_aligned(signals: Array) -> bool:
    """Whether signals (K, T, C) of a class have their events at the same times, as far as they show it.

    With correlations r of signals at the lag 0, at their best lags and at random ones, (r(0) - r(random)) / (r(best) -
    r(random)) is near 1 for aligned signals. It is the mean over all other signals, or over the fifth that correlates
    most, so that groups count. Narrow events that come early or late have short best lags. Where noise hides this, a
    class is aligned unless it looks like one that begins at any time: shifted signals correlate as much, and the
    signals look stationary. Contours begin at any time unless their power depends on time.
    """
    K, T, _ = signals.shape
    if K < MIN_SIGNALS or T < MIN_POINTS:
        return True
    used = signals[spaced_indices(K, MAX_COMPARED)]
    seen = _extremes(in_units(used))
    correlations, rng = _correlations(seen), np.random.default_rng(0)
    lags = np.abs(correlations.argmax(2) - correlations.shape[2] // 2)
    if max(_alignment(correlations, rng)) >= ALIGNED_SHARE or (lags > FAR * seen.shape[1]).mean() <= MAX_FAR:
        return True
    if _are_contours(used):
        return _power_varies(seen, rng, MIN_CONTOUR_VARIATION)
    return _is_significant(correlations, rng) or _power_varies(seen, rng, MIN_VARIATION) or _growth(seen) > MAX_GROWTH


def _extremes(seen: Array) -> Array:
    """The value farthest from 0 in each of at most MAX_POINTS blocks of times: (n, T, C) or shorter.

    Narrow events in long signals stay, whereas every k-th point would miss them and means would cancel them.
    """
    n, T, C = seen.shape
    size = math.ceil(T / MAX_POINTS)
    blocks = np.pad(seen, ((0, 0), (0, -T % size), (0, 0))).reshape(n, -1, size, C)
    return np.take_along_axis(blocks, np.abs(blocks).argmax(2, keepdims=True), axis=2)[:, :, 0]


def _correlations(seen: Array) -> Array:
    """Correlations of each signal (n, T, C) around its mean with each other one, at lags from -(T // 2) to T // 2.

    Points that both have are counted. The result is (n, n - 1, 2 (T // 2) + 1).
    """
    (n, T, _), own = seen.shape, seen - seen.mean(1, keepdims=True)
    length, lags = np.sqrt(np.square(own).sum((1, 2), keepdims=True)), np.arange(-(T // 2), T // 2 + 1)
    spectra = np.fft.rfft(own / np.where(length > 0, length, 1.0), n=2 * T, axis=1)
    found = np.empty((n, n - 1, len(lags)))
    for i in range(n):
        products = np.einsum("tc,jtc->jt", spectra[i].conj(), np.delete(spectra, i, axis=0))
        found[i] = np.fft.irfft(products, n=2 * T)[:, lags]
    return np.minimum(found * T / (T - np.abs(lags)), 1.0)


def _alignment(correlations: Array, rng: np.random.Generator) -> list[float]:
    """(r(0) - r(random)) / (r(best) - r(random)) of correlations (n, m, lags), of a fifth of others and of all."""
    n, m, n_lags = correlations.shape
    at = rng.integers(n_lags, size=(N_RANDOM, n, m))
    by_chance = correlations[np.arange(n)[:, None], np.arange(m), at]  # (N_RANDOM, n, m)
    ranked = [np.sort(one, axis=-1) for one in (correlations[:, :, n_lags // 2], correlations.max(2), by_chance)]
    found = []
    for k in (max(round(PARTNERS * m), 1), m):
        zero, best, chance = (float(one[..., m - k :].mean()) for one in ranked)
        found.append((zero - chance) / (best - chance) if best > chance else 1.0)
    return found


def _is_significant(correlations: Array, rng: np.random.Generator) -> bool:
    """Whether the mean correlation at lag 0, of correlations (n, n - 1, lags), exceeds those of signals with shifts.

    Each signal gets a random shift of up to half of the largest lag, so that the lag of two signals is the difference
    of their shifts. In stationary signals, the mean correlation is about as large with such shifts as without them.
    """
    n, _, n_lags = correlations.shape
    middle, signals = n_lags // 2, np.arange(n)[:, None]
    others = np.array([np.delete(np.arange(n), i) for i in range(n)])
    shifts = rng.integers(-(middle // 2), middle // 2 + 1, size=(N_DRAWS, n))
    drawn = [
        correlations[signals, np.arange(n - 1), middle + shift[others] - shift[:, None]].mean() for shift in shifts
    ]
    return bool(correlations[:, :, middle].mean() > max(drawn))


def _power_varies(seen: Array, rng: np.random.Generator, least: float) -> bool:
    """Whether the mean power of signals (n, T, C) varies more over time than that of signals shifted at random does.

    Its variance is at least `least` times the mean of those of shifted signals, and larger than all of them.
    """
    power = np.square(seen).mean(2)
    (n, T), times = power.shape, np.arange(power.shape[1])
    shifted = [
        np.take_along_axis(power, (times + rng.integers(T, size=(n, 1))) % T, axis=1).mean(0).var()
        for _ in range(N_DRAWS)
    ]
    varies = power.mean(0).var()
    return bool(varies >= least * np.mean(shifted) and varies >= max(shifted))


def _growth(seen: Array) -> float:
    """Largest mean squared difference of points up to 3T/4 apart in signals (n, T, C), over that up to T/4 apart.

    It is 3 for random walks. It is near 1 for stationary signals, among them oscillations of at least two periods.
    """
    T = seen.shape[1]
    squares = np.array([np.square(seen[:, lag:] - seen[:, :-lag]).mean() for lag in range(1, 3 * T // 4 + 1)])
    return float(squares.max() / squares[: T // 4].max())


def _are_contours(signals: Array) -> bool:
    """Whether signals (K, T, C) are closed and their ends, which differ among signals, meet in each of them."""
    seen = in_units(signals)
    gap = np.square(seen[:, 0] - seen[:, -1]).mean()
    return is_closed(signals) and bool(gap <= MAX_GAP * (seen[:, 0].var(0) + seen[:, -1].var(0)).mean())


def is_closed(signals: Array) -> bool:
    """Whether the ends of signals (K, T, C) meet: the step from the last point to the first is a usual one."""
    seen = in_units(signals)
    return bool(np.square(seen[:, 0] - seen[:, -1]).mean() <= MAX_SEAM * np.square(np.diff(seen, axis=1)).mean())


def continued(signals: Array, n_more: int) -> Array:
    """Signals (K, T, C) of a class with `n_more` points on both sides: (K, T + 2 n_more, C)."""
    longer = np.pad(signals, ((0, 0), (n_more, n_more), (0, 0)), mode="wrap")
    if not is_closed(signals):
        after, before = _endings(signals, n_more), _endings(signals[:, ::-1], n_more)[:, ::-1]
        longer[:, -after.shape[1] :], longer[:, : before.shape[1]] = after, before
    return longer


def _endings(signals: Array, n_more: int) -> Array:
    """The last w points of signals (K, T, C), blended with the part that fits best, and `n_more` points after it.

    The part may be an earlier one of the same signal. The result is (K, w + n_more, C).
    """
    (K, T, C), seen = signals.shape, in_units(signals)
    w = min(max(round(JOIN * T), 2), MAX_JOIN)
    wanted, least, part = seen[:, T - w :].reshape(K, -1), np.full(K, np.inf), np.empty((K, w + n_more, C))
    for giver in spaced_indices(K, MAX_COMPARED).tolist():
        windows = np.lib.stride_tricks.sliding_window_view(seen[giver, : T - n_more], w, axis=0)  # (n, C, w)
        rows = windows.transpose(0, 2, 1).reshape(len(windows), -1)
        away = np.square(rows).sum(1) - 2 * wanted @ rows.T  # (K, n), less the squares of the last points
        first, found = away.argmin(1), away.min(1)
        for i in np.flatnonzero(found < least).tolist():
            part[i] = signals[giver, first[i] : first[i] + w + n_more]
        least = np.minimum(least, found)
    share = (np.arange(1, w + 1) / (w + 1))[:, None]
    part[:, :w] = (1 - share) * signals[:, T - w :] + share * part[:, :w]
    return part


@dataclass(frozen=True, eq=False)
class ShiftedClass:
    """A class that is not aligned: its signals with what lies before and after them."""

    members: Array  # (n,) indices of its signals, in ascending order
    longer: Array  # (n, T + 2 (half + margin), C)
    half: int  # points by which signals are shifted, at most
    margin: int  # points on both sides of a shifted signal, so that warps do not see its ends
    is_closed: bool

    @classmethod
    def of(cls, members: Array, signals: Array) -> ShiftedClass:
        """The class of the signals (n, T, C) with indices `members` (n,)."""
        half, margin = signals.shape[1] // 2, round(MARGIN * signals.shape[1])
        return cls(members, continued(signals, half + margin), half, margin, is_closed(signals))

    def view(self, i: int, lag: int) -> Array:
        """Signal i from a lag on, with margins: (T + 2 margin, C)."""
        one = self.longer[np.searchsorted(self.members, i)]
        return one[self.half + lag : len(one) - self.half + lag]

    def nearest(self, i: int, lag: int, scale: Array, k: int) -> Array:
        """The k others that are nearest to signal i from a lag on, each from its best lag on: (k, T + 2 margin, C).

        scale: the units (C,) of the channels
        """
        center, others = self.view(i, lag), np.flatnonzero(self.members != i)
        others = others[spaced_indices(len(others), MAX_COMPARED)]
        lag_step, time_step = math.ceil(2 * self.half / MAX_LAGS), math.ceil(len(center) / MAX_POINTS)
        away, firsts = np.empty(len(others)), np.empty(len(others), dtype=np.intp)
        for n, one in enumerate(self.longer[others]):
            windows = np.lib.stride_tricks.sliding_window_view(one, len(center), axis=0)[::lag_step, :, ::time_step]
            squares = np.square((windows - center[::time_step].T) / scale[:, None]).sum((1, 2))
            away[n], firsts[n] = squares.min(), lag_step * squares.argmin()
        order = np.argsort(away, kind="stable")[:k]
        return np.asarray(self.longer[others[order][:, None], firsts[order][:, None] + np.arange(len(center))])

    def around(self, displacements: Array) -> Array:
        """Displacements (n, T + 2 margin) such that their end goes over into their beginning, as closed signals do."""
        M = self.margin
        own, share = displacements[:, M:-M].copy(), np.arange(1, M + 1) / (M + 1)
        own[:, -M:] = (1 - share) * own[:, -M:] + share * displacements[:, :M]
        return np.pad(own, ((0, 0), (M, M)), mode="wrap")


def shifted_classes(signals: Array, classes: Array) -> dict[int, ShiftedClass]:
    """Those classes of signals (K, T, C) of classes (K,) that are not aligned."""
    found = {}
    for label in np.unique(classes).tolist():
        members = np.flatnonzero(classes == label)
        if not is_aligned(signals[members]):
            found[int(label)] = ShiftedClass.of(members, signals[members])
    return found
