"""Pictures and their levels: uint8 items of one size, floats in [0, 1] for generators; conditions on pixels."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..._backend.arrays import Array
from ..._backend.state import Plain
from .. import Codec, Conditioned, InputError
from ..codec import index_of
from .generator.patches import ConditionedPixels

NEW_NAME = "new-{:06d}.png"
CONTACT_SHEET, TABLE = "contact-sheet.png", "samples.csv"  # among new pictures; the sheet, in folders of 0.1
SHAPES = "as an array (n, height, width) or (n, height, width, 3)"
WHOLE_LEVELS = "levels are whole numbers from 0 to 255, also if 0 to 1 was stored: multiply by 255 and round."
MAX_CONTRADICTION = 1e-9  # levels in [0, 1] that differ by more contradict each other
_PLACE = re.compile(r"\s*(\d+)\s*(?::\s*(\d+)\s*)?,\s*(\d+)\s*(?::\s*(\d+)\s*)?")


@dataclass(frozen=True, eq=False)
class ImageCodec(Codec):
    """Pictures of one size, grey (n, h, w) or RGB (n, h, w, 3), uint8; in arrays, levels from 0 to 1."""

    stored: Array
    ids: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    class_size: int | None = None  # that of the largest class in the data that this codec was refitted from, if it was

    def require_variety(self, where: str) -> ImageCodec:
        """The same codec; InputError, which names `where` the pictures are from, if there is nothing to vary."""
        if self.K < 2:
            raise InputError(f"{where} holds one picture, and at least two are needed: add others like it.")
        if (self.stored == self.stored[:1]).all():
            raise InputError(f"{where}: the pictures are all alike, and there is nothing to vary. Add different ones.")
        return self

    @property
    def shape(self) -> tuple[int, ...]:  # of a picture: (h, w) or (h, w, 3)
        return tuple(self.stored.shape[1:])

    def encode(self, items: Array) -> Array:
        return np.asarray(items).astype(np.float32) / 255

    def decode(self, arrays: Array, source: Array | None = None) -> Array:
        return np.clip(np.rint(arrays * 255), 0, 255).astype(np.uint8)

    def features(self, items: Array) -> Array:
        return np.asarray(items).reshape(len(items), -1) / 255.0

    def largest_class(self, counted: Array) -> int:
        """Pictures of the largest class, or of all without classes, among those that are `counted` (K,) booleans."""
        if self.class_size is not None:
            return self.class_size
        return max(Counter("" if self.labels is None else self.labels[i] for i in np.flatnonzero(counted)).values())

    def refit(self, items: Array) -> ImageCodec:
        """A codec of other pictures of the same shape. Those that are stored here keep their class, and its size."""
        ids, class_size = tuple(str(i + 1) for i in range(len(items))), self.largest_class(np.ones(self.K, dtype=bool))
        codec = ImageCodec(np.asarray(items), ids, self.labels_among(np.asarray(items)), class_size=class_size)
        return codec.require_variety("a part of the stored pictures")

    def state(self) -> dict[str, Plain]:
        return dict(vars(self))

    def condition(self, values: Mapping[object, object]) -> Conditioned:
        """Pixels {(row, column): level} and rectangles {((top, bottom), (left, right)): picture}, counted from 0.

        level:   from 0 to 255, or three of them for red, green and blue
        picture: the id of a stored picture, an array (h, w[, 3]) from which the rectangle is read, or an array of the
                 rectangle itself. `bottom` and `right` are excluded; slices do as well, where Python can hash them
        """
        pixels, rectangles = np.full(self.shape, np.nan), np.full(self.shape, np.nan)
        for key, value in values.items():
            if not (isinstance(key, tuple) and len(key) == 2):
                rule = "must be (row, column) for a pixel, or ((top, bottom), (left, right)) for a rectangle"
                raise InputError(f"condition {key!r} {rule}.")
            place = _interval(key, 0, self.shape[0]), _interval(key, 1, self.shape[1])
            if all(isinstance(part, int | np.integer) for part in key):
                known, levels = pixels[place], np.array(_pixel(f"{key!r}={value!r}", value, len(self.shape) == 3))
            else:
                known, levels = rectangles[place], self._rectangle(key, value, place)
            if (np.abs(known - levels / 255) > MAX_CONTRADICTION).any():  # NaN, where nothing is known, is not larger
                raise InputError(f"condition {key!r} contradicts another one of the same pixel: remove one of them.")
            known[:] = levels / 255
        single, other = ~np.isnan(pixels), np.isnan(pixels) & ~np.isnan(rectangles)
        return Conditioned(self, ConditionedPixels(single, other, np.select([single, other], [pixels, rectangles])))

    def _rectangle(self, key: object, value: object, place: tuple[slice, slice]) -> Array:
        """The levels of a rectangle, from a stored picture, another picture, or an array of the rectangle itself."""
        if isinstance(value, str):
            if (k := index_of(self.ids, value)) is None:
                rule = f"no stored picture has the id {value!r}"
                raise InputError(f"condition {key!r}: {rule}; {_similar(value, self.ids)}")
            return self.stored[k][place]
        picture, inside = np.asarray(value), self.stored[0][place].shape
        if picture.shape == self.shape:
            picture = picture[place]
        elif picture.shape != inside:
            rule = f"must be a picture of shape {self.shape}, a rectangle of shape {inside}, or the id of a stored"
            raise InputError(f"condition {key!r} {rule} picture; got shape {picture.shape}.")
        if picture.dtype.kind not in "uif" or not ((picture >= 0) & (picture <= 255)).all():
            raise InputError(f"condition {key!r}: levels must lie within 0 to 255.")
        if (picture % 1).any():
            raise InputError(f"condition {key!r}: {WHOLE_LEVELS}")
        return picture


def parse_conditions(codec: ImageCodec, texts: Sequence[str]) -> dict[object, object]:
    """Texts ROW,COLUMN=LEVEL and ROW:ROW,COLUMN:COLUMN=ID as values for `ImageCodec.condition`.

    Rows and columns count from 1 and include both ends. ID is that of a stored picture, or a picture file of any size.
    """
    found: dict[object, object] = {}
    for text in texts:
        place, _, value = (part.strip() for part in text.partition("="))
        match = _PLACE.fullmatch(place)
        if not match or not value or (match[2] is None) != (match[4] is None):
            rule = "write ROW,COLUMN=LEVEL for a pixel, or ROW:ROW,COLUMN:COLUMN=ID for a rectangle as in the stored"
            raise InputError(f"condition {text!r} is not understood: {rule} picture, or the picture file, ID.")
        top, bottom, left, right = (int(match[i] or match[i - 1]) for i in range(1, 5))
        for name, first, last, side in (("row", top, bottom, codec.shape[0]), ("column", left, right, codec.shape[1])):
            if not 1 <= first <= last <= side:
                asked = f"{first}" if first == last else f"{first}:{last}"
                raise InputError(f"condition {text!r}: {name} {asked} must lie within 1 to {side}.")
        key: object = ((top - 1, bottom), (left - 1, right)) if match[2] else (top - 1, left - 1)
        wanted: object = value
        if not match[2]:
            levels = _pixel(repr(text), value.split("/"), len(codec.shape) == 3)
            wanted = levels if "/" in value else levels[0]
        elif index_of(codec.ids, value) is None:
            if not Path(value).is_file():
                rule = f"no stored picture has the id {value!r}, and no file has that name"
                raise InputError(f"condition {text!r}: {rule}; {_similar(value, codec.ids)}")
            from .reading import in_colour, load, resized  # which need Pillow

            image = resized(load(Path(value))[0], (codec.shape[1], codec.shape[0]))
            wanted = in_colour(image[None], len(codec.shape) == 3)[0][0]
        if not np.array_equal(found.setdefault(key, wanted), wanted):  # type: ignore[arg-type]
            raise InputError(f"condition {text!r} contradicts another one of the same place: remove one of them.")
    return found


def _interval(key: tuple[object, object], axis: int, side: int) -> slice:
    part, name, step = key[axis], ("row", "column")[axis], 1
    if isinstance(part, slice):
        start, stop, step = part.indices(side)
    elif isinstance(part, int | np.integer):
        start = int(part) + (side if part < 0 else 0)
        stop = start + 1
    elif isinstance(part, tuple) and len(part) == 2 and all(isinstance(end, int | np.integer) for end in part):
        start, stop = map(int, part)
    else:
        raise InputError(f"condition {key!r}: a {name} must be a number or a pair (start, stop); got {part!r}.")
    if step != 1 or not 0 <= start < stop <= side:
        raise InputError(f"condition {key!r}: {name} {part!r} must lie within 0 to {side - 1}.")
    return slice(start, stop)


def _pixel(condition: str, value: object, in_colour: bool) -> tuple[float, ...]:
    channels = 3 if in_colour else 1
    try:
        levels = tuple(float(level) for level in np.ravel(value))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        levels = ()
    levels = levels * channels if len(levels) == 1 else levels
    if len(levels) != channels:
        expected = "a level such as 128, or three for red, green and blue" if in_colour else "one level such as 128"
        raise InputError(f"condition {condition}: a pixel of these pictures takes {expected}.")
    if not all(0 <= level <= 255 for level in levels):
        raise InputError(f"condition {condition}: levels must lie within 0 to 255.")
    if any(level % 1 for level in levels):
        raise InputError(f"condition {condition}: {WHOLE_LEVELS}")
    return levels


def _similar(name: str, ids: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, ids, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(ids[:3])} and others."


def as_levels(array: Array, where: str, rescale: bool) -> tuple[Array, tuple[str, ...]]:
    """Pictures as levels: (n, h, w) or (n, h, w, 3) uint8, and notes on what was assumed.

    array: (n, h, w), (n, h, w, c) or (n, c, h, w), c = 1, 3, 4; rescale: whether whole levels 0 and 1 span the range
    """
    shape, problem = array.shape, ""
    if array.ndim == 2:
        problem = "is one row per example, as in a table: pass kind='table', or"
    elif array.ndim not in (3, 4) or 0 in shape:
        problem = "has no pixel:" if 0 in shape else "must be that of pictures:"
    elif array.ndim == 3 and shape[2] in (3, 4) and min(shape[:2]) >= 8:
        problem = f"looks like one colour picture; stack several, (n,) + {shape}:"
    elif array.ndim == 4 and not {shape[1], shape[3]} & {1, 3, 4}:
        problem = "has no axis of 1, 3 or 4 channels:"
    if problem:
        raise InputError(f"{where}: shape {shape} {problem} pass pictures {SHAPES}.")
    if array.ndim == 4 and shape[3] not in (1, 3, 4):
        array = np.moveaxis(array, 1, 3)
    images, notes = _eight_bits(array[..., 0] if array.ndim == 4 and array.shape[3] == 1 else array, where, rescale)
    if images.ndim == 4 and images.shape[3] == 4:
        opacity = images[..., 3:].astype(np.float64) / 255
        if opacity.min() < 1:
            notes = (*notes, "transparent parts were placed on white")
        images = np.rint(images[..., :3] * opacity + 255 * (1 - opacity)).astype(np.uint8)
    return images, notes


def _eight_bits(images: Array, where: str, rescale: bool) -> tuple[Array, tuple[str, ...]]:
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
