"""Data frames: from arrays of columns, and from frames of other libraries (polars, pyarrow, what narwhals knows)."""

from __future__ import annotations

import ast
import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import time
from decimal import Decimal
from functools import partial
from importlib import import_module
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from .._backend.arrays import Array
from .._backend.state import Plain
from . import lazy_pandas as pd
from .delimited.notations import LIMITS
from .options import InputError

Native: TypeAlias = Any  # a frame, a column, a type or a cell of such a library
ORDINARY = frozenset({"builtins", "numpy", "pandas", "torch"})  # their objects are not such frames
PLAIN_KINDS = "iufb"  # NumPy's integers, floats and booleans, which need nothing of pandas
MAX_EXACT = 2**53  # from here on floats do not distinguish all integers


def frame_of(arrays: Mapping[str, Array | pd.api.extensions.ExtensionArray]) -> pd.DataFrame:
    """The frame of columns by name. Columns of one of NumPy's dtypes are joined first, in a fraction of the time."""
    groups: dict[np.dtype, list[str]] = {}
    for name, array in arrays.items():
        if isinstance(array, np.ndarray):
            groups.setdefault(array.dtype, []).append(name)
    blocks = [pd.DataFrame(np.stack([arrays[name] for name in names], 1), columns=names) for names in groups.values()]
    others = {name: array for name, array in arrays.items() if not isinstance(array, np.ndarray)}
    if others:
        blocks.append(pd.DataFrame(others))
    return in_order(blocks, list(arrays))


def in_order(blocks: list[pd.DataFrame], names: list[str]) -> pd.DataFrame:
    """The columns of several frames in one, in the order of these names."""
    return blocks[0] if len(blocks) == 1 else pd.concat(blocks, axis=1)[names]


@dataclass(frozen=True)
class FrameType:
    """The library of a data frame, and the types of its columns by name if they are known.

    schema: the schema of a frame of pyarrow, which distinguishes more types than narwhals does; for pandas, the types
            of columns by name, of which `dtypes` has the kinds
    """

    library: str
    dtypes: Mapping[str, Native] = field(default_factory=dict)
    schema: Native = None

    def state(self) -> dict[str, Plain]:
        """The library and the types as strings."""
        dtypes = {name: str(dtype) for name, dtype in self.dtypes.items()}
        state, schema = dict[str, Plain](library=self.library, dtypes=dtypes), self.schema
        if self.library == "pandas":
            types = {name: self.schema[name] for name in self.dtypes}
            arrow = {name: dtype.pyarrow_dtype for name, dtype in types.items() if isinstance(dtype, pd.ArrowDtype)}
            state["schema"] = {name: str(dtype) for name, dtype in types.items() if name not in arrow}
            schema = import_module("pyarrow").schema(arrow.items()) if arrow else None
        state["arrow"] = "" if schema is None else b64encode(schema.serialize().to_pybytes()).decode("ascii")
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> FrameType:
        """The type that `state` describes, without the types of libraries that are not installed."""
        arrow = None
        if state["arrow"]:
            with suppress(ImportError):
                buffer = import_module("pyarrow").py_buffer(b64decode(state["arrow"]))
                arrow = import_module("pyarrow.ipc").read_schema(buffer)
        if state["library"] != "pandas":
            types = {name: _narwhals_type(text) for name, text in state["dtypes"].items()}
            return cls(state["library"], {name: dtype for name, dtype in types.items() if dtype is not None}, arrow)
        schema = {name: _pandas_type(text) for name, text in state["schema"].items()}
        schema |= {field.name: pd.ArrowDtype(field.type) for field in arrow or ()}
        return cls("pandas", {name: kind for name, kind in state["dtypes"].items() if name in schema}, schema)

    def frame(self, rows: pd.DataFrame) -> Native:
        """Rows of pandas as a frame of this library."""
        if self.library == "pandas":
            kinds = {name: kind for name, kind in self.dtypes.items() if name in rows}
            return rows.assign(**{name: _restore(rows[name], kind, self.schema[name]) for name, kind in kinds.items()})
        narwhals, values = import_module("narwhals"), dict[str, list[Native]]()
        dtypes = {name: dtype for name, dtype in self.dtypes.items() if name in rows}
        for name, column in rows.items():
            present = list(column.astype("object").where(column.notna(), None))
            if (kind := _kind(dtypes.get(str(name)))) in ("Time", "Duration"):
                try:
                    present = [None if cell is None else _read_length(cell, kind) for cell in present]
                except ValueError:  # identifiers, such as new-1, have no other type
                    del dtypes[str(name)]
            elif column.dtype.kind == "M":
                present = [None if cell is None else cell.to_pydatetime() for cell in present]
            values[str(name)] = present
        try:
            frame = narwhals.from_dict(values, backend=self.library)
        except ImportError:
            rule = f"the stored rows were a frame of {self.library}, which is not installed"
            raise InputError(f"{rule}. Run pip install {self.library}, or fit a frame of pandas.") from None
        native = frame.with_columns(narwhals.col(name).cast(dtype) for name, dtype in dtypes.items()).to_native()
        if self.schema is None:
            return native
        fields = {field.name: field for field in (*native.schema, *self.schema)}
        return native.cast(import_module("pyarrow").schema([fields[name] for name in native.column_names]))


def _narwhals_type(text: str) -> Native:
    """The type of a string such as Datetime(time_unit='us', time_zone=None); None for one that narwhals lacks."""
    call = ast.parse(text, mode="eval").body
    name = call.func if isinstance(call, ast.Call) else call
    dtype = getattr(import_module("narwhals"), name.id, None) if isinstance(name, ast.Name) else None
    if dtype is None or not isinstance(call, ast.Call):
        return dtype
    options = {str(option.arg): ast.literal_eval(option.value) for option in call.keywords}
    return dtype(*map(ast.literal_eval, call.args), **options)


def _pandas_type(text: str) -> Native:
    if sparse := re.fullmatch(r"Sparse\[(\w+), (.*)\]", text):
        fill = sparse[2] == "True" if sparse[1] == "bool" else np.dtype(sparse[1]).type(sparse[2])
        return pd.SparseDtype(sparse[1], fill)
    return pd.api.types.pandas_dtype(text)


def _kind(dtype: Native) -> str:
    """The name of a type without its arguments: Datetime, Time, Int64."""
    return str(dtype).partition("(")[0]


def _read_length(text: str, kind: str) -> Native:
    """The time of day or the duration that a string of `_write_lengths` says."""
    length = -pd.Timedelta(text[1:]) if text.startswith("-") else pd.Timedelta(text)
    return (pd.Timestamp(0) + length).time() if kind == "Time" else length.to_pytimedelta()


def _nanoseconds(cell: Native) -> int:
    if isinstance(cell, time):
        return (((60 * cell.hour + cell.minute) * 60 + cell.second) * 10**6 + cell.microsecond) * 1000
    length = pd.Timedelta(cell)
    seconds = 86_400 * length.days + length.seconds
    return int((seconds * 10**6 + length.microseconds) * 1000 + length.nanoseconds)


def _write_lengths(cells: Iterable[Native], kind: str) -> pd.Series:
    """Times of day and durations (n,) as strings: 08:30:00 and -2 days 03:04:05.250.

    All have as many decimals as the finest needs, but no more than integers below `MAX_EXACT` allow.
    """
    numbers = [None if pd.isna(cell) else _nanoseconds(cell) for cell in cells]
    present = [abs(number) for number in numbers if number is not None]
    needed = next(n for n in range(10) if n == 9 or all(number % 10 ** (9 - n) == 0 for number in present))
    steps = [10 ** (9 - n) for n in range(needed + 1)]
    digits = max((n for n, step in enumerate(steps) if max(present, default=0) < MAX_EXACT * step), default=0)
    texts: list[str | None] = []
    for number in numbers:
        if number is None:
            texts.append(None)
            continue
        seconds, fraction = divmod(abs(number) // steps[digits], 10**digits)
        days, seconds = divmod(seconds, 86_400)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        rest = f".{fraction:0{digits}d}" if digits else ""
        texts.append(f"{'-' if number < 0 else ''}{f'{days} days ' if kind == 'Duration' else ''}{clock}{rest}")
    return pd.Series(texts, dtype="str")


def is_other_frame(data: object) -> bool:
    """Whether data is a frame of another library than pandas."""
    package = type(data).__module__.partition(".")[0]
    if package in ORDINARY or package not in sys.modules:
        return False
    narwhals = import_module("narwhals")
    frame = narwhals.from_native(data, pass_through=True)
    return isinstance(frame, narwhals.DataFrame | narwhals.LazyFrame)


def first_rows(data: object, n: int) -> pd.DataFrame | None:
    """The first rows of a frame in memory as a frame of pandas; None for other data, or cells that are not handled."""
    if sys.modules.get("pandas") is not None and isinstance(data, pd.DataFrame):  # else nobody has a frame of pandas
        return data.head(n)
    if not is_other_frame(data):
        return None
    narwhals = import_module("narwhals")
    try:
        return pandas_frame(narwhals.from_native(data).head(n).to_native())[0]
    except InputError:
        return None


def pandas_frame(data: object, name: str = "a table") -> tuple[pd.DataFrame, FrameType | None]:
    """A frame of any library as one of pandas, and the type it had, None if it did not change."""
    if isinstance(data, pd.DataFrame):
        return _plain(data)
    if not is_other_frame(data):
        rule = f"{name} must be a data frame of pandas, polars, pyarrow or another library that narwhals knows"
        name_of_type = f"{type(data).__module__}.{type(data).__name__}".removeprefix("builtins.")
        how = "Call its to_frame()" if hasattr(data, "to_frame") else "Pass a pandas.DataFrame"
        raise InputError(f"{rule}; got {name_of_type}. {how}.")
    narwhals = import_module("narwhals")
    frame = narwhals.from_native(data)
    if isinstance(frame, narwhals.LazyFrame):
        how = "compute" if hasattr(data, "compute") else "collect"
        raise InputError(f"{name} must be in memory; got a {type(data).__name__} that is not computed. Call {how}().")
    columns = {name: _cells(frame[name], name) for name in frame.columns}
    library = str(frame.implementation.value)
    schema = frame.to_native().schema if library == "pyarrow" else None
    return pd.DataFrame(columns), FrameType(library, dict(frame.schema), schema)


def _plain(frame: pd.DataFrame) -> tuple[pd.DataFrame, FrameType | None]:
    """A frame of pandas with times, durations, periods and limits as strings, as a file has them, and their types."""
    if not frame.columns.is_unique:
        return frame, None
    others = [name for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.ArrowDtype | pd.SparseDtype)]
    plain = frame.copy() if others else frame
    for name in others:
        plain[name] = _convert_column(frame[name])
    kinds = {name: kind for name, column in plain.items() if (kind := _kind_of_objects(column))}
    plain = plain.copy() if kinds else plain
    for name, kind in kinds.items():
        cells = plain[name]
        if kind in ("Decimal", "Float16"):
            plain[name] = cells.astype("float64" if kind == "Decimal" else "float32")
        elif kind in ("Time", "Duration"):
            plain[name] = _write_lengths(cells, kind).set_axis(frame.index)
        else:
            plain[name] = cells.astype("object").map(str, na_action="ignore").astype("str")
    dtypes = {str(name): kinds.get(name, "Array") for name in frame if name in kinds or name in others}
    schema = {str(name): dtype for name, dtype in frame.dtypes.items()}
    return plain, FrameType("pandas", dtypes, schema) if dtypes else None


def _convert_column(column: pd.Series) -> pd.Series:
    """A column of Arrow's types, or a sparse column, with a type of pandas."""
    if isinstance(column.dtype, pd.SparseDtype):
        return column.sparse.to_dense()
    pyarrow = import_module("pyarrow")
    names = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
    nullable = {getattr(pyarrow, name.lower())(): pd.api.types.pandas_dtype(name) for name in names}
    nullable[pyarrow.bool_()] = pd.BooleanDtype()
    if pyarrow.types.is_nested(column.dtype.pyarrow_dtype):
        raise _refusal_of_type(str(column.name), column.dtype)
    cells = pyarrow.chunked_array(pyarrow.array(column.array))
    return cells.to_pandas(types_mapper=nullable.get).set_axis(column.index)


def _kind_of_objects(column: pd.Series) -> str:
    """The kind of cells that are read as strings or other numbers, such as Time and Duration; empty for other cells."""
    dtype = column.dtype
    if dtype.kind == "m":
        return "Duration"
    if dtype == np.float16:
        return "Float16"
    if isinstance(dtype, pd.PeriodDtype):
        return "Period" if dtype.name.startswith(("period[Y", "period[Q", "period[M]", "period[D]")) else ""
    if dtype != np.dtype(object):
        return ""
    kind = pd.api.types.infer_dtype(column)
    if kind in ("mixed", "mixed-integer"):  # as pandas reads a spreadsheet with numbers beside <0.1
        present = column.dropna()
        starts = [cell[:1] for cell in present if isinstance(cell, str)]
        others = [cell for cell in present if not isinstance(cell, str)]
        are_numbers = all(isinstance(cell, Real) and not isinstance(cell, bool) for cell in others)
        return "Limits" if starts and are_numbers and all(start in LIMITS for start in starts) else ""
    return {"time": "Time", "timedelta": "Duration", "decimal": "Decimal"}.get(kind, "")


def _restore(column: pd.Series, kind: str, dtype: Native) -> Native:
    """A column of `_plain` with the type that it had; identifiers, such as new-1, stay strings."""
    typed = column
    try:
        if kind == "Duration":
            lengths = pd.to_timedelta(column.str.removeprefix("-"))
            typed = lengths.mask(column.str.startswith("-", na=False), -lengths)
        elif kind == "Period":
            typed = pd.Series(pd.array(pd.PeriodIndex(column, dtype=dtype)), index=column.index)
        elif kind in ("Time", "Limits", "Decimal"):
            restore = partial(_restore_cell, kind=kind)
            typed = column.astype("object").map(restore, na_action="ignore").astype("object")
        return typed.astype(dtype)
    except ValueError:
        return column


def _restore_cell(cell: Any, kind: str) -> Native:
    if kind == "Time":
        return _read_length(cell, kind)
    if kind == "Decimal":
        return Decimal(str(cell))
    return cell if cell[:1] in LIMITS else int(cell) if cell.lstrip("-").isdecimal() else float(cell)


def _cells(column: Native, name: str) -> Array | pd.Series | pd.api.extensions.ExtensionArray:
    dtype, kind = column.dtype, _kind(column.dtype)
    if kind in ("Int128", "UInt128"):
        try:
            return pd.array(column.to_list(), dtype="Int64")
        except OverflowError:
            rule = f"column {name!r} holds integers that do not fit into 64 bits"
            raise InputError(f"{rule}. Turn them into floats or strings.") from None
    has_integers = dtype.is_integer() or kind == "Boolean"
    if dtype.is_float() or (has_integers and not column.null_count()):
        return np.asarray(column.to_numpy())
    cells = column.to_list()
    if has_integers:
        return pd.array(cells, dtype="boolean" if kind == "Boolean" else kind)
    if kind == "Decimal":
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    if kind in ("Categorical", "Enum"):
        return pd.Series(pd.Categorical(cells))
    if kind == "Datetime":
        return pd.to_datetime(pd.Series(cells))
    if kind == "Date":
        return pd.Series(cells, dtype="object")
    if kind in ("Time", "Duration"):
        return _write_lengths(cells, kind)
    if kind == "String":
        return pd.Series([None if cell is None else str(cell) for cell in cells], dtype="str")
    raise _refusal_of_type(name, dtype)


def _refusal_of_type(name: str, dtype: Native) -> InputError:
    rule = f"column {name!r} holds cells of type {dtype}, which are not handled"
    return InputError(f"{rule}. Turn them into numbers, strings or dates, or leave the column out.")
