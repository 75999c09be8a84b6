"""Covariance kernels within the classes of a column, and the choice between these and kernels around all rows alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._backend.arrays import Array
from ...generators.class_widths import (
    ClassMoments,
    choose_class_width,
    folds_of,
    log_density_of_class,
    log_likelihoods,
)
from ...generators.classes import ClassKernels, ClassPart
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
from ...generators.neighborhoods import Width
from .class_maps import class_map
from .codec import TableCodec
from .columns import Levels

MIN_PER_CLASS = 8
"""Rows per class, on average, from which on kernels within classes are tried."""


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Stored rows of positive weights (K,), their features (K, p) and classes (K,) in a column of categories."""

    codec: TableCodec
    sources: Array
    features: Array
    weights: Array
    position: int  # of the column
    classes: Array  # 0 to C − 1
    levels: Array  # (C,) which level of the column each class is

    @classmethod
    def of(cls, codec: TableCodec, sources: Array, features: Array, weights: Array, position: int) -> ClassRows:
        """The classes of rows in the column at this position."""
        levels, classes = np.unique(np.argmax(features[:, codec.blocks[position]], axis=1), return_inverse=True)
        return cls(codec, sources, features, weights, position, classes.ravel(), levels)

    @property
    def block(self) -> slice:
        """Features of the column of classes."""
        return self.codec.blocks[self.position]

    @property
    def suffices(self) -> bool:
        """Whether there are classes, with rows enough in each, on average."""
        C, K = len(self.levels), len(self.features)
        return 2 <= C <= K // MIN_PER_CLASS and self.features.shape[1] <= MAX_FEATURES

    def maps(self, rows: Array) -> list[MonotoneMap]:
        """The map of each class to its own scores, fitted on these rows; of all features but the block."""
        spread = self.features[rows].copy()
        for c in range(len(self.levels)):
            own = self.classes[rows] == c
            spread[own] -= spread[own].mean(0) if own.any() else 0.0
        deviations, found = spread.std(0), []
        for c in range(len(self.levels)):
            knots = class_map(self.codec.columns, self.features, rows[self.classes[rows] == c], deviations).knots
            found.append(MonotoneMap(knots[: self.block.start] + knots[self.block.stop :]))
        return found

    def jittered(self, amount: float) -> Array:
        """Features (K, p − L) without those of the class, moved among those of the same cells."""
        return np.delete(self.codec.jittered(self.features, np.random.default_rng(0), amount), self.block, axis=1)

    def coordinates(self, maps: list[MonotoneMap], features: Array) -> Array:
        """Features (K, p − L) of all rows in coordinates of their classes."""
        out = np.empty_like(features)
        for c, one in enumerate(maps):
            own = self.classes == c
            out[own] = one.inward(features[own])
        return out


def informative_column(codec: TableCodec, features: Array) -> int | None:
    """The column of categories that explains most of the variance of the other features, or None without one."""
    best, most = None, 0.0
    total = features.var(0)
    for position, column in enumerate(codec.columns):
        if not isinstance(column.transform, Levels):
            continue
        block = codec.blocks[position]
        _, classes, counts = np.unique(np.argmax(features[:, block], axis=1), return_inverse=True, return_counts=True)
        if not 2 <= len(counts) <= len(features) // MIN_PER_CLASS:
            continue
        sums = np.zeros((len(counts), features.shape[1]))
        np.add.at(sums, classes.ravel(), features - features.mean(0))
        between = (np.square(sums) / counts[:, None]).sum(0) / len(features)
        share = np.delete(between / np.where(total > 0, total, 1.0), block)
        chance = (len(counts) - 1) / len(features)
        explained = float(share.mean()) - chance if len(share) else 0.0
        if explained > most:
            best, most = position, explained
    return best


def fit_classes(rows: ClassRows, width: Width | None) -> ClassKernels:
    """Kernels within classes; width None chooses it by likelihood."""
    every, C = np.arange(len(rows.features)), len(rows.levels)
    maps = rows.maps(every)
    used = width or choose_class_width(rows.coordinates(maps, rows.jittered(JITTER_OF_SEARCH)), rows.classes)
    coordinates, w = rows.coordinates(maps, rows.jittered(JITTER)), rows.weights / rows.weights.sum()
    fitted = ClassMoments(coordinates, rows.classes, used.neighbours, w).kernels(used)
    scale = rows.codec.columns[rows.position].transform
    size = scale.scale if isinstance(scale, Levels) else 1.0
    parts = []
    for c in range(C):
        own = np.flatnonzero(rows.classes == c)
        zero, norms = np.zeros(coordinates.shape[1]), np.linalg.norm(coordinates[own], axis=1)
        space = Coordinates(zero, None, None, coordinates[own], norms, "whole", 1.0)
        kernels = CovarianceKernels(*fitted[c], used)
        offsets = _offsets(rows, kernels, own)
        label = np.eye(rows.block.stop - rows.block.start)[rows.levels[c]] * size
        part = CovarianceGenerator(space, kernels, rows.sources[own], offsets, width is None)
        parts.append(ClassPart(label, maps[c], part, float(np.log(w[own].sum()))))
    name = rows.codec.columns[rows.position].name
    return ClassKernels(tuple(parts), (rows.block.start, rows.block.stop), name, used, width is None)


def _offsets(rows: ClassRows, kernels: CovarianceKernels, own: Array) -> Array:
    """Offsets (p − L,) that give categories the shares that they have in a class."""
    offsets = np.zeros(rows.features.shape[1])
    blocks = [
        block
        for place, (column, block) in enumerate(zip(rows.codec.columns, rows.codec.blocks, strict=True))
        if isinstance(column.transform, Levels) and place != rows.position
    ]
    if blocks:
        z = kernels.sample(N_CALIBRATION, np.random.default_rng(0))[0]
        gone = rows.block.stop - rows.block.start
        for block in blocks:
            at = slice(block.start - gone, block.stop - gone) if block.start >= rows.block.stop else block
            codes = np.argmax(rows.features[own, block], axis=1)
            counts = np.bincount(codes, rows.weights[own], block.stop - block.start)
            offsets[block] = share_offsets(z[:, at], counts / counts.sum())
    return np.delete(offsets, rows.block)


def classes_are_likelier(rows: ClassRows, pooled: Width, within: Width) -> bool:
    """Whether left-out rows, with their classes, are likelier under kernels within classes than around all rows.

    Both are densities of the other features times the probability of the class, in the same coordinates; what they
    learn comes from the other folds alone. Around all rows, the class is the largest of its block of features.
    """
    moved = rows.codec.jittered(rows.features, np.random.default_rng(0), JITTER_OF_SEARCH)
    classes, every = rows.classes, np.arange(len(moved))
    others = np.delete(moved, rows.block, axis=1)
    ordered = np.concatenate([others, moved[:, rows.block][:, rows.levels]], axis=1)
    gains, C = [], len(rows.levels)
    for left in folds_of(classes):
        kept = np.delete(every, left)
        log_shares = np.log(np.bincount(classes[kept], minlength=C) / len(kept))
        moments = ClassMoments(others[kept], classes[kept], within.neighbours, np.full(len(kept), 1 / len(kept)))
        within_classes = log_likelihoods(moments.kernels(within), others[left], classes[left])
        kernels = CovarianceKernels.fit(ordered[kept], width=pooled)
        around_all = log_density_of_class(kernels, others[left], classes[left], C)
        gains.append(within_classes + log_shares[classes[left]] - around_all)
    return float(np.concatenate(gains).sum()) > 0
