"""100 to 3,500 memories: chains at the transition temperature of the data, compared with a diffusion model."""

from __future__ import annotations

from typing import Any

import numpy as np

import stochattn as sa
from stochattn import temperature

from .. import drawing
from ..baselines.ddpm import DDPM
from ..data import Data
from ..expected import expected
from ..progress import stage
from ..protocol import N_SAMPLES, of_samples, over_runs, sampled
from ..results import Figure, Measured, Result

# The paper gives only the first and last value; with the others its training times per epoch grow linearly with K.
EPOCHS = {100: 5000, 500: 3000, 1000: 2000, 2000: 1500, 3500: 1000}
QUANTITIES = ("novelty", "diversity", "max_cosine")
N_TRAININGS = 1  # the longest trainings of all; `--seeds` repeats them


def run(data: Data, seed: int, quick: bool) -> Result:
    """Table and figure scaling."""
    rows: dict[str, dict[str, Measured]] = {}
    for K, epochs in EPOCHS.items():
        if data.n_digits(3) < K:
            continue
        bank = data.digits(3, K)
        knee = temperature.knee(bank)
        row = {"beta_star": Measured(knee)}
        for factor, label in ((1, "β*"), (5, "5β*")):
            stage(f"K = {K}: chains at {label}")
            # In float32 a logit at these β is accurate to 1e-5, and the large products are twice as fast.
            single = sa.MemoryBank(bank.patterns.astype(np.float32))
            cells, _ = sampled(single, factor * knee, "ula", seed, quick, QUANTITIES)
            row |= {f"{name} ({label})": cell for name, cell in cells.items()}
        row["max_cosine DDPM"] = over_runs(
            lambda s, bank=bank, epochs=epochs: _diffusion(bank, s, 10 if quick else epochs),  # type: ignore[misc]
            N_TRAININGS,
            seed,
        )["max_cosine"]
        row["β* by the equation"] = Measured(temperature.inflection(bank, probes=bank.patterns[:20]))
        rows[f"K = {K}"] = row
    table = expected(__file__)["scaling"].against(
        rows,
        notes=(
            "The published β* is the knee of the entropy curve on a grid, not the zero of its second derivative in β "
            "as defined in the text; the last column has that zero. Neither gives good samples: at β* a state is "
            "noise with norm √(d/β*) around memories of norm 1.",
            f"DDPM: one training for each seed, epochs {', '.join(map(str, EPOCHS.values()))}. The paper gives "
            "the first and the last of these; with the others its printed training times per epoch (34 to 75 s in "
            "total) grow linearly with K. The columns K/d and seconds are omitted here.",
        ),
    )
    return Result([table], [Figure("scaling", _CAPTION, lambda: _draw(rows), _CLAIM, _finding(rows))])


_CAPTION = (
    "SA and the diffusion model as the number of stored patterns grows: (a) cosine to the nearest stored pattern, "
    "(b) novelty, (c) diversity, (d) β* by the published rule and by the paper's equation. Crosses: published values."
)
_CLAIM = (
    "the samples of SA have a meaningful similarity to stored patterns, which increases with K; the DDPM stays near "
    "the floor of isotropic noise, about 0.06."
)


def _finding(rows: dict[str, dict[str, Measured]]) -> str:
    """The cosines at the least and the largest K."""
    names = list(rows)
    first, last = names[0], names[-1]
    low, high = rows[first], rows[last]

    def both(quantity: str) -> str:
        return f"{low[quantity].value:.3f} to {high[quantity].value:.3f}"

    return (
        f"from {first} to {last} the max cosine rises from {both('max_cosine (β*)')} at β*, {both('max_cosine (5β*)')} "
        f"at 5β* and {both('max_cosine DDPM')} for the DDPM. Exact draws have the same values as the chains "
        f"({low['max_cosine (β*)'].exact:.3f} and {high['max_cosine (β*)'].exact:.3f} at β*): a larger bank has a "
        "nearer pattern to any noise."
    )


def _diffusion(bank: sa.MemoryBank, seed: int, epochs: int) -> dict[str, Measured]:
    return of_samples(DDPM(bank.patterns, seed, epochs).sample(N_SAMPLES, seed), bank, 1.0, ("max_cosine",))


def _draw(rows: dict[str, dict[str, Measured]]) -> Any:
    sizes = [int(name.removeprefix("K = ")) for name in rows]
    printed = expected(__file__)["scaling"].rows
    figure, grid = drawing.subplots(2, 2, size=(6.2, 4.6))
    axes = grid.flat

    def line(axis: Any, quantity: str, label: str, colour: str, marker: str) -> None:
        cells = [row[quantity] for row in rows.values()]
        axis.errorbar(
            sizes, [c.value for c in cells], [c.error for c in cells], fmt=f"{marker}-", color=colour, label=label
        )
        theirs = [printed[name][quantity].value for name in rows if quantity in printed[name]]
        axis.plot(sizes[: len(theirs)], theirs, "x", color=drawing.BLACK, ms=8, zorder=3)

    for axis, quantity, title in (
        (axes[0], "max_cosine", "(a) max cosine"),
        (axes[1], "novelty", "(b) novelty"),
        (axes[2], "diversity", "(c) diversity"),
    ):
        line(axis, f"{quantity} (β*)", "SA at β*", drawing.BLUE, "o")
        line(axis, f"{quantity} (5β*)", "SA at 5β*", drawing.GREEN, "^")
        axis.set_title(title)
    line(axes[0], "max_cosine DDPM", "DDPM", drawing.RED, "s")
    axes[0].axhline(0.057, color=drawing.GREY, ls=":", lw=1)
    axes[0].annotate("isotropic noise", (sizes[-2:][0], 0.055), color=drawing.GREY, va="top", fontsize=13)
    axes[0].set_ylim(0.02, None)
    line(axes[3], "beta_star", "published knee", drawing.BLUE, "o")
    line(axes[3], "β* by the equation", "the paper's equation", drawing.ORANGE, "^")
    axes[3].set_title("(d) β*")
    for axis in axes:
        axis.set(xlabel="stored patterns K", xscale="log")
        axis.legend()
    return figure
