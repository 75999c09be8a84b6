"""Pictures in arrays: which array holds them, on which axis their channels lie, and what their levels mean."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from ..._backend.arrays import Array
from ..legacy import InputError

IMAGE_NAMES = ("images", "X", "x", "data", "arr_0")
LABEL_NAMES = ("target", "labels", "y", "label")
ID_NAMES = ("ids", "names")
CHROMA_NOISE, COLOURED_SHARE = 12, 0.001
"""A picture has colour if more than this share of its pixels have channels further apart than so many levels."""


class PictureArrays(NamedTuple):
    """What an array file holds."""

    images: Array  # (n, h, w) or (n, h, w, 3), uint8
    ids: tuple[str, ...]
    labels: tuple[str, ...] | None
    notes: tuple[str, ...]


def read_arrays(path: Path, stretch: bool = True) -> PictureArrays:
    """The pictures of an .npz or .npy file, with their names and classes where it holds these too.

    stretch: whether whole levels 0 and 1 mean black and white
    """
    arrays, unreadable = _load(path)
    name = _which(arrays, unreadable, path)
    where = f"{path}, array {name!r}" if len(arrays) > 1 else str(path)
    images, notes = as_levels(arrays[name], where, stretch)
    n = len(images)
    ids = _texts(arrays, ID_NAMES, n) or tuple(str(i + 1) for i in range(n))
    labels = _texts(arrays, LABEL_NAMES, n)
    return PictureArrays(images, ids, labels, notes)


def as_levels(array: Any, where: str, stretch: bool = True) -> tuple[Array, tuple[str, ...]]:
    """Pictures as levels: (n, h, w) or (n, h, w, 3) uint8, and a note on whatever was assumed.

    array: (n, h, w), (n, h, w, c) or (n, c, h, w) with c = 1, 3 or 4 channels; levels 0 to 1, 255 or 65535
    """
    images = _channels_last(np.asarray(array), where)
    images, notes = _eight_bits(images, where, stretch)
    if images.ndim == 4 and images.shape[3] == 4:
        opacity = images[..., 3:].astype(np.float64) / 255
        if opacity.min() < 1:
            notes = (*notes, "transparent parts were laid on white")
        images = np.rint(images[..., :3] * opacity + 255 * (1 - opacity)).astype(np.uint8)
    return images, notes


def in_colour(images: Array, colour: bool | None) -> tuple[Array, tuple[str, ...]]:
    """Pictures as RGB or as grey, as asked; by default RGB if any has colour. With a note where they differ."""
    if images.ndim == 3:
        return (np.repeat(images[..., None], 3, axis=3) if colour else images), ()
    n, coloured = len(images), sum(map(has_colour, images))
    if colour or (colour is None and coloured):
        mixed = f"{coloured} of {n} pictures have colour, and all are kept as RGB; --no-colour makes them grey"
        return images, (mixed,) if 0 < coloured < n else ()
    noisy = any((image[..., 0] != image[..., 1]).any() or (image[..., 1] != image[..., 2]).any() for image in images)
    ignored = f"colour differences of up to {CHROMA_NOISE} levels were taken for noise; colour=True keeps them"
    grey = np.stack([np.asarray(Image.fromarray(image).convert("L")) for image in images])
    return grey, (ignored,) if noisy and colour is None else ()


def has_colour(image: Array) -> bool:
    """Whether a picture (h, w, 3) has more colour than the noise that JPEG leaves in a grey one."""
    spread = image.max(2).astype(np.int16) - image.min(2)
    return bool((spread > CHROMA_NOISE).mean() > COLOURED_SHARE)


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
            raise InputError(f"{path} holds Python objects, which are not read: save numbers, {_SHAPES}.") from None
        raise InputError(f"{path} is no {path.suffix} file: save one with numpy, {_SHAPES}.") from None
    except (OSError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        cause = str(error).split("\n")[0] or type(error).__name__
        raise InputError(f"{path} cannot be read ({cause}): save it again with numpy, {_SHAPES}.") from None


_SHAPES = "as an array (n, height, width) or (n, height, width, 3)"


def _which(arrays: dict[str, Array], unreadable: list[str], path: Path) -> str:
    """The name of the array that holds the pictures."""
    able = [name for name, array in arrays.items() if array.ndim in (3, 4) and array.dtype.kind in "buif"]
    named = [name for name in IMAGE_NAMES if name in able]
    if named or len(able) == 1:
        return (named or able)[0]
    if able:
        raise InputError(
            f"{path} holds several arrays that could be pictures: {_list(arrays, able)}. Name one of them 'images'."
        )
    if any(array.ndim == 2 for array in arrays.values()):
        flat = [name for name, array in arrays.items() if array.ndim == 2]
        raise InputError(
            f"{path} holds no pictures but {_list(arrays, flat)}: one row per example is a table (--as table); "
            f"pictures come {_SHAPES}."
        )
    if unreadable:
        raise InputError(
            f"{path} holds Python objects ({', '.join(unreadable)}), which are not read: save numbers, {_SHAPES}."
        )
    raise InputError(f"{path} holds no pictures ({_list(arrays, list(arrays)) or 'no array'}): save them {_SHAPES}.")


def _list(arrays: dict[str, Array], names: list[str]) -> str:
    shown = [f"{name} {arrays[name].shape}" for name in names[:12]]
    return ", ".join(shown) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _texts(arrays: dict[str, Array], names: tuple[str, ...], n: int) -> tuple[str, ...] | None:
    """The first array by one of these names that holds one value a picture, as texts."""
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
            f"{where}: shape {shape} is one row per example, which is a table (--as table); pictures come {_SHAPES}."
        )
    if images.ndim not in (3, 4):
        raise InputError(f"{where}: shape {shape} is no block of pictures; these come {_SHAPES}.")
    if 0 in shape:
        raise InputError(f"{where}: shape {shape} holds no pixel; pictures come {_SHAPES}.")
    if images.ndim == 3:
        if shape[2] in (3, 4) and min(shape[:2]) >= 8:
            raise InputError(f"{where}: shape {shape} looks like one colour picture; stack several, (n,) + {shape}.")
        return images
    if shape[3] not in (1, 3, 4):
        if shape[1] not in (1, 3, 4):
            raise InputError(f"{where}: shape {shape} has no axis of 1, 3 or 4 channels; pictures come {_SHAPES}.")
        images = np.moveaxis(images, 1, 3)
    return images[..., 0] if images.shape[3] == 1 else images


def _eight_bits(images: Array, where: str, stretch: bool) -> tuple[Array, tuple[str, ...]]:
    """Levels as uint8, whatever range they came in."""
    if images.dtype.kind not in "buif":
        raise InputError(f"{where}: pictures must be numbers; got {images.dtype}.")
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        bad = int(np.argmin(np.isfinite(images).reshape(len(images), -1).all(1)))
        raise InputError(f"{where}: picture {bad + 1} holds NaN or infinity; every pixel needs a level from 0 to 255.")
    low, high = float(images.min()), float(images.max())
    if low < -1e-6 or high > 65535 or (images.dtype.kind == "f" and high > 255.5):
        raise InputError(
            f"{where}: levels run from {low:g} to {high:g}; bring them to 0 to 255, or to 0 to 1, before saving."
        )
    whole = images.dtype.kind in "ui"
    if high <= 1 + 1e-6 and (stretch or not whole):
        notes = ("levels 0 and 1 were taken for black and white",) if whole and high > 0 else ()
        return np.rint(np.clip(images, 0, 1) * 255.0).astype(np.uint8), notes
    if high > 255.5:
        return np.rint(images / 257.0).astype(np.uint8), ("levels up to 65535 were brought to 0 to 255",)
    dark = f"the highest level is {high:g} of 255, so that pictures are dark; rescale them if that is not meant"
    return np.clip(np.rint(images), 0, 255).astype(np.uint8), (dark,) if stretch and high < 64 else ()
