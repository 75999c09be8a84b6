"""Tables: rows of a data frame to rows of a bank and back, with columns, dtypes, formats and gaps as they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

import numpy as np

from ..._backend.arrays import Array
from ...generators.coordinates import Coordinates
from ..legacy import Codec, Comparison, InputError, Settings, Writer
from .columns import Source
from .files import read_table
from .filling import Filling
from .frames import alike, arrays_of, as_texts, cast, checked, frame_of, row_names
from .kinds import fit_columns, only_label
from .measures import compare
from .naming import listed, near
from .options import TableOptions, require_choice
from .style import Style
from .writers import DelimitedWriter, MatrixWriter, Numbering, ParquetWriter

if TYPE_CHECKING:
    from .native import TableSampler


class TableCodec(Codec):
    """Rows of a table, as pandas data frames. Make one with `read` or `fit`; options are those of TableOptions."""

    kind: ClassVar[str] = "table"
    native_name: ClassVar[str] = "covariance kernels"
    decodes_classes: ClassVar[bool] = True
    formats: ClassVar[dict[str, tuple[str, ...]]] = {
        "csv": (".csv", ".txt"),
        "tsv": (".tsv", ".tab"),
        "parquet": (".parquet", ".pq"),
        "npy": (".npy",),
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
        self.columns, said = fit_columns(self.stored, options, self.source)
        self.filling, features = Filling.fit(self._encoded(self.stored))
        self.coordinates = coordinates or _fit_coordinates(features, options, self.source)
        gaps = zip(self.stored, self.stored.isna().to_numpy().T, strict=True)
        self.gaps = {name: gone for name, gone in gaps if gone.any()}
        self.notes = (*notes, *left_out, *said, *self._few_rows(features.shape[1]))
        self.ids = row_names(self.stored, self.columns, None if index is None else index[rows])
        self.label = options.label or only_label(self.columns)
        if self.label is not None:
            self.labels = tuple(as_texts(self.stored[self.label]))

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
        return self.decoded(self.coordinates.features(coordinates), memory)

    def decoded(self, features: Array, memory: Array) -> Any:
        """Features (n, p) as a data frame of n rows; what is not modelled comes from the stored rows `memory`."""
        import pandas as pd

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
        equal = [alike(first[c.name], second[c.name]) for c in self.columns if c.kind != "id"]
        return np.stack(equal, axis=1)

    def take(self, items: Any, indices: Any) -> Any:
        """Some of the rows."""
        return items.iloc[np.asarray(indices)].reset_index(drop=True)

    def classes(self, items: Any, memory: Array) -> Array:
        """What the rows say in the column of classes: (n,)."""
        return np.array(as_texts(items[self.label]))

    def observe(self, fixes: Iterable[str]) -> tuple[Array, Array]:
        """Texts such as age=40 or species=setosa as linear equations A z = y of coordinates: (r, d), (r,)."""
        return self.coordinates.observation(*self.fixed_features(fixes))

    def fixed_features(self, fixes: Iterable[str]) -> tuple[Array, Array]:
        """Positions of the features that texts such as age=40 fix, and their values: (r,), (r,).

        The columns are remembered as `fixed`: decoding leaves none of their cells missing.
        """
        starts = np.cumsum([0] + [column.width for column in self.columns])
        where, values = [np.empty(0, dtype=np.intp)], [np.empty(0)]
        fixed: list[str] = []
        for text in fixes:
            place, value = self._fix(text)
            column = self.columns[place]
            if column.name in fixed:
                raise InputError(f"--fix {text}: column {column.name!r} is fixed twice. Fix it once.")
            features, beyond = column.value(value, self.style.decimal)
            if beyond:
                self.notes += (f"{text} lies beyond the stored values of column {column.name!r}",)
            fixed.append(column.name)
            where.append(np.arange(starts[place], starts[place + 1]))
            values.append(features)
        self.fixed = tuple(fixed)
        return np.concatenate(where), np.concatenate(values)

    def _fix(self, text: str) -> tuple[int, str]:
        """Position of the column that a text name=value speaks of, and the value; names may themselves have a =."""
        found = [j for j, column in enumerate(self.columns) if text.startswith(f"{column.name}=")]
        if not found:
            name, equals, _ = text.partition("=")
            names = [column.name for column in self.columns if column.width]
            wrong = f"there is no column {name!r}. {near(name, names)}Write" if equals else "write"
            raise InputError(f"--fix {text}: {wrong} column=value, with one of the columns {listed(names)}.")
        place = max(found, key=lambda j: len(self.columns[j].name))
        return place, text[len(self.columns[place].name) + 1 :]

    def matches(self, column: str, text: str) -> Array:
        """Which stored rows have the value that a text means in this column: (K,) booleans.

        The text is as in the file, or an equal number or date; that of missing cells, or none, means missing cells.
        """
        found = [one for one in self.columns if one.name == column]
        if not found:
            names = [one.name for one in self.columns]
            raise InputError(f"there is no column {column!r}. {near(column, names)}There are {listed(names)}.")
        cells = self.stored[column]
        if text in ("", self.style.missing_in(column)):
            return np.asarray(cells.isna())
        return found[0].matches(cells, text, self.style.decimal)

    def native(self, weights: Array, fixes: Iterable[str] = ()) -> TableSampler:
        """Covariance kernels around the rows of positive weight, given what is fixed; exact."""
        from .native import TableSampler

        return TableSampler.of(self, weights, tuple(fixes))

    def writer(self, place: BinaryIO | Path, format: str, settings: Settings) -> Writer:
        """Something to write new rows with: csv in the style of the file that was read, tsv, parquet, or npy."""
        if isinstance(place, Path):
            raise InputError(f"{place}: a table is one file. Name one that ends with .csv, .tsv, .parquet or .npy.")
        require_choice("--format", format, tuple(self.formats))
        if format == "parquet":
            return Numbering(self.columns, ParquetWriter(place))
        if format == "npy":
            return Numbering(self.columns, MatrixWriter(place, self.columns))
        style = replace(self.style, delimiter="\t") if format == "tsv" else self.style
        return Numbering(self.columns, DelimitedWriter(place, style))

    def presented(self, items: Any) -> Any:
        """The frame, its identifiers numbered through."""
        return items.assign(**{c.name: c.numbered(0, len(items)) for c in self.columns if c.kind == "id"})

    def read_new(self, path: Path) -> Any:
        """Rows with the columns of the stored ones, from a file; a matrix has them in the same order."""
        path = Path(path)
        frame = read_table(path).frame
        if path.suffix.lower() == ".npy":
            names = [column.name for column in self.columns]
            if frame.shape[1] != len(names):
                raise InputError(f"{path}: has {frame.shape[1]} columns, and the stored table {len(names)}.")
            frame = frame.set_axis(names, axis=1)
        return cast(frame, self.columns, str(path))

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
        return (
            f"{p:,} features and {len(self.stored)} rows: new rows vary along the {d} directions that these span. A "
            "file that is transposed has its rows as columns: if yours is, turn it round",
        )


def _fit_coordinates(features: Array, options: TableOptions, source: Source) -> Coordinates:
    try:
        return Coordinates.fit(features, variance=options.variance, whiten=options.whiten, norm=options.norm)
    except ValueError as error:
        raise InputError(f"{source.name or 'the table'}: {error}") from None
