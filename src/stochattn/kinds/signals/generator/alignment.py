"""Signals and time: warps that carry one signal onto another, and classes of signals without a common beginning.

A warp φ (T,) says where in the moving signal the times of the fixed one lie, moving(φ(t)) ≈ fixed(t). As for
displacements of images, it is estimated by Thirion's demons, here along time, φ = id + u:

    δ = d·g / (|g|² + |d|²/4 + ε)        u ← E(u + E(δ))        d = fixed − warped,  g = slope of the warped signal

with a Gaussian smoother E, on blurred signals first and on sharper ones later.

In an aligned class, events occur at fixed times. In other classes (motions, contours, noise), a signal may begin at any
time, so a shifted signal is as valid as the stored one. A shift needs values beyond the ends of a signal. A closed
signal, whose ends meet, wraps around. An open signal is extended by the part of a stored signal that best matches its
last points, and is blended with it within these points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...._backend.arrays import Array
from ....core.neighbors import spaced_indices
from ...smoothing import cubic_weights, gaussian_matrix
from .normalization import Normalization

MIN_SCALE = 1e-12  # standard deviation of a channel, over the largest value, up to which it is constant
GRID = 96  # largest number of points at which warps are estimated; shorter signals keep their length
LEVELS = ((0.08, 24), (0.04, 24), (0.02, 32))  # blur over the length of the signals, and number of steps
SMOOTHNESS, MIN_WIDTH, LEAST_SLOPE = 0.04, 2.0, 1e-3
"""Width of the smoother over the length, its least width in points, and ε in units of the variance."""
SPLINE_MARGIN = 8  # points by which ends are extended: as many as a cubic spline and its filter depend on
LEAST_SPEED = 0.2  # least speed of a warp: time does not run backward


def find_units(scale: Array, signals: Array) -> Array:
    """Units (C,) of channels: their standard deviations `scale`, or 1 for channels of the signals that are constant."""
    return np.where(scale > MIN_SCALE * np.abs(signals).max(), scale, 1.0)


def resample_to_grid(signals: Array, scale: Array | None = None) -> Array:
    """Signals (K, T, C) at no more than GRID points, over `scale` (C,) or their standard deviations: (K, n, C)."""
    K, T, _ = signals.shape
    scale = signals.std((0, 1)) if scale is None else scale
    units = signals / find_units(scale, signals)
    return interpolate_cubic(units, np.tile(np.linspace(0, T - 1, min(GRID, T)), (K, 1)))


def register(moving: Array, fixed: Array, n_points: int, normalization: Normalization) -> Array:
    """Warps that carry moving signals (n, g, C) onto fixed ones (n, g, C), both on the grid: (n, T), in points of data.

    Normalized signals are normalized again after each step, like the fixed signals.
    """
    g = moving.shape[1]
    smoother = gaussian_matrix(g, max(SMOOTHNESS * g, MIN_WIDTH))
    times, u = np.arange(g), np.zeros(moving.shape[:2])
    for blur, steps in LEVELS:
        blurred = gaussian_matrix(g, blur * g)
        seen, wanted = blurred @ moving, blurred @ fixed
        statistics = normalization.statistics(wanted)
        for _ in range(steps):
            warped = normalization.match(interpolate_linear(seen, times + u), statistics)
            slope, difference = np.gradient(warped, axis=1), wanted - warped
            size = np.square(slope).sum(2) + np.square(difference).sum(2) / 4 + LEAST_SLOPE
            u = (u + ((difference * slope).sum(2) / size) @ smoother.T) @ smoother.T
    unit = (n_points - 1) / (g - 1)
    at = np.tile(np.arange(n_points) / unit, (len(u), 1))
    return enforce_increasing(np.arange(n_points) + unit * interpolate_cubic(u[:, :, None], at)[:, :, 0])


def enforce_increasing(warps: Array) -> Array:
    """Warps (n, T), changed so that their speed is at least LEAST_SPEED and their mean stays the same."""
    speed = np.maximum(np.diff(warps, axis=1), LEAST_SPEED)
    rising = np.concatenate([np.zeros((len(warps), 1)), np.cumsum(speed, axis=1)], axis=1)
    return np.asarray(rising + (warps - rising).mean(1, keepdims=True))


def invert(warp: Array) -> Array:
    """The inverse of a warp (T,) that is changed to be increasing, with constant ends: (T,)."""
    warp = enforce_increasing(warp[None])[0]
    times = np.arange(len(warp), dtype=np.float64)
    inverse = np.interp(times, warp, times)
    within, speed = (times > warp[0]) & (times < warp[-1]), np.gradient(warp)
    for _ in range(2):  # Newton steps, because linear interpolation is not smooth enough for slow signals
        excess = np.where(within, interpolate_cubic(warp[None, :, None], inverse[None])[0, :, 0] - times, 0.0)
        inverse = np.clip(inverse - excess / np.interp(inverse, times, speed), 0, times[-1])
    return np.asarray(inverse)


def interpolate_linear(signals: Array, times: Array) -> Array:
    """Signals (k, T, C) at times (k, T') by linear interpolation, with constant ends: (k, T', C)."""
    last = signals.shape[1] - 1
    at = np.clip(times, 0, last)
    left = np.minimum(at.astype(np.intp), max(last - 1, 0))
    rest, rows = (at - left)[:, :, None], np.arange(len(signals))[:, None]
    return np.asarray((1 - rest) * signals[rows, left] + rest * signals[rows, np.minimum(left + 1, last)])


def interpolate_cubic(signals: Array, times: Array) -> Array:
    """Signals (k, T, C) at times (k, T') by cubic splines, with constant ends: (k, T', C)."""
    from scipy.ndimage import spline_filter1d

    longer = np.pad(signals, ((0, 0), (SPLINE_MARGIN, SPLINE_MARGIN), (0, 0)), mode="edge")
    coefficients = spline_filter1d(longer, 3, 1, mode="nearest")
    at = np.clip(times, 0, signals.shape[1] - 1) + SPLINE_MARGIN
    left = at.astype(np.intp)
    rows = np.arange(len(signals))[:, None]
    values = np.zeros((len(signals), times.shape[1], signals.shape[2]))
    for j, weight in enumerate(cubic_weights((at - left)[:, :, None])):
        values += weight * coefficients[rows, left + (j - 1)]
    return values


MIN_SIGNALS, MIN_POINTS, MAX_COMPARED = 8, 16, 32
"""Least numbers of signals and points for a test of alignment; largest number of signals of a class it compares."""
PARTNERS, ALIGNED_SHARE, N_RANDOM = 1 / 5, 0.6, 10
"""Share of the other signals that a signal may be aligned with; least share of the correlation; random lags."""
FAR, MAX_FAR = 1 / 8, 1 / 5  # lags above this share of the length are far; largest share of them in an aligned class
N_DRAWS = 99  # random shifts of a permutation test; a class differs if it exceeds all of them: level 1 %
MIN_VARIATION, MIN_CONTOUR_VARIATION, MAX_GROWTH = 2.0, 4.0, 1.5
"""Variance of the mean power of aligned signals, over that of shifted ones, and of contours; largest mean squared
difference of points up to 3/4 of the length apart in stationary signals, over that of points up to 1/4 apart."""
MAX_SEAM, MAX_GAP = 2.0, 0.05
"""Squared step from the last to the first point of closed signals, over that of other steps; of contours, over the
variance of both points among signals."""
JOIN, MAX_JOIN = 1 / 16, 32  # points in which a signal is blended with another one, over the length, and at most
MARGIN, MAX_LAGS, MAX_POINTS = 1 / 8, 96, 512  # share of the length on either side; most lags and points compared


def standardize(signals: Array) -> Array:
    """Signals (K, T, C) with channels of mean 0 and variance 1; constant channels are 0 up to rounding."""
    centered = signals - signals.mean((0, 1))
    return np.asarray(centered / find_units(centered.std((0, 1)), signals))


def is_aligned(signals: Array) -> bool:
    """Whether signals (K, T, C) of a class have their events at the same times.

    With correlations r of signals at lag 0, at their best lags and at random lags, (r(0) - r(random)) / (r(best) -
    r(random)) is near 1 for aligned signals. The larger of two means counts: over all other signals, or over the fifth
    that correlates most, which finds groups of aligned signals. Narrow events that come early or late have short best
    lags. If noise hides both, a class is aligned unless shifted signals correlate as much and the signals look
    stationary. Contours are aligned only if their power depends on time.
    """
    K, T, _ = signals.shape
    if K < MIN_SIGNALS or T < MIN_POINTS:
        return True
    used = signals[spaced_indices(K, MAX_COMPARED)]
    seen = _extremes(standardize(used))
    correlations, rng = _correlations(seen), np.random.default_rng(0)
    lags = np.abs(correlations.argmax(2) - correlations.shape[2] // 2)
    if max(_alignment(correlations, rng)) >= ALIGNED_SHARE or (lags > FAR * seen.shape[1]).mean() <= MAX_FAR:
        return True
    if _are_contours(used):
        return _power_varies(seen, rng, MIN_CONTOUR_VARIATION)
    return _is_significant(correlations, rng) or _power_varies(seen, rng, MIN_VARIATION) or _growth(seen) > MAX_GROWTH


def _extremes(seen: Array) -> Array:
    """The value farthest from 0 in each of at most MAX_POINTS blocks of time: (n, at most MAX_POINTS, C).

    This keeps narrow events of long signals, which every k-th point would miss and means would cancel.
    """
    n, T, C = seen.shape
    size = math.ceil(T / MAX_POINTS)
    blocks = np.pad(seen, ((0, 0), (0, -T % size), (0, 0))).reshape(n, -1, size, C)
    return np.take_along_axis(blocks, np.abs(blocks).argmax(2, keepdims=True), axis=2)[:, :, 0]


def _correlations(seen: Array) -> Array:
    """Correlations of each centered signal (n, T, C) with each other one, at lags from -(T // 2) to T // 2.

    They are over the points at which the two signals overlap: (n, n - 1, 2 (T // 2) + 1).
    """
    (n, T, _), centered = seen.shape, seen - seen.mean(1, keepdims=True)
    length, lags = np.sqrt(np.square(centered).sum((1, 2), keepdims=True)), np.arange(-(T // 2), T // 2 + 1)
    spectra = np.fft.rfft(centered / np.where(length > 0, length, 1.0), n=2 * T, axis=1)
    correlations = np.empty((n, n - 1, len(lags)))
    for i in range(n):
        products = np.einsum("tc,jtc->jt", spectra[i].conj(), np.delete(spectra, i, axis=0))
        correlations[i] = np.fft.irfft(products, n=2 * T)[:, lags]
    return np.minimum(correlations * T / (T - np.abs(lags)), 1.0)


def _alignment(correlations: Array, rng: np.random.Generator) -> list[float]:
    """(r(0) - r(random)) / (r(best) - r(random)) of correlations (n, m, lags), over a fifth and over all partners."""
    n, m, n_lags = correlations.shape
    at = rng.integers(n_lags, size=(N_RANDOM, n, m))
    by_chance = correlations[np.arange(n)[:, None], np.arange(m), at]  # (N_RANDOM, n, m)
    ranked = [np.sort(values, axis=-1) for values in (correlations[:, :, n_lags // 2], correlations.max(2), by_chance)]
    shares = []
    for k in (max(round(PARTNERS * m), 1), m):
        zero, best, chance = (float(values[..., m - k :].mean()) for values in ranked)
        shares.append((zero - chance) / (best - chance) if best > chance else 1.0)
    return shares


def _is_significant(correlations: Array, rng: np.random.Generator) -> bool:
    """Whether the mean correlation (n, n - 1, lags) at lag 0 exceeds those of randomly shifted signals.

    Each signal gets a random shift of up to half of the largest lag; the lag of two signals is the difference of their
    shifts. For stationary signals, shifts do not change the expected correlation.
    """
    n, _, n_lags = correlations.shape
    middle, signals = n_lags // 2, np.arange(n)[:, None]
    partners = np.array([np.delete(np.arange(n), i) for i in range(n)])
    shifts = rng.integers(-(middle // 2), middle // 2 + 1, size=(N_DRAWS, n))
    lags = (middle + shift[partners] - shift[:, None] for shift in shifts)
    random_means = [correlations[signals, np.arange(n - 1), at].mean() for at in lags]
    return bool(correlations[:, :, middle].mean() > max(random_means))


def _power_varies(seen: Array, rng: np.random.Generator, least: float) -> bool:
    """Whether the mean power of signals (n, T, C) varies more over time than that of randomly shifted signals.

    Its variance must be at least `least` times their mean variance, and at least their largest.
    """
    power = np.square(seen).mean(2)
    (n, T), times = power.shape, np.arange(power.shape[1])
    lags = (rng.integers(T, size=(n, 1)) for _ in range(N_DRAWS))
    random_variances = [np.take_along_axis(power, (times + lag) % T, axis=1).mean(0).var() for lag in lags]
    variance = power.mean(0).var()
    return bool(variance >= least * np.mean(random_variances) and variance >= max(random_variances))


def _growth(seen: Array) -> float:
    """Largest mean squared difference of points up to 3T/4 apart in signals (n, T, C), over that up to T/4 apart.

    It is 3 for random walks, and near 1 for stationary signals, such as oscillations of at least two periods.
    """
    T = seen.shape[1]
    squares = np.array([np.square(seen[:, lag:] - seen[:, :-lag]).mean() for lag in range(1, 3 * T // 4 + 1)])
    return float(squares.max() / squares[: T // 4].max())


def _are_contours(signals: Array) -> bool:
    """Whether signals (K, T, C) are closed, and the ends of each differ less than ends of different signals."""
    seen = standardize(signals)
    gap = np.square(seen[:, 0] - seen[:, -1]).mean()
    return is_closed(signals) and bool(gap <= MAX_GAP * (seen[:, 0].var(0) + seen[:, -1].var(0)).mean())


def is_closed(signals: Array) -> bool:
    """Whether the ends of signals (K, T, C) meet: the step from the last point to the first is like other steps."""
    seen = standardize(signals)
    return bool(np.square(seen[:, 0] - seen[:, -1]).mean() <= MAX_SEAM * np.square(np.diff(seen, axis=1)).mean())


def extend(signals: Array, n_more: int) -> Array:
    """Signals (K, T, C) of a class, extended by `n_more` points on both sides: (K, T + 2 n_more, C)."""
    longer = np.pad(signals, ((0, 0), (n_more, n_more), (0, 0)), mode="wrap")
    if not is_closed(signals):
        after, before = _extend_end(signals, n_more), _extend_end(signals[:, ::-1], n_more)[:, ::-1]
        longer[:, -after.shape[1] :], longer[:, : before.shape[1]] = after, before
    return longer


def _extend_end(signals: Array, n_more: int) -> Array:
    """The last w points of signals (K, T, C), blended with the stretch that matches them best, and `n_more` after it.

    The stretch may be an earlier one of the same signal. The result is (K, w + n_more, C).
    """
    (K, T, C), seen = signals.shape, standardize(signals)
    w = min(max(round(JOIN * T), 2), MAX_JOIN)
    wanted, least, endings = seen[:, T - w :].reshape(K, -1), np.full(K, np.inf), np.empty((K, w + n_more, C))
    for donor in spaced_indices(K, MAX_COMPARED).tolist():
        windows = np.lib.stride_tricks.sliding_window_view(seen[donor, : T - n_more], w, axis=0)  # (n, C, w)
        rows = windows.transpose(0, 2, 1).reshape(len(windows), -1)
        distances = np.square(rows).sum(1) - 2 * wanted @ rows.T  # (K, n), less the squares of the last points
        firsts, best = distances.argmin(1), distances.min(1)
        for i in np.flatnonzero(best < least).tolist():
            endings[i] = signals[donor, firsts[i] : firsts[i] + w + n_more]
        least = np.minimum(least, best)
    share = (np.arange(1, w + 1) / (w + 1))[:, None]
    endings[:, :w] = (1 - share) * signals[:, T - w :] + share * endings[:, :w]
    return endings


@dataclass(frozen=True, eq=False)
class ShiftedClass:
    """A class that is not aligned: its signals, extended beyond both ends."""

    members: Array  # (n,) indices of its signals, in ascending order
    longer: Array  # (n, T + 2 (half + margin), C)
    half: int  # points by which signals are shifted, at most
    margin: int  # points on both sides of a shifted signal, so that warps do not see its ends
    is_closed: bool

    @classmethod
    def of(cls, members: Array, signals: Array) -> ShiftedClass:
        """The class of the signals (n, T, C) with indices `members` (n,)."""
        half, margin = signals.shape[1] // 2, round(MARGIN * signals.shape[1])
        return cls(members, extend(signals, half + margin), half, margin, is_closed(signals))

    @classmethod
    def find_all(cls, signals: Array, classes: Array) -> dict[int, ShiftedClass]:
        """The classes that are not aligned, of signals (K, T, C) of classes (K,)."""
        members = {int(label): np.flatnonzero(classes == label) for label in np.unique(classes)}
        return {label: cls.of(i, signals[i]) for label, i in members.items() if not is_aligned(signals[i])}

    def view(self, i: int, lag: int) -> Array:
        """Signal i shifted by a lag, with margins: (T + 2 margin, C)."""
        signal = self.longer[np.searchsorted(self.members, i)]
        return signal[self.half + lag : len(signal) - self.half + lag]

    def find_nearest(self, i: int, lag: int, units: Array, k: int) -> Array:
        """The k signals nearest to signal i at a lag, in units (C,), each at its own best lag: (k, T + 2 margin, C)."""
        center, others = self.view(i, lag), np.flatnonzero(self.members != i)
        others = others[spaced_indices(len(others), MAX_COMPARED)]
        lag_step, time_step = math.ceil(2 * self.half / MAX_LAGS), math.ceil(len(center) / MAX_POINTS)
        distances, firsts = np.empty(len(others)), np.empty(len(others), dtype=np.intp)
        for n, signal in enumerate(self.longer[others]):
            windows = np.lib.stride_tricks.sliding_window_view(signal, len(center), axis=0)[::lag_step, :, ::time_step]
            squares = np.square((windows - center[::time_step].T) / units[:, None]).sum((1, 2))
            distances[n], firsts[n] = squares.min(), lag_step * squares.argmin()
        order = np.argsort(distances, kind="stable")[:k]
        return np.asarray(self.longer[others[order][:, None], firsts[order][:, None] + np.arange(len(center))])

    def close(self, displacements: Array) -> Array:
        """Displacements (n, T + 2 margin) whose ends are blended so that they wrap around, for closed signals."""
        M = self.margin
        inner, share = displacements[:, M:-M].copy(), np.arange(1, M + 1) / (M + 1)
        inner[:, -M:] = (1 - share) * inner[:, -M:] + share * displacements[:, :M]
        return np.pad(inner, ((0, 0), (M, M)), mode="wrap")
