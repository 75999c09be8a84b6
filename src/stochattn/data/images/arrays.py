"""Pictures in arrays: which array of a file has them, which axis has their channels, and the range of levels."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from ..._backend.arrays import Array, ArrayLike
from ..options import InputError
from .codec import ImageCodec

IMAGE_NAMES = ("images", "X", "x", "data", "arr_0")
LABEL_NAMES = ("target", "labels", "y", "label")
ID_NAMES = ("ids", "names")
MAX_NAMED = 12
"""Arrays of a file that a message names."""
_SHAPES = "as an array (n, height, width) or (n, height, width, 3)"


def read_arrays(path: Path, rescale: bool = True) -> ImageCodec:
    """The pictures of an .npz or .npy file, with their names and classes where it has these too.

    rescale: whether whole levels 0 and 1 mean black and white
    """
    arrays, unreadable = _load(path)
    name = _which(arrays, unreadable, path)
    where = f"{path}, array {name!r}" if len(arrays) > 1 else str(path)
    images, notes = as_levels(arrays[name], where, rescale)
    ids = _texts(arrays, ID_NAMES, len(images)) or tuple(str(i + 1) for i in range(len(images)))
    return ImageCodec(images, ids, _texts(arrays, LABEL_NAMES, len(images)), notes)


def as_levels(array: ArrayLike, where: str, rescale: bool = True) -> tuple[Array, tuple[str, ...]]:
    """Pictures as levels: (n, h, w) or (n, h, w, 3) uint8, and notes on what was assumed.

    array: (n, h, w), (n, h, w, c) or (n, c, h, w) with c = 1, 3 or 4 channels; levels 0 to 1, 255 or 65535
    """
    images, notes = _eight_bits(_channels_last(np.asarray(array), where), where, rescale)
    if images.ndim == 4 and images.shape[3] == 4:
        opacity = images[..., 3:].astype(np.float64) / 255
        if opacity.min() < 1:
            notes = (*notes, "transparent parts were placed on white")
        images = np.rint(images[..., :3] * opacity + 255 * (1 - opacity)).astype(np.uint8)
    return images, notes


def _load(path: Path) -> tuple[dict[str, Array], list[str]]:
    """The arrays of a file, and the names of those that only pickle could read."""
    try:
        with path.open("rb") as stream:
            file = np.load(stream, allow_pickle=False)
            if isinstance(file, np.ndarray):
                return {path.stem: file}, []
            arrays, unreadable = {}, []
            for name in file.files:
                try:
                    arrays[name] = np.asarray(file[name])
                except ValueError:  # an array of Python objects
                    unreadable.append(name)
            return arrays, unreadable
    except ValueError as error:
        if "Object arrays" in str(error):
            return {}, [path.stem]
        raise InputError(f"{path} is not an {path.suffix} file: save one with numpy, {_SHAPES}.") from None
    except (OSError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        cause = str(error).split("\n")[0] or type(error).__name__
        raise InputError(f"{path} cannot be read ({cause}): save it again with numpy, {_SHAPES}.") from None


def _which(arrays: dict[str, Array], unreadable: list[str], path: Path) -> str:
    """The name of the array that holds the pictures."""
    able = [name for name, array in arrays.items() if array.ndim in (3, 4) and array.dtype.kind in "buif"]
    named = [name for name in IMAGE_NAMES if name in able]
    if named or len(able) == 1:
        return (named or able)[0]
    flat = [name for name, array in arrays.items() if array.ndim == 2]
    names = able or flat or list(arrays)
    shown = ", ".join(f"{name} {arrays[name].shape}" for name in names[:MAX_NAMED])
    shown += f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    if able:
        raise InputError(f"{path} has several arrays that could be pictures: {shown}. Name one of them 'images'.")
    if flat:
        raise InputError(
            f"{path} has no pictures but {shown}. One row per example is a table: pass kind='table', or save pictures "
            f"{_SHAPES}."
        )
    content = f"no pictures ({shown or 'no array'})"
    if unreadable:
        content = f"Python objects ({', '.join(unreadable)}), which are not read"
    raise InputError(f"{path} has {content}: save numbers, {_SHAPES}.")


def _texts(arrays: dict[str, Array], names: tuple[str, ...], n: int) -> tuple[str, ...] | None:
    """The first array by one of these names that has one value per picture, as texts."""
    for name in names:
        if name in arrays and arrays[name].shape == (n,):
            values = arrays[name]
            if values.dtype.kind == "f" and (values == np.rint(values)).all():
                values = values.astype(np.int64)
            return tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values.tolist())
    return None


def _channels_last(images: Array, where: str) -> Array:
    """(n, h, w), (n, h, w, 3) or (n, h, w, 4)."""
    shape = images.shape
    if images.ndim == 2:
        raise InputError(
            f"{where}: shape {shape} is one row per example, as in a table: pass kind='table', or pictures {_SHAPES}."
        )
    if images.ndim not in (3, 4) or 0 in shape:
        problem = "has no pixel" if 0 in shape else "must be that of pictures"
        raise InputError(f"{where}: shape {shape} {problem}: pass pictures {_SHAPES}.")
    if images.ndim == 3:
        if shape[2] in (3, 4) and min(shape[:2]) >= 8:
            raise InputError(f"{where}: shape {shape} looks like one colour picture; stack several, (n,) + {shape}.")
        return images
    if shape[3] not in (1, 3, 4):
        if shape[1] not in (1, 3, 4):
            raise InputError(f"{where}: shape {shape} has no axis of 1, 3 or 4 channels: pass pictures {_SHAPES}.")
        images = np.moveaxis(images, 1, 3)
    return images[..., 0] if images.shape[3] == 1 else images


def _eight_bits(images: Array, where: str, rescale: bool) -> tuple[Array, tuple[str, ...]]:
    """Levels as uint8, from any of the usual ranges."""
    kind = images.dtype.kind
    if kind not in "buif":
        raise InputError(f"{where}: pictures must be numbers; got {images.dtype}.")
    if kind == "f" and not np.isfinite(images).all():
        bad = int(np.argmin(np.isfinite(images).reshape(len(images), -1).all(1)))
        raise InputError(f"{where}: picture {bad + 1} has NaN or infinity; every pixel needs a level from 0 to 255.")
    low, high = float(images.min()), float(images.max())
    if low < -1e-6 or high > 65535 or (kind == "f" and high > 255.5):
        raise InputError(f"{where}: levels run from {low:g} to {high:g}; scale them to 0 to 255, or to 0 to 1.")
    if high <= 1 + 1e-6 and (rescale or kind not in "ui"):
        notes = ("levels 0 and 1 were read as black and white",) if kind in "ui" and high > 0 else ()
        return np.rint(np.clip(images, 0, 1) * 255.0).astype(np.uint8), notes
    if high > 255.5:
        return np.rint(images / 257.0).astype(np.uint8), ("levels up to 65535 were scaled to 0 to 255",)
    dark = f"the highest level is {high:g} of 255, so that pictures are dark; rescale them if that is not intended"
    return np.clip(np.rint(images), 0, 255).astype(np.uint8), (dark,) if rescale and high < 64 else ()
