"""Deformations: a stored picture, moved in the ways in which those most like it differ from it in shape.

The fields u_ij carry a stored picture m_i onto its k nearest pictures j (see `registration`). Their mean ū_i and their
covariance are a local Gaussian law of shapes, and a new picture is m_i seen through one draw of it,

    x = m_i ∘ (id + ū_i + s c_i Σ_j w_j (u_ij − ū_i) / √k)        w_j ~ N(0, 1)

Its lines are moved, and neither broken nor blended: blends of pixels have two half-visible strokes where pictures
differ. The step from m_i to ū_i keeps new pictures from spreading further than stored ones. c_i ≤ 1 holds back pictures
unlike all others, whose neighbours differ more among each other than is usual. The scale s is such that new pictures
are as far from the stored ones as these are from each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import ClassVar

import numpy as np

from .._backend.arrays import Array, ArrayLike, NumpyArray, like, namespace, to_numpy
from .._backend.checks import count, non_negative
from .._backend.parallel import map_in_threads, usable_cores
from .._backend.progress import Progress
from .._backend.random import Purpose, SeedLike, generator, seed_of
from ..core.memory import MemoryBank
from ..core.neighbors import nearest_distances
from .base import Description, Generated
from .patches import ConditionedPixels, PatchGenerator
from .registration import Registration, SplinePictures, blurred, enlarged
from .window_attention import are_photographs, as_pictures

MAX_NEIGHBORS = 32
"""Neighbours that a local law is made of, or all other pictures of a class if they are fewer."""
MIN_CLASS = 3
"""A class of fewer pictures has neighbours of any class."""
DRAWS_OF_RULE, MIN_SCALE, PRECISION = 96, 0.05, 1.02
"""Draws that the matched-distance rule is decided by, the least scale, and the factor to which it is found."""
LARGEST_SCALE, LARGEST_SCALE_OF_ALL = 2.1, 1.4
"""Limits of the scale for the law of a few neighbours, and for that of all pictures of a class, which has their whole
variance already. Beyond them, shapes are unlike any stored one."""
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
MAX_LAW_BYTES = 2**27
"""Bytes of local laws that are kept. Others are found again when they are needed."""
LOCAL_BRIGHTNESS = 10 / 64
"""Width over which the brightness and contrast of photographs are removed before they are compared, over the side."""


class ScaleRule(Enum):
    """How a scale was set, in words."""

    GIVEN = "as given"
    MATCHED_DISTANCE = "matched-distance rule: new pictures are as far from the stored ones as these from each other"
    LARGEST = "the largest: the stored pictures are too few for the matched-distance rule, or too different"


@dataclass(frozen=True, eq=False)
class _Law:
    """Shapes around one stored picture: the mean field (2, h, w), and deviations of the neighbours (k, 2, h, w)."""

    mean: Array
    deviations: Array
    spread: float  # root mean square of the deviations, in pixels

    @classmethod
    def of(cls, fields: Array) -> _Law:
        mean = fields.mean(0)
        deviations = fields - mean
        return cls(mean, deviations, math.sqrt(float((deviations**2).mean())))

    def field(self, noise: NumpyArray, scale: float) -> Array:
        """The mean plus scale times a draw from standard normal noise (k,): (2, h, w)."""
        k = len(noise)
        weights = like(noise * (scale / math.sqrt(k)), self.mean)
        return self.mean + (weights @ self.deviations.reshape(k, -1)).reshape(self.mean.shape)


class Deformations:
    """New pictures from stored ones, by local laws of their shapes. Immutable but for laws that are kept.

    images: (K, H, W) or (K, H, W, channels), array or tensor; whole numbers become float32
    log_r:  (K,) log-multiplicities, −inf for a picture that is left out; None for equal ones
    labels: (K,) classes. Pictures are moved towards others of their class only, and classes keep their shares
    scale:  s of the module's formula; None for the matched-distance rule
    """

    def __init__(
        self,
        images: ArrayLike,
        log_r: ArrayLike | None = None,
        *,
        labels: ArrayLike | None = None,
        scale: float | None = None,
    ) -> None:
        images = as_pictures(images)
        self.channels = tuple(images.shape[3:])
        bank = MemoryBank(images.reshape(len(images), -1), log_r)
        weights = np.exp(to_numpy(bank.log_r - bank.log_total_r).astype(np.float64))
        self.kept = np.flatnonzero(weights > 0)
        self.pictures = images[like(self.kept, images, keep_dtype=True)].reshape(len(self.kept), *images.shape[1:3], -1)
        classes = _classes(labels, len(weights))[self.kept]
        self._order = np.argsort(classes, kind="stable")
        self._cumulative = np.cumsum(weights[self.kept][self._order])
        self._splines = SplinePictures(self.pictures)
        self._limits = float(self.pictures.min()), float(self.pictures.max())
        compared = _compared(self.pictures)
        self._registration, self._neighbors = Registration(compared), _neighbors(to_numpy(compared), classes)
        self.neighbor_share = self.n_neighbors / max(
            int(np.median(np.bincount(classes)[classes])) - 1, self.n_neighbors
        )
        self._laws: dict[int, _Law] = {}
        usual = self.sources(DRAWS_OF_RULE, 0)
        self._usual_spread = float(np.median([law.spread for law in self._laws_of(usual)]))
        if scale is None:
            self.scale, self.scale_rule = _matched_distance_scale(self, usual)
        else:
            self.scale, self.scale_rule = non_negative("scale", scale), ScaleRule.GIVEN

    @property
    def n_neighbors(self) -> int:
        """Neighbours that each local law is made of; `neighbor_share` is their share of a class."""
        return int(self._neighbors.shape[1])

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
        fields = []
        for i, law in enumerate(self._laws_of(sources)):
            noise = generator(seed, purpose, i).standard_normal(self.n_neighbors)
            fields.append(law.field(noise, scale * min(self._usual_spread / max(law.spread, 1e-12), 1.0)))
        xp = namespace(self.pictures)
        moved = self._splines.at(sources, enlarged(xp.stack(fields), self._splines.size))
        # Splines overshoot beside edges.
        return xp.clip(moved, *self._limits).reshape(len(sources), *self._splines.size, *self.channels)

    def _laws_of(self, sources: NumpyArray) -> list[_Law]:
        """The local laws around these stored pictures; those that are not known are found by all cores."""
        known = self._laws
        missing = [i for i in dict.fromkeys(map(int, sources)) if i not in known]
        found: dict[int, _Law] = {}
        with Progress(len(missing), "finding how pictures differ") as bar:
            step = 4 * usable_cores()
            for first in range(0, len(missing), step):
                some = missing[first : first + step]
                found |= zip(some, map_in_threads(self._law, some), strict=True)
                bar.update(first + len(some))
        laws = [known.get(int(i)) or found[int(i)] for i in sources]
        if found:
            room = MAX_LAW_BYTES // next(iter(found.values())).deviations.nbytes
            self._laws = dict(list({**known, **found}.items())[-max(room, 1) :])
        return laws

    def _law(self, i: int) -> _Law:
        others = self._neighbors[i]
        return _Law.of(self._registration.fields(np.full(len(others), i), others))


def _classes(labels: ArrayLike | None, K: int) -> NumpyArray:
    """Labels as whole numbers from 0: (K,)."""
    names = np.zeros(K, int) if labels is None else np.asarray(labels)
    if names.shape != (K,):
        raise ValueError(f"labels must name the class of each of the {K} images; got shape {names.shape}.")
    return np.asarray(np.unique(names, return_inverse=True)[1])


def _compared(pictures: Array) -> Array:
    """What pictures (K, H, W, C) are compared by, (K, H, W): their grey levels, without the light on photographs."""
    grey = pictures.mean(3)
    if not are_photographs(pictures):
        return grey
    width = LOCAL_BRIGHTNESS * min(grey.shape[1:])
    detail = grey - blurred(grey, width)
    contrast = blurred(detail**2, width) + 1e-3 * float((detail**2).mean())
    return detail / contrast**0.5


def _neighbors(pictures: NumpyArray, classes: NumpyArray) -> NumpyArray:
    """The nearest pictures of the same class, (K, k); of any class where a class has few."""
    K = len(pictures)
    if K < 2:
        raise ValueError("images must be at least two, which can differ in shape; there is one. Store more.")
    rows = pictures.reshape(K, -1).astype(np.float64)
    squares = (rows**2).sum(1)
    distances = squares[:, None] + squares - 2 * rows @ rows.T
    np.fill_diagonal(distances, np.inf)
    sizes = np.bincount(classes)[classes]
    apart = (classes[:, None] != classes) & (sizes >= MIN_CLASS)[:, None]
    distances[apart] = np.inf
    k = min(MAX_NEIGHBORS, int(np.where(sizes >= MIN_CLASS, sizes, K).min()) - 1)
    return np.asarray(np.argsort(distances, axis=1, kind="stable")[:, :k])


def _matched_distance_scale(model: Deformations, sources: NumpyArray) -> tuple[float, ScaleRule]:
    """The largest scale, to 2 %, at which new pictures are no further from stored ones than these from each other.

    Medians are compared: of the distance from a draw to the nearest stored picture, and from one of these to the
    nearest that differs from it. The draws of all scales have the same noise.
    """
    stored = np.unique(to_numpy(model.pictures).reshape(len(model.kept), -1), axis=0)
    if len(stored) < 2:
        raise ValueError("images must differ; they are all alike. Store others.")
    target = float(np.median(nearest_distances(stored)))

    def too_far(scale: float) -> bool:
        drawn = to_numpy(model.around(sources, 0, scale, Purpose.RULE))
        return float(np.median(nearest_distances(drawn.reshape(len(drawn), -1), stored))) > target

    low, high = MIN_SCALE, LARGEST_SCALE - (LARGEST_SCALE - LARGEST_SCALE_OF_ALL) * model.neighbor_share
    if not too_far(high):
        return high, ScaleRule.LARGEST
    while high > PRECISION * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if too_far(middle) else (middle, high)
    return low, ScaleRule.MATCHED_DISTANCE


@dataclass(frozen=True, eq=False)
class DeformationGenerator:
    """New pictures, each a stored one of another shape."""

    levels: Array  # (K_kept, h, w) or (K_kept, h, w, 3) stored pictures of positive weight, floats in [0, 1]
    weights: Array  # (K_kept,) how often each of them counts
    kept: Array  # (K_kept,) their indices among all stored pictures
    labels: Array | None = None  # (K_kept,) their classes
    scale: float | None = None  # None for the matched-distance rule
    block_items: ClassVar[int] = 64

    @classmethod
    def fit(
        cls, levels: Array, weights: Array, labels: Sequence[str] | None = None, scale: float | None = None
    ) -> DeformationGenerator:
        """The generator of stored pictures (K, h, w[, 3]) that count `weights` (K,) times."""
        kept = np.flatnonzero(weights > 0)
        of_kept = None if labels is None else np.array(labels)[kept]
        return cls(levels[kept], np.asarray(weights)[kept], kept, of_kept, scale)

    @cached_property
    def model(self) -> Deformations:
        """The local laws. The scale is searched for here, when it is first needed."""
        return Deformations(self.levels, np.log(self.weights), labels=self.labels, scale=self.scale)

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new pictures (n, h, w[, 3]) as levels, and the stored one that each is a deformation of."""
        drawn, source = self.model.draw(n, int(rng.integers(2**63)))
        return Generated(np.asarray(drawn), self.kept[source])

    def condition(self, observation: ConditionedPixels) -> PatchGenerator:
        """The patch generator of pictures that have these values: a deformation would move them."""
        return ConditionedPictures(self.levels, self.weights, self.kept).condition(observation)

    def describe(self) -> Description:
        """The scale and how it was set, and the number of neighbours."""
        model = self.model
        scale = f"scale {model.scale:.3g} ({model.scale_rule.value})"
        summary = f"stored pictures moved as {model.n_neighbors} neighbours differ from them, {scale}"
        return Description("deformations", summary, resolved={"scale": model.scale})


@dataclass(frozen=True, eq=False)
class ConditionedPictures(PatchGenerator):
    """The patch generator in place of deformations, under conditions."""

    def describe(self) -> Description:
        """That of the patch generator; its radius is no option of deformations."""
        note = "conditioned pictures are drawn by the generator 'patches', which keeps pixels in place."
        return replace(super().describe(), notes=(note,), resolved={})
