"""Deformations: a stored picture, moved in the ways in which those most like it differ from it in shape.

The fields u_ij carry a stored picture m_i onto its k nearest pictures j, and u_ii = 0 (see `registration`). Their mean
ū_i and their covariance are a local Gaussian law of shapes, and a new picture is m_i seen through one draw of it,

    x = m_i ∘ (id + t ū_i + s c_i Σ_j w_j (u_ij − ū_i) / √(k + 1))      w_j ~ N(0, 1)      t = 1 − √max(1 − s², 0)

Its lines are moved, and neither broken nor blended: blends of pixels have two half-visible strokes where pictures
differ. The step towards ū_i keeps new pictures from spreading further than stored ones (West 1993: kernels that are
shrunk to the mean keep the variance). c_i ≤ 1 holds back pictures unlike all others, whose neighbours differ more among
each other than is usual. The scale s is such that new pictures are as far from the stored ones as these are from each
other; s = 0 recalls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from enum import Enum

import numpy as np

from .._backend.arrays import Array, ArrayLike, NumpyArray, concatenate, like, namespace, to_numpy
from .._backend.checks import count, non_negative
from .._backend.parallel import map_in_threads
from .._backend.progress import Progress
from .._backend.random import Purpose, SeedLike, generator, seed_of
from ..core.memory import MemoryBank
from ..core.neighbors import nearest_distances
from .registration import Registration, SplinePictures, blurred, enlarged
from .window_attention import are_photographs, as_pictures

MAX_NEIGHBORS = 32
"""Neighbours that a local law is made of, or all other pictures of a class if they are fewer."""
MIN_CLASS = 3
"""A class of fewer pictures has neighbours of any class."""
DRAWS_OF_RULE, MIN_SCALE, PRECISION = 96, 0.05, 1.02
"""Draws that the matched-distance rule is decided by, the least scale, and the factor to which it is found."""
MAX_SCALE, MAX_SCALE_OF_ALL = 2.1, 1.4
"""Limits of the rule for the law of a few neighbours, and for that of all pictures of a class, which has their whole
variance already. Beyond them, shapes are unlike any stored one."""
MAX_GIVEN_SCALE = 10.0
NO_SHAPE = 0.05
"""Typical spread of fields in pixels below which pictures do not differ in shape."""
DRAWS_AT_A_TIME = 16  # equivalent: every picture has a draw of its own
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
MAX_LAW_BYTES = 2**27
"""Bytes of local laws that are kept. Others are found again when they are needed."""
LOCAL_BRIGHTNESS = 10 / 64
"""Width over which the brightness and contrast of photographs are removed before they are compared, over the side."""


class ScaleRule(Enum):
    """How a scale was set, in words."""

    GIVEN = "as given"
    MATCHED_DISTANCE = "matched-distance rule: new pictures are as far from the stored ones as these from each other"
    LEAST = "the least: many stored pictures are nearly alike"
    LARGEST = "the largest: the stored pictures are too few for the matched-distance rule, or too different"


@dataclass(frozen=True, eq=False)
class _Law:
    """Shapes around one stored picture: the mean field (2, h, w), and deviations from it (k + 1, 2, h, w)."""

    mean: Array
    deviations: Array
    spread: float  # root mean square of the deviations, in pixels

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
        self._registration = Registration(_compared(self.pictures))
        self._neighbors = _neighbors(to_numpy(self._registration.pictures), classes)
        others = int(np.median(np.bincount(classes)[classes])) - 1
        self.neighbor_share = self.n_neighbors / max(others, self.n_neighbors)
        self._laws: dict[int, _Law] = {}
        usual, spreads = self.sources(DRAWS_OF_RULE, 0), list[float]()
        with Progress(len(usual), "finding how pictures differ") as bar:
            for first in range(0, len(usual), DRAWS_AT_A_TIME):
                spreads += [law.spread for law in self._laws_of(usual[first : first + DRAWS_AT_A_TIME], map_in_threads)]
                bar.update(len(spreads))
        self._usual_spread = float(np.median(spreads))
        if scale is None:
            self.scale, self.scale_rule = _matched_distance_scale(self, usual)
        else:
            self.scale, self.scale_rule = checked_scale(scale), ScaleRule.GIVEN

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
            moved = self._splines.at(some, enlarged(xp.stack(fields), size))
            parts.append(xp.clip(moved, *self._limits))  # splines overshoot beside edges
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
        return _Law.of(self._registration.fields(np.full(len(others), i), others))


def checked_scale(scale: float) -> float:
    """The scale; ValueError unless it is a number from 0 to 10."""
    if non_negative("scale", scale) > MAX_GIVEN_SCALE:
        raise ValueError(f"scale must be at most {MAX_GIVEN_SCALE:g}; got {scale:g}. Shapes vary about as stored at 1.")
    return float(scale)


def _classes(labels: ArrayLike | None, K: int) -> NumpyArray:
    """Labels as whole numbers from 0: (K,)."""
    names = np.zeros(K, int) if labels is None else np.asarray(labels).astype(str)
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


def _neighbors(pictures: NumpyArray, classes: NumpyArray) -> list[NumpyArray]:
    """The nearest pictures of the same class, (k,) for each; of any class where a class has few."""
    K = len(pictures)
    if K < 2:
        raise ValueError("images must be at least two, which can differ in shape; there is one. Store more.")
    rows = pictures.reshape(K, -1).astype(np.float64)
    squares = (rows**2).sum(1)
    distances = squares[:, None] + squares - 2 * rows @ rows.T
    np.fill_diagonal(distances, np.inf)
    sizes = np.bincount(classes)[classes]
    others = np.where(sizes >= MIN_CLASS, sizes, K) - 1
    distances[(classes[:, None] != classes) & (sizes >= MIN_CLASS)[:, None]] = np.inf
    order = np.argsort(distances, axis=1, kind="stable")
    return [order[i, : min(MAX_NEIGHBORS, others[i])] for i in range(K)]


def _matched_distance_scale(model: Deformations, sources: NumpyArray) -> tuple[float, ScaleRule]:
    """The largest scale, to 2 %, at which new pictures are no further from stored ones than these from each other.

    Medians are compared: of the distance from a draw to the nearest stored picture, and from one of these to the
    nearest that differs from it. The draws of all scales have the same noise.
    """
    rows = np.ascontiguousarray(to_numpy(model.pictures).reshape(len(model.kept), -1))
    as_bytes = rows.view(np.dtype((np.void, rows[0].nbytes))).ravel()  # many times faster than number by number
    stored = rows[np.unique(as_bytes, return_index=True)[1]]
    if len(stored) < 2:
        raise ValueError("images must differ; they are all alike. Store others.")
    target = float(np.median(nearest_distances(stored)))

    def too_far(scale: float) -> bool:
        drawn = to_numpy(model.around(sources, 0, scale, Purpose.RULE))
        return float(np.median(nearest_distances(drawn.reshape(len(drawn), -1), stored))) > target

    low, high = MIN_SCALE, MAX_SCALE - (MAX_SCALE - MAX_SCALE_OF_ALL) * model.neighbor_share
    if not too_far(high):
        return high, ScaleRule.LARGEST
    if too_far(low):
        return low, ScaleRule.LEAST
    while high > PRECISION * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if too_far(middle) else (middle, high)
    return low, ScaleRule.MATCHED_DISTANCE
