"""Give made-up and damaged inputs to the library for some time, and print every problem with its smallest input.

    python -m fuzz.run --rounds 2 --seed 0         (in tests/; as `make test` runs it)
    make fuzz MINUTES=30                           for longer, with a new seed each time

The process may use 2 GB of memory beyond what its libraries take. The folder out/fuzz keeps the inputs of problems,
and in `last` the file of a crash. A file that is put into tests/fuzz/regressions is tested from then on.
"""

from __future__ import annotations

import argparse
import faulthandler
import io
import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from .arrays import arrays_in_memory
from .checks import COMMANDS, place, problem_of_array, problem_of_path
from .files import InputFile, input_files

OUT = Path(__file__).resolve().parent.parent.parent / "out" / "fuzz"
MAX_BYTES = 2 * 2**30
ROUND = 200
"""Inputs of one round of Hypothesis; each round has a seed of its own."""
MAX_SHRINK_SECONDS = 20.0


class Found:
    """Problems by signature: where they happened, without the numbers of their texts."""

    def __init__(self) -> None:
        self.n_inputs, self.problems = 0, {}

    def is_new(self, problem: str) -> bool:
        """Whether no problem of this signature has its smallest input yet."""
        return self._signature(problem) not in self.problems

    def note(self, problem: str, about: str, file: InputFile) -> None:
        """Print a problem and keep its input."""
        self.problems[self._signature(problem)] = problem
        OUT.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=OUT))
        print(f"{about}: {problem}\n  {place(file, folder)}", flush=True)

    @staticmethod
    def _signature(problem: str) -> str:
        return re.sub(r"'[^']*'|\d+", "_", problem.partition(" from ")[0])[:120]


class Problem(AssertionError):
    """Raised inside Hypothesis, which then looks for a smaller input."""


class Kind(NamedTuple):
    """A kind of input: how it is made, what is wrong with what comes out, and its text and file for a reader."""

    inputs: st.SearchStrategy
    problem: Callable[[Any], str | None]
    described: Callable[[Any], tuple[str, InputFile]]


FILES = Kind(
    st.tuples(input_files(), st.sampled_from(COMMANDS)),
    lambda pair: problem_of_last(*pair),
    lambda pair: (" ".join(pair[1]), pair[0]),
)
ARRAYS = Kind(arrays_in_memory(), problem_of_array, lambda array: as_file(array))


def problem_of_last(file: InputFile, command: tuple[str, ...]) -> str | None:
    """What is wrong with a command on a file that lies in out/fuzz/last, where it stays if the process crashes."""
    shutil.rmtree(OUT / "last", ignore_errors=True)
    (OUT / "last").mkdir(parents=True)
    return problem_of_path(place(file, OUT / "last"), command, OUT / "last")


def search(kind: Kind, found: Found, number: int, end: float) -> None:
    """One round: check inputs of a kind, and note the smallest input of the first new problem."""
    smallest: list[tuple[str, object]] = []
    shrink_end = float("inf")

    @seed(number)
    @settings(
        max_examples=ROUND, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink], report_multiple_bugs=False, print_blob=False,
    )  # fmt: skip
    @given(kind.inputs)
    def round_(value: object) -> None:
        nonlocal shrink_end
        now = time.monotonic()
        if now > shrink_end or (now > end and not smallest):
            return
        found.n_inputs += 1
        problem = kind.problem(value)
        if problem is None or not found.is_new(problem):
            return
        if not smallest:
            shrink_end = now + MAX_SHRINK_SECONDS
        smallest[:] = [(problem, value)]
        raise Problem(problem)

    try:
        round_()
    except (Problem, HypothesisException, ExceptionGroup):
        problem, value = smallest[0]
        found.note(problem, *kind.described(value))


def as_file(array: np.ndarray) -> tuple[str, InputFile]:
    """What kind of array it is, and the array as a file."""
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array))
    return f"{type(array).__name__} {array.dtype.str} {array.shape}", InputFile("array.npy", buffer.getvalue())


def main() -> int:
    """Run for the time that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=10**9, help=f"of {ROUND} files and {ROUND} arrays")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    faulthandler.enable()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MAX_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    problem_of_last(InputFile("t.csv", b"a,b\n" + b"1,2\n3,5\n4,4\n" * 9), COMMANDS[0])  # loads the libraries
    end, found = time.monotonic() + asked.seconds, Found()
    for number in range(asked.rounds):
        for kind in (FILES, ARRAYS):
            search(kind, found, 10**6 * asked.seed + number, end)
        if time.monotonic() > end:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{found.n_inputs} inputs, {len(found.problems)} problems, {peak:.2f} GB at most")
    return bool(found.problems)


if __name__ == "__main__":
    sys.exit(main())
