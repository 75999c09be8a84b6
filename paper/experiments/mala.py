"""ULA and MALA where samples are generated, at β = 200 to 1,000."""

from __future__ import annotations

from dataclasses import replace

from .. import closed_form
from ..data import Data
from ..expected import expected
from ..progress import stage
from ..protocol import ALPHA, acceptance, difference, sampled
from ..results import Result

BETAS = (200, 500, 1000)


def run(data: Data, seed: int, quick: bool) -> Result:
    """Table mala-generation."""
    bank = data.digits(3, 100)
    rows = {}
    below = ""
    for beta in BETAS:
        stage(f"β = {beta}")
        quantities = ("novelty", "diversity", "energy", "share_below_zero")
        ula, moved = sampled(bank, beta, "ula", seed, quick, quantities)
        mala, draws = sampled(bank, beta, "mala", seed, quick, quantities)
        row = {"acceptance": acceptance(draws, closed_form.mala_acceptance(ALPHA, bank.d))}
        gaps = difference(moved, draws, bank, beta)
        for name in quantities[:3]:
            row[name] = ula[name]
            one, two = ula[name].formula, mala[name].formula
            formula = None if one is None or two is None else one - two
            row[f"Δ{name}"] = replace(gaps[name], formula=formula)
        rows[f"β = {beta}"] = row
        if beta == 1000:
            shares = ula["share_below_zero"].value, mala["share_below_zero"].value
            below = (
                f"At β = 1000, {shares[0]:.0%} of SA's and {shares[1]:.0%} of MALA's samples have E < 0 (paper: all)."
            )
    table = expected(__file__)["mala-generation"].against(
        rows,
        notes=(
            below,
            "Δ is SA − MALA on noise that is the same within the span of the memories, its error that of the "
            "differences chain by chain; the published runs are taken to have independent noise. Its formula is ULA's "
            "known bias, variance (1/β)/(1 − α/2) for 1/β: the energy is too high by (d/2β)(α/2)/(1 − α/2).",
        ),
    )
    return Result([table])
