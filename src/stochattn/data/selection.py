"""Which stored items a text means: an id file, a class, a column's value or a pattern of ids."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .._backend.arrays import Array
from .legacy import Codec, InputError


def select(codec: Codec, text: str, option: str = "--keep") -> Array:
    """The stored items that `text` means: (K,) booleans, at least one of them true.

    A file of ids (one a line), `column=value` for a table, the name of a class, or a regular expression that some part
    of an id matches, in this order.
    """
    chosen = _chosen(codec, text, option)
    if not chosen.any():
        raise InputError(f"{option} {text!r} matches none of the {codec.K} stored items. {_what_there_is(codec)}")
    return chosen


def weighting(codec: Codec, text: str) -> tuple[Array, float]:
    """`SELECTION:RATIO` as the selected items (K,) and how often each of them counts."""
    selection, _, ratio = text.rpartition(":")
    try:
        value = float(ratio)
    except ValueError:
        value = -1.0
    if not selection or not 0 < value < np.inf:
        raise InputError(f"--weight {text!r} must be a selection and a positive ratio, such as 'setosa:5'.")
    return select(codec, selection, "--weight"), value


def _chosen(codec: Codec, text: str, option: str) -> Array:
    if _is_file(text):
        return _listed(codec, Path(text), option)
    column, equals, value = text.partition("=")
    frame = codec.stored if hasattr(codec.stored, "columns") else None
    if equals and frame is not None and column in frame.columns:
        same: Array = codec.matches(column, value) if hasattr(codec, "matches") else _equal(frame[column], value)
        return same
    if equals and frame is not None:
        raise InputError(f"{option} {text!r}: there is no column {column!r}; there are {_few(list(frame.columns))}.")
    if codec.labels is not None and text in codec.labels:
        return np.array([label == text for label in codec.labels])
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(f"{option} {text!r} is no regular expression ({error}): write one that matches ids.") from None
    return np.array([pattern.search(name) is not None for name in codec.ids])


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False


def _listed(codec: Codec, path: Path, option: str) -> Array:
    try:
        wanted = {line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip()}
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{option} {path} is no list of ids ({type(error).__name__}): one id a line.") from None
    unknown = sorted(wanted - set(codec.ids))
    if unknown:
        raise InputError(f"{option} {path}: {unknown[0]!r} is not among the stored items ({len(unknown)} such lines).")
    return np.array([name in wanted for name in codec.ids])


def _equal(column: Any, value: str) -> Array:
    same = np.asarray(column.astype(str) == value)
    with suppress(TypeError, ValueError):
        same |= np.asarray(column.astype(float) == float(value))
    return same


def _what_there_is(codec: Codec) -> str:
    if codec.labels is not None:
        return f"Its classes are {_few(sorted(set(codec.labels)))}."
    return f"Ids look like {_few(list(codec.ids))}."


def _few(names: list[Any]) -> str:
    shown = ", ".join(map(str, names[:6]))
    return shown if len(names) <= 6 else f"{shown}, … ({len(names)} in all)"
