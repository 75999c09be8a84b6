"""Normalizations that all stored signals share, such as mean 0 and standard deviation 1, and that new signals keep.

Normalized signals differ by a warp followed by a normalization: a plateau that lasts longer is lower. Warped signals
are therefore normalized again before they are compared, and a new signal is shifted and scaled until it follows the
rule. Signals that follow it, such as the stored ones, do not change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array

MIN_SIGNALS = 5  # least number of signals: fewer may share a statistic by chance
TOLERANCE = 1e-3  # largest difference of equal statistics, over the deviation of all values: files are rounded
MAX_VALUE, MIN_SHARE = 1e100, 1e-9
"""Signals whose largest absolute value is not between 1 / MAX_VALUE and MAX_VALUE have no rule: their squares may
overflow. A statistic below MIN_SHARE of the largest absolute value of a signal is a rounding error, not a divisor."""


class Rule(NamedTuple):
    """Statistics that normalized signals share."""

    statistics: Callable[[Array], Array]  # (n, T) -> (n, s)
    apply: Callable[[Array, Array], Array]  # (n, T) and wanted statistics (n, s) or (1, s) -> (n, T)
    text: str  # a format string of the statistics, or of the sum or the norm that follow from them


def _moments(signals: Array) -> Array:
    return np.stack([signals.mean(1), signals.std(1)], axis=1)


def _extremes(signals: Array) -> Array:
    return np.stack([signals.min(1), signals.max(1)], axis=1)


def _mean(signals: Array) -> Array:
    return np.asarray(signals.mean(1, keepdims=True))


def _size(signals: Array) -> Array:
    """Root mean square, which signals of norm 1 share."""
    return np.sqrt(np.square(signals).mean(1, keepdims=True))


def _peak(signals: Array) -> Array:
    return np.asarray(np.abs(signals).max(1, keepdims=True))


def _factors(signals: Array, wanted: Array, measured: Array) -> Array:
    """Wanted (n, 1) over measured (n, 1) statistics of signals (n, T); 1 if measured ones are 0 up to rounding."""
    return np.divide(wanted, measured, out=np.ones_like(measured), where=measured > MIN_SHARE * _peak(signals))


def _scale_by(statistic: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """A function that scales signals (n, T) to wanted statistics (n, 1)."""
    return lambda signals, wanted: signals * _factors(signals, wanted, statistic(signals))


def _with_moments(signals: Array, wanted: Array) -> Array:
    moments = _moments(signals)
    return wanted[:, :1] + (signals - moments[:, :1]) * _factors(signals, wanted[:, 1:], moments[:, 1:])


def _with_extremes(signals: Array, wanted: Array) -> Array:
    extremes = _extremes(signals)
    return wanted[:, :1] + (signals - extremes[:, :1]) * _factors(signals, np.diff(wanted), np.diff(extremes))


MOMENTS = Rule(_moments, _with_moments, "mean {:.3g} and standard deviation {:.3g}")
EXTREMES = Rule(_extremes, _with_extremes, "the smallest value {:.3g} and the largest {:.3g}")
AREA = Rule(_mean, _scale_by(_mean), "sum {sum:.3g}")
SIZE = Rule(_size, _scale_by(_size), "norm {norm:.3g}")
PEAK = Rule(_peak, _scale_by(_peak), "the largest absolute value {:.3g}")
MEAN = Rule(_mean, lambda x, wanted: x - _mean(x) + wanted, "mean {:.3g}")


class FittedRule(NamedTuple):
    """A rule that the stored signals follow, their statistics (1, s) and the largest deviations from these (1, s)."""

    rule: Rule
    wanted: Array
    tolerance: Array


@dataclass(frozen=True, eq=False)
class Normalization:
    """The rules of signals (n, *shape) of T points and C channels, for those channels that have a rule."""

    shape: tuple[int, ...]  # T, C
    rules: dict[int, FittedRule] = field(default_factory=dict)

    @classmethod
    def of(cls, signals: Array) -> Normalization:
        """The first rule that all signals (K, T, C) follow, for each channel."""
        fitted = {c: _fit_rule(signals[:, :, c]) for c in range(signals.shape[2])}
        return cls(signals.shape[1:], {c: rule for c, rule in fitted.items() if rule is not None})

    def apply(self, signals: Array) -> Array:
        """Signals (n, T, C), changed where they do not follow the rules."""
        result = signals.copy()
        for c, (rule, wanted, tolerance) in self.rules.items():
            differs = (np.abs(rule.statistics(signals[:, :, c]) - wanted) > tolerance).any(1)
            result[differs, :, c] = rule.apply(signals[differs, :, c], wanted)
        return result

    def statistics(self, signals: Array) -> dict[int, Array]:
        """The statistics (n, s) of signals (n, T, C), for each channel that has a rule."""
        return {c: fitted.rule.statistics(signals[:, :, c]) for c, fitted in self.rules.items()}

    def match(self, signals: Array, wanted: dict[int, Array]) -> Array:
        """Signals (n, T, C), changed to have the statistics of other signals."""
        result = signals.copy()
        for c, fitted in self.rules.items():
            result[:, :, c] = fitted.rule.apply(signals[:, :, c], wanted[c])
        return result

    def describe(self) -> str:
        """What new signals share with the stored ones; empty if there is no rule."""
        if not self.rules:
            return ""
        texts, (T, C) = set[str](), self.shape
        for rule, wanted, _ in self.rules.values():
            first = float(wanted[0, 0])
            texts.add(rule.text.format(*wanted[0], sum=T * first, norm=T**0.5 * first))
        where = "" if len(self.rules) == C else f" in {len(self.rules)} of {C} channels"
        what = texts.pop() if len(texts) == 1 else "a common normalization"
        return f"all signals have {what}{where}, and so do new signals without conditions"


def _fit_rule(signals: Array) -> FittedRule | None:
    largest = float(np.abs(signals).max())
    if len(signals) < MIN_SIGNALS or not 1 / MAX_VALUE < largest < MAX_VALUE:
        return None
    spread = float(signals.std())
    if spread <= MIN_SHARE * largest:  # constant up to rounding
        return None
    tolerance = TOLERANCE * spread
    is_positive = (signals >= 0).all()  # such signals are scaled only: a shift could make them negative
    for rule in (EXTREMES, AREA, SIZE, PEAK) if is_positive else (MOMENTS, EXTREMES, SIZE, PEAK, MEAN):
        statistics = rule.statistics(signals)
        wanted = np.median(statistics, axis=0)
        if (np.abs(statistics - wanted) <= tolerance).all():
            wanted = np.where(np.abs(wanted) <= tolerance, 0.0, wanted)
            deviation = np.abs(statistics - wanted).max(0, keepdims=True)
            margin = MIN_SHARE * tolerance  # sums of floats depend on their order in memory
            return FittedRule(rule, wanted[None], deviation + margin)
    return None
