"""Scenarios: in files (one row per day of each, one column per ticker), and against a history."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..._backend.array_files import ArrayFileError, read_npy
from ..._backend.arrays import Array, ArrayLike
from ..._backend.checks import first_line
from ..._backend.files import write_npy_header
from ..._backend.zarr_files import read_zarr, zarr_header
from .. import Batch, Comparison, InputError, Measure, Part, Values
from .. import lazy_pandas as pd
from ..comparison import correlations
from ..delimited import read_texts
from .codec import ReturnsCodec

DIGITS = {"returns": "%.10g", "prices": "%.15g"}  # in CSV: returns come back to 5e-11, and from prices to 1e-15
LAGS, TAIL = 10, 0.01


class ScenarioWriter:
    """Writes scenarios, block by block, as CSV or Parquet; both scenarios and their days count from 1."""

    def __init__(self, place: BinaryIO, format: str, codec: ReturnsCodec) -> None:
        self._place, self._format, self._codec = place, format, codec
        self._parquet: Any = None
        self._begun = False  # whether the names of the columns are written: a part has its own

    def write(self, batch: Batch) -> None:
        values, output = written_values(self._codec, batch.items), self._codec.output
        n, days, N = values.shape
        frame = pd.DataFrame(values.reshape(n * days, N), columns=list(self._codec.tickers))
        if days > 1:
            frame.insert(0, "day", np.tile(np.arange(1, days + 1), n))
        frame.insert(0, "scenario", np.repeat(np.arange(batch.first + 1, batch.first + n + 1), days))
        if self._format == "csv":
            style = {"index": False, "lineterminator": "\n", "float_format": DIGITS[output]}
            frame.to_csv(self._place, header=not self._begun, mode="wb", **style)
            self._begun = True
            return
        try:
            pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        except ImportError:
            raise InputError("writing Parquet needs pyarrow: install it, or write CSV.") from None
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        if self._parquet is None:
            self._parquet = parquet.ParquetWriter(self._place, table.schema)
        self._parquet.write_table(table)

    def close(self) -> None:
        if self._parquet is not None:
            self._parquet.close()


class ArrayWriter:
    """Writes scenarios as an array (n, days, N) in .npy, whose header is written again once n is known."""

    def __init__(self, place: BinaryIO, codec: ReturnsCodec) -> None:
        self._place, self._codec, self._n = place, codec, 0
        self._blocks = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`, gone with this object at the latest)
        self._shape: tuple[int, ...] = ()

    def write(self, batch: Batch) -> None:
        values = np.ascontiguousarray(written_values(self._codec, batch.items))
        self._n, self._shape = self._n + len(values), values.shape[1:]
        self._blocks.write(values.data)

    def close(self) -> None:
        with self._blocks:
            write_npy_header(self._place, np.dtype(np.float64), (self._n, *self._shape))
            self._blocks.seek(0)
            shutil.copyfileobj(self._blocks, self._place)


def written_values(codec: ReturnsCodec, items: ArrayLike) -> Array:
    """What files hold of scenarios (n, days, N): log-returns, or prices from the last one on."""
    returns = codec.encode(items)
    return returns if codec.output == "returns" else codec.last_prices * np.exp(np.cumsum(returns, axis=1))


def read_scenarios(codec: ReturnsCodec, path: Path) -> Array:
    """The log-returns of a file that a writer of scenarios wrote: (n, days, N)."""
    values = _array(path, len(codec.tickers))
    return _as_log_returns(codec, path, _table_values(codec, path) if values is None else values)


def _array(path: Path, N: int) -> Array | None:
    """Scenarios (n, days, N) of an .npy file or a Zarr array; None for other files."""
    chunks = zarr_header(path)
    if path.suffix.lower() != ".npy" and chunks is None:
        return None
    try:
        if chunks is None:
            with path.open("rb") as stream:
                values = read_npy(stream)
        else:
            values = read_zarr(path)[0]
    except (ArrayFileError, OSError) as error:
        raise InputError(f"{path} cannot be read as an array ({first_line(error)}): write scenarios again.") from None
    if values.ndim != 3 or values.shape[2] != N or not len(values) or values.dtype.kind not in "iuf":
        rule = f"scenarios must be an array of numbers (n, days, {N}), with the tickers of the history"
        raise InputError(f"{path}: {rule}; got {values.dtype}, {values.shape}. Write scenarios with the same tickers.")
    if not np.isfinite(values).all():
        raise InputError(f"{path}: scenarios must be finite numbers; got NaN or infinity. Write them again.")
    return values.astype(np.float64)


def _table_values(codec: ReturnsCodec, path: Path) -> Array:
    """Values (n, days, N) of a table with a row for each day of each scenario."""
    file, tickers = read_texts(path), list(codec.tickers)
    missing = [name for name in ("scenario", *tickers) if name not in file.frame.columns]
    if missing:
        raise InputError(f"{path} has no column {missing[0]!r}: write scenarios with the same tickers.")
    if not len(file.frame):
        raise InputError(f"{path} holds no scenario. Write at least one.")
    columns = ["scenario", *(["day"] if "day" in file.frame.columns else []), *tickers]
    numbers = file.frame[columns].apply(pd.to_numeric, errors="coerce")
    for i, j in np.argwhere(~np.isfinite(numbers.to_numpy(dtype=np.float64))):
        where = f"{path}, {file.place(int(i))}, column {columns[j]!r}"
        raise InputError(f"{where}: {file.frame[columns[j]].iloc[i]!r} is not a number. Correct it.")
    days = 1
    if "day" in columns:
        numbers = numbers.sort_values(["scenario", "day"], kind="stable")
        counts = numbers.groupby("scenario").size()
        days = int(counts.iloc[0])
        if (counts != days).any() or not (numbers["day"].to_numpy().reshape(-1, days) == np.arange(1, days + 1)).all():
            raise InputError(f"{path}: scenarios must all have the days 1 to {days}; write each of them whole.")
    return numbers[tickers].to_numpy(dtype=np.float64).reshape(-1, days, len(tickers))


def _as_log_returns(codec: ReturnsCodec, path: Path, values: Array) -> Array:
    """Values (n, days, N) of a file, which holds what `output` says, as log-returns."""
    if (values <= 0).any():
        if codec.output == "prices":
            raise InputError(f'{path}: prices must be positive. Read log-returns with the option output="returns".')
        return values
    # `output` decides how values are read; it is an error if they have the size of the history's only as the other.
    prices = np.concatenate([np.broadcast_to(codec.last_prices, values[:, :1].shape), values], axis=1)
    read = {"log-returns": values, "prices": np.diff(np.log(prices), axis=1)}
    asked, other = ("log-returns", "prices") if codec.output == "returns" else ("prices", "log-returns")
    likely = [np.median(np.abs(read[what])) <= np.abs(codec.history).max() for what in (asked, other)]
    if likely == [False, True]:
        option = other.removeprefix("log-")
        raise InputError(f"{path} seems to hold {other}, and is read as {asked}. Read it with output={option!r}.")
    return read[asked]


def compare_returns(items: ArrayLike, history: Array, tickers: tuple[str, ...]) -> Comparison:
    """Scenarios (n, days, N) against a history of log-returns (T, N)."""
    items = np.asarray(items, dtype=np.float64)
    days = items.reshape(-1, items.shape[-1])
    statistic, p = kolmogorov_smirnov(days, history)
    about = "Share of tickers whose daily returns pass a two-sample Kolmogorov-Smirnov test at 5 %."
    measures = [Measure("KS pass", float((p > 0.05).mean()), 0.95, about)]
    if len(tickers) > 1 and len(days) > 2:
        about = "Frobenius norm of the difference of the correlation matrices, relative to the historical one."
        measures.append(Measure("correlation error", correlation_error(days, history), 0.0, about))
    found, ideal = (float(each.mean()) if len(each) else 0.0 for each in map(excess_kurtosis, (days, history)))
    about = "Mean over the tickers; 0 for a normal law, more for heavier tails."
    measures.append(Measure("excess kurtosis", found, ideal, about))
    about = "Mean log-return of an equal-weight portfolio on its worst 1 % of days."
    measures.append(Measure("expected shortfall 1 %", expected_shortfall(days), expected_shortfall(history), about))
    if lags := min(LAGS, items.shape[1] - 1):
        about = "How much volatility clusters: mean autocorrelation of squared returns inside a scenario."
        past = squares_autocorrelation(history[None], lags) if len(history) > lags else None
        measures.append(Measure(f"ACF of squares, lags 1 to {lags}", squares_autocorrelation(items, lags), past, about))
    columns = zip(tickers, history.T, days.T, statistic.tolist(), strict=True)
    parts = (
        Part(name, _describe(old), _describe(new), distance, partial(Values, old, new))
        for name, old, new, distance in columns
    )
    return Comparison(tuple(measures), tuple(parts))


def kolmogorov_smirnov(days: Array, history: Array) -> tuple[Array, Array]:
    """Statistic and p-value for each ticker, (N,), (N,); of as many new days as historical ones."""
    from scipy.stats import ks_2samp

    chosen = days[np.linspace(0, len(days) - 1, min(len(days), len(history))).round().astype(int)]
    tests = [ks_2samp(new, old, method="asymp") for new, old in zip(chosen.T, history.T, strict=True)]
    return np.array([test.statistic for test in tests]), np.array([test.pvalue for test in tests])


def correlation_error(days: Array, history: Array) -> float:
    """‖C_new − C_old‖ / ‖C_old‖ in the Frobenius norm; a ticker that never moves is uncorrelated with the others."""
    old = correlations(history)
    return float(np.linalg.norm(correlations(days) - old) / np.linalg.norm(old))


def excess_kurtosis(days: Array) -> Array:
    """Fourth moment over squared variance, less 3, of each ticker that moves: (T, N) -> (at most N,)."""
    centred = days - days.mean(0)
    variance = np.square(centred).mean(0)
    moving = variance > 0
    return (centred[:, moving] ** 4).mean(0) / variance[moving] ** 2 - 3


def expected_shortfall(days: Array) -> float:
    """Mean return of the equal-weight portfolio over its worst days: (T, N) -> number."""
    portfolio = np.sort(days.mean(1))
    return float(portfolio[: max(1, round(TAIL * len(portfolio)))].mean())


def squares_autocorrelation(paths: Array, n_lags: int = LAGS) -> float:
    """ACF(g²), the mean over lags 1 … n_lags and over tickers, pooled over paths: (n, days, N) -> number.

    Squares are centred by their mean over all paths: that of a short window would hide whether it is a calm one. For a
    single path it is the usual autocorrelation, and the paper's.
    """
    squares = np.square(np.asarray(paths, dtype=np.float64))
    squares = squares - squares.mean((0, 1))
    scale, (n, days) = np.square(squares).sum((0, 1)), squares.shape[:2]
    moving, lags = scale > 0, []
    for lag in range(1, n_lags + 1):
        products = np.einsum("ptn,ptn->n", squares[:, lag:], squares[:, :-lag])
        # A single path divides by all its days, as is usual; windows have fewer pairs the longer the lag.
        pairs = 1.0 if n == 1 else days / (days - lag)
        lags.append((products[moving] * pairs / scale[moving]).mean())
    return float(np.mean(lags))


def _describe(column: Array) -> str:
    low, high = np.quantile(column, [0.01, 0.99])
    return f"{column.mean():+.4f} ± {column.std():.4f}, 98 % in {low:+.3f} … {high:+.3f}"
