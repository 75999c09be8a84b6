"""Which days make a stored window: every day of the history is in as many windows as any other, or one more."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ..legacy import InputError

MOST_NUMBERS = 2**23
"""Numbers that the rows of all windows may hold; beyond it windows begin at every second day, every third …"""


class Blocks(NamedTuple):
    """Windows of consecutive days. A window that meets the end of its run of days goes on at the run's first day.

    Without that, days near the ends of a run would be in few windows and those in its middle in many: in runs of 250
    days and windows of 60, a day in the middle counts 1.31 times, and the crash of 2020 makes expected shortfall 14 %
    too large. Disjoint windows count days alike too, but leave few to choose from by volatility or by what is fixed:
    of the clustering of 20 tickers they keep 0.41, and windows that begin every day 0.69. The price is a seam in
    window − 1 windows of each run, which costs 0.02 of that.

    runs:   lengths of the runs of days that follow each other without a gap; they make up the history
    window: days in a window, at most the shortest run's
    step:   days from the first day of a window to that of the next, at most
    """

    runs: tuple[int, ...]
    window: int
    step: int = 1

    @classmethod
    def within(cls, runs: tuple[int, ...], window: int, tickers: int) -> Blocks:
        """Windows that begin every day; where that is too many numbers, as often as a divisor of the window allows.

        A divisor, so that days still count alike: each is in window/step windows. Where the step does not divide the
        length of a run, windows begin a little closer to each other, and some days, here and there, are in one more.
        """
        divisors = [step for step in range(1, window + 1) if window % step == 0]
        sizes = [sum(-(-run // step) for run in runs) * window * tickers for step in divisors]
        fitting = [step for step, size in zip(divisors, sizes, strict=True) if size <= MOST_NUMBERS]
        return cls(runs, window, fitting[0] if fitting else window)

    @property
    def run_starts(self) -> Array:
        """The first day of each run: (runs,)."""
        return np.cumsum((0, *self.runs[:-1]))

    @property
    def days(self) -> Array:
        """Indices of the days of each window: (K, window)."""
        places = [self._firsts(run)[:, None] + np.arange(self.window) for run in self.runs]
        runs = zip(places, self.run_starts, self.runs, strict=True)
        return np.concatenate([first + place % run for place, first, run in runs])

    def _firsts(self, run: int) -> Array:
        """Days on which windows of a run begin, evenly spaced: (⌈run/step⌉,)."""
        n = -(-run // self.step)
        return np.arange(n) * run // n

    def names(self, dates: Sequence[str] | None) -> tuple[str, ...]:
        """What each window is called: its first and last day, and where it goes on when its run has ended."""
        called = [f"{i + 1}" for i in range(sum(self.runs))] if dates is None else dates
        word = "" if dates is not None else "day " if self.window == 1 else "days "
        return tuple(word + " and ".join(_span(called, part)) for part in self._parts())

    def years(self, dates: Sequence[str]) -> tuple[str, ...]:
        """The year that each window ends in; of one that begins again at the first day of its run, both years."""
        ends = [[dates[last][:4] for _, last in part] for part in self._parts()]
        return tuple(" and ".join(dict.fromkeys(years)) for years in ends)

    def _parts(self) -> list[list[tuple[int, int]]]:
        """First and last day of the one or two stretches of each window."""
        firsts = np.repeat(self.run_starts, [-(-run // self.step) for run in self.runs])
        lasts = np.repeat(self.run_starts + self.runs, [-(-run // self.step) for run in self.runs]) - 1
        parts = []
        for (begin, end), first, last in zip(self.days[:, [0, -1]].tolist(), firsts, lasts, strict=True):
            whole = begin + self.window - 1 <= last
            parts.append([(begin, end)] if whole else [(begin, int(last)), (int(first), end)])
        return parts


def checked_runs(runs: Sequence[int] | None, days: int) -> tuple[int, ...]:
    """Lengths of runs, which must make up all days; one run of all of them by default."""
    if runs is None:
        return (days,)
    try:
        lengths = tuple(operator.index(run) for run in runs)
    except TypeError:
        raise InputError(f"runs must be whole numbers of days; got {list(runs)[:5]}.") from None
    if min(lengths, default=0) < 1 or sum(lengths) != days:
        raise InputError(
            f"runs must be positive lengths that add up to the {days} days of log_returns; got {len(lengths)} that add "
            f"up to {sum(lengths)}."
        )
    return lengths


def gathered(days: Array, blocks: Blocks) -> Array:
    """Rows of days (T, c) as windows laid flat, read-only: (K, window·c)."""
    which = blocks.days
    flat = np.empty((len(which), blocks.window * days.shape[1]))
    np.take(days, which, axis=0, out=flat.reshape(*which.shape, -1))
    flat.flags.writeable = False  # a bank then holds it without a copy
    return flat


def _span(called: Sequence[str], part: list[tuple[int, int]]) -> list[str]:
    return [called[first] if first == last else f"{called[first]} to {called[last]}" for first, last in part]
