"""Which tables are histories of prices or returns: their columns of dates and tickers, and long format."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .. import lazy_pandas as pd

TICKER_NAMES = ("ticker", "tickers", "symbol", "symbols", "tic", "asset", "security", "instrument", "isin", "stock")
VALUE_NAMES = ("adjclose", "adjustedclose", "adjusted", "close", "closingprice", "price", "logreturn", "return", "ret")
"""Columns of a table in long format, ignoring case and signs; the first of several columns of values is used."""
BAR_NAMES = {"open", "high", "low", "close"}
"""Columns of a file that has the trades of each day of one ticker."""
BESIDE_BARS = {"adjclose", "adjustedclose", "adjusted", "volume", "dividends", "stocksplits", "capitalgains"}
FORMATS = {  # formats of dates: an example, its pattern, and the formats for pandas
    "2024-12-31": (r"\d{4}-\d{1,2}-\d{1,2}(?:[T ].*)?", ("ISO8601",)),
    "2024/12/31": (r"\d{4}/\d{1,2}/\d{1,2}", ("%Y/%m/%d",)),
    "31.12.2024": (r"\d{1,2}\.\d{1,2}\.\d{4}", ("%d.%m.%Y",)),
    "12/31/2024": (r"\d{1,2}/\d{1,2}/\d{4}", ("%m/%d/%Y", "%d/%m/%Y")),
    "31-Dec-2024": (r"\d{1,2}-[A-Za-z]{3}-\d{4}", ("%d-%b-%Y",)),
    "31-Dec-24": (r"\d{1,2}-[A-Za-z]{3}-\d{2}", ("%d-%b-%y",)),
    "Dec 31 2024": (r"[A-Za-z]{3} \d{1,2},? \d{4}", ("%b %d %Y", "%b %d, %Y")),
    "20241231": (r"(?:19|20)\d{6}", ("%Y%m%d",)),
}


def restore_index(frame: pd.DataFrame) -> pd.DataFrame:
    """A data frame whose index is a column if it has dates, or several columns if it has levels."""
    index = frame.index
    if isinstance(index, pd.MultiIndex):
        return frame.reset_index() if not {*index.names} & {*frame.columns} else frame
    if isinstance(index, pd.PeriodIndex):
        return restore_index(frame.set_axis(index.to_timestamp()))
    is_dated = index.dtype.kind == "M" or (index.dtype.kind == "O" and look_like_dates(index, False))
    return frame.reset_index(names="date") if is_dated else frame


def is_long(columns: pd.DataFrame) -> bool:
    """Whether columns have the names of long format (date, ticker, value), and a day or a ticker repeats."""
    columns = columns.set_axis([str(name) for name in columns.columns], axis=1)
    ticker, value = find_column(columns, TICKER_NAMES), find_column(columns, VALUE_NAMES)
    if ticker is None or value is None or (date := find_date_column(columns)) is None:
        return False
    numbers = columns[value].map(lambda cell: str(cell).strip().strip("%$€ ").replace(",", "."))
    is_number = pd.to_numeric(numbers, errors="coerce").notna().mean() > 0.5
    return bool(is_number and (columns[date].duplicated().any() or columns[ticker].duplicated().any()))


def are_bars(names: Sequence[str]) -> bool:
    """Whether columns are the open, high, low and close of one ticker, and what is listed beside them."""
    plain = set(map(_simplify, names))
    return plain >= BAR_NAMES and plain <= BAR_NAMES | BESIDE_BARS


def _simplify(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())


def find_column(table: pd.DataFrame, names: Sequence[str]) -> str | None:
    """The column with the first of these names, ignoring case, spaces and signs."""
    plain = {_simplify(column): column for column in reversed(table.columns)}
    return next((plain[name] for name in names if name in plain), None)


def find_date_column(table: pd.DataFrame) -> str | None:
    """The first column whose first values mostly look like dates; those such as 20241231 only in the first column."""
    for i, column in enumerate(table.columns):
        if table[column].dtype.kind == "M" or look_like_dates(table[column], first=i == 0):
            return str(column)
    return None


def look_like_dates(values: pd.Series | pd.Index, first: bool) -> bool:
    """Whether most of the first values look like dates; those such as 20241231 only in the first column."""
    strings = pd.Series(values).dropna().head(20).astype(str).str.strip()
    patterns = [pattern for example, (pattern, _) in FORMATS.items() if first or example != "20241231"]
    return len(strings) > 0 and float(strings.str.fullmatch("|".join(patterns)).mean()) > 0.5
