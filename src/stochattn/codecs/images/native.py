"""The sampler made for pictures, as the pipeline draws from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._arrays import Array
from ...local_heads import FEW_MEMORIES_REACH, LocalHeads
from ..coordinates import nearest


class LocalPictures(NamedTuple):
    """Local heads over stored pictures (K, h, w[, 3]), as levels from 0 to 255."""

    heads: LocalHeads
    rows: Array  # (K, pixels) the stored pictures, to find the nearest
    kept: Array  # their numbers among all that are stored
    about: str

    @classmethod
    def of(cls, images: Array, weights: Array) -> LocalPictures:
        """Heads over the pictures of positive weight, with the natural reach."""
        kept = np.flatnonzero(weights > 0)
        levels = images[kept].astype(np.float32) / 255
        heads = LocalHeads(levels, np.log(weights[kept]))
        if heads.reach == FEW_MEMORIES_REACH:
            how = "these are too few for new ones to be as far from them as they are from each other"
        else:
            how = "new ones are as far from the stored as these are from each other"
        about = f"local heads, reach {heads.reach:.3g}: {how}"
        return cls(heads, levels.reshape(len(kept), -1), kept, about)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n new pictures, uint8, and the stored one nearest to each (n,)."""
        drawn = np.asarray(self.heads.sample(n, rng=int(rng.integers(2**63))))
        memory = self.kept[nearest(drawn.reshape(n, -1), self.rows)]
        return np.round(np.clip(drawn, 0, 1) * 255).astype(np.uint8), memory
