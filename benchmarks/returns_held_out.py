"""Scenarios of returns compared with held-out days.

python -m benchmarks.returns_held_out [--data FOLDER] [--quick] [--stored odd] [--times 16]

Log-returns are split into blocks of 250 days. Even blocks are stored (odd ones with --stored odd), the others are held
out, and an incomplete last block is dropped. No window crosses the gap between two stored blocks. Each method generates
--times paths of 250 days per held-out block, because the variance of a single path (does it contain a crash?) is larger
than the errors of a method.

Marginals, tails and clustering are compared with the stored days: a crash is in one part of the split only, and the
stored days differ from the held-out days by more than any method differs from the stored days. Correlations and copies
are compared with the held-out days; there the row "stored days" shows the effect of the split.
The data folder (default STOCHATTN_DATA) contains returns.npz with closes (days, tickers), tickers and dates.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.covariance import LedoitWolf

from stochattn._backend.arrays import Array
from stochattn.core.neighbors import nearest_distances
from stochattn.data.returns import KIND, ReturnsCodec
from stochattn.data.returns.scenarios import (
    TAIL,
    excess_kurtosis,
    expected_shortfall,
    kolmogorov_smirnov,
    squares_autocorrelation,
)
from stochattn.evaluation import held_out_metrics
from stochattn.synthesizer import Synthesizer

BLOCK = 250
BOOTSTRAP_DAYS = 60
COPY = 1e-6
PathSampler = Callable[[np.random.Generator], Array]
"""Generates paths (n, BLOCK, N)."""


class Split(NamedTuple):
    """Stored and held-out blocks of log-returns: (blocks, BLOCK, N) each."""

    stored: Array
    held_out: Array

    def select(self, tickers: Array) -> Split:
        """The split restricted to some tickers."""
        return Split(self.stored[..., tickers], self.held_out[..., tickers])


def read(folder: Path, stored: str) -> Split:
    """Read returns.npz and split it into alternating blocks."""
    with np.load(folder / "returns.npz", allow_pickle=False) as file:
        returns = np.diff(np.log(file["closes"].astype(np.float64)), axis=0)
    whole = len(returns) // BLOCK
    blocks = returns[: whole * BLOCK].reshape(whole, BLOCK, -1)
    even, odd = blocks[::2], blocks[1::2]
    return Split(even, odd) if stored == "even" else Split(odd, even)


def days(paths: Array) -> Array:
    """Concatenate the days of all paths: (n, days, N) -> (n·days, N)."""
    return paths.reshape(-1, paths.shape[-1])


def windows(stored: Array, n_paths: int, window: int | None = None, **options: Any) -> PathSampler:
    """A sampler of the generator `windows` on the stored blocks, with these options."""
    tickers = [f"ticker {i + 1}" for i in range(stored.shape[-1])]
    codec = ReturnsCodec.fit(days(stored), tickers, runs=[BLOCK] * len(stored), window=window)
    paths = Synthesizer.of(KIND, codec, "windows", days=BLOCK, **options).generator
    paths.sample(1, np.random.default_rng(0))  # fits the calibration, which does not count as sampling time
    return lambda rng: paths.sample(n_paths, rng).values


def stationary_bootstrap(stored: Array, n_paths: int) -> PathSampler:
    """The stationary bootstrap: runs of stored days with a mean length of 60; a block is circular."""

    def sample(rng: np.random.Generator) -> Array:
        paths = np.empty((n_paths, *stored.shape[1:]))
        begins = rng.random((n_paths, BLOCK)) < 1 / BOOTSTRAP_DAYS
        for path, begin in zip(paths, begins, strict=True):
            for t in range(BLOCK):
                if t == 0 or begin[t]:
                    block, day = rng.integers(len(stored)), rng.integers(BLOCK)
                path[t] = stored[block, day]
                day = (day + 1) % BLOCK
        return paths

    return sample


def multivariate_t(stored: Array, n_paths: int) -> PathSampler:
    """A multivariate t with shrunk covariance; its excess kurtosis, 6 / (nu − 4), is the mean over the tickers."""
    rows = days(stored)
    fitted = LedoitWolf().fit(rows)
    nu = 4 + 6 / max(float(excess_kurtosis(rows).mean()), 1e-3)
    root = np.linalg.cholesky(fitted.covariance_ * (nu - 2) / nu)

    def sample(rng: np.random.Generator) -> Array:
        n = n_paths * BLOCK
        normal = rng.standard_normal((n, len(root))) @ root.T
        return (fitted.location_ + normal * np.sqrt(nu / rng.chisquare(nu, n))[:, None]).reshape(n_paths, BLOCK, -1)

    return sample


def methods(split: Split, n_paths: int) -> Iterator[tuple[str, PathSampler]]:
    """Names and samplers, fitted on the stored blocks one at a time to limit the memory."""
    yield "stored days", lambda rng: split.stored
    yield "windows of 60 days, linked (default)", windows(split.stored, n_paths)
    yield "windows of 60 days, not linked", windows(split.stored, n_paths, link=False)
    yield "single days", windows(split.stored, n_paths, 1, link=False)
    plain = {"whiten": False, "norm": "whole", "marginals": "free"}
    yield "p_beta, natural", windows(split.stored, n_paths, 1, link=False, **plain)
    yield "stationary bootstrap, mean length 60", stationary_bootstrap(split.stored, n_paths)
    yield "multivariate t", multivariate_t(split.stored, n_paths)


def fidelity(paths: Array, truth: Array) -> dict[str, float]:
    """Errors of paths (n, days, N) relative to blocks of true days (m, days, N)."""
    new, old = days(paths), days(truth)
    tails = [np.sort(x, axis=0)[: max(1, round(TAIL * len(x)))].mean(0) for x in (new, old)]
    return {
        "correlation": correlation_gap(new, old),
        "KS": float(kolmogorov_smirnov(new, old)[0].mean()),
        "ES portfolio": abs(expected_shortfall(new) / expected_shortfall(old) - 1),
        "ES tickers": float(np.abs(tails[0] / tails[1] - 1).mean()),
        "ACF(r²) share": squares_autocorrelation(paths) / squares_autocorrelation(truth),
    }


def correlation_gap(new: Array, old: Array) -> float:
    """Mean absolute difference of the correlations of days (n, N) and (m, N)."""
    return float(np.abs(np.corrcoef(new.T) - np.corrcoef(old.T)).mean())


def novelty(paths: Array, split: Split) -> dict[str, float]:
    """Copies and train proximity of days; distances are in units of the standard deviation of each ticker.

    exact copies:                  share with a relative distance below 1e-6 to a stored day
    closer than all held-out days: share closer to a stored day than any held-out day is
    """
    scale = days(split.stored).std(0)
    new, stored, held_out = (days(x) / scale for x in (paths, *split))
    distances, true = nearest_distances(new, stored), nearest_distances(held_out, stored)
    found = held_out_metrics(new, stored, held_out)
    return {
        "correlation": correlation_gap(days(paths), days(split.held_out)),
        "exact copies": float((distances <= COPY * np.linalg.norm(new, axis=1)).mean()),
        "closer than all held-out days": float((distances < true.min()).mean()),
        "copies": found.near_copies,
        "train proximity": found.train_proximity,
        "novelty ratio": found.novelty_ratio,
    }


def table(title: str, results: dict[str, list[dict[str, float]]]) -> str:
    """A Markdown table with the mean ± standard deviation of the results of each method."""
    columns = list(next(iter(results.values()))[0])
    lines = [f"### {title}", "", "| method | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, found in results.items():
        values = [[each[column] for each in found] for column in columns]
        cells = ["–" if np.isnan(x).any() else f"{np.mean(x):.3f} ± {np.std(x):.3f}" for x in values]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join((*lines, ""))


def measure(split: Split, n_tickers: int, seeds: int, times: int) -> list[str]:
    """Two tables for random subsets of the tickers, one subset per seed; all tickers are fitted once."""
    total = split.stored.shape[-1]
    n_tickers = min(n_tickers, total)
    outer, draws = (1, seeds) if n_tickers == total else (seeds, 1)
    stored: dict[str, list[dict[str, float]]] = {}
    held_out: dict[str, list[dict[str, float]]] = {}
    for seed in range(outer):
        chosen = np.sort(np.random.default_rng([seed, n_tickers]).choice(total, n_tickers, replace=False))
        some = split.select(chosen)
        for name, sample in methods(some, times * len(some.held_out)):
            for draw in range(draws):
                begun = time.perf_counter()
                paths = sample(np.random.default_rng([seed, draw, n_tickers, 1]))
                taken = np.nan if name == "stored days" else time.perf_counter() - begun
                speed = {"µs per day": 1e6 * taken / len(days(paths))}
                stored.setdefault(name, []).append(fidelity(paths, some.stored) | speed)
                held_out.setdefault(name, []).append(novelty(paths, some))
    setting = f"{n_tickers} tickers, " + (f"{draws} draws" if n_tickers == total else f"{outer} subsets")
    setting += f" of {times * len(split.held_out) * BLOCK:,} days"
    references = {"stored": stored, "held-out": held_out}
    return [table(f"{setting}, compared with the {name} days", found) for name, found in references.items()]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.returns_held_out", description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("STOCHATTN_DATA"), help="folder that contains returns.npz")
    parser.add_argument("--quick", action="store_true", help="two subsets of 20 tickers")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--times", type=int, default=16, help="number of paths per held-out block")
    parser.add_argument("--stored", choices=("even", "odd"), default="even", help="blocks to store")
    options = parser.parse_args()
    if not options.data or not (Path(options.data) / "returns.npz").is_file():
        sys.exit("returns.npz was not found: name its folder with --data or STOCHATTN_DATA.")
    split = read(Path(options.data), options.stored)
    for n_tickers in (20,) if options.quick else (20, 100, 424):
        for text in measure(split, n_tickers, 2 if options.quick else options.seeds, options.times):
            print(text, flush=True)


if __name__ == "__main__":
    main()
