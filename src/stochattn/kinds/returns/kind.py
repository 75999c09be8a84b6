"""The kind of data "returns": histories of prices or returns, and scenarios of log-returns.

The control of a page that sets the first days of scenarios.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np

from ..._backend.arrays import Array
from ..._backend.state import Plain
from .. import (
    Comparison,
    Format,
    HopfieldOptions,
    InputError,
    KeyMeasure,
    Kind,
    NoOptions,
    RecallMeasures,
    Settings,
    Writer,
    option,
)
from ..codec import ZARR
from ..controls import Control, StepsControl
from ..delimited.reading import MAX_LINES, are_dates, first_texts, numbers_beside_dates
from ..delimited.spreadsheets import SHEET_HELP
from ..generator import Generator
from ..hopfield import LinearEmbedding
from ..native import first_rows, is_other_frame
from ..plain import Gaussian, GaussianCoordinates
from .codec import OUTPUTS, Key, ReturnsCodec
from .generator.coordinates import Blocks
from .generator.market import MARKETS
from .generator.windows import MARGINALS, MARKET_PATHS, PathGenerator, WindowEmbedding, WindowGenerator
from .reading import FILLS, VALUES, History, convert_frame, is_long, read_history, restore_index
from .writing import (
    SIMILARITIES,
    ScenarioArrayWriter,
    ScenarioWriter,
    compare_returns,
    convert_values,
    market_similarities,
    read_scenarios,
    scenario_gallery,
)

MAX_DAYS = 10


def scenario_controls(codec: ReturnsCodec) -> tuple[Control, ...]:
    """Log-returns of a ticker on the first days; sliders reach its largest stored move."""
    extents = tuple(float(f"{one:.2g}") for one in np.abs(codec.history).max(0))
    return (StepsControl("days", "First days, log-returns", codec.tickers, min(codec.window, MAX_DAYS), extents),)


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


class ReturnsKind(Kind["ReturnsCodec"]):
    """Histories of prices or returns. The generator "hopfield" is another name of "windows", which samples p_beta."""

    name, item, items, part = "returns", "scenario", "scenarios", "ticker"
    inputs = (
        "prices or log-returns (CSV, TSV, Excel, Parquet: dates and one column per ticker, or date, ticker and close)"
    )
    condition_help = "log-return of a ticker SPY=-0.05, or on the third day SPY@3=-0.05"
    codec_options = ReturnsOptions
    generators = MappingProxyType({"windows": WindowOptions, "hopfield": WindowOptions, "gaussian": NoOptions})
    alternatives = ("gaussian",)
    formats = (Format("csv", (".csv",)), Format("parquet", (".parquet", ".pq")), Format("npy", (".npy",)), ZARR)
    key_measure = KeyMeasure("correlation error", 0.3, "Tickers move together", "correlations between tickers are lost")
    recall_measures = RecallMeasures(SIMILARITIES, "The market takes new paths", "the market follows stored scenarios")
    style = (files(__package__) / "style.css").read_text("utf-8")
    gallery, controls = staticmethod(scenario_gallery), staticmethod(scenario_controls)

    def recognises(self, path: Path) -> bool:
        numbers = numbers_beside_dates(path)
        return (len(numbers) > 1 and all(numbers)) or is_long(first_texts(path))

    def accepts(self, data: object) -> bool:
        """A data frame in long format, or one of numbers beside dates, which in pandas are the index."""
        frame = first_rows(data, MAX_LINES)
        if frame is None:
            return False
        table = restore_index(frame)
        others = table.select_dtypes(exclude="number")
        has_dates = others.shape[1] == 1 < table.shape[1] and (
            frame.index.nlevels == 1 if table is not frame else is_other_frame(data) and are_dates(others.iloc[:, 0])
        )
        return is_long(table) or has_dates

    def read(self, path: Path, options: ReturnsOptions) -> ReturnsCodec:
        return _codec(read_history(path, options.values, options.fill, options.sheet), str(path), options)

    def read_recognised(self, path: Path, options: ReturnsOptions) -> ReturnsCodec:
        """The codec of a history that the user did not call one: what is wrong with it may be that it is a table."""
        try:
            return self.read(path, options)
        except InputError as error:
            raise InputError(f"{error} If it is not a price history, pass kind='table'.") from None

    def codec_of(self, data: object, options: ReturnsOptions) -> ReturnsCodec:
        return _codec(convert_frame(data, options.values, options.fill), "the data frame", options)

    def codec_from_state(self, state: dict[str, Any]) -> ReturnsCodec:
        return ReturnsCodec(**{**state, "blocks": Blocks(*state["blocks"])})

    def fit_generator(
        self, name: str, codec: ReturnsCodec, weights: Array, options: WindowOptions | NoOptions
    ) -> Generator:
        if isinstance(options, NoOptions):
            normal = GaussianCoordinates.fit_weighted(codec.features(codec.stored), weights)
            return Gaussian.around(LinearEmbedding(normal, codec.stored.shape[1:]), weights)
        o = options
        embedding = WindowEmbedding.fit(
            codec.history,
            codec.blocks,
            variance=o.variance,
            whiten=o.whiten,
            norm=o.norm,
            marginals=o.marginals,
            market=o.market,
            market_path=o.market_path,
        )
        windows = WindowGenerator.fit(embedding, weights, beta=o.beta, novelty=o.novelty, sampler=o.sampler)
        return windows if o.days is None else PathGenerator.fit(windows, codec.blocks, o.days, o.link)

    def evaluated_options(self, options: WindowOptions | NoOptions) -> WindowOptions | NoOptions:
        """Windows are evaluated, not paths: halves of the windows have no order to link them by."""
        return replace(options, days=None) if isinstance(options, WindowOptions) else options

    def parse_condition(self, codec: ReturnsCodec, texts: Sequence[str]) -> Mapping[Key, float]:
        """SPY=-0.05 (the first day) and SPY@3=-0.05 (the third) as values by ticker, or by ticker and day."""
        values: dict[Key, float] = {}
        for text in texts:
            name, _, number = text.rpartition("=")
            key: Key = name.strip()
            if key not in codec.tickers and "@" in name:
                ticker, _, day = (part.strip() for part in name.rpartition("@"))
                key = (ticker, int(day) if day.isascii() and day.isdigit() else 0)
            try:
                value = float(number)
            except ValueError:
                value = math.nan
            if not name or not math.isfinite(value):
                raise InputError(f"{text}: write TICKER=LOG-RETURN, as SPY=-0.05 (or SPY@3=-0.05 for the third day).")
            if values.setdefault(key, value) != value:
                raise InputError(f"{text}: the same day of this ticker is {values[key]:g} already.")
        return values

    def writer(self, codec: ReturnsCodec, place: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        if format.name == "npy":
            return ScenarioArrayWriter(place, codec)  # type: ignore[arg-type]  # no format but zarr is a folder
        return ScenarioWriter(place, format.name, codec)  # type: ignore[arg-type]

    def as_array(self, codec: ReturnsCodec, items: Array, first: int) -> Array:
        """Scenarios (n, days, tickers): log-returns, or prices where `output` says so."""
        return convert_values(codec, items)

    def array_attributes(self, codec: ReturnsCodec) -> dict[str, Plain]:
        return {"tickers": list(codec.tickers), "values": codec.output}

    def read_new(self, codec: ReturnsCodec, path: Path) -> Array:
        """Scenarios of a written file, which holds what `output` says. Longer paths are cut into windows."""
        values, window = read_scenarios(codec, path), codec.window
        days, N = values.shape[1:]
        if days < window:
            raise InputError(f"{path}: scenarios have {days} days and the window {window}. Read with window={days}.")
        return values[:, : days - days % window].reshape(-1, window, N)

    def comparable(self, codec: ReturnsCodec, items: Array) -> Array:
        """Days, which must not be copied, while their order and lengths may; in standard deviations: (n·window, N)."""
        scale = codec.history.std(0)
        return (codec.encode(items) / np.where(scale > 0, scale, 1.0)).reshape(-1, len(codec.tickers))

    def parts(self, codec: ReturnsCodec) -> tuple[tuple[str, ...], Array]:
        return tuple(codec.tickers), np.arange(len(codec.tickers))

    def non_overlapping(self, codec: ReturnsCodec, indices: Array) -> Array:
        days, taken = codec.blocks.days, np.zeros(len(codec.history), dtype=bool)
        found = []
        for k in indices:
            if not taken[days[k]].any():
                taken[days[k]] = True
                found.append(k)
        return np.array(found, dtype=np.intp)

    def compare(self, codec: ReturnsCodec, items: Array) -> Comparison:
        comparison = compare_returns(items, codec.history, codec.tickers)
        apart = self.non_overlapping(codec, np.arange(codec.K))
        return comparison._replace(measures=(*comparison.measures, *market_similarities(items, codec, apart)))


def _codec(found: History, source: str, options: ReturnsOptions) -> ReturnsCodec:
    try:
        return ReturnsCodec.fit(**found._asdict(), window=options.window, output=options.output)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


KIND = ReturnsKind()
