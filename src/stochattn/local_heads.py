"""Local heads: each pixel attends over the memories with what it sees in a window, while noise and window shrink.

One head a pixel p. At noise level σ, with W(p) the square window of radius reach·σ around p, cut off at the edge,

    w_k(p) ∝ r_k exp(−‖x − m_k‖²_{W(p)} / 2σ²)        x₀(p) = Σ_k w_k(p) m_k(p)        x ← x₀ + (σ′/σ)(x − x₀)

from white noise of level σ_max around the mean picture down to σ_min, where x₀ is returned. A window that covers the
picture is p_beta's own attention, and ends at a memory. Smaller windows take each part of a picture from memories of
its own, and overlap, so that parts fit: new pictures, as sharp as the stored ones. All channels share a window.

Noise is measured in units of the memories' contrast, so that nothing depends on the scale of pixel values. A window is
2·reach·σ pixels wide, and what memories differ by in it about as long; noise along any one direction is σ. So the
signal a head sees is 2·reach times the noise at every level, and reach alone says how sure heads are of their choice.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ._arrays import Array, empty, full_precision, is_torch, like, to_numpy
from ._checks import count, non_negative, positive
from ._random import Purpose, generator, seed_of
from .evaluate import nearest_distances
from .window_attention import PictureMemories, attend_whole, attend_windows

DRAWS, FEWEST_DRAWS, DRAWN = 96, 32, 96 * 2**18
"""Pictures whose distances decide the natural reach; fewer where pixels × memories × pictures would pass the last."""
LEAST_REACH, FEW_MEMORIES_REACH = 1.5, 2.0
"""Below the first a window's signal is under three times the noise, and heads choose memories by chance. The second is
for memories too few to make pictures as far from them as they are from each other: there, coherence comes first."""
PICTURES, PICTURES_ON_DEVICE = 16, 128
"""Pictures drawn at a time; fewer are filled up with idle ones, so that no picture's bits depend on its company."""


class Anneal(NamedTuple):
    """How noise and windows shrink.

    sigma_max: first noise level, in units of contrast; None for the memories' own root mean square distance from their
               mean, where attention over whole pictures is nearly even, so that noise around the mean is a fair start
    sigma_min: last noise level, in units of contrast: a tenth is under what the eye tells apart, and pixels that differ
               by less are averaged
    steps:     levels from one to the other, geometric
    floor:     radius in pixels below which no window shrinks: 5 × 5 pixels, wider than a stroke or an edge
    """

    sigma_max: float | None = None
    sigma_min: float = 0.1
    steps: int = 25
    floor: int = 2


class LocalHeads:
    """New pictures from stored ones: every pixel attends over the memories with the window that it sees. Immutable.

    images: (K, H, W) or (K, H, W, channels), array or tensor; whole numbers are taken as float32
    log_r:  (K,) log-multiplicities, −inf for a memory that is masked out; None for equal ones
    reach:  radius of a window in pixels, per unit of noise; None for `natural_reach`. Large ones recall, small ones
            recombine

    >>> stripes = np.sin(np.arange(12)[None, None] / np.arange(2.0, 6.0)[:, None, None]) * np.ones((1, 12, 1))
    >>> LocalHeads(stripes, reach=2).sample(3, rng=0).shape
    (3, 12, 12)
    """

    def __init__(
        self, images: Any, log_r: Any = None, reach: float | None = None, *, anneal: Anneal | None = None
    ) -> None:
        self._memories = PictureMemories(images, log_r)
        self._anneal = _resolved(anneal or Anneal(), self._memories)
        self._reach = _natural(self._memories, self._anneal) if reach is None else non_negative("reach", reach)

    @property
    def reach(self) -> float:
        """Radius of a window per unit of noise, resolved."""
        return self._reach

    @property
    def anneal(self) -> Anneal:
        """How noise and windows shrink, resolved."""
        return self._anneal

    def sample(self, n: int, rng: Any = None) -> Array:
        """n new pictures, (n, H, W) or (n, H, W, channels), in the memories' library, dtype and device.

        Picture i depends on (seed, i) alone. Every pixel lies, to rounding, between the memories' smallest and
        largest value there.
        """
        x = _draw(self._memories, self._anneal, self._reach, count("n", n), seed_of(rng), Purpose.START)
        return self._memories.pictures(x)

    def __repr__(self) -> str:
        kept = self._memories
        return f"LocalHeads(K={kept.K} memories of {kept.H} × {kept.W} pixels, reach={self.reach:.3g})"


def natural_reach(images: Any, log_r: Any = None, *, anneal: Anneal | None = None) -> float:
    """The reach at which new pictures are as far from the memories as the memories are from each other.

    Precisely: the largest one, to 5 %, at which the median distance from a draw to its nearest memory is at least the
    median distance from a memory to its nearest other memory; of 96 fixed draws (32 where pictures are large or many),
    so that it needs no seed. Where no reach of 1.5 or more does that, memories are too few for it: 2 is returned.
    """
    memories = PictureMemories(images, log_r)
    return _natural(memories, _resolved(anneal or Anneal(), memories))


def _resolved(anneal: Anneal, memories: PictureMemories) -> Anneal:
    sigma_min = positive("anneal.sigma_min", anneal.sigma_min, "0.1 is the default.")
    most = memories.spread if anneal.sigma_max is None else positive("anneal.sigma_max", anneal.sigma_max, "Try None.")
    if most <= sigma_min:
        raise ValueError(f"anneal.sigma_max must exceed anneal.sigma_min={sigma_min:g}; got {most:g}. Try None.")
    return Anneal(most, sigma_min, count("anneal.steps", anneal.steps, 2), count("anneal.floor", anneal.floor))


def _draw(memories: PictureMemories, anneal: Anneal, reach: float, n: int, seed: int, purpose: Purpose) -> Array:
    """n draws around the mean, in units of contrast: (n, H, W, C)."""
    rows = memories.rows
    batch = PICTURES_ON_DEVICE if is_torch(rows) and rows.is_cuda else PICTURES
    sigmas = np.geomspace(anneal.sigma_max or 1.0, anneal.sigma_min, anneal.steps)
    radii = [max(round(reach * sigma), anneal.floor) for sigma in sigmas]
    covering = max(memories.H, memories.W) - 1
    with full_precision(rows):
        half_norms = {radius: memories.half_norms(radius) for radius in set(radii) if radius < covering}
        drawn = empty((n, memories.H, memories.W, memories.C), rows)
        for first in range(0, n, batch):
            x = float(sigmas[0]) * _noise(memories, range(first, first + batch), seed, purpose)
            for sigma, after, radius in zip(sigmas, [*sigmas[1:], 0.0], radii, strict=True):
                if radius in half_norms:
                    x0 = attend_windows(memories, x, sigma, radius, half_norms[radius])
                else:
                    x0 = attend_whole(memories, x, sigma)
                x = x0 + float(after / sigma) * (x - x0)
            drawn[first : first + batch] = x[: n - first]
    return drawn


def _noise(memories: PictureMemories, numbers: range, seed: int, purpose: Purpose) -> Array:
    shape = memories.H, memories.W, memories.C
    return like(np.stack([generator(seed, purpose, i).standard_normal(shape) for i in numbers]), memories.rows)


def _natural(memories: PictureMemories, anneal: Anneal) -> float:
    if memories.K < 2:
        raise ValueError(
            "the natural reach compares memories with each other; there is one. Store more, or pass reach."
        )
    if anneal.floor >= max(memories.H, memories.W) - 1:
        raise ValueError(
            f"images must be larger than the smallest window, {2 * anneal.floor + 1} pixels wide, or new ones are all "
            f"stored ones; got {memories.H} × {memories.W}. Pass reach, lower anneal.floor, or sample their rows."
        )
    stored = to_numpy(memories.flat.T)
    target = float(np.median(nearest_distances(stored)))
    if target <= 1e-6 * memories.spread:
        raise ValueError(
            "at least half of the images have a duplicate, so that their typical distance is zero. "
            "Remove duplicates, or pass reach."
        )
    draws = min(max(DRAWN // stored.size // PICTURES * PICTURES, FEWEST_DRAWS), DRAWS)

    def far_enough(reach: float) -> bool:
        drawn = to_numpy(_draw(memories, anneal, reach, draws, 0, Purpose.RULE))
        return float(np.median(nearest_distances(drawn.reshape(draws, -1), stored))) >= target

    if not far_enough(LEAST_REACH):
        return FEW_MEMORIES_REACH
    low, high, most = LEAST_REACH, 1.5 * LEAST_REACH, max(memories.H, memories.W) / anneal.sigma_min
    while high < most and far_enough(high):
        low, high = high, 1.5 * high
    while high > 1.05 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if far_enough(middle) else (low, middle)
    return low
