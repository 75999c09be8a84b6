"""Work on several cores: threads of this process for array code, and joblib's workers for everything else.

Results never depend on the number of workers: each piece of work has its own random numbers.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from functools import cached_property, lru_cache, partial
from importlib import import_module
from multiprocessing import resource_tracker
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar
from uuid import uuid4

import numpy as np

from .checks import InputError, check_count

if TYPE_CHECKING:
    import numpy.typing as npt

Piece = TypeVar("Piece")
Result = TypeVar("Result")
Value = TypeVar("Value")
Buffer: TypeAlias = "npt.NDArray[np.uint8]"

MIN_MAPPED_BYTES = 2**20
MAX_THREADS_VARIABLE = "OMP_NUM_THREADS"  # limits threads of numerical libraries; joblib sets it in its workers

_thread = threading.local()
_received: dict[str, Shared] = {}  # type: ignore[type-arg]  # of any value: the last one that this process unpacked


def check_jobs(n_jobs: int | None) -> int | None:
    """n_jobs as joblib takes it: a positive number of workers, -1 for all cores (-2 for all but one), or None."""
    if n_jobs is None:
        return None
    if isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool) and n_jobs < 0:
        return int(n_jobs)
    if n_jobs == 0:
        raise ValueError("n_jobs must be a number of workers, or -1 for all cores; got 0.")
    return check_count("n_jobs", n_jobs)


def usable_cores() -> int:
    """Cores that this process may use: those it is bound to, or fewer if OMP_NUM_THREADS says so.

    A thread among other workers has one, and `jobs_for_searches` may allow fewer.
    """
    if getattr(_thread, "is_worker", False):
        return 1
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    cores = min(cores, getattr(_thread, "max_threads", None) or cores)
    limit = os.environ.get(MAX_THREADS_VARIABLE, "").partition(",")[0].strip()
    return min(cores, int(limit)) if limit.isdecimal() and int(limit) else cores


def n_threads(n_jobs: int | None) -> int:
    """Threads of this process for n_jobs: all usable cores for None and -1, all but one for -2, and so on."""
    return n_jobs if n_jobs is not None and n_jobs > 0 else max(usable_cores() + 1 + (n_jobs or -1), 1)


def in_threads(work: Callable[[Piece], Result], pieces: Sequence[Piece], n_threads: int | None = None) -> list[Result]:
    """The results of `work` for all pieces, in threads of this process; for code that spends its time inside numpy.

    n_threads: None uses `usable_cores()`. After an error, or Ctrl-C, pieces that have not begun are left out.
    """
    n_threads = min(n_threads or usable_cores(), len(pieces))
    if n_threads <= 1:
        return [work(piece) for piece in pieces]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, pieces))


_kept: list[ThreadPoolExecutor] = []  # the threads of `in_kept_threads`, which wait for the next call


def in_kept_threads(work: Callable[[Piece], object], pieces: Sequence[Piece]) -> None:
    """Call `work` for every piece in threads that stay from call to call: for pieces of a tenth of a millisecond.

    Each thread, this one included, takes the next piece that is left. A thread that other work keeps from beginning
    delays nothing.
    """
    n_threads = min(usable_cores(), len(pieces))
    # Threads may share the iterator of a list, which lets go of the calls when none is left: a thread that has not
    # begun then holds no arrays.
    calls = iter([partial(work, piece) for piece in pieces])

    def take() -> None:
        for call in calls:
            call()

    if n_threads > 1 and not _kept:
        _kept.append(ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="stochattn"))  # started when needed
    futures = [_kept[0].submit(take) for _ in range(n_threads - 1)]
    try:
        take()
    finally:
        for future in futures:
            if not future.cancel():  # one that has not begun finds nothing left to do
                future.result()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_kept.clear)  # threads do not survive a fork


def effective_jobs(n_jobs: int | None) -> int:
    """The number of workers that n_jobs means: 1 for None, unless `joblib.parallel_config` is active."""
    if n_jobs is None and "joblib" not in sys.modules:  # without joblib no configuration of it can be active
        return 1
    import joblib

    return int(joblib.effective_n_jobs(n_jobs))


@contextmanager
def jobs_for_searches(n_jobs: int | None) -> Iterator[None]:
    """A context in which searches without n_jobs use so many workers, or at most so many threads; None: no limit."""
    if n_jobs is None:
        yield
        return
    import joblib

    before, _thread.max_threads = getattr(_thread, "max_threads", None), n_threads(n_jobs)
    try:
        with joblib.parallel_config(n_jobs=n_jobs):
            yield
    finally:
        _thread.max_threads = before


@contextmanager
def in_workers(
    work: Callable[[Piece], Result], pieces: Iterable[Piece], n_jobs: int | None, *, ordered: bool = True
) -> Iterator[Iterator[Result]]:
    """A context with the results of `work` for all pieces, in their order or as they come, by joblib's workers.

    n_jobs=None works in this process, unless `joblib.parallel_config` is active; that also chooses the backend. What is
    still running when the context ends, after an error or Ctrl-C, is stopped: processes are ended, and threads finish
    their piece without anybody waiting for them. Large arrays that are sent to processes are memory maps there, which
    may be written to: a page that is changed is copied first.
    """
    if effective_jobs(n_jobs) == 1:
        yield map(work, pieces)
        return
    import joblib

    calls = (joblib.delayed(_in_worker)(work, piece, os.getpid()) for piece in pieces)
    backend, _ = joblib.parallel.get_active_backend(prefer="processes")
    one_by_one = getattr(backend, "supports_return_generator", False)  # that of Ray returns all results at the end
    generator = "generator" if ordered else "generator_unordered"
    parallel = joblib.Parallel(
        n_jobs=n_jobs,
        prefer="processes",
        return_as=generator if one_by_one else "list",
        pre_dispatch="n_jobs + 2",  # few results wait at a time, in bounded memory
        batch_size=1,
        mmap_mode="c",
    )
    # It counts the pieces that nobody asks for any more. Ctrl-C may drop the results before they have a name here.
    parallel._warn_exit_early = lambda: None
    in_processes = not getattr(backend, "uses_threads", False)
    results: Generator[Result] | list[Result] = []
    try:
        with delay_ctrl_c() if one_by_one and in_processes else nullcontext():
            results = parallel(calls)
        yield iter(results)
    except BrokenProcessPool:
        reason = "a worker process was ended, usually for lack of memory"
        raise InputError(f"n_jobs={n_jobs}: {reason}. Use fewer workers, or free memory.") from None
    finally:
        if not isinstance(results, list):
            results.close()


class Shared(Generic[Value]):
    """An object that all pieces of work need. A worker process unpacks it once, and threads use `value` itself.

    Large arrays within it are memory maps in processes of this machine, as those are that joblib sends.
    """

    def __init__(self, value: Value) -> None:
        self.value, self._key = value, uuid4().hex

    @cached_property
    def _packed(self) -> tuple[Buffer, list[Buffer]]:
        buffers: list[Buffer] = []

        def is_small(buffer: PickleBuffer) -> bool:  # small ones stay among the bytes
            raw = buffer.raw()
            if raw.nbytes >= MIN_MAPPED_BYTES:
                buffers.append(np.frombuffer(raw, dtype=np.uint8))
            return raw.nbytes < MIN_MAPPED_BYTES

        try:
            pickler = import_module("cloudpickle")
        except ImportError:  # joblib 1.5 and earlier bring their own
            pickler = import_module("joblib.externals.cloudpickle")
        data = pickler.dumps(self.value, protocol=5, buffer_callback=is_small)
        return np.frombuffer(data, dtype=np.uint8), buffers  # an array, so that a large one is mapped too

    def __reduce__(self) -> tuple[Callable[..., Shared[Value]], tuple[str, Buffer, list[Buffer]]]:
        return _unpack, (self._key, *self._packed)


def _unpack(key: str, data: Buffer, buffers: list[Buffer]) -> Shared[Value]:
    shared: Shared[Value] | None = _received.get(key)
    if shared is None:
        shared = Shared(pickle.loads(data.data, buffers=buffers))
        _received.clear()  # work on another object is over
        _received[key] = shared
    return shared


def _in_worker(work: Callable[[Piece], Result], piece: Piece, caller: int) -> Result:
    """`work(piece)`, on one core if this is a thread among others; a process has its share of the cores already."""
    if threading.current_thread() is not threading.main_thread():
        _thread.is_worker = True
    elif os.getpid() != caller:
        end_with_parent(os._exit)
    return work(piece)


@lru_cache(maxsize=1)
def end_with_parent(end: Callable[[int], object]) -> None:
    """Call `end` with an exit code soon after the parent of this process ends: one that was killed could not end it."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        end(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def delay_ctrl_c() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, and ignore it in processes that begin in it, which their parent ends.

    A terminal sends it to all of them, and each would print a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # joblib needs it, and up to Python 3.11 its start ends the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
