"""Measure speed beside rivals in one run, print the table, write JSON; or make the page from such JSON.

python -m benchmarks [--device cuda] [--quick] [--only chains large] [--json FILE]
python -m benchmarks --page
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .speed import chains, exact, growth, large_banks, layers, limits
from .speed.machine import BUSY, about, others_share
from .speed.measured import Results, Row, Task
from .speed.wording import details, figure, target, verdict

PARTS = {
    "limits": limits,
    "chains": chains,
    "exact": exact,
    "large": large_banks,
    "layers": layers,
    "growth": growth,
}
FAILED, INTERRUPTED = 1, 130
DOCS = Path(__file__).parents[1] / "docs"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: torch tensors on the GPU")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no bank of 10^6 memories")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the figures to FILE; with --only, in their places there"
    )
    parser.add_argument("--page", action="store_true", help="measure nothing: docs/performance*.json to the page")
    options = parser.parse_args(arguments)
    console = Console()
    if options.page:
        from .speed.page import write_page

        console.print(*(f"wrote {path}" for path in write_page(DOCS)), sep="\n")
        return
    if options.json and (options.json.is_dir() or not options.json.absolute().parent.is_dir()):
        parser.error(f"--json must name a file in a folder that exists; got {options.json}.")
    if options.device == "cuda" and (problem := without_cuda()):
        parser.error(f"--device cuda {problem}")
    parts = [part for part in PARTS if part in options.only or (part == "limits" and "growth" in options.only)]
    planned = [task for part in parts for task in PARTS[part].tasks(options.quick, options.device)]
    results = Results(about(options.device, options.quick))
    if results.about["load_at_start"] > BUSY:
        console.print(
            f"other work runs here (load {results.about['load_at_start']}): rivals that use all cores lose by it."
        )
    status = measure(planned, results, console)
    show(results, console)
    if options.json and (results.rows or results.limits):
        results.about["complete"] = status != INTERRUPTED
        if options.json.exists() and set(parts) != set(PARTS):
            results = results.beside(Results.read(options.json))
        results.write(options.json)
        said = "stopped early; what was measured so far is in" if status == INTERRUPTED else "wrote"
        console.print(f"{said} {options.json}")
    elif status == INTERRUPTED:
        console.print("stopped early; nothing was written.")
    raise SystemExit(status)


def without_cuda() -> str | None:
    """Why there is no CUDA device to measure on, or None."""
    from .speed.rivals import missing

    if missing("torch"):
        return "needs torch, which is not installed (pip install 'stochattn[torch]')."
    import torch

    return None if torch.cuda.is_available() else "needs a GPU that torch can use; torch.cuda.is_available() is False."


def measure(planned: Sequence[Task], results: Results, console: Console) -> int:
    """Do the tasks one after another and return the exit status: 1 if some failed, 130 if Ctrl-C ended it early."""
    status = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task("", total=len(planned))
        for task in planned:
            bar.update(shown, description=f"{task.part}: {task.what}")
            try:
                with others_share() as share:
                    found = task.work(results)
                results.add([one._replace(disturbed=share[0]) if isinstance(one, Row) else one for one in found])
            except KeyboardInterrupt:
                return INTERRUPTED
            except (RuntimeError, MemoryError, OSError) as error:
                status = FAILED
                line = (str(error).splitlines() or [type(error).__name__])[0]
                results.add([Row(task.part, task.what, "", None, details=f"failed: {line}")])
            bar.advance(shown)
    return status


def show(results: Results, console: Console) -> None:
    """The table of rows, and the limits under it."""
    title = f"stochattn {results.about['stochattn']} on {results.about['machine']}"
    table = Table("what", "against", "figure", "target", "met", "measured", title=title)
    for row in results.rows:
        cells = row.what, row.against, figure(row.value, row.unit), target(row), verdict(row), details(row)
        table.add_row(*map(escape, cells))  # a detail such as [bench] is no markup
    if results.rows:
        console.print(table)
    for limit in results.limits:
        console.print(f"limit: {limit.name}, {limit.rate:.3g} {limit.unit} a second")


if __name__ == "__main__":
    main()
