"""Scenarios in files: a row for each day of each scenario, a column for each ticker, as log-returns or as prices."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..._backend.arrays import Array
from ..legacy import Batch, InputError, Settings
from .history import read_table

OUTPUTS = ("returns", "prices")
DIGITS = {"returns": "%.10g", "prices": "%.15g"}
"""Significant digits in CSV: returns come back to a relative 5e-11, and from prices to 1e-15. Parquet keeps all."""


def paths_of(log_returns: Array, start: Array) -> Array:
    """Prices after each day of scenarios (n, days, N) that begin at the prices `start` (N,)."""
    return start * np.exp(np.cumsum(log_returns, axis=1))


def returns_of(prices: Array, start: Array) -> Array:
    """Log-returns of price paths (n, days, N) that began at the prices `start` (N,)."""
    logs = np.log(prices)
    return np.diff(logs, axis=1, prepend=np.broadcast_to(np.log(start), (len(logs), 1, len(start))))


def as_frame(items: Array, tickers: tuple[str, ...], first: int) -> Any:
    """Scenarios (n, days, N) as a data frame: scenario, day where there are several, tickers; both count from 1."""
    import pandas as pd

    n, days, N = items.shape
    frame = pd.DataFrame(items.reshape(n * days, N), columns=list(tickers))
    if days > 1:
        frame.insert(0, "day", np.tile(np.arange(1, days + 1), n))
    frame.insert(0, "scenario", np.repeat(np.arange(first + 1, first + n + 1), days))
    return frame


class ScenarioWriter:
    """Writes scenarios, block by block, as CSV or Parquet. `start` (N,) turns log-returns into price paths."""

    def __init__(
        self, place: BinaryIO, format: str, tickers: tuple[str, ...], settings: Settings, start: Array | None
    ) -> None:
        self._place, self._format, self._tickers, self._start = place, format, tickers, start
        self._facts = json.dumps(settings._asdict())
        self._parquet: Any = None
        self._begun = False

    def write(self, batch: Batch) -> None:
        """Write these."""
        items = np.asarray(batch.items, dtype=np.float64)
        frame = as_frame(items if self._start is None else paths_of(items, self._start), self._tickers, batch.first)
        if self._format == "csv":
            digits = DIGITS["returns" if self._start is None else "prices"]
            frame.to_csv(
                self._place, index=False, header=not self._begun, float_format=digits, mode="wb", lineterminator="\n"
            )
        else:
            self._write_parquet(frame)
        self._begun = True

    def close(self) -> None:
        """End the file."""
        if self._parquet is not None:
            self._parquet.close()

    def _write_parquet(self, frame: Any) -> None:
        try:
            pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        except ImportError:
            raise InputError("writing Parquet needs pyarrow: install it, or write CSV.") from None
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        if self._parquet is None:
            schema = table.schema.with_metadata({**(table.schema.metadata or {}), b"stochattn": self._facts.encode()})
            self._parquet = parquet.ParquetWriter(self._place, schema)
        self._parquet.write_table(table.replace_schema_metadata(self._parquet.schema.metadata))


def read_scenarios(path: Path, tickers: tuple[str, ...]) -> Array:
    """The values of a file that a ScenarioWriter wrote: (n, days, N)."""
    import pandas as pd

    frame, line, _ = read_table(path)
    missing = [name for name in ("scenario", *tickers) if name not in frame.columns]
    if missing:
        raise InputError(
            f"{path} has no column {missing[0]!r} ({len(missing)} missing): write scenarios with the same tickers."
        )
    columns = ["scenario", *(["day"] if "day" in frame.columns else []), *tickers]
    numbers = frame[columns].apply(lambda column: pd.to_numeric(column, errors="coerce"))
    bad = np.argwhere(~np.isfinite(numbers.to_numpy(dtype=np.float64)))
    if len(bad):
        i, j = bad[0]
        raise InputError(f"{path}, {line(i)}, column {columns[j]!r}: {frame[columns[j]].iloc[i]!r} is no number.")
    if not len(numbers):
        raise InputError(f"{path} holds no scenario: write at least one.")
    values = numbers[list(tickers)].to_numpy(dtype=np.float64)
    if "day" not in numbers:
        return values[:, None]
    numbers = numbers.sort_values(["scenario", "day"], kind="stable")
    values = numbers[list(tickers)].to_numpy(dtype=np.float64)
    counts = numbers.groupby("scenario").size()
    days = int(counts.iloc[0])
    if (counts != days).any() or not (numbers["day"].to_numpy().reshape(-1, days) == np.arange(1, days + 1)).all():
        raise InputError(f"{path}: scenarios must all have the days 1 to {days}; write each of them whole.")
    return values.reshape(-1, days, len(tickers))


def as_log_returns(values: Array, output: str, start: Array, history: Array, path: Path) -> Array:
    """What a file holds (n, days, N), log-returns or price paths from `start` (N,), as log-returns.

    `output` alone says which of the two. A file that makes sense only as the other is an InputError: log-returns have
    the size of the history's (T, N), and prices give such.
    """
    largest, positive = float(np.abs(history).max()), bool((values > 0).all())
    if output == "prices" and not positive:
        raise InputError(f"{path}: prices must be positive; read log-returns with --output returns.")
    from_prices = returns_of(values, start) if positive else None
    if from_prices is not None:
        likely = {"returns": np.median(np.abs(values)) <= largest, "prices": np.median(np.abs(from_prices)) <= largest}
        other = "prices" if output == "returns" else "returns"
        if likely[other] and not likely[output]:
            held, taken = ("prices", "log-returns") if output == "returns" else ("log-returns", "prices")
            raise InputError(f"{path} seems to hold {held}, and is read as {taken}: pass --output {other}.")
    return from_prices if output == "prices" and from_prices is not None else values
