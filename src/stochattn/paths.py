"""Paths of returns longer than a stored window: windows strung together, or the paper's sequence of days."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ._arrays import Array, to_numpy
from ._random import Purpose, generator
from .codecs.base import Batch, InputError
from .codecs.returns import ReturnsCodec
from .codecs.returns.linking import chain_windows
from .codecs.returns.regimes import corrected, fit_regimes
from .pipeline import BLOCK, Plan
from .samplers import sequential

MOST_NUMBERS = 2**24
"""Days times tickers that a block of paths may hold."""
SCHEDULES = ("fixed", "regimes")


class Course(NamedTuple):
    """What a path is to be.

    days:     its length
    linked:   whether volatility carries over from window to window
    schedule: None for windows; "fixed" or "regimes" for the paper's Algorithm 3, whose beta is the same every day or
              follows regimes of volatility learned from the history; or one beta for each day
    """

    days: int
    linked: bool = True
    schedule: str | tuple[float, ...] | None = None


def course_of(plan: Plan, days: int | None, linked: bool, schedule: str | None) -> Course | None:
    """The course that options ask for, checked against the plan; None where a window is the whole path."""
    if days is None and schedule is None:
        return None
    codec = plan.codec
    if not isinstance(codec, ReturnsCodec):
        raise InputError(f"--days and --schedule are for returns, and this is read as {codec.kind}: leave them out.")
    if plan.fixed:
        raise InputError("--fix holds within a stored window, and cannot with --days or --schedule: leave one out.")
    if schedule is None:
        return Course(days or codec.options.window, linked)
    if codec.options.mode != "projection" or codec.options.window != 1:
        raise InputError("--schedule runs the paper's sequence of days: it needs --mode projection and --window 1.")
    if days is None:
        raise InputError("--schedule needs --days, the length of a path.")
    if schedule in SCHEDULES:
        return Course(days, linked, schedule)
    return Course(days, linked, _betas(schedule, days))


def paths(plan: Plan, course: Course, n: int, seed: int) -> Iterator[Batch]:
    """n paths in blocks; items are (n, days, tickers)."""
    codec = plan.codec
    if not isinstance(codec, ReturnsCodec):
        raise TypeError(f"paths need a ReturnsCodec; got {type(codec).__name__}.")
    size = max(min(MOST_NUMBERS // (course.days * len(codec.tickers)), BLOCK, n), 1)
    weights = np.exp(plan.mixture.log_weights)
    for first in range(0, n, size):
        rng = generator(seed, Purpose.DRAW, first // size)
        block = min(size, n - first)
        if course.schedule is None:
            items = chain_windows(codec, plan.beta, block, course.days, rng, linked=course.linked, weights=weights)
        else:
            items = _sequence(plan, codec, course, block, rng)
        yield Batch(first, items, None, None, {}, None)


def _sequence(plan: Plan, codec: ReturnsCodec, course: Course, n: int, rng: np.random.Generator) -> Array:
    """Algorithm 3 with the course's schedule of beta, and the affine correction of the paper: (n, days, tickers)."""
    labels = regimes = None
    betas: Any = plan.beta
    if course.schedule == "regimes":
        regimes = fit_regimes(codec.history)
        labels = regimes.simulate(course.days, rng)
        betas = regimes.betas(plan.beta)[labels]
    elif isinstance(course.schedule, tuple):
        betas = np.array(course.schedule)
    bank = plan.model.bank
    made = sequential(bank, betas, n_days=course.days, n_paths=n, rng=int(rng.integers(2**63)))
    return corrected(to_numpy(made.values), codec.history, labels, regimes)


def _betas(text: str, days: int) -> tuple[float, ...]:
    """`25:5`, from the first day's beta to the last's in equal ratios; or one number for each day, with commas."""
    try:
        ends = [float(part) for part in text.split(":")]
        if len(ends) == 2 and min(ends) > 0:
            return tuple(np.geomspace(ends[0], ends[1], days).tolist())
        each = [float(part) for part in text.split(",")]
        if len(each) == days and min(each) > 0:
            return tuple(each)
    except ValueError:
        pass
    raise InputError(
        f"--schedule {text!r} must be fixed, regimes, FIRST:LAST (as 25:5), or {days} positive betas with commas."
    )
