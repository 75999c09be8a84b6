"""Linear algebra on one thread. The last bits of a product depend on how many threads BLAS splits it into.

Work that several processes or threads share must have the same bits wherever a piece of it runs. Every piece therefore
runs in `single_threaded`, and cores are used by running pieces at the same time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import LibController, ThreadpoolController

_lock = threading.Lock()
_in_use = 0  # blocks that are open now, in all threads
_before: dict[
    str, tuple[LibController, int]
] = {}  # libraries of BLAS by path, and their threads before they were limited
_torch_before: list[int] = []  # threads of torch before the first block
_thread = threading.local()  # `depth`: blocks that are open in this thread


@contextmanager
def single_threaded(*libraries: str) -> Iterator[None]:
    """A context in which BLAS, OpenMP and torch on the CPU use one thread each; several threads may enter it.

    libraries: modules that the block may import, such as "scipy.linalg": those are imported first, because only
               libraries that are loaded can be limited
    """
    for name in libraries:
        import_module(name)
    blas, openmp = _controllers(len(sys.modules))
    _begin(blas)
    try:
        # OpenMP has a limit for each thread, and BLAS one for all of them. Torch comes first: it asks OpenMP.
        with openmp.limit(limits=1):
            yield
    finally:
        _end()


def _begin(blas: ThreadpoolController) -> None:
    global _in_use
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


def _end() -> None:
    global _in_use
    with _lock:
        _in_use -= 1
        _thread.depth -= 1
        if not _thread.depth and _torch_before and (torch := _torch()) is not None:
            torch.set_num_threads(_torch_before[0])  # not what this thread had: it may have begun in another's block
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
    """Those of BLAS and of OpenMP; made again when modules were imported, which may have loaded libraries."""
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController()
    return found.select(user_api="blas"), found.select(user_api="openmp")


def _torch() -> ModuleType | None:
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "set_num_threads") else None  # None if it is not imported, or not completely
