"""Writes new signals to files, and compares them with the stored ones."""

from __future__ import annotations

import io
import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..._backend.arrays import Array
from ...core.neighbors import nearest_rows, spaced_indices
from .. import Batch, Comparison, InputError, Measure, Part, Settings, Values
from .codec import SignalCodec
from .formats import CsvWriter, TsWriter, WavWriter

MAX_ENTRIES = 2**24  # values of the evenly spaced signals that are compared; copies are counted among all signals
EDGE = 0.05  # share of the range of a signal at either end, in which signals with hard bounds have many values
MAX_LAGS, N_PARTS, MAX_PART_CHANNELS = 40, 3, 20
THIRDS = {1: ("",), 2: (", first half", ", second half"), 3: (", first third", ", middle", ", last third")}


class SignalWriter:
    """Writes new signals in one of the formats, with the class of the signal that each was drawn around."""

    def __init__(self, destination: BinaryIO | Path, format: str, codec: SignalCodec, settings: Settings) -> None:
        self._codec, text = codec, json.dumps(settings._asdict(), sort_keys=True)
        self._writer: CsvWriter | TsWriter | WavWriter | SignalArrayWriter
        if isinstance(destination, Path):
            self._writer = WavWriter(destination, codec)
        elif format == "csv":
            self._writer = CsvWriter(destination, codec)
        elif format == "ts":
            self._writer = TsWriter(destination, codec, text)
        else:
            self._writer = SignalArrayWriter(destination, format, codec, text)

    def write(self, batch: Batch) -> None:
        labels, source = self._codec.labels, batch.source
        classes = None if labels is None or source is None else [labels[k] for k in source]
        self._writer.write(batch.items, classes, batch.first)

    def close(self) -> None:
        self._writer.close()


class SignalArrayWriter:
    """Writes .npy with the signals alone, or .npz with classes, channels and settings."""

    def __init__(self, stream: BinaryIO, format: str, codec: SignalCodec, settings: str) -> None:
        self._stream, self._format, self._codec, self._settings = stream, format, codec, settings
        self._signals, self._classes = list[Array](), list[str]()

    def write(self, items: Array, classes: list[str] | None, first: int) -> None:
        self._signals.append(self._codec.to_user(items))
        self._classes += classes or []

    def close(self) -> None:
        signals, buffer = np.concatenate(self._signals), io.BytesIO()
        if self._format == "npy":
            np.save(buffer, signals, allow_pickle=False)
        else:
            channels, settings = np.array(self._codec.channels), np.array(self._settings)
            labels = {"labels": np.array(self._classes)} if self._classes else {}
            np.savez_compressed(buffer, signals=signals, channels=channels, settings=settings, **labels)  # type: ignore[arg-type]
        self._stream.write(buffer.getvalue())


def check_signals(codec: SignalCodec, signals: Array, path: Path) -> Array:
    """New signals from a file; InputError unless they are finite and have the shape of the stored ones."""
    if signals.shape[1:] != codec.stored.shape[1:]:
        (C, T), (c, t) = codec.stored.shape[1:], signals.shape[1:]
        rule = f"signals have {c} channels of {t} points, and the stored ones {C} of {T}"
        raise InputError(f"{path}: {rule}. Write signals of the same shape.")
    if not np.isfinite(signals).all():
        raise InputError(f"{path}: signals must be finite numbers; got NaN or infinity. Write them again.")
    return np.asarray(signals, dtype=np.float64)


def compare_signals(codec: SignalCodec, items: Array) -> Comparison:
    """Measures of new signals (n, C, T) and of their parts against the stored ones."""
    items, stored, labels = np.asarray(items), codec.stored, codec.labels
    new = items[spaced_indices(len(items), max(MAX_ENTRIES // stored[0].size, 2))]
    contents = {signal.tobytes() for signal in np.ascontiguousarray(stored)}
    copies = sum(signal.tobytes() in contents for signal in np.ascontiguousarray(items)) / len(items)
    meaning = "Standard deviation of all values around the mean signal, over that of stored ones."
    measures = [Measure("amplitude", _ratio(_spread(new), _spread(stored)), 1.0, meaning)]
    meaning = "Mean difference of neighboring points, over that of stored signals: above 1 noisy, below 1 smooth."
    measures.append(Measure("roughness", _ratio(_mean_step(new), _mean_step(stored)), 1.0, meaning))
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
    return Comparison(tuple(measures), tuple(_compare_parts(codec, new)))


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
    of_new, of_stored = (
        np.square(np.abs(np.fft.rfft(signals - signals.mean(2, keepdims=True), axis=2))).mean(0)[:, 1:]
        for signals in (new, stored)
    )
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


def _spread(signals: Array) -> float:
    return float(np.sqrt(np.square(signals.std(0)).mean()))


def _mean_step(signals: Array) -> float:
    return float(np.abs(np.diff(signals, axis=2)).mean())


def _ratio(value: float, ideal: float) -> float:
    return value / ideal if ideal > 0 else 1.0


def _compare_parts(codec: SignalCodec, new: Array) -> list[Part]:
    """The distributions of the mean values of thirds of each channel."""
    from scipy.stats import ks_2samp

    thirds = np.array_split(np.arange(codec.length), min(N_PARTS, codec.length))
    parts = []
    for c in spaced_indices(len(codec.channels), MAX_PART_CHANNELS):
        for times, name in zip(thirds, THIRDS[len(thirds)], strict=True):
            of_stored, of_new = (x[:, c, times[0] : times[-1] + 1].mean(1) for x in (codec.stored, new))
            before, after = (f"{values.mean():.4g} ± {values.std():.4g}" for values in (of_stored, of_new))
            distance = float(ks_2samp(of_new, of_stored, method="asymp").statistic)
            values, title = partial(Values, of_stored, of_new), f"channel {codec.channels[c]}{name}"
            parts.append(Part(title, before, after, distance, values, checked_separately=True))
    return parts
