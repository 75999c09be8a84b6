"""Histories of prices and returns before their code is loaded: how files are recognized, and options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from .. import lazy_pandas as pd
from ..delimited import SHEET_HELP
from ..options import HopfieldOptions, KindDescription, NoOptions, option

VALUES = ("auto", "prices", "returns")
FILLS = ("none", "previous")
OUTPUTS = ("returns", "prices")
MARKETS = ("auto", "mean", "component", "none")
MARGINALS, MARKET_PATHS = ("calibrated", "free"), ("new", "stored")


@dataclass(frozen=True)
class ReturnsOptions:
    """Options of reading. `values` "auto" takes a table for returns if more than one value in twenty is negative."""

    values: str = option("auto", "What a history holds: prices, log-returns, or auto to find out.", choices=VALUES)
    fill: str = option(
        "none",
        "Empty cells: none drops the ticker; previous takes its previous price, or a return of zero. [none]",
        choices=FILLS,
    )
    window: int | None = option(None, "Days in a stored window. [60, or fewer in a short history]")
    output: str = option("returns", "What files hold: log-returns, or prices from the last one on.", choices=OUTPUTS)
    sheet: str | None = option(None, SHEET_HELP)


@dataclass(frozen=True)
class WindowOptions(HopfieldOptions):
    """Options of the generator "windows": p_beta over windows of days, or paths of several windows."""

    whiten: bool = option(True, "Let noise follow the covariance of the tickers, shrunk by Ledoit and Wolf's rule.")
    marginals: str = option(
        "calibrated", "calibrated: draws have the quantiles of the ticker's history. free: as drawn.", choices=MARGINALS
    )
    market: str = option(
        "auto",
        "The market: the mean of all tickers, their first component, or none. [auto: what explains more]",
        choices=MARKETS,
    )
    market_path: str = option(
        "new",
        "new: the market rises or falls anew on each day, given how far it moves. stored: as in the stored window.",
        choices=MARKET_PATHS,
    )
    days: int | None = option(None, "Days of a path, made of several windows. [one window]")
    link: bool = option(True, "Let the volatility of a path continue from one window to the next.")


TICKER_NAMES = ("ticker", "tickers", "symbol", "symbols", "tic", "asset", "security", "instrument", "isin", "stock")
VALUE_NAMES = ("adjclose", "adjustedclose", "adjusted", "close", "closingprice", "price", "logreturn", "return", "ret")
"""Columns of a table in long format, ignoring case and signs; the first of several columns of values is used."""
BAR_NAMES = {"open", "high", "low", "close"}
"""Columns of a file that has the trades of each day of one ticker."""
BESIDE_BARS = {"adjclose", "adjustedclose", "adjusted", "volume", "dividends", "stocksplits", "capitalgains"}
MIN_NEGATIVE = 0.05  # values are returns, and not prices, if a larger share of them is negative
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


def could_be_history(numbers: pd.DataFrame) -> bool:
    """Whether columns of numbers may be prices or returns, because no column of prices has two that are not positive.

    One alone may be a mistake, of which reading tells the place. Bars have columns that may be 0, such as the volume.
    """
    columns = numbers.apply(pd.to_numeric, errors="coerce")
    present = columns.to_numpy()[columns.notna().to_numpy()]
    are_returns = bool(len(present)) and (present < 0).mean() > MIN_NEGATIVE
    return bool(are_returns or are_bars(list(map(str, columns))) or ((columns <= 0).sum() < 2).all())


def _simplify(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())


def find_column(table: pd.DataFrame, names: Sequence[str], candidates: Sequence[str] = ()) -> str | None:
    """The column with the first of these names, ignoring case, spaces and signs, or else the only candidate."""
    plain = {_simplify(column): column for column in reversed(table.columns)}
    only = candidates[0] if len(candidates) == 1 else None
    return next((plain[name] for name in names if name in plain), only)


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


class ReturnsDescription(KindDescription):
    """Histories of prices or returns. The generator "hopfield" is another name of "windows", which samples p_beta."""

    name, item, items, part = "returns", "scenario", "scenarios", "ticker"
    inputs = (
        "prices or log-returns (CSV, TSV, Excel, Parquet: dates and one column per ticker, or date, ticker and close)"
    )
    condition_help = "log-return of a ticker SPY=-0.05, or on the third day SPY@3=-0.05"
    codec_options = ReturnsOptions
    generators = MappingProxyType({"windows": WindowOptions, "hopfield": WindowOptions, "gaussian": NoOptions})

    def recognizes(self, path: Path) -> bool:
        """A table of dates and numbers, or one in long format."""
        from ..delimited.reading import numbers_beside_dates, read_first_rows

        first = read_first_rows(path)
        numbers = numbers_beside_dates(first)
        texts = pd.DataFrame(first.cells, dtype="str") if first.cells else first.frame.reset_index().astype("str")
        return (len(numbers) > 1 and all(numbers) and could_be_history(texts.iloc[:, 1:])) or is_long(texts)

    def accepts(self, data: object) -> bool:
        """A data frame in long format, or one of numbers beside dates, which in pandas are the index."""
        from ..delimited.reading import MAX_LINES, are_dates
        from ..native import first_rows, is_other_frame

        frame = first_rows(data, MAX_LINES)
        if frame is None:
            return False
        table = restore_index(frame)
        others = table.select_dtypes(exclude="number")
        if is_long(table) or not others.shape[1] == 1 < table.shape[1]:
            return is_long(table)
        return frame.index.nlevels == 1 if table is not frame else is_other_frame(data) and are_dates(others.iloc[:, 0])


DESCRIPTION = ReturnsDescription()
