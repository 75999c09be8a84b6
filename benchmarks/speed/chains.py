"""Chains: the time per step of all chains, ours and that of each baseline, for the shapes of the paper's data."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import stochattn as sa

from .baselines import SEGMENT, Advance, blackjax_mala, chain_by_chain, missing, vectorized
from .measured import Results, Row, Task
from .shapes import (
    ALPHA,
    BETA,
    DENSE,
    FINANCE,
    MNIST,
    N_CHAINS,
    N_STEPS,
    OLIVETTI,
    SMALL,
    Shape,
    kept_steps,
    last_step,
    memories,
)
from .timing import Candidate, format_seconds, ratio, seconds, side_by_side, slope_seconds
from .torch_baselines import STEPS_PER_GRAPH, torch_eager, torch_graph

LOOP, NUMPY, TORCH, BLACKJAX = "chain by chain, NumPy", "vectorized NumPy", "eager torch", "BlackJAX MALA"
GRAPH = "torch in a CUDA graph"
BEST = {
    LOOP: "float64, full space, as the algorithms are written",
    NUMPY: "float32, full space, SFC64, 1 or all threads",
    TORCH: "float32, full space",
    BLACKJAX: "float32, jit, vmap, scan, threefry",
    GRAPH: "float32, full space, ten steps per graph",
}
TARGETS = {
    (LOOP, "ula", MNIST): 12,
    (LOOP, "mala", MNIST): 25,
    (LOOP, "ula", OLIVETTI): 60,
    (LOOP, "mala", OLIVETTI): 60,
    (NUMPY, "ula", MNIST): 4,
    (NUMPY, "ula", OLIVETTI): 30,
    (BLACKJAX, "mala", MNIST): 2.5,
    (BLACKJAX, "mala", OLIVETTI): 12,
    (BLACKJAX, "mala", FINANCE): 2.5,
}
CUDA_CHAINS = 100_000
CUDA_TARGETS = {"ula": 1.0e9, "mala": 0.4e9}
CUDA_RATES = {"ula": 60, "mala": 45}
PRODUCTS = "the loop only: 4 n K r operations of float32 products a step"


def ours(
    bank: sa.MemoryBank,
    sampler: str,
    n_chains: int,
    span: bool | None = None,
    keep: Callable[[int], list[int]] = kept_steps,
) -> Advance:
    """A function that calls `stochattn.run` with the given number of steps, and keeps the states at `keep` of it."""

    def advance(n_steps: int) -> Any:
        draws = sa.run(
            bank,
            BETA,
            sampler=sampler,
            n_chains=n_chains,
            n_steps=n_steps,
            keep=keep(n_steps),
            alpha=ALPHA,
            rng=0,
            span=span,
            progress=False,
        )
        if not draws.settings.complete:  # after Ctrl-C the time would be that of fewer steps
            raise KeyboardInterrupt
        return draws

    return advance


def tasks(quick: bool, device: str) -> list[Task]:
    """A task for each shape and sampler, and one for the growth of the cost with d."""
    compare: Callable[..., Any] = on_cuda if device == "cuda" else on_cpu
    if device == "cuda":
        rounds, target_seconds = (2, 0.1) if quick else (5, 0.5)
    else:  # many short rounds, because other work on the machine comes and goes
        rounds, target_seconds = (5, 0.1) if quick else (9, 0.25)
    found = [
        Task("chains", f"{sampler.upper()}, {shape}", partial(compare, shape, sampler, rounds, target_seconds))
        for shape in (SMALL if device == "cpu" else SMALL + DENSE)
        for sampler in ("ula", "mala")
    ]
    if device == "cpu":
        found.append(Task("chains", "time per step at d = 100,000", partial(wide_over_narrow, rounds)))
    return found


def on_cpu(
    shape: Shape,
    sampler: str,
    rounds: int,
    target_seconds: float,
    results: Results | None = None,
    n_chains: int = N_CHAINS,
) -> Sequence[Row]:
    """Ratios of the time per step of each baseline to ours, with the same dtype."""
    X64 = memories(shape.K, shape.d, np.float64)
    X32 = X64.astype(np.float32)
    is_slow = shape.K * min(shape.K, shape.d) >= 10**6
    # The protocol keeps one state per 1,000 steps, so a run of fewer steps keeps its last state only.
    steps, keep = (N_STEPS // 20, last_step) if is_slow else (N_STEPS, kept_steps)
    run = partial(ours, sampler=sampler, n_chains=n_chains, keep=keep)
    candidates = {
        LOOP: Candidate(chain_by_chain(X64, ALPHA, n_chains, sampler), choose_threads=True),
        "float64": Candidate(run(sa.MemoryBank(X64)), unit=steps, max_work=steps),
        NUMPY: Candidate(vectorized(X32, ALPHA, n_chains, sampler), choose_threads=True),
        "float32": Candidate(run(sa.MemoryBank(X32)), unit=steps, max_work=steps),
    }
    needs = {TORCH: ("torch",)} | ({BLACKJAX: ("jax", "blackjax")} if sampler == "mala" else {})
    absent = {baseline: line for baseline, packages in needs.items() if (line := missing(*packages))}
    if TORCH not in absent:
        import torch

        advance = torch_eager(torch.from_numpy(X32), ALPHA, n_chains, sampler)
        candidates[TORCH] = Candidate(advance, choose_threads=True)
    if BLACKJAX in needs and BLACKJAX not in absent:
        candidates[BLACKJAX] = Candidate(blackjax_mala(X32, ALPHA, n_chains), unit=SEGMENT)
    times = side_by_side(candidates, rounds, target_seconds)
    rows = []
    for baseline in (LOOP, NUMPY, *needs):
        what, against = f"{sampler.upper()}, {shape}", f"{baseline} ({BEST[baseline]})"
        target = TARGETS.get((baseline, sampler, shape))
        if baseline in absent:
            rows.append(Row("chains", what, against, None, target=target, details=absent[baseline]))
            continue
        mine = times["float64" if baseline == LOOP else "float32"]
        details = f"{_median_time(times[baseline])} against {_median_time(mine)} per step of {n_chains} chains"
        rows.append(Row("chains", what, against, ratio(times[baseline], mine), target=target, details=details))
    return rows


def on_cuda(
    shape: Shape, sampler: str, rounds: int, target_seconds: float, results: Results | None = None
) -> Sequence[Row]:
    """Our chain-steps per second, and ratios of the times of baselines to ours, in the full space and in the span."""
    import torch

    n = CUDA_CHAINS // 10 if shape == OLIVETTI else CUDA_CHAINS
    X = torch.from_numpy(memories(shape.K, shape.d).copy()).cuda()
    bank = sa.MemoryBank(X)
    steps = N_STEPS if shape.K * min(shape.K, shape.d) < 10**5 else N_STEPS // 20
    run = ours(bank, sampler, n)
    step_time = slope_seconds(run, target_seconds, N_STEPS)
    full = slope_seconds(ours(bank, sampler, n, span=False), target_seconds, 300)
    candidates = {
        TORCH: Candidate(torch_eager(X, ALPHA, n, sampler)),
        GRAPH: Candidate(torch_graph(X, ALPHA, n, sampler), unit=STEPS_PER_GRAPH),
        "ours": Candidate(run, unit=steps, max_work=steps),
    }
    times = side_by_side(candidates, rounds, target_seconds)
    what, unit = f"{sampler.upper()}, {shape}, {n:,} chains", "chain-steps/s"
    target = CUDA_TARGETS[sampler] if shape == MNIST else None
    whole = n / statistics.median(times["ours"])
    slower = f"{format_seconds(full)} against {format_seconds(step_time)} per step, loops only"
    rows = [
        Row(
            "chains",
            what,
            "the loop only",
            n / step_time,
            unit,
            target,
            details=f"{format_seconds(step_time)} per step",
        ),
        Row("chains", what, f"whole runs of {steps:,} steps, five kept states per chain", whole, unit),
        Row("chains", what, "ours in the full space", full / step_time, details=slower),
    ]
    if shape in (*DENSE, FINANCE):
        rate = 4 * n * shape.K * min(shape.K, shape.d) / step_time / 1e12
        rows.append(Row("chains", what, PRODUCTS, rate, "TFLOP/s", CUDA_RATES[sampler]))
    for baseline in (TORCH, GRAPH):
        details = f"{_median_time(times[baseline])} against {_median_time(times['ours'])} per step, whole runs"
        against = f"{baseline} ({BEST[baseline]})"
        rows.append(Row("chains", what, against, ratio(times[baseline], times["ours"]), details=details))
    return rows


def wide_over_narrow(rounds: int, results: Results | None = None) -> Sequence[Row]:
    """Ratio of the times per step at d = 100,000 and d = 784, without the fixed cost of a run."""
    runs = [ours(sa.MemoryBank(memories(100, d, np.float64)), "ula", N_CHAINS) for d in (100_000, MNIST.d)]
    long, short = N_STEPS, N_STEPS // 10
    for run in runs:
        run(short)
    pairs = [[seconds(partial(run, long)) - seconds(partial(run, short)) for run in runs] for _ in range(rounds)]
    wide, narrow = ([taken / (long - short) for taken in column] for column in zip(*pairs, strict=True))
    details = f"{_median_time(wide)} against {_median_time(narrow)} per step of {N_CHAINS} chains"
    what = "ULA, time per step, d 100,000 over d 784 (K 100)"
    return [Row("chains", what, "stochattn", ratio(wide, narrow), target=1.3, at_most=True, details=details)]


def _median_time(times: list[float]) -> str:
    return format_seconds(statistics.median(times))
