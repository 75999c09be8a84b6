"""What is asked of some pixels: as linear equations of coordinates, or as a mask and a picture."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ...generators.coordinates import Coordinates
from ..legacy import InputError
from .arrays import in_colour
from .pictures import load, of_size

MOST_EQUATIONS = 1000
"""Solving them takes time that grows with the square of this."""
NEGLIGIBLE = 1e-9
"""Singular values below this share of the largest are rounding."""


class Fixed(NamedTuple):
    """Features that are asked for: those of single pixels, and those of rectangles out of stored pictures."""

    pixels: dict[int, float]
    names: dict[int, str]  # how to call such a pixel, and its level, in a message
    areas: dict[int, float]


def pixels(fixes: Iterable[str], stored: Array, ids: tuple[str, ...]) -> Fixed:
    """The features that texts `ROW,COLUMN=LEVEL` and `ROW:ROW,COLUMN:COLUMN=ID` ask for; rows and columns from 1.

    ID is that of a stored picture, or a picture file, brought to the stored ones' size.
    """
    fixed = Fixed({}, {}, {})
    for text in fixes:
        place, _, value = text.partition("=")
        one = re.fullmatch(r"\s*(\d+)\s*,\s*(\d+)\s*", place)
        many = re.fullmatch(r"\s*(\d+)\s*:\s*(\d+)\s*,\s*(\d+)\s*:\s*(\d+)\s*", place)
        if not (one or many) or not value.strip():
            raise InputError(
                f"--fix {text!r} is not understood: write ROW,COLUMN=LEVEL for a pixel, "
                "or ROW:ROW,COLUMN:COLUMN=ID for a rectangle as in the stored picture, or picture file, ID."
            )
        if one:
            row, column = int(one[1]), int(one[2])
            columns = _features(text, (row, row), (column, column), stored.shape[1:])
            levels = _levels(text, value.strip(), len(columns))
            _agree(fixed.pixels, columns, np.array(levels) / 255, text)
            fixed.names.update(dict.fromkeys(columns, f"pixel {row},{column}"))
        elif many:
            top, bottom, left, right = (int(many[i]) for i in (1, 2, 3, 4))
            columns = _features(text, (top, bottom), (left, right), stored.shape[1:])
            picture = _picture(text, value.strip(), stored, ids).ravel()
            _agree(fixed.areas, columns, picture[columns] / 255, text)
    return fixed


def held(fixed: Fixed, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Which features are fixed, and a picture that has them: (h, w[, 3]) booleans, (h, w[, 3]). Single pixels win."""
    asked = {**fixed.areas, **fixed.pixels}
    mask, picture = np.zeros(shape, dtype=bool), np.zeros(shape)
    mask.ravel()[list(asked)] = True
    picture.ravel()[list(asked)] = list(asked.values())
    return mask, picture


def directions(fixed: Fixed, coordinates: Coordinates) -> tuple[Array, Array, str]:
    """Those features as equations A z = y, (r, d) and (r,), and a note where they are met in part.

    Single pixels are met exactly. Pictures in K − 1 directions are determined by as many pixels, so that a large
    rectangle would only give its own picture back: it takes at most half of the directions, those that count most.
    """
    columns = np.array(list(fixed.pixels), dtype=np.intp)
    A, y = _equations(columns, np.array(list(fixed.pixels.values())), coordinates)
    start, rows = _solve_exactly(A, y, fixed, coordinates)
    areas = {c: value for c, value in fixed.areas.items() if c not in fixed.pixels}
    if not areas:
        return A, y, ""
    wanted = np.array(list(areas.values()))
    more, levels = _equations(np.array(list(areas), dtype=np.intp), wanted, coordinates)
    if coordinates.outward is None:
        return np.concatenate([A, more]), np.concatenate([y, levels]), ""
    # Only what single pixels leave open can serve the rectangle, so that both are met together.
    left, sizes, right = np.linalg.svd(more - more @ rows.T @ rows, full_matrices=False)
    solid = int((sizes > NEGLIGIBLE * np.linalg.norm(more)).sum())
    r = min(solid, max(min(coordinates.d // 2, MOST_EQUATIONS) - len(rows), 1))
    targets = left[:, :r].T @ (levels - more @ start) / sizes[:r]
    share = float((sizes[:r] ** 2).sum() / max((sizes**2).sum(), np.finfo(float).tiny))
    note = (
        f"the fixed rectangle is met in {r} of {solid} directions, {share:.0%} of what varies in it: "
        "all of them would leave nothing to vary outside it"
    )
    return np.concatenate([A, right[:r]]), np.concatenate([y, targets]), note if r < solid else ""


def _equations(columns: Array, values: Array, coordinates: Coordinates) -> tuple[Array, Array]:
    """That the features `columns` have these values: (r, d), (r,)."""
    if coordinates.outward is None and len(columns) > MOST_EQUATIONS:
        raise InputError(
            f"--fix asks for {len(columns):,} values, and at most {MOST_EQUATIONS:,} can be met without principal "
            "components: fix a smaller rectangle, or keep the default variance."
        )
    return coordinates.observation(columns, values)


def _solve_exactly(A: Array, y: Array, fixed: Fixed, coordinates: Coordinates) -> tuple[Array, Array]:
    """The shortest z with A z = y, (d,), and an orthonormal basis of A's rows, (r, d); InputError if there is none."""
    if not len(A):
        return np.zeros(coordinates.d), np.zeros((0, coordinates.d))
    reach = np.abs(A).sum(1) > NEGLIGIBLE
    for i in np.flatnonzero(~reach & (np.abs(y) > 1e-6)):
        column = list(fixed.pixels)[i]
        level, always = fixed.pixels[column] * 255, coordinates.mean[column] * 255
        raise InputError(
            f"--fix: {fixed.names[column]} cannot be {level:g}: it is {always:.0f} in every stored picture, "
            "and so in every new one."
        )
    left, sizes, right = np.linalg.svd(A, full_matrices=False)
    solid = sizes > NEGLIGIBLE * sizes[0]
    inside = left[:, solid].T @ y
    if np.linalg.norm(y - left[:, solid] @ inside) > 1e-6 * max(1.0, float(np.linalg.norm(y))):
        raise InputError(
            f"--fix: these {len(y)} levels cannot be met together, for the stored pictures vary in "
            f"{coordinates.d} directions: fix fewer pixels."
        )
    return right[solid].T @ (inside / sizes[solid]), right[solid]


def _features(text: str, rows: tuple[int, int], columns: tuple[int, int], shape: tuple[int, ...]) -> Array:
    """The features of a rectangle, its ends included: every channel of each pixel."""
    for what, (first, last), most in (("row", rows, shape[0]), ("column", columns, shape[1])):
        if not 1 <= first <= last <= most:
            asked = f"{first}" if first == last else f"{first}:{last}"
            raise InputError(f"--fix {text!r}: {what} {asked} must lie within 1 to {most}.")
    numbers = np.arange(np.prod(shape)).reshape(shape)
    return numbers[rows[0] - 1 : rows[1], columns[0] - 1 : columns[1]].ravel()


def _levels(text: str, value: str, channels: int) -> list[float]:
    """One level for each channel of a pixel."""
    try:
        levels = [float(part) for part in value.split("/")]
    except ValueError:
        levels = []
    if len(levels) == 1:
        levels *= channels
    if len(levels) != channels:
        what = "a level such as 128, or three such as 255/128/0" if channels == 3 else "one level such as 128"
        raise InputError(f"--fix {text!r}: a pixel of these pictures takes {what}; got {value!r}.")
    if not all(0 <= level <= 255 for level in levels):
        raise InputError(f"--fix {text!r}: levels lie within 0 to 255; got {value!r}.")
    return levels


def _picture(text: str, name: str, stored: Array, ids: tuple[str, ...]) -> Array:
    """The stored picture of that id, or the one in that file: (h, w[, 3])."""
    if name in ids:
        return stored[ids.index(name)]
    if Path(name).is_file():
        image = of_size(load(Path(name)).image, (stored.shape[2], stored.shape[1]))
        return in_colour(np.asarray(image)[None], stored.ndim == 4)[0][0]
    near = difflib.get_close_matches(name, ids, n=3, cutoff=0.5)
    remedy = f"did you mean {' or '.join(near)}?" if near else f"ids are such as {', '.join(ids[:3])}."
    raise InputError(f"--fix {text!r}: no stored picture has the id {name!r}, and no file that name; {remedy}")


def _agree(known: dict[int, float], columns: Array, values: Array, text: str) -> None:
    """Add these values, unless others were asked for before."""
    for column, value in zip(columns.tolist(), values.tolist(), strict=True):
        if abs(known.setdefault(column, value) - value) > NEGLIGIBLE:
            raise InputError(f"--fix {text!r} contradicts an earlier --fix of the same pixel: keep one of them.")
