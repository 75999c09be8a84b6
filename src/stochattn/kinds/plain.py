"""Two plain generators, the last resort of a trial: one Gaussian, and stored items with other amplitudes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from .._backend.arrays import Array
from ..core.mixture import pick_stratified
from ..core.neighbors import nearest_rows, spaced_indices
from .generator import Description, Generated, Generator
from .hopfield import Coordinates, HopfieldGenerator, LinearEmbedding

BETA = 1e-8  # at which memories are 1e-4 standard deviations from the mean: their mixture is one Gaussian
MAX_ROWS = 1000  # evenly spaced items that the covariance is estimated from, so that many large ones stay affordable
MIN_SPREAD, MAX_SPREAD = 0.05, 0.2  # of log amplitudes: enough to differ from the stored item, and still similar


@dataclass(frozen=True, eq=False)
class GaussianCoordinates(Coordinates):
    """Principal components in units of their shrunk standard deviations (Ledoit and Wolf), of weighted items."""

    @classmethod
    def fit_weighted(cls, features: Array, weights: Array) -> Self:
        """Coordinates of features (K, p) with these weights (K,)."""
        from scipy.linalg import svd
        from sklearn.covariance import ledoit_wolf_shrinkage

        values, kept = np.asarray(features, dtype=np.float64), np.flatnonzero(weights > 0)
        rows = kept[spaced_indices(len(kept), MAX_ROWS)]
        shares = weights[rows] / weights[rows].sum()
        mean = shares @ values[rows]
        centered = values[rows] - mean
        _, singular, directions = svd(np.sqrt(shares)[:, None] * centered, full_matrices=False)
        directions = directions[singular > singular[0] * max(centered.shape) * np.finfo(float).eps]
        if not len(directions):
            raise ValueError("the stored items are identical, so there is no variance to keep. Store different items.")
        variances = np.square(singular[: len(directions)])
        shrinkage = float(ledoit_wolf_shrinkage(centered @ directions.T, assume_centered=True))
        scale = np.sqrt((1 - shrinkage) * variances + shrinkage * variances.mean())
        inward = directions.T / scale
        stored = (values - mean) @ inward
        return cls(mean, inward, directions * scale[:, None], stored, np.linalg.norm(stored, axis=1), "whole", 1.0)

    def factors(self, beta: float = math.inf) -> Array:
        """Factors at which draws have variance 1 in each coordinate, whatever beta: (K, 1)."""
        return np.full((len(self.stored), 1), 1.0 if beta == math.inf else math.sqrt(beta))


@dataclass(frozen=True, eq=False)
class Gaussian(HopfieldGenerator):
    """One Gaussian: p_beta at a vanishing beta, with the variance of the stored items. Conditions are exact."""

    @classmethod
    def around(cls, embedding: LinearEmbedding, weights: Array) -> Self:
        """The Gaussian of the items that an embedding in `GaussianCoordinates` stores."""
        return cls.fit(embedding, weights, beta=BETA)

    @classmethod
    def of_arrays(cls, arrays: Array, weights: Array) -> Self:
        """The Gaussian of stored arrays (K, ...) with these weights (K,)."""
        coordinates = GaussianCoordinates.fit_weighted(arrays.reshape(len(arrays), -1), weights)
        return cls.around(LinearEmbedding(coordinates, arrays.shape[1:]), weights)

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n draws, each with the stored item that it is nearest to."""
        draws = super().sample(n, rng)
        assert draws.rows is not None
        return draws._replace(source=self.bank.kept[nearest_rows(draws.rows * math.sqrt(BETA), self.stored_rows)])

    def describe(self) -> Description:
        summary = f"one Gaussian with the mean and the shrunk covariance of {len(self.bank.kept)} stored items"
        return replace(super().describe(), name="gaussian", summary=summary, temperature=None)


@dataclass(frozen=True, eq=False)
class Rescaled:
    """Stored items with other amplitudes: m + a_t (x_t − m) around the mean m of an item.

    log a_t goes from one draw of N(0, spread²) at the beginning of the item, its first axis, to another at the end, so
    that items differ from the stored ones even after they are scaled to one amplitude.
    """

    stored: Array  # (K, ...)
    weights: Array  # (K,)
    items: str  # what they are called
    conditional: Generator  # the generator of draws under conditions
    limits: tuple[float, float] = (-math.inf, math.inf)  # of values

    @cached_property
    def kept(self) -> Array:
        """Indices of the items with positive weight: (K_kept,)."""
        return np.flatnonzero(self.weights > 0)

    @cached_property
    def arrays(self) -> Array:
        """The items with positive weight: (K_kept, ...)."""
        return np.asarray(self.stored[self.kept], dtype=np.float64)

    @property
    def spread(self) -> float:
        """The standard deviation of log amplitudes among the stored items, within limits."""
        amplitudes = self.arrays.reshape(len(self.arrays), -1).std(1)
        logs = np.log(amplitudes[amplitudes > 0])
        return float(np.clip(logs.std() if len(logs) else 0.0, MIN_SPREAD, MAX_SPREAD))

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n items and the stored one that each comes from. The first m of n are those that a call for m gives."""
        which, noise = rng.spawn(2)
        weights = self.weights[self.kept]
        i = pick_stratified(np.log(weights / weights.sum()), n, which)
        values = self.arrays[i]
        ones = (1,) * (values.ndim - 2)
        ends, place = noise.standard_normal((n, 2)), np.linspace(0, 1, values.shape[1])
        logs = self.spread * (ends[:, :1] * (1 - place) + ends[:, 1:] * place)
        factors, means = np.exp(logs).reshape(n, -1, *ones), values.reshape(n, -1).mean(1).reshape(n, 1, *ones)
        return Generated(np.clip(means + factors * (values - means), *self.limits), self.kept[i])

    def condition(self, observation: object) -> Generator:
        """Another generator given an observation, which an amplitude cannot meet."""
        return self.conditional.condition(observation)

    def describe(self) -> Description:
        summary = f"stored {self.items} with other amplitudes, which drift by factors of exp(±{self.spread:.2g})"
        note = f"new {self.items} are stored ones with other amplitudes. They add to training data, but not to privacy."
        return Description("rescaled", summary, (note,))
