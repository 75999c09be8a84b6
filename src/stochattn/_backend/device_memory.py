"""The memory of a device, checked before long work begins, so that too little of it is reported at once."""

from __future__ import annotations

import sys

from .arrays import Array, on_cuda

USABLE_SHARE = 0.95  # of the free memory: an allocator cannot use all of it


def free_bytes(reference: Array) -> int | None:
    """Bytes free on the CUDA device of `reference`, including those that torch has cached; None on the CPU."""
    if not on_cuda(reference):
        return None
    cuda = sys.modules["torch"].cuda
    cached = cuda.memory_reserved(reference.device) - cuda.memory_allocated(reference.device)
    return int(USABLE_SHARE * (cuda.mem_get_info(reference.device)[0] + cached))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory, or that of a device, is full."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def first_line(error: BaseException) -> str:
    """The first line of an error message; those of torch fill a page."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def gigabytes(n: float) -> str:
    """A number of bytes as text, such as "12.5 GB"."""
    return f"{n / 1e9:.3g} GB"
