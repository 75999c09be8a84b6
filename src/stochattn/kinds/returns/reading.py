"""Reads daily log-returns from prices or returns: a column per ticker, or a row per day and ticker (long format)."""

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
from . import description
from .description import FILLS, FORMATS, MIN_NEGATIVE, TICKER_NAMES, VALUE_NAMES, VALUES, ReturnsOptions

LARGE_RETURN = 0.2  # returns are probably in percent if their median size is larger
PERCENT = r"\s*[-+]?(?:\d+\.?\d*|\.\d+)\s*%\s*"


class History(NamedTuple):
    """Log-returns (T, N), the days (T,) they end on if known, and the last prices (N,) unless returns were read."""

    log_returns: Array
    tickers: tuple[str, ...]
    dates: tuple[str, ...] | None
    last_prices: Array | None
    notes: tuple[str, ...]


def read_history(path: Path, options: ReturnsOptions) -> History:
    """The log-returns of a CSV, TSV, Parquet file or spreadsheet."""
    file = read_texts(path, options.sheet)
    names = [str(name) for name in file.frame.columns]
    names[0] = names[0] or "date"  # the index of a saved data frame has no name
    if "" in names:
        raise InputError(f"{path}, line 1: column {names.index('') + 1} has no name. Give each column a name.")
    table = file.frame.set_axis(names, axis=1).set_axis([file.place(i) for i in range(len(file.frame))])
    forms = zip(names, map(file.style.forms.get, file.frame.columns), strict=True)
    percent = [name for name, form in forms if form is not None and form.suffix.strip() == "%"]
    return _make_history(table, str(path), options, list(file.notes), percent)


def convert_frame(frame: object, options: ReturnsOptions) -> History:
    """The log-returns of a matrix, or of a data frame whose dates are its index or a column, or unknown."""
    if isinstance(frame, np.ndarray) and frame.ndim == 2:
        frame = pd.DataFrame(frame, columns=[f"ticker {i + 1}" for i in range(frame.shape[1])])
    if not isinstance(frame, pd.DataFrame) and not is_other_frame(frame):
        got = f"an array of shape {frame.shape}" if isinstance(frame, np.ndarray) else type(frame).__name__
        raise InputError(f"returns must be a file, a data frame or a matrix with one row per day; got {got}.")
    table = description.restore_index(pandas_frame(frame, "returns")[0])
    table = table.set_axis([str(name) for name in table.columns], axis=1)
    table = table.set_axis([f"row {i + 1}" for i in range(len(table))])
    strings = table.select_dtypes(["object", "string"])
    percent = [name for name in strings if strings[name].dropna().astype(str).str.fullmatch(PERCENT).all()]
    table = table.assign(**{name: strings[name].str.strip().str.rstrip("% ") for name in percent})
    return _make_history(table, "the data frame", options, [], percent)


def _make_history(
    table: pd.DataFrame, source: str, options: ReturnsOptions, notes: list[str], percent: list[str]
) -> History:
    """The log-returns of a table whose index names the place of each row in `source`.

    notes:   those on how the table was read; each step adds its own
    percent: columns in percent
    """
    check_choice("values", options.values, VALUES)
    check_choice("fill", options.fill, FILLS)
    table = table.dropna(how="all")
    if percent:
        numbers = table[percent].apply(pd.to_numeric, errors="coerce") / 100
        table = table.assign(**{name: numbers[name].where(numbers[name].notna(), table[name]) for name in percent})
        notes.append(f"numbers with a percent sign were divided by 100 ({listed(percent, 5)}).")
    table = _select_close(_pivot(table, source, notes), notes)
    table, dates = _sort_days(table, source, notes)
    if len(table) < 2:
        raise InputError(f"{source} has {len(table)} day, and a return needs two.")
    frame = _parse_numbers(table, source, notes)
    if options.fill == "previous":
        frame = _fill_missing(frame, options.values, notes)
    frame = _drop_incomplete(frame, source, options.fill, notes)
    matrix, tickers = frame.to_numpy(), tuple(frame.columns)
    days = None if dates is None else tuple(str(day) for day in dates[table.index.isin(frame.index)])
    if _detect_values(frame, options.values) == "returns":
        notes.append("values were read as log-returns.")
        if np.median(np.abs(matrix)) > LARGE_RETURN:
            notes.append(f"a typical value exceeds {LARGE_RETURN:g}: if these are percent, divide them by 100.")
        return History(matrix, tickers, days, None, tuple(notes))
    for i, j in np.argwhere(matrix <= 0):
        day = "" if days is None else f" ({days[i]})"
        where = f"{source}, {frame.index[i]}{day}, column {tickers[j]!r}"
        raise InputError(f"{where}: a price of {matrix[i, j]:g} has no log-return. Correct it, or leave it empty.")
    notes.append("prices became log-returns.")
    end_days = None if days is None else days[1:]
    return History(np.diff(np.log(matrix), axis=0), tickers, end_days, matrix[-1].copy(), tuple(notes))


def _select_close(table: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """The dates and the adjusted close of a file with the open, high, low and close of one ticker."""
    date = description.find_date_column(table)
    names = [name for name in table if name != date]
    close = description.find_column(table[names], VALUE_NAMES)
    if date is None or close is None or not description.are_bars(names):
        return table
    others = listed([name for name in names if name != close], 7)
    notes.append(f"the columns are of one ticker: {close!r} was read as its price, and {others} were left out.")
    return table[[date, close]]


def _pivot(table: pd.DataFrame, source: str, notes: list[str]) -> pd.DataFrame:
    """A table with a column per ticker from one with a row per day and ticker; other tables unchanged."""
    date = description.find_date_column(table)
    if date is None or not table[date].duplicated().any():
        return table
    numbers = table.drop(columns=date).apply(pd.to_numeric, errors="coerce")
    strings = [name for name in numbers if not numbers[name].notna().any()]
    ticker = description.find_column(table.drop(columns=date), TICKER_NAMES, strings)
    if ticker is None:
        return table
    columns = [name for name in numbers if name != ticker and numbers[name].notna().any()]
    value = description.find_column(table[columns], VALUE_NAMES, columns)
    if value is None:
        names = f"the columns of numbers are {listed(columns, 5)}" if columns else "there is no column of numbers"
        rule = f"{source}: there is a row for each day and ticker ({ticker}), and {names}"
        raise InputError(f"{rule}. Name the column of prices 'close', or that of returns 'return'.")
    for column in (date, ticker):
        for place in table.index[table[column].isna()]:
            raise InputError(f"{source}, {place}: column {column!r} is empty. Each row needs a date and a ticker.")
    rows = table.drop_duplicates([date, ticker, value])
    is_repeated = rows.duplicated([date, ticker])
    if is_repeated.any():
        second = rows[is_repeated].iloc[0]
        first = rows[(rows[date] == second[date]) & (rows[ticker] == second[ticker])].index[0]
        rule = f"{second[ticker]} has two values of {value!r} on {second[date]}: keep one row per day and ticker"
        raise InputError(f"{source}, {first} and {second.name}: {rule}.")
    wide = rows.pivot(index=date, columns=ticker, values=value)  # which sorts dates as strings
    days, tickers = rows[date].unique(), rows[ticker].unique()
    wide = wide.loc[days, tickers].set_axis([str(name) for name in tickers], axis=1)
    places = rows.reset_index(names="place").groupby(date)["place"].first()
    wide = wide.reset_index().set_axis(places[wide.index].to_numpy())
    ignored = [name for name in table if name not in (date, ticker, value)]
    left_out = f"; {listed(ignored, 5)} {'was' if len(ignored) == 1 else 'were'} left out" if ignored else ""
    note = f"rows with {date!r}, {ticker!r} and {value!r} became a row per day and a column for each of"
    notes.append(f"{note} {len(tickers)} tickers{left_out}.")
    return wide


def _sort_days(table: pd.DataFrame, source: str, notes: list[str]) -> tuple[pd.DataFrame, Array | None]:
    """The columns of tickers with sorted days, and the dates (T,) if there are any."""
    column = description.find_date_column(table)
    if column is None:
        notes.append("there are no dates: rows were read as consecutive days.")
        return _drop_row_numbers(table, source), None
    dates = _parse_dates(table[column], source, notes)
    order = np.argsort(dates, kind="stable")
    if (np.diff(order) < 0).any():
        notes.append("the dates were not in order: days were sorted by date.")
    table, dates = table.drop(columns=column).iloc[order], dates[order]
    for i in np.flatnonzero(dates[1:] == dates[:-1]):
        rows = f"{table.index[i]} and {table.index[i + 1]}"
        raise InputError(f"{source}, {rows}: the date {dates[i]} appears twice. Keep one row per day.")
    if not len(table.columns):
        raise InputError(f"{source} has no column beside its dates: add a column of prices for each ticker.")
    return table, dates


def _drop_row_numbers(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """Columns of numbers without a first column that counts the rows; InputError for columns of strings."""
    if "scenario" in table.columns:
        raise InputError(f"{source} holds scenarios and not a history: name one with a single row per day.")
    numbers = table.apply(pd.to_numeric, errors="coerce")
    if not numbers.notna().to_numpy().any():
        names = list(table.columns)
        fault = f"has no numbers in its columns, {listed(names, 5)}" if names else "is empty"
        raise InputError(f"{source} {fault}. Returns need a column of prices or returns for each ticker.")
    strings = [str(name) for name in table.columns if numbers[name].isna().all()]
    if strings:
        rule = f"{source} has no column of dates, and {strings[0]!r} holds no numbers"
        raise InputError(f"{rule}. Write dates as 2024-12-31, or leave the column out if rows are days in their order.")
    first = numbers.iloc[:, 0].to_numpy(dtype=np.float64)
    has_row_numbers = len(numbers.columns) > 1 and first[0] in (0, 1) and bool((np.diff(first) == 1).all())
    return table.iloc[:, 1:] if has_row_numbers else table


def _parse_dates(column: pd.Series, source: str, notes: list[str]) -> Array:
    for place in column.index[column.isna()]:
        raise InputError(f"{source}, {place}: the date is missing in column {column.name!r}.")
    if column.dtype.kind == "M":
        chosen = pd.to_datetime(column, utc=True)
    else:
        strings = column.astype(str).str.strip()
        example = max(FORMATS, key=lambda e: int(strings.head(20).str.fullmatch(FORMATS[e][0]).sum()))
        pattern, formats = FORMATS[example]
        matching = strings.where(strings.str.fullmatch(pattern))
        candidates = [pd.to_datetime(matching, format=f, errors="coerce", utc=True) for f in formats]
        best = max(candidates, key=lambda dates: int(dates.notna().sum()))
        for place in column.index[best.isna()]:
            rule = f"{strings[place]!r} is not a date in the format of the others (such as {example})"
            raise InputError(f"{source}, {place}, column {column.name!r}: {rule}. Write all dates in one format.")
        complete = [dates for dates in candidates if dates.notna().all()]
        ordered = [dates for dates in complete if dates.is_monotonic_increasing]
        if len(complete) > 1 and len(ordered) != 1:
            notes.append(f"dates such as {strings.iloc[0]} were read with the month first.")
        chosen = (ordered or complete)[0]
    moments = chosen.dt.tz_convert(None).to_numpy().astype("datetime64[s]")
    days = moments.astype("datetime64[D]")
    return days if (days == moments).all() else moments


def _parse_numbers(table: pd.DataFrame, source: str, notes: list[str]) -> pd.DataFrame:
    numbers = table.apply(pd.to_numeric, errors="coerce").astype(float)
    for j, i in np.argwhere(((numbers.isna() & table.notna()) | np.isinf(numbers)).to_numpy().T):
        rule = f"{source}, {table.index[i]}, column {table.columns[j]!r}: {str(table.iloc[i, j])!r} is not a number"
        raise InputError(f"{rule}. Correct it, leave it empty if it is missing, or remove the column.")
    kept = numbers.dropna(how="all")
    if n := len(numbers) - len(kept):
        notes.append(with_count(n, "day without any value was dropped.", "days without any value were dropped."))
    return kept


def _detect_values(numbers: pd.DataFrame, values: str) -> str:
    """Whether numbers are "prices" or "returns": as the option says, or by the share of negative numbers."""
    if values != "auto":
        return values
    present = numbers.to_numpy()[numbers.notna().to_numpy()]
    return "returns" if (present < 0).mean() > MIN_NEGATIVE else "prices"


def _fill_missing(numbers: pd.DataFrame, values: str, notes: list[str]) -> pd.DataFrame:
    """Fills missing prices with the previous one, and missing returns with zero, after the first value of a ticker."""
    previous = numbers.ffill()
    are_prices = _detect_values(numbers, values) == "prices"
    filled = previous if are_prices else numbers.where(numbers.notna() | previous.isna(), 0.0)
    counts = (numbers.isna() & filled.notna()).sum()
    if counts.any():
        content = "the previous price" if are_prices else "a return of zero"
        notes.append(f"empty days were filled with {content}: {_list_counts(counts)}.")
    return filled


def _drop_incomplete(numbers: pd.DataFrame, source: str, fill: str, notes: list[str]) -> pd.DataFrame:
    """The tickers without missing values; InputError if there are none."""
    gaps = numbers.isna()
    dropped = numbers.columns[gaps.any()]
    if len(dropped) == numbers.shape[1]:
        name = gaps.sum().idxmin()
        rule = f"every ticker has missing values ({name!r} has the fewest, the first in {gaps[name].idxmax()})"
        raise InputError(f"{source}: {rule}. Fill them, or keep only the days on which tickers were traded.")
    if n := len(dropped):
        remedy = "; fill='previous' fills days after the first price"
        reason = remedy if fill == "none" else ", because they begin later"
        verb = "has missing values and was dropped" if n == 1 else "have missing values and were dropped"
        notes.append(f"{n} of {numbers.shape[1]} tickers {verb}: {_list_counts(gaps.sum())}{reason}.")
    return numbers.dropna(axis=1)


def _list_counts(counts: pd.Series) -> str:
    """Tickers with their counts of days, without those of zero."""
    return listed([f"{name} ({n} day{'s' if n > 1 else ''})" for name, n in counts.items() if n], 5)
