"""Scenarios in files: one row per day of each scenario, one column per ticker, as log-returns or as prices."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ..._backend.arrays import Array
from ..base import Batch
from ..delimited import read_texts
from ..options import InputError
from .codec import ReturnsCodec

if TYPE_CHECKING:
    import pandas as pd

DIGITS = {"returns": "%.10g", "prices": "%.15g"}
"""Significant digits in CSV: returns come back to a relative 5e-11, and from prices to 1e-15. Parquet keeps all."""


class ScenarioWriter:
    """Writes scenarios, block by block, as CSV or Parquet; both scenarios and their days count from 1."""

    def __init__(self, place: BinaryIO, format: str, codec: ReturnsCodec) -> None:
        self._place, self._format, self._codec = place, format, codec
        self._parquet: Any = None

    def write(self, batch: Batch) -> None:
        """Write these."""
        import pandas as pd

        items, output = self._codec.encode(batch.items), self._codec.output
        values = items if output == "returns" else self._codec.last_prices * np.exp(np.cumsum(items, axis=1))
        n, days, N = values.shape
        frame = pd.DataFrame(values.reshape(n * days, N), columns=list(self._codec.tickers))
        if days > 1:
            frame.insert(0, "day", np.tile(np.arange(1, days + 1), n))
        frame.insert(0, "scenario", np.repeat(np.arange(batch.first + 1, batch.first + n + 1), days))
        if self._format == "parquet":
            self._write_parquet(frame)
            return
        style = {"index": False, "lineterminator": "\n", "float_format": DIGITS[output]}
        frame.to_csv(self._place, header=batch.first == 0, mode="wb", **style)

    def close(self) -> None:
        """End the file."""
        if self._parquet is not None:
            self._parquet.close()

    def _write_parquet(self, frame: pd.DataFrame) -> None:
        try:
            pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        except ImportError:
            raise InputError("writing Parquet needs pyarrow: install it, or write CSV.") from None
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        if self._parquet is None:
            self._parquet = parquet.ParquetWriter(self._place, table.schema)
        self._parquet.write_table(table)


def read_scenarios(codec: ReturnsCodec, path: Path) -> Array:
    """The log-returns of a file that a ScenarioWriter wrote: (n, days, N)."""
    import pandas as pd

    file, tickers = read_texts(path), list(codec.tickers)
    for name in ("scenario", *tickers):
        if name not in file.frame.columns:
            raise InputError(f"{path} has no column {name!r}: write scenarios with the same tickers.")
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
    return _log_returns(codec, numbers[tickers].to_numpy(dtype=np.float64).reshape(-1, days, len(tickers)), path)


def _log_returns(codec: ReturnsCodec, values: Array, path: Path) -> Array:
    """The values of a file (n, days, N), log-returns or price paths, as log-returns.

    `output` alone decides between the two. A file that makes sense only as the other is an InputError: log-returns
    have the size of the history's, and so have those that prices give.
    """
    if (values <= 0).any():
        if codec.output == "prices":
            raise InputError(f'{path}: prices must be positive. Read log-returns with the option output="returns".')
        return values
    prices = np.concatenate([np.broadcast_to(codec.last_prices, values[:, :1].shape), values], axis=1)
    read = {"log-returns": values, "prices": np.diff(np.log(prices), axis=1)}
    asked, other = ("log-returns", "prices") if codec.output == "returns" else ("prices", "log-returns")
    likely = [np.median(np.abs(read[name])) <= np.abs(codec.history).max() for name in (asked, other)]
    if likely == [False, True]:
        option = other.removeprefix("log-")
        raise InputError(f"{path} seems to hold {other}, and is read as {asked}. Read it with output={option!r}.")
    return read[asked]
