"""Growth of the time per step with d, K and the number of chains, compared with the limits of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import stochattn as sa

from .baselines import vectorized
from .chains import ours
from .limits import NORMALS, PRODUCTS, READ
from .measured import Curve, Results, Task
from .shapes import ALPHA, N_CHAINS, memories
from .timing import Candidate, best_threads, seconds, slope_seconds, work_units
from .torch_baselines import torch_eager

MAX_STEPS = 5000


def tasks(quick: bool, device: str) -> list[Task]:
    """Three curves of ULA; sizes grow by factors of about three, or ten if quick."""
    target_seconds, thin = (0.05, 2) if quick else (0.3, 1)
    n_chains = 10_000 if device == "cuda" else N_CHAINS
    chain_counts = _from_to(100, 10**6) if device == "cuda" else _from_to(1, 3000)
    widest = 10**4 if device == "cuda" else 10**5  # on a GPU, keeping 10,000 wider states takes longer than the steps
    sizes = {
        "d": ("d, dimensions (K 100)", [(n_chains, 100, d) for d in _from_to(100, widest)], 2),
        "K": ("K, memories (d 784)", [(n_chains, K, 784) for K in _from_to(10, 10**4)], 1),
        "chains": ("chains (K 100, d 784)", [(n, 100, 784) for n in chain_counts], 0),
    }
    return [
        Task(
            "growth",
            f"time per step over {name}",
            partial(curve, name, label, points[::thin], varying, target_seconds, device),
        )
        for name, (label, points, varying) in sizes.items()
    ]


def curve(
    name: str,
    label: str,
    points: list[tuple[int, int, int]],
    varying: int,
    target_seconds: float,
    device: str,
    results: Results,
) -> Sequence[Curve]:
    """Seconds per step at each (chains, K, d): ours, a full-space baseline, and the limits measured in this run."""
    baseline = "eager torch, full space" if device == "cuda" else "vectorized NumPy, full space"
    series: dict[str, list[float]] = {"stochattn": [], baseline: [], "products": [], "normals": [], "memory": []}
    for n, K, d in points:
        mine, theirs = step_seconds(n, K, d, target_seconds, device)
        r = min(K, d)
        series["stochattn"].append(mine)
        series[baseline].append(theirs)
        series["products"].append(4 * n * K * r / results.rate(PRODUCTS))
        series["normals"].append(n * r / results.rate(NORMALS))
        series["memory"].append(4 * K * r / results.rate(READ))
    return [Curve(name, label, [point[varying] for point in points], dict(series))]


def step_seconds(n: int, K: int, d: int, target_seconds: float, device: str) -> tuple[float, float]:
    """Seconds per step of n chains in float32: ours, and those of a full-space baseline."""
    X: Any = memories(K, d)
    if device == "cuda":
        import torch

        X = torch.from_numpy(np.array(X)).cuda()
    baseline = Candidate((torch_eager if device == "cuda" else vectorized)(X, ALPHA, n, "ula"))
    mine = slope_seconds(ours(sa.MemoryBank(X, copy=False), "ula", n), target_seconds, MAX_STEPS)
    count = work_units(baseline, target_seconds)
    work = partial(baseline.advance, count)
    with threadpool_limits(best_threads(work)):
        return mine, min(seconds(work) for _ in range(2)) / count


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent p of y ~ x^p over the upper half of x's logarithmic range, by least squares."""
    log_x, log_y = np.log(x), np.log(y)
    upper = log_x >= (log_x[0] + log_x[-1]) / 2 - 1e-9  # include a point in the middle
    return float(np.polyfit(log_x[upper], log_y[upper], 1)[0])


def _from_to(first: int, last: int) -> list[int]:
    """1, 3, 10, 30, ... times `first`, up to `last`."""
    rising = [first * factor * 10**power for power in range(8) for factor in (1, 3)]
    return [size for size in rising if size <= last]
