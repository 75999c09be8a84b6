"""The commands: list, run, all, report, power, errors, cost."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from . import report as reporting
from . import writing
from .catalogue import EXPERIMENTS
from .data import Data
from .expected import ONE_RUN_ERRORS, record_errors
from .results import Verdict
from .runner import Outcome, Task, run_all
from .sources import DataError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Reproduce the paper: every table and figure with the published value and the prediction of the exact law.",
)
DataOption = Annotated[
    str | None,
    typer.Option("--data", help="Data folder. Default: STOCHATTN_DATA, then the cache, then a download."),
]
OutOption = Annotated[
    str | None,
    typer.Option("--out", help="Folder for results. Default: out/paper, or out/paper-quick for quick runs."),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of all random numbers.")]
QuickOption = Annotated[
    bool,
    typer.Option("--quick", help="A tenth of the steps, few epochs: checks that everything runs."),
]
SeedsOption = Annotated[
    int, typer.Option("--seeds", min=1, help="Repetitions of each experiment; seed, seed + 1000, seed + 2000, …")
]
JobsOption = Annotated[int, typer.Option("--jobs", help="Experiments that run in parallel; -1 for one per core.")]
COMMITTED = Path(__file__).parents[1] / "docs" / "reproduction" / reporting.RESULTS
CORES = min(os.cpu_count() or 1, 4)


@app.command("list")
def list_() -> None:
    """List the experiments and the tables and figures of the paper that each one covers."""
    for experiment in EXPERIMENTS.values():
        covers = [f"table {name}" for name in experiment.tables] + [f"figure {name}" for name in experiment.figures]
        print(f"{experiment.name:18} {experiment.title}\n{'':18} {', '.join(covers)}")


@app.command("run")
def run_(
    names: Annotated[list[str], typer.Argument(help="Names of experiments, as shown by `list`.", metavar="NAME...")],
    data: DataOption = None,
    out: OutOption = None,
    seed: SeedOption = 0,
    quick: QuickOption = False,
    jobs: JobsOption = CORES,
    seeds: SeedsOption = 1,
) -> None:
    """Run the named experiments. Results that exist for the same settings, data and code are reused."""
    _stop_if_unknown(names)
    _stop_if(_run(list(dict.fromkeys(names)), data, out or _folder(quick), seed, quick, jobs, seeds))


@app.command("all")
def all_(
    data: DataOption = None,
    out: OutOption = None,
    seed: SeedOption = 0,
    quick: QuickOption = False,
    jobs: JobsOption = CORES,
    skip: Annotated[list[str] | None, typer.Option("--skip", help="An experiment to skip; can be repeated.")] = None,
    seeds: SeedsOption = 1,
) -> None:
    """Run every experiment, then write one report into the results folder."""
    unknown = [name for name in skip or () if name not in EXPERIMENTS]
    if unknown:
        _stop(f"there is no experiment {unknown[0]!r} to skip: choose from {', '.join(EXPERIMENTS)}.")
    out = out or _folder(quick)
    failed = _run([name for name in EXPERIMENTS if name not in (skip or ())], data, out, seed, quick, jobs, seeds)
    if len(failed) < seeds * (len(EXPERIMENTS) - len(skip or ())):
        report(out, str(Path(out) / "reproduction.md"))
    _stop_if(failed)


@app.command()
def report(
    out: OutOption = None,
    to: Annotated[
        str, typer.Option("--to", help="Markdown file; figures are written next to it.")
    ] = "docs/reproduction.md",
) -> None:
    """Write one page with all finished results: tables with verdicts, figures, and the reasons for differences."""
    out = out or _folder(quick=False)
    if Path(to).is_dir():
        _stop(f"--to must name a file, such as {Path(to) / 'reproduction.md'}; {to} is a folder.")
    try:
        n_results = reporting.write(Path(out), Path(to))
    except OSError as error:
        _stop(f"the report cannot be written to {to} ({error.strerror}): name another file with --to.")
    if not n_results:
        _stop(f"{out} holds no finished result: run `python -m paper all --out {out}` first.")
    print(f"{to}: {n_results} of {len(EXPERIMENTS)} experiments.")


@app.command()
def power(data: DataOption = None, out: OutOption = None, seed: SeedOption = 0) -> None:
    """Plant known faults in the experiments without training, and show which cells notice each."""
    from . import faults

    out = out or _folder(quick=False)
    try:
        located = Data.locate(data)
        noticed = faults.run(located, seed, reporting.records(Path(out), COMMITTED))
        Path(out).mkdir(parents=True, exist_ok=True)
    except (DataError, RuntimeError) as error:
        _stop(str(error))
    for one in noticed:
        print(f"{one.name}: {len(one.noticed)} of {one.cells} cells notice")
        for line in one.noticed:
            print(f"    {line}")
    faults.write(noticed, Path(out) / reporting.POWER)
    blind = [one.name for one in noticed if len(one.noticed) < faults.MIN_NOTICED]
    if blind:
        _stop(f"fewer than {faults.MIN_NOTICED} cells notice {blind[0]!r}.", code=1)


@app.command()
def errors(out: OutOption = None) -> None:
    """Record the standard error of one run, from finished full runs, for the values whose error the paper omits."""
    found = reporting.records(Path(out or _folder(quick=False)), COMMITTED)
    if not found or any(record["quick"] for record in found.values()):
        _stop("errors need results of full runs: run `python -m paper all` first.")
    n_values = record_errors([table for record in found.values() for table in record["tables"]])
    print(f"{ONE_RUN_ERRORS.name}: {n_values} standard errors.")


@app.command()
def cost(
    names: Annotated[list[str], typer.Argument(help="Names of experiments, as shown by `list`.", metavar="NAME...")],
    data: DataOption = None,
    out: OutOption = None,
    seed: SeedOption = 0,
) -> None:
    """Measure the processor time of experiments on a CPU, training their networks for a part of the epochs."""
    from . import cost as costs

    _stop_if_unknown(names)
    path = Path(out or _folder(quick=False)) / reporting.COST
    try:
        for name in names:
            found = costs.measure(name, Data.locate(data), seed)
            costs.write({name: found}, path)
            print(
                f"{name}: {found.training:.0f} s of training, from {found.measured:.0f} s; {found.other:.0f} s besides"
            )
    except (DataError, RuntimeError) as error:
        _stop(str(error))


def _stop_if_unknown(names: list[str]) -> None:
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        _stop(f"there is no experiment {unknown[0]!r}: choose from {', '.join(EXPERIMENTS)}.")


def _folder(quick: bool) -> str:
    return "out/paper-quick" if quick else "out/paper"


def _run(names: list[str], data: str | None, out: str, seed: int, quick: bool, jobs: int, seeds: int) -> list[Outcome]:
    """Run the experiments, print the outcome of each, and return those that failed."""
    if jobs == 0 or jobs < -1:
        _stop(f"--jobs must be a number of experiments, or -1 for one per core; got {jobs}.")
    try:
        folder = Data.locate(data).folder
        Path(out).mkdir(parents=True, exist_ok=True)
        probe = Path(out) / ".writable"
        probe.touch()
        probe.unlink()
    except DataError as error:
        _stop(str(error))
    except OSError as error:
        _stop(f"results cannot be written to {out} ({error.strerror}): name another folder with --out.")
    if quick:
        full = [name for name in names if (record := writing.read(Path(out) / name)) and not record.get("quick")]
        if full:
            _stop(
                f"{Path(out) / full[0]} holds the result of a full run, which a quick run must not replace: "
                "name another folder with --out."
            )
    begin = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stop child processes too
    tasks = [Task(name, folder, Path(out), seed, quick, repeat) for name in names for repeat in range(seeds)]
    places = {task.label: task.place for task in tasks}
    failed = []
    with Display(len(tasks)) as display:
        try:
            for outcome in run_all(tasks, min(jobs, len(tasks)) if jobs > 0 else jobs, display.update):
                display.finish(outcome, places[outcome.name])
                failed += [outcome] if outcome.error else []
        except KeyboardInterrupt:
            _stop(
                "interrupted. Results of finished experiments are kept; run the same command to continue.",
                code=130,
            )
        except DataError as error:
            _stop(str(error))
    minutes, seconds = divmod(round(time.monotonic() - begin), 60)
    for remark in sorted({remark for name in names for remark in _remarks(Path(out) / name)}):
        print(remark, file=sys.stderr)
    plural = "" if len(names) == 1 else "s"
    print(f"{len(names)} experiment{plural} in {minutes} min {seconds} s; results in {out}.", file=sys.stderr)
    return failed


def _remarks(folder: Path) -> list[str]:
    record = writing.read(folder)
    return [f"Data: {remark}" for remark in record["remarks"]] if record else []


def _stop_if(failed: list[Outcome]) -> None:
    for outcome in failed:
        print(f"error: {outcome.name}: {outcome.error}", file=sys.stderr)
    if failed:
        raise typer.Exit(2)


class Display:
    """Progress bars of the running experiments on a terminal, and one printed line per finished experiment."""

    def __init__(self, total: int) -> None:
        self.console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
        self.bars = Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal)
        self.overall = self.bars.add_task("experiments", total=total)
        self.tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Display:
        self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bars.stop()

    def update(self, name: str, text: str, share: float | None) -> None:
        """Show the current stage of an experiment."""
        if name not in self.tasks:
            self.tasks[name] = self.bars.add_task(name, total=None)
        self.bars.update(
            self.tasks[name],
            description=f"{name}: {text}" if text else name,
            total=None if share is None else 1.0,
            completed=share or 0.0,
        )

    def finish(self, outcome: Outcome, folder: Path) -> None:
        """Print the outcome of an experiment, whose result is in `folder`."""
        self.bars.advance(self.overall)
        if outcome.name in self.tasks:
            self.bars.remove_task(self.tasks.pop(outcome.name))
        if outcome.error:
            line = f"{outcome.name:18} failed"
        elif outcome.reused:
            line = f"{outcome.name:18} {verdicts(folder)} (done before)"
        else:
            line = f"{outcome.name:18} {verdicts(folder)} in {outcome.seconds:.0f} s"
        self.bars.console.print(line, highlight=False, markup=False, soft_wrap=True)


def verdicts(folder: Path) -> str:
    """Count the values that match, differ, are new or are missing."""
    record = writing.read(folder)
    tables = record["tables"] if record else []
    counts = {verdict: sum(table.counts()[verdict] for table in tables) for verdict in Verdict}
    claims = [f"{len(record['claims'])} claims"] if record and record["claims"] else []
    return ", ".join([*(f"{n} {verdict}" for verdict, n in counts.items() if n), *claims]) or "pictures only"


def _stop(line: str, code: int = 2) -> NoReturn:
    print(f"error: {line}" if code == 2 else line, file=sys.stderr)
    raise typer.Exit(code)
