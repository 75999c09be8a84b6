"""Price histories: days or windows of days as memories, scenarios of log-returns as items (n, window, N)."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import inverse_temperature, one_of
from ...core.memory import MemoryBank
from ...core.neighbors import nearest_rows
from ...generators.coordinates import Coordinates
from ..legacy import Codec, Comparison, InputError, Settings, Writer
from .blocks import Blocks, checked_runs, gathered
from .calibration import Calibration
from .fixes import fixed_return
from .history import History, history_in, read_history
from .measures import compare_returns
from .options import ReturnsOptions, options_of
from .projection import Projection
from .scenarios import ScenarioWriter, as_log_returns, read_scenarios
from .windows import CrossSections, WindowCoordinates

DAYS_AT_ONCE = 8192


class ReturnsCodec(Codec):
    """Days, or windows of days, of log-returns. Make one with `read` or `fit`.

    history:     (T, N) log-returns
    tickers:     (N,) names
    dates:       (T,) the day each return ends on, or None
    last_prices: (N,) or None
    blocks:      which days make each stored window
    """

    kind: ClassVar[str] = "returns"
    formats: ClassVar[dict[str, tuple[str, ...]]] = {"csv": (".csv",), "parquet": (".parquet", ".pq")}
    coordinates: WindowCoordinates | CrossSections

    def __init__(
        self,
        history: Array,
        tickers: Sequence[str],
        coordinates: WindowCoordinates | CrossSections,
        options: ReturnsOptions,
        blocks: Blocks,
        *,
        dates: Sequence[str] | None = None,
        last_prices: Array | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """Hold what `fit` made."""
        self.history, self.tickers, self.coordinates, self.options = history, tuple(tickers), coordinates, options
        self.blocks, self.last_prices, self.notes = blocks, last_prices, tuple(notes)
        self.dates = None if dates is None else tuple(dates)
        self.stored = gathered(history, blocks).reshape(-1, blocks.window, len(self.tickers))
        self.ids = blocks.names(self.dates)
        self.labels = None if self.dates is None else blocks.years(self.dates)
        self._beta: float | None = None  # what draws are made at, once `at` has said
        self._held = False  # whether decoding is linear
        self._projection: Projection | None = None
        self._calibration: Calibration | None = None

    @classmethod
    def read(cls, path: str | Path, *, values: str = "auto", **options: Any) -> ReturnsCodec:
        """From a wide CSV, TSV or Parquet file of prices or returns; see `read_history` and ReturnsOptions."""
        return cls._of(read_history(path, values), str(path), options)

    @classmethod
    def of(cls, frame: Any, *, values: str = "auto", **options: Any) -> ReturnsCodec:
        """From a data frame of prices or log-returns, a row for each day, whose dates are its index or a column."""
        return cls._of(history_in(frame, values), "the data frame", options)

    @classmethod
    def _of(cls, found: History, source: str, options: dict[str, Any]) -> ReturnsCodec:
        try:
            return cls.fit(
                found.log_returns,
                found.tickers,
                dates=found.dates,
                last_prices=found.last_prices,
                notes=found.notes,
                **options,
            )
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    @classmethod
    def fit(
        cls,
        log_returns: Any,
        tickers: Sequence[str],
        *,
        dates: Sequence[str] | None = None,
        last_prices: Any = None,
        notes: Sequence[str] = (),
        runs: Sequence[int] | None = None,
        **options: Any,
    ) -> ReturnsCodec:
        """From log-returns (T, N), with the fields of ReturnsOptions as options.

        runs: lengths of the runs of days that the history is made of; no window reaches over the gap between two
        """
        history = np.array(log_returns, dtype=np.float64)
        if history.ndim != 2 or history.shape[1] != len(tickers) or 0 in history.shape:
            raise InputError(f"log_returns must be (days, tickers) with {len(tickers)} tickers; got {history.shape}.")
        if not np.isfinite(history).all():
            raise InputError("log_returns must be finite: drop the days or tickers that are not.")
        still = [ticker for ticker, moves in zip(tickers, np.ptp(history, axis=0) > 0, strict=True) if not moves]
        if still:
            notes = (*notes, f"{len(still)} tickers never change and stay so: {', '.join(still[:5])}.")
        lengths = checked_runs(runs, len(history))
        chosen, more = options_of(options, lengths)
        blocks = Blocks.within(lengths, chosen.window, len(tickers))
        coordinates, others = _coordinates(history, history, dates, chosen, blocks)
        more = (*more, *others)
        prices = None if last_prices is None else np.array(last_prices, dtype=np.float64)
        if prices is None and chosen.output == "prices":
            more = (*more, "no prices are known: price paths start at 100.")
        return cls(
            history, tickers, coordinates, chosen, blocks, dates=dates, last_prices=prices, notes=(*notes, *more)
        )

    @property
    def bank(self) -> MemoryBank:
        """The stored windows as a bank; in the projection's mode its values are their log-returns."""
        values = self.stored.reshape(self.K, -1) if self.options.mode == "projection" else None
        return MemoryBank(self.coordinates.stored, values=values)

    def at(self, beta: float, log_r: Any = None) -> ReturnsCodec:
        """The codec for draws made at this beta: it knows how to project them, or how to calibrate their marginals.

        log_r: (K,) log-multiplicities of the memories, over which the projection then runs
        """
        other = self._plain()
        other._beta = inverse_temperature(beta)
        if isinstance(self.coordinates, WindowCoordinates):
            other._calibration = other._calibrated(self.coordinates)
            return other
        bank = self.bank if log_r is None else MemoryBank(self.bank.patterns, log_r, self.bank.values)
        other._projection = Projection.at(bank, other._beta, self.history)
        return other

    def hold(self, fixes: Iterable[str]) -> ReturnsCodec:
        """The codec whose decode is linear, so that what is fixed is met; lengths are then right on average only."""
        return self._linear

    @cached_property
    def _linear(self) -> ReturnsCodec:
        other = self._plain()
        other._beta, other._held = self._beta, True
        if isinstance(self.coordinates, WindowCoordinates):
            other._calibration = other._calibrated(self.coordinates)
        return other

    def _calibrated(self, coordinates: WindowCoordinates) -> Calibration | None:
        """From the law of draws at this codec's beta to the history."""
        if self._beta is None or self.options.marginals != "calibrated" or coordinates.norm == "paper":
            return None
        if self._held:
            return Calibration.between(*coordinates.marginals(self._beta, self.history), self.history)
        rng = np.random.default_rng(0)  # numbers that only this is made of: the same map each time
        days = np.tile(self.history, (max(DAYS_AT_ONCE // len(self.history), 1), 1))
        return Calibration.measured(partial(coordinates.drawn_days, self._beta, days, rng), self.history)

    def _plain(self) -> ReturnsCodec:
        """The codec that neither `at` nor `hold` had been asked of."""
        other = copy.copy(self)
        other.__dict__.pop("_linear", None)
        other._beta, other._held, other._projection, other._calibration = None, False, None, None
        return other

    def around(self, memory: Array, beta: float, rng: np.random.Generator) -> Array:
        """A draw of coordinates around each of these memories: (n,) -> (n, d)."""
        rows = self.coordinates.stored[memory]
        rows = rows + rng.standard_normal(rows.shape) / math.sqrt(inverse_temperature(beta))
        if isinstance(self.coordinates, WindowCoordinates):
            rows *= self.coordinates.factors_of(memory, beta)
        return rows

    def features(self, items: Any) -> Array:
        """Scenarios laid flat: (n, window·N)."""
        items = np.asarray(items, dtype=np.float64)
        return items.reshape(len(items), self.options.window * len(self.tickers))

    def items(self, coordinates: Array, memory: Array, rng: np.random.Generator) -> Array:
        """Coordinates as log-returns: (n, window, N). The projection without a beta recalls the nearest memory."""
        shape = (len(coordinates), self.options.window, len(self.tickers))
        if isinstance(self.coordinates, WindowCoordinates):
            z = coordinates if self._held else self.coordinates.with_lengths(coordinates, memory)
            draws = self.coordinates.features(z).reshape(shape)
            return draws if self._calibration is None else self._calibration(draws)
        if self._projection is None:
            return self.stored[nearest_rows(coordinates, self.coordinates.stored)]
        return self._projection.items(coordinates, shape)

    def decode(self, rows: Any, beta: float | None = None, rng: int = 0) -> Array:
        """Rows as log-returns, each day with the length it has in the nearest memory: (n, d) -> (n, window, N).

        beta: at which the rows were drawn; None for rows without noise, which need no correction of what noise does
        """
        rows = np.asarray(rows, dtype=np.float64)
        memory = nearest_rows(rows, self.coordinates.stored)
        if isinstance(self.coordinates, WindowCoordinates):
            rows = rows * self.coordinates.factors_of(memory, beta)
        codec = self._plain() if beta is None else self.at(beta)
        return codec.items(rows, memory, np.random.default_rng(rng))

    def same(self, first: Any, second: Any) -> Array:
        """Which log-returns are equal up to rounding: (n, window·N) booleans."""
        return np.isclose(self.features(first), self.features(second), rtol=1e-9, atol=1e-12)

    def take(self, items: Any, indices: Any) -> Array:
        """Some of the scenarios."""
        return np.asarray(items)[indices]

    def observe(self, fixes: Iterable[str]) -> tuple[Array, Array]:
        """`SPY=-0.05`: the log-return of SPY on the first day; `SPY@3=-0.05`: on the third. As equations A z = y."""
        if not isinstance(self.coordinates, WindowCoordinates):
            raise InputError("--fix needs mode 'exact': the projection is not linear, and nothing can be fixed in it.")
        fixed: dict[int, float] = {}
        for text in fixes:
            column, value = fixed_return(text, self.tickers, self.history, self.options.window)
            if fixed.setdefault(column, value) != value:
                raise InputError(f"--fix {text}: the same day of this ticker is fixed to {fixed[column]:g} already.")
        calibration, N = self._linear._calibration, len(self.tickers)
        if calibration is not None:
            fixed = {column: calibration.backward(column % N, value) for column, value in fixed.items()}
        return self.coordinates.observation(list(fixed), list(fixed.values()))

    def writer(self, place: BinaryIO | Path, format: str, settings: Settings) -> Writer:
        """Writes `scenario`, `day` where a scenario has several, and a column for each ticker."""
        if isinstance(place, Path):
            raise InputError(f"{place} is a folder: scenarios go into one file, .csv or .parquet.")
        start = self._first_prices if self.options.output == "prices" else None
        return ScenarioWriter(place, one_of("format", format, tuple(self.formats)), self.tickers, settings, start)

    def read_new(self, path: Path) -> Array:
        """Scenarios of a written file, which holds what `output` says. Longer paths are cut into windows."""
        values = read_scenarios(Path(path), self.tickers)
        values = as_log_returns(values, self.options.output, self._first_prices, self.history, Path(path))
        n, days, N = values.shape
        w = self.options.window
        if days < w:
            raise InputError(f"{path}: scenarios have {days} days and the window {w}; read it with --window {days}.")
        return values[:, : days // w * w].reshape(n * (days // w), w, N)

    @property
    def _first_prices(self) -> Array:
        return np.full(len(self.tickers), 100.0) if self.last_prices is None else self.last_prices

    def comparable(self, items: Any) -> Array:
        """Days, one by one, in units of each ticker's standard deviation: (n·window, N).

        Windows keep their days' lengths and order, which is what they are for; what must not come back are the days.
        """
        scale = self.history.std(0)
        items = np.asarray(items, dtype=np.float64) / np.where(scale > 0, scale, 1.0)
        return items.reshape(-1, len(self.tickers))

    def apart(self, kept: Array) -> Array:
        """Those of these windows, in their order, that share no day with one taken before: (m,)."""
        days, taken = self.blocks.days, np.zeros(len(self.history), dtype=bool)
        alone = []
        for k in kept:
            if not taken[days[k]].any():
                taken[days[k]] = True
                alone.append(k)
        return np.array(alone, dtype=np.intp)

    def compare(self, items: Any) -> Comparison:
        """Scenarios, of any number of days, against the history."""
        return compare_returns(items, self.history, self.tickers)

    def refit(self, items: Any) -> ReturnsCodec:
        """A codec with the same options, fitted on other windows: these and no others are its memories."""
        history = self.features(items).reshape(-1, len(self.tickers))
        days = np.unique(history, axis=0)  # windows may share days, which would count several times
        w = self.options.window
        n = len(history) // w
        if n < 3:
            raise InputError(f"{n} windows of {w} days are too few to fit: 3 are the least.")
        blocks = Blocks((w,) * n, w, w)
        coordinates, notes = _coordinates(history, days, None, self.options, blocks)
        return ReturnsCodec(
            history, self.tickers, coordinates, self.options, blocks, last_prices=self.last_prices, notes=notes
        )

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Names, dates and options; the history and the linear map."""
        facts = {
            "tickers": self.tickers,
            "dates": self.dates,
            "options": self.options._asdict(),
            "norm": self.coordinates.norm,
            "variance": self.coordinates.variance,
            "runs": self.blocks.runs,
            "step": self.blocks.step,
            "notes": self.notes,
        }
        arrays = {"history": self.history}
        if self.last_prices is not None:
            arrays["last_prices"] = self.last_prices
        for name in ("mean", "inward", "outward") if self.options.mode == "exact" else ():
            arrays[name] = getattr(self.coordinates, name)
        return facts, arrays

    @classmethod
    def from_state(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> ReturnsCodec:
        """The codec of that state."""
        options, history = ReturnsOptions(**facts["options"]), arrays["history"]
        blocks = Blocks(tuple(facts["runs"]), options.window, int(facts["step"]))
        coordinates: WindowCoordinates | CrossSections
        if options.mode == "projection":
            coordinates = CrossSections.of_days(history, blocks)
        else:
            none = np.empty(0)
            map_ = (arrays["mean"], arrays["inward"], arrays["outward"])
            day = Coordinates(*map_, none, none, "whole", float(facts["variance"]))
            coordinates = WindowCoordinates.of_days(day, history, blocks, facts["norm"])
        return cls(
            history,
            facts["tickers"],
            coordinates,
            options,
            blocks,
            dates=facts["dates"],
            last_prices=arrays.get("last_prices"),
            notes=facts["notes"],
        )


def _coordinates(
    history: Array, days: Array, dates: Sequence[str] | None, options: ReturnsOptions, blocks: Blocks
) -> tuple[WindowCoordinates | CrossSections, tuple[str, ...]]:
    """Coordinates of the windows of a history, by a map fitted on `days` (n, N); and notes."""
    if options.mode == "projection":
        spread = np.ptp(history, axis=1)
        still = np.flatnonzero(spread <= 1e-12 * spread.max())
        if len(still):
            when = f"day {still[0] + 1}" if dates is None else dates[still[0]]
            raise InputError(
                f"on {when} all {history.shape[1]} tickers move alike, and mode 'projection' needs "
                "differences between tickers: remove the day, or use mode 'exact'."
            )
        return CrossSections.of_days(history, blocks), ()
    try:
        day = Coordinates.fit(days, variance=options.variance, whiten=options.whiten, norm="whole")
    except ValueError as error:
        raise InputError(str(error)) from None
    if day.d == 1 and options.norm != "whole":
        note = "a single component has no directions to vary: days keep their lengths in the rows (norm 'whole')."
        return WindowCoordinates.of_days(day, history, blocks, "whole"), (note,)
    return WindowCoordinates.of_days(day, history, blocks, options.norm), ()
