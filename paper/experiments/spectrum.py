"""Digit 8 at four temperatures, from recall to noise."""

from __future__ import annotations

from .. import closed_form, drawing
from ..data import Data
from ..expected import expected
from ..progress import stage
from ..protocol import sampled, starts
from ..results import Figure, Measured, Result

BETAS = (2000, 200, 50, 10)


def run(data: Data, seed: int, quick: bool) -> Result:
    """Table and figure temp-spectrum-digit8."""
    bank = data.digits(8, 100)
    rows, panels = {}, [("stored", bank.patterns[starts(bank.K)[:16]])]
    for beta in BETAS:
        stage(f"β = {beta}")
        row, draws = sampled(bank, beta, "ula", seed, quick, ("novelty", "diversity", "energy", "max_cosine"))
        rows[f"β = {beta}"] = {"snr": Measured(closed_form.snr(beta, bank.d)), **row}
        panels.append((f"β = {beta}", draws.samples[:16, -1]))
    table = expected(__file__)["temp-spectrum-digit8"].against(rows)
    figure = Figure(
        "temp-spectrum-digit8",
        "Digit 8: stored patterns, then chains at decreasing β. Novelty increases because the white noise increases.",
        lambda: drawing.image_panels(panels, 4, drawing.square(bank.d)),
    )
    return Result([table], [figure])
