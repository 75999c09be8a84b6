"""Regimes of volatility learned from a history, and the beta(t) that they give a sequence of days.

A fixed beta has one volatility for ever. Here a hidden regime moves by a Markov chain counted in the history, and each
regime has a beta of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import count, inverse_temperature
from ..legacy import InputError

DAYS = 5
"""Days that volatility is measured over, a week of trading: over a month, only a crash stands out as a regime."""
PSEUDO_COUNT = 1.0


class Regimes(NamedTuple):
    """Regimes by rising volatility.

    labels:     (T,) the regime of each day of the history
    volatility: (n,) root mean square of standardised returns in each regime
    transition: (n, n) probability of tomorrow's regime (columns) given today's (rows)
    """

    labels: Array
    volatility: Array
    transition: Array

    @property
    def shares(self) -> Array:
        """Share of the historical days in each regime: (n,)."""
        return np.bincount(self.labels, minlength=len(self.volatility)) / len(self.labels)

    def betas(self, beta: float) -> Array:
        """An inverse temperature for each regime, hotter where volatility is higher: (n,).

        Noise around a memory has the variance 1/beta, so variances in proportion to the regimes' ask for
        1/beta_r ∝ volatility_r². The mean of 1/beta_r over the historical days is 1/beta: the sequence is as hot as
        before on average, and differently from day to day.
        """
        variance = np.square(self.volatility)
        return inverse_temperature(beta) * float(self.shares @ variance) / variance

    def simulate(self, n_days: int, rng: np.random.Generator) -> Array:
        """A sequence of regimes, begun as the historical days are distributed: (n_days,)."""
        n_days = count("n_days", n_days)
        today = int(rng.choice(len(self.shares), p=self.shares))
        thresholds, uniforms = np.cumsum(self.transition, axis=1), rng.random(n_days)
        labels = np.empty(n_days, dtype=np.intp)
        for day in range(n_days):
            labels[day] = today
            today = min(int(np.searchsorted(thresholds[today], uniforms[day], side="right")), len(self.shares) - 1)
        return labels


def fit_regimes(log_returns: Any, n: int = 2, days: int = DAYS) -> Regimes:
    """Regimes of a history (T, N): a Gaussian mixture of the log volatility over the last days, counted day by day."""
    from sklearn.mixture import GaussianMixture

    history, n = np.asarray(log_returns, dtype=np.float64), count("n", n)
    if len(history) < max(10 * n, days + 2):
        raise InputError(f"{len(history)} days are too few for {n} regimes over {days} days each: add days.")
    squares = np.square(trailing_volatility(history, 1))
    measured = np.log(np.maximum(trailing_volatility(history, count("days", days)), 1e-6))[:, None]
    starts = np.quantile(measured, (np.arange(n) + 0.5) / n)[:, None]  # no random start: the same regimes each time
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few regimes in the history: said below, in better words
        mixture = GaussianMixture(n, means_init=starts, covariance_type="tied", random_state=0).fit(measured)
    labels = mixture.predict(measured)
    present = sorted(set(labels.tolist()), key=lambda label: float(measured[labels == label].mean()))
    if len(present) < n:
        raise InputError(f"the history shows {len(present)} regimes of volatility, not {n}: ask for fewer.")
    labels = np.array([present.index(label) for label in labels.tolist()])
    volatility = np.sqrt(np.array([max(squares[labels == r].mean(), 1e-12) for r in range(n)]))
    counts = np.full((n, n), PSEUDO_COUNT)  # a change never seen is rare, not impossible
    np.add.at(counts, (labels[:-1], labels[1:]), 1.0)
    return Regimes(labels, volatility, counts / counts.sum(1, keepdims=True))


def trailing_volatility(history: Array, days: int, runs: Sequence[int] | None = None) -> Array:
    """Root mean square of standardised returns over tickers and the last days, this one included: (T, N) -> (T,).

    runs: lengths of runs of days, so that no day looks back over a gap; one run by default
    """
    deviation = history.std(0)
    moving = deviation > 0
    squares = np.square((history[:, moving] - history[:, moving].mean(0)) / deviation[moving]).mean(1)
    total = np.concatenate(([0.0], np.cumsum(squares)))
    last = np.arange(1, len(squares) + 1)
    lengths = np.array([len(squares)] if runs is None else runs)
    first = np.maximum(last - days, np.repeat(np.cumsum(lengths) - lengths, lengths))
    return np.sqrt(np.maximum(total[last] - total[first], 0.0) / (last - first))
