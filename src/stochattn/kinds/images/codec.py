"""The codec of images of one size: uint8 items, floats in [0, 1] for generators, and conditions on pixels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..._backend.arrays import Array
from ..._backend.state import Plain
from .. import Codec, Conditioned, InputError
from ..codec import index_of, parse_interval, suggest_ids
from .generator.patches import ConditionedPixels

NEW_NAME = "new-{:06d}.png"
CONTACT_SHEET, TABLE = "contact-sheet.png", "samples.csv"  # files beside new images; version 0.1 wrote the sheet
SHAPES = "as an array (n, height, width) or (n, height, width, 3)"
MAX_CONTRADICTION = 1e-9  # pixel values in [0, 1] that differ by more contradict each other
_PLACE = re.compile(r"\s*(\d+)\s*(?::\s*(\d+)\s*)?,\s*(\d+)\s*(?::\s*(\d+)\s*)?")


@dataclass(frozen=True, eq=False)
class ImageCodec(Codec):
    """Images of one size, gray (n, h, w) or RGB (n, h, w, 3), uint8; values in arrays are from 0 to 1."""

    stored: Array
    ids: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    class_size: int | None = None  # of a refitted codec: the size of the largest class in the original data

    def require_variety(self, where: str) -> ImageCodec:
        """Returns this codec; InputError, which names `where` images are from, if there are not two different ones."""
        if self.K < 2:
            raise InputError(f"{where} holds one image, and at least two are needed: add others like it.")
        if (self.stored == self.stored[:1]).all():
            raise InputError(f"{where}: all images are equal, so there is nothing to vary. Add different ones.")
        return self

    @property
    def shape(self) -> tuple[int, ...]:  # of an image: (h, w) or (h, w, 3)
        return tuple(self.stored.shape[1:])

    def encode(self, items: Array) -> Array:
        return np.asarray(items).astype(np.float32) / 255

    def decode(self, arrays: Array, source: Array | None = None) -> Array:
        return np.clip(np.rint(arrays * 255), 0, 255).astype(np.uint8)

    def features(self, items: Array) -> Array:
        return np.asarray(items).reshape(len(items), -1) / 255.0

    def largest_class(self, counted: Array) -> int:
        """Size of the largest class, or of all without classes, among images that are `counted`, (K,) booleans."""
        if self.class_size is not None:
            return self.class_size
        return max(Counter("" if self.labels is None else self.labels[i] for i in np.flatnonzero(counted)).values())

    def refit(self, items: Array) -> ImageCodec:
        """A codec of other images of the same shape; those that are stored here keep their class and its size."""
        ids, class_size = tuple(str(i + 1) for i in range(len(items))), self.largest_class(np.ones(self.K, dtype=bool))
        codec = ImageCodec(np.asarray(items), ids, self.labels_among(np.asarray(items)), class_size=class_size)
        return codec.require_variety("a part of the stored images")

    def state(self) -> dict[str, Plain]:
        return dict(vars(self))

    def condition(self, values: Mapping[object, object]) -> Conditioned:
        """Pixels {(row, column): value} and rectangles {((top, bottom), (left, right)): image}, counted from 0.

        value: from 0 to 255, or three such values for red, green and blue
        image: the id of a stored image, an array (h, w[, 3]) from which the rectangle is read, or an array of the
               rectangle itself. `bottom` and `right` are excluded; slices may replace pairs where Python can hash them
        """
        pixels, rectangles = np.full(self.shape, np.nan), np.full(self.shape, np.nan)
        for key, value in values.items():
            if not (isinstance(key, tuple) and len(key) == 2):
                rule = "must be (row, column) for a pixel, or ((top, bottom), (left, right)) for a rectangle"
                raise InputError(f"condition {key!r} {rule}.")
            place = _interval(key, 0, self.shape[0]), _interval(key, 1, self.shape[1])
            if all(isinstance(part, int | np.integer) for part in key):
                before = pixels[place]
                wanted = np.array(_read_pixel(f"{key!r}={value!r}", value, len(self.shape) == 3))
            else:
                before, wanted = rectangles[place], self._read_rectangle(key, value, place)
            if (np.abs(before - wanted / 255) > MAX_CONTRADICTION).any():  # false for NaN, a free pixel
                raise InputError(f"condition {key!r} contradicts another condition on the same pixel: remove one.")
            before[:] = wanted / 255
        of_pixels, of_rectangles = ~np.isnan(pixels), np.isnan(pixels) & ~np.isnan(rectangles)
        levels = np.select([of_pixels, of_rectangles], [pixels, rectangles])
        return Conditioned(self, ConditionedPixels(of_pixels, of_rectangles, levels))

    def _read_rectangle(self, key: object, value: object, place: tuple[slice, slice]) -> Array:
        """Pixel values of a rectangle from a stored image, another image, or an array of the rectangle itself."""
        if isinstance(value, str):
            if (k := index_of(self.ids, value)) is None:
                suggestion = suggest_ids(value, self.ids)
                raise InputError(f"condition {key!r}: no stored image has the id {value!r}; {suggestion}")
            return self.stored[k][place]
        image, shape = np.asarray(value), self.stored[0][place].shape
        if image.shape == self.shape:
            image = image[place]
        elif image.shape != shape:
            rule = f"must be an image of shape {self.shape}, a rectangle of shape {shape}, or the id of a stored"
            raise InputError(f"condition {key!r} {rule} image; got shape {image.shape}.")
        _check_pixels(repr(key), image)
        return image


def parse_conditions(codec: ImageCodec, texts: Sequence[str]) -> dict[object, object]:
    """Strings ROW,COLUMN=VALUE and ROW:ROW,COLUMN:COLUMN=ID as conditions for `ImageCodec.condition`.

    Rows and columns count from 1 and include both ends. ID is that of a stored image, or an image file of any size.
    """
    conditions: dict[object, object] = {}
    for text in texts:
        place, _, value = (part.strip() for part in text.partition("="))
        match = _PLACE.fullmatch(place)
        if not match or not value or (match[2] is None) != (match[4] is None):
            rule = "write ROW,COLUMN=VALUE for a pixel, or ROW:ROW,COLUMN:COLUMN=ID for a rectangle of the stored"
            raise InputError(f"condition {text!r} is not understood: {rule} image, or the image file, ID.")
        top, bottom, left, right = (int(match[i] or match[i - 1]) for i in range(1, 5))
        for name, first, last, side in (("row", top, bottom, codec.shape[0]), ("column", left, right, codec.shape[1])):
            if not 1 <= first <= last <= side:
                asked = f"{first}" if first == last else f"{first}:{last}"
                raise InputError(f"condition {text!r}: {name} {asked} must lie within 1 to {side}.")
        key: object = ((top - 1, bottom), (left - 1, right)) if match[2] else (top - 1, left - 1)
        wanted: object = value
        if not match[2]:
            values = _read_pixel(repr(text), value.split("/"), len(codec.shape) == 3)
            wanted = values if "/" in value else values[0]
        elif index_of(codec.ids, value) is None:
            if not Path(value).is_file():
                rule = f"no stored image has the id {value!r}, and no file has that name"
                raise InputError(f"condition {text!r}: {rule}; {suggest_ids(value, codec.ids)}")
            from .reading import convert_color, load, resize  # which need Pillow

            image = resize(load(Path(value))[0], (codec.shape[1], codec.shape[0]))
            wanted = convert_color(image[None], len(codec.shape) == 3)[0][0]
        if not np.array_equal(conditions.setdefault(key, wanted), wanted):  # type: ignore[arg-type]
            raise InputError(f"condition {text!r} contradicts another condition on the same pixels: remove one.")
    return conditions


def _interval(key: tuple[object, object], axis: int, side: int) -> slice:
    part, name = key[axis], ("row", "column")[axis]
    if (interval := parse_interval(part, side)) is None:
        raise InputError(f"condition {key!r}: a {name} must be a number or a pair (start, stop); got {part!r}.")
    if interval == (0, 0):
        raise InputError(f"condition {key!r}: {name} {part!r} must lie within 0 to {side - 1}.")
    return slice(*interval)


def _read_pixel(condition: str, value: object, is_color: bool) -> tuple[float, ...]:
    n_channels = 3 if is_color else 1
    try:
        channels = tuple(float(channel) for channel in np.ravel(value))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        channels = ()
    channels = channels * n_channels if len(channels) == 1 else channels
    if len(channels) != n_channels:
        expected = "a value such as 128, or three for red, green and blue" if is_color else "one value such as 128"
        raise InputError(f"condition {condition}: a pixel of these images takes {expected}.")
    _check_pixels(condition, np.array(channels))
    return channels


def _check_pixels(condition: str, values: Array) -> None:
    if values.dtype.kind not in "uif" or not ((values >= 0) & (values <= 255)).all():
        raise InputError(f"condition {condition}: pixel values must lie within 0 to 255.")
    if (values % 1).any():
        rule = "pixel values are integers from 0 to 255, even if 0 to 1 was stored"
        raise InputError(f"condition {condition}: {rule}: multiply by 255 and round.")


def convert_pixels(array: Array, where: str, rescale: bool) -> tuple[Array, tuple[str, ...]]:
    """Images (n, h, w) or (n, h, w, 3) as uint8, and notes on what was assumed.

    array: (n, h, w), (n, h, w, c) or (n, c, h, w), c = 1, 3, 4; rescale: whether integers 0 and 1 are black and white
    """
    shape, problem = array.shape, ""
    if array.ndim == 2:
        problem = "is one row per example, as in a table: pass kind='table', or"
    elif array.ndim not in (3, 4) or 0 in shape:
        problem = "has no pixel:" if 0 in shape else "must be that of images:"
    elif array.ndim == 3 and shape[2] in (3, 4) and min(shape[:2]) >= 8:
        problem = f"looks like one color image; stack several, (n,) + {shape}:"
    elif array.ndim == 4 and not {shape[1], shape[3]} & {1, 3, 4}:
        problem = "has no axis of 1, 3 or 4 channels:"
    if problem:
        raise InputError(f"{where}: shape {shape} {problem} pass images {SHAPES}.")
    if array.ndim == 4 and shape[3] not in (1, 3, 4):
        array = np.moveaxis(array, 1, 3)
    array = array[..., 0] if array.ndim == 4 and array.shape[3] == 1 else array
    images, notes = _convert_to_uint8(array, where, rescale)
    if images.ndim == 4 and images.shape[3] == 4:
        opacity = images[..., 3:].astype(np.float64) / 255
        if opacity.min() < 1:
            notes = (*notes, "transparent parts were placed on white")
        images = np.rint(images[..., :3] * opacity + 255 * (1 - opacity)).astype(np.uint8)
    return images, notes


def _convert_to_uint8(images: Array, where: str, rescale: bool) -> tuple[Array, tuple[str, ...]]:
    kind = images.dtype.kind
    if kind not in "buif":
        raise InputError(f"{where}: images must be numbers; got {images.dtype}.")
    if kind == "f" and not np.isfinite(images).all():
        i = int(np.argmin(np.isfinite(images).reshape(len(images), -1).all(1)))
        raise InputError(f"{where}: image {i + 1} has NaN or infinity; every pixel needs a value from 0 to 255.")
    low, high = float(images.min()), float(images.max())
    if low < -1e-6 or high > 65535 or (kind == "f" and high > 255.5):
        raise InputError(f"{where}: pixel values run from {low:g} to {high:g}; scale them to 0 to 255, or to 0 to 1.")
    if high <= 1 + 1e-6 and (rescale or kind not in "ui"):
        notes = ("pixel values 0 and 1 were read as black and white",) if kind in "ui" and high > 0 else ()
        return np.rint(np.clip(images, 0, 1) * 255.0).astype(np.uint8), notes
    if high > 255.5:
        return np.rint(images / 257.0).astype(np.uint8), ("pixel values up to 65535 were scaled to 0 to 255",)
    dark = f"the largest pixel value is {high:g} of 255, so images are dark; rescale them if this is wrong"
    return np.clip(np.rint(images), 0, 255).astype(np.uint8), (dark,) if rescale and high < 64 else ()
