"""Tables in files: delimited text, Parquet and matrices in .npy, read into data frames. Every kind of data reads so.

read_table(path)  columns with the dtype that their cells are meant to have: numbers, booleans, texts
read_texts(path)  the cells of delimited text as texts, numbers with a decimal point and without thousands separators;
                  for kinds that parse cells themselves. Columns of Parquet files keep their dtype

Both return a `TableFile`: the frame (rows numbered from 0), the style of the file for a writer, notes for the user, and
`place(row)`, which names a row in messages ("line 7"). Both raise InputError for a file that cannot be used.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .delimited_cells import MISSING, Style, decimal_sign, first_line, missing_signs, typed_frame, with_decimal_points
from .options import InputError

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = (",", ";", "\t", "|")
PARQUET = (".parquet", ".pq")
TABS = (".tsv", ".tab")


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


class _Cells(NamedTuple):
    """Delimited text, cut into cells."""

    text: str
    names: list[str]
    rows: list[list[str]]
    lines: list[int]
    style: Style
    notes: list[str]

    def columns(self) -> dict[str, list[str]]:
        return {name: [row[j] for row in self.rows] for j, name in enumerate(self.names)}


def read_table(path: Path) -> TableFile:
    """The table in a file, with the dtypes that its columns are meant to have."""
    content = _content(path)
    ending = path.suffix.lower()
    if ending in PARQUET:
        return TableFile(_parquet(path, content), Style())
    if ending == ".npy":
        return TableFile(_matrix(path, content), Style())
    cells = _cut(path, content, pad_short=False)
    raw = cells.columns()
    basis = replace(cells.style, decimal=decimal_sign(raw, cells.style.delimiter))
    signs = {name: found for name, column in raw.items() if (found := missing_signs(column))}
    notes = [f"column {name!r}: {' and '.join(found)} is read as missing" for name, found in signs.items()][:12]
    frame = typed_frame(path, cells.text, basis, raw, signs)
    return TableFile(frame, Style.of(frame, raw, basis), (*cells.notes, *notes), tuple(cells.lines))


def read_texts(path: Path) -> TableFile:
    """The table in a file, cells of delimited text as texts; a line that ends early has missing cells at its end."""
    import pandas as pd

    content = _content(path)
    if path.suffix.lower() in PARQUET:
        frame = _parquet(path, content)
        frame = frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()
        return TableFile(frame.set_axis([str(name) for name in frame.columns], axis=1), Style())
    cells = _cut(path, content, pad_short=True)
    columns = {
        name: pd.Series([None if cell in MISSING else cell for cell in column], dtype="str")
        for name, column in cells.columns().items()
    }
    read = TableFile(pd.DataFrame(columns), cells.style, tuple(cells.notes), tuple(cells.lines))
    if cells.style.delimiter == ",":
        return read
    frame, decimal, notes = with_decimal_points(read.frame, path, read.place)
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
    import pandas as pd

    try:
        return pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise InputError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow, or save as CSV.") from None
    except Exception as error:  # errors of pyarrow share no base class
        message = f"{path}: cannot be read as Parquet ({first_line(error)}). Save it again, or as CSV."
        raise InputError(message) from None


def _matrix(path: Path, content: bytes) -> pd.DataFrame:
    import pandas as pd

    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError):
        raise InputError(f"{path}: is not an .npy file of numbers. Save one with numpy.save.") from None
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(
            f"{path}: a table must be a matrix of numbers; got shape {array.shape} of {array.dtype}. "
            "Save one row per example."
        )
    return pd.DataFrame(array, columns=[f"x{j + 1}" for j in range(array.shape[1])])


def _cut(path: Path, content: bytes, pad_short: bool) -> _Cells:
    """The cells of delimited text; where the first line holds numbers, columns get names."""
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
    return _Cells(text, names, rows, lines, Style(delimiter, ".", encoding, newline, header), notes)


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
            return False, 0
        return len(set(counts)) == 1 and counts[0] > 1, counts[0] if counts else 0

    best = max(DELIMITERS, key=cut)
    return " " if cut(best)[1] <= 1 < cut(" ")[1] else best


def _rows(
    path: Path, text: str, delimiter: str, skipped: int, pad_short: bool
) -> tuple[list[str], list[list[str]], list[int]]:
    """Column names, cells, and the line of each row."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    names: list[str] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in filter(None, reader):
            if not names:
                names = row
                continue
            row = [*row, *[""] * (len(names) - len(row))] if pad_short else row
            if len(row) != len(names):
                raise InputError(
                    f"{path}, line {reader.line_num + skipped}: has {len(row)} values where the first line has "
                    f"{len(names)}. Give every line the same number of values (delimiter {delimiter!r})."
                )
            rows.append(row)
            lines.append(reader.line_num + skipped)
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num + skipped}: {error}. Close every quote.") from None
    return names, rows, lines
