"""Smooth random warps: a picture bent by less than a stroke's width is another example of the same thing.

They add what no mixture of stored pictures has, small displacements, and so inform a classifier that has few examples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend.arrays import Array, like, to_numpy
from ..._backend.checks import count, non_negative
from ..._backend.random import Purpose, generator, seed_of
from .window_attention import as_pictures

SPACING = 10
"""Pixels between the displacements that are drawn; those between are interpolated smoothly."""


def random_warps(images: Any, amplitude: float = 1.0, rng: Any = None, spacing: int = SPACING) -> Array:
    """The pictures, each bent by its own smooth displacement field; edges are continued outwards.

    The field is a coarse grid of normal vectors, a node every `spacing` pixels, joined by cubic splines and scaled so
    that its root mean square, over the picture and both directions, is `amplitude` on average. Image i's field depends
    on (seed, i) only.

    images: (n, H, W) or (n, H, W, channels); what comes back has their shape, library and dtype (float32 for whole
            numbers) and stays within each picture's own range
    amplitude: root mean square displacement in pixels, along either axis

    >>> random_warps(np.ones((2, 8, 8)), rng=0).shape
    (2, 8, 8)
    """
    pictures = as_pictures(images)
    amplitude = non_negative("amplitude", amplitude)
    spacing = count("spacing", spacing, 2)
    seed = seed_of(rng)
    flat = to_numpy(pictures).reshape(*pictures.shape[:3], -1)
    bent = np.empty_like(flat)
    for i, picture in enumerate(flat):
        field = amplitude * displacements(picture.shape[:2], spacing, generator(seed, Purpose.DRAW, i))
        bent[i] = _moved(picture, field)
    return like(bent.reshape(pictures.shape), pictures)


def displacements(shape: tuple[int, int], spacing: int, rng: np.random.Generator) -> Array:
    """A smooth field of vectors, with mean square one along either axis on average over fields: (2, H, W)."""
    across = _splines(shape[0], spacing), _splines(shape[1], spacing)
    nodes = rng.standard_normal((2, across[0].shape[1], across[1].shape[1]))
    field = across[0] @ nodes @ across[1].T
    return field / np.sqrt(np.prod([(matrix**2).sum(1).mean() for matrix in across]))


def _splines(size: int, spacing: int) -> Array:
    """Cubic B-splines, a node every `spacing` pixels and one beyond either end, at each pixel: (size, nodes)."""
    from scipy.interpolate import BSpline

    cells = -(-(size - 1) // spacing) if size > 1 else 1
    knots = np.arange(-3, cells + 4, dtype=np.float64)
    return BSpline.design_matrix(np.arange(size) / spacing, knots, 3).toarray()


def _moved(picture: Array, field: Array) -> Array:
    """The picture (H, W, C), read at each pixel's place plus its displacement (2, H, W), bilinearly."""
    from scipy.ndimage import map_coordinates

    places = np.indices(picture.shape[:2]) + field
    parts = [map_coordinates(picture[..., c], places, order=1, mode="nearest") for c in range(picture.shape[2])]
    return np.stack(parts, axis=-1)
