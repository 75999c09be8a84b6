"""Conditions on pixels and rectangles: typed values, and the texts of the command line that are parsed into them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..._backend.arrays import Array
from ...generators.patches import ConditionedPixels
from ..options import InputError

MAX_CONTRADICTION = 1e-9
"""Levels in [0, 1] that differ by more contradict each other."""
_PLACE = re.compile(r"\s*(\d+)\s*(?::\s*(\d+)\s*)?,\s*(\d+)\s*(?::\s*(\d+)\s*)?")


def conditioned_pixels(values: Mapping[object, object], stored: Array, ids: tuple[str, ...]) -> ConditionedPixels:
    """The values that conditions name, see `ImageCodec.condition`; InputError for impossible ones."""
    shape = tuple(stored.shape[1:])
    pixels, rectangles = np.full(shape, np.nan), np.full(shape, np.nan)
    for key, value in values.items():
        if not (isinstance(key, tuple) and len(key) == 2):
            rule = "must be (row, column) for a pixel, or ((top, bottom), (left, right)) for a rectangle"
            raise InputError(f"condition {key!r} {rule}.")
        place = _interval(key, key[0], "row", shape[0]), _interval(key, key[1], "column", shape[1])
        if all(isinstance(part, int | np.integer) for part in key):
            known, levels = pixels[place], np.array(_levels(f"{key!r}={value!r}", value, len(shape) == 3))
        else:
            known, levels = rectangles[place], _rectangle(key, value, stored, ids, place)
        if (np.abs(known - levels / 255) > MAX_CONTRADICTION).any():  # NaN, where nothing is known, does not exceed it
            raise InputError(f"condition {key!r} contradicts another one of the same pixel: remove one of them.")
        known[:] = levels / 255
    single, other = ~np.isnan(pixels), np.isnan(pixels) & ~np.isnan(rectangles)
    return ConditionedPixels(single, other, np.select([single, other], [pixels, rectangles]))


def parse_conditions(texts: Sequence[str], stored: Array, ids: tuple[str, ...]) -> dict[object, object]:
    """Texts ROW,COLUMN=LEVEL and ROW:ROW,COLUMN:COLUMN=ID as values for `ImageCodec.condition`.

    Rows and columns count from 1 and include both ends. ID is that of a stored picture, or a picture file, which is
    brought to the stored pictures' size.
    """
    found: dict[object, object] = {}
    for text in texts:
        place, _, value = (part.strip() for part in text.partition("="))
        match = _PLACE.fullmatch(place)
        if not match or not value or (match[2] is None) != (match[4] is None):
            raise InputError(
                f"condition {text!r} is not understood: write ROW,COLUMN=LEVEL for a pixel, or "
                "ROW:ROW,COLUMN:COLUMN=ID for a rectangle as in the stored picture, or the picture file, ID."
            )
        top, bottom = int(match[1]), int(match[2] or match[1])
        left, right = int(match[3]), int(match[4] or match[3])
        sides = ("row", top, bottom, stored.shape[1]), ("column", left, right, stored.shape[2])
        for name, first, last, side in sides:
            if not 1 <= first <= last <= side:
                asked = f"{first}" if first == last else f"{first}:{last}"
                raise InputError(f"condition {text!r}: {name} {asked} must lie within 1 to {side}.")
        key: object = (top - 1, left - 1)
        wanted: object
        if match[2] is None:
            levels = _levels(repr(text), value.split("/"), stored.ndim == 4)
            wanted = levels if "/" in value else levels[0]
        else:
            key, wanted = ((top - 1, bottom), (left - 1, right)), _picture(text, value, stored, ids)
        if not np.array_equal(found.setdefault(key, wanted), wanted):  # type: ignore[arg-type]
            raise InputError(f"condition {text!r} contradicts another one of the same place: remove one of them.")
    return found


def _interval(key: object, part: object, name: str, side: int) -> slice:
    """A number, a pair (start, stop) or a slice as a slice that lies within a side."""
    if isinstance(part, slice):
        start, stop, step = part.indices(side)
        inside = step == 1 and start < stop
    elif isinstance(part, int | np.integer):
        start = int(part) + (side if part < 0 else 0)
        stop = start + 1
        inside = 0 <= start < side
    elif isinstance(part, tuple) and len(part) == 2 and all(isinstance(end, int | np.integer) for end in part):
        start, stop = map(int, part)
        inside = 0 <= start < stop <= side
    else:
        raise InputError(f"condition {key!r}: a {name} must be a number or a pair (start, stop); got {part!r}.")
    if not inside:
        raise InputError(f"condition {key!r}: {name} {part!r} must lie within 0 to {side - 1}.")
    return slice(start, stop)


def _levels(condition: str, value: object, in_colour: bool) -> tuple[float, ...]:
    """One level for each channel of a pixel."""
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
    return levels


def _rectangle(key: object, value: object, stored: Array, ids: tuple[str, ...], place: tuple[slice, slice]) -> Array:
    """The levels of a rectangle, from a stored picture, another picture, or an array of the rectangle itself."""
    if isinstance(value, str):
        if value not in ids:
            raise InputError(f"condition {key!r}: no stored picture has the id {value!r}; {_similar(value, ids)}")
        return stored[ids.index(value)][place]
    picture = np.asarray(value)
    inside = stored[0][place].shape
    if picture.shape == stored.shape[1:]:
        picture = picture[place]
    elif picture.shape != inside:
        raise InputError(
            f"condition {key!r} must be a picture of shape {stored.shape[1:]}, a rectangle of shape {inside}, or the "
            f"id of a stored picture; got shape {picture.shape}."
        )
    if picture.dtype.kind not in "uif" or not ((picture >= 0) & (picture <= 255)).all():
        raise InputError(f"condition {key!r}: levels must lie within 0 to 255.")
    return picture


def _picture(text: str, name: str, stored: Array, ids: tuple[str, ...]) -> str | Array:
    """The id of a stored picture, or the picture in that file: (h, w[, 3])."""
    from .pictures import in_colour, load, resized  # which import this module

    if name in ids:
        return name
    if Path(name).is_file():
        image = resized(load(Path(name))[0], (stored.shape[2], stored.shape[1]))
        return in_colour(image[None], stored.ndim == 4)[0][0]
    raise InputError(
        f"condition {text!r}: no stored picture has the id {name!r}, and no file has that name; {_similar(name, ids)}"
    )


def _similar(name: str, ids: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, ids, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(ids[:3])} and others."
