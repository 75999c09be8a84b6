"""The codec of histories of returns, whose items are windows of days of log-returns (n, window, N)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from ..._backend.arrays import Array, ArrayLike
from ..._backend.checks import check_choice, check_count, suggest_names
from ..._backend.state import Plain
from .. import Codec, Conditioned, InputError
from .description import OUTPUTS
from .generator.coordinates import Blocks

Key = str | tuple[str, int]  # a ticker, on the first day of the window; or a ticker and a day, counted from 1
FIRST_PRICE = 100.0  # at which paths of prices start if the last prices are unknown
WINDOW = 60  # days in a window: about as long as volatility is correlated
MIN_DISJOINT = 8  # least number of disjoint windows in a history; in shorter histories, windows have fewer days
MIN_WINDOWS = 3
MAX_MOVES = 10  # largest condition, over the largest stored move; the maps to the history reach that far


@dataclass(frozen=True, eq=False)
class ReturnsCodec(Codec):
    """Windows of days of log-returns. Items are arrays."""

    history: Array  # (T, N)
    tickers: tuple[str, ...]  # (N,)
    blocks: Blocks  # the days of each stored window
    last_prices: Array  # (N,) at which new price paths start
    dates: tuple[str, ...] | None = None  # (T,) the last day of each return
    output: str = "returns"  # values in files, one of `OUTPUTS`
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        log_returns: ArrayLike,
        tickers: Sequence[str],
        *,
        dates: Sequence[str] | None = None,
        last_prices: ArrayLike | None = None,
        notes: Sequence[str] = (),
        runs: Sequence[int] | None = None,
        window: int | None = None,
        output: str = "returns",
    ) -> ReturnsCodec:
        """The codec of log-returns (T, N).

        runs:   lengths of the runs of consecutive days in the history; no window crosses the gap between two runs
        window: days in a window; None for 60, or fewer in a short history
        """
        history = np.array(log_returns, dtype=np.float64)
        if history.ndim != 2 or history.shape[1] != len(tickers) or 0 in history.shape:
            raise InputError(f"log_returns must be (days, tickers) with {len(tickers)} tickers; got {history.shape}.")
        if not np.isfinite(history).all():
            raise InputError("log_returns must be finite: drop the days or tickers that are not.")
        check_choice("output", output, OUTPUTS)
        blocks, window_notes = _windows(runs, window, *history.shape)
        constant = [ticker for ticker, past in zip(tickers, history.T, strict=True) if np.ptp(past) == 0]
        if len(constant) == len(tickers):
            raise InputError("all stored days are equal, so there is nothing to vary. Store different ones.")
        more = [f"{len(constant)} tickers never change and stay so: {', '.join(constant[:5])}."] if constant else []
        more += window_notes
        if last_prices is None and output == "prices":
            more.append(f"no prices are known: price paths start at {FIRST_PRICE:g}.")
        first = FIRST_PRICE if last_prices is None else np.array(last_prices, dtype=np.float64)
        prices, days = np.full(len(tickers), first), None if dates is None else tuple(dates)
        return cls(history, tuple(tickers), blocks, prices, days, output, (*notes, *more))

    @property
    def window(self) -> int:
        return self.blocks.window

    @cached_property
    def stored(self) -> Array:  # (K, window, N)
        return self.blocks.gather(self.history).reshape(-1, self.window, len(self.tickers))

    @cached_property
    def ids(self) -> tuple[str, ...]:  # type: ignore[override]
        """First and last day of each window, or of both segments of a window that wraps around in its run."""
        names = self.dates or [f"{i + 1}" for i in range(len(self.history))]
        prefix = "" if self.dates is not None else "day " if self.window == 1 else "days "
        spans = ([dict.fromkeys((names[i], names[j])) for i, j in parts] for parts in self.blocks.segments())
        return tuple(prefix + " and ".join(" to ".join(span) for span in parts) for parts in spans)

    @cached_property
    def labels(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """The year in which each window ends; both years of a window that wraps around in its run."""
        if self.dates is None:
            return None
        years = ([self.dates[last][:4] for _, last in parts] for parts in self.blocks.segments())
        return tuple(" and ".join(dict.fromkeys(parts)) for parts in years)

    def encode(self, items: ArrayLike) -> Array:
        return np.asarray(items, dtype=np.float64)

    def decode(self, arrays: Array, source: Array | None = None) -> Array:
        return np.asarray(arrays)

    def to_file(self, items: ArrayLike) -> Array:
        """The values of scenarios (n, days, N) in files: log-returns, or prices that follow the last prices."""
        returns = self.encode(items)
        return returns if self.output == "returns" else self.last_prices * np.exp(np.cumsum(returns, axis=1))

    def choose_disjoint(self, windows: Array) -> Array:
        """Those of the windows with these indices (n,) that share no day with a chosen one before them."""
        days, taken = self.blocks.days, np.zeros(len(self.history), dtype=bool)
        chosen = []
        for k in windows:
            if not taken[days[k]].any():
                taken[days[k]] = True
                chosen.append(k)
        return np.array(chosen, dtype=np.intp)

    def condition(self, values: Mapping[Key, object]) -> Conditioned:
        """`{"SPY": -0.05}` on the first day of the window, `{("SPY", 3): -0.05}` on the third."""
        conditions: dict[int, float] = {}  # by position in a flat window
        notes: list[str] = []
        for key, value in values.items():
            ticker, day = key if isinstance(key, tuple) else (key, 1)
            if ticker not in self.tickers:
                examples = f"There are {len(self.tickers)}, such as {', '.join(self.tickers[:3])}"
                raise InputError(f"there is no ticker {ticker!r}. {suggest_names(ticker, self.tickers)}{examples}.")
            if isinstance(day, bool) or not isinstance(day, int | np.integer) or not 1 <= day <= self.window:
                raise InputError(f"{ticker}: the day must lie between 1 and {self.window}, the window; got {day!r}.")
            name, column = ticker if day == 1 else f"{ticker} on day {day}", self.tickers.index(ticker)
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
                raise InputError(f"{name}: a log-return must be a finite number, such as -0.05; got {value!r}.")
            past, number, text = self.history[:, column], float(value), f"{name}: {value:g}"
            largest = float(np.abs(past).max())
            if np.ptp(past) == 0 and not math.isclose(number, past[0], abs_tol=1e-12):
                raise InputError(f"{text} is impossible: it never changes in the history, and is always {past[0]:g}.")
            if abs(number) > MAX_MOVES * largest > 0:
                rule = f"{text} is more than {MAX_MOVES} times the largest stored move, {largest:.3g}"
                raise InputError(f"{rule}. Values are log-returns: write -0.05 for a fall by 5 %.")
            if abs(number) > largest:
                notes.append(f"{text} is beyond the largest stored move, {largest:.3g}: windows are extrapolated")
            position = (int(day) - 1) * len(self.tickers) + column
            if (earlier := conditions.setdefault(position, number)) != number:
                raise InputError(f"{name}: the same day of this ticker is conditioned on {earlier:g} already.")
        positions, numbers = np.array(list(conditions), dtype=np.intp), np.array(list(conditions.values()))
        return Conditioned(self, (positions, numbers), tuple(notes))

    def refit(self, items: Array) -> ReturnsCodec:
        """A codec with the same options that stores these windows alone."""
        n, window = len(items), self.window
        if n < MIN_WINDOWS:
            raise InputError(f"{n} windows of {window} days are too few to fit: at least {MIN_WINDOWS} are needed.")
        history, blocks = self.encode(items).reshape(-1, len(self.tickers)), Blocks((window,) * n, window, window)
        return replace(self, history=history, blocks=blocks, dates=None, notes=())

    def state(self) -> dict[str, Plain]:
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"blocks": tuple(self.blocks)}


def _windows(runs: Sequence[int] | None, window: int | None, n_days: int, n_tickers: int) -> tuple[Blocks, list[str]]:
    """The windows of a history with these runs of days, and notes; InputError if there are too few days."""
    lengths = (n_days,) if runs is None else tuple(runs)
    if not all(isinstance(run, int | np.integer) and run > 0 for run in lengths) or sum(lengths) != n_days:
        rule = f"runs must be positive integers that add up to the {n_days} days of log_returns"
        raise InputError(f"{rule}; got {list(lengths[:5])}, which add up to {sum(lengths)}.")
    shortest, n_runs = min(lengths), len(lengths)
    size = max(min(WINDOW, n_days // MIN_DISJOINT, shortest), 1) if window is None else check_count("window", window)
    if size > shortest and n_runs > 1:
        rule = f"window={size} is longer than the shortest of {n_runs} runs of days, which has {shortest} days"
        raise InputError(f"{rule}. Choose a shorter window, or leave that run out.")
    n_windows = sum(run - size + 1 for run in lengths)
    if n_windows < MIN_WINDOWS:
        rule = f"{n_days} returns make {max(n_windows, 0)} windows of {size} days"
        raise InputError(f"{rule}, and at least {MIN_WINDOWS} are needed. Add days, or choose a shorter window.")
    runs_of = f" in {n_runs} runs, the shortest of {shortest} days," if n_runs > 1 else ""
    note = f"{n_days} days{runs_of} are few for windows of {WINDOW} days: windows have {size} (option window)."
    return Blocks.within(tuple(map(int, lengths)), size, n_tickers), [note] if window is None and size < WINDOW else []
