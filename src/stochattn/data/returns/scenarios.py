"""Scenarios: in files (one row per day of each, one column per ticker), against a history, and on a page."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..._backend.arrays import Array, ArrayLike
from ..._backend.html import Html, joined, name, tag
from .. import Batch, Comparison, InputError, Measure, Part
from ..delimited import read_texts
from ..gallery import GalleryItems, card_heading, laid_out, stored_name
from .codec import ReturnsCodec

DIGITS = {"returns": "%.10g", "prices": "%.15g"}  # in CSV: returns come back to 5e-11, and from prices to 1e-15
LAGS, TAIL = 10, 0.01
MAX_MOVERS = 5
WIDTH, HEIGHT, RIGHT = 240, 84, 44  # of a plot of paths, and the room for figures on its right
MIN_GAP = 11  # distance between two figures below which one would cover the other


class ScenarioWriter:
    """Writes scenarios, block by block, as CSV or Parquet; both scenarios and their days count from 1."""

    def __init__(self, place: BinaryIO, format: str, codec: ReturnsCodec) -> None:
        self._place, self._format, self._codec = place, format, codec
        self._parquet: Any = None

    def write(self, batch: Batch) -> None:
        import pandas as pd

        items, output = self._codec.encode(batch.items), self._codec.output
        values = items if output == "returns" else self._codec.last_prices * np.exp(np.cumsum(items, axis=1))
        n, days, N = values.shape
        frame = pd.DataFrame(values.reshape(n * days, N), columns=list(self._codec.tickers))
        if days > 1:
            frame.insert(0, "day", np.tile(np.arange(1, days + 1), n))
        frame.insert(0, "scenario", np.repeat(np.arange(batch.first + 1, batch.first + n + 1), days))
        if self._format == "csv":
            style = {"index": False, "lineterminator": "\n", "float_format": DIGITS[output]}
            frame.to_csv(self._place, header=batch.first == 0, mode="wb", **style)
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


def read_scenarios(codec: ReturnsCodec, path: Path) -> Array:
    """The log-returns of a file that a ScenarioWriter wrote: (n, days, N)."""
    import pandas as pd

    file, tickers = read_texts(path), list(codec.tickers)
    for missing in pd.Index(["scenario", *tickers]).difference(file.frame.columns, sort=False):
        raise InputError(f"{path} has no column {missing!r}: write scenarios with the same tickers.")
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
    values = numbers[tickers].to_numpy(dtype=np.float64).reshape(-1, days, len(tickers))
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
    parts = (Part(name, _describe(old), _describe(new), distance) for name, old, new, distance in columns)
    return Comparison(tuple(measures), tuple(parts))


def kolmogorov_smirnov(days: Array, history: Array) -> tuple[Array, Array]:
    """Statistic and p-value for each ticker, (N,), (N,); of as many new days as historical ones."""
    from scipy.stats import ks_2samp

    chosen = days[np.linspace(0, len(days) - 1, min(len(days), len(history))).round().astype(int)]
    tests = [ks_2samp(new, old, method="asymp") for new, old in zip(chosen.T, history.T, strict=True)]
    return np.array([test.statistic for test in tests]), np.array([test.pvalue for test in tests])


def correlation_error(days: Array, history: Array) -> float:
    """‖C_new − C_old‖ / ‖C_old‖ in the Frobenius norm; a ticker that never moves is uncorrelated with the others."""
    old = _correlations(history)
    return float(np.linalg.norm(_correlations(days) - old) / np.linalg.norm(old))


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


def _correlations(days: Array) -> Array:
    centred = days - days.mean(0)
    spread = np.sqrt(np.square(centred).sum(0))
    unit = centred / np.where(spread > 0, spread, 1.0)
    correlations = unit.T @ unit
    np.fill_diagonal(correlations, 1.0)
    return correlations


def _describe(column: Array) -> str:
    low, high = np.quantile(column, [0.01, 0.99])
    return f"{column.mean():+.4f} ± {column.std():.4f}, 98 % in {low:+.3f} … {high:+.3f}"


def scenario_gallery(codec: ReturnsCodec, shown: GalleryItems) -> Html:
    """The path of an equal-weight portfolio where a scenario has several days, and its largest movers."""
    cards = []
    for i, k in enumerate(shown.nearest):
        new, old = np.asarray(shown.items[i]), np.asarray(codec.stored[k])
        heading = card_heading(shown, i, stored_name(codec.ids, codec.labels, int(k)))
        paths = [_paths({"old": old.mean(1), "new": new.mean(1)})] if len(new) > 1 else []
        cards.append(tag("div", heading, *paths, _movers(codec.tickers, new.sum(0), old.sum(0)), class_="item"))
    N = len(codec.tickers)
    keys = tag("span", class_="key new"), "new  ", tag("span", class_="key old"), "nearest stored. "
    about = f"The {min(MAX_MOVERS, N)} tickers of {N:,} that move most in the new scenario, in percent. "
    about += "Lines are equal-weight portfolios of all of them." if codec.window > 1 else ""
    return joined([tag("p", *keys, about, class_="note"), laid_out(cards, "items paths")])


def _paths(log_returns: dict[str, Array]) -> Html:
    """Cumulative log-returns, "old" and "new", as lines from 0, with percentages at their ends."""
    paths = {which: np.concatenate([[0.0], values.cumsum()]) for which, values in log_returns.items()}
    both = np.concatenate(list(paths.values()))
    low, high, right = float(both.min()), float(both.max()), WIDTH - RIGHT

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


def _movers(tickers: tuple[str, ...], new: Array, old: Array) -> Html:
    """The tickers that move most, new and stored (N,), as bars to the left and right of a middle line."""
    most = np.argsort(-np.abs(new), kind="stable")[:MAX_MOVERS]
    scale = max(np.abs(new[most]).max(), np.abs(old[most]).max()) or 1.0
    rows = []
    for j in most:
        bars = "".join(
            f'<rect class="{which}" x="{50 + min(v, 0) * 48:.1f}" y="{y}" width="{max(abs(v) * 48, 0.5):.1f}" '
            'height="5"/>'
            for v, which, y in ((new[j] / scale, "new", 2), (old[j] / scale, "old", 8))
        )
        axis = '<line class="axis" x1="50" x2="50" y1="0" y2="15"/>'
        picture = Html(f'<svg viewBox="0 0 100 15" aria-hidden="true">{bars}{axis}</svg>')
        figures = tag("td", f"{100 * new[j]:+.1f} / {100 * old[j]:+.1f}")
        rows.append(tag("tr", tag("td", name(tickers[j], 16)), tag("td", picture), figures))
    return tag("table", tag("tbody", *rows), class_="movers")
