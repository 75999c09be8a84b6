"""Files with tables: read with the way they were written, so that new rows can be written the same way."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..base import Batch, InputError

DELIMITERS = (",", ";", "\t", "|", " ")
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Style:
    """How a delimited file is written.

    missing:  text of a missing cell
    truths:   for columns of True and False, the texts of the two
    decimals: for columns whose numbers all have the same number of decimals, that number
    """

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    newline: str = "\n"
    header: bool = True
    missing: str = ""
    truths: dict[str, tuple[str, str]] = field(default_factory=dict)
    decimals: dict[str, int] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        """As something for json."""
        return asdict(self)

    @classmethod
    def from_state(cls, facts: dict[str, Any]) -> Style:
        """The style of that state."""
        truths = {name: (str(true), str(false)) for name, (true, false) in facts["truths"].items()}
        return cls(**{**facts, "truths": truths})


class TableFile(NamedTuple):
    """A table as read."""

    frame: Any
    style: Style
    notes: tuple[str, ...]
    lines: tuple[int, ...]  # line of the file on which each row ends, or () where rows have no lines


def read_table(path: Path) -> TableFile:
    """The table in a file: delimited text, Parquet, or a matrix as .npy."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    if not content.strip():
        raise InputError(f"{path}: the file is empty. A table needs a line of column names and at least two rows.")
    ending = path.suffix.lower()
    if ending in PARQUET:
        return TableFile(_parquet(path, content), Style(), (), ())
    if ending == ".npy":
        return TableFile(_matrix(path, content), Style(), (), ())
    return _delimited(path, content, "\t" if ending in (".tsv", ".tab") else None)


def _parquet(path: Path, content: bytes) -> Any:
    import pandas as pd

    try:
        return pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise InputError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow, or save as CSV.") from None
    except Exception as error:  # pyarrow's own, which derive from no common class
        raise InputError(f"{path}: is no Parquet file ({_first_line(error)}).") from None


def _matrix(path: Path, content: bytes) -> Any:
    import pandas as pd

    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError):
        raise InputError(f"{path}: is no .npy file of numbers. Save one with numpy.save.") from None
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(
            f"{path}: a table must be a matrix of numbers; got shape {array.shape} of {array.dtype}. "
            "Save a row per example."
        )
    return pd.DataFrame(array, columns=[f"x{j + 1}" for j in range(array.shape[1])])


def _delimited(path: Path, content: bytes, delimiter: str | None) -> TableFile:
    import pandas as pd

    text, encoding, notes = _text(path, content)
    newline = "\r\n" if "\r\n" in text[:100_000] else "\n"
    skipped = 0
    if asked := re.match(r"sep=(.)\r?\n", text):  # Excel's own way to name the delimiter
        delimiter, skipped, text = asked[1], 1, text[asked.end() :]
    delimiter = _delimiter(text) if delimiter is None else delimiter
    names, rows, lines = _rows(path, text, delimiter, skipped)
    header = not all(re.fullmatch(r"[-+]?[\d.,]+([eE][-+]?\d+)?", name) for name in names)
    if not header:
        rows, lines = [names, *rows], [1 + skipped, *lines]
        names = [f"x{j + 1}" for j in range(len(names))]
        notes.append(f"the first line holds numbers, not names: columns are called x1 to x{len(names)}")
    elif not rows:
        raise InputError(f"{path}: holds column names and no rows. Store at least two rows.")
    _unique(path, names)
    raw = {name: [row[j] for row in rows] for j, name in enumerate(names)}
    decimal = _decimal(raw, delimiter)
    texts = [name for name in names if any(re.match(r"[-+]?0\d", cell) for cell in raw[name])]
    try:
        frame = pd.read_csv(
            io.StringIO(text),
            sep=delimiter,
            decimal=decimal,
            names=names,
            header=0 if header else None,
            index_col=False,
            dtype=dict.fromkeys(texts, "str"),  # 00123 is a name
            skipinitialspace=True,
            low_memory=False,
        )
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}: cannot be read as a table ({_first_line(error)}).") from None
    frame = _restored(frame, raw)
    style = Style(delimiter, decimal, encoding, newline, header, *_looks(frame, raw, decimal))
    return TableFile(frame, style, tuple(notes), tuple(lines))


def _text(path: Path, content: bytes) -> tuple[str, str, list[str]]:
    """The text of a file, its encoding, and notes about it."""
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
    """The delimiter that cuts the first lines into most fields, equally many on each; else that of the first line."""
    sample = text[:200_000].splitlines()[:50]

    def cut(delimiter: str) -> tuple[bool, int]:
        try:
            counts = [len(row) for row in csv.reader(sample, delimiter=delimiter, skipinitialspace=True) if row]
        except csv.Error:  # a field too long to be one
            return False, 0
        return len(set(counts)) == 1 and counts[0] > 1, counts[0] if counts else 0

    return max(DELIMITERS, key=cut)


def _rows(path: Path, text: str, delimiter: str, skipped: int) -> tuple[list[str], list[list[str]], list[int]]:
    """Column names, cells, and the line of each row."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    names: list[str] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in reader:
            if not row:
                continue
            if not names:
                names = row
                continue
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


def _unique(path: Path, names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        at = ", ".join(str(j + 1) for j, name in enumerate(names) if name == twice[0])
        raise InputError(f"{path}, line 1: columns {at} have the same name {twice[0]!r}. Rename one of them.")


def _decimal(raw: dict[str, list[str]], delimiter: str) -> str:
    """A comma, where numbers are written with one and none with a point."""
    if delimiter == ",":
        return "."
    cells = [cell for column in raw.values() for cell in column[:1000]]
    comma = any(re.fullmatch(r"[-+]?\d+,\d+", cell) for cell in cells)
    return "," if comma and not any(re.fullmatch(r"[-+]?\d+\.\d+", cell) for cell in cells) else "."


def _restored(frame: Any, raw: dict[str, list[str]]) -> Any:
    """The frame with columns as they were meant, where missing cells made pandas choose a wider dtype."""
    gaps = frame.isna().to_numpy()
    meant = {}
    for name, dtype, gone in zip(frame.columns, frame.dtypes, gaps.T, strict=True):
        if not gone.any() or gone.all():
            continue
        if dtype.kind == "f" and all(re.fullmatch(r"[-+]?\d+", raw[name][row]) for row in np.flatnonzero(~gone)):
            meant[name] = "Int64"
        elif dtype.name == "object" and isinstance(frame[name][~gone].iloc[0], bool):
            meant[name] = "boolean"
    return frame.astype(meant) if meant else frame


def _looks(
    frame: Any, raw: dict[str, list[str]], decimal: str
) -> tuple[str, dict[str, tuple[str, str]], dict[str, int]]:
    """Text of missing cells, texts of True and False, and fixed decimals, as the file has them."""
    gone: Counter[str] = Counter()
    truths: dict[str, tuple[str, str]] = {}
    decimals: dict[str, int] = {}
    for (name, cells), dtype, missing in zip(raw.items(), frame.dtypes, frame.isna().to_numpy().T, strict=True):
        gone.update(cells[row] for row in np.flatnonzero(missing))
        kept = [cells[row] for row in np.flatnonzero(~missing)]
        if dtype.kind == "b":
            texts = {cell.lower(): cell for cell in reversed(kept)}
            shape = str.upper if kept[0].isupper() else str.lower if kept[0].islower() else str.title
            truths[name] = texts.get("true", shape("true")), texts.get("false", shape("false"))
        elif dtype.kind == "f":
            found = {len(cell.partition(decimal)[2]) if re.fullmatch(r"[-+]?\d*\W\d+", cell) else 0 for cell in kept}
            if len(found) == 1 and (many := found.pop()):
                decimals[name] = many
    return (gone.most_common(1)[0][0] if gone else ""), truths, decimals


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


class DelimitedWriter:
    """New rows as delimited text, block by block."""

    def __init__(self, stream: BinaryIO, style: Style) -> None:
        self.stream, self.style, self.begun = stream, style, False

    def write(self, batch: Batch) -> None:
        """Write these; column names come before the first of them."""
        style, frame = self.style, batch.items.copy(deep=False)
        for name in frame.columns:
            if name in style.truths:
                true, false = style.truths[name]
                frame[name] = frame[name].astype("object").map({True: true, False: false})
            elif name in style.decimals and frame[name].dtype.kind == "f":
                form = f"{{:.{style.decimals[name]}f}}"
                texts = frame[name].map(form.format, na_action="ignore").astype("object")
                frame[name] = texts.str.replace(".", style.decimal, regex=False) if style.decimal != "." else texts
        text = frame.to_csv(
            index=False,
            header=style.header and not self.begun,
            sep=style.delimiter,
            decimal=style.decimal,
            na_rep=style.missing,
            lineterminator=style.newline,
        )
        encoding = style.encoding
        if self.begun:  # a mark at the beginning belongs before the first block only
            encoding = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le"}.get(encoding, encoding)
        self.stream.write(text.encode(encoding, errors="replace"))
        self.begun = True

    def close(self) -> None:
        """Nothing comes after the last row."""


class ParquetWriter:
    """New rows as Parquet, a row group for each block."""

    def __init__(self, stream: BinaryIO) -> None:
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise InputError("writing Parquet needs pyarrow: pip install pyarrow, or write CSV instead.") from None
        self.stream = stream
        self.file: Any = None

    def write(self, batch: Batch) -> None:
        """Write these as a row group."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pandas(batch.items, preserve_index=False, schema=self.file and self.file.schema)
        if self.file is None:
            self.file = pq.ParquetWriter(self.stream, table.schema)
        self.file.write_table(table)

    def close(self) -> None:
        """Write what Parquet keeps at its end."""
        if self.file is not None:
            self.file.close()
