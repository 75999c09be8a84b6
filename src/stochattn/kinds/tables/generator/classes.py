"""Covariance kernels within classes, each in its own coordinates, and monotone maps to these.

A class is a value of one column of categories, or a combination of the values of several columns.

    p(c, x) = share_c · p_c(T_c(x)) · |dT_c/dx|,        p_c the covariance kernels around the rows of class c

T_c maps single features to scores among the rows of the class. A draw has the class of the row it is drawn around, and
classes have their stored shares. A condition multiplies the share of a class by its density or probability there.

Neighbors of a row are rows of the same class. The kernel of row k has the covariance

    Sigma_k = (1 - b) C_k + b C,        C the mean of the covariances C_k of all classes, shrunk:

so a class with few rows takes its shape from all classes. With 0 neighbors, C_k is the shrunk covariance of the class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...._backend.arrays import Array
from ....core.mixture import perplexity, pick_stratified
from ...generator import NO_DENSITY, Description, Generated, few_sources
from ...regions import FeatureObservation, Region, rarity_notes
from .covariance import MAX_UNLIKELY, MIN_EXPLAINING, CovarianceGenerator, CovarianceKernels
from .neighborhoods import KernelParams, log_kernels

N_BLOCKS = 32
"""Draws of one-hot blocks by which the probability of a class is estimated."""


def log_density_of_class(kernels: CovarianceKernels, x: Array, codes: Array, sizes: Sequence[int]) -> Array:
    """log p(x, class) of rows (n, d − Σ sizes) under kernels whose last features are one-hot blocks: (n,).

    Given x, the blocks are normal; the probability of the class is averaged over N_BLOCKS draws of them per kernel.

    codes: (n, blocks) the value of each block in a row, which is its largest feature
    sizes: of the blocks
    """
    from scipy.linalg.lapack import dtrtrs

    d, n_classes = x.shape[1], int(np.prod(sizes))
    noise = np.random.default_rng(0).standard_normal((N_BLOCKS, sum(sizes)))
    log_density = log_kernels(x, kernels.means[:, :d], kernels.roots[:, :d, :d])
    log_class, ends = np.empty_like(log_density), np.cumsum(sizes).tolist()
    for k, mean in enumerate(kernels.means):
        root = kernels.roots[k if len(kernels.roots) > 1 else 0]
        white, _ = dtrtrs(root[:d, :d], (x - mean[:d]).T, lower=1)
        features = (mean[d:, None] + root[d:, :d] @ white)[:, :, None] + (noise @ root[d:, d:].T).T[:, None]
        met = np.ones(features.shape[1:], dtype=bool)  # (n, N_BLOCKS)
        for size, end, code in zip(sizes, ends, codes.T, strict=True):
            largest = features[end - size + code, np.arange(len(x))]
            for j in range(end - size, end):
                met &= features[j] <= largest
        log_class[:, k] = np.log((met.sum(1) + 0.5) / (N_BLOCKS + 0.5 * n_classes))
    return np.logaddexp.reduce(log_density + log_class + kernels.log_weights, axis=1)


Knots = tuple[Array, Array]
"""Features (m,) and coordinates (m,), both strictly rising, m of 2 or more."""


@dataclass(frozen=True, eq=False)
class MonotoneMap:
    """A map from features (n, p) to coordinates (n, p), feature by feature; None for features that do not change.

    Beyond the knots, the map continues with the slope of the last piece.
    """

    knots: tuple[Knots | None, ...]

    def forward(self, features: Array) -> Array:
        """Features (n, p) as coordinates (n, p)."""
        out = np.array(features, dtype=np.float64)
        for j, knots in enumerate(self.knots):
            if knots is not None:
                out[:, j] = interpolate(out[:, j], *knots)
        return out

    def inverse(self, coordinates: Array) -> Array:
        """Coordinates (n, p) as features (n, p)."""
        return MonotoneMap(tuple(knots and knots[::-1] for knots in self.knots)).forward(coordinates)

    def log_slope(self, features: Array) -> Array:
        """log of the determinant of the derivative at features (n, p): (n,)."""
        total = np.zeros(len(features))
        for j, knots in enumerate(self.knots):
            if knots is not None:
                total += np.log(np.diff(knots[1]) / np.diff(knots[0]))[_pieces(features[:, j], knots[0])]
        return total

    def at(self, positions: Array | Sequence[int]) -> MonotoneMap:
        """The map of the features at these positions (r,) only."""
        return MonotoneMap(tuple(self.knots[j] for j in np.asarray(positions).tolist()))


def affine(mean: Array, deviation: Array, mapped: Sequence[int]) -> MonotoneMap:
    """The map (x − mean) / deviation of the features at positions `mapped`; means and deviations (p,)."""
    knots: list[Knots | None] = [None] * len(mean)
    for j in mapped:
        knots[j] = (np.array([mean[j] - deviation[j], mean[j] + deviation[j]]), np.array([-1.0, 1.0]))
    return MonotoneMap(tuple(knots))


def _pieces(x: Array, at: Array) -> Array:
    """The piece of each number (n,), between two of the knots (m,)."""
    return np.clip(np.searchsorted(at, x, side="right") - 1, 0, len(at) - 2)


def interpolate(x: Array, at: Array, values: Array) -> Array:
    """The values at numbers x (n,), linear between knots and beyond."""
    j = _pieces(x, at)
    return np.asarray(values[j] + (x - at[j]) * (values[j + 1] - values[j]) / (at[j + 1] - at[j]))


CLASSES_JOINED = " + "
"""The separator of the names of columns whose combinations are classes."""
MIN_CLASS_SHARE = 1e-12
"""Classes with a smaller share under a condition are left out."""


@dataclass(frozen=True, eq=False)
class ClassPart:
    """The kernels of one class; `label` (L,) holds its features in the blocks of the columns of classes."""

    label: Array
    map: MonotoneMap  # of all features but those of the blocks
    kernels: CovarianceGenerator  # in coordinates of the class
    log_share: float


@dataclass(frozen=True, eq=False)
class ClassKernels:
    """Kernels within the classes of columns, whose features are ordered blocks (start, stop) of all p features."""

    parts: tuple[ClassPart, ...]
    blocks: tuple[tuple[int, int], ...]
    columns: tuple[str, ...]  # names of the columns, for descriptions
    width: KernelParams
    searched: bool  # whether the width was chosen by a rule
    notes: tuple[str, ...] = ()
    fixed: tuple[Array, Array] | None = None  # positions (r,) and values (r,) of conditioned features

    @cached_property
    def shares(self) -> Array:
        """How often each class is drawn: (C,)."""
        return np.exp([part.log_share for part in self.parts])

    @cached_property
    def sources(self) -> Array:
        """The stored rows of the kernels, in rising order: (K,)."""
        return np.sort(np.concatenate([part.kernels.sources for part in self.parts]))

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new rows of features (n, p), and the stored row that each was drawn around. The first m are the m draws."""
        which, *streams = rng.spawn(1 + len(self.parts))
        log_weights = np.concatenate([part.log_share + part.kernels.log_shares for part in self.parts])
        sizes = [len(part.kernels.sources) for part in self.parts]
        c = np.repeat(np.arange(len(sizes)), sizes)[pick_stratified(log_weights, n, which)]
        features, source = np.empty((n, self._n_features)), np.empty(n, dtype=np.intp)
        for i, (part, stream) in enumerate(zip(self.parts, streams, strict=True)):
            rows = np.flatnonzero(c == i)
            draws = part.kernels.sample(len(rows), stream)
            features[np.ix_(rows, self._of_class)] = part.label
            features[np.ix_(rows, self._outside)] = part.map.inverse(draws.values)
            source[rows] = np.asarray(draws.source)
        if self.fixed is not None:
            features[:, self.fixed[0]] = self.fixed[1]  # without rounding
        return Generated(features, source)

    @cached_property
    def _of_class(self) -> Array:
        """Positions (L,) of the features of the blocks."""
        return np.concatenate([np.arange(*block) for block in self.blocks])

    @cached_property
    def _outside(self) -> Array:
        """Positions (p − L,) of all other features."""
        return np.setdiff1d(np.arange(self._n_features), self._of_class)

    @property
    def _n_features(self) -> int:
        return len(self._of_class) + len(self.parts[0].map.knots)

    def _outside_positions(self, positions: Array) -> Array:
        """Positions of features outside the blocks, counted among these alone."""
        return np.searchsorted(self._outside, positions)

    def _has_values(self, part: ClassPart, positions: Array, values: Array) -> Array:
        """Which rows of values (n, r) have the label of a class, in each block among the positions (r,): (n,)."""
        met, first = np.ones(len(values), dtype=bool), 0
        for start, stop in self.blocks:
            in_block = (positions >= start) & (positions < stop)
            if in_block.any():
                met &= np.argmax(values[:, in_block], axis=1) == np.argmax(part.label[first : first + stop - start])
            first += stop - start
        return met

    def log_density(self, values: Array) -> Array:
        """log density of rows of features, normalized, times the probability of the class; (n, p) -> (n,).

        This is the density of the kernels, without offsets and relations: see `CovarianceGenerator.log_density`.
        """
        if self.fixed is not None:
            raise ValueError(NO_DENSITY)
        features = np.asarray(values, dtype=np.float64)
        out = np.full(len(features), -np.inf)  # the log density of a class that is never drawn
        for part in self.parts:
            rows = np.flatnonzero(self._has_values(part, self._of_class, features[:, self._of_class]))
            if len(rows):
                x = features[np.ix_(rows, self._outside)]
                out[rows] = part.log_share + part.kernels.log_density(part.map.forward(x)) + part.map.log_slope(x)
        return out

    def condition(self, observation: tuple[Array, Array] | FeatureObservation) -> ClassKernels:
        """The generator given features at positions (r,), whole one-hot blocks at a time, and a region of others."""
        positions, values, region = FeatureObservation(*observation)
        is_outside = ~np.isin(positions, self._of_class)
        at, numbers = self._outside_positions(positions[is_outside]), values[is_outside]
        met = [part for part in self.parts if self._has_values(part, positions, values[None])[0]]
        met = [replace(part, log_share=part.log_share + self._log_density_of(part, at, numbers)) for part in met]
        log_before = [part.log_share for part in met]
        parts, reasons = list[ClassPart](), list[ValueError]()
        for part in met:
            try:
                parts += self._condition_part(part, at, numbers, region)
            except ValueError as error:
                reasons.append(error)
        if not parts:
            raise reasons[0] if reasons else ValueError("condition: no class meets it. Condition on less.")
        log_shares = np.array([part.log_share for part in parts])
        log_probability = np.logaddexp.reduce(log_shares) - np.logaddexp.reduce(log_before)  # of the region
        log_shares -= np.logaddexp.reduce(log_shares)
        kept = [(p, float(s)) for p, s in zip(parts, log_shares, strict=True) if s > math.log(MIN_CLASS_SHARE)]
        total = np.logaddexp.reduce([log_share for _, log_share in kept])
        parts = [replace(part, log_share=log_share - total) for part, log_share in kept]
        conditioned = replace(self, parts=tuple(parts), fixed=(positions, np.asarray(values, dtype=np.float64)))
        rare = () if region is None else rarity_notes(math.exp(log_probability))
        notes = self._notes_on(conditioned, at, numbers)
        return replace(conditioned, notes=(*self.notes, *rare, *notes))

    def _condition_part(self, part: ClassPart, at: Array, values: Array, region: Region | None) -> list[ClassPart]:
        """A class given features at positions outside the blocks, and a region, unless it does not meet the region."""
        class_region = None
        if region is not None:
            is_met, class_region = self._region_within(part, region)
            if not is_met:
                return []
        if not len(at) and class_region is None:
            return [part]
        coordinates = part.map.at(at).forward(values[None])[0]
        kernels = part.kernels.condition(FeatureObservation(at, coordinates, class_region))
        if kernels.restricted is None:
            return [replace(part, kernels=kernels)]
        if kernels.restricted.probability == 0:  # it is below the smallest float
            return []
        log_probability = float(np.log(kernels.restricted.probability))
        return [replace(part, kernels=kernels, log_share=part.log_share + log_probability)]

    def _log_density_of(self, part: ClassPart, at: Array, values: Array) -> float:
        """log density in a class of values (r,) of features at positions among those outside the blocks."""
        if not len(at):
            return 0.0
        feature_map = part.map.at(at)
        rows, y = part.kernels.space.observation(at, feature_map.forward(values[None])[0])
        return float(part.kernels.kernels.log_density_of(rows, y[None])[0] + feature_map.log_slope(values[None])[0])

    def _region_within(self, part: ClassPart, region: Region) -> tuple[bool, Region | None]:
        """Whether the class can meet a region, and the region of its other features in the coordinates of the class."""
        inside = np.isin(region.positions, self._of_class)
        label = part.label[np.searchsorted(self._of_class, region.positions[inside])]
        positions = region.positions[~inside]
        if not len(positions):
            return bool(region.contains(label[None])[0]), None
        at = self._outside_positions(positions)
        feature_map = part.map.at(at)

        def contains(coordinates: Array) -> Array:
            features = np.empty((len(coordinates), len(inside)))
            features[:, inside], features[:, ~inside] = label, feature_map.inverse(coordinates)
            return region.contains(features)

        low, high = (_map_ends(feature_map, end[~inside]) for end in (region.low, region.high))
        return True, Region(at, low, high, contains)

    @property
    def acceptance(self) -> float:
        """The share of attempts that become draws; 1 unless a region is conditioned on."""
        return float(np.average([part.kernels.acceptance for part in self.parts], weights=self.shares))

    def _notes_on(self, conditioned: ClassKernels, at: Array, values: Array) -> Iterator[str]:
        if len(at):
            labels = {part.label.tobytes() for part in conditioned.parts}
            possible = [part for part in self.parts if part.label.tobytes() in labels]
            likely = max(self._log_density_of(part, at, values) for part in possible)
            least = min(float(self._stored_density(part, at).min()) for part in possible)
            if likely < least - MAX_UNLIKELY:
                yield "the conditioned values, alone or together, are unlike anything stored: draws extrapolate"
        log_weights = np.concatenate([part.log_share + part.kernels.log_shares for part in conditioned.parts])
        n_explaining = perplexity(log_weights)
        if n_explaining < MIN_EXPLAINING and len(conditioned.sources) >= 2 * MIN_EXPLAINING:
            yield few_sources(n_explaining, "row")

    def _stored_density(self, part: ClassPart, at: Array) -> Array:
        """log density of the values of these features in the stored rows of a class: (k,)."""
        rows, mean = part.kernels.space.observation(at, np.zeros(len(at)))
        y = part.kernels.space.stored @ rows.T
        feature_map = part.map.at(at)
        log_slope = feature_map.log_slope(feature_map.inverse(y - mean))
        return np.asarray(part.kernels.kernels.log_density_of(rows, y) + log_slope)

    def describe(self) -> Description:
        """The classes, the width of the kernels and how it was chosen."""
        rule = "chosen by the likelihood of left-out rows" if self.searched else "as given"
        summary = f"{self.width}, within its class of {' and '.join(map(repr, self.columns))} ({rule})"
        resolved: dict[str, object] = {"width": tuple(self.width), "classes": CLASSES_JOINED.join(self.columns)}
        return Description("covariance", summary, self.notes, resolved=resolved)


def _map_ends(feature_map: MonotoneMap, ends: Array) -> Array:
    """Ends of intervals (r,) in coordinates; infinite ends stay infinite."""
    finite = np.isfinite(ends)
    return np.where(finite, feature_map.forward(np.where(finite, ends, 0.0)[None])[0], ends)
