"""Tables: rows of a data frame to rows of a bank and back, with columns, dtypes, formats and gaps as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from ..._arrays import Array
from ..base import Batch, Codec, Comparison, InputError, Settings, Writer
from ..coordinates import NORMS, Coordinates
from .columns import KINDS, Column, Levels, Source
from .files import DelimitedWriter, ParquetWriter, Style, read_table
from .filling import Filling
from .frames import arrays_of, cast, checked, frame_of
from .kinds import LABELS, fit_column
from .measures import compare


@dataclass(frozen=True)
class TableOptions:
    """What can be chosen about a table.

    columns:  kinds that must not be inferred, by column: one of columns.KINDS
    missing:  "keep": a new row has the missing cells of the stored row it is drawn around; "impute": it is complete
    variance: share of the features' variance to keep in principal components
    whiten:   scale components by a shrunk covariance, so that noise follows the data's own directions. On held-out rows
              it makes no difference that counts; without it, new rows keep the class of their memory more often
    norm:     "whole": rows keep their own lengths; else as in Coordinates
    spread:   "kept": draws move towards the mean by as much as noise spreads them, so that variances and correlations
              stay those of the stored rows (with norm="whole"); "grown": they do not
    ranges:   limits by column, (low, high), None where there is none
    label:    column that holds classes; by default the only one with a name such as target, class or species
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    missing: str = "keep"
    variance: float = 1.0
    whiten: bool = False
    norm: str = "whole"
    spread: str = "kept"
    ranges: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    label: str | None = None

    def __post_init__(self) -> None:
        _choice("missing", self.missing, ("keep", "impute"))
        _choice("norm", self.norm, NORMS)
        _choice("spread", self.spread, ("kept", "grown"))
        for name, kind in self.columns.items():
            _choice(f"the kind of column {name!r}", kind, KINDS)


class TableCodec(Codec):
    """Rows of a table, as pandas data frames. Make one with `read` or `fit`; options are those of TableOptions."""

    kind: ClassVar[str] = "table"
    decodes_classes: ClassVar[bool] = True
    formats: ClassVar[dict[str, tuple[str, ...]]] = {
        "csv": (".csv", ".txt"),
        "tsv": (".tsv", ".tab"),
        "parquet": (".parquet", ".pq"),
    }

    def __init__(
        self,
        frame: Any,
        options: TableOptions,
        style: Style | None = None,
        source: Source | None = None,
        notes: tuple[str, ...] = (),
        coordinates: Coordinates | None = None,
    ) -> None:
        self.options, self.style = options, style or Style()
        self.fixed: tuple[str, ...] = ()
        index = getattr(frame, "index", None)
        drop = [name for name, kind in options.columns.items() if kind == "drop"]
        source = source or Source()
        self.stored, rows, left_out = checked(frame, drop, source)
        self.source = source._replace(lines=tuple(source.lines[row] for row in rows) if source.lines else ())
        self.columns, said = _fit_columns(self.stored, options, self.source)
        self.filling, features = Filling.fit(self._encoded(self.stored))
        self.coordinates = coordinates or _fit_coordinates(features, options, self.source)
        gaps = zip(self.stored, self.stored.isna().to_numpy().T, strict=True)
        self.gaps = {name: gone for name, gone in gaps if gone.any()}
        self.notes = (*notes, *left_out, *said, *self._few_rows(features.shape[1]))
        self.ids = _row_names(self.stored, self.columns, None if index is None else index[rows])
        self.label = options.label or _only_label(self.columns)
        if self.label is not None:
            self.labels = tuple(_as_texts(self.stored[self.label]))

    @classmethod
    def read(cls, path: str | Path, **options: Any) -> TableCodec:
        """A codec of the table in a file: CSV, TSV or other delimited text, Parquet, or a matrix in .npy."""
        table = read_table(Path(path))
        source = Source(str(path), table.lines, day_first=table.style.decimal == ",")
        return cls(table.frame, TableOptions(**options), table.style, source, table.notes)

    @classmethod
    def fit(cls, frame: Any, **options: Any) -> TableCodec:
        """A codec of a data frame."""
        return cls(frame, TableOptions(**options))

    def features(self, items: Any) -> Array:
        """Rows of a table as numbers: (n, p). Missing cells get what the other cells of the row let one expect."""
        return self.filling.fill(self._encoded(items))

    def _encoded(self, frame: Any) -> Array:
        """Features (n, p), NaN for missing cells."""
        return np.concatenate([column.features(frame[column.name]) for column in self.columns], axis=1)

    def factors(self, beta: float | None = None) -> Array:
        """What turns a row drawn around memory k into coordinates: (K, 1) or (K, d).

        With spread="kept", coordinate j shrinks by √(v_j / (v_j + 1/beta)), v_j being its variance among stored rows:
        a draw's covariance is then the stored one, whatever beta.
        """
        if beta is None or self.options.norm != "whole" or self.options.spread != "kept":
            return super().factors(beta)
        variances = self.coordinates.stored.var(0)
        return np.tile(np.sqrt(variances / (variances + 1 / beta)), (self.K, 1))

    def items(self, coordinates: Array, memory: Array, rng: np.random.Generator) -> Any:
        """Coordinates (n, d) as a data frame of n rows; what is not modelled comes from the stored rows `memory`."""
        import pandas as pd

        features = self.coordinates.features(coordinates)
        cells, at = {}, 0
        for column in self.columns:
            if column.kind == "id":
                cells[column.name] = column.numbered(0, len(memory))
            elif column.how is None:
                cells[column.name] = self.stored[column.name].take(memory).reset_index(drop=True)
            else:
                series = column.cells(features[:, at : at + column.width])
                keep = self.options.missing == "keep" and column.name not in self.fixed
                cells[column.name] = (
                    series.mask(self.gaps[column.name][memory]) if keep and column.name in self.gaps else series
                )
            at += column.width
        return pd.DataFrame(cells)

    def same(self, first: Any, second: Any) -> Array:
        """Which cells of two tables are equal, both missing counted as equal; identifiers left out: (n, columns)."""
        equal = [_alike(first[c.name], second[c.name]) for c in self.columns if c.kind != "id"]
        return np.stack(equal, axis=1)

    def take(self, items: Any, indices: Any) -> Any:
        """Some of the rows."""
        return items.iloc[np.asarray(indices)].reset_index(drop=True)

    def classes(self, items: Any, memory: Array) -> Array:
        """What the rows say in the column of classes: (n,)."""
        return np.array(_as_texts(items[self.label]))

    def observe(self, fixes: Iterable[str]) -> tuple[Array, Array]:
        """Texts such as age=40 or species=setosa as linear equations A z = y of coordinates: (r, d), (r,).

        The columns are remembered as `fixed`: `items` leaves none of their cells missing.
        """
        starts = np.cumsum([0] + [column.width for column in self.columns])
        where, values = [np.empty(0, dtype=np.intp)], [np.empty(0)]
        fixed: list[str] = []
        for text in fixes:
            place, value = self._fix(text)
            column = self.columns[place]
            if column.name in fixed:
                raise InputError(f"{text}: column {column.name!r} is fixed twice. Fix it once.")
            features, beyond = column.value(value, self.style.decimal)
            if beyond:
                self.notes += (f"{text} lies beyond the stored values of column {column.name!r}",)
            fixed.append(column.name)
            where.append(np.arange(starts[place], starts[place + 1]))
            values.append(features)
        self.fixed = tuple(fixed)
        return self.coordinates.observation(np.concatenate(where), np.concatenate(values))

    def _fix(self, text: str) -> tuple[int, str]:
        """Position of the column that a text name=value speaks of, and the value; names may themselves have a =."""
        found = [j for j, column in enumerate(self.columns) if text.startswith(f"{column.name}=")]
        if not found:
            names = [column.name for column in self.columns if column.width]
            shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
            raise InputError(f"{text}: write column=value, with one of the columns {shown}.")
        place = max(found, key=lambda j: len(self.columns[j].name))
        return place, text[len(self.columns[place].name) + 1 :]

    def writer(self, place: BinaryIO | Path, format: str, settings: Settings) -> Writer:
        """Something to write new rows with: csv in the style of the file that was read, tsv, or parquet."""
        if isinstance(place, Path):
            raise InputError(f"{place}: a table is one file. Name one that ends with .csv, .tsv or .parquet.")
        _choice("format", format, tuple(self.formats))
        if format == "parquet":
            return _Numbering(self.columns, ParquetWriter(place))
        style = replace(self.style, delimiter="\t") if format == "tsv" else self.style
        return _Numbering(self.columns, DelimitedWriter(place, style))

    def read_new(self, path: Path) -> Any:
        """Rows with the columns of the stored ones, from a file."""
        return cast(read_table(Path(path)).frame, self.columns, str(path))

    def compare(self, items: Any) -> Comparison:
        """New rows against the stored ones: marginals, correlations, copies and gaps."""
        return compare(self.columns, self.stored, items, self.features)

    def refit(self, items: Any) -> TableCodec:
        """A codec with the same options and kinds of columns, fitted on other rows."""
        return TableCodec(items, self._resolved(), self.style, self.source._replace(lines=()))

    def _resolved(self) -> TableOptions:
        """The options, with the kinds and the label that were inferred."""
        return replace(self.options, columns={column.name: column.kind for column in self.columns}, label=self.label)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Options, the stored table and its coordinates: the rest follows from them."""
        frame, arrays = arrays_of(self.stored)
        arrays |= self.coordinates.arrays()
        facts: dict[str, Any] = {
            "options": asdict(self._resolved()),
            "style": asdict(self.style),
            "source": self.source._asdict(),
        }
        return {
            **facts,
            "notes": self.notes,
            "ids": self.ids,
            "frame": frame,
            "kept": self.coordinates.variance,
        }, arrays

    @classmethod
    def from_state(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> TableCodec:
        """The codec of that state."""
        options, source = (
            TableOptions(**facts["options"]),
            Source(**{**facts["source"], "lines": tuple(facts["source"]["lines"])}),
        )
        coordinates = Coordinates.from_arrays(arrays, options.norm, facts["kept"])
        style, frame = Style.from_state(facts["style"]), frame_of(facts["frame"], arrays)
        codec = cls(frame, options, style, source, coordinates=coordinates)
        codec.notes, codec.ids = tuple(facts["notes"]), tuple(facts["ids"])
        return codec

    def _few_rows(self, p: int) -> tuple[str, ...]:
        """A note for a table with far more features than rows."""
        if p <= 10 * len(self.stored):
            return ()
        d = self.coordinates.d
        return (f"{p:,} features and {len(self.stored)} rows: new rows vary along the {d} directions that these span",)


class _Numbering:
    """A writer that gives new rows their identifiers, numbered through all blocks."""

    def __init__(self, columns: tuple[Column, ...], writer: Writer) -> None:
        self.ids, self.writer = [column for column in columns if column.kind == "id"], writer

    def write(self, batch: Batch) -> None:
        """Number these and write them."""
        new = {column.name: column.numbered(batch.first, len(batch.items)) for column in self.ids}
        self.writer.write(batch._replace(items=batch.items.assign(**new)))

    def close(self) -> None:
        """Write what comes after the last of them."""
        self.writer.close()


def _fit_columns(frame: Any, options: TableOptions, source: Source) -> tuple[tuple[Column, ...], list[str]]:
    """The columns of a table, and notes about them."""
    labels = () if options.label is None else (options.label,)
    for what, names in (("columns", options.columns), ("ranges", options.ranges), ("label", labels)):
        for name in names:
            if name not in frame and options.columns.get(name) != "drop":
                there = ", ".join(list(frame)[:12]) + (" and more" if frame.shape[1] > 12 else "")
                raise InputError(f"{what}: there is no column {name!r}. The table has {there}.")
    columns, notes = [], []
    for name in frame:
        label = name == options.label or (options.label is None and name.strip().lower() in LABELS)
        limits = options.ranges.get(name, (None, None))
        column, note = fit_column(frame[name], source, options.columns.get(name), limits, label)
        columns.append(column)
        notes += [] if note is None else [note]
    if not any(column.width for column in columns):
        kinds = ", ".join(f"{column.name!r} is {column.kind}" for column in columns[:6])
        raise InputError(
            f"{source.name or 'the table'}: has no column to model ({kinds}). Add one whose values vary, or set a kind "
            "with columns."
        )
    return tuple(columns), _at_most(notes, 12)


def _alike(first: Any, second: Any) -> Array:
    """Which cells of two columns are equal; two missing ones are."""
    if isinstance(first.dtype, np.dtype) and first.dtype == second.dtype and first.dtype.kind in "iufb":
        one, other = first.to_numpy(), second.to_numpy()
        return np.asarray((one == other) | ((one != one) & (other != other)))
    gone = first.isna().to_numpy(), second.isna().to_numpy()
    one, other = first.astype("object").to_numpy(), second.astype("object").to_numpy()
    alike = [not (a or b) and c == d for a, b, c, d in zip(*gone, one, other, strict=True)]
    return np.asarray(alike, dtype=bool) | (gone[0] & gone[1])


def _at_most(notes: list[str], most: int) -> list[str]:
    return notes if len(notes) <= most else [*notes[:most], f"and {len(notes) - most} more columns likewise"]


def _fit_coordinates(features: Array, options: TableOptions, source: Source) -> Coordinates:
    try:
        return Coordinates.fit(features, variance=options.variance, whiten=options.whiten, norm=options.norm)
    except ValueError as error:
        raise InputError(f"{source.name or 'the table'}: {error}") from None


def _row_names(frame: Any, columns: tuple[Column, ...], index: Any) -> tuple[str, ...]:
    """A name for each row: its identifier, its label in the index, or its number."""
    ids = [column.name for column in columns if column.kind == "id"]
    if ids:
        return tuple(frame[ids[0]].astype("object").map(str))
    if index is not None and index.dtype.kind == "O":
        return tuple(map(str, index))
    return tuple(str(row + 1) for row in range(len(frame)))


def _as_texts(column: Any) -> list[str]:
    return list(column.astype("object").map(str, na_action="ignore").fillna(""))


def _only_label(columns: tuple[Column, ...]) -> str | None:
    """The column that holds classes, if its name says so and no other's does."""
    named = [c.name for c in columns if isinstance(c.how, Levels) and c.name.strip().lower() in LABELS]
    return named[0] if len(named) == 1 else None


def _choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}; got {value!r}.")
