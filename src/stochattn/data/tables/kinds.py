"""Which kind a column of a table is, from its cells; and the column fitted on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend.arrays import Array
from ..legacy import InputError
from .columns import MOST_EXACT, Column, Levels, Source, numbers_of
from .dates import Clock, TwoFormats, clock_of_days, clock_of_texts, clock_of_times
from .naming import listed, near
from .options import TableOptions
from .ranks import Ranks, decimals_of, limits_of

MOST_LEVELS = 500
LABELS = ("target", "label", "labels", "class", "species", "diagnosis", "outcome", "group", "y")
IDS = ("", "id", "index", "unnamed: 0", "uuid", "key")
TRUTHS = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"}, {"0", "1"})
KNOWN_OBJECTS = ("string", "boolean", "date", "empty", "categorical")


def fit_columns(frame: Any, options: TableOptions, source: Source) -> tuple[tuple[Column, ...], list[str]]:
    """The columns of a table, and notes about them."""
    names = list(frame)
    for name, asked in options.asking():
        if name not in frame:
            raise InputError(f"{asked}: there is no column {name!r}. {near(name, names)}The table has {listed(names)}.")
    columns, notes = [], []
    for name in names:
        label = name == options.label or (options.label is None and name.strip().lower() in LABELS)
        limits = options.ranges.get(name, (None, None))
        column, note = fit_column(frame[name], source, options.columns.get(name), limits, label)
        columns.append(column)
        notes += [] if note is None else [note]
    if not any(column.width for column in columns):
        kinds = ", ".join(f"{column.name!r} is {column.kind}" for column in columns[:6])
        raise InputError(
            f"{source.name or 'the table'}: has no column to model ({kinds}). Add one whose values vary, or set a kind "
            "with --column NAME=KIND."
        )
    return tuple(columns), notes if len(notes) <= 12 else [*notes[:12], f"and {len(notes) - 12} more columns likewise"]


def only_label(columns: tuple[Column, ...]) -> str | None:
    """The column that holds classes, if its name says so and no other's does."""
    named = [c.name for c in columns if isinstance(c.how, Levels) and c.name.strip().lower() in LABELS]
    return named[0] if len(named) == 1 else None


def fit_column(
    series: Any,
    source: Source,
    kind: str | None = None,
    limits: tuple[float | None, float | None] = (None, None),
    label: bool = False,
) -> tuple[Column, str | None]:
    """The column of these cells, and a note where it is not modelled or something was assumed.

    kind:   one of KINDS, or None to infer it
    limits: no value below the first or above the second; None leaves that to the data
    label:  whether it may hold classes, so that a few whole numbers are names rather than amounts
    """
    name, present = str(series.name), series.dropna()
    _check_cells(series, present, source)
    distinct = len(np.unique(present)) if _plain(series) else int(present.nunique())
    if kind not in ("id", "carried") and distinct < 2:
        what = "holds no value: it stays empty" if present.empty else "is constant: it stays as it is"
        return Column(name, "carried", series.dtype), f"column {name!r} {what}. It may be dropped"
    note: str | None = None
    clock: Clock | None = None
    if kind is None or kind == "date":
        clock, note = _clock(series, source)
    if kind is None:
        kind, other = ("date", None) if clock is not None else _infer(series, present, distinct, label)
        note = note or other
    _check_kind(series, present, distinct, kind, clock, source)
    if kind == "id":
        return Column(name, kind, series.dtype, after=_last_number(present)), note
    if kind in ("boolean", "category"):
        return Column(name, kind, series.dtype, Levels.fit(series)), note
    if kind == "carried":
        return Column(name, kind, series.dtype), note
    numbers = numbers_of(series) if clock is None else clock.numbers(series)
    numbers = numbers[~np.isnan(numbers)]
    if clock is not None and numbers.max() >= MOST_EXACT:
        finer = f"column {name!r} tells time in steps too short for its length: taken over from stored rows"
        return Column(name, "carried", series.dtype), finer
    dtype = series.dtype if clock is None else np.dtype(float)
    ranks = _ranks(numbers, dtype, kind, limits, source.at(name))
    return Column(name, kind, series.dtype, ranks, clock), note


def _ranks(numbers: Array, dtype: Any, kind: str, limits: tuple[float | None, float | None], where: str) -> Ranks:
    """Ranks of the numbers (n,) of a column of this dtype, within its limits."""
    kept = numbers if dtype.itemsize >= 8 else numbers.astype(dtype.name.lower())
    decimals = 0 if kind != "numeric" else decimals_of(kept)
    low, high = limits_of(numbers, decimals, kind)
    low, high = (own if asked is None else asked for own, asked in zip((low, high), limits, strict=True))
    _check_range(where, numbers, low, high)
    if dtype.kind in "iu" and dtype.itemsize < 8:
        info = np.iinfo(dtype.name.lower())
        low, high = max(low, float(info.min)), min(high, float(info.max))
    return Ranks.fit(numbers, low, high, decimals)


def _plain(series: Any) -> bool:
    """Whether the cells are numbers in a plain array, which numpy handles faster than pandas."""
    return isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf"


def _infer(series: Any, present: Any, distinct: int, label: bool) -> tuple[str, str | None]:
    """Kind of a column that holds no dates, and a note about it."""
    name, n = str(series.name), len(present)
    if series.dtype.kind == "b":
        return "boolean", None
    if series.dtype.kind in "iuf":
        numbers = numbers_of(present)
        long = _most(present) >= MOST_EXACT
        # A float of that size is whole whatever was measured, which says nothing about the column.
        whole = series.dtype.kind != "f" or bool((numbers == np.round(numbers)).all() and not long)
        if whole and set(numbers) == {0.0, 1.0}:
            return "boolean", None
        if whole and label and distinct <= min(20, 0.8 * n):  # classes repeat
            return "category", f"column {name!r} is read as classes; --column {name}=integer makes them amounts"
        if whole and distinct == n and name.strip().lower() in IDS:
            return "id", f"column {name!r} is read as identifiers: new rows are numbered on"
        if whole and long:
            unlike = "id" if distinct == n else "carried"
            return unlike, f"column {name!r} has whole numbers of over 15 digits: not modelled"
        return ("integer" if whole else "numeric"), None
    if distinct == 2 and {str(value).lower() for value in present.unique()} in TRUTHS:
        return "boolean", None
    if distinct > 0.9 * n and n > 3 and series.dtype.name != "category":
        return (
            "id",
            f"column {name!r} is nearly all different texts, read as identifiers: not modelled{_almost(present)}",
        )
    if distinct > MOST_LEVELS:
        return "carried", f"column {name!r} has {distinct:,} different texts: taken over from stored rows, not modelled"
    return "category", None


def _almost(present: Any) -> str:
    """What keeps a column of texts from being numbers, if only a few cells do."""
    import pandas as pd

    wrong = pd.to_numeric(present, errors="coerce").isna().to_numpy()
    if wrong.mean() > 0.2:
        return ""
    return f"; {wrong.sum()} of its cells are no numbers (such as {str(present[wrong].iloc[0])[:30]!r}): empty these"


def _clock(series: Any, source: Source) -> tuple[Clock | None, str | None]:
    """The clock of a column that holds dates, and a note where day and month are a guess."""
    import pandas as pd

    if series.dtype.kind == "M":
        return clock_of_times(series), None
    if series.dtype.kind == "O" and pd.api.types.infer_dtype(series, skipna=True) == "date":
        return clock_of_days(series), None
    if series.dtype.kind != "O" or series.dtype.name == "category":
        return None, None
    try:
        found = clock_of_texts(series, source.day_first)
    except TwoFormats as error:
        raise InputError(
            f"{source.at(str(series.name), error.row)}: dates are in two formats, {error.first!r} and {error.text!r}. "
            "Write all of them in one."
        ) from None
    if found is None:
        return None, None
    clock, either = found
    return clock, f"column {str(series.name)!r}: dates are read as {clock.format}" if either else None


def _check_cells(series: Any, present: Any, source: Source) -> None:
    """InputError for cells that no kind of column can hold."""
    import pandas as pd

    name, kind = str(series.name), series.dtype.kind
    if kind == "f":
        infinite = np.flatnonzero(np.isinf(numbers_of(series)))
        if len(infinite):
            raise InputError(f"{source.at(name, int(infinite[0]))}: is infinite. Empty the cell, or give it a number.")
    texts = kind == "O" and pd.api.types.infer_dtype(present) in KNOWN_OBJECTS
    if kind not in "biufM" and not texts:
        raise InputError(
            f"{source.at(name)}: cells of type {series.dtype} ({type(present.iloc[0]).__name__}) are not handled. "
            f"Turn them into numbers, texts or dates, or leave the column out with --column {name}=drop."
        )


def _check_kind(series: Any, present: Any, distinct: int, kind: str, clock: Clock | None, source: Source) -> None:
    """InputError where a column cannot be of the kind asked for."""
    number, why = series.dtype.kind in "iuf", ""
    if kind in ("numeric", "integer") and not number:
        why = f"holds {series.dtype}, not numbers"
    elif kind == "integer" and not (numbers_of(present) == np.round(numbers_of(present))).all():
        why = "holds fractions"
    elif kind in ("numeric", "integer") and series.dtype.kind in "iu" and _most(present) >= MOST_EXACT:
        why = "holds whole numbers of over 15 digits, which floats do not tell apart"
    elif kind == "boolean" and distinct != 2:
        why = f"holds {distinct} different values, not two"
    elif kind == "category" and distinct > MOST_LEVELS:
        why = f"holds {distinct:,} different values, more than {MOST_LEVELS}"
    elif kind == "date" and clock is None:
        why = "holds no dates"
    elif kind == "id" and series.dtype.kind not in "iuO":
        why = f"holds {series.dtype}, and identifiers are texts or whole numbers"
    if why:
        raise InputError(
            f"{source.at(str(series.name))}: cannot be read as {kind}: it {why}. Choose another kind with --column "
            f"{series.name}=KIND."
        )


def _most(present: Any) -> float:
    """The largest absolute value of numbers (n,)."""
    return float(np.abs(numbers_of(present)).max())


def _last_number(present: Any) -> int:
    """The number that identifiers of new rows continue from."""
    if present.empty:
        return 0
    if present.dtype.kind in "iu":
        return int(present.max())
    numbers = present.astype("str").str.extract(r"^new-(\d{1,15})$")[0].dropna()
    return int(numbers.astype("int64").max()) if len(numbers) else 0


def _check_range(where: str, numbers: Array, low: float, high: float) -> None:
    """InputError where stored numbers are outside the limits."""
    if numbers.min() < low or numbers.max() > high:
        raise InputError(
            f"{where}: stored values run from {numbers.min():g} to {numbers.max():g}, outside the range {low:g} to "
            f"{high:g}. Widen it with --range, or drop those rows."
        )
