"""The generator "patches": local attention heads over stored images, and smooth random warps of the results.

There is one head per pixel p, which attends over the memories with a window around it, while noise and window shrink.
At noise level σ, with W(p) the square window of radius·σ pixels around p, cut off at the edge,

    w_k(p) ∝ r_k exp(−‖x − m_k‖²_{W(p)} / 2σ²)        x₀(p) = Σ_k w_k(p) m_k(p)        x ← x₀ + (σ′/σ)(x − x₀)

from white noise of level σ_max around the mean image down to σ_min, where x₀ is returned. With a window that covers the
image, this is the attention of p_beta and ends at a memory. With smaller windows, different parts of an image come from
different memories; windows overlap, so that parts fit and new images are as sharp as the stored ones. All channels
share a window.

Noise is measured in units of the memories' contrast. A window is 2·radius·σ pixels wide, and the memories differ by
about as much in it; noise along any one direction is σ. So the signal of a head is 2·radius times the noise at every
level, and the radius alone determines how certain heads are. Conditioned pixels keep their values throughout, without
noise, and have more weight, (x − m_k)² / 2(σ/4)² in the sums above: otherwise the pixels around them would hardly agree
with them, because the initial noise has as much weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...._backend.arrays import Array, ArrayLike, NumpyArray, empty, full_precision, like, namespace, on_cuda, to_numpy
from ...._backend.checks import check_count
from ...._backend.console import Progress
from ...._backend.parallel import in_threads, usable_cores
from ...._backend.random import Purpose, generator, seed_of
from ....core.neighbors import nearest_distances, nearest_rows
from ...generator import Description, Generated
from .window_attention import ImageMemories, attend_globally, attend_windows

BATCH, BATCH_ON_DEVICE = 8, 128
"""Images drawn at a time: few, so that workers can share them. Batches are always full, so that the bits of an image
do not depend on the others. Results depend on these sizes."""
STEPS = 25  # noise levels, geometric from the first to the last
MIN_WINDOW_RADIUS, WINDOW_SHARE = 2, 1 / 14
"""Radius in pixels of the smallest window, and its share of the shorter side of large images: wider than strokes."""
CONDITIONED_NOISE = 1 / 4  # assumed for conditioned pixels, over that of others; completions are alike with much less
MAX_DRAWS, MIN_DRAWS, MAX_DRAWN_VALUES, MIN_STANDARD_ERRORS = 96, 32, 96 * 2**18, 3.0
"""Limits of the number of draws of the matched-distance rule; pixels × memories × draws are limited by the third. The
rule stops early if the median differs from its target by this number of standard errors: then less than one decision in
a hundred is wrong."""
LOOK = 16  # number of draws between two tests of whether the rule can stop
MIN_RADIUS, FALLBACK_RADIUS, PRECISION = 1.5, 2.0, 1.05
"""Below the least radius, the signal of a window is under three times the noise, and heads choose memories by chance.
With too few memories for the rule, the fallback favors coherence. The rule resolves radii to the last factor."""


class SettingRule(Enum):
    """How a window radius, or a scale of deformations, was set, in words."""

    GIVEN = "as given"
    MATCHED_DISTANCE = "matched-distance rule: new images are as far from the stored ones as these from each other"
    FALLBACK = "the stored images are too few for new ones to be as far from them as the matched-distance rule asks"
    LEAST = "the least: many stored images are nearly alike"
    LARGEST = "the largest: the stored images are too few for the matched-distance rule, or too different"


class LocalHeads:
    """New images from stored ones: every pixel attends over the memories with a window around it. Immutable.

    images: (K, H, W) or (K, H, W, channels), array or tensor of floats
    log_r:  (K,) log-multiplicities, −inf for a memory that is masked out; None for equal ones
    radius: window radius in pixels per unit of noise; None for the matched-distance rule. Large radii recall, small
            ones recombine
    illumination: whether illumination and detail are separate channels, so that parts of photographs fit however they
            are lit; None for photographs only
    """

    def __init__(
        self, images: Array, log_r: Array | None = None, radius: float | None = None, illumination: bool | None = None
    ) -> None:
        self.memories = ImageMemories(images, log_r, illumination)
        if radius is None:
            self.radius, self.radius_rule = _matched_distance_radius(self.memories)
        else:
            self.radius, self.radius_rule = float(radius), SettingRule.GIVEN

    def sample(self, n: int, rng: object = None, conditioned: tuple[ArrayLike, ArrayLike] | None = None) -> Array:
        """n new images, (n, H, W) or (n, H, W, channels), in the memories' library, dtype and device.

        Image i depends on (seed, i) alone. Without illumination, a pixel that is not conditioned lies, up to rounding,
        between the smallest and the largest value of the memories at this pixel.

        conditioned: a mask (H, W[, channels]) and an image, whose values new images have where the mask is true
        """
        return Annealing(self.memories, self.radius, conditioned).sample(check_count("n", n), seed_of(rng))


def smallest_radius(memories: ImageMemories) -> int:
    """Radius of the smallest window in pixels."""
    return max(round(WINDOW_SHARE * min(memories.H, memories.W)), MIN_WINDOW_RADIUS)


def noise_levels(memories: ImageMemories) -> Array:
    """Noise levels in units of contrast, from the first to the last: (STEPS,).

    At the first, the memories' root mean square distance from their mean, attention over whole images is nearly even.
    At the last, the signal of the smallest window is 50 times the noise; pixels that differ by less are averaged.
    """
    last = (2 * smallest_radius(memories) + 1) / 50
    # A single pixel that varies gives a spread of 1, which may be less than the last noise level of large windows.
    return np.geomspace(max(memories.spread, 2 * last), last, STEPS)


class Annealing:
    """Noise levels, their windows for a radius, and conditioned pixels; all batches share half norms."""

    def __init__(
        self, memories: ImageMemories, radius: float, conditioned: tuple[ArrayLike, ArrayLike] | None = None
    ) -> None:
        self.memories, self.precision = memories, None
        self.batch = BATCH_ON_DEVICE if on_cuda(memories.rows) else BATCH
        self.covering = max(memories.H, memories.W) - 1
        self.sigmas, smallest = noise_levels(memories), smallest_radius(memories)
        self.radii = [min(max(round(radius * sigma), smallest), self.covering) for sigma in self.sigmas]
        if conditioned is not None:
            if memories.illumination is not None:
                raise ValueError("conditioned pixels need heads that do not split images: pass illumination=False.")
            mask, image = map(to_numpy, conditioned)
            mask = np.broadcast_to(mask.reshape(memories.H, memories.W, -1), memories.mean.shape)
            levels = np.where(mask, image.reshape(mask.shape).astype(np.float64), 0.0)
            values = np.where(mask, (levels - to_numpy(memories.mean)) / memories.contrast, 0.0)
            self.mask = like(mask.copy(), memories.rows, keep_dtype=True)
            self.image, self.values = like(levels, memories.rows), like(values, memories.rows)
            self.precision = 1 + (CONDITIONED_NOISE**-2 - 1) * like(self.mask, memories.rows)
        with full_precision(memories.rows):
            self.half_norms = {r: memories.half_norms(r, self.precision) for r in set(self.radii)}

    def sample(self, n: int, seed: int) -> Array:
        draws = empty((n, *self.memories.mean.shape), self.memories.rows)
        with Progress(n, "drawing images") as bar:
            for first in range(0, n, self.batch):
                draws[first : first + self.batch] = self.draw(first, seed, Purpose.START)[: n - first]
                bar.update(min(first + self.batch, n))
        images = self.memories.to_images(draws)
        if self.precision is None:
            return images
        mask, image = (values.reshape(images.shape[1:]) for values in (self.mask, self.image))
        return namespace(images).where(mask, image, images)

    def draw(self, first: int, seed: int, purpose: Purpose) -> Array:
        """A batch of images from number `first` on, around the mean and in units of contrast: (batch, H, W, C)."""
        memories, shape = self.memories, tuple(self.memories.mean.shape)
        noise = [generator(seed, purpose, i).standard_normal(shape) for i in range(first, first + self.batch)]
        with full_precision(memories.rows):
            x = self._constrain(float(self.sigmas[0]) * like(np.stack(noise), memories.rows))
            for sigma, after, radius in zip(self.sigmas, [*self.sigmas[1:], 0.0], self.radii, strict=True):
                attend = attend_globally if radius == self.covering else attend_windows
                seen = x if self.precision is None else x * self.precision
                x0 = self._constrain(attend(memories, seen, sigma, radius, self.half_norms[radius]))
                x = x0 + float(after / sigma) * (x - x0)
        return x

    def _constrain(self, x: Array) -> Array:
        return x if self.precision is None else namespace(x).where(self.mask, self.values, x)


def _matched_distance_radius(memories: ImageMemories) -> tuple[float, SettingRule]:
    """The radius at which new images are as far from the memories as these are from each other, and its rule.

    It is the largest, to 5 %, at which the median distance from a draw of a fixed seed to its nearest memory is at
    least the median distance from a memory to the nearest different one.
    """
    if memories.K < 2:
        raise ValueError("the matched-distance rule compares memories; there is one. Store more, or pass radius.")
    as_drawn = memories.rows.reshape(-1, memories.K).T.reshape(memories.K, *memories.mean.shape)
    stored = np.unique(to_numpy(memories.to_images(as_drawn)).reshape(memories.K, -1), axis=0)
    target = float(np.median(nearest_distances(stored))) if len(stored) > 1 else 0.0
    if target <= 1e-6 * memories.spread * memories.contrast:
        raise ValueError("images must differ for this rule; at least half are equal. Store others, or pass radius.")
    n_draws = min(max(MAX_DRAWN_VALUES // stored.size // LOOK * LOOK, MIN_DRAWS), MAX_DRAWS)

    def far_enough(radius: float) -> bool:
        return median_distance(Annealing(memories, radius), stored, target, n_draws) >= target

    low, high, largest = MIN_RADIUS, MIN_RADIUS * PRECISION**8, max(memories.H, memories.W) / noise_levels(memories)[-1]
    with Progress(6, "choosing the window radius") as bar:
        if not far_enough(low):
            return FALLBACK_RADIUS, SettingRule.FALLBACK
        bar.update(1)
        while high < largest and far_enough(high):
            low, high = high, high * PRECISION**8
            bar.update(2)
        for done in (3, 4, 5):  # three bisections leave an eighth of the interval
            bar.update(done)
            middle = math.sqrt(low * high)
            low, high = (middle, high) if far_enough(middle) else (low, middle)
    return low, SettingRule.MATCHED_DISTANCE


def median_distance(annealing: Annealing, stored: Array, target: float, n_draws: int) -> float:
    """Median distance of draws from the stored rows, over as many draws as show whether it reaches the target."""
    memories, batch, distances = annealing.memories, annealing.batch, np.empty(0)

    def of_batch(first: int) -> NumpyArray:
        drawn = to_numpy(memories.to_images(annealing.draw(first, 0, Purpose.RULE)))
        return nearest_distances(drawn.reshape(len(drawn), -1), stored)

    while len(distances) < n_draws:
        # As many batches as there are cores; those after the decisive one are not used.
        ahead = range(len(distances), n_draws, batch)[: max(usable_cores(), LOOK // batch, 1)]
        for new in in_threads(of_batch, ahead):
            distances = np.append(distances, new)[:n_draws]
            excess = abs(2 * (distances >= target).sum() - len(distances))
            if len(distances) % LOOK == 0 and excess > MIN_STANDARD_ERRORS * math.sqrt(len(distances)):
                return float(np.median(distances))
    return float(np.median(distances))


SPACING = 10  # pixels between random displacements, between which others are interpolated


@dataclass(frozen=True, eq=False)
class ConditionedPixels:
    """Pixel values that new images must have: (h, w) or (h, w, 3) each."""

    pixels: Array  # booleans, true for conditions on single pixels
    rectangles: Array  # booleans, true for conditions on rectangles
    levels: Array  # pixel values in [0, 1], zero where nothing is conditioned

    @property
    def mask(self) -> Array:
        return self.pixels | self.rectangles


@dataclass(frozen=True, eq=False)
class PatchGenerator:
    """New images whose parts come from different stored ones."""

    levels: Array  # (K_kept, h, w) or (K_kept, h, w, 3) stored images with positive weight, floats in [0, 1]
    weights: Array  # (K_kept,) of these images
    kept: Array  # (K_kept,) their indices among all stored images
    warp: float = 0.0  # root mean square displacement of new images in pixels
    radius: float | None = None  # of windows, in pixels per unit of noise; None for the matched-distance rule
    conditioned: ConditionedPixels | None = None
    notes: tuple[str, ...] = ()  # of deformations, in whose place images are drawn under conditions
    block_items: ClassVar[int] = BATCH

    @classmethod
    def fit(cls, levels: Array, weights: Array, warp: float = 0.0, radius: float | None = None) -> PatchGenerator:
        """The generator of stored images (K, h, w[, 3]) that count `weights` (K,) times."""
        kept = np.flatnonzero(weights > 0)
        return cls(levels[kept], np.asarray(weights)[kept], kept, warp, radius)

    @cached_property
    def heads(self) -> LocalHeads:
        """The local heads; their radius is searched for here, because it depends on whether pixels are conditioned."""
        illumination = None if self.conditioned is None else False
        return LocalHeads(self.levels, np.log(self.weights), self.radius, illumination=illumination)

    @cached_property
    def _annealing(self) -> Annealing:
        mask_and_image = None if self.conditioned is None else (self.conditioned.mask, self.conditioned.levels)
        return Annealing(self.heads.memories, self.heads.radius, mask_and_image)

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new images (n, h, w[, 3]), and the stored one nearest to each."""
        seed = int(rng.integers(2**63))
        images = np.asarray(self._annealing.sample(n, seed))
        if self.warp and self.conditioned is None:
            images = random_warps(images, self.warp, seed)
        nearest = nearest_rows(*(x.reshape(len(x), -1) for x in (images, self.levels)))
        return Generated(images, self.kept[nearest])

    def condition(self, observation: ConditionedPixels) -> PatchGenerator:
        """The generator of images with these pixel values; images are not warped, which would move the values."""
        return replace(self, conditioned=observation)

    def describe(self) -> Description:
        radius, notes = self.heads.radius, self.notes
        summary = f"local attention heads, window radius {radius:.3g} ({self.heads.radius_rule.value})"
        if self.warp and self.conditioned is None:
            notes = (f"new images are warped by {self.warp:.2g} px; warp=0 switches that off.",)
        elif self.warp:
            notes = ("new images are not warped, so that conditioned pixels stay in place.",)
        return Description("patches", summary, notes, resolved={} if self.notes else {"radius": radius})


def random_warps(images: Array, amplitude: float = 1.0, rng: object = None) -> Array:
    """Images (n, H, W[, channels]), each warped by a random smooth displacement field, with reflected edges.

    Warped by less than the width of a stroke, an image is another example of the same object, which no mixture
    contains. The field is a coarse grid of normal vectors, interpolated by cubic splines and scaled so that its root
    mean square, over the image and both directions, is `amplitude` pixels on average. It depends on (seed, i) only.
    """
    from scipy.ndimage import map_coordinates

    flat, seed = to_numpy(images).reshape(*images.shape[:3], -1), seed_of(rng)
    down, across = (_splines(side) for side in flat.shape[1:3])
    scale = np.sqrt(np.prod([(matrix**2).sum(1).mean() for matrix in (down, across)]))
    warped = np.empty_like(flat)
    for i, pixels in enumerate(flat):
        nodes = generator(seed, Purpose.DRAW, i).standard_normal((2, down.shape[1], across.shape[1]))
        places = np.indices(pixels.shape[:2]) + amplitude * (down @ nodes @ across.T / scale)
        for c in range(flat.shape[3]):
            warped[i, ..., c] = map_coordinates(pixels[..., c], places, order=1, mode="mirror")
    return like(warped.reshape(images.shape), images)


def _splines(size: int) -> Array:
    """Cubic B-splines at each pixel, with a node every `SPACING` pixels and one beyond either end: (size, nodes)."""
    from scipy.interpolate import BSpline

    cells = max(-(-(size - 1) // SPACING), 1)
    knots = np.arange(-3, cells + 4, dtype=np.float64)
    return BSpline.design_matrix(np.arange(size) / SPACING, knots, 3).toarray()
