"""Large banks: attention compared with plain matrix products, draws from a mapped file, draws to a file, peak memory.

Each measurement runs in a separate process, whose peak memory is measured: `python -m benchmarks.speed.large_banks
attend|mapped|to_disk ...` prints a JSON object.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .measured import Results, Row, Task
from .shapes import BETA, LARGE, Shape, memories
from .timing import Candidate, ratio, seconds, side_by_side

QUERIES = 256
DRAWN = 20_000
PRODUCT_BLOCKS = (1024, 4096, 16384)
MAX_EXTRA_MB = 256
MIN_PRODUCT_RATE = 60.0


def tasks(quick: bool, device: str) -> list[Task]:
    """A task for each K, and on a CPU also draws from and to files."""
    rounds = 2 if quick else 3
    shapes = LARGE[:2] if quick else LARGE
    if device == "cuda":
        return [Task("large", f"K {shape.K:,}", partial(on_cuda, shape, rounds)) for shape in shapes]
    found = [Task("large", f"K {shape.K:,}", partial(on_cpu, shape, rounds)) for shape in shapes]
    if quick:
        found.append(Task("large", "K 1,000,000", _skipped))
    return [*found, Task("large", "rows to disk", partial(to_disk, 10**5 if quick else 10**7))]


def on_cpu(shape: Shape, rounds: int, results: Results | None = None) -> Sequence[Row]:
    """Attention as a share of the matrix-product rate, its memory, and exact draws from the same bank in a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bank.npy"
        np.save(path, memories(shape.K, shape.d))
        mapped = _in_subprocess("mapped", path, DRAWN)
    attended = _in_subprocess("attend", shape.K, shape.d, rounds)
    what = f"attention, {QUERIES} queries, {shape}"
    details = f"{attended['ours'] / 1e9:.0f} of {attended['products'] / 1e9:.0f} Gflop/s, float32"
    share, extra, drawing = 100 * attended["share"], attended["peak_mb"] - attended["bank_mb"], mapped["peak_mb"]
    target = MIN_PRODUCT_RATE if shape == LARGE[-1] else None
    drawn = f"{DRAWN:,} exact draws from a mapped file, {shape}"
    memory = f"{4e-6 * DRAWN * shape.d:,.0f} MB for the drawn rows; the file has {attended['bank_mb']:,.0f} MB"
    above = "the bank (the whole process, interpreter included)"
    return [
        Row("large", what, "plain matrix products", share, "%", target, details=details),
        Row("large", f"{what}: peak memory", above, extra, "MB", MAX_EXTRA_MB, at_most=True),
        Row("large", drawn, "", mapped["rows_per_second"], "rows/s"),
        Row("large", f"{drawn}: peak memory", "the whole process", drawing, "MB", details=memory),
    ]


def to_disk(n: int, results: Results | None = None, d: int = 100) -> Sequence[Row]:
    """`stochattn.sample` with `out=`, which writes to a file."""
    with tempfile.TemporaryDirectory() as folder:
        found = _in_subprocess("to_disk", Path(folder) / "new.npy", n, d)
    what = f"stochattn.sample of {n:,} rows (d {d}, float32) to disk"
    return [
        Row("large", what, "", found["rows_per_second"], "rows/s", details=f"{found['mb_per_second']:,.0f} MB/s"),
        Row("large", f"{what}: peak memory", "the whole process", found["peak_mb"], "MB", MAX_EXTRA_MB, at_most=True),
    ]


def on_cuda(shape: Shape, rounds: int, results: Results | None = None) -> Sequence[Row]:
    """Attention on the device as a share of the matrix-product rate, and its memory in addition to the bank."""
    import torch

    import stochattn as sa

    X = torch.from_numpy(np.array(memories(shape.K, shape.d))).cuda()
    bank = sa.MemoryBank(X)
    queries = X[:QUERIES] + BETA**-0.5 * torch.randn_like(X[:QUERIES])
    sa.energy.attend(queries, bank, BETA)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    sa.energy.attend(queries, bank, BETA)
    extra = (torch.cuda.max_memory_allocated() - before) / 1e6
    times = side_by_side(_attention_and_products(queries, bank, X, shape.K), rounds, target_seconds=0.1)
    what = f"attention, {QUERIES} queries, {shape}"
    return [
        Row("large", what, "plain matrix products", 100 * ratio(times["products"], times["ours"]), "%"),
        Row("large", f"{what}: peak memory", "the bank", extra, "MB", MAX_EXTRA_MB, at_most=True),
    ]


def _skipped(results: Results) -> Sequence[Row]:
    return [Row("large", f"attention, {LARGE[-1]}", "", None, details="skipped by --quick")]


def _attention_and_products(queries: Any, bank: Any, X: Any, block: int) -> dict[str, Candidate]:
    """Attention, and its two matrix products in blocks of rows: 4 n K d flops each."""
    import stochattn as sa

    def products(times: int) -> None:
        for _ in range(times):
            for begin in range(0, len(X), block):
                part = X[begin : begin + block]
                (queries @ part.T) @ part

    def attention(times: int) -> None:
        for _ in range(times):
            sa.energy.attend(queries, bank, BETA)

    return {"products": Candidate(products, max_work=20), "ours": Candidate(attention, max_work=20)}


def _in_subprocess(*arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", __spec__.name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[2:])} failed: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def peak_mb() -> float:
    """Peak memory of this process in MB (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024 / 1e6  # type: ignore[index]


def attend_process(K: str, d: str, rounds: str) -> dict[str, float]:
    """Attention over a bank in memory; the peak memory is read before the products are timed."""
    import stochattn as sa

    X = memories(int(K), int(d))
    bank = sa.MemoryBank(X, copy=False)
    rng = np.random.default_rng(1)
    queries = X[rng.integers(len(X), size=QUERIES)] + rng.standard_normal((QUERIES, X.shape[1])) / np.sqrt(BETA)
    queries = queries.astype(np.float32)
    sa.energy.attend(queries, bank, BETA)
    peak = peak_mb()
    sample = X[: 2 * PRODUCT_BLOCKS[-1]]
    trials = {size: _attention_and_products(queries, bank, sample, size)["products"] for size in PRODUCT_BLOCKS}
    best = min(trials, key=lambda size: min(seconds(lambda: trials[size].advance(1)) for _ in range(3)))
    times = side_by_side(_attention_and_products(queries, bank, X, best), int(rounds), target_seconds=0.0)
    flops = 4 * QUERIES * X.size
    return {
        "share": ratio(times["products"], times["ours"]),
        "ours": flops / float(np.median(times["ours"])),
        "products": flops / float(np.median(times["products"])),
        "bank_mb": X.nbytes / 1e6,
        "peak_mb": peak,
    }


def mapped_process(path: str, n: str) -> dict[str, float]:
    """Exact draws from a bank in a memory-mapped file."""
    import stochattn as sa

    model = sa.StochasticAttention(sa.MemoryBank.open(path), beta=BETA)
    model.sample(10, rng=1)
    taken = seconds(lambda: model.sample(int(n), rng=0))
    return {"rows_per_second": int(n) / taken, "peak_mb": peak_mb()}


def to_disk_process(path: str, n: str, d: str) -> dict[str, float]:
    """Exact draws written to a file."""
    import stochattn as sa

    X = memories(100, int(d))
    taken = seconds(lambda: sa.sample(X, int(n), beta=BETA, rng=0, out=path, progress=False))
    megabytes = Path(path).stat().st_size / 1e6
    return {"rows_per_second": int(n) / taken, "mb_per_second": megabytes / taken, "peak_mb": peak_mb()}


if __name__ == "__main__":
    processes: dict[str, Any] = {"attend": attend_process, "mapped": mapped_process, "to_disk": to_disk_process}
    print(json.dumps(processes[sys.argv[1]](*sys.argv[2:])))
