"""Langevin steps on a bank that is sharded over processes, each on one thread.

`measured_steps` starts the processes: `python -m benchmarks.speed.ranks STORE RANK RANKS SIZES SECONDS` is one of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np

from stochattn._backend.parallel import usable_cores

from .cost import Measured
from .shapes import memories

BETA = 20.0
MIN_SECONDS = 0.3
REPEATS = 5
PATIENCE = timedelta(minutes=5)


def measured_steps(
    workers: int, sizes: Sequence[tuple[int, int, int]], min_seconds: float = MIN_SECONDS
) -> list[Measured]:
    """Seconds per step at each size (K, d, n), on that many processes of this machine, from runs of `min_seconds`."""
    with tempfile.TemporaryDirectory() as folder:
        words = [str(workers), json.dumps(sizes), str(min_seconds)]
        ranks = [_started([str(Path(folder) / "store"), str(rank), *words]) for rank in range(workers)]
        try:
            printed, _ = ranks[0].communicate()
            codes = [rank.wait() for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    if any(codes):
        raise RuntimeError(f"a rank of {workers} failed with exit code {next(filter(None, codes))}.")
    cores = usable_cores()
    return [Measured(workers, *size, seconds, cores) for size, seconds in zip(sizes, json.loads(printed), strict=True)]


def _started(words: Sequence[str]) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    output = subprocess.PIPE if words[1] == "0" else subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.speed.ranks", *words], env=environment, stdout=output, text=True
    )


def step_seconds(rank: int, ranks: int, min_seconds: float, K: int, d: int, n: int) -> float:
    """Seconds per step of n chains of ULA: the least of some runs, without the fixed cost of a run."""
    import torch

    import stochattn as sa

    rows = np.array_split(np.arange(K), ranks)[rank]
    bank = sa.ShardedMemory(torch.tensor(memories(K, d)[rows]), beta=BETA)
    start = np.arange(n) % K

    def seconds(steps: int) -> float:
        begin = time.perf_counter()
        bank.run(n_chains=n, n_steps=steps, keep=[steps], start=start, rng=0, progress=False)
        return time.perf_counter() - begin

    seconds(1)
    wanted = min_seconds / max((seconds(3) - seconds(1)) / 2, 1e-4)
    steps = 1 + int(bank.bank.ranks.numbers(wanted, torch.device("cpu"))[0])  # as many as rank 0 wants
    long, short = (min(seconds(1 + more) for _ in range(REPEATS)) for more in (steps, 0))
    return max(long - short, 1e-9) / steps


def main(store: str, rank: int, ranks: int, sizes: list[tuple[int, int, int]], min_seconds: float) -> None:
    """Measure as one of the ranks; rank 0 prints the times."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.FileStore(store, ranks), rank=rank, world_size=ranks, timeout=PATIENCE)
    found = [step_seconds(rank, ranks, min_seconds, *size) for size in sizes]
    if rank == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]), float(sys.argv[5]))
