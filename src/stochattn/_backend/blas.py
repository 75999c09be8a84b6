"""Linear algebra on one thread. The last bits of a product depend on how many threads BLAS splits it into.

Work that several processes or threads share must have the same bits wherever a piece of it runs. Every piece therefore
runs in `single_threaded`, and cores are used by running pieces at the same time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import LibController, ThreadpoolController

_lock = threading.Lock()
_in_use = 0  # blocks that are open now, in all threads
_before: list[tuple[LibController, int]] = []  # libraries of BLAS, and their threads before the first block


@contextmanager
def single_threaded(*libraries: str) -> Iterator[None]:
    """A context in which BLAS, OpenMP and torch on the CPU use one thread each; several threads may enter it.

    libraries: modules that the block may import, such as "scipy.linalg": those are imported first, because only
               libraries that are loaded can be limited
    """
    for name in libraries:
        import_module(name)
    blas, openmp = _controllers(len(sys.modules))
    with ExitStack() as own:
        own.enter_context(openmp.limit(limits=1))  # OpenMP has a limit for each thread, and BLAS one for all of them
        own.enter_context(_one_torch_thread())
        _begin(blas)
        try:
            yield
        finally:
            _end()


def _begin(blas: ThreadpoolController) -> None:
    global _in_use
    with _lock:
        if not _in_use:
            _before[:] = [(library, library.num_threads) for library in blas.lib_controllers]
            _set((library, 1) for library, _ in _before)
        _in_use += 1


def _end() -> None:
    global _in_use
    with _lock:
        _in_use -= 1
        if not _in_use:  # only the last block restores BLAS: others would still be computing
            _set(_before)
            _release()


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


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "set_num_threads"):  # not imported, or not completely
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
