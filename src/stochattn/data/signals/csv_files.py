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
MAX_WHOLE = 0.1
"""Share of the columns of points up to which those of whole numbers are worth a note."""
CLASS, ID = "class", "id"
_COLUMN = re.compile(r"(.+)@(\d+)")


def read_csv(path: Path, label: str | None, like: SignalCodec | None = None) -> Found:
    """The signals of a file; label: the column of classes by its name, or first or last; None to find it.

    like: the codec of other signals, whose columns of points are not classes and whose column of classes is one
    """
    file = read_texts(path)
    names = [str(name) for name in file.frame.columns]
    if label in (FIRST, LAST):
        label = names[0 if label == FIRST else -1]
    elif label is not None and label not in names:
        raise InputError(f"label must be a column of {path}, first, last or none; got {label!r}. Name another one.")
    numbers = file.frame.apply(pd.to_numeric, errors="coerce")
    texts = [name for name in names if numbers[name].isna().all() and file.frame[name].notna().all()]
    named = [label] if label is not None else _class_columns(names, like)
    id_column = next((name for name in texts if name not in named and file.frame[name].is_unique), None)
    texts = [name for name in texts if name != id_column]
    label = next(iter([*named, *(texts if len(texts) == 1 else ())]), None)
    points = [name for name in names if name not in (label, id_column)]
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
        if points[j] in texts:
            rule = f"{cell!r} is not a number, and neither is any other cell of this column"
            raise InputError(f"{where}: {rule}. Name it as label if it holds classes, or remove it.")
        what = "the value is missing" if pd.isna(cell) else f"{cell!r} is not a number"
        raise InputError(f"{where}: {what}, and every point needs one: fill it in, or leave the signal out.")
    channels, order = _channels(points, str(path))
    signals = values[:, order].reshape(len(values), len(channels), -1)
    labels = None if label is None else tuple(map(str, file.frame[label]))
    ids = tuple(map(str, range(1, len(signals) + 1) if id_column is None else file.frame[id_column]))
    return Found(
        signals,
        ids,
        channels,
        labels,
        _notes(points, values),
        flat=len(channels) == 1,
        columns=tuple(names) if file.style.header else (),
        label_column=label,
        id_column=id_column,
    )


def _class_columns(names: list[str], like: SignalCodec | None) -> list[str]:
    """Columns that hold classes by their names: as those of other signals, or as is usual."""
    known = [] if like is None else [name for name in names if name == like.label_column]
    points = set() if like is None else set(like.columns) - {like.label_column, like.id_column}
    return known or [name for name in names if name.lower() in CLASS_NAMES and name not in points]


def _notes(points: list[str], values: Array) -> tuple[str, ...]:
    """A note on columns of whole numbers among others, which may be classes or numbers of rows."""
    whole = (values == np.rint(values)).all(0)
    if not 0 < whole.sum() <= MAX_WHOLE * len(points):
        return ()
    name = points[int(whole.argmax())]
    found = f"column {name!r} has whole numbers only, and is read as a point"
    return (f"{found}. If it holds classes, name it as label; if it numbers rows, remove it",)


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
        self._place, self._codec = place, codec
        self._columns: list[tuple[str, tuple[int, int] | str]] = []  # known once there are items

    def write(self, items: Array, classes: list[str] | None, first: int) -> None:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        if not self._columns:
            self._columns = _columns(self._codec, bool(classes))
            rows.writerow([name for name, _ in self._columns])
        for i, values in enumerate(written_numbers(self._codec, items)):
            texts = {CLASS: classes[i] if classes else "", ID: f"new-{first + i + 1}"}
            rows.writerow(
                [texts[place] if isinstance(place, str) else values[place[0]][place[1]] for _, place in self._columns]
            )
        self._place.write(text.getvalue().encode("utf-8"))

    def close(self) -> None:
        """Nothing comes after the last signal."""


def _columns(codec: SignalCodec, has_classes: bool) -> list[tuple[str, tuple[int, int] | str]]:
    """Names of columns, and the channel and the point of time of each, or CLASS or ID."""
    C, T = len(codec.channels), codec.length
    if not codec.columns:
        first: list[tuple[str, tuple[int, int] | str]] = [("class", CLASS)] if has_classes else []
        names = [(f"{codec.channels[c]}@{t + 1}" if C > 1 else f"t{t + 1}", (c, t)) for c in range(C) for t in range(T)]
        return [*first, *names]
    texts = {codec.label_column: CLASS if has_classes else None, codec.id_column: ID}
    points = [name for name in codec.columns if name not in texts]
    _, order = _channels(points, "")
    places = {points[column]: divmod(n, len(points) // C) for n, column in enumerate(order)}
    found: list[tuple[str, tuple[int, int] | str | None]]
    found = [(name, texts.get(name, places.get(name))) for name in codec.columns]
    if has_classes and codec.label_column is None:  # the classes are not from this file
        found = [("class", CLASS), *found]
    return [(name, place) for name, place in found if isinstance(place, str) or (place is not None and place[1] < T)]


def written_numbers(codec: SignalCodec, items: Array) -> list[list[list[float]]]:
    """Values of signals (n, C, T) as numbers whose texts read back as the same: whole ones without a decimal point."""
    signals = np.asarray(items)
    exact = (np.abs(signals) < 2.0**53).all()  # beyond, floats are whole whatever was measured
    whole = codec.step == 1.0 and exact and (signals == np.rint(signals)).all()
    return (signals.astype(np.int64) if whole else signals).tolist()  # type: ignore[no-any-return]
