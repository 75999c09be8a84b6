"""Plain values as JSON and arrays in one .npz file, and back. Loading a file runs no code.

Plain values are None, booleans, numbers, strings, dates, slices, arrays, and tuples, lists and mappings of them. Types
that JSON lacks are marked in it, so that they are restored; tensors are restored as numpy arrays.
"""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from .array_files import ArrayFileError, read_npz
from .arrays import Array, is_torch, to_numpy
from .checks import first_line
from .files import write_atomically

Plain: TypeAlias = object  # a value of one of the types named above
_MARK = "__"


def save_state(path: Path, value: Plain, check: Callable[[], object] | None = None) -> None:
    """Write a value to one .npz file, whole or not at all; the same value gives the same bytes.

    check: called immediately before the file gets its name, as in `write_together`
    """
    arrays: dict[str, Array] = {}
    text = json.dumps(encode(value, arrays), allow_nan=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, state=np.array(text), **arrays)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue(), check)


def load_state(path: Path) -> Plain:
    """The value that `save_state` wrote; ValueError for any other file, OSError for one that cannot be opened."""
    try:
        arrays = dict[str, Array](read_npz(path))
        return decode(json.loads(str(arrays.pop("state"))), arrays)
    except OSError as error:
        cause = {FileNotFoundError: "does not exist", IsADirectoryError: "is a folder"}.get(type(error))
        why = cause or f"cannot be read ({error.strerror or first_line(error)})"
        raise type(error)(f"path must name a saved file; {path} {why}. Check the name, or save one first.") from None
    except Exception as error:
        reason = error if isinstance(error, ArrayFileError) else type(error).__name__
        raise ValueError(f"{path} does not hold a saved state ({reason}).") from None


def load_format(path: Path, format: str, writer: str, version: str, remedy: str) -> dict[str, Plain]:
    """The mapping that `save_state` wrote with this "format", which ends with its number; ValueError for others.

    writer: what writes such files; version: the version that reads them; remedy: what to do about older ones
    """
    state = load_state(path)
    written = str(state.get("format")) if isinstance(state, dict) else ""
    if not isinstance(state, dict) or not written.startswith(format[:-1]):
        raise ValueError(f"path must name a file written by {writer}; {str(path)!r} is not one.")
    if written != format:
        how = f"was written by stochattn {state.get('version')} as {written!r}, and {version} reads {format!r}"
        raise ValueError(f"{str(path)!r} {how}. {remedy}")
    return state


def read_format(path: Path) -> str:
    """The entry "format" of a mapping that `save_state` wrote; empty for any other file."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return str(json.loads(str(file["state"]))["format"])
    except Exception:  # whatever another file causes
        return ""


def encode(value: Plain, arrays: dict[str, Array]) -> Plain:
    """A value that JSON can hold; its arrays are added to `arrays`, under the names that stand in their place."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if isinstance(value, list):
        return [encode(item, arrays) for item in value]
    if is_torch(value) or (isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray)):
        array, name = to_numpy(value), f"array{len(arrays)}"
        if array.dtype.hasobject:
            return {_MARK: "objects", "shape": list(array.shape), "items": encode(array.ravel().tolist(), arrays)}
        arrays[name] = array
        return {_MARK: "array", "name": name}
    if isinstance(value, tuple):
        return {_MARK: "tuple", "items": encode(list(value), arrays)}
    if isinstance(value, slice):
        return {_MARK: "slice", "items": encode([value.start, value.stop, value.step], arrays)}
    if isinstance(value, datetime.date):  # a datetime is a date too
        return {_MARK: "datetime" if isinstance(value, datetime.datetime) else "date", "text": value.isoformat()}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith(_MARK) for key in value):
            return {str(key): encode(part, arrays) for key, part in value.items()}
        return {_MARK: "mapping", "items": [encode(list(pair), arrays) for pair in value.items()]}
    raise TypeError(f"a value of type {type(value).__name__} cannot be saved; use plain values and arrays.")


def decode(value: Plain, arrays: Mapping[str, Array]) -> Plain:
    """The value that `encode` turned into this one."""
    if isinstance(value, list):
        return [decode(part, arrays) for part in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_MARK)
    if kind is None:
        return {key: decode(part, arrays) for key, part in value.items()}
    if kind == "array":
        return arrays[value["name"]]
    if kind in ("date", "datetime"):
        return getattr(datetime, kind).fromisoformat(value["text"])
    items = [decode(part, arrays) for part in value["items"]]
    if kind == "objects":
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):  # an assignment at once would turn lists of one length into a matrix
            array[i] = item
        return array.reshape(value["shape"])
    kinds: dict[str, Callable[..., Plain]] = {"tuple": tuple, "mapping": dict, "slice": lambda parts: slice(*parts)}
    return kinds[kind](items)
