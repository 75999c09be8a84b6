"""Signals from arrays, array files, delimited text, .ts files and folders of WAV files, checked: `SignalCodec`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..._backend.array_files import ArrayFileError, ArrayHeader, named_strings, npz_headers, read_npy, read_npz
from ..._backend.arrays import Array, ArrayLike, to_numpy
from ..._backend.checks import check_count
from ..._backend.zarr_files import read_zarr, zarr_header
from .. import InputError, option
from ..comparison import MAX_RATIO, MAX_ROUGHNESS_OF_COLUMNS, columns_are_smooth, roughness
from ..delimited.reading import EXTENSIONS as DELIMITED
from ..delimited.spreadsheets import SHEET_HELP
from ..options import described_extension
from .codec import Found, SignalCodec
from .formats import read_csv, read_ts, read_wav_file, read_wav_folder

SHAPES = "an array (n, points) or (n, channels, points)"
SOURCES = "an array in .npy or .npz, a CSV with one row per signal, a .ts file or a folder of WAV files"
SIGNAL_NAMES, LABEL_NAMES, ID_NAMES = (
    ("signals", "X", "x", "data", "arr_0"),
    ("labels", "y", "target", "label"),
    ("ids",),
)
MAX_VALUES = 2**26  # of all signals together: with the arrays of the generator, they take some 2 GB
MAX_BYTES = 2**30  # of the arrays that are read from a compressed file
MIN_POINTS = 3
MIN_SIZE, MAX_SIZE = 1e-130, 1e130  # of the largest value: sums of squares stay within the range of floats, with room
MAX_FEW, TRANSPOSED = 16, 8  # channels that are certainly not points, where there are so many times more points
TRANSPOSED_NOTE = (
    "read as {} signals of {} points, one per row, but neighbouring values of a column are alike and those of a row "
    "are not. If each column is a signal, transpose the array"
)
SWAPPED_NOTE = (
    "read as {} channels of {} points, but neighboring channels are alike and neighboring points are not. If channels "
    "come last in the array, swap its last two axes"
)
NONE = "none"


@dataclass(frozen=True)
class SignalOptions:
    """Options of reading."""

    label: str | None = option(
        None, "Column of a CSV that holds classes: its name, first, last, or none to use no classes. [detected]"
    )
    length: int | None = option(None, "Cut signals to their first points. [all points]")
    resample: int | None = option(None, "Stretch signals of different lengths to this number of points.")
    window: int | None = option(None, "Cut long recordings into windows of so many points.")
    sheet: str | None = option(None, SHEET_HELP)
    labels: Sequence[str] | None = None  # a class for each signal, in place of those that were read
    ids: Sequence[str] | None = None  # likewise a name
    channels: Sequence[str] | None = None  # names of the channels

    def __post_init__(self) -> None:
        for name, least in (("length", 1), ("resample", MIN_POINTS), ("window", MIN_POINTS)):
            if (value := getattr(self, name)) is not None:
                check_count(name, value, least)
        if self.length is not None and self.resample is not None:
            raise InputError(f"length and resample must not both be given; got {self.length} and {self.resample}.")


def found_in(
    path: Path,
    label: str | None = None,
    like: SignalCodec | None = None,
    *,
    recording: bool = False,
    sheet: str | None = None,
) -> Found:
    """The signals of a file or folder, which are not checked yet, with columns as those of the signals of `like`."""
    extension = path.suffix.lower()
    if not path.exists():
        raise InputError(f"{path} does not exist: name {SOURCES}.")
    if label not in (None, NONE) and (extension not in DELIMITED or path.is_dir()):
        rule = f"label must name a column, and {path} has none; got {label!r}"
        raise InputError(f"{rule}. Leave it out, or write 'none' to use no classes.")
    if path.is_dir():
        return read_wav_folder(path) if zarr_header(path) is None else _array_file(path)
    if extension in (".npy", ".npz"):
        return _array_file(path)
    if extension in (".wav", ".wave"):
        return read_wav_file(path)
    if extension == ".ts":
        return read_ts(path)
    if extension in DELIMITED:
        return read_csv(path, None if label == NONE else label, like, recording=recording, sheet=sheet)
    raise InputError(f"{path} {described_extension(extension)}: name {SOURCES}.")


def of_array(data: ArrayLike | Sequence[ArrayLike]) -> Found:
    """The signals of an array (n, T) or (n, C, T), or of a sequence of arrays (T,) or (C, T) that differ in T."""
    if isinstance(data, np.ndarray) and data.dtype.hasobject and data.ndim == 1:
        data = list(data)
    try:
        array = to_numpy(data)
    except ValueError:  # rows of several lengths
        if not isinstance(data, list | tuple):
            raise
        signals = [_of_shape(to_numpy(signal)[None], f"signal {i + 1}") for i, signal in enumerate(data)]
        channels = {signal.channels for signal in signals}
        if len(channels) > 1:
            raise InputError("signals must have as many channels as one another. Pass those that do.") from None
        ids = tuple(str(i + 1) for i in range(len(signals)))
        return replace(signals[0], ids=ids).with_signals([signal.signals[0] for signal in signals])
    return _of_shape(array, "signals")


def join_recordings(parts: Sequence[Found]) -> Found:
    """The signals of several files, with classes if all of them have some; numbers are their names."""
    parts = [one.of_one_length("a part") for one in parts]
    shapes = Counter(one.signals.shape[1:] for one in parts)
    if len(shapes) > 1:
        raise InputError(f"parts must hold signals of one shape; got {', '.join(map(str, shapes))}. Write them again.")
    signals = np.concatenate([one.signals for one in parts])
    labels = tuple(label for one in parts for label in one.labels or ())
    ids = tuple(str(i + 1) for i in range(len(signals)))
    return replace(parts[0], signals=signals, labels=labels if len(labels) == len(signals) else None, ids=ids)


def codec_of(found: Found, where: str, wanted: SignalOptions) -> SignalCodec:
    """The codec of signals, once they are checked; messages name `where` they are from."""
    if wanted.window is not None:
        found = found.in_windows(wanted.window, where)
    found = found.of_one_length(where, wanted.length, wanted.resample)
    signals, notes = np.asarray(found.signals, dtype=np.float64), list(found.notes)
    K, C, T = signals.shape
    chosen = (wanted.channels, wanted.length, wanted.window) != (None, None, None)  # so that the shape is meant
    channels = tuple(map(str, found.channels if wanted.channels is None else wanted.channels))
    if len(channels) != C or len(set(channels)) != C:
        raise InputError(f"channels must name each of the {C} channels of {where} once; got {listed(channels)}.")
    if not chosen and C >= TRANSPOSED * T and T <= MAX_FEW:
        rule = f"{where}: shape {signals.shape} has {C} channels of {T} points; points come last, as in {SHAPES}"
        raise InputError(f"{rule}. Swap the last two axes; length={T} reads it like this.")
    if T == 1 and found.flat and not chosen:
        raise InputError(f"{where}: this is one recording of {K:,} points. Cut it into signals with window=N.")
    if not chosen and found.flat and K >= TRANSPOSED * T and (T < TRANSPOSED or _follows(signals[:, 0])):
        rule = f"{where}: shape {(K, T)} is {K} signals of {T} points; each row is a signal"
        how = "Transpose it if columns are signals, or cut one recording of so many points with window=N"
        raise InputError(f"{rule}. {how}{f'; length={T} reads it like this' if T >= MIN_POINTS else ''}.")
    _require_signals(signals, where)
    labels = found.labels if wanted.labels is None else tuple(map(str, wanted.labels))
    ids = found.ids if wanted.ids is None else tuple(map(str, wanted.ids))
    for name, values in (("labels", labels), ("ids", ids)):
        if values is not None and len(values) != K:
            raise InputError(f"{name} must name each of the {K} signals; got {len(values)}.")
    labels = None if wanted.label == NONE or labels is None or len(set(labels)) == 1 else labels
    rare = [name for name, n in Counter(labels).items() if n == 1] if labels is not None else []
    if rare:
        rule = f"{where}: class {rare[0]!r} has one signal, and new ones are drawn within classes of two or more"
        raise InputError(f"{rule}. Add others, remove it, or pass label='none' to draw from all signals alike.")
    if found.flat and wanted.window is None and columns_are_smooth(found.signals[:, 0]):
        notes.append(TRANSPOSED_NOTE.format(*found.signals.shape[::2]))
    across, along = roughness(signals.swapaxes(1, 2).reshape(-1, C)), roughness(signals.reshape(-1, T))
    if across < MAX_ROUGHNESS_OF_COLUMNS and not along <= across / MAX_RATIO:  # NaN for few points
        notes.append(SWAPPED_NOTE.format(C, T))
    step, limits = found.step, (-np.inf, np.inf)
    if found.bits is not None:
        limits = (-1.0, 1.0 - float(step or 0.0))
    elif (signals >= 0).all():
        limits = (0.0, np.inf)
    if step is None and (signals == np.rint(signals)).all():
        step = 1.0
        notes.append("all values are whole numbers, and so are those of new signals")
    about = {name: getattr(found, name) for name in ("flat", "rate", "bits", "columns", "label_column", "id_column")}
    about |= {"step": step, "limits": limits}
    codec = SignalCodec(signals, ids, channels, labels, **about)
    notes += [codec.normalisation.describe()] if codec.normalisation.describe() else []
    return replace(codec, notes=tuple(notes))


def _follows(matrix: Array) -> bool:
    """Whether rows of few values follow one another, as the points of a recording do: unlike those of one row."""
    return matrix.shape[1] <= MAX_FEW and roughness(matrix.T) < MAX_RATIO * roughness(matrix)


def listed(names: Sequence[str]) -> str:
    """The first few of some names."""
    return ", ".join(names[:5]) + (" and others" if len(names) > 5 else "") if names else "none"


def _require_signals(signals: Array, where: str) -> None:
    K, C, T = signals.shape
    if K * C * T > MAX_VALUES:
        rule = f"{where}: {K:,} signals of {C * T:,} values have more than {MAX_VALUES:,} values, the limit"
        raise InputError(f"{rule}. Take fewer signals, every second point, or a shorter length.")
    if K < 2:
        raise InputError(
            f"{where} holds {'one signal' if K else 'no signal'}, and at least two are needed: add others."
        )
    if T < MIN_POINTS:
        raise InputError(f"{where}: signals have {T} points, and at least {MIN_POINTS} are needed: pass longer ones.")
    if not MIN_SIZE < (largest := float(np.nan_to_num(np.abs(signals), nan=1, posinf=1).max())) < MAX_SIZE and largest:
        rule = f"{where}: the largest value is {largest:.3g}, and must lie between {MIN_SIZE:g} and {MAX_SIZE:g}"
        raise InputError(f"{rule}, so that sums of squares are finite. Write the values in another unit.")
    if not np.isfinite(signals).all():
        k, c, t = np.argwhere(~np.isfinite(signals))[0]
        at = f"signal {k + 1} has {signals[k, c, t]:g} at point {t + 1}" + (f" of channel {c + 1}" if C > 1 else "")
        raise InputError(
            f"{where}: {at}, and every value must be a finite number: fill it in, or leave the signal out."
        )
    if (signals == signals[:1]).all():
        raise InputError(f"{where}: the signals are all alike, and there is nothing to vary. Add different ones.")


def _of_shape(array: Array, where: str) -> Found:
    if array.dtype.kind not in "buif":
        raise InputError(f"{where}: signals must be numbers; got {array.dtype}. Pass classes as labels.")
    if array.ndim not in (1, 2, 3) or 0 in array.shape:
        raise InputError(f"{where}: signals must be {SHAPES}, none of them zero; got shape {array.shape}. Reshape it.")
    array = array[:, None] if array.ndim == 1 else array  # one recording
    flat = array.ndim == 2
    signals = array[:, None] if flat else array
    ids, channels = (tuple(str(i + 1) for i in range(n)) for n in signals.shape[:2])
    return Found(signals.astype(np.float64), ids, channels, flat=flat)


def _array_file(path: Path) -> Found:
    try:
        if path.is_dir():
            return _of_shape(read_zarr(path, MAX_BYTES)[0], str(path))
        if path.suffix.lower() == ".npy":
            with path.open("rb") as stream:
                return _of_shape(read_npy(stream), str(path))
        headers = npz_headers(path)
        name = _which(headers, path)
        arrays = read_npz(path, {name, "channels", *LABEL_NAMES, *ID_NAMES} & set(headers), MAX_BYTES)
    except ArrayFileError as error:
        raise InputError(f"{path} cannot be read as {path.suffix} ({error}): save it again, {SHAPES}.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): choose another file.") from None
    found = _of_shape(arrays[name], f"{path}, array {name!r}")
    n, C = found.signals.shape[:2]
    ids, labels = named_strings(arrays, ID_NAMES, n) or found.ids, named_strings(arrays, LABEL_NAMES, n)
    return replace(found, ids=ids, labels=labels, channels=named_strings(arrays, ("channels",), C) or found.channels)


def _which(headers: dict[str, ArrayHeader], path: Path) -> str:
    """The name of the array that holds the signals."""
    able = [name for name, one in headers.items() if one.ndim in (2, 3) and one.dtype.kind in "buif"]
    known = [name for name in SIGNAL_NAMES if name in able]
    if known or len(able) == 1:
        return (known or able)[0]
    objects = [name for name, header in headers.items() if header.dtype.hasobject and header.ndim == 1]
    if objects and not able:
        rule = f"array {objects[0]!r} holds Python objects, which are not read because a file could run code with them"
        raise InputError(f"{path}: {rule}. Write a CSV with one signal per line, or pass the arrays as a list to fit.")
    shown = ", ".join(f"{name} {headers[name].shape}" for name in (able or list(headers))[:12]) or "no array"
    rule = "several arrays that could be signals" if able else "no signals"
    raise InputError(f"{path} has {rule} ({shown}): save {SHAPES} by the name 'signals'.")
