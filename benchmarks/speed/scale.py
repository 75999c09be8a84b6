"""Strong and weak scaling over threads, processes, Dask workers and ranks, and a cost model that is fitted to it.

python -m benchmarks.speed.scale [--quick] [--json FILE]   measure, print, and write the results
python -m benchmarks.speed.scale --page                    write docs/scaling.md from docs/scaling.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import stochattn as sa
from stochattn._backend.files import write_atomically

from .cost import Machine, Measured, fitted, relative_error
from .machine import about
from .ranks import measured_steps
from .shapes import memories
from .timing import seconds

DOCS = Path(__file__).parents[2] / "docs"
TEXT = Path(__file__).parent / "texts" / "scaling.md"
WORKERS = (1, 2, 4)
REPEATS = 3
D, N_STATES = 64, 64
CHECKED = Measured(2, 150_000, 96, 128, 0.0, 0)
"""The run that the cost model is not fitted to: another K, d and n."""


class Scaling(NamedTuple):
    """Seconds of one piece of work with 1, 2 and 4 workers; for weak scaling the work grows with the workers."""

    engine: str
    work: str
    kind: str  # strong or weak
    seconds: Sequence[float]

    @property
    def efficiency(self) -> list[float]:
        """The share of the ideal speed with each number of workers."""
        ideal = (workers if self.kind == "strong" else 1 for workers in WORKERS)
        return [self.seconds[0] / (taken * share) for taken, share in zip(self.seconds, ideal, strict=False)]


@dataclass
class Results:
    """What was measured, on which machine, and the fitted model."""

    about: dict[str, Any]
    scalings: list[Scaling]
    runs: list[Measured]
    check: Measured
    machine: Machine

    def write(self, path: Path) -> None:
        """Write everything as JSON."""
        content = asdict(self) | {
            "scalings": [one._asdict() for one in self.scalings],
            "runs": [one._asdict() for one in self.runs],
            "check": self.check._asdict(),
            "machine": self.machine._asdict(),
        }
        write_atomically(path, json.dumps(content, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read what `write` wrote."""
        content = json.loads(path.read_text("utf-8"))
        scalings, runs = (
            [kind(**one) for one in content[name]] for kind, name in ((Scaling, "scalings"), (Measured, "runs"))
        )
        return cls(content["about"], scalings, runs, Measured(**content["check"]), Machine(**content["machine"]))


def least(work: Callable[[], object]) -> float:
    """The least time of some calls, after a first one that may start workers."""
    work()
    return min(seconds(work) for _ in range(REPEATS))


def threads(quick: bool) -> list[Scaling]:
    """Exact draws by threads of one process."""
    n = 20_000 if quick else 100_000
    model = sa.StochasticAttention(sa.MemoryBank(memories(100, 784)), beta=2000.0)
    taken = [least(partial(model.sample, n, rng=0, n_jobs=workers)) for workers in WORKERS[:2]]
    return [Scaling("threads", f"{n:,} exact draws, d 784, float32", "strong", taken)]


def processes(quick: bool) -> list[Scaling]:
    """Chains by the workers of joblib."""
    steps = 200 if quick else 2000
    bank = sa.MemoryBank(memories(500, 200))
    options = {"sampler": "mala", "n_chains": 128, "n_steps": steps, "keep": [steps], "rng": 0, "progress": False}
    taken = [least(partial(sa.run, bank, 2000.0, n_jobs=workers, **options)) for workers in WORKERS]
    return [Scaling("joblib", f"{steps:,} steps of 128 chains of MALA, K 500, d 200", "strong", taken)]


def dask_workers(quick: bool) -> list[Scaling]:
    """Log densities on a bank in chunks, by the worker processes of a Dask cluster on this machine."""
    import dask.array
    from distributed import Client, LocalCluster

    rows = 50_000 if quick else 250_000
    states = np.asarray(memories(N_STATES, D))

    def taken(workers: int, K: int) -> float:
        bank = dask.array.random.default_rng(0).standard_normal((K, D), dtype=np.float32, chunks=(rows // 4, -1))
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster,
            Client(cluster),
        ):
            model = sa.StochasticAttention(bank.persist(), beta=0.1, equal_weights=True)
            return least(partial(model.log_density, states))

    strong = [taken(workers, 4 * rows) for workers in WORKERS]
    weak = [taken(workers, workers * rows) for workers in WORKERS]
    work = f"log densities of {N_STATES} states, d {D}"
    return [
        Scaling("Dask", f"{work}, K {4 * rows:,}", "strong", strong),
        Scaling("Dask", f"{work}, K {rows:,} per worker", "weak", weak),
    ]


def ranks(quick: bool) -> tuple[list[Scaling], list[Measured]]:
    """Steps of ULA on a bank that is sharded over processes, and all runs for the cost model."""
    K = 10_000 if quick else 80_000
    few = [(K, D, N_STATES), (2 * K, D, N_STATES), (4 * K, D, N_STATES), (K, D, 8)]
    more = [(K // 4, D, 8), (K // 4, D, 256), (K, D, 256), (4 * K, D, 8), (4 * K, D, 256)]
    # Four processes on two cores take turns, and wait for each other in each step: a few sizes are enough.
    runs = [run for workers in WORKERS for run in measured_steps(workers, few if workers == 4 else few + more)]
    at = {(run.workers, run.K, run.n): run.seconds for run in runs}
    strong = [at[workers, 4 * K, N_STATES] for workers in WORKERS]
    weak = [at[workers, workers * K, N_STATES] for workers in WORKERS]
    work = f"a step of {N_STATES} chains of ULA, d {D}"
    scalings = [
        Scaling("torch.distributed, gloo", f"{work}, K {4 * K:,}", "strong", strong),
        Scaling("torch.distributed, gloo", f"{work}, K {K:,} per rank", "weak", weak),
    ]
    return scalings, runs


def measured(quick: bool) -> Results:
    """All measurements, with a line for each part."""
    sharded, runs = ranks(quick)  # first, while there are no other processes
    size = (CHECKED.K // 10 if quick else CHECKED.K, CHECKED.d, CHECKED.n)
    (check,) = measured_steps(CHECKED.workers, [size])
    scalings: list[Scaling] = []
    for part in (threads, processes, dask_workers):
        scalings += part(quick)
    results = Results(about("cpu", quick), scalings + sharded, runs, check, fitted(runs))
    print(*(_line(one) for one in results.scalings), sep="\n")
    print(f"cost model: {results.machine}; the run it was not fitted to: {_check(results)}")
    return results


def _line(one: Scaling) -> str:
    shown = ", ".join(f"{workers}: {taken:.3g} s" for workers, taken in zip(WORKERS, one.seconds, strict=False))
    return f"{one.engine}, {one.kind}: {one.work}: {shown}"


def _check(results: Results) -> str:
    run = results.check
    error, taken = relative_error(results.machine, run), f"{1e3 * run.seconds:.1f} ms"
    return (
        f"K {run.K:,}, d {run.d}, {run.n} chains, {run.workers} ranks: {taken} measured, predicted {100 * error:+.0f} %"
    )


def page(results: Results) -> str:
    """The page on measured scaling."""
    facts, machine = results.about, results.machine
    rows = ["| engine | scaling | work | 1 | 2 | 4 workers | efficiency |", "|---|---|---|---:|---:|---:|---|"]
    for one in results.scalings:
        taken = [f"{value:.3g} s" for value in one.seconds] + ["-"] * (len(WORKERS) - len(one.seconds))
        shares = ", ".join(f"{share:.0%}" for share in one.efficiency[1:])
        rows.append(f"| {one.engine} | {one.kind} | {one.work} | {' | '.join(taken)} | {shares} |")
    errors = [abs(relative_error(machine, run)) for run in results.runs]
    terms = {
        "a step with nothing to do": f"{1e3 * machine.step:.2g} ms",
        "the two products, 4 n K d flop": f"{1e-9 / machine.flop:.0f} Gflop/s for each core" if machine.flop else "-",
        "reading the memories, 4 K d bytes": f"{1e-9 / machine.byte:.1f} GB/s for the machine" if machine.byte else "-",
        "the chains themselves, n d numbers on every rank": f"{1e9 * machine.number:.0f} ns for each",
        "messages, 2 (N - 1) of each rank": f"{1e3 * machine.message:.2g} ms for each",
        "what a rank sends, 8 n (d + 2) (N - 1) / N bytes": f"{1e-6 / machine.sent:,.0f} MB/s"
        if machine.sent
        else "too little to measure",
    }
    values = {
        "machine": f"{facts['machine']}, {facts['date']}",
        "table": "\n".join(rows),
        "terms": "\n".join(f"| {name} | {value} |" for name, value in terms.items()),
        "n_runs": str(len(results.runs)),
        "median_error": f"{100 * float(np.median(errors)):.0f} %",
        "largest_error": f"{100 * max(errors):.0f} %",
        "check": _check(results),
        "outlook": _outlook(machine, results.check.cores),
    }
    return TEXT.read_text("utf-8").format(**values)


def _outlook(
    machine: Machine, measured_cores: int, K: int = 10**9, d: int = 768, n: int = 1024, cores: int = 64
) -> str:
    """Predicted steps on a billion memories, on machines whose cores and links are like those that were measured."""
    lines = ["| machines | memory for the bank, each | products | reading | chains | messages | a step |"]
    lines.append("|---:|---:|---:|---:|---:|---:|---:|")
    bandwidth = cores / measured_cores  # a machine with more cores has more memory channels
    larger = machine._replace(byte=machine.byte / bandwidth)
    for machines in (16, 64, 256, 1024):
        work = 4 * n * K * d / (machines * cores) * machine.flop
        read = 4 * K * d / machines * larger.byte
        own = machine.step + n * d * machine.number
        sent = 2 * (machines - 1) * machine.message + 8 * n * (d + 2) * (machines - 1) / machines * machine.sent
        parts = (work, read, own, sent, work + read + own + sent)
        lines.append(
            f"| {machines:,} | {4e-9 * K * d / machines:,.0f} GB | " + " | ".join(f"{x:.2g} s" for x in parts) + " |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.scale", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small banks, for a look at the program itself")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument("--page", action="store_true", help="measure nothing; write docs/scaling.md from its JSON")
    options = parser.parse_args(arguments)
    if options.page:
        write_atomically(DOCS / "scaling.md", page(Results.read(DOCS / "scaling.json")))
        print(f"wrote {DOCS / 'scaling.md'}")
        return
    results = measured(options.quick)
    if options.json:
        results.write(options.json)
        print(f"wrote {options.json}")


if __name__ == "__main__":
    main()
