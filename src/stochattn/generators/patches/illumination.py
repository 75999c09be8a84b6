"""Light and detail of photographs, as channels of their own.

Light is what a picture has of the lowest cosines along either side, P x Pᵀ; detail is the rest. Parts of two portraits
fit when their details do, however bright the one is beside the other: so light counts less in what heads compare, and
is made smooth again when they are put together, and no seam of it is left. P is a projection: a picture that is taken
apart and put together is itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._backend.arrays import Array, concatenate, like, to_numpy

SHARE = 1 / 8
"""Cosines of a side that are light, over its pixels: waves of 16 pixels and more, a cheek's shade and not an eye's."""
SMALLEST = 24
"""Below this many pixels on the shorter side light and detail are hardly two things."""
WEIGHT = 0.3
"""How much light counts beside detail. Much less, and faces are lit from everywhere at once."""
EXTREME, DRAWN = 0.02, 0.5
"""A value this near to the darkest or the brightest, as a share of the range, is extreme; pictures are drawings where
more than the second share of all values are. Ink has no light: there, a pale line is no line."""


class Light(NamedTuple):
    """The projections along the rows and columns of pictures: (H, H) and (W, W)."""

    down: Array
    across: Array

    @classmethod
    def of(cls, images: Any) -> Light:
        """For pictures of this size (K, H, W[, C])."""
        return cls(*(like(_projection(side), images) for side in images.shape[1:3]))

    def split(self, images: Array) -> Array:
        """Pictures (n, H, W, C) as light, weighted, and detail: (n, H, W, 2C)."""
        light = self._light(images)
        return concatenate([WEIGHT * light, images - light], 3)

    def join(self, parts: Array) -> Array:
        """Light and detail (n, H, W, 2C) as pictures (n, H, W, C), each freed of what belongs to the other."""
        C = parts.shape[3] // 2
        light, detail = parts[..., :C] / WEIGHT, parts[..., C:]
        return self._light(light) + detail - self._light(detail)

    def _light(self, images: Array) -> Array:
        n, H, W, C = images.shape
        along = self.down @ images.reshape(n, H, W * C)
        return (self.across @ along.reshape(n * H, W, C)).reshape(n, H, W, C)


def photographs(images: Any) -> bool:
    """Whether pictures (K, H, W[, C]) have light: not tiny, and at most half of their values black or white."""
    if min(images.shape[1:3]) < SMALLEST:
        return False
    levels = to_numpy(images)
    low, high = float(levels.min()), float(levels.max())
    margin = EXTREME * (high - low)
    return bool(((levels <= low + margin) | (levels >= high - margin)).mean() <= DRAWN)


def _projection(side: int) -> Array:
    """Σ_j c_j c_jᵀ over the cosines c_j of a side that are light: (side, side)."""
    place = (np.arange(side) + 0.5) * np.pi / side
    cosines = np.array([np.cos(j * place) for j in range(max(round(SHARE * side), 1))])
    cosines /= np.linalg.norm(cosines, axis=1, keepdims=True)
    return cosines.T @ cosines
