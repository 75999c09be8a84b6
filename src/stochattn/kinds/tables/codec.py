"""Tables: rows of a data frame to features and back, with the same columns, dtypes, formats and missing cells.

Missing features are filled with their conditional means under a Gaussian.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import suggest_names
from ..._backend.state import Plain
from .. import lazy_pandas as pd
from ..codec import Codec, Conditioned, Range
from ..delimited.cells import AMOUNTS, Style
from ..delimited.formulas import formula_note, is_formula
from ..delimited.notations import TextNotation
from ..delimited.reading import TableFile, read_table
from ..native import FrameType, Native, frame_of
from ..options import InputError, listed
from ..regions import FeatureObservation
from .columns.cells import CellArray, Cells, cells_of, equal_cells
from .columns.columns import Column, Levels, Source, number_rows
from .columns.inference import LABELS, as_strings, check_rows, find_repeated_ids, fit_columns, row_names, usable_rows
from .conditions import Condition, intersect, region_of, resolve_relations, restrict
from .description import ColumnType, TableOptions
from .relations.differences import Difference, Pair, choose_differences, list_pairs, orient, restore_differences
from .relations.discovery import NONE, discover_relations, parse_relations
from .relations.relations import Relation, enforce, index_by_target
from .writing import frame_state


def read_with_options(path: Path, options: TableOptions, parts: Sequence[Path] = ()) -> TableFile:
    """The table in a file, or in `parts`, read as the options say."""
    return read_table(path, options.header, parts, options.sheet, options.transpose, options.columns)


N_ROUNDS = 5
"""Rounds of filling missing features and fitting the Gaussian that fills them."""


@dataclass(frozen=True, eq=False)
class Filling:
    """A Gaussian N(mean, share · XᵀX/K + ridge · I) of features, where X (K, p) are filled and centered."""

    mean: Array
    filled: Array
    centered: Array
    share: float
    ridge: float

    @classmethod
    def fit(cls, features: Array) -> Filling:
        """The Gaussian of features (K, p) with NaN for missing features."""
        missing = np.isnan(features)
        means = np.where(missing, 0.0, features).sum(0) / np.maximum((~missing).sum(0), 1)
        gaussian = cls._of(np.where(missing, means, features))
        for _ in range(N_ROUNDS if missing.any() else 0):
            gaussian = cls._of(gaussian.fill(features))
        return gaussian

    @classmethod
    def _of(cls, filled: Array) -> Filling:
        mean = filled.mean(0)
        centered = filled - mean
        shrinkage, level = _shrinkage(centered), float(np.square(centered).mean())
        return cls(mean, filled, centered, 1 - shrinkage, max(shrinkage, 1e-6) * level)

    def fill(self, features: Array) -> Array:
        """Features (n, p) with each NaN replaced by its mean given the other features of the row."""
        missing = np.isnan(features)
        filled = features.copy()
        patterns, which = np.unique(np.packbits(missing, axis=1), axis=0, return_inverse=True)
        for pattern in range(len(patterns)):
            rows = np.flatnonzero(which.ravel() == pattern)
            is_missing = missing[rows[0]]
            if is_missing.any():
                deviations = features[np.ix_(rows, ~is_missing)] - self.mean[~is_missing]
                filled[np.ix_(rows, is_missing)] = self.mean[is_missing] + self._predict(deviations, is_missing)
        return filled

    def _predict(self, deviations: Array, is_missing: Array) -> Array:
        """Mean of the missing features given the present ones (n, p − m), both centered: (n, m)."""
        present, missing = np.flatnonzero(~is_missing), np.flatnonzero(is_missing)
        (K, p), weight = self.centered.shape, self.share / len(self.centered)
        if p <= K:
            products, cross = (self._products[np.ix_(present, places)] for places in (present, missing))
        else:
            x, absent = self.centered[:, present], self.centered[:, missing]
            if len(present) > K:
                # (aXᵀX + bI)⁻¹Xᵀ = Xᵀ(aXXᵀ + bI)⁻¹: with more features than rows, the matrix of rows is smaller. It is
                # that of all features, which is computed once, less that of the missing features, where these are few.
                products = self._products - absent @ absent.T if 2 * len(missing) < len(present) else x @ x.T
                inner = weight * products + self.ridge * np.eye(K)
                return np.asarray(weight * np.linalg.solve(inner, x @ deviations.T).T @ absent)
            products, cross = x.T @ x, x.T @ absent
        inner = weight * products + self.ridge * np.eye(len(present))
        return np.asarray(weight * np.linalg.solve(inner, deviations.T).T @ cross)  # never (n, K)

    @cached_property
    def _products(self) -> Array:
        """Products of the features (p, p), or of the centered rows (K, K) where these are fewer."""
        x = self.centered
        return np.asarray(x.T @ x if x.shape[1] <= len(x) else x @ x.T)


def _shrinkage(centered: Array) -> float:
    """Ledoit and Wolf's shrinkage of the covariance of centered rows (K, p), at a cost of K p min(K, p)."""
    K, p = centered.shape
    # Scikit-learn's function always forms the (p, p) products; the (K, K) products have the same norm.
    products = centered @ centered.T if p > K else centered.T @ centered
    level = float(np.square(centered).sum()) / (K * p)
    square = float(np.square(products).sum()) / K**2
    distance = (square - p * level**2) / p
    error = (float(np.square(np.square(centered).sum(1)).sum()) / K - square) / (p * K)
    return min(error, distance) / distance if distance > 0 and error > 0 else 0.0


MAX_FEATURES_PER_ROW = 10
"""Features per row, beyond which a note says that there are few rows."""
FEATURES_NOTE = (
    "{p:,} features and {K} rows: new rows vary only along the directions that the stored rows span. If the file is "
    "transposed, with one column per example, pass transpose=True"
)
MAX_FREE_COPIES = 3
"""With so few columns that vary freely, copies of stored rows arise by chance, and are not drawn again."""
HASH_FACTOR, MISSING_HASH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
"""Arbitrary odd numbers: the factor of hashes of rows, and the hash of missing cells, as that of 0.0 is zero."""
REPEATED = (
    "column {0!r} repeats beside {1!r}, so rows with the same {0!r} are not independent; new rows are drawn one by "
    "one, and form no series over {1!r}"
)
KEPT = "every new row meets what all stored rows do: "
CANDIDATES = "all stored rows have {}, which may be chance: new rows need not meet it unless constraints state it"


@dataclass(frozen=True, eq=False)
class TableCodec(Codec):
    """Rows of a table, as pandas data frames. Make one with `read` or `fit`.

    label:       the column that holds classes, or None
    relations:   between columns, which every new row meets
    conditioned: columns with a condition, whose new cells are never missing
    differences: columns whose feature is their distance from another column, each after that of its base
    frame_type:  of the frames that users get, where these are not of pandas
    original:    the codec without conditions, where differences were swapped for conditions; else None
    unconditioned: of a codec with conditions, the one of the same features without them
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
    original: TableCodec | None = None
    unconditioned: TableCodec | None = None
    frame_type: FrameType | None = None

    @classmethod
    def read(cls, path: Path, options: TableOptions | None = None, parts: Sequence[Path] = ()) -> TableCodec:
        """A codec of the table in a file, or in `parts`: delimited text, a spreadsheet, Parquet, .npy or Zarr."""
        options = options or TableOptions()
        return cls.of_file(read_with_options(path, options, parts), path, options)

    @classmethod
    def of_file(cls, table: TableFile, path: Path, options: TableOptions) -> TableCodec:
        """A codec of a table that was read from a file."""
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
        notations: Mapping[str, TextNotation] = MappingProxyType({}),
    ) -> TableCodec:
        """A codec of a data frame; `notes` are those on how it was read.

        coded_from: columns that are coded by their distance from another column, each with that; None to choose them
        notations:  of columns that were fitted on more rows than these
        """
        options, source = options or TableOptions(), source or Source()
        stored, rows, left_out = usable_rows(frame, options, source)
        source = source._replace(lines=tuple(source.lines[row] for row in rows) if source.lines else ())
        cells = cells_of(stored)
        columns, on_columns = fit_columns(cells, options, source, notations)
        classes = [c.name for c in columns if isinstance(c.transform, Levels) and c.name.strip().lower() in LABELS]
        label = options.label or (classes[0] if len(classes) == 1 else None)
        labels = None if label is None else tuple(as_strings(stored[label]))
        if options.constraints is None:
            relations, candidates = discover_relations(columns, cells, label)
        else:
            relations, candidates = parse_relations(options.constraints, columns, cells, coded_from is None), ()
        by_name = {column.name: column for column in columns}
        if coded_from is None:
            differences = choose_differences(by_name, cells, relations)
        else:
            differences = restore_differences(coded_from, by_name, cells, relations)
        filling = Filling.fit(_encode(columns, cells, differences))
        K, p = filling.filled.shape
        on_table = [FEATURES_NOTE.format(p=p, K=K)] if p > MAX_FEATURES_PER_ROW * K else []
        on_table += formula_note(_list_formulas(cells, columns), options.safe_csv)
        on_table += [f"{KEPT}{listed(list(map(str, relations)))}"] if relations else []
        on_table += [CANDIDATES.format(listed(list(map(str, candidates)), 6))] if candidates else []
        repeated = find_repeated_ids(columns, cells)
        on_table += [] if repeated is None else [REPEATED.format(*repeated)]
        ids = row_names(stored, columns, frame.index[rows])
        fitted = stored, tuple(columns), filling, options, style or Style(), source
        notes = (*notes, *left_out, *on_columns, *on_table)
        return cls(*fitted, ids, label, labels, notes, relations, differences=differences)

    def encode(self, items: pd.DataFrame) -> Array:
        """Rows of a table as features: (n, p). Missing cells get their conditional means given the rest of the row."""
        return self.filling.fill(_encode(self.columns, cells_of(items), self.differences))

    def decode(self, arrays: Array, source: Array | None = None) -> pd.DataFrame:
        """Features (n, p) as a data frame of n rows.

        Cells of columns that are not modeled, and missing cells, are those of the stored rows `source` (n,).
        """
        if source is None:
            raise ValueError("source must name the stored row of each new row, for columns that are not modeled.")
        columns, blocks = self.by_name, dict(zip(self.by_name, self.blocks, strict=True))
        differences = {difference.name: difference for difference in self.differences}
        cells: dict[str, CellArray] = {}
        for name, column in columns.items():
            if column.type == ColumnType.ID:
                cells[name] = column.make_ids(0, len(source)).array
            elif column.transform is None:
                cells[name] = self.stored[name].array.take(source)
            elif name not in differences:
                cells[name] = column.array(arrays[:, blocks[name]])
        for name, difference in differences.items():
            cells[name] = difference.cells(columns, cells[difference.base], arrays[:, blocks[name]][:, 0])
        cells = {name: cells[name] for name in columns}
        for name, missing in self._missing.items():
            if columns[name].transform is not None:
                cells[name] = pd.Series(cells[name], dtype=columns[name].dtype).mask(missing[source]).array
        if self.relations:
            enforce(self.relations, columns, self.stored, cells, self.conditioned, source)
        return frame_of(cells)

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """The columns by name."""
        return {column.name: column for column in self.columns}

    @cached_property
    def coded(self) -> tuple[Column, ...]:
        """The columns with the transforms of their features, which may be distances from another column."""
        scales = {difference.name: difference.ranks for difference in self.differences}
        return tuple(replace(column, transform=scales.get(column.name, column.transform)) for column in self.columns)

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """The features of each column."""
        ends = np.cumsum([column.width for column in self.columns]).tolist()
        return tuple(slice(end - column.width, end) for column, end in zip(self.columns, ends, strict=True))

    @cached_property
    def _missing(self) -> dict[str, Array]:
        """Columns whose new cells can be missing, each with booleans (K,) of its missing stored cells."""
        if self.options.missing == "impute":
            return {}
        missing = zip(self.stored, self.stored.isna().to_numpy().T, strict=True)
        return {name: cells for name, cells in missing if cells.any() and name not in self.conditioned}

    @cached_property
    def formulas(self) -> tuple[str, ...]:
        """Columns whose new cells, or whose names, may be strings that spreadsheets run as formulas."""
        return _list_formulas(cells_of(self.stored), self.columns)

    def jitter(self, features: Array, rng: np.random.Generator, amount: float) -> Array:
        """Features (n, p) moved among those that decode to the same cells; categories by `amount` of the way."""
        parts = zip(self.coded, self.blocks, strict=True)
        return np.concatenate([column.jitter(features[:, block], rng, amount) for column, block in parts], axis=1)

    def condition(self, values: Mapping[str, Condition]) -> Conditioned:
        """Condition new rows on the cells of columns: on one value, a range, or one of several values.

        The condition of a generator has positions (r,) and values (r,) of features, and a region of other features.
        """
        values = resolve_relations(self, values)
        return self.with_scales_of(values.keys())._impose(values)

    def _impose(self, values: Mapping[str, Condition]) -> Conditioned:
        every = np.arange(self.blocks[-1].stop)
        places = {name: every[self.blocks[self.position(name)]] for name in values}
        fixed, limited, notes = {}, {}, []
        for name, value in values.items():
            column, notation = self.by_name[name], self.style.notation(name)
            if isinstance(value, Range | AbstractSet | list | tuple):
                limited[name] = restrict(column, value, notation)
                notes += [limited[name].note] if limited[name].note else []
            else:
                fixed[name], is_beyond = column.condition(value, notation)
                notes += [f"{name}={value} lies beyond the stored values of column {name!r}"] if is_beyond else []
        positions = np.concatenate([every[:0], *(places[name] for name in fixed)])
        features = np.concatenate([np.empty(0), *fixed.values()])
        codec = replace(self, conditioned=self.conditioned | set(values), unconditioned=self)
        if not limited:
            return Conditioned(codec, (positions, features), tuple(notes))
        region = region_of((places[name], restriction) for name, restriction in limited.items())
        return Conditioned(codec, FeatureObservation(positions, features, region), tuple(notes))

    def with_scales_of(self, names: AbstractSet[str]) -> TableCodec:
        """The codec in which these columns have their own scale, whatever columns have it now."""
        original = self.original or self
        differences = orient(original.differences, names)
        if (pairs := list_pairs(differences)) not in original._oriented:
            filling = Filling.fit(_encode(self.columns, cells_of(self.stored), differences))
            codec = replace(original, differences=differences, filling=filling, original=original)
            original._oriented[pairs] = codec
        return original._oriented[pairs]

    @cached_property
    def _oriented(self) -> dict[tuple[Pair, ...], TableCodec]:
        """Codecs by the columns that are coded by a distance."""
        return {list_pairs(self.differences): self}

    def combine(self, name: str, first: Condition, second: Condition) -> Condition:
        return intersect(self.by_name[name], first, second, self.style.notation(name))

    def position(self, name: str) -> int:
        """The position of a column; InputError for an unknown name."""
        if name in (names := [column.name for column in self.columns]):
            return names.index(name)
        names = [column.name for column in self.columns if column.width]
        offered = f"{suggest_names(str(name), names)}Name one of {listed(names)}."
        raise InputError(f"condition: there is no column {name!r}. {offered}")

    def same(self, first: pd.DataFrame, second: pd.DataFrame) -> Array:
        """Which cells of two tables are equal, without identifiers: (n, columns). Two missing cells are equal."""
        names = [column.name for column in self.columns if column.type != ColumnType.ID]
        cells = [cells_of(items) for items in (first, second)]
        return np.stack([equal_cells(*(items[name] for items in cells)) for name in names], axis=1)

    def check_items(self, items: object) -> pd.DataFrame:
        return super().check_items(check_rows(self.columns, items))

    def exact_copies(self, items: pd.DataFrame) -> Array | None:
        """Which rows equal a row that is stored once, without identifiers; None where few columns vary freely."""
        computed = index_by_target(self.relations)
        if sum(column.width > 0 and column.name not in computed for column in self.columns) <= MAX_FREE_COPIES:
            return None
        return np.isin(self._row_hashes(items), self._unique_rows)

    @property
    def share_repeated(self) -> float:
        """The share of stored rows that equal another stored row, without identifiers."""
        return 1 - len(self._unique_rows) / self.K

    @cached_property
    def _unique_rows(self) -> Array:
        hashes, counts = np.unique(self._row_hashes(self.stored), return_counts=True)
        return np.asarray(hashes[counts == 1])

    def _row_hashes(self, items: pd.DataFrame) -> Array:
        """64-bit hashes (n,) of rows, without identifiers."""
        total = np.zeros(len(items), dtype=np.uint64)
        for column in self.columns:
            if column.type != ColumnType.ID:
                cells = items[column.name]
                hashes = np.where(cells.isna(), MISSING_HASH, pd.util.hash_pandas_object(cells, index=False))
                total = total * HASH_FACTOR + hashes  # wraps around
        return total

    def take(self, items: pd.DataFrame, indices: Array) -> pd.DataFrame:
        return items.iloc[np.asarray(indices)].reset_index(drop=True)

    def join(self, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
        return pd.concat(parts, ignore_index=True)

    def to_user(self, items: pd.DataFrame) -> Native:
        """The frame, of the library of the stored one, with its identifiers numbered from the first row to the last."""
        rows = number_rows(self.columns, items, 0)
        return rows if self.frame_type is None else self.frame_type.frame(rows)

    def refit(self, items: pd.DataFrame) -> TableCodec:
        """The codec of other rows, with the same types, and the relations between columns that still vary."""
        varying = {name for name in items.columns if items[name].nunique() > 1}
        relations = tuple(relation for relation in self.relations if varying.issuperset(relation.names))
        options = replace(self, relations=relations)._resolved
        pairs, source = list_pairs((self.original or self).differences), self.source._replace(lines=())
        amounts = [column for column in self.columns if column.type in AMOUNTS]
        notations = {column.name: column.notation for column in amounts if column.notation is not None}
        fitted = TableCodec.fit(items, options, self.style, source, coded_from=pairs, notations=notations)
        return fitted.with_scales_of(self._own_scales)

    @property
    def _own_scales(self) -> frozenset[str]:
        """The columns that are not coded by their distance from another column."""
        return frozenset(self.by_name) - {difference.name for difference in self.differences}

    @property
    def _resolved(self) -> TableOptions:
        """The options, with the types and the label that were inferred."""
        types = {column.name: str(column.type) for column in self.columns}
        relations = list(map(str, self.relations)) or [NONE]
        return replace(self.options, columns=types, label=self.label, constraints=relations)

    def state(self) -> dict[str, Plain]:
        read = {"style": asdict(self.style), "source": tuple(self.source), "ids": self.ids, "notes": self.notes}
        pairs = list_pairs((self.original or self).differences)
        read |= {"coded_from": pairs, "own_scales": sorted(self._own_scales)}
        type = None if self.frame_type is None else self.frame_type.state()
        return {"frame": frame_state(self.stored), "frame_type": type, "options": asdict(self._resolved), **read}


def _list_formulas(table: Mapping[str, Cells], columns: Sequence[Column]) -> tuple[str, ...]:
    """Columns with cells or names that a spreadsheet would run as formulas; ids count by their name alone."""
    names = {column.name for column in columns if column.type != ColumnType.ID}
    strings = {name: set(cells.objects) for name, cells in table.items() if name in names and cells.dtype.kind == "O"}
    return tuple(name for name in table if any(map(is_formula, (name, *strings.get(name, ())))))


def _encode(columns: Sequence[Column], cells: Mapping[str, Cells], differences: Sequence[Difference]) -> Array:
    """Features (n, p) of cells, NaN for missing ones."""
    by_name = {column.name: column for column in columns}
    blocks = {name: column.features(cells[name]) for name, column in by_name.items()}
    blocks |= {difference.name: difference.features(by_name, cells) for difference in differences}
    return np.concatenate(list(blocks.values()), axis=1)
