"""Held-out log-likelihood of 8 × 8 digits: isotropic kernels, one Gaussian, covariance kernels.

python -m benchmarks.density [--quick] [--seeds 5]

Pixels take 17 values, and narrow kernels can give discrete data an arbitrarily large density. Each pixel therefore gets
uniform noise with the width of one level first, the same for every method.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.stats import multivariate_normal
from sklearn.covariance import LedoitWolf
from sklearn.datasets import load_digits
from sklearn.mixture import GaussianMixture

import stochattn as sa
from stochattn.evaluation import splits
from stochattn.kinds.tables.generator.covariance import CovarianceKernels
from stochattn.kinds.tables.generator.neighborhoods import choose_width

SIZES = (100, 300, 800)


def p_beta(stored: np.ndarray, held_out: np.ndarray) -> float:
    centre = stored.mean(0)
    bank = sa.MemoryBank(stored - centre)
    beta = sa.temperature.leave_one_out(bank, equal_weights=True)
    return float(sa.StochasticAttention(bank, beta=beta, equal_weights=True).log_density(held_out - centre).mean())


def gaussian(stored: np.ndarray, held_out: np.ndarray) -> float:
    fitted = LedoitWolf().fit(stored)
    return float(multivariate_normal(fitted.location_, fitted.covariance_).logpdf(held_out).mean())


def scaled_gaussian(stored: np.ndarray, held_out: np.ndarray) -> float:
    scale = stored.std(0)
    return gaussian(stored / scale, held_out / scale) - float(np.log(scale).sum())


def mixture(stored: np.ndarray, held_out: np.ndarray) -> float:
    fits = [GaussianMixture(c, covariance_type="full", reg_covar=1e-2, random_state=0).fit(stored) for c in (1, 3, 10)]
    return float(min(fits, key=lambda fit: fit.bic(stored)).score(held_out))


def kernels(shape: str):
    def score(stored: np.ndarray, held_out: np.ndarray) -> float:
        fitted = CovarianceKernels.fit(stored, width=choose_width(stored, shape=shape))
        return float(fitted.log_density(held_out).mean())

    return score


METHODS = {
    "p_beta, leave-one-out": p_beta,
    "one Gaussian, Ledoit-Wolf": gaussian,
    "one Gaussian, scaled columns": scaled_gaussian,
    "Gaussian mixture, full, BIC": mixture,
    "covariance kernels, pooled": kernels("pooled"),
    "covariance kernels, local": kernels("local"),
}


def table(seeds: int, sizes: tuple[int, ...]) -> list[str]:
    """The lines of a Markdown table: nats per image, mean ± sd over splits."""
    rows = load_digits().data
    rows = (rows + np.random.default_rng(0).random(rows.shape)) / 17
    lines = [
        "| method | " + " | ".join(f"K = {K}" for K in sizes) + " | seconds at the largest K |",
        "|---" * (len(sizes) + 2) + "|",
    ]
    for name, method in METHODS.items():
        cells, seconds = [], 0.0
        for K in sizes:
            begin = time.perf_counter()
            found = [method(rows[split.stored], rows[split.held_out]) for split in splits(len(rows), seeds, stored=K)]
            seconds = (time.perf_counter() - begin) / seeds
            cells.append(f"{np.mean(found):.1f} ± {np.std(found):.1f}")
        lines.append(f"| {name} | {' | '.join(cells)} | {seconds:.1f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.density", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two seeds, no K = 800")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    print("\n".join(table(2 if options.quick else options.seeds, SIZES[:2] if options.quick else SIZES)))


if __name__ == "__main__":
    main()
