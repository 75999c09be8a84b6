"""The only file that tells numpy from torch; everything else calls these functions or the namespace they return.

Torch is never imported here: a tensor can only reach us if its user has imported torch already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

    Array: TypeAlias = npt.NDArray[Any] | Tensor
    """A `numpy.ndarray` or a `torch.Tensor`; functions return what they were given."""
    ArrayLike: TypeAlias = npt.ArrayLike | Tensor
    """Whatever `floats` turns into an Array: nested lists, numbers, data frames, arrays, tensors."""
else:
    Array = ArrayLike = object

ROWS_PER_BLOCK = 32
"""Chains are multiplied in blocks of at most this many rows (see `rows_times`)."""
SMALL_SIDE = 362
"""A matrix with no more rows, or columns, is multiplied from the cache."""


def is_torch(x: object) -> bool:
    """Whether x is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def on_cuda(x: object) -> bool:
    """Whether x is a torch tensor on a CUDA device."""
    return is_torch(x) and bool(x.is_cuda)  # type: ignore[attr-defined]


def device_name(x: object) -> str:
    """Where x lies: "cuda:0", or "cpu" for what has no device of its own."""
    return str(getattr(x, "device", "cpu"))


def namespace(x: Array) -> Any:
    """The module (numpy or torch) whose functions apply to x."""
    return sys.modules["torch"] if is_torch(x) else np


def to_numpy(x: Array) -> Array:
    """x as a numpy array."""
    return x.detach().cpu().numpy() if is_torch(x) else np.asarray(x)


def like(x: Any, reference: Array, *, keep_dtype: bool = False) -> Array:
    """x in the namespace, device and dtype of `reference`; keep_dtype leaves x its own dtype (indices, booleans)."""
    if not is_torch(reference):
        x = to_numpy(x)
        return x if keep_dtype else x.astype(reference.dtype, copy=False)
    torch = sys.modules["torch"]
    tensor = x if is_torch(x) else torch.from_numpy(np.ascontiguousarray(x))
    return tensor.to(device=reference.device, dtype=None if keep_dtype else reference.dtype)


def floats(x: Any, name: str) -> Array:
    """x as finite float32 or float64; integers and booleans become float64, half precision becomes float32."""
    if not is_torch(x):
        x = _plain_array(x, name)
        if x.dtype.kind not in "fiub":
            raise TypeError(f"{name} must hold real numbers; got dtype {x.dtype}. Encode text and categories first.")
        wide = np.float64 if x.dtype.kind in "iub" or x.dtype.itemsize > 8 else np.float32
        x = x if x.dtype in (np.float32, np.float64) else x.astype(wide)
    else:
        torch = sys.modules["torch"]
        if x.is_complex() or x.layout != torch.strided:
            kind = str(x.dtype if x.is_complex() else x.layout).removeprefix("torch.")
            raise TypeError(f"{name} must be a dense tensor of real numbers; got {kind}.")
        if x.dtype not in (torch.float32, torch.float64):
            x = x.to(torch.float32 if x.is_floating_point() else torch.float64)
    _require_finite(x, name)
    return x


def _plain_array(x: Any, name: str) -> Array:
    """x as a numpy array; what numpy would turn into an array of objects is refused by its own name."""
    if hasattr(x, "columns") and hasattr(x, "to_numpy"):  # a pandas DataFrame, whose nullable columns numpy cannot read
        text = [column for column in x.columns if x[column].dtype.kind not in "fiub"]
        if text:
            raise TypeError(
                f"{name} must hold real numbers; column {text[0]!r} is {x[text[0]].dtype}. Encode or drop it."
            )
        return x.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.ma.is_masked(x):
        raise ValueError(
            f"{name} must not be masked; {int(np.ma.getmaskarray(x).sum())} entries are. Impute or drop them."
        )
    try:
        array = np.asarray(x)
    except ValueError:
        raise ValueError(f"{name} must be rows of one length; got rows of different lengths.") from None
    if array.ndim == 0 and array.dtype.kind not in "fiub":
        dense = " Call its .toarray()." if hasattr(x, "toarray") else ""
        raise TypeError(f"{name} must be an array of real numbers; got {type(x).__name__}.{dense}")
    return array


def _require_finite(x: Array, name: str) -> None:
    xp = namespace(x)
    # A sum is one pass without a temporary; only if it is not finite do we look for the culprit.
    with np.errstate(over="ignore", invalid="ignore"):
        if bool(xp.isfinite(xp.sum(x))):
            return
    bad = to_numpy(~xp.isfinite(x))
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} must be finite; {int(bad.sum())} of {bad.size} entries are NaN or infinite, "
            f"the first at index {where}. Remove or impute them first."
        )


def frozen_copy(x: Array) -> Array:
    """A copy nobody else can write to; an array that is read-only and owns its data is one already."""
    if is_torch(x):
        return x.detach().clone()
    if not x.flags.writeable and x.flags.owndata:
        return x
    x = np.array(x, order="C")
    x.flags.writeable = False
    return x


def row_dot(x: Array, y: Array) -> Array:
    """Inner product of each row of x with the same row of y: (..., d), (..., d) -> (...)."""
    return (x * y).sum(-1) if is_torch(x) else np.vecdot(x, y)


def or_one(lengths: Array) -> Array:
    """Lengths to divide by: one where they are zero."""
    xp = namespace(lengths)
    return xp.where(lengths > 0, lengths, xp.ones_like(lengths))


def empty(shape: tuple[int, ...], reference: Array) -> Array:
    """An uninitialised array in the namespace, dtype and device of `reference`."""
    if is_torch(reference):
        return sys.modules["torch"].empty(shape, dtype=reference.dtype, device=reference.device)
    return np.empty(shape, dtype=reference.dtype)


def full(shape: tuple[int, ...], value: float, reference: Array) -> Array:
    """An array of one value in the namespace, dtype and device of `reference`."""
    if is_torch(reference):
        return sys.modules["torch"].full(shape, value, dtype=reference.dtype, device=reference.device)
    return np.full(shape, value, dtype=reference.dtype)


def detached(x: Array) -> Array:
    """x without the gradients that a tensor may carry."""
    return x.detach() if is_torch(x) else x


def concatenate(parts: Sequence[Array], axis: int = 0) -> Array:
    """Arrays of one namespace, one after the other."""
    return sys.modules["torch"].cat(tuple(parts), axis) if is_torch(parts[0]) else np.concatenate(parts, axis)


def transposed(matrix: Array) -> Array:
    """The transpose, laid out anew so that its rows are contiguous."""
    return matrix.T.contiguous() if is_torch(matrix) else np.ascontiguousarray(matrix.T)


def zeros(rows: int, reference: Array) -> Array:
    """A column of whole numbers to count in, beside `reference`: (rows, 1)."""
    if is_torch(reference):
        torch = sys.modules["torch"]
        return torch.zeros((rows, 1), dtype=torch.int64, device=reference.device)
    return np.zeros((rows, 1), dtype=np.int64)


@contextmanager
def full_precision(reference: Array) -> Iterator[None]:
    """Within it, torch rounds no product of float32 below float32: neither autocast nor TF32 applies."""
    if not is_torch(reference):
        yield
        return
    torch = sys.modules["torch"]
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(reference.device.type, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(precision)


def norms_squared(x: Array) -> Array:
    """Squared l2 norm of each row: (..., d) -> (...)."""
    return row_dot(x, x)


def softmax_and_logsumexp(logits: Array) -> tuple[Array, Array]:
    """Softmax over the last axis, and log sum exp; both shifted by the maximum, so that no beta overflows."""
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
        return (top + xp.log(xp.exp(logits - top).sum(-1, keepdims=True)))[..., 0]


def rows_in_block(matrix: Array) -> int:
    """Rows multiplied together with this matrix, or one made of fewer of its rows or columns: 8 or 32."""
    return ROWS_PER_BLOCK if min(matrix.shape) > SMALL_SIDE else 8


def rows_times(x: Array, matrix: Array) -> Array:
    """x @ matrix, each row's result depending, to the last bit, on that row alone.

    BLAS picks its kernel, and with it the order of summation, by the shape of the whole product: a chain would
    change in its last bits when it runs in other company. Here every product has the shape (8, r) @ (r, K), or 32 rows
    of x where the matrix is read from memory at each product; a single row is a vector, which is cheaper and whose bits
    are its own.
    x: (rows, r), rows a multiple of `rows_in_block`, or 1; matrix: (r, K). Any other number of rows comes from chains
    on a device, which are multiplied together: there small products would waste it, and chains agree to rounding.
    """
    return row_product(matrix)(x)


def row_product(matrix: Array, rows: int | None = None) -> Callable[[Array], Array]:
    """`rows_times` with a matrix (r, K) that many are multiplied with, in blocks of `rows` if given."""
    rows = rows or rows_in_block(matrix)
    if not is_torch(matrix):
        return lambda x: (x.reshape(-1, min(len(x), rows), x.shape[-1]) @ matrix).reshape(len(x), -1)

    def product(x: Array) -> Array:
        if x.is_cuda or (len(x) > 1 and len(x) % rows):
            return x @ matrix
        blocks = x.reshape(-1, min(len(x), rows), x.shape[-1])
        # torch's matmul would fold the blocks back into one product; bmm does not.
        return sys.modules["torch"].bmm(blocks, matrix.expand(len(blocks), *matrix.shape)).reshape(len(x), -1)

    return product


def multiplied(x: Array, matrix: Array, out: Array = None) -> Array:
    """x @ matrix; numpy writes it to `out` where that is given, which spares it fresh memory."""
    return x @ matrix if is_torch(x) else np.matmul(x, matrix, out=out)


def exponent_floor(x: Array) -> float:
    """Where exponents are cut off, shortly before exp would underflow in the dtype of x.

    It changes no sum whose largest term is 1, and numpy's exp is ten times slower from there on.
    """
    return -700.0 if x.itemsize == 8 else -80.0


def floored_exp(x: Array) -> Array:
    """exp of x, floored; numpy overwrites x."""
    if is_torch(x):
        return x.exp() if x.is_cuda else x.clamp(min=exponent_floor(x)).exp()
    np.maximum(x, exponent_floor(x), out=x)
    return np.exp(x, out=x)


def shifted_exp_inplace(logits: Array) -> Array:
    """Overwrite logits (rows, K) with exp(logits − their maximum); return the maxima, (rows, 1)."""
    if is_torch(logits):
        top = logits.amax(-1, keepdim=True)
        logits.sub_(top)
        if not logits.is_cuda:  # there exp is as fast everywhere
            logits.clamp_(min=exponent_floor(logits))
        logits.exp_()
        return top
    starts, floor = _for_shifted_exp(logits.shape, logits.dtype)
    top = logits.take(starts + logits.argmax(-1, keepdims=True))  # numpy finds where sooner than how much
    np.subtract(logits, top, out=logits)
    np.maximum(logits, floor, out=logits)
    np.exp(logits, out=logits)
    return top


@lru_cache(maxsize=8)
def _for_shifted_exp(shape: tuple[int, int], dtype: Any) -> tuple[Array, Array]:
    """Where rows start in a flat array, (rows, 1), and the floor of exponents: as an array numpy compares it sooner."""
    rows, K = shape
    floor = np.array(exponent_floor(np.empty(0, dtype)), dtype)
    return (np.arange(rows) * K)[:, None], np.full(shape, floor) if rows * K <= 2**16 else floor
