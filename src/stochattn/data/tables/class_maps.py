"""Scores of a column within a class: maps from scores of ranks among all rows to those among the rows of the class.

Ranks among all rows erase the gap between two classes: a step of one rank leads from the largest value of one to the
smallest of the other. Within a class, numbers go on beyond its extremes at the slope of its own outer quarters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..._backend.arrays import Array
from ...generators.monotone import Knots, MonotoneMap, affine
from .columns import Column
from .scales import Distinct, Ranks, limits_of

MIN_ROWS = 8
"""Rows of a class, below which scores within it are shifted and scaled only."""
MAX_PIECES = 24
"""Pieces of a map, about: fewer rows than one in so many make none of their own."""
TAIL = (0.5, 1.0, 2.0, 4.0)
"""How far beyond the extremes of a class, in its scores, a map follows numbers."""
END = 1e-3
"""Share of the ranks of a value at the end of a scale, into which all further scores are pressed."""
EVEN = np.sqrt(3.0)
"""Scores of unit variance, spread evenly, reach so far."""


def class_map(columns: Sequence[Column], features: Array, rows: Array, deviations: Array) -> MonotoneMap:
    """The map of features (K, p), as encoded, to scores among the given rows of one class.

    deviations: (p,) of features within classes, for classes of few rows
    """
    ends = np.cumsum([column.width for column in columns]).tolist()
    ranked = {end - 1: column.transform for column, end in zip(columns, ends, strict=True) if _has_ranks(column)}
    if len(rows) < MIN_ROWS:
        return affine(features[rows].mean(0), np.maximum(deviations, 1e-3), list(ranked))
    knots: list[Knots | None] = [None] * features.shape[1]
    for j, ranks in ranked.items():
        if isinstance(ranks, Ranks):
            knots[j] = _knots(ranks, features[rows, j])
    return MonotoneMap(tuple(knots))


def _has_ranks(column: Column) -> bool:
    return isinstance(column.transform, Ranks)


def _knots(ranks: Ranks, scores: Array) -> Knots:
    """Scores among all rows, and among those of the class, which has these of the former (k,)."""
    numbers = ranks.inverse(scores)
    distinct = Distinct.of(numbers)
    place = np.searchsorted(ranks.values, distinct.values)
    stored = ranks.values[np.minimum(place, len(ranks.values) - 1)] == distinct.values
    place = np.minimum(place, len(ranks.values) - 1)
    first, last = (np.where(stored, ends[place], ranks.forward(distinct.values)) for ends in (ranks.first, ranks.last))
    if len(distinct.values) == 1:
        return _constant(float(first[0]), float(last[0]))
    low, high = limits_of(distinct, ranks.decimals)
    own = replace(Ranks.fit(distinct, max(low, ranks.low), min(high, ranks.high), None), decimals=None)
    below = _tail(ranks, own, float(first[0]), float(last[0]), side=-1)
    above = _tail(ranks, own, float(last[-1]), float(first[-1]), side=1)
    inner = _thinned(np.stack([first, last], 1), np.stack([own.first, own.last], 1), distinct.counts)
    knots = sorted({*below, *above, *inner})
    return _rising(np.array(knots))


def _constant(first: float, last: float) -> Knots:
    """The map of a column that has one value in the class: it stays within the ranks of this value."""
    if last <= first:
        first, last = first - END, last + END
    step = END * (last - first)
    return np.array([first, first + step, last - step, last]), np.array([-4.0, -EVEN, EVEN, 4.0])


def _tail(ranks: Ranks, own: Ranks, edge: float, inside: float, side: int) -> list[tuple[float, float]]:
    """Knots beyond one end of a class: at its slope, or within the ranks of its last value, if this is a limit."""
    start = own.last[-1] if side > 0 else own.first[0]
    scores = start + side * np.array(TAIL)
    values = own.inverse(scores)
    if side * (values[-1] - (own.values[-1] if side > 0 else own.values[0])) <= 0:
        step = side * END * max(abs(edge - inside), END)
        return [(edge - step, float(start)), (edge, float(scores[-1]))]
    found = [(float(s), float(z)) for s, z in zip(ranks.forward(values), scores, strict=True)]
    return [(edge, float(start)), *(pair for pair in found if side * (pair[0] - edge) > 0)]


def _thinned(features: Array, scores: Array, counts: Array) -> list[tuple[float, float]]:
    """Knots (first, last) of the values (m, 2) that many rows have, and of some of the others."""
    least, waiting = max(2.0, counts.sum() / MAX_PIECES), np.inf
    kept: list[tuple[float, float]] = []
    for i, count in enumerate(counts.tolist()):
        waiting += count
        if waiting >= least and 0 < i < len(counts) - 1:
            ends = (0, 1) if count >= least else (0,)
            middle = features[i].mean(), scores[i].mean()
            kept += [(float(features[i, e]), float(scores[i, e])) for e in ends] if len(ends) == 2 else [middle]
            waiting = 0.0
    edges = [(0, 1), (len(counts) - 1, 0)]  # the inner ends of the extremes: tails begin at the outer ones
    return kept + [(float(features[i, e]), float(scores[i, e])) for i, e in edges if counts[i] >= least]


def _rising(knots: Array) -> Knots:
    """Knots (m, 2) without those that do not rise on both sides by more than rounding."""
    kept = [knots[0]]
    for knot in knots[1:]:
        if knot[0] > kept[-1][0] + 1e-9 and knot[1] > kept[-1][1] + 1e-9:
            kept.append(knot)
    if len(kept) == 1:
        kept.append(knots[0] + 1.0)
    chosen = np.array(kept)
    return chosen[:, 0], chosen[:, 1]
