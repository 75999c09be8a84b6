"""The covariance generator of a table: around all rows or within classes.

The share of noise of a table's kernels: the least that makes no near-copies of stored rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from ...._backend.arrays import Array
from ...._backend.checks import suggest_names
from ...._backend.console import Progress
from ....core.neighbors import nearest_distances, spaced_indices
from ...near_copies import share_near
from ...options import InputError, listed
from ..codec import TableCodec
from ..columns.columns import Levels
from ..description import CovarianceOptions
from .class_fit import AUTO, POOLED, ClassRows, class_rows, fit_classes, likelihood_gain
from .classes import CLASSES_JOINED, ClassKernels
from .covariance import CovarianceGenerator
from .neighborhoods import MIN_ROWS, NEIGHBOURS, Width

NOISE = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.85)
"""Shares of noise that are tried below the likeliest one."""
NEAR_SHARES, MAX_LARGER = (0.01, 0.02, 0.03), 2
"""Shares of the stored rows that count as near to the nearest other one, and larger neighbourhoods that are tried where
the likeliest noise makes near-copies."""
N_TRIED = 1000  # draws by which noise is chosen
MIN_TRIED, MAX_TRIED_NUMBERS = 100, 2**23
"""Fewer draws where rows are wide: as many numbers as are drawn at a time, but enough for one in a hundred."""

MAX_NEARNESS, MAX_NEARNESS_OF_LIKELIEST = 1.25, 2.0
"""How many times as often as stored rows new ones may be near: for less noise than the likeliest, and for that."""

TableKernels = CovarianceGenerator | ClassKernels


def width_of(generator: TableKernels) -> Width:
    """The width of kernels, around all rows or within classes."""
    return generator.width if isinstance(generator, ClassKernels) else generator.kernels.width


def sources_of(generator: TableKernels) -> Array:
    """The stored rows that kernels lie around, in rising order."""
    parts = [part.kernels for part in generator.parts] if isinstance(generator, ClassKernels) else [generator]
    return np.sort(np.concatenate([part.sources for part in parts]))


def with_least_noise(
    codec: TableCodec, features: Array, likeliest: TableKernels, fit: Callable[[Width], TableKernels]
) -> TableKernels:
    """The generator with the least noise that leaves new rows as far from stored rows as these are from each other.

    Less noise keeps more of what ties the cells of a row to each other, and more makes rows that nobody stored. As few
    new rows as stored ones may be as near to a stored row as the nearest few of the stored rows are to each other. The
    likeliest noise is kept unless new rows are near much more often; neighbourhoods then become larger.
    """
    width, K = width_of(likeliest), len(features)  # of the rows that kernels lie around
    n_tried = min(N_TRIED, max(MAX_TRIED_NUMBERS // features.shape[1], MIN_TRIED))
    real = nearest_distances(features, chosen=spaced_indices(K, n_tried))
    tried = by_noise(width, K)
    low, high, best = 0, len(tried) - 1, likeliest
    while low <= high:
        middle = (low + high) // 2
        generator = likeliest if tried[middle] == width else fit(tried[middle])
        drawn = generator.sample(n_tried, np.random.default_rng(0))
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
    """How often distances (n,) are as small as the least few of real ones, over how often these are; averaged.

    Where real rows equal each other, copies are compared with copies, and other rows with other rows.
    """
    copies, repeats = float((distances == 0).mean()), float((real == 0).mean())
    apart, real_apart = (distances, real) if not repeats else (distances[distances > 0], real[real > 0])
    shares = NEAR_SHARES if len(apart) and len(real_apart) else ()
    near = [share_near(apart, real_apart, share) / share for share in shares]
    return max(float(np.mean(near)) if near else 0.0, copies / repeats if repeats else 0.0)


CLASSES_NOTE = "classes={}: {}, so that kernels are fitted around all rows"
N_USUAL_FITS = 5
"""Fits that follow the choice of classes, for the progress bar: one, and those by which noise is chosen."""
MEMORIES_NOTE = (
    "new rows are drawn around {:,} of the {:,} stored rows, chosen by weight and always the same ones; distributions "
    "of columns, and shares of classes, are those of all rows"
)


def fit_covariance(codec: TableCodec, weights: Array, options: CovarianceOptions) -> TableKernels:
    """Covariance kernels around the rows with positive weights (K,)."""
    kept = np.flatnonzero(weights > 0)
    with Progress(N_USUAL_FITS, "fitting") as progress:  # one for all searches, so that the time left counts down
        kernels = _fit(codec, kept, weights, options, progress)
    m = len(sources_of(kernels))
    return replace(kernels, notes=(*kernels.notes, MEMORIES_NOTE.format(m, len(kept)))) if m < len(kept) else kernels


def _fit(
    codec: TableCodec, kept: Array, weights: Array, options: CovarianceOptions, progress: Progress
) -> TableKernels:
    features = codec.encode(codec.take(codec.stored, kept))
    columns = zip(codec.columns, codec.blocks, strict=True)
    one_hot = tuple(own for column, own in columns if isinstance(column.transform, Levels))
    given = None if options.width is None else Width(*options.width)

    def around_all(width: Width | None) -> TableKernels:
        kernels = CovarianceGenerator.fit(features, weights[kept], kept, one_hot, codec.jittered, width)
        progress.update(progress.done + 1)
        return kernels

    def within(classes: ClassRows, width: Width | None) -> TableKernels:
        kernels = fit_classes(classes, width)
        progress.update(progress.done + 1)
        return kernels

    def least_noise(likeliest: TableKernels, fit: Callable[[Width], TableKernels]) -> TableKernels:
        around = np.searchsorted(kept, sources_of(likeliest))
        return with_least_noise(codec, features[around], likeliest, fit)

    choices, notes = _class_rows(codec, kept, features, weights[kept], options)
    progress.total = 1 + len(choices) + N_USUAL_FITS
    try:
        if choices and given is not None:
            return within(choices[0], given)
        pooled = around_all(given)
        if given is not None or len(kept) < MIN_ROWS:
            return replace(pooled, notes=notes)
        classes = next(iter(choices), None)
        if options.classes == AUTO:
            classes = _likeliest(choices, width_of(pooled), progress)
        progress.update(1 + len(choices))
        if classes is None:
            return replace(least_noise(pooled, around_all), notes=notes)
        return least_noise(within(classes, None), partial(within, classes))
    except ValueError as error:
        raise InputError(f"the rows of the table that count: {error}") from None


def _likeliest(choices: list[ClassRows], pooled: Width, progress: Progress) -> ClassRows | None:
    """Those of the choices under which left-out rows are likeliest; None where they are likelier around all rows.

    Two columns may matter together where the first alone does not; a third is tried where the first two do.
    """
    best, most = None, 0.0
    for rows in choices:
        if len(rows.positions) > 2 and (best is None or len(best.positions) < len(rows.positions) - 1):
            break
        gain = likelihood_gain(rows, pooled, rows.width)
        progress.update(progress.done + 1)
        if gain > most:
            best, most = rows, gain
    return best


def _class_rows(
    codec: TableCodec, kept: Array, features: Array, weights: Array, options: CovarianceOptions
) -> tuple[list[ClassRows], tuple[str, ...]]:
    """The rows by classes that are to be tried, and a note where classes that were asked for cannot be fitted."""
    if options.classes == POOLED or (options.classes == AUTO and options.width is not None):
        return [], ()
    if options.classes == AUTO:
        return class_rows(codec, kept, features, weights), ()
    names = [options.classes]
    if options.classes not in [column.name for column in codec.columns]:
        names = [name.strip() for name in options.classes.split(CLASSES_JOINED.strip())]
    found = [_named(codec, name) for name in dict.fromkeys(names)]
    varying = [at for at in found if at is not None]
    rows = ClassRows.of(codec, kept, features, weights, *varying) if varying else None
    if rows is None or len(rows.labels) < 2:
        why = "has" if len(found) == 1 else "have"
        return [], (CLASSES_NOTE.format(options.classes, f"{why} one value among the rows that count"),)
    if rows.inside.all():
        return [], (CLASSES_NOTE.format(options.classes, "no other column varies within them"),)
    if len(kept) < MIN_ROWS and options.width is None:
        return [], (CLASSES_NOTE.format(options.classes, f"needs {MIN_ROWS} rows, and {len(kept)} count"),)
    return [rows], ()


def _named(codec: TableCodec, name: str) -> int | None:
    """The position of a column of categories, None where it has one value only; InputError where it is none."""
    every = [column.name for column in codec.columns]
    names = [column.name for column in codec.columns if isinstance(column.transform, Levels)]
    if name in names:
        return every.index(name)
    if name in every and codec.stored[name].nunique() < 2:
        return None
    known = f"Name one of {listed(names)}, or pooled." if names else "The table has none: pass pooled."
    raise InputError(f"classes: there is no column of categories {name!r}. {suggest_names(name, names)}{known}")
