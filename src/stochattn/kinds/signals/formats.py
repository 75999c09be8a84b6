"""Signals in delimited text: a row per signal, a column per point of time, and perhaps a column of classes.

Columns are called CHANNEL@POINT where signals have several channels. Only `kind="signals"` reads such files: without
it, they are tables.

Signals in .ts files, the text format of the UCR archive: a header, and a line per signal.

Signals in folders of WAV files (PCM): values from -1 to 1, one rate and one length; sub-folders are classes.
"""

from __future__ import annotations

import csv
import io
import re
import wave
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..._backend.arrays import Array
from .. import InputError
from .. import lazy_pandas as pd
from ..comparison import MIN_POINTS as MIN_UCR_POINTS
from ..comparison import rows_are_smooth
from ..delimited.formulas import as_text, from_text
from ..delimited.reading import read_texts
from .codec import Found, SignalCodec

CLASS_NAMES = ("class", "label", "target", "y")
FIRST, LAST = "first", "last"
MAX_WHOLE = 0.1
"""Share of the columns of points up to which those of whole numbers are worth a note."""
CLASS, ID = "class", "id"
UCR = ".tsv"
MAX_FIRST_LINE = 2**20  # bytes that are read to see whether a file begins with numbers
_COLUMN = re.compile(r"(.+)@(\d+)")


def read_csv(
    path: Path,
    label: str | None,
    like: SignalCodec | None = None,
    *,
    recording: bool = False,
    sheet: str | None = None,
) -> Found:
    """The signals of a file; label: the column of classes by its name, or first or last; None to find it.

    like: the codec of other signals, whose columns of points are not classes and whose column of classes is one
    recording: whether rows are points of time and columns channels, of which "y" may be one
    """
    file = read_texts(path, sheet, pad_first=True)
    names = [str(name) for name in file.frame.columns]
    if label in (FIRST, LAST):
        if label == LAST and not file.style.header and file.frame[names[-1]].isna().any():
            raise InputError(
                f"label: lines of {path} differ in length, so that none is the last column of all. Use first."
            )
        label = names[0 if label == FIRST else -1]
    elif label is not None and label not in names:
        raise InputError(f"label must be a column of {path}, first, last or none; got {label!r}. Name another one.")
    numbers = file.frame.apply(pd.to_numeric, errors="coerce")
    texts = [name for name in names if numbers[name].isna().all() and file.frame[name].notna().all()]
    named = [label] if label is not None else _class_columns(names, like)
    named = [name for name in named if not (recording and label is None and name.lower() == "y")]
    is_plain = path.suffix.lower() == UCR and not file.style.header
    if is_plain and not (named or recording) and begins_with_classes(numbers.to_numpy(dtype=np.float64)):
        named = names[:1]
    id_column = next((name for name in texts if name not in named and file.frame[name].is_unique), None)
    texts = [name for name in texts if name != id_column]
    label = next(iter([*named, *(texts if len(texts) == 1 else ())]), None)
    points = [name for name in names if name not in (label, id_column)]
    if not points:
        raise InputError(f"{path} has no column of numbers: write one row per signal, and one column per point.")
    values = numbers[points].to_numpy(dtype=np.float64)
    channels, order = _channels(points, str(path))
    is_missing = file.frame[points].isna().to_numpy()
    ends = len(points) - is_missing.sum(1)
    ends_early = is_missing == (np.arange(len(points)) >= ends[:, None])  # missing cells stand at the end of a row
    unequal = len(channels) == 1 and ends.min() > 0 and bool(ends_early.all())
    if len(missing := np.argwhere(np.isnan(values) & ~(is_missing & unequal))):
        i, j = missing[0]
        cell = file.frame[points[j]].iloc[i]
        where = f"{path}, {file.place(int(i))}, column {points[j]!r}"
        if points[j] in texts:
            rule = f"{cell!r} is not a number, and neither is any other cell of this column"
            raise InputError(f"{where}: {rule}. Name it as label if it holds classes, or remove it.")
        what = "the value is missing" if pd.isna(cell) else f"{cell!r} is not a number"
        raise InputError(f"{where}: {what}, and every point needs one: fill it in, or leave the signal out.")
    signals = list(values[:, order].reshape(len(values), len(channels), -1))
    if unequal:
        signals = [signal[:, :end] for signal, end in zip(signals, ends, strict=True)]
    labels = None if label is None else tuple(map(str, file.frame[label]))
    ids = tuple(map(str, range(1, len(signals) + 1) if id_column is None else file.frame[id_column]))
    empty = Found(
        np.empty(0),
        ids,
        channels,
        labels,
        _notes(points, values),
        flat=len(channels) == 1,
        columns=tuple(names) if file.style.header else (),
        label_column=label,
        id_column=id_column,
    )
    return empty.with_signals(signals)


def _class_columns(names: list[str], like: SignalCodec | None) -> list[str]:
    """Columns that hold classes by their names: as those of other signals, or as is usual."""
    known = [] if like is None else [name for name in names if name == like.label_column]
    points = set() if like is None else set(like.columns) - {like.label_column, like.id_column}
    return known or [name for name in names if name.lower() in CLASS_NAMES and name not in points]


def begins_with_classes(numbers: Array) -> bool:
    """Whether a matrix is written as the UCR archive does: a class in the first column, then the points of the signal.

    Classes are integers, each of two signals or more, and the points are no integers.
    """
    first, others = numbers[:, 0], numbers[:, 1:]
    if others.shape[1] < 2 or (first != np.rint(first)).any() or (others == np.rint(others)).all():
        return False
    return bool(np.unique(first, return_counts=True)[1].min() > 1)


def is_ucr_file(path: Path) -> bool:
    """Whether a .tsv file without a header holds classes, and then signals whose neighboring points are alike."""
    try:
        with path.open("rb") as stream:
            first = stream.readline(MAX_FIRST_LINE).split(b"\t")
        if len(first) <= MIN_UCR_POINTS or not all(_is_number(cell) for cell in first):
            return False
        file = read_texts(path)
        numbers = file.frame.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
    except (OSError, InputError):  # whoever reads it says what is wrong
        return False
    whole = numbers[~np.isnan(numbers).any(1)]
    return not file.style.header and begins_with_classes(numbers) and rows_are_smooth(whole[:, 1:])


def _is_number(cell: bytes) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


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


REMEDY = "Write @data, then a line per signal: values between commas, channels between colons, the class last"


def read_ts(path: Path) -> Found:
    """The signals of a .ts file."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path} cannot be read as text in UTF-8: save it so, or choose another file.") from None
    header, data, notes = dict[str, list[str]](), list[tuple[int, str]](), list[str]()
    in_data = False
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(("#", "%")):
            continue
        if in_data:
            data.append((number, text))
        elif text.startswith("@"):
            word, *rest = text[1:].split() or [""]
            header[word.lower()] = rest
            in_data = word.lower() == "data"
        else:
            raise InputError(f"{path}, line {number}: values come before @data. {REMEDY}.")
    if not data:
        raise InputError(f"{path} has no signals. {REMEDY}.")
    if _is_true(header.get("timestamps", [])):
        raise InputError(f"{path}: signals have time stamps, which are not read. Write values alone, evenly spaced.")
    said = header.get("classlabel", header.get("targetlabel", []))
    labelled = _is_true(said) if said else None
    rows = [_row(path, number, text, labelled) for number, text in data]
    first, names = rows[0][0], header.get("classlabel", [])[1:]
    for (number, _), (values, label) in zip(data, rows, strict=True):
        if [len(channel) for channel in values] != [len(values[0])] * len(first):
            counts, wanted = "/".join(str(len(channel)) for channel in values), len(first)
            rule = f"the signal has {len(values)} channels of {counts} points; all have {wanted} of one length"
            raise InputError(f"{path}, line {number}: {rule}. Correct or remove it.")
        if labelled and names and label not in names:
            raise InputError(
                f"{path}, line {number}: class {label!r} is not one of @classLabel: {', '.join(names[:8])}."
            )
    signals = [np.array(values, dtype=np.float64) for values, _ in rows]
    labels = tuple(label for _, label in rows) if labelled else None
    if labels is not None and "classlabel" not in header and min(Counter(labels).values()) == 1:
        labels = None  # numbers to predict, most of them different
        notes.append("the last number of each line is a @targetLabel that differs between signals, and is left out")
    ids, channels = (tuple(str(i + 1) for i in range(n)) for n in (len(rows), len(first)))
    empty = Found(np.empty(0), ids, channels, labels, tuple(notes), flat=len(first) == 1)
    return empty.with_signals(signals)


def _is_true(words: Sequence[str]) -> bool:
    return bool(words) and words[0].lower() == "true"


def _row(path: Path, number: int, text: str, labelled: bool | None) -> tuple[list[list[float]], str]:
    """The channels of a line, and its class, empty without one."""
    parts, label = text.split(":"), ""
    if labelled:
        *parts, label = parts
        if not parts:
            raise InputError(f"{path}, line {number}: the class after the last colon is missing. {REMEDY}.")
    try:
        return [
            [float("nan") if cell.strip() == "?" else float(cell) for cell in one.split(",")] for one in parts
        ], label.strip()
    except ValueError:
        why = "" if labelled is not None else " If it ends in a class, write @classLabel true and all classes"
        raise InputError(f"{path}, line {number}: a value is not a number.{why} {REMEDY}.".replace("  ", " ")) from None


class TsWriter:
    """Writes a header, then a line per signal."""

    def __init__(self, place: BinaryIO, codec: SignalCodec, about: str) -> None:
        self._place, self._codec, self._about, self._begun = place, codec, about, False
        self._words = class_words(codec.labels or ())

    def write(self, items: Array, classes: list[str] | None, first: int) -> None:
        lines = []
        if not self._begun:
            univariate = len(self._codec.channels) == 1
            lines = [
                f"# stochattn {self._about}",
                "@problemName signals",
                "@timeStamps false",
                "@missing false",
                f"@univariate {str(univariate).lower()}",
                *([] if univariate else [f"@dimension {len(self._codec.channels)}"]),
                "@equalLength true",
                f"@seriesLength {self._codec.length}",
                f"@classLabel true {' '.join(sorted(self._words.values()))}" if classes else "@classLabel false",
                "@data",
            ]
            self._begun = True
        for i, values in enumerate(written_numbers(self._codec, items)):
            channels = [",".join(map(repr, channel)) for channel in values]
            lines.append(":".join([*channels, *([self._words[classes[i]]] if classes else [])]))
        self._place.write("".join(f"{line}\n" for line in lines).encode("utf-8"))

    def close(self) -> None:
        """Nothing comes after the last signal."""


def class_words(labels: Sequence[str]) -> dict[str, str]:
    """A word of the format for each class, which has no spaces or colons in it; different ones for different classes.

    >>> class_words(["a b", "a_b", "c"])
    {'a_b': 'a_b', 'c': 'c', 'a b': 'a_b_2'}
    """
    words = dict[str, str]()
    plain = {label: "_".join(label.replace(":", " ").split()) or "_" for label in set(labels)}
    for label in sorted(plain, key=lambda one: (plain[one] != one, one)):  # classes that are words keep their names
        word, number = plain[label], 2
        while word in words.values():
            word, number = f"{plain[label]}_{number}", number + 1
        words[label] = word
    return words


EXTENSIONS = (".wav", ".wave")
TABLE = "samples.csv"
HEADER = ["file", "class"]
SIDES = ("left", "right")


def wav_files(folder: Path) -> list[Path]:
    """Visible WAV files below a folder, sorted by name."""
    below = sorted(folder.rglob("*"), key=lambda file: file.relative_to(folder).as_posix())
    visible = (file for file in below if not any(part.startswith(".") for part in file.relative_to(folder).parts))
    return [file for file in visible if file.suffix.lower() in EXTENSIONS and file.is_file()]


def read_wav_file(path: Path) -> Found:
    """The signal of one file."""
    return _read([path], (path.stem,), None)


def read_wav_folder(folder: Path) -> Found:
    """The signals of a folder; sub-folders are classes, and so is a column of the table that a writer wrote."""
    files = wav_files(folder)
    if not files:
        raise InputError(f"{folder} has no WAV file: add files that end in {' or '.join(EXTENSIONS)}.")
    ids = tuple(file.relative_to(folder).as_posix() for file in files)
    if any("/" in name for name in ids):
        return _read(files, ids, tuple(name.split("/")[0] if "/" in name else "(none)" for name in ids))
    known = _listed_classes(folder / TABLE)
    return _read(files, ids, tuple(known[name] for name in ids) if set(ids) <= set(known) else None)


def _listed_classes(table: Path) -> dict[str, str]:
    """The class of each file in a table that a writer wrote; empty for any other."""
    try:
        rows = list(csv.reader(io.StringIO(table.read_text("utf-8"))))
    except (OSError, UnicodeDecodeError, csv.Error):
        return {}
    return {row[0]: str(from_text(row[1])) for row in rows[1:] if len(row) == 2} if rows and rows[0] == HEADER else {}


def _read(files: list[Path], ids: tuple[str, ...], labels: tuple[str, ...] | None) -> Found:
    loaded = [_load(file) for file in files]
    first, rate, _ = loaded[0]
    for file, (signal, own_rate, _) in zip(files, loaded, strict=True):
        if own_rate != rate:
            rule = f"{own_rate} points per second, and {files[0].name} {rate}; all files must have one rate"
            raise InputError(f"{file} has {rule}. Resample it, or remove it.")
        if len(signal) != len(first):
            rule = f"{len(signal)} channels, and {files[0].name} {len(first)}; mono and stereo files do not mix"
            raise InputError(f"{file} has {rule}. Convert them to one of the two.")
    signals = [signal for signal, _, _ in loaded]
    C, bits = len(first), 8 * max(one for _, _, one in loaded)
    channels = SIDES if C == 2 else tuple(str(c + 1) for c in range(C))
    step = 2.0 ** (1 - bits)
    empty = Found(np.empty(0), ids, channels, labels, flat=C == 1, step=step, rate=rate, bits=bits)
    return empty.with_signals(signals)


def _load(file: Path) -> tuple[Array, int, int]:
    """Values (channels, points), points per second and bytes of a point."""
    try:
        with wave.open(str(file), "rb") as opened:
            C, width, rate, n = opened.getparams()[:4]
            content = opened.readframes(n)
    except (wave.Error, EOFError, OSError, RuntimeError) as error:
        cause = str(error) or "it is truncated"
        if cause.startswith("unknown format"):
            cause = "its values are compressed or floating-point numbers"
        raise InputError(
            f"{file} cannot be read as PCM WAV ({cause}): convert it to 16-bit PCM, or remove it."
        ) from None
    if width not in (1, 2, 3, 4) or rate <= 0:
        found = f"has {8 * width} bits per point and {rate} points per second; 8, 16, 24 and 32 bits are read"
        raise InputError(f"{file} {found}. Convert it to 16-bit PCM, or remove it.")
    content = content[: len(content) // (C * width) * (C * width)]
    if width == 1:  # unsigned
        values = np.frombuffer(content, dtype=np.uint8).astype(np.int64) - 128
    elif width == 3:
        low = np.frombuffer(content, dtype=np.uint8).reshape(-1, 3).astype(np.int64)
        values = low[:, 0] | (low[:, 1] << 8) | (low[:, 2] << 16)
        values -= (values >= 2**23) * 2**24
    else:
        values = np.frombuffer(content, dtype=f"<i{width}").astype(np.int64)
    return values.reshape(-1, C).T * 2.0 ** (1 - 8 * width), rate, width


class WavWriter:
    """Writes a WAV file for each signal, in folders of classes."""

    def __init__(self, folder: Path, codec: SignalCodec) -> None:
        if codec.rate is None or codec.bits is None:
            raise InputError("format wav needs signals from WAV files, which have a rate: choose csv, ts, npy or npz.")
        self._folder, self._codec, self._rate, self._width = folder, codec, codec.rate, codec.bits // 8

    def write(self, items: Array, classes: list[str] | None, first: int) -> None:
        for i, signal in enumerate(np.asarray(items)):
            with wave.open(str(self._folder / f"new-{first + i + 1:06d}.wav"), "wb") as out:
                out.setnchannels(len(signal))
                out.setsampwidth(self._width)
                out.setframerate(self._rate)
                out.writeframes(self._bytes(signal))
        if classes is not None:
            with (self._folder / TABLE).open("a", encoding="utf-8", newline="") as table:
                rows = csv.writer(table, lineterminator="\n")
                rows.writerows([HEADER] if first == 0 else [])
                rows.writerows([f"new-{first + i + 1:06d}.wav", as_text(label)] for i, label in enumerate(classes))

    def _bytes(self, signal: Array) -> bytes:
        top = 2 ** (8 * self._width - 1)
        whole = np.clip(np.rint(signal.T * top), -top, top - 1).astype(np.int64).ravel()
        if self._width == 1:
            return bytes((whole + 128).astype(np.uint8))
        if self._width == 3:
            return bytes(whole.astype("<i4").view(np.uint8).reshape(-1, 4)[:, :3].ravel())
        return bytes(whole.astype(f"<i{self._width}").data)

    def close(self) -> None:
        """Nothing comes after the last signal."""
