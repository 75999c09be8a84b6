"""Covariance kernels within classes: each class has kernels of its own, in coordinates of its own.

A class is a value of one column of categories, or a combination of values of several.

    p(c, x) = share_c · p_c(T_c(x)) · |dT_c/dx|,        p_c the covariance kernels around the rows of class c

T_c maps single features to scores among the rows of the class. A draw has the class of the row it is drawn around, and
classes have their stored shares. Conditions multiply shares by what each class gives them.

The width of covariance kernels within classes, and the likelihood of classes under kernels around all rows.

Rows are compared with rows of their own class only. The kernel of row k has the covariance

    Sigma_k = (1 - b) C_k + b C,        C the mean of the covariances C_k of all classes, shrunk:

a class of few rows borrows its shape from the others. With 0 neighbours, C_k is the shrunk covariance of the class.

Rising piecewise linear maps of single features, with their inverses and slopes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...._backend.arrays import Array
from ...._backend.console import Progress
from ...._backend.parallel import Shared
from ....core.mixture import perplexity
from ...generator import NO_DENSITY, Description, Generated, few_sources
from ...regions import FeatureObservation, Region, rarity_notes
from ...stratified import stratified
from .covariance import MAX_UNLIKELY, MIN_EXPLAINING, CovarianceGenerator, CovarianceKernels
from .neighborhoods import FOLDS, N_USUAL_STEPS, NEIGHBOURS, Folds, Likelihoods, Width, ascend, log_kernels

N_BLOCKS = 32
"""Draws of one-hot blocks by which the probability of a class is estimated."""


def choose_class_width(rows: Array, classes: Array) -> Width:
    """The width under which left-out rows (K, d) are likeliest given their classes (K,)."""
    largest = int(np.bincount(classes).max()) * (FOLDS - 1) // FOLDS
    with Progress(N_USUAL_STEPS, "choosing a width") as progress:
        likelihood = Likelihoods(Shared(Folds(rows, classes)), progress)
        best = ascend(Width(0.7, 0.5, 0), (0,), likelihood)
        possible = tuple(m for m in NEIGHBOURS if m < largest)
        if possible:
            start = Width(0.7, 0.5, min(12, possible[-1]))
            best = likelihood.likeliest([best, ascend(start, possible, likelihood)])
    return best


def log_density_of_class(kernels: CovarianceKernels, x: Array, codes: Array, sizes: Sequence[int]) -> Array:
    """log p(x, class) of rows (n, d − Σ sizes) under kernels whose last features are one-hot blocks: (n,).

    sizes: of the blocks; codes (n, blocks): which value of each block a row has, its largest feature. Given x, the law
    of the blocks is normal; the probability of the class is averaged over N_BLOCKS draws of them for each kernel.
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
    """A map from features (n, p) to coordinates (n, p), feature by feature; None for features that it leaves alone.

    Beyond its knots a map goes on at the slope of its last piece.
    """

    knots: tuple[Knots | None, ...]

    def forward(self, features: Array) -> Array:
        """Features (n, p) as coordinates (n, p)."""
        return self._mapped(features, inverse=False)

    def inverse(self, coordinates: Array) -> Array:
        """Coordinates (n, p) as features (n, p)."""
        return self._mapped(coordinates, inverse=True)

    def _mapped(self, x: Array, inverse: bool) -> Array:
        out = np.array(x, dtype=np.float64)
        for j, knots in enumerate(self.knots):
            if knots is not None:
                out[:, j] = linear(out[:, j], *(knots[::-1] if inverse else knots))
        return out

    def log_slope(self, features: Array) -> Array:
        """log of the determinant of the derivative at features (n, p): (n,)."""
        total = np.zeros(len(features))
        for j, knots in enumerate(self.knots):
            if knots is not None:
                total += np.log(np.diff(knots[1]) / np.diff(knots[0]))[_pieces(features[:, j], knots[0])]
        return total

    def at(self, positions: Array) -> MonotoneMap:
        """The map of the features at these positions (r,) only."""
        return MonotoneMap(tuple(self.knots[j] for j in np.asarray(positions).tolist()))


def affine(mean: Array, deviation: Array, mapped: Sequence[int]) -> MonotoneMap:
    """The map (x − mean) / deviation of the features `mapped`, of p features with such means and deviations (p,)."""
    knots: list[Knots | None] = [None] * len(mean)
    for j in mapped:
        knots[j] = (np.array([mean[j] - deviation[j], mean[j] + deviation[j]]), np.array([-1.0, 1.0]))
    return MonotoneMap(tuple(knots))


def _pieces(x: Array, at: Array) -> Array:
    """The piece of each number (n,), between two of the knots (m,)."""
    return np.clip(np.searchsorted(at, x, side="right") - 1, 0, len(at) - 2)


def linear(x: Array, at: Array, values: Array) -> Array:
    """The values at numbers x (n,), linear between knots and beyond."""
    j = _pieces(x, at)
    return np.asarray(values[j] + (x - at[j]) * (values[j + 1] - values[j]) / (at[j + 1] - at[j]))


CLASSES_JOINED = " + "
"""Between the names of columns whose combinations are classes."""
MAX_RARE_CLASS = 1e-12
"""Share of a class under a condition, below which it is left out."""


@dataclass(frozen=True, eq=False)
class ClassPart:
    """The kernels of one class: `label` (L,) are its features in the blocks of the columns of classes."""

    label: Array
    map: MonotoneMap  # of all features but those of the blocks
    kernels: CovarianceGenerator  # in coordinates of the class
    log_share: float


@dataclass(frozen=True, eq=False)
class ClassKernels:
    """Kernels within the classes of some columns, whose features are blocks (start, stop), in order, of p features."""

    parts: tuple[ClassPart, ...]
    blocks: tuple[tuple[int, int], ...]
    columns: tuple[str, ...]  # names of the columns, for descriptions
    width: Width
    searched: bool  # whether the width was chosen by a rule
    notes: tuple[str, ...] = ()
    given: tuple[Array, Array] | None = None  # positions (r,) and values (r,) of conditioned features

    @cached_property
    def shares(self) -> Array:
        """How often each class is drawn: (C,)."""
        return np.exp(np.array([part.log_share for part in self.parts]))

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new rows of features (n, p), and the stored row that each was drawn around. The first m are the m draws."""
        which, *streams = rng.spawn(1 + len(self.parts))
        log_weights = np.concatenate([part.log_share + part.kernels.log_shares for part in self.parts])
        sizes = [len(part.kernels.sources) for part in self.parts]
        c = np.repeat(np.arange(len(sizes)), sizes)[stratified(log_weights, n, which)]
        found: list[tuple[Array, Array, Array]] = []
        for i, (part, stream) in enumerate(zip(self.parts, streams, strict=True)):
            own = np.flatnonzero(c == i)
            drawn = part.kernels.sample(len(own), stream)
            found.append((own, self._joined(part, part.map.inverse(drawn.values)), np.asarray(drawn.source)))
        features, source = np.empty((n, found[0][1].shape[1])), np.empty(n, dtype=np.intp)
        for own, values, sources in found:
            features[own], source[own] = values, sources
        if self.given is not None:
            features[:, self.given[0]] = self.given[1]  # without rounding
        return Generated(features, source)

    @cached_property
    def _of_class(self) -> Array:
        """Positions (L,) of the features of the blocks."""
        return np.concatenate([np.arange(*block) for block in self.blocks])

    @cached_property
    def _others(self) -> Array:
        """Positions (p − L,) of all other features."""
        p = len(self._of_class) + len(self.parts[0].map.knots)
        return np.setdiff1d(np.arange(p), self._of_class)

    def _joined(self, part: ClassPart, others: Array) -> Array:
        """Features (n, p − L) of a class, with the blocks of the class put in: (n, p)."""
        features = np.empty((len(others), len(self._of_class) + others.shape[1]))
        features[:, self._of_class], features[:, self._others] = part.label, others
        return features

    def _beside_blocks(self, positions: Array) -> Array:
        """Positions of features outside the blocks, counted without these."""
        return np.searchsorted(self._others, positions)

    def _has_values(self, part: ClassPart, positions: Array, values: Array) -> Array:
        """Which rows of values (n, r) have those of a class, in each block that is among the positions (r,): (n,)."""
        met, first = np.ones(len(values), dtype=bool), 0
        for start, stop in self.blocks:
            own = (positions >= start) & (positions < stop)
            if own.any():
                met &= np.argmax(values[:, own], axis=1) == np.argmax(part.label[first : first + stop - start])
            first += stop - start
        return met

    def log_density(self, values: Array) -> Array:
        """log density of rows of features, normalised, times the probability of the class; (n, p) -> (n,).

        It is that of the kernels, as `CovarianceGenerator.log_density` says: without offsets and relations.
        """
        if self.given is not None:
            raise ValueError(NO_DENSITY)
        features = np.asarray(values, dtype=np.float64)
        out = np.full(len(features), -np.inf)  # of a class that is never drawn
        for part in self.parts:
            own = np.flatnonzero(self._has_values(part, self._of_class, features[:, self._of_class]))
            if len(own):
                x = features[np.ix_(own, self._others)]
                out[own] = part.log_share + part.kernels.log_density(part.map.forward(x)) + part.map.log_slope(x)
        return out

    def condition(self, observation: tuple[Array, Array] | FeatureObservation) -> ClassKernels:
        """The generator given features at positions (r,), whole one-hot blocks at a time, and a region of others."""
        positions, values, region = FeatureObservation(*observation)
        of_class = np.isin(positions, self._of_class)
        parts, reasons, log_before = [], [], []
        for part in self.parts:
            if not self._has_values(part, positions, values[None])[0]:
                continue
            log_before.append(self._log_share_given(part, positions[~of_class], values[~of_class]))
            try:
                found = self._conditioned(part, positions[~of_class], values[~of_class], region)
            except ValueError as error:
                reasons.append(error)
                continue
            parts += [] if found is None else [found]
        if not parts:
            raise reasons[0] if reasons else ValueError("condition: no class meets it. Condition on less.")
        log_shares = np.array([part.log_share for part in parts])
        log_probability = np.logaddexp.reduce(log_shares) - np.logaddexp.reduce(log_before)  # of the region
        log_shares -= np.logaddexp.reduce(log_shares)
        kept = [
            replace(p, log_share=float(s))
            for p, s in zip(parts, log_shares, strict=True)
            if s > math.log(MAX_RARE_CLASS)
        ]
        total = np.logaddexp.reduce([part.log_share for part in kept])
        parts = [replace(part, log_share=part.log_share - total) for part in kept]
        given = replace(self, parts=tuple(parts), given=(positions, np.asarray(values, dtype=np.float64)))
        rare = () if region is None else rarity_notes(math.exp(log_probability))
        notes = self._notes_on(given, positions[~of_class], values[~of_class])
        return replace(given, notes=(*self.notes, *rare, *notes))

    def _conditioned(self, part: ClassPart, positions: Array, values: Array, region: Region | None) -> ClassPart | None:
        """A class given features other than its own block, and a region; None where it does not meet the region."""
        log_share, own_region = self._log_share_given(part, positions, values), None
        at = self._beside_blocks(positions)
        if len(at):
            values = part.map.at(at).forward(values[None])[0]
        if region is not None:
            met, own_region = self._region_within(part, region)
            if not met:
                return None
        if not len(at) and own_region is None:
            return part
        kernels = part.kernels.condition(FeatureObservation(at, values, own_region))
        if kernels.restricted is not None:
            if kernels.restricted.probability == 0:  # less than floats hold
                return None
            log_share += float(np.log(kernels.restricted.probability))
        return replace(part, kernels=kernels, log_share=log_share)

    def _log_share_given(self, part: ClassPart, positions: Array, values: Array) -> float:
        """log of the share of a class times the density of features other than its own block."""
        at = self._beside_blocks(positions)
        return part.log_share + (self._log_density_of(part, at, values) if len(at) else 0.0)

    def _log_density_of(self, part: ClassPart, at: Array, values: Array) -> float:
        """log density of features (r,) at positions among those of a class."""
        one = part.map.at(at)
        rows, y = part.kernels.space.observation(at, one.forward(values[None])[0])
        return float(part.kernels.kernels.log_density_of(rows, y[None])[0] + one.log_slope(values[None])[0])

    def _region_within(self, part: ClassPart, region: Region) -> tuple[bool, Region | None]:
        """Whether the class itself meets a region, and the region of its other features in coordinates of the class."""
        inside = np.isin(region.positions, self._of_class)
        label = part.label[np.searchsorted(self._of_class, region.positions[inside])]
        positions = region.positions[~inside]
        if not len(positions):
            return bool(region.contains(label[None])[0]), None
        at = self._beside_blocks(positions)
        one = part.map.at(at)

        def contains(coordinates: Array) -> Array:
            features = np.empty((len(coordinates), len(inside)))
            features[:, inside], features[:, ~inside] = label, one.inverse(coordinates)
            return region.contains(features)

        low, high = (_mapped_end(one, end[~inside]) for end in (region.low, region.high))
        return True, Region(at, low, high, contains)

    @property
    def acceptance(self) -> float:
        """The share of attempts that become draws; 1 unless a region is conditioned on."""
        return float(np.average([part.kernels.acceptance for part in self.parts], weights=self.shares))

    def _notes_on(self, given: ClassKernels, positions: Array, values: Array) -> Iterator[str]:
        if len(positions):
            at = self._beside_blocks(positions)
            kept = {part.label.tobytes() for part in given.parts}
            mine = [part for part in self.parts if part.label.tobytes() in kept]
            likely = max(self._log_density_of(part, at, values) for part in mine)
            least = min(float(self._stored_density(part, at).min()) for part in mine)
            if likely < least - MAX_UNLIKELY:
                yield "the conditioned values, alone or together, are unlike anything stored: draws extrapolate"
        log_weights = np.concatenate([part.log_share + part.kernels.log_shares for part in given.parts])
        n_explaining, n_stored = perplexity(log_weights), sum(len(part.kernels.sources) for part in given.parts)
        if n_explaining < MIN_EXPLAINING and n_stored >= 2 * MIN_EXPLAINING:
            yield few_sources(n_explaining, "row")

    def _stored_density(self, part: ClassPart, at: Array) -> Array:
        """log density of the values that stored rows of a class have there: (k,)."""
        rows, mean = part.kernels.space.observation(at, np.zeros(len(at)))
        y = part.kernels.space.stored @ rows.T
        one = part.map.at(at)
        return np.asarray(part.kernels.kernels.log_density_of(rows, y) + one.log_slope(one.inverse(y - mean)))

    def describe(self) -> Description:
        """The classes, the width of the kernels and how it was chosen."""
        rule = "chosen by the likelihood of left-out rows" if self.searched else "as given"
        summary = f"{self.width}, within its class of {' and '.join(map(repr, self.columns))} ({rule})"
        resolved: dict[str, object] = {"width": tuple(self.width), "classes": CLASSES_JOINED.join(self.columns)}
        return Description("covariance", summary, self.notes, resolved=resolved)


def _mapped_end(one: MonotoneMap, ends: Array) -> Array:
    """Ends of intervals (r,) in coordinates; infinite ones stay so."""
    finite = np.isfinite(ends)
    return np.where(finite, one.forward(np.where(finite, ends, 0.0)[None])[0], ends)
