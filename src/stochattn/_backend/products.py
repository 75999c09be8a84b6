"""Matrix products whose rows do not depend on each other, and softmax that neither overflows nor slows down.

BLAS chooses its kernel, and with it the order of summation, by the shape of the whole product: the last bits of a chain
would change with the number of chains beside it. Row-stable products therefore all have the shape (8, r) @ (r, K), or
32 rows where the matrix is read from memory at each product. A single row is a vector, which is cheaper and has other
bits. A large matrix is multiplied in panels of columns, which depend on its shape alone, and threads share them.

The last bits of a product also depend on how many threads BLAS splits it into. Work that several processes or threads
share must have the same bits wherever a piece of it runs: every piece runs in `limit_to_one_thread`, and cores are used
by running pieces at the same time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from .arrays import Array, is_torch, namespace
from .parallel import in_kept_threads

if TYPE_CHECKING:
    from threadpoolctl import LibController, ThreadpoolController


_lock = threading.Lock()
_in_use = 0  # blocks that are open now, in all threads
_before: dict[str, tuple[LibController, int]] = {}  # libraries of BLAS by path, with their threads before the limit
_torch_before: list[int] = []  # threads of torch before the first block
_thread = threading.local()  # `depth`: blocks that are open in this thread


@contextmanager
def limit_to_one_thread(*libraries: str) -> Iterator[None]:
    """A context in which BLAS, OpenMP and torch on the CPU use one thread each; several threads may enter it.

    libraries: modules that the block may import, such as "scipy.linalg": those are imported first, because only
               libraries that are loaded can be limited
    """
    global _in_use
    for name in libraries:
        import_module(name)
    blas, openmp = _controllers(len(sys.modules))
    with _lock:
        new = [library for library in blas.lib_controllers if library.filepath not in _before]
        _before.update({library.filepath: (library, library.num_threads) for library in new})
        _set((library, 1) for library in new)
        _in_use += 1
        _thread.depth = getattr(_thread, "depth", 0) + 1
        if (torch := _torch()) is not None and not _torch_before:
            _torch_before.append(torch.get_num_threads())
        if torch is not None and torch.get_num_threads() != 1:
            torch.set_num_threads(1)
    try:
        # OpenMP has a limit for each thread, and BLAS one for all of them. Torch comes first: it asks OpenMP.
        with openmp.limit(limits=1):
            yield
    finally:
        with _lock:
            _in_use -= 1
            _thread.depth -= 1
            if not _thread.depth and _torch_before and (torch := _torch()) is not None:
                torch.set_num_threads(_torch_before[0])  # not what this thread had: that may be another block's limit
            if not _in_use:  # only the last block restores BLAS: others would still be computing
                _set(_before.values())
                _release()
                _before.clear()
                _torch_before.clear()


def _set(threads: Iterable[tuple[LibController, int]]) -> None:
    _release()
    for library, n_threads in threads:
        library.set_num_threads(n_threads)


def _release() -> None:
    """Let any thread set the threads of OpenBLAS: threadpoolctl 3.7 and later ignores all but the first that does."""
    import threadpoolctl

    release = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)


@lru_cache(maxsize=1)
def _controllers(n_modules: int) -> tuple[ThreadpoolController, ThreadpoolController]:
    """The libraries of BLAS and of OpenMP; listed again after imports, which may have loaded further ones."""
    from threadpoolctl import ThreadpoolController

    controllers = ThreadpoolController()
    return controllers.select(user_api="blas"), controllers.select(user_api="openmp")


def _torch() -> ModuleType | None:
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "set_num_threads") else None  # None if it is not imported, or not completely


ROWS_PER_BLOCK = 32
SMALL_SIDE = 362  # a matrix with at most this many rows, or columns, is multiplied from the cache
PANEL_NUMBERS = 2**18  # numbers of a matrix that a core multiplies with at a time: its cache holds them


def rows_in_block(matrix: Array) -> int:
    """Rows multiplied together with this matrix, or with one made of fewer of its rows or columns: 8 or 32."""
    return ROWS_PER_BLOCK if min(matrix.shape) > SMALL_SIDE else 8


def rows_times(x: Array, matrix: Array) -> Array:
    """x @ matrix, where each row depends on that row of x alone; x (rows, r), with 1 row or whole blocks of rows.

    Any other number of rows comes from chains on a device, which are multiplied at once and agree to rounding.
    """
    return row_product(matrix)(x)


def row_product(matrix: Array, rows: int | None = None) -> Callable[[Array], Array]:
    """`rows_times` with one matrix (r, K), as a function to call many times; `rows` sets the size of a block."""
    rows = rows or rows_in_block(matrix)
    if not is_torch(matrix):
        height, width = matrix.shape
        n = min(max(height * width // PANEL_NUMBERS, 1), width)
        if n > 1:
            panels = [slice(width * i // n, width * (i + 1) // n) for i in range(n)]
            return partial(_panel_product, matrix, rows, panels)
        return lambda x: (x.reshape(-1, min(len(x), rows), x.shape[-1]) @ matrix).reshape(len(x), -1)

    def product(x: Array) -> Array:
        if not is_torch(x) or x.is_cuda or (len(x) > 1 and len(x) % rows):
            return x @ matrix
        blocks = x.reshape(-1, min(len(x), rows), x.shape[-1])
        # torch's matmul would fold the blocks back into one product; bmm does not.
        return sys.modules["torch"].bmm(blocks, matrix.expand(len(blocks), *matrix.shape)).reshape(len(x), -1)

    return product


def _panel_product(matrix: Array, rows: int, panels: list[slice], x: Array) -> Array:
    out = np.empty((len(x), matrix.shape[1]), dtype=np.result_type(x, matrix))
    blocks = x.reshape(-1, min(len(x), rows), x.shape[-1])
    into = out.reshape(*blocks.shape[:2], -1)
    in_kept_threads(lambda panel: np.matmul(blocks, matrix[:, panel], out=into[:, :, panel]), panels)
    return out


def matmul(x: Array, matrix: Array, out: Array | None = None) -> Array:
    """x @ matrix; numpy writes it to `out` if that is given, which saves an allocation."""
    return x @ matrix if is_torch(x) else np.matmul(x, matrix, out=out)


def softmax_and_logsumexp(logits: Array) -> tuple[Array, Array]:
    """Softmax over the last axis (..., K), and log sum exp (...); both shifted by the maximum, so no beta overflows."""
    xp = namespace(logits)
    top = xp.amax(logits, axis=-1, keepdims=True)
    weights = xp.exp(logits - top)
    total = weights.sum(-1, keepdims=True)
    return weights / total, (top + xp.log(total))[..., 0]


def logsumexp(logits: Array) -> Array:
    """log sum exp over the last axis: (..., K) -> (...); -inf where every entry is -inf."""
    xp = namespace(logits)
    top = xp.amax(logits, axis=-1, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    with np.errstate(divide="ignore"):
        log_sum: Array = (top + xp.log(xp.exp(logits - top).sum(-1, keepdims=True)))[..., 0]
        return log_sum


def exponent_floor(itemsize: int) -> float:
    """The exponent below which values are clipped, just above the underflow of exp in floats of this size.

    Clipping changes no sum whose largest term is 1, and numpy's exp is ten times slower below it.
    """
    return -700.0 if itemsize == 8 else -80.0


def exp_with_floor(x: Array) -> Array:
    """exp of x, clipped at `exponent_floor`; numpy overwrites x."""
    if is_torch(x):
        return x.exp() if x.is_cuda else x.clamp(min=exponent_floor(x.itemsize)).exp()
    np.maximum(x, exponent_floor(x.itemsize), out=x)
    return np.exp(x, out=x)


def shifted_exp_inplace(logits: Array) -> Array:
    """Overwrite logits (rows, K) with exp(logits − their maximum); return the maxima, (rows, 1)."""
    if is_torch(logits):
        top = logits.amax(-1, keepdim=True)
        logits.sub_(top)
        if not logits.is_cuda:  # on a device exp is equally fast for all exponents
            logits.clamp_(min=exponent_floor(logits.itemsize))
        logits.exp_()
        return top
    starts, floor = _row_starts_and_floor(logits.shape, logits.dtype)
    top = logits.take(starts + logits.argmax(-1, keepdims=True))  # numpy's argmax is faster than its max
    np.subtract(logits, top, out=logits)
    np.maximum(logits, floor, out=logits)
    np.exp(logits, out=logits)
    return top


@lru_cache(maxsize=8)
def _row_starts_and_floor(shape: tuple[int, int], dtype: np.dtype[np.floating]) -> tuple[Array, Array]:
    """Index at which each row starts in a flat array, (rows, 1), and the floor as an array, faster to compare with."""
    rows, K = shape
    floor = np.array(exponent_floor(dtype.itemsize), dtype)
    return (np.arange(rows) * K)[:, None], np.full(shape, floor) if rows * K <= 2**16 else floor
