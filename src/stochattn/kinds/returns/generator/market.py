"""The market: the component that most columns of a history follow, and the volatility of the others around each day.

Sizes |z_t| of the market have its clusters of volatility, and signs s_t = ±1 its path. New signs are drawn given the
sizes. The chain rule gives

    P(s | |z|) = Π_t P(s_t | s_1 … s_{t−1}, |z|),     logit P(s_t = 1 | …) = b₀ + |z_t| (b₁ + b₂|z_t| + b · x_t),

where x_t are sizes of later days (10 days one by one, then their mean), of earlier days, of the other components on day
t, and past returns s|z|. It is fitted to the signs of the history by maximum likelihood. At the maximum, sums of
s_t|z_t| x_t have the values of the history: the mean (b₁), the skewness (b₂), the leverage effect, by which large moves
follow a fall (later days), and autocorrelation (past returns). A few more steps fit these sums for drawn signs, whose
past returns are drawn too. A new path with these signs therefore keeps the statistics of the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...._backend.arrays import Array
from ...._backend.checks import check_choice
from ...hopfield import Coordinates
from ..description import MARKETS

MAX_JITTER = 0.2
"""The largest standard deviation of the logarithm of the size of the market in draws around a day."""
MIN_SIGNS = 20  # of a row that has only signs; with fewer, many rows would be equal
HALF_LIFE = 8.0
"""Distance in days at which a day has half the weight in the volatility around another. With 10 to 50 tickers, the mean
Gaussian log likelihood of stored days given the days around them is within 0.006 of its maximum, at 4 to 16 days."""


def with_market(day: Coordinates, history: Array, market: str, window: int) -> tuple[Coordinates, str]:
    """Coordinates of days whose first component is the market, by an orthogonal map, and the name of the market.

    The market score of a day is w · x, with equal weights w ("mean") or the first principal component ("component").
    "auto" chooses the one with the larger mean squared correlation with the columns. With two components, the market
    and one other, rows have only signs, and short windows then have no market.
    """
    check_choice("market", market, MARKETS)
    inward, outward = (np.eye(len(day.mean)) if part is None else part for part in (day.inward, day.outward))
    c = len(outward)
    if market == "none" or c < 2 or (market == "auto" and c == 2 and c * window < MIN_SIGNS):
        return replace(day, inward=inward, outward=outward), "none"
    component = np.linalg.svd(history - history.mean(0), full_matrices=False)[2][0]
    weights = {"mean": np.ones(len(day.mean)), "component": component}
    directions = {name: outward @ w for name, w in weights.items() if market in ("auto", name)}
    lengths = {name: float(np.linalg.norm(q)) for name, q in directions.items()}
    smallest = 1e-9 * float(np.linalg.norm(outward))
    directions = {name: q / lengths[name] for name, q in directions.items() if lengths[name] > smallest}
    if not directions:
        raise ValueError(f"market={market!r}: the mean of all columns never changes. Pass market='component'.")
    z = (history - day.mean) @ inward
    chosen = max(directions, key=lambda name: _explained_share(z @ directions[name], history))
    # The symmetric orthogonal matrix (c, c) whose first column is the direction or its negative.
    direction = directions[chosen]
    v = (direction if direction[0] >= 0 else -direction) - np.eye(c)[0]
    square = float(v @ v)
    R = np.eye(c) - (2 / square * np.outer(v, v) if square > 1e-24 else 0.0)
    return replace(day, inward=inward @ R, outward=R @ outward, stored=day.stored @ R), chosen


def _explained_share(scores: Array, history: Array) -> float:
    """Mean squared correlation of scores (T,) with the columns of a history (T, N) that change."""
    centered = history - history.mean(0)
    moving = np.ptp(history, axis=0) > 0
    products = np.square((scores - scores.mean()) @ centered[:, moving])
    return float(np.mean(products / (np.square(centered[:, moving]).sum(0) * np.square(scores - scores.mean()).sum())))


def surrounding_volatility(days: Array, runs: Sequence[int]) -> Array:
    """Volatility of each column (T, N) around each day, relative to its mean: (T, N), of mean square 1 on each day.

    It is the root mean square over the other days of the run, weighted by 2^(−distance / HALF_LIFE), and over all days
    with the weight of one day. The day itself has no weight, and a day without surroundings has 1 everywhere.
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


N_LATER, N_RETURNS = 10, 2
"""Numbers of later sizes and of past returns with separate coefficients. Without past returns, all days of a fall fall,
and moves over 60 days are a third too large; with means over half-lives instead, leverage is less precise."""
HALF_LIVES, LONG = (1.0, 3.0, 9.0, 27.0), 27.0
"""Half-lives in days of means of earlier sizes, and of means of later sizes and of past returns."""
PENALTY = 1.0
"""Weight of the squared coefficients of standardized terms: a normal prior of unit variance. From 0.1 to 2, leverage of
the markets of 20 tickers is as precise, over 500 or 2,766 days; at 5, a strong leverage effect in 600 days shrinks."""
N_CORRECTIONS = 3
"""Half steps of Newton's method towards the sums of the history, which maximum likelihood reaches only for past
returns of the history. The steps halve the error of leverage; with more, moves over 60 days get too small."""
MAX_STEPS, TOLERANCE = 50, 1e-10


def _next_past(past: Array, returns: Array) -> Array:
    """The past (N_RETURNS + 1, ...), returns of the last days and their mean over a long time, after one more day."""
    keep = 0.5 ** (1 / LONG)
    return np.stack([returns, *past[: N_RETURNS - 1], keep * past[-1] + (1 - keep) * returns])


@dataclass(frozen=True, eq=False)
class MarketSigns:
    """The distribution of the signs of the market, given its sizes on the days of a history."""

    scores: Array  # (T,) of the history in the market
    log_odds: Array  # (T,) of a rise, without past returns
    momentum: Array  # (N_RETURNS + 1,) coefficients of past returns

    @classmethod
    def fit(cls, scores: Array, other_sizes: Array, runs: Sequence[int], windows: Array) -> MarketSigns:
        """Fits market scores (T,), given the sizes (T,) of the other components, on runs of consecutive days.

        windows: days (n, window) of windows, in which drawn signs are fitted to the sums of the history
        """
        parts = zip(*(np.split(x, np.cumsum(runs)[:-1]) for x in (scores, other_sizes)), strict=True)
        terms = np.concatenate([_terms(z, w) for z, w in parts])
        scale = np.where((spread := terms.std(0)) > 0, spread, 1.0)
        terms /= scale
        coefficients, curvature = _regression(terms, scores > 0)
        rng, n_past = np.random.default_rng(0), N_RETURNS + 1  # a fixed seed gives the same signs each time

        def model(coefficients: Array) -> MarketSigns:
            momentum = coefficients[-n_past:] / scale[-n_past:]
            return cls(scores, terms[:, :-n_past] @ coefficients[:-n_past], momentum)

        def sums(signs: Array) -> Array:
            by_day = np.bincount(windows.ravel(), signs.ravel(), len(scores))
            returns, past = np.zeros(n_past), np.zeros((n_past, len(windows)))
            for day, sign in zip(windows.T, signs.T, strict=True):
                today = sign * np.abs(scores[day])
                returns += [today @ each for each in past]
                past = _next_past(past, today)
            return np.concatenate([by_day @ terms[:, :-n_past], returns / scale[-n_past:]]) / windows.size

        stored, steps = model(coefficients).signs[windows], [coefficients]
        for _ in range(N_CORRECTIONS):
            flipped = model(steps[-1]).draw_flips(windows, rng.random(windows.shape)) * stored
            step = np.linalg.solve(curvature, sums(stored) - sums(flipped)) * len(scores) / 4
            steps.append(steps[-1] + step)
        return model(np.mean(steps[-2:], axis=0))

    @cached_property
    def sizes(self) -> Array:
        """The size of the move of the market on each day: (T,)."""
        return np.abs(self.scores)

    @cached_property
    def signs(self) -> Array:
        """The sign of the move of the market on each day: ±1, (T,)."""
        return np.where(self.scores < 0, -1.0, 1.0)

    def draw_flips(self, days: Array, uniforms: Array, recall: float = 0.0) -> Array:
        """New signs of windows of days (n, window), times those of the history: −1 if the market is reversed.

        recall: added to the log odds of the sign of the history; at infinity, all signs are kept
        """
        from scipy.special import expit

        flips, past = np.empty(days.shape), np.zeros((N_RETURNS + 1, len(days)))
        for t, day in enumerate(days.T):
            signs = np.where(uniforms[:, t] < expit(self._log_odds(day, past, recall)), 1.0, -1.0)
            past = _next_past(past, signs * self.sizes[day])
            flips[:, t] = signs * self.signs[day]
        return flips

    def log_probabilities(self, signs: Array, days: Array, recall: float = 0.0) -> Array:
        """log P(signs | sizes) of signs (n, window) for the sizes of windows of days (K, window): (n, K)."""
        total, past = np.zeros((len(signs), len(days))), np.zeros((N_RETURNS + 1, len(signs), len(days)))
        for sign, day in zip(signs.T[:, :, None], days.T, strict=True):
            total -= np.logaddexp(0.0, -sign * self._log_odds(day, past, recall))
            past = _next_past(past, sign * self.sizes[day])
        return total

    def _log_odds(self, day: Array, past: Array, recall: float) -> Array:
        returns = sum(b * r for b, r in zip(self.momentum, past, strict=True))
        return np.asarray(self.log_odds[day] + self.sizes[day] * returns + recall * self.signs[day])


def _terms(scores: Array, other_sizes: Array) -> Array:
    """The terms of the regression for a run of days, past returns last: (T, terms)."""
    sizes, T = np.abs(scores), len(scores)
    mean = float(sizes.mean())
    later = [np.append(sizes[k:], np.full(min(k, T), mean)) for k in range(1, N_LATER + 1)]
    means = [_mean_of_earlier(sizes[::-1], LONG, mean)[::-1]]
    means += [_mean_of_earlier(sizes, half_life, mean) for half_life in HALF_LIVES]
    past, returns = np.zeros(N_RETURNS + 1), []
    for score in scores:
        returns.append(past)
        past = _next_past(past, score)
    centered = (other_sizes - other_sizes.mean(), *(each - mean for each in (*later, *means)))
    factors = np.column_stack([sizes, *centered, np.array(returns)])
    return np.column_stack([np.ones(T), sizes, sizes[:, None] * factors])


def _mean_of_earlier(values: Array, half_life: float, start: float) -> Array:
    """Exponentially weighted mean of the values (T,) before each one, `start` before the first: (T,)."""
    keep, means = 0.5 ** (1 / half_life), np.empty(len(values))
    for t, value in enumerate(values):
        means[t] = start
        start = keep * start + (1 - keep) * value
    return means


def _regression(terms: Array, is_rise: Array) -> tuple[Array, Array]:
    """Coefficients (p,) of a logistic regression on terms (n, p), penalized by squares; and the curvature."""
    from scipy.special import expit

    coefficients, penalty = np.zeros(terms.shape[1]), PENALTY * np.eye(terms.shape[1])
    for _ in range(MAX_STEPS):
        shares = np.asarray(expit(terms @ coefficients))
        curvature = (terms * (shares * (1 - shares))[:, None]).T @ terms + penalty
        step = np.linalg.solve(curvature, terms.T @ (is_rise - shares) - penalty @ coefficients)
        coefficients += step
        if np.abs(step).max() < TOLERANCE:
            break
    return coefficients, curvature
