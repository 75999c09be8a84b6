"""How a step's time grows with d, with K and with the number of chains, beside what the machine allows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import stochattn as sa

from .chains import ours
from .limits import NORMALS, PRODUCTS, READ
from .measured import Curve, Results, Task
from .rivals import vectorised
from .shapes import ALPHA, N_CHAINS, memories
from .timing import Contestant, best_threads, pieces, seconds, slope_seconds
from .torch_rivals import torch_eager

MOST_STEPS = 5000


def tasks(quick: bool, device: str) -> list[Task]:
    """Three curves of ULA; sizes rise by about three each time, by ten if quick."""
    aim, thin = (0.05, 2) if quick else (0.3, 1)
    n_chains = 10_000 if device == "cuda" else N_CHAINS
    crowds = _from_to(100, 10**6) if device == "cuda" else _from_to(1, 3000)
    widest = 10**4 if device == "cuda" else 10**5  # beyond it, there, 10,000 kept states take longer than their steps
    sizes = {
        "d": ("d, dimensions (K 100)", [(n_chains, 100, d) for d in _from_to(100, widest)], 2),
        "K": ("K, memories (d 784)", [(n_chains, K, 784) for K in _from_to(10, 10**4)], 1),
        "chains": ("chains (K 100, d 784)", [(n, 100, 784) for n in crowds], 0),
    }
    return [
        Task("growth", f"a step against {name}", partial(curve, name, label, points[::thin], varying, aim, device))
        for name, (label, points, varying) in sizes.items()
    ]


def curve(
    name: str, label: str, points: list[tuple[int, int, int]], varying: int, aim: float, device: str, results: Results
) -> Sequence[Curve]:
    """Seconds a step at each (chains, K, d): ours, a full-space rival, and the limits measured in this run."""
    rival = "eager torch, full space" if device == "cuda" else "vectorised NumPy, full space"
    series: dict[str, list[float]] = {"stochattn": [], rival: [], "products": [], "normals": [], "memory": []}
    for n, K, d in points:
        mine, theirs = step_seconds(n, K, d, aim, device)
        r = min(K, d)
        series["stochattn"].append(mine)
        series[rival].append(theirs)
        series["products"].append(4 * n * K * r / results.rate(PRODUCTS))
        series["normals"].append(n * r / results.rate(NORMALS))
        series["memory"].append(4 * K * r / results.rate(READ))
    return [Curve(name, label, [point[varying] for point in points], dict(series))]


def step_seconds(n: int, K: int, d: int, aim: float, device: str) -> tuple[float, float]:
    """Seconds a step of n chains, ours and a full-space rival's, both float32."""
    X: Any = memories(K, d)
    if device == "cuda":
        import torch

        X = torch.from_numpy(np.array(X)).cuda()
    rival = Contestant((torch_eager if device == "cuda" else vectorised)(X, ALPHA, n, "ula"))
    mine = slope_seconds(ours(sa.MemoryBank(X), "ula", n), aim, MOST_STEPS)
    count = pieces(rival, aim)
    work = partial(rival.advance, count)
    with threadpool_limits(best_threads(work)):
        return mine, min(seconds(work) for _ in range(2)) / count


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent p of y ~ x^p over the upper half of x's logarithmic range, by least squares."""
    log_x, log_y = np.log(x), np.log(y)
    upper = log_x >= (log_x[0] + log_x[-1]) / 2 - 1e-9  # a point in the middle counts
    return float(np.polyfit(log_x[upper], log_y[upper], 1)[0])


def _from_to(first: int, last: int) -> list[int]:
    """1, 3, 10, 30, ... times `first`, up to `last`."""
    rising = [first * factor * 10**power for power in range(8) for factor in (1, 3)]
    return [size for size in rising if size <= last]
