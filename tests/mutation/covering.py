"""Which tests run which line of the library, and how long each takes."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from .changes import Mutant

SOURCE = "src/stochattn/"
SECONDS = (0.02, 0.2, 2.0)
"""Tests are ordered by these classes of duration, and within a class by file, so that files share their fixtures."""

MIN_TESTS = 5
"""Tests of a mutant, if as many run its lines, however long they take."""


READ_DECLARATIONS = ("::test_help_shows_the_form", "::test_a_slider_goes", "::test_beta_recalls")
"""Tests that read what modules declare, such as options of the command line, and run no line of theirs."""


class Durations:
    """A plugin of pytest that notes how long each test takes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}

    def pytest_runtest_logreport(self, report) -> None:
        before = self.seconds.get(report.nodeid, 0.0) if report.when != "setup" else 0.0
        self.seconds[report.nodeid] = before + report.duration

    def pytest_sessionfinish(self) -> None:
        self.path.write_text(json.dumps(self.seconds))


def note_lines(root: Path, folder: Path, jobs: int, tests: Iterable[str]) -> int:
    """Run tests (all by default) once, noting which lines each runs; what was noted of other tests is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root / 'tests')!r})\n" + _NOTE]
    words = [*(["-n", str(jobs)] if jobs > 1 else []), *tests]
    paths = {"COVERAGE_FILE": str(folder / "coverage.sqlite"), "DURATIONS_FILE": str(folder / "durations.json")}
    return subprocess.run([*command, *words], cwd=root, env={**os.environ, **paths}, check=False).returncode


_NOTE = """
import os, pathlib, pytest
from mutation.covering import Durations
words = "-q -p no:cacheprovider --cov=stochattn --cov-append --cov-context=test --cov-report=".split()
sys.exit(pytest.main([*words, *sys.argv[1:]], plugins=[Durations(pathlib.Path(os.environ["DURATIONS_FILE"]))]))
"""


class Covered:
    """The tests by file and line of the library, as `note_lines` noted them."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "coverage.sqlite").exists():
            raise SystemExit("Note first which tests run which line: python tests/mutate.py --cover")
        from coverage.numbits import numbits_to_nums

        self.seconds: dict[str, float] = json.loads((folder / "durations.json").read_text())
        self._tests: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        query = (
            "select file.path, context.context, line_bits.numbits from line_bits "
            "join file on file.id = line_bits.file_id join context on context.id = line_bits.context_id"
        )
        with sqlite3.connect(folder / "coverage.sqlite") as database:
            for path, context, numbits in database.execute(query):
                test = context.rpartition("|")[0]  # empty for what runs at import
                for line in numbits_to_nums(numbits):
                    self._tests[SOURCE + path.partition(SOURCE)[2]][line].add(test)

    def tests(self, mutant: Mutant, max_seconds: float) -> list[str]:
        """The tests that run the mutant's lines, fastest first; for a line that runs at import, those of its file.

        Where they take too long, different tests are preferred to one test with many parameters.
        """
        by_line = self._tests[mutant.file]
        found = {test for line in mutant.lines for test in by_line.get(line, ())}
        if "" in found:  # beside it there may be a test during which the file was imported in one of the processes
            found = {test for tests in by_line.values() for test in tests}
            found |= {test for test in self.seconds if any(name in test for name in READ_DECLARATIONS)}
        chosen, total = [], 0.0
        for test in self._by_variety(found - {""}):
            total += self.seconds.get(test, 1.0)
            if total > max_seconds and len(chosen) >= MIN_TESTS:
                break
            chosen.append(test)
        return sorted(chosen, key=self._order)

    def _by_variety(self, tests: Iterable[str]) -> list[str]:
        """Tests by their duration, times the square of their place among those of the same function."""
        functions, costs = Counter[str](), {}
        for test in sorted(tests, key=lambda test: (self.seconds.get(test, 1.0), test)):
            functions[name := test.partition("[")[0]] += 1
            costs[test] = self.seconds.get(test, 1.0) * functions[name] ** 2
        return sorted(costs, key=costs.__getitem__)

    def at_import(self, mutant: Mutant) -> bool:
        """Whether the mutant's lines run when modules are imported."""
        return any("" in self._tests[mutant.file].get(line, ()) for line in mutant.lines)

    def duration(self, tests: Iterable[str]) -> float:
        """Seconds that tests take together."""
        return sum(self.seconds.get(test, 1.0) for test in tests)

    def _order(self, test: str) -> tuple[int, str, float]:
        seconds = self.seconds.get(test, 1.0)
        return sum(seconds > one for one in SECONDS), test.partition("::")[0], seconds
