"""Texts that select stored items: a file of ids, NAME=VALUE, a class, or a regular expression for ids."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from .._backend.arrays import Array
from ..data.base import Codec
from ..data.kind import AnyKind
from ..data.options import InputError

MAX_SHOWN = 6
"""Names that a message lists."""


def select(kind: AnyKind, codec: Codec, text: str, option: str = "--subset") -> Array:
    """The stored items that a text selects: (K,) booleans, at least one of them true.

    A file of ids (one per line), NAME=VALUE where the kind of data has named values, the name of a class, or a regular
    expression that matches a part of an id, in this order.
    """
    selected = _selected(kind, codec, text, option)
    if not selected.any():
        classes = codec.labels is not None
        known = f"The classes are {_few(sorted(set(codec.labels or ())))}." if classes else f"Ids: {_few(codec.ids)}."
        raise InputError(f"{option} {text!r} matches none of the {codec.K} stored {kind.items}. {known}")
    return selected


def weighting(kind: AnyKind, codec: Codec, text: str) -> tuple[float, Array]:
    """SELECTION:RATIO as the ratio and the selected items (K,)."""
    selection, _, ratio = text.rpartition(":")
    try:
        value = float(ratio)
    except ValueError:
        value = -1.0
    if not selection or not 0 < value < math.inf:
        raise InputError(f"--weight {text!r} must be a selection and a positive ratio, such as 'setosa:5'.")
    return value, select(kind, codec, selection, "--weight")


def _selected(kind: AnyKind, codec: Codec, text: str, option: str) -> Array:
    if _is_file(text):
        return _listed(kind, codec, Path(text), option)
    name, equals, value = text.partition("=")
    named = kind.select(codec, name, value) if equals else None
    if named is not None:
        return np.asarray(named, dtype=bool)
    parts = [part for part, _ in kind.column_types(codec)]
    if equals and parts:
        raise InputError(f"{option} {text!r}: there is no {kind.part} {name!r}; there are {_few(parts)}.")
    if codec.labels is not None and text in codec.labels:
        return np.array(codec.labels) == text
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(
            f"{option} {text!r} is not a regular expression ({error}): write one that matches ids."
        ) from None
    return np.array([pattern.search(identifier) is not None for identifier in codec.ids])


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False


def _listed(kind: AnyKind, codec: Codec, path: Path, option: str) -> Array:
    try:
        wanted = {line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip()}
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{option} {path} is not a list of ids ({type(error).__name__}): write one id per line."
        ) from None
    unknown = sorted(wanted - set(codec.ids))
    if unknown:
        raise InputError(
            f"{option} {path}: {unknown[0]!r} is not among the stored {kind.items} ({len(unknown)} such lines)."
        )
    return np.array([identifier in wanted for identifier in codec.ids])


def _few(names: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(names[:MAX_SHOWN])
    return shown if len(names) <= MAX_SHOWN else f"{shown}, … ({len(names)} in all)"
