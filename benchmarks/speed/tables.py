"""Time of a table by its rows: reading, fitting, 1,000 new rows to a file, and a quick report.

python -m benchmarks.speed.tables [--rows 1000 5000 ...]

Twelve columns of mixed types: six numbers, of which two depend on others, a count, four categories and a date. Each
size runs in a process of its own; seconds are of processor time, and the last column is the most memory that it had.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd

import stochattn as sa

from .machine import about

ROWS = (1000, 5000, 10_000, 100_000, 1_000_000)
N_NEW = 1000


def made_table(K: int) -> pd.DataFrame:
    """K rows of twelve columns of mixed types that depend on each other."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((K, 4))
    group = rng.choice(["a", "b", "c"], K, p=[0.5, 0.3, 0.2])
    return pd.DataFrame(
        {
            "age": np.clip((50 + 12 * z[:, 0] + 3 * (group == "a")).round(), 18, 95).astype(int),
            "height": (170 + 8 * z[:, 1]).round(1),
            "weight": (70 + 10 * z[:, 1] + 5 * z[:, 0]).round(1),
            "glucose": np.exp(4.5 + 0.2 * z[:, 0] + 0.2 * rng.standard_normal(K)).round(2),
            "crp": np.exp(z[:, 2]).round(3),
            "visits": rng.poisson(np.exp(0.5 + 0.3 * z[:, 3])),
            "group": group,
            "sex": rng.choice(["F", "M"], K),
            "smoker": np.where(z[:, 3] + rng.standard_normal(K) > 1, "yes", "no"),
            "city": rng.choice(["Oslo", "Bergen", "Trondheim", "Stavanger", "Drammen"], K, p=[0.4, 0.2, 0.2, 0.1, 0.1]),
            "score": z[:, 0] + z[:, 2] + 0.3 * rng.standard_normal(K),
            "date": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, K), unit="D"),
        }
    )


def measure(K: int) -> list[float]:
    """Seconds of processor time of each step, and gigabytes of memory at most."""
    with tempfile.TemporaryDirectory() as name:
        folder, times = Path(name), list[float]()

        def timed(step: Callable[[], object]) -> None:
            begin = time.process_time()
            step()
            times.append(time.process_time() - begin)

        made_table(K).to_csv(folder / "stored.csv", index=False)
        synth = sa.fit(folder / "stored.csv")  # imports are not timed
        timed(lambda: sa.fit(folder / "stored.csv"))
        timed(synth.describe)
        timed(lambda: synth.write(folder / "new.csv", N_NEW, rng=0))
        timed(lambda: synth.report(folder / "report.html", quick=True))
    return [*times, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6]


def main() -> None:
    """Measure the sizes and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.tables", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    facts = about("cpu", quick=False)
    print(f"{facts['machine']}, {facts['date']}, load {facts['load_at_start']}\n")
    print(f"| rows | read | fit | write {N_NEW:,} | report --quick | memory |\n|---:|---:|---:|---:|---:|---:|")
    for K in parser.parse_args().rows:
        with get_context("spawn").Pool(1) as pool:
            *times, memory = pool.apply(measure, (K,))
        print(f"| {K:,} | {' | '.join(f'{seconds:.1f} s' for seconds in times)} | {memory:.1f} GB |", flush=True)


if __name__ == "__main__":
    main()
