"""Links between the windows of a path: volatility continues across seams, and every window keeps its weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._backend.arrays import Array
from ..core.mixture import pick
from .window_coordinates import Blocks

TRAILING_DAYS, BANDWIDTH = 3, 0.005
"""Days that volatility is measured on, and the bandwidth of links in ranks of volatility. Within a given difference of
volatility the most volatile days have only calmer ones, and crises would end at the next seam; ranks prevent that."""


@dataclass(frozen=True, eq=False)
class VolatilityLinks:
    """Draws the next window of a path by ranks of volatility.

    U is the rank of window k by the volatility at its end, uniform within the interval of its weight. The next window
    is the one at rank V by the volatility just before it, where V = U + bandwidth · noise is reflected at 0 and 1. If k
    has the law of the weights, U and V are uniform, and so the next window has the law of the weights too: linked paths
    have the same law of single days as independent windows, and are no riskier than the history.
    """

    weights: Array  # (K,), adding up to one
    below: Array  # (K,) weight of the windows with less volatility at their ends
    order: Array  # (K,) windows by the volatility just before them
    cumulative: Array  # (K,) their weights in this order, added up
    bandwidth: float = BANDWIDTH

    @classmethod
    def of(cls, before: Array, after: Array, weights: Array, bandwidth: float = BANDWIDTH) -> VolatilityLinks:
        """Links by the volatility (K,) before and at the end of windows, which count `weights` (K,) times."""
        shares = weights / weights.sum()
        # equivalent: windows of equal volatility may come in any order
        order, by_end = np.argsort(before, kind="stable"), np.argsort(after, kind="stable")
        below = np.empty(len(shares))
        below[by_end] = np.cumsum(shares[by_end]) - shares[by_end]
        return cls(shares, below, order, np.cumsum(shares[order]), bandwidth)

    @classmethod
    def fit(cls, history: Array, blocks: Blocks, weights: Array) -> VolatilityLinks:
        """Links between the windows of a history (T, N), which count `weights` (K,) times.

        The volatility of a day is the root mean square of standardised values over columns and three days of its run.
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
        """The window after each of these (n,), by two uniform numbers for each (n, 2): (n,)."""
        from scipy.special import ndtri

        u = self.below[current] + uniforms[:, 0] * self.weights[current]
        u = np.abs(u + self.bandwidth * ndtri(np.clip(uniforms[:, 1], 1e-12, None)))
        u = np.clip(np.where(u > 1, 2 - u, u), 0.0, np.nextafter(1.0, 0.0))
        return np.asarray(self.order[pick(self.cumulative, u)])


def trailing_volatility(history: Array, blocks: Blocks) -> Array:
    """Root mean square of standardised columns over a day and the two before it in its run: (T, N) -> (T,)."""
    deviation = history.std(0)
    moving = history[:, deviation > 0]
    squares = np.square((moving - moving.mean(0)) / deviation[deviation > 0]).mean(1)
    total = np.concatenate(([0.0], np.cumsum(squares)))
    last = np.arange(1, len(squares) + 1)
    first = np.maximum(last - TRAILING_DAYS, np.repeat(blocks.run_starts, blocks.runs))
    return np.asarray(np.sqrt(np.maximum(total[last] - total[first], 0.0) / (last - first)))
