"""Gaussian mixtures given that some features of their draws lie in a region, sampled exactly.

The features y = B x of a draw x around memory k are normal. Given that they lie in a region, inside a box,

1. k is chosen with probability ∝ w_k P(y_j in its interval | k), for the feature j whose interval holds least,
2. y_j is drawn from the normal law of that kernel within the interval, and the other features given y_j,
3. k and y are drawn again, both of them, unless y lies in the region,
4. x is drawn given y, which is linear.

Steps 1 and 2 draw from the law given the interval of y_j, so that what step 3 keeps has the law given the region. An
interval of one feature needs no second attempt, however little of the law it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from .._backend.arrays import Array
from .._backend.random import Purpose, generator
from ..core.mixture import independent_rows
from .truncation import TruncatedMixture

N_TRIED, MIN_KEPT = 2**14, 16  # equivalent: limits of about this size; one attempt more or less is no difference
"""Attempts by which the share that a region keeps is estimated, and how many of them it must keep: about 1 in 1,000."""
MAX_RARE = 1e-3
"""Probability of a region, up to which a note names it."""
N_AT_ONCE = 4096
"""Attempts that are made together: draw i is the attempt that is kept as the i-th, however many draws there are."""


class Region(NamedTuple):
    """Where the features at `positions` (r,) must lie: a box that contains the region, and the region itself.

    low, high: (r,) ends of the box, infinite where it is open
    contains:  (n, r) features -> (n,) whether each row lies in the region
    """

    positions: Array
    low: Array
    high: Array
    contains: Callable[[Array], Array]


class FeatureObservation(NamedTuple):
    """Features at positions (r,) that equal values (r,), and a region of other features."""

    positions: Array
    values: Array
    region: Region | None = None


class Kernels(Protocol):
    """A Gaussian mixture with one kernel per memory, perhaps given that A x = y."""

    @property
    def log_weights(self) -> Array:
        """(K,)"""

    @property
    def observed(self) -> tuple[Array, Array] | None:
        """A (r, d) and y (r,), or None."""

    def moments(self, rows: Array) -> tuple[Array, Array]:
        """Means (K, r) and covariances, (K, r, r) or (1, r, r), of rows (r, d) times x, whatever was observed."""

    def around(self, k: Array, rng: np.random.Generator, observed: tuple[Array, Array] | None) -> Array:
        """A draw around each of the memories k (n,), given values, (r,) or (n, r), of rows (r, d) times x: (n, d)."""


class RegionDraws(NamedTuple):
    """Draws x (n, d), the memory of each (n,), and its features in the region (n, r)."""

    x: Array
    source: Array
    features: Array


@dataclass(frozen=True, eq=False)
class Restricted:
    """A mixture given that the features B x + origin lie in a region. Make one with `of`."""

    kernels: Kernels
    rows: Array  # B (r, d)
    origin: Array  # (r,), −inf for features that are never the largest of their block
    region: Region
    proposal: TruncatedMixture  # of B x
    probability: float  # of the region, about
    shares: Array  # (K,) how often each memory is drawn around, about
    acceptance: float = 1.0  # share of the attempts that are kept, about

    @classmethod
    def of(cls, kernels: Kernels, rows: Array, origin: Array, region: Region) -> Restricted:
        """The mixture given the region; ValueError where it keeps too few attempts."""
        shift = np.where(np.isfinite(origin), origin, 0.0)
        low, high = (end - shift for end in (region.low, region.high))
        proposal = TruncatedMixture.of(*_given_equations(kernels, rows), kernels.log_weights, low, high)
        if not math.isfinite(proposal.log_probability):
            raise ValueError("condition: a range holds no probability that floats can tell from zero. Widen it.")
        whole = math.exp(proposal.log_probability)
        law = cls(kernels, rows, origin, region, proposal, whole, proposal.shares)
        k, _, kept = law._attempts(N_TRIED, *generator(0, Purpose.RULE).spawn(2))  # equivalent: any fixed seed
        if (n_kept := int(kept.sum())) < MIN_KEPT:
            found = f"less than a share of {MIN_KEPT / N_TRIED * whole:.1g} of all draws meets its ranges and sets"
            raise ValueError(f"condition: {found}. Widen them, or condition on less.")
        if n_kept < N_TRIED:  # the probabilities of a single interval are exact
            shares = np.bincount(k[kept], minlength=len(law.shares)) / n_kept
            accepted = n_kept / N_TRIED
            law = replace(law, probability=whole * n_kept / N_TRIED, shares=shares, acceptance=accepted)
        return law

    @property
    def log_shares(self) -> Array:
        """log of the shares: (K,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.shares))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user must know about the region."""
        if self.probability > MAX_RARE:
            return ()
        return (f"a share of {self.probability:.1g} of the draws without the ranges and sets would meet them",)

    def sample(self, n: int, rng: np.random.Generator) -> RegionDraws:
        """n independent draws. The first m of n are the m draws."""
        attempts, noise = rng.spawn(2)
        streams = attempts.spawn(2)
        sources, features, n_kept = [np.empty(0, dtype=np.intp)], [np.empty((0, len(self.rows)))], 0
        while n_kept < n:
            k, y, kept = self._attempts(N_AT_ONCE, *streams)
            sources.append(k[kept])
            features.append(y[kept])
            n_kept += len(sources[-1])
        source, y = np.concatenate(sources)[:n], np.concatenate(features)[:n]
        x = self.kernels.around(source, noise, self._equations(y))
        return RegionDraws(x, source, y + self.origin)

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
        """What draws with features B x = y (n, r) meet: independent rows (c, d), and their values (n, c)."""
        observed, values = self.kernels.observed or (self.rows[:0], np.empty(0))
        rows, solving = independent_rows(np.concatenate([observed, self.rows]))
        return rows, np.einsum("nr,rc->nc", np.concatenate([np.tile(values, (len(y), 1)), y], axis=1), solving)


def _given_equations(kernels: Kernels, rows: Array) -> tuple[Array, Array]:
    """Means (K, r) and covariances, (K, r, r) or (1, r, r), of rows (r, d) times x, given what was observed."""
    if kernels.observed is None:
        return kernels.moments(rows)
    observed, values = kernels.observed
    a = len(observed)
    means, covariances = kernels.moments(np.concatenate([observed, rows]))
    gain = np.linalg.solve(covariances[:, :a, :a], covariances[:, :a, a:])
    moved = means[:, a:] + ((values - means[:, :a])[:, None] @ gain)[:, 0]
    return moved, covariances[:, a:, a:] - covariances[:, a:, :a] @ gain
