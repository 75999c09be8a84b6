"""The covariance generator of a table: around all rows or within classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import suggestion
from ...generators.classes import CLASSES_JOINED, ClassKernels
from ...generators.covariance import CovarianceGenerator
from ...generators.neighborhoods import MIN_ROWS, Width
from ..options import InputError, Knob, listed, option
from .class_fit import AUTO, POOLED, ClassRows, class_rows, fit_classes, likelihood_gain
from .codec import TableCodec
from .columns import Levels
from .least_noise import TableKernels, width_of, with_least_noise

CLASSES_NOTE = "classes={}: {}, so that kernels are fitted around all rows"


@dataclass(frozen=True)
class CovarianceOptions:
    """Options of the generator "covariance"."""

    width: tuple[float, float, int] | None = option(
        None,
        "Width of the kernels: share of noise, share of the pooled covariance, number of neighbours (0 for all). "
        "[by likelihood]",
        metavar="NOISE:POOLED:NEIGHBOURS",
        knob=Knob(0.01, 1.0, is_log=True, place=0),
    )
    classes: str = option(
        AUTO,
        "Column of categories within which kernels are fitted, several joined by + for their combinations, or pooled: "
        "around all rows alike. [the label, or the most informative column, and up to two further ones, where left-out "
        "rows are likelier so; pooled if width is given]",
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

    choices, notes = _class_rows(codec, kept, features, weights[kept], options)
    try:
        if choices and given is not None:
            return fit_classes(choices[0], given)
        pooled = around_all(given)
        if given is not None or len(kept) < MIN_ROWS:
            return replace(pooled, notes=notes)
        if options.classes == AUTO:
            classes = _likeliest(choices, pooled)
        else:
            classes = _Classes(choices[0], fit_classes(choices[0], None)) if choices else None
        if classes is None:
            return replace(with_least_noise(codec, features, pooled, around_all), notes=notes)
        return with_least_noise(codec, features, classes.kernels, lambda width: fit_classes(classes.rows, width))
    except ValueError as error:
        raise InputError(f"the rows of the table that count: {error}") from None


class _Classes(NamedTuple):
    """Rows in classes, and the likeliest kernels within them."""

    rows: ClassRows
    kernels: ClassKernels


def _likeliest(choices: list[ClassRows], pooled: TableKernels) -> _Classes | None:
    """Those of the choices under which left-out rows are likeliest; None where they are likelier around all rows.

    Two columns may matter together where the first alone does not; a third is tried where the first two do.
    """
    best, most = None, 0.0
    for rows in choices:
        if len(rows.positions) > 2 and (best is None or len(best.rows.positions) < len(rows.positions) - 1):
            break
        kernels = fit_classes(rows, None)
        gain = likelihood_gain(rows, width_of(pooled), kernels.width)
        if gain > most:
            best, most = _Classes(rows, kernels), gain
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
    raise InputError(f"classes: there is no column of categories {name!r}. {suggestion(name, names)}{known}")
