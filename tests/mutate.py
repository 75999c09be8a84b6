"""Mutation testing: change the library in one small way at a time, and see that a test fails.

    python tests/mutate.py --cover              run all tests once and note which of them run which line
    python tests/mutate.py --cover FILE ...     note it again for these files of tests
    python tests/mutate.py                      test mutants of every module; what was tested before is not repeated
    python tests/mutate.py core/energy nn       only modules whose path contains one of these texts
    python tests/mutate.py --table              print what was found so far
    python tests/mutate.py --faults [noise]     plant the known faults (whose name contains all of these texts) instead

A mutant is one operator, number, condition, argument or statement replaced. `--per-module` of them are drawn from every
module with a fixed seed. Only tests that run the changed line are run, the fastest first, up to `--max-seconds`. They
are collected once for all mutants of functions; a mutant of code that runs at import has a process of its own.
Lines whose change cannot be noticed stand in mutation/equivalent.toml, with the reason, and their mutants are left out.
The folder out/mutants keeps what was noted and found. The exit code is 1 if a mutant survives.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import time
from collections import defaultdict
from pathlib import Path

from mutation.changes import Mutant, chosen_mutants
from mutation.covering import Covered, note_lines
from mutation.faults import FAULTS
from mutation.running import KILLED, SURVIVED, TIMED_OUT, UNTESTED, Job, run

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "stochattn"
OUT = ROOT / "out" / "mutants"
NOT_TESTED = ("__init__.py", "__main__.py", "_version.py")


class Results:
    """Outcomes by mutant, appended to a file one by one."""

    def __init__(self, path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.known = {one["key"]: one for one in map(json.loads, lines)}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")

    def note(self, job: Job, outcome: str, said: str) -> None:
        """Keep an outcome, and print it unless the mutant was killed."""
        key = job.mutant.key
        self.known[key] = {
            "key": key,
            "outcome": outcome,
            "tests": _digest(job.tests),
            "mutant": str(job.mutant),
            "said": said[:100],
        }
        self._file.write(json.dumps(self.known[key], ensure_ascii=False) + "\n")
        self._file.flush()
        if outcome in (SURVIVED, UNTESTED):
            print(f"{outcome}: {job.mutant}", flush=True)

    def is_known(self, job: Job) -> bool:
        """Whether the outcome is known: a mutant that survived is tested again once its tests have changed."""
        found = self.known.get(job.mutant.key)
        return found is not None and (found["outcome"] in (KILLED, TIMED_OUT) or found["tests"] == _digest(job.tests))


def _digest(tests: list[str]) -> str:
    files = {test.partition("::")[0] for test in tests}
    texts = [(ROOT / file).read_bytes() for file in sorted(files) if (ROOT / file).exists()]
    return hashlib.sha256(b"\0".join(["\0".join(tests).encode(), *texts])).hexdigest()[:16]


def table(wanted: list[Mutant], results: Results) -> str:
    """Found so far: a row for each package and module, and the survivors."""
    rows: dict[str, list[str]] = defaultdict(list)
    survivors = []
    for mutant in wanted:
        if mutant.key in results.known:
            outcome = results.known[mutant.key]["outcome"]
            module = mutant.file.removeprefix("src/stochattn/").removesuffix(".py")
            for name in (module, "**" + (module.partition("/")[0] if "/" in module else ".") + "**", "***"):
                rows[name].append(outcome)
            if outcome in (SURVIVED, UNTESTED):
                survivors.append(f"- `{mutant}` ({outcome})")
    lines = ["| module | killed | survived | share killed |", "|---|---:|---:|---:|"]
    for name in sorted(rows, key=lambda name: (name.strip("*"), "*" not in name)):
        killed = sum(one in (KILLED, TIMED_OUT) for one in rows[name])
        label = "**all**" if name == "***" else name
        lines.append(f"| {label} | {killed} | {len(rows[name]) - killed} | {killed / len(rows[name]):.0%} |")
    return "\n".join([*lines, "", f"{len(survivors)} survivors", *sorted(survivors)])


def plant_faults(words: list[str], n_slots: int) -> int:
    """Plant the known faults whose name contains all words; 1 if the tests miss one."""
    wanted = [fault for fault in FAULTS if all(word in fault.name for word in words)]
    jobs = [Job(fault.mutant(ROOT), [f"tests/{fault.tests}"], seconds=300.0) for fault in wanted]
    names = {job.mutant.key: fault.name for job, fault in zip(jobs, wanted, strict=True)}
    missed = []

    def note(job: Job, outcome: str, said: str) -> None:
        noticed = outcome in (KILLED, TIMED_OUT)
        print(f"{'noticed' if noticed else 'MISSED '}  {names[job.mutant.key]:50s} {said[:100]}", flush=True)
        missed.extend([] if noticed else [job])

    run(ROOT, OUT, jobs, n_slots, note)
    print(f"{len(jobs) - len(missed)} of {len(jobs)} faults noticed")
    return bool(missed)


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="parts of paths of modules, or of names of faults [all]"
    )
    parser.add_argument("--per-module", type=int, default=20)
    parser.add_argument("--max-seconds", type=float, default=20, help="of tests for one mutant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 2))
    parser.add_argument("--minutes", type=float, default=24 * 60, help="end after so many; go on later")
    parser.add_argument("--cover", action="store_true", help="note which tests run which line")
    parser.add_argument("--table", action="store_true", help="print what was found")
    parser.add_argument("--faults", action="store_true", help="plant the known faults")
    asked = parser.parse_args()
    if asked.cover:
        return note_lines(ROOT, OUT, asked.jobs, asked.words)
    if asked.faults:
        return plant_faults(asked.words, asked.jobs)
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if path.name not in NOT_TESTED]
    names = {path: str(path.relative_to(PACKAGE)) for path in paths}
    paths = [path for path in paths if not asked.words or any(word in names[path] for word in asked.words)]
    wanted = [mutant for path in paths for mutant in chosen_mutants(ROOT, path, asked.per_module, asked.seed)]
    results = Results(OUT / "results.jsonl")
    covered, end = Covered(OUT), time.monotonic() + 60 * asked.minutes
    chosen = {one: covered.tests(one, asked.max_seconds) for one in wanted}
    jobs = [Job(one, tests, covered.duration(tests), covered.at_import(one)) for one, tests in chosen.items()]
    random.Random(asked.seed).shuffle(jobs)
    left = [job for job in jobs if not results.is_known(job)]
    if not asked.table:
        for job in left:
            results.known.pop(job.mutant.key, None)  # found with other tests
        run(ROOT, OUT, left, asked.jobs, results.note, end=end)
    print(table(wanted, results))
    found = [results.known[one.key]["outcome"] for one in wanted if one.key in results.known]
    return any(one in (SURVIVED, UNTESTED) for one in found)


if __name__ == "__main__":
    sys.exit(main())
