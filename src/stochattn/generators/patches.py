"""The generator "patches": local heads over stored pictures, and smooth random warps of what they draw."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from .._backend.arrays import Array, ArrayLike, like, to_numpy
from .._backend.checks import non_negative
from .._backend.random import Purpose, generator, seed_of
from ..core.neighbors import nearest_rows
from .base import Description, Generated
from .local_heads import BATCH, Annealing, LocalHeads
from .window_attention import as_pictures

SPACING = 10
"""Pixels between the displacements that are drawn; those between them are interpolated."""


@dataclass(frozen=True, eq=False)
class ConditionedPixels:
    """Values that new pictures must have: (h, w) or (h, w, 3) each."""

    pixels: Array  # booleans, which values are those of single pixels
    rectangles: Array  # booleans, which other values are those of rectangles
    levels: Array  # in [0, 1], zero where nothing is conditioned


@dataclass(frozen=True, eq=False)
class PatchGenerator:
    """New pictures whose parts come from different stored ones."""

    levels: Array  # (K_kept, h, w) or (K_kept, h, w, 3) stored pictures of positive weight, floats in [0, 1]
    weights: Array  # (K_kept,) how often each of them counts
    kept: Array  # (K_kept,) their indices among all stored pictures
    warp: float = 0.0  # root mean square displacement of new pictures in pixels
    radius: float | None = None  # of windows, in pixels per unit of noise; None for the matched-distance rule
    conditioned: ConditionedPixels | None = None
    block_items: ClassVar[int] = BATCH

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

    @cached_property
    def _annealing(self) -> Annealing:
        given = self.conditioned
        return self.heads.annealing(None if given is None else (given.pixels | given.rectangles, given.levels))

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new pictures (n, h, w[, 3]) as levels, and the stored one nearest to each."""
        seed = int(rng.integers(2**63))
        drawn = np.asarray(self.heads.draw(n, seed, self._annealing))
        if self.warp and self.conditioned is None:
            drawn = random_warps(drawn, self.warp, seed)
        rows = [x.reshape(len(x), -1) for x in (drawn, self.levels)]  # equivalent: any negative size
        nearest = nearest_rows(*rows)
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


def random_warps(images: ArrayLike, amplitude: float = 1.0, rng: object = None) -> Array:
    """The pictures, each warped by its own smooth displacement field; edges are continued outwards.

    Warped by less than a stroke's width, a picture is another example of the same thing, which no mixture contains.
    The field is a coarse grid of normal vectors, joined by cubic splines and scaled so that its root mean square, over
    the picture and both directions, is `amplitude` pixels on average. Image i's field depends on (seed, i) only. The
    result has the shape, library and dtype of the images (n, H, W[, channels]), float32 for whole numbers.
    """
    from scipy.ndimage import map_coordinates

    pictures, amplitude, seed = as_pictures(images), non_negative("amplitude", amplitude), seed_of(rng)
    flat = to_numpy(pictures).reshape(*pictures.shape[:3], -1)
    down, across = (_splines(side) for side in flat.shape[1:3])
    scale = np.sqrt(np.prod([(matrix**2).sum(1).mean() for matrix in (down, across)]))
    warped = np.empty_like(flat)
    for i, picture in enumerate(flat):
        nodes = generator(seed, Purpose.DRAW, i).standard_normal((2, down.shape[1], across.shape[1]))
        places = np.indices(picture.shape[:2]) + amplitude * (down @ nodes @ across.T / scale)
        for c in range(flat.shape[3]):
            warped[i, ..., c] = map_coordinates(picture[..., c], places, order=1, mode="nearest")
    return like(warped.reshape(pictures.shape), pictures)


def _splines(size: int) -> Array:
    """Cubic B-splines, a node every `SPACING` pixels and one beyond either end, at each pixel: (size, nodes)."""
    from scipy.interpolate import BSpline

    cells = max(-(-(size - 1) // SPACING), 1)
    knots = np.arange(-3, cells + 4, dtype=np.float64)  # equivalent: further knots have no weight
    return BSpline.design_matrix(np.arange(size) / SPACING, knots, 3).toarray()
