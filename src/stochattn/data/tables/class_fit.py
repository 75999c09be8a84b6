"""Covariance kernels within the classes of a column, and the choice between these and kernels around all rows alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..._backend.arrays import Array
from ...generators.class_widths import choose_class_width, log_density_of_class
from ...generators.classes import CLASSES_JOINED, ClassKernels, ClassPart
from ...generators.coordinates import Coordinates
from ...generators.covariance import (
    JITTER,
    JITTER_OF_SEARCH,
    MAX_FEATURES,
    N_CALIBRATION,
    CovarianceGenerator,
    CovarianceKernels,
    share_offsets,
)
from ...generators.monotone import MonotoneMap
from ...generators.neighborhoods import MIN_ROWS, Moments, Width, folds_of, log_likelihoods
from .class_maps import class_map
from .codec import TableCodec
from .columns import Levels

AUTO, POOLED = "auto", "pooled"
MAX_CLASS_COLUMNS = 3
"""Columns whose combinations are tried as classes, at most."""


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Stored rows of positive weights (K,), their features (K, p) and classes (K,) in columns of categories."""

    codec: TableCodec
    sources: Array
    features: Array
    weights: Array
    positions: tuple[int, ...]  # of the columns, in order
    codes: Array  # (K, columns) which of its values, of those that rows have, a row has in each column
    classes: Array  # 0 to C − 1, combinations of values that rows have
    labels: Array  # (C, L) features of each class in the blocks of the columns

    @classmethod
    def of(cls, codec: TableCodec, sources: Array, features: Array, weights: Array, *positions: int) -> ClassRows:
        """The classes of rows in the columns at these positions."""
        ordered = tuple(sorted(positions))
        found = [np.unique(np.argmax(features[:, codec.blocks[at]], axis=1), return_inverse=True) for at in ordered]
        codes = np.stack([code.ravel() for _, code in found], axis=1)
        _, first, classes = np.unique(codes, axis=0, return_index=True, return_inverse=True)
        labels = np.concatenate([_one_hot(codec, at, features[first]) for at in ordered], axis=1)
        return cls(codec, sources, features, weights, ordered, codes, classes.ravel(), labels)

    def with_column(self, position: int) -> ClassRows:
        """The same rows in finer classes: combinations with the values of one more column."""
        return ClassRows.of(self.codec, self.sources, self.features, self.weights, *self.positions, position)

    @cached_property
    def inside(self) -> Array:
        """Which features (p,) are those of the columns of classes."""
        found = np.zeros(self.features.shape[1], dtype=bool)
        for position in self.positions:
            found[self.codec.blocks[position]] = True
        return found

    @cached_property
    def amounts(self) -> Array:
        """Positions of the features of amounts, not of categories, among those that are not of the class."""
        found = np.ones(self.features.shape[1], dtype=bool)
        for column, block in zip(self.codec.columns, self.codec.blocks, strict=True):
            found[block] = not isinstance(column.transform, Levels)
        return np.flatnonzero(found[~self.inside])

    @property
    def suffices(self) -> bool:
        """Whether there are classes, with rows enough in each on average, and in each possible combination."""
        C, K = len(self.labels), len(self.features)
        if not 2 <= C <= K // MIN_ROWS or self.features.shape[1] > MAX_FEATURES or self.inside.all():
            return False
        all_met = int(np.prod(self.codes.max(0) + 1)) == C  # a condition on any combination can be met
        return len(self.positions) == 1 or (all_met and int(np.bincount(self.classes).min()) >= MIN_ROWS)

    @property
    def explained(self) -> float:
        """Share of the variance of the other features that the classes explain, less that of as many random ones."""
        features, counts = self.features[:, ~self.inside], np.bincount(self.classes)
        sums = np.zeros((len(counts), features.shape[1]))
        np.add.at(sums, self.classes, features - features.mean(0))
        between, total = (np.square(sums) / counts[:, None]).sum(0) / len(features), features.var(0)
        share = np.divide(between, total, out=np.zeros(len(total)), where=total > 0)
        return float(share.mean()) - (len(counts) - 1) / len(features)

    @cached_property
    def maps(self) -> list[MonotoneMap]:
        """The map of each class to its own scores; of all features but those of the class."""
        members, spread = [np.flatnonzero(self.classes == c) for c in range(len(self.labels))], self.features.copy()
        for own in members:
            spread[own] -= spread[own].mean(0)
        others = np.flatnonzero(~self.inside).tolist()
        maps = [class_map(self.codec.coded, self.features, own, spread.std(0)) for own in members]
        return [MonotoneMap(tuple(one.knots[j] for j in others)) for one in maps]

    def jittered(self, amount: float) -> Array:
        """Features (K, p − L) without those of the class, moved among those of the same cells."""
        return self.codec.jittered(self.features, np.random.default_rng(0), amount)[:, ~self.inside]

    def coordinates(self, features: Array) -> Array:
        """Features (K, p − L) of all rows in coordinates of their classes."""
        out = np.empty_like(features)
        for c, one in enumerate(self.maps):
            own = self.classes == c
            out[own] = one.forward(features[own])
        return out


def _one_hot(codec: TableCodec, position: int, features: Array) -> Array:
    """Features (n, p) of the block of a column, as those of its largest value alone: filled cells are in between."""
    block, scale = features[:, codec.blocks[position]], codec.columns[position].transform
    size = scale.scale if isinstance(scale, Levels) else 1.0
    return size * np.eye(block.shape[1])[np.argmax(block, axis=1)]


def class_rows(codec: TableCodec, sources: Array, features: Array, weights: Array) -> list[ClassRows]:
    """Classes to try: the label, or the most informative column of categories; then combinations with further ones.

    Each next column is the one with which classes explain most of the variance of the other features.
    """
    columns = [at for at, column in enumerate(codec.columns) if isinstance(column.transform, Levels)]
    columns = [at for at in columns if _is_plain(codec.columns[at].name)]
    label = None if codec.label is None else codec.position(codec.label)
    offered = [ClassRows.of(codec, sources, features, weights, at) for at in columns if label in (at, None)]
    found: list[ClassRows] = []
    while len(found) < MAX_CLASS_COLUMNS:
        offered = [rows for rows in offered if rows.suffices and (label is not None or rows.explained > 0)]
        if not offered:
            break
        found.append(max(offered, key=lambda rows: rows.explained))
        offered = [found[-1].with_column(at) for at in columns if at not in found[-1].positions]
    return found


def _is_plain(name: str) -> bool:
    """Whether the name of a column, saved as a choice of classes, is read as this name again."""
    return name not in (AUTO, POOLED) and CLASSES_JOINED.strip() not in name


def fit_classes(rows: ClassRows, width: Width | None) -> ClassKernels:
    """Kernels within classes; width None chooses it by likelihood."""
    used = width or choose_class_width(rows.coordinates(rows.jittered(JITTER_OF_SEARCH)), rows.classes)
    coordinates, w = rows.coordinates(rows.jittered(JITTER)), rows.weights / rows.weights.sum()
    fitted = Moments(coordinates, used.neighbours, w, rows.classes).kernels(used)
    parts = []
    for c in range(len(rows.labels)):
        own = np.flatnonzero(rows.classes == c)
        zero, norms = np.zeros(coordinates.shape[1]), np.linalg.norm(coordinates[own], axis=1)
        space = Coordinates(zero, None, None, coordinates[own], norms, "whole", 1.0)
        kernels = CovarianceKernels(*fitted[c], used)
        offsets = _offsets(rows, kernels, own)
        part = CovarianceGenerator(space, kernels, rows.sources[own], offsets, width is None, amounts=rows.amounts)
        parts.append(ClassPart(rows.labels[c], rows.maps[c], part, float(np.log(w[own].sum()))))
    blocks = [rows.codec.blocks[at] for at in rows.positions]
    names = tuple(rows.codec.columns[at].name for at in rows.positions)
    return ClassKernels(tuple(parts), tuple((b.start, b.stop) for b in blocks), names, used, width is None)


def _offsets(rows: ClassRows, kernels: CovarianceKernels, own: Array) -> Array:
    """Offsets (p − L,) that give categories the shares that they have in a class."""
    others = np.flatnonzero(~rows.inside)
    offsets, rng = np.zeros(len(others)), np.random.default_rng(0)  # equivalent: any fixed seed
    columns = enumerate(zip(rows.codec.columns, rows.codec.blocks, strict=True))
    blocks = [b for at, (one, b) in columns if isinstance(one.transform, Levels) and at not in rows.positions]
    if not blocks:
        return offsets
    z = kernels.sample(N_CALIBRATION, rng)[0]
    for block in blocks:
        start = int(np.searchsorted(others, block.start))
        at = slice(start, start + block.stop - block.start)
        codes = np.argmax(rows.features[own, block], axis=1)
        counts = np.bincount(codes, rows.weights[own], block.stop - block.start)
        offsets[at] = share_offsets(z[:, at], counts / counts.sum())
    return offsets


def likelihood_gain(rows: ClassRows, pooled: Width, within: Width) -> float:
    """How much likelier left-out rows, with their classes, are under kernels within classes than around all rows.

    The difference of log likelihoods. Both are densities of the other features times the probability of the class, in
    the same coordinates; what they learn comes from the other folds alone. Around all rows, the value of a column of
    classes is the largest of its block of features.
    """
    moved = rows.codec.jittered(rows.features, np.random.default_rng(0), JITTER_OF_SEARCH)
    classes, every, C = rows.classes, np.arange(len(moved)), len(rows.labels)
    others, sizes = moved[:, ~rows.inside], (rows.codes.max(0) + 1).tolist()
    present = [np.unique(np.argmax(rows.features[:, rows.codec.blocks[at]], axis=1)) for at in rows.positions]
    blocks = [moved[:, rows.codec.blocks[at]][:, own] for at, own in zip(rows.positions, present, strict=True)]
    ordered = np.concatenate([others, *blocks], axis=1)
    total = 0.0
    for left in folds_of(classes):
        kept = np.delete(every, left)
        log_shares = np.log(np.bincount(classes[kept], minlength=C) / len(kept))
        moments = Moments(others[kept], within.neighbours, np.full(len(kept), 1 / len(kept)), classes[kept])
        within_classes = log_likelihoods(moments.kernels(within), others[left], classes[left])
        kernels = CovarianceKernels.fit(ordered[kept], width=pooled)
        around_all = log_density_of_class(kernels, others[left], rows.codes[left], sizes)
        total += float((within_classes + log_shares[classes[left]] - around_all).sum())
    return total
