"""Covariance kernels within classes: each class has kernels of its own, in coordinates of its own.

A class is a value of one column of categories, or a combination of values of several.

    p(c, x) = share_c · p_c(T_c(x)) · |dT_c/dx|,        p_c the covariance kernels around the rows of class c

T_c maps single features to scores among the rows of the class. A draw has the class of the row it is drawn around, and
classes have their stored shares. Conditions multiply shares by what each class gives them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .._backend.arrays import Array
from ..core.mixture import perplexity
from .base import NO_DENSITY, Description, Generated, few_sources
from .covariance import MAX_UNLIKELY, MIN_EXPLAINING, CovarianceGenerator
from .monotone import MonotoneMap
from .neighborhoods import Width
from .restriction import FeatureObservation, Region
from .stratified import stratified

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
        parts, reasons = [], []
        for part in self.parts:
            if not self._has_values(part, positions, values[None])[0]:
                continue
            try:
                found = self._conditioned(part, positions[~of_class], values[~of_class], region)
            except ValueError as error:
                reasons.append(error)
                continue
            parts += [] if found is None else [found]
        if not parts:
            raise reasons[0] if reasons else ValueError("condition: no class meets it. Condition on less.")
        log_shares = np.array([part.log_share for part in parts])
        log_shares -= np.logaddexp.reduce(log_shares)
        kept = [
            replace(p, log_share=float(s))
            for p, s in zip(parts, log_shares, strict=True)
            if s > math.log(MAX_RARE_CLASS)
        ]
        total = np.logaddexp.reduce([part.log_share for part in kept])
        parts = [replace(part, log_share=part.log_share - total) for part in kept]
        given = replace(self, parts=tuple(parts), given=(positions, np.asarray(values, dtype=np.float64)))
        notes = dict.fromkeys(self._notes_on(given, positions[~of_class], values[~of_class]))
        return replace(given, notes=(*self.notes, *notes))

    def _conditioned(self, part: ClassPart, positions: Array, values: Array, region: Region | None) -> ClassPart | None:
        """A class given features other than its own block, and a region; None where it does not meet the region."""
        log_share, own_region = part.log_share, None
        at = self._beside_blocks(positions)
        if len(at):
            log_share += self._log_density_of(part, at, values)
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
        for part in given.parts:
            if part.kernels.restricted is not None:
                yield from part.kernels.restricted.notes
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
