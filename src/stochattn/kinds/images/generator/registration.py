"""Registration of images: the smooth displacement field that carries one stored image onto another.

A field u (2, h, w) says where the pixels of the fixed image lie in the moving one, moving(x + u(x)) ≈ fixed(x). It is
estimated by Thirion's demons: each step moves pixels along the gradient g of the warped image, by

    δ = d·g / (‖g‖² + d²/4 + ε)        u ← E(u + F(δ))        d = fixed − warped

with Gaussian smoothers F of the step and E of the field, on blurred images first and on sharper ones later. Images of
any size are registered at about 28 pixels a side: fields are smooth, so that finer grids would only cost time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from ...._backend.arrays import Array, NumpyArray, concatenate, full, like, namespace, on_cuda, to_numpy
from ...smoothing import cubic_weights, fold_ends, gaussian_matrix

SIDE = 28
"""Pixels along the shorter side of a field. Smaller images are enlarged: gradients between few pixels are too rough for
smooth fields. Lengths below are in pixels of this size."""
MAX_AREA = 4 * SIDE**2
"""Largest number of pixels of a field, for elongated images."""
LEVELS = ((0.5, 3.0, 2.5, 10), (1.0, 1.5, 2.5, 10), (1.0, 0.7, 2.0, 12))
"""Resolution, blur of the images, smoothness of the field and number of steps, for each level in turn."""
STEP_SMOOTHNESS = 2.0
LEAST_GRADIENT = 1e-3
"""ε, in units of the squared range of pixel values: flat regions move with their surroundings, and not by noise."""
SURROUNDINGS, SURROUNDINGS_WEIGHT = 1.0, 1e-3
"""Width in pixels of the mean of values around a pixel, and its weight beside the value of the pixel."""
SAME_BACKGROUND = 0.1
"""Pixels of an edge are of one background if they differ by at most this share of the standard deviation."""
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
        self.shape = _scale_shape(self.size, scale)
        self.images, unit = resize(images, self.shape), min(self.shape) / SIDE
        self.levels = [self._level(self.images, unit, *level) for level in LEVELS]

    def _level(self, coarse: Array, unit: float, resolution: float, width: float, smooth: float, steps: int) -> _Level:
        shape = _scale_shape(self.shape, resolution)
        seen = resize(blur(coarse, width * unit), shape)
        low, high = float(seen.min()), float(seen.max())
        seen = (seen - low) / max(high - low, float(np.finfo(np.float32).tiny))
        here = unit * shape[0] / self.shape[0]
        of_step, of_field = (_gaussians(shape, length * here, coarse) for length in (STEP_SMOOTHNESS, smooth))
        return _Level(seen, of_step, of_field, steps)

    def fields(self, moving: NumpyArray, fixed: NumpyArray) -> Array:
        """Fields that carry stored images `moving` onto `fixed`, indices (n,): (n, 2, h, w), in pixels of `shape`."""
        n, block = len(moving), PAIRS_ON_GPU if on_cuda(self.images) else PAIRS_AT_A_TIME
        if on_cuda(self.images):  # blocks of one size, so that the bits of a field do not depend on the other pairs
            moving, fixed = (
                np.concatenate([indices, np.repeat(indices[-1:], -n % block)]) for indices in (moving, fixed)
            )
        parts = [slice(i, i + block) for i in range(0, len(moving), block)]
        return concatenate([self._fields(moving[part], fixed[part]) for part in parts])[:n]

    def _fields(self, moving: NumpyArray, fixed: NumpyArray) -> Array:
        u = full((len(moving), 2, *self.levels[0].shape), 0.0, self.levels[0].images)
        for level in self.levels:
            u = resample_fields(u, level.shape)
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
    """Images that begin at `start` (n, 1, 1) in `flat`, at x + u(x), with constant edges: (n, h, w)."""
    xp, (h, w) = namespace(u), (int(u.shape[2]), int(u.shape[3]))
    rows, columns = grid((h, w), u)
    y, x = xp.clip(u[:, 0] + rows, 0, h - 1), xp.clip(u[:, 1] + columns, 0, w - 1)
    # The last pixel belongs to the cell before it.
    top, left = xp.clip(xp.floor(y), 0, max(h - 2, 0)), xp.clip(xp.floor(x), 0, max(w - 2, 0))
    y, x = y - top, x - left
    corner = _to_integers(top * w + left) + start
    above, below = flat.take(corner), flat.take(corner + w)
    above = above + x * (flat.take(corner + 1) - above)
    below = below + x * (flat.take(corner + w + 1) - below)
    return above + y * (below - above)


def grid(shape: tuple[int, int], reference: Array) -> tuple[Array, Array]:
    """Row numbers (h, 1) and column numbers (w,), as floats like the reference."""
    return like(np.arange(shape[0])[:, None], reference), like(np.arange(shape[1]), reference)


def _to_integers(x: Array) -> Array:
    return x.astype(np.int64) if isinstance(x, np.ndarray) else x.long()


def resample_fields(u: Array, shape: tuple[int, int]) -> Array:
    """Fields (..., h, w) at another resolution, in pixels of this resolution."""
    if tuple(u.shape[-2:]) == shape:
        return u
    scale = np.array([new / old for new, old in zip(shape, u.shape[-2:], strict=True)])[:, None, None]
    return resize(u, shape) * like(scale, u)


def resize(x: Array, shape: tuple[int, int]) -> Array:
    """Images (..., H, W) at another resolution, by linear interpolation, or by weighted means if it is lower."""
    if tuple(x.shape[-2:]) == shape:
        return x
    down, across = (_resizing(int(old), new) for old, new in zip(x.shape[-2:], shape, strict=True))
    return like(down, x) @ x @ like(across.T, x)


def blur(x: Array, width: float) -> Array:
    """Images (..., H, W) after a Gaussian filter of this standard deviation in pixels, with constant edges."""
    return _apply(_gaussians((int(x.shape[-2]), int(x.shape[-1])), width, x), x)


def _apply(matrices: tuple[Array, Array], x: Array) -> Array:
    return matrices[0] @ x @ matrices[1]


def _gaussians(shape: tuple[int, int], length: float, reference: Array) -> tuple[Array, Array]:
    down, across = (gaussian_matrix(side, length) for side in shape)
    return like(down, reference), like(across.T, reference)


@cache
def _resizing(old: int, new: int) -> NumpyArray:
    """The matrix of triangular weights, as wide as the larger pixel: (new, old)."""
    places, width = (np.arange(new) + 0.5) * old / new - 0.5, max(old / new, 1.0)
    reach = np.arange(-int(width) - 1, old + int(width) + 1)
    return fold_ends(np.clip(1 - np.abs(places[:, None] - reach) / width, 0.0, None), reach, old)


def _scale_shape(shape: tuple[int, int], scale: float) -> tuple[int, int]:
    return max(round(shape[0] * scale), 2), max(round(shape[1] * scale), 2)


class SplineImages:
    """Stored images (K, H, W, C) as cubic splines, which interpolate between pixels without a loss of sharpness."""

    MARGIN = 3
    """Pixels by which edges are extended: as many as a cubic spline and its filter depend on."""
    MAX_BYTES = 2**26
    """Coefficients are kept for images of at most this size in bytes, and computed when needed for larger ones."""

    def __init__(self, images: Array) -> None:
        self.images, self.size = images, (int(images.shape[1]), int(images.shape[2]))
        self.has_background = find_backgrounds(images)
        self.coefficients = self._filter(images) if images.nbytes <= self.MAX_BYTES else None

    def _filter(self, images: Array) -> Array:
        """Coefficients of images (n, H, W, C) and of a margin."""
        from scipy.ndimage import spline_filter1d

        values = np.pad(to_numpy(images), [(0, 0), *[(self.MARGIN, self.MARGIN)] * 2, (0, 0)], mode="edge")
        for axis in (1, 2):
            values = spline_filter1d(values, 3, axis, output=values.dtype, mode="nearest")
        return like(values, images)

    def at(self, index: NumpyArray, u: Array) -> Array:
        """Images (n,) of these indices at x + u(x), (n, 2, H, W) -> (n, H, W, C).

        Beyond an edge, an image is constant if the edge shows a background, and reflected otherwise: constant edges
        would show streaks, and reflected lines beside a background would show as spots.
        """
        xp, (H, W), m = namespace(u), self.size, self.MARGIN
        rows, columns = grid((H, W), u)
        edges = like(self.has_background[index], u, keep_dtype=True)[..., None, None]
        y = within(u[:, 0] + rows, H, edges[:, 0], edges[:, 1]) + m
        x = within(u[:, 1] + columns, W, edges[:, 2], edges[:, 3]) + m
        top, left = xp.floor(y), xp.floor(x)
        coefficients, image = self.coefficients, index
        if coefficients is None:
            unique, index = np.unique(index, return_inverse=True)
            coefficients = self._filter(self.images[like(unique, self.images, keep_dtype=True)])
        of_image = like(index, u, keep_dtype=True)[:, None, None]
        first_row, first_column = _to_integers(top) - 1, _to_integers(left) - 1
        down, across = cubic_weights(y - top), cubic_weights(x - left)
        total = namespace(u).zeros_like(coefficients[of_image, first_row, first_column])
        for i, of_row in enumerate(down):
            for j, of_column in enumerate(across):
                weight = (of_row * of_column)[..., None]
                total += weight * coefficients[of_image, first_row + i, first_column + j]
        return self._between_pixels(
            total, like(image, u, keep_dtype=True)[:, None, None], _to_integers(top), _to_integers(left)
        )

    def _between_pixels(self, values: Array, image: Array, row: Array, column: Array) -> Array:
        """Values (n, H, W, C), limited to the range of the four stored pixels around them: splines overshoot."""
        xp, (H, W) = namespace(values), self.size
        row, column = row - self.MARGIN, column - self.MARGIN
        below, right = xp.clip(row + 1, 0, H - 1), xp.clip(column + 1, 0, W - 1)
        low = high = self.images[image, row, column]
        for i, j in ((below, column), (row, right), (below, right)):
            corner = self.images[image, i, j]
            low, high = xp.minimum(low, corner), xp.maximum(high, corner)
        return xp.minimum(xp.maximum(values, low), high)


def within(position: Array, side: int, first: Array | bool, last: Array | bool) -> Array:
    """Positions in pixels; those beyond an end are reflected, or moved to the end if `first` or `last` is true.

    >>> within(np.array([-1.5, 2.0, 4.0]), 4, False, True).tolist()
    [1.5, 2.0, 3.0]
    """
    xp, end = namespace(position), max(side - 1, 1)
    inside = xp.clip(position, 0, side - 1)
    is_constant = ((position < 0) & first) | ((position > side - 1) & last)
    return xp.where(is_constant, inside, xp.clip(end - abs(position % (2 * end) - end), 0, side - 1))


def find_backgrounds(images: Array) -> NumpyArray:
    """Whether most of the top, bottom, left and right edge of images (K, H, W, C) has one value: (K, 4)."""
    values = to_numpy(images)
    tolerance = SAME_BACKGROUND * values.std((1, 2, 3))[:, None, None]
    edges = values[:, 0], values[:, -1], values[:, :, 0], values[:, :, -1]
    from_median = [np.abs(edge - np.median(edge, axis=1, keepdims=True)) <= tolerance for edge in edges]
    return np.stack([(is_near.mean((1, 2)) > 0.5) for is_near in from_median], axis=1)


def restore_values(moved: Array, images: Array) -> Array:
    """`moved` (n, H, W, C) with the pixel values of `images`, in the same order within each channel.

    Interpolation blurs: it removes the darkest and the brightest pixel values. The order of pixels by their values is
    kept, and the r-th smallest value is replaced by that of the image that was moved. Of equal values, those beside
    larger ones come last. Values are limited to the range of `moved` within one pixel: lines become wider or thinner,
    and no spots appear in a background.
    """
    n, H, W, C = moved.shape
    surroundings = blur(namespace(moved).moveaxis(moved, 3, 1), SURROUNDINGS)
    order_of = moved + SURROUNDINGS_WEIGHT * namespace(moved).moveaxis(surroundings, 1, 3)
    flat, levels = order_of.reshape(n, H * W, C), images.reshape(n, H * W, C)
    if isinstance(flat, np.ndarray):
        restored: Array = np.empty_like(flat)
        np.put_along_axis(restored, np.argsort(flat, axis=1, kind="stable"), np.sort(levels, axis=1), axis=1)
    else:
        torch = namespace(flat)
        order, ordered = torch.argsort(flat, dim=1, stable=True), torch.sort(levels, dim=1)[0]
        restored = torch.scatter(flat, 1, order, ordered)
    return _limit_to_neighbors(restored.reshape(n, H, W, C), moved)


def _limit_to_neighbors(values: Array, images: Array) -> Array:
    """Values (n, H, W, C), limited to the range of the images within one pixel."""
    xp, low, high = namespace(values), images, images
    for axis in (1, 2):
        places, side = np.arange(int(images.shape[axis])), int(images.shape[axis])
        lows, highs = low, high
        for near in (np.clip(places - 1, 0, None), np.clip(places + 1, None, side - 1)):
            at = like(near, images, keep_dtype=True)
            shifted = (lows[:, at], highs[:, at]) if axis == 1 else (lows[:, :, at], highs[:, :, at])
            low, high = xp.minimum(low, shifted[0]), xp.maximum(high, shifted[1])
    return xp.minimum(xp.maximum(values, low), high)
