"""Writes and reads scenarios (a row per day, a column per ticker), compares them with a history, and shows them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..._backend.array_files import ArrayFileError, read_npy, read_zarr, zarr_header
from ..._backend.arrays import Array, ArrayLike
from ..._backend.checks import first_line
from ..._backend.files import write_npy_header
from ..._backend.html import Html, join, name, tag
from ...core.neighbors import spaced_indices
from .. import Batch, Comparison, InputError, Measure, Part, Values
from .. import lazy_pandas as pd
from ..comparison import correlations
from ..delimited.reading import read_texts
from ..display import GalleryItems, card_heading, lay_out, stored_name
from .codec import ReturnsCodec

MAX_MOVERS = 5
WIDTH, HEIGHT, RIGHT = 240, 84, 44  # of a plot of paths, and the room for figures on its right
MIN_GAP = 11  # least distance between two figures that do not overlap


def scenario_gallery(codec: ReturnsCodec, shown: GalleryItems) -> Html:
    """The path of an equal-weight portfolio if a scenario has several days, and its largest movers."""
    cards = []
    for i, k in enumerate(shown.nearest):
        new, old = np.asarray(shown.items[i]), np.asarray(codec.stored[k])
        heading = card_heading(shown, i, stored_name(codec.ids, codec.labels, int(k)))
        paths = [_draw_paths({"old": old.mean(1), "new": new.mean(1)})] if len(new) > 1 else []
        movers = _tabulate_movers(codec.tickers, new.sum(0), old.sum(0))
        cards.append(tag("div", heading, *paths, movers, class_="item"))
    N = len(codec.tickers)
    keys = tag("span", class_="key new"), "new  ", tag("span", class_="key old"), "nearest stored. "
    about = f"The {min(MAX_MOVERS, N)} tickers of {N:,} that move most in the new scenario, in percent. "
    about += "Lines are equal-weight portfolios of all of them." if codec.window > 1 else ""
    return join([tag("p", *keys, about, class_="note"), lay_out(cards, "items paths")])


def _draw_paths(log_returns: dict[str, Array]) -> Html:
    """Cumulative log-returns, "old" and "new", as lines from 0, with percentages at their ends."""
    paths = {which: np.concatenate([[0.0], values.cumsum()]) for which, values in log_returns.items()}
    combined = np.concatenate(list(paths.values()))
    low, high, right = float(combined.min()), float(combined.max()), WIDTH - RIGHT

    def up(value: float) -> float:
        return 6 + (HEIGHT - 12) * (high - value) / ((high - low) or 1.0)

    parts = [f'<line class="axis" x1="0" x2="{right}" y1="{up(0):.1f}" y2="{up(0):.1f}"/>']
    for which, path in paths.items():
        points = " ".join(f"{right * i / (len(path) - 1):.1f},{up(v):.1f}" for i, v in enumerate(path))
        parts.append(f'<polyline class="{which}" points="{points}" fill="none" stroke-width="1.8"/>')
    ends = sorted((up(path[-1]), which) for which, path in paths.items())
    heights = [y for y, _ in ends]
    if heights[1] - heights[0] < MIN_GAP:
        middle = min(max(sum(heights) / 2, 12), HEIGHT - 12)
        heights = [middle - MIN_GAP / 2, middle + MIN_GAP / 2]
    for y, (_, which) in zip(heights, ends, strict=True):
        parts.append(f'<text class="{which}" x="{right + 5}" y="{y + 3.5:.1f}">{100 * paths[which][-1]:+.1f}</text>')
    label = f"cumulative returns: new {100 * paths['new'][-1]:+.1f}, stored {100 * paths['old'][-1]:+.1f}"
    return Html(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>')


def _tabulate_movers(tickers: tuple[str, ...], new: Array, old: Array) -> Html:
    """The tickers that move most, new and stored (N,), as bars to the left and right of a middle line."""
    most = np.argsort(-np.abs(new), kind="stable")[:MAX_MOVERS]
    scale = max(np.abs(new[most]).max(), np.abs(old[most]).max()) or 1.0
    rows = []
    for j in most:
        bars = ""
        for v, which, y in ((new[j] / scale, "new", 2), (old[j] / scale, "old", 8)):
            extent = f'x="{50 + min(v, 0) * 48:.1f}" y="{y}" width="{max(abs(v) * 48, 0.5):.1f}" height="5"'
            bars += f'<rect class="{which}" {extent}/>'
        axis = '<line class="axis" x1="50" x2="50" y1="0" y2="15"/>'
        plot = Html(f'<svg viewBox="0 0 100 15" aria-hidden="true">{bars}{axis}</svg>')
        figures = tag("td", f"{100 * new[j]:+.1f} / {100 * old[j]:+.1f}")
        rows.append(tag("tr", tag("td", name(tickers[j], 16)), tag("td", plot), figures))
    return tag("table", tag("tbody", *rows), class_="movers")


DIGITS = {"returns": "%.10g", "prices": "%.15g"}  # in CSV, which keep returns to 5e-11, or to 1e-15 from prices
LAGS, TAIL = 10, 0.01
SIMILARITIES = ("similarity of the market, equal weights", "similarity of the market, first component")
MIN_MARKET_DAYS, MAX_MARKETS = 10, 1000  # shorter paths all resemble each other; most scenarios that are compared


class ScenarioWriter:
    """Writes scenarios, block by block, as CSV or Parquet; both scenarios and their days count from 1."""

    def __init__(self, stream: BinaryIO, format: str, codec: ReturnsCodec) -> None:
        self._stream, self._format, self._codec = stream, format, codec
        self._parquet: Any = None
        self._has_header = False  # whether this writer wrote the names of the columns

    def write(self, batch: Batch) -> None:
        values, output = self._codec.to_file(batch.items), self._codec.output
        n, days, N = values.shape
        frame = pd.DataFrame(values.reshape(n * days, N), columns=list(self._codec.tickers))
        if days > 1:
            frame.insert(0, "day", np.tile(np.arange(1, days + 1), n))
        frame.insert(0, "scenario", np.repeat(np.arange(batch.first + 1, batch.first + n + 1), days))
        if self._format == "csv":
            style = {"index": False, "lineterminator": "\n", "float_format": DIGITS[output]}
            frame.to_csv(self._stream, header=not self._has_header, mode="wb", **style)
            self._has_header = True
            return
        try:
            pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        except ImportError:
            raise InputError("writing Parquet needs pyarrow: install it, or write CSV.") from None
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        if self._parquet is None:
            self._parquet = parquet.ParquetWriter(self._stream, table.schema)
        self._parquet.write_table(table)

    def close(self) -> None:
        if self._parquet is not None:
            self._parquet.close()


class ScenarioArrayWriter:
    """Writes scenarios as an array (n, days, N) in .npy, by way of a temporary file because the header needs n."""

    def __init__(self, stream: BinaryIO, codec: ReturnsCodec) -> None:
        self._stream, self._codec, self._n = stream, codec, 0
        self._blocks = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`, or with this object)
        self._shape: tuple[int, ...] = ()

    def write(self, batch: Batch) -> None:
        values = np.ascontiguousarray(self._codec.to_file(batch.items))
        self._n, self._shape = self._n + len(values), values.shape[1:]
        self._blocks.write(values.data)

    def close(self) -> None:
        with self._blocks:
            write_npy_header(self._stream, np.dtype(np.float64), (self._n, *self._shape))
            self._blocks.seek(0)
            shutil.copyfileobj(self._blocks, self._stream)


def read_scenarios(codec: ReturnsCodec, path: Path) -> Array:
    """The log-returns of a file that a writer of scenarios wrote, with values as in `codec.output`: (n, days, N)."""
    array = _read_array(path, len(codec.tickers))
    values = _read_table(codec, path) if array is None else array
    if (values <= 0).any():
        if codec.output == "prices":
            raise InputError(f'{path}: prices must be positive. Read log-returns with the option output="returns".')
        return values
    # `output` decides how values are read; an error if only the alternative gives values of the size of the history.
    prices = np.concatenate([np.broadcast_to(codec.last_prices, values[:, :1].shape), values], axis=1)
    readings = {"returns": values, "prices": np.diff(np.log(prices), axis=1)}
    (alternative,) = readings.keys() - {codec.output}
    is_likely = {name: np.median(np.abs(read)) <= np.abs(codec.history).max() for name, read in readings.items()}
    if is_likely[alternative] and not is_likely[codec.output]:
        rule = f"{path} seems to hold {alternative}, and is read as {codec.output}"
        raise InputError(f"{rule}. Read it with output={alternative!r}.")
    return readings[codec.output]


def _read_array(path: Path, N: int) -> Array | None:
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


def _read_table(codec: ReturnsCodec, path: Path) -> Array:
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
            raise InputError(f"{path}: scenarios must all have the days 1 to {days}; write all days of each.")
    return numbers[tickers].to_numpy(dtype=np.float64).reshape(-1, days, len(tickers))


def compare(codec: ReturnsCodec, items: Array) -> Comparison:
    """Scenarios (n, days, N) against the history, and the paths of their market against stored windows."""
    comparison = compare_returns(items, codec.history, codec.tickers)
    return comparison._replace(measures=(*comparison.measures, *market_similarities(items, codec)))


def compare_returns(items: ArrayLike, history: Array, tickers: tuple[str, ...]) -> Comparison:
    """Scenarios (n, days, N) against a history of log-returns (T, N)."""
    items = np.asarray(items, dtype=np.float64)
    days = items.reshape(-1, items.shape[-1])
    statistic, p = kolmogorov_smirnov(days, history)
    meaning = "Share of tickers whose daily returns pass a two-sample Kolmogorov-Smirnov test at 5 %."
    measures = [Measure("KS pass", float((p > 0.05).mean()), 0.95, meaning)]
    if len(tickers) > 1 and len(days) > 2:
        meaning = "Frobenius norm of the difference of the correlation matrices, relative to the historical one."
        measures.append(Measure("correlation error", correlation_error(days, history), 0.0, meaning))
    kurtosis, ideal = (float(each.mean()) if len(each) else 0.0 for each in map(excess_kurtosis, (days, history)))
    meaning = "Mean over the tickers; 0 for a normal distribution, more for heavier tails."
    measures.append(Measure("excess kurtosis", kurtosis, ideal, meaning))
    meaning = "Mean log-return of an equal-weight portfolio on its worst 1 % of days."
    measures.append(Measure("expected shortfall 1 %", expected_shortfall(days), expected_shortfall(history), meaning))
    if lags := min(LAGS, items.shape[1] - 1):
        meaning = "How much volatility clusters: mean autocorrelation of squared returns inside a scenario."
        past = squares_autocorrelation(history[None], lags) if len(history) > lags else None
        clustering = squares_autocorrelation(items, lags)
        measures.append(Measure(f"ACF of squares, lags 1 to {lags}", clustering, past, meaning))
    columns, parts = zip(tickers, history.T, days.T, statistic.tolist(), strict=True), []
    for ticker, old, new, distance in columns:
        parts.append(Part(ticker, _describe(old), _describe(new), distance, partial(Values, old, new)))
    return Comparison(tuple(measures), tuple(parts))


def market_similarities(items: Array, codec: ReturnsCodec) -> Iterator[Measure]:
    """Median largest correlation of the market of scenarios (n, days, N) with that of stored windows.

    The ideal is that of stored windows, disjoint ones, with windows that share no day with them. The market is the
    mean of all tickers, or their first principal component, in which the noise of tickers cancels.
    """
    windows, length, apart = codec.blocks.days, codec.window, codec.choose_disjoint(np.arange(codec.K))
    if length < MIN_MARKET_DAYS or items.shape[1] < length or len(apart) < 2:
        return
    _, _, components = np.linalg.svd(codec.history - codec.history.mean(0), full_matrices=False)
    items = items[spaced_indices(len(items), MAX_MARKETS), :length]
    is_apart = np.stack([~np.isin(windows, windows[k]).any(1) for k in apart])
    for similarity, weights in zip(SIMILARITIES, (np.ones(items.shape[2]), components[0]), strict=True):
        stored, new = _standardize((codec.history @ weights)[windows]), _standardize(items @ weights)
        among = np.where(is_apart, stored[apart] @ stored.T, -1.0).max(1)
        value, ideal = float(np.median((new @ stored.T).max(1))), float(np.median(among))
        meaning = "Median correlation of the path of the market with the nearest stored one"
        yield Measure(similarity, value, ideal, f"{meaning}; ideally that of stored ones.")


def _standardize(paths: Array) -> Array:
    centered = paths - paths.mean(1, keepdims=True)
    return np.asarray(centered / np.maximum(np.linalg.norm(centered, axis=1, keepdims=True), 1e-300))


def kolmogorov_smirnov(days: Array, history: Array) -> tuple[Array, Array]:
    """Statistic and p-value for each ticker, (N,), (N,), from at most as many new days as historical ones."""
    from scipy.stats import ks_2samp

    test = ks_2samp(days[spaced_indices(len(days), len(history))], history, axis=0, method="asymp")
    return test.statistic, test.pvalue


def correlation_error(days: Array, history: Array) -> float:
    """‖C_new − C_old‖ / ‖C_old‖ in the Frobenius norm; tickers that never move count as uncorrelated."""
    old = correlations(history)
    return float(np.linalg.norm(correlations(days) - old) / np.linalg.norm(old))


def excess_kurtosis(days: Array) -> Array:
    """Fourth moment over squared variance, less 3, of each ticker that moves: (T, N) -> (at most N,)."""
    centered = days - days.mean(0)
    variance = np.square(centered).mean(0)
    moving = variance > 0
    return (centered[:, moving] ** 4).mean(0) / variance[moving] ** 2 - 3


def expected_shortfall(days: Array) -> float:
    """Mean return of the equal-weight portfolio over its worst days: (T, N) -> number."""
    portfolio = np.sort(days.mean(1))
    return float(portfolio[: max(1, round(TAIL * len(portfolio)))].mean())


def squares_autocorrelation(paths: Array, n_lags: int = LAGS) -> float:
    """ACF(g²), the mean over lags 1 … n_lags and over tickers, pooled over paths: (n, days, N) -> number.

    Squares are centered by their mean over all paths, because centering each short window would hide how volatile it
    is. For a single path this is the usual autocorrelation, as in the paper.
    """
    squares = np.square(np.asarray(paths, dtype=np.float64))
    squares = squares - squares.mean((0, 1))
    scale, (n, days) = np.square(squares).sum((0, 1)), squares.shape[:2]
    moving, lags = scale > 0, []
    for lag in range(1, n_lags + 1):
        products = np.einsum("ptn,ptn->n", squares[:, lag:], squares[:, :-lag])
        # The usual autocorrelation of a single path divides by all days; windows have fewer pairs at longer lags.
        pairs = 1.0 if n == 1 else days / (days - lag)
        lags.append((products[moving] * pairs / scale[moving]).mean())
    return float(np.mean(lags))


def _describe(column: Array) -> str:
    low, high = np.quantile(column, [0.01, 0.99])
    return f"{column.mean():+.4f} ± {column.std():.4f}, 98 % in {low:+.3f} … {high:+.3f}"
