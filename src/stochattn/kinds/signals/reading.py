"""Reads and checks signals from arrays, array files, delimited text, .ts files and folders of WAV files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..._backend.array_files import ArrayHeader, named_strings, zarr_header
from ..._backend.arrays import Array, ArrayLike, to_numpy
from .. import InputError
from ..delimited import EXTENSIONS as DELIMITED
from ..item_files import load_arrays
from ..options import describe_extension
from ..smoothing import MAX_RATIO, MAX_ROUGHNESS_OF_COLUMNS, columns_are_smooth, roughness, rows_are_smooth
from .codec import SignalCodec
from .description import MIN_POINTS, WAV_EXTENSIONS, SignalOptions
from .formats import read_csv, read_ts, read_wav, read_wav_folder

SHAPES = "an array (n, points) or (n, channels, points)"
SOURCES = "an array in .npy or .npz, a CSV with one row per signal, a .ts file or a folder of WAV files"
SIGNAL_NAMES = ("signals", "X", "x", "data", "arr_0")
LABEL_NAMES, ID_NAMES = ("labels", "y", "target", "label"), ("ids",)
MAX_VALUES = 2**26  # of all signals together: with the arrays of the generator, they take about 2 GB
MIN_SIZE, MAX_SIZE = 1e-130, 1e130  # of the largest value: sums of squares then stay well within the range of floats
MAX_FEW, TRANSPOSED = 16, 8  # an axis of at most 16, beside one that is 8 times as long, is read as channels
NONE, DEFAULTS = "none", SignalOptions()


def read_signals(path: Path, options: SignalOptions = DEFAULTS, like: SignalCodec | None = None) -> SignalCodec:
    """The signals of a file or folder before they are checked; for `like`, see `read_csv`."""
    extension, label = path.suffix.lower(), options.label
    if not path.exists():
        raise InputError(f"{path} does not exist: name {SOURCES}.")
    if label not in (None, NONE) and (extension not in DELIMITED or path.is_dir()):
        rule = f"label must name a column, and {path} has none; got {label!r}"
        raise InputError(f"{rule}. Leave it out, or write 'none' to use no classes.")
    if path.is_dir():
        return read_wav_folder(path) if zarr_header(path) is None else _read_array_file(path)
    if extension in (".npy", ".npz"):
        return _read_array_file(path)
    if extension in WAV_EXTENSIONS:
        return read_wav([path], (path.stem,), None)
    if extension == ".ts":
        return read_ts(path)
    if extension in DELIMITED:
        return read_csv(path, replace(options, label=None) if label == NONE else options, like)
    raise InputError(f"{path} {describe_extension(extension)}: name {SOURCES}.")


def convert_array(data: ArrayLike | Sequence[ArrayLike]) -> SignalCodec:
    """The signals of an array (n, T) or (n, C, T), or of a sequence of arrays (T,) or (C, T) that differ in T."""
    if isinstance(data, np.ndarray) and data.dtype.hasobject and data.ndim == 1:
        data = list(data)
    try:
        array = to_numpy(data)
    except ValueError:  # rows of several lengths
        if not isinstance(data, list | tuple):
            raise
        signals = [_convert(to_numpy(signal)[None], f"signal {i + 1}") for i, signal in enumerate(data)]
        channels = {signal.channels for signal in signals}
        if len(channels) > 1:
            raise InputError("signals differ in their number of channels. Pass signals with the same number.") from None
        ids = tuple(str(i + 1) for i in range(len(signals)))
        return replace(signals[0], ids=ids, stored=[signal.stored[0] for signal in signals])
    return _convert(array, "signals")


def join_signals(parts: Sequence[SignalCodec]) -> SignalCodec:
    """The signals of several files, named by numbers, and their classes if every file has classes."""
    parts = [cut_to_length(part, "a part") for part in parts]
    shapes = Counter(part.stored.shape[1:] for part in parts)
    if len(shapes) > 1:
        raise InputError(f"parts must hold signals of one shape; got {', '.join(map(str, shapes))}. Write them again.")
    signals = np.concatenate([part.stored for part in parts])
    labels = tuple(label for part in parts for label in part.labels or ())
    ids = tuple(str(i + 1) for i in range(len(signals)))
    return replace(parts[0], stored=signals, labels=labels if len(labels) == len(signals) else None, ids=ids)


MAX_DIFFERENCE = 0.1  # up to this difference of lengths, over the longest, signals are cut to the shortest


def cut_to_length(
    codec: SignalCodec, where: str, length: int | None = None, resample: int | None = None
) -> SignalCodec:
    """The codec with an array of signals of one length: their first `length` points, or `resample` points of all."""
    lengths = [signal.shape[1] for signal in codec.stored]
    low, high = min(lengths), max(lengths)
    if low == high and length is None and resample is None:
        return replace(codec, stored=np.asarray(codec.stored, dtype=np.float64))
    if resample is not None:
        if codec.bits is not None:
            raise InputError(f"{where}: resample would change the rate of WAV files. Cut them with length={low}.")
        places = [np.linspace(0, n - 1, resample) for n in lengths]
        signals = [
            [np.interp(at, np.arange(n), channel) for channel in signal]
            for signal, at, n in zip(codec.stored, places, lengths, strict=True)
        ]
        result = replace(codec, stored=np.array(signals), columns=(), label_column=None, id_column=None)
        how = f"stretched to {resample:,}"
    else:
        if length is None and low >= (1 - MAX_DIFFERENCE) * high:
            length = low
        if length is None:
            rule = f"{where}: signals have {low:,} to {high:,} points, and must be equally long"
            how = "" if codec.bits is not None else f", or stretch them with resample={high}"
            raise InputError(f"{rule}. Cut them to their first points with length={low}{how}.")
        if not 1 <= length <= low:
            which = "signals have" if low == high else "the shortest signal has"
            raise InputError(f"length must be 1 to {low}, the points that {which}; got {length}.")
        result = replace(codec, stored=np.stack([signal[:, :length] for signal in codec.stored]))
        how = f"cut to their first {length:,}"
    if low == high:
        return result
    return replace(result, notes=(*codec.notes, f"signals have {low:,} to {high:,} points, and all were {how}"))


def cut_into_windows(codec: SignalCodec, n: int, where: str) -> SignalCodec:
    """Windows of n points of each signal, or of one recording if a matrix has more rows, its points, than columns.

    Windows of a recording in which the class changes are left out, and so is a column that counts the points.
    """
    signals, channels, notes, classes = codec.stored, codec.channels, codec.notes, None
    lengths = {signal.shape[1] for signal in signals}
    is_matrix = codec.flat and len(lengths) == 1 and len(signals) > max(lengths)
    if is_matrix and not rows_are_smooth(np.concatenate(signals)):
        values, classes = np.concatenate(signals).T, codec.labels
        names = [name for name in codec.columns if name not in (codec.label_column, codec.id_column)]
        names = names or [str(c + 1) for c in range(len(values))]
        steps = np.diff(values, axis=1)
        is_counter = (steps[:, 0] != 0) & (np.ptp(steps, axis=1) <= 1e-6 * np.abs(steps[:, 0]))
        if is_counter.any() and not is_counter.all():
            notes = (*notes, f"column {names[int(is_counter.argmax())]!r} counts the points, and is left out")
            values, names = values[~is_counter], [names[c] for c in np.flatnonzero(~is_counter)]
        signals, channels = [values], tuple(names)
    windows = [(k, at) for k, signal in enumerate(signals) for at in range(0, signal.shape[1] - n + 1, n)]
    if classes is not None:
        windows = [(k, at) for k, at in windows if len(set(classes[at : at + n])) == 1]
    total = sum(signal.shape[1] for signal in signals)
    if len(windows) < 2:
        raise InputError(f"{where}: window={n} cuts {total:,} points into fewer than two windows. Lower window.")
    labels = codec.labels and tuple(codec.labels[k if classes is None else at] for k, at in windows)
    note = f"{total:,} points were cut into {len(windows):,} windows of {n:,}"
    if n_omitted := sum(signal.shape[1] // n for signal in signals) - len(windows):
        note += f"; {n_omitted:,} more in which the class changes were left out"
    cut = np.stack([signals[k][:, at : at + n] for k, at in windows])
    ids = tuple(str(i + 1) for i in range(len(cut)))
    codec = replace(codec, flat=len(channels) == 1, columns=(), label_column=None, id_column=None)
    return replace(codec, stored=cut, ids=ids, channels=channels, labels=labels, notes=(*notes, note))


def make_codec(codec: SignalCodec, where: str, options: SignalOptions) -> SignalCodec:
    """The codec of signals after they are checked; messages name `where` they are from."""
    if options.window is not None:
        codec = cut_into_windows(codec, options.window, where)
    codec = cut_to_length(codec, where, options.length, options.resample)
    signals, notes = codec.stored, list(codec.notes)
    K, C, T = signals.shape
    is_intended = (options.channels, options.length, options.window) != (None, None, None)  # the shape
    channels = tuple(map(str, codec.channels if options.channels is None else options.channels))
    if len(channels) != C or len(set(channels)) != C:
        more = " and others" if len(channels) > 5 else ""
        got = ", ".join(channels[:5]) + more or "none"
        raise InputError(f"channels must name each of the {C} channels of {where} once; got {got}.")
    if not is_intended and C >= TRANSPOSED * T and T <= MAX_FEW:
        rule = f"{where}: shape {signals.shape} has {C} channels of {T} points; points are the last axis of {SHAPES}"
        raise InputError(f"{rule}. Swap the last two axes; length={T} reads it like this.")
    if T == 1 and codec.flat and not is_intended:
        raise InputError(f"{where}: this is one recording of {K:,} points. Cut it into signals with window=N.")
    if not is_intended and codec.flat and K >= TRANSPOSED * T:
        matrix = signals[:, 0]  # the columns of a recording are smoother than its rows
        if T < TRANSPOSED or (T <= MAX_FEW and roughness(matrix.T) < MAX_RATIO * roughness(matrix)):
            rule = f"{where}: shape {(K, T)} is {K} signals of {T} points; each row is a signal"
            remedy = f"Transpose it if columns are signals, or cut one recording of {K} points with window=N"
            raise InputError(f"{rule}. {remedy}{f'; length={T} reads it like this' if T >= MIN_POINTS else ''}.")
    _require_signals(signals, where)
    labels = codec.labels if options.labels is None else tuple(map(str, options.labels))
    ids = codec.ids if options.ids is None else tuple(map(str, options.ids))
    for name, values in (("labels", labels), ("ids", ids)):
        if values is not None and len(values) != K:
            raise InputError(f"{name} must name each of the {K} signals; got {len(values)}.")
    labels = None if options.label == NONE or labels is None or len(set(labels)) == 1 else labels
    rare = [name for name, n in Counter(labels).items() if n == 1] if labels is not None else []
    if rare:
        rule = f"{where}: class {rare[0]!r} has one signal, and new signals are drawn within classes of two or more"
        raise InputError(f"{rule}. Add others, remove it, or pass label='none' to ignore classes.")
    if codec.flat and options.window is None and columns_are_smooth(signals[:, 0]):
        fact = f"read as {K} signals of {T} points, one per row, but columns are smooth and rows are not"
        notes.append(f"{fact}. If each column is a signal, transpose the array")
    across, along = roughness(signals.swapaxes(1, 2).reshape(-1, C)), roughness(signals.reshape(-1, T))
    if across < MAX_ROUGHNESS_OF_COLUMNS and not along <= across / MAX_RATIO:  # NaN for few points
        fact = f"read as {C} channels of {T} points, but neighboring channels are alike and neighboring points are not"
        notes.append(f"{fact}. If channels are the last axis of the array, swap its last two axes")
    step, limits = codec.step, (-np.inf, np.inf)
    if codec.bits is not None:
        limits = (-1.0, 1.0 - float(step or 0.0))
    elif (signals >= 0).all():
        limits = (0.0, np.inf)
    if step is None and (signals == np.rint(signals)).all():
        step = 1.0
        notes.append("all values are integers, and so are those of new signals")
    codec = replace(codec, ids=ids, channels=channels, labels=labels, step=step, limits=limits)
    rule = codec.normalization.describe()
    return replace(codec, notes=(*notes, rule) if rule else tuple(notes))


def _require_signals(signals: Array, where: str) -> None:
    K, C, T = signals.shape
    if K * C * T > MAX_VALUES:
        rule = f"{where}: {K:,} signals of {C * T:,} values are more than the limit of {MAX_VALUES:,} values"
        raise InputError(f"{rule}. Take fewer signals, every second point, or a shorter length.")
    if K < 2:
        count = "one signal" if K else "no signal"
        raise InputError(f"{where} holds {count}, and at least two are needed: add others.")
    if T < MIN_POINTS:
        raise InputError(f"{where}: signals have {T} points, and at least {MIN_POINTS} are needed: pass longer ones.")
    largest = float(np.nan_to_num(np.abs(signals), nan=1, posinf=1).max())
    if largest and not MIN_SIZE < largest < MAX_SIZE:
        rule = f"{where}: the largest value is {largest:.3g}, and must lie between {MIN_SIZE:g} and {MAX_SIZE:g}"
        raise InputError(f"{rule}, so that sums of squares are finite. Write the values in another unit.")
    if not np.isfinite(signals).all():
        k, c, t = np.argwhere(~np.isfinite(signals))[0]
        at = f"signal {k + 1} has {signals[k, c, t]:g} at point {t + 1}" + (f" of channel {c + 1}" if C > 1 else "")
        rule = "every value must be a finite number: fill it in, or leave the signal out"
        raise InputError(f"{where}: {at}, and {rule}.")
    if (signals == signals[:1]).all():
        raise InputError(f"{where}: all signals are equal, so there is nothing to vary. Add different ones.")


def _convert(array: Array, where: str) -> SignalCodec:
    if array.dtype.kind not in "buif":
        raise InputError(f"{where}: signals must be numbers; got {array.dtype}. Pass classes as labels.")
    if array.ndim not in (1, 2, 3) or 0 in array.shape:
        raise InputError(f"{where}: signals must be {SHAPES}, without empty axes; got {array.shape}. Reshape it.")
    array = array[:, None] if array.ndim == 1 else array  # one recording
    flat = array.ndim == 2
    signals = array[:, None] if flat else array
    ids, channels = (tuple(str(i + 1) for i in range(n)) for n in signals.shape[:2])
    return SignalCodec(signals.astype(np.float64), ids, channels, flat=flat)


def _read_array_file(path: Path) -> SignalCodec:
    arrays, name = load_arrays(path, _choose_array, ("channels", *LABEL_NAMES, *ID_NAMES), SHAPES)
    codec = _convert(arrays.pop(name), f"{path}, array {name!r}" if path.suffix.lower() == ".npz" else str(path))
    ids = named_strings(arrays, ID_NAMES, codec.K) or codec.ids
    channels = named_strings(arrays, ("channels",), len(codec.channels)) or codec.channels
    return replace(codec, ids=ids, labels=named_strings(arrays, LABEL_NAMES, codec.K), channels=channels)


def _choose_array(headers: dict[str, ArrayHeader], path: Path) -> str:
    candidates = [name for name, header in headers.items() if header.ndim in (2, 3) and header.dtype.kind in "buif"]
    names = [name for name in SIGNAL_NAMES if name in candidates]
    if names or len(candidates) == 1:
        return (names or candidates)[0]
    objects = [name for name, header in headers.items() if header.dtype.hasobject and header.ndim == 1]
    if objects and not candidates:
        rule = f"array {objects[0]!r} holds Python objects, which are not read because a file could run code with them"
        raise InputError(f"{path}: {rule}. Write a CSV with one signal per line, or pass the arrays as a list to fit.")
    shown = ", ".join(f"{name} {headers[name].shape}" for name in (candidates or list(headers))[:12]) or "no array"
    rule = "several arrays that could be signals" if candidates else "no signals"
    raise InputError(f"{path} has {rule} ({shown}): save {SHAPES} by the name 'signals'.")
