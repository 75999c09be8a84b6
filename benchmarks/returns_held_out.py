"""Scenarios of returns against days that were never stored: `python -m benchmarks.returns_held_out` prints tables.

python -m benchmarks.returns_held_out [--data FOLDER] [--quick] [--stored odd] [--times 16]

Log-returns are cut into blocks of 250 days; even ones are stored (odd ones with --stored odd), the others held out, and
a last block that is not whole is left out. Stored blocks are runs of days: no window crosses the gap between two. For
each held-out block --times paths of 250 days are made: with one path, chance (whether a crash is drawn) hides the
errors of a method.

Marginals, tails and clustering are measured against the stored days, which are all that a method could know: a crash
falls on one side of the split, and the stored days themselves differ from the held-out ones by more than any method
differs from the stored ones. Correlations and copies are measured against the held-out days, where the row "stored
days" shows how much is due to the split alone.
The data folder is STOCHATTN_DATA unless named: it holds returns.npz with closes (days, tickers), tickers and dates.
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
from stochattn.data.kind import choose_generator
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
Make = Callable[[np.random.Generator], Array]
"""Makes paths (n, BLOCK, N)."""


class Halves(NamedTuple):
    """Stored and held-out blocks of log-returns: (blocks, BLOCK, N) each."""

    stored: Array
    held_out: Array

    def of(self, tickers: Array) -> Halves:
        """Some of the tickers only."""
        return Halves(self.stored[..., tickers], self.held_out[..., tickers])


def read(folder: Path, stored: str) -> Halves:
    """Alternating blocks of returns.npz."""
    with np.load(folder / "returns.npz", allow_pickle=False) as file:
        returns = np.diff(np.log(file["closes"].astype(np.float64)), axis=0)
    whole = len(returns) // BLOCK
    blocks = returns[: whole * BLOCK].reshape(whole, BLOCK, -1)
    even, odd = blocks[::2], blocks[1::2]
    return Halves(even, odd) if stored == "even" else Halves(odd, even)


def days(paths: Array) -> Array:
    """Paths (n, days, N) one after another: (n·days, N)."""
    return paths.reshape(-1, paths.shape[-1])


def windows(stored: Array, n_paths: int, window: int | None = None, **options: Any) -> Make:
    """Paths of windows of the stored blocks, with these options of the generator."""
    tickers = [f"ticker {i + 1}" for i in range(stored.shape[-1])]
    codec = ReturnsCodec.fit(days(stored), tickers, runs=[BLOCK] * len(stored), window=window)
    choice = choose_generator(KIND, "windows", {"days": BLOCK, **options})
    paths = Synthesizer(KIND, codec, choice, np.ones(codec.K)).generator
    paths.sample(1, np.random.default_rng(0))  # fits the calibration, which is not a part of the time of draws
    return lambda rng: paths.sample(n_paths, rng).values


def stationary_bootstrap(stored: Array, n_paths: int) -> Make:
    """Runs of stored days of geometric length, 60 on average; a block is continued at its first day."""

    def make(rng: np.random.Generator) -> Array:
        paths = np.empty((n_paths, *stored.shape[1:]))
        begins = rng.random((n_paths, BLOCK)) < 1 / BOOTSTRAP_DAYS
        for path, begin in zip(paths, begins, strict=True):
            for t in range(BLOCK):
                if t == 0 or begin[t]:
                    block, day = rng.integers(len(stored)), rng.integers(BLOCK)
                path[t] = stored[block, day]
                day = (day + 1) % BLOCK
        return paths

    return make


def multivariate_t(stored: Array, n_paths: int) -> Make:
    """Student's law with the shrunk covariance; its excess kurtosis, 6 / (nu − 4), is the tickers' mean."""
    rows = days(stored)
    fitted = LedoitWolf().fit(rows)
    nu = 4 + 6 / max(float(excess_kurtosis(rows).mean()), 1e-3)
    root = np.linalg.cholesky(fitted.covariance_ * (nu - 2) / nu)

    def make(rng: np.random.Generator) -> Array:
        n = n_paths * BLOCK
        normal = rng.standard_normal((n, len(root))) @ root.T
        return (fitted.location_ + normal * np.sqrt(nu / rng.chisquare(nu, n))[:, None]).reshape(n_paths, BLOCK, -1)

    return make


def methods(halves: Halves, n_paths: int) -> Iterator[tuple[str, Make]]:
    """Each method by its name, fitted on the stored blocks; one at a time, since windows of many tickers are large."""
    yield "stored days", lambda rng: halves.stored
    yield "windows of 60 days, linked (default)", windows(halves.stored, n_paths)
    yield "windows of 60 days, not linked", windows(halves.stored, n_paths, link=False)
    yield "single days", windows(halves.stored, n_paths, 1, link=False)
    plain = {"whiten": False, "norm": "whole", "marginals": "free"}
    yield "p_β, plain, natural β", windows(halves.stored, n_paths, 1, link=False, **plain)
    yield "stationary bootstrap, 60", stationary_bootstrap(halves.stored, n_paths)
    yield "multivariate t", multivariate_t(halves.stored, n_paths)


def fidelity(paths: Array, truth: Array) -> dict[str, float]:
    """Errors of paths (n, days, N) against blocks of true days (m, days, N)."""
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


def novelty(paths: Array, halves: Halves) -> dict[str, float]:
    """Days compared with stored and held-out ones; distances are in units of each ticker's standard deviation.

    equal:  share within 1e-6 of a stored day's length of that day
    nearer: share nearer to a stored day than any held-out day is
    """
    scale = days(halves.stored).std(0)
    new, stored, held_out = (days(x) / scale for x in (paths, *halves))
    distances, true = nearest_distances(new, stored), nearest_distances(held_out, stored)
    found = held_out_metrics(new, stored, held_out)
    return {
        "correlation": correlation_gap(days(paths), days(halves.held_out)),
        "equal": float((distances <= COPY * np.linalg.norm(new, axis=1)).mean()),
        "nearer": float((distances < true.min()).mean()),
        "1 %": found.copies,
        "train proximity": found.train_proximity,
        "novelty ratio": found.novelty_ratio,
    }


def table(title: str, results: dict[str, list[dict[str, float]]]) -> str:
    """A Markdown table, mean ± sd of each method's results."""
    columns = list(next(iter(results.values()))[0])
    lines = [f"### {title}", "", "| method | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, found in results.items():
        values = [[each[column] for each in found] for column in columns]
        cells = ["–" if np.isnan(x).any() else f"{np.mean(x):.3f} ± {np.std(x):.3f}" for x in values]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join((*lines, ""))


def measure(halves: Halves, n_tickers: int, seeds: int, times: int) -> list[str]:
    """Two tables for subsets of this many tickers, another for each seed; all tickers are fitted once."""
    total = halves.stored.shape[-1]
    n_tickers = min(n_tickers, total)
    outer, draws = (1, seeds) if n_tickers == total else (seeds, 1)
    stored: dict[str, list[dict[str, float]]] = {}
    held_out: dict[str, list[dict[str, float]]] = {}
    for seed in range(outer):
        chosen = np.sort(np.random.default_rng([seed, n_tickers]).choice(total, n_tickers, replace=False))
        some = halves.of(chosen)
        for name, make in methods(some, times * len(some.held_out)):
            for draw in range(draws):
                begun = time.perf_counter()
                paths = make(np.random.default_rng([seed, draw, n_tickers, 1]))
                taken = np.nan if name == "stored days" else time.perf_counter() - begun
                speed = {"µs a day": 1e6 * taken / len(days(paths))}
                stored.setdefault(name, []).append(fidelity(paths, some.stored) | speed)
                held_out.setdefault(name, []).append(novelty(paths, some))
    how = f"{n_tickers} tickers, " + (f"{draws} draws" if n_tickers == total else f"{outer} subsets")
    how += f" of {times * len(halves.held_out) * BLOCK:,} days"
    return [table(f"{how}: against the stored days", stored), table(f"{how}: against the held-out days", held_out)]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.returns_held_out", description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("STOCHATTN_DATA"), help="folder that holds returns.npz")
    parser.add_argument("--quick", action="store_true", help="two subsets of 20 tickers")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--times", type=int, default=16, help="paths to make for each held-out block")
    parser.add_argument("--stored", choices=("even", "odd"), default="even", help="which blocks are stored")
    options = parser.parse_args()
    if not options.data or not (Path(options.data) / "returns.npz").is_file():
        sys.exit("returns.npz was not found: name its folder with --data or STOCHATTN_DATA.")
    halves = read(Path(options.data), options.stored)
    for n_tickers in (20,) if options.quick else (20, 100, 424):
        for text in measure(halves, n_tickers, 2 if options.quick else options.seeds, options.times):
            print(text, flush=True)


if __name__ == "__main__":
    main()
