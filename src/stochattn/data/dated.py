"""Whether a table file looks like a time series, from its first lines."""

from __future__ import annotations

import warnings
from enum import StrEnum
from pathlib import Path

EXTENSIONS = (".csv", ".tsv", ".tab", ".txt", ".parquet", ".pq")
MAX_LINES = 200
"""Lines of a file that are looked at."""


class Dated(StrEnum):
    """The columns beside a first column of rising or falling dates."""

    NO = ""  # there are no such dates; this member is false in a condition
    NUMBERS = "numbers"  # several columns, all of numbers
    OTHER = "other"  # a single column of numbers, or numbers beside other cells: may be a price history all the same


def looks_dated(path: Path) -> Dated:
    """What the columns beside a first column of dates hold."""
    import pandas as pd

    if path.suffix.lower() not in EXTENSIONS or not path.is_file():
        return Dated.NO
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            frame = pd.read_parquet(path).head(MAX_LINES)
            frame = frame.reset_index() if isinstance(frame.index, pd.DatetimeIndex) else frame
        else:
            frame = pd.read_csv(path, sep=None, engine="python", nrows=MAX_LINES, encoding_errors="replace")
        if frame.shape[1] < 2 or len(frame) < 2 or frame.iloc[:, 0].dtype.kind in "iufb":
            return Dated.NO
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dates = pd.to_datetime(frame.iloc[:, 0], errors="coerce")
    except Exception:  # reading the file reports what is wrong with it, in better words
        return Dated.NO
    in_order = dates.is_monotonic_increasing or dates.is_monotonic_decreasing
    numbers = [dtype.kind in "iuf" for dtype in frame.dtypes.iloc[1:]]
    if not (dates.notna().all() and dates.is_unique and in_order and any(numbers)):
        return Dated.NO
    return Dated.NUMBERS if all(numbers) and len(numbers) > 1 and len(frame) > 2 else Dated.OTHER
