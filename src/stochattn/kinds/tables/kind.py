"""Tables as a kind of data: reading and writing, generators, and the controls by which the explorer conditions rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..._backend.arrays import Array
from ..._backend.state import Plain
from ...core.memory import are_columns_memories
from .. import lazy_pandas as pd
from ..codec import ZARR, Format, Settings, Writer
from ..comparison import KeyMeasure, Measures
from ..delimited import COMMAS, PARQUET, TABS
from ..delimited.cells import AMOUNTS, Style
from ..delimited.formulas import without_apostrophes
from ..delimited.reading import COLUMNS, are_dates, matrix_frame, numbers_beside_dates, read_first_rows, read_table
from ..display import ChoiceControl, Control, Display, RangeControl
from ..generator import Generator
from ..hopfield import HopfieldGenerator, LinearEmbedding
from ..kind import Kind
from ..native import FrameType, Native, pandas_frame
from ..options import InputError
from ..plain import Gaussian
from ..smoothing import columns_are_all_smooth, columns_are_smooth, rows_are_smooth
from .codec import TableCodec, read_with_options
from .columns.cells import Cells
from .columns.columns import Column, Levels, Source, Value, number_rows
from .columns.inference import as_strings, check_rows, transpose
from .columns.scales import Ranks
from .conditions import Several, parse_conditions
from .description import ColumnType, TableDescription, TableOptions
from .generator.fit import fit_covariance
from .measures import compare, repeated_identifiers, table_gallery
from .relations.relations import ColumnOrder
from .writing import DelimitedWriter, MatrixWriter, ParquetWriter, cast, frame_from_state, make_matrix

MAX_CONTROLS, MAX_CHOICES = 40, 60


def table_controls(codec: TableCodec) -> tuple[Control, ...]:
    """A control for each of the first columns that conditions can name."""
    modeled = [column for column in codec.columns if column.transform is not None]
    return tuple(_make_control(codec, column) for column in modeled[:MAX_CONTROLS])


def _make_control(codec: TableCodec, column: Column) -> Control:
    if isinstance(column.transform, Levels):
        truths = codec.style.truths.get(column.name)
        values = truths or tuple(str(value) for value in column.transform.values)
        return ChoiceControl(column.name, column.name, tuple(dict.fromkeys(values))[:MAX_CHOICES])
    numbers = column.numbers(codec.stored[column.name].dropna())
    low, high = float(numbers.min()), float(numbers.max())
    if column.date_scale is not None:
        first, last = (str(date)[:10] for date in column.date_scale.series(np.array([low, high])))
        return RangeControl(column.name, column.name, first, last, "date", is_timed=not column.date_scale.counts_days)
    if column.unit:
        return RangeControl(column.name, column.name, column.shown(low), column.shown(high), "text")
    decimal = codec.style.notation(column.name).decimal
    is_whole = column.type == ColumnType.INTEGER
    return RangeControl(column.name, column.name, low, high, is_whole=is_whole, decimal=decimal)


def _find_impossible(column: Column, cells: Cells) -> Array:
    """Which cells (n,) of a column are neither missing nor values that new rows can have."""
    try:
        unknown = ~cells.missing & np.isnan(column.features(cells)).any(1)
        if not isinstance(column.transform, Ranks):
            return np.asarray(unknown)
        numbers = column.numbers(cells)
    except (TypeError, ValueError, AttributeError):
        content = "numbers" if column.date_scale is None else "dates"
        example = f"got cells such as {next(iter(cells.present.objects), None)!r} ({cells.dtype})"
        raise InputError(f"items: column {column.name!r} must hold {content}; {example}. Convert the column.") from None
    outside = (numbers < column.transform.low) | (numbers > column.transform.high)
    return np.asarray(unknown | outside | np.isinf(numbers))


DATED_NOTE = "read as a table, whose rows are drawn independently. If it is a price history, pass kind='returns'"
RECORDING_NOTE = (
    "read as a table, whose rows are drawn independently, but consecutive rows are alike, as the points of a recording "
    "are. If it is one, pass kind='signals' and window=N, the points of a signal"
)
MIN_RECORDED = 200
"""Rows, from which on a table may be a recording."""


def _list_columns_of_features(codec: TableCodec) -> tuple[tuple[str, ...], Array]:
    modeled = [column for column in codec.columns if column.width]
    widths = [column.width for column in modeled]
    return tuple(column.name for column in modeled), np.repeat(np.arange(len(modeled)), widths)


def _encode_without_label(codec: TableCodec, items: pd.DataFrame) -> Array:
    label = codec.blocks[codec.position(codec.label)] if codec.label is not None else slice(0, 0)
    return np.delete(codec.encode(items), label, axis=1)


class TableKind(TableDescription, Kind[TableCodec]):
    """Rows of tables."""

    alternatives = ("hopfield", "gaussian")
    formats = (Format("csv", COMMAS), Format("tsv", TABS), Format("parquet", PARQUET), Format("npy", (".npy",)), ZARR)
    measures = Measures(
        key=KeyMeasure("correlation error", 0.1, "Columns vary together", "correlations between columns are lost"),
        compare=compare,
        same=TableCodec.same,
        named_parts=_list_columns_of_features,
        predictors=_encode_without_label,
        labels=lambda codec, items: np.array(as_strings(items[codec.label])),
        repeated_identifiers=repeated_identifiers,
    )
    display = Display(
        gallery=table_gallery,
        style=(files(__package__) / "style.css").read_text("utf-8"),
        controls=table_controls,
        column_types=lambda codec: tuple((column.name, str(column.type)) for column in codec.columns),
    )

    def read(self, path: Path, options: TableOptions) -> TableCodec:
        return TableCodec.read(path, options)

    def read_files(self, paths: Sequence[Path], options: TableOptions) -> TableCodec:
        return TableCodec.read(paths[0].parent, options, paths)

    def read_recognized(self, path: Path, options: TableOptions) -> TableCodec:
        """The codec of the table in a file; a note says where it may be a price history or signals instead."""
        table, note = read_with_options(path, options), ""
        codec = TableCodec.of_file(table, path, options)
        first = read_first_rows(path, options.sheet) if options.transpose else table
        if any(numbers_beside_dates(first)):
            note = DATED_NOTE
        elif path.suffix.lower() == ".npy" or path.is_dir():  # others have names of columns, as tables have
            note = _note_on_matrix(codec.stored.to_numpy())
        return _add_note(codec, note or _note_on_recording(codec.stored))

    def codec_of(self, data: Native | Array, options: TableOptions) -> TableCodec:
        if isinstance(data, np.ndarray):
            codec = TableCodec.fit(matrix_frame(data.T if options.transpose else data), options)
            return _add_note(codec, _note_on_matrix(codec.stored.to_numpy()) or _note_on_recording(codec.stored))
        frame, type = pandas_frame(data)
        codec = replace(TableCodec.fit(transpose(frame) if options.transpose else frame, options), frame_type=type)
        dated = frame.shape[1] > 1 and frame.dtypes.iloc[0].kind not in "iufb" and are_dates(frame.iloc[:, 0])
        has_numbers = any(dtype.kind in "iuf" for dtype in frame.dtypes.iloc[1:])
        return _add_note(codec, DATED_NOTE if dated and has_numbers else _note_on_recording(codec.stored))

    def codec_from_state(self, state: dict[str, Any]) -> TableCodec:
        options, style = TableOptions(**state["options"]), Style(**state["style"])
        pairs = [(name, base) for name, base in state.get("coded_from", ())]  # none in files of earlier versions
        table = frame_from_state(state["frame"]), options, style, Source(*state["source"])
        codec = TableCodec.fit(*table, coded_from=pairs)
        saved = state.get("frame_type")  # none in files of earlier versions
        type = None if saved is None else FrameType.from_state(saved)
        codec = replace(codec, ids=state["ids"], notes=state["notes"], frame_type=type)
        return codec.with_scales_of(set(state.get("own_scales", ())))

    def fit_generator(self, name: str, codec: TableCodec, weights: Array, options: Any) -> Generator:
        if name == "gaussian":
            return Gaussian.of_arrays(codec.filling.filled, weights)
        if name == "covariance":
            return fit_covariance(codec, weights, options)
        keeps_spread = options.norm == "whole" and options.spread == "kept"
        try:
            embedding = (_SpreadKeepingEmbedding if keeps_spread else LinearEmbedding).of(codec.filling.filled, options)
        except ValueError as error:
            raise InputError(f"{codec.source.name or 'the table'}: {error}") from None
        return HopfieldGenerator.of(embedding, weights, options)

    def parse_condition(self, codec: TableCodec, texts: Sequence[str]) -> dict[str, Value | Several]:
        return parse_conditions(codec, texts)

    def select(self, codec: TableCodec, name: str, text: str) -> Array | None:
        """The stored rows with the value that a string means in a column: (K,) booleans; None without that column.

        The string is as in the file, or an equal number or date; the code of missing cells, or "", means missing cells.
        """
        if name not in codec.stored:
            return None
        cells = codec.stored[name]
        if text in ("", codec.style.codes.get(name, codec.style.missing)):
            return np.asarray(cells.isna())
        return codec.by_name[name].matches(cells, text, codec.style.notation(name))

    def prepare_for_density(self, codec: TableCodec, items: object) -> tuple[pd.DataFrame, Array]:
        """The rows of a data frame, and which of them (n,) are never drawn: a value is unknown, or beyond its limits.

        InputError where it is not a data frame with the columns that are modeled; others may be left out.
        """
        frame, modeled = check_rows(codec.columns, items), [column for column in codec.columns if column.width]
        never = np.zeros(len(frame), dtype=bool)
        for column in modeled:
            impossible = _find_impossible(column, Cells.of(frame[column.name]))
            if impossible.any():  # emptied, because generators cannot compute with infinite or unknown values
                frame = frame.assign(**{column.name: frame[column.name].mask(impossible)})
            never |= impossible
        strict = {r.names[::-1] for r in codec.relations if isinstance(r, ColumnOrder) and r.strict}
        for difference in codec.differences:  # beside missing cells, NaN is not beyond the limits
            distances = difference.distances(codec.by_name, {name: Cells.of(frame[name]) for name in difference.names})
            never |= (distances < difference.ranks.low) | (distances > difference.ranks.high)
            if difference.names in strict:
                never |= distances == 0
        return frame, never

    def writer(self, codec: TableCodec, destination: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        if isinstance(destination, Path):
            remedy = "Name one that ends with .csv, .tsv, .parquet or .npy."
            raise InputError(f"{destination}: a table is one file. {remedy}")
        if format.name in ("csv", "tsv"):
            style = replace(codec.style, delimiter="\t") if format.name == "tsv" else codec.style
            return DelimitedWriter(destination, codec.columns, style, codec.formulas if codec.options.safe_csv else ())
        return {"parquet": ParquetWriter, "npy": MatrixWriter}[format.name](destination, codec.columns)

    def as_array(self, codec: TableCodec, items: pd.DataFrame, first: int) -> Array:
        return make_matrix(codec.columns, codec.stored, number_rows(codec.columns, items, first))

    def array_attributes(self, codec: TableCodec) -> dict[str, Plain]:
        return {COLUMNS: [column.name for column in codec.columns]}

    def read_new(self, codec: TableCodec, path: Path) -> pd.DataFrame:
        """Rows with the columns of the stored ones, from a file; a matrix has them in the same order."""
        style, numbers = codec.style, [column.name for column in codec.columns if column.type in AMOUNTS]
        words = {name: style.codes.get(name, style.missing) for name in numbers}
        frame = read_table(path, style.header, words=words).frame
        if path.suffix.lower() == ".npy" or path.is_dir():
            names = [column.name for column in codec.columns]
            if frame.shape[1] != len(names):
                raise InputError(f"{path}: has {frame.shape[1]} columns, and the stored table {len(names)}.")
            frame = frame.set_axis(names, axis=1)
        return cast(without_apostrophes(frame, codec.formulas), codec.columns, str(path))


def _note_on_matrix(matrix: Array) -> str:
    """A note where the rows of a matrix may be signals, or its columns signals or memories; else nothing."""
    if are_columns_memories(matrix):
        why = "the columns have length 1, as the memories of the paper have. If the array is d × K, pass transpose=True"
    elif rows_are_smooth(matrix):
        why = "neighboring values of a row are alike, as those of signals. If each row is a signal, pass kind='signals'"
    elif columns_are_smooth(matrix):
        why = "neighboring values of a column are alike, as those of signals. If each column is a signal, "
        why += "transpose the array and pass kind='signals'"
    else:
        return ""
    return f"read as a table of {matrix.shape[0]} rows and {matrix.shape[1]} columns, but {why}"


def _note_on_recording(stored: pd.DataFrame) -> str:
    """A note where consecutive rows of numbers are alike, but for columns that only rise or fall; else nothing."""
    if len(stored) < MIN_RECORDED or any(dtype.kind not in "iuf" for dtype in stored.dtypes):
        return ""
    columns = stored.to_numpy(dtype=np.float64, na_value=np.nan).T
    steps = np.diff(columns, axis=1)
    columns = columns[(steps > 0).any(1) & (steps < 0).any(1)]  # the others may be the time, or what rows are sorted by
    is_recording = len(columns) and np.isfinite(columns).all() and columns_are_all_smooth(columns.T)
    return RECORDING_NOTE if is_recording else ""


def _add_note(codec: TableCodec, note: str) -> TableCodec:
    """The codec with one note more, unless it is empty."""
    return replace(codec, notes=(*codec.notes, note)) if note else codec


@dataclass(frozen=True, eq=False)
class _SpreadKeepingEmbedding(LinearEmbedding):
    """Features whose draws have the covariance of the stored rows, whatever beta."""

    def factors(self, beta: float) -> Array:
        """√(v_j / (v_j + 1/beta)) for coordinate j of variance v_j among the stored rows: (K, d)."""
        variances = self.coordinates.stored.var(0)
        return np.tile(np.sqrt(variances / (variances + 1 / beta)), (len(self.coordinates.stored), 1))


KIND = TableKind()
"""Tables as a kind of data."""
