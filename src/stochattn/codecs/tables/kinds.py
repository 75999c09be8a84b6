"""Which kind a column of a table is, from its cells; and the column fitted on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._arrays import Array
from ..base import InputError
from .columns import Column, Levels, Source, numbers_of
from .dates import Clock, TwoFormats, clock_of_texts, clock_of_times
from .ranks import Ranks, decimals_of, limits_of

MOST_LEVELS = 500
LABELS = ("target", "label", "labels", "class", "species", "diagnosis", "outcome", "group", "y")
IDS = ("", "id", "index", "unnamed: 0", "uuid", "key")
TRUTHS = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"}, {"0", "1"})


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
    kept = numbers if clock is not None or series.dtype.itemsize >= 8 else numbers.astype(series.to_numpy().dtype)
    decimals = 0 if kind != "numeric" else decimals_of(kept)
    low, high = limits_of(numbers, decimals, kind)
    low, high = (own if asked is None else asked for own, asked in zip((low, high), limits, strict=True))
    _check_range(source.at(name), numbers, low, high)
    if clock is None and series.dtype.kind in "iu" and series.dtype.itemsize < 8:
        info = np.iinfo(series.dtype.name.lower())
        low, high = max(low, float(info.min)), min(high, float(info.max))
    return Column(name, kind, series.dtype, Ranks.fit(numbers, low, high, decimals), clock), note


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
        whole = bool((numbers == np.round(numbers)).all())
        if whole and set(numbers) == {0.0, 1.0}:
            return "boolean", None
        if whole and label and distinct <= 20:
            return "category", f"column {name!r} is read as classes; columns={{{name!r}: 'integer'}} makes them amounts"
        if whole and distinct == n and name.strip().lower() in IDS:
            return "id", f"column {name!r} is read as identifiers: new rows are numbered on"
        if whole and float(np.abs(numbers).max()) >= 2.0**53:
            return (
                "id" if distinct == n else "carried"
            ), f"column {name!r} has numbers of over 15 digits: not modelled"
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
    if series.dtype.kind == "M":
        return clock_of_times(series), None
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
    texts = kind == "O" and pd.api.types.infer_dtype(present) in ("string", "boolean", "empty", "categorical")
    if kind not in "biufM" and not texts:
        raise InputError(
            f"{source.at(name)}: cells of type {series.dtype} ({type(present.iloc[0]).__name__}) are not handled. "
            f"Turn them into numbers, texts or dates, or pass columns={{{name!r}: 'drop'}}."
        )


def _check_kind(series: Any, present: Any, distinct: int, kind: str, clock: Clock | None, source: Source) -> None:
    """InputError where a column cannot be of the kind asked for."""
    number, why = series.dtype.kind in "iuf", ""
    if kind in ("numeric", "integer") and not number:
        why = f"holds {series.dtype}, not numbers"
    elif kind == "integer" and not (numbers_of(present) == np.round(numbers_of(present))).all():
        why = "holds fractions"
    elif kind == "boolean" and distinct != 2:
        why = f"holds {distinct} different values, not two"
    elif kind == "category" and distinct > MOST_LEVELS:
        why = f"holds {distinct:,} different values, more than {MOST_LEVELS}"
    elif kind == "date" and clock is None:
        why = "holds no dates"
    elif kind == "id" and series.dtype.kind not in "iuO":
        why = f"holds {series.dtype}, and identifiers are texts or whole numbers"
    if why:
        raise InputError(f"{source.at(str(series.name))}: cannot be read as {kind}: it {why}. Choose another kind.")


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
            f"{high:g}. Widen it, or drop those rows."
        )
