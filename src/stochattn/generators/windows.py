"""Windows of days drawn from p_beta, with the lengths of days restored and marginals calibrated, and paths of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self

import numpy as np

from .._backend.arrays import Array
from .._backend.checks import count, one_of
from ..core.mixture import pick
from .base import Description, Generated
from .coordinates import NORMS, Coordinates
from .hopfield import Hopfield, LinearEmbedding, LinearObservation
from .restriction import FeatureObservation
from .window_coordinates import Blocks, Calibration, WindowCoordinates

MARGINALS = ("calibrated", "free")
MIN_DAYS_AT_ONCE = 8192
TRAILING_DAYS, BANDWIDTH = 3, 0.005
"""Days that volatility is measured on, and the bandwidth of links in ranks of volatility. Within a given difference of
volatility the most volatile days have only calmer ones, and crises would end at the next seam; ranks prevent that."""


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
        cls, history: Array, blocks: Blocks, variance: float | None, whiten: bool, norm: str, marginals: str
    ) -> Self:
        """The embedding of the windows of a history (T, N); options as in `Coordinates.fit`, for days."""
        one_of("norm", norm, NORMS)
        one_of("marginals", marginals, MARGINALS)
        # Separate windows may share days, which would count several times.
        days = np.unique(history, axis=0) if blocks.is_separate else history
        day = Coordinates.fit(days, variance=variance, whiten=whiten, norm="whole")
        single = "days have a single component and no directions: rows keep their lengths (norm 'whole')."
        norm, notes = ("whole", (single,)) if day.d == 1 else (norm, ())
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
        rows = self.coordinates.stored[source]
        rows = rows + rng.standard_normal(rows.shape) / np.sqrt(self.beta)
        return self.arrays(rows * self.coordinates.factors(self.beta, source), source, rng)


@dataclass(frozen=True, eq=False)
class WindowGenerator(Hopfield):
    """Windows (n, window, N) of days, drawn from p_beta around the stored windows."""

    embedding: WindowEmbedding

    def describe(self) -> Description:
        """The length of windows, the temperature and the sampler."""
        about, window = super().describe(), self.embedding.coordinates.window
        return replace(about, name="windows", summary=f"windows of {window} days from {about.summary}")


@dataclass(frozen=True, eq=False)
class VolatilityLinks:
    """Draws the next window of a path by attention on volatility, which so continues across the seams.

    Window k' follows k with probability ∝ weights_k' exp(−(after_k − before_k')² / 2 bandwidth²): ranks of the
    volatility (K,) at the end of window k, and just before window k' in the history, whose lengths draws have.
    """

    before: Array
    after: Array
    log_weights: Array
    bandwidth: float = BANDWIDTH

    @classmethod
    def fit(cls, history: Array, blocks: Blocks, weights: Array) -> VolatilityLinks:
        """Links between the windows of a history (T, N), which count `weights` (K,) times.

        The volatility of a day is the root mean square of standardised values over columns and three days of its run.
        """
        if blocks.is_separate:
            raise ValueError("linked paths need the history in its order, not separate windows: pass link=False.")
        deviation = history.std(0)
        moving = history[:, deviation > 0]
        squares = np.square((moving - moving.mean(0)) / deviation[deviation > 0]).mean(1)
        total = np.concatenate(([0.0], np.cumsum(squares)))
        last = np.arange(1, len(squares) + 1)
        first = np.maximum(last - TRAILING_DAYS, np.repeat(blocks.run_starts, blocks.runs))
        volatility = np.sqrt(np.maximum(total[last] - total[first], 0.0) / (last - first))
        ranks = np.searchsorted(np.sort(volatility), volatility) / len(volatility)
        begin, end = blocks.days[:, 0], blocks.days[:, -1]
        weights = np.where(np.isin(begin, blocks.run_starts), 0.0, weights)
        if not weights.any():
            raise ValueError("no window is left that has days before it: select more of the history.")
        with np.errstate(divide="ignore"):
            return cls(np.where(weights > 0, ranks[begin - 1], 0.0), ranks[end], np.log(weights))

    def draw(self, current: Array, uniforms: Array) -> Array:
        """The window after each of these, by a uniform number for each: (n,), (n,) -> (n,)."""
        distance = (self.after[current][:, None] - self.before) / self.bandwidth
        logits = self.log_weights - np.square(distance) / 2
        cumulative = np.cumsum(np.exp(logits - logits.max(1, keepdims=True)), axis=1)
        return (cumulative <= uniforms[:, None] * cumulative[:, -1:]).sum(1)


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
        for u, own in zip(which.random((n, n_windows)).T, noise.spawn(n_windows), strict=True):
            source = pick(cumulative, u) if self.links is None or source is None else self.links.draw(source, u)
            parts.append(self.embedding.around(source, own))
        return Generated(np.concatenate(parts, axis=1)[:, : self.days], None)

    def condition(self, observation: object) -> PathGenerator:
        """Paths take no conditions."""
        raise ValueError("conditions hold within one stored window: leave out days.")

    def describe(self) -> Description:
        """The length of paths, and the law of their windows."""
        about, how = self.windows.describe(), "independent" if self.links is None else "linked by volatility"
        return replace(about, summary=f"paths of {self.days} days, {how} {about.summary}")
