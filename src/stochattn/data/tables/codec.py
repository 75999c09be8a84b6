"""Tables: rows of a data frame to features and back, with columns, dtypes, formats and missing cells as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ..._backend.arrays import Array
from ..._backend.state import Plain
from ...generators.restriction import FeatureObservation
from .. import lazy_pandas as pd
from ..base import Codec, Conditioned
from ..delimited import read_table
from ..delimited_cells import Style
from ..frames import frame_of
from ..options import InputError, listed
from ..ranges import Range
from .cells import Cells, cells_of
from .columns import Column, ColumnType, Levels, Source, Value, suggestion
from .conditions import Several, both, region_of, restriction
from .files import frame_state
from .formulas import formula_columns, formula_note
from .imputation import Filling
from .inference import LABELS, TableOptions, fit_columns
from .relation_conditions import given_relations
from .relation_search import found_relations
from .relation_texts import NONE, stated_relations
from .relations import Relation, enforce

MAX_FEATURES_PER_ROW = 10
"""Features per row, beyond which a note says that rows are few."""
FEATURES_NOTE = (
    "{p:,} features and {K} rows: new rows vary only along the directions that the stored rows span. If the file is "
    "transposed, with one column per example, turn it round"
)

KEPT = "every new row meets what all stored rows do: "


@dataclass(frozen=True, eq=False)
class TableCodec(Codec):
    """Rows of a table, as pandas data frames. Make one with `read` or `fit`.

    label:       the column that holds classes, or None
    relations:   between columns, which every new row meets
    conditioned: columns whose new cells are never missing, because they are conditioned on
    """

    stored: pd.DataFrame
    columns: tuple[Column, ...]
    filling: Filling
    options: TableOptions
    style: Style
    source: Source
    ids: tuple[str, ...]
    label: str | None
    labels: tuple[str, ...] | None
    notes: tuple[str, ...]
    relations: tuple[Relation, ...] = ()
    conditioned: frozenset[str] = frozenset()

    @classmethod
    def read(cls, path: Path, options: TableOptions | None = None, parts: Sequence[Path] = ()) -> TableCodec:
        """A codec of the table in a file, or in `parts`: delimited text, Parquet, or a matrix in .npy or Zarr."""
        options = options or TableOptions()
        table = read_table(path, options.header, parts)
        source = Source(str(path), table.lines, day_first=table.style.decimal == ",")
        return cls.fit(table.frame, options, table.style, source, table.notes)

    @classmethod
    def fit(
        cls,
        frame: pd.DataFrame,
        options: TableOptions | None = None,
        style: Style | None = None,
        source: Source | None = None,
        notes: tuple[str, ...] = (),
    ) -> TableCodec:
        """A codec of a data frame; `notes` are those on how it was read."""
        options, source = options or TableOptions(), source or Source()
        stored, rows, left_out = _checked(frame, options, source)
        source = source._replace(lines=tuple(source.lines[row] for row in rows) if source.lines else ())
        cells = cells_of(stored)
        columns, on_columns = fit_columns(cells, options, source)
        filling = Filling.fit(_encoded(columns, cells))
        classes = [c.name for c in columns if isinstance(c.transform, Levels) and c.name.strip().lower() in LABELS]
        label = options.label or (classes[0] if len(classes) == 1 else None)
        labels = None if label is None else tuple(as_texts(stored[label]))
        if options.constraints is None:
            relations = found_relations(columns, cells, label)
        else:
            relations = stated_relations(options.constraints, columns, cells)
        kept = (f"{KEPT}{listed(list(map(str, relations)))}",) if relations else ()
        K, p = filling.filled.shape
        few_rows = (FEATURES_NOTE.format(p=p, K=K),) if p > MAX_FEATURES_PER_ROW * K else ()
        formulas = formula_note(_formulas(cells, columns), options.safe_csv)
        notes = (*notes, *left_out, *on_columns, *few_rows, *formulas, *kept)
        ids = _row_names(stored, columns, frame.index[rows])
        fitted = stored, tuple(columns), filling, options, style or Style(), source
        return cls(*fitted, ids, label, labels, notes, relations)

    def encode(self, items: pd.DataFrame) -> Array:
        """Rows of a table as features: (n, p). Missing cells get their conditional means given the rest of the row."""
        return self.filling.fill(_encoded(self.columns, cells_of(items)))

    def decode(self, arrays: Array, source: Array | None = None) -> pd.DataFrame:
        """Features (n, p) as a data frame of n rows.

        Cells that are not modelled, and which cells are missing, are those of the stored rows `source` (n,).
        """
        if source is None:
            raise ValueError("source must name the stored row of each row: cells that are not modelled are its own.")
        cells = {}
        for column, own in zip(self.columns, self.blocks, strict=True):
            missing = self._missing.get(column.name)
            if column.type == ColumnType.ID:
                cells[column.name] = column.numbered(0, len(source)).array
            elif column.transform is None:
                cells[column.name] = self.stored[column.name].array.take(source)
            elif missing is None:
                cells[column.name] = column.array(arrays[:, own])
            else:
                cells[column.name] = column.cells(arrays[:, own]).mask(missing[source]).array
        if self.relations:
            enforce(self.relations, {c.name: c for c in self.columns}, self.stored, cells, self.conditioned)
        return frame_of(cells)

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """The features of each column."""
        ends = np.cumsum([column.width for column in self.columns]).tolist()
        return tuple(slice(end - column.width, end) for column, end in zip(self.columns, ends, strict=True))

    @cached_property
    def _missing(self) -> dict[str, Array]:
        """Columns whose new cells can be missing, and which of their stored cells are: (K,) booleans."""
        if self.options.missing == "impute":
            return {}
        missing = zip(self.stored, self.stored.isna().to_numpy().T, strict=True)  # equivalent: as many names as columns
        return {name: cells for name, cells in missing if cells.any() and name not in self.conditioned}

    @cached_property
    def formulas(self) -> tuple[str, ...]:
        """Columns whose new cells, or whose names, may be texts that spreadsheets run as formulas."""
        return _formulas(cells_of(self.stored), self.columns)

    def jittered(self, features: Array, rng: np.random.Generator, amount: float) -> Array:
        """Features (n, p) moved among those that decode to the same cells; categories by `amount` of the way."""
        parts = zip(self.columns, self.blocks, strict=True)  # equivalent: each column has a block
        return np.concatenate([column.jittered(features[:, own], rng, amount) for column, own in parts], axis=1)

    def condition(self, values: Mapping[str, Value | Several]) -> Conditioned:
        """Cells that new rows must have, by column: one value each, a range, or several values of which one is met.

        Generators are given positions (r,) and values (r,) of features, and the region of others.
        """
        values = given_relations(self, values)
        at, every = {name: self.position(name) for name in values}, np.arange(self.blocks[-1].stop)
        places, fixed, limited, notes = {name: every[self.blocks[at[name]]] for name in values}, {}, {}, []
        for name, value in values.items():
            column, notation = self.columns[at[name]], self.style.notation(name)
            if isinstance(value, Range | AbstractSet | list | tuple):
                limited[name] = restriction(column, value, notation)
                notes += [limited[name].note] if limited[name].note else []
            else:
                fixed[name], is_beyond = column.condition(value, notation)
                notes += [f"{name}={value} lies beyond the stored values of column {name!r}"] if is_beyond else []
        positions = np.concatenate([every[:0], *(places[name] for name in fixed)])
        features = np.concatenate([np.empty(0), *fixed.values()])
        codec, observation = replace(self, conditioned=self.conditioned | set(values)), (positions, features)
        if limited:
            region = region_of((places[name], one) for name, one in limited.items())
            return Conditioned(codec, FeatureObservation(*observation, region), tuple(notes))
        return Conditioned(codec, observation, tuple(notes))

    def both(self, name: str, first: Value | Several, second: Value | Several) -> Value | Several:
        return both(self.columns[self.position(name)], first, second, self.style.notation(name))

    def position(self, name: str) -> int:
        """The place of a column among the columns; InputError where there is none of this name."""
        if name in (names := [column.name for column in self.columns]):
            return names.index(name)
        names = [column.name for column in self.columns if column.width]
        offered = f"{suggestion(str(name), names)}Name one of {listed(names)}."
        raise InputError(f"condition: there is no column {name!r}. {offered}")

    def same(self, first: pd.DataFrame, second: pd.DataFrame) -> Array:
        """Which cells of two tables are equal, two missing ones counted as equal; without identifiers: (n, columns)."""
        names = [column.name for column in self.columns if column.type != ColumnType.ID]
        cells = [cells_of(items) for items in (first, second)]
        return np.stack([_equal(*(items[name] for items in cells)) for name in names], axis=1)

    def take(self, items: pd.DataFrame, indices: Array) -> pd.DataFrame:
        return items.iloc[np.asarray(indices)].reset_index(drop=True)

    def join(self, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
        return pd.concat(parts, ignore_index=True)

    def to_user(self, items: pd.DataFrame) -> pd.DataFrame:
        """The frame, with its identifiers numbered from the first row to the last."""
        ids = [column for column in self.columns if column.type == ColumnType.ID]
        return items.assign(**{column.name: column.numbered(0, len(items)) for column in ids})

    def refit(self, items: pd.DataFrame) -> TableCodec:
        """The codec of other rows, with the same types, and the relations between columns that still vary."""
        varying = {name for name in items.columns if items[name].nunique() > 1}
        same = replace(self, relations=tuple(one for one in self.relations if varying.issuperset(one.names)))
        return TableCodec.fit(items, same._resolved, self.style, self.source._replace(lines=()))

    @property
    def _resolved(self) -> TableOptions:
        """The options, with the types and the label that were inferred."""
        types = {column.name: str(column.type) for column in self.columns}
        relations = [str(one) for one in self.relations] or [NONE]
        return replace(self.options, columns=types, label=self.label, constraints=relations)

    def state(self) -> dict[str, Plain]:
        read = {"style": asdict(self.style), "source": tuple(self.source), "ids": self.ids, "notes": self.notes}
        return {"frame": frame_state(self.stored), "options": asdict(self._resolved), **read}


def _formulas(table: Mapping[str, Cells], columns: Sequence[Column]) -> tuple[str, ...]:
    return formula_columns(table, {column.name for column in columns if column.type != ColumnType.ID})


def _encoded(columns: Sequence[Column], cells: Mapping[str, Cells]) -> Array:
    return np.concatenate([column.features(cells[column.name]) for column in columns], axis=1)


def _equal(first: Cells, second: Cells) -> Array:
    """Which cells (n,) of two columns are equal, two missing ones counted as equal."""
    one, other = first.array, second.array
    if first.dtype == second.dtype and first.is_plain:
        return np.asarray((one == other) | ((one != one) & (other != other)))
    if first.dtype == second.dtype and first.dtype.name == "str":  # a missing text is NaN
        if first.objects == second.objects:
            return np.ones(len(first.objects), dtype=bool)
        pairs = zip(first.objects, second.objects, strict=True)
        return np.array([a == b or (a != a and b != b) for a, b in pairs], dtype=bool)
    one, other = (cells.series.to_numpy(dtype=object, na_value=None) for cells in (first, second))
    return np.asarray(one == other)


def _checked(frame: pd.DataFrame, options: TableOptions, source: Source) -> tuple[pd.DataFrame, Array, list[str]]:
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


def _row_names(frame: pd.DataFrame, columns: Sequence[Column], index: pd.Index) -> tuple[str, ...]:
    """A name for each row: its identifier, its label in the index, or its number."""
    ids = [frame[column.name].astype("object") for column in columns if column.type == ColumnType.ID]
    numbers = range(1, len(frame) + 1)
    return tuple(map(str, ids[0] if ids else index if index.dtype.kind == "O" else numbers))


def as_texts(column: pd.Series) -> list[str]:
    """Cells (n,) as texts, empty for missing ones."""
    return list(column.astype("object").map(str, na_action="ignore").fillna(""))
