"""Paths longer than a window: windows strung together so that volatility carries over the seams."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import count, positive
from ..legacy import InputError
from .codec import ReturnsCodec
from .regimes import trailing_volatility

MEMORY_DAYS = 3
BANDWIDTH = 0.005
"""In ranks, as a share of all: a window half a percent of all windows away, in the order of volatility, weighs exp(−½).

Ranks rather than volatilities: among the few violent days a fixed difference of volatility finds calmer company only,
and crises would end at the next seam. Ranks keep the share of violent windows in long paths as it is in the history.
"""


def chain_windows(
    codec: ReturnsCodec,
    beta: float,
    n_paths: int,
    n_days: int,
    rng: np.random.Generator,
    *,
    linked: bool = True,
    weights: Any = None,
    bandwidth: float = BANDWIDTH,
    memory_days: int = MEMORY_DAYS,
) -> Array:
    """Paths of log-returns (n_paths, n_days, N), made of windows drawn at beta.

    The next window is drawn around memory k' with probability ∝ weights_k' exp(−(v − v_k')² / 2 bandwidth²): attention
    on volatility. v is the rank of the volatility at the end of the current window, v_k' that of the days just before
    window k' in the history, both over `memory_days` days. Draws keep the lengths of their memories' days, so v is
    read from the history too. With linked=False windows are independent, and volatility forgets itself at each seam.
    Each path has numbers of its own: the first m of n paths are the m paths that a shorter call gives.

    codec:   calibrated or projecting, if it is to be: `codec.at(beta)`
    weights: (K,) of the memories; equal by default
    """
    n_paths, n_days = count("n_paths", n_paths), count("n_days", n_days)
    weights = np.ones(codec.K) if weights is None else np.asarray(weights, dtype=np.float64)
    if linked:
        before, after = volatilities(codec, memory_days)
        positive("bandwidth", bandwidth, "It is a share of all windows; 0.005 is usual.")
        follow = Followers(before, np.where(np.isnan(before), 0.0, weights), bandwidth)
    window = codec.options.window
    n_windows, cumulative = -(-n_days // window), np.cumsum(weights)
    which, noise = rng.spawn(2)
    uniforms = which.random((n_paths, n_windows))
    paths = np.empty((n_paths, n_windows * window, len(codec.tickers)))
    k = np.searchsorted(cumulative, uniforms[:, 0] * cumulative[-1], side="right")
    for i, own in enumerate(noise.spawn(n_windows)):
        if i and linked:
            k = follow.draw(after[k], uniforms[:, i])
        elif i:
            k = np.searchsorted(cumulative, uniforms[:, i] * cumulative[-1], side="right")
        paths[:, i * window : (i + 1) * window] = codec.items(codec.around(k, beta, own), k, own)
    return paths[:, :n_days]


class Followers:
    """Draws the window that follows a state of volatility."""

    def __init__(self, before: Array, weights: Array, bandwidth: float) -> None:
        """Windows by the rank of the volatility before them (K,), their weights (K,), how close a match must be."""
        if not weights.any():
            raise InputError("no window is left that has days before it: keep more of the history.")
        self._before, self._bandwidth = np.where(weights > 0, before, 0.0), bandwidth
        with np.errstate(divide="ignore"):
            self._log_weights = np.log(weights)

    def draw(self, volatility: Array, uniforms: Array) -> Array:
        """A window for each of the states, by a uniform number for each: (n,), (n,) -> (n,)."""
        logits = self._log_weights - np.square((volatility[:, None] - self._before) / self._bandwidth) / 2
        cumulative = np.cumsum(np.exp(logits - logits.max(1, keepdims=True)), axis=1)
        return (cumulative <= uniforms[:, None] * cumulative[:, -1:]).sum(1)


def volatilities(codec: ReturnsCodec, memory_days: int = MEMORY_DAYS) -> tuple[Array, Array]:
    """Rank of the volatility before each stored window (NaN where there is none), and at its end: (K,), (K,).

    Days before a window are those of the history: a window that begins a run has none, whatever lies across the gap.
    """
    blocks = codec.blocks
    if blocks.step >= max(blocks.runs):
        raise InputError("linked paths need the history in its order: this codec was fitted on separate windows.")
    volatility = trailing_volatility(codec.history, count("memory_days", memory_days), blocks.runs)
    ranks: Array = np.searchsorted(np.sort(volatility), volatility) / len(volatility)
    days = blocks.days
    before = np.where(np.isin(days[:, 0], blocks.run_starts), np.nan, ranks[days[:, 0] - 1])
    return before, ranks[days[:, -1]]
