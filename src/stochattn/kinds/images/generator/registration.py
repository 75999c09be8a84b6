"""Registration of images: the smooth displacement field that carries one stored image onto another.

A field u (2, h, w) says where the pixels of the fixed image lie in the moving one, moving(x + u(x)) ≈ fixed(x).
Thirion's demons find it: each step moves pixels along the gradient g of the warped image, by

    δ = d·g / (‖g‖² + d²/4 + ε)        u ← E(u + F(δ))        d = fixed − warped

with Gaussian smoothers F of the step and E of the field. It works on blurred images first and on sharper ones later,
at about 28 pixels a side whatever the size of the images: fields are smooth, so that finer grids only cost time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from ...._backend.arrays import Array, NumpyArray, concatenate, full, like, namespace, on_cuda, to_numpy

SIDE = 28
"""Pixels along the shorter side at which fields are found. Smaller images are enlarged: gradients between few pixels
are too rough for fields to be smooth. Lengths below are in pixels of this size."""
MAX_AREA = 4 * SIDE**2
"""Pixels at which fields of elongated images are found."""
LEVELS = ((0.5, 3.0, 2.5, 10), (1.0, 1.5, 2.5, 10), (1.0, 0.7, 2.0, 12))
"""Resolution, blur of the images, smoothness of the field and number of steps, one level after the other."""
STEP_SMOOTHNESS = 2.0
LEAST_GRADIENT = 1e-3
"""ε, in squared units of the range of levels: flat regions move with those around them, and not by noise."""
BESIDE, SMALL = 1.0, 1e-3
"""Pixels over which levels around a pixel are averaged, and how much they count beside its own."""
SAME_BACKGROUND = 0.1
"""Standard deviations of an image within which pixels of an edge are of one background."""
PAIRS_AT_A_TIME = 64
PAIRS_ON_GPU = 1024


@dataclass(frozen=True, eq=False)
class _Level:
    """Stored images at one resolution, blurred, with the smoothers of steps and fields."""

    images: Array  # (K, h, w)
    step: tuple[Array, Array]
    field: tuple[Array, Array]
    n_steps: int

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.images.shape[1]), int(self.images.shape[2])


class Registration:
    """Displacement fields between stored images (K, H, W); `images` (K, h, w) are these at the size of fields."""

    def __init__(self, images: Array) -> None:
        self.size = int(images.shape[1]), int(images.shape[2])
        scale = min(SIDE / min(self.size), math.sqrt(MAX_AREA / math.prod(self.size)))
        self.shape = _rounded(self.size, scale)
        self.images, unit = resized(images, self.shape), min(self.shape) / SIDE
        self.levels = [self._level(self.images, unit, *level) for level in LEVELS]

    def _level(self, coarse: Array, unit: float, resolution: float, blur: float, smooth: float, steps: int) -> _Level:
        shape = _rounded(self.shape, resolution)
        seen = resized(blurred(coarse, blur * unit), shape)
        low, high = float(seen.min()), float(seen.max())
        seen = (seen - low) / max(high - low, float(np.finfo(np.float32).tiny))
        here = unit * shape[0] / self.shape[0]
        of_step, of_field = (_gaussians(shape, length * here, coarse) for length in (STEP_SMOOTHNESS, smooth))
        return _Level(seen, of_step, of_field, steps)

    def fields(self, moving: NumpyArray, fixed: NumpyArray) -> Array:
        """Fields that carry stored images `moving` onto `fixed`, indices (n,): (n, 2, h, w), in pixels of `shape`."""
        n, block = len(moving), PAIRS_ON_GPU if on_cuda(self.images) else PAIRS_AT_A_TIME
        if on_cuda(self.images):  # blocks of one size, so that the bits of a field do not depend on the other pairs
            moving, fixed = (np.concatenate([some, np.repeat(some[-1:], -n % block)]) for some in (moving, fixed))
        parts = [slice(i, i + block) for i in range(0, len(moving), block)]
        return concatenate([self._fields(moving[part], fixed[part]) for part in parts])[:n]

    def _fields(self, moving: NumpyArray, fixed: NumpyArray) -> Array:
        u = full((len(moving), 2, *self.levels[0].shape), 0.0, self.levels[0].images)
        for level in self.levels:
            u = enlarged(u, level.shape)
            from_image = moving[:, None, None] * (level.shape[0] * level.shape[1])
            start, flat = like(from_image, u, keep_dtype=True), level.images.reshape(-1)
            target = level.images[like(fixed, u, keep_dtype=True)]
            for _ in range(level.n_steps):
                u = _apply(level.field, u + _apply(level.step, _demons(flat, start, u, target)))
        return u


def _demons(flat: Array, start: Array, u: Array, target: Array) -> Array:
    """δ of the module's formula, without smoothing: (n, 2, h, w)."""
    warped = _bilinear(flat, start, u)
    difference, step = target - warped, namespace(u).empty_like(u)
    down, across = step[:, 0], step[:, 1]
    down[:, 1:-1] = (warped[:, 2:] - warped[:, :-2]) / 2
    down[:, 0], down[:, -1] = warped[:, 1] - warped[:, 0], warped[:, -1] - warped[:, -2]
    across[:, :, 1:-1] = (warped[:, :, 2:] - warped[:, :, :-2]) / 2
    across[:, :, 0], across[:, :, -1] = warped[:, :, 1] - warped[:, :, 0], warped[:, :, -1] - warped[:, :, -2]
    difference /= down**2 + across**2 + difference**2 / 4 + LEAST_GRADIENT
    step *= difference[:, None]
    return step


def _bilinear(flat: Array, start: Array, u: Array) -> Array:
    """Images at x + u(x), edges continued outwards: those that begin at `start` (n, 1, 1) in `flat` -> (n, h, w)."""
    xp, (h, w) = namespace(u), (int(u.shape[2]), int(u.shape[3]))
    rows, columns = grid((h, w), u)
    y, x = xp.clip(u[:, 0] + rows, 0, h - 1), xp.clip(u[:, 1] + columns, 0, w - 1)
    # The cell of the last pixel is the one before it, whose far side it is.
    top, left = xp.clip(xp.floor(y), 0, max(h - 2, 0)), xp.clip(xp.floor(x), 0, max(w - 2, 0))
    y, x = y - top, x - left
    corner = _whole(top * w + left) + start
    above, below = flat.take(corner), flat.take(corner + w)
    above = above + x * (flat.take(corner + 1) - above)
    below = below + x * (flat.take(corner + w + 1) - below)
    return above + y * (below - above)


def grid(shape: tuple[int, int], reference: Array) -> tuple[Array, Array]:
    """Row numbers (h, 1) and column numbers (w,), as floats like the reference."""
    return like(np.arange(shape[0])[:, None], reference), like(np.arange(shape[1]), reference)


def _whole(x: Array) -> Array:
    return x.astype(np.int64) if isinstance(x, np.ndarray) else x.long()


def enlarged(u: Array, shape: tuple[int, int]) -> Array:
    """Fields (..., h, w) at another resolution, in its pixels."""
    if tuple(u.shape[-2:]) == shape:
        return u
    scale = np.array([new / old for new, old in zip(shape, u.shape[-2:], strict=True)])[:, None, None]
    return resized(u, shape) * like(scale, u)


def resized(x: Array, shape: tuple[int, int]) -> Array:
    """Images (..., H, W) at another resolution: linear interpolation, or weighted means where it is lower."""
    if tuple(x.shape[-2:]) == shape:
        return x
    down, across = (_resizing(int(old), new) for old, new in zip(x.shape[-2:], shape, strict=True))
    return like(down, x) @ x @ like(across.T, x)


def blurred(x: Array, width: float) -> Array:
    """Images (..., H, W) after a Gaussian filter of this standard deviation in pixels, edges continued outwards."""
    return _apply(_gaussians((int(x.shape[-2]), int(x.shape[-1])), width, x), x)


def _apply(matrices: tuple[Array, Array], x: Array) -> Array:
    return matrices[0] @ x @ matrices[1]


def _gaussians(shape: tuple[int, int], length: float, reference: Array) -> tuple[Array, Array]:
    down, across = (_gaussian(side, length) for side in shape)
    return like(down, reference), like(across.T, reference)


@cache
def _gaussian(side: int, length: float) -> NumpyArray:
    """Gaussian means along a side, whose last pixels are continued outwards: (side, side)."""
    reach = np.arange(-int(4 * length) - 1, side + int(4 * length) + 1)
    return _at_pixels(np.exp(-0.5 * ((np.arange(side)[:, None] - reach) / length) ** 2), reach, side)


@cache
def _resizing(old: int, new: int) -> NumpyArray:
    """Triangular weights as wide as the larger pixel: (new, old)."""
    places, width = (np.arange(new) + 0.5) * old / new - 0.5, max(old / new, 1.0)
    reach = np.arange(-int(width) - 1, old + int(width) + 1)
    return _at_pixels(np.clip(1 - np.abs(places[:, None] - reach) / width, 0.0, None), reach, old)


def _at_pixels(weights: NumpyArray, reach: NumpyArray, side: int) -> NumpyArray:
    """Weights (n, reach) of positions, those outside given to the nearest pixel: (n, side), each row with sum 1."""
    within = np.zeros((len(weights), side))
    np.add.at(within.T, np.clip(reach, 0, side - 1), weights.T)
    return np.asarray(within / within.sum(1, keepdims=True))


def _rounded(shape: tuple[int, int], scale: float) -> tuple[int, int]:
    return max(round(shape[0] * scale), 2), max(round(shape[1] * scale), 2)


class SplineImages:
    """Stored images as cubic splines, (K, H, W, C), to be read between their pixels without a loss of sharpness."""

    MARGIN = 3
    """Pixels that continue the edges, as many as a cubic spline and its filter see."""
    MAX_BYTES = 2**26
    """Bytes of images whose coefficients are kept. Those of others are computed when they are needed."""

    def __init__(self, images: Array) -> None:
        self.images, self.size = images, (int(images.shape[1]), int(images.shape[2]))
        self.has_background = show_background(images)
        self.coefficients = self._filtered(images) if images.nbytes <= self.MAX_BYTES else None

    def _filtered(self, images: Array) -> Array:
        """Coefficients of images (n, H, W, C) and of a margin."""
        from scipy.ndimage import spline_filter1d

        values = np.pad(to_numpy(images), [(0, 0), *[(self.MARGIN, self.MARGIN)] * 2, (0, 0)], mode="edge")
        for axis in (1, 2):
            values = spline_filter1d(values, 3, axis, output=values.dtype, mode="nearest")
        return like(values, images)

    def at(self, index: NumpyArray, u: Array) -> Array:
        """Images (n,) of these indices at x + u(x), (n, 2, H, W) -> (n, H, W, C).

        Beyond an edge, an image is reflected, or goes on where the edge shows a background: the nearest pixels of
        other edges would be streaks, and reflected lines beside a background would be spots.
        """
        xp, (H, W), m = namespace(u), self.size, self.MARGIN
        rows, columns = grid((H, W), u)
        edges = like(self.has_background[index], u, keep_dtype=True)[..., None, None]
        y = within(u[:, 0] + rows, H, edges[:, 0], edges[:, 1]) + m
        x = within(u[:, 1] + columns, W, edges[:, 2], edges[:, 3]) + m
        top, left = xp.floor(y), xp.floor(x)
        coefficients, given = self.coefficients, index
        if coefficients is None:
            some, index = np.unique(index, return_inverse=True)
            coefficients = self._filtered(self.images[like(some, self.images, keep_dtype=True)])
        of_image = like(index, u, keep_dtype=True)[:, None, None]
        first_row, first_column = _whole(top) - 1, _whole(left) - 1
        down, across = _cubic(y - top), _cubic(x - left)
        total = namespace(u).zeros_like(coefficients[of_image, first_row, first_column])
        for i, of_row in enumerate(down):
            for j, of_column in enumerate(across):
                weight = (of_row * of_column)[..., None]
                total += weight * coefficients[of_image, first_row + i, first_column + j]
        return self._between_pixels(total, like(given, u, keep_dtype=True)[:, None, None], _whole(top), _whole(left))

    def _between_pixels(self, values: Array, image: Array, row: Array, column: Array) -> Array:
        """Values (n, H, W, C) no further out than the four stored pixels around their place: splines overshoot."""
        xp, (H, W) = namespace(values), self.size
        row, column = row - self.MARGIN, column - self.MARGIN
        below, right = xp.clip(row + 1, 0, H - 1), xp.clip(column + 1, 0, W - 1)
        low = high = self.images[image, row, column]
        for i, j in ((below, column), (row, right), (below, right)):
            corner = self.images[image, i, j]
            low, high = xp.minimum(low, corner), xp.maximum(high, corner)
        return xp.minimum(xp.maximum(values, low), high)


def within(position: Array, side: int, first: Array | bool, last: Array | bool) -> Array:
    """Positions in pixels, those beyond an end of a side reflected there, or moved to it if `first` or `last` is true.

    >>> within(np.array([-1.5, 2.0, 4.0]), 4, False, True).tolist()
    [1.5, 2.0, 3.0]
    """
    xp, end = namespace(position), max(side - 1, 1)
    inside = xp.clip(position, 0, side - 1)
    goes_on = ((position < 0) & first) | ((position > side - 1) & last)
    return xp.where(goes_on, inside, xp.clip(end - abs(position % (2 * end) - end), 0, side - 1))


def show_background(images: Array) -> NumpyArray:
    """Whether most of the top, bottom, left and right edge of images (K, H, W, C) has one value: (K, 4)."""
    values = to_numpy(images)
    tolerance = SAME_BACKGROUND * values.std((1, 2, 3))[:, None, None]
    edges = values[:, 0], values[:, -1], values[:, :, 0], values[:, :, -1]
    from_median = [np.abs(edge - np.median(edge, axis=1, keepdims=True)) <= tolerance for edge in edges]
    return np.stack([(near.mean((1, 2)) > 0.5) for near in from_median], axis=1)


def with_levels_of(moved: Array, images: Array) -> Array:
    """`moved` (n, H, W, C) with the levels of `images`, in the same order within each channel.

    Interpolation blurs: there are fewer of the darkest and of the brightest levels after it. The order of pixels by
    their levels is kept, and the r-th smallest level is that of the image that was moved. Of pixels of one level,
    those beside higher ones come last. No level is further out than those of `moved` within a pixel of it: lines become
    wider or thinner, and no spots appear in a background.
    """
    n, H, W, C = moved.shape
    around = blurred(namespace(moved).moveaxis(moved, 3, 1), BESIDE)
    order_of = moved + SMALL * namespace(moved).moveaxis(around, 1, 3)
    flat, levels = order_of.reshape(n, H * W, C), images.reshape(n, H * W, C)
    if isinstance(flat, np.ndarray):
        found: Array = np.empty_like(flat)
        np.put_along_axis(found, np.argsort(flat, axis=1, kind="stable"), np.sort(levels, axis=1), axis=1)
    else:
        torch = namespace(flat)
        order, ordered = torch.argsort(flat, dim=1, stable=True), torch.sort(levels, dim=1)[0]
        found = torch.scatter(flat, 1, order, ordered)
    return _limited(found.reshape(n, H, W, C), moved)


def _limited(values: Array, images: Array) -> Array:
    """Values (n, H, W, C) no further out than those of the images within a pixel of their place."""
    xp, low, high = namespace(values), images, images
    for axis in (1, 2):
        places, side = np.arange(int(images.shape[axis])), int(images.shape[axis])
        lows, highs = low, high
        for near in (np.clip(places - 1, 0, None), np.clip(places + 1, None, side - 1)):
            at = like(near, images, keep_dtype=True)
            others = (lows[:, at], highs[:, at]) if axis == 1 else (lows[:, :, at], highs[:, :, at])
            low, high = xp.minimum(low, others[0]), xp.maximum(high, others[1])
    return xp.minimum(xp.maximum(values, low), high)


def _cubic(t: Array) -> tuple[Array, Array, Array, Array]:
    """Weights of the cubic B-spline at the four pixels around a place, t in [0, 1) after the second."""
    s = 1 - t
    return s**3 / 6, (4 - 6 * t**2 + 3 * t**3) / 6, (4 - 6 * s**2 + 3 * s**3) / 6, t**3 / 6
