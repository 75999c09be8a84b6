"""Signals in delimited text: a row per signal, a column per point of time, and perhaps a column of classes.

Columns are called CHANNEL@POINT where signals have several channels. Only `kind="signals"` reads such files: without
it, they are tables.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..._backend.arrays import Array
from .. import InputError
from .. import lazy_pandas as pd
from ..delimited import read_texts
from .codec import SignalCodec
from .found import Found

CLASS_NAMES = ("class", "label", "target", "y")
FIRST, LAST = "first", "last"
_COLUMN = re.compile(r"(.+)@(\d+)")


def read_csv(path: Path, label: str | None, known: str | None = None) -> Found:
    """The signals of a file; label: the column of classes by its name, or first or last; None to find it.

    known: a name that the column of classes has in another file
    """
    file = read_texts(path)
    names = [str(name) for name in file.frame.columns]
    if label in (FIRST, LAST):
        label = names[0 if label == FIRST else -1]
    elif label is not None and label not in names:
        raise InputError(f"label must be a column of {path}, first, last or none; got {label!r}. Name another one.")
    numbers = file.frame.apply(pd.to_numeric, errors="coerce")
    texts = [name for name in names if numbers[name].isna().all() and file.frame[name].notna().all()]
    named = [name for name in names if name == known] or [name for name in names if name.lower() in CLASS_NAMES]
    label = label if label is not None else next(iter([*named, *(texts if len(texts) == 1 else ())]), None)
    points = [name for name in names if name != label]
    if not points:
        raise InputError(f"{path} has no column of numbers: write one row per signal, and one column per point.")
    values = numbers[points].to_numpy(dtype=np.float64)
    if len(missing := np.argwhere(np.isnan(values))):
        i, j = missing[0]
        cell = file.frame[points[j]].iloc[i]
        where = f"{path}, {file.place(int(i))}, column {points[j]!r}"
        if pd.isna(cell) and np.isnan(values[i, j:]).all():
            rule = f"the signal has {j} points and others have {len(points)}; signals must be equally long"
            raise InputError(f"{where}: {rule}. Cut them to one length, or fill in the missing values.")
        what = "the value is missing" if pd.isna(cell) else f"{cell!r} is not a number"
        raise InputError(f"{where}: {what}, and every point needs one: fill it in, or leave the signal out.")
    channels, order = _channels(points, str(path))
    signals = values[:, order].reshape(len(values), len(channels), -1)
    labels = None if label is None else tuple(map(str, file.frame[label]))
    ids = tuple(str(i + 1) for i in range(len(signals)))
    header = {"columns": tuple(names), "label_column": label} if file.style.header else {}
    return Found(signals, ids, channels, labels, flat=len(channels) == 1, **header)  # type: ignore[arg-type]


def _channels(points: list[str], path: str) -> tuple[tuple[str, ...], list[int]]:
    """Names of the channels, and the columns in the order of channels and times."""
    matches = [_COLUMN.fullmatch(name) for name in points]
    places = {(match[1], int(match[2])): i for i, match in enumerate(matches) if match is not None}
    if len(places) < len(points):
        return ("1",), list(range(len(points)))
    channels = tuple(dict.fromkeys(channel for channel, _ in places))
    times = sorted({time for _, time in places})
    if len(channels) * len(times) != len(points):
        raise InputError(f"{path}: channels {', '.join(channels[:5])} have different points. Write all points of each.")
    return channels, [places[channel, time] for channel in channels for time in times]


class CsvWriter:
    """Writes a row per signal, with the columns of the stored ones, or the class first where these had no names."""

    def __init__(self, place: BinaryIO, codec: SignalCodec) -> None:
        self._place, self._codec, self._begun = place, codec, False

    def write(self, items: Array, classes: list[str] | None, first: int) -> None:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        columns = _columns(self._codec, bool(classes))
        if not self._begun:
            rows.writerow([name for name, _ in columns])
            self._begun = True
        for i, values in enumerate(written_numbers(self._codec, items)):
            own = classes[i] if classes else ""
            rows.writerow([own if place is None else values[place[0]][place[1]] for _, place in columns])
        self._place.write(text.getvalue().encode("utf-8"))

    def close(self) -> None:
        """Nothing comes after the last signal."""


def _columns(codec: SignalCodec, has_classes: bool) -> list[tuple[str, tuple[int, int] | None]]:
    """Names of columns, and the channel and the point of time of each; None for that of classes."""
    C, T = len(codec.channels), codec.length
    if not codec.columns:
        first = [("class", None)] if has_classes else []
        names = [(f"{codec.channels[c]}@{t + 1}" if C > 1 else f"t{t + 1}", (c, t)) for c in range(C) for t in range(T)]
        return [*first, *names]
    points = [name for name in codec.columns if name != codec.label_column]
    _, order = _channels(points, "")
    places = {points[column]: divmod(n, len(points) // C) for n, column in enumerate(order)}
    found = [(name, places.get(name)) for name in codec.columns if has_classes or name != codec.label_column]
    return [(name, place) for name, place in found if place is None or place[1] < T]  # signals may be cut


def written_numbers(codec: SignalCodec, items: Array) -> list[list[list[float]]]:
    """Values of signals (n, C, T) as numbers whose texts read back as the same: whole ones without a decimal point."""
    signals = np.asarray(items)
    exact = (np.abs(signals) < 2.0**53).all()  # beyond, floats are whole whatever was measured
    whole = codec.step == 1.0 and exact and (signals == np.rint(signals)).all()
    return (signals.astype(np.int64) if whole else signals).tolist()  # type: ignore[no-any-return]
