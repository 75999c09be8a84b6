"""Attention of each pixel over stored images by the window around it: the inner step x₀ of local heads.

−‖x − m_k‖²/2 and x·m_k − ‖m_k‖²/2 differ by a term that all memories share, so only overlaps x·m_k depend on the state.
They are summed over the columns of a window by a product for each row of pixels, and over its rows by a banded product:
such sums of few terms are accurate in float32, and differences of running sums would not be.
"""

from __future__ import annotations

import math

import numpy as np

from ...._backend.arrays import Array, ArrayLike, concatenate, empty, full, is_torch, like, namespace, to_numpy
from ....core.memory import MemoryBank

MAX_TRIPLES, MAX_TRIPLES_ON_DEVICE = 3 * 2**16, 2**26
"""(pixel, image, memory) triples in an array: as many as fit into a core's cache, or keep an accelerator busy."""
ROWS_PER_STRIP = 4  # of pixels whose windows one product sums; the cost per pixel grows with it plus the window
COSINES_PER_PIXEL = 1 / 8  # of illumination: waves of at least 16 pixels hold the shade of a cheek, not of an eye
ILLUMINATION_WEIGHT = 0.3  # beside detail; with much less, parts of a face are lit from different directions
MIN_SIDE, EXTREME_MARGIN, MAX_EXTREME_SHARE = 24, 0.02, 0.5
"""Images are not photographs if the shorter side has fewer pixels, or if more than the last share of values lie within
the second share of the range from the darkest or the brightest: in drawings, a pale line is a mistake."""


def are_photographs(images: Array) -> bool:
    """Whether images (K, H, W[, C]) are not tiny, and at most half of their values are black or white."""
    if min(images.shape[1:3]) < MIN_SIDE:
        return False
    levels = to_numpy(images)
    low, high = float(levels.min()), float(levels.max())
    margin = EXTREME_MARGIN * (high - low)
    return bool(((levels <= low + margin) | (levels >= high - margin)).mean() <= MAX_EXTREME_SHARE)


class Illumination:
    """Illumination and detail of photographs, as separate channels.

    The illumination of an image x is its projection on the lowest cosines along either side, P x Pᵀ; detail is the
    rest. Parts of two portraits fit if their details do, even if one is brighter. So illumination has less weight when
    windows are compared, and is projected again when parts are joined, which removes seams.
    """

    def __init__(self, images: Array) -> None:
        self.down, self.across = (like(_projection(side), images) for side in images.shape[1:3])

    def split(self, images: Array) -> Array:
        """Images (n, H, W, C) as weighted illumination and detail: (n, H, W, 2C)."""
        illumination = self._project(images)
        return concatenate([ILLUMINATION_WEIGHT * illumination, images - illumination], 3)

    def join(self, parts: Array) -> Array:
        """Illumination and detail (n, H, W, 2C), each projected on its own space, as images (n, H, W, C)."""
        C = parts.shape[3] // 2
        illumination, detail = parts[..., :C] / ILLUMINATION_WEIGHT, parts[..., C:]
        return self._project(illumination) + detail - self._project(detail)

    def _project(self, images: Array) -> Array:
        n, H, W, C = images.shape
        along = self.down @ images.reshape(n, H, W * C)
        return (self.across @ along.reshape(n * H, W, C)).reshape(n, H, W, C)


def _projection(side: int) -> Array:
    """Σ_j c_j c_jᵀ over the lowest cosines c_j along a side: (side, side)."""
    place = (np.arange(side) + 0.5) * np.pi / side
    cosines = np.array([np.cos(j * place) for j in range(max(round(COSINES_PER_PIXEL * side), 1))])
    cosines /= np.linalg.norm(cosines, axis=1, keepdims=True)
    return cosines.T @ cosines


class ImageMemories:
    """Images that are not masked out, around their mean and in units of their contrast, in layouts for the heads.

    rows, columns: (H, W·C, K) and (W, H, C + 1, K) values, with memories last; columns have an additional channel of
                   ones, which sums weights; C is twice the number of channels if illumination is split
    mean, log_r:   (H, W, C), weighted by multiplicities; (K,)
    contrast:      standard deviation of pixels among memories: √(Σ v² / Σ v) of the variances v, which blank margins
                   and single unusual pixels change little
    spread:        root mean square distance of memories from their mean, in units of contrast: at least 1
    """

    def __init__(self, images: Array, log_r: ArrayLike | None, illumination: bool | None = False) -> None:
        self.channels = tuple(images.shape[3:])
        is_split = are_photographs(images) if illumination is None else illumination
        self.illumination = Illumination(images) if is_split else None
        if self.illumination is not None:
            images = self.illumination.split(images.reshape(*images.shape[:3], -1))
        bank = MemoryBank(images.reshape(len(images), -1), log_r).active
        self.K, self.H, self.W, self.C = bank.K, *map(int, images.shape[1:3]), math.prod(images.shape[3:])
        xp = namespace(images)
        shares = xp.exp(bank.log_r - bank.log_total_r)[:, None]
        mean = (shares * bank.patterns).sum(0)
        centered = bank.patterns - mean
        variance = to_numpy((shares * centered**2).sum(0)).astype(np.float64)
        total = float(variance.sum())
        self.contrast = math.sqrt(float((variance**2).sum()) / total) if total > 0 else 1.0
        self.spread = math.sqrt(total) / self.contrast if total > 0 else 1.0
        self.log_r, self.mean = bank.log_r, mean.reshape(self.H, self.W, self.C)
        by_value = (centered / self.contrast).T
        self.rows = _make_contiguous(by_value.reshape(self.H, self.W * self.C, self.K))
        columns = xp.swapaxes(by_value.reshape(self.H, self.W, self.C, self.K), 0, 1)
        self.columns = _make_contiguous(concatenate([columns, xp.ones_like(columns[:, :, :1])], 2))

    def to_images(self, x: Array) -> Array:
        """States (n, H, W, C), in units of contrast around the mean, as images of the shape of the memories."""
        levels = x * self.contrast + self.mean
        levels = levels if self.illumination is None else self.illumination.join(levels)
        return levels.reshape(len(x), self.H, self.W, *self.channels)

    def half_norms(self, radius: int, precision: Array | None = None) -> Array:
        """½ ‖m_k‖² in the window of each pixel: (W, H, 1, K); precision (H, W, C) weighs values."""
        xp = namespace(self.rows)
        squares = (self.rows**2).reshape(self.H, self.W, self.C, self.K)
        squares = (squares if precision is None else squares * precision[..., None]).sum(2)
        across = xp.matmul(_band(self.W, self.W, radius, squares), squares)
        windows = _band(self.H, self.H, radius, squares) @ across.reshape(self.H, -1)
        return _make_contiguous(xp.swapaxes(windows.reshape(self.H, self.W, 1, self.K), 0, 1)) / 2


def attend_globally(memories: ImageMemories, x: Array, sigma: float, radius: int, half_norms: Array) -> Array:
    """x₀ for windows that all cover the image, by one softmax per image; arguments as of `attend_windows`."""
    xp, half_norm = namespace(x), half_norms[0, 0]
    flat, scale = memories.rows.reshape(-1, memories.K), float(1 / sigma**2)
    logits = (x.reshape(len(x), -1) * scale) @ flat + (memories.log_r - scale * half_norm)
    weights = xp.exp(logits - xp.amax(logits, axis=-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ flat.T).reshape(x.shape)


def attend_windows(memories: ImageMemories, x: Array, sigma: float, radius: int, half_norms: Array) -> Array:
    """x₀ for windows of this radius, from x times the precision of half norms: (n, H, W, C) -> (n, H, W, C).

    It is computed for a few columns of pixels at a time, and for blocks of memories with a running softmax.
    """
    xp = namespace(x)
    n, scale = len(x), float(1 / sigma**2)
    bias = memories.log_r - scale * half_norms
    seen = _make_contiguous(xp.swapaxes(x.reshape(n, memories.H, -1), 0, 1)) * scale
    pairs = (MAX_TRIPLES_ON_DEVICE if is_torch(x) and x.is_cuda else MAX_TRIPLES) // (memories.H * n)
    size = -(-memories.K // -(-memories.K // max(pairs, 64)))
    overlaps = _Overlaps(memories, seen, radius, min(max(pairs // size, 1), memories.W), size)
    x0 = empty(tuple(x.shape), x)
    for first in range(0, memories.W, overlaps.width):
        columns = slice(first, min(first + overlaps.width, memories.W))
        top, sums = full((1,), -math.inf, x), full((1,), 0.0, x)  # the highest logit so far, and Σ weights · values
        for begin in range(0, memories.K, size):
            block = slice(begin, min(begin + size, memories.K))
            logits = overlaps.at(columns, block)
            logits += bias[columns, :, :, block]
            before, top = top, xp.maximum(xp.amax(logits, axis=-1, keepdims=True), top)
            logits -= top
            if logits.itemsize == 8:
                xp.clip(logits, -700.0, None, out=logits)
            xp.exp(logits, out=logits)
            more = xp.matmul(memories.columns[columns, :, :, block], xp.swapaxes(logits, -1, -2))
            sums = more + sums * xp.swapaxes(xp.exp(before - top), -1, -2)
        means = sums[..., :-1, :] / sums[..., -1:, :]
        x0[:, :, columns] = xp.moveaxis(means, (3, 1, 0), (0, 1, 2))
    return x0


class _Overlaps:
    """x·m_k in the window of each pixel, for some columns of pixels and a block of memories at a time.

    seen: (H, n, W·C) the state by rows of pixels. Work arrays are allocated once, because allocation costs more than
    the arithmetic.
    """

    def __init__(self, memories: ImageMemories, seen: Array, radius: int, width: int, size: int) -> None:
        self.memories, self.seen, self.radius, self.width = memories, seen, radius, width
        H, self.n = memories.H, seen.shape[1]
        in_strips = ROWS_PER_STRIP + 2 * radius < H
        self.strip, self.margin = (ROWS_PER_STRIP, radius) if in_strips else (H, 0)
        self.height = -(-H // self.strip) * self.strip
        self.band = _band(self.strip, self.strip + 2 * self.margin, radius, seen, shift=self.margin)
        self.across = empty((width * (self.height + 2 * self.margin) * self.n * size,), seen)
        self.summed = empty((width * self.height * self.n * size,), seen)

    def at(self, columns: slice, block: slice) -> Array:
        """(columns, H, n, block); a view of a work array, to be overwritten."""
        xp, H, C, n = namespace(self.seen), self.memories.H, self.memories.C, self.n
        width, size = columns.stop - columns.start, block.stop - block.start
        height, margin = self.height, self.margin
        across = _first(self.across, (width, height + 2 * margin, n, size))
        across[:, :margin] = 0
        across[:, margin + H :] = 0
        for i in range(width):
            middle = columns.start + i
            window = slice(max(middle - self.radius, 0) * C, min(middle + self.radius + 1, self.memories.W) * C)
            rows = self.memories.rows[:, window, block]
            xp.matmul(self.seen[:, :, window], rows, out=across[i, margin : margin + H])
        summed = _first(self.summed, (width, height // self.strip, self.strip, n * size))
        strips = _strips(across.reshape(width, -1, n * size), self.strip + 2 * margin, self.strip)
        xp.matmul(self.band, strips, out=summed)
        return summed.reshape(width, height, n, size)[:, :H]


def _band(rows: int, columns: int, radius: int, reference: Array, shift: int = 0) -> Array:
    """Ones where column j is within the radius of row i + shift: (rows, columns)."""
    near = np.abs(np.arange(rows)[:, None] + shift - np.arange(columns)) <= radius
    return like(near.astype(np.float32), reference)


def _strips(x: Array, height: int, step: int) -> Array:
    """Overlapping strips, without a copy: (a, rows, b) -> (a, strips, height, b)."""
    if is_torch(x):
        return x.unfold(1, height, step).transpose(-1, -2)
    shape = x.shape[0], (x.shape[1] - height) // step + 1, height, x.shape[2]
    strides = x.strides[0], step * x.strides[1], *x.strides[1:]
    return np.lib.stride_tricks.as_strided(x, shape, strides)  # sliding_window_view takes as long as the product


def _first(x: Array, shape: tuple[int, ...]) -> Array:
    return x[: math.prod(shape)].reshape(shape)


def _make_contiguous(x: Array) -> Array:
    return x.contiguous() if is_torch(x) else np.ascontiguousarray(x)
