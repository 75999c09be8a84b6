"""The covariance generator of a table: around all rows or within classes, with noise that makes no near-copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..._backend.arrays import Array
from ...core.neighbors import evenly, nearest_distances
from ...generators.classes import ClassKernels
from ...generators.covariance import MIN_ROWS, CovarianceGenerator
from ...generators.neighborhoods import Width
from ..options import InputError, listed, option
from .class_fit import ClassRows, classes_are_likelier, fit_classes, informative_column
from .codec import TableCodec
from .columns import Levels, suggestion

AUTO, POOLED = "auto", "pooled"
NOISE = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.85)
"""Shares of noise that are tried below the likeliest one."""
NEAR, N_TRIED = 0.05, 1000
"""Share of the stored rows that count as near to the nearest other one, and draws by which noise is chosen."""

TableKernels = CovarianceGenerator | ClassKernels


@dataclass(frozen=True)
class CovarianceOptions:
    """Options of the generator "covariance"."""

    width: tuple[float, float, int] | None = option(
        None,
        "Width of the kernels: share of noise, share of the pooled covariance, number of neighbours (0 for all). "
        "[by likelihood]",
        metavar="NOISE:POOLED:NEIGHBOURS",
    )
    classes: str = option(
        AUTO,
        "Column of categories within which kernels are fitted, or pooled: around all rows alike. [the label, or the "
        "most informative column of categories, where left-out rows are likelier so; pooled if width is given]",
        metavar="COLUMN",
    )

    def __post_init__(self) -> None:
        if self.width is not None:
            if not isinstance(self.width, tuple | list) or len(self.width) != 3:
                raise InputError(f"width must be three numbers: noise, pooled, neighbours; got {self.width!r}.")
            Width(*self.width).checked()
        if not isinstance(self.classes, str):
            raise InputError(f"classes must be the name of a column, auto or pooled; got {self.classes!r}.")


def fit_covariance(codec: TableCodec, weights: Array, options: CovarianceOptions) -> TableKernels:
    """Covariance kernels around the rows with positive weights (K,)."""
    kept = np.flatnonzero(weights > 0)
    features = codec.encode(codec.take(codec.stored, kept))
    columns = zip(codec.columns, codec.blocks, strict=True)
    one_hot = tuple(own for column, own in columns if isinstance(column.transform, Levels))
    given = None if options.width is None else Width(*options.width)

    def around_all(width: Width | None) -> TableKernels:
        return CovarianceGenerator.fit(features, weights[kept], kept, one_hot, codec.jittered, width)

    within = _class_rows(codec, kept, features, weights[kept], options)
    try:
        if within is not None and given is not None:
            return fit_classes(within, given)
        pooled = around_all(given)
        if given is not None or len(kept) < MIN_ROWS:
            return pooled
        if within is not None:
            classes, likeliest = within, fit_classes(within, None)
            if options.classes != AUTO or classes_are_likelier(classes, _width(pooled), likeliest.width):
                return _with_least_noise(codec, features, likeliest, lambda width: fit_classes(classes, width))
        return _with_least_noise(codec, features, pooled, around_all)
    except ValueError as error:
        raise InputError(f"the rows of the table that count: {error}") from None


def _width(generator: TableKernels) -> Width:
    return generator.width if isinstance(generator, ClassKernels) else generator.kernels.width


def _class_rows(
    codec: TableCodec, kept: Array, features: Array, weights: Array, options: CovarianceOptions
) -> ClassRows | None:
    """The rows by their classes, or None where kernels are to be pooled, or classes too few or too small."""
    if options.classes == POOLED or (options.classes == AUTO and options.width is not None):
        return None
    if options.classes != AUTO:
        position = _named(codec, options.classes)
        rows = ClassRows.of(codec, kept, features, weights, position)
        return rows if len(rows.levels) > 1 else None
    position_or_none = codec.position(codec.label) if codec.label is not None else informative_column(codec, features)
    if position_or_none is None or not isinstance(codec.columns[position_or_none].transform, Levels):
        return None
    if codec.columns[position_or_none].name in (AUTO, POOLED):  # a saved choice would be read as the option's own value
        return None
    rows = ClassRows.of(codec, kept, features, weights, position_or_none)
    return rows if rows.suffices else None


def _named(codec: TableCodec, name: str) -> int:
    """The position of a column of categories; InputError where it is none."""
    names = [column.name for column in codec.columns if isinstance(column.transform, Levels)]
    if name in names:
        return [column.name for column in codec.columns].index(name)
    known = f"Name one of {listed(names)}, or pooled." if names else "The table has none: pass pooled."
    raise InputError(f"classes: there is no column of categories {name!r}. {suggestion(name, names)}{known}")


def _with_least_noise(
    codec: TableCodec, features: Array, likeliest: TableKernels, fit: Callable[[Width], TableKernels]
) -> TableKernels:
    """The generator with the least noise that leaves new rows as far from stored rows as these are from each other.

    Less noise keeps more of what ties the cells of a row to each other, and more makes rows that nobody stored. As few
    new rows as stored ones, NEAR of them, may be as near to a stored row as the nearest NEAR of the stored rows are.
    """
    width, K = _width(likeliest), len(features)
    real = nearest_distances(features, chosen=evenly(K, N_TRIED))
    tried = [noise for noise in NOISE if noise < width.noise]
    low, high, best = 0, len(tried), likeliest  # the noise at `high` is enough
    while low < high:
        middle = (low + high) // 2
        generator = fit(width._replace(noise=tried[middle]))
        drawn = generator.sample(N_TRIED, np.random.default_rng(0))
        new = codec.encode(codec.decode(drawn.values, drawn.source))
        if _near(nearest_distances(new, features), real) <= NEAR:
            high, best = middle, generator
        else:
            low = middle + 1
    return best if best is likeliest else replace(best, searched=True)


def _near(distances: Array, real: Array) -> float:
    """Share of distances (n,) below the quantile NEAR of the real ones; of equal ones, as many as make this share."""
    limit = np.quantile(real, NEAR, method="inverted_cdf")
    tied = (NEAR - (real < limit).mean()) / (real == limit).mean()
    return float((distances < limit).mean() + tied * (distances == limit).mean())
