"""Generated sequences of protein families compared with a held-out half.

python -m benchmarks.proteins [--quick] [--seeds 5] [--families PF00014 PF00069] [--kept FOLDER]

Alignments are the files pfam/*.sto in the folder named by --data or STOCHATTN_DATA, and two that the package pyfamsa
ships with its tests, if it is installed (80 evenly spaced sequences of each). Every method uses the stored half only,
also to choose its settings. FOLDER keeps the sequences that each method made for a split, for runs that go on.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import stochattn as sa
from benchmarks.protein_measures import HEADS, Figures, catalytic_columns, evaluated
from benchmarks.rivals import hmmemit
from benchmarks.rivals.ardca import Autoregressive
from benchmarks.rivals.potts import Potts
from stochattn.core.neighbors import spaced_indices
from stochattn.evaluation import splits
from stochattn.kinds.proteins.codec import ProteinCodec
from stochattn.kinds.proteins.generator.latent import CalibratedLatent
from stochattn.kinds.proteins.generator.sequences import WeightedSequences, draw_symbols, site_distributions
from stochattn.kinds.proteins.kind import KIND
from stochattn.synthesizer.synthesizer import Synthesizer

QUICK_SETS, SETS = 3, 12
"""Number of sets of new sequences, each as large as the held-out half."""
SHIPPED, MAX_SHIPPED = ("adeno_fiber.sl.afa", "hemopexin.medoid-sl.afa"), 80
"""Alignments of the package pyfamsa, and how many of their sequences are used."""


class Generated(NamedTuple):
    """New sequences, and the log-likelihood per site of held-out ones if the method has a density."""

    codes: Any
    log_likelihood: float = np.nan


Method = Callable[[ProteinCodec, Any, int], Generated]


def generator_of(codec: ProteinCodec) -> np.random.Generator:
    """Random numbers that differ between splits: equal ones would make errors of all splits alike."""
    return np.random.default_rng(int(codec.stored.astype(np.int64).sum()))


def latent(codec: ProteinCodec, held_out: Any, n: int) -> Generated:
    """Calibrated latent draws."""
    model = CalibratedLatent(WeightedSequences.of(codec.stored))
    new = model.sample(n, generator_of(codec)).values
    return Generated(new, model.log_density(held_out).mean() / held_out.shape[1])


def independent_sites(codec: ProteinCodec, held_out: Any, n: int) -> Generated:
    """The null model: each site is drawn from its own distribution."""
    sites, L = site_distributions(WeightedSequences.of(codec.stored)).mixed, held_out.shape[1]
    new = draw_symbols(sites.T[None], generator_of(codec).random((n, L)))
    return Generated(new, float(np.log(sites[np.arange(L), held_out]).mean()))


def p_beta(codec: ProteinCodec, held_out: Any, n: int) -> Generated:
    """p_beta at the natural beta, decoded to the residue with the largest channel."""
    return Generated(Synthesizer.of(KIND, codec, "hopfield").sample_items(n, int(generator_of(codec).integers(2**31))))


def emitted(entropy_weighting: bool) -> Method:
    """Sequences emitted by a profile."""

    def generate(codec: ProteinCodec, held_out: Any, n: int) -> Generated:
        return Generated(
            hmmemit.emitted(codec.stored, n, int(generator_of(codec).integers(1, 2**31)), entropy_weighting)
        )

    return generate


def autoregressive(codec: ProteinCodec, held_out: Any, n: int) -> Generated:
    """The autoregressive rival."""
    model = Autoregressive.fit(codec.stored)
    return Generated(
        model.sample(n, generator_of(codec)), float(model.log_density(held_out).mean() / held_out.shape[1])
    )


def potts(codec: ProteinCodec, held_out: Any, n: int) -> Generated:
    """The pairwise rival, which has no normalized density."""
    return Generated(Potts.fit(codec.stored).sample(n, generator_of(codec)))


def true_sequences(codec: ProteinCodec, held_out: Any, n: int) -> Generated:
    """The stored sequences, each once: what a true sample of their number reaches."""
    return Generated(codec.stored)


METHODS: dict[str, Method] = {
    "calibrated latent (ours)": latent,
    "arDCA-like": autoregressive,
    "Potts, pseudo-likelihood": potts,
    "hmmemit": emitted(True),
    "hmmemit, no entropy weighting": emitted(False),
    "independent sites (null)": independent_sites,
    "p_beta, natural beta (ours)": p_beta,
    "true sequences (stored, each once)": true_sequences,
}


def made(name: str, codec: ProteinCodec, held_out: Any, n: int, kept: Path | None) -> Generated:
    """n sequences of a method, read from the folder `kept` if they are there and written to it otherwise."""
    if kept is None:
        return METHODS[name](codec, held_out, n)
    split = hashlib.sha256(codec.stored.tobytes() + held_out.tobytes()).hexdigest()[:16]
    file = kept / f"{name.replace(' ', '_')}_{n}_{split}.npz"
    if file.is_file():
        with np.load(file) as read:
            return Generated(read["codes"], float(read["log_likelihood"]))
    new = METHODS[name](codec, held_out, n)
    kept.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, codes=new.codes, log_likelihood=new.log_likelihood)
    return new


def match_codec(path: Path) -> ProteinCodec:
    """The match columns of a family, and evenly spaced sequences of an alignment that a package ships."""
    read = sa.fit(path).codec
    whole = replace(read, stored=read.stored[:, read.match], columns=read.columns[read.match], insertions=())
    return whole.refit(whole.stored[spaced_indices(whole.K, MAX_SHIPPED)]) if path.name in SHIPPED else whole


def measure(path: Path, seeds: int, sets: int = SETS, kept: Path | None = None) -> dict[str, list[Figures]]:
    """Results of every method on random half-splits of a family, one per seed."""
    whole = match_codec(path)
    catalytic = catalytic_columns(path.stem.partition("_")[0], whole.stored)
    found: dict[str, list[Figures]] = {name: [] for name in METHODS}
    for split in splits(whole.K, seeds):
        stored, held_out = whole.stored[split.stored], whole.stored[split.held_out]
        codec = whole.refit(stored)
        for name in METHODS:
            try:
                new, log_likelihood = made(name, codec, held_out, sets * len(held_out), kept)
            except LookupError as reason:
                print(f"{name} is skipped for one split: {reason}", file=sys.stderr)
            else:
                found[name].append(evaluated(new, log_likelihood, stored, held_out, catalytic))
    return found


def table(found: dict[str, list[Figures]]) -> str:
    """Mean ± standard error over splits, one row per method."""
    lines = ["| method | " + " | ".join(HEADS) + " |", "|---" * (len(HEADS) + 1) + "|"]
    for name, rows in found.items():
        cells = []
        for values in np.array(rows).reshape(-1, len(HEADS)).T:
            known = values[np.isfinite(values)]
            error = known.std(ddof=min(1, len(known) - 1)) / np.sqrt(len(known)) if len(known) else np.nan
            cells.append(f"{known.mean():.3f} ± {error:.3f}" if len(known) else "–")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def families(folder: str | None) -> list[Path]:
    """The alignments of the data folder, and those of pyfamsa where it is installed."""
    files = sorted((Path(folder) / "pfam").glob("*.sto")) if folder else []
    package = find_spec("pyfamsa")
    if package is not None and package.origin is not None:
        files += [path for name in SHIPPED if (path := Path(package.origin).parent / "tests/data" / name).is_file()]
    return files


def main() -> None:
    """Print one table per family, and one over all families."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proteins", description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("STOCHATTN_DATA"), help="folder that contains pfam/*.sto")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kept", type=Path, help="folder of the sequences that were made, to go on with")
    parser.add_argument("--families", nargs="+", metavar="NAME", help="only files whose names begin with one of these")
    parser.add_argument("--quick", action="store_true", help="two splits, fewer new sequences")
    options = parser.parse_args()
    files = families(options.data)
    if options.families:
        files = [path for path in files if path.name.startswith(tuple(options.families))]
    if not files:
        sys.exit("no alignment was found: name the folder that contains pfam/*.sto with --data or STOCHATTN_DATA.")
    seeds, sets = (2, QUICK_SETS) if options.quick else (options.seeds, SETS)
    combined: dict[str, list[Figures]] = {name: [] for name in METHODS}
    for path in files:
        found = measure(path, seeds, sets, options.kept)
        print(f"\n{path.stem}, {seeds} half-splits\n\n{table(found)}", flush=True)
        for name, rows in found.items():
            combined[name] += rows
    print(f"\nall families\n\n{table(combined)}")


if __name__ == "__main__":
    main()
