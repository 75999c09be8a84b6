"""Tables in files: delimited text, spreadsheets, Parquet, .npy or Zarr, as data frames. Every kind of data reads so.

`read_table` finds the dtypes that columns are meant to have; `read_texts` is for kinds that parse cells themselves.
Both raise InputError for a file that cannot be used.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from ..._backend.array_files import ArrayFileError, read_npy, read_zarr, zarr_header
from ..._backend.arrays import Array
from ..._backend.checks import first_line
from .. import lazy_pandas as pd
from ..options import InputError
from . import EXTENSIONS, PARQUET, SPREADSHEETS, TABS
from .cells import Columns, Style, infer_types, read_strings
from .lines import find_delimiter, holds_names, note_on_shape, remove_comments, split_rows
from .numbers import NUMBER
from .spreadsheets import read_sheet

COLUMNS = "columns"  # the attribute of a Zarr array that holds the names of the columns of a table
MARKS = {
    **dict.fromkeys((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff"), "utf-32"),
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "utf-16"),
}
"""Encodings by the marks that files begin with; the longer marks first, as one of them begins with a shorter one."""
MAX_LINES = 200  # of a file by which it is recognized
MAX_FIRST_ROWS = 20  # that may show that a first column does not hold dates, as reading strings as dates takes long
MAX_OTHERS = 0.05  # share of the cells of a column of numbers that may be something else


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table as read."""

    frame: pd.DataFrame
    style: Style
    notes: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()  # (n,) on which line of the file each row ends, or () where rows have no lines
    cells: Columns = field(default_factory=dict)  # of delimited text, as they are in the file

    def place(self, row: int) -> str:
        """Where a row of the frame stands in the file, for messages."""
        return f"line {self.lines[row]}" if self.lines else f"row {row + 1}"


def read_first_rows(path: Path, sheet: str | None = None) -> TableFile:
    """The first rows of a file, for recognizing what it holds; an empty table where it cannot be read as one."""
    ending = path.suffix.lower()
    empty = TableFile(pd.DataFrame(), Style())
    if ending not in EXTENSIONS or not path.is_file():
        return empty
    try:
        if ending in PARQUET:
            return TableFile(pd.read_parquet(path).head(MAX_LINES), Style())
        if ending in SPREADSHEETS:
            lines = read_sheet(path, sheet)[0].splitlines(keepends=True)[:MAX_LINES]
        else:
            with path.open("rb") as file:
                lines = list(islice(file, MAX_LINES))
        return _parse_text(path, b"".join(lines), pad_short=True)[1]
    except Exception:  # reading the file reports what is wrong with it, in better words
        return empty


def numbers_beside_dates(table: TableFile) -> list[bool]:
    """Whether each column beside a first column of rising or falling dates holds numbers; empty without such dates.

    The first rows decide. A few cells that are not numbers may be among them: whoever reads the column says which.
    """
    if not table.cells:
        frame = table.frame.head(MAX_LINES)
        frame = frame.reset_index() if isinstance(frame.index, pd.DatetimeIndex) else frame
        is_dated = frame.shape[1] > 0 and frame.dtypes.iloc[0].kind not in "iufb" and are_dates(frame.iloc[:, 0])
        return [dtype.kind in "iuf" for dtype in frame.dtypes.iloc[1:]] if is_dated else []
    columns = {name: cells[: MAX_LINES - 1] for name, cells in table.cells.items()}
    first = columns.pop(next(iter(columns)))
    if all(re.fullmatch(NUMBER, cell) for cell in first):
        return []
    if not are_dates(pd.Series(first[:MAX_FIRST_ROWS])) or not are_dates(pd.Series(first)):
        return []
    try:
        return [_are_numbers(cells) for cells in read_strings(Path(), columns, table.style, table.place)[0].values()]
    except InputError:  # reading the file reports it
        return []


def are_dates(cells: pd.Series) -> bool:
    """Whether three cells or more are dates, all different and in order, with the month or the day first."""
    if len(cells) < 3 or cells.astype(str).str.contains("Q", case=False).all():  # a history has days, not quarters
        return False
    with warnings.catch_warnings(action="ignore"):
        tried = (pd.to_datetime(cells, errors="coerce", utc=True, dayfirst=first) for first in (False, True))
        return any(
            dates.notna().all() and dates.is_unique and (dates.is_monotonic_increasing or dates.is_monotonic_decreasing)
            for dates in tried
        )


def _are_numbers(cells: list[str | None]) -> bool:
    """Whether cells are numbers but for missing ones and a few: one, or one in twenty, and fewer than the numbers."""
    present = [cell for cell in cells if cell is not None]
    n_others = sum(re.fullmatch(NUMBER, cell) is None for cell in present)
    return n_others <= max(1, MAX_OTHERS * len(present)) and (n_others < len(present) - n_others or not present)


def read_table(
    path: Path,
    header: bool | None = None,
    parts: Sequence[Path] = (),
    sheet: str | None = None,
    transpose: bool = False,
    types: Mapping[str, str] = MappingProxyType({}),
    words: Mapping[str, str] = MappingProxyType({}),
) -> TableFile:
    """The table in a file, with the dtypes that its columns are meant to have.

    header: whether the first line of delimited text holds names, found out if it is None
    parts:  files of one format that hold its rows, where `path` is the folder of them
    sheet:  of a spreadsheet, by its name or its number from 1; the first that holds a table if it is None
    transpose: whether each column is a row of the table
    types, words: of columns, the type that a user set, and a text that is known to mark missing cells
    """
    files = tuple(parts) or (path,)
    ending = files[0].suffix.lower()
    _require_spreadsheet(files[0], sheet)
    if ending in (*PARQUET, ".npy") or zarr_header(path) is not None:
        frames = [(_read_parquet if ending in PARQUET else _read_matrix)(file) for file in files]
        frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
        if transpose and ending in PARQUET:
            raise InputError(f"transpose: {path} has a type for each column. Transpose the frame, and write it again.")
        return TableFile(matrix_frame(frame.to_numpy().T) if transpose else frame, Style())
    content, on_sheet = _read_content(path, sheet) if not parts else (_join_parts(parts, header), ())
    content = _transpose_text(path, content) if transpose else content
    text, read = _parse_text(path, content, pad_short=False, header=header)
    on_shape = () if transpose else note_on_shape(path, read.cells, read.lines)
    frame, style, notes = infer_types(path, text, read.cells, read.style, types, words)
    return replace(read, frame=frame, style=style, notes=(*on_sheet, *on_shape, *read.notes, *notes))


def read_texts(path: Path, sheet: str | None = None, pad_first: bool = False) -> TableFile:
    """The table in a file, cells of delimited text as strings, with decimal points and without signs or separators.

    A line that ends early has missing cells at its end, as the first one may if it holds data (`pad_first`). Columns of
    Parquet files keep their dtype.
    """
    _require_spreadsheet(path, sheet)
    if path.suffix.lower() in PARQUET:
        frame = _read_parquet(path)
        frame = frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()
        return TableFile(frame.set_axis([str(name) for name in frame.columns], axis=1), Style())
    content, on_sheet = _read_content(path, sheet)
    _, read = _parse_text(path, content, pad_short=True, pad_first=pad_first)
    strings, style, notes = read_strings(path, read.cells, read.style, read.place)
    notes = [*on_sheet, *read.notes, *notes]
    return replace(read, frame=pd.DataFrame(strings, dtype="str"), style=style, notes=tuple(notes))


def _require_spreadsheet(path: Path, sheet: str | None) -> None:
    if sheet is not None and path.suffix.lower() not in SPREADSHEETS:
        raise InputError(f"sheet: {path} is not a spreadsheet, and has no sheet {sheet!r}. Leave it out.")


def _read_content(path: Path, sheet: str | None = None) -> tuple[bytes, tuple[str, ...]]:
    """The bytes of a file, or of a sheet as delimited text, and notes on which sheet was read."""
    try:
        is_sheet = path.suffix.lower() in SPREADSHEETS
        content, notes = read_sheet(path, sheet) if is_sheet else (path.read_bytes(), ())
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: name a CSV, TSV, Excel or Parquet file.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, not a table: name a CSV, TSV, Excel or Parquet file.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}). Choose another file.") from None
    if not content.strip():
        raise InputError(f"{path}: the file is empty. A table needs a line of column names and at least two rows.")
    return content, notes


def _join_parts(parts: Sequence[Path], header: bool | None) -> bytes:
    """The delimited text of parts as that of one file, whose column names stand on its first line only."""
    contents = [_read_content(part)[0] for part in parts]
    style = _parse_text(parts[0], contents[0], pad_short=False, header=header)[1].style
    texts = [_decode(part, content)[0] for part, content in zip(parts, contents, strict=True)]
    if style.header:
        lines = io.StringIO(texts[0], newline="")
        next(csv.reader(lines, delimiter=style.delimiter))  # cells may hold line breaks between quotes
        names = texts[0][: lines.tell()]
        for part, text in zip(parts, texts, strict=True):
            if not text.startswith(names):
                rule = f"its first line is not that of {parts[0].name}, which holds the names of the columns"
                raise InputError(f"{part}: {rule}. Write all parts again, or read one part alone.")
        texts = [names, *(text[len(names) :] for text in texts)]
    ended = (text if text.endswith("\n") else text + style.newline for text in texts)
    return "".join(ended).encode(style.encoding)


def _transpose_text(path: Path, content: bytes) -> bytes:
    """Delimited text whose lines are the columns of another one."""
    _, read = _parse_text(path, content, pad_short=False, header=False)
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=read.style.delimiter, lineterminator=read.style.newline).writerows(read.cells.values())
    return text.getvalue().encode(read.style.encoding)


def _read_parquet(path: Path) -> pd.DataFrame:
    content, _ = _read_content(path)
    try:
        return pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise InputError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow, or save as CSV.") from None
    except Exception as error:  # errors of pyarrow share no base class
        raise InputError(f"{path}: cannot be read as Parquet ({first_line(error)}). Save it again or as CSV.") from None


def _read_matrix(path: Path) -> pd.DataFrame:
    """The data frame of a matrix in .npy or Zarr; attributes of the latter may name its columns."""
    try:
        if zarr_header(path) is None:
            return matrix_frame(read_npy(io.BytesIO(_read_content(path)[0])), f"{path}: ")
        array, attributes = read_zarr(path)
    except ArrayFileError as error:
        rule = "is not an .npy file of numbers" if path.is_file() else "is not a Zarr array that can be read"
        remedy = "Save one with numpy.save." if path.is_file() else "Write it again."
        raise InputError(f"{path}: {rule} ({error}). {remedy}") from None
    frame, names = matrix_frame(array, f"{path}: "), attributes.get(COLUMNS)
    named = isinstance(names, list) and len({*map(str, names)}) == frame.shape[1] == len(names)
    return frame.set_axis(list(map(str, names)), axis=1) if named else frame  # type: ignore[call-overload]


def matrix_frame(array: Array, where: str = "") -> pd.DataFrame:
    """The data frame of a matrix, whose columns are called x1, x2 and so on."""
    if array.ndim != 2:
        remedy = "Reshape one value per example to (n, 1). If it is one recording, pass kind='signals' and window=N."
        remedy = remedy if array.ndim == 1 else ""
        rule = f"{where}a table must be a matrix, one row per example; got shape {array.shape}."
        raise InputError(f"{rule} {remedy}".rstrip())
    if array.dtype.kind not in "fiub":
        raise InputError(f"{where}a matrix must hold numbers; got {array.dtype}. Put strings into a data frame or CSV.")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)  # pandas reads no big-endian numbers
    return pd.DataFrame(native, columns=[f"x{j + 1}" for j in range(array.shape[1])])


def _parse_text(
    path: Path, content: bytes, pad_short: bool, header: bool | None = None, pad_first: bool = False
) -> tuple[str, TableFile]:
    """Delimited text, and its cells with all else that is known of them but their types.

    pad_short: whether lines that end early have missing cells at their end
    header:    whether the first line holds names, found out if it is None
    pad_first: whether the first line may end early if it holds data
    """
    text, encoding, notes = _decode(path, content)
    newline = "\r\n" if "\r\n" in text[:100_000] else "\n"
    skipped = 0
    is_sheet = path.suffix.lower() in SPREADSHEETS
    if named := re.match(r"sep=(.)\r?\n", text):  # Excel names the delimiter so
        delimiter, skipped, text = named[1], 1, text[named.end() :]
    text, n_comments = (text, 0) if is_sheet else remove_comments(text)
    if n_comments:
        are = "1 line that begins with # is" if n_comments == 1 else f"{n_comments:,} lines that begin with # are"
        notes.append(f"{are} skipped as comments")
    if not named:
        tabs = path.suffix.lower() in TABS and "\t" in text.lstrip("\r\n").partition("\n")[0]
        delimiter = "," if is_sheet else "\t" if tabs else find_delimiter(text)
    rows, lines, remarks = split_rows(path, text, delimiter, skipped, pad_short, pad_first)
    if remarks:
        text = "".join(islice(io.StringIO(text, newline=""), lines[-1] - skipped))
        notes += [f"the line {remark!r} below the table is skipped" for remark in remarks]
    if not rows:
        raise InputError(f"{path}: holds comments and no table. A table needs column names and at least two rows.")
    n_first = len(rows[0])
    while pad_first and n_first and not rows[0][n_first - 1]:
        n_first -= 1
    has_names = holds_names(rows[0][:n_first], [row[:n_first] for row in rows[1:]]) if header is None else header
    first, names = lines[0], rows[0] if has_names else [f"column {j + 1}" for j in range(len(rows[0]))]
    rows, lines = (rows[1:], lines[1:]) if has_names else (rows, lines)
    if not has_names and header is None:
        called = "the column is called column 1" if len(names) == 1 else f"columns are called column 1 to {names[-1]}"
        notes.append(f"the first line holds data, not names: {called}")
    elif not rows:
        raise InputError(f"{path}: holds column names and no rows. Store at least two rows.")
    names = [name.strip() for name in names] if pad_short else names
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        at = ", ".join(str(j + 1) for j, name in enumerate(names) if name == repeated[0])
        raise InputError(f"{path}, line {first}: columns {at} have the same name {repeated[0]!r}. Rename one of them.")
    style = Style(delimiter, ".", encoding, newline, has_names)
    cells = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return text, TableFile(pd.DataFrame(), style, tuple(notes), tuple(lines), cells)


def _decode(path: Path, content: bytes) -> tuple[str, str, list[str]]:
    for mark, encoding in MARKS.items():
        if content.startswith(mark):
            return content.decode(encoding, errors="replace"), encoding, []
    if control := re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", content[:65536]):
        if content.isascii() and b"\0" not in content:  # a text, with an end-of-file mark of DOS in a cell for instance
            line = content.count(b"\n", 0, control.start()) + 1
            raise InputError(f"{path}, line {line}: holds the control character {ord(control[0]):#04x}. Remove it.")
        raise InputError(f"{path}: is a binary file, not text. Export the table as CSV, TSV or Parquet.")
    encoding = "utf-8-sig" if content.startswith(b"\xef\xbb\xbf") else "utf-8"
    try:
        return content.decode(encoding), encoding, []
    except UnicodeDecodeError:
        return content.decode("latin-1"), "latin-1", ["the file is not UTF-8: read, and written, as Latin-1"]
