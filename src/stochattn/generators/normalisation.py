"""Normalisations that all stored signals share, such as mean 0 and standard deviation 1, and that new ones then share.

Such a signal was warped before it was normalised: a plateau that lasts longer is lower. So warps of normalised signals
are compared once they are normalised again, and a new signal is shifted and scaled until it follows the rule. Signals
that follow it, among them the stored ones, stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array

MIN_SIGNALS = 5
"""Signals from which on a common statistic is a rule, and not chance."""
TOLERANCE = 1e-3
"""Largest difference of statistics that are equal, over the standard deviation of all values: files are rounded."""


MAX_VALUE = 1e100
"""Values from which on, or below one over it, squares of signals may not be floats: such signals have no rule."""


class Rule(NamedTuple):
    """What normalised signals have in common."""

    statistics: Callable[[Array], Array]  # (n, T) -> (n, s)
    applied: Callable[[Array, Array], Array]  # (n, T) and wanted statistics (n, s) or (1, s) -> (n, T)
    text: str  # with places for the statistics


def _moments(signals: Array) -> Array:
    return np.stack([signals.mean(1), signals.std(1)], axis=1)


def _extremes(signals: Array) -> Array:
    return np.stack([signals.min(1), signals.max(1)], axis=1)


def _mean(signals: Array) -> Array:
    return np.asarray(signals.mean(1, keepdims=True))


def _size(signals: Array) -> Array:
    """Root mean square: signals of norm 1 have it in common."""
    return np.sqrt(np.square(signals).mean(1, keepdims=True))


def _peak(signals: Array) -> Array:
    return np.asarray(np.abs(signals).max(1, keepdims=True))


def _times(signals: Array, wanted: Array, own: Array) -> Array:
    """Signals (n, T) times wanted (n, 1) over own (n, 1), where that is not 0."""
    return signals * np.divide(wanted, own, out=np.ones_like(own), where=own > np.finfo(float).tiny)


def _with_moments(signals: Array, wanted: Array) -> Array:
    own = _moments(signals)
    return wanted[:, :1] + _times(signals - own[:, :1], wanted[:, 1:], own[:, 1:])


def _with_extremes(signals: Array, wanted: Array) -> Array:
    own = _extremes(signals)
    return wanted[:, :1] + _times(signals - own[:, :1], np.diff(wanted), np.diff(own))


MOMENTS = Rule(_moments, _with_moments, "mean {:.3g} and standard deviation {:.3g}")
EXTREMES = Rule(_extremes, _with_extremes, "the smallest value {:.3g} and the largest {:.3g}")
AREA = Rule(_mean, lambda x, wanted: _times(x, wanted, _mean(x)), "mean {:.3g}")
SIZE = Rule(_size, lambda x, wanted: _times(x, wanted, _size(x)), "root mean square {:.3g}")
PEAK = Rule(_peak, lambda x, wanted: _times(x, wanted, _peak(x)), "largest absolute value {:.3g}")
MEAN = Rule(_mean, lambda x, wanted: x - _mean(x) + wanted, "mean {:.3g}")


class Followed(NamedTuple):
    """A rule that the stored signals follow, their statistics (1, s) and how far from these a signal may be."""

    rule: Rule
    wanted: Array
    tolerance: float


@dataclass(frozen=True, eq=False)
class Normalisation:
    """The rule of each channel of signals; None for a channel without one."""

    channels: tuple[Followed | None, ...]

    @classmethod
    def of(cls, signals: Array) -> Normalisation:
        """The first rule that all signals (K, T, C) follow, for each channel."""
        return cls(tuple(_followed(signals[:, :, c]) for c in range(signals.shape[2])))

    def applied(self, signals: Array) -> Array:
        """Signals (n, T, C) that follow the rules."""
        found = signals.copy()
        for c, known in enumerate(self.channels):
            if known is not None:
                away = (np.abs(known.rule.statistics(signals[:, :, c]) - known.wanted) > known.tolerance).any(1)
                found[away, :, c] = known.rule.applied(signals[away, :, c], known.wanted)
        return found

    def alike(self, signals: Array, others: Array) -> Array:
        """Signals (n, T, C) with the statistics of others (n, T, C), in the channels that have a rule."""
        found = signals.copy()
        for c, known in enumerate(self.channels):
            if known is not None:
                found[:, :, c] = known.rule.applied(signals[:, :, c], known.rule.statistics(others[:, :, c]))
        return found

    def describe(self) -> str:
        """What new signals have in common with the stored ones; empty where there is no rule."""
        texts = [known.rule.text.format(*known.wanted[0]) for known in self.channels if known is not None]
        if not texts:
            return ""
        where = "" if len(texts) == len(self.channels) else f" in {len(texts)} of {len(self.channels)} channels"
        what = texts[0] if len(set(texts)) == 1 else "a common normalisation"
        return f"all signals have {what}{where}, and so have new ones"


def _followed(signals: Array) -> Followed | None:
    """The first rule that signals (K, T) follow."""
    largest = float(np.abs(signals).max())
    if len(signals) < MIN_SIGNALS or not 1 / MAX_VALUE < largest < MAX_VALUE:
        return None
    tolerance = TOLERANCE * float(signals.std())
    if tolerance <= TOLERANCE**3 * largest:  # constant up to rounding
        return None
    by_sign = (AREA, SIZE, PEAK) if (signals >= 0).all() else (SIZE, PEAK, MEAN)
    for rule in (MOMENTS, EXTREMES, *by_sign):
        found = rule.statistics(signals)
        wanted = np.median(found, axis=0)
        if (np.abs(found - wanted) <= tolerance).all():
            return Followed(rule, np.where(np.abs(wanted) <= tolerance, 0.0, wanted)[None], tolerance)
    return None
