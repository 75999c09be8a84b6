"""Covariance kernels within the classes of a column, and the choice between these and kernels around all rows alike.

Scores of a column within a class: maps from scores of ranks among all rows to those among the rows of the class.

Ranks among all rows erase the gap between two classes: a step of one rank leads from the largest value of one to the
smallest of the other. They also follow every chance of the spacing between numbers, which bends the ties between
columns. A map therefore leads from scores of ranks back to the numbers, and from these, by few straight pieces between
their quantiles and around numbers that many rows share, to normal scores within the class.
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
    choose_class_width,
    linear,
    log_density_of_class,
)
from .covariance import (
    JITTER,
    JITTER_OF_SEARCH,
    MAX_FEATURES,
    N_CALIBRATION,
    CovarianceGenerator,
    CovarianceKernels,
    share_offsets,
)
from .neighborhoods import (
    MAX_LOCAL_NUMBERS,
    MIN_ROWS,
    Moments,
    Width,
    choose_memories,
    folds_of,
    log_likelihoods,
    n_memories,
)

N_PIECES, MIN_PER_PIECE = 8, 12
"""Pieces between the quantiles of a class, at most, and rows in each of them."""
ROUNDING = 0.99
"""Share of the way to where rounding leads to another value, over which a value that rows share is spread."""
MIN_RISE = 1e-12
"""Least rise between two knots, as a share of that of all knots: above rounding."""
EDGE = 1e-3
"""Share of the ranks of the only value of a class, at either end, into which unusual scores are pressed."""
USUAL, UNUSUAL = np.sqrt(3.0), 4.0
"""Scores of unit variance that are spread evenly reach to the first; draws rarely pass the second."""


def class_map(columns: Sequence[Column], features: Array, rows: Array, deviations: Array) -> MonotoneMap:
    """The map of features (K, p), as encoded, to scores among the given rows of one class.

    deviations: (p,) of features within classes, for classes of few rows
    """
    ends = np.cumsum([column.width for column in columns]).tolist()
    ranked = [(end - 1, column.transform) for column, end in zip(columns, ends, strict=True)]
    amounts = [(j, ranks) for j, ranks in ranked if isinstance(ranks, Ranks)]
    if len(rows) < MIN_ROWS:  # scores within the class are shifted and scaled only
        return affine(features[rows].mean(0), np.maximum(deviations, 1e-3), [j for j, _ in amounts])
    knots: list[Knots | None] = [None] * features.shape[1]
    for j, ranks in amounts:
        knots[j] = _class_knots(ranks, features[rows, j])
    return MonotoneMap(tuple(knots))


def _class_knots(ranks: Ranks, scores: Array) -> Knots:
    """Scores among all rows, and normal scores among those of the class, which has these of the former (k,)."""
    from scipy.special import ndtri

    if np.ptp(scores) == 0:
        return _constant_knots(ranks, float(scores[0]))
    at, numbers = _number_knots(ranks)
    own = np.sort(linear(ranks.jittered(scores[:, None], np.random.default_rng(0))[:, 0], at, numbers))
    K = len(own)
    n_pieces = min(max(K // MIN_PER_PIECE, 1), N_PIECES)
    quantiles = np.round(np.linspace(0, K - 1, n_pieces + 1)).astype(np.intp)
    distinct, counts = np.unique(scores, return_counts=True)
    last = np.cumsum(counts) - 1
    frequent = (counts >= max(MIN_SHARED, K / N_PIECES)) | are_atoms(ranks.inverse(distinct), counts, ranks.decimals)
    chosen = np.unique(np.concatenate([quantiles, last[frequent], (last - counts + 1)[frequent]]))
    pieces = _rising(own[chosen], ndtri((chosen + 0.5) / K))
    every = np.union1d(at, np.interp(pieces[0], numbers, at))
    return _rising(every, linear(linear(every, at, numbers), *pieces))


def _constant_knots(ranks: Ranks, score: float) -> Knots:
    """The map of a column that has one value in the class: it stays within the ranks of this value."""
    j = int(np.argmin(np.abs(ranks.scores - score)))
    first, last = float(ranks.first[j]), float(ranks.last[j])
    if last <= first:
        first, last = first - EDGE, last + EDGE
    step = EDGE * (last - first)
    return np.array([first, first + step, last - step, last]), np.array([-UNUSUAL, -USUAL, USUAL, UNUSUAL])


def _number_knots(ranks: Ranks) -> Knots:
    """Scores and numbers, both rising: a value that rows share is spread over the numbers that are rounded to it."""
    values = ranks.values
    gaps = np.diff(values, prepend=-np.inf, append=np.inf)
    room = np.minimum(gaps[:-1], gaps[1:]) / 2
    if ranks.decimals is not None:
        room = np.minimum(room, 0.5 * 10.0**-ranks.decimals)
    shared = ranks.last > ranks.first
    half = np.where(shared, ROUNDING * room, 0.0)
    at = np.concatenate([ranks.first[:1] - 1.0, ranks.first, ranks.last[shared], ranks.last[-1:] + 1.0])
    # Beyond the stored numbers, a score more is as many numbers as in the outer quarters of the ranks.
    ends = values[0] - half[0] - ranks.slopes[0], values[-1] + half[-1] + ranks.slopes[1]
    numbers = np.concatenate([ends[:1], values - half, (values + half)[shared], ends[1:]])
    order = np.argsort(at)
    return _rising(at[order], numbers[order])


def _rising(first: Array, second: Array) -> Knots:
    """Knots (m,) each, without those that rise by no more than rounding on one of the two sides."""
    rises = [np.diff(side) > MIN_RISE * (side[-1] - side[0]) for side in (first, second)]
    kept = np.append(True, rises[0] & rises[1])
    return first[kept], second[kept]


AUTO, POOLED = "auto", "pooled"
MAX_CLASS_COLUMNS = 3
"""Columns whose combinations are tried as classes, at most."""
MAX_SCORED = 2000
"""Rows by which classes and the width of their kernels are chosen, at most: time grows with their square."""


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
    _moments: dict[int, Moments] = field(default_factory=dict)

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

    @cached_property
    def scored(self) -> Array:
        """Indices of the rows by which classes and widths are chosen, a random part where rows are many."""
        K, p = self.features.shape
        most = min(MAX_SCORED, max(MAX_LOCAL_NUMBERS // p**2, MIN_ROWS))
        return np.sort(np.random.default_rng(0).permutation(K)[:most])

    def n_memories(self, neighbours: int) -> int:
        """How many rows have kernels."""
        return n_memories(len(self.features), int((~self.inside).sum()), neighbours)

    @cached_property
    def width(self) -> Width:
        """The width under which left-out rows are likeliest given their classes."""
        rows = self.coordinates(self.jittered(JITTER_OF_SEARCH))[self.scored]
        width = choose_class_width(rows, _numbered(self.classes[self.scored]))
        return width.among(len(rows), self.n_memories(width.neighbours))

    def moments(self, neighbours: int) -> Moments:
        """Moments of neighbourhoods of so many rows. The last are kept, for kernels with another share of noise."""
        if neighbours not in self._moments:
            coordinates, w = self.coordinates(self.jittered(JITTER)), self.weights / self.weights.sum()
            chosen = choose_memories(w, self.n_memories(neighbours), self.classes)
            self._moments.clear()
            self._moments[neighbours] = Moments(coordinates, neighbours, w, self.classes, chosen)
        return self._moments[neighbours]

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


def _numbered(classes: Array) -> Array:
    """Classes (n,) as numbers from 0 on, without those that no row has."""
    return np.unique(classes, return_inverse=True)[1].ravel()


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
    used = width or rows.width
    moments = rows.moments(used.neighbours)
    fitted, parts = moments.kernels(used), []
    for c, (own, at) in enumerate(zip(moments.members, moments.kernel_rows, strict=True)):
        stored = moments.rows[at]
        zero, norms = np.zeros(stored.shape[1]), np.linalg.norm(stored, axis=1)
        space = Coordinates(zero, None, None, stored, norms, "whole", 1.0)
        kernels = CovarianceKernels(*fitted[c], used)
        offsets = _offsets(rows, kernels, own)
        part = CovarianceGenerator(space, kernels, rows.sources[at], offsets, width is None, amounts=rows.amounts)
        parts.append(ClassPart(rows.labels[c], rows.maps[c], part, float(np.log(moments.weights[own].sum()))))
    blocks = [rows.codec.blocks[at] for at in rows.positions]
    names = tuple(rows.codec.columns[at].name for at in rows.positions)
    return ClassKernels(tuple(parts), tuple((b.start, b.stop) for b in blocks), names, used, width is None)


def _offsets(rows: ClassRows, kernels: CovarianceKernels, own: Array) -> Array:
    """Offsets (p − L,) that give categories the shares that they have in a class."""
    others = np.flatnonzero(~rows.inside)
    offsets, rng = np.zeros(len(others)), np.random.default_rng(0)
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
    classes is the largest of its block of features. Where rows are many, those by which widths are chosen are compared.
    """
    moved = rows.codec.jittered(rows.features, np.random.default_rng(0), JITTER_OF_SEARCH)[rows.scored]
    K, n, codes = len(rows.features), len(moved), rows.codes[rows.scored]
    pooled = pooled.among(n_memories(K, moved.shape[1], pooled.neighbours), n)
    within = within.among(rows.n_memories(within.neighbours), n)
    classes = _numbered(rows.classes[rows.scored])
    every, C = np.arange(n), int(classes.max()) + 1
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
        around_all = log_density_of_class(kernels, others[left], codes[left], sizes)
        total += float((within_classes + log_shares[classes[left]] - around_all).sum())
    return total
