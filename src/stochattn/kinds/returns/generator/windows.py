"""Windows of days drawn from p_beta, with the lengths of days restored and marginals calibrated, and linked paths.

Links between the windows of a path continue volatility across seams, and keep the weight of every window.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, cast

import numpy as np

from ...._backend.arrays import Array
from ...._backend.checks import check_choice, check_count
from ...._backend.random import Purpose, generator
from ....core.metrics import cosine_novelty
from ....core.mixture import pick
from ...generator import Description, Generated
from ...hopfield import N_MEASURED, Coordinates, HopfieldGenerator, LinearEmbedding, LinearObservation
from ...options import NORMS
from ...regions import FeatureObservation
from ..description import MARGINALS, MARKET_PATHS, WindowOptions
from .coordinates import MAX_NUMBERS, Blocks, MarginalCalibration, WindowCoordinates
from .market import MarketSigns

TRAILING_DAYS, BANDWIDTH = 3, 0.005
"""Days over which volatility is measured, and the bandwidth of links in ranks of volatility. With a bandwidth in units
of volatility, only calmer days would be near the most volatile ones, and crises would end at the next seam."""


@dataclass(frozen=True, eq=False)
class VolatilityLinks:
    """Draws the next window of a path by ranks of volatility.

    U is the rank of window k by the volatility at its end, uniform within the interval of its weight. The next window
    has rank V by the volatility just before it, where V = U + bandwidth · noise is reflected at 0 and 1. If k is
    distributed by the weights, U and V are uniform, so the next window is distributed by the weights too: single days
    of linked paths have the same distribution as those of independent windows, and are not riskier than the history.
    """

    weights: Array  # (K,), which sum to one
    below: Array  # (K,) weight of the windows with less volatility at their ends
    order: Array  # (K,) windows, sorted by the volatility just before them
    cumulative: Array  # (K,) cumulative weights in this order
    bandwidth: float = BANDWIDTH

    @classmethod
    def of(cls, before: Array, after: Array, weights: Array, bandwidth: float = BANDWIDTH) -> VolatilityLinks:
        """Links by the volatility (K,) before and at the end of windows, which count `weights` (K,) times."""
        shares = weights / weights.sum()
        order, by_end = np.argsort(before, kind="stable"), np.argsort(after, kind="stable")
        below = np.empty(len(shares))
        below[by_end] = np.cumsum(shares[by_end]) - shares[by_end]
        return cls(shares, below, order, np.cumsum(shares[order]), bandwidth)

    @classmethod
    def fit(cls, history: Array, blocks: Blocks, weights: Array) -> VolatilityLinks:
        """Links between the windows of a history (T, N), which count `weights` (K,) times.

        The volatility of a day is the root mean square of standardized values over columns and three days of its run.
        The first window of a run has no days before it, and its own first days count.
        """
        if blocks.is_separate:
            raise ValueError("linked paths need the history in its order, not separate windows: pass link=False.")
        volatility = trailing_volatility(history, blocks)
        first, last = blocks.days[:, 0], blocks.days[:, -1]
        before, begins = volatility[first - 1], np.isin(first, blocks.run_starts)
        before[begins] = volatility[first[begins] + min(TRAILING_DAYS, blocks.window) - 1]
        return cls.of(before, volatility[last], weights)

    def draw(self, current: Array, uniforms: Array) -> Array:
        """The windows (n,) that follow these (n,), from two uniform numbers for each (n, 2)."""
        from scipy.special import ndtri

        u = self.below[current] + uniforms[:, 0] * self.weights[current]
        u = np.abs(u + self.bandwidth * ndtri(np.clip(uniforms[:, 1], 1e-12, None)))
        u = np.clip(np.where(u > 1, 2 - u, u), 0.0, np.nextafter(1.0, 0.0))
        return np.asarray(self.order[pick(self.cumulative, u)])


def trailing_volatility(history: Array, blocks: Blocks) -> Array:
    """Root mean square of standardized columns over a day and the two before it in its run: (T, N) -> (T,)."""
    deviation = history.std(0)
    moving = history[:, deviation > 0]
    squares = np.square((moving - moving.mean(0)) / deviation[deviation > 0]).mean(1)
    total = np.concatenate(([0.0], np.cumsum(squares)))
    last = np.arange(1, len(squares) + 1)
    first = np.maximum(last - TRAILING_DAYS, np.repeat(blocks.run_starts, blocks.runs))
    return np.asarray(np.sqrt(np.maximum(total[last] - total[first], 0.0) / (last - first)))


DAYS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class WindowEmbedding(LinearEmbedding):
    """Windows (n, window, N) as rows (n, window·c) and back."""

    coordinates: WindowCoordinates
    history: Array  # (T, N)
    calibrated: bool  # whether the draws of each column are mapped to the quantiles of its history
    signs: MarketSigns | None = None  # of a new path of the market; None to keep the stored path
    beta: float = math.inf  # of the draws; infinite without noise, which needs no calibration
    linear: bool = False  # whether the lengths of days are correct only on average, so that conditions are met exactly
    observed_days: tuple[int, ...] = ()  # conditioned days of a window, which keep the sign of the market
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(cls, history: Array, blocks: Blocks, options: WindowOptions) -> Self:
        """The embedding of the windows of a history (T, N)."""
        check_choice("norm", options.norm, NORMS)
        check_choice("market_path", options.market_path, MARKET_PATHS)
        check_choice("marginals", options.marginals, MARGINALS)
        # Days that separate windows share count once.
        days = np.unique(history, axis=0) if blocks.is_separate else history
        day = Coordinates.fit(days, variance=options.variance, whiten=options.whiten, norm="whole")
        note = "days have a single component and no directions: rows keep their lengths (norm 'whole')."
        norm, notes = ("whole", (note,)) if day.d == 1 else (options.norm, ())
        coordinates = WindowCoordinates.of_days(day, history, blocks, norm, options.market)
        calibrated, signs = options.marginals == "calibrated" and norm != "paper", None
        if options.market_path == "new" and coordinates.market != "none":
            z = coordinates.components
            windows = coordinates.days[coordinates.round]
            signs = MarketSigns.fit(z[:, 0], np.linalg.norm(z[:, 1:], axis=1), blocks.runs, windows)
        return cls(coordinates, (blocks.window, history.shape[1]), history, calibrated, signs, notes=notes)

    def at(self, beta: float) -> Self:
        return replace(self, beta=beta)

    @cached_property
    def calibration(self) -> MarginalCalibration | None:
        """The map from the distribution of draws at this beta to that of the history."""
        if self.beta == math.inf or not self.calibrated:
            return None
        if self.linear:
            return MarginalCalibration.from_mixture(*self.coordinates.marginals(self.beta, self.history), self.history)
        coordinates, rng = self.coordinates, np.random.default_rng(0)  # a fixed seed gives the same map each time

        def draw(windows: Array) -> Array:
            days, flips = coordinates.days[windows].ravel(), self.draw_flips(windows, rng)
            noise = rng.standard_normal((len(days), len(coordinates.outward)))
            z = coordinates.draw_days(self.beta, days, noise, flips)
            return coordinates.day_features(self._calibrate_market(z))

        return MarginalCalibration.from_draws(lambda: self._round(draw), self.history)

    @cached_property
    def market_calibration(self) -> MarginalCalibration | None:
        """The map from the market scores of draws to those of the history, because noise makes large scores larger."""
        if self.beta == math.inf or not self.calibrated or self.coordinates.market == "none":
            return None
        rng, coordinates = np.random.default_rng(0), self.coordinates

        def draw(windows: Array) -> Array:
            days, flips = coordinates.days[windows].ravel(), self.draw_flips(windows, rng)
            return (coordinates.scores(self.beta, days, rng.standard_normal(len(days))) * flips)[:, None]

        return MarginalCalibration.from_draws(lambda: self._round(draw), coordinates.components[:, :1])

    def _round(self, draw: Callable[[Array], Array]) -> Array:
        """Days drawn around windows that include all days about equally often, in blocks of windows."""
        windows = self.coordinates.round
        size = -(-DAYS_AT_ONCE // self.shape[0])
        return np.concatenate([draw(windows[i : i + size]) for i in range(0, len(windows), size)])

    @cached_property
    def recall(self) -> float:
        """The addition of beta to the log odds of the stored signs of the market: β / β_natural − 1, at least 0.

        Draws at the natural beta are as new as stored windows are to each other, and have a new path of the market. As
        beta grows, draws approach stored windows, and so does the market.
        """
        return math.inf if self.beta == math.inf else max(self.beta / self.coordinates.natural_beta - 1, 0.0)

    def _calibrate_market(self, z: Array) -> Array:
        """Coordinates of days (n, c) whose market scores are mapped to the distribution of the history."""
        if self.market_calibration is None:
            return z
        return np.concatenate([self.market_calibration(z[:, :1]), z[:, 1:]], axis=1)

    def draw_windows(self, source: Array, noise: Array, flips: Array | float) -> Array:
        """Windows (n, window, N) around the stored windows `source` (n,), from standard normal noise (n, d).

        Columns are calibrated separately, which changes the market, so days are then moved along the market to their
        scores. Days are reversed if their `flips` (n · window,) are −1.
        """
        coordinates, days = self.coordinates, self.coordinates.days[source].ravel()
        z = self._calibrate_market(coordinates.draw_days(self.beta, days, noise.reshape(len(days), -1), flips))
        new = coordinates.day_features(z)
        if self.calibration is not None:
            new = self.calibration(new)
            new = new if self.market_calibration is None else coordinates.with_score(new, z[:, 0])
        return new.reshape(len(source), *self.shape)

    def arrays(self, coordinates: Array, source: Array, rng: np.random.Generator) -> Array:
        """Coordinates (n, d) drawn around the windows `source` (n,) as windows (n, window, N)."""
        return self.decode(coordinates, source, self.coordinates.factors(self.beta, source), rng)[0]

    def decode(
        self, coordinates: Array, source: Array, factors: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Windows of coordinates (n, d), and rows (n, d); days whose market has a new sign are reversed in both."""
        rows, flips = coordinates / factors, self.draw_flips(source, rng)
        reversed_rows = self.flip(rows, flips)
        if not self.linear and self.beta < math.inf:
            noise = (rows - self.coordinates.stored[source]) * math.sqrt(self.beta)
            return self.draw_windows(source, noise, flips), reversed_rows
        new = self.coordinates.features(self.flip(coordinates, flips)).reshape(len(source), *self.shape)
        return new if self.calibration is None else self.calibration(new), reversed_rows

    def draw_flips(self, source: Array, rng: np.random.Generator) -> Array | float:
        """−1 for days of the stored windows `source` (n,) that are reversed, else 1: (n · window,), or 1 for all."""
        if self.signs is None or self.recall == math.inf:
            return 1.0
        days = self.coordinates.days[source]
        flips = self.signs.draw_flips(days, rng.random(days.shape), self.recall)
        flips[:, list(self.observed_days)] = 1.0
        return flips.ravel()

    def flip(self, rows: Array, flips: Array | float) -> Array:
        """Rows (n, d), with days reversed whose flips (n · window,) are −1."""
        return np.reshape(rows.reshape(-1, len(self.coordinates.outward)) * np.reshape(flips, (-1, 1)), rows.shape)

    def observe(self, observation: tuple[Array, Array] | FeatureObservation) -> tuple[LinearObservation, Self]:
        """Positions in flat windows (r,) and values (r,) as equations, and the linear embedding that meets them."""
        positions, values, _ = FeatureObservation(*observation)
        observed_days = np.unique(np.asarray(positions, dtype=np.intp) // self.history.shape[1])
        linear = replace(self, linear=True, observed_days=tuple(observed_days.tolist()))
        if linear.calibration is not None:
            columns = positions % self.history.shape[1]
            values = np.array([linear.calibration.inverse(*pair) for pair in zip(columns, values, strict=True)])
        return super().observe((positions, values))[0], linear

    def around(self, source: Array, rng: np.random.Generator) -> Array:
        """A new window around each of the stored windows `source` (n,): (n, window, N)."""
        signs = rng.spawn(1)[0]
        noise = rng.standard_normal((len(source), self.coordinates.d))
        return self.draw_windows(source, noise, self.draw_flips(source, signs))


@dataclass(frozen=True, eq=False)
class WindowGenerator(HopfieldGenerator):
    """Windows (n, window, N) of days, drawn from p_beta around the stored windows."""

    embedding: WindowEmbedding

    @property
    def decoder(self) -> WindowEmbedding:
        return cast(WindowEmbedding, super().decoder)

    @property
    def has_known_novelty(self) -> bool:
        """Whether draws have the novelty of p_beta; a new path of the market adds to it."""
        return super().has_known_novelty and self.embedding.signs is None

    def predicted_novelty(self) -> float:
        if self.embedding.signs is None:
            return super().predicted_novelty()
        rng = generator(0, Purpose.RULE)
        z, source, _ = self._draw_exactly(min(N_MEASURED, MAX_NUMBERS // self.embedding.coordinates.d), rng)
        rows = z / self.decoder.factors(self.beta)[source]
        rows = self.decoder.flip(rows, self.decoder.draw_flips(source, rng))
        return float(cosine_novelty(rows, self.stored_rows).mean())

    def log_density(self, features: Array) -> Array:
        """Normalized log density of rows of features (n, p), without a condition.

        With a new path of the market, this is Σ_k w_k P(signs | sizes of k) N(row; memory k with these signs, 1/beta),
        where signs are those of the row: if noise is small beside the moves of the market, others have no weight.
        """
        signs, coordinates = self.embedding.signs, self.embedding.coordinates
        if signs is None or self.observation is not None:
            return super().log_density(features)
        rows, stored = (z.reshape(len(z), coordinates.window, -1) for z in (self.embed(features), self.stored_rows))
        row_signs, stored_signs = (np.where(z[..., 0] < 0, -1.0, 1.0) for z in (rows, stored))
        log_signs = signs.log_probabilities(row_signs, coordinates.days[self.bank.kept], self.decoder.recall)
        x, m = ((z * sign[..., None]).reshape(len(z), -1) for z, sign in ((rows, row_signs), (stored, stored_signs)))
        squares = np.square(x).sum(1)[:, None] - 2 * x @ m.T + np.square(m).sum(1)
        log_weights = np.log(self.source_probabilities()[self.bank.kept])
        constant = coordinates.d / 2 * math.log(self.beta / (2 * math.pi))
        return np.asarray(np.logaddexp.reduce(log_weights + log_signs - self.beta / 2 * squares, axis=1) + constant)

    def describe(self) -> Description:
        description, coordinates = super().describe(), self.embedding.coordinates
        summary = f"windows of {coordinates.window} days from {description.summary}"
        return replace(description, name="windows", summary=summary, resolved={"market": coordinates.market})


@dataclass(frozen=True, eq=False)
class PathGenerator:
    """Paths (n, days, N) of windows that are linked by volatility, or independent without links."""

    windows: WindowGenerator
    days: int
    links: VolatilityLinks | None

    @classmethod
    def fit(cls, windows: WindowGenerator, blocks: Blocks, days: int, link: bool) -> PathGenerator:
        """Paths of this many days, from windows of a history; link: by volatility."""
        if windows.sampler != "exact":
            got = f"got sampler={windows.sampler!r}"
            raise ValueError(f"days needs exact draws of windows; {got}. Leave out sampler or days.")
        history, weights = windows.embedding.history, windows.source_probabilities()
        links = VolatilityLinks.fit(history, blocks, weights) if link else None
        return cls(windows, check_count("days", days), links)

    @property
    def numbers_per_item(self) -> int:
        return self.days * int(self.windows.embedding.history.shape[1])

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n paths; the first m of n are those of a call for m."""
        n_windows = -(-self.days // self.windows.embedding.coordinates.window)
        cumulative = np.cumsum(self.windows.source_probabilities())
        which, noise = rng.spawn(2)
        parts, source = [], None
        uniforms = which.random((n, n_windows, 2)).swapaxes(0, 1)
        for u, stream in zip(uniforms, noise.spawn(n_windows), strict=True):
            source = pick(cumulative, u[:, 0]) if self.links is None or source is None else self.links.draw(source, u)
            parts.append(self.windows.decoder.around(source, stream))
        return Generated(np.concatenate(parts, axis=1)[:, : self.days], None)

    def condition(self, observation: object) -> PathGenerator:
        raise ValueError("conditions hold within one stored window: leave out days.")

    def describe(self) -> Description:
        description, how = self.windows.describe(), "independent" if self.links is None else "linked by volatility"
        return replace(description, summary=f"paths of {self.days} days, {how} {description.summary}")
