"""What the forest gap of the table generator is made of: chance, copies drawn at random, and how many rows are drawn.

python -m benchmarks.table_forest_gap [--tables crabs Pima] [--splits 2] [--first 2000] [--only true]

Four gaps, each to a forest trained on the stored rows. The first two are of true rows, for which a table is split in
thirds: a second sample of true rows, and the stored rows drawn with replacement. The other two are of new rows, with
the halves of the contest: as many as are held out, as the mean of three draws, and five times as many.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np

import stochattn as sa
from benchmarks.table_contest import cell
from benchmarks.table_contest_data import MAX_STORED, SOURCES, Contest, Halves, contests, halves
from benchmarks.table_contest_measures import Judge

N_DRAWS, TIMES = 3, 5
HEADS = {
    "true": ("second true sample", "stored rows drawn with replacement"),
    "new": ("new rows", f"{TIMES} times as many"),
}


def of_true_rows(contest: Contest, seed: int) -> list[float]:
    """Forest gaps of other true rows, and of as many stored rows drawn with replacement."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(contest.frame))
    size = min(MAX_STORED, len(order) // 3)
    if contest.classes:  # every class alternates between the thirds
        codes = contest.frame[contest.target].astype("category").cat.codes.to_numpy()[order]
        order = order[np.argsort(codes, kind="stable")]
    thirds = [rng.permutation(order[i::3])[:size] for i in range(3)]
    stored, second, held_out = (contest.frame.iloc[third].reset_index(drop=True) for third in thirds)
    judge = Judge(contest, Halves(stored, held_out))
    return [judge.forest_gap(second), judge.forest_gap(stored.iloc[rng.integers(size, size=size)])]


def of_new_rows(contest: Contest, seed: int) -> list[float]:
    """Forest gaps of as many new rows as are held out, the mean of some draws, and of more."""
    split = halves(contest, seed)
    judge, n = Judge(contest, split), len(split.held_out)
    synth = sa.fit(split.stored, "table", label=contest.target if contest.classes else None)
    few = [judge.forest_gap(synth.sample(n, rng=draw)) for draw in range(N_DRAWS)]
    return [float(np.mean(few)), judge.forest_gap(synth.sample(TIMES * n, rng=9))]


GAPS: dict[str, Callable[[Contest, int], list[float]]] = {"true": of_true_rows, "new": of_new_rows}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table_forest_gap", description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=tuple(SOURCES), default=tuple(SOURCES))
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--first", type=int, default=2000, help="first split; those of the contest begin with 0")
    parser.add_argument("--only", choices=tuple(GAPS), help="of true or of new rows alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kinds = [options.only] if options.only else list(GAPS)
    heads = [head for kind in kinds for head in HEADS[kind]]
    print("| table | split | " + " | ".join(heads) + " |\n|" + "---|" * (2 + len(heads)), flush=True)
    found = []
    for seed in range(options.first, options.first + options.splits):
        for contest in contests(tuple(options.tables)):
            found.append([gap for kind in kinds for gap in GAPS[kind](contest, seed)])
            gaps = " | ".join(f"{gap:.3f}".replace("-", "−") for gap in found[-1])
            print(f"| {contest.name} | {seed} | {gaps} |", flush=True)
    print("| mean | | " + " | ".join(cell(column) for column in np.array(found).T) + " |")


if __name__ == "__main__":
    main()
