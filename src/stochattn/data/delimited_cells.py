"""Cells of delimited text as they are meant: decimal sign, thousands separators, missing cells, long whole numbers.

`Style` says how a file writes them, so that new rows can be written the same way.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .options import InputError

if TYPE_CHECKING:
    import pandas as pd

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
THOUSANDS = r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?"
"""1,226 and 1,226.50: may have thousands separators."""
CERTAIN_THOUSANDS = r"[+-]?[1-9]\d{0,2}(?:(?:,\d{3}){2,}|,\d{3}\.\d*)"
DECIMAL_COMMA = r"[+-]?(?:\d*|[1-9]\d{0,2}(?:\.\d{3})+),\d+(?:[eE][+-]?\d+)?"
"""0,5 and 1226,50 and 1.226,50; also 1,226, which THOUSANDS allows too."""
DECIMAL_POINT = r"[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?"
MIN_PADDED = 0.95
"""Share of a column's numbers that must have as many decimals for new ones to be padded to them."""
Columns = dict[str, list[str]]


@dataclass(frozen=True)
class Style:
    """How a delimited file is written.

    truths:   for columns of True and False, the texts of the two
    decimals: for columns whose numbers are padded with zeros to a number of decimals, that number
    codes:    for columns whose missing cells have another text than `missing`, that text
    """

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    newline: str = "\n"
    header: bool = True
    missing: str = ""
    truths: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    decimals: Mapping[str, int] = field(default_factory=dict)
    codes: Mapping[str, str] = field(default_factory=dict)

    def missing_in(self, column: str) -> str:
        """Text of a missing cell of this column."""
        return self.codes.get(column, self.missing)

    @classmethod
    def of(cls, frame: pd.DataFrame, raw: Mapping[str, list[str]], basis: Style) -> Style:
        """The style of a table, from the frame and the texts of its cells; all else is that of `basis`."""
        texts: Counter[str] = Counter()
        codes: dict[str, str] = {}
        truths: dict[str, tuple[str, str]] = {}
        decimals: dict[str, int] = {}
        for (name, cells), dtype, missing in zip(raw.items(), frame.dtypes, frame.isna().to_numpy().T, strict=True):
            if missing.any():
                found = Counter(cells[row] for row in np.flatnonzero(missing))
                codes[name] = found.most_common(1)[0][0]
                texts.update(found)
            present = [cells[row] for row in np.flatnonzero(~missing)]
            if dtype.kind == "b":
                truths[name] = _truths(present)
            elif dtype.kind == "f" and (n_decimals := _padding(present, basis.decimal)):
                decimals[name] = n_decimals
        usual = texts.most_common(1)[0][0] if texts else ""
        others = {name: code for name, code in codes.items() if code != usual}
        return replace(basis, missing=usual, truths=truths, decimals=decimals, codes=others)


def decimal_sign(raw: Columns, delimiter: str) -> str:
    """A comma, where numbers are written with one and none with a point."""
    if delimiter == ",":
        return "."
    cells = [cell for column in raw.values() for cell in column[:1000]]
    comma = any(re.fullmatch(r"[-+]?\d+,\d+", cell) for cell in cells)
    return "," if comma and not any(re.fullmatch(r"[-+]?\d+\.\d+", cell) for cell in cells) else "."


def missing_signs(cells: list[str]) -> list[str]:
    """Signs such as - or ? that mark missing cells, because all other cells are numbers."""
    found = SIGNS.intersection(cells)
    if found and all(cell in found or cell in MISSING or re.fullmatch(NUMBER, cell) for cell in cells):
        return sorted(found)
    return []


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its name."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def typed_frame(path: Path, text: str, style: Style, raw: Columns, signs: dict[str, list[str]]) -> pd.DataFrame:
    """The data frame of a text whose cells are `raw`, with the dtypes that are meant; `signs` mark missing cells."""
    import pandas as pd

    names = [name for name, cells in raw.items() if any(re.match(r"[-+]?0\d", cell) for cell in cells)]
    long = [name for name, cells in raw.items() if name not in names and _is_long(cells, signs.get(name, []))]
    try:
        frame = pd.read_csv(
            io.StringIO(text),
            sep=style.delimiter,
            decimal=style.decimal,
            names=list(raw),
            header=0 if style.header else None,
            index_col=False,
            dtype=dict.fromkeys([*names, *long], "str"),  # 00123 is a name
            na_values=signs,
            skipinitialspace=True,
            low_memory=False,
        )
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}: cannot be read as a table ({first_line(error)}).") from None
    retyped = _narrowed(frame, raw) | {name: whole for name in long if (whole := _whole(frame[name])) is not None}
    return frame.assign(**retyped) if retyped else frame


def _is_long(cells: list[str], signs: list[str]) -> bool:
    """Whether cells are whole numbers and some have more digits than a float keeps."""
    if not any(len(cell) > 15 and re.fullmatch(WHOLE, cell) for cell in cells):
        return False
    return all(re.fullmatch(WHOLE, cell) or cell in MISSING or cell in signs for cell in cells)


def _whole(texts: pd.Series) -> pd.Series | None:
    """Texts of whole numbers as the numbers themselves, or None where they have more than 64 bits."""
    import pandas as pd

    missing = texts.isna().to_numpy()
    numbers = [pd.NA if gone else int(text) for text, gone in zip(texts, missing, strict=True)]
    for dtype in ("Int64", "UInt64"):
        try:
            whole = pd.Series(pd.array(numbers, dtype=dtype))
        except (OverflowError, TypeError, ValueError):
            continue
        return whole if missing.any() else whole.astype(dtype.lower())
    return None


def _narrowed(frame: pd.DataFrame, raw: Columns) -> dict[str, pd.Series]:
    """Columns with the dtype of their cells, where missing cells made pandas choose a wider one."""
    narrowed = {}
    for name, dtype, missing in zip(frame.columns, frame.dtypes, frame.isna().to_numpy().T, strict=True):
        if not missing.any() or missing.all():
            continue
        if dtype.kind == "f" and all(re.fullmatch(WHOLE, raw[name][row]) for row in np.flatnonzero(~missing)):
            narrowed[name] = frame[name].astype("Int64")
        elif dtype.name == "object" and isinstance(frame[name][~missing].iloc[0], bool):
            narrowed[name] = frame[name].astype("boolean")
    return narrowed


def with_decimal_points(
    frame: pd.DataFrame, path: Path, place: Callable[[int], str]
) -> tuple[pd.DataFrame, str, tuple[str, ...]]:
    """The texts of a file not delimited by commas, with decimal points and without separators; decimal sign, notes.

    `1,226` alone may be either. `0,5` or `1226,50` elsewhere in the file shows a decimal comma; `1,226.50`,
    `1,226,000` or `12.5` shows thousands separators. Where neither or both appear, it is an InputError.
    """
    import pandas as pd

    if not any(frame[name].str.contains(",", regex=False, na=False).any() for name in frame.columns):
        return frame, ".", ()
    texts = pd.concat({name: frame[name].dropna().str.strip() for name in frame.columns})  # by column and row

    def at(found: pd.Series) -> str:
        column, row = found.index[0]
        return f"{place(row)}, column {column!r}"

    thousands = texts[texts.str.fullmatch(THOUSANDS)]
    decimal = texts[texts.str.fullmatch(DECIMAL_COMMA) & ~texts.str.fullmatch(THOUSANDS)]
    points = texts[texts.str.fullmatch(CERTAIN_THOUSANDS) | texts.str.fullmatch(DECIMAL_POINT)]
    if len(decimal) and len(points):
        raise InputError(
            f"{path} writes {decimal.iloc[0]!r} ({at(decimal)}) with a decimal comma and "
            f"{points.iloc[0]!r} ({at(points)}) with a point: write all numbers in one way."
        )
    if len(decimal):
        note = f"numbers such as {decimal.iloc[0]} were read with a decimal comma."
        return _rewritten(frame, DECIMAL_COMMA, {".": "", ",": "."}), ",", (note,)
    if len(thousands) and len(points):
        note = f"commas in numbers such as {thousands.iloc[0]} were read as thousands separators."
        return _rewritten(frame, THOUSANDS, {",": ""}), ".", (note,)
    if len(thousands):
        text = thousands.iloc[0]
        raise InputError(
            f"{path}, {at(thousands)}: {text!r} may mean {text.replace(',', '')} or "
            f"{text.replace(',', '.')}, and no other number of the file decides which: write decimals with a point and "
            "leave out thousands separators."
        )
    return frame, ".", ()


def _rewritten(frame: pd.DataFrame, numbers: str, signs: dict[str, str]) -> pd.DataFrame:
    """The frame with signs replaced in the cells that match the pattern `numbers`."""
    table = str.maketrans(signs)
    return frame.apply(
        lambda cells: cells.mask(cells.str.strip().str.fullmatch(numbers, na=False), cells.str.translate(table))
    )


def _truths(cells: list[str]) -> tuple[str, str]:
    texts = {cell.lower(): cell for cell in reversed(cells)}
    shape = str.upper if cells[0].isupper() else str.lower if cells[0].islower() else str.title
    return texts.get("true", shape("true")), texts.get("false", shape("false"))


def _padding(cells: list[str], decimal: str) -> int:
    """How many decimals numbers are padded to; 0 where a number with fewer of them shows that they are not."""
    found = Counter(len(cell.partition(decimal)[2]) if re.fullmatch(r"[-+]?\d*\W\d+", cell) else 0 for cell in cells)
    if not found:
        return 0
    n_decimals, count = found.most_common(1)[0]
    return n_decimals if n_decimals == min(found) and count >= MIN_PADDED * len(cells) else 0
