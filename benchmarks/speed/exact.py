"""Exact draws: rows a second beside scikit-learn's KernelDensity, which has the same law when all norms are equal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import stochattn as sa

from .measured import Results, Row, Task
from .rivals import chain_by_chain
from .shapes import ALPHA, BETA, MNIST, N_CHAINS, N_STEPS, OLIVETTI, PROTEIN, SMALL, Shape, memories
from .timing import Contestant, in_words, ratio, seconds, side_by_side

ENTRIES = 2**24
"""Numbers in one timed draw: 64 MB of float32."""
CUDA_TARGET = 0.3e9
CUDA_ENTRIES = 2**31


def tasks(quick: bool, device: str) -> list[Task]:
    """A task for each shape, and the exact draw of what the paper's protocol keeps."""
    rounds = 3 if quick else 7
    if device == "cuda":
        return [Task("exact", str(shape), partial(on_cuda, shape, rounds)) for shape in (PROTEIN, MNIST, OLIVETTI)]
    entries = ENTRIES // 4 if quick else ENTRIES
    found = [Task("exact", str(shape), partial(on_cpu, shape, rounds, entries)) for shape in SMALL]
    return [*found, Task("exact", "the protocol's 150 states", partial(the_kept_states, rounds))]


def kernel_density(X: Any) -> Any:
    """n -> draws (n, d) of scikit-learn's Gaussian kernel density with variance 1/beta around each row of X."""
    from sklearn.neighbors import KernelDensity

    fitted = KernelDensity(bandwidth=1 / math.sqrt(BETA), kernel="gaussian").fit(X)
    return lambda n: fitted.sample(n, random_state=0)


def vectorised(X: Any) -> Any:
    """n -> draws (n, d): memories picked and normals added in one line of NumPy, in X's dtype."""
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
    """Ratios of times for the same number of rows."""
    X = memories(shape.K, shape.d, np.float64)
    n = max(entries // shape.d, 100)
    X32 = X.astype(np.float32)
    single, double = (sa.StochasticAttention(sa.MemoryBank(rows), beta=BETA) for rows in (X32, X))
    draws = {
        "scikit-learn KernelDensity.sample (float64)": (kernel_density(X), double),
        "vectorised NumPy (float32, SFC64)": (vectorised(X32), single),
    }
    rows = []
    for rival, (draw, model) in draws.items():
        contestants = {
            rival: Contestant(_of(n, draw), most=1),
            "ours": Contestant(_of(n, partial(model.sample, rng=0)), most=1),
        }
        times = side_by_side(contestants, rounds, aim=0.0)
        theirs, mine = (n / statistics.median(times[name]) for name in contestants)
        details = f"{theirs:,.0f} against {mine:,.0f} rows/s"
        rows.append(Row("exact", f"exact draws, {shape}", rival, ratio(times[rival], times["ours"]), details=details))
    return rows


def the_kept_states(rounds: int, results: Results | None = None) -> Sequence[Row]:
    """The 150 states that 30 chains of 5,000 steps keep, drawn exactly, against those chains run one by one."""
    X = memories(MNIST.K, MNIST.d, np.float64)
    advance, steps = chain_by_chain(X, ALPHA, N_CHAINS, "ula"), 100
    model = sa.StochasticAttention(sa.MemoryBank(X), beta=BETA)
    model.sample(150, rng=0)
    pairs = []
    for _ in range(rounds):
        chains = seconds(lambda: advance(steps)) * N_STEPS / steps
        pairs.append((chains, statistics.median(seconds(lambda: model.sample(150, rng=0)) for _ in range(20))))
    theirs, mine = zip(*pairs, strict=True)
    details = f"{in_words(statistics.median(theirs))} against {in_words(statistics.median(mine))}"
    against = "chain by chain, NumPy, 5,000 steps of ULA"
    value = ratio(list(theirs), list(mine))
    return [
        Row("exact", "exact draw of the protocol's 150 states, MNIST", against, value, target=3000, details=details)
    ]


def on_cuda(shape: Shape, rounds: int, results: Results | None = None) -> Sequence[Row]:
    """Draws a second on the device, beside the same in eager torch."""
    import torch

    X = torch.from_numpy(memories(shape.K, shape.d).copy()).cuda()
    n = min(CUDA_ENTRIES // shape.d, 4_000_000)
    model = sa.StochasticAttention(sa.MemoryBank(X), beta=BETA)

    def eager(_: int) -> Any:
        noise = torch.randn((n, shape.d), device="cuda")
        return noise.mul_(BETA**-0.5).add_(X[torch.randint(len(X), (n,), device="cuda")])

    contestants = {
        "torch": Contestant(eager, most=1),
        "ours": Contestant(lambda _: model.sample(n, rng=0), most=1),
    }
    times = side_by_side(contestants, rounds, aim=0.0)
    what, mine = f"exact draws, {shape}", statistics.median(times["ours"])
    details = f"{in_words(statistics.median(times['torch']))} against {in_words(mine)} for {n:,} rows"
    target = CUDA_TARGET if shape == MNIST else None
    return [
        Row("exact", what, "", n / mine, "rows/s", target),
        Row("exact", what, "eager torch (float32)", ratio(times["torch"], times["ours"]), details=details),
    ]
