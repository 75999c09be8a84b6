"""The matched-distance rule for the window radius: new pictures are as far from the memories as these are from each
other.

The rule returns the largest radius, to 5 %, at which the median distance from a draw to its nearest memory is at least
the median distance from a memory to the nearest one that differs from it. It uses 96 draws of a fixed seed (32 where
pictures are large or many), and fewer where these leave no doubt. Where no radius of 1.5 or more does that, memories
are too few for the rule, and 2 is returned.
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np

from ..._backend.arrays import Array, to_numpy
from ..._backend.progress import Progress
from ..._backend.random import Purpose
from ...core.neighbors import nearest_distances
from .annealing import BATCH, WindowAnnealing, noise_levels, smallest_radius
from .window_attention import PictureMemories

MAX_DRAWS, MIN_DRAWS, MAX_DRAWN_VALUES = 96, 32, 96 * 2**18
"""Draws that the rule is decided by; fewer where pixels × memories × draws would pass the last."""
MIN_STANDARD_ERRORS = 3.0
"""Standard errors at which the first draws decide for all: even the radius that is looked for, which splits draws in
halves, is decided wrongly less than once in a hundred times."""
MIN_RADIUS, FALLBACK_RADIUS = 1.5, 2.0
"""Below the first a window's signal is under three times the noise, and heads choose memories by chance. The second is
for memories too few to make pictures as far from them as they are from each other: there, coherence comes first."""
PRECISION = 1.05
"""Factor that the radius is found to."""


class RadiusRule(Enum):
    """How a window radius was set, in words."""

    GIVEN = "as given"
    MATCHED_DISTANCE = (
        "matched-distance rule: new pictures are as far from the stored ones as these are from each other"
    )
    FALLBACK = (
        "the stored pictures are too few for new ones to be as far from them as they are from each other, which the "
        "matched-distance rule asks for"
    )


def matched_distance_radius(memories: PictureMemories, progress: bool | None = None) -> tuple[float, RadiusRule]:
    """The radius in pixels per unit of noise, and how it was set; ValueError for memories that cannot be compared."""
    target, stored = _typical_distance(memories)
    n_draws = min(max(MAX_DRAWN_VALUES // stored.size // BATCH * BATCH, MIN_DRAWS), MAX_DRAWS)

    def far_enough(radius: float) -> bool:
        return median_distance(WindowAnnealing(memories, radius), stored, target, n_draws) >= target

    low, high, largest = MIN_RADIUS, MIN_RADIUS * PRECISION**8, max(memories.H, memories.W) / noise_levels(memories)[-1]
    with Progress(6, "choosing the window radius", progress) as bar:
        if not far_enough(low):
            return FALLBACK_RADIUS, RadiusRule.FALLBACK
        bar.update(1)
        while high < largest and far_enough(high):
            low, high = high, high * PRECISION**8
            bar.update(2)
        for done in (3, 4, 5):  # three bisections leave an eighth of the interval
            bar.update(done)
            middle = math.sqrt(low * high)
            low, high = (middle, high) if far_enough(middle) else (low, middle)
    return low, RadiusRule.MATCHED_DISTANCE


def median_distance(annealing: WindowAnnealing, stored: Array, target: float, n_draws: int) -> float:
    """Median distance of draws from the stored rows, of no more draws than show whether it reaches the target."""
    distances = np.empty(0)
    while len(distances) < n_draws:
        drawn = annealing.memories.pictures(annealing.draw(len(distances), 0, Purpose.RULE))
        new = to_numpy(drawn).reshape(annealing.batch, -1)
        distances = np.append(distances, nearest_distances(new, stored))[:n_draws]
        excess = abs(2 * (distances >= target).sum() - len(distances))
        if excess > MIN_STANDARD_ERRORS * math.sqrt(len(distances)):
            break
    return float(np.median(distances))


def _typical_distance(memories: PictureMemories) -> tuple[float, Array]:
    """Median distance of memories to their nearest other, and the distinct memories as rows: (K, values)."""
    if memories.K < 2:
        raise ValueError(
            "the matched-distance rule compares memories with each other; there is one. Store more, or pass radius."
        )
    if smallest_radius(memories) >= max(memories.H, memories.W) - 1:
        raise ValueError(
            f"images must be larger than the smallest window, {2 * smallest_radius(memories) + 1} pixels wide, or new "
            f"ones are all stored ones; got {memories.H} × {memories.W}. Pass radius."
        )
    as_drawn = memories.flat.T.reshape(memories.K, memories.H, memories.W, memories.C)
    stored = np.unique(to_numpy(memories.pictures(as_drawn)).reshape(memories.K, -1), axis=0)
    target = float(np.median(nearest_distances(stored))) if len(stored) > 1 else 0.0
    if target <= 1e-6 * memories.spread * memories.contrast:
        raise ValueError(
            "images must differ for the matched-distance rule; at least half are alike. Store others, or pass radius."
        )
    return target, stored
