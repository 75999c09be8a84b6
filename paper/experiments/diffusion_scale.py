"""Is the diffusion model's failure one of data, or of scale? The same network on data of unit variance."""

from __future__ import annotations

from typing import Any

import stochattn as sa

from .. import drawing
from ..baselines.ddpm import DDPM
from ..data import Data
from ..progress import stage
from ..protocol import N_SAMPLES, of_samples, over_runs, starts
from ..results import Cell, Figure, Measured, Result, Table
from .scaling import EPOCHS, N_TRAININGS

QUANTITIES = ("novelty", "diversity", "energy", "max_cosine")
SIZES = (100, 1000, 3500)


def run(data: Data, seed: int, quick: bool) -> Result:
    """A table and a figure that the paper lacks."""
    rows: dict[str, dict[str, Measured]] = {}
    shown: dict[str, Any] = {}
    for K in SIZES:
        if data.n_digits(3) < K:
            continue
        bank = data.digits(3, K)
        for unit_variance, label in ((False, "as published"), (True, "unit variance")):
            if not unit_variance and K > 100:
                continue  # in table scaling
            trainings = N_TRAININGS if K == 100 else 1
            name = f"K = {K}, {label}"
            stage(name)

            def once(
                s: int, bank: sa.MemoryBank = bank, name: str = name, K: int = K, unit_variance: bool = unit_variance
            ) -> dict[str, Measured]:
                model = DDPM(bank.patterns, s, 10 if quick else EPOCHS[K], unit_variance)
                samples = model.sample(N_SAMPLES, s)
                shown.setdefault(name, samples)
                return {**of_samples(samples, bank, 2000.0, QUANTITIES), "loss": Measured(model.loss)}

            rows[name] = over_runs(once, trainings, seed)
    bank = data.digits(3, 100)
    table = Table(
        "diffusion-scale",
        "Not in the paper: the diffusion model on digit 3, on unit-norm data and on the same data at unit variance",
        {name: {quantity: Cell(cell, None) for quantity, cell in row.items()} for name, row in rows.items()},
        notes=(
            f"K = 100: mean and spread over {N_TRAININGS} trainings; larger K: one training. Network, schedule and "
            "epochs are the published ones; only the scale of the data differs. The schedule keeps 13 % of the "
            "signal's variance at its last step, so that the reverse process starts from noise that the forward "
            "process never quite reaches.",
        ),
    )
    panels = [
        ("stored", bank.patterns[starts(bank.K)[:16]]),
        *((name.replace(", ", "\n"), samples[:16]) for name, samples in shown.items()),
    ]
    figure = Figure(
        "diffusion-scale",
        "Digit 3 (not a figure of the paper): samples of the diffusion model as published, and on data of unit "
        "variance.",
        lambda: drawing.image_panels(panels, 4, drawing.square(bank.d)),
    )
    return Result([table], [figure])
