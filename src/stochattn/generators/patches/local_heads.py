"""Local heads: each pixel attends over the memories with what it sees in a window, while noise and window shrink.

One head a pixel p. At noise level σ, with W(p) the square window of radius reach·σ around p, cut off at the edge,

    w_k(p) ∝ r_k exp(−‖x − m_k‖²_{W(p)} / 2σ²)        x₀(p) = Σ_k w_k(p) m_k(p)        x ← x₀ + (σ′/σ)(x − x₀)

from white noise of level σ_max around the mean picture down to σ_min, where x₀ is returned. A window that covers the
picture is p_beta's own attention, and ends at a memory. Smaller windows take each part of a picture from memories of
its own, and overlap, so that parts fit: new pictures, as sharp as the stored ones. All channels share a window.

Noise is measured in units of the memories' contrast, so that nothing depends on the scale of pixel values. A window is
2·reach·σ pixels wide, and what memories differ by in it about as long; noise along any one direction is σ. So the
signal a head sees is 2·reach times the noise at every level, and reach alone says how sure heads are of their choice.

Fixed pixels are their values throughout: without noise, and so believed more than what heads see beside them, with
(x − m_k)² / 2(σ/trust)² in the sums above. With noise of every level on them, and no trust, what is drawn around them
hardly agrees with them: the noise it starts from counts for as much.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..._backend.arrays import Array, empty, full_precision, is_torch, like, namespace, to_numpy
from ..._backend.checks import choice, count, non_negative, positive
from ..._backend.progress import Progress
from ..._backend.random import Purpose, generator, seed_of
from ...core.neighbors import nearest_distances
from .window_attention import PictureMemories, attend_whole, attend_windows

DRAWS, FEWEST_DRAWS, DRAWN = 96, 32, 96 * 2**18
"""Pictures whose distances decide the natural reach; fewer where pixels × memories × pictures would pass the last."""
SURE = 3.0
"""Standard errors at which the first of these pictures decide for all: even a reach that splits them in halves, the
one looked for, is misjudged so less than once in a hundred times."""
LEAST_REACH, FEW_MEMORIES_REACH = 1.5, 2.0
"""Below the first a window's signal is under three times the noise, and heads choose memories by chance. The second is
for memories too few to make pictures as far from them as they are from each other: there, coherence comes first."""
PRECISION = 1.05
"""Factor that the natural reach is found to."""
PICTURES, PICTURES_ON_DEVICE = 16, 128
"""Pictures drawn at a time; fewer are filled up with idle ones, so that no picture's bits depend on its company."""
TRUST = 4.0
"""How much smaller than the noise around them the noise of fixed pixels is taken to be. One lets them count too little;
much more, and completions of stored pictures by the others agree among each other more than with the truth."""
SMALLEST_FLOOR, FLOOR_SHARE = 2, 1 / 14
"""Radius of the smallest window: 5 × 5 pixels of a digit of 28 × 28, and as large a part of larger pictures."""

Fixed: TypeAlias = tuple[Any, Any]
"""Which values are fixed, (H, W) or (H, W, channels) booleans, and a picture to read them from; the rest is unread."""


class Anneal(NamedTuple):
    """How noise and windows shrink.

    sigma_max: first noise level, in units of contrast; None for the memories' own root mean square distance from their
               mean, where attention over whole pictures is nearly even, so that noise around the mean is a fair start
    sigma_min: last noise level, in units of contrast: pixels that differ by less are averaged. None for a fiftieth of
               the smallest window's width, so that its signal is 50 times the noise: a tenth at 5 × 5 pixels
    steps:     levels from one to the other, geometric
    floor:     radius in pixels below which no window shrinks: wider than a stroke or an edge. None for a fourteenth of
               the shorter side, and at least 2: what is a stroke in a digit is an eye in a portrait of twice the size,
               and windows that see a part of it only put halves of two eyes together
    """

    sigma_max: float | None = None
    sigma_min: float | None = None
    steps: int = 25
    floor: int | None = None


class LocalHeads:
    """New pictures from stored ones: every pixel attends over the memories with the window that it sees. Immutable.

    images: (K, H, W) or (K, H, W, channels), array or tensor; whole numbers are taken as float32
    log_r:  (K,) log-multiplicities, −inf for a memory that is masked out; None for equal ones
    reach:  radius of a window in pixels, per unit of noise; None for `natural_reach`. Large ones recall, small ones
            recombine
    light:  whether light and detail are channels of their own, so that parts of photographs fit whatever their light;
            None for photographs alone (see `light`)
    progress: whether a bar shows while the reach is chosen; None for one where someone watches

    >>> stripes = np.sin(np.arange(12)[None, None] / np.arange(2.0, 6.0)[:, None, None]) * np.ones((1, 12, 1))
    >>> LocalHeads(stripes, reach=2).sample(3, rng=0).shape
    (3, 12, 12)
    """

    def __init__(
        self,
        images: Any,
        log_r: Any = None,
        reach: float | None = None,
        *,
        anneal: Anneal | None = None,
        light: bool | None = None,
        progress: bool | None = None,
    ) -> None:
        self._memories = PictureMemories(images, log_r, choice("light", light))
        self._schedule = _Schedule.of(anneal or Anneal(), self._memories)
        self._reach = (
            _natural(self._memories, self._schedule, progress) if reach is None else non_negative("reach", reach)
        )

    @property
    def reach(self) -> float:
        """Radius of a window per unit of noise, resolved."""
        return self._reach

    @property
    def anneal(self) -> Anneal:
        """How noise and windows shrink, resolved."""
        return Anneal(*self._schedule)

    def sample(self, n: int, rng: Any = None, fixed: Fixed | None = None, *, progress: bool | None = None) -> Array:
        """n new pictures, (n, H, W) or (n, H, W, channels), in the memories' library, dtype and device.

        Picture i depends on (seed, i) alone. Without light of its own every pixel lies, to rounding, between the
        memories' smallest and largest value there, unless it is fixed: then it is what it is fixed at.

        fixed: (mask, picture): every new picture has the picture's values where the mask is true
        """
        n, seed, memories = count("n", n), seed_of(rng), self._memories
        if fixed is not None and memories.light is not None:
            raise ValueError("fixed needs pictures that are not taken apart into light and detail: pass light=False.")
        held = None if fixed is None else _Held.of(fixed, memories)
        flow = _Flow(memories, self._schedule, self._reach, held)
        drawn = empty((n, memories.H, memories.W, memories.C), memories.rows)
        with Progress(n, "drawing pictures", progress) as bar:
            for first in range(0, n, flow.batch):
                drawn[first : first + flow.batch] = flow.draw(first, seed, Purpose.START)[: n - first]
                bar.at(min(first + flow.batch, n))
        pictures = memories.pictures(drawn)
        if held is None:
            return pictures
        shape = tuple(pictures.shape[1:])
        return namespace(pictures).where(held.mask.reshape(shape), held.picture.reshape(shape), pictures)

    def __repr__(self) -> str:
        kept = self._memories
        return f"LocalHeads(K={kept.K} memories of {kept.H} × {kept.W} pixels, reach={self.reach:.3g})"


def natural_reach(
    images: Any,
    log_r: Any = None,
    *,
    anneal: Anneal | None = None,
    light: bool | None = None,
    progress: bool | None = None,
) -> float:
    """The reach at which new pictures are as far from the memories as the memories are from each other.

    Precisely: the largest one, to 5 %, at which the median distance from a draw to its nearest memory is at least the
    median distance from a memory to the nearest one that differs from it; of 96 fixed draws (32 where pictures are
    large or many), so that it needs no seed, and of fewer where these leave no doubt. Where no reach of 1.5 or more
    does that, memories are too few for it: 2 is returned.
    """
    memories = PictureMemories(images, log_r, choice("light", light))
    return _natural(memories, _Schedule.of(anneal or Anneal(), memories), progress)


class _Schedule(NamedTuple):
    """An anneal, resolved."""

    sigma_max: float
    sigma_min: float
    steps: int
    floor: int

    @classmethod
    def of(cls, anneal: Anneal, memories: PictureMemories) -> _Schedule:
        """What an anneal is for these memories; ValueError for an impossible one."""
        own_floor = max(round(FLOOR_SHARE * min(memories.H, memories.W)), SMALLEST_FLOOR)
        floor = count("anneal.floor", own_floor if anneal.floor is None else anneal.floor)
        sigma_min = (2 * floor + 1) / 50 if anneal.sigma_min is None else anneal.sigma_min
        sigma_min = positive("anneal.sigma_min", sigma_min, "Try None.")
        # One odd pixel has a spread of 1, which may be less than large windows end at.
        sigma_max = max(memories.spread, 2 * sigma_min) if anneal.sigma_max is None else anneal.sigma_max
        sigma_max = positive("anneal.sigma_max", sigma_max, "Try None.")
        if sigma_max <= sigma_min:
            raise ValueError(
                f"anneal.sigma_max must exceed anneal.sigma_min={sigma_min:g}; got {sigma_max:g}. Try None."
            )
        return cls(sigma_max, sigma_min, count("anneal.steps", anneal.steps, 2), floor)

    @property
    def sigmas(self) -> Array:
        """Noise levels, from the first to the last: (steps,)."""
        return np.geomspace(self.sigma_max, self.sigma_min, self.steps)


class _Held(NamedTuple):
    """What is fixed."""

    mask: Array  # (H, W, C) booleans
    picture: Array  # (H, W, C) as it comes out
    values: Array  # (H, W, C) around the mean, in units of contrast; zero where nothing is fixed

    @classmethod
    def of(cls, fixed: Fixed, memories: PictureMemories) -> _Held:
        """The same from (mask, picture), checked."""
        try:
            given, picture = fixed
        except (TypeError, ValueError):
            raise TypeError(f"fixed must be a mask and a picture; got {type(fixed).__name__}.") from None
        given = to_numpy(given)
        shape = (memories.H, memories.W, *memories.channels)
        if given.dtype != bool or given.shape not in (shape, shape[:2]):
            raise ValueError(
                f"the mask of fixed must be booleans of shape {shape[:2]} or {shape}; got {given.dtype}, {given.shape}."
            )
        mask = np.broadcast_to(given.reshape(memories.H, memories.W, -1), (memories.H, memories.W, memories.C))
        levels = to_numpy(picture).astype(np.float64)
        if levels.shape != shape:
            raise ValueError(f"the picture of fixed must have shape {shape}, as the images; got {levels.shape}.")
        levels = np.where(mask, levels.reshape(mask.shape), 0.0)
        if not np.isfinite(levels).all():
            raise ValueError("the picture of fixed must be finite where its mask is true; got NaN or infinity there.")
        values = np.where(mask, (levels - to_numpy(memories.mean)) / memories.contrast, 0.0)
        rows = memories.rows
        return cls(like(mask.copy(), rows, keep_dtype=True), like(levels, rows), like(values, rows))


class _Flow:
    """The anneal at one reach: noise levels, windows and what is fixed; half norms that all batches share."""

    def __init__(self, memories: PictureMemories, schedule: _Schedule, reach: float, held: _Held | None = None) -> None:
        self.memories, self.held, rows = memories, held, memories.rows
        self.batch = PICTURES_ON_DEVICE if is_torch(rows) and rows.is_cuda else PICTURES
        self.covering = max(memories.H, memories.W) - 1
        self.sigmas = schedule.sigmas
        self.radii = [min(max(round(reach * sigma), schedule.floor), self.covering) for sigma in self.sigmas]
        self.trust = None if held is None else 1 + (TRUST**2 - 1) * like(held.mask, rows)
        with full_precision(rows):
            self.half_norms = {radius: memories.half_norms(radius, self.trust) for radius in set(self.radii)}

    def draw(self, first: int, seed: int, purpose: Purpose) -> Array:
        """One batch, pictures number `first` and on, around the mean and in units of contrast: (batch, H, W, C)."""
        with full_precision(self.memories.rows):
            x = self._hold(float(self.sigmas[0]) * self._noise(range(first, first + self.batch), seed, purpose))
            for sigma, after, radius in zip(self.sigmas, [*self.sigmas[1:], 0.0], self.radii, strict=True):
                x0 = self._hold(self._attended(x, sigma, radius))
                x = x0 + float(after / sigma) * (x - x0)
        return x

    def _hold(self, x: Array) -> Array:
        return x if self.held is None else namespace(x).where(self.held.mask, self.held.values, x)

    def _attended(self, x: Array, sigma: float, radius: int) -> Array:
        seen = x if self.trust is None else x * self.trust
        attend = attend_whole if radius == self.covering else attend_windows
        return attend(self.memories, seen, sigma, radius, self.half_norms[radius])

    def _noise(self, numbers: range, seed: int, purpose: Purpose) -> Array:
        shape = self.memories.H, self.memories.W, self.memories.C
        noise = [generator(seed, purpose, i).standard_normal(shape) for i in numbers]
        return like(np.stack(noise), self.memories.rows)


def _natural(memories: PictureMemories, schedule: _Schedule, progress: bool | None) -> float:
    target, stored = _typical_distance(memories, schedule.floor)
    draws = min(max(DRAWN // stored.size // PICTURES * PICTURES, FEWEST_DRAWS), DRAWS)

    def far_enough(reach: float) -> bool:
        return _distance(_Flow(memories, schedule, reach), stored, target, draws) >= target

    low, high, most = LEAST_REACH, LEAST_REACH * PRECISION**8, max(memories.H, memories.W) / schedule.sigma_min
    with Progress(6, "choosing how far pixels see", progress) as bar:
        if not far_enough(low):
            return FEW_MEMORIES_REACH
        bar.at(1)
        while high < most and far_enough(high):
            low, high = high, high * PRECISION**8
            bar.at(2)
        for done in (3, 4, 5):  # three halvings leave an eighth
            bar.at(done)
            middle = math.sqrt(low * high)
            low, high = (middle, high) if far_enough(middle) else (low, middle)
    return low


def _typical_distance(memories: PictureMemories, floor: int) -> tuple[float, Array]:
    """Median distance of memories to their nearest other, and the memories as rows, each once: (K, values)."""
    if memories.K < 2:
        raise ValueError(
            "the natural reach compares memories with each other; there is one. Store more, or pass reach."
        )
    if floor >= max(memories.H, memories.W) - 1:
        raise ValueError(
            f"images must be larger than the smallest window, {2 * floor + 1} pixels wide, or new ones "
            f"are all stored ones; got {memories.H} × {memories.W}. Pass reach, lower anneal.floor, or sample their "
            "rows."
        )
    as_drawn = memories.flat.T.reshape(memories.K, memories.H, memories.W, memories.C)
    stored = np.unique(to_numpy(memories.pictures(as_drawn)).reshape(memories.K, -1), axis=0)
    target = float(np.median(nearest_distances(stored))) if len(stored) > 1 else 0.0
    if target <= 1e-6 * memories.spread * memories.contrast:
        raise ValueError(
            "images must differ for a natural reach; at least half are alike. Store others, or pass reach."
        )
    return target, stored


def _distance(flow: _Flow, stored: Array, target: float, draws: int) -> float:
    """Median distance of draws from the memories; of no more draws than tell on which side of the target it is."""
    distances = np.empty(0)
    while len(distances) < draws:
        new = to_numpy(flow.memories.pictures(flow.draw(len(distances), 0, Purpose.RULE))).reshape(flow.batch, -1)
        distances = np.append(distances, nearest_distances(new, stored))[:draws]
        if abs(2 * (distances >= target).sum() - len(distances)) > SURE * math.sqrt(len(distances)):
            break
    return float(np.median(distances))
