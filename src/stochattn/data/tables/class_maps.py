"""Scores of a column within a class: maps from scores of ranks among all rows to those among the rows of the class.

Ranks among all rows erase the gap between two classes: a step of one rank leads from the largest value of one to the
smallest of the other. They also follow every chance of the spacing between numbers, which bends the ties between
columns. A map therefore leads from scores of ranks back to the numbers, and from these, by few straight pieces between
their quantiles and around numbers that many rows share, to normal scores within the class.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._backend.arrays import Array
from ...generators.monotone import Knots, MonotoneMap, affine, linear
from ...generators.neighborhoods import MIN_ROWS
from .columns import Column
from .scales import Ranks

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
        return _constant_knots(ranks, float(scores[0]))  # equivalent: all are equal
    at, numbers = _number_knots(ranks)
    own = np.sort(linear(ranks.jittered(scores[:, None], np.random.default_rng(0))[:, 0], at, numbers))
    K = len(own)
    n_pieces = min(max(K // MIN_PER_PIECE, 1), N_PIECES)
    quantiles = np.round(np.linspace(0, K - 1, n_pieces + 1)).astype(np.intp)
    _, counts = np.unique(scores, return_counts=True)
    last, frequent = np.cumsum(counts) - 1, counts >= max(3, K / N_PIECES)
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
    rises = [np.diff(side) > MIN_RISE * (side[-1] - side[0]) for side in (first, second)]  # equivalent: only a margin
    kept = np.append(True, rises[0] & rises[1])
    return first[kept], second[kept]
