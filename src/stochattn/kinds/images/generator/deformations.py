"""Deformations: a stored image, moved in the ways in which those most like it differ from it in shape.

The fields u_ij carry a stored image m_i onto its k nearest images j, and u_ii = 0 (see `registration`). Their mean
ū_i and their covariance are a local Gaussian law of shapes, and a new image is m_i seen through one draw of it,

    x = m_i ∘ (id + t ū_i + s c_i Σ_j w_j (u_ij − ū_i) / √(k + 1))      w_j ~ N(0, 1)      t = 1 − √max(1 − s², 0)

Its lines are moved, and neither broken nor blended: blends of pixels have two half-visible strokes where images
differ. Interpolation blurs, so that the moved image gets the levels of m_i back, in the order of its own. The step
towards ū_i keeps new images from spreading further than stored ones (West 1993: kernels that are shrunk to the mean
keep the variance). c_i ≤ 1 holds back images unlike all others, whose neighbors differ more among each other than is
usual. The scale s is such that new images are as far from the stored ones as these are from each other; at s = 0 they
are stored ones.

Textures have no shape in common, and moved ones are near-copies. There the same law is one of levels, with m_j − m_i in
place of u_ij and c_i = 1: x = m_i + t (m̄_i − m_i) + s Σ_j w_j (m_j − m̄_i) / √(k + 1).

Local Gaussian laws of fields or levels around stored images, and draws of many of them at once on a GPU.

The generator "deformations": stored images of other shapes or levels, and the patch generator under conditions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...._backend.arrays import (
    Array,
    ArrayLike,
    NumpyArray,
    concatenate,
    full,
    is_torch,
    like,
    namespace,
    on_cuda,
    to_numpy,
)
from ...._backend.checks import check_count, check_non_negative
from ...._backend.console import Progress
from ...._backend.parallel import map_in_threads
from ...._backend.random import Purpose, SeedLike, generator, generators, seed_of
from ....core.memory import MemoryBank
from ....core.neighbors import nearest_distances
from ...generator import Description, Generated, few_sources
from ..description import Features, Vary
from .comparison import classes_of, feature_rows, find_neighbors, without_light
from .patches import ConditionedPixels, PatchGenerator
from .registration import Registration, SplineImages, enlarged, with_levels_of
from .window_attention import check_images


@dataclass(frozen=True, eq=False)
class LocalImageDistribution:
    """Shapes around one stored image: the mean field (2, h, w), and deviations from it (k + 1, 2, h, w).

    Or levels around it, (H, W, C) in place of (2, h, w).
    """

    mean: Array
    deviations: Array
    spread: float  # root mean square of the deviations, in pixels or levels

    @classmethod
    def of(cls, fields: Array) -> LocalImageDistribution:
        """The law of the fields to neighbors (k, 2, h, w) and of the image itself."""
        fields = concatenate([fields, 0 * fields[:1]])
        mean = fields.mean(0)
        deviations = fields - mean
        return cls(mean, deviations, math.sqrt(float((deviations**2).mean())))

    def field(self, rng: np.random.Generator, scale: float, usual_spread: float) -> Array:
        """t times the mean plus a draw of the given scale, less where the law is wider than usual: (2, h, w)."""
        weights = like(self.weights(rng, scale, usual_spread), self.mean)
        deviations = self.deviations.reshape(len(weights), -1)
        return _shrunk(scale) * self.mean + (weights @ deviations).reshape(self.mean.shape)

    def weights(self, rng: np.random.Generator, scale: float, usual_spread: float) -> NumpyArray:
        """What a draw is the sum of deviations with: (k + 1,)."""
        n = len(self.deviations)
        held_back = min(usual_spread / max(self.spread, float(np.finfo(np.float32).tiny)), 1.0)
        return np.asarray(rng.standard_normal(n) * (scale * held_back / math.sqrt(n)))


@dataclass(eq=False)
class FoundLaws:
    """The local laws that are known, by stored image; shared by all `Deformations` of the same images."""

    laws: dict[int, LocalImageDistribution] = field(default_factory=dict)


def fields_of(
    laws: Sequence[LocalImageDistribution], rngs: Sequence[np.random.Generator], scale: float, usual_spread: float
) -> Array:
    """A draw of each law, from its own generator: (n, 2, h, w).

    On a GPU, starting a product takes longer than computing it. Tensors therefore get one copy of all weights and one
    product of all laws; the weights of laws of fewer neighbors end in zeros.
    """
    if not is_torch(laws[0].mean):
        return np.stack([law.field(rng, scale, usual_spread) for law, rng in zip(laws, rngs, strict=True)])
    most = max(len(law.deviations) for law in laws)
    weights = np.zeros((len(laws), 1, most))
    for row, law, rng in zip(weights[:, 0], laws, rngs, strict=True):
        row[: len(law.deviations)] = law.weights(rng, scale, usual_spread)
    torch, mean = namespace(laws[0].mean), laws[0].mean
    deviations = torch.stack([_padded(law.deviations.reshape(len(law.deviations), -1), most) for law in laws])
    drawn = (like(weights, mean) @ deviations).reshape(len(laws), *mean.shape)
    return _shrunk(scale) * torch.stack([law.mean for law in laws]) + drawn


def _padded(rows: Array, n: int) -> Array:
    """Rows (m, d), and after them as many of zeros as make n: (n, d)."""
    missing = n - len(rows)
    return concatenate([rows, full((missing, rows.shape[1]), 0.0, rows)]) if missing else rows


def _shrunk(scale: float) -> float:
    """t of the formula of `deformations`: how far towards the mean a draw is moved."""
    return 1 - math.sqrt(max(1 - scale**2, 0.0))


DRAWS_OF_RULE, MIN_SCALE, PRECISION = 96, 0.05, 1.02
"""Draws that the matched-distance rule is decided by, the least scale, and the factor to which it is found."""
MAX_SCALE, MAX_SCALE_OF_ALL = 2.1, 1.4
"""Limits of the rule for the law of a few neighbors, and for that of all images of a class, which has their whole
variance already. Beyond them, shapes are unlike any stored one."""
MAX_SCALE_OF_LEVELS = 1.0
"""Limit of the rule for levels: the law has the variance of the neighbors already."""
MAX_GIVEN_SCALE = 10.0
NO_SHAPE = 0.05
"""Typical spread of fields in pixels below which images do not differ in shape."""
NEAREST, MIN_DISTANCE = 0.1, 0.6
"""Shapes have nothing in common where this quantile of the distances of draws to stored images is below this share of
that of the stored ones to each other: it is 0.2 to 0.5 of it for most patches of photographs, and 0.7 to 1.1 for digits
and portraits, however few."""
DRAWS_AT_A_TIME = 16
MAX_DRAWS_ON_GPU = 256  # most of a GPU is idle while there are few
MAX_DRAW_BYTES, TEMPORARY = 2**29, 32
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
MAX_LAW_BYTES = 2**27
"""Bytes of local laws that are kept. Others are found again when they are needed."""


class ScaleRule(Enum):
    """How a scale was set, in words."""

    GIVEN = "as given"
    MATCHED_DISTANCE = "matched-distance rule: new images are as far from the stored ones as these from each other"
    LEAST = "the least: many stored images are nearly alike"
    LARGEST = "the largest: the stored images are too few for the matched-distance rule, or too different"


class Deformations:
    """New images from stored ones, by local laws of their shapes. Immutable but for laws that are kept.

    images: (K, H, W) or (K, H, W, channels), array or tensor; whole numbers become float32
    log_r:  (K,) log-multiplicities, −inf for an image that is left out; None for equal ones
    labels: (K,) classes. Images are moved towards others of their class only, and classes keep their shares
    scale:  s of the module's formula; None for the matched-distance rule
    vary:   whether shapes or levels vary; None for shapes, and where the scale is left to the rule, for levels if the
            stored images have no shapes in common
    features: what distances between images are measured in, instead of pixels: a function of arrays (n, H, W, C) that
            returns (n, f), or a torch module
    known:  Deformations of the same images, labels and features, whose local laws are not found again where the same
            varies. Multiplicities choose among images; local laws do not depend on them
    """

    _splines: SplineImages
    _registration: Registration
    _neighbors: list[NumpyArray]
    _found: FoundLaws
    are_unlike = False  # whether levels vary because the images differ in shape, and have no shapes in common

    def __init__(
        self,
        images: ArrayLike,
        log_r: ArrayLike | None = None,
        *,
        labels: ArrayLike | None = None,
        scale: float | None = None,
        vary: Vary | None = None,
        features: Features | None = None,
        known: Deformations | None = None,
    ) -> None:
        images, self.features = check_images(images), features
        self.channels = tuple(images.shape[3:])
        bank = MemoryBank(full((len(images), 1), 1.0, images), log_r)  # for multiplicities, without a copy
        weights = np.exp(to_numpy(bank.log_r - bank.log_total_r).astype(np.float64))
        self.kept = np.flatnonzero(weights > 0)
        kept = images if len(self.kept) == len(images) else images[like(self.kept, images, keep_dtype=True)]
        self.images = kept.reshape(*kept.shape[:3], -1)
        self._classes = classes_of(labels, len(weights))[self.kept]
        self._order = np.argsort(self._classes, kind="stable")
        self._cumulative = np.cumsum(weights[self.kept][self._order])
        self._splines = SplineImages(self.images) if known is None else known._splines
        self._registration = Registration(without_light(self.images)) if known is None else known._registration
        self._set(vary or Vary.SHAPES, known)
        if scale is not None:
            self.scale, self.scale_rule = checked_scale(scale), ScaleRule.GIVEN
            return
        self.scale, self.scale_rule, distances = _matched_distance_scale(self)
        if vary is None and (not self.differ_in_shape or _are_near_copies(*distances)):
            self.are_unlike = self.differ_in_shape
            self._set(Vary.LEVELS)
            self.scale, self.scale_rule, _ = _matched_distance_scale(self)

    def _set(self, vary: Vary, known: Deformations | None = None) -> None:
        """Choose what varies, and find the neighbors and how much they usually differ."""
        self.vary, by_levels = vary, vary is Vary.LEVELS
        if known is not None and known.vary is vary:
            self._neighbors, self._found = known._neighbors, known._found
        else:
            self._found = FoundLaws()
            seen = self.images if by_levels else self._registration.images
            rows = to_numpy(seen).reshape(len(self.kept), -1)
            rows = rows if self.features is None else feature_rows(self.features, self.images)
            self._neighbors = find_neighbors(rows, self._classes)
        others = int(np.median(np.bincount(self._classes)[self._classes])) - 1
        self.neighbor_share = self.n_neighbors / max(others, self.n_neighbors)
        self.usual_sources, spreads = self.sources(DRAWS_OF_RULE, 0), list[float]()
        with Progress(len(self.usual_sources), "finding how images differ") as bar:
            for first in range(0, len(self.usual_sources), block := self._draws_at_a_time):
                some = self.usual_sources[first : first + block]
                spreads += [law.spread for law in self._laws_of(some, map_in_threads)]
                bar.update(len(spreads))
        self._usual_spread = math.inf if by_levels else float(np.median(spreads))

    @property
    def n_neighbors(self) -> int:
        """Neighbors that a local law is made of, in the median; `neighbor_share` is their share of a class."""
        return int(np.median([len(one) for one in self._neighbors]))

    @property
    def differ_in_shape(self) -> bool:
        """Whether stored images differ in more than their levels."""
        return self._usual_spread > NO_SHAPE

    def sample(self, n: int, rng: SeedLike = None) -> Array:
        """n new images, (n, H, W) or (n, H, W, channels), in the library, dtype and device of the stored ones.

        All levels lie between the least and the greatest of the stored ones.
        """
        return self.draw(check_count("n", n), seed_of(rng))[0]

    def draw(self, n: int, seed: int) -> tuple[Array, NumpyArray]:
        """The images of `sample`, and the stored image (n,) that each is a deformation of.

        Image i depends on (seed, i) alone.
        """
        sources = self.sources(n, seed)
        return self.around(sources, seed, self.scale), self.kept[sources]

    def sources(self, n: int, seed: int) -> NumpyArray:
        """Stored images (n,) in proportion to their weights.

        Multiples of the golden ratio, from a random start, choose among images in the order of their classes: each
        is uniform on its own, and the first m are as even over classes and images as m can be, for any m.
        """
        start = generator(seed, Purpose.MEMORY).random()
        places = np.searchsorted(self._cumulative, (start + GOLDEN_RATIO * np.arange(n)) % 1.0, side="right")
        return np.asarray(self._order[np.minimum(places, len(self._order) - 1)])  # where sums end just below 1

    def around(self, sources: NumpyArray, seed: int, scale: float, purpose: Purpose = Purpose.DRAW) -> Array:
        """Deformations of these stored images (n,), (n, H, W[, channels])."""
        size, block, parts = self._splines.size, self._draws_at_a_time, []
        for first in range(0, len(sources), block):
            some = sources[first : first + block]
            n_drawn = len(some)
            if on_cuda(self.images):  # of one size, so that the bits of an image do not depend on how many follow it
                some = np.concatenate([some, np.repeat(some[-1:], block - n_drawn)])
            parts.append(self._drawn(some, first, seed, scale, purpose)[:n_drawn])
        return concatenate(parts).reshape(len(sources), *size, *self.channels)

    def _drawn(self, sources: NumpyArray, first: int, seed: int, scale: float, purpose: Purpose) -> Array:
        """Deformations of these stored images at once, the numbers `first` and following of a draw: (n, H, W, C)."""
        rngs = list(generators(seed, int(purpose), range(first, first + len(sources)), ()))
        fields = fields_of(self._laws_of(sources), rngs, scale, self._usual_spread)
        stored = self.images[like(sources, self.images, keep_dtype=True)]
        if self.vary is Vary.LEVELS:
            return namespace(stored).clip(stored + fields, *self._limits)
        return with_levels_of(self._splines.at(sources, enlarged(fields, self._splines.size)), stored)

    @cached_property
    def _limits(self) -> tuple[float, float]:
        """The least and the greatest level of the stored images."""
        return float(self.images.min()), float(self.images.max())

    @property
    def _draws_at_a_time(self) -> int:
        """How many images are drawn at once: on a GPU as many as are worth it and fit into its memory."""
        if not on_cuda(self.images):
            return DRAWS_AT_A_TIME
        values = math.prod(self.images.shape[1:])
        in_law = values if self.vary is Vary.LEVELS else 2 * math.prod(self._registration.shape)
        of_one = (in_law * (max(map(len, self._neighbors)) + 1) + TEMPORARY * values) * self.images.itemsize
        return int(np.clip(MAX_DRAW_BYTES // of_one, 1, MAX_DRAWS_ON_GPU))

    def _laws_of(
        self, sources: NumpyArray, each: Callable[..., Iterable[LocalImageDistribution]] = map
    ) -> list[LocalImageDistribution]:
        """The local laws around these stored images, where they are not known found by `each`, such as in threads."""
        known = self._found.laws
        missing = [i for i in dict.fromkeys(map(int, sources)) if i not in known]
        together = self.vary is Vary.SHAPES and on_cuda(self.images)
        found = dict(zip(missing, self._laws_at_once(missing) if together else each(self._law, missing), strict=True))
        laws = [known.get(int(i)) or found[int(i)] for i in sources]
        if found:
            room = MAX_LAW_BYTES // max(law.deviations.nbytes for law in found.values())
            self._found.laws = dict(list({**known, **found}.items())[-max(room, 1) :])
        return laws

    def _laws_at_once(self, sources: Sequence[int]) -> Iterator[LocalImageDistribution]:
        """The laws of shapes around these stored images, whose fields are found together."""
        others = [self._neighbors[i] for i in sources]
        sizes = [len(some) for some in others]
        if sources:
            fields = self._registration.fields(np.repeat(sources, sizes), np.concatenate(others))
            for end, size in zip(np.cumsum(sizes), sizes, strict=True):
                yield LocalImageDistribution.of(fields[end - size : end])

    def _law(self, i: int) -> LocalImageDistribution:
        others = self._neighbors[i]
        if self.vary is Vary.LEVELS:
            return LocalImageDistribution.of(self.images[like(others, self.images, keep_dtype=True)] - self.images[i])
        return LocalImageDistribution.of(self._registration.fields(np.full(len(others), i), others))


def checked_scale(scale: float) -> float:
    """The scale; ValueError unless it is a number from 0 to 10."""
    if check_non_negative("scale", scale) > MAX_GIVEN_SCALE:
        raise ValueError(f"scale must be at most {MAX_GIVEN_SCALE:g}; got {scale:g}. Shapes vary about as stored at 1.")
    return float(scale)


def _matched_distance_scale(model: Deformations) -> tuple[float, ScaleRule, tuple[NumpyArray, NumpyArray]]:
    """The largest scale, to 2 %, at which new images are no further from stored ones than these from each other.

    Medians are compared: of the distance from a draw to the nearest stored image, and from one of these to the
    nearest that differs from it, which are returned as well. The draws of all scales have the same noise.
    """
    rows = feature_rows(None, model.images)
    as_bytes = rows.view(np.dtype((np.void, rows[0].nbytes))).ravel()  # many times faster than number by number
    different = np.unique(as_bytes, return_index=True)[1]
    if len(different) < 2:
        raise ValueError("images must differ; they are all alike. Store others.")
    seen = rows if model.features is None else feature_rows(model.features, model.images)
    stored, sources = seen[different], model.usual_sources
    among_stored = nearest_distances(stored)
    target = float(np.median(among_stored))

    def distances(scale: float) -> NumpyArray:
        drawn = model.around(sources, 0, scale, Purpose.RULE).reshape(len(sources), *model.images.shape[1:])
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
    """Whether the nearest draws are much nearer to stored images than the nearest of these are to each other."""
    return bool(np.quantile(drawn, NEAREST) < MIN_DISTANCE * np.quantile(stored, NEAREST))


CONDITIONED = "conditioned images are drawn by the generator 'patches', which keeps pixels in place."
N_BEST, MIN_COMMON = 10, 0.8
"""Stored images that fit a condition best, and the share of them that must have one class for it to be chosen."""
MIN_SHARE, MAX_FITTING = 1 / 8, 3
"""A condition on this share of an image or more leaves little to vary if so few stored images, or fewer, fit it as
well as images usually fit their nearest one."""


@dataclass(frozen=True, eq=False)
class DeformationGenerator:
    """New images, each a stored one of another shape, or with other levels."""

    levels: Array  # (K_kept, h, w) or (K_kept, h, w, 3) stored images of positive weight, floats in [0, 1]
    weights: Array  # (K_kept,) how often each of them counts
    kept: Array  # (K_kept,) their indices among all stored images
    labels: Array | None = None  # (K_kept,) their classes
    scale: float | None = None  # None for the matched-distance rule
    vary: Vary | None = None  # None for levels where the stored images have no shapes in common
    features: Features | None = None  # what distances are measured in, in place of pixels
    scale_rule: ScaleRule | None = None  # how the scale was set, where it was found before
    known: Deformations | None = None  # those of the same images with other weights or another scale
    block_items: ClassVar[int] = 64
    adjustable: ClassVar[frozenset[str]] = frozenset({"scale", "vary"})

    @classmethod
    def fit(
        cls,
        levels: Array,
        weights: Array,
        labels: Sequence[str] | None = None,
        scale: float | None = None,
        vary: Vary | None = None,
        features: Features | None = None,
        scale_rule: ScaleRule | None = None,
    ) -> DeformationGenerator:
        """The generator of stored images (K, h, w[, 3]) that count `weights` (K,) times."""
        kept = np.flatnonzero(weights > 0)
        of_kept = None if labels is None else np.array(labels)[kept]
        return cls(levels[kept], np.asarray(weights)[kept], kept, of_kept, scale, vary, features, scale_rule)

    def adjusted(
        self, weights: Array, *, scale: float | None = None, vary: str | None = None
    ) -> DeformationGenerator | None:
        """The same local laws with other weights (K,), scale or choice of what varies; None where other images count.

        Neighbors are found among the images that count, and fields in units of their levels.
        """
        if not np.array_equal(np.flatnonzero(weights > 0), self.kept):
            return None
        known = vars(self).get("model", self.known)  # a model that is not needed yet is not found here
        chosen = None if vary is None else Vary(vary)
        of_kept = np.asarray(weights)[self.kept]
        return replace(self, weights=of_kept, scale=scale, vary=chosen, scale_rule=None, known=known)

    @cached_property
    def model(self) -> Deformations:
        """The local laws. The scale is searched for here, when it is first needed."""
        return Deformations(
            self.levels,
            np.log(self.weights),
            labels=self.labels,
            scale=self.scale,
            vary=self.vary,
            features=self.features,
            known=self.known,
        )

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new images (n, h, w[, 3]) as levels, and the stored one that each is a deformation of."""
        drawn, source = self.model.draw(n, int(rng.integers(2**63)))
        return Generated(np.asarray(drawn), self.kept[source])

    def condition(self, observation: ConditionedPixels) -> PatchGenerator:
        """The patch generator of images that have these values: a deformation would move them.

        It combines images of the class that nearly all of those that fit best have, if there is one.
        """
        rows = self.levels[:, observation.pixels | observation.rectangles].astype(np.float64)
        values = observation.levels[observation.pixels | observation.rectangles]
        distances = np.sqrt(((rows - values) ** 2).sum(1))
        notes, chosen = [CONDITIONED], np.ones(len(rows), dtype=bool)
        given = [name for name in ("scale", "vary", "features") if getattr(self, name) is not None]
        if given and self.scale_rule is None:
            notes.append(f"{' and '.join(given)} had no effect, because no lines are moved.")
        name = None if self.labels is None else _common(self.labels[np.argsort(distances, kind="stable")[:N_BEST]])
        if self.labels is not None and name is not None:
            chosen = self.labels == name
            notes.append(f"they are combined from stored images of the class {name}, which fit the condition best.")
        if rows.shape[1] >= MIN_SHARE * self.levels[0].size:
            typical = float(np.median(nearest_distances(rows)))
            fitting = int((distances[chosen] <= typical).sum())
            if fitting <= MAX_FITTING:
                notes.append(f"{few_sources(fitting, 'image')}, and many are near-copies.")
        found = ConditionedImages(self.levels[chosen], self.weights[chosen], self.kept[chosen], observed=tuple(notes))
        return found.condition(observation)

    def describe(self) -> Description:
        """What varies, the scale and how it was set, and the number of neighbors."""
        model = self.model
        rule = model.scale_rule if self.scale_rule is None else self.scale_rule
        seen = "" if self.features is None else " by features"
        how = f"as the nearest{seen} ({model.n_neighbors}) differ from them"
        moved = f"stored images moved {how}"
        levels = f"stored images with other levels, {how}"
        summary = f"{moved if model.vary is Vary.SHAPES else levels}, scale {model.scale:.3g} ({rule.value})"
        note = "the stored images have no shapes in common, so that levels vary; vary='shapes' moves their lines."
        notes = (note,) if self.vary is None and model.vary is Vary.LEVELS else ()
        found = {"scale": model.scale, "scale_rule": rule.name, "vary": model.vary.value}
        doubt = "the stored images have no shapes in common" if model.are_unlike else ""
        return Description("deformations", summary, notes, resolved=found, doubt=doubt)


def _common(names: Array) -> str | None:
    """The class that nearly all of these images have, if there is one."""
    classes, counts = np.unique(names, return_counts=True)
    return str(classes[counts.argmax()]) if counts.max() >= MIN_COMMON * len(names) else None


@dataclass(frozen=True, eq=False)
class ConditionedImages(PatchGenerator):
    """The patch generator in place of deformations, under conditions."""

    observed: tuple[str, ...] = ()  # what is known about the draws, a line each

    def describe(self) -> Description:
        """That of the patch generator; its radius is no option of deformations."""
        return replace(super().describe(), notes=self.observed, resolved={})
