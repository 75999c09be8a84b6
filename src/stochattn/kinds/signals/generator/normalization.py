"""Normalizations that all stored signals share, such as mean 0 and standard deviation 1, and that new ones then share.

Such a signal was warped before it was normalized: a plateau that lasts longer is lower. So warps of normalized signals
are compared once they are normalized again, and a new signal is shifted and scaled until it follows the rule. Signals
that follow it, among them the stored ones, stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array

MIN_SIGNALS = 5
"""Signals from which on a common statistic is a rule, and not chance."""
TOLERANCE = 1e-3
"""Largest difference of statistics that are equal, over the standard deviation of all values: files are rounded."""
MAX_VALUE, MIN_SHARE = 1e100, 1e-9
"""Signals whose largest absolute value is not between 1 / MAX_VALUE and MAX_VALUE have no rule: their squares may
overflow. A statistic below MIN_SHARE of the largest absolute value of a signal is a rounding error: it divides none."""


class Rule(NamedTuple):
    """What normalized signals have in common."""

    statistics: Callable[[Array], Array]  # (n, T) -> (n, s)
    applied: Callable[[Array, Array], Array]  # (n, T) and wanted statistics (n, s) or (1, s) -> (n, T)
    text: str  # with places for the statistics, and for the sum and the norm that they mean


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


def _factors(signals: Array, wanted: Array, own: Array) -> Array:
    """Wanted (n, 1) over own (n, 1) statistics of signals (n, T); 1 where these are 0 up to rounding."""
    return np.divide(wanted, own, out=np.ones_like(own), where=own > MIN_SHARE * _peak(signals))


def _scaled(statistic: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """Signals (n, T) that are scaled to wanted statistics (n, 1)."""
    return lambda signals, wanted: signals * _factors(signals, wanted, statistic(signals))


def _with_moments(signals: Array, wanted: Array) -> Array:
    own = _moments(signals)
    return wanted[:, :1] + (signals - own[:, :1]) * _factors(signals, wanted[:, 1:], own[:, 1:])


def _with_extremes(signals: Array, wanted: Array) -> Array:
    own = _extremes(signals)
    return wanted[:, :1] + (signals - own[:, :1]) * _factors(signals, np.diff(wanted), np.diff(own))


MOMENTS = Rule(_moments, _with_moments, "mean {:.3g} and standard deviation {:.3g}")
EXTREMES = Rule(_extremes, _with_extremes, "the smallest value {:.3g} and the largest {:.3g}")
AREA = Rule(_mean, _scaled(_mean), "sum {sum:.3g}")
SIZE = Rule(_size, _scaled(_size), "norm {norm:.3g}")
PEAK = Rule(_peak, _scaled(_peak), "the largest absolute value {:.3g}")
MEAN = Rule(_mean, lambda x, wanted: x - _mean(x) + wanted, "mean {:.3g}")


Statistics = dict[int, Array]
"""Statistics (n, s) of signals by their channel."""


class Followed(NamedTuple):
    """A rule that the stored signals follow, their statistics (1, s) and how far from these they are (1, s)."""

    rule: Rule
    wanted: Array
    tolerance: Array

    def describe(self, n_points: int) -> str:
        """What signals of so many points have in common."""
        first = float(self.wanted[0, 0])
        return self.rule.text.format(*self.wanted[0], sum=n_points * first, norm=n_points**0.5 * first)


@dataclass(frozen=True, eq=False)
class Normalization:
    """The rule of each channel of signals with so many points; None for a channel without one."""

    channels: tuple[Followed | None, ...]
    n_points: int

    @classmethod
    def none(cls, n_points: int, n_channels: int) -> Normalization:
        """That of signals without a rule."""
        return cls((None,) * n_channels, n_points)

    @classmethod
    def of(cls, signals: Array) -> Normalization:
        """The first rule that all signals (K, T, C) follow, for each channel."""
        _, T, C = signals.shape
        return cls(tuple(_followed(signals[:, :, c]) for c in range(C)), T)

    def applied(self, signals: Array) -> Array:
        """Signals (n, T, C) that follow the rules."""
        found = signals.copy()
        for c, known in enumerate(self.channels):
            if known is not None:
                away = (np.abs(known.rule.statistics(signals[:, :, c]) - known.wanted) > known.tolerance).any(1)
                found[away, :, c] = known.rule.applied(signals[away, :, c], known.wanted)
        return found

    def statistics(self, signals: Array) -> Statistics:
        """The statistics of signals (n, T, C) in the channels that have a rule."""
        channels = enumerate(self.channels)
        return {c: known.rule.statistics(signals[:, :, c]) for c, known in channels if known is not None}

    def alike(self, signals: Array, wanted: Statistics) -> Array:
        """Signals (n, T, C) with these statistics of other signals."""
        found = signals.copy()
        for c, known in enumerate(self.channels):
            if known is not None:
                found[:, :, c] = known.rule.applied(signals[:, :, c], wanted[c])
        return found

    def describe(self) -> str:
        """What new signals have in common with the stored ones; empty where there is no rule."""
        texts = [known.describe(self.n_points) for known in self.channels if known is not None]
        if not texts:
            return ""
        where = "" if len(texts) == len(self.channels) else f" in {len(texts)} of {len(self.channels)} channels"
        what = texts[0] if len(set(texts)) == 1 else "a common normalization"
        return f"all signals have {what}{where}, and so have new ones without conditions"


def _followed(signals: Array) -> Followed | None:
    """The first rule that signals (K, T) follow."""
    largest = float(np.abs(signals).max())
    if len(signals) < MIN_SIGNALS or not 1 / MAX_VALUE < largest < MAX_VALUE:
        return None
    spread = float(signals.std())
    if spread <= MIN_SHARE * largest:  # constant up to rounding
        return None
    tolerance = TOLERANCE * spread
    is_positive = (signals >= 0).all()  # such signals are scaled, and not shifted below 0
    for rule in (EXTREMES, AREA, SIZE, PEAK) if is_positive else (MOMENTS, EXTREMES, SIZE, PEAK, MEAN):
        found = rule.statistics(signals)
        wanted = np.median(found, axis=0)
        if (np.abs(found - wanted) <= tolerance).all():
            wanted = np.where(np.abs(wanted) <= tolerance, 0.0, wanted)
            own = np.abs(found - wanted).max(0, keepdims=True)  # sums of floats depend on their order in memory
            return Followed(rule, wanted[None], own + MIN_SHARE * tolerance)
    return None
