"""The sampler made for pictures, as the pipeline draws from it."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ...core.neighbors import nearest_rows
from ...generators.patches.local_heads import FEW_MEMORIES_REACH, SMALLEST_FLOOR, Fixed, LocalHeads
from ...generators.patches.warps import random_warps

FEW_OF_A_CLASS = 30
"""Pictures of a class, or of all where there are none, up to which warps add what the stored ones do not show."""
WARP, WARPED_SIDE = 1.0, 28
"""Root mean square displacement of the default warps in pixels; of pictures below the second size, as large a part."""


def too_small(shape: tuple[int, ...]) -> bool:
    """Whether every window covers a picture of this shape, so that new ones would be stored ones."""
    return max(shape[:2]) <= SMALLEST_FLOOR + 1


def default_warp(shape: tuple[int, ...], labels: tuple[str, ...] | None, counts: Array) -> float:
    """How far new pictures are warped, in pixels, where nothing is said; `counts` (K,) tells which stored ones do."""
    classes = Counter("" if labels is None else labels[i] for i in np.flatnonzero(counts))
    return WARP * min(1.0, min(shape[:2]) / WARPED_SIDE) if max(classes.values()) <= FEW_OF_A_CLASS else 0.0


class LocalPictures(NamedTuple):
    """Local heads over stored pictures (K, h, w[, 3]), as levels from 0 to 255."""

    heads: LocalHeads
    rows: Array  # (K, pixels) the stored pictures, to find the nearest
    kept: Array  # their numbers among all that are stored
    fixed: Fixed | None
    warp: float  # root mean square displacement in pixels
    about: str
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, images: Array, weights: Array, fixed: Fixed | None = None, warp: float = 0.0) -> LocalPictures:
        """Heads over the pictures of positive weight, with the natural reach.

        fixed: which values new pictures share, and their levels over 255; nothing is warped then, or they would move
        """
        kept = np.flatnonzero(weights > 0)
        levels = images[kept].astype(np.float32) / 255
        heads = LocalHeads(levels, np.log(weights[kept]), light=None if fixed is None else False)
        if heads.reach == FEW_MEMORIES_REACH:
            how = "these are too few for new ones to be as far from them as they are from each other"
        else:
            how = "new ones are as far from the stored as these are from each other"
        if fixed is not None:
            how += ", with nothing fixed"
        bent = f"; warped by {warp:.2g} px, --warp 0 switches that off" if warp else ""
        if warp and fixed is not None:
            warp, bent = 0.0, "; not warped, so that what is fixed stays in its place"
        about = f"local heads, reach {heads.reach:.3g}: {how}{bent}"
        return cls(heads, levels.reshape(len(kept), -1), kept, fixed, warp, about)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n new pictures, uint8, and the stored one nearest to each (n,)."""
        seed = int(rng.integers(2**63))
        drawn = np.asarray(self.heads.sample(n, seed, self.fixed))
        if self.warp:
            drawn = random_warps(drawn, self.warp, seed)
        memory = self.kept[nearest_rows(drawn.reshape(n, -1), self.rows)]
        return np.round(np.clip(drawn, 0, 1) * 255).astype(np.uint8), memory
