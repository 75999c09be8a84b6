"""Data frames as the table codec needs them: checked, cast to known dtypes, and as plain values for saving."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._backend.arrays import Array
from ..._backend.state import Plain
from ..options import InputError
from .columns import Column, ColumnType, Source, listed, suggestion
from .inference import TableOptions

if TYPE_CHECKING:
    import pandas as pd
else:
    from .. import lazy_pandas as pd


def checked(frame: pd.DataFrame, options: TableOptions, source: Source) -> tuple[pd.DataFrame, Array, list[str]]:
    """The usable part of a frame with rows renumbered, the indices of these rows, and notes on what was left out."""
    where = f"{source.name}: " if source.name else ""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"{where}a table must be a pandas DataFrame; got {type(frame).__name__}.")
    frame = frame.set_axis(list(map(str, frame.columns)), axis=1)
    for repeated in sorted(frame.columns[frame.columns.duplicated()]):
        raise InputError(f"{where}more than one column is called {repeated!r}. Rename one of them.")
    names = [name for name in frame if options.columns.get(name) != ColumnType.DROP]
    labels = [] if options.label is None else [options.label]
    asked_for = (("columns", options.columns, list(frame)), ("ranges", options.ranges, names), ("label", labels, names))
    for option, asked, known in asked_for:
        for name in sorted(set(asked) - set(known)):
            offered = f"{suggestion(name, known)}The table has {listed(known)}."
            raise InputError(f"{option}: there is no column {name!r}. {offered}")
    nameless = [name for name in names if not name.strip() and frame[name].isna().all()]
    notes = ["empty columns without a name are left out"] if nameless else []
    frame = frame[[name for name in names if name not in nameless]]
    rows = np.flatnonzero(frame.notna().any(axis=1).to_numpy())
    if len(rows) < len(frame):
        notes.append(f"{len(frame) - len(rows)} rows without any value are left out")
    if len(rows) < 2:
        found = "one row" if len(rows) else "no rows"
        raise InputError(f"{where}a table needs at least two rows with values; it has {found}. Store more.")
    return frame.iloc[rows].reset_index(drop=True), rows, notes


def cast(frame: pd.DataFrame, columns: Iterable[Column], where: str) -> pd.DataFrame:
    """The columns of a frame in this order, with these dtypes; InputError for one that is missing or does not fit."""
    frame = frame.set_axis(list(map(str, frame.columns)), axis=1).reset_index(drop=True)
    cells = {}
    for column in columns:
        if column.name not in frame:
            raise InputError(f"{where}: has no column {column.name!r}, which the stored table has. Add it.")
        series = frame[column.name]
        try:
            cells[column.name] = _as(series, column.dtype, column.clock is not None and column.clock.days)
        except (TypeError, ValueError):
            raise InputError(f"{where}, column {column.name!r}: {series.dtype} does not fit {column.dtype}.") from None
    return pd.DataFrame(cells)


def _as(series: pd.Series, dtype: np.dtype, days: bool) -> pd.Series:
    """A column with this dtype, or the nullable one like it where cells are missing; `days` for datetime.date."""
    if days and not any(type(cell) is date for cell in series.dropna().iloc[:1]):
        return pd.to_datetime(series).dt.date.astype(dtype)
    if series.dtype == dtype:
        return series
    if dtype.kind in "iub" and series.isna().any():
        return series.astype("boolean" if dtype.kind == "b" else dtype.name.replace("i", "I").replace("u", "U"))
    if dtype.kind == "O" and dtype.name != "category":
        return series.astype("object").map(str, na_action="ignore").astype(dtype)
    return series.astype(dtype)


def equal_cells(first: pd.Series, second: pd.Series) -> Array:
    """Which cells of two columns are equal, two missing ones counted as equal: (n,) booleans."""
    gone = first.isna().to_numpy(), second.isna().to_numpy()
    if isinstance(first.dtype, np.dtype) and first.dtype == second.dtype and first.dtype.kind in "iufb":
        same = first.to_numpy() == second.to_numpy()
    else:
        cells = zip(*gone, first.astype("object"), second.astype("object"), strict=True)
        same = np.array([not (a or b) and c == d for a, b, c, d in cells], dtype=bool)
    return np.asarray(same | (gone[0] & gone[1]))


def row_names(frame: pd.DataFrame, columns: Iterable[Column], index: pd.Index) -> tuple[str, ...]:
    """A name for each row: its identifier, its label in the index, or its number."""
    ids = [frame[column.name].astype("object") for column in columns if column.type == ColumnType.ID]
    numbers = range(1, len(frame) + 1)
    return tuple(map(str, ids[0] if ids else index if index.dtype.kind == "O" else numbers))


def as_texts(column: pd.Series) -> list[str]:
    """Cells (n,) as texts, empty for missing ones."""
    return list(column.astype("object").map(str, na_action="ignore").fillna(""))


def frame_state(frame: pd.DataFrame) -> dict[str, Plain]:
    """A frame as plain values: what `frame_from_state` makes it from again.

    Plain numbers of one dtype share one array: ten thousand small ones would take long to write.
    """
    columns: list[dict[str, Plain]] = []
    shared: dict[str, list[Array]] = {}
    for name in frame.columns:
        dtype = frame[name].dtype
        if isinstance(dtype, np.dtype) and dtype.kind in "iufb":
            together = shared.setdefault(str(dtype), [])
            columns.append({"name": name, "shared": str(dtype), "at": len(together)})
            together.append(frame[name].to_numpy())
        else:
            columns.append({"name": name, "dtype": str(dtype), **_column_state(frame[name])})
    return {"columns": columns, "shared": {dtype: np.stack(cells) for dtype, cells in shared.items()}}


def _column_state(series: pd.Series) -> dict[str, Plain]:
    """The cells of a column as plain values, and which are missing where the values do not say so."""
    dtype, missing = series.dtype, series.isna().to_numpy()
    if dtype.name == "category":
        codes = series.cat.codes.to_numpy().astype(np.int64)
        return {"cells": codes, "categories": dtype.categories.tolist(), "ordered": bool(dtype.ordered)}
    if dtype.kind == "O":  # a missing cell may be None, NaN or NA; the first two are plain
        cells = zip(series, missing, strict=True)
        return {"cells": [None if gone and not isinstance(cell, float) else cell for cell, gone in cells]}
    if dtype.kind == "M":
        return {"cells": series.astype("int64").to_numpy(), "missing": missing}
    plain = "bool" if dtype.kind == "b" else dtype.name.lower()
    return {"cells": series.to_numpy(dtype=plain, na_value=np.nan if dtype.kind == "f" else 0), "missing": missing}


def frame_from_state(state: dict[str, Any]) -> pd.DataFrame:
    """The frame of `frame_state`."""
    return pd.DataFrame({column["name"]: _column_of(column, state["shared"]) for column in state["columns"]})


def _column_of(state: dict[str, Any], shared: dict[str, Array]) -> Array | pd.Series | pd.Categorical:
    if "shared" in state:
        return shared[state["shared"]][state["at"]]
    if "categories" in state:
        dtype = pd.CategoricalDtype(state["categories"], state["ordered"])
        return pd.Categorical.from_codes(state["cells"], dtype=dtype)
    if "missing" not in state:
        return pd.Series(state["cells"], dtype=state["dtype"])
    series = pd.Series(state["cells"]).astype(state["dtype"])
    return series.mask(state["missing"]) if state["missing"].any() else series
