"""Give every data set that packages ship to the commands, as a user would, and count how each set ends.

    make corpus [GROUP=new|later] [SAMPLE=60] [JOBS=1] [NAME=part]      (or `python -m corpus.run` in tests/)

A set goes through `inspect`, `sample`, save and load, and `report --quick` in a process of its own, with 60 seconds of
processor time for each and 2 GB. It passes, or is refused with a reason that a user can act on; anything else is a
fault (`outcomes.py`). Outcomes are kept in out/corpus by the version of the code: a run goes on where one stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import stochattn
from stochattn.cli.app import build_app, prepare, run
from stochattn.cli.messages import DEBUG
from stochattn.kinds.registry import kind_for

from .outcomes import RAW, Ending, Outcome, read_outcomes, reasons, table, write_table
from .sets import DataSet, list_sets

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out" / "corpus"
PACKAGE = str(Path(stochattn.__file__).parent)
OUTPUTS = {"protein": ".fasta", "image": ".npz", "table": ".csv", "returns": ".csv", "signals": ".ts"}
N_NEW, SEED = 20, 0
BYTES_AT_ONCE = 3000
"""What a set takes beside what grows with its size, as bytes: for the estimate of the time that is left."""
Command = Callable[[list[str]], object]
"""Runs the command line with these words in this process."""


class Limits(NamedTuple):
    """What a run may use.

    seconds: of processor time
    idle:    so many times as long by the clock, as other programs use the cores too; then it hangs
    memory:  bytes beyond what the libraries take
    """

    seconds: float = 60
    idle: float = 20
    memory: int = 2 * 2**30


def code_version() -> str:
    """Digits that change with the code of the library."""
    digest = hashlib.sha256()
    for path in sorted(Path(PACKAGE).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def runs_on(data: DataSet, folder: Path, command: Command) -> dict[str, Callable[[], object]]:
    """What is run on a set, by name. All outputs go to the folder."""
    try:
        with warnings.catch_warnings(action="ignore"):
            extension = OUTPUTS[kind_for(data.path, data.kind).name]
    except ValueError:  # the commands say so
        extension = OUTPUTS["table"]
    source, new, copy = str(data.path), folder / f"new{extension}", folder / f"copy{extension}"
    words = [source] if data.kind is None else [source, "--kind", data.kind]

    def save_and_load() -> None:
        stochattn.fit(data.path, data.kind).save(folder / "saved.synth")
        stochattn.load(folder / "saved.synth").write(copy, N_NEW, SEED, replace=True)
        if copy.read_bytes() != new.read_bytes():
            raise AssertionError("what was saved and loaded draws other examples than the command did")

    return {
        "inspect": lambda: command(["inspect", *words]),
        "sample": lambda: command(["sample", *words, "-n", str(N_NEW), "--seed", str(SEED), "-o", str(new)]),
        "save and load": save_and_load,
        "report": lambda: command(["report", *words, "--quick", "-o", str(folder / "report.html")]),
    }


def end_of(name: str, action: Callable[[], object], folder: Path, limits: Limits) -> Ending:
    """Run it in this process: its exit code, seconds, and what it printed. A limit ends the process instead."""
    (folder / "running").write_text(name)
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, limits.seconds)
    signal.setitimer(signal.ITIMER_REAL, limits.idle * limits.seconds)
    sys.stdout, sys.stderr = ((folder / stream).open("w", encoding="utf-8") for stream in ("stdout", "stderr"))
    os.dup2(sys.stdout.fileno(), 1)  # for what is not printed by Python
    os.dup2(sys.stderr.fileno(), 2)
    leaks: list[str] = []
    show = warnings.showwarning

    def note(message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: object) -> None:
        is_ours = category in (UserWarning, RuntimeWarning) and "site-packages" not in filename
        if not is_ours or RAW.search(str(message)):
            leaks.append(f"{category.__name__} at {Path(filename).name}:{lineno}: {message}")
        show(message, category, filename, lineno)

    warnings.showwarning = note
    code, error = code_of(action)
    sys.stderr.flush()
    seconds, stderr = time.process_time() - begin, (folder / "stderr").read_text(errors="replace")
    if code == 2:  # once more, for where the error was raised: its text alone does not tell whose it is
        os.environ[DEBUG] = "1"
        _, error = code_of(action)
        del os.environ[DEBUG]
        sys.stderr.flush()
    warnings.showwarning = show
    return Ending(name, code, round(seconds, 2), stderr, leaks, place_outside(error) if code == 2 else "")


def code_of(action: Callable[[], object]) -> tuple[int, BaseException | None]:
    """The exit code, as commands have it, and the error that was raised."""
    try:
        action()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0, None
    except (ValueError, TypeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2, error
    except BaseException as error:
        traceback.print_exc()
        return 1, error
    return 0, None


def place_outside(error: BaseException | None) -> str:
    """Where an error was raised, if that is outside the library."""
    if error is None or type(error).__module__.startswith(("typer", "click")):
        return ""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    inside = frame.filename.startswith(PACKAGE)
    return "" if inside else f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"


def start(runs: dict[str, Callable[[], object]], folder: Path, limits: Limits) -> int:
    """Start a process for the runs, a copy of this one, in which all libraries are loaded; its number."""
    if process := os.fork():
        return process
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + limits.memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        for name, action in runs.items():
            ending = end_of(name, action, folder, limits)
            with (folder / "endings.jsonl").open("a") as file:
                file.write(json.dumps(ending) + "\n")
        os._exit(0)
    finally:
        os._exit(1)


def read_endings(folder: Path, status: int, limits: Limits) -> list[Ending]:
    """How the runs of a process ended that has this status."""
    lines = folder / "endings.jsonl"
    endings = [Ending(*json.loads(line)) for line in lines.read_text().splitlines()] if lines.exists() else []
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        texts = {signal.SIGPROF: f"takes more than {limits.seconds:g} s", signal.SIGALRM: "hangs"}
        text = texts.get(signal.Signals(number), f"ended by {signal.Signals(number).name}")
        endings.append(Ending((folder / "running").read_text(), -number, limits.seconds, text, []))
    elif status:
        endings.append(Ending((folder / "running").read_text(), 1, 0, "the process ended by itself", []))
    return endings


def run_sets(sets: list[DataSet], place: Path, jobs: int, limits: Limits, minutes: float = math.inf) -> None:
    """Run the sets, `jobs` at a time; a line says how each ends, and how long the rest takes.

    minutes: none is started later than this
    """
    prepare()
    app = build_app()

    def command(words: list[str]) -> None:
        sys.argv = ["stochattn", *words]
        run(app)

    work = place / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    load_libraries(command, work)
    todo, running, begin = list(sets), {}, time.monotonic()
    total, weight = sum(data.size + BYTES_AT_ONCE for data in sets), 0
    for n in range(1, len(sets) + 1):
        if time.monotonic() > begin + 60 * minutes:
            todo.clear()
        while todo and len(running) < jobs:
            data, folder = todo.pop(0), work / str(len(todo))
            folder.mkdir()
            running[start(runs_on(data, folder, command), folder, limits)] = data, folder
        if not running:
            break
        process, status, usage = os.wait4(-1, 0)
        data, folder = running.pop(process)
        outcome = Outcome(data.package, data.name, data.size, usage.ru_maxrss, read_endings(folder, status, limits))
        outcome.save(place)
        shutil.rmtree(folder)
        weight += data.size + BYTES_AT_ONCE
        left = (time.monotonic() - begin) * (total / weight - 1) / 60
        text = f"{data.package}: {data.name}: {outcome.verdict}, {outcome.seconds:.0f} s"
        print(f"[{n}/{len(sets)}] {text}; about {left:.0f} min left", flush=True)
        if outcome.verdict == "fault":
            print(f"    {outcome.reason}", flush=True)


def load_libraries(command: Command, folder: Path) -> None:
    """Run the commands on a small table, so that each process starts with what they load."""
    path = folder / "table.csv"
    path.write_text("a,b\n" + "".join(f"{i},{i * i % 17}\n" for i in range(40)))
    for words in (["inspect"], ["sample", "-o", str(folder / "new.csv")], ["report", "--quick"]):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as stderr:
            code, _ = code_of(lambda words=words: command([words[0], str(path), *words[1:]]))
        assert code == 0, stderr.getvalue()
    for number in (signal.SIGINT, signal.SIGTERM):  # a command leaves them as they are at its end
        signal.signal(number, stop)


def stop(number: int, _: object) -> None:
    """End at Ctrl-C, as what is done is kept."""
    print("stopped; the next run goes on from here", flush=True)
    os._exit(128 + number)


def draw_sample(sets: list[DataSet], n: int) -> list[DataSet]:
    """So many of the sets, others for each version of the library."""
    numbers = random.Random(stochattn.__version__).sample(range(len(sets)), min(n, len(sets)))
    return [sets[number] for number in sorted(numbers)]


def main() -> int:
    """Run what the command line asks for; the exit code is 1 if there are faults."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", type=Path, help="folder of the packages")
    parser.add_argument(
        "--group", default="known", help="new, later: sets that were not used while the library was developed"
    )
    parser.add_argument("--sample", type=int, help="run so many sets, which the version chooses")
    parser.add_argument("--jobs", default="auto", help="processes at a time; auto is one per core")
    parser.add_argument("--name", default="", help="run sets with this in package: name, a regular expression")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no set after this time")
    parser.add_argument("--write", action="store_true", help="write the table of outcomes to docs/reliability.md")
    asked = parser.parse_args()
    place = OUT / code_version()
    sets = list_sets(asked.packages, OUT / "data", asked.group)
    sets = [data for data in sets if re.search(asked.name, ": ".join(data[:2]))]
    sets = draw_sample(sets, asked.sample) if asked.sample else sets
    known = read_outcomes(place)
    todo = [data for data in sets if data[:2] not in known]
    print(f"{len(sets)} sets, {len(sets) - len(todo)} of them done before; outcomes are kept in {place}", flush=True)
    jobs = len(os.sched_getaffinity(0)) if asked.jobs == "auto" else int(asked.jobs)
    run_sets(todo, place, jobs, Limits(), asked.minutes)
    known = read_outcomes(place)
    outcomes = [known[data[:2]] for data in sets if data[:2] in known]
    text = f"{len(outcomes):,} of {len(sets):,} sets were run.\n\n{table(outcomes)}\n\n{reasons(outcomes)}"
    print(text)
    if asked.write:
        write_table(asked.group, text, ROOT / "docs" / "reliability.md")
    return any(outcome.verdict == "fault" for outcome in outcomes)


if __name__ == "__main__":
    raise SystemExit(main())
