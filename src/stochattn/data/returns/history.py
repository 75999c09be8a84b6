"""A wide file of prices or returns, a date column and a column for each ticker, as daily log-returns."""

from __future__ import annotations

import csv
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import one_of
from ..legacy import InputError
from .commas import with_points

VALUES = ("auto", "prices", "returns")
DATES = {
    "2024-12-31": (r"\d{4}-\d{1,2}-\d{1,2}(?:[T ].*)?", ("ISO8601",)),
    "2024/12/31": (r"\d{4}/\d{1,2}/\d{1,2}", ("%Y/%m/%d",)),
    "31.12.2024": (r"\d{1,2}\.\d{1,2}\.\d{4}", ("%d.%m.%Y",)),
    "12/31/2024": (r"\d{1,2}/\d{1,2}/\d{4}", ("%m/%d/%Y", "%d/%m/%Y")),
    "31-Dec-2024": (r"\d{1,2}-[A-Za-z]{3}-\d{4}", ("%d-%b-%Y",)),
    "20241231": (r"(?:19|20)\d{6}", ("%Y%m%d",)),
}
"""Ways to write a date: an example, its shape, and what pandas may read it as."""


class History(NamedTuple):
    """What a file of prices or returns holds."""

    log_returns: Array  # (T, N)
    tickers: tuple[str, ...]
    dates: tuple[str, ...]  # (T,) the day each return ends on
    last_prices: Array | None  # (N,), None for a file of returns
    notes: tuple[str, ...]


def read_history(path: str | Path, values: str = "auto") -> History:
    """The log-returns of a CSV, TSV or Parquet file.

    values: "prices" become log-returns; "returns" are taken as log-returns as they stand; "auto" takes a table for
            returns when more than one value in twenty is negative, and for prices otherwise
    """
    path = Path(path)
    return history_of(*read_table(path), path, values)


def history_in(frame: Any, values: str = "auto") -> History:
    """The log-returns of a data frame, whose dates are its index or a column; values as in `read_history`."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"returns must be a file or a data frame, a row for each day; got {type(frame).__name__}.")
    table = frame.reset_index(names="date") if frame.index.dtype.kind == "M" else frame.reset_index(drop=True)
    table = table.set_axis([str(name) for name in table.columns], axis=1)
    return history_of(table, lambda i: f"row {i + 1}", (), Path("the data frame"), values)


def history_of(table: Any, line: Any, read: tuple[str, ...], path: Path, values: str) -> History:
    """The log-returns of a table with a column of dates; `line` names the place of its row i, in `path`."""
    one_of("values", values, VALUES)
    table = table.dropna(how="all")  # the index keeps the place in the file
    dates, column, notes = _dates(table, path, line)
    notes += read
    numbers = {name: _numbers(table[name], path, line) for name in table.columns if name != column}
    if not numbers:
        raise InputError(f"{path} has no column but its dates: add a column of prices for each ticker.")
    matrix = np.column_stack(list(numbers.values()))
    order = np.argsort(dates, kind="stable")
    if (np.diff(order) < 0).any():
        notes.append("the dates were not in order: days were sorted by date.")
    written = [line(i) for i in table.index[order]]
    matrix, dates = matrix[order], dates[order]
    twice = np.flatnonzero(dates[1:] == dates[:-1])
    if len(twice):
        i = twice[0]
        raise InputError(
            f"{path}, {written[i]} and {written[i + 1]}: the date {dates[i]} stands twice; keep one row for each day."
        )
    matrix, kept, tickers, more = _complete(matrix, dates, list(numbers), path)
    dates, written = dates[kept], [written[i] for i in np.flatnonzero(kept)]
    notes += more
    if values == "auto":
        values = "returns" if (matrix < 0).mean() > 0.05 else "prices"
    days = tuple(str(day) for day in dates)
    if values == "returns":
        notes.append("values were taken as log-returns, as they stand.")
        if np.median(np.abs(matrix)) > 0.2:
            notes.append("a typical value exceeds 0.2: if these are percent, divide them by 100.")
        return History(matrix, tickers, days, None, tuple(notes))
    _require_positive(matrix, tickers, days, written, path)
    notes.append("prices became log-returns.")
    return History(np.diff(np.log(matrix), axis=0), tickers, days[1:], matrix[-1].copy(), tuple(notes))


def read_table(path: Path) -> tuple[Any, Any, tuple[str, ...]]:
    """A data frame, with texts as they stand; a function that names the place of its row i in the file; notes."""
    import pandas as pd

    if not path.is_file():
        raise InputError(f"{path} does not exist or is no file: name a CSV, TSV or Parquet file.")
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            frame = pd.read_parquet(path)
        except ImportError:
            raise InputError(f"{path}: reading Parquet needs pyarrow; install it, or save the table as CSV.") from None
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path} cannot be read as Parquet ({type(error).__name__}): save it again, or as CSV."
            ) from None
        frame = frame.reset_index() if not isinstance(frame.index, pd.RangeIndex) else frame
        frame.columns = [str(name) for name in frame.columns]
        return frame, lambda i: f"row {i + 1}", ()
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            separator = max(",;\t|", key=header.count)
            names = [name.strip() for name in next(csv.reader([header], delimiter=separator), [])]
        if not names:
            raise InputError(f"{path} is empty: it needs a line of column names and a line for each day.")
        names[0] = names[0] or "date"  # what a saved data frame calls its index
        for i, name in enumerate(names):
            if not name or name in names[:i]:
                what = f"the name {name!r} stands twice" if name else f"column {i + 1} has no name"
                raise InputError(f"{path}, line 1: {what}; give each column a name of its own.")
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                path, sep=separator, dtype=str, header=0, names=names, index_col=False, skip_blank_lines=False
            )
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text in UTF-8: save it as CSV in UTF-8, or name another file.") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        reason = re.sub(r"\s+", " ", str(error)).strip().removeprefix("Error tokenizing data. C error: ")
        raise InputError(f"{path} is no regular table ({reason}): give each line as many values as names.") from None

    def line(i: int) -> str:
        return f"line {i + 2}"

    frame, notes = (frame, ()) if separator == "," else with_points(frame, path, line)
    return frame, line, notes


def _dates(table: Any, path: Path, line: Any) -> tuple[Array, str, list[str]]:
    """Dates of the rows (rows,), the name of their column, and notes."""
    import pandas as pd

    column = next((name for i, name in enumerate(table.columns) if _is_dates(table[name], i == 0)), None)
    if column is None:
        raise InputError(
            f"{path} has no column of dates among {_some(table.columns)}: add one, written as 2024-12-31, as the first."
        )
    notes: list[str] = []
    texts = table[column]
    missing = np.flatnonzero(texts.isna())
    if len(missing):
        raise InputError(f"{path}, {line(table.index[missing[0]])}: the date is missing in column {column!r}; add it.")
    if pd.api.types.is_datetime64_any_dtype(texts):
        parsed = pd.to_datetime(texts, utc=True)
    else:
        parsed = _parsed(texts.astype(str).str.strip(), column, path, line, notes)
    if len(table) < 2:
        raise InputError(f"{path} has {len(table)} day: two are the least that make a return.")
    moments = parsed.dt.tz_convert(None).to_numpy().astype("datetime64[s]")
    days = moments.astype("datetime64[D]")
    return (days if (days == moments).all() else moments), column, notes


def _is_dates(column: Any, first: bool) -> bool:
    """Whether most of the first values look like dates. Whole numbers such as 20241231 do in the first column only."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    texts = column.dropna().head(20).astype(str).str.strip()
    shapes = [shape for example, (shape, _) in DATES.items() if first or example != "20241231"]
    return len(texts) > 0 and texts.str.fullmatch("|".join(shapes)).mean() > 0.5


def _parsed(texts: Any, column: str, path: Path, line: Any, notes: list[str]) -> Any:
    """Dates of texts that are all written in one way."""
    import pandas as pd

    example = max(DATES, key=lambda e: int(texts.head(20).str.fullmatch(DATES[e][0]).sum()))
    shape, formats = DATES[example]
    shaped = texts.where(texts.str.fullmatch(shape))
    tried = [pd.to_datetime(shaped, format=f, errors="coerce", utc=True) for f in formats]
    fitting = [dates for dates in tried if dates.notna().all()]
    if not fitting:
        best = max(tried, key=lambda dates: int(dates.notna().sum()))
        i = int(np.flatnonzero(best.isna())[0])
        raise InputError(
            f"{path}, {line(texts.index[i])}, column {column!r}: {texts.iloc[i]!r} is no date written as the others "
            f"are ({texts[best.notna()].iloc[0] if best.notna().any() else example}); write all dates in one way, "
            "as 2024-12-31."
        )
    ordered = [dates for dates in fitting if dates.is_monotonic_increasing]
    if len(fitting) > 1 and len(ordered) != 1:
        notes.append(f"dates such as {texts.iloc[0]} were read with the month first.")
    return (ordered or fitting)[0]


def _numbers(column: Any, path: Path, line: Any) -> Array:
    """The numbers of a column; missing ones are NaN: (rows,)."""
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    wrong = np.flatnonzero((numbers.isna() & column.notna()) | np.isinf(numbers.astype(float)))
    if len(wrong):
        i = wrong[0]
        raise InputError(
            f"{path}, {line(column.index[i])}, column {column.name!r}: {str(column.iloc[i])!r} is no number; correct "
            "it, leave it empty if it is missing, or remove the column."
        )
    return numbers.to_numpy(dtype=np.float64)


def _complete(
    matrix: Array, dates: Array, names: list[str], path: Path
) -> tuple[Array, Array, tuple[str, ...], list[str]]:
    """Days with values and tickers without a gap: matrix, which days (booleans), tickers, notes."""
    notes = []
    kept = ~np.isnan(matrix).all(1)
    if not kept.all():
        notes.append(f"{(~kept).sum()} days without any value were dropped.")
    gaps = np.isnan(matrix[kept])
    whole = ~gaps.any(0)
    if not whole.any():
        ticker = int(gaps.sum(0).argmin())
        day = dates[kept][np.flatnonzero(gaps[:, ticker])[0]]
        raise InputError(
            f"{path}: every ticker misses a value ({names[ticker]!r} has the fewest gaps, the first on {day}); fill "
            "them, or keep only the days on which tickers were traded."
        )
    if not whole.all():
        dropped = [name for name, is_whole in zip(names, whole, strict=True) if not is_whole]
        notes.append(f"{len(dropped)} of {len(names)} tickers miss values and were dropped: {_some(dropped)}.")
    tickers = tuple(name for name, is_whole in zip(names, whole, strict=True) if is_whole)
    return matrix[kept][:, whole], kept, tickers, notes


def _require_positive(
    matrix: Array, tickers: tuple[str, ...], days: tuple[str, ...], written: list[str], path: Path
) -> None:
    wrong = np.argwhere(matrix <= 0)
    if len(wrong):
        i, j = wrong[0]
        raise InputError(
            f"{path}, {written[i]} ({days[i]}), column {tickers[j]!r}: a price of {matrix[i, j]:g} has no log-return; "
            "correct it, or leave it empty."
        )


def _some(names: Any) -> str:
    """The first few of some names."""
    shown = [str(name) for name in list(names)[:5]]
    return ", ".join(shown) + (" …" if len(names) > 5 else "")
