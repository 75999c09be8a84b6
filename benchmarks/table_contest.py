"""The table generator beside its rivals: sequential CART, adversarial random forest, Gaussian copula and SMOTE.

python -m benchmarks.table_contest [--quick] [--seeds 5] [--kept FILE] [--methods ARF ...]

Each table is split in halves of at most 300 rows: one is stored, and each method draws as many rows as the other half
has, which no method sees. FILE keeps what was measured, a line of JSON per method and split, for runs that go on;
--methods measures these methods alone, into FILE.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import stochattn as sa
from benchmarks.rivals import arf, cart, copula, smote
from benchmarks.table_contest_data import SOURCES, Contest, contests, halves
from benchmarks.table_contest_measures import Judge, Scores

OURS = "stochattn"
STORED = "stored rows"
Method = Callable[[Contest, pd.DataFrame, int, int], pd.DataFrame]
Measured = dict[tuple[str, int, str], list[float]]


def ours(contest: Contest, stored: pd.DataFrame, n: int, seed: int) -> pd.DataFrame:
    synth = sa.fit(stored, "table", label=contest.target if contest.classes else None)
    return synth.sample(n, rng=seed)


METHODS: dict[str, Method] = {
    STORED: lambda contest, stored, n, seed: stored,
    "CART (synthpop)": lambda contest, stored, n, seed: cart.draw(stored, n, np.random.default_rng(seed)),
    "ARF": lambda contest, stored, n, seed: arf.draw(stored, n, np.random.default_rng(seed)),
    "Gaussian copula": lambda contest, stored, n, seed: copula.draw(stored, n, np.random.default_rng(seed)),
    "SMOTE": lambda contest, stored, n, seed: smote.draw(
        stored, n, np.random.default_rng(seed), contest.target if contest.classes else None
    ),
    OURS: ours,
}
ALL = tuple(METHODS)
RIVALS = [name for name in METHODS if name not in (OURS, STORED)]


def measured(names: tuple[str, ...], seeds: range, kept: Path | None, methods: Sequence[str] = ALL) -> Measured:
    """Measures and seconds of each table, split and method; those that are kept are not measured again."""
    found: Measured = {}
    if kept is not None and kept.exists():
        for line in kept.read_text("utf-8").splitlines():
            table, seed, method, values = json.loads(line)
            found[table, seed, method] = values
    for seed in seeds:
        for contest in contests(names):
            missing = [method for method in methods if (contest.name, seed, method) not in found]
            if not missing:
                continue
            split = halves(contest, seed)
            judge, n = Judge(contest, split), len(split.held_out)
            for method in missing:
                begin = time.process_time()
                new = METHODS[method](contest, split.stored, n, seed)
                seconds = time.process_time() - begin
                found[contest.name, seed, method] = [*judge.scores(new), seconds]
                if kept is not None:
                    with kept.open("a", encoding="utf-8") as file:
                        line = [contest.name, seed, method, found[contest.name, seed, method]]
                        file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return found


HEAD = ("two-sample AUC", "C2*", "forest gap", "copies", "train proximity", "seconds")


def cell(values: np.ndarray) -> str:
    """Mean ± standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.3f} ± {error:.3f}".replace("-", "−")


def per_table(found: Measured, names: tuple[str, ...], seeds: range) -> list[str]:
    """The lines of a Markdown table with a row for each table and method."""
    lines = ["| table | method | " + " | ".join(HEAD) + " |", "|" + "---|" * (2 + len(HEAD))]
    for name in names:
        for method in METHODS:
            values = np.array([found[name, seed, method] for seed in seeds])
            lines.append(f"| {name} | {method} | " + " | ".join(cell(column) for column in values.T) + " |")
    return lines


def overall(found: Measured, names: tuple[str, ...], seeds: range) -> list[str]:
    """The lines of a Markdown table of means over all tables, with standard errors over splits."""
    lines = ["| method | " + " | ".join(HEAD) + " |", "|" + "---|" * (1 + len(HEAD))]
    for method in METHODS:
        splits = np.array([[found[name, seed, method] for name in names] for seed in seeds]).mean(1)
        lines.append(f"| {method} | " + " | ".join(cell(column) for column in splits.T) + " |")
    return lines


def wins(found: Measured, names: tuple[str, ...], seeds: range) -> list[str]:
    """Sentences that say on how many tables the mean two-sample AUC is the lower one."""
    auc = {
        (name, method): np.mean([found[name, seed, method][Scores._fields.index("auc")] for seed in seeds])
        for name in names
        for method in METHODS
    }
    lines = []
    for rival in RIVALS:
        lost = [name for name in names if auc[name, OURS] >= auc[name, rival]]
        against = f" It is not on {', '.join(lost)}." if lost else ""
        lines.append(f"- {rival}: our AUC is lower on {len(names) - len(lost)} of {len(names)} tables.{against}")
    ahead = [name for name in names if all(auc[name, OURS] < auc[name, rival] for rival in RIVALS)]
    return [*lines, f"- Ahead of all four at once on {len(ahead)} of {len(names)} tables: {', '.join(ahead)}."]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table_contest", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two splits")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kept", type=Path, help="file of measures to go on with")
    parser.add_argument("--methods", nargs="+", choices=ALL, default=ALL, help="methods to measure, if not all")
    parser.add_argument("--first", type=int, default=0, help="first split; development uses 1000 and above")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names, seeds = tuple(SOURCES), range(options.first, options.first + (2 if options.quick else options.seeds))
    found = measured(names, seeds, options.kept, options.methods)
    if set(options.methods) < set(ALL):
        return
    print("\n".join(overall(found, names, seeds)))
    print("\n" + "\n".join(wins(found, names, seeds)))
    print("\n" + "\n".join(per_table(found, names, seeds)))


if __name__ == "__main__":
    main()
