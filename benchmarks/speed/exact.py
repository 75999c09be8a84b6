"""Exact draws: rows per second, compared with KernelDensity of scikit-learn, which has the same law for equal norms."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import stochattn as sa

from .baselines import chain_by_chain
from .measured import Results, Row, Task
from .shapes import ALPHA, BETA, MNIST, N_CHAINS, N_STEPS, OLIVETTI, PROTEIN, SMALL, Shape, memories
from .timing import Candidate, format_seconds, ratio, seconds, side_by_side

ENTRIES = 2**24
"""Number of entries in one timed draw: 64 MB of float32."""
NUMPY, TARGET = "vectorized NumPy (float32, SFC64)", 1.3
CUDA_TARGET = 0.3e9
CUDA_ENTRIES = 2**31


def tasks(quick: bool, device: str) -> list[Task]:
    """A task for each shape, and one for the 150 states of the paper's protocol."""
    rounds = 5 if quick else 9
    if device == "cuda":
        return [Task("exact", str(shape), partial(on_cuda, shape, rounds)) for shape in (PROTEIN, MNIST, OLIVETTI)]
    entries = ENTRIES // 4 if quick else ENTRIES
    found = [Task("exact", str(shape), partial(on_cpu, shape, rounds, entries)) for shape in SMALL]
    return [*found, Task("exact", "the protocol's 150 states", partial(kept_states, rounds))]


def kernel_density(X: Any) -> Any:
    """n -> draws (n, d) of scikit-learn's Gaussian kernel density with variance 1/beta around each row of X."""
    from sklearn.neighbors import KernelDensity

    fitted = KernelDensity(bandwidth=1 / math.sqrt(BETA), kernel="gaussian").fit(X)
    return lambda n: fitted.sample(n, random_state=0)


def vectorized(X: Any) -> Any:
    """n -> draws (n, d) in plain NumPy: random memories plus normal noise, in the dtype of X."""
    rng = np.random.Generator(np.random.SFC64(0))

    def draw(n: int) -> Any:
        noise = rng.standard_normal((n, X.shape[1]), dtype=X.dtype)
        noise *= 1 / math.sqrt(BETA)
        noise += X[rng.integers(len(X), size=n)]
        return noise

    return draw


def _of(n: int, draw: Callable[[int], Any]) -> Callable[[int], object]:
    return lambda _: draw(n)


def on_cpu(shape: Shape, rounds: int, entries: int, results: Results | None = None) -> Sequence[Row]:
    """Ratios of the times of baselines to ours for the same number of rows."""
    X = memories(shape.K, shape.d, np.float64)
    n = max(entries // shape.d, 100)
    X32 = X.astype(np.float32)
    single, double = (sa.StochasticAttention(sa.MemoryBank(rows), beta=BETA) for rows in (X32, X))
    draws = {
        "scikit-learn KernelDensity.sample (float64)": (kernel_density(X), double),
        NUMPY: (vectorized(X32), single),
    }
    rows = []
    for baseline, (draw, model) in draws.items():
        candidates = {
            baseline: Candidate(_of(n, draw), max_work=1),
            "ours": Candidate(_of(n, partial(model.sample, rng=0)), max_work=1),
        }
        times = side_by_side(candidates, rounds, target_seconds=0.0)
        theirs, mine = (n / statistics.median(times[name]) for name in candidates)
        details = f"{theirs:,.0f} against {mine:,.0f} rows/s"
        value, target = ratio(times[baseline], times["ours"]), TARGET if baseline == NUMPY else None
        rows.append(Row("exact", f"exact draws, {shape}", baseline, value, target=target, details=details))
    return rows


def kept_states(rounds: int, results: Results | None = None) -> Sequence[Row]:
    """Exact draws of the 150 states that 30 chains of 5,000 steps keep, compared with those chains run one by one."""
    X = memories(MNIST.K, MNIST.d, np.float64)
    advance, steps = chain_by_chain(X, ALPHA, N_CHAINS, "ula"), 100
    model = sa.StochasticAttention(sa.MemoryBank(X), beta=BETA)
    model.sample(150, rng=0)
    pairs = []
    for _ in range(rounds):
        chains = seconds(lambda: advance(steps)) * N_STEPS / steps
        pairs.append((chains, statistics.median(seconds(lambda: model.sample(150, rng=0)) for _ in range(20))))
    theirs, mine = zip(*pairs, strict=True)
    details = f"{format_seconds(statistics.median(theirs))} against {format_seconds(statistics.median(mine))}"
    against = "chain by chain, NumPy, 5,000 steps of ULA"
    value = ratio(list(theirs), list(mine))
    return [
        Row("exact", "exact draw of the protocol's 150 states, MNIST", against, value, target=3000, details=details)
    ]


def on_cuda(shape: Shape, rounds: int, results: Results | None = None) -> Sequence[Row]:
    """Draws per second on the device, compared with eager torch."""
    import torch

    X = torch.from_numpy(memories(shape.K, shape.d).copy()).cuda()
    n = min(CUDA_ENTRIES // shape.d, 4_000_000)
    model = sa.StochasticAttention(sa.MemoryBank(X), beta=BETA)

    def eager(_: int) -> Any:
        noise = torch.randn((n, shape.d), device="cuda")
        return noise.mul_(BETA**-0.5).add_(X[torch.randint(len(X), (n,), device="cuda")])

    candidates = {
        "torch": Candidate(eager, max_work=1),
        "ours": Candidate(lambda _: model.sample(n, rng=0), max_work=1),
    }
    times = side_by_side(candidates, rounds, target_seconds=0.0)
    what, mine = f"exact draws, {shape}", statistics.median(times["ours"])
    details = f"{format_seconds(statistics.median(times['torch']))} against {format_seconds(mine)} for {n:,} rows"
    target = CUDA_TARGET if shape == MNIST else None
    return [
        Row("exact", what, "", n / mine, "rows/s", target),
        Row("exact", what, "eager torch (float32)", ratio(times["torch"], times["ours"]), details=details),
    ]
