"""The kind of data "returns": histories of prices or returns, and scenarios of log-returns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..._backend.arrays import Array
from ..._backend.state import Plain
from .. import Display, Format, InputError, KeyMeasure, Kind, Measures, NoOptions, RecallMeasures, Settings, Writer
from ..codec import ZARR
from ..display import Control, StepsControl
from ..generator import Generator
from .codec import Key, ReturnsCodec
from .description import ReturnsDescription, ReturnsOptions, WindowOptions
from .generator.coordinates import Blocks
from .generator.windows import PathGenerator, WindowEmbedding, WindowGenerator
from .reading import History, convert_frame, read_history
from .writing import SIMILARITIES, ScenarioArrayWriter, ScenarioWriter, compare, read_scenarios, scenario_gallery

MAX_DAYS = 10
RECOGNIZED_NOTE = "dates beside numbers were read as prices; if it is not a history of prices, pass kind='table'."


def scenario_controls(codec: ReturnsCodec) -> tuple[Control, ...]:
    """Log-returns of a ticker on the first days; sliders reach its largest stored move."""
    extents = tuple(float(f"{extent:.2g}") for extent in np.abs(codec.history).max(0))
    return (StepsControl("days", "First days, log-returns", codec.tickers, min(codec.window, MAX_DAYS), extents),)


def _days(codec: ReturnsCodec, items: Array) -> Array:
    """Days, which must not be copied, while their order and lengths may; in standard deviations: (n·window, N)."""
    scale = codec.history.std(0)
    return (codec.encode(items) / np.where(scale > 0, scale, 1.0)).reshape(-1, len(codec.tickers))


class ReturnsKind(ReturnsDescription, Kind["ReturnsCodec"]):
    """Reads histories, fits their generators, and compares, shows and writes scenarios."""

    alternatives = ("gaussian",)
    formats = (Format("csv", (".csv",)), Format("parquet", (".parquet", ".pq")), Format("npy", (".npy",)), ZARR)
    measures = Measures(
        key=KeyMeasure("correlation error", 0.3, "Tickers move together", "correlations between tickers are lost"),
        recall=RecallMeasures(
            SIMILARITIES,
            "The market takes new paths",
            "the market follows stored scenarios",
            "The generator “windows” draws new paths of the market with market_path='new', its default.",
        ),
        compare=compare,
        comparable=_days,
        named_parts=lambda codec: (codec.tickers, np.arange(len(codec.tickers))),
        non_overlapping=ReturnsCodec.choose_disjoint,
    )
    display = Display(
        scenario_gallery, style=(files(__package__) / "style.css").read_text("utf-8"), controls=scenario_controls
    )

    def read(self, path: Path, options: ReturnsOptions) -> ReturnsCodec:
        return _codec(read_history(path, options), str(path), options)

    def read_recognized(self, path: Path, options: ReturnsOptions) -> ReturnsCodec:
        """The codec of a history that the user did not call one: a note says that it may be a table instead."""
        try:
            codec = self.read(path, options)
        except InputError as error:
            raise InputError(f"{error} If it is not a price history, pass kind='table'.") from None
        return replace(codec, notes=(*codec.notes, RECOGNIZED_NOTE))

    def codec_of(self, data: object, options: ReturnsOptions) -> ReturnsCodec:
        return _codec(convert_frame(data, options), "the data frame", options)

    def codec_from_state(self, state: Mapping[str, object]) -> ReturnsCodec:
        return ReturnsCodec(**{**state, "blocks": Blocks(*state["blocks"])})  # type: ignore[arg-type, misc]

    def fit_generator(
        self, name: str, codec: ReturnsCodec, weights: Array, options: WindowOptions | NoOptions
    ) -> Generator:
        if isinstance(options, NoOptions):
            return super().fit_generator(name, codec, weights, options)
        windows = WindowGenerator.of(WindowEmbedding.fit(codec.history, codec.blocks, options), weights, options)
        return windows if options.days is None else PathGenerator.fit(windows, codec.blocks, options.days, options.link)

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

    def writer(self, codec: ReturnsCodec, destination: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        if format.name == "npy":
            return ScenarioArrayWriter(destination, codec)  # type: ignore[arg-type]  # no format but zarr is a folder
        return ScenarioWriter(destination, format.name, codec)  # type: ignore[arg-type]

    def as_array(self, codec: ReturnsCodec, items: Array, first: int) -> Array:
        """Scenarios (n, days, tickers): log-returns, or prices where `output` says so."""
        return codec.to_file(items)

    def array_attributes(self, codec: ReturnsCodec) -> dict[str, Plain]:
        return {"tickers": list(codec.tickers), "values": codec.output}

    def read_new(self, codec: ReturnsCodec, path: Path) -> Array:
        """Scenarios of a written file, which holds what `output` says. Longer paths are cut into windows."""
        values, window = read_scenarios(codec, path), codec.window
        days, N = values.shape[1:]
        if days < window:
            raise InputError(f"{path}: scenarios have {days} days and the window {window}. Read with window={days}.")
        return values[:, : days - days % window].reshape(-1, window, N)


def _codec(history: History, source: str, options: ReturnsOptions) -> ReturnsCodec:
    try:
        return ReturnsCodec.fit(**history._asdict(), window=options.window, output=options.output)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


KIND = ReturnsKind()
