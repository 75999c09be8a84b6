"""Paths of returns longer than a stored window: windows strung together, or the paper's sequence of days."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ._backend.arrays import Array, to_numpy
from ._backend.random import Purpose, generator
from .data.legacy import Batch, InputError
from .data.returns import ReturnsCodec
from .data.returns.linking import chain_windows
from .data.returns.projection import Correction
from .data.returns.regimes import fit_regimes
from .pipeline import BLOCK, Plan
from .samplers import sequential

MOST_NUMBERS = 2**24
"""Numbers, paths times days times tickers, that a block may hold."""
SCHEDULES = ("fixed", "regimes")
SEQUENTIAL = "sequential mala (Algorithm 3)"
Draw = Callable[[int, np.random.Generator], Array]
"""Makes n paths of random numbers: (n, days, tickers)."""


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

    def describe(self, plan: Plan) -> dict[str, Any]:
        """What is run on it, for a summary in json; "sampler" is there where it is not the plan's."""
        if self.schedule is None:
            window = plan.codec.options.window if isinstance(plan.codec, ReturnsCodec) else self.days
            return {"days": self.days, "linked": self.linked and self.days > window}
        schedule = self.schedule if isinstance(self.schedule, str) else list(self.schedule)
        return {"sampler": SEQUENTIAL, "schedule": schedule, "days": self.days, "linked": False}


def course_of(plan: Plan, days: int | None, linked: bool, schedule: str | None) -> Course | None:
    """The course that options ask for, checked against the plan; None where a window is the whole path."""
    if days is None and schedule is None:
        return None
    codec = plan.codec
    if not isinstance(codec, ReturnsCodec):
        raise InputError(f"--days and --schedule are for returns, and this is read as {codec.kind}: leave them out.")
    if plan.fixed:
        raise InputError("--fix holds within a stored window, and cannot with --days or --schedule: leave one out.")
    if plan.sampler != "exact":
        ran = "--days draws windows exactly" if schedule is None else "--schedule runs Algorithm 3, a MALA of its own"
        raise InputError(f"{ran}, and cannot with --sampler {plan.sampler}: leave one of them out.")
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
    """n paths in blocks; items are (n, days, tickers). The first m of n are the m paths that a shorter call gives."""
    codec = plan.codec
    if not isinstance(codec, ReturnsCodec):
        raise TypeError(f"paths need a ReturnsCodec; got {type(codec).__name__}.")
    size = max(min(MOST_NUMBERS // (course.days * len(codec.tickers)), BLOCK), 1)
    if course.schedule is None:
        draw = _windows(plan, codec, course)
    elif course.schedule == "regimes":
        size, draw = 1, _by_regimes(plan, codec, course)  # sampled one by one, and counted so while they are made
    else:
        draw = _sequences(plan, codec, course)
    for first in range(0, n, size):
        items = draw(min(size, n - first), generator(seed, Purpose.DRAW, first // size))
        yield Batch(first, items, None, None, {}, None)


def _windows(plan: Plan, codec: ReturnsCodec, course: Course) -> Draw:
    """Windows strung together."""
    weights = np.exp(plan.mixture.log_weights)

    def draw(n: int, rng: np.random.Generator) -> Array:
        return chain_windows(codec, plan.beta, n, course.days, rng, linked=course.linked, weights=weights)

    return draw


def _sequences(plan: Plan, codec: ReturnsCodec, course: Course) -> Draw:
    """Algorithm 3 with one beta, or one for each day, and the paper's affine correction."""
    betas = course.schedule if isinstance(course.schedule, tuple) else (plan.beta,)
    correction = Correction.measured(plan.model.bank, betas, codec.history)
    schedule = betas[0] if len(betas) == 1 else np.array(betas)

    def draw(n: int, rng: np.random.Generator) -> Array:
        return correction(_projected(plan, schedule, course.days, n, rng))

    return draw


def _by_regimes(plan: Plan, codec: ReturnsCodec, course: Course) -> Draw:
    """Algorithm 3 with a beta for each regime, in a sequence of regimes that each path has for itself.

    The days of a regime are corrected to the moments of its historical days. The projection averages stored days, the
    more of them the hotter it is: left alone, a hot regime would come out the calmer one.
    """
    regimes = fit_regimes(codec.history)
    betas = regimes.betas(plan.beta)
    corrections = [
        Correction.measured(plan.model.bank, (float(beta),), codec.history[regimes.labels == r])
        for r, beta in enumerate(betas)
    ]
    gain, shift = (np.stack(part) for part in zip(*corrections, strict=True))  # (regimes, N) each

    def draw(n: int, rng: np.random.Generator) -> Array:
        made = []
        for own in rng.spawn(n):
            labels = regimes.simulate(course.days, own)
            raw = _projected(plan, betas[labels], course.days, 1, own, progress=False)
            made.append(Correction(gain[labels], shift[labels])(raw[0]))
        return np.stack(made)

    return draw


def _projected(
    plan: Plan, betas: Any, days: int, n: int, rng: np.random.Generator, progress: bool | None = None
) -> Array:
    """What Algorithm 3 gives before it is corrected: (n, days, tickers).

    Chains start in equilibrium, so that every day of a fixed beta has the law that the correction was measured on.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="interrupted", category=RuntimeWarning)
        made = sequential(
            plan.model.bank,
            betas,
            n_days=days,
            n_paths=n,
            start="equilibrium",
            rng=int(rng.integers(2**63)),
            progress=progress,
        )
    if not made.draws.settings.complete:
        raise KeyboardInterrupt
    return to_numpy(made.values)


def _betas(text: str, days: int) -> tuple[float, ...]:
    """`25:5`, from the first day's beta to the last's in equal ratios; or one number for each day, with commas."""
    ends = ":" in text
    try:
        betas = [float(part) for part in text.split(":" if ends else ",")]
    except ValueError:
        betas = []
    if len(betas) == (2 if ends else days) and all(0 < beta < math.inf for beta in betas):
        return tuple(np.geomspace(betas[0], betas[1], days).tolist() if ends else betas)
    raise InputError(
        f"--schedule {text!r} must be fixed, regimes, FIRST:LAST (as 25:5), or {days} positive betas with commas."
    )
