"""Plain values as json and arrays, and back: what is saved is data, and loading runs no code.

Plain values are None, booleans, numbers, texts, dates, slices, arrays, and tuples, lists and mappings of them. Arrays
go into an .npz file beside the json text; tuples, slices, dates and mappings with keys that are no texts are marked.
"""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from .arrays import Array, is_torch, to_numpy
from .files import write_whole

Plain: TypeAlias = object
"""A value of the kinds named above."""
_MARK = "__"


def save_state(path: Path, value: Plain) -> None:
    """Write a value to one .npz file, whole or not at all; the same value gives the same bytes."""
    arrays: dict[str, Array] = {}
    text = json.dumps(encoded(value, arrays), allow_nan=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, state=np.array(text), **arrays)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())


def load_state(path: Path) -> Plain:
    """What `save_state` wrote; ValueError for a file that it did not write."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return decoded(json.loads(str(arrays.pop("state"))), arrays)
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"{path} does not hold a saved state ({type(error).__name__}).") from None


def encoded(value: Plain, arrays: dict[str, Array]) -> Plain:
    """A value for json; its arrays are added to `arrays` under names of their own."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if isinstance(value, np.ndarray) or is_torch(value):
        array = to_numpy(value)
        if array.dtype.hasobject:
            return {_MARK: "objects", "shape": list(array.shape), "items": encoded(array.ravel().tolist(), arrays)}
        name = f"array{len(arrays)}"
        arrays[name] = array
        return {_MARK: "array", "name": name}
    if isinstance(value, slice):
        return {_MARK: "slice", "items": [value.start, value.stop, value.step]}
    if isinstance(value, datetime.datetime | datetime.date):
        return {_MARK: type(value).__name__ if type(value) is datetime.date else "datetime", "text": value.isoformat()}
    if isinstance(value, tuple):
        return {_MARK: "tuple", "items": [encoded(part, arrays) for part in value]}
    if isinstance(value, list):
        return [encoded(part, arrays) for part in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith(_MARK) for key in value):
            return {key: encoded(part, arrays) for key, part in value.items()}
        return {_MARK: "mapping", "items": [[encoded(k, arrays), encoded(v, arrays)] for k, v in value.items()]}
    raise TypeError(f"a value of type {type(value).__name__} cannot be saved; use plain values and arrays.")


def decoded(value: Plain, arrays: Mapping[str, Array]) -> Plain:
    """The value that `encoded` was given."""
    if isinstance(value, list):
        return [decoded(part, arrays) for part in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_MARK)
    if kind is None:
        return {key: decoded(part, arrays) for key, part in value.items()}
    if kind == "array":
        return arrays[value["name"]]
    if kind in ("date", "datetime"):
        return getattr(datetime, kind).fromisoformat(value["text"])
    if kind == "slice":
        return slice(*value["items"])
    items = [decoded(part, arrays) for part in value["items"]]
    if kind == "tuple":
        return tuple(items)
    if kind == "mapping":
        return dict(items)  # type: ignore[arg-type]
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(value["shape"])
