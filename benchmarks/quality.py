"""Write docs/quality.md: every sampler judged on examples that were held out, beside rivals, by one command.

python -m benchmarks.quality [--quick] [--out docs/quality.md]     (data in the folder that STOCHATTN_DATA names)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from stochattn.files import write_whole

INTRODUCTION = """# How good are new examples?

Everything here is judged on examples that no method saw. *closer*: share of new examples nearer to the stored ones
than to as many held-out ones; 0.5 ideally, 1 for copies. *copies*: nearer to a stored one than 99 % of held-out
examples are. *novelty ratio*: median distance to the stored ones, over that of held-out examples; 1 ideally. *1-NN*:
how often the nearest neighbour tells held-out from new examples, on either; 0.5 ideally, and their mean alone misleads.
Mean ± standard deviation over splits. Every knob is set by the natural target or by likelihood, on stored examples
alone. `python -m benchmarks.quality` writes this page.
"""
SECTIONS = (
    (
        "Pictures: local heads",
        "images",
        "![stored, held out, p_beta, local heads](threes.png)\n\n"
        "Rows: stored, held out, p_beta at the natural beta, local heads. p_beta is a stored picture plus noise: every "
        "draw is nearer to the stored pictures than to others like them. Local heads recombine parts.\n\n"
        "The Fréchet distance is taken in the features of a small convolutional network trained on other digits. It "
        "depends on the network (with a perceptron ours is 0.67 of the mixture's, not 0.17), does not see p_beta's "
        "noise, and is lowest for copies: read it last. A classifier gains from the warps alone; warped stored "
        "ones do as well. Settings of the anneal were fixed with held-out figures of this digit in sight; portraits "
        "at the natural reach are new, and about half of them have smeared mouths or glasses.",
    ),
    (
        "Density: covariance kernels",
        "density",
        "Nats an image of held-out 8 × 8 digits. Local covariances follow what varies near each digit; one Gaussian is "
        "a strong rival at 100 digits, and round kernels never come near it.",
    ),
    (
        "Proteins: calibrated latent, substitution mixture",
        "proteins",
        "KS compares profile scores of new and held-out sequences; identity excess is the mean identity to the nearest "
        "stored sequence, less that of held-out sequences. An independent-site profile ties on the profile score and "
        "loses on identity; one Gaussian with the same decode ties with the mixture. With some 50 stored sequences, "
        "pair correlations are barely measurable: replayed sequences themselves have hardly any with held-out ones.",
    ),
    (
        "Returns: lengths kept, blocks of days",
        "returns_held_out",
        "Alternating blocks of 250 days are stored and held out. The stored half holds the crash of 2020 and the other "
        "does not: the stored days themselves miss the held-out ones by more than the methods miss the stored ones, so "
        "the second table of each size, against the stored days, says more. Nothing is a copy, where bootstraps are "
        "nothing else; plain p_beta loses correlations and tails; a multivariate t has the best correlations and no "
        "clustering.",
    ),
)


def main() -> None:
    """Run every part and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer splits")
    parser.add_argument("--out", type=Path, default=Path("docs/quality.md"))
    options = parser.parse_args()
    parts = [INTRODUCTION]
    for title, module, about in SECTIONS:
        print(f"{title} …", file=sys.stderr)
        command = [sys.executable, "-m", f"benchmarks.{module}", *(["--quick"] if options.quick else [])]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"benchmarks.{module} failed: {done.stderr.strip().splitlines()[-1:]}")
        parts.append(f"## {title}\n\n{about}\n\n`python -m benchmarks.{module}`\n\n{done.stdout.strip()}\n")
    write_whole(options.out, "\n".join(parts))


if __name__ == "__main__":
    main()
