"""Cells of delimited text as they are meant: decimal sign, thousands separators, missing cells, long integers."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import compress
from pathlib import Path

from ..._backend.arrays import Array
from ..._backend.checks import first_line
from .. import lazy_pandas as pd
from ..native import frame_of, in_order
from ..options import InputError
from . import numbers
from .notations import notation_of
from .numbers import (
    EMPTY,
    MISSING,
    NUMBER,
    SIGNS,
    TELEPHONE,
    Notation,
    NumberForm,
    form_of,
    plain_number,
    plain_numbers,
)

WHOLE = re.compile(r"[-+]?\d+")
ZERO_FIRST = re.compile(r"[-+]?0\d")
VERSIONS = ("version", "versions", "release")
THOUSANDS = r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?"  # 1,226 and 1,226.50, which may have separators
CERTAIN_THOUSANDS = r"[+-]?[1-9]\d{0,2}(?:(?:,\d{3}){2,}|,\d{3}\.\d*)"
DECIMAL_COMMA = r"[+-]?(?:\d*|[1-9]\d{0,2}(?:\.\d{3})+),\d+(?:[eE][+-]?\d+)?"
"""0,5 and 1226,50 and 1.226,50; also 1,226, which THOUSANDS allows too."""
DECIMAL_POINT = r"[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?"
BEFORE, AFTER = rf"[-+]?(?:{numbers.CURRENCY}{numbers.SPACE})?", rf"(?:{numbers.SPACE}(?:{numbers.CURRENCY}|%|‰))?"
DOTTED = r"[1-9]\d{0,2}(?:\.\d{3})+"  # 1.226, which may have separators beside a decimal comma
WITH_COMMA = rf"{BEFORE}(?:\d+|{DOTTED}),\d+{AFTER}"
WITH_POINT = rf"{BEFORE}(?!{DOTTED}{AFTER}$)(?:\d+\.\d+|{CERTAIN_THOUSANDS}){AFTER}"
MAX_NOTES = 12
AMOUNTS = ("numeric", "integer")
MAX_WORDS, MAX_SHARE, MAX_LETTERS = 2, 0.1, 20
"""Words that mark missing numbers, their share of the cells, and their letters."""
DAY = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
"""20100217, of this century and the one before; of all integers with eight digits, 1 in 1,200 is such a date."""
MIN_DAYS = 3  # different days that show that integers are dates
MAX_CODES, MIN_DIGITS = 10, 4
"""How many distinct integers may be codes, and digits from which on they may be where all have as many."""
NO_NUMBER = re.compile(r"[^\W\d_eE]|[:/]|\d-\d")
"""What neither numbers nor exponents have; words that stand for numbers and booleans have letters too."""
NUMBER_WORDS = {"inf", "infinity", "nan", "true", "false"}
Columns = dict[str, list[str]]


@dataclass(frozen=True)
class Style:
    """How a delimited file is written, so that new rows can be written the same way; columns by name."""

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    newline: str = "\n"
    header: bool = True
    missing: str = ""
    truths: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # strings of True and False
    decimals: Mapping[str, int] = field(default_factory=dict)  # to which numbers are padded with zeros
    codes: Mapping[str, str] = field(default_factory=dict)  # of missing cells, where it is not `missing`
    forms: Mapping[str, NumberForm] = field(default_factory=dict)  # of numbers with a currency sign, separators …

    def notation(self, name: str) -> Notation:
        """How the numbers of a column are written."""
        form = NumberForm(*self.forms[name]) if name in self.forms else None
        decimal = form.decimal if form is not None and form.decimal else self.decimal
        return Notation(decimal, form, self.decimals.get(name, 0))

    def adapt(self, frame: pd.DataFrame, raw: Columns, forms: Mapping[str, NumberForm]) -> Style:
        """The same style with the forms, strings and decimals of a table, whose cells are written as `raw`."""
        is_missing = dict(zip(frame, frame.isna().to_numpy().T, strict=True))
        incomplete = [name for name, mask in is_missing.items() if mask.any()]
        present = {**raw, **{name: list(compress(raw[name], ~is_missing[name])) for name in incomplete}}
        counts = {name: Counter(compress(raw[name], is_missing[name])) for name in incomplete}
        codes = {name: count.most_common(1)[0][0] for name, count in counts.items()}
        missing = sum(counts.values(), Counter()).most_common(1)[0][0] if codes else ""
        kinds = dict(zip(raw, (dtype.kind for dtype in frame.dtypes.tolist()), strict=True))
        floats = {name: cells for name, cells in present.items() if kinds[name] == "f"}
        decimals = {name: n for name, cells in floats.items() if (n := numbers.count_padding(cells, self.decimal))}
        truths = {name: _boolean_words(cells) for name, cells in present.items() if kinds[name] == "b"}
        codes = {name: code for name, code in codes.items() if code != missing}
        return replace(self, missing=missing, truths=truths, decimals=decimals, codes=codes, forms=forms)


def infer_types(
    path: Path, text: str, raw: Columns, basis: Style, types: Mapping[str, str], words: Mapping[str, str]
) -> tuple[pd.DataFrame, Style, list[str]]:
    """The data frame of a text whose cells are `raw`, with the dtypes that are meant; its style, and notes.

    Only columns that may hold numbers or booleans in a form that pandas knows are parsed by it.
    types, words: of columns, the type that a user set, and a string that is known to mark missing cells
    """
    style = replace(basis, decimal=_find_decimal_sign(raw, basis.delimiter))
    plain: dict[str, Array] = {}
    series: dict[str, pd.Series] = {}
    padded: dict[str, int] = {}
    signs: dict[str, list[str]] = {}
    forms: dict[str, NumberForm] = {}
    others: Columns = {}
    for name, cells in raw.items():
        values = plain_numbers(cells, style.decimal)
        if values is not None and not _are_versions(name, cells) and not _are_days(cells, types.get(name)):
            plain[name], padded[name] = values
            continue
        marks = _find_missing_words(name, cells, style.decimal, types.get(name))
        if name in words and words[name] in cells and words[name] not in EMPTY:
            marks = [words[name]]
        present = [cell for cell in cells if cell not in marks]
        form = numbers.find_column_form(present, style.decimal)
        marks += _find_missing_signs(present, form is not None)
        others[name], missing = cells, MISSING.union(marks)
        if marks:
            signs[name] = marks
        if form is not None:
            decimal, forms[name] = form.decimal or style.decimal, form
            rewritten = [plain_number(cell, decimal, units=True) or cell for cell in cells]
            strings = _string_series(rewritten, missing)
            are_integers = strings.str.fullmatch(r"-?\d+", na=True).all()
            series[name] = _parse_integers(strings) if are_integers else pd.to_numeric(strings).astype("float64")
            others[name] = [number.replace(".", style.decimal) for number in rewritten]
        elif _are_names(name, cells) or _are_days(present, types.get(name)):  # 00123 is a name
            series[name] = _string_series(cells, missing)
        elif _are_integers(cells, missing):
            series[name] = _parse_integers(_string_series(cells, missing))
        elif any(map(_is_string, set(cells) - missing)):
            series[name] = _string_series(cells, missing)
    if unknown := [name for name in others if name not in series]:
        parsed = _parse_with_pandas(path, text, style, list(raw), unknown, signs)
        series |= {name: parsed[name] for name in unknown}
    blocks = [frame_of(plain)] if plain else []
    if others:
        blocks.append(pd.DataFrame({name: series[name] for name in others}))
        style = style.adapt(blocks[-1], others, forms)
    decimals = {name: n for name in raw if (n := padded.get(name, 0) or style.decimals.get(name, 0))}
    notes = [*_note_signs(signs), *_note_forms(forms, raw, ", and new ones are written the same way")]
    return in_order(blocks, list(raw)), replace(style, decimals=decimals), notes


def _parse_with_pandas(
    path: Path, text: str, style: Style, names: list[str], wanted: list[str], signs: Mapping[str, list[str]]
) -> pd.DataFrame:
    """Columns of which no cell shows that they hold strings: numbers with missing cells, and booleans."""
    layout: dict[str, object] = {"index_col": False, "header": 0 if style.header else None, "low_memory": False}
    layout |= {"sep": style.delimiter, "decimal": style.decimal, "skipinitialspace": True}
    marks = {name: signs[name] for name in wanted if name in signs}
    try:
        frame = pd.read_csv(io.StringIO(text), names=names, usecols=wanted, na_values=marks, **layout)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}: cannot be read as a table ({first_line(error)}).") from None
    objects = [name for name, dtype in zip(frame, frame.dtypes.tolist(), strict=True) if dtype.name == "object"]
    booleans = [name for name in objects if pd.api.types.infer_dtype(frame[name]) == "boolean"]
    return frame.assign(**{name: frame[name].astype("boolean") for name in booleans}) if booleans else frame


def _is_string(cell: str) -> bool:
    """Whether a cell shows that its column holds strings, because it is neither a number nor a boolean."""
    return NO_NUMBER.search(cell) is not None and cell.strip(" +-").lower() not in NUMBER_WORDS


def _string_series(cells: Sequence[str], missing: Collection[str]) -> pd.Series:
    return pd.Series([None if cell in missing else cell for cell in cells], dtype="str")


def _are_names(name: str, cells: Sequence[str]) -> bool:
    """Whether cells that look like numbers are names: 00123, versions and telephones."""
    return any(ZERO_FIRST.match(cell) or TELEPHONE.fullmatch(cell) for cell in cells) or _are_versions(name, cells)


def _are_versions(name: str, cells: Sequence[str]) -> bool:
    """Whether cells are versions, of which 3.10 is another one than 3.1."""
    return name.strip().lower().endswith(VERSIONS) and any("." in cell for cell in cells)


def _are_days(cells: Sequence[str], type: str | None) -> bool:
    """Whether all cells that are not missing are dates such as 20100217, of several days; the type may be set."""
    first = next((cell for cell in cells if cell not in MISSING), "")  # which decides for most columns
    if type not in (None, "date") or DAY.fullmatch(first) is None:
        return False
    present = set(cells) - EMPTY
    if len(present) < MIN_DAYS or not all(map(DAY.fullmatch, present)):
        return False
    try:
        return all(datetime.strptime(cell, "%Y%m%d") for cell in present)
    except ValueError:
        return False


def _note_signs(signs: Mapping[str, list[str]]) -> list[str]:
    """Notes on the signs that mark missing cells, by column."""
    return [f"column {name!r}: {' and '.join(marks)} is read as missing" for name, marks in signs.items()][:MAX_NOTES]


def _note_forms(forms: Mapping[str, NumberForm], raw: Columns, end: str) -> list[str]:
    """Notes on the columns whose numbers have more than digits, with an example of each."""
    shown = {name: numbers.example_of(cell for cell in raw[name] if cell not in EMPTY) for name in forms}
    notes = [f"column {name!r}: cells such as {cell} are read as numbers{end}" for name, cell in shown.items()]
    return notes[:MAX_NOTES]


def _find_decimal_sign(raw: Columns, delimiter: str) -> str:
    """A comma, where numbers are written with one and none with a point."""
    if delimiter == ",":
        return "."
    cells = {cell for column in raw.values() for cell in column[:1000] if "," in cell or "." in cell}
    comma = any(re.fullmatch(WITH_COMMA, cell) for cell in cells)
    return "," if comma and not any(re.fullmatch(WITH_POINT, cell) for cell in cells) else "."


def _find_missing_signs(cells: list[str], in_form: bool) -> list[str]:
    """Signs such as - or ? that mark missing cells, because all other cells are numbers, plain or in a form."""
    if not (signs := SIGNS.intersection(cells)):
        return []
    empty = signs | MISSING
    present = [cell for cell in cells if cell not in empty]
    if in_form or all(re.fullmatch(NUMBER, cell) for cell in present) or notation_of(present) is not None:
        return sorted(signs)
    return []


def _find_missing_words(name: str, cells: Sequence[str], decimal: str, type: str | None) -> list[str]:
    """One or two words such as n.d. that mark missing cells, because nine in ten of the cells are numbers.

    Integers may be codes, among which a word is another one, unless a user set a `type` of amounts: codes are few,
    or have four digits or more, as many as one another.
    """
    is_amount = type in AMOUNTS
    counts = Counter(cell for cell in cells if cell not in EMPTY)
    words = {cell: count for cell, count in counts.items() if _is_word(cell)}
    if not 1 <= len(words) <= MAX_WORDS or not (type is None or is_amount):
        return []
    if sum(words.values()) > MAX_SHARE * counts.total():
        return []
    others = [cell for cell in counts if cell not in words]
    are_plain = all(re.fullmatch(NUMBER, cell) for cell in others)
    if not (are_plain or form_of(others, decimal) is not None or notation_of(others) is not None):
        return []
    if not is_amount and (_are_names(name, others) or _are_codes(others)):
        return []
    return sorted(words)


def _is_word(cell: str) -> bool:
    """Whether a cell is up to three short words without digits, which are not an infinite number."""
    if not any(map(str.isalpha, cell)) or any(map(str.isdigit, cell)) or len(cell) > MAX_LETTERS:
        return False
    return cell.strip("+-").lower() not in ("inf", "infinity") and len(cell.split()) <= 3


def _are_codes(cells: Sequence[str]) -> bool:
    lengths = set(map(len, cells))
    are_few = len(cells) <= MAX_CODES or (len(lengths) == 1 and min(lengths) >= MIN_DIGITS)
    return are_few and all(map(WHOLE.fullmatch, cells))


def _are_integers(cells: list[str], missing: Collection[str]) -> bool:
    """Whether cells are integers that pandas would read as floats: some are missing, or long."""
    if not all(cell in missing or WHOLE.fullmatch(cell) for cell in cells):  # the first cell of most columns shows it
        return False
    present = [cell for cell in cells if cell not in missing]
    return bool(present) and (len(present) < len(cells) or max(map(len, present)) > 15)


def _parse_integers(texts: pd.Series) -> pd.Series:
    """Strings of integers as 64-bit integers, or as they are where these do not fit into 64 bits."""
    missing = texts.isna().to_numpy()
    values = [pd.NA if is_missing else int(text) for text, is_missing in zip(texts, missing, strict=True)]
    for dtype in ("Int64", "UInt64"):
        with suppress(OverflowError, TypeError, ValueError):
            integers = pd.Series(pd.array(values, dtype=dtype))
            return integers if missing.any() else integers.astype(dtype.lower())
    return texts


def read_strings(
    path: Path, raw: Columns, basis: Style, place: Callable[[int], str]
) -> tuple[dict[str, list[str | None]], Style, list[str]]:
    """Cells as strings, None for missing ones, with numbers as programs write them; their style, and notes.

    place: where a row is in the file, for messages
    """
    delimiter = basis.delimiter
    sign = _find_decimal_sign(raw, delimiter)
    forms = {name: form for name, cells in raw.items() if (form := form_of(cells, sign)) is not None}
    # Separators of thousands alone are ambiguous beside other delimiters: the whole file decides about them below.
    forms = {name: form for name, form in forms.items() if delimiter == "," or form.prefix or form.suffix}
    signs = {name: marks for name, cells in raw.items() if (marks := _find_missing_signs(cells, name in forms))}
    cells = {name: [plain_number(cell, sign, units=True) or cell for cell in raw[name]] for name in forms}
    missing = {name: MISSING.union(signs.get(name, ())) for name in raw}
    texts = {name: [None if cell in missing[name] else cell for cell in cells.get(name, raw[name])] for name in raw}
    style = replace(basis, decimal=".", forms=forms)
    notes = [*_note_signs(signs), *_note_forms(forms, raw, end="")]
    if delimiter == ",":
        return texts, style, notes
    others = pd.DataFrame({name: column for name, column in texts.items() if name not in forms}, dtype="str")
    if others.empty:
        return texts, replace(style, decimal=sign), notes
    others, decimal, on_commas = _rewrite_decimal_commas(others, path, place)
    rewritten = {name: [None if pd.isna(cell) else cell for cell in others[name]] for name in others}
    return {**texts, **rewritten}, replace(style, decimal=sign if forms else decimal), [*notes, *on_commas]


def _rewrite_decimal_commas(
    frame: pd.DataFrame, path: Path, place: Callable[[int], str]
) -> tuple[pd.DataFrame, str, tuple[str, ...]]:
    """The strings of a file not delimited by commas, with decimal points and without separators; decimal sign, notes.

    `1,226` alone may be either. `0,5` or `1226,50` elsewhere in the file shows a decimal comma; `1,226.50`,
    `1,226,000` or `12.5` shows thousands separators. Where neither or both appear, it is an InputError.
    """
    texts = pd.concat({name: frame[name].dropna().str.strip() for name in frame.columns})  # by column and row
    if not texts.str.contains(",").any():
        return frame, ".", ()

    def at(cells: pd.Series) -> str:
        column, row = cells.index[0]
        return f"{place(row)}, column {column!r}"

    thousands = texts[texts.str.fullmatch(THOUSANDS)]
    decimal = texts[texts.str.fullmatch(DECIMAL_COMMA) & ~texts.str.fullmatch(THOUSANDS)]
    points = texts[texts.str.fullmatch(CERTAIN_THOUSANDS) | texts.str.fullmatch(DECIMAL_POINT)]
    if len(decimal) and len(points):
        comma, point = (f"{cells.iloc[0]!r} ({at(cells)}) with a" for cells in (decimal, points))
        raise InputError(f"{path} writes {comma} decimal comma and {point} point: write all numbers in one way.")
    if len(decimal):
        pattern, signs, sign = DECIMAL_COMMA, str.maketrans({".": "", ",": "."}), ","
        note = f"numbers such as {decimal.iloc[0]} were read with a decimal comma."
    elif len(thousands) and len(points):
        pattern, signs, sign = THOUSANDS, str.maketrans({",": ""}), "."
        note = f"commas in numbers such as {thousands.iloc[0]} were read as thousands separators."
    elif len(thousands):
        text = thousands.iloc[0]
        raise InputError(
            f"{path}, {at(thousands)}: {text!r} may mean {text.replace(',', '')} or {text.replace(',', '.')}, and no "
            "other number of the file decides which: write decimals with a point and leave out thousands separators."
        )
    else:
        return frame, ".", ()
    rewritten = frame.apply(
        lambda cells: cells.mask(cells.str.strip().str.fullmatch(pattern, na=False), cells.str.translate(signs))
    )
    return rewritten, sign, (note,)


def _boolean_words(cells: list[str]) -> tuple[str, str]:
    texts = {cell.lower(): cell for cell in reversed(cells)}
    shape = str.upper if cells[0].isupper() else str.lower if cells[0].islower() else str.title
    return texts.get("true", shape("true")), texts.get("false", shape("false"))
