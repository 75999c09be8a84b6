"""Tests of mutants, each in a forked process that has its libraries loaded already; first where tests are collected."""

from __future__ import annotations

import compileall
import gc
import json
import math
import os
import py_compile
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.config import default_plugins

from .changes import Mutant
from .collected import KILLED, MAX_BYTES, SURVIVED, TIMED_OUT, UNTESTED, function_of, run_collected

LOADED_ONCE = (
    "numpy",
    "scipy.stats",
    "pandas",
    "sklearn.decomposition",
    "sklearn.neighbors",
    "PIL.Image",
    "typer.testing",
)
LOADED_ONCE += ("torch", "matplotlib.pyplot", "pdb")
COPIED = ("src", "tests", "paper", "benchmarks", "examples", "docs", "pyproject.toml", "README.md", "CHANGELOG.md")
FIRST = 12
"""Tests of the first process; the others follow in a second one, which few mutants need."""
PATIENCE = 5
"""A mutant may use this many times the processor time of its tests, and half a minute, and wait ten times as long."""


class Job(NamedTuple):
    """A mutant, the files or single tests that shall notice it, in order, and whether its line runs at import too."""

    mutant: Mutant
    tests: Sequence[str]
    seconds: float
    at_import: bool = False


class Selection:
    """A plugin of pytest that keeps the tests of a list, in its order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.places = {test: i for i, test in enumerate(tests) if "::" in test}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.places:
            items[:] = sorted(
                (one for one in items if one.nodeid in self.places), key=lambda one: self.places[one.nodeid]
            )


class Slot:
    """A copy of the project in which the tests of one mutant at a time run."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self.process, self.outcomes = folder, 0, iter(())
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        ignored = shutil.ignore_patterns("__pycache__")
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, folder / name, ignore=ignored)
            elif (root / name).exists():
                shutil.copy(root / name, folder)
        # Compiled files that carry a hash of their source: times of files are too coarse for mutants.
        compileall.compile_dir(folder / "src", quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)

    def begin(self, job: Job) -> None:
        """Start the tests of a mutant."""
        self.job, self.outcomes = job, self._run(job)

    def outcome(self) -> str | None:
        """What the tests found; None while they run."""
        return next(self.outcomes)

    def _run(self, job: Job) -> Iterator[str | None]:
        file = self.folder / job.mutant.file
        file.write_text(job.mutant.mutated, encoding="utf-8")
        try:
            # Processor time ends a loop without end; on a busy machine the clock says little, and ends only what waits.
            found, allowed = UNTESTED, 30 + PATIENCE * job.seconds
            end = time.monotonic() + 10 * allowed
            for tests in (job.tests[:FIRST], job.tests[FIRST:]):
                self.process = self._fork(tests, int(allowed)) if tests else 0
                while self.process:
                    ended, status = os.waitpid(self.process, os.WNOHANG)
                    if ended:
                        self.process, code = 0, os.waitstatus_to_exitcode(status)
                        found = {0: SURVIVED, 5: found, -signal.SIGXCPU: TIMED_OUT}.get(code, KILLED)
                        if code == pytest.ExitCode.INTERNAL_ERROR:
                            self._check_without(job.mutant, tests, int(allowed))
                    elif time.monotonic() > end:
                        self.stop()
                        found = TIMED_OUT
                    else:
                        yield None
                if found in (KILLED, TIMED_OUT):
                    break
        finally:
            self.stop()
            file.write_text(job.mutant.source, encoding="utf-8")
        yield found

    def _check_without(self, mutant: Mutant, tests: Sequence[str], max_seconds: int) -> None:
        """Stop everything if pytest itself fails without the mutant too: it would kill every mutant."""
        (self.folder / mutant.file).write_text(mutant.source, encoding="utf-8")
        _, status = os.waitpid(self._fork(tests, max_seconds), 0)
        if os.waitstatus_to_exitcode(status) == pytest.ExitCode.INTERNAL_ERROR:
            raise SystemExit(f"pytest itself fails: {self.folder / 'log.txt'} says why.")

    def said(self) -> str:
        """The first line of the first failure."""
        lines = (self.folder / "log.txt").read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line[2:].strip() for line in lines if line.startswith("E ")), "")

    def stop(self) -> None:
        """End the process of this slot and all that it started."""
        if self.process:
            os.killpg(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
            self.process = 0

    def _fork(self, tests: Sequence[str], max_seconds: int) -> int:
        process = os.fork()
        if process:
            os.setpgid(process, process)
            return process
        code = 3
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
            resource.setrlimit(resource.RLIMIT_CPU, (max_seconds, max_seconds + 5))
            os.chdir(self.folder)
            os.environ |= {"PYTHONPATH": str(self.folder / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
            sys.path[:0] = [str(self.folder / "src"), str(self.folder)]
            quiet = os.open(self.folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
            code = int(
                pytest.main(["-x", "-q", "--tb=short", "-p", "no:cacheprovider", *files], plugins=[Selection(tests)])
            )
        finally:
            os._exit(code)


def run(
    root: Path,
    folder: Path,
    jobs: Sequence[Job],
    n_slots: int,
    note: Callable[[Job, str, str], None],
    loaded: Iterable[str] = LOADED_ONCE,
    end: float = math.inf,
) -> None:
    """Test mutants side by side until `end`, and call `note` with outcome and message; libraries are loaded once.

    Where tests are named one by one, they are collected once; mutants of lines that run at import have new processes.
    """
    for name in (*loaded, *(f"_pytest.{plugin}" for plugin in default_plugins)):
        import_module(name)
    gc.freeze()  # collections in the processes skip what was loaded before
    slots = [Slot(root, folder / f"copy-{i}") for i in range(n_slots)]
    left = dict(enumerate(jobs))
    for number, outcome, said in _collected_outcomes(left, slots, end):
        if outcome is not None:
            note(left.pop(number), outcome, said)
    _run_one_by_one(slots, (job for job in left.values() if time.monotonic() < end), note)


def _collected_outcomes(jobs: dict[int, Job], slots: list[Slot], end: float) -> Iterator[tuple[int, str | None, str]]:
    """Number, outcome and message of the mutants of functions; None for those that only a new process can tell."""
    named = {i: job for i, job in jobs.items() if job.tests and all("::" in test for test in job.tests)}
    named = {i: job for i, job in named.items() if not job.at_import}
    named = {i: job for i, job in named.items() if function_of(job.mutant) is not None}
    if not named:
        return
    read, write = os.pipe()
    processes = []
    for place, slot in enumerate(slots):
        processes.append(os.fork())
        if not processes[-1]:
            try:
                own = {i: job[:3] for i, job in list(named.items())[place :: len(slots)]}
                quiet = os.open(slot.folder / "collected.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(quiet, 1)
                os.dup2(quiet, 2)
                run_collected(slot.folder, own, write, end)
            finally:
                os._exit(0)
    os.close(write)
    try:
        with os.fdopen(read, encoding="utf-8") as lines:
            yield from map(json.loads, lines)
    finally:
        for process in processes:
            os.waitpid(process, 0)


def _run_one_by_one(slots: list[Slot], jobs: Iterable[Job], note: Callable[[Job, str, str], None]) -> None:
    queue, active = iter(jobs), list[Slot]()
    try:
        while True:
            for slot in slots:
                if slot in active and (outcome := slot.outcome()) is not None:
                    active.remove(slot)
                    note(slot.job, outcome, slot.said() if outcome == KILLED else "")
                if slot not in active and (job := next(queue, None)) is not None:
                    slot.begin(job)
                    active.append(slot)
            if not active:
                return
            time.sleep(0.01)
    finally:
        for slot in active:
            slot.stop()
