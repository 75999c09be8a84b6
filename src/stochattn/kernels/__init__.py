"""GPU kernels (Triton). The rest of the library calls the functions here and the streams of `philox.py`.

The functions return None where no kernel applies (no Triton, another dtype). The caller then uses plain torch with the
same random numbers. On a CPU, Triton interprets the kernels, for tests.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from .._backend.arrays import Array, is_torch, on_cuda

if TYPE_CHECKING:
    from .launch import DeviceChains
    from .tiled import TiledChains


@lru_cache(maxsize=1)
def _launch() -> ModuleType | None:
    try:
        return import_module(".launch", __name__)
    except ImportError:
        return None


def launcher(reference: Array) -> ModuleType | None:
    """The module `launch`, if its kernels run on the device of this array."""
    module = _launch() if is_torch(reference) else None
    return module if module is not None and module.runs_on(reference.device) else None


def chains(
    program: str, patterns: Array, log_r: Array, alpha: float, codimension: int
) -> DeviceChains | TiledChains | None:
    """Chains of the program "ula" or "mala" on memories (K, r), with `codimension` dimensions outside; or None."""
    module = launcher(patterns) if patterns.itemsize == 4 else None
    return None if module is None else module.chains(program, patterns, log_r, alpha, codimension)


def layer_launcher(reference: Array) -> ModuleType | None:
    """The module `layers`, for a float32 tensor on a GPU on which its kernels run. Only tests interpret it."""
    runs = on_cuda(reference) and reference.itemsize == 4 and launcher(reference) is not None
    return import_module(".layers", __name__) if runs else None
