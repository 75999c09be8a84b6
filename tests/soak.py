"""Sample every kind of data in one process for a long time: memory and open files must not grow.

    python tests/soak.py --minutes 120      (`make soak MINUTES=120`)

A round reads a file of each kind, draws, conditions, saves, loads, writes samples by the command line, and runs chains.
A line every so often gives rounds, memory and open files. The first fifth of the time is for caches to fill; the exit
code is 1 if memory at the end is more than 5 % and 20 MB above the second fifth, or if more files are open.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import stochattn as sa
from fuzz.checks import OUTPUTS, run_command
from fuzz.stored import Stored

DATA = (
    Stored("table", (40,), ("number", "word", "count", "gaps", "day"), 0),
    Stored("protein", (20, 30), (), 0),
    Stored("image", (20, 10, 10), (), 0),
    Stored("returns", (60, 3), (), 0),
)
CONDITIONS = {"table": {"word": "red"}}
MAX_GROWTH, MAX_GROWTH_BYTES = 1.05, 20 * 2**20


class Use(NamedTuple):
    """What the process uses at a moment: bytes of memory and open files."""

    at: float
    memory: int
    files: int

    @classmethod
    def now(cls, start: float) -> Use:
        """Measured after a collection of garbage."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(time.monotonic() - start, pages * resource.getpagesize(), len(os.listdir("/proc/self/fd")))


def sample_everything(folder: Path, seed: int) -> None:
    """One round."""
    for data in DATA:
        place = folder / data.kind
        path = next(place.iterdir())
        synth = sa.fit(path, kind=data.kind)
        synth.sample(20, rng=seed)
        if data.kind in CONDITIONS:
            synth.condition(**CONDITIONS[data.kind]).sample(5, rng=seed)
        synth.save(folder / "kept.synth")
        sa.load(folder / "kept.synth").sample(5, rng=seed)
        out = folder / f"{data.kind}-{OUTPUTS[data.kind]}"
        words = ["sample", str(path), "--kind", data.kind, "-n", "10", "--seed", str(seed), "-o", str(out)]
        ended = run_command(words)
        if ended.code:
            raise SystemExit(f"{' '.join(words)} ended with code {ended.code}: {ended.stderr}")
        for written in folder.glob(f"{data.kind}-*"):
            written.unlink()
    model = sa.StochasticAttention(np.random.default_rng(seed).normal(size=(30, 8)), beta=4.0, equal_weights=True)
    for sampler in ("mala", "ula"):
        model.run(sampler=sampler, n_chains=4, n_steps=200, warmup=100, thin=10, rng=seed)


def growth(uses: list[Use], seconds: float) -> str | None:
    """What has grown between the second fifth and the last fifth of the time."""
    early = [one for one in uses if seconds / 5 <= one.at <= 2 * seconds / 5] or uses[:1]
    late = [one for one in uses if one.at >= 4 * seconds / 5] or uses[-1:]
    memory, files = max(one.memory for one in early), max(one.files for one in early)
    last_memory, last_files = min(one.memory for one in late), min(one.files for one in late)
    if last_memory > memory * MAX_GROWTH + MAX_GROWTH_BYTES:
        return f"memory grew from {memory / 2**20:.0f} to {last_memory / 2**20:.0f} MB"
    return f"open files grew from {files} to {last_files}" if last_files > files else None


def main() -> int:
    """Sample for the asked time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    seconds = 60 * parser.parse_args().minutes
    start, uses, rounds = time.monotonic(), [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for data in DATA:
            (folder / data.kind).mkdir()
            data.write(folder / data.kind)
        while time.monotonic() - start < seconds:
            sample_everything(folder, rounds)
            rounds += 1
            if not uses or time.monotonic() - start - uses[-1].at >= seconds / 50:
                uses.append(Use.now(start))
                print(
                    f"{uses[-1].at:6.0f} s, {rounds} rounds, {uses[-1].memory / 2**20:.0f} MB, {uses[-1].files} files",
                    flush=True,
                )
    grown = growth(uses, seconds)
    print(f"{rounds} rounds: {grown or 'memory and open files did not grow'}")
    return bool(grown)


if __name__ == "__main__":
    sys.exit(main())
