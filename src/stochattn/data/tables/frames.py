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

if TYPE_CHECKING:
    import pandas as pd


def checked(frame: pd.DataFrame, drop: Iterable[str], source: Source) -> tuple[pd.DataFrame, Array, tuple[str, ...]]:
    """The usable part of a frame with rows renumbered, the indices of these rows, and notes on what was left out."""
    import pandas as pd

    where = f"{source.name}: " if source.name else ""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"{where}a table must be a pandas DataFrame; got {type(frame).__name__}.")
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        repeated = min(name for name in names if names.count(name) > 1)
        raise InputError(f"{where}more than one column is called {repeated!r}. Rename one of them.")
    for name in sorted(set(drop) - set(names)):
        offered = f"{suggestion(name, names)}The table has {listed(names)}."
        raise InputError(f"{where}columns: there is no column {name!r} to drop. {offered}")
    frame = frame.set_axis(names, axis=1)[[name for name in names if name not in set(drop)]]
    notes = []
    nameless = [name for name in frame.columns if not name.strip() and frame[name].isna().all()]
    if nameless:
        frame = frame.drop(columns=nameless)
        notes.append("empty columns without a name are left out")
    rows = np.flatnonzero(frame.notna().any(axis=1).to_numpy())
    if len(rows) < len(frame):
        notes.append(f"{len(frame) - len(rows)} rows without any value are left out")
    if len(rows) < 2:
        found = "one row" if len(rows) else "no rows"
        raise InputError(f"{where}a table needs at least two rows with values; it has {found}. Store more.")
    return frame.iloc[rows].reset_index(drop=True), rows, tuple(notes)


def cast(frame: pd.DataFrame, columns: Iterable[Column], where: str) -> pd.DataFrame:
    """The columns of a frame in this order, with these dtypes; InputError for one that is missing or does not fit."""
    import pandas as pd

    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    cells = {}
    for column in columns:
        if column.name not in frame:
            raise InputError(f"{where}: has no column {column.name!r}, which the stored table has. Add it.")
        series = frame[column.name].reset_index(drop=True)
        try:
            cells[column.name] = _as(series, column.dtype, column.clock is not None and column.clock.days)
        except (TypeError, ValueError):
            raise InputError(f"{where}, column {column.name!r}: {series.dtype} does not fit {column.dtype}.") from None
    return pd.DataFrame(cells)


def _as(series: pd.Series, dtype: np.dtype, days: bool) -> pd.Series:
    """A column with this dtype, or the nullable one like it where cells are missing; `days` for datetime.date."""
    import pandas as pd

    are_days = series.dtype.kind == "O" and any(isinstance(cell, date) for cell in series.dropna().iloc[:1])
    if days and not are_days:
        return pd.to_datetime(series).dt.date.astype(dtype)
    if series.dtype == dtype:
        return series
    if dtype.kind in "iub" and series.isna().any():
        name = "boolean" if dtype.kind == "b" else dtype.name.replace("i", "I").replace("u", "U")
        return series.astype(name)
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
    ids = [column.name for column in columns if column.type == ColumnType.ID]
    if ids:
        return tuple(frame[ids[0]].astype("object").map(str))
    if index.dtype.kind == "O":
        return tuple(map(str, index))
    return tuple(str(row + 1) for row in range(len(frame)))


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
    import pandas as pd

    return pd.DataFrame({column["name"]: _column_of(column, state["shared"]) for column in state["columns"]})


def _column_of(state: dict[str, Any], shared: dict[str, Array]) -> Array | pd.Series | pd.Categorical:
    import pandas as pd

    if "shared" in state:
        return shared[state["shared"]][state["at"]]
    if "categories" in state:
        dtype = pd.CategoricalDtype(state["categories"], state["ordered"])
        return pd.Categorical.from_codes(state["cells"], dtype=dtype)
    if "missing" not in state:
        return pd.Series(state["cells"], dtype=state["dtype"])
    series = pd.Series(state["cells"]).astype(state["dtype"])
    return series.mask(state["missing"]) if state["missing"].any() else series
