"""Histories of prices and returns before their code is loaded: how files are recognized, and options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

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
        from ..delimited.reading import first_texts, numbers_beside_dates, read_first_rows
        from .recognition import is_long

        first = read_first_rows(path)
        numbers = numbers_beside_dates(first)
        return (len(numbers) > 1 and all(numbers)) or is_long(first_texts(first))

    def accepts(self, data: object) -> bool:
        """A data frame in long format, or one of numbers beside dates, which in pandas are the index."""
        from ..delimited.reading import MAX_LINES, are_dates
        from ..native import first_rows, is_other_frame
        from .recognition import is_long, restore_index

        frame = first_rows(data, MAX_LINES)
        if frame is None:
            return False
        table = restore_index(frame)
        others = table.select_dtypes(exclude="number")
        has_dates = others.shape[1] == 1 < table.shape[1] and (
            frame.index.nlevels == 1 if table is not frame else is_other_frame(data) and are_dates(others.iloc[:, 0])
        )
        return is_long(table) or has_dates


DESCRIPTION = ReturnsDescription()
