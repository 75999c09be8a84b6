"""The law of windows of days: p_beta over window rows, every day's length restored, marginals calibrated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import one_of
from ..base import Description
from ..coordinates import NORMS, Coordinates
from ..hopfield import Hopfield, LinearEmbedding, LinearObservation
from .blocks import Blocks
from .calibration import Calibration
from .coordinates import WindowCoordinates

MARGINALS = ("calibrated", "free")
MIN_DAYS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class WindowEmbedding(LinearEmbedding):
    """Windows (n, window, N) as rows (n, window·c) and back.

    calibrated: whether each column's draws are mapped to the quantiles of its history (T, N)
    beta:       of the draws; infinite without noise, which needs no calibration
    linear:     whether the lengths of days are right on average only, so that conditions are met exactly
    """

    coordinates: WindowCoordinates
    history: Array
    calibrated: bool
    beta: float = math.inf
    linear: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls, history: Array, blocks: Blocks, variance: float | None, whiten: bool, norm: str, marginals: str
    ) -> WindowEmbedding:
        """The embedding of the windows of a history (T, N); options as in `Coordinates.fit`, for days."""
        one_of("norm", norm, NORMS)
        one_of("marginals", marginals, MARGINALS)
        # Separate windows may share days, which would count several times.
        days = np.unique(history, axis=0) if blocks.is_separate else history
        day = Coordinates.fit(days, variance=variance, whiten=whiten, norm="whole")
        notes: tuple[str, ...] = ()
        if day.d == 1:
            norm = "whole"
            notes = ("days have a single component and no directions: rows keep their lengths (norm 'whole').",)
        coordinates = WindowCoordinates.of_days(day, history, blocks, norm)
        calibrated = marginals == "calibrated" and norm != "paper"
        return cls(coordinates, (blocks.window, history.shape[1]), history, calibrated, notes=notes)

    def at(self, beta: float) -> Self:
        """The embedding for draws at this beta."""
        return replace(self, beta=beta)

    @cached_property
    def calibration(self) -> Calibration | None:
        """From the law of draws at this beta to the history."""
        if self.beta == math.inf or not self.calibrated:
            return None
        if self.linear:
            return Calibration.from_mixture(*self.coordinates.marginals(self.beta, self.history), self.history)
        rng = np.random.default_rng(0)  # a stream of its own: the same map each time
        days = np.tile(self.history, (max(MIN_DAYS_AT_ONCE // len(self.history), 1), 1))
        return Calibration.from_draws(partial(self.coordinates.sample_days, self.beta, days, rng), self.history)

    def arrays(self, coordinates: Array, source: Array, rng: np.random.Generator) -> Array:
        """Coordinates (n, d) drawn around the windows `source` (n,) as windows (n, window, N)."""
        z = coordinates if self.linear else self.coordinates.with_lengths(coordinates, source)
        draws = super().arrays(z, source, rng)
        return draws if self.calibration is None else self.calibration(draws)

    def observe(self, observation: tuple[Array, Array]) -> tuple[LinearObservation, Self]:
        """Positions in flat windows (r,) and values (r,) as equations, and the linear embedding that meets them."""
        linear = replace(self, linear=True)
        positions, values = observation
        if linear.calibration is not None:
            columns = positions % self.history.shape[1]
            values = np.array([linear.calibration.inverse(*one) for one in zip(columns, values, strict=True)])
        return super().observe((positions, values))[0], linear

    def around(self, source: Array, beta: float, rng: np.random.Generator) -> Array:
        """A new window around each of the stored windows `source` (n,): (n, window, N)."""
        rows = self.coordinates.stored[source]
        rows = rows + rng.standard_normal(rows.shape) / np.sqrt(beta)
        return self.arrays(rows * self.coordinates.factors(beta, source), source, rng)


@dataclass(frozen=True, eq=False)
class WindowGenerator(Hopfield):
    """Windows (n, window, N) of days, drawn from p_beta around the stored windows."""

    embedding: WindowEmbedding

    def describe(self) -> Description:
        """The length of windows, the temperature and the sampler."""
        about = super().describe()
        window = self.embedding.coordinates.window
        return replace(about, name="windows", summary=f"windows of {window} days from {about.summary}")
