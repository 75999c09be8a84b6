"""The generator "deformations": a stored signal, moved in time and value as its nearest neighbors differ from it.

Warps φ_ij carry the nearest signals m_j of its class onto a stored signal m_i, m_j(φ_ij) ≈ m_i (see `alignment`); the k
that then fit best are its neighbors. Normalized signals are normalized again after a warp (see `normalization`). With
u_ij = φ_ij − id, the remaining differences are r_ij = m_j(φ_ij) − m_i, and u_ii = r_ii = 0. Their means ū_i, r̄_i and
covariances define a local distribution of timing and values. A new signal is

    x(t + v(t)) = m_i(t) + c r̄_i(t) + s a Σ_j g_j (r_ij(t) − r̄_i(t)) / √(k + 1)      g_j ~ N(0, 1)
    v           = c ū_i + s b Σ_j h_j (u_ij − ū_i) / √(k + 1)                         c = 1 − √max(1 − s², 0)

plus white noise that replaces the noise lost in the means. Events are moved, not blended with those of other signals.
Signals of a class that is not aligned begin at any time: m_i(t + τ) takes the place of m_i(t), and
the m_j are shifted to fit it. The step towards the means keeps new signals from spreading further than stored ones
(West 1993); a (at each frequency) and b are chosen so that noise replaces the variance that the step removes. Each
signal has a few warps with weights h and shifts τ that belong to the fit, so the distribution is a mixture with one
normal component for each warp.

Conditioned signals are drawn by the generator "windows".
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ...._backend.arrays import Array
from ....core.mixture import pick_stratified
from ....core.neighbors import spaced_indices
from ...generator import Description, Generated
from .alignment import MIN_SCALE, SMOOTHNESS, ShiftedClass, interpolate_cubic, invert, register, resample_to_grid
from .normalization import Normalization
from .window_fit import fit_time_windows
from .windows import TimeWindowGenerator

NEIGHBOR_SHARE, MIN_NEIGHBORS, MAX_NEIGHBORS = 1 / 3, 3, 16
"""Neighbors of a local distribution, as a share of the other signals of the class, and limits of their number."""
MAX_COMPARED_POINTS = 512  # blocks of time in which smooth differences of longer signals are compared
CANDIDATES = 2  # signals that are warped, over the number of neighbors: the best after a warp may be early or late
MIN_NOISE = 1e-8  # white noise that keeps densities finite, over the variance
MIN_CALIBRATED, MAX_CALIBRATED, MAX_GAIN, GAIN_WIDTH = 4, 64, 4.0, 1.5
"""Limits of the number of local distributions that calibrate deviations; the largest gain of a frequency; the number of
frequencies over which gains are smoothed."""
MAX_DISTRIBUTION_BYTES = 2**27  # of local distributions that are kept; others are computed again when needed


class LocalSignalDistribution(NamedTuple):
    """How the signals most like a stored one differ from it: means, and deviations over √(k + 1)."""

    warp: Array  # (T,)
    warps: Array  # (k + 1, T)
    value: Array  # (T, C)
    values: Array  # (k + 1, T, C)

    @classmethod
    def of(cls, warps: Array, values: Array) -> LocalSignalDistribution:
        """The distribution of displacements (k, T) and differences (k, T, C), and of zeros for the signal itself."""
        k = len(warps)
        parts = [np.concatenate([part, np.zeros((1, *part.shape[1:]))]) for part in (warps, values)]
        means = [part.mean(0) for part in parts]
        spreads = [(part - mean) / math.sqrt(k + 1) for part, mean in zip(parts, means, strict=True)]
        return cls(means[0], spreads[0], means[1], spreads[1])


class Component(NamedTuple):
    """The normal distribution N(mean, rowsᵀ rows + diag(noise)) of signals, flat over p = T·C features."""

    mean: Array  # (p,)
    rows: Array  # (k + 1, p)
    noise: Array  # (p,)

    def draw(self, rng: np.random.Generator) -> Array:
        weights, white = rng.standard_normal(len(self.rows)), rng.standard_normal(len(self.mean))
        return np.asarray(self.mean + weights @ self.rows + np.sqrt(self.noise) * white)

    def log_density(self, values: Array) -> Array:
        """log density of values (n, p): (n,), by the lemmas of Woodbury and Sylvester."""
        from scipy.linalg import solve_triangular

        residuals, scaled = values - self.mean, self.rows / self.noise
        root = np.linalg.cholesky(np.eye(len(self.rows)) + scaled @ self.rows.T)
        explained = np.square(solve_triangular(root, scaled @ residuals.T, lower=True, check_finite=False)).sum(0)
        squares = (np.square(residuals) / self.noise).sum(1) - explained
        log_determinant = 2 * np.log(np.diag(root)).sum() + np.log(self.noise).sum()
        return np.asarray(-(squares + log_determinant + len(self.mean) * math.log(2 * math.pi)) / 2)


class LocalDistributions:
    """The local distributions of stored signals (K, T, C) of classes (K,), computed when they are needed.

    neighbors: number of neighbors of a signal; None for a third of the others in its class, within limits
    Signals of classes that are not aligned are shifted by a lag, and their neighbors by the lags that fit best.
    """

    def __init__(self, signals: Array, classes: Array, scale: float, neighbors: int | None = None) -> None:
        self.signals, self._classes, self.scale, self._neighbors = signals, classes, scale, neighbors
        self._seen, self._normalization = resample_to_grid(signals), Normalization.of(signals)
        self._cache = dict[tuple[int, int], LocalSignalDistribution]()
        self._factors, self._gains = dict[int, tuple[float, float]](), dict[int, Array]()
        spread = np.square(signals - signals.mean(0)).mean((0, 1))
        self.spread = np.where(spread > np.square(MIN_SCALE * np.abs(signals).max()), spread, 0.0)  # (C,)
        self._unit = np.where(self.spread > 0, self.spread, 1.0)

    @cached_property
    def shifted(self) -> dict[int, ShiftedClass]:
        """The classes that are not aligned."""
        return ShiftedClass.find_all(self.signals, self._classes)

    def _shifted(self, i: int) -> ShiftedClass | None:
        """The class of signal i if it is not aligned."""
        return self.shifted.get(int(self._classes[i]))

    def with_scale(self, scale: float) -> LocalDistributions:
        """The same local distributions at another scale; those that are computed already are shared."""
        if scale == self.scale:
            return self
        result = copy(self)
        result.scale, result._gains = scale, {}  # the only calibration that depends on the scale
        return result

    def n_neighbors(self, n_candidates: int) -> int:
        usual = np.clip(round(NEIGHBOR_SHARE * n_candidates), MIN_NEIGHBORS, MAX_NEIGHBORS)
        return int(min(self._neighbors or usual, n_candidates))

    def distribution(self, i: int, lag: int = 0) -> LocalSignalDistribution:
        if (i, lag) in self._cache:
            return self._cache[i, lag]
        result = self._fit(i, lag)
        if (len(self._cache) + 1) * sum(part.nbytes for part in result) <= MAX_DISTRIBUTION_BYTES:
            self._cache[i, lag] = result
        return result

    def _fit(self, i: int, lag: int) -> LocalSignalDistribution:
        """The distribution around signal i, with margins if its class is not aligned.

        Neighbors have the least smooth differences after a warp; else those with the least noise would serve all.
        """
        from scipy.ndimage import gaussian_filter1d

        shifted = self._shifted(i)
        if shifted is None:
            members = np.flatnonzero(self._classes == self._classes[i])
            members = members if len(members) > 1 else np.arange(len(self.signals))
            others = members[members != i]
            k = self.n_neighbors(len(others))
            distances = np.square(self._seen[others] - self._seen[i]).sum((1, 2))
            near = others[np.argsort(distances, kind="stable")[: CANDIDATES * k]]
            center, moving, seen = self.signals[i], self.signals[near], self._seen[[i, *near]]
        else:
            center, scale = shifted.view(i, lag), self.signals.std((0, 1))
            scale = np.where(scale > 0, scale, 1.0)
            k = self.n_neighbors(len(shifted.members) - 1)
            moving = shifted.find_nearest(i, lag, scale, CANDIDATES * k)
            seen = resample_to_grid(np.concatenate([center[None], moving]), scale)
        times, fixed = np.arange(len(center)), np.broadcast_to(seen[0], seen[1:].shape)
        warps = register(seen[1:], fixed, len(center), self._normalization)
        u = warps - times
        if shifted is not None:
            u = shifted.close(u) if shifted.is_closed else u
            warps = times + u
        statistics = self._normalization.statistics(np.broadcast_to(center, moving.shape))
        values = self._normalization.match(interpolate_cubic(moving, warps), statistics) - center
        thinned = block_means(values, MAX_COMPARED_POINTS)
        smooth = gaussian_filter1d(thinned, SMOOTHNESS * thinned.shape[1], axis=1, mode="nearest")
        best = np.argsort((np.square(smooth) / self._unit).sum((1, 2)), kind="stable")[:k]
        return LocalSignalDistribution.of(u[best], values[best])

    def _calibration_signals(self, label: int) -> list[int]:
        """The signals that calibrate the deviations of a class: its members, or all signals if it has few."""
        members = np.flatnonzero(self._classes == label)
        used = members if len(members) >= MIN_CALIBRATED else np.arange(len(self.signals))
        return [int(used[n]) for n in spaced_indices(len(used), MAX_CALIBRATED)]

    def factors(self, label: int) -> tuple[float, float]:
        """Factors of the deviations of a class in time and in value, by which they replace what steps remove.

        Steps by c towards the means remove 1 − (1 − c)² = s² of the squared distances to them, summed over signals.
        """
        if label not in self._factors:
            sums = np.zeros((2, 2))
            for i in self._calibration_signals(label):
                local = self.distribution(i)
                sums[0] += np.square(local.warp).sum(), np.square(local.warps).sum()
                sums[1] += (np.square(local.value) / self._unit).sum(), (np.square(local.values) / self._unit).sum()
            of_time, of_value = (math.sqrt(a / b) if b > 0 else 1.0 for a, b in sums)
            self._factors[label] = of_time, of_value
        return self._factors[label]

    def gains(self, label: int) -> Array:
        """Gains of the deviations of a class in value at each frequency of the cosine transform and channel: (T, C).

        They give new signals the power of the stored ones around their mean, within the limits of MAX_GAIN.
        """
        from scipy.fft import dct
        from scipy.ndimage import gaussian_filter1d

        if label not in self._gains:
            power = np.zeros((3, *self.signals.shape[1:]))  # of signals, of means with white noise, of deviations
            weights = np.random.default_rng(0)
            for i in self._calibration_signals(label):
                members = self.signals[self._classes == self._classes[i]]
                center = members.mean(0) if self._shifted(i) is None else members.mean((0, 1))
                normal = weights.standard_normal(MAX_NEIGHBORS + 1 + (self._neighbors or 0))
                mean, rows, noise = self._deform(i, 0, normal)
                power[0] += np.square(dct(self.signals[i] - center, axis=0, norm="ortho"))
                power[1] += np.square(dct(mean - center, axis=0, norm="ortho")) + noise
                power[2] += np.square(dct(rows, axis=1, norm="ortho")).sum(0)
            floor = np.finfo(float).tiny + 1e-12 * power[0].max(0)
            ratio = np.clip((power[0] - power[1]) / (power[2] + floor), MAX_GAIN**-2, MAX_GAIN**2)
            smooth = gaussian_filter1d(np.log(ratio), GAIN_WIDTH, axis=0, mode="nearest", truncate=8)
            self._gains[label] = np.exp(smooth / 2)
        return self._gains[label]

    def _deform(self, i: int, lag: int, weights: Array) -> tuple[Array, Array, Array]:
        """The mean (T, C) and deviations (k + 1, T, C) at a warp, and the white noise (C,) that they lack."""
        local, shifted = self.distribution(i, lag), self._shifted(i)
        signal = self.signals[i] if shifted is None else shifted.view(i, lag)
        step = 1 - math.sqrt(max(1 - self.scale**2, 0.0))
        of_time, of_value = (self.scale * factor for factor in self.factors(int(self._classes[i])))
        warp = np.arange(len(signal)) + step * local.warp + of_time * weights[: len(local.warps)] @ local.warps
        rows = np.concatenate([(signal + step * local.value)[None], of_value * local.values])
        warped = interpolate_cubic(rows, np.tile(invert(warp), (len(rows), 1)))
        if shifted is not None:
            signal, warped = (x[..., shifted.margin : -shifted.margin, :] for x in (signal, warped))
        lost = white_noise(signal[None]) - white_noise(warped[:1]) - white_noise(warped[1:])
        return warped[0], warped[1:], np.maximum(lost, 0)

    def component(self, i: int, weights: Array, lag: int = 0) -> Component:
        """The component around signal i, shifted by a lag, at the warp with these weights h (k + 1 or more,)."""
        from scipy.fft import dct, idct

        (mean, rows, lost), shifted = self._deform(i, lag, weights), self._shifted(i)
        gains, T = self.gains(int(self._classes[i])), len(mean)
        if shifted is not None and shifted.is_closed:  # its frequencies are every second one of the others
            at = np.minimum(2 * np.arange(T // 2 + 1), T - 1)
            filtered = np.fft.irfft(gains[at] * np.fft.rfft(rows, axis=1), n=T, axis=1)
        else:
            filtered = idct(gains * dct(rows, axis=1, norm="ortho"), axis=1, norm="ortho")
        noise = lost + MIN_NOISE * self.spread + np.finfo(float).tiny
        return Component(mean.ravel(), filtered.reshape(len(rows), -1), np.tile(noise, T))


def block_means(signals: Array, n_blocks: int) -> Array:
    """Means of signals (n, T, C) over at most `n_blocks` blocks of time, the last of which may be shorter."""
    size = math.ceil(signals.shape[1] / n_blocks)
    firsts = np.arange(0, signals.shape[1], size)
    lengths = np.diff(firsts, append=signals.shape[1])
    return np.asarray(np.add.reduceat(signals, firsts, axis=1) / lengths[:, None])


def white_noise(rows: Array) -> Array:
    """Variance of white noise in the sum of rows (k, T, C) with normal weights, by second differences: (C,).

    Second differences of white noise of variance 1 have the variance 6; those of smooth signals are small. The median
    over time ignores events. The median of a chi-squared variable over its k degrees of freedom is (1 − 2/(9k))³.
    """
    k, T, C = rows.shape
    if T < 3:
        return np.zeros(C)
    squares = np.square(np.diff(rows, 2, axis=1)).sum(0)
    return np.asarray(np.median(squares, axis=0) / (6 * (1 - 2 / (9 * k)) ** 3))


SCALE = 0.9  # s: at 0, stored signals are recalled; at 1, they matter by their local distributions alone
CONDITIONED = "conditioned signals are drawn by the generator 'windows', whose conditional distribution is exact."
MAX_WARPS, MAX_COMPONENTS = 12, 2000  # of a signal; of the mixture, unless there are more signals


@dataclass(frozen=True, eq=False)
class SignalDeformations:
    """New signals (n, T, C) from the local distributions of stored signals with positive weight."""

    signals: Array  # (K, T, C) stored signals with positive weight, over `unit`
    shares: Array  # (K,) of new signals that are drawn around each
    classes: Array  # (K,)
    sources: Array  # (K,) indices of these signals among all stored ones
    unit: float = 1.0  # a power of two, which scales without rounding: squares of tiny and huge values stay finite
    scale: float = SCALE
    neighbors: int | None = None  # None for a third of the class, within limits
    computed: LocalDistributions | None = None  # the distributions of the same signals, perhaps at another scale
    adjustable: ClassVar[frozenset[str]] = frozenset({"scale"})

    @classmethod
    def fit(
        cls, signals: Array, weights: Array, classes: Array, scale: float | None = None, neighbors: int | None = None
    ) -> SignalDeformations:
        """The generator of signals (K, T, C) of classes (K,) that count `weights` (K,) times."""
        kept = np.flatnonzero(weights > 0)
        shares = weights[kept] / weights[kept].sum()
        stored = signals[kept].astype(np.float64)
        unit = 2.0 ** min(math.frexp(float(np.abs(stored).max()))[1], 1023) if stored.any() else 1.0
        return cls(stored / unit, shares, classes[kept], kept, unit, SCALE if scale is None else scale, neighbors)

    def adjusted(self, weights: Array, *, scale: float | None = None) -> SignalDeformations | None:
        """The generator at another scale and with other weights (K,); None if other signals have positive weight."""
        if not np.array_equal(np.flatnonzero(weights > 0), self.sources):
            return None
        kept = np.asarray(weights)[self.sources]
        computed = vars(self).get("distributions", self.computed)  # without computing them now
        return replace(self, shares=kept / kept.sum(), scale=SCALE if scale is None else scale, computed=computed)

    @cached_property
    def distributions(self) -> LocalDistributions:
        if self.computed is not None:
            return self.computed.with_scale(self.scale)
        return LocalDistributions(self.signals, self.classes, self.scale, self.neighbors)

    @cached_property
    def warps(self) -> Array:
        """Weights h of the warps of each signal, the same in every fit: (K, L, k + 1)."""
        K = len(self.signals)
        k = self.distributions.n_neighbors(K - 1)
        return np.random.default_rng(0).standard_normal((K, int(np.clip(MAX_COMPONENTS // K, 1, MAX_WARPS)), k + 1))

    @cached_property
    def lags(self) -> Array:
        """The lag by which each warp shifts its signal, 0 in aligned classes, the same in every fit: (K, L)."""
        half = self.signals.shape[1] // 2
        anywhere = np.random.default_rng(1).integers(-half, half + 1, self.warps.shape[:2])
        return np.where(np.isin(self.classes, list(self.distributions.shifted))[:, None], anywhere, 0)

    def component(self, i: int, j: int) -> Component:
        return self.distributions.component(i, self.warps[i, j], int(self.lags[i, j]))

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new signals (n, T, C), and the stored one that each was drawn around. The first m are the m draws."""
        which, choices, noise = rng.spawn(3)
        i, j = pick_stratified(np.log(self.shares), n, which), choices.integers(self.warps.shape[1], size=n)
        values = np.stack([self.component(*place).draw(noise) for place in zip(i.tolist(), j.tolist(), strict=True)])
        return Generated(self.unit * values.reshape(n, *self.signals.shape[1:]), self.sources[i])

    def log_density(self, arrays: Array) -> Array:
        """log density of signals (n, T, C) under the mixture of K · L normal components: (n,)."""
        values = np.asarray(arrays, dtype=np.float64).reshape(len(arrays), -1) / self.unit
        total, L = np.full(len(values), -np.inf), self.warps.shape[1]
        for i, share in enumerate(self.shares):
            for j in range(L):
                total = np.logaddexp(total, np.log(share / L) + self.component(i, j).log_density(values))
        return total - values.shape[1] * math.log(self.unit)

    def condition(self, observation: tuple[Array, Array]) -> TimeWindowGenerator:
        """The generator "windows", given that features at positions t·C + c (r,) have these values (r,)."""
        fitted = fit_time_windows(self.unit * self.signals, self.shares, self.classes, {})
        conditioned = replace(fitted, sources=self.sources).condition(observation)
        return replace(conditioned, notes=(*conditioned.notes, CONDITIONED), is_substitute=True)

    def describe(self) -> Description:
        sizes = np.unique(self.classes, return_counts=True)[1]
        counts = sorted({self.distributions.n_neighbors(int(n) - 1) for n in sizes})
        near = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        summary = f"stored signals moved as the nearest ({near}) differ from them, scale {self.scale:.3g}"
        if n_shifted := len(self.distributions.shifted):
            where = "" if n_shifted == len(sizes) else f" in {n_shifted} of {len(sizes)} classes"
            summary += f", and shifted in time{where}, because signals are not aligned"
        return Description("deformations", summary, resolved={"scale": self.scale})
