"""Comparison of stored images by pixels or by features, and their nearest neighbors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...._backend.arrays import Array, ArrayLike, NumpyArray, to_numpy
from ..description import Features
from .registration import blur
from .window_attention import are_photographs

if TYPE_CHECKING:
    from torch.nn import Module

MAX_NEIGHBORS = 32
"""Largest number of neighbors of an image."""
MIN_CLASS = 3
"""Images of a smaller class have neighbors of any class."""
LOCAL_BRIGHTNESS = 10 / 64
"""Width, over the side, of the local brightness and contrast that are removed before photographs are compared."""
VALUES_AT_A_TIME = 2**13
IMAGES_AT_A_TIME = 64


def number_classes(labels: ArrayLike | None, K: int) -> NumpyArray:
    """Labels as integers from 0: (K,)."""
    names = np.zeros(K, int) if labels is None else np.asarray(labels).astype(str)
    if names.shape != (K,):
        raise ValueError(f"labels must name the class of each of the {K} images; got shape {names.shape}.")
    return np.asarray(np.unique(names, return_inverse=True)[1])


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
        raise TypeError(
            f"features must be a function of images (n, H, W, C), or a torch module; got {type(features).__name__}."
        )
    name = getattr(features, "__name__", type(features).__name__)
    evaluate = _evaluator(features) if hasattr(features, "state_dict") else features
    parts = [arrays[i : i + IMAGES_AT_A_TIME] for i in range(0, len(arrays), IMAGES_AT_A_TIME)]
    results = [to_numpy(evaluate(part)) for part in parts]
    rule = f"features must return one row of numbers for each image, (n, f); {name} returned"
    for part, rows in zip(parts, results, strict=True):
        if rows.ndim != 2 or len(rows) != len(part) or not rows.shape[1] or rows.dtype.kind not in "buif":
            raise ValueError(f"{rule} {rows.dtype} of shape {rows.shape} for {len(part)} images.")
        if not np.isfinite(rows.astype(np.float64)).all():
            raise ValueError(f"{rule} NaN or infinity. Pixel values are from 0 to 1: check what it computes.")
    return np.concatenate(results).astype(np.float64)


def _evaluator(module: Module) -> Callable[[NumpyArray], NumpyArray]:
    import torch

    weights = list(module.parameters())
    kernels = [weight for weight in weights if weight.ndim == 4]
    in_color = bool(kernels) and kernels[0].shape[1] == 3

    def evaluate(images: NumpyArray) -> NumpyArray:
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

    return evaluate
