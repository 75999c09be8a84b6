"""Comparison of stored images: their nearest neighbors, and the displacement fields that carry one onto another.

Neighbors are near by pixels or by features. Registration finds smooth displacement fields between two images.
A field u (2, h, w) says where the pixels of the fixed image lie in the moving one, moving(x + u(x)) ≈ fixed(x). It is
estimated by Thirion's demons: each step moves pixels along the gradient g of the warped image, by

    δ = d·g / (‖g‖² + d²/4 + ε)        u ← E(u + F(δ))        d = fixed − warped

with Gaussian smoothers F of the step and E of the field, on blurred images first and on sharper ones later. Images of
any size are registered at about 28 pixels a side: fields are smooth, so that finer grids would only cost time.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...._backend.arrays import Array, NumpyArray, concatenate, full, like, namespace, on_cuda, to_numpy
from ...smoothing import cubic_weights, fold_ends, gaussian_matrix
from ..description import Features
from .window_attention import are_photographs

if TYPE_CHECKING:
    from torch.nn import Module

SIDE = 28
"""Pixels along the shorter side of a field. Smaller images are enlarged: gradients between few pixels are too rough for
smooth fields. Lengths below are in pixels of this size."""
MAX_AREA = 4 * SIDE**2  # largest number of pixels of a field, for elongated images
LEVELS = ((0.5, 3.0, 2.5, 10), (1.0, 1.5, 2.5, 10), (1.0, 0.7, 2.0, 12))
"""Resolution, blur of the images, smoothness of the field and number of steps, for each level in turn."""
STEP_SMOOTHNESS = 2.0
LEAST_GRADIENT = 1e-3  # ε, over the squared range of pixel values: flat regions move with their surroundings
SURROUNDINGS, SURROUNDINGS_WEIGHT = 1.0, 1e-3  # width in pixels of the mean around a pixel; its weight beside the pixel
SAME_BACKGROUND = 0.1  # an edge is one background if its pixels differ by at most this share of the deviation
PAIRS_AT_A_TIME = 64
PAIRS_ON_GPU = 1024
MAX_NEIGHBORS = 32
MIN_CLASS = 3  # images of a smaller class have neighbors of any class
LOCAL_BRIGHTNESS = 10 / 64  # width, over the side, of the brightness and contrast that photographs are freed from
VALUES_AT_A_TIME = 2**13
IMAGES_AT_A_TIME = 64


def remove_light(images: Array) -> Array:
    """Gray values (K, H, W) by which images (K, H, W, C) are compared; for photographs, without their lighting."""
    gray = images.mean(3)
    if not are_photographs(images):
        return gray
    width = LOCAL_BRIGHTNESS * min(gray.shape[1:])
    detail = gray - blur(gray, width)
    contrast = blur(detail**2, width) + 1e-3 * float((detail**2).mean())
    return detail / contrast**0.5


def find_neighbors(rows: NumpyArray, classes: NumpyArray) -> list[NumpyArray]:
    """The nearest images (k,) of the same class for each of the rows (K, d), or of any class for a small class."""
    K = len(rows)
    if K < 2:
        raise ValueError("images must be at least two; there is one. Store more.")
    products = np.zeros((K, K))
    for first in range(0, rows.shape[1], VALUES_AT_A_TIME):  # all images in double precision would be large
        part = rows[:, first : first + VALUES_AT_A_TIME].astype(np.float64)
        products += part @ part.T
    squares = np.diag(products)
    distances = squares[:, None] + squares - 2 * products
    np.fill_diagonal(distances, np.inf)
    sizes = np.bincount(classes)[classes]
    n_candidates = np.where(sizes >= MIN_CLASS, sizes, K) - 1
    distances[(classes[:, None] != classes) & (sizes >= MIN_CLASS)[:, None]] = np.inf
    order = np.argsort(distances, axis=1, kind="stable")
    return [order[i, : min(MAX_NEIGHBORS, n_candidates[i])] for i in range(K)]


def feature_rows(features: Features | None, images: Array) -> NumpyArray:
    """Pixels or features (n, d) by whose distances images (n, H, W, C) are compared.

    A torch module gets batches (n, C, H, W) of float32 on its own device, in evaluation mode and without gradients;
    gray images are repeated if its first convolution has three channels. Its result is flattened.
    """
    arrays = to_numpy(images)
    if features is None:
        return np.ascontiguousarray(arrays.reshape(len(arrays), -1))
    if not callable(features):
        rule = "features must be a function of images (n, H, W, C), or a torch module"
        raise TypeError(f"{rule}; got {type(features).__name__}.")
    name = getattr(features, "__name__", type(features).__name__)
    evaluate = partial(_evaluate, features) if hasattr(features, "state_dict") else features
    parts = [arrays[i : i + IMAGES_AT_A_TIME] for i in range(0, len(arrays), IMAGES_AT_A_TIME)]
    results = [to_numpy(evaluate(part)) for part in parts]
    rule = f"features must return one row of numbers for each image, (n, f); {name} returned"
    for part, rows in zip(parts, results, strict=True):
        if rows.ndim != 2 or len(rows) != len(part) or not rows.shape[1] or rows.dtype.kind not in "buif":
            raise ValueError(f"{rule} {rows.dtype} of shape {rows.shape} for {len(part)} images.")
        if not np.isfinite(rows.astype(np.float64)).all():
            raise ValueError(f"{rule} NaN or infinity. Pixel values are from 0 to 1: check what it computes.")
    return np.concatenate(results).astype(np.float64)


def _evaluate(module: Module, images: NumpyArray) -> NumpyArray:
    import torch

    weights = list(module.parameters())
    kernels = [weight for weight in weights if weight.ndim == 4]
    in_color = bool(kernels) and kernels[0].shape[1] == 3
    batch = torch.tensor(np.moveaxis(images, 3, 1), dtype=torch.float32)
    batch = batch.to(weights[0].device) if weights else batch
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            result = module(batch.repeat(1, 3, 1, 1) if in_color and batch.shape[1] == 1 else batch)
    finally:
        module.train(was_training)
    return to_numpy(result.flatten(1) if result.ndim > 2 else result)


class _Level(NamedTuple):
    """Stored images at one resolution, blurred, with the smoothers of steps and fields."""

    shape: tuple[int, int]
    images: Array  # (K, *shape)
    step: tuple[Array, Array]
    field: tuple[Array, Array]
    n_steps: int


class Registration:
    """Displacement fields between stored images (K, H, W); `images` (K, h, w) are these at the size of fields."""

    def __init__(self, images: Array) -> None:
        self.size = int(images.shape[1]), int(images.shape[2])
        scale = min(SIDE / min(self.size), math.sqrt(MAX_AREA / math.prod(self.size)))
        self.shape = _scale_shape(self.size, scale)
        self.images, unit = resize(images, self.shape), min(self.shape) / SIDE
        self.levels = []
        for resolution, width, smoothness, n_steps in LEVELS:
            shape = _scale_shape(self.shape, resolution)
            seen = resize(blur(self.images, width * unit), shape)
            low, high = float(seen.min()), float(seen.max())
            seen = (seen - low) / max(high - low, float(np.finfo(np.float32).tiny))
            here = unit * shape[0] / self.shape[0]
            step, field = (_gaussians(shape, length * here, self.images) for length in (STEP_SMOOTHNESS, smoothness))
            self.levels.append(_Level(shape, seen, step, field, n_steps))

    def fields(self, moving: NumpyArray, fixed: NumpyArray) -> Array:
        """Fields that carry stored images `moving` onto `fixed`, indices (n,): (n, 2, h, w), in pixels of `shape`."""
        n, block = len(moving), PAIRS_ON_GPU if on_cuda(self.images) else PAIRS_AT_A_TIME
        if on_cuda(self.images):  # blocks of one size, so that the bits of a field do not depend on the other pairs
            moving, fixed = (np.pad(indices, (0, -n % block), mode="edge") for indices in (moving, fixed))
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
    if isinstance(u, np.ndarray):
        down, across = np.gradient(warped, axis=(1, 2))
    else:
        down, across = namespace(u).gradient(warped, dim=(1, 2))
    difference = target - warped
    difference /= down**2 + across**2 + difference**2 / 4 + LEAST_GRADIENT
    return namespace(u).stack([difference * down, difference * across], 1)


def _bilinear(flat: Array, start: Array, u: Array) -> Array:
    """Images that begin at `start` (n, 1, 1) in `flat`, at x + u(x), with constant edges: (n, h, w)."""
    xp, (h, w) = namespace(u), (int(u.shape[2]), int(u.shape[3]))
    at = u + like(np.indices((h, w)), u)
    y, x = xp.clip(at[:, 0], 0, h - 1), xp.clip(at[:, 1], 0, w - 1)
    # The last pixel belongs to the cell before it.
    top, left = xp.clip(xp.floor(y), 0, max(h - 2, 0)), xp.clip(xp.floor(x), 0, max(w - 2, 0))
    y, x = y - top, x - left
    corner = _to_integers(top * w + left) + start
    above, below = flat.take(corner), flat.take(corner + w)
    above = above + x * (flat.take(corner + 1) - above)
    below = below + x * (flat.take(corner + w + 1) - below)
    return above + y * (below - above)


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

    MARGIN = 3  # pixels by which edges are extended: as many as a cubic spline and its filter depend on
    MAX_BYTES = 2**26  # of images whose coefficients are kept; those of larger ones are computed when needed

    def __init__(self, images: Array) -> None:
        self.images, self.size = images, (int(images.shape[1]), int(images.shape[2]))
        values = to_numpy(images)
        tolerance = SAME_BACKGROUND * values.std((1, 2, 3))[:, None, None]
        edges = values[:, 0], values[:, -1], values[:, :, 0], values[:, :, -1]
        are_near = [np.abs(edge - np.median(edge, axis=1, keepdims=True)) <= tolerance for edge in edges]
        self.has_background = np.stack([near.mean((1, 2)) > 0.5 for near in are_near], axis=1)  # (K, 4)
        self.coefficients = self._filter(images) if images.nbytes <= self.MAX_BYTES else None

    def _filter(self, images: Array) -> Array:
        """Coefficients of images (n, H, W, C) and of a margin."""
        from scipy.ndimage import spline_filter1d

        values = np.pad(to_numpy(images), [(0, 0), *[(self.MARGIN, self.MARGIN)] * 2, (0, 0)], mode="edge")
        for axis in (1, 2):
            values = spline_filter1d(values, 3, axis, output=values.dtype, mode="nearest")
        return like(values, images)

    def at(self, index: NumpyArray, u: Array) -> Array:
        """Images (n,) of these indices at x + u(x), for fields u (n, 2, h, w) of any resolution: (n, H, W, C).

        Beyond an edge, an image is constant if the edge shows a background, and reflected otherwise: constant edges
        would show streaks, and reflected lines beside a background would show as spots.
        """
        xp, (H, W), m, u = namespace(u), self.size, self.MARGIN, resample_fields(u, self.size)
        at = u + like(np.indices((H, W)), u)
        edges = like(self.has_background[index], u, keep_dtype=True)[..., None, None]
        y = within(at[:, 0], H, edges[:, 0], edges[:, 1]) + m
        x = within(at[:, 1], W, edges[:, 2], edges[:, 3]) + m
        top, left = xp.floor(y), xp.floor(x)
        coefficients, image = self.coefficients, index
        if coefficients is None:
            unique, index = np.unique(index, return_inverse=True)
            coefficients = self._filter(self.images[like(unique, self.images, keep_dtype=True)])
        of_image = like(index, u, keep_dtype=True)[:, None, None]
        first_row, first_column = _to_integers(top) - 1, _to_integers(left) - 1
        down, across = cubic_weights(y - top), cubic_weights(x - left)
        total = xp.zeros_like(coefficients[of_image, first_row, first_column])
        for i, of_row in enumerate(down):
            for j, of_column in enumerate(across):
                weight = (of_row * of_column)[..., None]
                total += weight * coefficients[of_image, first_row + i, first_column + j]
        # Splines overshoot: values are limited to the range of the four stored pixels around them.
        of_image, row, column = like(image, u, keep_dtype=True)[:, None, None], first_row + 1 - m, first_column + 1 - m
        below, right = xp.clip(row + 1, 0, H - 1), xp.clip(column + 1, 0, W - 1)
        low = high = self.images[of_image, row, column]
        for corner_row, corner_column in ((below, column), (row, right), (below, right)):
            corner = self.images[of_image, corner_row, corner_column]
            low, high = xp.minimum(low, corner), xp.maximum(high, corner)
        return xp.minimum(xp.maximum(total, low), high)


def within(position: Array, side: int, first: Array | bool, last: Array | bool) -> Array:
    """Positions in pixels; those beyond an end are reflected, or moved to the end if `first` or `last` is true.

    >>> within(np.array([-1.5, 2.0, 4.0]), 4, False, True).tolist()
    [1.5, 2.0, 3.0]
    """
    xp, end = namespace(position), max(side - 1, 1)
    inside = xp.clip(position, 0, side - 1)
    is_constant = ((position < 0) & first) | ((position > side - 1) & last)
    return xp.where(is_constant, inside, xp.clip(end - abs(position % (2 * end) - end), 0, side - 1))


def restore_values(moved: Array, images: Array) -> Array:
    """`moved` (n, H, W, C) with the pixel values of `images`, in the same order within each channel.

    Interpolation blurs: it removes the darkest and the brightest pixel values. The order of pixels by their values is
    kept, and the r-th smallest value is replaced by that of the image that was moved. Of equal values, those beside
    larger ones come last. Values are limited to the range of `moved` within one pixel: lines become wider or thinner,
    and no spots appear in a background.
    """
    (n, H, W, C), xp = moved.shape, namespace(moved)
    surroundings = blur(xp.moveaxis(moved, 3, 1), SURROUNDINGS)
    order_of = moved + SURROUNDINGS_WEIGHT * xp.moveaxis(surroundings, 1, 3)
    flat, levels = order_of.reshape(n, H * W, C), images.reshape(n, H * W, C)
    if isinstance(flat, np.ndarray):
        restored: Array = np.empty_like(flat)
        np.put_along_axis(restored, np.argsort(flat, axis=1, kind="stable"), np.sort(levels, axis=1), axis=1)
    else:
        order, ordered = xp.argsort(flat, dim=1, stable=True), xp.sort(levels, dim=1)[0]
        restored = xp.scatter(flat, 1, order, ordered)
    values, low, high = restored.reshape(n, H, W, C), moved, moved
    for axis in (1, 2):
        lows, highs, places = xp.moveaxis(low, axis, 0), xp.moveaxis(high, axis, 0), np.arange(int(moved.shape[axis]))
        low, high = lows, highs
        for near in (np.clip(places - 1, 0, None), np.clip(places + 1, None, len(places) - 1)):
            at = like(near, moved, keep_dtype=True)
            low, high = xp.minimum(low, lows[at]), xp.maximum(high, highs[at])
        low, high = xp.moveaxis(low, 0, axis), xp.moveaxis(high, 0, axis)
    return xp.minimum(xp.maximum(values, low), high)
