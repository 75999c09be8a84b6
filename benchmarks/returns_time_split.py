"""Paths of returns made from the past, compared with the days that followed.

python -m benchmarks.returns_time_split [--data FOLDER] [--quick] [--paths 200]

The first part of the history is stored and the days after it are the future. "scaled to the last n days" multiplies the
paths by the ratio of recent to past volatility, the median over tickers of root mean squares: a scaling by the regime
at the end of the history, which is an idea to be judged here and not an option of the library.
The data folder (default STOCHATTN_DATA) contains returns.npz with closes (days, tickers), tickers and dates.
"""

from __future__ import annotations

import argparse
import os

import numpy as np

from stochattn._backend.arrays import Array
from stochattn.kinds.returns.writing import kolmogorov_smirnov

from .returns_measures import days, shortfall, value_at_risk
from .returns_rivals import BLOCK, METHODS, Results, folder_of_data, log_returns, table

SPLITS = ((0.0, 0.6, 1.0), (0.0, 0.3, 0.65), (0.0, 0.45, 0.7), (0.3, 0.75, 1.0))
"""Shares of the history at which the stored days begin and end, and the future ends."""
N_TICKERS, SUBSETS = 20, 5
RECENT = (60, 250)
COMPARED = ("windows, linked (default)", "stationary bootstrap", "multivariate t", "GARCH-filtered simulation")


def errors(new: Array, future: Array) -> dict[str, float]:
    """KS distance of the tickers, and |relative error| of 1 % VaR and ES of the portfolio, of days (n, N)."""
    return {
        "KS": float(kolmogorov_smirnov(new, future)[0].mean()),
        "1 % VaR": abs(value_at_risk(new) / value_at_risk(future) - 1),
        "ES": abs(shortfall(new) / shortfall(future) - 1),
    }


def over_subsets(past: Array, future: Array, n_subsets: int, n_paths: int) -> Results:
    """The errors of each method for random subsets of the tickers of past and future days (T, tickers)."""
    results: Results = {}
    for subset in range(n_subsets):
        rng = np.random.default_rng([subset, N_TICKERS])
        chosen = np.sort(rng.choice(past.shape[1], N_TICKERS, replace=False))
        stored, other = past[:, chosen], future[:, chosen]
        results.setdefault("stored days", []).append(errors(stored, other))
        for name in COMPARED:
            new = days(METHODS[name](stored[None])(n_paths, BLOCK, np.random.default_rng([subset, 1])))
            results.setdefault(name, []).append(errors(new, other))
            for n in RECENT if name == COMPARED[0] else ():
                sizes = [np.sqrt(np.square(x).mean(0)) for x in (stored[-n:], stored)]
                scaled = new * np.median(sizes[0] / sizes[1])
                results.setdefault(f"windows, scaled to the last {n} days", []).append(errors(scaled, other))
    return results


def main() -> None:
    """Print a table for each split."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.returns_time_split", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--data", default=os.environ.get("STOCHATTN_DATA"), help="folder that contains returns.npz")
    parser.add_argument("--quick", action="store_true", help="one subset of the tickers")
    parser.add_argument("--paths", type=int, default=200, help="number of paths of 250 days")
    options = parser.parse_args()
    returns, n_subsets = log_returns(folder_of_data(options.data)), 1 if options.quick else SUBSETS
    for shares in SPLITS:
        begin, end, last = (round(share * len(returns)) for share in shares)
        found = over_subsets(returns[begin:end], returns[end:last], n_subsets, options.paths)
        texts = [f"{share:.0%}".replace("%", " %") for share in shares]
        print(table(f"Stored {texts[0]} to {texts[1]} of the history, compared with the days up to {texts[2]}", found))


if __name__ == "__main__":
    main()
