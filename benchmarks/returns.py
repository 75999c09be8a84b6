"""Scenarios of returns, mode by mode: `python -m benchmarks.returns [--data FOLDER] [--quick]` prints a table.

The data folder is STOCHATTN_DATA unless named: it holds returns.npz with closes (days, tickers), tickers and dates.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import stochattn as sa
from stochattn.data.returns import ReturnsCodec
from stochattn.data.returns.linking import chain_windows
from stochattn.data.returns.measures import (
    correlation_error,
    excess_kurtosis,
    expected_shortfall,
    kolmogorov_smirnov,
    squares_autocorrelation,
)
from stochattn.paths import Course, paths
from stochattn.pipeline import plan

PAPER_BETA, SEQUENCE_BETA = 25.0, 12.0
COLUMNS = ("KS pass", "KS p", "Frobenius", "novelty", "ACF(g²)", "ACF(g²) by path", "kurtosis", "ES 1 %", "seconds")


def as_csv(folder: Path, place: Path, quick: bool) -> Path:
    """The closing prices of returns.npz as a wide CSV file."""
    import pandas as pd

    with np.load(folder / "returns.npz", allow_pickle=False) as file:
        closes, tickers, dates = file["closes"], file["tickers"].astype(str), file["dates"].astype(str)
    closes, tickers = (closes[:, ::8], tickers[::8]) if quick else (closes, tickers)
    frame = pd.DataFrame(closes.astype(np.float64), columns=tickers)
    frame.insert(0, "date", dates)
    frame.to_csv(place, index=False)
    return place


def line(name: str, paths: Any, history: Any, novelty: float | None, seconds: float) -> str:
    """A row of the table; paths (n, days, N). Measures of days take all of them, at most as many as the history has."""
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


def novelty_of(codec: ReturnsCodec, beta: float, rng: np.random.Generator) -> float:
    """Mean of 1 − max cos of 200 states drawn at beta."""
    stored = codec.coordinates.stored
    xi = stored[rng.integers(codec.K, size=200)]
    xi = xi + rng.standard_normal(xi.shape) / np.sqrt(beta)
    return float(1 - (xi @ stored.T / np.linalg.norm(xi, axis=1, keepdims=True)).max(1).mean())


def days(codec: ReturnsCodec, beta: float, n: int, rng: np.random.Generator) -> tuple[Any, float]:
    """n independent items, (n, window, N), and the novelty of states."""
    k = rng.integers(codec.K, size=n)
    return codec.at(beta).items(codec.around(k, beta, rng), k, rng), novelty_of(codec, beta, rng)


def sequence(codec: ReturnsCodec, by_regime: bool, quick: bool) -> tuple[Any, None]:
    """Algorithm 3 for a few hundred days, with beta fixed or switching between two regimes."""
    n_days, n_paths = (60, 2) if quick else (300, 4)
    course = Course(n_days, schedule="regimes" if by_regime else "fixed")
    batches = paths(plan(codec, beta=SEQUENCE_BETA), course, n_paths, seed=0)
    return np.concatenate([batch.items for batch in batches]), None


def modes(path: Path, quick: bool) -> dict[str, Callable[[], tuple[Any, float | None]]]:
    """What each row of the table draws."""
    n_paths, n_days = (4, 500) if quick else (64, 2500)
    codecs: dict[tuple[int, str], ReturnsCodec] = {}
    betas: dict[int, float] = {}

    def codec(window: int, mode: str = "exact") -> ReturnsCodec:
        if (window, mode) not in codecs:
            codecs[window, mode] = ReturnsCodec.read(path, window=window, mode=mode)
        return codecs[window, mode]

    def natural(window: int) -> float:
        if window not in betas:
            own = codec(window)
            betas[window] = sa.StochasticAttention(own.bank, equal_weights=own.equal_weights).beta
        return betas[window]

    def paths(window: int, linked: bool) -> tuple[Any, float | None]:
        own, rng = codec(window), np.random.default_rng(1)
        beta = natural(window)
        made = chain_windows(own.at(beta), beta, n_paths, n_days, rng, linked=linked)
        return made, novelty_of(own, beta, rng)

    def resampled() -> tuple[Any, float]:
        history = codec(1).history
        return history[np.random.default_rng(0).integers(len(history), size=len(history))][:, None], 0.0

    n = codec(1).K
    return {
        "history": lambda: (codec(1).history[None], None),
        "days resampled (bootstrap)": resampled,
        "projection, β = 25": lambda: days(codec(1, "projection"), PAPER_BETA, n, np.random.default_rng(0)),
        "window 1": lambda: days(codec(1), natural(1), n, np.random.default_rng(0)),
        "window 10, independent": lambda: paths(10, False),
        "window 10, linked": lambda: paths(10, True),
        "window 60, independent": lambda: paths(60, False),
        "window 60 (default), linked": lambda: paths(60, True),
        "sequential, β = 12": lambda: sequence(codec(1, "projection"), False, quick),
        "sequential, two regimes": lambda: sequence(codec(1, "projection"), True, quick),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.returns", description=__doc__)
    parser.add_argument("--data", default=os.environ.get("STOCHATTN_DATA"), help="folder that holds returns.npz")
    parser.add_argument("--quick", action="store_true", help="every eighth ticker, shorter paths")
    options = parser.parse_args()
    if not options.data or not (Path(options.data) / "returns.npz").is_file():
        sys.exit("returns.npz was not found: name its folder with --data or STOCHATTN_DATA.")
    with tempfile.TemporaryDirectory() as folder:
        path = as_csv(Path(options.data), Path(folder) / "prices.csv", options.quick)
        rows = modes(path, options.quick)
        history = ReturnsCodec.read(path).history
        print("| mode | " + " | ".join(COLUMNS) + " |")
        print("|---" * (len(COLUMNS) + 1) + "|")
        for name, make in rows.items():
            begin = time.perf_counter()
            made, novelty = make()
            print(line(name, made, history, novelty, time.perf_counter() - begin), flush=True)


if __name__ == "__main__":
    main()
