"""Paths of returns by this library and by other methods, for random subsets of tickers.

python -m benchmarks.returns_rivals [--data FOLDER] [--quick] [--paths 400]

Log-returns are split into blocks of 250 days. The even blocks are stored and the odd ones held out, then the other way
round, and the figure of a subset is the mean of both. Each method generates paths of 250 days. The behavior of paths
is compared with the stored days, copies with the held-out days; no method is fitted or chosen on the held-out days.
The data folder (default STOCHATTN_DATA) contains returns.npz with closes (days, tickers), tickers and dates.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from stochattn._backend.arrays import Array
from stochattn.kinds.returns.codec import ReturnsCodec
from stochattn.kinds.returns.kind import KIND
from stochattn.synthesizer.synthesizer import Synthesizer

from .returns_measures import correlation_gap, days, fidelity, novelty
from .rivals import garch_filtered, multivariate_t, stationary_bootstrap
from .rivals.stationary_bootstrap import PathSampler

BLOCK = 250
SIZES, SUBSETS = (10, 20, 50), 5
Results = dict[str, list[dict[str, float]]]
"""For each method, the measures of each subset."""


def log_returns(folder: Path) -> Array:
    """The log-returns of returns.npz: (T, tickers)."""
    with np.load(folder / "returns.npz", allow_pickle=False) as file:
        return np.diff(np.log(file["closes"].astype(np.float64)), axis=0)


def windows(stored: Array, **options: object) -> PathSampler:
    """A sampler of the generator `windows` on the stored blocks, with these options."""
    tickers = [f"ticker {i + 1}" for i in range(stored.shape[-1])]
    codec = ReturnsCodec.fit(days(stored), tickers, runs=[stored.shape[1]] * len(stored))

    def sample(n: int, n_days: int, rng: np.random.Generator) -> Array:
        return Synthesizer.of(KIND, codec, "windows", days=n_days, **options).generator.sample(n, rng).values

    return sample


METHODS: Mapping[str, Callable[[Array], PathSampler]] = {
    "windows, linked (default)": windows,
    "windows, not linked": lambda stored: windows(stored, link=False),
    "windows with the stored market": lambda stored: windows(stored, market_path="stored"),
    "windows without a market": lambda stored: windows(stored, market="none"),
    "stationary bootstrap": stationary_bootstrap.fit,
    "multivariate t": multivariate_t.fit,
    "GARCH-filtered simulation": garch_filtered.fit,
}


def measures(stored: Array, held_out: Array, n_paths: int, seed: list[int]) -> dict[str, dict[str, float]]:
    """The measures of each method on stored and held-out blocks (blocks, BLOCK, N)."""
    found = {}
    for name, fit in METHODS.items():
        begun = time.process_time()
        paths = fit(stored)(n_paths, BLOCK, np.random.default_rng(seed))
        taken = time.process_time() - begun
        held = {"correlation, held-out": correlation_gap(days(paths), days(held_out))}
        speed = {"µs per day": 1e6 * taken / (n_paths * BLOCK)}
        found[name] = fidelity(paths, stored) | held | novelty(paths, stored, held_out) | speed
    return found


def over_subsets(returns: Array, n_tickers: int, n_subsets: int, n_paths: int) -> Results:
    """The measures of random subsets of this many tickers, each the mean over both halves stored."""
    whole = len(returns) // BLOCK
    blocks = returns[: whole * BLOCK].reshape(whole, BLOCK, -1)
    results: Results = {}
    for subset in range(n_subsets):
        rng = np.random.default_rng([subset, n_tickers])
        some = blocks[..., np.sort(rng.choice(blocks.shape[-1], n_tickers, replace=False))]
        halves = [(some[::2], some[1::2]), (some[1::2], some[::2])]
        found = [measures(*half, n_paths, [subset, n_tickers, i]) for i, half in enumerate(halves)]
        for name in METHODS:
            mean = {key: float(np.mean([each[name][key] for each in found])) for key in found[0][name]}
            results.setdefault(name, []).append(mean)
    return results


def folder_of_data(given: str | None) -> Path:
    """The folder that contains returns.npz."""
    if not given or not (Path(given) / "returns.npz").is_file():
        sys.exit("returns.npz was not found: name its folder with --data or STOCHATTN_DATA.")
    return Path(given)


def table(title: str, results: Results) -> str:
    """A Markdown table with the mean ± standard error over the subsets of each method."""
    columns = list(next(iter(results.values()))[0])
    lines = [f"### {title}", "", "| method | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, found in results.items():
        cells = []
        for column in columns:
            values = np.array([each[column] for each in found])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            decimals = 1 if column.startswith("µs") else 3
            cells.append(f"{values.mean():.{decimals}f}" + (f" ± {error:.{decimals}f}" if np.isfinite(error) else ""))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join((*lines, ""))


def main() -> None:
    """Print a table for all subsets, and one for each number of tickers."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.returns_rivals", description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("STOCHATTN_DATA"), help="folder that contains returns.npz")
    parser.add_argument("--quick", action="store_true", help="one subset of each size")
    parser.add_argument("--paths", type=int, default=400, help="number of paths of 250 days")
    options = parser.parse_args()
    returns, n_subsets = log_returns(folder_of_data(options.data)), 1 if options.quick else SUBSETS
    by_size = {N: over_subsets(returns, N, n_subsets, options.paths) for N in SIZES}
    everything = {name: [each for found in by_size.values() for each in found[name]] for name in METHODS}
    sizes = ", ".join(map(str, SIZES))
    print(table(f"{sizes} tickers, {n_subsets} subsets each", everything))
    for N, found in by_size.items():
        print(table(f"{N} tickers, {n_subsets} subsets", found))


if __name__ == "__main__":
    main()
