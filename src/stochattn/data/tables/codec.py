"""Tables: rows of a data frame to features and back, with columns, dtypes, formats and missing cells as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import suggestion
from ..._backend.state import Plain
from ...generators.restriction import FeatureObservation
from .. import lazy_pandas as pd
from ..base import Codec, Conditioned
from ..delimited import read_table
from ..delimited_cells import Style
from ..frames import frame_of
from ..options import InputError, listed
from ..ranges import Range
from .cells import Cells, cells_of, equal_cells
from .columns import Column, ColumnType, Levels, Source, Value
from .conditions import Several, both, region_of, restriction
from .differences import Difference, Pair, chosen_differences, pairs_of, stated_differences, turned
from .files import frame_state
from .formulas import formula_columns, formula_note
from .imputation import Filling
from .inference import LABELS, TableOptions, fit_columns
from .relation_conditions import given_relations
from .relation_search import found_relations
from .relation_texts import NONE, stated_relations
from .relations import Relation, enforce
from .usable_rows import as_texts, row_names, usable_rows

if TYPE_CHECKING:
    from .relations import CellArray

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
    differences: columns whose feature is their distance from another one, bases before what is coded from them
    unturned:    the codec without conditions, of one whose differences were turned round for some; else None
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
    differences: tuple[Difference, ...] = ()
    unturned: TableCodec | None = None

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
        coded_from: Sequence[Pair] | None = None,
    ) -> TableCodec:
        """A codec of a data frame; `notes` are those on how it was read.

        coded_from: columns that are coded by their distance from another one, and the latter; None to choose them
        """
        options, source = options or TableOptions(), source or Source()
        stored, rows, left_out = usable_rows(frame, options, source)
        source = source._replace(lines=tuple(source.lines[row] for row in rows) if source.lines else ())
        cells = cells_of(stored)
        columns, on_columns = fit_columns(cells, options, source)
        classes = [c.name for c in columns if isinstance(c.transform, Levels) and c.name.strip().lower() in LABELS]
        label = options.label or (classes[0] if len(classes) == 1 else None)
        labels = None if label is None else tuple(as_texts(stored[label]))
        if options.constraints is None:
            relations = found_relations(columns, cells, label)
        else:
            relations = stated_relations(options.constraints, columns, cells)
        by_name = {column.name: column for column in columns}
        if coded_from is None:
            differences = chosen_differences(by_name, cells, relations)
        else:
            differences = stated_differences(coded_from, by_name, cells, relations)
        filling = Filling.fit(_encoded(columns, cells, differences))
        kept = (f"{KEPT}{listed(list(map(str, relations)))}",) if relations else ()
        K, p = filling.filled.shape
        few_rows = (FEATURES_NOTE.format(p=p, K=K),) if p > MAX_FEATURES_PER_ROW * K else ()
        formulas = formula_note(_formulas(cells, columns), options.safe_csv)
        notes = (*notes, *left_out, *on_columns, *few_rows, *formulas, *kept)
        ids = row_names(stored, columns, frame.index[rows])
        fitted = stored, tuple(columns), filling, options, style or Style(), source
        return cls(*fitted, ids, label, labels, notes, relations, differences=differences)

    def encode(self, items: pd.DataFrame) -> Array:
        """Rows of a table as features: (n, p). Missing cells get their conditional means given the rest of the row."""
        return self.filling.fill(_encoded(self.columns, cells_of(items), self.differences))

    def decode(self, arrays: Array, source: Array | None = None) -> pd.DataFrame:
        """Features (n, p) as a data frame of n rows.

        Cells that are not modelled, and which cells are missing, are those of the stored rows `source` (n,).
        """
        if source is None:
            raise ValueError("source must name the stored row of each row: cells that are not modelled are its own.")
        known, places = self.by_name, dict(zip(self.by_name, self.blocks, strict=True))
        distances = {one.name: one for one in self.differences}
        whole: dict[str, CellArray] = {}
        for name in [*(name for name in known if name not in distances), *distances]:
            if name in distances:
                one = distances[name]
                whole[name] = one.cells(known, whole[one.base], arrays[:, places[name]][:, 0])
            elif known[name].type == ColumnType.ID:
                whole[name] = known[name].numbered(0, len(source)).array
            elif known[name].transform is None:
                whole[name] = self.stored[name].array.take(source)
            else:
                whole[name] = known[name].array(arrays[:, places[name]])
        cells = {name: whole[name] for name in known}
        for name, missing in self._missing.items():
            if known[name].transform is not None:
                cells[name] = pd.Series(whole[name], dtype=known[name].dtype).mask(missing[source]).array
        if self.relations:
            enforce(self.relations, known, self.stored, cells, self.conditioned)
        return frame_of(cells)

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """The columns by name."""
        return {column.name: column for column in self.columns}

    @cached_property
    def coded(self) -> tuple[Column, ...]:
        """The columns with the transforms of their features, which may be those of distances from another column."""
        scales = {one.name: one.ranks for one in self.differences}
        return tuple(replace(one, transform=scales[one.name]) if one.name in scales else one for one in self.columns)

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
        parts = zip(self.coded, self.blocks, strict=True)  # equivalent: each column has a block
        return np.concatenate([column.jittered(features[:, own], rng, amount) for column, own in parts], axis=1)

    def condition(self, values: Mapping[str, Value | Several]) -> Conditioned:
        """Cells that new rows must have, by column: one value each, a range, or several values of which one is met.

        Generators are given positions (r,) and values (r,) of features, and the region of others.
        """
        values = given_relations(self, values)
        if (suited := self.suited_to(values)) is not self:
            return suited.condition(values)
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

    def suited_to(self, conditions: Mapping[str, Value | Several]) -> TableCodec:
        """The codec in which columns that are conditioned on have their own scale; always the same one for these."""
        return self.with_own_scales(given_relations(self, conditions).keys() if conditions else frozenset())

    def with_own_scales(self, names: AbstractSet[str]) -> TableCodec:
        """The codec in which these columns have their own scale, which does not depend on those that had it before."""
        differences = turned((first := self.unturned or self).differences, names)
        if (pairs := pairs_of(differences)) not in first._turned:
            filling = Filling.fit(_encoded(self.columns, cells_of(self.stored), differences))
            first._turned[pairs] = replace(first, differences=differences, filling=filling, unturned=first)
        return first._turned[pairs]

    @cached_property
    def _turned(self) -> dict[tuple[Pair, ...], TableCodec]:
        return {pairs_of(self.differences): self}

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
        return np.stack([equal_cells(*(items[name] for items in cells)) for name in names], axis=1)

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
        pairs, source = pairs_of((self.unturned or self).differences), self.source._replace(lines=())
        fitted = TableCodec.fit(items, same._resolved, self.style, source, coded_from=pairs)
        return fitted.with_own_scales(self._own_scales)

    @property
    def _own_scales(self) -> frozenset[str]:
        """The columns that are not coded by their distance from another one."""
        return frozenset(self.by_name) - {one.name for one in self.differences}

    @property
    def _resolved(self) -> TableOptions:
        """The options, with the types and the label that were inferred."""
        types = {column.name: str(column.type) for column in self.columns}
        relations = [str(one) for one in self.relations] or [NONE]
        return replace(self.options, columns=types, label=self.label, constraints=relations)

    def state(self) -> dict[str, Plain]:
        read = {"style": asdict(self.style), "source": tuple(self.source), "ids": self.ids, "notes": self.notes}
        pairs = pairs_of((self.unturned or self).differences)
        read |= {"coded_from": pairs, "own_scales": sorted(self._own_scales)}
        return {"frame": frame_state(self.stored), "options": asdict(self._resolved), **read}


def _formulas(table: Mapping[str, Cells], columns: Sequence[Column]) -> tuple[str, ...]:
    return formula_columns(table, {column.name for column in columns if column.type != ColumnType.ID})


def _encoded(columns: Sequence[Column], cells: Mapping[str, Cells], differences: Sequence[Difference]) -> Array:
    known, distances = {column.name: column for column in columns}, {one.name: one for one in differences}
    blocks = (
        distances[one.name].features(known, cells) if one.name in distances else one.features(cells[one.name])
        for one in columns
    )
    return np.concatenate(list(blocks), axis=1)
