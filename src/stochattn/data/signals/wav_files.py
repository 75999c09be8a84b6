"""Signals in folders of WAV files (PCM): values from -1 to 1, one rate and one length; sub-folders are classes."""

from __future__ import annotations

import csv
import io
import wave
from pathlib import Path

import numpy as np

from ..._backend.arrays import Array
from .. import InputError
from .codec import SignalCodec
from .found import Found

EXTENSIONS = (".wav", ".wave")
TABLE = "samples.csv"
HEADER = ["file", "class"]
SIDES = ("left", "right")
MAX_DIFFERENCE = 0.1  # of lengths, over the longest, up to which files are cut to the shortest


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
    return {row[0]: row[1] for row in rows[1:] if len(row) == 2} if rows and rows[0] == HEADER else {}


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
    lengths = sorted({signal.shape[1] for signal, _, _ in loaded})
    notes: tuple[str, ...] = ()
    if len(lengths) > 1:
        most = lengths[-1]
        if lengths[0] < (1 - MAX_DIFFERENCE) * most:
            short = files[int(np.argmin([signal.shape[1] for signal, _, _ in loaded]))]
            rule = f"{lengths[0]:,} points, and the longest file {most:,}; lengths may differ by a tenth"
            raise InputError(f"{short} has {rule}. Cut all files to one length, or remove it.")
        notes = (f"files have {lengths[0]:,} to {most:,} points, and all were cut to their first {lengths[0]:,}",)
    signals = np.stack([signal[:, : lengths[0]] for signal, _, _ in loaded])
    C, bits = len(first), 8 * max(one for _, _, one in loaded)
    channels = SIDES if C == 2 else tuple(str(c + 1) for c in range(C))
    step = 2.0 ** (1 - bits)
    return Found(signals, ids, channels, labels, notes, flat=C == 1, step=step, rate=rate, bits=bits)


def _load(file: Path) -> tuple[Array, int, int]:
    """Values (channels, points), points per second and bytes of a point."""
    try:
        with wave.open(str(file), "rb") as opened:
            C, width, rate, n = opened.getparams()[:4]
            content = opened.readframes(n)
    except (wave.Error, EOFError, OSError, RuntimeError) as error:
        cause = str(error) or "it is truncated"
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
                rows.writerows([f"new-{first + i + 1:06d}.wav", label] for i, label in enumerate(classes))

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
