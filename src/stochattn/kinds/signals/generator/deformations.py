"""Deformations of signals: a stored signal, moved in time and in value in the ways in which those most like it differ.

Warps φ_ij carry a stored signal m_i onto the nearest signals of its class, m_j(φ_ij) ≈ m_i (see `time_warps`), of which
the k that fit best then count. Normalized signals are normalized again after a warp (see `normalization`). With u_ij =
φ_ij − id, what is left is r_ij = m_j(φ_ij) − m_i, and u_ii = r_ii = 0. Their means ū_i, r̄_i and covariances are a local
law of timing and of values. A new signal is

    x(t + v(t)) = m_i(t) + c r̄_i(t) + s a Σ_j g_j (r_ij(t) − r̄_i(t)) / √(k + 1)      g_j ~ N(0, 1)
    v           = c ū_i + s b Σ_j h_j (u_ij − ū_i) / √(k + 1)                         c = 1 − √max(1 − s², 0)

and white noise in place of that which the means lose. Events are moved, and not blended with those of other signals.
Signals of a class that is not aligned begin at any time (see `time_phases`): m_i(t + τ) is in the place of m_i(t), and
the m_j are shifted to fit it. The step towards the means keeps new signals from spreading further than stored ones
(West 1993); a and b are such that noise replaces the variance that the step removes, a at each frequency. The weights
h and shifts τ of a few warps of each signal belong to the fit, so that the law is a mixture of normal laws, one for
each of them.

The generator "deformations": stored signals, moved in time and in value, and windows of noise under conditions.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ...._backend.arrays import Array
from ....core.neighbors import spaced_indices
from ...generator import Description, Generated
from ...stratified import stratified
from .alignment import ShiftedClass, shifted_classes
from .normalization import Normalization
from .warps import MIN_SCALE, SMOOTHNESS, increasing, inverse, on_grid, registered, splined
from .window_fit import fit_time_windows
from .windows import TimeWindowGenerator, WindowSetting

NEIGHBOR_SHARE, MIN_NEIGHBORS, MAX_NEIGHBORS = 1 / 3, 3, 16
"""Signals that a local law is made of, over the others of the class, and limits of their number."""
MAX_COMPARED_POINTS = 512
"""Blocks of time in which smooth differences of longer signals are compared."""
CANDIDATES = 2
"""Signals that are warped, over those of a local law: the ones that are most alike then may be early or late."""
MIN_NOISE = 1e-8
"""White noise that keeps densities finite, over the variance."""
MIN_CALIBRATED, MAX_CALIBRATED, MAX_GAIN, GAIN_WIDTH = 4, 64, 4.0, 1.5
"""Limits of the local laws by which deviations are calibrated; the largest gain of a frequency, and over how many it is
smooth."""
MAX_LAW_BYTES = 2**27
"""Bytes of local laws that are kept. Others are found again when they are needed."""


class LocalSignalDistribution(NamedTuple):
    """How the signals most like a stored one differ from it: means, and deviations over √(k + 1)."""

    warp: Array  # (T,)
    warps: Array  # (k + 1, T)
    value: Array  # (T, C)
    values: Array  # (k + 1, T, C)

    @classmethod
    def of(cls, warps: Array, values: Array) -> LocalSignalDistribution:
        """The law of displacements (k, T) and differences (k, T, C), and of the signal itself."""
        k = len(warps)
        parts = [np.concatenate([part, np.zeros((1, *part.shape[1:]))]) for part in (warps, values)]
        means = [part.mean(0) for part in parts]
        spreads = [(part - mean) / math.sqrt(k + 1) for part, mean in zip(parts, means, strict=True)]
        return cls(means[0], spreads[0], means[1], spreads[1])


class Component(NamedTuple):
    """The normal law N(mean, rowsᵀ rows + diag(noise)) of signals, flat over p = T·C features."""

    mean: Array  # (p,)
    rows: Array  # (k + 1, p)
    noise: Array  # (p,)

    def draw(self, rng: np.random.Generator) -> Array:
        """One signal: (p,)."""
        weights, white = rng.standard_normal(len(self.rows)), rng.standard_normal(len(self.mean))
        return np.asarray(self.mean + weights @ self.rows + np.sqrt(self.noise) * white)

    def log_density(self, values: Array) -> Array:
        """log density of values (n, p): (n,), by the lemmas of Woodbury and Sylvester."""
        from scipy.linalg import solve_triangular

        away, scaled = values - self.mean, self.rows / self.noise
        root = np.linalg.cholesky(np.eye(len(self.rows)) + scaled @ self.rows.T)
        explained = np.square(solve_triangular(root, scaled @ away.T, lower=True, check_finite=False)).sum(0)
        squares = (np.square(away) / self.noise).sum(1) - explained
        log_determinant = 2 * np.log(np.diag(root)).sum() + np.log(self.noise).sum()
        return np.asarray(-(squares + log_determinant + len(self.mean) * math.log(2 * math.pi)) / 2)


class LocalLaws:
    """The local laws of stored signals (K, T, C) of classes (K,); each is found when it is needed.

    neighbors: how many signals a law is made of; None for a third of the others in the class, within limits
    Signals of classes that are not aligned are seen at a lag, and their neighbors at those that fit best.
    """

    def __init__(self, signals: Array, classes: Array, scale: float, neighbors: int | None = None) -> None:
        self.signals, self._classes, self.scale, self._neighbors = signals, classes, scale, neighbors
        self._seen, self._normalization = on_grid(signals), Normalization.of(signals)
        self._kept, self._bytes = dict[tuple[int, int], LocalSignalDistribution](), 0
        self._factors, self._gains = dict[int, tuple[float, float]](), dict[int, Array]()
        spread = np.square(signals - signals.mean(0)).mean((0, 1))
        self.spread = np.where(spread > np.square(MIN_SCALE * np.abs(signals).max()), spread, 0.0)  # (C,)

    @cached_property
    def shifted(self) -> dict[int, ShiftedClass]:
        """The classes that are not aligned."""
        return shifted_classes(self.signals, self._classes)

    def _shifted(self, i: int) -> ShiftedClass | None:
        """The class of signal i if it is not aligned."""
        return self.shifted.get(int(self._classes[i]))

    def with_scale(self, scale: float) -> LocalLaws:
        """The same laws at another scale, which are found once for both."""
        if scale == self.scale:
            return self
        other = copy(self)
        other.scale, other._gains = scale, {}  # the only calibration that depends on the scale
        other._kept = dict(self._kept)  # so that the bytes of each are counted
        return other

    def n_neighbors(self, others: int) -> int:
        """Neighbors among so many others."""
        wanted = round(NEIGHBOR_SHARE * others) if self._neighbors is None else self._neighbors
        limits = (MIN_NEIGHBORS, MAX_NEIGHBORS) if self._neighbors is None else (1, others)
        return int(min(np.clip(wanted, *limits), others))

    def law(self, i: int, lag: int = 0) -> LocalSignalDistribution:
        """The law around signal i as it is from a lag on."""
        if (i, lag) in self._kept:
            return self._kept[i, lag]
        own = self._shifted(i)
        found = self._found(i) if own is None else self._found_at(i, lag, own)
        size = sum(part.nbytes for part in found)
        if self._bytes + size <= MAX_LAW_BYTES:
            self._kept[i, lag], self._bytes = found, self._bytes + size
        return found

    def _found(self, i: int) -> LocalSignalDistribution:
        own = np.flatnonzero(self._classes == self._classes[i])
        members = own if len(own) > 1 else np.arange(len(self.signals))
        others, T = members[members != i], self.signals.shape[1]
        k = self.n_neighbors(len(others))
        away = np.square(self._seen[others] - self._seen[i]).sum((1, 2))
        near = others[np.argsort(away, kind="stable")[: CANDIDATES * k]]
        fixed, center = (np.broadcast_to(x[i], (len(near), *x.shape[1:])) for x in (self._seen, self.signals))
        warps = registered(self._seen[near], fixed, T, self._normalization)
        warped = self._normalization.alike(splined(self.signals[near], warps), self._normalization.statistics(center))
        return self._of_most_alike(k, warps - np.arange(T), warped - center)

    def _found_at(self, i: int, lag: int, own: ShiftedClass) -> LocalSignalDistribution:
        """The law around signal i, of a class that is not aligned, from a lag on and with margins."""
        center, scale = own.view(i, lag), self.signals.std((0, 1))
        scale = np.where(scale > 0, scale, 1.0)
        k = self.n_neighbors(len(own.members) - 1)
        near = own.nearest(i, lag, scale, CANDIDATES * k)
        seen, times = on_grid(np.concatenate([center[None], near]), scale), np.arange(len(center))
        fixed = np.broadcast_to(seen[0], seen[1:].shape)
        u = registered(seen[1:], fixed, len(center), self._normalization) - times
        u = own.around(u) if own.is_closed else u
        statistics = self._normalization.statistics(np.broadcast_to(center, near.shape))
        warped = self._normalization.alike(splined(near, times + u), statistics)
        return self._of_most_alike(k, u, warped - center)

    def _of_most_alike(self, k: int, warps: Array, values: Array) -> LocalSignalDistribution:
        """The law of the k of displacements (n, T) and differences (n, T, C) whose smooth differences are smallest.

        Noise does not count: otherwise, the quietest signals would be neighbors of all.
        """
        from scipy.ndimage import gaussian_filter1d

        unit = np.where(self.spread > 0, self.spread, 1.0)
        thinned = block_means(values, MAX_COMPARED_POINTS)
        smooth = gaussian_filter1d(thinned, SMOOTHNESS * thinned.shape[1], axis=1, mode="nearest")
        best = np.argsort((np.square(smooth) / unit).sum((1, 2)), kind="stable")[:k]
        return LocalSignalDistribution.of(warps[best], values[best])

    def _calibrated(self, label: int) -> list[int]:
        """The signals by which the deviations of a class are calibrated: its own, or all if it has few."""
        own = np.flatnonzero(self._classes == label)
        used = own if len(own) >= MIN_CALIBRATED else np.arange(len(self.signals))
        return [int(used[n]) for n in spaced_indices(len(used), MAX_CALIBRATED)]

    def factors(self, label: int) -> tuple[float, float]:
        """Factors of the deviations of a class in time and in value: with them, they replace what steps remove.

        Steps by c towards the means remove 1 − (1 − c)² = s² of the squared distances to them, summed over signals.
        """
        if label not in self._factors:
            sums, unit = np.zeros((2, 2)), np.where(self.spread > 0, self.spread, 1.0)
            for i in self._calibrated(label):
                law = self.law(i)
                sums[0] += np.square(law.warp).sum(), np.square(law.warps).sum()
                sums[1] += (np.square(law.value) / unit).sum(), (np.square(law.values) / unit).sum()
            of_time, of_value = (math.sqrt(a / b) if b > 0 else 1.0 for a, b in sums)
            self._factors[label] = of_time, of_value
        return self._factors[label]

    def gains(self, label: int) -> Array:
        """Gains of the deviations of a class in value at each frequency of the cosine transform and channel: (T, C).

        With them, new signals have the power of the stored ones around their mean, as far as gains within MAX_GAIN can
        reach it.
        """
        from scipy.fft import dct
        from scipy.ndimage import gaussian_filter1d

        if label not in self._gains:
            power = np.zeros((3, *self.signals.shape[1:]))  # of signals, of what noise is added to, of the noise
            weights = np.random.default_rng(0)
            for i in self._calibrated(label):
                own = self.signals[self._classes == self._classes[i]]
                center = own.mean(0) if self._shifted(i) is None else own.mean((0, 1))
                normal = weights.standard_normal(MAX_NEIGHBORS + 1 + (self._neighbors or 0))
                mean, rows, noise = self._moved(i, 0, normal)
                power[0] += np.square(dct(self.signals[i] - center, axis=0, norm="ortho"))
                power[1] += np.square(dct(mean - center, axis=0, norm="ortho")) + noise
                power[2] += np.square(dct(rows, axis=1, norm="ortho")).sum(0)
            floor = np.finfo(float).tiny + 1e-12 * power[0].max(0)
            ratio = np.clip((power[0] - power[1]) / (power[2] + floor), MAX_GAIN**-2, MAX_GAIN**2)
            smooth = gaussian_filter1d(np.log(ratio), GAIN_WIDTH, axis=0, mode="nearest", truncate=8)
            self._gains[label] = np.exp(smooth / 2)
        return self._gains[label]

    def _moved(self, i: int, lag: int, weights: Array) -> tuple[Array, Array, Array]:
        """The mean (T, C) and deviations (k + 1, T, C) at a warp, and the white noise (C,) that both lost."""
        law, own = self.law(i, lag), self._shifted(i)
        signal = self.signals[i] if own is None else own.view(i, lag)
        step = 1 - math.sqrt(max(1 - self.scale**2, 0.0))
        of_time, of_value = (self.scale * factor for factor in self.factors(int(self._classes[i])))
        warp = np.arange(len(signal)) + step * law.warp + of_time * weights[: len(law.warps)] @ law.warps
        clock = inverse(increasing(warp[None])[0])
        rows = np.concatenate([(signal + step * law.value)[None], of_value * law.values])
        placed = splined(rows, np.tile(clock, (len(rows), 1)))
        if own is not None:
            signal, placed = signal[own.margin : -own.margin], placed[:, own.margin : -own.margin]
        lost = white_noise(signal[None]) - white_noise(placed[:1]) - white_noise(placed[1:])
        return placed[0], placed[1:], np.maximum(lost, 0)

    def component(self, i: int, weights: Array, lag: int = 0) -> Component:
        """The law of new signals around signal i from a lag on, at the warp with these weights h (k + 1 or more,)."""
        from scipy.fft import dct, idct

        (mean, rows, lost), own = self._moved(i, lag, weights), self._shifted(i)
        gains, T = self.gains(int(self._classes[i])), len(mean)
        if own is not None and own.is_closed:  # frequencies around a circle are every second one of the others
            at = np.minimum(2 * np.arange(T // 2 + 1), T - 1)
            heard = np.fft.irfft(gains[at] * np.fft.rfft(rows, axis=1), n=T, axis=1)
        else:
            heard = idct(gains * dct(rows, axis=1, norm="ortho"), axis=1, norm="ortho")
        noise = lost + MIN_NOISE * self.spread + np.finfo(float).tiny
        return Component(mean.ravel(), heard.reshape(len(rows), -1), np.tile(noise, T))


def block_means(signals: Array, n_blocks: int) -> Array:
    """Signals (n, T, C) as means over at most so many blocks of time, the last of which may be shorter."""
    size = math.ceil(signals.shape[1] / n_blocks)
    firsts = np.arange(0, signals.shape[1], size)
    lengths = np.diff(firsts, append=signals.shape[1])
    return np.asarray(np.add.reduceat(signals, firsts, axis=1) / lengths[:, None])


def white_noise(rows: Array) -> Array:
    """Variance of white noise in the sum of rows (k, T, C) with normal weights, by second differences: (C,).

    Those of white noise of variance 1 have the variance 6, and those of smooth signals are small. The median over time
    does not count events. The median of a chi-squared variable over its k degrees of freedom is (1 − 2/(9k))³.
    """
    k, T, C = rows.shape
    if T < 3:
        return np.zeros(C)
    squares = np.square(np.diff(rows, 2, axis=1)).sum(0)
    return np.asarray(np.median(squares, axis=0) / (6 * (1 - 2 / (9 * k)) ** 3))


SCALE = 0.9
"""s of `time_deformations`. At 1, a new signal would have its place from the local law alone; 0 recalls."""
MAX_WARPS, MAX_COMPONENTS = 12, 2000
"""Warps of a signal, at most, and components of the law, unless signals are more."""


@dataclass(frozen=True, eq=False)
class SignalDeformations:
    """New signals (n, T, C) by the local laws of those that count."""

    signals: Array  # (K, T, C) stored signals of positive weight, in units
    shares: Array  # (K,) of new signals that are drawn around each
    classes: Array  # (K,)
    sources: Array  # (K,) what draws name as their source
    unit: float = 1.0  # a power of two, so that squares of tiny and huge values are floats, and values stay exact
    scale: float = SCALE
    neighbors: int | None = None  # None for a third of the class, within limits
    known: LocalLaws | None = None  # those of the same signals, perhaps at another scale
    adjustable: ClassVar[frozenset[str]] = frozenset({"scale"})

    @classmethod
    def fit(
        cls, signals: Array, weights: Array, classes: Array, scale: float | None = None, neighbors: int | None = None
    ) -> SignalDeformations:
        """The generator of signals (K, T, C) of classes (K,) that count `weights` (K,) times."""
        kept = np.flatnonzero(weights > 0)
        shares = weights[kept] / weights[kept].sum()
        own = signals[kept].astype(np.float64)
        unit = 2.0 ** min(math.frexp(float(np.abs(own).max()))[1], 1023) if own.any() else 1.0
        return cls(own / unit, shares, classes[kept], kept, unit, SCALE if scale is None else scale, neighbors)

    def adjusted(self, weights: Array, *, scale: float | None = None) -> SignalDeformations | None:
        """The same local laws at another scale and with other weights (K,); None where other signals count."""
        if not np.array_equal(np.flatnonzero(weights > 0), self.sources):
            return None
        own = np.asarray(weights)[self.sources]
        known = vars(self).get("laws", self.known)  # laws that are not needed yet are not found here
        return replace(self, shares=own / own.sum(), scale=SCALE if scale is None else scale, known=known)

    @cached_property
    def laws(self) -> LocalLaws:
        """The local laws of the signals."""
        if self.known is not None:
            return self.known.with_scale(self.scale)
        return LocalLaws(self.signals, self.classes, self.scale, self.neighbors)

    @cached_property
    def warps(self) -> Array:
        """Weights h of the warps of each signal, the same in every fit: (K, L, k + 1)."""
        K = len(self.signals)
        k = self.laws.n_neighbors(K - 1)
        return np.random.default_rng(0).standard_normal((K, int(np.clip(MAX_COMPONENTS // K, 1, MAX_WARPS)), k + 1))

    @cached_property
    def lags(self) -> Array:
        """Where in a signal each of its warps begins, 0 in classes that are aligned, the same in every fit: (K, L)."""
        half = self.signals.shape[1] // 2
        anywhere = np.random.default_rng(1).integers(-half, half + 1, self.warps.shape[:2])
        return np.where(np.isin(self.classes, list(self.laws.shifted))[:, None], anywhere, 0)

    def component(self, i: int, j: int) -> Component:
        """The law around signal i at its warp j."""
        return self.laws.component(i, self.warps[i, j], int(self.lags[i, j]))

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new signals (n, T, C), and the stored one that each was drawn around. The first m are the m draws."""
        which, choices, noise = rng.spawn(3)
        i, j = stratified(np.log(self.shares), n, which), choices.integers(self.warps.shape[1], size=n)
        values = np.stack([self.component(*place).draw(noise) for place in zip(i.tolist(), j.tolist(), strict=True)])
        return Generated(self.unit * values.reshape(n, *self.signals.shape[1:]), self.sources[i])

    def log_density(self, arrays: Array) -> Array:
        """log density of signals (n, T, C), that of a mixture of K · L normal laws; (n,)."""
        values = np.asarray(arrays, dtype=np.float64).reshape(len(arrays), -1) / self.unit
        found, L = np.full(len(values), -np.inf), self.warps.shape[1]
        for i, share in enumerate(self.shares):
            for j in range(L):
                found = np.logaddexp(found, np.log(share / L) + self.component(i, j).log_density(values))
        return found - values.shape[1] * math.log(self.unit)

    def condition(self, observation: tuple[Array, Array]) -> TimeWindowGenerator:
        """The generator `windows`, given that features at positions t·C + c (r,) have these values (r,)."""
        asked = dict.fromkeys(WindowSetting._fields)
        fitted = fit_time_windows(self.unit * self.signals, self.shares, self.classes, asked)
        parts = {name: getattr(fitted, name) for name in fitted.__dataclass_fields__}
        return ConditionedSignals(**parts | {"sources": self.sources}).condition(observation)

    def describe(self) -> Description:
        """The scale and the number of neighbors."""
        sizes = np.unique(self.classes, return_counts=True)[1]
        found = sorted({self.laws.n_neighbors(int(n) - 1) for n in sizes})
        near = f"{found[0]}" if len(found) == 1 else f"{found[0]} to {found[-1]}"
        summary = f"stored signals moved as the nearest ({near}) differ from them, scale {self.scale:.3g}"
        if self.laws.shifted:
            some = (
                "" if len(self.laws.shifted) == len(sizes) else f" in {len(self.laws.shifted)} of {len(sizes)} classes"
            )
            summary += f", and shifted in time{some}, because signals are not aligned"
        return Description("deformations", summary, resolved={"scale": self.scale})


@dataclass(frozen=True, eq=False)
class ConditionedSignals(TimeWindowGenerator):
    """The generator `windows` in place of deformations, under conditions."""

    def describe(self) -> Description:
        """That of windows; its setting is no option of deformations."""
        note = "conditioned signals are drawn by the generator 'windows', whose law given the values is exact."
        found = super().describe()
        return replace(found, notes=(*found.notes, note), resolved={})
