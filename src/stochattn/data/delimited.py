"""Tables in files: delimited text, Parquet and matrices in .npy, read into data frames. Every kind of data reads so.

`read_table` finds the dtypes that columns are meant to have; `read_texts` is for kinds that parse cells themselves.
Both raise InputError for a file that cannot be used.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from .._backend.array_files import ArrayFileError, read_npy
from .._backend.arrays import Array
from .._backend.checks import first_line
from . import lazy_pandas as pd
from .delimited_cells import MISSING, Columns, Style, typed_frame, with_decimal_points
from .options import InputError

DELIMITERS = (",", ";", "\t", "|")
TABS = (".tsv", ".tab")
PARQUET = (".parquet", ".pq")
COMMAS = (".csv", ".txt")
EXTENSIONS = (*COMMAS, *TABS, *PARQUET)
MAX_LINES = 200
"""Lines of a file that `numbers_beside_dates` looks at."""


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table as read; `lines` (n,) says on which line of the file each row ends, or () where rows have no lines."""

    frame: pd.DataFrame
    style: Style
    notes: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()

    def place(self, row: int) -> str:
        """Where a row of the frame stands in the file, for messages."""
        return f"line {self.lines[row]}" if self.lines else f"row {row + 1}"


def numbers_beside_dates(path: Path) -> list[bool]:
    """Whether each column beside a first column of rising or falling dates holds numbers; empty without such dates."""
    if path.suffix.lower() not in EXTENSIONS or not path.is_file():
        return []
    try:
        if path.suffix.lower() in PARQUET:
            frame = pd.read_parquet(path).head(MAX_LINES)
            frame = frame.reset_index() if isinstance(frame.index, pd.DatetimeIndex) else frame
        else:
            frame = pd.read_csv(path, sep=None, engine="python", nrows=MAX_LINES, encoding_errors="replace")
        if len(frame) < 3 or frame.iloc[:, 0].dtype.kind in "iufb":
            return []
        with warnings.catch_warnings(action="ignore"):
            dates = pd.to_datetime(frame.iloc[:, 0], errors="coerce")
    except Exception:  # reading the file reports what is wrong with it, in better words
        return []
    in_order = dates.is_monotonic_increasing or dates.is_monotonic_decreasing
    dated = dates.notna().all() and dates.is_unique and in_order
    return [dtype.kind in "iuf" for dtype in frame.dtypes.iloc[1:]] if dated else []


def read_table(path: Path) -> TableFile:
    """The table in a file, with the dtypes that its columns are meant to have."""
    content, ending = _content(path), path.suffix.lower()
    if ending in (*PARQUET, ".npy"):
        return TableFile((_parquet if ending in PARQUET else _matrix)(path, content), Style())
    text, raw, read = _cut(path, content, pad_short=False)
    frame, style, notes = typed_frame(path, text, raw, read.style)
    return replace(read, frame=frame, style=style, notes=(*read.notes, *notes))


def read_texts(path: Path) -> TableFile:
    """The table in a file, cells of delimited text as texts, with decimal points and without thousands separators.

    A line that ends early has missing cells at its end. Columns of Parquet files keep their dtype.
    """
    content = _content(path)
    if path.suffix.lower() in PARQUET:
        frame = _parquet(path, content)
        frame = frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()
        return TableFile(frame.set_axis([str(name) for name in frame.columns], axis=1), Style())
    _, raw, read = _cut(path, content, pad_short=True)
    texts = {name: [None if cell in MISSING else cell for cell in cells] for name, cells in raw.items()}
    frame = pd.DataFrame(texts, dtype="str")
    if read.style.delimiter == ",":
        return replace(read, frame=frame)
    frame, decimal, notes = with_decimal_points(frame, path, read.place)
    return replace(read, frame=frame, style=replace(read.style, decimal=decimal), notes=(*read.notes, *notes))


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: name a CSV, TSV or Parquet file.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    if not content.strip():
        raise InputError(f"{path}: the file is empty. A table needs a line of column names and at least two rows.")
    return content


def _parquet(path: Path, content: bytes) -> pd.DataFrame:
    try:
        return pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise InputError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow, or save as CSV.") from None
    except Exception as error:  # errors of pyarrow share no base class
        message = f"{path}: cannot be read as Parquet ({first_line(error)}). Save it again, or as CSV."
        raise InputError(message) from None


def _matrix(path: Path, content: bytes) -> pd.DataFrame:
    try:
        array = read_npy(io.BytesIO(content))
    except ArrayFileError as error:
        raise InputError(f"{path}: is not an .npy file of numbers ({error}). Save one with numpy.save.") from None
    return matrix_frame(array, f"{path}: ")


def matrix_frame(array: Array, where: str = "") -> pd.DataFrame:
    """The data frame of a matrix, whose columns are called x1, x2 and so on."""
    if array.ndim != 2:
        raise InputError(f"{where}a table must be a matrix, one row per example; got shape {array.shape}.")
    if array.dtype.kind not in "fiub":
        raise InputError(f"{where}a matrix must hold numbers; got {array.dtype}. Put texts into a data frame or a CSV.")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)  # pandas reads no big-endian numbers
    return pd.DataFrame(native, columns=[f"x{j + 1}" for j in range(array.shape[1])])


def _cut(path: Path, content: bytes, pad_short: bool) -> tuple[str, Columns, TableFile]:
    """Delimited text, its cells, and all else that is known of them; where the first line holds numbers, names too."""
    text, encoding, notes = _decoded(path, content)
    newline = "\r\n" if "\r\n" in text[:100_000] else "\n"
    skipped = 0
    if named := re.match(r"sep=(.)\r?\n", text):  # Excel names the delimiter so
        delimiter, skipped, text = named[1], 1, text[named.end() :]
    else:
        tabs = path.suffix.lower() in TABS and "\t" in text.partition("\n")[0]
        delimiter = "\t" if tabs else _delimiter(text)
    names, rows, lines = _rows(path, text, delimiter, skipped, pad_short)
    header = not all(re.fullmatch(r"[-+]?[\d.,]+([eE][-+]?\d+)?", name) for name in names)
    if not header:
        rows, lines = [names, *rows], [1 + skipped, *lines]
        names = [f"x{j + 1}" for j in range(len(names))]
        notes.append(f"the first line holds numbers, not names: columns are called x1 to x{len(names)}")
    elif not rows:
        raise InputError(f"{path}: holds column names and no rows. Store at least two rows.")
    names = [name.strip() for name in names] if pad_short else names
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        at = ", ".join(str(j + 1) for j, name in enumerate(names) if name == repeated[0])
        raise InputError(f"{path}, line 1: columns {at} have the same name {repeated[0]!r}. Rename one of them.")
    style = Style(delimiter, ".", encoding, newline, header)
    cells = {name: [row[j] for row in rows] for j, name in enumerate(names)}
    return text, cells, TableFile(pd.DataFrame(), style, tuple(notes), tuple(lines))


def _decoded(path: Path, content: bytes) -> tuple[str, str, list[str]]:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", errors="replace"), "utf-16", []
    if re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", content[:65536]):
        raise InputError(f"{path}: is a binary file, not text. Export the table as CSV, TSV or Parquet.")
    encoding = "utf-8-sig" if content.startswith(b"\xef\xbb\xbf") else "utf-8"
    try:
        return content.decode(encoding), encoding, []
    except UnicodeDecodeError:
        return content.decode("latin-1"), "latin-1", ["the file is not UTF-8: read, and written, as Latin-1"]


def _delimiter(text: str) -> str:
    """The delimiter that cuts the first lines into most fields, equally many on each; else that of the first line.

    Names, times and sentences have spaces, so that a space delimits only where nothing else does.
    """
    sample = text[:200_000].splitlines()[:50]

    def cut(delimiter: str) -> tuple[bool, int]:
        try:
            counts = [len(row) for row in csv.reader(sample, delimiter=delimiter, skipinitialspace=True) if row]
        except csv.Error:  # a field is too long to be one
            counts = []
        return len(set(counts)) == 1 and counts[0] > 1, counts[0] if counts else 0

    best = max(DELIMITERS, key=cut)
    return " " if cut(best)[1] <= 1 < cut(" ")[1] else best


def _rows(
    path: Path, text: str, delimiter: str, skipped: int, pad_short: bool
) -> tuple[list[str], list[list[str]], list[int]]:
    """Column names, cells, and the line of each row."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    try:
        found = [(row, reader.line_num + skipped) for row in reader if row]
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num + skipped}: {error}. Close every quote.") from None
    names, lines = found[0][0] if found else [], [line for _, line in found[1:]]
    rows = [[*row, *[""] * (len(names) - len(row))] if pad_short else row for row, _ in found[1:]]
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(names):
            found_here = f"has {len(row)} values where the first line has {len(names)}"
            remedy = f"Give every line the same number of values (delimiter {delimiter!r})."
            raise InputError(f"{path}, line {line}: {found_here}. {remedy}")
    return names, rows, lines
