"""What a true sample of a family reaches: profile scores and 1-NN accuracy of an independent third part.

python -m benchmarks.protein_floor [--splits 10] [--families PF00014 PF00069]

A family is split in three parts of equal size: stored, held out, and independent. The generator is fitted on the stored
part. Its sequences, the stored part itself, and the independent part are compared with the held-out part, in the same
way. Splits differ from those of `benchmarks.proteins`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.protein_measures import cross_fitted_ks
from benchmarks.proteins import families, match_codec
from stochattn.evaluation import nearest_neighbor_accuracy
from stochattn.kinds.proteins.generator.latent import CalibratedLatent
from stochattn.kinds.proteins.generator.sequences import WeightedSequences, indicators

SETS, FIRST_SEED = 8, 9000
"""Sets of new sequences, each as large as the held-out part, and the seed of the first split."""


class Reached(NamedTuple):
    """Figures of sequences against the held-out part."""

    score_ks: float  # cross-fitted
    accuracy: float  # 1-NN, the mean of real and new


def reached(new: Any, held_out: Any) -> Reached:
    """The mean over sets of new sequences as large as the held-out part (m, L)."""
    m, found = len(held_out), []
    for begin in range(0, len(new) - m + 1, m):
        rows = [indicators(codes).reshape(m, -1) for codes in (held_out, new[begin : begin + m])]
        accuracy = float(np.mean(nearest_neighbor_accuracy(*rows)))
        found.append(Reached(cross_fitted_ks(new[begin : begin + m], held_out), accuracy))
    return Reached(*np.mean(found, axis=0).tolist())


def measure(codes: Any, seed: int) -> dict[str, Reached]:
    """One split of the sequences of a family (K, L)."""
    order, m = np.random.default_rng(FIRST_SEED + seed).permutation(len(codes)), len(codes) // 3
    stored, held_out, independent = (codes[order[i * m : (i + 1) * m]] for i in range(3))
    new = CalibratedLatent(WeightedSequences.of(stored)).sample(SETS * m, np.random.default_rng(seed)).values
    compared = {"new": new, "stored": stored, "independent": independent}
    return {name: reached(sequences, held_out) for name, sequences in compared.items()}


def row(path: Path, splits: int) -> str:
    """A line of the table: mean ± standard error over splits."""
    codes = match_codec(path).stored
    found = [measure(codes, seed) for seed in range(splits)]
    cells = [path.stem.partition("_seed")[0], str(len(codes) // 3)]
    for field in range(len(Reached._fields)):
        for name in found[0]:
            values = np.array([one[name][field] for one in found])
            error = values.std(ddof=min(1, len(values) - 1)) / np.sqrt(len(values))
            cells.append(f"{values.mean():.3f} ± {error:.3f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table, one row per family."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.protein_floor", description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("STOCHATTN_DATA"), help="folder that contains pfam/*.sto")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--families", nargs="+", metavar="NAME", help="only files whose names begin with one of these")
    options = parser.parse_args()
    files = [path for path in families(options.data) if path.name.startswith(tuple(options.families or [""]))]
    if not files:
        sys.exit("no alignment was found: name the folder that contains pfam/*.sto with --data or STOCHATTN_DATA.")
    heads = [f"{measure} {name}" for measure in ("KS", "1-NN") for name in ("new", "stored", "independent")]
    print(f"| family | m | {' | '.join(heads)} |\n{'|---' * (len(heads) + 2)}|")
    for path in files:
        print(row(path, options.splits), flush=True)


if __name__ == "__main__":
    main()
