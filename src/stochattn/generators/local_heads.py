"""Local heads: each pixel attends over the memories with the window that it sees, while noise and window shrink.

One head per pixel p. At noise level σ, with W(p) the square window of radius·σ pixels around p, cut off at the edge,

    w_k(p) ∝ r_k exp(−‖x − m_k‖²_{W(p)} / 2σ²)        x₀(p) = Σ_k w_k(p) m_k(p)        x ← x₀ + (σ′/σ)(x − x₀)

from white noise of level σ_max around the mean picture down to σ_min, where x₀ is returned. A window that covers the
picture is p_beta's own attention, and ends at a memory. Smaller windows take each part of a picture from memories of
its own, and overlap, so that parts fit: new pictures, as sharp as the stored ones. All channels share a window.

Noise is measured in units of the memories' contrast, so that nothing depends on the scale of pixel values. A window is
2·radius·σ pixels wide, and the memories differ by about as much in it; noise along any one direction is σ. So the
signal that a head sees is 2·radius times the noise at every level, and the radius alone says how certain heads are.

Conditioned pixels have their values throughout, without noise, and count more than the pixels beside them:
(x − m_k)² / 2(σ/4)² in the sums above. If they had the noise of each level and no more weight, the pixels around them
would hardly agree with them, because the initial noise counts for as much.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple, TypeAlias

import numpy as np

from .._backend.arrays import Array, ArrayLike, empty, full_precision, like, namespace, on_cuda, to_numpy
from .._backend.checks import choice, count, non_negative
from .._backend.progress import Progress
from .._backend.random import Purpose, generator, seed_of
from ..core.neighbors import nearest_distances
from .window_attention import PictureMemories, attend_whole, attend_windows

BATCH, BATCH_ON_DEVICE = 16, 128
"""Pictures drawn at a time. Smaller batches are filled up with unused ones, so that the bits of a picture do not depend
on the others in its batch."""
STEPS = 25
"""Noise levels, geometric from the first to the last."""
MIN_WINDOW_RADIUS, WINDOW_SHARE = 2, 1 / 14
"""Radius in pixels of the smallest window, and its share of the shorter side of large pictures: wider than a stroke or
an edge. A stroke in a digit is an eye in a portrait of twice the size; windows that see part of an eye join two."""
CONDITIONED_NOISE = 1 / 4
"""Standard deviation of noise that is assumed on conditioned pixels, over that of the noise around them. At 1 they
count too little. Much below 1/4, completions by other pictures agree with each other more than with the truth."""
MAX_DRAWS, MIN_DRAWS, MAX_DRAWN_VALUES = 96, 32, 96 * 2**18
"""Draws that the matched-distance rule is decided by; fewer where pixels × memories × draws would pass the last."""
MIN_STANDARD_ERRORS = 3.0
"""Standard errors at which the first draws decide for all: even the radius that is looked for, which splits draws in
halves, is decided wrongly less than once in a hundred times."""
MIN_RADIUS, FALLBACK_RADIUS = 1.5, 2.0
"""Below the first a window's signal is under three times the noise, and heads choose memories by chance. The second is
for memories too few to make pictures as far from them as they are from each other: there, coherence comes first."""
PRECISION = 1.05
"""Factor that the radius is found to."""

MaskAndPicture: TypeAlias = tuple[ArrayLike, ArrayLike]
"""Which values are conditioned, (H, W) or (H, W, channels) booleans, and a picture that has them."""


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


class LocalHeads:
    """New pictures from stored ones: every pixel attends over the memories with the window that it sees. Immutable.

    images: (K, H, W) or (K, H, W, channels), array or tensor; whole numbers become float32
    log_r:  (K,) log-multiplicities, −inf for a memory that is masked out; None for equal ones
    radius: window radius in pixels per unit of noise; None for the matched-distance rule. Large radii recall, small
            ones recombine
    illumination: whether illumination and detail are channels of their own, so that parts of photographs fit however
            they are lit; None for photographs only
    progress: whether a bar shows while the radius is chosen; None for a bar on a terminal or in a notebook

    The attribute `radius_rule` says how the radius was set, and `splits_illumination` whether illumination is split.

    >>> stripes = np.sin(np.arange(12)[None, None] / np.arange(2.0, 6.0)[:, None, None]) * np.ones((1, 12, 1))
    >>> LocalHeads(stripes, radius=2).sample(3, rng=0).shape
    (3, 12, 12)
    """

    def __init__(
        self,
        images: ArrayLike,
        log_r: ArrayLike | None = None,
        radius: float | None = None,
        *,
        illumination: bool | None = None,
        progress: bool | None = None,
    ) -> None:
        self._memories = PictureMemories(images, log_r, choice("illumination", illumination))
        self.splits_illumination = self._memories.illumination is not None
        if radius is None:
            self.radius, self.radius_rule = _matched_distance_radius(self._memories, progress)
        else:
            self.radius, self.radius_rule = non_negative("radius", radius), RadiusRule.GIVEN

    def sample(
        self,
        n: int,
        rng: object = None,
        conditioned: MaskAndPicture | None = None,
        *,
        progress: bool | None = None,
    ) -> Array:
        """n new pictures, (n, H, W) or (n, H, W, channels), in the memories' library, dtype and device.

        Picture i depends on (seed, i) alone. Without illumination every pixel lies, to rounding, between the memories'
        smallest and largest value there, unless it is conditioned.

        conditioned: (mask, picture): every new picture has the picture's values where the mask is true
        """
        n, seed, memories = count("n", n), seed_of(rng), self._memories
        if conditioned is not None and self.splits_illumination:
            raise ValueError("conditioned pixels need heads that do not split illumination: pass illumination=False.")
        constraint = None if conditioned is None else _PixelConstraint.of(conditioned, memories)
        annealing = _Annealing(memories, self.radius, constraint)
        drawn = empty((n, memories.H, memories.W, memories.C), memories.rows)
        with Progress(n, "drawing pictures", progress) as bar:
            for first in range(0, n, annealing.batch):
                drawn[first : first + annealing.batch] = annealing.draw(first, seed, Purpose.START)[: n - first]
                bar.update(min(first + annealing.batch, n))
        pictures = memories.pictures(drawn)
        if constraint is None:
            return pictures
        mask, picture = (values.reshape(pictures.shape[1:]) for values in (constraint.mask, constraint.picture))
        return namespace(pictures).where(mask, picture, pictures)

    def __repr__(self) -> str:
        kept = self._memories
        return f"LocalHeads(K={kept.K} memories of {kept.H} × {kept.W} pixels, radius={self.radius:.3g})"


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


class _PixelConstraint(NamedTuple):
    """Conditioned values of pictures, (H, W, C) each; `values` are around the mean, in units of contrast."""

    mask: Array
    picture: Array
    values: Array

    @classmethod
    def of(cls, conditioned: MaskAndPicture, memories: PictureMemories) -> _PixelConstraint:
        try:
            mask, picture = map(to_numpy, conditioned)
        except (TypeError, ValueError):
            raise TypeError(f"conditioned must be a mask and a picture; got {type(conditioned).__name__}.") from None
        shape, rows = (memories.H, memories.W, *memories.channels), memories.rows
        if mask.dtype != bool or mask.shape not in (shape, shape[:2]):
            rule = f"the mask of conditioned must be booleans of shape {shape[:2]} or {shape}"
            raise ValueError(f"{rule}; got {mask.dtype}, {mask.shape}.")
        if picture.shape != shape:
            raise ValueError(f"the picture of conditioned must have shape {shape}, as the images; got {picture.shape}.")
        mask = np.broadcast_to(mask.reshape(*shape[:2], -1), (*shape[:2], memories.C)).copy()
        levels = np.where(mask, picture.reshape(mask.shape).astype(np.float64), 0.0)
        if not np.isfinite(levels).all():
            raise ValueError("the picture of conditioned must be finite where its mask is true; got NaN or infinity.")
        values = np.where(mask, (levels - to_numpy(memories.mean)) / memories.contrast, 0.0)
        return cls(like(mask, rows, keep_dtype=True), like(levels, rows), like(values, rows))


class _Annealing:
    """Noise levels, the window of each for a radius, and conditioned pixels; half norms are shared by all batches."""

    def __init__(self, memories: PictureMemories, radius: float, constraint: _PixelConstraint | None = None) -> None:
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


def _matched_distance_radius(memories: PictureMemories, progress: bool | None) -> tuple[float, RadiusRule]:
    """The radius at which new pictures are as far from the memories as these are from each other, and how it was set.

    It is the largest, to 5 %, at which the median distance from a draw to its nearest memory is at least the median
    distance from a memory to the nearest one that differs from it. It uses 96 draws of a fixed seed (32 where pictures
    are large or many), and fewer where these leave no doubt. Where no radius of 1.5 or more does that, memories are too
    few for the rule, and 2 is returned.
    """
    target, stored = _typical_distance(memories)
    n_draws = min(max(MAX_DRAWN_VALUES // stored.size // BATCH * BATCH, MIN_DRAWS), MAX_DRAWS)

    def far_enough(radius: float) -> bool:
        return median_distance(_Annealing(memories, radius), stored, target, n_draws) >= target

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


def median_distance(annealing: _Annealing, stored: Array, target: float, n_draws: int) -> float:
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
        raise ValueError("the matched-distance rule compares memories; there is one. Store more, or pass radius.")
    smallest = smallest_radius(memories)
    if smallest >= max(memories.H, memories.W) - 1:
        rule = f"images must be larger than the smallest window, {2 * smallest + 1} pixels wide"
        raise ValueError(f"{rule}, or new ones are stored ones; got {memories.H} × {memories.W}. Pass radius.")
    as_drawn = memories.flat.T.reshape(memories.K, memories.H, memories.W, memories.C)
    stored = np.unique(to_numpy(memories.pictures(as_drawn)).reshape(memories.K, -1), axis=0)
    target = float(np.median(nearest_distances(stored))) if len(stored) > 1 else 0.0
    if target <= 1e-6 * memories.spread * memories.contrast:
        raise ValueError("images must differ for this rule; at least half are alike. Store others, or pass radius.")
    return target, stored
