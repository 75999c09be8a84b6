"""The options of reading a table, and the type of each column, inferred from its cells.

In this order: checks of cells against the types that can hold them; rules for columns that name rows instead of
describing them, whose cells are never repeated; the options; the fit of columns; the rows of a data frame that are
used.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from ...._backend.arrays import Array
from ...._backend.checks import suggest_names
from ... import lazy_pandas as pd
from ...delimited.cells import AMOUNTS
from ...delimited.notations import TextNotation, notation_of
from ...delimited.numbers import example_of
from ...native import MAX_EXACT, pandas_frame
from ...options import InputError, listed, with_count
from ..description import FREE, ColumnType, Limits, TableOptions
from .cells import Cells
from .columns import PLAIN, Column, Levels, Source
from .dates import DateScale, fit_date_scale
from .scales import Distinct, Ranks, decimals_of, limits_of

MAX_LEVELS = 500
MAX_NUMBER = 1e150
KNOWN_OBJECTS = ("string", "boolean", "date", "empty", "categorical")
TOO_LONG = "holds integers of over 15 digits, which floats do not distinguish"
IDENTIFIERS = "identifiers are strings or integers"


def note_on_exceptions(present: Cells, counts: Mapping[str, int], most: float, source: Source) -> str:
    """A note on the cells that are not numbers where at most `most` of the strings are such exceptions, or nothing.

    counts: how often each string occurs, in the order of their first cells
    """
    n, first = 0, ""
    for text, count in counts.items():
        if not _is_number(text):
            n, first = n + count, first or text
            if n > most:
                return ""
    if not n:  # all cells are numbers, and strings only because of leading zeros or many digits
        return ""
    place = list(map(str, present.objects)).index(first)
    where = f"{_shorten(first)} in {source.line(present.row(place))}"
    if n == 1:
        return f"; one of its cells is not a number ({where}): correct or empty it"
    return f"; {n} of its cells are not numbers (such as {where}): correct or empty these"


def _is_number(text: str) -> bool:
    """Whether a string is a number, with a decimal point or a decimal comma."""
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _shorten(cell: object) -> str:
    return repr(str(cell)[:30])


def check_cells(cells: Cells, source: Source) -> None:
    """InputError for cells that no type of column can hold."""
    name, dtype, present = cells.name, cells.dtype, cells.present
    for row in (np.abs(cells.numbers) > MAX_NUMBER).nonzero()[0] if dtype.kind == "f" else ():
        rule = f"is infinite or beyond {MAX_NUMBER:g}, whose square no float can hold"
        raise InputError(f"{source.place(name, int(row))}: {rule}. Empty the cell, or write a number into it.")
    is_known = dtype.kind == "O" and (dtype.name == "str" or pd.api.types.infer_dtype(present.array) in KNOWN_OBJECTS)
    if dtype.kind not in "biufM" and not is_known:
        examples = dict[str, object]()  # the first cell of each Python type
        for cell in present.series:
            examples.setdefault(type(cell).__name__, cell)
        kinds = [f"{type} (such as {_shorten(cell)})" for type, cell in examples.items()]
        problem = f"cells of type {kinds[0]} are not handled"
        remedy = f"leave the column out with columns={{{name!r}: 'drop'}}."
        if len(kinds) > 1:
            problem = f"mixes cells of type {' and '.join(kinds)}"
            remedy += " If each column of the table is an example, pass transpose=True."
        raise InputError(f"{source.place(name)}: {problem}. Turn them into numbers, strings or dates, or {remedy}")


def check_type(present: Cells, distinct: int, type: ColumnType, date_scale: DateScale | None, source: Source) -> None:
    """InputError for a column that cannot have the type that a user set."""
    dtype, is_amount = present.dtype, type in AMOUNTS
    if is_amount and dtype.kind == "O":
        _require_numbers(present, type, source)
    numbers = present.numbers if is_amount and dtype.kind in "iuf" else np.zeros(1)
    for wrong, why in (
        (is_amount and dtype.kind not in "iuf", f"holds {_describe(present)}, not numbers"),
        (type == ColumnType.INTEGER and (numbers != np.round(numbers)).any(), "holds fractions"),
        (dtype.kind in "iu" and np.abs(numbers).max() >= MAX_EXACT, TOO_LONG),
        (type == ColumnType.BOOLEAN and distinct != 2, f"holds {distinct} distinct values, not two"),
        (type == ColumnType.CATEGORY and distinct > MAX_LEVELS, f"holds {distinct:,} values, over {MAX_LEVELS}"),
        (type == ColumnType.DATE and date_scale is None, "does not hold dates"),
        (type == ColumnType.ID and not _can_be_ids(present), f"holds {_describe(present)}, and {IDENTIFIERS}"),
    ):
        if wrong:
            where = source.place(present.name)
            raise InputError(f"{where}: cannot be read as {type}: it {why}. Set another type with columns.")


def _require_numbers(present: Cells, type: ColumnType, source: Source) -> None:
    """InputError with the first cell that is not a number, where other cells are numbers."""
    wrong = [place for place, cell in enumerate(present.objects) if not _is_number(str(cell))]
    if 0 < len(wrong) < len(present.objects):
        where = source.place(present.name, present.row(wrong[0]))
        more = f", and {len(wrong) - 1:,} more of its cells are not either" if len(wrong) > 1 else ""
        problem = f"{_shorten(present.objects[wrong[0]])} is not a number{more}: it cannot be read as {type}"
        raise InputError(f"{where}: {problem}. Correct or empty such cells, or set another type with columns.")


def _describe(present: Cells) -> str:
    """The type of cells in words, with the first cell if there is one."""
    kinds = {"O": "strings", "b": "booleans", "M": "dates", "f": "numbers with fractions"}
    example = "".join(f" such as {_shorten(cell)}" for cell in present.series.iloc[:1])
    return f"{kinds.get(present.dtype.kind, str(present.dtype))}{example}"


def _can_be_ids(present: Cells) -> bool:
    kind = present.dtype.kind
    return kind in "iuO" or (kind == "f" and bool((present.numbers % 1 == 0).all()))


IDS = ("", "id", "index", "unnamed: 0", "uuid", "key")
PERSONAL = frozenset(
    {"patient", "subject", "participant", "person", "customer", "client", "user", "email", "mail", "phone", "mobile"}
    | {"ssn", "mrn", "iban", "passport", "surname", "lastname", "firstname", "fullname", "address", "username"}
)
NAMING = frozenset({"id", "ids", "identifier", "uuid", "guid", "pid", "uid"})
"""Last words of the names of columns that identify persons or rows."""
NUMBERING = frozenset({"nr", "no", "num", "number", "nummer", "key", "index", "name", "names", "row", "record", "case"})
"""Last words of the names of columns that may identify rows."""
TIMES = frozenset(
    {"year", "month", "week", "day", "hour", "minute", "second", "time", "date", "quarter", "period", "epoch", "step"}
    | {"age", "wave", "visit", "round", "jahr", "monat", "woche", "tag"}
)
MIN_SEQUENCE = 10  # least rows in which integers that rise by one are row numbers
MIN_WORDS = 4  # least words of a sentence
MAX_FEW = 3  # most distinct strings that are classes as soon as one of them occurs twice
SENTENCES = "holds free text, which is not modeled and never repeated: new rows get new numbers"
YEARS = (1500, 2100)
MIN_IDS, MIN_TIMES, MIN_FILLED = 3, 3, 0.9
"""Least ids and times of rows that follow ids over time; the least share of all pairs of id and time that have a row,
where rows are not sorted."""


def _last_word(name: str) -> str:
    """The last word of a name such as patient_id, PatientID or Patient Nr., in lower case."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return words[-1].lower() if words else ""


def have_name_of_ids(name: str, numbers: Array, distinct: int) -> bool:
    """Whether integers (n,) are ids by the name of their column: all of them differ, or many if they are of persons."""
    word, n = _last_word(name), len(numbers)
    if distinct == n:
        return name.strip("# ").lower() in IDS or word in PERSONAL | NAMING | NUMBERING
    return word in PERSONAL | NAMING and distinct > max(MAX_FEW, n // 10)


def are_row_numbers(name: str, numbers: Array) -> bool:
    """Whether integers (n,) rise by one from row to row, and are neither years nor a variable with a name such as x."""
    if len(numbers) < MIN_SEQUENCE or len(name.strip()) < 2 or _last_word(name) in TIMES:
        return False
    years = numbers[0] >= YEARS[0] and numbers[-1] <= YEARS[1]
    return not years and bool((np.diff(numbers) == 1).all())


def explain_ids(name: str, counts: Mapping[str, int], is_label: bool) -> str:
    """Why strings with these counts are not classes, to follow the name of the column; nothing if they are.

    Classes repeat: single words are classes if a further row would more likely have one of them than a new word. Names,
    strings with digits and sentences must repeat more often, because each may identify a person.
    """
    n, distinct = sum(counts.values()), len(counts)
    sentences = [text for text in counts if len(text.split()) >= MIN_WORDS]
    if sum(counts[text] == 1 for text in sentences) > len(sentences) / 2 and 2 * len(sentences) >= min(distinct, 4):
        return SENTENCES
    if distinct > 0.9 * n:
        return "has nearly all distinct strings, and is read as identifiers, which are not modeled"
    if distinct > (n if is_label else _max_classes(name, counts, n)):
        remedy = f"for classes pass columns={{{name!r}: 'category'}}"
        which = f"has {distinct:,} distinct strings in {n:,} rows, and is read as identifiers"
        return f"{which}, which are not modeled; {remedy}"
    return ""


def _max_classes(name: str, counts: Mapping[str, int], n: int) -> int:
    """The most distinct strings of n cells that are classes."""
    word = _last_word(name)
    if word in PERSONAL or 2 * sum("@" in text for text in counts) > len(counts):
        return MAX_FEW
    if word in NAMING | NUMBERING:
        return max(MAX_FEW, n // 10)
    n_once = sum(count == 1 for count in counts.values())
    if 2 * sum(re.search(r"\d|\w\s+\w", text) is not None for text in counts) <= len(counts):
        # The share of rows whose string occurs once is the chance that the next row has a new one (Good, 1953).
        return len(counts) if 2 * n_once <= n else MAX_FEW
    return max(MAX_FEW, n // 3) if 2 * n_once <= len(counts) else MAX_FEW


def find_repeated_ids(columns: Sequence[Column], table: Mapping[str, Cells]) -> tuple[str, str] | None:
    """A column whose values repeat over time, and the column of time or visits; None where rows may be independent.

    The values repeat over time if the name of the column is that of ids, if rows are sorted by value and then by time,
    or if nearly every value has a row at every time.
    """
    rows = [c for c in columns if c.date_scale is None and c.type in ("id", "integer", "category")]
    timed = [c for c in columns if c.date_scale is not None or (_names_time(c.name) and c.type != "id")]
    timed.sort(key=_is_age)  # ages last: most tables have them without repeated measures
    grouped = [c for c in rows if not _names_time(c.name)]
    grouped.sort(key=lambda c: _last_word(c.name) not in PERSONAL | NAMING)  # columns with the name of ids first
    for column in grouped:
        ids = _codes(column, table[column.name])
        counts = np.bincount(ids[ids >= 0]) if (ids >= 0).any() else np.zeros(1)
        if len(counts) < MIN_IDS or np.median(counts) < 2:
            continue
        is_named = _last_word(column.name) in PERSONAL | NAMING
        for time in timed:
            if _is_age(time) and not is_named:
                continue
            if (is_named and not _is_age(time)) or _repeat_over_time(ids, _codes(time, table[time.name])):
                return column.name, time.name
    return None


def _names_time(name: str) -> bool:
    """Whether a column is named after a time or a visit, in the singular or the plural."""
    word = _last_word(name)
    return word in TIMES or word.removesuffix("s") in TIMES


def _is_age(column: Column) -> bool:
    return column.date_scale is None and _last_word(column.name) == "age"


def _repeat_over_time(ids: Array, times: Array) -> bool:
    """Whether rows (n,) with the same id have different times, sorted by both, or almost all times for each id."""
    present = (ids >= 0) & (times >= 0)
    ids, times = ids[present], times[present]
    n_ids, n_times, n = len(np.unique(ids)), len(np.unique(times)), len(ids)
    if n_times < MIN_TIMES or len(np.unique(ids * (times.max(initial=0) + 1) + times)) < n:
        return False
    same = ids[1:] == ids[:-1]
    in_turn = np.count_nonzero(~same) == n_ids - 1 and bool((np.diff(times)[same] > 0).all())
    return in_turn or n > MIN_FILLED * n_ids * n_times


def _codes(column: Column, cells: Cells) -> Array:
    """The number of each cell (n,) among the sorted distinct cells; −1 for missing cells."""
    is_number = column.date_scale is not None or cells.dtype.kind in "iuf"
    values = column.numbers(cells) if is_number else np.array([str(cell) for cell in cells.objects])
    return np.where(cells.missing, -1, np.unique(values, return_inverse=True)[1])


MAX_NOTES = 12
MAX_FLOAT_LEVELS = 10  # most distinct numbers with decimals that are categories if they repeat
MIN_REPEATS = 5  # rows per such number
MAX_EXCEPTION_SHARE, MAX_EXCEPTIONS = 0.2, 2
"""A note names cells that are not numbers up to this share of a column of ids, and this number in a category."""
LABELS = ("target", "label", "labels", "class", "species", "diagnosis", "outcome", "group", "y")
BOOLEANS = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"}, {"0", "1"})
NEW_ID = re.compile(r"new-(\d{1,15})$")


def fit_columns(
    table: Mapping[str, Cells], options: TableOptions, source: Source, notations: Mapping[str, TextNotation]
) -> tuple[list[Column], list[str]]:
    """The columns of a table, and notes about them."""
    columns, notes = [], []
    for name, cells in table.items():
        label = name == options.label or (options.label is None and name.strip().lower() in LABELS)
        type = ColumnType(options.columns[name]) if name in options.columns else None
        column, note = fit_column(cells, source, type, options.ranges.get(name, FREE), label, notations.get(name))
        columns.append(column)
        notes += [f"column {name!r}{note}"] if note else []
    if not any(column.width for column in columns):
        shown = [repr(column.name) if column.name else f"column {i + 1}" for i, column in enumerate(columns[:6])]
        content = {ColumnType.ID: "identifiers or free text", ColumnType.CARRIED: "cells that are not modeled"}
        which = ", ".join(f"{name} holds {content[column.type]}" for name, column in zip(shown, columns, strict=False))
        remedy = "Add a column whose values vary, or set the type of a column with columns."
        raise InputError(f"{source.name or 'the table'}: has no column to model ({which}). {remedy}")
    if len(notes) > MAX_NOTES:
        notes = [*notes[:MAX_NOTES], f"{with_count(len(notes) - MAX_NOTES, 'more note', 'more notes')} on columns"]
    return columns, notes


def fit_column(
    column: Cells | pd.Series,
    source: Source,
    type: ColumnType | None = None,
    limits: Limits = FREE,
    label: bool = False,
    notation: TextNotation | None = None,
) -> tuple[Column, str]:
    """The column of these cells, and a note to follow its name where it is not modeled or something was assumed.

    The type is inferred if it is None, and so are limits and the notation of strings. A column that may be a `label`
    holds classes rather than amounts.
    """
    cells = Cells.of(column)
    name, dtype, date_scale, note, present = cells.name, cells.dtype, None, "", cells.present
    check_cells(cells, source)
    distinct = present.n_distinct
    if distinct < 2 and type not in (ColumnType.ID, ColumnType.CARRIED):
        if type is None and dtype.kind == "O" and len(present.array) == 1 and dtype.name != "category":
            note = " holds one string, which is not modeled and never repeated: new rows get new numbers"
            return Column(name, ColumnType.ID, dtype, last_number=_last_number(present)), note
        why = "has no values: it stays empty" if not len(present.array) else "is constant: it stays as it is"
        return Column(name, ColumnType.CARRIED, dtype), f" {why}. It may be dropped"
    if type is None or type == ColumnType.DATE:
        date_scale, either = fit_date_scale(present, source.day_first, partial(source.place, name))
        note = f": dates are read as {date_scale.format}" if date_scale is not None and either else ""
    if notation is None and date_scale is None and type in (None, *AMOUNTS):
        notation = _notation(present)
    plain = present if notation is None else Cells(name, present.numbers_in(notation), present.rows)
    if type is not None:
        check_type(plain, distinct, type, date_scale, source)
    elif date_scale is not None:
        type = ColumnType.DATE
    else:
        type, note = _infer(plain, distinct, label, source, notation)
    if type in (ColumnType.ID, ColumnType.CARRIED):
        plain = _without_categories(present) if type == ColumnType.ID else present
        return Column(name, type, plain.dtype, last_number=_last_number(plain)), note
    if type in (ColumnType.BOOLEAN, ColumnType.CATEGORY):
        return Column(name, type, dtype, Levels.fit(cells), notation=notation), note
    numbers = plain.distinct if date_scale is None else Distinct.of(date_scale.numbers(present))
    if date_scale is not None and numbers.values[-1] >= MAX_EXACT:
        note = " spans more steps of time than floats distinguish: cells are those of stored rows"
        return Column(name, ColumnType.CARRIED, dtype), note
    number_type = plain.dtype if date_scale is None else np.dtype(float)
    ranks = _ranks(numbers, number_type, type, limits, source.place(name), notation or PLAIN)
    note = note if notation is None else _note_on_notation(notation, present)
    return Column(name, type, dtype, ranks, date_scale, notation=notation), note


def _note_on_notation(notation: TextNotation, present: Cells) -> str:
    content = "times" if notation.unit else "numbers"
    shown = next(iter(notation.labels.values()), None) or example_of(present.objects)
    note = f": cells such as {shown} are read as {content}, and new ones are written the same way"
    return f"{note}. Values beyond the limit are as frequent in new rows as in stored ones" if notation.labels else note


def _notation(present: Cells) -> TextNotation | None:
    """The notation of strings (n,) that stand for numbers, or None."""
    if present.dtype.kind != "O" or present.dtype.name == "category":
        return None
    cells = present.objects
    is_text = present.dtype.name == "str" or all(isinstance(cell, str) for cell in cells)
    notation = notation_of(cells) if is_text else None
    return notation if notation and np.abs(present.numbers_in(notation)).max() < MAX_EXACT else None


def _without_categories(present: Cells) -> Cells:
    """Cells (n,) with the dtype of their categories, which new identifiers can have: strings or integers."""
    if present.dtype.name != "category":
        return present
    dtype = present.series.cat.categories.dtype
    return Cells.of(present.series.astype(dtype if dtype.kind in "iu" or dtype.name == "str" else "object"))


def _ranks(
    numbers: Distinct, dtype: np.dtype, type: ColumnType, limits: Limits, where: str, notation: TextNotation
) -> Ranks:
    values, measured = numbers.values, numbers
    if notation.labels:
        is_measured = ~np.isin(values, list(notation.labels))
        measured = Distinct(values[is_measured], numbers.counts[is_measured])
    narrow = measured.values if dtype.itemsize >= 8 else measured.values.astype(dtype.name.lower())
    decimals = 0 if type != ColumnType.NUMERIC else decimals_of(measured._replace(values=narrow))
    low, high = (-math.inf, math.inf) if type == ColumnType.DATE else limits_of(measured, decimals)
    # An end of the scale that many rows share goes before the end of the notation, such as midnight.
    low = low if low == values[0] or math.isinf(notation.ends[0]) else notation.ends[0]
    high = high if high == values[-1] or math.isinf(notation.ends[1]) else notation.ends[1]
    low, high = (inferred if stated is None else stated for inferred, stated in zip((low, high), limits, strict=True))
    if values[0] < low or values[-1] > high:
        extent = f"stored values run from {values[0]:g} to {values[-1]:g}, outside the range {low:g} to {high:g}"
        raise InputError(f"{where}: {extent}. Widen it with ranges, or drop those rows.")
    if dtype.kind in "iu" and dtype.itemsize < 8:
        info = np.iinfo(dtype.name.lower())
        low, high = max(low, float(info.min)), min(high, float(info.max))
    return Ranks.fit(numbers, low, high, decimals)


def _infer(
    present: Cells, distinct: int, label: bool, source: Source, notation: TextNotation | None
) -> tuple[ColumnType, str]:
    if notation is not None and (notation.unit or notation.labels):
        return ColumnType.INTEGER if notation.unit else ColumnType.NUMERIC, ""
    if present.dtype.kind == "b":
        return ColumnType.BOOLEAN, ""
    if present.dtype.kind in "iuf":
        return _infer_numbers(present, distinct, label)
    counts = present.counts if present.dtype.name == "str" else Counter(map(str, present.objects))
    if distinct == 2 and {text.lower() for text in counts} in BOOLEANS:
        return ColumnType.BOOLEAN, ""
    if present.dtype.name == "category":
        return _infer_categories(_without_categories(present), distinct)
    most = MAX_EXCEPTION_SHARE * counts.total()
    if why := explain_ids(present.name, counts, label):
        return ColumnType.ID, f" {why}{note_on_exceptions(present, counts, most, source)}"
    if distinct > MAX_LEVELS:
        return ColumnType.ID, f" has {distinct:,} distinct strings: not modeled, new rows get new numbers"
    note = note_on_exceptions(present, counts, min(MAX_EXCEPTIONS, most), source)
    return ColumnType.CATEGORY, f" is read as categories{note}" if note else ""


def _infer_categories(present: Cells, distinct: int) -> tuple[ColumnType, str]:
    """The type of categories that a user declared, unless there are too many: strings and integers are ids then."""
    if distinct <= MAX_LEVELS:
        return ColumnType.CATEGORY, ""
    if pd.api.types.infer_dtype(present.array) == "string" or present.dtype.kind in "iu":
        return ColumnType.ID, f" has {distinct:,} categories: not modeled, new rows get new numbers"
    return ColumnType.CARRIED, f" has {distinct:,} categories: not modeled, cells are those of stored rows"


def _infer_numbers(present: Cells, distinct: int, label: bool) -> tuple[ColumnType, str]:
    name, n, numbers = present.name, len(present.array), present.numbers
    long = np.abs(numbers).max() >= MAX_EXACT
    # All floats of that size are integers, whatever was measured.
    are_integers = present.dtype.kind != "f" or bool((numbers == np.round(numbers)).all() and not long)
    if are_integers and distinct == 2 and set(numbers) == {0.0, 1.0}:
        return ColumnType.BOOLEAN, ""
    if are_integers and label and distinct <= min(20, 0.8 * n):  # classes repeat
        return ColumnType.CATEGORY, f" is read as classes; for amounts pass columns={{{name!r}: 'integer'}}"
    if present.dtype.kind == "f" and not long and _are_codes(present.distinct):
        amount = "integer" if are_integers else "numeric"
        remedy = f"for amounts pass columns={{{name!r}: {amount!r}}}"
        return ColumnType.CATEGORY, f" has {distinct} values, read as categories; {remedy}"
    if not are_integers:
        return ColumnType.NUMERIC, ""
    if have_name_of_ids(name, numbers, distinct):
        return ColumnType.ID, " is read as identifiers: new rows are numbered from the last one on"
    if are_row_numbers(name, numbers):
        why = "counts the rows and is read as identifiers: new rows are numbered from the last one on"
        return ColumnType.ID, f" {why}; for amounts pass columns={{{name!r}: 'integer'}}"
    if not long:
        return ColumnType.INTEGER, ""
    type = ColumnType.ID if distinct == n else ColumnType.CARRIED
    return type, " has integers of over 15 digits: not modeled"


def _are_codes(numbers: Distinct) -> bool:
    """Whether numbers stand for classes: few numbers that repeat, and only two of them, or unevenly spaced ones."""
    distinct = len(numbers.values)
    if distinct > MAX_FLOAT_LEVELS or MIN_REPEATS * distinct > numbers.counts.sum():
        return False
    decimals = decimals_of(numbers)
    return distinct == 2 or decimals is None or bool((np.diff(numbers.values) > 1.5 * 10.0**-decimals).any())


def _last_number(present: Cells) -> int:
    """The largest number, or the largest of strings such as new-7, the ids of earlier new rows; 0 for other strings."""
    if present.dtype.kind in "iuf":
        return int(present.series.max()) if len(present.array) else 0
    matches = (NEW_ID.match(str(cell)) for cell in present.objects)
    return max((int(match[1]) for match in matches if match is not None), default=0)


def usable_rows(frame: pd.DataFrame, options: TableOptions, source: Source) -> tuple[pd.DataFrame, Array, list[str]]:
    """The part of a frame that is used, with rows renumbered; the indices of these rows; notes on what is left out."""
    where = f"{source.name}: " if source.name else ""
    frame, _ = pandas_frame(frame)
    frame = frame.set_axis(list(map(str, frame.columns)), axis=1)
    repeated = sorted(frame.columns[frame.columns.duplicated()])
    if repeated:
        raise InputError(f"{where}more than one column is called {repeated[0]!r}. Rename one of them.")
    every = frame.columns.tolist()
    names = [name for name in every if options.columns.get(name) != ColumnType.DROP]
    labels = [] if options.label is None else [options.label]
    arguments = (("columns", options.columns, every), ("ranges", options.ranges, names), ("label", labels, names))
    for argument, stated, offered in arguments:
        for name in sorted(set(stated) - set(offered), key=str):
            remedy = f"{suggest_names(name, offered)}The table has {listed(offered)}."
            raise InputError(f"{where}{argument}: there is no column {name!r}. {remedy}")
    untyped = [name for name in names if name not in options.columns]  # a codec of fewer rows has all columns
    nameless = [name for name in untyped if not name.strip() and frame[name].isna().all()]
    notes = ["empty columns without a name are left out"] if nameless else []
    frame = frame[[name for name in names if name not in nameless]] if nameless or names != every else frame
    rows = np.flatnonzero(_non_empty(frame))
    if len(rows) < len(frame):
        singular, plural = "row without any value is left out", "rows without any value are left out"
        notes.append(with_count(len(frame) - len(rows), singular, plural))
    if len(rows) < 2:
        count = "one row" if len(rows) else "no rows"
        raise InputError(f"{where}a table needs at least two rows that are not empty; it has {count}. Store more.")
    kept = frame if len(rows) == len(frame) else frame.iloc[rows]
    return kept.reset_index(drop=True), rows, notes


def transpose(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame whose rows are the columns of another one; a first column of distinct strings names its columns."""
    first = frame.iloc[:, 0]
    if isinstance(frame.index, pd.RangeIndex) and first.is_unique and all(isinstance(cell, str) for cell in first):
        frame = frame.set_index(frame.columns[0])
    return frame.T.infer_objects().rename_axis(columns=None).reset_index(drop=isinstance(frame.columns, pd.RangeIndex))


def check_rows(columns: Sequence[Column], items: object) -> pd.DataFrame:
    """A data frame that a user passes; InputError where it is another object, or has not each modeled column once.

    Columns that are not modeled are added without values where they are absent.
    """
    frame, _ = pandas_frame(items, "items")
    frame = frame.set_axis(list(map(str, frame.columns)), axis=1)
    missing = [column.name for column in columns if column.width and list(frame.columns).count(column.name) != 1]
    if missing:
        rule = "items must have each column that is modeled once"
        raise InputError(f"{rule}; got {listed(list(frame.columns))}. Add or rename {listed(missing)}.")
    unmodeled = [column.name for column in columns if column.name not in frame]
    return frame.assign(**dict.fromkeys(unmodeled)) if unmodeled else frame


def _non_empty(frame: pd.DataFrame) -> Array:
    """Which rows (n,) have a cell that is not missing, by as few columns as are needed."""
    has_value = np.zeros(len(frame), dtype=bool)
    for place in range(frame.shape[1]):
        has_value |= ~Cells.of(frame.iloc[:, place]).missing
        if has_value.all():
            break
    return has_value


def row_names(frame: pd.DataFrame, columns: Sequence[Column], index: pd.Index) -> tuple[str, ...]:
    """A name for each row: its identifier, its label in the index, or its number."""
    ids = [frame[column.name].astype("object") for column in columns if column.type == ColumnType.ID]
    numbers = range(1, len(frame) + 1)
    return tuple(map(str, ids[0] if ids else index if index.dtype.kind == "O" else numbers))


def as_strings(column: pd.Series) -> list[str]:
    """Cells (n,) as strings, empty for missing cells."""
    return list(column.astype("object").map(str, na_action="ignore").fillna(""))
