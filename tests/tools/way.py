"""The way of the data: which files and functions of stochattn a call passes through, and how often it changes file.

python tests/tools/way.py [table|mala] [--calls NAME ...]

`table` fits a CSV of 100 patients, imposes a condition and draws 50 rows, with the trial and without; `mala` runs
chains of MALA. `--calls` prints how often functions of these names were called.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import numpy as np

import stochattn as sa

SOURCE = str(Path(sa.__file__).parent)
INLINE = ("<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>")
"""Code objects that belong to the function around them, or that are executed by an import."""


class Way(NamedTuple):
    """Files and functions that were executed, the greatest depth of calls, changes of file, and calls by name."""

    files: set[str]
    functions: set[tuple[str, str]]
    depth: int
    changes: int
    calls: Counter[str]


def trace(action: Callable[[], object]) -> Way:
    """What `action` executes of stochattn. The modules that it needs should be imported before."""
    functions: set[tuple[str, str]] = set()
    calls: Counter[str] = Counter()
    stack: list[CodeType] = []
    deepest = changes = 0

    def on_event(frame: FrameType, event: str, _: object) -> None:
        nonlocal deepest, changes
        code = frame.f_code
        if not code.co_filename.startswith(SOURCE) or code.co_name in INLINE:
            return
        if event == "call":
            if stack and stack[-1].co_filename != code.co_filename:
                changes += 1
            stack.append(code)
            deepest = max(deepest, len(stack))
            functions.add((code.co_filename, code.co_qualname))
            calls[code.co_name] += 1
        elif event == "return" and stack and stack[-1] is code:
            stack.pop()

    sys.setprofile(on_event)
    try:
        action()
    finally:
        sys.setprofile(None)
    return Way({file for file, _ in functions}, functions, deepest, changes, calls)


def write_patients(path: Path) -> None:
    """A plain CSV of 100 patients: age, sex, weight, dose and date of the visit."""
    generator = random.Random(0)
    lines = ["age,sex,weight,dose,visit"]
    for _ in range(100):
        age, sex = generator.randint(20, 80), generator.choice("FM")
        weight = generator.gauss(62 if sex == "F" else 78, 9)
        visit = date(2024, 1, 1) + timedelta(days=generator.randint(0, 300))
        lines.append(f"{age},{sex},{weight:.1f},{0.5 * weight + generator.gauss(0, 3):.2f},{visit}")
    path.write_text("\n".join(lines) + "\n")


def way_of_table(trial: bool) -> Callable[[], object]:
    """Fit, condition and sample of a table."""
    path = Path(tempfile.mkdtemp()) / "patients.csv"
    write_patients(path)
    return lambda: sa.fit(path, trial=trial).condition(age=40).sample(50, rng=0)


def way_of_mala() -> Callable[[], object]:
    """Chains of MALA on rows of the user's own."""
    rows = np.random.default_rng(0).normal(size=(60, 8))
    model = sa.StochasticAttention(rows, equal_weights=True)
    return lambda: model.run(sampler="mala", n_chains=4, n_steps=3000, rng=0)


def main() -> None:
    """Print the figures of a way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", nargs="?", default="table", choices=("table", "mala"))
    parser.add_argument("--calls", nargs="*", default=[])
    parser.add_argument("--list", action="store_true", help="print the functions by file")
    arguments = parser.parse_args()
    ways = (
        {"mala": way_of_mala()}
        if arguments.way == "mala"
        else {"table with a trial": way_of_table(True), "table without a trial": way_of_table(False)}
    )
    for name, action in ways.items():
        action()  # imports
        way = trace(action)
        print(
            f"{name}: {len(way.files)} files, {len(way.functions)} functions, depth {way.depth}, "
            f"{way.changes:,} changes of file"
        )
        for called in arguments.calls:
            print(f"  {called}: {way.calls[called]} calls")
        if arguments.list:
            for file in sorted(way.files):
                inside = sorted(function for path, function in way.functions if path == file)
                print(f"  {file.removeprefix(SOURCE)[1:]} ({len(inside)}): {', '.join(inside)}")


if __name__ == "__main__":
    main()
