"""Chains: a step of all chains, ours beside each rival, at the shapes of the paper's data."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import stochattn as sa

from .measured import Results, Row, Task
from .rivals import SEGMENT, Advance, blackjax_mala, chain_by_chain, missing, vectorised
from .shapes import (
    ALPHA,
    BETA,
    MNIST,
    N_CHAINS,
    N_STEPS,
    OLIVETTI,
    PROTEIN,
    SMALL,
    Shape,
    kept_steps,
    memories,
)
from .timing import Contestant, in_words, ratio, seconds, side_by_side, slope_seconds
from .torch_rivals import STEPS_A_GRAPH, torch_eager, torch_graph

LOOP, NUMPY, TORCH, BLACKJAX = "chain by chain, NumPy", "vectorised NumPy", "eager torch", "BlackJAX MALA"
GRAPH = "torch in a CUDA graph"
BEST = {
    LOOP: "float64, full space, as the algorithms are written",
    NUMPY: "float32, full space, SFC64, 1 or all threads",
    TORCH: "float32, full space",
    BLACKJAX: "float32, jit, vmap, scan, threefry",
    GRAPH: "float32, full space, ten steps a graph",
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
}
CUDA_CHAINS = 100_000
CUDA_TARGETS = {"ula": 1.0e9, "mala": 0.4e9}


def ours(bank: sa.MemoryBank, sampler: str, n_chains: int, span: bool | None = None) -> Advance:
    """`stochattn.run` of that many steps, from its start to its kept states."""

    def advance(n_steps: int) -> Any:
        draws = sa.run(
            bank,
            BETA,
            sampler=sampler,
            n_chains=n_chains,
            n_steps=n_steps,
            keep=kept_steps(n_steps),
            alpha=ALPHA,
            rng=0,
            span=span,
            progress=False,
        )
        if not draws.settings.complete:  # Ctrl-C ended it early, and its time would be that of fewer steps
            raise KeyboardInterrupt
        return draws

    return advance


def tasks(quick: bool, device: str) -> list[Task]:
    """A task for each shape and sampler, and the old promise that d does not enter the cost of a step."""
    rounds, aim = (2, 0.1) if quick else (5, 0.5)
    compare: Callable[..., Any] = on_cuda if device == "cuda" else on_cpu
    found = [
        Task("chains", f"{sampler.upper()}, {shape}", partial(compare, shape, sampler, rounds, aim))
        for shape in SMALL
        for sampler in ("ula", "mala")
    ]
    if device == "cpu":
        found.append(Task("chains", "a step at d = 100,000", partial(wide_over_narrow, rounds + 2)))
    return found


def on_cpu(
    shape: Shape, sampler: str, rounds: int, aim: float, results: Results | None = None, n_chains: int = N_CHAINS
) -> Sequence[Row]:
    """Ratios of a rival's time a step to ours, of the same dtype."""
    X64 = memories(shape.K, shape.d, np.float64)
    X32 = X64.astype(np.float32)
    steps = N_STEPS if shape.K * min(shape.K, shape.d) < 10**6 else N_STEPS // 20  # enough where a step is slow
    contestants = {
        LOOP: Contestant(chain_by_chain(X64, ALPHA, n_chains, sampler), choose_threads=True),
        "float64": Contestant(ours(sa.MemoryBank(X64), sampler, n_chains), unit=steps, most=steps),
        NUMPY: Contestant(vectorised(X32, ALPHA, n_chains, sampler), choose_threads=True),
        "float32": Contestant(ours(sa.MemoryBank(X32), sampler, n_chains), unit=steps, most=steps),
    }
    needs = {TORCH: ("torch",)} | ({BLACKJAX: ("jax", "blackjax")} if sampler == "mala" else {})
    absent = {rival: line for rival, packages in needs.items() if (line := missing(*packages))}
    if TORCH not in absent:
        import torch

        advance = torch_eager(torch.from_numpy(X32), ALPHA, n_chains, sampler)
        contestants[TORCH] = Contestant(advance, choose_threads=True)
    if BLACKJAX in needs and BLACKJAX not in absent:
        contestants[BLACKJAX] = Contestant(blackjax_mala(X32, ALPHA, n_chains), unit=SEGMENT)
    times = side_by_side(contestants, rounds, aim)
    rows = []
    for rival in (LOOP, NUMPY, *needs):
        what, against = f"{sampler.upper()}, {shape}", f"{rival} ({BEST[rival]})"
        target = TARGETS.get((rival, sampler, shape))
        if rival in absent:
            rows.append(Row("chains", what, against, None, target=target, details=absent[rival]))
            continue
        mine = times["float64" if rival == LOOP else "float32"]
        details = f"{_middle(times[rival])} against {_middle(mine)} a step of {n_chains} chains"
        rows.append(Row("chains", what, against, ratio(times[rival], mine), target=target, details=details))
    return rows


def on_cuda(shape: Shape, sampler: str, rounds: int, aim: float, results: Results | None = None) -> Sequence[Row]:
    """Chain-steps a second of ours, and ratios of rivals' times to ours; full space and span."""
    import torch

    n = CUDA_CHAINS if shape in (PROTEIN, MNIST) else CUDA_CHAINS // 10
    X = torch.from_numpy(memories(shape.K, shape.d).copy()).cuda()
    bank = sa.MemoryBank(X)
    steps = N_STEPS if shape.K * min(shape.K, shape.d) < 10**6 else N_STEPS // 20
    run = ours(bank, sampler, n)
    a_step = slope_seconds(run, aim, N_STEPS)
    full = slope_seconds(ours(bank, sampler, n, span=False), aim, 300)
    contestants = {
        TORCH: Contestant(torch_eager(X, ALPHA, n, sampler)),
        GRAPH: Contestant(torch_graph(X, ALPHA, n, sampler), unit=STEPS_A_GRAPH),
        "ours": Contestant(run, unit=steps, most=steps),
    }
    times = side_by_side(contestants, rounds, aim)
    what, unit = f"{sampler.upper()}, {shape}, {n:,} chains", "chain-steps/s"
    target = CUDA_TARGETS[sampler] if shape == MNIST else None
    whole = n / statistics.median(times["ours"])
    slower = f"{in_words(full)} against {in_words(a_step)} a step, the loops alone"
    rows = [
        Row("chains", what, "the loop alone", n / a_step, unit, target, details=f"{in_words(a_step)} a step"),
        Row("chains", what, f"whole runs of {steps:,} steps, five states of each chain kept", whole, unit),
        Row("chains", what, "ours in the full space", full / a_step, details=slower),
    ]
    for rival in (TORCH, GRAPH):
        details = f"{_middle(times[rival])} against {_middle(times['ours'])} a step, whole runs"
        against = f"{rival} ({BEST[rival]})"
        rows.append(Row("chains", what, against, ratio(times[rival], times["ours"]), details=details))
    return rows


def wide_over_narrow(rounds: int, results: Results | None = None) -> Sequence[Row]:
    """Time a step at d = 100,000 over that at MNIST's 784, what a run costs once left out."""
    runs = [ours(sa.MemoryBank(memories(100, d, np.float64)), "ula", N_CHAINS) for d in (100_000, MNIST.d)]
    long, short = N_STEPS, N_STEPS // 10
    for run in runs:
        run(short)
    pairs = [[seconds(partial(run, long)) - seconds(partial(run, short)) for run in runs] for _ in range(rounds)]
    wide, narrow = ([taken / (long - short) for taken in column] for column in zip(*pairs, strict=True))
    details = f"{_middle(wide)} against {_middle(narrow)} a step of {N_CHAINS} chains"
    what = "ULA, time a step, d 100,000 over d 784 (K 100)"
    return [Row("chains", what, "itself", ratio(wide, narrow), target=1.3, at_most=True, details=details)]


def _middle(times: list[float]) -> str:
    return in_words(statistics.median(times))
