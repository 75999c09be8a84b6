"""Data frames as the table codec needs them: checked on the way in, cast to known dtypes, as arrays and back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

import numpy as np

from ..._backend.arrays import Array
from ..legacy import InputError
from .columns import Column, Source
from .naming import listed, near


def checked(frame: Any, drop: Iterable[str], source: Source) -> tuple[Any, Array, tuple[str, ...]]:
    """The usable part of a frame with its rows renumbered, which rows those are, and notes on what was left out."""
    import pandas as pd

    where = f"{source.name}: " if source.name else ""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"{where}a table must be a pandas DataFrame; got {type(frame).__name__}.")
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise InputError(f"{where}more than one column is called {twice[0]!r}. Rename one of them.")
    for name in drop:
        if name not in names:
            raise InputError(
                f"{where}--column {name}=drop: there is no column {name!r}. {near(name, names)}The table has "
                f"{listed(names)}."
            )
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


def cast(frame: Any, columns: Iterable[Column], where: str) -> Any:
    """The columns of a frame in this order and with these dtypes; InputError for one that is not there or not fit."""
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


def _as(series: Any, dtype: Any, days: bool) -> Any:
    """A column with this dtype, or the nullable one like it where cells are missing; `days` for datetime.date."""
    import pandas as pd

    if days and not _are_days(series):
        return pd.to_datetime(series).dt.date.astype(dtype)
    if series.dtype == dtype:
        return series
    if dtype.kind in "iub" and series.isna().any():
        name = "boolean" if dtype.kind == "b" else dtype.name.replace("i", "I").replace("u", "U")
        return series.astype(name)
    if dtype.kind == "O" and dtype.name != "category":
        return series.astype("object").map(str, na_action="ignore").astype(dtype)
    return series.astype(dtype)


def alike(first: Any, second: Any) -> Array:
    """Which cells of two columns are equal, two missing ones counted as equal: (n,) booleans."""
    if isinstance(first.dtype, np.dtype) and first.dtype == second.dtype and first.dtype.kind in "iufb":
        one, other = first.to_numpy(), second.to_numpy()
        return np.asarray((one == other) | ((one != one) & (other != other)))
    gone = first.isna().to_numpy(), second.isna().to_numpy()
    one, other = first.astype("object").to_numpy(), second.astype("object").to_numpy()
    same = [not (a or b) and c == d for a, b, c, d in zip(*gone, one, other, strict=True)]
    return np.asarray(same, dtype=bool) | (gone[0] & gone[1])


def row_names(frame: Any, columns: Iterable[Column], index: Any) -> tuple[str, ...]:
    """A name for each row: its identifier, its label in the index, or its number."""
    ids = [column.name for column in columns if column.kind == "id"]
    if ids:
        return tuple(frame[ids[0]].astype("object").map(str))
    if index is not None and index.dtype.kind == "O":
        return tuple(map(str, index))
    return tuple(str(row + 1) for row in range(len(frame)))


def as_texts(column: Any) -> list[str]:
    """Cells (n,) as texts, empty for missing ones."""
    return list(column.astype("object").map(str, na_action="ignore").fillna(""))


def arrays_of(frame: Any) -> tuple[list[dict[str, Any]], dict[str, Array]]:
    """A frame as something for json, a dictionary for each column, and arrays without objects.

    Plain numbers of one dtype share one array: ten thousand small ones would take long to write.
    """
    facts: list[dict[str, Any]] = []
    arrays: dict[str, Array] = {}
    shared: dict[str, list[Array]] = {}
    for j, name in enumerate(frame.columns):
        dtype = frame[name].dtype
        if isinstance(dtype, np.dtype) and dtype.kind in "iufb":
            together = shared.setdefault(f"cells.{dtype}", [])
            facts.append({"name": name, "shared": f"cells.{dtype}", "at": len(together)})
            together.append(frame[name].to_numpy())
        else:
            fact, cells, missing = _column_arrays(frame[name])
            facts.append({"name": name, "dtype": str(dtype), **fact})
            arrays |= {f"cells.{j}": cells} | ({f"missing.{j}": missing} if missing.any() else {})
    return facts, arrays | {key: np.stack(columns) for key, columns in shared.items()}


def _column_arrays(series: Any) -> tuple[dict[str, Any], Array, Array]:
    """What json must know about a column, its cells without objects (n,), and which are missing (n,)."""
    dtype, missing = series.dtype, series.isna().to_numpy()
    if dtype.name == "category":
        fact = {"categories": dtype.categories.tolist(), "ordered": bool(dtype.ordered)}
        return fact, series.cat.codes.to_numpy().astype(np.int64), missing
    if dtype.kind == "M":
        return {}, series.astype("int64").to_numpy(), missing
    if dtype.kind == "O":
        truth = any(isinstance(cell, bool) for cell in series[~missing])
        texts = ["" if gone else str(cell) for cell, gone in zip(series, missing, strict=True)]
        return {"truth": truth, "days": _are_days(series)}, np.array(texts, dtype=str), missing
    plain = "bool" if dtype.kind == "b" else dtype.name.lower()
    return {}, series.to_numpy(dtype=plain, na_value=np.nan if dtype.kind == "f" else 0), missing


def _are_days(series: Any) -> bool:
    """Whether the cells are datetime.date objects, as Parquet's dates become."""
    return any(isinstance(cell, date) for cell in series.dropna().iloc[:1]) and series.dtype.kind == "O"


def frame_of(facts: list[dict[str, Any]], arrays: dict[str, Array]) -> Any:
    """The frame of `arrays_of`."""
    import pandas as pd

    return pd.DataFrame({fact["name"]: _column_of(fact, arrays, j) for j, fact in enumerate(facts)})


def _column_of(fact: dict[str, Any], arrays: dict[str, Array], j: int) -> Any:
    import pandas as pd

    if "shared" in fact:
        return arrays[fact["shared"]][fact["at"]]
    cells, missing = arrays[f"cells.{j}"], arrays.get(f"missing.{j}")
    if "categories" in fact:
        return pd.Categorical.from_codes(cells, dtype=pd.CategoricalDtype(fact["categories"], fact["ordered"]))
    if fact.get("days"):
        return pd.Series([date.fromisoformat(cell) if cell else None for cell in cells], dtype="object")
    listed = [cell == "True" for cell in cells] if fact.get("truth") else cells
    series = pd.Series(listed.tolist() if isinstance(listed, np.ndarray) and listed.dtype.kind == "U" else listed)
    series = series.astype(fact["dtype"])
    return series if missing is None else series.mask(missing)
