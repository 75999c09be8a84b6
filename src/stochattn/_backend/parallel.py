"""Work on several cores: threads of this process for array code, and joblib's workers for everything else.

Results never depend on the number of workers: each piece of work has random numbers of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeVar

from .checks import count

Piece = TypeVar("Piece")
Result = TypeVar("Result")

MAX_THREADS_VARIABLE = "OMP_NUM_THREADS"
"""The variable that limits the threads of numerical libraries; joblib sets it in its worker processes."""


def checked_jobs(n_jobs: int | None) -> int | None:
    """n_jobs as joblib takes it: a positive number of workers, -1 for all cores (-2 for all but one), or None."""
    if n_jobs is None:
        return None
    if isinstance(n_jobs, int) and not isinstance(n_jobs, bool) and n_jobs < 0:
        return n_jobs
    if n_jobs == 0:
        raise ValueError("n_jobs must be a number of workers, or -1 for all cores; got 0.")
    return count("n_jobs", n_jobs)


def usable_cores() -> int:
    """Cores that this process may use: those it is bound to, or fewer if OMP_NUM_THREADS says so."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    limit = os.environ.get(MAX_THREADS_VARIABLE, "").partition(",")[0].strip()
    return min(cores, int(limit)) if limit.isdecimal() and int(limit) else cores


def in_threads(work: Callable[[Piece], object], pieces: Sequence[Piece], n_threads: int | None = None) -> None:
    """Call `work` for every piece, in threads of this process; for code that spends its time inside numpy.

    n_threads: None uses `usable_cores()`. After an error, or Ctrl-C, pieces that have not begun are left out.
    """
    n_threads = min(n_threads or usable_cores(), len(pieces))
    if n_threads <= 1:
        for piece in pieces:
            work(piece)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(work, pieces):
            pass


def in_workers(
    work: Callable[[Piece], Result],
    pieces: Iterable[Piece],
    n_jobs: int | None,
    *,
    prefer: Literal["threads", "processes"] = "processes",
) -> Iterator[Result]:
    """The results of `work` for all pieces, in their order, computed by joblib's workers.

    n_jobs=None works in this process, unless `joblib.parallel_config` is active; that also chooses the backend.
    """
    if n_jobs is None and "joblib" not in sys.modules:  # without joblib no configuration of it can be active
        return map(work, pieces)
    import joblib

    parallel = joblib.Parallel(n_jobs=n_jobs, prefer=prefer, return_as="generator", pre_dispatch="n_jobs + 2")
    return iter(parallel(joblib.delayed(work)(piece) for piece in pieces))
