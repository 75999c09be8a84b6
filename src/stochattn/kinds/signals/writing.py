"""Writes new signals to files, and compares them with the stored ones."""

from __future__ import annotations

import csv
import io
import json
import wave
from collections import Counter
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..._backend.arrays import Array
from ...core.neighbors import nearest_rows, spaced_indices
from .. import Batch, Comparison, InputError, Measure, Settings
from ..comparison import compare_means
from ..delimited.formulas import LINE_END, RowLines, as_text
from .codec import SignalCodec
from .formats import HEADER, TABLE, make_class_words, parse_columns

CLASS, ID = "class", "id"  # roles of columns

MAX_ENTRIES = 2**24  # values of the evenly spaced signals that are compared; copies are counted among all signals
EDGE = 0.05  # share of the range of a signal at either end, in which signals with hard bounds have many values
MAX_LAGS, N_PARTS, MAX_PART_CHANNELS = 40, 3, 20
THIRDS = {1: ("",), 2: (", first half", ", second half"), 3: (", first third", ", middle", ", last third")}


class SignalWriter:
    """Writes new signals in one of the formats, with the class of the signal that each was drawn around.

    Arrays are held until the end: .npy has the signals alone, and .npz also classes, channels and settings.
    """

    def __init__(self, destination: BinaryIO | Path, format: str, codec: SignalCodec, settings: Settings) -> None:
        if format == "wav" and codec.rate is None:
            raise InputError("format wav needs signals from WAV files, which have a rate: choose csv, ts, npy or npz.")
        self._destination, self._format, self._codec = destination, format, codec
        self._settings, self._is_first = json.dumps(settings._asdict(), sort_keys=True), True
        self._signals, self._classes = list[Array](), list[str]()

    def write(self, batch: Batch) -> None:
        codec, source = self._codec, batch.source
        classes = [] if codec.labels is None or source is None else [codec.labels[k] for k in source]
        if isinstance(self._destination, Path):
            _write_wav_files(self._destination, codec, batch, classes)
        elif self._format == "csv":
            self._destination.write(_csv_text(codec, batch, classes, self._is_first).encode("utf-8"))
        elif self._format == "ts":
            lines = _ts_lines(codec, batch.items, classes, self._settings if self._is_first else None)
            self._destination.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
        else:
            self._signals.append(codec.to_user(batch.items))
            self._classes += classes
        self._is_first = False

    def close(self) -> None:
        if isinstance(self._destination, Path) or not self._signals:
            return
        signals, buffer = np.concatenate(self._signals), io.BytesIO()
        if self._format == "npy":
            np.save(buffer, signals, allow_pickle=False)
        else:
            channels, settings = np.array(self._codec.channels), np.array(self._settings)
            labels = {"labels": np.array(self._classes)} if self._classes else {}
            np.savez_compressed(buffer, signals=signals, channels=channels, settings=settings, **labels)  # type: ignore[arg-type]
        self._destination.write(buffer.getvalue())


def _csv_text(codec: SignalCodec, batch: Batch, classes: list[str], has_header: bool) -> str:
    """A row per signal with the columns of the stored file, or the class first if these had no names."""
    text, columns = io.StringIO(), _columns(codec, bool(classes))
    rows = csv.writer(text, lineterminator="\n")
    if has_header:
        rows.writerow([name for name, _ in columns])
    for i, values in enumerate(_convert_to_numbers(codec, batch.items)):
        strings = {CLASS: classes[i] if classes else "", ID: f"new-{batch.first + i + 1}"}
        rows.writerow([strings[role] if isinstance(role, str) else values[role[0]][role[1]] for _, role in columns])
    return text.getvalue()


def _columns(codec: SignalCodec, has_classes: bool) -> list[tuple[str, tuple[int, int] | str]]:
    """The name and the role of each column: its channel and point, CLASS or ID."""
    C, T = len(codec.channels), codec.length
    columns: list[tuple[str, tuple[int, int] | str | None]]
    if codec.columns:
        roles = {codec.label_column: CLASS if has_classes else None, codec.id_column: ID}
        points = [name for name in codec.columns if name not in roles]
        _, order = parse_columns(points, "")
        places = {points[column]: divmod(n, len(points) // C) for n, column in enumerate(order)}
        columns = [(name, roles.get(name, places.get(name))) for name in codec.columns]
    else:
        names = [f"{channel}@" if C > 1 else "t" for channel in codec.channels]
        columns = [(f"{name}{t + 1}", (c, t)) for c, name in enumerate(names) for t in range(T)]
    if has_classes and (codec.label_column is None or not codec.columns):  # the stored file names no column of classes
        columns = [("class", CLASS), *columns]
    return [(name, role) for name, role in columns if isinstance(role, str) or (role is not None and role[1] < T)]


def _convert_to_numbers(codec: SignalCodec, items: Array) -> list[list[list[float]]]:
    """Values of signals (n, C, T) as numbers that are written exactly: integers without a decimal point."""
    signals = np.asarray(items)
    is_exact = (np.abs(signals) < 2.0**53).all()  # beyond, all floats are integers
    is_integer = codec.step == 1.0 and is_exact and (signals == np.rint(signals)).all()
    return (signals.astype(np.int64) if is_integer else signals).tolist()  # type: ignore[no-any-return]


def _ts_lines(codec: SignalCodec, items: Array, classes: list[str], settings: str | None) -> list[str]:
    """A line per signal, after a header with the settings if they are given."""
    n_channels, words, lines = len(codec.channels), make_class_words(codec.labels or ()), list[str]()
    if settings is not None:
        lines = [
            f"# stochattn {settings}",
            "@problemName signals",
            "@timeStamps false",
            "@missing false",
            f"@univariate {str(n_channels == 1).lower()}",
            *([f"@dimension {n_channels}"] if n_channels > 1 else []),
            "@equalLength true",
            f"@seriesLength {codec.length}",
            f"@classLabel true {' '.join(sorted(words.values()))}" if classes else "@classLabel false",
            "@data",
        ]
    for i, values in enumerate(_convert_to_numbers(codec, items)):
        channels = [",".join(map(repr, channel)) for channel in values]
        lines.append(":".join([*channels, *([words[classes[i]]] if classes else [])]))
    return lines


def _write_wav_files(folder: Path, codec: SignalCodec, batch: Batch, classes: list[str]) -> None:
    """Writes a WAV file for each signal, and a table of their classes."""
    rate, width = codec.rate or 0, (codec.bits or 0) // 8
    names, top = [f"new-{batch.first + i + 1:06d}.wav" for i in range(len(batch.items))], 2 ** (8 * width - 1)
    for name, signal in zip(names, batch.items, strict=True):
        values = np.clip(np.rint(signal.T * top), -top, top - 1) + (128 if width == 1 else 0)  # 8 bits are unsigned
        with wave.open(str(folder / name), "wb") as out:
            out.setnchannels(len(signal))
            out.setsampwidth(width)
            out.setframerate(rate)
            out.writeframes(values.astype("<i8").ravel().view(np.uint8).reshape(-1, 8)[:, :width].tobytes())
    if classes:
        with (folder / TABLE).open("a", encoding="utf-8", newline="") as table:
            rows = csv.writer(RowLines(table), lineterminator=LINE_END)
            rows.writerows([HEADER] if batch.first == 0 else [])
            rows.writerows([name, as_text(label)] for name, label in zip(names, classes, strict=True))


def compare_signals(codec: SignalCodec, items: Array) -> Comparison:
    """Measures of new signals (n, C, T) and of their parts against the stored ones."""
    items, stored, labels = np.asarray(items), codec.stored, codec.labels
    new = items[spaced_indices(len(items), max(MAX_ENTRIES // stored[0].size, 2))]
    contents = {signal.tobytes() for signal in np.ascontiguousarray(stored)}
    copies = sum(signal.tobytes() in contents for signal in np.ascontiguousarray(items)) / len(items)
    meaning = "Standard deviation of all values around the mean signal, over that of stored ones."
    amplitudes = (float(np.sqrt(np.square(signals.std(0)).mean())) for signals in (new, stored))
    measures = [Measure("amplitude", _ratio(*amplitudes), 1.0, meaning)]
    meaning = "Mean difference of neighboring points, over that of stored signals: above 1 noisy, below 1 smooth."
    steps = (float(np.abs(np.diff(signals, axis=2)).mean()) for signals in (new, stored))
    measures.append(Measure("roughness", _ratio(*steps), 1.0, meaning))
    meaning = "Mean absolute difference of mean log spectra, over frequencies and channels."
    measures.append(Measure("spectral distance", spectral_distance(new, stored), 0.0, meaning))
    meaning = f"Mean absolute difference of autocorrelations, over lags up to {min(MAX_LAGS, codec.length - 1)}."
    measures.append(Measure("autocorrelation distance", autocorrelation_distance(new, stored), 0.0, meaning))
    measures.append(Measure("exact copies", copies, 0.0, "Share of new signals that equal a stored one."))
    if labels is not None:
        near = nearest_rows(codec.features(new), codec.features(stored))
        of_stored, of_new = Counter(labels), Counter(labels[k] for k in near)
        distance = sum(abs(of_new[name] / len(near) - of_stored[name] / len(labels)) for name in of_stored) / 2
        meaning = "Share of new signals that would have to change class to match; the class is that of the nearest."
        measures.append(Measure("class shares", distance, 0.0, meaning))
    thirds, parts = np.array_split(np.arange(codec.length), min(N_PARTS, codec.length)), []
    for c in spaced_indices(len(codec.channels), MAX_PART_CHANNELS):
        for times, name in zip(thirds, THIRDS[len(thirds)], strict=True):
            of_stored, of_new = (x[:, c, times[0] : times[-1] + 1].mean(1) for x in (stored, new))
            parts.append(compare_means(f"channel {codec.channels[c]}{name}", of_stored, of_new, ".4g"))
    return Comparison(tuple(measures), tuple(parts))


def signal_statistics(codec: SignalCodec, items: Array) -> Array:
    """Statistics of each signal and channel (n, 12 C): mean, amplitude, distribution of values, steps, spectrum."""
    signals = np.asarray(items, dtype=np.float64)
    means, spreads = signals.mean(2), signals.std(2)
    scores = (signals - means[..., None]) / np.where(spreads > 0, spreads, 1.0)[..., None]
    low, high = scores.min(2), scores.max(2)
    reach = EDGE * (high - low)
    at_edges = ((scores < (low + reach)[..., None]) | (scores > (high - reach)[..., None])).mean(2)
    steps = np.abs(np.diff(scores, axis=2))
    power = np.square(np.abs(np.fft.rfft(scores, axis=2)))[..., 1:]
    shares = power / np.maximum(power.sum(2, keepdims=True), np.finfo(float).tiny)
    entropy = -(shares * np.log(np.maximum(shares, np.finfo(float).tiny))).sum(2)
    values = (means, spreads, low, high, (scores**3).mean(2), (scores**4).mean(2), at_edges)
    changes = (steps.mean(2), np.square(steps).mean(2), np.median(steps, axis=2), entropy, shares.max(2))
    return np.concatenate([*values, *changes], axis=1)


def spectral_distance(new: Array, stored: Array) -> float:
    """Mean |log S_new - log S_stored| of mean power spectra of signals (n, C, T), without the constant part."""
    centered = (signals - signals.mean(2, keepdims=True) for signals in (new, stored))
    of_new, of_stored = (np.square(np.abs(np.fft.rfft(signals, axis=2))).mean(0)[:, 1:] for signals in centered)
    floor = 1e-6 * of_stored.max(1, keepdims=True) + np.finfo(float).tiny  # rounding errors are smaller
    return float(np.abs(np.log(of_new + floor) - np.log(of_stored + floor)).mean())


def autocorrelation_distance(new: Array, stored: Array) -> float:
    """Mean absolute difference of the autocorrelations of signals (n, C, T) around their own means."""
    lags = min(MAX_LAGS, stored.shape[2] - 1)
    return float(np.abs(_autocorrelation(new, lags) - _autocorrelation(stored, lags)).mean())


def _autocorrelation(signals: Array, lags: int) -> Array:
    centered = signals - signals.mean(2, keepdims=True)
    scale = np.square(centered).sum((0, 2))
    products = [(centered[:, :, lag:] * centered[:, :, :-lag]).sum((0, 2)) for lag in range(1, lags + 1)]
    return np.stack(products) / np.where(scale > 0, scale, 1.0)


def _ratio(value: float, ideal: float) -> float:
    return value / ideal if ideal > 0 else 1.0
