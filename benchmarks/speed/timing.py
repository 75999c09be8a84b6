"""Times taken side by side: every round times every contestant once, so that a busy moment hits all of them."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from threadpoolctl import threadpool_limits

REST = 0.05
"""Seconds between contestants: after a product on several threads these spin for some 20 ms, at the next one's cost."""


class Contestant(NamedTuple):
    """`advance(n)` does n pieces of work, n a multiple of `unit`; at most `most` of them are timed at once.

    With `choose_threads` it runs on one thread or on all, whichever is faster here.
    """

    advance: Callable[[int], object]
    unit: int = 1
    most: int = 5000
    choose_threads: bool = False


def seconds(work: Callable[[], object]) -> float:
    """How long it takes, work queued on a GPU included."""
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


def pieces(contestant: Contestant, aim: float) -> int:
    """How many pieces of work take about `aim` seconds; measured after a first call that may compile or cache."""
    count, unit, most = contestant.unit, contestant.unit, contestant.most
    contestant.advance(count)
    if unit == most:
        return unit
    while (taken := seconds(partial(contestant.advance, count))) < aim / 10 and count < most:
        count = min(10 * count, most)
    return max(unit, min(most, int(count * aim / taken)) // unit * unit)


def side_by_side(contestants: Mapping[str, Contestant], rounds: int, aim: float) -> dict[str, list[float]]:
    """Seconds for one piece of work of each contestant, a value for each round."""
    counts = {name: pieces(contestant, aim) for name, contestant in contestants.items()}
    works = {name: partial(contestant.advance, counts[name]) for name, contestant in contestants.items()}
    threads = {name: best_threads(works[name]) if one.choose_threads else None for name, one in contestants.items()}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, work in works.items():
            time.sleep(REST)
            with threadpool_limits(threads[name]):
                times[name].append(seconds(work) / counts[name])
    return times


def best_threads(work: Callable[[], object]) -> int | None:
    """1, or None for all threads: what does the work sooner."""
    with threadpool_limits(1):
        alone = seconds(work)
    return 1 if alone < seconds(work) else None


def ratio(theirs: list[float], ours: list[float]) -> float:
    """The median over rounds of their time over ours."""
    return statistics.median(a / b for a, b in zip(theirs, ours, strict=True))


def slope_seconds(advance: Callable[[int], object], aim: float, most: int) -> float:
    """Seconds a step without what a run costs once: from runs of `long` steps and of a tenth of that.

    `long` grows until the difference between the two takes `aim` seconds, or reaches `most`.
    """
    long = 100
    advance(long)

    def difference() -> float:
        return seconds(partial(advance, long)) - seconds(partial(advance, long // 10))

    while difference() < aim / 2 and long < most:
        long = min(3 * long, most)
    return max(statistics.median(difference() for _ in range(3)), 1e-9) / (long - long // 10)


def in_words(seconds_each: float) -> str:
    """A time with a unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds_each >= size:
            return f"{seconds_each / size:.3g} {unit}"
    return f"{seconds_each / 1e-9:.3g} ns"
