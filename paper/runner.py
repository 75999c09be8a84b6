"""Run experiments, several at a time in worker processes of joblib, and reuse results that are up to date."""

from __future__ import annotations

import multiprocessing
import os
import platform
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from queue import Queue
from typing import Any

from threadpoolctl import threadpool_limits

import stochattn
from stochattn._backend.parallel import effective_jobs, in_workers

from . import progress, writing
from .catalogue import EXPERIMENTS
from .data import Data
from .fingerprint import code_digest, fingerprint, same
from .sources import DataError

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "pyhmmer")
THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

SEEDS_APART = 1000  # an experiment uses seeds that follow its own

ProgressCallback = Callable[[str, str, float | None], None]


@dataclass(frozen=True)
class Task:
    """One experiment to run; `folder` has the data, `out` has the results of all experiments.

    repeat: 0 for the run with the given seed; 1, 2, … for further runs, whose seeds are 1000, 2000, … larger
    """

    name: str
    folder: Path | None
    out: Path
    seed: int
    quick: bool
    repeat: int = 0

    @property
    def label(self) -> str:
        """The name, with the number of the repetition if there is one."""
        return f"{self.name}, seed {self.own_seed}" if self.repeat else self.name

    @property
    def own_seed(self) -> int:
        """The seed of this run."""
        return self.seed + SEEDS_APART * self.repeat

    @property
    def place(self) -> Path:
        """The folder of the result; repetitions have folders inside that of the first run."""
        return repetition(self.out / self.name, self.repeat)


def repetition(folder: Path, repeat: int) -> Path:
    """The folder of a repetition of the experiment in `folder`."""
    return folder / f"repeat-{repeat}" if repeat else folder


@dataclass(frozen=True)
class Outcome:
    """How a task ended: finished now, reused from an earlier run, or failed with an error message."""

    name: str
    seconds: float = 0.0
    reused: bool = False
    error: str = ""


def signature(task: Task) -> dict[str, Any]:
    """The values that a stored result must share with a task to be reused for it."""
    return {
        "experiment": task.name,
        "seed": task.own_seed,
        "quick": task.quick,
        "code": code_digest(task.name),
    }


def is_done(task: Task) -> bool:
    """Whether a complete result of this task, on the current data, is in its folder."""
    record = writing.read(task.place)
    if record is None or any(record.get(key) != value for key, value in signature(task).items()):
        return False
    if not same(record.get("fingerprint"), fingerprint(task.name)):
        return False
    data = Data.locate(task.folder)
    try:
        return all(data.source(name).sha256 == digest for name, digest in record["data"].items())
    except (DataError, KeyError):  # the experiment reports this error when it loads the data
        return False


@contextmanager
def _interrupted_by_ctrl_c() -> Iterator[None]:
    """A context in which Ctrl-C ends an experiment also while chains run, which would return what they have so far."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "interrupted after", RuntimeWarning)
        try:
            yield
        except RuntimeWarning as warning:
            if str(warning).startswith("interrupted after"):
                raise KeyboardInterrupt from None
            raise


def perform(task: Task) -> float:
    """Run an experiment, write its result, and return the elapsed seconds."""
    from .baselines import training

    data, current = Data.locate(task.folder), signature(task)
    begin, trained, processor = time.perf_counter(), training.seconds_spent, time.process_time()
    with _interrupted_by_ctrl_c():
        result = EXPERIMENTS[task.name].module.run(data, task.own_seed, task.quick)
    seconds = time.perf_counter() - begin
    record = {
        **current,
        "fingerprint": fingerprint(task.name),
        "seconds": round(seconds, 1),
        "processor_seconds": round(time.process_time() - processor, 1),
        "learned_seconds": round(training.seconds_spent - trained, 1),
        "data": {name: source.sha256 for name, source in sorted(data.used.items())},
        "remarks": data.remarks(),
        "versions": _versions(),
        "machine": _machine(training.seconds_spent > trained),
    }
    writing.write(result, task.place, record)
    return seconds


def run_all(tasks: Sequence[Task], jobs: int, on_progress: ProgressCallback) -> Iterator[Outcome]:
    """Yield outcomes as tasks finish, reused results first. A failed experiment does not stop the others.

    jobs: workers of joblib; the experiments run in this process if it is 1. Results do not depend on it.
    """
    todo = []
    for task in tasks:
        if is_done(task):
            yield Outcome(task.label, reused=True)
        else:
            todo.append(task)
    left = {task.label for task in todo}
    with (
        _messages_to(on_progress, effective_jobs(jobs)) as send,
        _one_thread_each(),
        in_workers(partial(_attempt, send), todo, jobs, ordered=False) as outcomes,
    ):
        while left:
            try:
                outcome = next(outcomes)
            except BrokenProcessPool:
                break
            left.remove(outcome.name)
            yield outcome
    for name in (task.label for task in todo if task.label in left):
        yield Outcome(name, error="its process ended without a result (out of memory?)")


def _attempt(send: ProgressCallback, task: Task) -> Outcome:
    """Run an experiment, in this process, on one thread of linear algebra, whose number changes the last bits."""
    import_module("scipy.linalg")  # only libraries that are loaded can be limited
    progress.set_callback(partial(send, task.label))
    progress.stage("")
    try:
        with threadpool_limits(1):
            return Outcome(task.label, perform(task))
    except Exception as error:
        kind = "" if isinstance(error, (DataError, RuntimeError)) else f"{type(error).__name__}: "
        return Outcome(task.label, error=kind + " ".join(str(error).split()))
    finally:
        progress.set_callback(None)


@dataclass(frozen=True)
class _Sender:
    """Sends the progress of an experiment to the process that shows it."""

    messages: Queue[tuple[str, str, float | None] | None]

    def __call__(self, name: str, text: str, share: float | None) -> None:
        self.messages.put((name, text, share))


@contextmanager
def _messages_to(on_progress: ProgressCallback, jobs: int) -> Iterator[ProgressCallback]:
    """A callback for workers, whose calls reach `on_progress` in this process."""
    if jobs == 1:
        yield on_progress
        return
    with multiprocessing.get_context("spawn").Manager() as manager:
        messages = manager.Queue()

        def receive() -> None:
            while (message := messages.get()) is not None:
                on_progress(*message)

        receiver = threading.Thread(target=receive, daemon=True)
        receiver.start()
        try:
            yield _Sender(messages)
        finally:
            messages.put(None)
            receiver.join()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Limit the numerical libraries of worker processes that start in the block to one thread each."""
    # Training uses all cores all the same, so waiting threads must sleep instead of spinning.
    settings = {**dict.fromkeys(THREAD_SETTINGS, "1"), "OMP_WAIT_POLICY": "passive"}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "stochattn": stochattn.__version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _machine(trained: bool) -> str:
    cores = f"{os.cpu_count()} CPU cores"
    if trained:
        from .baselines.training import device, torch_or_remedy

        if device() == "cuda":
            return f"{cores}, {torch_or_remedy().cuda.get_device_name()}"
    return cores
