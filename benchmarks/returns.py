"""Scenarios of returns for several window lengths, compared with the whole history.

python -m benchmarks.returns [--data FOLDER] [--quick]

The data folder (default STOCHATTN_DATA) contains returns.npz with closes (days, tickers), tickers and dates.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

import stochattn as sa
from stochattn._backend.arrays import Array
from stochattn.kinds.returns.writing import (
    correlation_error,
    excess_kurtosis,
    expected_shortfall,
    kolmogorov_smirnov,
    squares_autocorrelation,
)

COLUMNS = ("KS pass", "KS p", "Frobenius", "novelty", "ACF(g²)", "ACF(g²) by path", "kurtosis", "ES 1 %", "seconds")
N_FOR_NOVELTY = 200
Generated = tuple[Array, float | None]
"""Paths (n, days, N), and the mean novelty of their windows if it is known."""


def closing_prices(folder: Path, quick: bool) -> object:
    """The closing prices of returns.npz as a data frame with one row per day."""
    import pandas as pd

    with np.load(folder / "returns.npz", allow_pickle=False) as file:
        closes, tickers, dates = file["closes"], file["tickers"].astype(str), file["dates"].astype(str)
    closes, tickers = (closes[:, ::8], tickers[::8]) if quick else (closes, tickers)
    return pd.DataFrame(closes.astype(np.float64), columns=tickers, index=pd.to_datetime(dates))


def line(name: str, paths: Array, history: Array, novelty: float | None, seconds: float) -> str:
    """A row of the table for paths (n, days, N); measures per day use at most as many days as the history has."""
    flat = paths.reshape(-1, paths.shape[-1])
    flat = flat[np.linspace(0, len(flat) - 1, min(len(flat), len(history))).round().astype(int)]
    _, p = kolmogorov_smirnov(flat, history)
    clustering, by_path = "–", "–"
    if paths.shape[1] > 10:
        clustering = f"{squares_autocorrelation(paths):.3f}"
        if len(paths) > 1:
            low, middle, high = np.quantile([squares_autocorrelation(path[None]) for path in paths], [0.25, 0.5, 0.75])
            by_path = f"{middle:.3f} ({low:.3f}–{high:.3f})"
    cells = (
        f"{(p > 0.05).mean():.1%}",
        f"{p.mean():.3f}",
        f"{correlation_error(flat, history):.1%}",
        "–" if novelty is None else f"{novelty:.3f}",
        clustering,
        by_path,
        f"{excess_kurtosis(flat).mean():.1f}",
        f"{expected_shortfall(flat):.4f}",
        f"{seconds:.1f}",
    )
    return f"| {name} | " + " | ".join(cells) + " |"


def methods(prices: object, quick: bool) -> dict[str, Callable[[], Generated]]:
    """The function that generates the paths of each row of the table."""
    n_paths, n_days = (4, 500) if quick else (64, 2500)

    @lru_cache
    def fitted(window: int) -> sa.Synthesizer:
        return sa.fit(prices, "returns", values="prices", window=window)

    def novelty(window: int, rng: np.random.Generator) -> float:
        windows = fitted(window).generator
        return float(sa.metrics.cosine_novelty(windows.sample(N_FOR_NOVELTY, rng).rows, windows.stored_rows).mean())

    def days() -> Generated:
        rng, one = np.random.default_rng(0), fitted(1)
        return one.generator.sample(one.codec.K, rng).values, novelty(1, rng)

    def paths(window: int, link: bool) -> Generated:
        rng, beta = np.random.default_rng(1), fitted(window).generator.beta
        longer = fitted(window).with_generator(beta=beta, days=n_days, link=link)
        return longer.generator.sample(n_paths, rng).values, novelty(window, rng)

    def resampled() -> Generated:
        history = fitted(1).codec.history
        return history[np.random.default_rng(0).integers(len(history), size=len(history))][:, None], 0.0

    return {
        "history": lambda: (fitted(1).codec.history[None], None),
        "days resampled (bootstrap)": resampled,
        "window 1": days,
        "window 10, independent": lambda: paths(10, False),
        "window 10, linked": lambda: paths(10, True),
        "window 60, independent": lambda: paths(60, False),
        "window 60 (default), linked": lambda: paths(60, True),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.returns", description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("STOCHATTN_DATA"), help="folder that contains returns.npz")
    parser.add_argument("--quick", action="store_true", help="every eighth ticker, shorter paths")
    options = parser.parse_args()
    if not options.data or not (Path(options.data) / "returns.npz").is_file():
        sys.exit("returns.npz was not found: name its folder with --data or STOCHATTN_DATA.")
    rows = methods(closing_prices(Path(options.data), options.quick), options.quick)
    history = rows["history"]()[0][0]
    print("| method | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for name, generate in rows.items():
        begin = time.perf_counter()
        paths, novelty = generate()
        print(line(name, paths, history, novelty, time.perf_counter() - begin), flush=True)


if __name__ == "__main__":
    main()
