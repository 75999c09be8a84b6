"""Smooth random warps: a picture warped by less than a stroke's width is another example of the same thing.

They add small displacements, which no mixture of stored pictures has, and so help a classifier that has few examples.
"""

from __future__ import annotations

import numpy as np

from ..._backend.arrays import Array, ArrayLike, like, to_numpy
from ..._backend.checks import non_negative
from ..._backend.random import Purpose, generator, seed_of
from .window_attention import as_pictures

SPACING = 10
"""Pixels between the displacements that are drawn; those between them are interpolated."""


def random_warps(images: ArrayLike, amplitude: float = 1.0, rng: object = None) -> Array:
    """The pictures, each warped by its own smooth displacement field; edges are continued outwards.

    The field is a coarse grid of normal vectors, joined by cubic splines and scaled so that its root mean square, over
    the picture and both directions, is `amplitude` on average. Image i's field depends on (seed, i) only.

    images: (n, H, W) or (n, H, W, channels); the result has their shape, library and dtype (float32 for whole numbers)
            and stays within each picture's own range
    amplitude: root mean square displacement in pixels, along either axis

    >>> random_warps(np.ones((2, 8, 8)), rng=0).shape
    (2, 8, 8)
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
    knots = np.arange(-3, cells + 4, dtype=np.float64)
    return BSpline.design_matrix(np.arange(size) / SPACING, knots, 3).toarray()
