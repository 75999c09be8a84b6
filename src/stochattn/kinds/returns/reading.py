"""Prices or returns as daily log-returns: one column per ticker, or one row per day and ticker (long format)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import check_choice
from .. import InputError
from .. import lazy_pandas as pd
from ..delimited.reading import read_texts
from ..native import is_other_frame, pandas_frame
from ..options import listed, with_count
from .description import FILLS, VALUES
from .recognition import FORMATS, TICKER_NAMES, VALUE_NAMES, column_named, date_column, with_index

MIN_NEGATIVE = 0.05  # share of negative values above which values are returns and not prices
LARGE_RETURN = 0.2  # a typical value above which returns are probably in percent
PERCENT = r"\s*[-+]?(?:\d+\.?\d*|\.\d+)\s*%\s*"


class History(NamedTuple):
    """Log-returns (T, N), the days (T,) they end on if known, and the last prices (N,) unless returns were read."""

    log_returns: Array
    tickers: tuple[str, ...]
    dates: tuple[str, ...] | None
    last_prices: Array | None
    notes: tuple[str, ...]


def read_history(path: Path, values: str = "auto", fill: str = "none", sheet: str | None = None) -> History:
    """The log-returns of a CSV, TSV, Parquet file or spreadsheet; values, fill and sheet as in `ReturnsOptions`."""
    file = read_texts(path, sheet)
    names = [str(name) for name in file.frame.columns]
    names[0] = names[0] or "date"  # a saved data frame leaves out the name of its index
    if "" in names:
        raise InputError(f"{path}, line 1: column {names.index('') + 1} has no name. Give each column a name.")
    table = file.frame.set_axis(names, axis=1).set_axis([file.place(i) for i in range(len(file.frame))])
    forms = zip(names, map(file.style.forms.get, file.frame.columns), strict=True)
    percent = [name for name, form in forms if form is not None and form.suffix.strip() == "%"]
    return _history(table, str(path), values, fill, file.notes, percent)


def history_of(frame: object, values: str = "auto", fill: str = "none") -> History:
    """The log-returns of a data frame, whose dates are its index or a column or unknown, or of a matrix."""
    if isinstance(frame, np.ndarray) and frame.ndim == 2:
        return history_of(pd.DataFrame(frame, columns=[f"ticker {i + 1}" for i in range(frame.shape[1])]), values, fill)
    if not isinstance(frame, pd.DataFrame) and not is_other_frame(frame):
        found = f"an array of shape {frame.shape}" if isinstance(frame, np.ndarray) else type(frame).__name__
        raise InputError(f"returns must be a file, a data frame or a matrix with one row per day; got {found}.")
    table = with_index(pandas_frame(frame, "returns")[0])
    table = table.set_axis([str(name) for name in table.columns], axis=1)
    table = table.set_axis([f"row {i + 1}" for i in range(len(table))])
    texts = table.select_dtypes(["object", "string"])
    percent = [name for name in texts if texts[name].dropna().astype(str).str.fullmatch(PERCENT).all()]
    table = table.assign(**{name: texts[name].str.strip().str.rstrip("% ") for name in percent})
    return _history(table, "the data frame", values, fill, (), percent)


def _history(
    table: pd.DataFrame, source: str, values: str, fill: str, read_notes: tuple[str, ...], percent: list[str]
) -> History:
    """The log-returns of a table whose index says the place of each row in `source`; percent: columns in percent."""
    check_choice("values", values, VALUES)
    check_choice("fill", fill, FILLS)
    table = table.dropna(how="all")
    if percent:
        numbers = table[percent].apply(pd.to_numeric, errors="coerce") / 100
        table = table.assign(**{name: numbers[name].where(numbers[name].notna(), table[name]) for name in percent})
    table, long_notes = _wide(table, source)
    table, dates, notes = _in_order(table, source)
    notes += [*read_notes, *long_notes]
    if percent:
        notes.append(f"numbers with a percent sign were divided by 100 ({listed(percent, 5)}).")
    found = _numbers(table, source, notes)
    if fill == "previous":
        found = _filled(found, values, notes)
    found = _complete(found, source, fill, notes)
    matrix, tickers = found.to_numpy(), tuple(found.columns)
    days = None if dates is None else tuple(str(day) for day in dates[table.index.isin(found.index)])
    values = _kind_of_values(found, values)
    if values == "returns":
        notes.append("values were taken as log-returns, as they are.")
        if np.median(np.abs(matrix)) > LARGE_RETURN:
            notes.append(f"a typical value exceeds {LARGE_RETURN:g}: if these are percent, divide them by 100.")
        return History(matrix, tickers, days, None, tuple(notes))
    for i, j in np.argwhere(matrix <= 0):
        day = "" if days is None else f" ({days[i]})"
        where = f"{source}, {found.index[i]}{day}, column {tickers[j]!r}"
        raise InputError(f"{where}: a price of {matrix[i, j]:g} has no log-return. Correct it, or leave it empty.")
    notes.append("prices became log-returns.")
    after = None if days is None else days[1:]
    return History(np.diff(np.log(matrix), axis=0), tickers, after, matrix[-1].copy(), tuple(notes))


def _wide(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, list[str]]:
    """A table with a row per day and ticker as one with a column per ticker, and a note; other tables as they are."""
    date = date_column(table)
    if date is None or not table[date].duplicated().any():
        return table, []
    numbers = table.drop(columns=date).apply(pd.to_numeric, errors="coerce")
    texts = [name for name in numbers if not numbers[name].notna().any()]
    ticker = column_named(table.drop(columns=date), TICKER_NAMES) or (texts[0] if len(texts) == 1 else None)
    if ticker is None:
        return table, []
    columns = [name for name in numbers if name != ticker and numbers[name].notna().any()]
    value = column_named(table[columns], VALUE_NAMES) or (columns[0] if len(columns) == 1 else None)
    if value is None:
        which = f"the columns of numbers are {listed(columns, 5)}" if columns else "there is no column of numbers"
        rule = f"{source}: there is a row for each day and ticker ({ticker}), and {which}"
        raise InputError(f"{rule}. Name the column of prices 'close', or that of returns 'return'.")
    for column in (date, ticker):
        for place in table.index[table[column].isna()]:
            raise InputError(f"{source}, {place}: column {column!r} is empty. Each row needs a date and a ticker.")
    rows = table.drop_duplicates([date, ticker, value])
    again = rows.duplicated([date, ticker])
    if again.any():
        second = rows[again].iloc[0]
        first = rows[(rows[date] == second[date]) & (rows[ticker] == second[ticker])].index[0]
        rule = f"{second[ticker]} has two values of {value!r} on {second[date]}: keep one row per day and ticker"
        raise InputError(f"{source}, {first} and {second.name}: {rule}.")
    wide = rows.pivot(index=date, columns=ticker, values=value).loc[rows[date].unique()]  # which sorts dates as text
    wide = wide[rows[ticker].unique()].set_axis([str(name) for name in rows[ticker].unique()], axis=1)
    places = rows.reset_index(names="place").groupby(date)["place"].first()
    wide = wide.reset_index().set_axis(places[wide.index].to_numpy())
    rest = [name for name in table if name not in (date, ticker, value)]
    left_out = f"; {listed(rest, 5)} {'was' if len(rest) == 1 else 'were'} left out" if rest else ""
    n = len(wide.columns) - 1
    note = f"rows with {date!r}, {ticker!r} and {value!r} became a row per day and a column for each of {n} tickers"
    return wide, [f"{note}{left_out}."]


def _in_order(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, Array | None, list[str]]:
    """The columns of tickers with days in their order, the dates (T,) if there are any, and notes."""
    column = date_column(table)
    if column is None:
        return *_without_dates(table, source), ["there are no dates: rows were taken as days in their order."]
    dates, notes = _dates(table[column], source)
    order = np.argsort(dates, kind="stable")
    if (np.diff(order) < 0).any():
        notes.append("the dates were not in order: days were sorted by date.")
    table, dates = table.drop(columns=column).iloc[order], dates[order]
    for i in np.flatnonzero(dates[1:] == dates[:-1]):
        rows = f"{table.index[i]} and {table.index[i + 1]}"
        raise InputError(f"{source}, {rows}: the date {dates[i]} appears twice. Keep one row per day.")
    if table.empty:
        raise InputError(f"{source} has no column beside its dates: add a column of prices for each ticker.")
    return table, dates, notes


def _without_dates(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, None]:
    """Columns of numbers; a first column that counts the rows is left out. InputError for other columns."""
    if "scenario" in table.columns:
        raise InputError(f"{source} holds scenarios and not a history: name one with a single row per day.")
    numbers = table.apply(pd.to_numeric, errors="coerce")
    if not numbers.notna().to_numpy().any():
        names = list(table.columns)
        found = f"has no numbers in its columns, {listed(names, 5)}" if names else "is empty"
        raise InputError(f"{source} {found}. Returns need a column of prices or returns for each ticker.")
    if len(numbers) < 2:
        raise InputError(f"{source} has {len(numbers)} day, and a return needs two.")
    texts = [str(name) for name in table.columns if numbers[name].isna().all()]
    if texts:
        rule = f"{source} has no column of dates, and {texts[0]!r} holds no numbers"
        raise InputError(f"{rule}. Write dates as 2024-12-31, or leave the column out if rows are days in their order.")
    first = numbers.iloc[:, 0].to_numpy(dtype=np.float64)
    counts = len(numbers.columns) > 1 and first[0] in (0, 1) and bool((np.diff(first) == 1).all())
    return (table.iloc[:, 1:] if counts else table), None


def _dates(column: pd.Series, source: str) -> tuple[Array, list[str]]:
    for place in column.index[column.isna()]:
        raise InputError(f"{source}, {place}: the date is missing in column {column.name!r}.")
    if len(column) < 2:
        raise InputError(f"{source} has {len(column)} day, and a return needs two.")
    notes = []
    if column.dtype.kind == "M":
        chosen = pd.to_datetime(column, utc=True)
    else:
        texts = column.astype(str).str.strip()
        example = max(FORMATS, key=lambda e: int(texts.head(20).str.fullmatch(FORMATS[e][0]).sum()))
        pattern, formats = FORMATS[example]
        matching = texts.where(texts.str.fullmatch(pattern))
        tried = [pd.to_datetime(matching, format=f, errors="coerce", utc=True) for f in formats]
        best = max(tried, key=lambda dates: int(dates.notna().sum()))
        for place in column.index[best.isna()]:
            rule = f"{texts[place]!r} is not a date written as the others are (as {example})"
            raise InputError(f"{source}, {place}, column {column.name!r}: {rule}. Write all dates in one way.")
        fitting = [dates for dates in tried if dates.notna().all()]
        ordered = [dates for dates in fitting if dates.is_monotonic_increasing]
        if len(fitting) > 1 and len(ordered) != 1:
            notes.append(f"dates such as {texts.iloc[0]} were read with the month first.")
        chosen = (ordered or fitting)[0]
    moments = chosen.dt.tz_convert(None).to_numpy().astype("datetime64[s]")
    days = moments.astype("datetime64[D]")
    return (days if (days == moments).all() else moments), notes


def _numbers(table: pd.DataFrame, source: str, notes: list[str]) -> pd.DataFrame:
    numbers = table.apply(pd.to_numeric, errors="coerce").astype(float)
    for j, i in np.argwhere(((numbers.isna() & table.notna()) | np.isinf(numbers)).to_numpy().T):
        rule = f"{source}, {table.index[i]}, column {table.columns[j]!r}: {str(table.iloc[i, j])!r} is not a number"
        raise InputError(f"{rule}. Correct it, leave it empty if it is missing, or remove the column.")
    kept = numbers.dropna(how="all")
    if len(kept) < len(numbers):
        notes.append(
            with_count(
                len(numbers) - len(kept),
                "day without any value was dropped.",
                "days without any value were dropped.",
            )
        )
    return kept


def _kind_of_values(numbers: pd.DataFrame, values: str) -> str:
    """Whether numbers are prices or returns, as asked, or by the share of negative ones."""
    if values != "auto":
        return values
    present = numbers.to_numpy()[numbers.notna().to_numpy()]
    return "returns" if (present < 0).mean() > MIN_NEGATIVE else "prices"


def _filled(numbers: pd.DataFrame, values: str, notes: list[str]) -> pd.DataFrame:
    """Missing prices as the previous price of the ticker, missing returns as zero; none before the first value."""
    before = numbers.ffill()
    as_prices = _kind_of_values(numbers, values) == "prices"
    filled = before if as_prices else numbers.where(numbers.notna() | before.isna(), 0.0)
    counts = (numbers.isna() & filled.notna()).sum()
    if counts.any():
        what = "the previous price" if as_prices else "a return of zero"
        notes.append(f"empty days were filled with {what}: {_by_ticker(counts)}.")
    return filled


def _complete(numbers: pd.DataFrame, source: str, fill: str, notes: list[str]) -> pd.DataFrame:
    """The tickers without missing values; InputError if there are none."""
    gaps = numbers.isna()
    dropped = numbers.columns[gaps.any()]
    if len(dropped) == numbers.shape[1]:
        name = gaps.sum().idxmin()
        rule = f"every ticker has missing values ({name!r} has the fewest, the first in {gaps[name].idxmax()})"
        raise InputError(f"{source}: {rule}. Fill them, or keep only the days on which tickers were traded.")
    if n := len(dropped):
        remedy = (
            "; fill='previous' fills days after the first price" if fill == "none" else ", because they begin later"
        )
        what = "has missing values and was dropped" if n == 1 else "have missing values and were dropped"
        which = f"{n} of {numbers.shape[1]} tickers {what}: {_by_ticker(gaps.sum())}"
        notes.append(f"{which}{remedy}.")
    return numbers.dropna(axis=1)


def _by_ticker(counts: pd.Series) -> str:
    """How many days of which tickers, for those with any."""
    return listed([f"{name} ({n} day{'s' if n > 1 else ''})" for name, n in counts.items() if n], 5)
