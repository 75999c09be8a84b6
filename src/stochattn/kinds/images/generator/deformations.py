"""The generator "deformations": a stored image, deformed in the ways in which its nearest neighbors differ from it.

The fields u_ij carry a stored image m_i onto its k nearest images j, and u_ii = 0 (see `registration`). Their mean
ū_i and their covariance define a local Gaussian distribution of shapes. A new image is m_i warped by one draw of it,

    x = m_i ∘ (id + t ū_i + s c_i Σ_j w_j (u_ij − ū_i) / √(k + 1))      w_j ~ N(0, 1)      t = 1 − √max(1 − s², 0)

Lines are moved, and neither broken nor blended: blends of pixels have two half-visible strokes where images differ.
Interpolation blurs, so the warped image gets back the pixel values of m_i, in the order of its own. The step towards
ū_i keeps new images from spreading further than stored ones (West 1993: kernels that are shrunk to the mean keep the
variance). c_i ≤ 1 damps draws around images unlike all others, whose neighbors differ more than is typical. The scale s
is chosen so that new images are as far from the stored ones as these are from each other; s = 0 recalls stored images.

Textures have no shapes in common, so that warped ones would be near-copies. For them, the same distribution is one of
pixel values, with m_j − m_i in place of u_ij and c_i = 1: x = m_i + t (m̄_i − m_i) + s Σ_j w_j (m_j − m̄_i) / √(k + 1).

Conditioned images are drawn by the generator "patches".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import ClassVar

import numpy as np

from ...._backend.arrays import Array, ArrayLike, NumpyArray, concatenate, full, like, namespace, on_cuda, to_numpy
from ...._backend.checks import check_count
from ...._backend.console import Progress
from ...._backend.parallel import in_threads
from ...._backend.random import Purpose, SeedLike, generator, generators, seed_of
from ....core.memory import MemoryBank
from ....core.neighbors import nearest_distances
from ...generator import Description, Generated, few_sources
from ..description import DeformationOptions, Features, Vary
from .patches import ConditionedPixels, PatchGenerator, SettingRule
from .registration import Registration, SplineImages, feature_rows, find_neighbors, remove_light, restore_values


@dataclass(frozen=True, eq=False)
class LocalImageDistribution:
    """Shapes around one stored image, fields (2, h, w), or pixel values (H, W, C): their mean and spread."""

    mean: Array
    deviations: Array  # (k + 1, 2, h, w)
    spread: float  # root mean square of the deviations, in pixels or pixel values

    @classmethod
    def of(cls, fields: Array) -> LocalImageDistribution:
        """The distribution of the fields to neighbors (k, 2, h, w) and to the image itself, which is 0."""
        fields = concatenate([fields, 0 * fields[:1]])
        mean = fields.mean(0)
        deviations = fields - mean
        return cls(mean, deviations, math.sqrt(float((deviations**2).mean())))

    def weights(self, rng: np.random.Generator, scale: float, typical_spread: float) -> NumpyArray:
        n = len(self.deviations)
        damping = min(typical_spread / max(self.spread, float(np.finfo(np.float32).tiny)), 1.0)
        return np.asarray(rng.standard_normal(n) * (scale * damping / math.sqrt(n)))


def draw_fields(
    distributions: list[LocalImageDistribution], rngs: list[np.random.Generator], scale: float, typical_spread: float
) -> Array:
    """A draw of each distribution, from its own random generator: (n, 2, h, w).

    On a GPU, starting a product takes longer than computing it. Tensors therefore get one copy of all weights and one
    product for all distributions; weights of distributions with fewer neighbors are padded with zeros.
    """
    mean, xp = distributions[0].mean, namespace(distributions[0].mean)
    weights = [part.weights(rng, scale, typical_spread) for part, rng in zip(distributions, rngs, strict=True)]
    deviations = [part.deviations.reshape(len(part.deviations), -1) for part in distributions]
    if isinstance(mean, np.ndarray):
        draws = np.stack([like(w, mean) @ rows for w, rows in zip(weights, deviations, strict=True)])
    else:
        from torch.nn.utils.rnn import pad_sequence

        padded = np.zeros((len(weights), 1, max(map(len, weights))))
        for row, values in zip(padded[:, 0], weights, strict=True):
            row[: len(values)] = values
        draws = like(padded, mean) @ pad_sequence(deviations, batch_first=True)
    means = xp.stack([part.mean for part in distributions])
    step = 1 - math.sqrt(max(1 - scale**2, 0.0))  # t of the module's formula
    return step * means + draws.reshape(means.shape)


DRAWS_OF_RULE, MIN_SCALE, PRECISION = 96, 0.05, 1.02
"""Number of draws of the matched-distance rule, the least scale, and the factor to which the rule resolves scales."""
MAX_SCALE, MAX_SCALE_OF_ALL = 2.1, 1.4
"""Limits of the rule if a distribution has a few neighbors, and if it has all images of a class, and so their full
variance already. Beyond them, shapes are unlike any stored one."""
MAX_SCALE_OF_LEVELS = 1.0  # limit for pixel values: the distribution has the variance of the neighbors already
NO_SHAPE = 0.05  # typical spread of fields in pixels below which images do not differ in shape
NEAREST, MIN_DISTANCE = 0.1, 0.6
"""Images have no shapes in common if this quantile of the distances of draws to stored images is below this share of
that of stored images to each other: the share is 0.2 to 0.5 for most patches of photographs, and 0.7 to 1.1 for digits
and portraits."""
FEW, MIN_DISTANCE_OF_FEW = 20, 0.7
"""Of fewer images, medians are compared, as their quantile is that of one or two: the share is 0.5 to 0.7 for nine
unrelated photographs, and 0.7 to 0.9 for nine digits of a class and nine portraits."""
DRAWS_AT_A_TIME = 16
MAX_DRAWS_ON_GPU = 256  # most of a GPU is idle while there are few
MAX_DRAW_BYTES, TEMPORARY = 2**29, 32
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
MAX_DISTRIBUTION_BYTES = 2**27  # of local distributions that are kept; others are computed again when needed


class Deformations:
    """New images from stored ones, by local distributions of their shapes. Immutable except for its cache.

    images: (K, H, W) or (K, H, W, channels), array or tensor of floats
    log_r:  (K,) log-multiplicities, −inf for an image that is left out; None for equal ones
    labels: (K,) classes. Images are moved towards others of their class only, and classes keep their shares
    scale:  s of the module's formula; None for the matched-distance rule
    vary:   whether shapes or pixel values vary; None for shapes, or for pixel values if the scale is None too and the
            stored images have no shapes in common
    features: a function of arrays (n, H, W, C) that returns (n, f), or a torch module, between whose values distances
            are measured; None for pixel values
    computed: Deformations of the same images, labels and features, whose neighbors and local distributions are used
            again if the same varies; they do not depend on multiplicities
    """

    _splines: SplineImages
    _registration: Registration
    are_unlike = False  # whether pixel values vary because the images differ in shape and have no shapes in common

    def __init__(
        self,
        images: Array,
        log_r: ArrayLike | None = None,
        *,
        labels: ArrayLike | None = None,
        scale: float | None = None,
        vary: Vary | str | None = None,
        features: Features | None = None,
        computed: Deformations | None = None,
    ) -> None:
        self.features, self.channels = features, tuple(images.shape[3:])
        bank = MemoryBank(full((len(images), 1), 1.0, images), log_r)  # for multiplicities, without a copy
        weights = np.exp(to_numpy(bank.log_r - bank.log_total_r).astype(np.float64))
        self.kept = np.flatnonzero(weights > 0)
        kept = images if len(self.kept) == len(images) else images[like(self.kept, images, keep_dtype=True)]
        self.images = kept.reshape(*kept.shape[:3], -1)
        names = np.zeros(len(weights), int) if labels is None else np.asarray(labels).astype(str)
        self._classes = np.unique(names, return_inverse=True)[1][self.kept]
        self._order = np.argsort(self._classes, kind="stable")
        self._cumulative = np.cumsum(weights[self.kept][self._order])
        self._limits = float(self.images.min()), float(self.images.max())
        self._splines = SplineImages(self.images) if computed is None else computed._splines
        self._registration = Registration(remove_light(self.images)) if computed is None else computed._registration
        self._set(Vary(vary or Vary.SHAPES), computed)
        if scale is not None:
            self.scale, self.scale_rule = float(scale), SettingRule.GIVEN
            return
        self.scale, self.scale_rule, distances = _matched_distance_scale(self)
        if vary is None and (not self.differ_in_shape or _are_near_copies(*distances)):
            self.are_unlike = self.differ_in_shape
            self._set(Vary.LEVELS)
            self.scale, self.scale_rule, _ = _matched_distance_scale(self)

    def _set(self, vary: Vary, computed: Deformations | None = None) -> None:
        """Choose what varies, find the neighbors, and measure how much they typically differ."""
        self.vary, by_levels = vary, vary is Vary.LEVELS
        if computed is None or computed.vary is not vary:
            by_images = by_levels or self.features is not None
            rows = feature_rows(self.features, self.images if by_images else self._registration.images)
            self._neighbors, self._cache = find_neighbors(rows, self._classes), dict[int, LocalImageDistribution]()
        else:
            self._neighbors, self._cache = computed._neighbors, computed._cache
        others = int(np.median(np.bincount(self._classes)[self._classes])) - 1
        self.neighbor_share = self.n_neighbors / max(others, self.n_neighbors)
        self.typical_sources, spreads = self.sources(DRAWS_OF_RULE, 0), list[float]()
        with Progress(len(self.typical_sources), "finding how images differ") as bar:
            for first in range(0, len(self.typical_sources), block := self._draws_at_a_time):
                sources = self.typical_sources[first : first + block]
                spreads += [distribution.spread for distribution in self._find_distributions(sources, in_threads)]
                bar.update(len(spreads))
        self._typical_spread = math.inf if by_levels else float(np.median(spreads))

    @property
    def n_neighbors(self) -> int:
        """Median number of neighbors of an image; `neighbor_share` is their share of a class."""
        return int(np.median([len(neighbors) for neighbors in self._neighbors]))

    @property
    def differ_in_shape(self) -> bool:
        """Whether stored images differ in more than their pixel values."""
        return self._typical_spread > NO_SHAPE

    def sample(self, n: int, rng: SeedLike = None) -> Array:
        """n new images (n, H, W[, channels]), like the stored ones, whose range of pixel values they do not leave."""
        return self.draw(check_count("n", n), seed_of(rng))[0]

    def draw(self, n: int, seed: int) -> tuple[Array, NumpyArray]:
        """The images of `sample`, each of which depends on (seed, i) alone, and the stored image (n,) behind each."""
        sources = self.sources(n, seed)
        return self.around(sources, seed, self.scale), self.kept[sources]

    def sources(self, n: int, seed: int) -> NumpyArray:
        """Stored images (n,) in proportion to their weights.

        Multiples of the golden ratio, from a random start, choose among images in the order of their classes: each
        is uniform, and the first m are as evenly spread over classes and images as possible, for any m.
        """
        start = generator(seed, Purpose.MEMORY).random()
        places = np.searchsorted(self._cumulative, (start + GOLDEN_RATIO * np.arange(n)) % 1.0, side="right")
        return np.asarray(self._order[np.minimum(places, len(self._order) - 1)])  # where sums end just below 1

    def around(self, sources: NumpyArray, seed: int, scale: float, purpose: Purpose = Purpose.DRAW) -> Array:
        """Deformations of these stored images (n,), (n, H, W[, channels])."""
        size, block, parts = self._splines.size, self._draws_at_a_time, []
        for first in range(0, len(sources), block):
            drawn = sources[first : first + block]
            if on_cuda(self.images):  # blocks of one size, so that the bits of an image do not depend on the others
                drawn = np.pad(drawn, (0, block - len(drawn)), mode="edge")
            rngs = list(generators(seed, purpose, range(first, first + len(drawn))))
            fields = draw_fields(self._find_distributions(drawn), rngs, scale, self._typical_spread)
            stored = self.images[like(drawn, self.images, keep_dtype=True)]
            if self.vary is Vary.LEVELS:
                parts.append(namespace(stored).clip(stored + fields, *self._limits))
            else:
                parts.append(restore_values(self._splines.at(drawn, fields), stored))
        return concatenate(parts)[: len(sources)].reshape(len(sources), *size, *self.channels)

    @property
    def _draws_at_a_time(self) -> int:
        """Number of images that are drawn at once: on a GPU, as many as fit into the memory, up to a limit."""
        if not on_cuda(self.images):
            return DRAWS_AT_A_TIME
        values = math.prod(self.images.shape[1:])
        size = values if self.vary is Vary.LEVELS else 2 * math.prod(self._registration.shape)
        n_bytes = (size * (max(map(len, self._neighbors)) + 1) + TEMPORARY * values) * self.images.itemsize
        return int(np.clip(MAX_DRAW_BYTES // n_bytes, 1, MAX_DRAWS_ON_GPU))

    def _find_distributions(
        self, sources: NumpyArray, mapped: Callable[..., Iterable[list[LocalImageDistribution]]] = map
    ) -> list[LocalImageDistribution]:
        """The local distributions around these stored images; new ones are fitted by `mapped`, on a GPU together."""
        missing = [i for i in dict.fromkeys(map(int, sources)) if i not in self._cache]
        size = max(len(missing), 1) if on_cuda(self.images) else 1
        groups = [missing[first : first + size] for first in range(0, len(missing), size)]
        fitted = dict(zip(missing, chain.from_iterable(mapped(self._fit, groups)), strict=True))
        for i, distribution in fitted.items():
            if (len(self._cache) + 1) * distribution.deviations.nbytes <= MAX_DISTRIBUTION_BYTES:
                self._cache[i] = distribution
        return [self._cache.get(int(i)) or fitted[int(i)] for i in sources]

    def _fit(self, sources: Sequence[int]) -> list[LocalImageDistribution]:
        neighbors = [self._neighbors[i] for i in sources]
        if self.vary is Vary.LEVELS:
            near = (self.images[like(indices, self.images, keep_dtype=True)] for indices in neighbors)
            return [LocalImageDistribution.of(images - self.images[i]) for i, images in zip(sources, near, strict=True)]
        sizes = [len(indices) for indices in neighbors]
        fields = self._registration.fields(np.repeat(sources, sizes), np.concatenate(neighbors))
        parts = zip(np.cumsum(sizes).tolist(), sizes, strict=True)
        return [LocalImageDistribution.of(fields[end - size : end]) for end, size in parts]


def _matched_distance_scale(model: Deformations) -> tuple[float, SettingRule, tuple[NumpyArray, NumpyArray]]:
    """The largest scale, to 2 %, at which new images are no further from stored ones than these from each other.

    The rule compares the median distance from a draw to the nearest stored image with that from a stored image to the
    nearest different one; all of these distances are returned. Draws of all scales have the same noise.
    """
    rows = feature_rows(None, model.images)
    as_bytes = rows.view(np.dtype((np.void, rows[0].nbytes))).ravel()  # much faster than a comparison of numbers
    different = np.unique(as_bytes, return_index=True)[1]
    if len(different) < 2:
        raise ValueError("images must differ; all are equal. Store others.")
    seen = rows if model.features is None else feature_rows(model.features, model.images)
    stored, sources = seen[different], model.typical_sources
    among_stored = nearest_distances(stored)
    target = float(np.median(among_stored))

    def distances(scale: float) -> NumpyArray:
        drawn = model.around(sources, 0, scale, Purpose.RULE).reshape(len(sources), *model.images.shape[1:])
        return nearest_distances(feature_rows(model.features, drawn), stored)

    low, high = MIN_SCALE, MAX_SCALE_OF_LEVELS
    if model.vary is Vary.SHAPES:
        high = MAX_SCALE - (MAX_SCALE - MAX_SCALE_OF_ALL) * model.neighbor_share
    if np.median(measured := distances(high)) <= target:
        return high, SettingRule.LARGEST, (measured, among_stored)
    if np.median(measured := distances(low)) > target:
        return low, SettingRule.LEAST, (measured, among_stored)
    while high > PRECISION * low:
        middle = math.sqrt(low * high)
        if np.median(further := distances(middle)) > target:
            high = middle
        else:
            low, measured = middle, further
    return low, SettingRule.MATCHED_DISTANCE, (measured, among_stored)


def _are_near_copies(drawn: NumpyArray, stored: NumpyArray) -> bool:
    """Whether draws are much nearer to stored images than these are to each other, by the nearest ones if many."""
    q, share = (0.5, MIN_DISTANCE_OF_FEW) if len(stored) < FEW else (NEAREST, MIN_DISTANCE)
    return bool(np.quantile(drawn, q) < share * np.quantile(stored, q))


CONDITIONED = "conditioned images are drawn by the generator 'patches', which keeps pixels in place."
N_BEST, MIN_COMMON = 10, 0.8  # images that fit a condition best; least share of these that is of the chosen class
MIN_SHARE, MAX_FITTING = 1 / 8, 3
"""A condition on at least this share of an image leaves little to vary if at most MAX_FITTING stored images fit it as
well as images typically fit their nearest one."""


@dataclass(frozen=True, eq=False)
class DeformationGenerator:
    """New images, each a stored one with another shape or other pixel values."""

    levels: Array  # (K_kept, h, w) or (K_kept, h, w, 3) stored images with positive weight, floats in [0, 1]
    weights: Array  # (K_kept,) of these images
    kept: Array  # (K_kept,) their indices among all stored images
    labels: Array | None  # (K_kept,) their classes
    options: DeformationOptions
    computed: Deformations | None = None  # of the same images with other weights or another scale
    block_items: ClassVar[int] = 64
    adjustable: ClassVar[frozenset[str]] = frozenset({"scale", "vary"})

    @classmethod
    def fit(
        cls, levels: Array, weights: Array, labels: Sequence[str] | None, options: DeformationOptions
    ) -> DeformationGenerator:
        """The generator of stored images (K, h, w[, 3]) that count `weights` (K,) times."""
        kept = np.flatnonzero(weights > 0)
        of_kept = None if labels is None else np.array(labels)[kept]
        return cls(levels[kept], np.asarray(weights)[kept], kept, of_kept, options)

    def adjusted(
        self, weights: Array, *, scale: float | None = None, vary: str | None = None
    ) -> DeformationGenerator | None:
        """The generator with other weights (K,), scale or `vary`; None if other images have positive weight.

        Local distributions are shared: they depend on which images have positive weight, and not on the weights.
        """
        if not np.array_equal(np.flatnonzero(weights > 0), self.kept):
            return None
        computed = vars(self).get("model", self.computed)  # without fitting it now
        options = replace(self.options, scale=scale, vary=vary, scale_rule=None)
        return replace(self, weights=np.asarray(weights)[self.kept], options=options, computed=computed)

    @cached_property
    def model(self) -> Deformations:
        settings = {name: value for name, value in vars(self.options).items() if name != "scale_rule"}
        return Deformations(self.levels, np.log(self.weights), labels=self.labels, computed=self.computed, **settings)

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new images (n, h, w[, 3]), and the stored one that each is a deformation of."""
        images, source = self.model.draw(n, int(rng.integers(2**63)))
        return Generated(np.asarray(images), self.kept[source])

    def condition(self, observation: ConditionedPixels) -> PatchGenerator:
        """The patch generator of images with these pixel values, because a deformation would move them.

        It combines images of one class if nearly all of the images that fit best have this class.
        """
        rows = self.levels[:, observation.mask].astype(np.float64)
        distances = np.sqrt(((rows - observation.levels[observation.mask]) ** 2).sum(1))
        notes, chosen = [CONDITIONED], np.ones(len(rows), dtype=bool)
        names = [name for name in ("scale", "vary", "features") if getattr(self.options, name) is not None]
        if names and self.options.scale_rule is None:
            notes.append(f"{' and '.join(names)} had no effect, because no lines are moved.")
        if self.labels is not None:
            best = self.labels[np.argsort(distances, kind="stable")[:N_BEST]]
            if (name := _common(best)) is not None:
                chosen = self.labels == name
                notes.append(f"they are combined from stored images of the class {name}, which fit the condition best.")
        if rows.shape[1] >= MIN_SHARE * self.levels[0].size:
            typical = float(np.median(nearest_distances(rows)))
            n_fitting = int((distances[chosen] <= typical).sum())
            if n_fitting <= MAX_FITTING:
                notes.append(f"{few_sources(n_fitting, 'image')}, and many are near-copies.")
        images = self.levels[chosen], self.weights[chosen], self.kept[chosen]
        return PatchGenerator(*images, conditioned=observation, notes=tuple(notes))

    def describe(self) -> Description:
        model, earlier = self.model, self.options.scale_rule
        rule = model.scale_rule if earlier is None else SettingRule[earlier]
        by_features = "" if model.features is None else " by features"
        how = f"as the nearest{by_features} ({model.n_neighbors}) differ from them"
        what = f"moved {how}" if model.vary is Vary.SHAPES else f"with other pixel values, {how}"
        summary = f"stored images {what}, scale {model.scale:.3g} ({rule.value})"
        note = "the stored images have no shapes in common, so pixel values vary; vary='shapes' moves their lines."
        notes = (note,) if self.options.vary is None and model.vary is Vary.LEVELS else ()
        resolved = {"scale": model.scale, "scale_rule": rule.name, "vary": model.vary.value}
        doubt = "the stored images have no shapes in common" if model.are_unlike else ""
        return Description("deformations", summary, notes, resolved=resolved, doubt=doubt)


def _common(names: Array) -> str | None:
    """The class that nearly all of these images have, or None."""
    classes, counts = np.unique(names, return_counts=True)
    return str(classes[counts.argmax()]) if counts.max() >= MIN_COMMON * len(names) else None
