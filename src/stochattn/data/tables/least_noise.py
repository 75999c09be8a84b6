"""The share of noise of a table's kernels: the least that makes no near-copies of stored rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..._backend.arrays import Array
from ...core.neighbors import evenly, nearest_distances
from ...generators.classes import ClassKernels
from ...generators.covariance import CovarianceGenerator
from ...generators.neighborhoods import NEIGHBOURS, Width
from .codec import TableCodec

NOISE = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.85)
"""Shares of noise that are tried below the likeliest one."""
NEAR_SHARES, MAX_LARGER = (0.01, 0.02, 0.03), 2
"""Shares of the stored rows that count as near to the nearest other one, and larger neighbourhoods that are tried where
the likeliest noise makes near-copies."""
N_TRIED = 1000  # draws by which noise is chosen  # equivalent: only how exactly nearness is measured

MAX_NEARNESS, MAX_NEARNESS_OF_LIKELIEST = 1.25, 2.0
"""How many times as often as stored rows new ones may be near: for less noise than the likeliest, and for that."""

TableKernels = CovarianceGenerator | ClassKernels


def width_of(generator: TableKernels) -> Width:
    """The width of kernels, around all rows or within classes."""
    return generator.width if isinstance(generator, ClassKernels) else generator.kernels.width


def with_least_noise(
    codec: TableCodec, features: Array, likeliest: TableKernels, fit: Callable[[Width], TableKernels]
) -> TableKernels:
    """The generator with the least noise that leaves new rows as far from stored rows as these are from each other.

    Less noise keeps more of what ties the cells of a row to each other, and more makes rows that nobody stored. As few
    new rows as stored ones may be as near to a stored row as the nearest few of the stored rows are to each other. The
    likeliest noise is kept unless new rows are near much more often; neighbourhoods then become larger.
    """
    width, K = width_of(likeliest), len(features)
    real = nearest_distances(features, chosen=evenly(K, N_TRIED))  # equivalent: as above
    tried = by_noise(width, K)
    low, high, best = 0, len(tried) - 1, likeliest
    while low <= high:
        middle = (low + high) // 2
        generator = likeliest if tried[middle] == width else fit(tried[middle])
        drawn = generator.sample(N_TRIED, np.random.default_rng(0))  # equivalent: another seed serves as well
        new = codec.encode(codec.decode(drawn.values, drawn.source))
        is_less = tried[middle].noise < width.noise
        allowed = MAX_NEARNESS if is_less else MAX_NEARNESS_OF_LIKELIEST
        if nearness(nearest_distances(new, features), real) <= allowed:
            high, best = middle - 1, generator
        else:
            low = middle + 1
            best = generator if low == len(tried) else best
    return best if best is likeliest else replace(best, searched=True)


def by_noise(width: Width, K: int) -> list[Width]:
    """Widths from less to more noise: smaller shares than the given one, then a few larger neighbourhoods."""
    less = [width._replace(noise=noise) for noise in NOISE if noise < width.noise]
    larger = [m for m in NEIGHBOURS if 0 < width.neighbours < m < K][:MAX_LARGER]
    return [*less, width, *(width._replace(neighbours=m) for m in larger)]


def nearness(distances: Array, real: Array) -> float:
    """How often distances (n,) are below small quantiles of real ones, over how often real ones are; averaged.

    Of equal distances, as many count as make up the quantile.
    """
    found = []
    for share in NEAR_SHARES:
        limit = np.quantile(real, share, method="inverted_cdf")
        tied = (share - (real < limit).mean()) / (real == limit).mean()
        found.append(float((distances < limit).mean() + tied * (distances == limit).mean()) / share)
    return float(np.mean(found))
