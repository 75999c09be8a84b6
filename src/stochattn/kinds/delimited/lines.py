"""Lines of delimited text: comments, the delimiter, cells, and whether the first line holds names."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile
from pathlib import Path

from ..options import InputError, with_count
from .numbers import MISSING, plain_number

DELIMITERS = (",", ";", "\t", "|")
MAX_SAMPLE = 200_000  # characters that decide the delimiter
MAX_ROWS = 200  # that decide whether the first line holds names
MAX_WHOLE = 0.2
"""Share of numbers with one decimal that end in .0 by chance, twice: such cells may be written without it."""
DATE = r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{2,4})([T ]\d{1,2}:\d{2}.*)?"
KINDS = {"whole", "decimal", "number"}  # of lines of numbers; the last has both integers and decimals
BOOLEANS = {"true", "false", "yes", "no"}
_COMMENTS = re.compile(r"(?:#[^\r\n]*[\r\n]*)*")


def remove_comments(text: str) -> tuple[str, int]:
    """The text with comments, which begin with #, as empty lines, so that lines keep their numbers; how many.

    Three kinds of lines that begin so are no comments: a header such as #id,age, a row whose first cell is missing
    (#N/A), and every one where most rows begin so, as colors do (#ff0000).
    """
    matches = list(re.finditer(r"^#[^\r\n]*", text, flags=re.MULTILINE)) if "#" in text else []
    if not matches:
        return text, 0
    n_leading = len(re.findall(r"^#", _COMMENTS.match(text)[0], flags=re.MULTILINE))  # type: ignore[index]
    n_lines = len(re.findall(r"^[^\r\n]", text, flags=re.MULTILINE))
    if len(matches) == n_lines or 2 * (len(matches) - n_leading) > n_lines - n_leading:
        return text, 0
    header, parts, end, n_comments = _find_header(text), [], 0, 0
    for match in matches:
        start = match.start()
        quoted = text.count('"', end, start) % 2  # begun after the last comment and not ended: a part of a cell
        if not quoted and start != header and not re.match(r"#N/?A\b", match[0]):
            parts.append(text[end:start])
            end, n_comments = match.end(), n_comments + 1
    return "".join([*parts, text[end:]]), n_comments


def _find_header(text: str) -> int | None:
    """Where the last of the lines that begin with # at the top stands, if it is the header; None if it is not.

    A header has as many cells as the line after it, which holds data: at least one number, date or boolean.
    """
    leading = re.match(r"(?:#[^\r\n]*[\r\n]+)*(?=#)", text)
    if leading is None:
        return None
    lines = [line for line in re.split(r"[\r\n]+", text[leading.end() : leading.end() + MAX_SAMPLE]) if line][:2]
    if len(lines) < 2:
        return None
    delimiter = find_delimiter("\n".join(lines))
    first, second = (next(csv.reader([line], delimiter=delimiter, skipinitialspace=True)) for line in lines)
    one_name = len(first) > 1 or not re.search(r"\s", lines[0])
    is_header = len(first) == len(second) and one_name and any(classify_cell(cell) != "text" for cell in second)
    return leading.end() if is_header else None


def find_delimiter(text: str) -> str:
    """The delimiter that cuts the first lines into most fields, equally many on each; else that of the first line.

    Names, times and sentences have spaces, so that a space delimits only where nothing else does.
    """
    sample = text[:MAX_SAMPLE].splitlines()[:50]

    def cut(delimiter: str) -> tuple[bool, int]:
        try:
            counts = [len(row) for row in csv.reader(sample, delimiter=delimiter, skipinitialspace=True) if row]
        except csv.Error:  # a field is too long to be one
            counts = []
        return len(set(counts)) == 1 and counts[0] > 1, counts[0] if counts else 0

    best = max(DELIMITERS, key=cut)
    return " " if cut(best)[1] <= 1 < cut(" ")[1] else best


def split_rows(
    path: Path, text: str, delimiter: str, skipped: int, pad_short: bool, pad_first: bool = False
) -> tuple[list[list[str]], list[int], list[str]]:
    """The cells of each row, of which the first may be names, and the line of each; remarks below the table.

    InputError where rows differ in how many cells they have.
    pad_first: whether the first row may have fewer cells than others if it holds data
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    try:
        numbered, remarks = _split_remarks([(row, reader.line_num + skipped) for row in reader])
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num + skipped}: {error}. Close every quote.") from None
    numbered = [(row, line) for row, line in numbered if row]
    n_cells, lines = len(numbered[0][0]) if numbered else 0, [line for _, line in numbered]
    rows = [[*row, *[""] * (n_cells - len(row))] if pad_short else row for row, _ in numbered]
    if pad_first and rows and not holds_names(rows[0], [row[:n_cells] for row in rows[1:]]):
        n_cells = max(map(len, rows))
        rows = [[*row, *[""] * (n_cells - len(row))] for row in rows]
    for row, line in zip(rows, lines, strict=True):
        if len(row) != n_cells:
            problem = f"has {with_count(len(row), 'value', 'values')} where the first line has {n_cells}"
            remedy = f"Give every line the same number of values (delimiter {delimiter!r})."
            if len(rows) > 1 and all(classify_cell(cell) == "number" for row in rows[:MAX_ROWS] for cell in row):
                remedy += " If each line is a signal, pass kind='signals' and length=N or resample=N."
            raise InputError(f"{path}, line {line}: {problem}. {remedy}")
    return rows, lines, remarks


def _split_remarks(rows: list[tuple[list[str], int]]) -> tuple[list[tuple[list[str], int]], list[str]]:
    """Rows with their lines up to an empty one, below which only strings stand alone in their lines; these strings."""
    filled = ([cell for cell in row if cell.strip()] for row, _ in reversed(rows))
    below = list(takewhile(lambda cells: len(cells) < 2, filled))[::-1]
    if [] not in below or len(below) == len(rows):
        return rows, []
    start = below.index([])
    remarks = [cells[0] for cells in below[start:] if cells]
    if not remarks or any(classify_cell(text) != "text" for text in remarks):
        return rows, []
    return rows[: len(rows) - len(below) + start], remarks


def note_on_shape(path: Path, columns: Mapping[str, Sequence[str]], lines: Sequence[int]) -> tuple[str, ...]:
    """A note on a table that looks transposed: after a name, each line holds one kind of cells, and lines differ in it.

    The kinds are integers and decimals, or numbers of other ranges. InputError where they are numbers and strings,
    of which no column is made.
    """
    first, *others = columns.values()
    if len(others) < 3 or len(set(first)) < len(first) or any(classify_cell(cell) != "text" for cell in first):
        return ()
    rows, example = list(zip(*others[:MAX_ROWS], strict=True)), dict[str, int]()
    for line, cells in zip(lines, rows, strict=True):
        kind = _classify_line(cells)
        if kind == "mixed":
            return ()
        example |= {kind: example.get(kind, line)}
    numbers = [line for kind, line in example.items() if kind in KINDS]
    if not numbers:
        return ()
    if "text" in example:
        which = f"line {numbers[0]} holds numbers and line {example['text']} strings, so that every column mixes both"
        raise InputError(f"{path}: looks transposed: {which}. Pass transpose=True to read each column as an example.")
    if len(first) >= len(others) or set(example) - KINDS:
        return ()  # a table of many rows would be one of many columns
    if set(example) == {"whole", "decimal"}:
        which = f"line {example['whole']} holds integers and line {example['decimal']} decimals"
    elif len(apart := _find_separate_rows(rows)) > 2 and len(_find_separate_rows(list(zip(*rows, strict=True)))) == 1:
        which = f"all numbers of line {lines[apart[0]]} are below those of line {lines[apart[-1]]}"
    else:
        return ()
    return (f"the table may be transposed: {which}. If each column is an example, pass transpose=True",)


def _find_separate_rows(rows: Sequence[Sequence[str]]) -> list[int]:
    """Rows of numbers, as many as possible, each of which lies above the one before."""
    numbers = [[float(plain_number(cell) or plain_number(cell, ",") or "nan") for cell in row] for row in rows]
    present = [[number for number in row if not math.isnan(number)] or [math.nan] for row in numbers]
    chosen: list[int] = []
    for row in sorted(range(len(rows)), key=lambda row: max(present[row])):
        if not chosen or min(present[row]) > max(present[chosen[-1]]):
            chosen.append(row)
    return chosen


def _classify_line(cells: Sequence[str]) -> str:
    """The kind of all cells that are not missing, or mixed; decimals may have few integers among them."""
    kinds = [kind for cell in cells if (kind := classify_cell(cell)) != "missing"]
    if set(kinds) != {"number"}:
        return "missing" if not kinds else kinds[0] if len(set(kinds)) == 1 else "mixed"
    n_whole = sum(re.fullmatch(r"[-+]?\d+", cell.strip()) is not None for cell in cells)
    if n_whole == len(kinds):
        return "whole"
    return "decimal" if n_whole <= MAX_WHOLE * len(kinds) else "number"


def classify_cell(cell: str) -> str:
    """What a cell looks like: number, date, boolean, missing or text."""
    cell = cell.strip()
    if cell in MISSING:
        return "missing"
    if re.fullmatch(DATE, cell):
        return "date"
    if re.fullmatch(r"[-+]?[\d.,]+([eE][-+]?\d+)?", cell) or plain_number(cell) or plain_number(cell, ","):
        return "number"
    return "boolean" if cell.lower() in BOOLEANS else "text"


def holds_names(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line holds names, as it does unless each of its cells fits the column below it.

    A string fits where it occurs below, or where no string does twice. An integer may be a name (2021), so that it
    counts as data only among numbers like it, and not in a run such as 1, 2, 3 that the next line does not repeat.
    """
    if all(classify_cell(name) == "number" for name in first):
        return _is_run(first) and bool(rows) and not _is_run(rows[0])
    fits = False
    for name, *cells in zip(first, *rows[:MAX_ROWS], strict=True):
        present = [cell for cell in cells if classify_cell(cell) != "missing"]
        kinds, kind = {classify_cell(cell) for cell in present}, classify_cell(name)
        if kind == "missing":
            if name == "" and len(present) == len(cells):  # a saved data frame leaves out the name of its index
                return True
        elif len(kinds) == 1 and kinds != {"text"}:
            if kind not in kinds:
                return True
            fits = fits or kind != "number" or _is_among(name, present)
        elif name in present:
            fits = True
        elif 2 * len(set(present)) <= len(present):  # values repeat, and this is none of them
            return True
    numbers = [name for name in first if classify_cell(name) == "number"]
    return not fits or (_is_run(numbers) and not _is_run([cell for cell in rows[0] if classify_cell(cell) == "number"]))


def _is_run(cells: Sequence[str]) -> bool:
    """Whether cells are three or more integers, each the next after the one before."""
    if len(cells) < 3 or not all(re.fullmatch(r"\d{1,15}", cell) for cell in cells):
        return False
    return all(int(after) == int(before) + 1 for before, after in pairwise(cells))


def _is_among(name: str, cells: Sequence[str]) -> bool:
    """Whether a number has decimals or a form of its own, or is about as large as the others."""
    if not re.fullmatch(r"[-+]?\d+", name):
        return True
    numbers = [float(number) for cell in cells if (number := plain_number(cell)) is not None]
    if not numbers:
        return True
    low, high = min(numbers), max(numbers)
    return low - (high - low) <= float(name) <= high + (high - low)
