"""The rows of a data frame that can be used, checked against the options of reading, and their names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import suggestion
from .. import lazy_pandas as pd
from ..options import InputError, listed
from .cells import Cells
from .columns import Column, ColumnType, Source
from .inference import TableOptions


def usable_rows(frame: pd.DataFrame, options: TableOptions, source: Source) -> tuple[pd.DataFrame, Array, list[str]]:
    """The usable part of a frame with rows renumbered, the indices of these rows, and notes on what was left out."""
    where = f"{source.name}: " if source.name else ""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"{where}a table must be a pandas DataFrame; got {type(frame).__name__}.")
    frame = frame.set_axis(list(map(str, frame.columns)), axis=1)
    repeated = sorted(frame.columns[frame.columns.duplicated()])
    if repeated:
        raise InputError(f"{where}more than one column is called {repeated[0]!r}. Rename one of them.")
    every = frame.columns.tolist()
    names = [name for name in every if options.columns.get(name) != ColumnType.DROP]
    labels = [] if options.label is None else [options.label]
    asked_for = (("columns", options.columns, every), ("ranges", options.ranges, names), ("label", labels, names))
    for option, asked, known in asked_for:
        for name in sorted(set(asked) - set(known)):
            offered = f"{suggestion(name, known)}The table has {listed(known)}."
            raise InputError(f"{where}{option}: there is no column {name!r}. {offered}")
    nameless = [name for name in names if not name.strip() and frame[name].isna().all()]
    notes = ["empty columns without a name are left out"] if nameless else []
    frame = frame[[name for name in names if name not in nameless]] if nameless or names != every else frame
    rows = np.flatnonzero(_non_empty(frame))
    if len(rows) < len(frame):
        notes.append(f"{len(frame) - len(rows)} rows without any value are left out")
    if len(rows) < 2:
        found = "one row" if len(rows) else "no rows"
        raise InputError(f"{where}a table needs at least two rows that are not empty; it has {found}. Store more.")
    kept = frame if len(rows) == len(frame) else frame.iloc[rows]
    return kept.reset_index(drop=True), rows, notes


def _non_empty(frame: pd.DataFrame) -> Array:
    """Which rows (n,) have a cell that is not missing; few columns of a wide table are enough to find out."""
    found = np.zeros(len(frame), dtype=bool)
    for place in range(frame.shape[1]):
        found |= ~Cells.of(frame.iloc[:, place]).missing
        if found.all():  # equivalent: only saves time
            break
    return found


def row_names(frame: pd.DataFrame, columns: Sequence[Column], index: pd.Index) -> tuple[str, ...]:
    """A name for each row: its identifier, its label in the index, or its number."""
    ids = [frame[column.name].astype("object") for column in columns if column.type == ColumnType.ID]
    numbers = range(1, len(frame) + 1)
    return tuple(map(str, ids[0] if ids else index if index.dtype.kind == "O" else numbers))


def as_texts(column: pd.Series) -> list[str]:
    """Cells (n,) as texts, empty for missing ones."""
    return list(column.astype("object").map(str, na_action="ignore").fillna(""))
