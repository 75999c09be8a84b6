"""Covariance kernels within the classes of columns: which classes, the maps to their own scores, and their kernels.

Ranks among all rows erase the gap between two classes: one rank lies between the largest value of one class and the
smallest of the other. They also follow every chance spacing between numbers, which bends the dependence of columns. So
each class has a map of each column: from scores among all rows back to the numbers, and from the numbers to normal
scores within the class. The second step is linear between few quantiles and around numbers that many rows share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...._backend.arrays import Array
from ...hopfield import Coordinates
from ..codec import TableCodec
from ..columns.columns import Column, Levels
from ..columns.scales import MIN_SHARED, Ranks, are_atoms
from .classes import (
    CLASSES_JOINED,
    ClassKernels,
    ClassPart,
    Knots,
    MonotoneMap,
    affine,
    interpolate,
    log_density_of_class,
)
from .covariance import (
    JITTER,
    JITTER_OF_SEARCH,
    MAX_FEATURES,
    N_CALIBRATION,
    CovarianceGenerator,
    CovarianceKernels,
    fit_offsets,
)
from .neighborhoods import (
    MAX_LOCAL_NUMBERS,
    MIN_ROWS,
    KernelParams,
    Moments,
    choose_class_width,
    choose_memories,
    count_memories,
    folds_of,
    log_likelihoods,
)

N_PIECES, MIN_PER_PIECE = 8, 12
"""The most pieces between the quantiles of a class, and the least rows in each piece."""
ROUNDING = 0.99
"""A value that rows share is spread over this share of the interval that is rounded to it."""
MIN_RISE = 1e-12
"""Least rise between two knots, as a share of the rise of all knots: above rounding."""
EDGE = 1e-3
"""Share of the ranks of the only value of a class, at either end, onto which the tails of scores are mapped."""
UNIFORM_END, TAIL_END = np.sqrt(3.0), 4.0
"""Uniform scores of unit variance end at ±√3; the scores of draws are rarely beyond ±4."""


def fit_class_map(columns: Sequence[Column], features: Array, rows: Array, deviations: Array) -> MonotoneMap:
    """The map of features (K, p), as encoded, to scores among these rows of one class.

    deviations: (p,) of features within classes, for classes of few rows
    """
    ends = np.cumsum([column.width for column in columns]).tolist()
    ranked = [(end - 1, column.transform) for column, end in zip(columns, ends, strict=True)]
    amounts = [(j, ranks) for j, ranks in ranked if isinstance(ranks, Ranks)]
    if len(rows) < MIN_ROWS:  # too few for quantiles: scores are only shifted and scaled
        return affine(features[rows].mean(0), np.maximum(deviations, 1e-3), [j for j, _ in amounts])
    knots: list[Knots | None] = [None] * features.shape[1]
    for j, ranks in amounts:
        knots[j] = _class_knots(ranks, features[rows, j])
    return MonotoneMap(tuple(knots))


def _class_knots(ranks: Ranks, scores: Array) -> Knots:
    """The map to normal scores within a class from scores among all rows, of which the class has these (k,)."""
    from scipy.special import ndtri

    if np.ptp(scores) == 0:
        return _constant_knots(ranks, float(scores[0]))
    at, numbers = _number_knots(ranks)
    jittered = ranks.jitter(scores[:, None], np.random.default_rng(0))[:, 0]
    class_numbers = np.sort(interpolate(jittered, at, numbers))
    K = len(class_numbers)
    n_pieces = min(max(K // MIN_PER_PIECE, 1), N_PIECES)
    quantiles = np.round(np.linspace(0, K - 1, n_pieces + 1)).astype(np.intp)
    distinct, counts = np.unique(scores, return_counts=True)
    last = np.cumsum(counts) - 1
    frequent = (counts >= max(MIN_SHARED, K / N_PIECES)) | are_atoms(ranks.inverse(distinct), counts, ranks.decimals)
    chosen = np.unique(np.concatenate([quantiles, last[frequent], (last - counts + 1)[frequent]]))
    pieces = _drop_flat_knots(class_numbers[chosen], ndtri((chosen + 0.5) / K))
    knots = np.union1d(at, np.interp(pieces[0], numbers, at))
    return _drop_flat_knots(knots, interpolate(interpolate(knots, at, numbers), *pieces))


def _constant_knots(ranks: Ranks, score: float) -> Knots:
    """The map of a column with one value in the class: scores stay within the ranks of this value."""
    j = int(np.argmin(np.abs(ranks.scores - score)))
    first, last = float(ranks.first[j]), float(ranks.last[j])
    if last <= first:
        first, last = first - EDGE, last + EDGE
    step = EDGE * (last - first)
    coordinates = np.array([-TAIL_END, -UNIFORM_END, UNIFORM_END, TAIL_END])
    return np.array([first, first + step, last - step, last]), coordinates


def _number_knots(ranks: Ranks) -> Knots:
    """Scores and numbers, both rising. A value that rows share is spread over the numbers that are rounded to it."""
    values = ranks.values
    gaps = np.diff(values, prepend=-np.inf, append=np.inf)
    room = np.minimum(gaps[:-1], gaps[1:]) / 2
    if ranks.decimals is not None:
        room = np.minimum(room, 0.5 * 10.0**-ranks.decimals)
    shared = ranks.last > ranks.first
    half = np.where(shared, ROUNDING * room, 0.0)
    at = np.concatenate([ranks.first[:1] - 1.0, ranks.first, ranks.last[shared], ranks.last[-1:] + 1.0])
    # Beyond the stored numbers, the slope is that of the outer quarters of the ranks.
    ends = values[0] - half[0] - ranks.slopes[0], values[-1] + half[-1] + ranks.slopes[1]
    numbers = np.concatenate([ends[:1], values - half, (values + half)[shared], ends[1:]])
    order = np.argsort(at)
    return _drop_flat_knots(at[order], numbers[order])


def _drop_flat_knots(first: Array, second: Array) -> Knots:
    """Knots (m,) each, without those that rise by no more than rounding on one of the two sides."""
    rises = [np.diff(side) > MIN_RISE * (side[-1] - side[0]) for side in (first, second)]
    kept = np.append(True, rises[0] & rises[1])
    return first[kept], second[kept]


AUTO, POOLED = "auto", "pooled"
MAX_CLASS_COLUMNS = 3
"""The most columns whose combinations are tried as classes."""
MAX_SCORED = 2000
"""The most rows by which classes and the width of their kernels are chosen: time grows with their square."""


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Stored rows with positive weights (K,), their features (K, p) and their classes (K,) in columns of categories."""

    codec: TableCodec
    sources: Array
    features: Array
    weights: Array
    positions: tuple[int, ...]  # of the columns, in order
    codes: Array  # (K, columns) numbers of the value in each column, among the values that these rows have
    classes: Array  # (K,) numbers from 0 to C − 1 of the combinations of values that these rows have
    labels: Array  # (C, L) features of each class in the blocks of the columns
    _moments: dict[int, Moments] = field(default_factory=dict)

    @classmethod
    def of(cls, codec: TableCodec, sources: Array, features: Array, weights: Array, *positions: int) -> ClassRows:
        """The classes of rows in the columns at these positions."""
        ordered = tuple(sorted(positions))
        encodings = [np.unique(np.argmax(features[:, codec.blocks[at]], axis=1), return_inverse=True) for at in ordered]
        codes = np.stack([code.ravel() for _, code in encodings], axis=1)
        _, first, classes = np.unique(codes, axis=0, return_index=True, return_inverse=True)
        labels = np.concatenate([_one_hot(codec, at, features[first]) for at in ordered], axis=1)
        return cls(codec, sources, features, weights, ordered, codes, classes.ravel(), labels)

    @cached_property
    def inside(self) -> Array:
        """Which features (p,) belong to the columns of classes."""
        is_inside = np.zeros(self.features.shape[1], dtype=bool)
        for position in self.positions:
            is_inside[self.codec.blocks[position]] = True
        return is_inside

    @cached_property
    def amounts(self) -> Array:
        """Positions of the features of amounts, not of categories, among the features outside the class."""
        columns = self.codec.columns
        is_amount = np.repeat([isinstance(c.transform, Ranks) for c in columns], [c.width for c in columns])
        return np.flatnonzero(is_amount[~self.inside])

    @property
    def suffices(self) -> bool:
        """Whether there are at least two classes, with enough rows on average, and in each possible combination."""
        C, K = len(self.labels), len(self.features)
        if not 2 <= C <= K // MIN_ROWS or self.features.shape[1] > MAX_FEATURES or self.inside.all():
            return False
        all_met = int(np.prod(self.codes.max(0) + 1)) == C  # a condition on any combination can be met
        return len(self.positions) == 1 or (all_met and int(np.bincount(self.classes).min()) >= MIN_ROWS)

    @property
    def explained(self) -> float:
        """Share of the variance of the other features that the classes explain, less the share for random classes."""
        features, counts = self.features[:, ~self.inside], np.bincount(self.classes)
        sums = np.zeros((len(counts), features.shape[1]))
        np.add.at(sums, self.classes, features - features.mean(0))
        between, total = (np.square(sums) / counts[:, None]).sum(0) / len(features), features.var(0)
        share = np.divide(between, total, out=np.zeros(len(total)), where=total > 0)
        return float(share.mean()) - (len(counts) - 1) / len(features)

    @cached_property
    def maps(self) -> list[MonotoneMap]:
        """The map of each class to its own scores, of all features outside the class."""
        members, spread = [np.flatnonzero(self.classes == c) for c in range(len(self.labels))], self.features.copy()
        for rows in members:
            spread[rows] -= spread[rows].mean(0)
        outside = np.flatnonzero(~self.inside).tolist()
        maps = [fit_class_map(self.codec.coded, self.features, rows, spread.std(0)) for rows in members]
        return [class_map.at(outside) for class_map in maps]

    @cached_property
    def scored(self) -> Array:
        """Indices of the rows by which classes and widths are chosen: a random part where there are many rows."""
        K, p = self.features.shape
        most = min(MAX_SCORED, max(MAX_LOCAL_NUMBERS // p**2, MIN_ROWS))
        return np.sort(np.random.default_rng(0).permutation(K)[:most])

    def count_memories(self, neighbors: int) -> int:
        """How many rows have kernels."""
        return count_memories(len(self.features), int((~self.inside).sum()), neighbors)

    @cached_property
    def width(self) -> KernelParams:
        """The parameters that are best by the likelihood of held-out rows given their classes."""
        rows = self.coordinates(self.jitter(JITTER_OF_SEARCH))[self.scored]
        width = choose_class_width(rows, _renumber(self.classes[self.scored]))
        return width.rescale(len(rows), self.count_memories(width.neighbors))

    def moments(self, neighbors: int) -> Moments:
        """Moments of neighborhoods of so many rows; the last are cached, for kernels with other shares of noise."""
        if neighbors not in self._moments:
            coordinates, w = self.coordinates(self.jitter(JITTER)), self.weights / self.weights.sum()
            chosen = choose_memories(w, self.count_memories(neighbors), self.classes)
            self._moments.clear()
            self._moments[neighbors] = Moments(coordinates, neighbors, w, self.classes, chosen)
        return self._moments[neighbors]

    def jitter(self, amount: float) -> Array:
        """Features (K, p − L) outside the class, moved among those that decode to the same cells."""
        return self.codec.jitter(self.features, np.random.default_rng(0), amount)[:, ~self.inside]

    def coordinates(self, features: Array) -> Array:
        """Features (K, p − L) of all rows in the coordinates of their classes."""
        out = np.empty_like(features)
        for c, class_map in enumerate(self.maps):
            rows = self.classes == c
            out[rows] = class_map.forward(features[rows])
        return out


def _renumber(classes: Array) -> Array:
    """Classes (n,) as numbers from 0 on, without numbers that no row has."""
    return np.unique(classes, return_inverse=True)[1].ravel()


def _one_hot(codec: TableCodec, position: int, features: Array) -> Array:
    """Features (n, L) of the block of a column with only the largest of each row, as filled cells lie in between."""
    block = features[:, codec.blocks[position]]
    return codec.columns[position].levels.scale * np.eye(block.shape[1])[np.argmax(block, axis=1)]


def list_classes(codec: TableCodec, sources: Array, features: Array, weights: Array) -> list[ClassRows]:
    """Classes to try: the label, or the most informative column of categories; then combinations with more columns.

    Each next column is the one with which classes explain most of the variance of the other features.
    """
    columns = [at for at, column in enumerate(codec.columns) if isinstance(column.transform, Levels)]
    names = [column.name for column in codec.columns]
    # The names are saved as an option, which must be read as the same columns again.
    columns = [at for at in columns if names[at] not in (AUTO, POOLED) and CLASSES_JOINED.strip() not in names[at]]
    label = None if codec.label is None else codec.position(codec.label)
    offered: list[tuple[int, ...]] = [(at,) for at in columns if label in (at, None)]
    chosen: list[ClassRows] = []
    while len(chosen) < MAX_CLASS_COLUMNS:
        tried = [ClassRows.of(codec, sources, features, weights, *positions) for positions in offered]
        tried = [rows for rows in tried if rows.suffices and (label is not None or rows.explained > 0)]
        if not tried:
            break
        chosen.append(max(tried, key=lambda rows: rows.explained))
        offered = [(*chosen[-1].positions, at) for at in columns if at not in chosen[-1].positions]
    return chosen


def fit_classes(rows: ClassRows, width: KernelParams | None) -> ClassKernels:
    """Kernels within classes; the width is chosen by likelihood if it is None."""
    used = width or rows.width
    moments = rows.moments(used.neighbors)
    fitted, parts = moments.kernels(used), []
    for c, (members, at) in enumerate(zip(moments.members, moments.kernel_rows, strict=True)):
        stored = moments.rows[at]
        zero, norms = np.zeros(stored.shape[1]), np.linalg.norm(stored, axis=1)
        space = Coordinates(zero, None, None, stored, norms, "whole", 1.0)
        kernels = CovarianceKernels(*fitted[c], used)
        offsets = _offsets(rows, kernels, members)
        part = CovarianceGenerator(space, kernels, rows.sources[at], offsets, width is None, amounts=rows.amounts)
        parts.append(ClassPart(rows.labels[c], rows.maps[c], part, float(np.log(moments.weights[members].sum()))))
    blocks = [rows.codec.blocks[at] for at in rows.positions]
    names = tuple(rows.codec.columns[at].name for at in rows.positions)
    return ClassKernels(tuple(parts), tuple((b.start, b.stop) for b in blocks), names, used, width is None)


def _offsets(rows: ClassRows, kernels: CovarianceKernels, members: Array) -> Array:
    """Offsets (p − L,) that give categories their stored shares in a class."""
    outside = np.flatnonzero(~rows.inside)
    offsets, rng = np.zeros(len(outside)), np.random.default_rng(0)
    columns = enumerate(zip(rows.codec.columns, rows.codec.blocks, strict=True))
    blocks = [b for at, (column, b) in columns if isinstance(column.transform, Levels) and at not in rows.positions]
    if not blocks:
        return offsets
    z = kernels.sample(N_CALIBRATION, rng)[0]
    for block in blocks:
        start = int(np.searchsorted(outside, block.start))
        at = slice(start, start + block.stop - block.start)
        codes = np.argmax(rows.features[members, block], axis=1)
        counts = np.bincount(codes, rows.weights[members], block.stop - block.start)
        offsets[at] = fit_offsets(z[:, at], counts / counts.sum())
    return offsets


def measure_gain(rows: ClassRows, pooled: KernelParams, within: KernelParams) -> float:
    """The held-out log likelihood of rows with their classes under kernels within classes, less that around all rows.

    Both are densities of the other features times the probability of the class, in the same coordinates, fitted on the
    other folds alone. Around all rows, the value of a column of classes is the largest of its block of features. Where
    there are many rows, those by which widths are chosen are compared.
    """
    moved = rows.codec.jitter(rows.features, np.random.default_rng(0), JITTER_OF_SEARCH)[rows.scored]
    K, n, codes = len(rows.features), len(moved), rows.codes[rows.scored]
    pooled = pooled.rescale(count_memories(K, moved.shape[1], pooled.neighbors), n)
    within = within.rescale(rows.count_memories(within.neighbors), n)
    classes = _renumber(rows.classes[rows.scored])
    features, sizes = moved[:, ~rows.inside], (rows.codes.max(0) + 1).tolist()
    present = [np.unique(np.argmax(rows.features[:, rows.codec.blocks[at]], axis=1)) for at in rows.positions]
    blocks = [moved[:, rows.codec.blocks[at]][:, levels] for at, levels in zip(rows.positions, present, strict=True)]
    ordered = np.concatenate([features, *blocks], axis=1)
    total = 0.0
    for left in folds_of(classes):
        kept = np.delete(np.arange(n), left)
        log_shares = np.log(np.bincount(classes[kept], minlength=classes.max() + 1) / len(kept))
        moments = Moments(features[kept], within.neighbors, np.full(len(kept), 1 / len(kept)), classes[kept])
        within_classes = log_likelihoods(moments.kernels(within), features[left], classes[left])
        kernels = CovarianceKernels.fit(ordered[kept], width=pooled)
        around_all = log_density_of_class(kernels, features[left], codes[left], sizes)
        total += float((within_classes + log_shares[classes[left]] - around_all).sum())
    return total
