"""Compare the speed with baselines in one run, print a table and write JSON; or generate the page from such JSON.

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
from .speed.machine import MAX_LOAD, about, core_limit, other_work_share
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
        "--json", type=Path, metavar="FILE", help="also write the results to FILE; --only replaces those parts"
    )
    parser.add_argument(
        "--page", action="store_true", help="measure nothing; generate the page from docs/performance*.json"
    )
    parser.add_argument("--jobs", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.jobs is not None:
        parser.error(
            "--jobs is not an option here: measurements of speed that run at the same time slow each other down. "
            "python -m benchmarks.quality has it."
        )
    console = Console()
    if options.page:
        from .speed.page import write_page

        console.print(*(f"wrote {path}" for path in write_page(DOCS)), sep="\n")
        return
    if options.json and (options.json.is_dir() or not options.json.absolute().parent.is_dir()):
        parser.error(f"--json must name a file in a folder that exists; got {options.json}.")
    if options.device == "cuda" and (problem := cuda_problem()):
        parser.error(f"--device cuda {problem}")
    parts = [part for part in PARTS if part in options.only or (part == "limits" and "growth" in options.only)]
    planned = [task for part in parts for task in PARTS[part].tasks(options.quick, options.device)]
    results = Results(about(options.device, options.quick))
    if results.about["load_at_start"] > MAX_LOAD:
        console.print(
            f"other processes run (load {results.about['load_at_start']}): baselines that use all cores get slower."
        )
    if limited := core_limit():
        console.print(limited)
    status = measure(planned, results, console)
    show(results, console)
    if options.json and (results.rows or results.limits):
        results.about["complete"] = status != INTERRUPTED
        if options.json.exists() and set(parts) != set(PARTS):
            results = results.merged_with(Results.read(options.json))
        results.write(options.json)
        action = "stopped early; wrote partial results to" if status == INTERRUPTED else "wrote"
        console.print(f"{action} {options.json}")
    elif status == INTERRUPTED:
        console.print("stopped early; nothing was written.")
    raise SystemExit(status)


def cuda_problem() -> str | None:
    """The reason why no CUDA device can be used, or None."""
    from .speed.baselines import missing

    if missing("torch"):
        return "needs torch, which is not installed (pip install 'stochattn[torch]')."
    import torch

    return None if torch.cuda.is_available() else "needs a GPU that torch can use; torch.cuda.is_available() is False."


def measure(planned: Sequence[Task], results: Results, console: Console) -> int:
    """Run the tasks one after another and return the exit status: 1 if some failed, 130 after Ctrl-C."""
    status = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task("", total=len(planned))
        for task in planned:
            bar.update(shown, description=f"{task.part}: {task.what}")
            try:
                with other_work_share() as share:
                    found = task.measure(results)
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
    """Print the table of rows, then the limits of the machine."""
    title = f"stochattn {results.about['stochattn']} on {results.about['machine']}"
    table = Table("what", "baseline", "value", "target", "met", "details", title=title)
    for row in results.rows:
        cells = row.what, row.against, figure(row.value, row.unit), target(row), verdict(row), details(row)
        table.add_row(*map(escape, cells))  # text such as [bench] is not markup
    if results.rows:
        console.print(table)
    for limit in results.limits:
        console.print(f"limit: {limit.name}, {limit.rate:.3g} {limit.unit} per second")


if __name__ == "__main__":
    main()
