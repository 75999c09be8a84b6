"""Paths longer than a window: windows one after the other, linked so that volatility continues across the seams."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import count
from ...core.mixture import pick
from ..base import Description, Generated
from .blocks import Blocks
from .generator import WindowGenerator

TRAILING_DAYS = 3
BANDWIDTH = 0.005
"""In ranks of volatility, as a share of all. Near the few most volatile days there are only calmer ones within a given
difference of volatility, and crises would end at the next seam; ranks preserve the share of volatile windows."""


@dataclass(frozen=True, eq=False)
class VolatilityLinks:
    """Draws the next window of a path by attention on volatility.

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

        The volatility of a day is the root mean square of standardised values over columns and the last days, this one
        included. It looks back within its run, and a window that begins a run has no days before it.
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
    days: int
    links: VolatilityLinks | None

    @classmethod
    def fit(cls, windows: WindowGenerator, blocks: Blocks, days: int, link: bool) -> PathGenerator:
        """Paths of this many days, from windows of a history; link: by volatility."""
        if windows.model.sampler != "exact":
            raise ValueError(
                f"days needs exact draws of windows; got sampler={windows.model.sampler!r}. Leave out sampler or days."
            )
        weights, history = windows.source_probabilities(), windows.embedding.history
        return cls(windows, count("days", days), VolatilityLinks.fit(history, blocks, weights) if link else None)

    @property
    def numbers_per_item(self) -> int:
        """Numbers of a path."""
        return self.days * int(self.windows.embedding.history.shape[1])

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n paths. Each has random numbers of its own: the first m of n are the m paths that a shorter call gives."""
        embedding = self.windows.embedding
        n_windows = -(-self.days // embedding.coordinates.window)
        cumulative = np.cumsum(self.windows.source_probabilities())
        which, noise = rng.spawn(2)
        uniforms = which.random((n, n_windows)).T
        sources = [pick(cumulative, uniforms[0])]
        for u in uniforms[1:]:
            sources.append(pick(cumulative, u) if self.links is None else self.links.draw(sources[-1], u))
        streams = zip(sources, noise.spawn(n_windows), strict=True)
        parts = [embedding.around(source, self.windows.beta, own) for source, own in streams]
        return Generated(np.concatenate(parts, axis=1)[:, : self.days], None)

    def condition(self, observation: object) -> PathGenerator:
        """Paths take no conditions."""
        raise ValueError("conditions hold within one stored window: leave out days.")

    def describe(self) -> Description:
        """The length of paths, and the law of their windows."""
        about = self.windows.describe()
        how = "independent" if self.links is None else "linked by volatility"
        return replace(about, summary=f"paths of {self.days} days, {how} {about.summary}")
