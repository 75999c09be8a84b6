"""Illumination and detail of photographs, as channels of their own.

The illumination of a picture x is its part in the lowest cosines along either side, P x Pᵀ; its detail is the rest.
Parts of two portraits fit when their details do, however bright one is beside the other. So illumination counts less
in the comparison of windows, and is projected again when parts are joined, which removes seams. P is a projection: a
picture that is split and joined is itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._backend.arrays import Array, concatenate, like, to_numpy

COSINES_PER_PIXEL = 1 / 8
"""Cosines of illumination along a side, over its pixels: waves of 16 pixels and more. They hold the shade of a cheek,
and not that of an eye."""
MIN_SIDE = 24
"""Pixels of the shorter side below which illumination and detail are hardly separate."""
ILLUMINATION_WEIGHT = 0.3
"""How much illumination counts beside detail. With much less, faces are lit from everywhere at once."""
EXTREME_MARGIN, MAX_EXTREME_SHARE = 0.02, 0.5
"""A value within this share of the range from the darkest or the brightest is extreme. Pictures are drawings, not
photographs, where more than the second share of all values are. In a drawing illumination has no meaning: a pale line
is a mistake."""


class Illumination(NamedTuple):
    """The projections along the rows and columns of pictures: (H, H) and (W, W)."""

    down: Array
    across: Array

    @classmethod
    def of(cls, images: Array) -> Illumination:
        """The projections for pictures of this size (K, H, W[, C])."""
        return cls(*(like(_projection(side), images) for side in images.shape[1:3]))

    def split(self, images: Array) -> Array:
        """Pictures (n, H, W, C) as weighted illumination and detail: (n, H, W, 2C)."""
        illumination = self._project(images)
        return concatenate([ILLUMINATION_WEIGHT * illumination, images - illumination], 3)

    def join(self, parts: Array) -> Array:
        """Illumination and detail (n, H, W, 2C) as pictures (n, H, W, C); each is freed of the other's part."""
        C = parts.shape[3] // 2
        illumination, detail = parts[..., :C] / ILLUMINATION_WEIGHT, parts[..., C:]
        return self._project(illumination) + detail - self._project(detail)

    def _project(self, images: Array) -> Array:
        n, H, W, C = images.shape
        along = self.down @ images.reshape(n, H, W * C)
        return (self.across @ along.reshape(n * H, W, C)).reshape(n, H, W, C)


def are_photographs(images: Array) -> bool:
    """Whether pictures (K, H, W[, C]) are not tiny, and at most half of their values are black or white."""
    if min(images.shape[1:3]) < MIN_SIDE:
        return False
    levels = to_numpy(images)
    low, high = float(levels.min()), float(levels.max())
    margin = EXTREME_MARGIN * (high - low)
    return bool(((levels <= low + margin) | (levels >= high - margin)).mean() <= MAX_EXTREME_SHARE)


def _projection(side: int) -> Array:
    """Σ_j c_j c_jᵀ over the lowest cosines c_j along a side: (side, side)."""
    place = (np.arange(side) + 0.5) * np.pi / side
    cosines = np.array([np.cos(j * place) for j in range(max(round(COSINES_PER_PIXEL * side), 1))])
    cosines /= np.linalg.norm(cosines, axis=1, keepdims=True)
    return cosines.T @ cosines
