"""Options of reading a table; the type of each column, inferred from its cells, and the column fitted on them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..._backend.checks import suggestion
from .. import lazy_pandas as pd
from ..delimited_cells import notation_of
from ..delimited_numbers import Notation
from ..options import InputError, option
from .cell_checks import AMOUNTS, MAX_LEVELS, cells_beside_numbers, check_cells, check_type
from .cells import Cells
from .clocks import clock_of
from .columns import MAX_EXACT, Column, ColumnType, Levels, Source
from .identifiers import count_texts, numbers_count_rows, numbers_name_rows, texts_name_rows
from .scales import Distinct, Ranks, decimals_of, limits_of

MAX_NOTES = 12
MAX_FLOAT_LEVELS = 10  # distinct numbers with decimals, up to which they are categories if they repeat
MIN_REPEATS = 5  # rows per such number
MAX_OTHER, MAX_OTHERS = (
    0.2,
    2,
)  # share of cells, and number of them in a category, that may keep others from being numbers
LABELS = ("target", "label", "labels", "class", "species", "diagnosis", "outcome", "group", "y")
TRUTHS = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"}, {"0", "1"})
NUMBERED = re.compile(r"new-(\d{1,15})$")
MISSING = ("keep", "impute")
TYPES = tuple(str(one) for one in ColumnType)
Limits = tuple[float | None, float | None]
FREE: Limits = (None, None)


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """InputError for a value that is not one of the choices."""
    if value not in choices:
        like = suggestion(str(value), choices)
        raise InputError(f"{name} must be one of {', '.join(choices)}; got {value!r}. {like}".rstrip())


@dataclass(frozen=True)
class TableOptions:
    """Options of reading a table."""

    columns: Mapping[str, str] = option(
        {},
        f"Type of a column, where the inferred one is wrong: {', '.join(TYPES)}. May be repeated.",
        flag="column",
        metavar="NAME=TYPE",
    )
    ranges: Mapping[str, Limits] = option(
        {}, "Limits of a column. May be repeated.", flag="range", metavar="NAME=LOW:HIGH"
    )
    missing: str = option(
        "keep",
        "keep: a new row has the missing cells of the stored row it is drawn around. impute: rows are complete. [keep]",
        choices=MISSING,
    )
    label: str | None = option(None, "Column that holds classes. [the only one with a name such as target or class]")
    safe_csv: bool = option(
        False, "Put an apostrophe before texts in CSV and TSV files that spreadsheets would run as formulas."
    )
    constraints: list[str] | None = option(  # noqa: RUF009
        None,
        "Relation that every row meets: c = a + b, a <= b, a < b, code -> name or code <-> name, or none. May be "
        "repeated. [those that are found in the stored rows]",
        flag="constraint",
        metavar="RELATION",
    )
    header: bool | None = option(None, "Whether the first line of a delimited file holds names. [found out]")

    def __post_init__(self) -> None:
        require_choice("missing", self.missing, MISSING)
        for name, type in self.columns.items():
            require_choice(f"columns: the type of {name!r}", type, TYPES)
        if self.constraints is not None and (
            not isinstance(self.constraints, list | tuple) or not all(isinstance(one, str) for one in self.constraints)
        ):
            raise InputError(f"constraints must be a list of texts such as ['a <= b']; got {self.constraints!r}.")
        for name, (low, high) in self.ranges.items():
            if low is not None and high is not None and low > high:
                found = f"ranges: the limits of {name!r} are reversed; got {low:g} to {high:g}."
                raise InputError(f"{found} Pass {high:g} to {low:g}.")


def fit_columns(table: Mapping[str, Cells], options: TableOptions, source: Source) -> tuple[list[Column], list[str]]:
    """The columns of a table, and notes about them."""
    columns, notes = [], []
    for name, cells in table.items():
        label = name == options.label or (options.label is None and name.strip().lower() in LABELS)
        limits, type = options.ranges.get(name, FREE), options.columns.get(name)
        column, note = fit_column(cells, source, None if type is None else ColumnType(type), limits, label)
        columns.append(column)
        notes += [f"column {name!r}{note}"] if note else []
    if not any(column.width for column in columns):
        found = ", ".join(f"{column.name!r} is {column.type}" for column in columns[:6])
        remedy = "Add one whose values vary, or set the type of a column with columns."
        raise InputError(f"{source.name or 'the table'}: has no column to model ({found}). {remedy}")
    if len(notes) > MAX_NOTES:
        notes = [*notes[:MAX_NOTES], f"there are {len(notes) - MAX_NOTES} more such notes on columns"]
    return columns, notes


def fit_column(
    column: Cells | pd.Series,
    source: Source,
    type: ColumnType | None = None,
    limits: Limits = FREE,
    label: bool = False,
) -> tuple[Column, str]:
    """The column of these cells, and a note, to follow its name, where it is not modelled or something was assumed.

    type is inferred if it is None, and so are limits; a column that may be a `label` holds classes rather than amounts.
    """
    cells = Cells.of(column)
    name, dtype, clock, note, present = cells.name, cells.dtype, None, "", cells.present
    check_cells(cells, source)
    distinct = present.n_distinct
    if distinct < 2 and type not in (ColumnType.ID, ColumnType.CARRIED):
        if type is None and dtype.kind == "O" and len(present.array) == 1 and dtype.name != "category":
            note = " holds one text, which is not modelled and never repeated: new rows are numbered anew"
            return Column(name, ColumnType.ID, dtype, last_number=_last_number(present)), note
        why = "has no values: it stays empty" if not len(present.array) else "is constant: it stays as it is"
        return Column(name, ColumnType.CARRIED, dtype), f" {why}. It may be dropped"
    if type is None or type == ColumnType.DATE:
        clock, either = clock_of(present, source.day_first, partial(source.place, name))
        note = f": dates are read as {clock.format}" if clock is not None and either else ""
    notation = _notation(present) if clock is None and type in (None, *AMOUNTS) else None
    plain = present if notation is None else Cells(name, present.numbers_in(notation), present.rows)
    if type is None:
        type, note = (ColumnType.DATE, note) if clock is not None else _infer(plain, distinct, label, source)
    else:
        check_type(plain, distinct, type, clock, source)
    if type in (ColumnType.ID, ColumnType.CARRIED):
        plain = _without_categories(present) if type == ColumnType.ID else present
        return Column(name, type, plain.dtype, last_number=_last_number(plain)), note
    if type in (ColumnType.BOOLEAN, ColumnType.CATEGORY):
        return Column(name, type, dtype, Levels.fit(cells), notation=notation), note
    numbers = plain.distinct if clock is None else Distinct.of(clock.numbers(present))
    if clock is not None and numbers.values[-1] >= MAX_EXACT:
        note = " spans more steps of time than floats distinguish: cells are those of stored rows"
        return Column(name, ColumnType.CARRIED, dtype), note
    ranks = _ranks(numbers, plain.dtype if clock is None else np.dtype(float), type, limits, source.place(name))
    if notation is not None:
        note = f": cells such as {present.objects[0]} are read as numbers, and written so"
    return Column(name, type, dtype, ranks, clock, notation=notation), note


def _notation(present: Cells) -> Notation | None:
    """The notation of texts (n,) that are numbers with a currency sign, a percent sign or separators, or None."""
    if present.dtype.kind != "O" or present.dtype.name == "category":
        return None
    cells = present.objects
    is_text = present.dtype.name == "str" or all(isinstance(cell, str) for cell in cells)
    notation = notation_of(cells) if is_text else None
    return notation if notation and np.abs(present.numbers_in(notation)).max() < MAX_EXACT else None


def _without_categories(present: Cells) -> Cells:
    """Cells (n,) with the dtype of their categories, which new identifiers can have: texts, or whole numbers."""
    if present.dtype.name != "category":
        return present
    dtype = present.series.cat.categories.dtype
    return Cells.of(present.series.astype(dtype if dtype.kind in "iu" or dtype.name == "str" else "object"))


def _ranks(numbers: Distinct, dtype: np.dtype, type: ColumnType, limits: Limits, where: str) -> Ranks:
    values = numbers.values
    narrow = values if dtype.itemsize >= 8 else values.astype(dtype.name.lower())
    decimals = 0 if type != ColumnType.NUMERIC else decimals_of(numbers._replace(values=narrow))
    found = (-math.inf, math.inf) if type == ColumnType.DATE else limits_of(numbers, decimals)
    low, high = (own if asked is None else asked for own, asked in zip(found, limits, strict=True))
    if values[0] < low or values[-1] > high:
        extent = f"stored values run from {values[0]:g} to {values[-1]:g}, outside the range {low:g} to {high:g}"
        raise InputError(f"{where}: {extent}. Widen it with ranges, or drop those rows.")
    if dtype.kind in "iu" and dtype.itemsize < 8:
        info = np.iinfo(dtype.name.lower())
        low, high = max(low, float(info.min)), min(high, float(info.max))
    return Ranks.fit(numbers, low, high, decimals)


def _infer(present: Cells, distinct: int, label: bool, source: Source) -> tuple[ColumnType, str]:
    if present.dtype.kind == "b":
        return ColumnType.BOOLEAN, ""
    if present.dtype.kind in "iuf":
        return _infer_numbers(present, distinct, label)
    counts = present.counts if present.dtype.name == "str" else count_texts(present.objects)  # equivalent: both agree
    if distinct == 2 and {text.lower() for text in counts} in TRUTHS:
        return ColumnType.BOOLEAN, ""
    if present.dtype.name == "category":
        return _infer_categories(_without_categories(present), distinct)
    if why := texts_name_rows(present.name, counts, label):
        return ColumnType.ID, f" {why}{cells_beside_numbers(present, counts, MAX_OTHER * counts.total(), source)}"
    if distinct > MAX_LEVELS:
        return ColumnType.ID, f" has {distinct:,} distinct texts: not modelled, new rows are numbered anew"
    others = cells_beside_numbers(present, counts, min(MAX_OTHERS, MAX_OTHER * counts.total()), source)
    return ColumnType.CATEGORY, f" is read as categories{others}" if others else ""


def _infer_categories(present: Cells, distinct: int) -> tuple[ColumnType, str]:
    """Categories, as a user declared them, unless there are too many: texts and whole numbers then name rows."""
    if distinct <= MAX_LEVELS:
        return ColumnType.CATEGORY, ""
    if pd.api.types.infer_dtype(present.array) == "string" or present.dtype.kind in "iu":
        return ColumnType.ID, f" has {distinct:,} categories: not modelled, new rows are numbered anew"
    return ColumnType.CARRIED, f" has {distinct:,} categories: not modelled, cells are those of stored rows"


def _infer_numbers(present: Cells, distinct: int, label: bool) -> tuple[ColumnType, str]:
    name, n, numbers = present.name, len(present.array), present.numbers
    long = np.abs(numbers).max() >= MAX_EXACT
    # A float of that size is whole whatever was measured, which says nothing about the column.
    whole = present.dtype.kind != "f" or bool((numbers == np.round(numbers)).all() and not long)
    if whole and distinct == 2 and set(numbers) == {0.0, 1.0}:
        return ColumnType.BOOLEAN, ""
    if whole and label and distinct <= min(20, 0.8 * n):  # classes repeat
        return ColumnType.CATEGORY, f" is read as classes; for amounts pass columns={{{name!r}: 'integer'}}"
    if present.dtype.kind == "f" and not long and _are_codes(present.distinct):
        amount = "integer" if whole else "numeric"
        return (
            ColumnType.CATEGORY,
            f" has {distinct} values, read as categories; for amounts pass columns={{{name!r}: {amount!r}}}",
        )
    if not whole:
        return ColumnType.NUMERIC, ""
    if numbers_name_rows(name, numbers, distinct):
        return ColumnType.ID, " is read as identifiers: new rows are numbered from the last one on"
    if numbers_count_rows(name, numbers):
        why = "counts the rows and is read as identifiers: new rows are numbered from the last one on"
        return ColumnType.ID, f" {why}; for amounts pass columns={{{name!r}: 'integer'}}"
    if not long:
        return ColumnType.INTEGER, ""
    type = ColumnType.ID if distinct == n else ColumnType.CARRIED
    return type, " has whole numbers of over 15 digits: not modelled"


def _are_codes(numbers: Distinct) -> bool:
    """Whether numbers stand for classes: few that repeat, two of them or some with others in between that none is."""
    distinct = len(numbers.values)
    if distinct > MAX_FLOAT_LEVELS or MIN_REPEATS * distinct > numbers.counts.sum():
        return False
    decimals = decimals_of(numbers)
    return distinct == 2 or decimals is None or bool((np.diff(numbers.values) > 1.5 * 10.0**-decimals).any())


def _last_number(present: Cells) -> int:
    """The largest of the numbers, or of those of texts such as new-7, which new rows had earlier; 0 for none."""
    if present.dtype.kind in "iuf":
        return int(present.series.max()) if len(present.array) else 0
    found = (NUMBERED.match(str(cell)) for cell in present.objects)
    return max((int(match[1]) for match in found if match is not None), default=0)
