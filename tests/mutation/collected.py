"""Mutants in tests that are collected once: a forked process replaces the code of one function, and runs its tests.

A new process would import the library and collect the tests again, which takes longer than most tests. What a function
did while modules were imported stays as it was, so functions that run then have new processes. A test that notices a
mutant must pass without it.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

import pytest

from .changes import Mutant

KILLED, SURVIVED, TIMED_OUT, UNTESTED = "killed", "survived", "timed out", "untested"
MAX_BYTES = 12 * 2**30
MAX_SECONDS = 4
"""Processor time that a test of a mutant may use in addition to half of that of all of them."""
NOT_REPLACED = 77
"""Exit code of a process in which the code of a function could not be replaced."""


Jobs = dict[int, tuple[Mutant, Sequence[str], float]]
"""Mutants, the tests that shall notice each, and how long these take, by number."""


class Place(NamedTuple):
    """A function of a module: its name with those of its classes, and how many of that name come before it."""

    name: str
    number: int


def function_of(mutant: Mutant) -> Place | None:
    """The function, of a module or a class, whose body a mutant changes; None if the change is elsewhere."""
    lines = mutant.source.splitlines(keepends=True)
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))

    def place(line: int, column: int) -> int:
        return offsets[line - 1] + len(lines[line - 1].encode()[:column].decode())

    seen: dict[str, int] = defaultdict(int)
    for name, node in _functions(ast.parse(mutant.source), ""):
        first, last = node.body[0], node.body[-1]
        begin, end = place(first.lineno, first.col_offset), place(last.end_lineno, last.end_col_offset)
        if begin <= mutant.begin and mutant.end <= end:
            return Place(name, seen[name])
        seen[name] += 1
    return None


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions of a module and of its classes, by name with those of the classes."""
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.FunctionDef):
            yield prefix + one.name, one
        else:
            yield from _functions(one, f"{prefix}{one.name}." if isinstance(one, ast.ClassDef) else prefix)


def code_at(text: str, file: str, place: Place) -> CodeType:
    """The code of a function of a text."""
    found = list(_codes(compile(text, file, "exec"), place.name.split(".")))
    return found[place.number]


def _codes(code: CodeType, names: Sequence[str]) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType) and one.co_name == names[0]:
            yield from _codes(one, names[1:]) if len(names) > 1 else [one]


class Collected:
    """A plugin of pytest that, instead of running the collected tests, tests mutants with them.

    folder: a copy of the project, whose tests these are
    out:    a file descriptor, to which a line of JSON with number, outcome (None for unknown) and message is written
    """

    def __init__(self, folder: Path, jobs: Jobs, out: int, end: float) -> None:
        self.folder, self.jobs, self.out, self.end = folder, jobs, out, end
        self.passes: dict[str, bool] = {}
        self.failed = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.session, self.items = session, {item.nodeid: item for item in session.items}
        self.functions: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        for one in gc.get_objects():
            if isinstance(one, FunctionType):
                code = one.__code__
                self.functions[code.co_filename, code.co_name, code.co_firstlineno].append(one)
        gc.collect()
        gc.freeze()
        for number, (mutant, tests, seconds) in self.jobs.items():
            if time.monotonic() < self.end:
                os.write(self.out, (json.dumps((number, *self._found(mutant, tests, seconds))) + "\n").encode())
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            lines = [line[2:].strip() for line in report.longreprtext.splitlines() if line.startswith("E ")]
            self.failed = json.dumps((report.nodeid, (lines or [""])[0][:100]))

    def _found(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> tuple[str | None, str]:
        """Outcome and message; None if only a new process can tell."""
        tests = [test for test in tests if test in self.items and self.passes.get(test, True)]
        file = self.folder / mutant.file
        while tests:
            file.write_text(mutant.mutated, encoding="utf-8")  # for programs that tests start
            try:
                outcome, test, said = self._forked(mutant, tests, seconds)
            finally:
                file.write_text(mutant.source, encoding="utf-8")
            if outcome != KILLED or not test:
                return (outcome if outcome in (SURVIVED, TIMED_OUT) else None), said
            if test not in self.passes:
                self.passes[test] = self._forked(None, [test], seconds)[0] == SURVIVED
            if self.passes[test]:
                return KILLED, said
            tests.remove(test)
        return None, ""

    def _forked(self, mutant: Mutant | None, tests: Sequence[str], seconds: float) -> tuple[str, str, str]:
        """Outcome, the test that failed, and its message."""
        log = self.folder / "log.txt"
        log.write_text("", encoding="utf-8")
        process = os.fork()
        if not process:
            code = 3
            try:
                os.close(self.out)
                os.setpgid(0, 0)
                resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
                code = self._run(mutant, tests, MAX_SECONDS + seconds / 2)
                log.write_text(self.failed, encoding="utf-8")
            finally:
                os._exit(code)
        end = time.monotonic() + 60 * (MAX_SECONDS + seconds)  # of something that waits: others may use the processor
        while not (ended := os.waitpid(process, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.killpg(process, signal.SIGKILL)
                os.waitpid(process, 0)
                return TIMED_OUT, "", ""
            time.sleep(0.003)
        code = os.waitstatus_to_exitcode(ended[1])
        outcome = {0: SURVIVED, -signal.SIGPROF: TIMED_OUT, NOT_REPLACED: UNTESTED}.get(code, KILLED)
        test, said = json.loads(log.read_text(encoding="utf-8") or '["", ""]')
        return outcome, test, said

    def _run(self, mutant: Mutant | None, tests: Sequence[str], max_seconds: float) -> int:
        if mutant is not None and not self._replace(mutant):
            return NOT_REPLACED
        items = [self.items[test] for test in tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            signal.setitimer(signal.ITIMER_PROF, max_seconds)  # its signal ends the process
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return 1
        return 0

    def _replace(self, mutant: Mutant) -> bool:
        """Replace the code of the mutant's function; whether that was possible."""
        file, place = str(self.folder / mutant.file), function_of(mutant)
        if place is None:
            return False
        old, new = (code_at(text, file, place) for text in (mutant.source, mutant.mutated))
        functions = self.functions.get((file, old.co_name, old.co_firstlineno), [])
        name = mutant.file.removeprefix("src/").removesuffix(".py").replace("/", ".")
        if not functions and name in sys.modules:
            return False
        if any(one.__code__.co_freevars != new.co_freevars for one in functions):
            return False
        for one in functions:
            one.__code__ = new
        return True


def run_collected(folder: Path, jobs: Jobs, out: int, end: float) -> None:
    """Collect the tests of some jobs in a copy of the project, and test their mutants; see `Collected`."""
    os.chdir(folder)
    os.environ |= {"PYTHONPATH": str(folder / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    sys.path[:0] = [str(folder / "src"), str(folder)]
    files = dict.fromkeys(test.partition("::")[0] for _, tests, _ in jobs.values() for test in tests)
    existing = [file for file in files if Path(file).exists()]
    pytest.main(["-q", "--tb=short", "-p", "no:cacheprovider", *existing], plugins=[Collected(folder, jobs, out, end)])
