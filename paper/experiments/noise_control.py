"""Samples at β = 200 compared with Gaussian noise of the same moments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from stochattn import metrics

from .. import drawing
from ..baselines import IsotropicGaussian, MatchedGaussian, Replay
from ..data import Data
from ..expected import expected
from ..progress import stage
from ..protocol import N_SAMPLES, chains, exact_sets, of_samples, over_runs, sampled, seeds, starts
from ..results import Figure, Measured, Result

BETA = 200.0
QUANTITIES = ("novelty", "diversity", "energy", "max_cosine")
N_RUNS = 20
CONTROL = "Stored pattern + white noise"


def run(data: Data, seed: int, quick: bool) -> Result:
    """Table and figure noise-control."""
    bank = data.digits(3, 100)
    shown: dict[str, Any] = {}

    def row(name: str, samples: Any, s: int, exact: Any = None) -> dict[str, Measured]:
        reference = Replay(bank).sample(N_SAMPLES, seeds(s, 1)[0])
        shown.setdefault(name, samples)
        distance = Measured(metrics.frechet_diagonal(samples, reference), exact=exact)
        return {**of_samples(samples, bank, BETA, QUANTITIES), "fd_diagonal": distance}

    stage(f"{N_RUNS} runs of 30 chains")
    first, _ = sampled(bank, BETA, "ula", seed, quick, QUANTITIES)
    runs = {s: chains(bank, BETA, "ula", s, quick).samples.reshape(-1, bank.d) for s in seeds(seed, N_RUNS)}

    def samples(s: int) -> Any:
        return runs[s]

    exact_draws = exact_sets(bank, BETA, seed, own_basins=False, repeats=1)[0].reshape(-1, bank.d)
    law = metrics.frechet_diagonal(exact_draws, Replay(bank).sample(N_SAMPLES, 1000))

    def sa_row(s: int) -> dict[str, Measured]:
        cells = row("SA", samples(s), s, law)
        return {
            name: replace(cell, exact=first[name].exact, formula=first[name].formula) if name in first else cell
            for name, cell in cells.items()
        }

    rows = {
        "Stored patterns": over_runs(lambda s: row("stored", Replay(bank).sample(N_SAMPLES, s), s), N_RUNS, seed),
        "SA (β = 200)": over_runs(sa_row, N_RUNS, seed),
        "Gaussian (matched)": over_runs(
            lambda s: row("matched", MatchedGaussian(samples(s)).sample(N_SAMPLES, s), s), N_RUNS, seed
        ),
        "Gaussian (isotropic)": over_runs(
            lambda s: row("isotropic", IsotropicGaussian(samples(s)).sample(N_SAMPLES, s), s), N_RUNS, seed
        ),
    }
    del rows["Stored patterns"]["fd_diagonal"]
    noise = np.random.default_rng(seed).standard_normal((N_SAMPLES, bank.d)) / np.sqrt(BETA)
    rows[CONTROL] = row("", Replay(bank).sample(N_SAMPLES, seed + 77) + noise, seed)
    table = expected(__file__)["noise-control"].against(
        rows,
        notes=(
            f"Mean and spread over {N_RUNS} runs. The last row is a control that is not in the paper: a stored "
            "pattern plus white noise of variance 1/β, without a chain. This is the exact law, and its values agree "
            "with those of SA.",
        ),
    )
    cosines = [rows[name]["max_cosine"].value for name in ("SA (β = 200)", CONTROL, "Gaussian (matched)")]
    finding = (
        f"it is, and so is noise of another kind: a stored pattern plus white noise of variance 1/β, without a chain, "
        f"has a mean of {cosines[1]:.3f} (SA {cosines[0]:.3f}, matched Gaussian {cosines[2]:.3f})."
    )
    return Result([table], [Figure("noise-control", _CAPTION, lambda: _draw(bank, shown), _CLAIM, finding)])


_CAPTION = (
    "(a) stored digits, (b) chains at β = 200, (c) Gaussian with the chains' pixel means and variances, (d) isotropic "
    "Gaussian of the same norm, (e) cosine to the nearest stored pattern."
)
_CLAIM = (
    "the max cosine of SA is clearly larger than that of both Gaussian controls, so the gradient of the energy keeps "
    "structure that noise cannot replicate."
)


def _draw(bank: Any, shown: dict[str, Any]) -> Any:
    figure, grid = drawing.subplots(2, 3, size=(4.0, 4.3))
    axes = grid.flat
    panels = [
        ("(a) stored", bank.patterns[starts(bank.K)[:16]]),
        ("(b) SA, β = 200", shown["SA"][::5][:16]),
        ("(c) Gaussian, matched", shown["matched"][:16]),
        ("(d) Gaussian, isotropic", shown["isotropic"][:16]),
    ]
    for axis, (title, rows) in zip(axes, panels, strict=False):
        axis.imshow(drawing.mosaic(rows, drawing.square(bank.d), 4), cmap="gray", vmin=0, vmax=1)
        axis.set_title(title)
        axis.axis("off")
    bins = np.linspace(0, 0.55, 45)
    for name, label, colour in (
        ("SA", "SA", drawing.BLUE),
        ("matched", "matched", drawing.ORANGE),
        ("isotropic", "isotropic", drawing.GREY),
    ):
        axes[4].hist(metrics.max_cosine(shown[name], bank), bins, color=colour, alpha=0.85, label=label)
    axes[4].set(xlabel="max cosine", yticks=[])
    axes[4].set_title("(e) nearest stored pattern")
    axes[5].axis("off")
    axes[5].legend(*axes[4].get_legend_handles_labels(), loc="center left")
    return figure
