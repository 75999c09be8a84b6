"""Deformations: a stored picture, moved in the ways in which those most like it differ from it in shape.

The fields u_ij carry a stored picture m_i onto its k nearest pictures j, and u_ii = 0 (see `registration`). Their mean
ū_i and their covariance are a local Gaussian law of shapes, and a new picture is m_i seen through one draw of it,

    x = m_i ∘ (id + t ū_i + s c_i Σ_j w_j (u_ij − ū_i) / √(k + 1))      w_j ~ N(0, 1)      t = 1 − √max(1 − s², 0)

Its lines are moved, and neither broken nor blended: blends of pixels have two half-visible strokes where pictures
differ. Interpolation blurs, so that the moved picture gets the levels of m_i back, in the order of its own. The step
towards ū_i keeps new pictures from spreading further than stored ones (West 1993: kernels that are shrunk to the mean
keep the variance). c_i ≤ 1 holds back pictures unlike all others, whose neighbours differ more among each other than is
usual. The scale s is such that new pictures are as far from the stored ones as these are from each other; at s = 0 they
are stored ones.

Textures have no shape in common, and moved ones are near-copies. There the same law is one of levels, with m_j − m_i in
place of u_ij and c_i = 1: x = m_i + t (m̄_i − m_i) + s Σ_j w_j (m_j − m̄_i) / √(k + 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from enum import Enum

import numpy as np

from .._backend.arrays import Array, ArrayLike, NumpyArray, concatenate, full, like, namespace, to_numpy
from .._backend.checks import count, non_negative
from .._backend.parallel import map_in_threads
from .._backend.progress import Progress
from .._backend.random import Purpose, SeedLike, generator, seed_of
from ..core.memory import MemoryBank
from ..core.neighbors import nearest_distances
from .picture_comparison import Features, classes_of, feature_rows, nearest_pictures, without_light
from .registration import Registration, SplinePictures, enlarged, with_levels_of
from .window_attention import as_pictures

DRAWS_OF_RULE, MIN_SCALE, PRECISION = 96, 0.05, 1.02
"""Draws that the matched-distance rule is decided by, the least scale, and the factor to which it is found."""
MAX_SCALE, MAX_SCALE_OF_ALL = 2.1, 1.4
"""Limits of the rule for the law of a few neighbours, and for that of all pictures of a class, which has their whole
variance already. Beyond them, shapes are unlike any stored one."""
MAX_SCALE_OF_LEVELS = 1.0
"""Limit of the rule for levels: the law has the variance of the neighbours already."""
MAX_GIVEN_SCALE = 10.0
NO_SHAPE = 0.05
"""Typical spread of fields in pixels below which pictures do not differ in shape."""
NEAREST, MIN_DISTANCE = 0.1, 0.6
"""Shapes have nothing in common where this quantile of the distances of draws to stored pictures is below this share of
that of the stored ones to each other: it is 0.2 to 0.5 of it for most patches of photographs, and 0.7 to 1.1 for digits
and portraits, however few."""
DRAWS_AT_A_TIME = 16  # equivalent: every picture has a draw of its own
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
MAX_LAW_BYTES = 2**27
"""Bytes of local laws that are kept. Others are found again when they are needed."""


class Vary(Enum):
    """What a new picture has of its own."""

    SHAPES = "shapes"
    LEVELS = "levels"


class ScaleRule(Enum):
    """How a scale was set, in words."""

    GIVEN = "as given"
    MATCHED_DISTANCE = "matched-distance rule: new pictures are as far from the stored ones as these from each other"
    LEAST = "the least: many stored pictures are nearly alike"
    LARGEST = "the largest: the stored pictures are too few for the matched-distance rule, or too different"


@dataclass(frozen=True, eq=False)
class _Law:
    """Shapes around one stored picture: the mean field (2, h, w), and deviations from it (k + 1, 2, h, w).

    Or levels around it, (H, W, C) in place of (2, h, w).
    """

    mean: Array
    deviations: Array
    spread: float  # root mean square of the deviations, in pixels or levels

    @classmethod
    def of(cls, fields: Array) -> _Law:
        """The law of the fields to neighbours (k, 2, h, w) and of the picture itself."""
        fields = concatenate([fields, 0 * fields[:1]])
        mean = fields.mean(0)
        deviations = fields - mean
        return cls(mean, deviations, math.sqrt(float((deviations**2).mean())))

    def field(self, rng: np.random.Generator, scale: float, usual_spread: float) -> Array:
        """t times the mean plus a draw of the given scale, less where the law is wider than usual: (2, h, w)."""
        n = len(self.deviations)
        held_back = min(usual_spread / max(self.spread, float(np.finfo(np.float32).tiny)), 1.0)
        weights = like(rng.standard_normal(n) * (scale * held_back / math.sqrt(n)), self.mean)
        shrunk = 1 - math.sqrt(max(1 - scale**2, 0.0))
        return shrunk * self.mean + (weights @ self.deviations.reshape(n, -1)).reshape(self.mean.shape)


class Deformations:
    """New pictures from stored ones, by local laws of their shapes. Immutable but for laws that are kept.

    images: (K, H, W) or (K, H, W, channels), array or tensor; whole numbers become float32
    log_r:  (K,) log-multiplicities, −inf for a picture that is left out; None for equal ones
    labels: (K,) classes. Pictures are moved towards others of their class only, and classes keep their shares
    scale:  s of the module's formula; None for the matched-distance rule
    vary:   whether shapes or levels vary; None for shapes, and where the scale is left to the rule, for levels if the
            stored pictures have no shapes in common
    features: what distances between pictures are measured in, instead of pixels: a function of arrays (n, H, W, C) that
            returns (n, f), or a torch module
    """

    def __init__(
        self,
        images: ArrayLike,
        log_r: ArrayLike | None = None,
        *,
        labels: ArrayLike | None = None,
        scale: float | None = None,
        vary: Vary | None = None,
        features: Features | None = None,
    ) -> None:
        images, self.features = as_pictures(images), features
        self.channels = tuple(images.shape[3:])
        bank = MemoryBank(full((len(images), 1), 1.0, images), log_r)  # for multiplicities, without a copy
        weights = np.exp(to_numpy(bank.log_r - bank.log_total_r).astype(np.float64))
        self.kept = np.flatnonzero(weights > 0)
        kept = images if len(self.kept) == len(images) else images[like(self.kept, images, keep_dtype=True)]
        self.pictures = kept.reshape(*kept.shape[:3], -1)
        self._classes = classes_of(labels, len(weights))[self.kept]
        self._order = np.argsort(self._classes, kind="stable")
        self._cumulative = np.cumsum(weights[self.kept][self._order])
        self._splines = SplinePictures(self.pictures)
        self._registration = Registration(without_light(self.pictures))
        self._set(vary or Vary.SHAPES)
        if scale is not None:
            self.scale, self.scale_rule = checked_scale(scale), ScaleRule.GIVEN
            return
        self.scale, self.scale_rule, distances = _matched_distance_scale(self)
        if vary is None and (not self.differ_in_shape or _are_near_copies(*distances)):
            self._set(Vary.LEVELS)
            self.scale, self.scale_rule, _ = _matched_distance_scale(self)

    def _set(self, vary: Vary) -> None:
        """Choose what varies, and find the neighbours and how much they usually differ."""
        self.vary, by_levels = vary, vary is Vary.LEVELS
        seen = self.pictures if by_levels else self._registration.pictures
        rows = to_numpy(seen).reshape(len(self.kept), -1)
        rows = rows if self.features is None else feature_rows(self.features, self.pictures)
        self._neighbors = nearest_pictures(rows, self._classes)
        others = int(np.median(np.bincount(self._classes)[self._classes])) - 1
        self.neighbor_share = self.n_neighbors / max(others, self.n_neighbors)
        self._laws: dict[int, _Law] = {}
        self.usual_sources, spreads = self.sources(DRAWS_OF_RULE, 0), list[float]()
        with Progress(len(self.usual_sources), "finding how pictures differ") as bar:
            for first in range(0, len(self.usual_sources), DRAWS_AT_A_TIME):
                some = self.usual_sources[first : first + DRAWS_AT_A_TIME]
                spreads += [law.spread for law in self._laws_of(some, map_in_threads)]
                bar.update(len(spreads))
        self._usual_spread = math.inf if by_levels else float(np.median(spreads))

    def with_scale(self, scale: float) -> Deformations:
        """The same local laws at another scale."""
        other = copy(self)
        other.scale, other.scale_rule = checked_scale(scale), ScaleRule.GIVEN
        return other

    @property
    def n_neighbors(self) -> int:
        """Neighbours that a local law is made of, in the median; `neighbor_share` is their share of a class."""
        return int(np.median([len(one) for one in self._neighbors]))

    @property
    def differ_in_shape(self) -> bool:
        """Whether stored pictures differ in more than their levels."""
        return self._usual_spread > NO_SHAPE

    def sample(self, n: int, rng: SeedLike = None) -> Array:
        """n new pictures, (n, H, W) or (n, H, W, channels), in the library, dtype and device of the stored ones.

        All levels lie between the least and the greatest of the stored ones.
        """
        return self.draw(count("n", n), seed_of(rng))[0]

    def draw(self, n: int, seed: int) -> tuple[Array, NumpyArray]:
        """The pictures of `sample`, and the stored picture (n,) that each is a deformation of.

        Picture i depends on (seed, i) alone.
        """
        sources = self.sources(n, seed)
        return self.around(sources, seed, self.scale), self.kept[sources]

    def sources(self, n: int, seed: int) -> NumpyArray:
        """Stored pictures (n,) in proportion to their weights.

        Multiples of the golden ratio, from a random start, choose among pictures in the order of their classes: each
        is uniform on its own, and the first m are as even over classes and pictures as m can be, for any m.
        """
        start = generator(seed, Purpose.MEMORY).random()
        places = np.searchsorted(self._cumulative, (start + GOLDEN_RATIO * np.arange(n)) % 1.0, side="right")
        return np.asarray(self._order[np.minimum(places, len(self._order) - 1)])  # where sums end just below 1

    def around(self, sources: NumpyArray, seed: int, scale: float, purpose: Purpose = Purpose.DRAW) -> Array:
        """Deformations of these stored pictures (n,), (n, H, W[, channels])."""
        xp, size, parts = namespace(self.pictures), self._splines.size, []
        for first in range(0, len(sources), DRAWS_AT_A_TIME):
            some = sources[first : first + DRAWS_AT_A_TIME]
            fields = [
                law.field(generator(seed, purpose, i), scale, self._usual_spread)
                for i, law in enumerate(self._laws_of(some), start=first)
            ]
            stored = self.pictures[like(some, self.pictures, keep_dtype=True)]
            if self.vary is Vary.LEVELS:
                parts.append(xp.clip(stored + xp.stack(fields), float(self.pictures.min()), float(self.pictures.max())))
            else:
                parts.append(with_levels_of(self._splines.at(some, enlarged(xp.stack(fields), size)), stored))
        return concatenate(parts).reshape(len(sources), *size, *self.channels)

    def _laws_of(self, sources: NumpyArray, each: Callable[..., Iterable[_Law]] = map) -> list[_Law]:
        """The local laws around these stored pictures, where they are not known found by `each`, such as in threads."""
        known = self._laws
        missing = [i for i in dict.fromkeys(map(int, sources)) if i not in known]
        found = dict(zip(missing, each(self._law, missing), strict=True))
        laws = [known.get(int(i)) or found[int(i)] for i in sources]
        if found:
            room = MAX_LAW_BYTES // max(law.deviations.nbytes for law in found.values())
            self._laws = dict(list({**known, **found}.items())[-max(room, 1) :])
        return laws

    def _law(self, i: int) -> _Law:
        others = self._neighbors[i]
        if self.vary is Vary.LEVELS:
            return _Law.of(self.pictures[like(others, self.pictures, keep_dtype=True)] - self.pictures[i])
        return _Law.of(self._registration.fields(np.full(len(others), i), others))


def checked_scale(scale: float) -> float:
    """The scale; ValueError unless it is a number from 0 to 10."""
    if non_negative("scale", scale) > MAX_GIVEN_SCALE:
        raise ValueError(f"scale must be at most {MAX_GIVEN_SCALE:g}; got {scale:g}. Shapes vary about as stored at 1.")
    return float(scale)


def _matched_distance_scale(model: Deformations) -> tuple[float, ScaleRule, tuple[NumpyArray, NumpyArray]]:
    """The largest scale, to 2 %, at which new pictures are no further from stored ones than these from each other.

    Medians are compared: of the distance from a draw to the nearest stored picture, and from one of these to the
    nearest that differs from it, which are returned as well. The draws of all scales have the same noise.
    """
    rows = feature_rows(None, model.pictures)
    as_bytes = rows.view(np.dtype((np.void, rows[0].nbytes))).ravel()  # many times faster than number by number
    different = np.unique(as_bytes, return_index=True)[1]
    if len(different) < 2:
        raise ValueError("images must differ; they are all alike. Store others.")
    seen = rows if model.features is None else feature_rows(model.features, model.pictures)
    stored, sources = seen[different], model.usual_sources
    among_stored = nearest_distances(stored)
    target = float(np.median(among_stored))

    def distances(scale: float) -> NumpyArray:
        drawn = model.around(sources, 0, scale, Purpose.RULE).reshape(len(sources), *model.pictures.shape[1:])
        return nearest_distances(feature_rows(model.features, drawn), stored)

    low, high = MIN_SCALE, MAX_SCALE_OF_LEVELS
    if model.vary is Vary.SHAPES:
        high = MAX_SCALE - (MAX_SCALE - MAX_SCALE_OF_ALL) * model.neighbor_share
    if np.median(found := distances(high)) <= target:
        return high, ScaleRule.LARGEST, (found, among_stored)
    if np.median(found := distances(low)) > target:
        return low, ScaleRule.LEAST, (found, among_stored)
    while high > PRECISION * low:
        middle = math.sqrt(low * high)
        if np.median(further := distances(middle)) > target:
            high = middle
        else:
            low, found = middle, further
    return low, ScaleRule.MATCHED_DISTANCE, (found, among_stored)


def _are_near_copies(drawn: NumpyArray, stored: NumpyArray) -> bool:
    """Whether the nearest draws are much nearer to stored pictures than the nearest of these are to each other."""
    return bool(np.quantile(drawn, NEAREST) < MIN_DISTANCE * np.quantile(stored, NEAREST))
