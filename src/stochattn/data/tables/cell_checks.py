"""Checks of the cells of a column: those that no type can hold, or not the one that a user set, and few odd ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .. import lazy_pandas as pd
from ..options import InputError
from .cells import Cells
from .clocks import Clock
from .columns import MAX_EXACT, ColumnType, Source

MAX_LEVELS = 500
MAX_NUMBER = 1e150
KNOWN_OBJECTS = ("string", "boolean", "date", "empty", "categorical")
TOO_LONG = "holds whole numbers of over 15 digits, which floats do not distinguish"
IDENTIFIERS = "identifiers are texts or whole numbers"
AMOUNTS = (ColumnType.NUMERIC, ColumnType.INTEGER)


def cells_beside_numbers(present: Cells, counts: Mapping[str, int], most: float, source: Source) -> str:
    """A note on the cells, `most` of them at most, that keep a column of texts from being one of numbers, or nothing.

    counts: how often each text occurs, in the order of their first cells
    """
    n, first = 0, ""
    for text, count in counts.items():
        if not _is_number(text):
            n, first = n + count, first or text
            if n > most:
                return ""
    if not n:  # all are numbers where zeros in front, or many digits, make them texts
        return ""
    place = list(map(str, present.objects)).index(first)
    where = f"{_short(first)} in {source.line(present.row(place))}"
    if n == 1:
        return f"; one of its cells is not a number ({where}): correct or empty it"
    return f"; {n} of its cells are not numbers (such as {where}): correct or empty these"


def _is_number(text: str) -> bool:
    """Whether a text is a number, with a decimal point or a decimal comma."""
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _short(cell: object) -> str:
    return repr(str(cell)[:30])


def check_cells(cells: Cells, source: Source) -> None:
    """InputError for cells that no type of column can hold."""
    name, dtype, present = cells.name, cells.dtype, cells.present
    for row in (np.abs(cells.numbers) > MAX_NUMBER).nonzero()[0] if dtype.kind == "f" else ():
        rule = f"is infinite or beyond {MAX_NUMBER:g}, whose square no float can hold"
        raise InputError(f"{source.place(name, int(row))}: {rule}. Empty the cell, or write a number into it.")
    texts = dtype.kind == "O" and (dtype.name == "str" or pd.api.types.infer_dtype(present.array) in KNOWN_OBJECTS)
    if dtype.kind not in "biufM" and not texts:
        kinds = [f"{type} (such as {_short(cell)})" for type, cell in _examples(present.series).items()]
        mixed = len(kinds) > 1
        found = f"mixes cells of type {' and '.join(kinds)}" if mixed else f"cells of type {kinds[0]} are not handled"
        remedy = f"Turn them into numbers, texts or dates, or leave the column out with columns={{{name!r}: 'drop'}}."
        raise InputError(f"{source.place(name)}: {found}. {remedy}")


def _examples(cells: pd.Series) -> dict[str, object]:
    """The first cell of each Python type, by the name of the type."""
    found: dict[str, object] = {}
    for cell in cells:
        found.setdefault(type(cell).__name__, cell)
    return found


def check_type(present: Cells, distinct: int, type: ColumnType, clock: Clock | None, source: Source) -> None:
    """InputError for a column that cannot have the type that a user set."""
    dtype, is_amount = present.dtype, type in AMOUNTS
    if is_amount and dtype.kind == "O":
        _require_numbers(present, type, source)
    numbers = present.numbers if is_amount and dtype.kind in "iuf" else np.zeros(1)
    for wrong, why in (
        (is_amount and dtype.kind not in "iuf", f"holds {_described(present)}, not numbers"),
        (type == ColumnType.INTEGER and (numbers != np.round(numbers)).any(), "holds fractions"),
        (dtype.kind in "iu" and np.abs(numbers).max() >= MAX_EXACT, TOO_LONG),
        (type == ColumnType.BOOLEAN and distinct != 2, f"holds {distinct} distinct values, not two"),
        (type == ColumnType.CATEGORY and distinct > MAX_LEVELS, f"holds {distinct:,} values, over {MAX_LEVELS}"),
        (type == ColumnType.DATE and clock is None, "does not hold dates"),
        (type == ColumnType.ID and not _can_be_ids(present), f"holds {_described(present)}, and {IDENTIFIERS}"),
    ):
        if wrong:
            where = source.place(present.name)
            raise InputError(f"{where}: cannot be read as {type}: it {why}. Set another type with columns.")


def _require_numbers(present: Cells, type: ColumnType, source: Source) -> None:
    """InputError that names the first cell that is not a number, if some are."""
    wrong = [place for place, cell in enumerate(present.objects) if not _is_number(str(cell))]
    if 0 < len(wrong) < len(present.objects):
        where = source.place(present.name, present.row(wrong[0]))
        more = f", and {len(wrong) - 1:,} more of its cells are not either" if len(wrong) > 1 else ""
        found = f"{_short(present.objects[wrong[0]])} is not a number{more}: it cannot be read as {type}"
        raise InputError(f"{where}: {found}. Correct or empty such cells, or set another type with columns.")


def _described(present: Cells) -> str:
    """What cells are, in words, with the first of them if there is one."""
    kinds = {"O": "texts", "b": "booleans", "M": "dates", "f": "numbers with fractions"}
    example = "".join(f" such as {_short(cell)}" for cell in present.series.iloc[:1])
    return f"{kinds.get(present.dtype.kind, str(present.dtype))}{example}"


def _can_be_ids(present: Cells) -> bool:
    kind = present.dtype.kind
    return kind in "iuO" or (kind == "f" and bool((present.numbers % 1 == 0).all()))
