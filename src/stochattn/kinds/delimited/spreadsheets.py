"""Reads a sheet of a workbook as the delimited text that spreadsheet programs save, with dates as in ISO 8601."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from ..._backend.checks import suggest_names
from ..options import InputError, listed

Cell = str | bool | float | int | date | datetime | time | timedelta | None
MIDNIGHT = time()


def read_sheet(path: Path, sheet: str | int | None = None) -> tuple[bytes, tuple[str, ...]]:
    """The text of a sheet, whose lines are its rows, and notes on what was read.

    sheet: its name or its number from 1; None for the first that holds a table
    """
    status = path.stat()
    return _read_sheet(path, None if sheet is None else str(sheet), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1)  # several steps read the same sheet, from recognizing its kind to making its table
def _read_sheet(path: Path, sheet: str | None, changed: int, size: int) -> tuple[bytes, tuple[str, ...]]:
    try:
        calamine = import_module("python_calamine")
    except ImportError:
        remedy = "pip install python-calamine, or save the sheet as CSV"
        raise InputError(f"{path}: reading spreadsheets needs python-calamine: {remedy}.") from None
    try:
        with path.open("rb") as file:  # its content says the format: a name may have the wrong extension
            workbook = calamine.CalamineWorkbook.from_filelike(file)
        names = list(workbook.sheet_names)
        asked = names if sheet is None else [_find_sheet(path, sheet, names)]
        sheets = ((name, workbook.get_sheet_by_name(name).to_python(skip_empty_area=False)) for name in asked)
        name, rows = _first_table(sheets)
    except calamine.PasswordError:
        raise InputError(f"{path}: has a password. Save it without one, or the sheet as CSV.") from None
    except (calamine.CalamineError, OSError):
        raise InputError(f"{path}: is not a spreadsheet, or is damaged. Save it again, or as CSV.") from None
    if sum(any(map(_is_filled, row)) for row in rows) < 2:
        raise InputError(f"{path}, sheet {name!r}: holds no table. It needs a line of column names and two rows.")
    notes = []
    if len(names) > 1:
        others = listed([repr(title) for title in names if title != name], 6)
        how = "" if sheet is not None else "; sheet=NAME reads another"
        notes.append(f"read from the sheet {name!r}, one of {len(names)} (the others: {others}){how}")
    rows, titles = _remove_titles(rows)
    notes += [f"the first line {title!r} is a title and is skipped" for title in titles]
    used = [place for place, cells in enumerate(zip(*rows, strict=True)) if any(map(_is_filled, cells))]
    columns = [_write_cells([row[place] for row in rows]) for place in used]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for cells in zip(*columns, strict=True):
        if any(cells):
            writer.writerow(cells)
        else:  # stays, so that lines have the numbers of rows
            text.write("\n")
    return text.getvalue().encode(), tuple(notes)


def _find_sheet(path: Path, sheet: str, names: Sequence[str]) -> str:
    if sheet in names:
        return sheet
    if sheet.isdecimal() and 1 <= int(sheet) <= len(names):
        return names[int(sheet) - 1]
    offered = f"{suggest_names(sheet, names)}There are {listed([repr(name) for name in names])}."
    raise InputError(f"{path}: sheet: there is no sheet {sheet!r}. {offered}")


def _is_filled(cell: Cell) -> bool:
    return cell is not None and cell != ""


def _first_table(sheets: Iterable[tuple[str, list[list[Cell]]]]) -> tuple[str, list[list[Cell]]]:
    """The first sheet with rows, columns, and numbers or dates; if there is none, the first that comes closest.

    A workbook often begins with a sheet of remarks, or with one that explains the columns.
    """
    best, best_score = ("", list[list[Cell]]()), (False, False, False)
    for name, rows in sheets:
        best = best if best[0] else (name, rows)
        filled = [[cell for cell in row if _is_filled(cell)] for row in rows]
        has_rows, has_columns = sum(map(bool, filled)) > 1, sum(len(row) > 1 for row in filled) > 1
        has_values = any(not isinstance(cell, str) for row in filled for cell in row)
        score = (has_rows, has_rows and has_columns, has_rows and has_columns and has_values)
        if score > best_score:
            best, best_score = (name, rows), score
        if all(score):
            break
    return best


def _remove_titles(rows: list[list[Cell]]) -> tuple[list[list[Cell]], list[str]]:
    """The rows without titles, and these titles: rows of one cell above the table, if the table has several columns.

    A title leaves an empty row, so that the others keep their numbers.
    """
    titles: list[str] = []
    for place, row in enumerate(rows):
        cells = [cell for cell in row if _is_filled(cell)]
        if len(cells) > 1 or (cells and max(sum(map(_is_filled, line)) for line in rows) < 2):
            return rows, titles
        if cells:
            titles.append(str(cells[0]))
            rows[place] = [None] * len(row)
    return rows, titles


def _write_cells(cells: Sequence[Cell]) -> list[str]:
    """The cells of a column as strings: dates alone where no date has a time."""
    has_times = any(isinstance(cell, datetime) and cell.time() != MIDNIGHT for cell in cells)
    return [_write_cell(cell, has_times) for cell in cells]


def _write_cell(cell: Cell, has_times: bool) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    if isinstance(cell, datetime) or (isinstance(cell, date) and has_times):
        day = cell if isinstance(cell, datetime) else datetime.combine(cell, MIDNIGHT)
        return day.isoformat(" ", "seconds") if has_times else day.date().isoformat()
    if isinstance(cell, timedelta):
        minutes, seconds = divmod(round(cell.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
    return cell.isoformat() if isinstance(cell, date | time) else str(cell)
