"""Signals in .ts files, the text format of the UCR archive: a header, and a line per signal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..._backend.arrays import Array
from .. import InputError
from .codec import SignalCodec
from .csv_files import written_numbers
from .found import Found

REMEDY = "Write @data, then a line per signal: values between commas, channels between colons, the class last"


def read_ts(path: Path) -> Found:
    """The signals of a .ts file."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text ({type(error).__name__}): choose another file.") from None
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
        if [len(one) for one in values] != [len(first[0])] * len(first):
            found, wanted = (f"{len(x)} channels of {'/'.join(str(len(y)) for y in x)} points" for x in (values, first))
            rule = f"the signal has {found} and the first one {wanted}; signals must be equally long"
            raise InputError(f"{path}, line {number}: {rule}. Cut them to one length, or fill them up.")
        if labelled and names and label not in names:
            raise InputError(
                f"{path}, line {number}: class {label!r} is not one of @classLabel: {', '.join(names[:8])}."
            )
    signals = np.array([values for values, _ in rows], dtype=np.float64)
    labels = tuple(label for _, label in rows) if labelled else None
    ids, channels = (tuple(str(i + 1) for i in range(n)) for n in signals.shape[:2])
    return Found(signals, ids, channels, labels, tuple(notes), flat=len(first) == 1)


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
