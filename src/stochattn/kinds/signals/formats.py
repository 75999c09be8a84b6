"""Reads files of signals: delimited text, .ts files and folders of WAV files.

- Delimited text has a row per signal, a column per point and perhaps a column of classes. Columns are called
  CHANNEL@POINT if signals have several channels. Only `kind="signals"` reads such files; otherwise they are tables.
- .ts is the text format of the UCR archive: a header, and a line per signal.
- WAV files (PCM) have values from -1 to 1, one rate and one length; sub-folders are classes.
"""

from __future__ import annotations

import csv
import io
import math
import re
import wave
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..._backend.arrays import Array
from .. import InputError
from .. import lazy_pandas as pd
from ..delimited.formulas import from_text
from ..delimited.reading import read_texts
from ..item_files import folders_of, list_visible_files
from ..smoothing import rows_are_smooth
from .codec import SignalCodec
from .description import WAV_EXTENSIONS, SignalOptions

CLASS_NAMES = ("class", "label", "target", "y")
FIRST, LAST = "first", "last"
MAX_INTEGER_COLUMNS = 0.1  # a note names columns of integers if at most this share of the columns of points are
_COLUMN = re.compile(r"(.+)@(\d+)")


def read_csv(path: Path, options: SignalOptions, like: SignalCodec | None = None) -> SignalCodec:
    """The signals of a file of delimited text; with a window, rows may be points, so that a column "y" is a channel.

    like: the codec of other signals; columns of this file have the roles that they have there
    """
    label, is_recording = options.label, options.window is not None
    file = read_texts(path, options.sheet, pad_first=True)
    names = [str(name) for name in file.frame.columns]
    if label in (FIRST, LAST):
        if label == LAST and not file.style.header and file.frame[names[-1]].isna().any():
            rule = f"label must not be last: lines of {path} differ in length, so they end in different columns"
            raise InputError(f"{rule}. Use first.")
        label = names[0 if label == FIRST else -1]
    elif label is not None and label not in names:
        raise InputError(f"label must be a column of {path}, first, last or none; got {label!r}. Name another one.")
    numbers = file.frame.apply(pd.to_numeric, errors="coerce")
    strings = [name for name in names if numbers[name].isna().all() and file.frame[name].notna().all()]
    classes = [label] if label is not None else _class_columns(names, like)
    classes = [name for name in classes if not (is_recording and label is None and name.lower() == "y")]
    is_ucr = path.suffix.lower() == ".tsv" and not file.style.header
    if is_ucr and not (classes or is_recording) and begins_with_classes(numbers.to_numpy(dtype=np.float64)):
        classes = names[:1]
    id_column = next((name for name in strings if name not in classes and file.frame[name].is_unique), None)
    strings = [name for name in strings if name != id_column]
    label = next(iter([*classes, *(strings if len(strings) == 1 else ())]), None)
    points = [name for name in names if name not in (label, id_column)]
    if not points:
        raise InputError(f"{path} has no column of numbers: write one row per signal and one column per point.")
    values = numbers[points].to_numpy(dtype=np.float64)
    channels, order = parse_columns(points, str(path))
    is_missing = file.frame[points].isna().to_numpy()
    ends = len(points) - is_missing.sum(1)
    ends_early = is_missing == (np.arange(len(points)) >= ends[:, None])  # missing cells stand at the end of a row
    unequal = len(channels) == 1 and ends.min() > 0 and bool(ends_early.all())
    if len(missing := np.argwhere(np.isnan(values) & ~(is_missing & unequal))):
        i, j = missing[0]
        cell = file.frame[points[j]].iloc[i]
        where = f"{path}, {file.place(int(i))}, column {points[j]!r}"
        if points[j] in strings:
            rule = f"{cell!r} is not a number, and neither is any other cell of this column"
            raise InputError(f"{where}: {rule}. Pass the column as label if it holds classes, or remove it.")
        fault = "the value is missing" if pd.isna(cell) else f"{cell!r} is not a number"
        raise InputError(f"{where}: {fault}. Every point needs a number: fill it in, or leave the signal out.")
    array = np.ascontiguousarray(values[:, order].reshape(len(values), len(channels), -1))
    signals = [signal[:, :end] for signal, end in zip(array, ends, strict=True)] if unequal else array
    labels = None if label is None else tuple(map(str, file.frame[label]))
    ids = tuple(map(str, range(1, len(signals) + 1) if id_column is None else file.frame[id_column]))
    codec = SignalCodec(signals, ids, channels, labels, _note_integers(points, values), flat=len(channels) == 1)
    columns = tuple(names) if file.style.header else ()
    return replace(codec, columns=columns, label_column=label, id_column=id_column)


def _class_columns(names: list[str], like: SignalCodec | None) -> list[str]:
    """Columns that hold classes by their names: that of the signals of `like`, or one of CLASS_NAMES."""
    stored = [] if like is None else [name for name in names if name == like.label_column]
    points = set() if like is None else set(like.columns) - {like.label_column, like.id_column}
    return stored or [name for name in names if name.lower() in CLASS_NAMES and name not in points]


def begins_with_classes(numbers: Array) -> bool:
    """Whether a matrix has the form of the UCR archive: a class in the first column, then the points of the signal.

    Classes are integers, each of which occurs at least twice; points are not all integers.
    """
    first, points = numbers[:, 0], numbers[:, 1:]
    if points.shape[1] < 2 or (first != np.rint(first)).any() or (points == np.rint(points)).all():
        return False
    return bool(np.unique(first, return_counts=True)[1].min() > 1)


def is_ucr_file(path: Path) -> bool:
    """Whether a .tsv file without a header has a column of classes and then signals that are smooth."""
    try:
        file = read_texts(path)
        numbers = file.frame.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
    except (OSError, InputError):  # the function that reads the file says what is wrong
        return False
    complete = numbers[~np.isnan(numbers).any(1)]
    return not file.style.header and begins_with_classes(numbers) and rows_are_smooth(complete[:, 1:])


def _note_integers(points: list[str], values: Array) -> tuple[str, ...]:
    """A note on columns of integers among others, which may be classes or numbers of rows."""
    is_integer = (values == np.rint(values)).all(0)
    if not 0 < is_integer.sum() <= MAX_INTEGER_COLUMNS * len(points):
        return ()
    rule = f"column {points[int(is_integer.argmax())]!r} has integers only and is read as a point"
    return (f"{rule}. If it holds classes, pass it as label; if it numbers rows, remove it",)


def parse_columns(points: list[str], path: str) -> tuple[tuple[str, ...], list[int]]:
    """Names of the channels, and the indices of columns in the order of channels and times."""
    matches = [_COLUMN.fullmatch(name) for name in points]
    places = {(match[1], int(match[2])): i for i, match in enumerate(matches) if match is not None}
    if len(places) < len(points):
        return ("1",), list(range(len(points)))
    channels = tuple(dict.fromkeys(channel for channel, _ in places))
    times = sorted({time for _, time in places})
    if len(channels) * len(times) != len(points):
        raise InputError(f"{path}: channels {', '.join(channels[:5])} have different points. Write all points of each.")
    return channels, [places[channel, time] for channel in channels for time in times]


REMEDY = "Write @data, then a line per signal: values between commas, channels between colons, the class last"


def read_ts(path: Path) -> SignalCodec:
    """The signals of a .ts file."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path} cannot be read as text in UTF-8: save it so, or choose another file.") from None
    header, data = dict[str, list[str]](), list[tuple[int, str]]()
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(("#", "%")):
            continue
        if "data" in header:
            data.append((number, text))
        elif text.startswith("@"):
            word, *rest = text[1:].split() or [""]
            header[word.lower()] = rest
        else:
            raise InputError(f"{path}, line {number}: values come before @data. {REMEDY}.")
    if not data:
        raise InputError(f"{path} has no signals. {REMEDY}.")
    is_true = {word: values[0].lower() == "true" for word, values in header.items() if values}
    if is_true.get("timestamps", False):
        raise InputError(f"{path}: signals have time stamps, which are not read. Write evenly spaced values alone.")
    labeled = is_true.get("classlabel" if "classlabel" in header else "targetlabel")
    rows = [_parse_line(path, number, text, labeled) for number, text in data]
    C, names = len(rows[0][0]), header.get("classlabel", [])[1:]
    for (number, _), (values, label) in zip(data, rows, strict=True):
        if [len(channel) for channel in values] != [len(values[0])] * C:
            counts = "/".join(str(len(channel)) for channel in values)
            rule = f"the signal has {len(values)} channels of {counts} points; all need {C} channels of one length"
            raise InputError(f"{path}, line {number}: {rule}. Correct or remove it.")
        if labeled and names and label not in names:
            rule = f"class {label!r} is not one of @classLabel: {', '.join(names[:8])}"
            raise InputError(f"{path}, line {number}: {rule}.")
    labels = tuple(label for _, label in rows) if labeled else None
    ids, channels = (tuple(str(i + 1) for i in range(n)) for n in (len(rows), C))
    signals = [np.array(values, dtype=np.float64) for values, _ in rows]
    notes: tuple[str, ...] = ()
    if labels is not None and "classlabel" not in header and min(Counter(labels).values()) == 1:
        labels = None  # numbers to predict, most of them different
        notes = ("the last number of each line is a @targetLabel that differs between signals, and is left out",)
    return SignalCodec(signals, ids, channels, labels, notes, flat=C == 1)


def _parse_line(path: Path, number: int, text: str, labeled: bool | None) -> tuple[list[list[float]], str]:
    """The channels of a line and its class, which is empty if it has none."""
    parts, label = text.split(":"), ""
    if labeled:
        *parts, label = parts
        if not parts:
            raise InputError(f"{path}, line {number}: the class after the last colon is missing. {REMEDY}.")
    try:
        channels = [[math.nan if cell.strip() == "?" else float(cell) for cell in part.split(",")] for part in parts]
    except ValueError:
        hint = "" if labeled is not None else " If it ends in a class, write @classLabel true and all classes"
        raise InputError(f"{path}, line {number}: a value is not a number.{hint} {REMEDY}.") from None
    return channels, label.strip()


def make_class_words(labels: Sequence[str]) -> dict[str, str]:
    """A unique word without spaces and colons for each class, as the .ts format needs.

    >>> make_class_words(["a b", "a_b", "c"])
    {'a_b': 'a_b', 'c': 'c', 'a b': 'a_b_2'}
    """
    words = dict[str, str]()
    plain = {label: "_".join(label.replace(":", " ").split()) or "_" for label in set(labels)}
    for label in sorted(plain, key=lambda name: (plain[name] != name, name)):  # classes that are words keep their names
        word, number = plain[label], 2
        while word in words.values():
            word, number = f"{plain[label]}_{number}", number + 1
        words[label] = word
    return words


TABLE = "samples.csv"
HEADER = ["file", "class"]


def read_wav_folder(folder: Path) -> SignalCodec:
    """The signals of the visible files of a folder; classes are sub-folders, or in the table that a writer wrote."""
    files = [path for path in list_visible_files(folder) if path.suffix.lower() in WAV_EXTENSIONS]
    if not files:
        raise InputError(f"{folder} has no WAV file: add files that end in {' or '.join(WAV_EXTENSIONS)}.")
    ids = tuple(file.relative_to(folder).as_posix() for file in files)
    if labels := folders_of(ids):
        return read_wav(files, ids, labels)
    try:
        rows = list(csv.reader(io.StringIO((folder / TABLE).read_text("utf-8"))))
    except (OSError, UnicodeDecodeError, csv.Error):
        rows = []
    is_written = rows[:1] == [HEADER]  # by a writer of this package
    classes = {row[0]: str(from_text(row[1])) for row in rows[1:] if len(row) == 2} if is_written else {}
    return read_wav(files, ids, tuple(classes[name] for name in ids) if set(ids) <= set(classes) else None)


def read_wav(files: list[Path], ids: tuple[str, ...], labels: tuple[str, ...] | None) -> SignalCodec:
    """The signals of WAV files."""
    signals, rates, widths = zip(*map(_load, files), strict=True)
    C, rate = len(signals[0]), rates[0]
    for file, signal, file_rate in zip(files, signals, rates, strict=True):
        if file_rate != rate:
            rule = f"{file_rate} points per second, and {files[0].name} {rate}; all files must have one rate"
            raise InputError(f"{file} has {rule}. Resample it, or remove it.")
        if len(signal) != C:
            rule = f"{len(signal)} channels, and {files[0].name} {C}; mono and stereo files cannot be mixed"
            raise InputError(f"{file} has {rule}. Convert them to one of the two.")
    channels = ("left", "right") if C == 2 else tuple(str(c + 1) for c in range(C))
    bits = 8 * max(widths)
    return SignalCodec(signals, ids, channels, labels, flat=C == 1, step=2.0 ** (1 - bits), rate=rate, bits=bits)


def _load(path: Path) -> tuple[Array, int, int]:
    """Values (channels, points), points per second and bytes of a point."""
    try:
        with wave.open(str(path), "rb") as file:
            C, width, rate, n = file.getparams()[:4]
            content = file.readframes(n)
    except (wave.Error, EOFError, OSError, RuntimeError) as error:
        cause = getattr(error, "strerror", None) or "it is truncated"
        if isinstance(error, wave.Error):
            is_compressed = str(error).startswith("unknown format")
            compressed = "its values are compressed or floating-point numbers"
            cause = compressed if is_compressed else "it is damaged or no WAV file"
        remedy = "convert it to 16-bit PCM, or remove it"
        raise InputError(f"{path} cannot be read as PCM WAV ({cause}): {remedy}.") from None
    if width not in (1, 2, 3, 4) or rate <= 0:
        rule = f"{8 * width} bits per point and {rate} points per second; 8, 16, 24 and 32 bits are read"
        raise InputError(f"{path} has {rule}. Convert it to 16-bit PCM, or remove it.")
    values = np.frombuffer(content[: len(content) // (C * width) * (C * width)], dtype=np.uint8).reshape(-1, width)
    left_aligned = np.zeros((len(values), 4), dtype=np.uint8)  # as little-endian integers of 32 bits
    left_aligned[:, 4 - width :] = values ^ 128 if width == 1 else values  # those of 8 bits are unsigned
    return left_aligned.view("<i4").reshape(-1, C).T * 2.0**-31, rate, width
