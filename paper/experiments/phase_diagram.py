"""Attention concentration over load ratio and temperature."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import stochattn as sa
from stochattn import bounds, energy

from .. import drawing
from ..data import Data
from ..expected import expected
from ..progress import Bar
from ..protocol import from_sphere
from ..results import Figure, Measured, Result

BETAS = np.geomspace(0.5, 100, 20)
# The paper runs one chain of 10,000 steps; eight chains keep as many states in fewer steps, at the same cost per step.
N_CHAINS, N_STEPS, WARMUP, THIN = 8, 3000, 2000, 10
N_EXACT = 2000
CONTROL_ERROR = 0.003  # the standard error of C from 5 × 2,000 exact draws, at most


def run(data: Data, seed: int, quick: bool) -> Result:
    """Figure phase-diagram."""
    loads = data.synthetic_loads()
    if quick:
        loads = {ratio: banks[:1] for ratio, banks in loads.items()}
    measured, error, exact = (np.zeros((len(BETAS), len(loads))) for _ in range(3))
    total = sum(map(len, loads.values())) * len(BETAS)
    with Bar(total, f"{total} runs") as bar:
        done = 0
        for j, banks in enumerate(loads.values()):
            for i, beta in enumerate(BETAS):
                chains = []
                for bank in banks:
                    draws = from_sphere(bank, beta, N_STEPS, WARMUP, seed, quick, n_chains=N_CHAINS, thin=THIN)
                    chains += [concentration(chain, bank, beta) for chain in draws.samples]
                    law = sa.StochasticAttention(bank, beta=beta).sample(N_EXACT, rng=seed)
                    exact[i, j] += concentration(law, bank, beta) / len(banks)
                    done += 1
                    bar.update(done)
                measured[i, j], error[i, j] = np.mean(chains), np.std(chains, ddof=1) / math.sqrt(len(chains))
    gap = measured - exact
    chances = (np.abs(gap) <= 3 * np.hypot(error, CONTROL_ERROR)).mean()
    rows = {
        "least": {"C": Measured(float(measured.min()), float(error.flat[measured.argmin()]), float(exact.min()))},
        "largest": {"C": Measured(float(measured.max()), exact=float(exact.max()))},
        "largest gap between chains and exact law": {"C": Measured(float(np.abs(gap).max()))},
        "root mean square gap": {"C": Measured(float(np.sqrt((gap**2).mean())))},
        "share of the 200 cells within 3 standard errors of the exact law": {"C": Measured(float(chances))},
    }
    published = expected(__file__)["phase-diagram"]
    table = published.against(
        rows,
        notes=(
            f"The published values come from the result files of the authors. Each cell uses {N_CHAINS} chains of "
            f"{N_STEPS:,} steps ({WARMUP:,} of them warm-up) instead of one chain of 10,000, with the same warm-up and "
            "number of states.",
            "Only two cells have a published value. Every cell of the diagram is also computed from exact draws, "
            "without "
            "a chain; the last rows show the difference.",
        ),
    )
    contours, thresholds = (contour(measured), contour(exact)), convexity_boundary(loads)
    lines = expected(__file__)["phase-contour"].against(
        {
            f"K/d = {load:g}": {
                "β at C = 0.5": Measured(at, exact=law),
                "β at the convexity boundary": Measured(threshold),
            }
            for load, at, law, threshold in zip(loads, *contours, thresholds, strict=True)
        },
        notes=("The boundary is 2/σ²_max of the data sets, their mean.",),
    )
    ends = [f"K/d = {load:g}" for load in (min(loads), max(loads))]
    finding = (
        f"it does. The contour is at β = {contours[0][0]:.1f} for {ends[0]} and at β = {contours[0][-1]:.1f} for "
        f"{ends[1]}; the convexity boundary, which the text says it tracks, goes the other way, from β = "
        f"{thresholds[0]:.2f} to {thresholds[-1]:.2f}."
    )
    figure = Figure("phase-diagram", _CAPTION, lambda: _draw(list(loads), measured, exact), _CLAIM, finding)
    return Result([table, lines], [figure])


_CAPTION = (
    "Attention concentration C = 1 − H/log K, d = 64: chains (left) and exact draws (right). Dashed: C = 0.5; dotted: "
    "the convexity boundary β σ²_max = 2 for random patterns."
)
_CLAIM = "the contour C = 0.5 separates retrieval (upper left) from a diffuse regime (lower right)."


def contour(values: Any) -> list[float]:
    """The β at which C crosses 0.5, for each load, by interpolation in log β."""
    return [float(np.exp(np.interp(0.5, column, np.log(BETAS)))) for column in values.T]


def convexity_boundary(loads: dict[float, list[sa.MemoryBank]]) -> list[float]:
    """The β below which the paper proves the energy to be convex, 2/σ²_max, for each load."""
    return [float(np.mean([2 / bounds.sigma_squared(bank) for bank in banks])) for banks in loads.values()]


def concentration(states: Any, bank: sa.MemoryBank, beta: float) -> float:
    """C = 1 − H/log K, averaged over states."""
    return 1 - float(energy.entropy(states, bank, float(beta)).mean()) / math.log(bank.K)


def _draw(loads: list[float], measured: Any, exact: Any) -> Any:
    figure, axes = drawing.subplots(1, 2, size=(6.2, 5.2), sharey=True)
    x, y = np.arange(len(loads)), np.arange(len(BETAS))
    for axis, values, title in zip(axes, (measured, exact), ("chains (Algorithm 1)", "exact draws"), strict=True):
        image = axis.imshow(values, origin="lower", aspect="auto", cmap="cividis", vmin=0, vmax=1)
        axis.contour(x, y, values, levels=[0.5], colors="white", linestyles="--", linewidths=2.2)
        axis.set_xticks(x[::2], [f"{load:g}" for load in loads[::2]])
        axis.set_yticks(y[::3], [f"{beta:.2g}" for beta in BETAS[::3]])
        axis.set(xlabel="load K/d", title=title)
        axis.grid(False)
        # σ_max of a random d × K matrix of unit columns is about 1 + √(K/d).
        boundary = np.array([2 / (1 + math.sqrt(load)) ** 2 for load in loads])
        inside = boundary >= BETAS[0]
        axis.plot(x[inside], np.interp(np.log(boundary[inside]), np.log(BETAS), y), ":", color="white", lw=2.2)
    axes[0].set_ylabel("inverse temperature β")
    figure.colorbar(image, ax=axes, label="C")
    return figure
