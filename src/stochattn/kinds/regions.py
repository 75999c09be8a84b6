"""Gaussian mixtures given that some features of their draws lie in a region, sampled exactly.

The features y = B x of a draw x around memory k are normal. Given that they lie in a region, inside a box,

1. k is chosen with probability ∝ w_k P(y_j in its interval | k), for the feature j with the least probable interval,
2. y_j is drawn from the normal distribution of that kernel within the interval, and the other features given y_j,
3. k and y are both drawn again unless y lies in the region,
4. x is drawn given y, which is linear.

Steps 1 and 2 draw from the mixture given the interval of y_j, so that what step 3 keeps has the distribution given the
region. An interval of one feature needs no second attempt, however improbable it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from .._backend.arrays import Array
from .._backend.random import Purpose, generator
from ..core.mixture import independent_rows, pick

MIN_VARIANCE = 1e-12  # share of the largest variance below which a direction has none, as it follows from others
MAX_ENTRIES = 2**22  # entries of the matrices that are held at once


def log_mass(low: Array, high: Array) -> Array:
    """log P(low <= x <= high) of a standard normal x, accurate for any low <= high."""
    from scipy.special import log_ndtr

    low, high, _ = _to_the_left(low, high)
    above, below = log_ndtr(high), log_ndtr(low)
    with np.errstate(divide="ignore", invalid="ignore"):  # both are −inf far from zero
        return np.where(np.isneginf(above), -np.inf, above + np.log(-np.expm1(below - above)))


def truncated_normal(low: Array, high: Array, uniforms: Array) -> Array:
    """A standard normal variable given that it lies between low and high, by its quantiles at uniforms: (n,) each."""
    from scipy.special import log_ndtr, ndtri_exp

    left, right, mirrored = _to_the_left(low, high)
    with np.errstate(divide="ignore"):
        share = np.log(np.maximum(uniforms, 1e-300))
        quantile = np.logaddexp(log_ndtr(left), share + log_mass(left, right))
    x = np.clip(ndtri_exp(np.minimum(quantile, 0.0)), left, right)
    return np.where(mirrored, -x, x)


def _to_the_left(low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Intervals, mirrored where they lie to the right of zero: in the left tail log Φ has all its digits."""
    mirrored = low > -high
    return np.where(mirrored, -high, low), np.where(mirrored, -low, high), mirrored


@dataclass(frozen=True, eq=False)
class TruncatedMixture:
    """Σ_k w_k N(means_k, covariances_k) of r features, given that feature j lies between low and high."""

    means: Array  # (K, r)
    roots: Array  # (K, r, r) or (1, r, r), of covariances that may be singular
    slopes: Array  # (K, r) or (1, r): how much each feature follows feature j
    deviations: Array  # (K,) or (1,) of feature j
    shares: Array  # (K,) the probability of each kernel, ∝ w_k P(low <= y_j <= high | k)
    log_probability: float  # log P(low <= y_j <= high)
    j: int
    low: float
    high: float

    @classmethod
    def of(cls, means: Array, covariances: Array, log_weights: Array, low: Array, high: Array) -> TruncatedMixture:
        """The mixture given the least probable of the intervals low to high (r,)."""
        scale = float(np.abs(covariances).max())
        variances = np.maximum(np.diagonal(covariances, axis1=1, axis2=2), MIN_VARIANCE**1.5 * scale)
        deviations = np.sqrt(variances)
        joint = log_weights[:, None] + log_mass((low - means) / deviations, (high - means) / deviations)
        j = int(np.argmin(np.logaddexp.reduce(joint, axis=0)))
        log_probability = float(np.logaddexp.reduce(joint[:, j]))
        if not math.isfinite(log_probability):
            raise ValueError("condition: a range holds no probability that floats can tell from zero. Widen it.")
        shares = np.exp(joint[:, j] - log_probability)
        slopes = np.where(variances[:, [j]] > MIN_VARIANCE * scale, covariances[:, :, j] / variances[:, [j]], 0.0)
        powers, directions = np.linalg.eigh(covariances)
        roots = directions * np.sqrt(np.where(powers > MIN_VARIANCE * scale, powers, 0.0))[:, None, :]
        return cls(means, roots, slopes, deviations[:, j], shares, log_probability, j, float(low[j]), float(high[j]))

    def draw(self, uniforms: Array, noise: Array) -> tuple[Array, Array]:
        """Kernels (n,) and features (n, r) for uniforms (n, 2) and standard normal noise (n, r)."""
        k = pick(np.cumsum(self.shares), uniforms[:, 0])
        y, size = np.empty_like(noise), max(MAX_ENTRIES // noise.shape[1] ** 2, 1)
        for start in range(0, len(k), size):
            part = slice(start, start + size)
            y[part] = self._features(k[part], uniforms[part, 1], noise[part])
        return k, y

    def _features(self, k: Array, uniforms: Array, noise: Array) -> Array:
        pooled = len(self.roots) == 1
        kernel = np.zeros_like(k) if pooled else k
        mean, deviation = self.means[k, self.j], self.deviations[kernel]
        low, high = ((end - mean) / deviation for end in (self.low, self.high))
        at = np.clip(mean + deviation * truncated_normal(low, high, uniforms), self.low, self.high)
        # A draw without the interval, moved to that value of feature j: the others follow as they do in the kernel.
        y = np.einsum("ij,nj->ni", self.roots[0], noise) if pooled else np.einsum("nij,nj->ni", self.roots[k], noise)
        y += self.means[k]
        y += self.slopes[kernel] * (at - y[:, self.j])[:, None]
        y[:, self.j] = at
        return y


N_TRIED, MIN_KEPT = 2**14, 16  # attempts that estimate the acceptance of a region, and how many it must accept
MAX_RARE = 1e-3  # probability of a region, up to which a note says it
N_AT_ONCE = 4096  # attempts that are made together; draw i is the i-th accepted attempt, however many draws there are


class Region(NamedTuple):
    """Where the features at `positions` (r,) must lie.

    low, high: (r,) ends of a box that contains the region, infinite where it is open
    contains:  (n, r) features -> (n,) whether each row lies in the region
    """

    positions: Array
    low: Array
    high: Array
    contains: Callable[[Array], Array]


class FeatureObservation(NamedTuple):
    """Features at positions (r,) that equal values (r,), and the region of other features."""

    positions: Array
    values: Array
    region: Region | None = None


class GaussianComponents(Protocol):
    """A Gaussian mixture with one kernel per memory, perhaps given that A x = y."""

    @property
    def log_weights(self) -> Array:
        """(K,)"""

    @property
    def observed(self) -> tuple[Array, Array] | None:
        """A (r, d) and y (r,), or None."""

    def moments(self, rows: Array) -> tuple[Array, Array]:
        """Means (K, r) and covariances, (K, r, r) or (1, r, r), of rows (r, d) times x without the observation."""

    def around(self, k: Array, rng: np.random.Generator, observed: tuple[Array, Array] | None) -> Array:
        """A draw around each of the memories k (n,), given values, (r,) or (n, r), of rows (r, d) times x: (n, d)."""


@dataclass(frozen=True, eq=False)
class Restricted:
    """A mixture given that the features B x + origin lie in a region; `of` makes it."""

    kernels: GaussianComponents
    rows: Array  # B (r, d)
    origin: Array  # (r,), −inf for features that are never the largest of their block
    region: Region
    proposal: TruncatedMixture  # of B x
    probability: float  # of the region, about
    shares: Array  # (K,) the probability that each memory is drawn around, about
    acceptance: float = 1.0  # share of the attempts that are accepted, about

    @classmethod
    def of(cls, kernels: GaussianComponents, rows: Array, origin: Array, region: Region) -> Restricted:
        """The mixture given the region; ValueError if it accepts too few attempts."""
        shift = np.where(np.isfinite(origin), origin, 0.0)
        moments = _compute_conditional_moments(kernels, rows)
        proposal = TruncatedMixture.of(*moments, kernels.log_weights, region.low - shift, region.high - shift)
        probability = math.exp(proposal.log_probability)
        mixture = cls(kernels, rows, origin, region, proposal, probability, proposal.shares)
        k, _, kept = mixture._attempts(N_TRIED, *generator(0, Purpose.RULE).spawn(2))
        if (n_kept := int(kept.sum())) < MIN_KEPT:
            share = MIN_KEPT / N_TRIED * probability
            problem = f"less than a share of {share:.1g} of all draws meets its ranges and sets"
            raise ValueError(f"condition: {problem}. Widen them, or condition on less.")
        if n_kept == N_TRIED:  # the probabilities of a single interval are exact
            return mixture
        acceptance, shares = n_kept / N_TRIED, np.bincount(k[kept], minlength=len(mixture.shares)) / n_kept
        return replace(mixture, probability=probability * acceptance, shares=shares, acceptance=acceptance)

    @property
    def log_shares(self) -> Array:
        """log of the shares: (K,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.shares))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """n draws x (n, d), their memories (n,) and features in the region (n, r). The first m of n are the m draws."""
        attempts, noise = rng.spawn(2)
        streams = attempts.spawn(2)
        sources, features, n_kept = [np.empty(0, dtype=np.intp)], [np.empty((0, len(self.rows)))], 0
        while n_kept < n:
            k, y, kept = self._attempts(N_AT_ONCE, *streams)
            sources.append(k[kept])
            features.append(y[kept])
            n_kept += len(sources[-1])
        source, y = np.concatenate(sources)[:n], np.concatenate(features)[:n]
        return self.kernels.around(source, noise, self._equations(y)), source, y + self.origin

    def _attempts(
        self, n: int, uniforms: np.random.Generator, normals: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        """The next n attempts: memories (n,), B x (n, r), and whether it lies in the region (n,)."""
        k, y = self.proposal.draw(uniforms.random((n, 2)), normals.standard_normal((n, len(self.rows))))
        features = y + self.origin
        kept = np.all((features >= self.region.low) & (features <= self.region.high), axis=1)
        kept[kept] = self.region.contains(features[kept])
        return k, y, kept

    def _equations(self, y: Array) -> tuple[Array, Array]:
        """The equations of draws with B x = y (n, r), as independent rows (c, d) and their values (n, c)."""
        observed, values = self.kernels.observed or (self.rows[:0], np.empty(0))
        rows, solving = independent_rows(np.concatenate([observed, self.rows]))
        return rows, np.einsum("nr,rc->nc", np.concatenate([np.tile(values, (len(y), 1)), y], axis=1), solving)


def rarity_notes(probability: float) -> tuple[str, ...]:
    """A note on a region that hardly any draw would meet by chance; none for other regions."""
    if probability > MAX_RARE:
        return ()
    share = "fewer than one in a billion"
    if probability > 1e-9:
        share = f"only about 1 in {float(f'{1 / probability:.2g}'):,.0f}"
    return (f"{share} draws without the ranges and sets would meet them",)


def _compute_conditional_moments(kernels: GaussianComponents, rows: Array) -> tuple[Array, Array]:
    """Means (K, r) and covariances, (K, r, r) or (1, r, r), of rows (r, d) times x, given what was observed."""
    if kernels.observed is None:
        return kernels.moments(rows)
    observed, values = kernels.observed
    a = len(observed)
    means, covariances = kernels.moments(np.concatenate([observed, rows]))
    gain = np.linalg.solve(covariances[:, :a, :a], covariances[:, :a, a:])
    shifts = ((values - means[:, :a])[:, None] @ gain)[:, 0]
    return means[:, a:] + shifts, covariances[:, a:, a:] - covariances[:, a:, :a] @ gain
