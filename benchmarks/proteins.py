"""Generated sequences of protein families compared with a held-out half.

python -m benchmarks.proteins [--quick] [--seeds 8]

Alignments are the files pfam/*.sto in the folder named by --data or STOCHATTN_DATA. Every method uses the stored half
only, also to choose its settings; the profile HMM that scores sequences is built from that half too.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ks_2samp

import stochattn as sa
from stochattn.data.proteins import KIND, ProteinCodec
from stochattn.data.proteins.alignment import LETTERS, build_profile, score
from stochattn.data.proteins.sequences import connected_r
from stochattn.evaluation import nearest_neighbour_accuracy, splits
from stochattn.generators.latent import CalibratedLatent
from stochattn.generators.sequences import (
    GAP,
    SubstitutionMixture,
    WeightedSequences,
    draw_symbols,
    indicators,
    nearest_identity,
    site_distributions,
)
from stochattn.synthesizer import Synthesizer

PAPER_BETA = 8.0
QUICK_SETS, SETS = 3, 12
"""Number of sets of new sequences, each as large as the held-out half."""


class Generated(NamedTuple):
    """New sequences, and the log-likelihood per site of held-out ones if the method has a density."""

    codes: Any
    log_likelihood: float = np.nan


class Figures(NamedTuple):
    """Results of one method on one split."""

    score_ks: float  # two-sample KS statistic of bit scores, new and held-out
    identity_excess: float  # mean identity to the nearest stored sequence: new minus held-out
    near_copies: float  # share with a higher identity than any held-out sequence; ideally 1/(n_held_out + 1)
    accuracy_real: float  # leave-one-out 1-NN accuracy in Hamming distance on held-out sequences
    accuracy_new: float  # the same on new sequences
    accuracy: float  # their mean
    pair_r: float  # correlation of connected pair frequencies, new and held-out
    log_likelihood: float  # of held-out sequences, nats per site


HEADS = ("HMM-score KS", "identity excess", "near-copies", "1-NN real", "1-NN new", "1-NN mean", "pair r", "nats/site")
Method = Callable[[ProteinCodec, Any, int], Generated]


def latent(**options: Any) -> Method:
    """Calibrated latent draws."""

    def generate(codec: ProteinCodec, held_out: Any, n: int) -> Generated:
        model = CalibratedLatent(WeightedSequences.of(codec.stored), **options)
        density = model.log_density(held_out, rng=np.random.default_rng(1))
        return Generated(model.sample(n, np.random.default_rng(0)).values, density.mean() / len(codec.columns))

    return generate


def substitution(pseudo_counts: str) -> Method:
    """The exact mixture in sequence space."""

    def generate(codec: ProteinCodec, held_out: Any, n: int) -> Generated:
        model = SubstitutionMixture.fit(WeightedSequences.of(codec.stored), pseudo_counts)
        new = model.sample(n, np.random.default_rng(0)).values
        return Generated(new, model.log_density(held_out).mean() / len(codec.columns))

    return generate


def independent_sites(codec: ProteinCodec, held_out: Any, n: int) -> Generated:
    """The null model: each site is drawn from its own distribution."""
    sites = site_distributions(WeightedSequences.of(codec.stored)).mixed
    new = draw_symbols(sites.T[None], np.random.default_rng(0).random((n, len(codec.columns))))
    return Generated(new, float(np.log(sites[np.arange(len(codec.columns)), held_out]).mean()))


def p_beta(beta: float | None, norm: str) -> Method:
    """p_beta, decoded to the residue with the largest channel."""

    def generate(codec: ProteinCodec, held_out: Any, n: int) -> Generated:
        synth = Synthesizer.of(KIND, codec, "hopfield", beta=beta, norm=norm)
        return Generated(synth.sample_items(n, 0))

    return generate


def emitted(codec: ProteinCodec, held_out: Any, n: int) -> Generated:
    """Sequences emitted by the profile (as with hmmemit), match states only."""
    profile = build_profile(codec.stored)
    if not hasattr(profile, "emit_alignment"):
        raise LookupError("this version of pyhmmer cannot emit sequences: install 0.12.1.")
    rows = profile.emit_alignment(n, 1).textize()
    text = np.array([list(row) for row in rows.alignment])
    matches = text[:, [mark == "x" for mark in rows.reference]]
    # HMMER has a match state for every column except those with many gaps.
    columns = np.sort(np.argsort((codec.stored == GAP).mean(0), kind="stable")[: matches.shape[1]])
    codes = np.full((n, len(codec.columns)), GAP, dtype=np.uint8)
    for code, letter in enumerate(LETTERS):
        row, state = np.nonzero(matches == letter)
        codes[row, columns[state]] = code
    return Generated(codes)


def replay(codec: ProteinCodec, held_out: Any, n: int) -> Generated:
    """Stored sequences."""
    return Generated(codec.stored[np.random.default_rng(0).integers(codec.K, size=n)])


METHODS: dict[str, Method] = {
    "calibrated latent (ours)": latent(),
    "one Gaussian, calibrated decoder": latent(bandwidth=1.0),
    "substitution mixture (ours)": substitution("natural"),
    "substitution mixture, likelihood": substitution("likelihood"),
    "independent sites (null)": independent_sites,
    "hmmemit, match states": emitted,
    "p_beta natural, norm restored": p_beta(None, "restored"),
    "p_beta = 8, decoder of the paper": p_beta(PAPER_BETA, "paper"),
    "stored, replayed": replay,
}


def evaluated(generated: Generated, stored: Any, held_out: Any, profile: Any) -> Figures:
    """Results of the new sequences of a method, compared with the held-out half."""
    new, m = generated.codes, len(held_out)
    scores = [np.nan_to_num(score(codes, profile, m)[0], nan=-np.inf) for codes in (new, held_out)]
    identity, true = (nearest_identity(codes, stored)[1] for codes in (new, held_out))
    rows, real = (indicators(codes).reshape(len(codes), -1) for codes in (new, held_out))
    # Each set has the size of the held-out half; the average over sets has a smaller variance.
    sets = [nearest_neighbour_accuracy(real, rows[i : i + m]) for i in range(0, len(new) - m + 1, m)]
    accuracy_real, accuracy_new = np.mean(sets, axis=0)
    return Figures(
        float(ks_2samp(*scores).statistic),
        float(identity.mean() - true.mean()),
        float((identity > true.max()).mean()),
        float(accuracy_real),
        float(accuracy_new),
        float(accuracy_real + accuracy_new) / 2,
        connected_r(held_out, new),
        generated.log_likelihood,
    )


def measure(path: Path, seeds: int, sets: int = SETS) -> dict[str, list[Figures]]:
    """Results of every method on random half-splits of a family, one per seed."""
    whole = sa.fit(path).codec
    found: dict[str, list[Figures]] = {name: [] for name in METHODS}
    for split in splits(whole.K, seeds):
        stored, held_out = whole.stored[split.stored], whole.stored[split.held_out]
        codec, profile = whole.refit(stored), build_profile(stored)
        for name, method in METHODS.items():
            try:
                found[name].append(evaluated(method(codec, held_out, sets * len(held_out)), stored, held_out, profile))
            except LookupError as reason:
                print(f"{name} is skipped for one split: {reason}", file=sys.stderr)
    return found


def table(found: dict[str, list[Figures]]) -> str:
    """Mean ± standard deviation over splits, one row per method."""
    lines = ["| method | " + " | ".join(HEADS) + " |", "|---" * (len(HEADS) + 1) + "|"]
    for name, rows in found.items():
        if rows:
            means, spreads = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=min(1, len(rows) - 1))
            cells = ["–" if np.isnan(a) else f"{a:.3f} ± {b:.3f}" for a, b in zip(means, spreads, strict=True)]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print one table per family, and one over all families."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proteins", description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("STOCHATTN_DATA"), help="folder that contains pfam/*.sto")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="two splits, fewer new sequences")
    options = parser.parse_args()
    files = sorted((Path(options.data) / "pfam").glob("*.sto")) if options.data else []
    if not files:
        sys.exit("no alignment was found: name the folder that contains pfam/*.sto with --data or STOCHATTN_DATA.")
    seeds, sets = (2, QUICK_SETS) if options.quick else (options.seeds, SETS)
    combined: dict[str, list[Figures]] = {name: [] for name in METHODS}
    for path in files:
        found = measure(path, seeds, sets)
        print(f"\n{path.stem}, {seeds} half-splits\n\n{table(found)}", flush=True)
        for name, rows in found.items():
            combined[name] += rows
    print(f"\nall families\n\n{table(combined)}")


if __name__ == "__main__":
    main()
