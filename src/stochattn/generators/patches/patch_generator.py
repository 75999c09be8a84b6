"""The generator "patches": local heads over stored pictures, and smooth warps of what they draw."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..._backend.arrays import Array
from ...core.neighbors import nearest_rows
from ..base import Description, Generated
from .annealing import MIN_WINDOW_RADIUS
from .local_heads import LocalHeads
from .warps import random_warps


def is_too_small(shape: tuple[int, ...]) -> bool:
    """Whether every window covers a picture of this shape, so that new pictures would be stored ones."""
    return max(shape[:2]) <= MIN_WINDOW_RADIUS + 1


@dataclass(frozen=True, eq=False)
class ConditionedPixels:
    """Values that new pictures must have: (h, w) or (h, w, 3) each.

    pixels:     booleans, which values are those of single pixels
    rectangles: booleans, which other values are those of rectangles
    levels:     in [0, 1], zero where nothing is conditioned
    """

    pixels: Array
    rectangles: Array
    levels: Array


@dataclass(frozen=True, eq=False)
class PatchGenerator:
    """New pictures whose parts come from different stored ones.

    levels:  (K_kept, h, w) or (K_kept, h, w, 3) stored pictures of positive weight, floats in [0, 1]
    weights: (K_kept,) how often each of them counts
    kept:    (K_kept,) their indices among all stored pictures
    warp:    root mean square displacement of new pictures in pixels
    radius:  window radius in pixels per unit of noise; None for the matched-distance rule
    """

    levels: Array
    weights: Array
    kept: Array
    warp: float = 0.0
    radius: float | None = None
    conditioned: ConditionedPixels | None = None

    @classmethod
    def fit(cls, levels: Array, weights: Array, warp: float = 0.0, radius: float | None = None) -> PatchGenerator:
        """The generator of stored pictures (K, h, w[, 3]) that count `weights` (K,) times."""
        kept = np.flatnonzero(weights > 0)
        return cls(levels[kept], np.asarray(weights)[kept], kept, warp, radius)

    @cached_property
    def heads(self) -> LocalHeads:
        """The local heads. The radius is searched for here, once it is known whether pixels are conditioned."""
        illumination = None if self.conditioned is None else False
        return LocalHeads(self.levels, np.log(self.weights), self.radius, illumination=illumination)

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new pictures (n, h, w[, 3]) as levels, and the stored one nearest to each."""
        seed = int(rng.integers(2**63))
        given = self.conditioned
        mask_and_picture = None if given is None else (given.pixels | given.rectangles, given.levels)
        drawn = np.asarray(self.heads.sample(n, seed, mask_and_picture))
        if self.warp and given is None:
            drawn = random_warps(drawn, self.warp, seed)
        nearest = nearest_rows(drawn.reshape(n, -1), self.levels.reshape(len(self.kept), -1))
        return Generated(drawn, self.kept[nearest])

    def condition(self, observation: ConditionedPixels) -> PatchGenerator:
        """The generator of pictures that have these values; they are not warped, which would move the values."""
        return replace(self, conditioned=observation)

    def describe(self) -> Description:
        """The window radius and how it was set, and the warp."""
        radius = self.heads.radius
        summary = f"local attention heads, window radius {radius:.3g} ({self.heads.radius_rule.value})"
        note = f"new pictures are warped by {self.warp:.2g} px; warp=0 switches that off."
        if self.conditioned is not None:
            note = "new pictures are not warped, so that conditioned pixels stay in place."
        return Description("patches", summary, (note,) if self.warp else (), resolved={"radius": radius})
