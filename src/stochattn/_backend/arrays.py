"""Arrays of numpy and torch: types, conversion, the functions that the two libraries spell differently, device memory.

Torch is never imported here: a tensor can only arrive if its user has imported torch already.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

    NumpyArray: TypeAlias = npt.NDArray[Any]  # a `numpy.ndarray`, where a tensor would be an error
    Array: TypeAlias = NumpyArray | Tensor
    """A `numpy.ndarray` or a `torch.Tensor`; functions return the library of their argument."""
    ArrayLike: TypeAlias = npt.ArrayLike | Tensor
    """Whatever `as_floats` turns into an Array: nested lists, numbers, data frames, arrays, tensors."""
else:
    Array = ArrayLike = NumpyArray = object

NEGLIGIBLE = 1e-12  # of the largest length of some rows, below which a length is a rounding error
USABLE_SHARE = 0.95  # of the free memory of a device: an allocator cannot use all of it


def is_torch(x: object) -> TypeGuard[Tensor]:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def on_cuda(x: object) -> TypeGuard[Tensor]:
    return is_torch(x) and bool(x.is_cuda)


def device_name(x: object) -> str:
    """The device of x, such as "cuda:0"; "cpu" for objects without one."""
    return str(getattr(x, "device", "cpu"))


def namespace(x: object) -> ModuleType:
    """The module (numpy or torch) whose functions apply to x."""
    return sys.modules["torch"] if is_torch(x) else np


def to_numpy(x: ArrayLike) -> NumpyArray:
    return x.detach().cpu().numpy() if is_torch(x) else np.asarray(x)


def like(x: ArrayLike, reference: Array, *, keep_dtype: bool = False) -> Array:
    """x in the library, device and dtype of `reference`; keep_dtype leaves x its own dtype (indices, booleans)."""
    if not is_torch(reference):
        array = to_numpy(x)
        return array if keep_dtype else array.astype(reference.dtype, copy=False)
    tensor = x if is_torch(x) else sys.modules["torch"].from_numpy(np.ascontiguousarray(x))
    return tensor.to(device=reference.device, dtype=None if keep_dtype else reference.dtype)


def as_floats(x: ArrayLike, name: str) -> Array:
    """x as finite float32 or float64; integers and booleans become float64, half precision becomes float32."""
    array = _float_tensor(x, name) if is_torch(x) else _float_array(x, name)
    xp = namespace(array)
    # A sum is one pass without a temporary; the entries are examined only if it is not finite.
    with np.errstate(over="ignore", invalid="ignore"):
        if bool(xp.isfinite(xp.sum(array))):
            return array
    bad = to_numpy(~xp.isfinite(array))
    if bad.any():
        where = tuple(np.argwhere(bad)[0].tolist())
        count = f"{int(bad.sum())} of {bad.size} entries are NaN or infinite, the first at index {where}"
        raise ValueError(f"{name} must be finite; {count}. Remove or impute them first.")
    return array


def _float_tensor(x: Tensor, name: str) -> Tensor:
    torch = sys.modules["torch"]
    if x.is_complex() or x.layout != torch.strided:
        kind = str(x.dtype if x.is_complex() else x.layout).removeprefix("torch.")
        raise TypeError(f"{name} must be a dense tensor of real numbers; got {kind}.")
    if x.dtype in (torch.float32, torch.float64):
        return x
    return x.to(torch.float32 if x.is_floating_point() else torch.float64)


def _float_array(x: ArrayLike, name: str) -> NumpyArray:
    array = _plain_array(x, name)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers; got dtype {array.dtype}. Encode text and categories first.")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)  # of big-endian files
    wide = np.float64 if array.dtype.kind in "iub" or array.dtype.itemsize > 8 else np.float32
    return array if array.dtype in (np.float32, np.float64) else array.astype(wide)


def _plain_array(x: ArrayLike, name: str) -> NumpyArray:
    """x as a numpy array; the message names a type that numpy would turn into an array of objects."""
    if hasattr(x, "columns") and hasattr(x, "dtypes") and hasattr(x, "to_numpy"):  # a pandas DataFrame
        for column, dtype in zip(x.columns, x.dtypes, strict=True):
            if dtype.kind not in "fiub":
                raise TypeError(f"{name} must hold real numbers; column {column!r} is {dtype}. Encode or drop it.")
        return np.asarray(x.to_numpy(dtype=np.float64, na_value=np.nan))  # numpy cannot read nullable columns
    if np.ma.is_masked(x):
        raise ValueError(f"{name} must not be masked; {int(np.ma.getmask(x).sum())} entries are. Impute or drop them.")
    try:
        array = np.asarray(x)
    except ValueError:
        raise ValueError(f"{name} must be rows of one length; got rows of different lengths.") from None
    if array.ndim == 0 and array.dtype.kind not in "fiub":
        dense = " Call its .toarray()." if hasattr(x, "toarray") else ""
        raise TypeError(f"{name} must be an array of real numbers; got {type(x).__name__}.{dense}")
    return array


def freeze(x: Array, copy: bool = True) -> Array:
    """A copy that nothing else can write to; without `copy`, x itself, which is read-only through the result alone."""
    if is_torch(x):
        return x.detach().clone() if copy else x.detach()
    array = np.array(x, order="C") if copy else np.ascontiguousarray(x).view()
    array.flags.writeable = False
    return array


def row_dot(x: Array, y: Array) -> Array:
    """Inner product of each row of x with the same row of y: (..., d), (..., d) -> (...)."""
    return (x * y).sum(-1) if is_torch(x) else np.vecdot(x, y)


def norms_squared(x: Array) -> Array:
    """Squared l2 norm of each row: (..., d) -> (...)."""
    return row_dot(x, x)


def zeros_to_ones(lengths: Array) -> Array:
    """The lengths, with ones in place of zeros, to divide by."""
    xp = namespace(lengths)
    return xp.where(lengths > 0, lengths, xp.ones_like(lengths))


def lengths_of_directions(lengths: NumpyArray) -> NumpyArray:
    """The lengths, with inf for lengths that are zero or a rounding error beside the largest.

    A row divided by its length is then a unit vector, or zero if the row has no direction.
    """
    return np.where(lengths > NEGLIGIBLE * lengths.max(initial=0.0), lengths, np.inf)


def empty(shape: tuple[int, ...], reference: Array) -> Array:
    return reference.new_empty(shape) if is_torch(reference) else np.empty(shape, dtype=reference.dtype)


def full(shape: tuple[int, ...], value: float, reference: Array) -> Array:
    return reference.new_full(shape, value) if is_torch(reference) else np.full(shape, value, dtype=reference.dtype)


def safe_range(reference: Array) -> tuple[float, float]:
    """The least number of its dtype with full precision, and the largest of which some multiples are finite too."""
    limits = np.finfo(np.float32 if reference.itemsize == 4 else np.float64)
    return float(limits.tiny), float(limits.max) / 16


def zero_counts(rows: int, reference: Array) -> Array:
    """A column of int64 zeros on the device of `reference`, to count in: (rows, 1)."""
    return like(np.zeros((rows, 1), dtype=np.int64), reference, keep_dtype=True)


def detach(x: Array) -> Array:
    """x without the gradients that a tensor may carry."""
    return x.detach() if is_torch(x) else x


def concatenate(parts: Sequence[Array], axis: int = 0) -> Array:
    return sys.modules["torch"].cat(tuple(parts), axis) if is_torch(parts[0]) else np.concatenate(parts, axis)


def transpose(matrix: Array) -> Array:
    """The transpose as a new array, whose rows are contiguous."""
    return matrix.T.contiguous() if is_torch(matrix) else np.ascontiguousarray(matrix.T)


@contextmanager
def full_precision(reference: Array) -> Iterator[None]:
    """A context in which torch rounds no product of float32 below float32: neither autocast nor TF32 applies."""
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


def free_bytes(reference: Array) -> int | None:
    """Bytes free on the CUDA device of `reference`, including those that torch has cached, or in this machine.

    None where that is not known, and for rows on many machines.
    """
    if not on_cuda(reference):
        return free_memory() if isinstance(reference, np.ndarray) or is_torch(reference) else None
    cuda = sys.modules["torch"].cuda
    cached = cuda.memory_reserved(reference.device) - cuda.memory_allocated(reference.device)
    return int(USABLE_SHARE * (cuda.mem_get_info(reference.device)[0] + cached))


def free_memory() -> int | None:
    """Free bytes of memory and swap space of this machine; all of its memory if that is unknown, or None."""
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text("ascii").splitlines())
        return 1024 * sum(int(lines[name].split()[0]) for name in ("MemAvailable", "SwapFree"))
    except (OSError, ValueError, KeyError):  # not Linux
        if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
            return None
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def gigabytes(n: float) -> str:
    return f"{n / 1e9:,.0f} GB" if 1e12 <= n < 1e18 else f"{n / 1e9:.3g} GB"
