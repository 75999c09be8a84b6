"""Annealed attention over windows: how noise and windows shrink at one window radius, and draws batch by batch."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from ..._backend.arrays import Array, ArrayLike, full_precision, like, namespace, on_cuda, to_numpy
from ..._backend.random import Purpose, generator
from .window_attention import PictureMemories, attend_whole, attend_windows

BATCH, BATCH_ON_DEVICE = 16, 128
"""Pictures drawn at a time. Smaller batches are filled up with unused ones, so that the bits of a picture do not depend
on the others in its batch."""
STEPS = 25
"""Noise levels, geometric from the first to the last."""
MIN_WINDOW_RADIUS, WINDOW_SHARE = 2, 1 / 14
"""Radius in pixels of the smallest window, and its share of the shorter side of large pictures: wider than a stroke or
an edge. A stroke in a digit is an eye in a portrait of twice the size, and windows that see only a part of an eye join
two different ones."""
CONDITIONED_NOISE = 1 / 4
"""Standard deviation of noise that is assumed on conditioned pixels, over that of the noise around them. At 1 they
count too little. Much below 1/4, completions of stored pictures by others agree with each other more than with the
truth."""

MaskAndPicture: TypeAlias = tuple[ArrayLike, ArrayLike]
"""Which values are conditioned, (H, W) or (H, W, channels) booleans, and a picture that has them."""


def smallest_radius(memories: PictureMemories) -> int:
    """Radius of the smallest window in pixels."""
    return max(round(WINDOW_SHARE * min(memories.H, memories.W)), MIN_WINDOW_RADIUS)


def noise_levels(memories: PictureMemories) -> Array:
    """Noise levels in units of contrast, from the first to the last: (STEPS,).

    At the first, the memories' root mean square distance from their mean, attention over whole pictures is nearly even,
    so that noise around the mean is a sensible start. At the last, the signal of the smallest window is 50 times the
    noise; pixels that differ by less are averaged.
    """
    last = (2 * smallest_radius(memories) + 1) / 50
    # One odd pixel has a spread of 1, which may be less than the last noise level of large windows.
    return np.geomspace(max(memories.spread, 2 * last), last, STEPS)


class PixelConstraint(NamedTuple):
    """Conditioned values of pictures: (H, W, C) each.

    mask:    booleans
    picture: levels, as they are returned
    values:  around the mean, in units of contrast; zero where nothing is conditioned
    """

    mask: Array
    picture: Array
    values: Array

    @classmethod
    def of(cls, conditioned: MaskAndPicture, memories: PictureMemories) -> PixelConstraint:
        """The constraint that a mask and a picture express, checked."""
        try:
            mask, picture = map(to_numpy, conditioned)
        except (TypeError, ValueError):
            raise TypeError(f"conditioned must be a mask and a picture; got {type(conditioned).__name__}.") from None
        shape, rows = (memories.H, memories.W, *memories.channels), memories.rows
        if mask.dtype != bool or mask.shape not in (shape, shape[:2]):
            raise ValueError(
                f"the mask of conditioned must be booleans of shape {shape[:2]} or {shape}; got {mask.dtype}, "
                f"{mask.shape}."
            )
        if picture.shape != shape:
            raise ValueError(f"the picture of conditioned must have shape {shape}, as the images; got {picture.shape}.")
        mask = np.broadcast_to(mask.reshape(*shape[:2], -1), (*shape[:2], memories.C)).copy()
        levels = np.where(mask, picture.reshape(mask.shape).astype(np.float64), 0.0)
        if not np.isfinite(levels).all():
            raise ValueError("the picture of conditioned must be finite where its mask is true; got NaN or infinity.")
        values = np.where(mask, (levels - to_numpy(memories.mean)) / memories.contrast, 0.0)
        return cls(like(mask, rows, keep_dtype=True), like(levels, rows), like(values, rows))


class WindowAnnealing:
    """The noise levels, the window of each, and the conditioned pixels; half norms are shared by all batches.

    radius: window radius in pixels per unit of noise
    """

    def __init__(self, memories: PictureMemories, radius: float, constraint: PixelConstraint | None = None) -> None:
        self.memories, self.constraint, self.precision = memories, constraint, None
        self.batch = BATCH_ON_DEVICE if on_cuda(memories.rows) else BATCH
        self.covering = max(memories.H, memories.W) - 1
        self.sigmas, smallest = noise_levels(memories), smallest_radius(memories)
        self.radii = [min(max(round(radius * sigma), smallest), self.covering) for sigma in self.sigmas]
        if constraint is not None:
            self.precision = 1 + (CONDITIONED_NOISE**-2 - 1) * like(constraint.mask, memories.rows)
        with full_precision(memories.rows):
            self.half_norms = {one: memories.half_norms(one, self.precision) for one in set(self.radii)}

    def draw(self, first: int, seed: int, purpose: Purpose) -> Array:
        """One batch, pictures number `first` and on, around the mean and in units of contrast: (batch, H, W, C)."""
        memories = self.memories
        shape, numbers = (memories.H, memories.W, memories.C), range(first, first + self.batch)
        noise = np.stack([generator(seed, purpose, i).standard_normal(shape) for i in numbers])
        with full_precision(memories.rows):
            x = self._constrained(float(self.sigmas[0]) * like(noise, memories.rows))
            for sigma, after, radius in zip(self.sigmas, [*self.sigmas[1:], 0.0], self.radii, strict=True):
                attend = attend_whole if radius == self.covering else attend_windows
                seen = x if self.precision is None else x * self.precision
                x0 = self._constrained(attend(memories, seen, sigma, radius, self.half_norms[radius]))
                x = x0 + float(after / sigma) * (x - x0)
        return x

    def _constrained(self, x: Array) -> Array:
        return x if self.constraint is None else namespace(x).where(self.constraint.mask, self.constraint.values, x)
