"""Diverse retrieval by sampling attention, against top-k, MMR and random choices, at equal mean relevance.

python -m examples.retrieval [--quick] [--seed 0]

The question, the measures and the rule below were fixed before any result was seen.

**Data.** MNIST (if STOCHATTN_DATA names a folder with mnist.npz; the digits of scikit-learn otherwise) and MiniLM
embeddings of sentences (if the weights are installed). A query is the normalized sum of two rows of different groups
(digits, topics), which are not among the rows that it may see. Its two groups are the wanted ones. Half of the queries
tune the settings, the other half is for the results.

**Equal relevance.** The relevance of a slate is the mean cosine of its rows with the query. Targets are the relevance
of top-n minus 5, 10 and 20 % of its distance to the mean over all rows. The setting of each method is tuned to the
target on the first half of the queries.

**A, one slate of n = 10 rows.** Measure: the share of the two wanted groups that a slate contains at least twice.
Methods: sampled attention, Langevin states, MMR; top-n for reference. Rule: a stochastic method wins if, on each data
set and at each target, it is better than MMR by more than two standard errors of the paired difference over queries.

**B, twenty requests of the same query, n = 5 rows each.** Measure: the number of different rows of wanted groups that
are shown in all. Methods: sampled attention, Langevin states, rows drawn uniformly from the top m, epsilon-greedy; MMR
and top-n, which always show the same rows, for reference. Rule: a stochastic method of attention wins if, on each data
set and at each target, it is better than uniform and epsilon-greedy choices by more than two standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from ..one_memory.data import Items, digits, mnist, sentences, unit
from ..options import add_seed, command, parsed
from .methods import Slates, Task, greedy, langevin, mean_relevance, mmr, sampled, top, tuned, uniform

LOSSES = (0.05, 0.1, 0.2)
REQUESTS, ONE, MANY = 20, 10, 5  # requests of a query; rows of a slate in A and in B


@dataclass(frozen=True)
class Method:
    """A method and the range of its setting; stochastic: whether it samples attention."""

    name: str
    slates: Slates
    low: float
    high: float
    stochastic: bool = False


SAMPLED = Method("sampled attention", sampled, 1e-4, 10.0, True)
LANGEVIN = Method("Langevin states", langevin, 1e-3, 100.0, True)
MMR = Method("MMR", mmr, 1e-4, 1.0)
UNIFORM = Method("uniform in the top m", uniform, 0.3, 1e4)
GREEDY = Method("epsilon-greedy", greedy, 1e-4, 1.0)
TOP = Method("top-n", top, 1.0, 1.0)


def make_task(items: Items, n_queries: int, n_rows: int, seed: int) -> Task:
    """Queries between two groups; the rows of a query are not visible to it."""
    rng = np.random.default_rng(seed)
    kept = rng.permutation(len(items.rows))[:n_rows]
    rows, groups = items.rows[kept], items.labels[kept]
    first = rng.integers(len(rows), size=n_queries)
    second = np.array([rng.choice(np.flatnonzero(groups != groups[i])) for i in first])
    visible = np.ones((n_queries, len(rows)), bool)
    visible[np.arange(n_queries), first] = visible[np.arange(n_queries), second] = False
    return Task(rows, groups, unit(rows[first] + rows[second]), visible, np.stack((groups[first], groups[second]), 1))


def recall(task: Task, slates: np.ndarray) -> np.ndarray:
    """The share of the wanted groups that a slate contains at least twice: (Q,)."""
    found = task.groups[slates]
    return np.mean([(found == task.wanted[:, [j]]).sum(1) >= 2 for j in range(2)], 0)


def shown(task: Task, slates: np.ndarray) -> np.ndarray:
    """How many different rows of wanted groups the slates (requests, Q, n) of a query have in all: (Q,)."""
    counts = []
    for q, wanted in enumerate(task.wanted):
        rows = np.unique(slates[:, q])
        counts.append(np.isin(task.groups[rows], wanted).sum())
    return np.array(counts, float)


def results(
    task: Task, methods: list[Method], n: int, target: float, requests: int, seed: int
) -> dict[str, np.ndarray]:
    """Relevance and the measure of each method on the second half of the queries: (Q, 2)."""
    halves = [task.some(np.arange(len(task.queries)) % 2 == half) for half in range(2)]
    found = {}
    for method in methods:
        setting = (
            tuned(method.slates, halves[0], n, target, method.low, method.high, seed) if method is not TOP else 1.0
        )
        slates = np.stack([method.slates(halves[1], n, setting, seed + 1 + i) for i in range(requests)])
        measure = recall(halves[1], slates[0]) if requests == 1 else shown(halves[1], slates)
        relevance = np.mean([np.take_along_axis(halves[1].relevance(), s, 1).mean(1) for s in slates], 0)
        found[method.name] = np.stack((relevance, measure), 1)
    return found


def targets(task: Task, n: int) -> list[float]:
    """The mean relevance of top-n minus a share of its distance to that of all rows."""
    half = task.some(np.arange(len(task.queries)) % 2 == 0)
    best, every = mean_relevance(half, top(half, n, 1.0, 0)), float(half.relevance()[half.visible].mean())
    return [best - loss * (best - every) for loss in LOSSES]


def question(
    title: str, task: Task, methods: list[Method], rivals: list[Method], n: int, requests: int, seed: int
) -> tuple[Table, dict[str, bool]]:
    """The table of a question, and for each stochastic method whether it beats all rivals at all targets."""
    by_target = [results(task, methods, n, target, requests, seed) for target in targets(task, n)]
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("relevance, measure (and minus the best rival)")
    for loss in LOSSES:
        table.add_column(f"relevance −{loss:.0%}", justify="right", no_wrap=True)
    wins = {method.name: True for method in methods if method.stochastic}
    for method in methods:
        cells = []
        for found in by_target:
            relevance, measure = found[method.name].mean(0)
            cells.append(f"{relevance:.3f}  {measure:.2f}")
            if method.stochastic:
                gaps = [found[method.name][:, 1] - found[rival.name][:, 1] for rival in rivals]
                means = [(float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(len(gap)))) for gap in gaps]
                cells[-1] += " ({:+.2f} ± {:.2f})".format(*min(means))
                wins[method.name] &= all(mean > 2 * error for mean, error in means)
        table.add_row(method.name, *cells)
    return table, wins


def main() -> None:
    parser = command("retrieval", __doc__, "few queries of the digits")
    add_seed(parser)
    options = parsed(parser, seed=0)
    console = Console(width=120)
    sources = [digits()] if options.quick else [mnist() or digits(), sentences()]
    n_queries, n_rows = (20, 200) if options.quick else (200, 1000)
    wins: dict[str, list[dict[str, bool]]] = {"A": [], "B": []}
    for items in sources:
        if items is None:
            console.print("sentences: left out, because the weights of MiniLM are not installed.")
            continue
        task = make_task(items, n_queries, n_rows, options.seed)
        about = f"{items.name}, {len(task.rows)} rows, {len(task.queries) // 2} queries"
        table, won = question(
            f"A: {about}, one slate", task, [SAMPLED, LANGEVIN, MMR, TOP], [MMR], ONE, 1, options.seed
        )
        wins["A"].append(won)
        console.print(table)
        methods, rivals = [SAMPLED, LANGEVIN, UNIFORM, GREEDY, MMR, TOP], [UNIFORM, GREEDY]
        table, won = question(f"B: {about}, {REQUESTS} requests", task, methods, rivals, MANY, REQUESTS, options.seed)
        wins["B"].append(won)
        console.print(table)
    for name, each in wins.items():
        for method in (SAMPLED.name, LANGEVIN.name):
            console.print(
                f"{name}: {method} {'wins' if all(won[method] for won in each) else 'does not win'} by the rule."
            )


if __name__ == "__main__":
    main()
