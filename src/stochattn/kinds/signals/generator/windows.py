"""The generator "windows": kernels around stored signals, whose noise consists of windows of stored signals.

Each stored signal m_k of a class with mean c and covariance C has the kernel

    N(c + √(1 − s) (m_k − c),  s Σ),      Σ(t, u) = C(t, u) Σ_b v_b(t) v_b(u) + nugget,      Σ_b v_b(t)² = 1.

A draw from N(0, Σ) is Σ_b v_b(t) Σ_j g_bj (m_j(t) − c(t)) with standard normal g: in each window along time, attention
with random weights over the stretches of the stored signals at the same time. Windows have different weights, so that
stretches of different signals are recombined, and overlap, so that stretches fit together. At every time, the variance
is that of the stored signals. One window over all time and s = 1 is a Gaussian process; s near 0 recalls stored
signals. The distribution is a Gaussian mixture, so draws, densities and conditions are exact.

If signals behave alike at all times, C may also include the signals some points earlier and later, with the variance
of every point unchanged. White noise, which windows cannot recombine, is drawn separately (nugget). If signals are
aligned first, there is a kernel around each signal at each shift of its class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array
from ....core.mixture import perplexity, pick, pick_stratified
from ...generator import NO_DENSITY, Description, Generated, few_sources

ROWS = 32  # signals that are drawn together; blocks are always full, so that a signal does not depend on others
MIN_EXPLAINING, MAX_UNLIKELY = 3, 2.0
"""A note is given if fewer signals explain a condition, or if it is less likely than any stored signal by this many
nats for each conditioned value."""
MAX_CONDITIONED = 2000  # values; the time to solve for them grows with the third power of their number


class WindowSetting(NamedTuple):
    """The setting that is chosen by the likelihood of left-out signals."""

    width: float  # s, the share of the variance that is noise
    spacing: int  # points between the centers of windows; 0 for one window over all time
    pooled: float  # share of the noise that varies like the signals of all classes
    roughness: float  # variance of white noise, over that in the stored signals
    shift: int  # largest shift of signals against each other, in points; 0 for none
    slide: int  # largest number of points by which noise may come from an earlier or later time

    def __str__(self) -> str:
        windows = f"windows every {self.spacing} points" if self.spacing else "one window over all points"
        slid = f" of parts that slide by up to {self.slide} points" if self.slide else ""
        moved = f", signals aligned by up to {self.shift} points" if self.shift else ""
        return f"noise in {windows}{slid}, {self.width:.0%} of the variance{moved}"


@dataclass(frozen=True, eq=False)
class KernelGroup:
    """The kernels of the signals of one class at one shift, over p = time × channels features."""

    members: Array  # (k,) indices among the stored signals with positive weight, in ascending order
    signals: Array  # (k, p)
    center: Array  # (p,)
    ensemble: Array  # (M, p) differences from the center, whose squares sum to the variance
    nugget: Array  # (p,) variance of white noise

    def at(self, points: Array) -> KernelGroup:
        arrays = self.signals[:, points], self.center[points], self.ensemble[:, points], self.nugget[points]
        return KernelGroup(self.members, *arrays)

    def means(self, which: Array, width: float) -> Array:
        """Means of the kernels of members `which` of the group: (n, p)."""
        return self.center + math.sqrt(1 - width) * (self.signals[which] - self.center)

    def covariance(self, windows: Array) -> Array:
        """Σ of features at which the windows have these values (B, p): (p, p)."""
        covariance = (self.ensemble.T @ self.ensemble) * (windows.T @ windows)
        covariance[np.diag_indices_from(covariance)] += self.nugget
        return np.asarray(covariance)


def power_windows(n_points: int, window: int) -> Array:
    """Windows v_b, with centers every `window` points: (B, n_points). Their squares sum to 1 at each point."""
    if window <= 0 or window >= n_points:
        return np.ones((1, n_points))
    centers = np.arange(-(-(n_points - 1) // window) + 1) * window
    u = np.clip((np.arange(n_points) - centers[:, None]) / window, -1.0, 1.0)
    return np.sin(np.pi / 2 * np.cos(np.pi / 2 * u) ** 2)


@dataclass(frozen=True, eq=False)
class TimeWindowGenerator:
    """New signals (n, T, C) from kernels around stored signals with positive weight, within their classes."""

    groups: tuple[KernelGroup, ...]
    log_weights: Array  # (G, K) of the kernel of signal k in group g; -inf if there is none
    sources: Array  # (K,) indices of these signals among all stored ones
    shape: tuple[int, int]  # T, C
    setting: WindowSetting
    searched: bool  # whether a value of the setting was chosen by likelihood
    notes: tuple[str, ...] = ()
    observed: tuple[Array, Array] | None = None  # positions (r,) and values (r,)
    roots: tuple[Array, ...] = ()  # (r, r) L of Σ = L Lᵀ at the observed features, for each group
    is_substitute: bool = False  # for deformations under conditions, which do not have the options of this generator

    @cached_property
    def windows(self) -> Array:
        return np.repeat(power_windows(self.shape[0], self.setting.spacing), self.shape[1], axis=1)

    @cached_property
    def _spans(self) -> list[slice]:
        """The span of features in which each window is not zero."""
        inside = [np.flatnonzero(indices) for indices in self.windows]
        return [slice(int(indices[0]), int(indices[-1]) + 1) for indices in inside]

    @cached_property
    def log_shares(self) -> Array:
        """log of the share of draws around each stored signal: (K,)."""
        return np.asarray(np.logaddexp.reduce(self.log_weights, axis=0))

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new signals (n, T, C), and the stored one that each was drawn around. The first m are the m draws."""
        which, choices, noise = rng.spawn(3)
        k = pick_stratified(self.log_shares, n, which)
        cumulative = np.cumsum(np.exp(self.log_weights - self.log_shares), axis=0)  # of groups, for each signal
        u, g = choices.random(n), np.zeros(n, dtype=np.intp)
        for j in np.unique(k):
            g[k == j] = pick(cumulative[:, j], u[k == j])
        values = np.empty((n, math.prod(self.shape)))
        for i, stream in enumerate(noise.spawn(len(self.groups))):
            rows_of_group = np.flatnonzero(g == i)
            for first in range(0, len(rows_of_group), ROWS):
                rows = rows_of_group[first : first + ROWS]
                values[rows] = self._draw(i, np.searchsorted(self.groups[i].members, k[rows]), stream)
        return Generated(values.reshape(n, *self.shape), self.sources[k])

    def _draw(self, g: int, which: Array, rng: np.random.Generator) -> Array:
        """Up to ROWS draws around members `which` of a group, given the observation: (n, p)."""
        group, s, n = self.groups[g], self.setting.width, len(which)
        g_shape, filled = (len(self.windows), len(group.ensemble)), np.resize(which, ROWS)
        coefficients, white = np.zeros((ROWS, *g_shape)), np.zeros((ROWS, len(group.nugget)))
        for i in range(n):  # the random numbers of a signal are consecutive
            coefficients[i] = math.sqrt(s) * rng.standard_normal(g_shape)
            white[i] = np.sqrt(s * group.nugget) * rng.standard_normal(white.shape[1])
        x = group.means(filled, s) + white
        if self.observed is not None:
            positions, values = self.observed
            root, here, seen = self.roots[g], self.windows[:, positions], group.ensemble[:, positions]
            from scipy.linalg import cho_solve

            current = x[:, positions] + np.einsum("nbp,bp->np", coefficients @ seen, here)
            solution = cho_solve((root, True), (values - current).T).T  # root Lᵀ, of Σ at these features
            coefficients += (solution[:, None, :] * here) @ seen.T
        for b, span in enumerate(self._spans):
            x[:, span] += self.windows[b, span] * (coefficients[:, b] @ group.ensemble[:, span])
        if self.observed is not None:
            x[:, positions] = values  # without rounding errors
        return x[:n]

    def condition(self, observation: tuple[Array, Array]) -> TimeWindowGenerator:
        """The generator given that the features at positions t·C + c (r,) have these values (r,), exactly."""
        if self.observed is not None:
            raise ValueError("the generator is conditioned already: pass all conditions at once.")
        positions, values = map(np.asarray, observation)
        if len(positions) > MAX_CONDITIONED:
            rule = f"a condition may name at most {MAX_CONDITIONED:,} values of a signal"
            raise ValueError(f"{rule}; got {len(positions):,}. Condition on a shorter stretch of time.")
        joint = self.log_weights + self.log_kernels(positions, values[None])[:, :, 0]
        total = float(np.logaddexp.reduce(joint, axis=None))
        here, groups = self.windows[:, positions], [group.at(positions) for group in self.groups]
        roots = tuple(np.linalg.cholesky(group.covariance(here)) for group in groups)
        conditioned = replace(self, observed=(positions, values), roots=roots, log_weights=joint - total)
        notes, stored = list(self.notes), np.concatenate([group.signals for group in groups])
        weighted = self.log_weights[:, :, None] + self.log_kernels(positions, stored)
        if total < float(np.logaddexp.reduce(weighted, axis=(0, 1)).min()) - MAX_UNLIKELY * len(positions):
            notes.append("the conditioned values are unlike all stored signals, so draws extrapolate")
        n_explaining = perplexity(conditioned.log_shares)
        if n_explaining < MIN_EXPLAINING and len(self.sources) >= 2 * MIN_EXPLAINING:
            notes.append(few_sources(n_explaining, "signal"))
        return replace(conditioned, notes=tuple(notes))

    def log_kernels(self, positions: Array, values: Array) -> Array:
        """log density of values (n, r) at features `positions` (r,) under each kernel: (G, K, n); -inf for none."""
        out = np.full((*self.log_weights.shape, len(values)), -np.inf)
        for g, group in enumerate(self.groups):
            here = group.at(positions)
            [densities] = log_kernel_densities(here, self.windows[:, positions], values, (self.setting.width,))
            out[g, group.members] = densities
        return out

    def log_density(self, arrays: Array) -> Array:
        """Normalized log density of signals (n, T, C), without a condition: (n,)."""
        if self.observed is not None:
            raise ValueError(NO_DENSITY)
        values = np.asarray(arrays, dtype=np.float64).reshape(len(arrays), -1)
        kernels = self.log_kernels(np.arange(values.shape[1]), values)
        return np.asarray(np.logaddexp.reduce(self.log_weights[:, :, None] + kernels, axis=(0, 1)))

    def describe(self) -> Description:
        rule = "chosen by the likelihood of left-out signals" if self.searched else "as given"
        resolved = {} if self.is_substitute else self.setting._asdict()
        return Description("windows", f"{self.setting} ({rule})", self.notes, resolved=resolved)


def log_kernel_densities(
    group: KernelGroup, windows: Array, values: Array, widths: tuple[float, ...]
) -> Iterator[Array]:
    """log density of values (n, p) under each kernel of a group, for each width: (k, n)."""
    from scipy.linalg import solve_triangular

    root = np.linalg.cholesky(group.covariance(windows))
    centered = (values - group.center).T, (group.signals - group.center).T
    x, m = (solve_triangular(root, rows, lower=True, check_finite=False) for rows in centered)
    constant = -float(np.log(np.diag(root)).sum()) - len(root) / 2 * math.log(2 * math.pi)
    squares, products = np.square(m).sum(0)[:, None], m.T @ x
    for s in widths:
        distances = (1 - s) * squares - 2 * math.sqrt(1 - s) * products + np.square(x).sum(0)
        yield constant - len(root) / 2 * math.log(s) - distances / (2 * s)
