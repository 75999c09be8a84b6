"""Matrix products in blocks of rows of one shape, so that a chain does not depend on the chains computed beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from .arrays import Array, is_torch

ROWS_PER_BLOCK = 32
SMALL_SIDE = 362
"""A matrix with at most this many rows, or columns, is multiplied from the cache."""


def rows_in_block(matrix: Array) -> int:
    """Rows multiplied together with this matrix, or with one made of fewer of its rows or columns: 8 or 32."""
    return ROWS_PER_BLOCK if min(matrix.shape) > SMALL_SIDE else 8


def rows_times(x: Array, matrix: Array) -> Array:
    """x @ matrix, where the bits of each row of the result depend on that row of x alone.

    BLAS chooses its kernel, and with it the order of summation, by the shape of the whole product: the last bits of a
    chain would change with the number of chains beside it. Here every product has the shape (8, r) @ (r, K), or 32 rows
    of x where the matrix is read from memory at each product. A single row is a vector, which is cheaper and has bits
    of its own.
    x: (rows, r), where rows is 1 or a multiple of `rows_in_block`; matrix: (r, K). Any other number of rows comes from
    chains on a device, which are multiplied all at once: small products would waste it, and chains agree to rounding.
    """
    return row_product(matrix)(x)


def row_product(matrix: Array, rows: int | None = None) -> Callable[[Array], Array]:
    """`rows_times` with one matrix (r, K), as a function to call many times; `rows` sets the size of a block."""
    rows = rows or rows_in_block(matrix)
    if not is_torch(matrix):
        return lambda x: (x.reshape(-1, min(len(x), rows), x.shape[-1]) @ matrix).reshape(len(x), -1)

    def product(x: Array) -> Array:
        if not is_torch(x) or x.is_cuda or (len(x) > 1 and len(x) % rows):
            return x @ matrix
        blocks = x.reshape(-1, min(len(x), rows), x.shape[-1])
        # torch's matmul would fold the blocks back into one product; bmm does not.
        return sys.modules["torch"].bmm(blocks, matrix.expand(len(blocks), *matrix.shape)).reshape(len(x), -1)

    return product


def matmul(x: Array, matrix: Array, out: Array | None = None) -> Array:
    """x @ matrix; numpy writes it to `out` if that is given, which saves an allocation."""
    return x @ matrix if is_torch(x) else np.matmul(x, matrix, out=out)
