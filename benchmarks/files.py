"""Time and memory of the command line on one core: a million sequences from a family of 68, written to FASTA.

python -m benchmarks.files [--n 1000000] [--family FILE]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LETTERS = "ACDEFGHIKLMNPQRSTVWY"
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def random_family(path: Path, K: int = 68, L: int = 79) -> Path:
    """Write a random alignment with the size of the family in the paper."""
    rng = np.random.default_rng(0)
    consensus = rng.integers(0, 20, (4, L))
    codes = consensus[rng.integers(0, 4, K)]
    drift = rng.random((K, L)) < 0.5
    codes[drift] = rng.integers(0, 20, drift.sum())
    rows = ["".join(LETTERS[c] for c in row) for row in codes]
    path.write_text("".join(f">s{i}\n{row}\n" for i, row in enumerate(rows)))
    return path


def seconds_for(n: int, family: Path, out: Path) -> float:
    """Wall time of the command, including its start."""
    command = [sys.executable, "-m", "stochattn", "sample", str(family), "-n", str(n), "--stream", "-o", str(out)]
    begin = time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, **ONE_CORE}, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.files", description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--family", type=Path, help="an alignment to use instead of a random one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        family = options.family or random_family(Path(folder) / "family.fasta")
        out = Path(folder) / "new.fasta"
        start = seconds_for(1, family, out)
        few = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        whole = seconds_for(options.n, family, out)
        many = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        size = out.stat().st_size
    print(f"{options.n:,} sequences, {size / 1e6:,.0f} MB of FASTA, on one core: {whole:.1f} s, start-up {start:.1f} s")
    print(
        f"{options.n / (whole - start):,.0f} sequences/s; peak memory {many / 1024:,.0f} MB ({few / 1024:,.0f} for one)"
    )


if __name__ == "__main__":
    main()
