"""Sample the 8x8 digits of scikit-learn at several temperatures, print a table and write a picture.

python examples/digits.py [--digit 3] [--out out/digits.png] [--seed 0]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

import stochattn as sa
from stochattn import metrics, neighbors, temperature

EXPLANATION = """\
novelty: 1 - max cosine to a stored digit; diversity: mean 1 - cosine between
draws; energy: as in the tables of the paper; (ULA): the same for ULA chains;
copies: share of draws that are closer to a stored digit than the closest 1 %
of stored digits are to each other. Every draw is a stored digit plus noise of
size 1/sqrt(beta), so a high beta gives copies and a low beta gives noise. See
docs/method.md for the limits of the method."""


def stored_digits(digit: int, K: int = 100) -> sa.MemoryBank:
    """The first K images of a digit as unit rows."""
    images, labels = load_digits(return_X_y=True)
    return sa.MemoryBank(images[labels == digit][:K]).normalized()


def temperatures(bank: sa.MemoryBank) -> dict[str, float]:
    """Names and values of beta, coldest first."""
    natural, inflection = temperature.natural(bank), temperature.inflection(bank)
    return {
        "near recall": 100 * natural,
        "natural x 10": 10 * natural,
        "natural": natural,
        "natural / 4": natural / 4,
        "natural / 16": natural / 16,
        "inflection": inflection,
    }


def picture(bank: sa.MemoryBank, samples: dict[str, np.ndarray], path: Path) -> None:
    """Write twelve images per temperature, below the stored digits that are nearest to the coldest draws."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    coldest = next(iter(samples.values()))[:12]
    rows = {"stored": bank.patterns[neighbors.nearest_memory(coldest, bank)[0]], **samples}
    figure, axes = plt.subplots(len(rows), 12, figsize=(9, 0.82 * len(rows)))
    for line, (name, x) in zip(axes, rows.items(), strict=True):
        for axis, image in zip(line, x[:12], strict=True):
            axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=bank.patterns.max())
            axis.set(xticks=[], yticks=[])
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    figure.tight_layout(pad=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.part")
    figure.savefig(unfinished, dpi=130, format=path.suffix.lstrip(".") or "png")
    unfinished.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--digit", type=int, default=3, choices=range(10), help="digit to store (default 3)")
    parser.add_argument(
        "--out", type=Path, default=Path("out/digits.png"), help="file of the picture: .png, .pdf or .svg"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed, 0 or more (default 0)")
    options = parser.parse_args()
    if options.seed < 0:
        parser.error(f"--seed must be 0 or more; got {options.seed}")
    if options.out.suffix not in (".png", ".pdf", ".svg"):
        parser.error(f"--out must end in .png, .pdf or .svg; got {options.out}")
    bank = stored_digits(options.digit)
    console = Console()
    title = f"{bank.K} stored digits ({options.digit}), d = {bank.d}: 1,000 exact draws, and 30 ULA chains"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("beta", "", "novelty", "(ULA)", "diversity", "energy", "(ULA)", "copies"):
        table.add_column(heading, justify="left" if heading == "" else "right", no_wrap=True)
    drawn = {}
    for name, beta in temperatures(bank).items():
        model = sa.StochasticAttention(bank, beta=beta)
        new = drawn[f"{name}\nbeta = {beta:,.0f}"] = model.sample(1000, rng=options.seed)
        chains = metrics.summarize(model.run(sampler="ula", rng=options.seed).samples, bank, beta)
        table.add_row(
            f"{beta:,.0f}",
            name,
            f"{metrics.novelty(new, bank).mean():.3f}",
            f"{chains.novelty.value:.3f}",
            f"{metrics.diversity(new):.3f}",
            f"{metrics.mean_energy(new, bank, beta):.3f}",
            f"{chains.energy.value:.3f}",
            f"{metrics.near_copies(new, bank):.0%}",
        )
    console.print(table)
    console.print(EXPLANATION)
    picture(bank, drawn, options.out)
    console.print(f"picture: {options.out}")


if __name__ == "__main__":
    main()
