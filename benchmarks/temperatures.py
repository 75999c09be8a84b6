"""Rules for beta compared on digits: the inflection of the paper is a hundred times hotter than the best beta.

STOCHATTN_DATA=FOLDER python -m benchmarks.temperatures [--seeds 5] [--out temperatures.png]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

from stochattn import MemoryBank, energy, temperature
from stochattn.evaluation import held_out_metrics
from stochattn.samplers import draw

from .picture_data import digits, flat, split, table

SIZES = (100, 300)
RULES: dict[str, Callable[[Any], float]] = {
    "inflection (paper)": temperature.inflection,
    "natural": temperature.natural,
    "leave-one-out": temperature.leave_one_out,
}
COLORS = dict(zip(RULES, ("tab:red", "tab:green", "tab:blue"), strict=True))
COLDER = 50.0
"""Factor of the natural beta for the last row of draws, which are copies."""


class Digits(NamedTuple):
    """Stored digits as a bank of unit rows, as in the paper, and held-out unit rows (300, 784)."""

    bank: MemoryBank
    held_out: Any

    @classmethod
    def of(cls, threes: Any, K: int, seed: int) -> Digits:
        """K stored and 300 held out."""
        stored, held_out = (flat(part).astype(np.float64) for part in split(threes, K, 300, seed))
        return cls(MemoryBank(stored).normalized(), held_out / np.linalg.norm(held_out, axis=1, keepdims=True))

    def likelihood(self, beta: float) -> float:
        """Mean log-likelihood of the held-out digits under p_beta, in nats per picture."""
        return float(energy.log_density(self.held_out, self.bank, beta).mean())

    def best(self) -> float:
        """The beta with the highest held-out likelihood, for comparison only: no rule uses the held-out digits."""
        found = minimize_scalar(lambda log_beta: -self.likelihood(np.exp(log_beta)), bounds=(0, 12), method="bounded")
        return float(np.exp(found.x))

    def evaluated(self, beta: float, n: int = 300) -> tuple[float, float, float]:
        """Novelty ratio of draws, and the 1-NN accuracies on held-out and on drawn digits."""
        found = held_out_metrics(draw(self.bank, beta, n, seed=0), self.bank.patterns, self.held_out)
        return found.novelty_ratio, found.nn_accuracy_real, found.nn_accuracy_new


def temperatures(threes: Any, seeds: Sequence[int]) -> Iterator[str]:
    """The beta of each rule, and the beta with the highest held-out likelihood."""
    figures: dict[str, list[list[float]]] = {}
    for K in SIZES:
        for seed in seeds:
            case = Digits.of(threes, K, seed)
            figures.setdefault(f"{K}", []).append([*(rule(case.bank) for rule in RULES.values()), case.best()])
    return table(("stored", *(f"beta: {name}" for name in RULES), "beta: best on held-out"), figures, 0)


def draws(threes: Any, seeds: Sequence[int]) -> Iterator[str]:
    """Held-out likelihood, noise as a share of the squared norm, and metrics at the beta of each rule."""
    figures: dict[str, list[list[float]]] = {}
    for K in SIZES:
        for seed in seeds:
            case = Digits.of(threes, K, seed)
            for name, rule in RULES.items():
                beta = rule(case.bank)
                noise = case.bank.d / beta
                row = [case.likelihood(beta), 100 * noise / (1 + noise), *case.evaluated(beta)]
                figures.setdefault(f"{K}, {name}", []).append(row)
    head = "held-out nats", "noise, % of squared norm", "novelty ratio", "1-NN real", "1-NN new"
    return table(("stored, rule", *head), figures, 2)


def draw_figure(path: Path) -> None:
    """Write curves over beta for K = 100 and 300, and digits drawn at the beta of each rule."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    threes = digits()[3]
    betas = np.geomspace(1, 1e5, 61)
    figure = plt.figure(figsize=(11, 10), layout="constrained")
    curves, strips = figure.subfigures(2, 1, height_ratios=(2.2, 1))
    axes = curves.subplots(4, len(SIZES), sharex=True, sharey="row")
    pictures = strips.subplots(1, len(SIZES))
    for K, column, strip in zip(SIZES, axes.T, pictures, strict=True):
        case = Digits.of(threes, K, 0)
        chosen = {name: rule(case.bank) for name, rule in RULES.items()}
        _curves(column, case, betas)
        for axis in column:
            for name, beta in chosen.items():
                style = ":" if name == "leave-one-out" else "-"
                axis.axvline(beta, color=COLORS[name], linestyle=style, label=f"{name}: {beta:,.0f}")
        column[0].set_title(f"digit 3, {K} stored")
        column[1].legend(loc="upper left", fontsize=8)
        column[-1].set_xlabel("beta")
        _strip(strip, case, chosen)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _curves(axes: Any, case: Digits, betas: Any) -> None:
    """Attention entropy and its slope; held-out likelihood; novelty ratio and 1-NN accuracies."""
    curve = temperature.entropy_curve(case.bank, betas)
    axes[0].plot(betas, curve.entropy / np.log(case.bank.K), color="black", label="attention entropy / log K")
    steepness = -curve.slope / np.abs(curve.slope).max()
    axes[0].plot(betas, steepness, color="gray", linestyle="--", label="−dH/dβ, scaled")
    axes[0].set_xscale("log")
    axes[0].legend(loc="upper right", fontsize=8)
    likelihoods = [case.likelihood(beta) for beta in betas]
    axes[1].plot(betas, likelihoods, color="black", label="held-out nats per picture")
    axes[1].set_ylim(0, 1.7 * max(likelihoods))
    coarse = betas[::3]
    ratio, accuracy_real, accuracy_new = np.array([case.evaluated(beta) for beta in coarse]).T
    axes[2].semilogy(coarse, ratio, color="black", label="novelty ratio (ideal 1)")
    axes[2].axhline(1, color="lightgray", linewidth=0.8)
    axes[3].plot(coarse, accuracy_real, color="tab:orange", label="1-NN accuracy on held-out (ideal 0.5)")
    axes[3].plot(coarse, accuracy_new, color="tab:purple", label="1-NN accuracy on new (ideal 0.5)")
    axes[3].axhline(0.5, color="lightgray", linewidth=0.8)
    axes[2].legend(loc="upper right", fontsize=8)
    axes[3].legend(loc="center left", fontsize=8)


def _strip(axis: Any, case: Digits, chosen: dict[str, float]) -> None:
    """Eight digits per beta of the rules, between two rules, and at a much colder beta."""
    natural = chosen["natural"]
    between = float(np.sqrt(chosen["inflection (paper)"] * natural))
    rows = {"inflection (paper)": chosen["inflection (paper)"], "between": between, "natural": natural}
    rows |= {"leave-one-out": chosen["leave-one-out"], "much colder: copies": COLDER * natural}
    drawn = [draw(case.bank, beta, 8, seed=0).reshape(8, 28, 28) for beta in rows.values()]
    brightest = float(np.quantile(case.bank.patterns.max(1), 0.5))
    levels = np.concatenate([np.concatenate(list(np.pad(row, ((0, 0), (1, 1), (1, 1)))), axis=1) for row in drawn])
    axis.imshow(np.clip(levels / brightest, 0, 1), cmap="gray", interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks(30 * np.arange(len(rows)) + 15, [f"{name}\nβ = {beta:,.0f}" for name, beta in rows.items()])
    axis.tick_params(length=0, labelsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.temperatures", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, metavar="PNG", help="also write the figure there")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        threes, seeds = digits()[3], range(options.seeds)
        print(*temperatures(threes, seeds), "", *draws(threes, seeds), sep="\n")
        if options.out:
            draw_figure(options.out)


if __name__ == "__main__":
    main()
