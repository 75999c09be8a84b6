"""A bank on a Dask cluster: a scheduler and two worker processes on this machine, and more memories than they hold.

python -m examples.cluster [--memories 10000000] [--dimensions 64] [--draws 100000]

It writes a bank to Zarr, chunk by chunk, draws from it, evaluates energies and runs Langevin steps, and prints the time
of each and the peak memory of the processes. Everything listens on the loopback interface only.
"""

from __future__ import annotations

import argparse
import logging
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import stochattn as sa

CHUNK_BYTES = 2**25  # of the bank, 32 MiB: a worker holds a few chunks at a time
CENTRES = 1000
MEMORY_LIMIT = "2GB"


def peak_megabytes() -> float:
    """The largest memory that this process has had, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def make_chunk(centres: np.ndarray, block_info: dict | None = None) -> np.ndarray:
    """Memories around the centres, those of one chunk; chunk i depends on i only."""
    where = block_info[None]
    (rows, d), number = where["chunk-shape"], where["chunk-location"][0]
    rng = np.random.default_rng((1, number))
    return centres[rng.integers(len(centres), size=rows)] + 0.3 * rng.standard_normal((rows, d), dtype=np.float32)


def make_bank(folder: Path, K: int, d: int) -> da.Array:
    """A bank (K, d) of float32 in Zarr, written chunk by chunk, as a dask.array that reads it."""
    rows = min(max(CHUNK_BYTES // (4 * d), 1), -(-K // 4))
    sizes = tuple(min(rows, K - begin) for begin in range(0, K, rows))
    centres = np.random.default_rng(0).standard_normal((CENTRES, d), dtype=np.float32)
    made = da.map_blocks(make_chunk, centres, chunks=(sizes, (d,)), dtype=np.float32, meta=np.empty((0, 0), np.float32))
    made.to_zarr(folder / "bank.zarr", compressors=None)  # noise does not compress
    return da.from_zarr(folder / "bank.zarr")


@contextmanager
def timed(what: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    print(f"{what:<55}{time.perf_counter() - begin:8.1f} s", flush=True)


def demonstrate(client: Client, folder: Path, K: int, d: int, n: int) -> None:
    with timed(f"writing {K:,} memories of {d} numbers ({K * d * 4 / 1e9:.2f} GB)"):
        x = make_bank(folder, K, d)
    with timed("opening the bank: norms, and a check of every row"):
        model = sa.StochasticAttention(x, beta=10.0, equal_weights=True)
    with timed(f"{n:,} exact draws to Zarr"):
        model.sample(n, rng=0).to_zarr(folder / "new.zarr")
    new = da.from_zarr(folder / "new.zarr")[:64].compute()
    with timed("log density of 64 draws"):
        log_density = model.log_density(new)
    with timed("nearest memories of 64 draws"):
        distances = sa.neighbors.nearest_memory(new, model.bank)[1]
    with timed("5 ULA steps of 16 chains"):
        draws = model.run(sampler="ula", n_chains=16, n_steps=5, warmup=0, thin=5, rng=0)
    print(f"mean log density {log_density.mean():.1f}, mean distance {distances.mean():.2f}")
    print(f"mean energy of the chains {draws.energies.mean():.2f}")
    for worker, peak in client.run(peak_megabytes).items():
        print(f"peak memory of worker {worker}: {peak:,.0f} MB of {MEMORY_LIMIT}")
    print(f"peak memory of this process, with the scheduler: {peak_megabytes():,.0f} MB")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memories", type=int, default=10_000_000)
    parser.add_argument("--dimensions", type=int, default=64)
    parser.add_argument("--draws", type=int, default=100_000)
    given = parser.parse_args(arguments)
    workers = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "memory_limit": MEMORY_LIMIT}
    workers["silence_logs"] = logging.CRITICAL  # workers complain when the scheduler ends before them
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(**workers, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        print(f"scheduler {cluster.scheduler_address} with {len(cluster.workers)} workers")
        demonstrate(client, Path(folder), given.memories, given.dimensions, given.draws)


if __name__ == "__main__":
    main()
