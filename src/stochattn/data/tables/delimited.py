"""Delimited text as a table: delimiter, encoding, decimal sign, missing cells and long numbers as they are meant."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..legacy import InputError
from .style import Style

DELIMITERS = (",", ";", "\t", "|")
MISSING = frozenset(
    (
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
        *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    )
)
"""Texts that pandas reads as missing cells."""
SIGNS = frozenset(("-", "--", "?", ".", "*"))
"""Texts that are missing cells in a column of numbers, and may be names in any other."""
NUMBER = r"[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?"
WHOLE = r"[-+]?\d+"


class TableFile(NamedTuple):
    """A table as read."""

    frame: Any
    style: Style
    notes: tuple[str, ...]
    lines: tuple[int, ...]  # line of the file on which each row ends, or () where rows have no lines


def read_delimited(path: Path, content: bytes, delimiter: str | None) -> TableFile:
    """The table in the content of a delimited file; the delimiter is found out where it is None."""
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
    signs = {name: found for name, cells in raw.items() if (found := _signs(cells))}
    notes += [f"column {name!r}: {' and '.join(found)} is read as missing" for name, found in signs.items()][:12]
    frame = _frame(path, text, delimiter, decimal, raw, 0 if header else None, signs)
    style = Style.of(
        frame, raw, delimiter=delimiter, decimal=decimal, encoding=encoding, newline=newline, header=header
    )
    return TableFile(frame, style, tuple(notes), tuple(lines))


def first_line(error: Exception) -> str:
    """The first line of what an error says, or its name."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


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
    """The delimiter that cuts the first lines into most fields, equally many on each; else that of the first line.

    Names, times and sentences have spaces, so that a space delimits only where nothing else does.
    """
    sample = text[:200_000].splitlines()[:50]

    def cut(delimiter: str) -> tuple[bool, int]:
        try:
            counts = [len(row) for row in csv.reader(sample, delimiter=delimiter, skipinitialspace=True) if row]
        except csv.Error:  # a field too long to be one
            return False, 0
        return len(set(counts)) == 1 and counts[0] > 1, counts[0] if counts else 0

    best = max(DELIMITERS, key=cut)
    return " " if cut(best)[1] <= 1 < cut(" ")[1] else best


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


def _signs(cells: list[str]) -> list[str]:
    """Signs such as - or ? that stand for missing cells, because all other cells are numbers."""
    found = SIGNS.intersection(cells)
    if found and all(cell in found or cell in MISSING or re.fullmatch(NUMBER, cell) for cell in cells):
        return sorted(found)
    return []


def _frame(
    path: Path,
    text: str,
    delimiter: str,
    decimal: str,
    raw: dict[str, list[str]],
    header: int | None,
    signs: dict[str, list[str]],
) -> Any:
    """The data frame, with whole numbers exact and columns of the dtype they were meant to have."""
    import pandas as pd

    names = [name for name, cells in raw.items() if any(re.match(r"[-+]?0\d", cell) for cell in cells)]
    long = [name for name, cells in raw.items() if name not in names and _long(cells, signs.get(name, []))]
    try:
        frame = pd.read_csv(
            io.StringIO(text),
            sep=delimiter,
            decimal=decimal,
            names=list(raw),
            header=header,
            index_col=False,
            dtype=dict.fromkeys([*names, *long], "str"),  # 00123 is a name
            na_values=signs,
            skipinitialspace=True,
            low_memory=False,
        )
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}: cannot be read as a table ({first_line(error)}).") from None
    meant = _meant(frame, raw) | {name: whole for name in long if (whole := _whole(frame[name])) is not None}
    return frame.assign(**meant) if meant else frame


def _long(cells: list[str], signs: list[str]) -> bool:
    """Whether cells are whole numbers of which some have more digits than a float keeps."""
    if not any(len(cell) > 15 and re.fullmatch(WHOLE, cell) for cell in cells):
        return False
    return all(re.fullmatch(WHOLE, cell) or cell in MISSING or cell in signs for cell in cells)


def _whole(texts: Any) -> Any:
    """Texts of whole numbers as the numbers themselves, or None where they have more than 64 bits."""
    import pandas as pd

    gone = texts.isna().to_numpy()
    numbers = [pd.NA if missing else int(text) for text, missing in zip(texts, gone, strict=True)]
    for dtype in ("Int64", "UInt64"):
        try:
            whole = pd.Series(pd.array(numbers, dtype=dtype))
        except (OverflowError, TypeError, ValueError):
            continue
        return whole if gone.any() else whole.astype(dtype.lower())
    return None


def _meant(frame: Any, raw: dict[str, list[str]]) -> dict[str, Any]:
    """Columns as they were meant, where missing cells made pandas choose a wider dtype."""
    gaps = frame.isna().to_numpy()
    meant = {}
    for name, dtype, gone in zip(frame.columns, frame.dtypes, gaps.T, strict=True):
        if not gone.any() or gone.all():
            continue
        if dtype.kind == "f" and all(re.fullmatch(WHOLE, raw[name][row]) for row in np.flatnonzero(~gone)):
            meant[name] = frame[name].astype("Int64")
        elif dtype.name == "object" and isinstance(frame[name][~gone].iloc[0], bool):
            meant[name] = frame[name].astype("boolean")
    return meant
