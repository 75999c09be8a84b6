"""The span of the memories: an orthonormal basis, the coordinates in it, and its dimension.

Singular vectors are unique up to a sign at best. numpy computes them for both libraries, so that the same memories give
the same chains, and in float64: in float32 a direction that matters can look like noise.
"""

from __future__ import annotations

import math

import numpy as np

from .._backend.arrays import Array, NumpyArray, to_numpy
from .._backend.progress import Progress
from ..storage.blockwise import MAX_MEMORIES_AT_ONCE, blocks, slices
from ..storage.mapped import is_mapped, require_small

QR_NUMBERS = 2**22
"""Numbers of the memories that a step of the QR decomposition reads, or d² if that is more."""


def span_basis(patterns: Array, K: int) -> NumpyArray:
    """Orthonormal basis of the span of the memories (K_kept, d), in float64: (d, rank).

    K, the number of all memories, scales the tolerance for rounding. Many memories are reduced to a triangular matrix
    of d² numbers block by block, without the loss of digits that a Gram matrix of squares would have.
    """
    d = patterns.shape[1]
    if len(patterns) <= d:
        require_small(patterns, "the span of fewer memories than dimensions (run chains with span=False)")
    _, singular, rows = np.linalg.svd(_triangle(patterns) if len(patterns) > d else _float64(patterns), False)
    noise = singular[0] * max(K, d) * np.finfo(singular.dtype).eps
    return rows[: max(int((singular > noise).sum()), 1)].T


def span_coordinates(patterns: Array, basis: Array) -> Array:
    """The memories (K, d) in a basis (d, rank) of their span: (K, rank). Those of a file are read in blocks."""
    if not is_mapped(patterns):
        return patterns @ basis
    coordinates = np.empty((len(patterns), basis.shape[1]), dtype=patterns.dtype)
    for block in blocks(*patterns.shape):
        np.matmul(patterns[block], basis, out=coordinates[block])
    coordinates.flags.writeable = False  # a bank made of them then need not copy them
    return coordinates


def surely_full_rank(patterns: Array, norms_squared: Array, K: int) -> bool:
    """Whether the first 2 d of many memories (K_kept, d) span all d dimensions. False does not imply a lower rank."""
    d = patterns.shape[1]
    if len(patterns) <= max(d, MAX_MEMORIES_AT_ONCE):
        return False
    bound = math.sqrt(float(norms_squared.sum()))  # no singular value is larger
    noise = bound * max(K, d) * np.finfo(np.float64).eps
    return bool(np.linalg.svd(_float64(patterns[: 2 * d]), compute_uv=False)[-1] > noise)


def _float64(rows: Array) -> NumpyArray:
    return to_numpy(rows).astype(np.float64)


def _triangle(patterns: Array) -> NumpyArray:
    """R of the QR decomposition of more than d memories, block by block: (d, d)."""
    K, d = patterns.shape
    triangle: NumpyArray = np.empty((0, d))
    with Progress(K, "finding the span") as bar:
        for part in slices(K, max(min(MAX_MEMORIES_AT_ONCE, QR_NUMBERS // d), d)):
            stacked = np.concatenate((triangle, _float64(patterns[part])))
            triangle = np.linalg.qr(stacked, mode="r")  # type: ignore[assignment]
            bar.update(part.stop)
    return triangle
