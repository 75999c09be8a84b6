"""What a comma in a number means, for a whole file: a decimal comma, or a mark between thousands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..legacy import InputError

MARKED = r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?"
"""1,226 and 1,226.50: may have marks between thousands."""
SURELY_MARKED = r"[+-]?[1-9]\d{0,2}(?:(?:,\d{3}){2,}|,\d{3}\.\d*)"
DECIMAL = r"[+-]?(?:\d*|[1-9]\d{0,2}(?:\.\d{3})+),\d+(?:[eE][+-]?\d+)?"
"""0,5 and 1226,50 and 1.226,50; also 1,226, which MARKED allows too."""
POINTED = r"[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?"


def with_points(frame: Any, path: Path, line: Callable[[int], str]) -> tuple[Any, tuple[str, ...]]:
    """Texts of a file whose columns no comma separates, with points for decimals and no marks; and a note.

    `1,226` alone may be either. `0,5` or `1226,50` elsewhere in the file tells a decimal comma; `1,226.50`,
    `1,226,000` or `12.5` tells marks between thousands. Where nothing does, or both do, it is an InputError.
    """
    import pandas as pd

    if not any(frame[name].str.contains(",", regex=False, na=False).any() for name in frame.columns):
        return frame, ()
    texts = pd.concat({name: frame[name].dropna().str.strip() for name in frame.columns})  # by column and row
    marked = texts[texts.str.fullmatch(MARKED)]
    decimal = texts[texts.str.fullmatch(DECIMAL) & ~texts.str.fullmatch(MARKED)]
    points = texts[texts.str.fullmatch(SURELY_MARKED) | texts.str.fullmatch(POINTED)]
    if len(decimal) and len(points):
        raise InputError(
            f"{path} writes {decimal.iloc[0]!r} ({_place(decimal, line)}) with a decimal comma and "
            f"{points.iloc[0]!r} ({_place(points, line)}) with a point: write all numbers in one way."
        )
    if len(decimal):
        note = f"numbers such as {decimal.iloc[0]} were read with a decimal comma."
        return frame.apply(_decimal_points), (note,)
    if len(marked) and len(points):
        note = f"commas in numbers such as {marked.iloc[0]} were read as marks between thousands."
        return frame.apply(_without_marks), (note,)
    if len(marked):
        text = marked.iloc[0]
        raise InputError(
            f"{path}, {_place(marked, line)}: {text!r} may mean {text.replace(',', '')} or {text.replace(',', '.')}, "
            "and no other number of the file tells which: write decimals with a point and thousands without a mark."
        )
    return frame, ()


def _decimal_points(column: Any) -> Any:
    numbers = column.str.strip().str.fullmatch(DECIMAL, na=False)
    return column.mask(numbers, column.str.replace(".", "", regex=False).str.replace(",", ".", regex=False))


def _without_marks(column: Any) -> Any:
    return column.mask(column.str.strip().str.fullmatch(MARKED, na=False), column.str.replace(",", "", regex=False))


def _place(texts: Any, line: Callable[[int], str]) -> str:
    column, row = texts.index[0]
    return f"{line(row)}, column {column!r}"
