"""The market: the component that most columns of a history follow, and the volatility of the rest around each day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._backend.arrays import Array
from .._backend.checks import one_of
from .coordinates import Coordinates

MARKETS = ("auto", "mean", "component", "none")
MAX_JITTER = 0.2
"""The largest standard deviation of the logarithm of the market's size in draws around a day."""
MIN_SIGNS = 20
"""Signs in a row without other numbers, below which many rows would be equal."""
HALF_LIFE = 8.0
"""Days after which a day counts half in the volatility around another. With 10 to 50 tickers, the mean Gaussian log
likelihood of stored days given the days around them is within 0.006 of its maximum, which lies at 4 to 16 days."""


def with_market(day: Coordinates, history: Array, market: str, window: int) -> tuple[Coordinates, str]:
    """Coordinates of days whose first component is the market, by an orthogonal map; and which market it is.

    The score of a day in the market is w · x, with equal weights w ("mean") or the first principal component
    ("component"). "auto" takes the one that explains more of the columns: the mean squared correlation with them. Two
    components are a market and a single other one, and rows hold nothing but signs: short windows then have no market.
    """
    one_of("market", market, MARKETS)
    inward, outward = (np.eye(len(day.mean)) if part is None else part for part in (day.inward, day.outward))
    c = len(outward)
    if market == "none" or c < 2 or (market == "auto" and c == 2 and c * window < MIN_SIGNS):
        return replace(day, inward=inward, outward=outward), "none"
    weights = {"mean": np.ones(len(day.mean)), "component": _first_component(history)}
    directions = {name: outward @ w for name, w in weights.items() if market in ("auto", name)}
    lengths = {name: float(np.linalg.norm(q)) for name, q in directions.items()}
    smallest = 1e-9 * float(np.linalg.norm(outward))
    directions = {name: q / lengths[name] for name, q in directions.items() if lengths[name] > smallest}
    if not directions:
        raise ValueError(f"market={market!r}: the mean of all columns never changes. Pass market='component'.")
    z = (history - day.mean) @ inward
    chosen = max(directions, key=lambda name: _explained(z @ directions[name], history))
    R = _reflection(directions[chosen])
    return replace(day, inward=inward @ R, outward=R @ outward, stored=day.stored @ R), chosen


def _first_component(history: Array) -> Array:
    """The direction of largest variance of a history (T, N): (N,)."""
    _, _, directions = np.linalg.svd(history - history.mean(0), full_matrices=False)  # equivalent: the same first one
    return np.asarray(directions[0])


def _explained(scores: Array, history: Array) -> float:
    """Mean squared correlation of scores (T,) with the columns of a history (T, N) that change."""
    centred = history - history.mean(0)
    moving = np.ptp(history, axis=0) > 0
    products = np.square((scores - scores.mean()) @ centred[:, moving])
    return float(np.mean(products / (np.square(centred[:, moving]).sum(0) * np.square(scores - scores.mean()).sum())))


def _reflection(direction: Array) -> Array:
    """The symmetric orthogonal matrix (c, c) whose first column is this unit vector (c,) or its negative."""
    first = np.eye(len(direction))[0]
    v = (direction if direction[0] >= 0 else -direction) - first  # equivalent: either sign will do
    square = float(v @ v)
    return np.eye(len(v)) - (2 / square * np.outer(v, v) if square > 1e-24 else 0.0)


def surrounding_volatility(days: Array, runs: Sequence[int]) -> Array:
    """Volatility of each column (T, N) around each day, relative to its mean: (T, N), of mean square 1 on each day.

    A root mean square over the other days of the run, weighted by 2^(−distance / HALF_LIFE), and over all days with the
    weight of one day. A day does not count itself, and a day without surroundings has 1 everywhere.
    """
    squares, decay = np.square(days), 0.5 ** (1 / HALF_LIFE)
    sums, weights = np.zeros_like(squares), np.zeros(len(squares))
    first = np.cumsum((0, *runs[:-1]))
    for start, run in zip(first, runs, strict=True):
        for order in (range(start, start + run), range(start + run - 1, start - 1, -1)):
            total, weight = np.zeros(squares.shape[1]), 0.0
            for t in order:
                sums[t] += total
                weights[t] += weight
                total, weight = decay * (total + squares[t]), decay * (weight + 1)
    mean = squares.mean(0)
    ratio = (sums + mean) / (np.where(mean > 0, mean, 1.0) * (weights + 1)[:, None])
    ratio[:, mean <= 0] = 1.0
    return np.asarray(np.sqrt(ratio / ratio.mean(1, keepdims=True)))
