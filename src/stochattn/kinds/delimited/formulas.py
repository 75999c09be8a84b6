"""Texts that a spreadsheet would run as formulas: which they are, and how they are written as texts and read back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TextIO

from .. import lazy_pandas as pd
from ..options import listed
from .numbers import NUMBER

NO_FORMULA = re.compile(rf"[-+]+|{NUMBER}\s*%?")
"""Texts with a sign in front that spreadsheets read as a text or as a number."""
BEGINNINGS = frozenset("=+-@＝＋－＠\t\r\n")  # also in full width, which spreadsheets of East Asia read alike
LINE_END = "\r\n"
"""With this line end, `csv` quotes cells that hold either character; with another one, not before Python 3.13."""
APOSTROPHE = "'"  # in front of a cell, it tells a spreadsheet that the rest is a text


class RowLines:
    """Where rows go that are written with the line end `LINE_END`: to `destination`, with the line end `newline`."""

    def __init__(self, destination: TextIO, newline: str = "\n") -> None:
        self.destination, self.newline = destination, newline

    def write(self, row: str) -> int:
        return self.destination.write(row.removesuffix(LINE_END) + self.newline)


def is_formula(cell: object) -> bool:
    """Whether a cell is a text that spreadsheets take for a formula; -5 is a number, and a sign alone a text.

    >>> [is_formula(cell) for cell in ("=1+1", "@a", "-cmd", "-5", "-", "A+", -5)]
    [True, True, True, False, False, False, False]
    """
    return isinstance(cell, str) and cell[:1] in BEGINNINGS and not NO_FORMULA.fullmatch(cell)


def formula_note(names: Sequence[str], quoted: bool) -> tuple[str, ...]:
    """A note on columns with such texts, if there are any."""
    if not names:
        return ()
    remedy = "pass safe_csv=True to write them as texts"
    action = "they get an apostrophe in front in CSV and TSV files" if quoted else remedy
    return (f"texts in {listed([repr(name) for name in names], 6)} begin as formulas of spreadsheets do: {action}",)


def as_text(cell: object) -> object:
    """A cell with an apostrophe in front if it is a formula."""
    return f"{APOSTROPHE}{cell}" if is_formula(cell) else cell


def from_text(cell: object) -> object:
    """The cell whose `as_text` this is."""
    return cell[1:] if isinstance(cell, str) and cell.startswith(APOSTROPHE) and is_formula(cell[1:]) else cell


def without_apostrophes(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """A frame that was written with apostrophes before the formulas of these columns, as it was; others stay."""
    written = {str(as_text(name)): name for name in names}
    frame = frame.rename(columns={name: written[name] for name in frame.columns if name in written})
    texts = [name for name in names if name in frame and frame[name].dtype.kind == "O"]
    return frame.assign(**{name: frame[name].map(from_text) for name in texts})
