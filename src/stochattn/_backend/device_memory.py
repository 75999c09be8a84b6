"""Memory on a device: asked for before work begins, so that running out of it costs a message and not an hour."""

from __future__ import annotations

import sys

from .arrays import Array, on_cuda

SPARE = 0.95  # of the free memory: what an allocator can really hand out


def free_bytes(reference: Array) -> int | None:
    """Bytes still free on the CUDA device of `reference`, those that torch holds back included; None elsewhere."""
    if not on_cuda(reference):
        return None
    cuda = sys.modules["torch"].cuda
    idle = cuda.memory_reserved(reference.device) - cuda.memory_allocated(reference.device)
    return int(SPARE * (cuda.mem_get_info(reference.device)[0] + idle))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch says that a device's memory is full."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def first_line(error: BaseException) -> str:
    """What an error says first; torch goes on for a page."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def gigabytes(n: float) -> str:
    """A number of bytes to read: "12.5 GB"."""
    return f"{n / 1e9:.3g} GB"
