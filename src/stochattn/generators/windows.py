"""Windows of days drawn from p_beta, with the lengths of days restored and marginals calibrated, and paths of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from .._backend.arrays import Array
from .._backend.checks import count, one_of
from ..core.mixture import pick
from .base import Description, Generated
from .calibration import Calibration
from .coordinates import NORMS, Coordinates
from .hopfield import Hopfield, LinearEmbedding, LinearObservation
from .restriction import FeatureObservation
from .window_coordinates import Blocks, WindowCoordinates
from .window_links import VolatilityLinks

MARGINALS = ("calibrated", "free")
MIN_DAYS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class WindowEmbedding(LinearEmbedding):
    """Windows (n, window, N) as rows (n, window·c) and back."""

    coordinates: WindowCoordinates
    history: Array  # (T, N)
    calibrated: bool  # whether each column's draws are mapped to the quantiles of its history
    beta: float = math.inf  # of the draws; infinite without noise, which needs no calibration
    linear: bool = False  # whether the lengths of days are right on average only, so that conditions are met exactly
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        history: Array,
        blocks: Blocks,
        *,
        variance: float | None,
        whiten: bool,
        norm: str,
        marginals: str,
        market: str = "auto",
    ) -> Self:
        """The embedding of the windows of a history (T, N); options as in `Coordinates.fit` and `with_market`."""
        one_of("norm", norm, NORMS)
        one_of("marginals", marginals, MARGINALS)
        # Separate windows may share days, which would count several times.
        days = np.unique(history, axis=0) if blocks.is_separate else history
        day = Coordinates.fit(days, variance=variance, whiten=whiten, norm="whole")
        single = "days have a single component and no directions: rows keep their lengths (norm 'whole')."
        norm, notes = ("whole", (single,)) if day.d == 1 else (norm, ())
        coordinates = WindowCoordinates.of_days(day, history, blocks, norm, market)
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
        rng, c = np.random.default_rng(0), len(self.coordinates.outward)  # a stream of its own: the same map each time

        def draw() -> Array:
            z = self.coordinates.turned(self.beta, self._days, rng.standard_normal((len(self._days), c)))
            return self.coordinates.day_features(self._with_market_law(z))

        return Calibration.from_draws(draw, self.history)

    @cached_property
    def market_calibration(self) -> Calibration | None:
        """From the scores of draws in the market to those of the history, since noise makes large ones larger."""
        if self.beta == math.inf or not self.calibrated or self.coordinates.market == "none":
            return None
        rng, coordinates = np.random.default_rng(0), self.coordinates

        def draw() -> Array:
            return coordinates.scores(self.beta, self._days, rng.standard_normal(len(self._days)))[:, None]

        return Calibration.from_draws(draw, coordinates.each.components[:, :1])

    @property
    def _days(self) -> Array:
        """Indices of all days, repeated up to the number that is drawn at a time."""
        n_days = len(self.history)
        return np.tile(np.arange(n_days), max(MIN_DAYS_AT_ONCE // n_days, 1))

    def _with_market_law(self, z: Array) -> Array:
        """Coordinates of days (n, c) whose scores in the market have the law of the history."""
        if self.market_calibration is None:
            return z
        return np.concatenate([self.market_calibration(z[:, :1]), z[:, 1:]], axis=1)

    def drawn(self, source: Array, noise: Array) -> Array:
        """Windows (n, window, N) around the stored windows `source` (n,), of standard normal noise (n, d).

        Columns are calibrated one by one. That changes what they are together, and so the days are then moved along the
        market to their scores in it.
        """
        coordinates = self.coordinates
        days = coordinates.days[source].ravel()
        z = self._with_market_law(coordinates.turned(self.beta, days, noise.reshape(len(days), -1)))
        new = coordinates.day_features(z)
        if self.calibration is not None:
            new = self.calibration(new)
            new = new if self.market_calibration is None else coordinates.with_score(new, z[:, 0])
        return new.reshape(len(source), *self.shape)

    def arrays(self, coordinates: Array, source: Array, rng: np.random.Generator) -> Array:
        """Coordinates (n, d) drawn around the windows `source` (n,) as windows (n, window, N)."""
        if not self.linear and self.beta < math.inf:
            rows = coordinates / self.coordinates.factors(self.beta, source)
            return self.drawn(source, (rows - self.coordinates.stored[source]) * math.sqrt(self.beta))
        new = super().arrays(coordinates, source, rng)
        return new if self.calibration is None else self.calibration(new)

    def observe(self, observation: tuple[Array, Array] | FeatureObservation) -> tuple[LinearObservation, Self]:
        """Positions in flat windows (r,) and values (r,) as equations, and the linear embedding that meets them."""
        linear = replace(self, linear=True)
        positions, values, _ = FeatureObservation(*observation)
        if linear.calibration is not None:
            columns = positions % self.history.shape[1]
            values = np.array([linear.calibration.inverse(*one) for one in zip(columns, values, strict=True)])
        return super().observe((positions, values))[0], linear

    def around(self, source: Array, rng: np.random.Generator) -> Array:
        """A new window around each of the stored windows `source` (n,): (n, window, N)."""
        return self.drawn(source, rng.standard_normal((len(source), self.coordinates.d)))


@dataclass(frozen=True, eq=False)
class WindowGenerator(Hopfield):
    """Windows (n, window, N) of days, drawn from p_beta around the stored windows."""

    embedding: WindowEmbedding

    def describe(self) -> Description:
        """The length of windows, the temperature and the sampler."""
        about, coordinates = super().describe(), self.embedding.coordinates
        summary = f"windows of {coordinates.window} days from {about.summary}"
        return replace(about, name="windows", summary=summary, resolved={"market": coordinates.market})


@dataclass(frozen=True, eq=False)
class PathGenerator:
    """Paths (n, days, N), made of windows that are linked by volatility, or independent without links."""

    windows: WindowGenerator
    embedding: WindowEmbedding
    days: int
    links: VolatilityLinks | None

    @classmethod
    def fit(cls, windows: WindowGenerator, blocks: Blocks, days: int, link: bool) -> PathGenerator:
        """Paths of this many days, from windows of a history; link: by volatility."""
        if windows.sampler != "exact":
            found = f"got sampler={windows.sampler!r}"
            raise ValueError(f"days needs exact draws of windows; {found}. Leave out sampler or days.")
        embedding, weights = windows.embedding.at(windows.beta), windows.source_probabilities()
        links = VolatilityLinks.fit(embedding.history, blocks, weights) if link else None
        return cls(windows, embedding, count("days", days), links)

    @property
    def numbers_per_item(self) -> int:
        """Numbers of a path."""
        return self.days * int(self.embedding.history.shape[1])

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n paths. Each has random numbers of its own: the first m of n are the m paths that a shorter call gives."""
        n_windows = -(-self.days // self.embedding.coordinates.window)
        cumulative = np.cumsum(self.windows.source_probabilities())
        which, noise = rng.spawn(2)
        parts, source = [], None
        uniforms = which.random((n, n_windows, 2)).swapaxes(0, 1)
        for u, own in zip(uniforms, noise.spawn(n_windows), strict=True):
            source = pick(cumulative, u[:, 0]) if self.links is None or source is None else self.links.draw(source, u)
            parts.append(self.embedding.around(source, own))
        return Generated(np.concatenate(parts, axis=1)[:, : self.days], None)

    def condition(self, observation: object) -> PathGenerator:
        """Paths take no conditions."""
        raise ValueError("conditions hold within one stored window: leave out days.")

    def describe(self) -> Description:
        """The length of paths, and the law of their windows."""
        about, how = self.windows.describe(), "independent" if self.links is None else "linked by volatility"
        return replace(about, summary=f"paths of {self.days} days, {how} {about.summary}")
