"""Timing of several candidates in turn: every round times each one once, so disturbances affect all of them."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from threadpoolctl import threadpool_limits

PAUSE = 0.05
"""Seconds between candidates: BLAS threads spin for about 20 ms after a product and would slow the next one."""


class Candidate(NamedTuple):
    """`advance(n)` performs n units of work; n is a multiple of `unit` and at most `max_work`.

    choose_threads: run on one thread or on all, whichever is faster
    """

    advance: Callable[[int], object]
    unit: int = 1
    max_work: int = 5000
    choose_threads: bool = False


def seconds(work: Callable[[], object]) -> float:
    """Elapsed seconds, including work queued on a GPU."""
    finish_queued_work()
    begin = time.perf_counter()
    work()
    finish_queued_work()
    return time.perf_counter() - begin


def finish_queued_work() -> None:
    """Wait for the GPU, if torch is loaded and uses one."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def work_units(candidate: Candidate, target_seconds: float) -> int:
    """Number of units that take about `target_seconds`, measured after a first call that may compile or cache."""
    count, unit, maximum = candidate.unit, candidate.unit, candidate.max_work
    candidate.advance(count)
    if unit == maximum:
        return unit
    while (taken := seconds(partial(candidate.advance, count))) < target_seconds / 10 and count < maximum:
        count = min(10 * count, maximum)
    return max(unit, min(maximum, int(count * target_seconds / taken)) // unit * unit)


def side_by_side(candidates: Mapping[str, Candidate], rounds: int, target_seconds: float) -> dict[str, list[float]]:
    """Seconds per unit of work of each candidate, one value per round."""
    counts = {name: work_units(candidate, target_seconds) for name, candidate in candidates.items()}
    works = {name: partial(candidate.advance, counts[name]) for name, candidate in candidates.items()}
    threads = {name: best_threads(works[name]) if one.choose_threads else None for name, one in candidates.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, work in works.items():
            time.sleep(PAUSE)
            with threadpool_limits(threads[name]):
                times[name].append(seconds(work) / counts[name])
    return times


def best_threads(work: Callable[[], object]) -> int | None:
    """1 or None (all threads), whichever is faster in the better of two attempts."""
    times: dict[int | None, list[float]] = {1: [], None: []}
    for threads in (1, None) * 2:
        with threadpool_limits(threads):
            times[threads].append(seconds(work))
    return 1 if min(times[1]) < min(times[None]) else None


def ratio(theirs: list[float], ours: list[float]) -> float:
    """The median over rounds of the ratio of their time to ours."""
    return statistics.median(a / b for a, b in zip(theirs, ours, strict=True))


def slope_seconds(advance: Callable[[int], object], target_seconds: float, max_steps: int) -> float:
    """Seconds per step without the fixed cost of a run, from runs of `long` and of `long / 10` steps.

    `long` grows until the difference between the two takes `target_seconds`, or until `max_steps`.
    """
    long = 100
    advance(long)

    def difference() -> float:
        return seconds(partial(advance, long)) - seconds(partial(advance, long // 10))

    while difference() < target_seconds / 2 and long < max_steps:
        long = min(3 * long, max_steps)
    return max(statistics.median(difference() for _ in range(3)), 1e-9) / (long - long // 10)


def format_seconds(seconds_each: float) -> str:
    """Format a time with a suitable unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds_each >= size:
            return f"{seconds_each / size:.3g} {unit}"
    return f"{seconds_each / 1e-9:.3g} ns"
